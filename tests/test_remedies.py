"""Remedies that sentences name, followed: the function that was called takes what they say."""

import ast
import inspect
import re
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import run
from refusals import remedy_of
from stores import draw_genotypes, write_matrix, write_vcz

import dhsic
import dhsic.simulation
from dhsic.cli import main
from dhsic.cli.options import in_options
from dhsic.errors import DhsicError
from dhsic.independence import test_features
from dhsic.interactions import find_pairs
from dhsic.selection.request import OPENING

M, D = 20, 6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((M, D))
Y = np.arange(M) % 2
NAMES = [f"s{i}" for i in range(M)]
DOSES = RNG.integers(0, 3, (M, D)).astype(float)


def select(data, target, **more):
    more = {"n_features_to_select": 2, "progress": False} | more
    return dhsic.select(data, target, **more)


def fit(data, target, **more):
    own = {name: more.pop(name) for name in [*more] if name in dhsic.BAHSIC().get_params()}
    return dhsic.BAHSIC(2, progress=False, **own).fit(data, target, **more)


def lacking(folder):
    """A store of xarray that lacks a chunk of the matrix and of the labels."""
    data = xr.Dataset({"x": (("sample", "gene"), X + 9), "y": ("sample", Y)})
    data.to_zarr(folder / "x.zarr", consolidated=False, encoding={"x": {"chunks": (M, 2)}})
    (folder / "x.zarr/x/c/0/1").unlink()
    return folder / "x.zarr"


def haploid(folder):
    write_vcz(folder / "x.vcz", draw_genotypes(D, M))
    return folder / "x.vcz"


def square(folder):
    write_matrix(folder / "x.zarr", np.abs(RNG.standard_normal((M, M))))
    return folder / "x.zarr"


def nested(folder):
    data = xr.Dataset({"x": (("sample", "gene"), X)})
    data.to_zarr(folder / "x.zarr", group="rna", consolidated=False)
    return folder / "x.zarr"


def table(folder):
    pd.DataFrame(X, columns=[*"abcdef"]).assign(site=[f"site {i}" for i in range(M)]).to_csv(
        folder / "x.csv", index=False
    )
    return folder / "x.csv"


def coded(folder):
    del folder
    return np.where(RNG.random((M, D)) < 0.1, 9, DOSES)


def turned(folder):
    del folder
    return X.T


def matrix(folder):
    del folder
    return X


def frame(folder):
    del folder
    return pd.DataFrame(X, index=NAMES)


def gaps(folder):
    del folder
    return np.where(X > 1, np.nan, X)


EVERY = (select, fit, test_features, find_pairs)
SELECTING = (select, fit)
ORDER = pd.Series(Y, index=NAMES[::-1])
#: Data, labels, what is said besides, who is called, and the parameter that the sentence names.
CASES = {
    "chunks": (lacking, Y, {}, EVERY, "missing_chunks"),
    "chunks, labels by name": (lacking, "y", {}, EVERY, "missing_chunks"),
    "haploid": (haploid, Y, {"ploidy_policy": "error"}, EVERY, "ploidy_policy"),
    "square": (square, Y, {}, EVERY, "sample_dim"),
    "turned": (turned, Y, {}, EVERY, "sample_dim"),
    "a lone number": (coded, Y, {}, EVERY, "missing_code"),
    "another order": (frame, ORDER, {}, EVERY, "by_position"),
    "nested": (nested, Y, {}, EVERY, "variable"),
    "missing values": (gaps, Y, {"missing": "error"}, EVERY, "missing"),
    "large": (
        lambda _: X * 1e20,
        *(Y, {"kernel": "linear", "standardize": False}, SELECTING, "standardize"),
    ),
    "narrow": (matrix, Y, {"bandwidth": 1e6}, SELECTING, "bandwidth"),
    "text": (
        matrix,
        *(np.array([*"ab"] * (M // 2)), {"label_kernel": "linear"}, SELECTING, "label_kernel"),
    ),
    "numbers for each class": (
        *(matrix, np.repeat([0.5, 1.2, 2.5, 3.1], 5), {"per_class": True}, (select,)),
        "label_kernel",
    ),
}


@pytest.mark.parametrize(
    ("kind", "function"),
    [(kind, of) for kind, case in CASES.items() for of in case[3]],
    ids=lambda part: getattr(part, "__name__", part),
)
@pytest.mark.filterwarnings("ignore")
def test_remedies_are_parameters_of_what_was_called_and_work(kind, function, tmp_path):
    make, target, said, _, parameter = CASES[kind]
    data = make(tmp_path)
    with pytest.raises(DhsicError) as caught:
        function(data, target, **said)
    name, value = remedy_of(str(caught.value), parameter)
    assert name in parameters_of(function)
    function(data, target, **said | {name: value})


def test_columns_that_are_no_features_are_said_to_every_function(tmp_path):
    for function in EVERY:
        with pytest.raises(DhsicError, match=r"not_features=\['site'\]"):
            function(table(tmp_path), Y)
        function(tmp_path / "x.csv", Y, not_features=["site"])
    with pytest.raises(DhsicError, match=r"not_features=\['a'\].* Leave it out"):
        select(lacking(tmp_path), Y, not_features=["a"])


def test_matrices_in_groups_of_a_store_are_opened_by_the_path_that_is_said(tmp_path):
    data = xr.Dataset({"x": (("sample", "gene"), X), "y": ("sample", Y)})
    for name in ("rna/counts", "protein"):
        data.to_zarr(tmp_path / "x.zarr", group=name, mode="a", consolidated=False)
    with pytest.raises(
        DhsicError, match=r"groups have: protein/x \(20, 6\), rna/counts/x"
    ) as caught:
        select(tmp_path / "x.zarr", "y")
    path = str(caught.value).partition("with the matrix, ")[2].partition(", or")[0]
    by_path = select(path, "y")["rank"].values
    np.testing.assert_array_equal(by_path, select(data, "y")["rank"].values)
    by_name = select(tmp_path / "x.zarr", Y, variable="rna/counts/x")["rank"].values
    np.testing.assert_array_equal(by_name, by_path)
    both = select(tmp_path / "x.zarr", "rna/counts/y", variable="rna/counts/x")["rank"].values
    np.testing.assert_array_equal(both, by_path)


def parameters_of(function):
    called = {select: dhsic.select, fit: dhsic.BAHSIC.fit}.get(function, function)
    own = {*inspect.signature(called).parameters}
    more = {*dhsic.BAHSIC().get_params()} if function in SELECTING else set()
    return own | more | {*OPENING}


#: What sentences of Python may name: `name=` in the text of an error, not of the command line.
SAID = re.compile(r"(?<![\w./{\[-])([a-z][a-z_]+)=(?![={])")
#: Names of other packages' parameters, attributes of arrays, and what a command alone is given.
OTHERS = frozenset(
    (
        *("mask_and_scale", "index_col", "dims", "columns", "index", "asynchronous"),
        *("axis", "scale_factor", "add_offset", "lambda", "sample_column", "errors", "dtype"),
    )
)


def test_sentences_name_parameters_that_exist():
    """Every `name=` in an error of the package is a parameter of something public."""
    known = {*OPENING, *inspect.signature(dhsic.open_source).parameters}
    for name in dhsic.__all__:
        thing = getattr(dhsic, name)
        if callable(thing):
            known |= {*_signature(thing)}
            for one in vars(thing).values() if inspect.isclass(thing) else ():
                known |= {*_signature(one)} if inspect.isfunction(one) else set()
    modules = dhsic.kernels, dhsic.lowrank, dhsic.datasets, dhsic.get, dhsic.simulation, dhsic.plot
    for thing in (test_features, find_pairs, *modules):
        of = [thing] if callable(thing) else [*vars(thing).values()]
        known |= {p for one in of if callable(one) for p in _signature(one)}
    unknown = {
        (path.name, name)
        for path, text in _raised()
        for name in SAID.findall(text)
        if name not in known | OTHERS
    }
    assert sorted(unknown) == []


def _signature(one):
    try:
        return [*inspect.signature(one).parameters]
    except (TypeError, ValueError):
        return []


def _raised():
    """Texts of the errors that the package raises, each with its file."""
    for path in Path(dhsic.__file__).parent.rglob("*.py"):
        if "cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None:
                for part in ast.walk(node.exc):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield path, part.value


#: Options in texts of the package, but for those that stand for a prefix.
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![-\w])")
#: Commands of PLINK, whose options are its own.
OF_PLINK = re.compile("plink|--make-bed|psql")
#: Options of other programs that sentences hand over to.
OF_OTHERS = frozenset(
    ("--samples-chunk-size", "--variants-chunk-size", "--clump-p1", "--multi-overlaps")
)
#: Commands that open data, and those that take labels too.
READING = ("select", "test", "plan", "pairs", "pca", "inspect", "convert")
LABELLED = ("select", "test", "plan", "pairs")
#: Commands in which texts of a module come up, by the beginning of its path.
REACHED_BY = {
    "sources/": READING,
    "joins/": LABELLED,
    "kernels/": LABELLED,
    "cli/labels.py": LABELLED,
    "cli/label_checks.py": LABELLED,
    "cli/label_values.py": LABELLED,
    "cli/label_notes.py": ("select", "test", "plan"),
    "cli/pca.py": ("pca",),
    "cli/pairs.py": ("pairs",),
    "cli/effects.py": ("test",),
}
#: Texts that are about labels that `dhsic inspect` and `pairs` describe, as select would take them.
DESCRIBED = frozenset({"--label-kernel"})
#: Options of some commands in texts that come up only if the option was passed.
PASSED = frozenset({"--weights"})


def options_of(command):
    return {word for p in main.commands[command].params for word in (*p.opts, *p.secondary_opts)}


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts_with_options():
    """Texts of the package but docstrings, by the path of the module, with the options in each."""
    root = Path(dhsic.__file__).parent
    for path in sorted(root.rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        docs = {ast.get_docstring(n, clean=False) for n in nodes if isinstance(n, DOCUMENTED)}
        texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        for text in sorted(texts - docs):
            if (found := OPTION.findall(text)) and not OF_PLINK.search(text):
                yield path.relative_to(root).as_posix(), text, [f"--{option}" for option in found]


def test_texts_name_options_that_some_command_has():
    known = {word for p in main.params for word in p.opts} | {"--help"} | OF_OTHERS
    known = known.union(*map(options_of, main.commands))
    unknown = {
        (path, option)
        for path, _, options in texts_with_options()
        for option in options
        if option not in known
    }
    assert unknown == set()


def test_texts_name_options_of_every_command_in_which_they_come_up():
    lacking = set()
    for path, text, options in texts_with_options():
        commands = next((c for begin, c in REACHED_BY.items() if path.startswith(begin)), ())
        said = re.findall(r"dhsic (\w+)", text)
        for option in options:
            if option in OF_OTHERS | DESCRIBED | PASSED or any(
                command in main.commands and option in options_of(command) for command in said
            ):
                continue
            lacking |= {(path, option, c) for c in commands if option not in options_of(c)}
    assert lacking == set()


def test_parameters_of_opening_are_options_of_every_command_that_reads():
    """Those that `convert` and `pca` lack are named by no sentence that these come to."""
    context = {c: click.Context(main.commands[c], info_name=c) for c in READING}
    for name in ("not_features", "na", "sample_dim", "variable", "missing_chunks"):
        for command, ctx in context.items():
            assert in_options(f"{name}='x'", ctx).startswith("--"), (name, command)


# Sentences of the command line, and options that they say ---------------------------------------


def features(folder, names=NAMES, **columns):
    """A table of features, g2 of which tells classes."""
    data = X + 0
    data[:, 2] += 3 * Y
    index = pd.Index(names, name="id") if names is not None else None
    table = pd.DataFrame(data, columns=[f"g{i}" for i in range(D)], index=index).assign(**columns)
    table.to_csv(folder / "x.csv", index=names is not None)


def labels(folder, names=NAMES, **columns):
    pd.DataFrame({"id": names, "ill": np.where(Y, "yes", "no"), **columns}).to_csv(
        folder / "y.csv", index=False
    )


def of_mixed_labels(folder):
    features(folder)
    labels(folder, step=[str(i % 3) for i in range(M - 1)] + ["high"])
    return ("--labels", "y.csv", "--target", "step"), "classes, pass (--label-kernel multiclass)"


def of_labels_written_twice(folder):
    features(folder)
    labels(folder, dose=["1", "01", "2", "2"] * 5)
    return ("--labels", "y.csv", "--target", "dose"), "classes, use (--label-kernel multiclass)"


def of_classes_in_capitals(folder):
    features(folder)
    labels(folder, arm=["Case", "case", "control", "control "] * 5)
    return ("--labels", "y.csv", "--target", "arm"), "classes, use (--label-kernel multiclass)"


def of_nameless_data(folder):
    features(folder, None)
    labels(folder)
    return ("--labels", "y.csv", "--target", "ill"), "Pass (--by-position)"


def of_two_keys(folder):
    features(folder)
    labels(folder, sample=NAMES[::-1])
    return ("--labels", "y.csv", "--target", "ill"), "with (--sample-column)", "id"


def of_a_covariate_of_two_tables(folder):
    features(folder)
    labels(folder, site=["a", "a", "b", "b"] * 5)
    pd.DataFrame({"id": NAMES, "site": 1.0}).to_csv(folder / "z.csv", index=False)
    options = ("--labels", "y.csv", "--target", "ill", "--covariates", "z.csv", "--covariates")
    return (*options, "y.csv"), "tables: (--covariates) ", "y.csv:site"


def of_a_leak(folder):
    features(folder, ill=Y)
    labels(folder)
    return ("--labels", "y.csv", "--target", "ill"), "with (--not-feature ill)"


def of_missing_values(folder):
    features(folder)
    labels(folder, bmi=[np.nan, *RNG.normal(25, 3, M - 1)])
    return ("--labels", "y.csv", "--target", "bmi"), "with (--drop-missing)"


def of_missing_rows(folder):
    features(folder, [*NAMES[:-1], "other"])
    labels(folder)
    return ("--labels", "y.csv", "--target", "ill"), "with (--drop-missing)"


def of_phenotypes(folder):
    features(folder)
    labels(folder, PHENO=[0, 1, 2, 2] * 5)
    return ("--labels", "y.csv", "--target", "PHENO"), "with (--na PHENO=0 --drop-missing)"


def of_cases(folder):
    features(folder)
    labels(folder, PHENO=[0, 1, 2, 2] * 5)
    return ("--labels", "y.csv", "--target", "PHENO"), "value, pass (--not-na 0)"


def of_counts(folder):
    features(folder, run=np.arange(5, 5 + M))
    labels(folder)
    return ("--labels", "y.csv", "--target", "ill"), "exclude them: (--not-feature run)"


def of_no_target(folder):
    features(folder)
    return (), "labels, dhsic select (--label-kernel self)"


def of_a_result(folder):
    features(folder, ill=Y)
    (folder / "out.tsv").write_text("by hand")
    return ("--target", "ill", "--out", "out.tsv"), "(--force)"


#: What makes files, and returns options, the pattern of the remedy and what it is followed by.
COMMANDS = (
    *(
        of_mixed_labels,
        of_classes_in_capitals,
        of_labels_written_twice,
        of_nameless_data,
        of_two_keys,
        of_a_leak,
    ),
    *(of_a_covariate_of_two_tables, of_missing_values, of_missing_rows, of_phenotypes, of_cases),
    *(of_counts, of_no_target, of_a_result),
)


@pytest.mark.parametrize("command", ["select", "test", "plan"])
@pytest.mark.parametrize("case", COMMANDS)
@pytest.mark.filterwarnings("default")
def test_options_that_sentences_name_are_taken_and_lead_on(case, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options, pattern, *value = case(tmp_path)
    if (case, command) in {(of_a_result, "plan"), (of_no_target, "test")}:
        return  # a plan writes nothing, and of a test nothing is said but of select
    words = (command, "x.csv", *options, *(() if command == "plan" else ("-n", 2)))
    refused = " ".join(run(*words, code=2).stderr.split())
    remedy = re.search(pattern, refused)
    assert remedy, refused
    said = [*remedy[1].split(), *value]
    if case is of_a_covariate_of_two_tables:
        words = words[: words.index("--covariates")]
    run(*words, *said)
