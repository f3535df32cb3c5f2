"""Remedies that sentences name, followed: the function that was called takes what they say."""

import ast
import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import remedy_of
from stores import draw_genotypes, write_matrix, write_vcz

import dhsic
import dhsic.simulation
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
    pd.DataFrame(X, columns=[*"abcdef"]).assign(site="a").to_csv(folder / "x.csv", index=False)
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
        with pytest.raises(DhsicError, match="not_features= others"):
            function(table(tmp_path), Y)
        function(tmp_path / "x.csv", Y, not_features=["site"])
    with pytest.raises(DhsicError, match=r"not_features=\['a'\].* Leave it out"):
        select(lacking(tmp_path), Y, not_features=["a"])


def test_matrices_in_groups_of_a_store_are_opened_by_the_path_that_is_said(tmp_path):
    data = xr.Dataset({"x": (("sample", "gene"), X), "y": ("sample", Y)})
    for name in ("rna/counts", "protein"):
        data.to_zarr(tmp_path / "x.zarr", group=name, mode="a", consolidated=False)
    with pytest.raises(DhsicError, match=r"hold protein/x \(20, 6\), rna/counts/x") as caught:
        select(tmp_path / "x.zarr", "y")
    path = str(caught.value).partition("holds the matrix, ")[2].partition(", or")[0]
    by_path = select(path, "y")["rank"].values
    np.testing.assert_array_equal(by_path, select(data, "y")["rank"].values)
    by_name = select(tmp_path / "x.zarr", Y, variable="rna/counts/x")["rank"].values
    np.testing.assert_array_equal(by_name, by_path)


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
        *("scale_factor", "add_offset", "lambda", "sample_column"),
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
    modules = dhsic.kernels, dhsic.lowrank, dhsic.datasets, dhsic.simulation
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
