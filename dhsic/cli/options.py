"""Options of the commands, in the sections in which ``--help`` lists them.

How a method does its work is said once, by `BAHSIC`: its parameters are the options of the section
Method, with the first sentences of its docstring for help. Both are read from its source, since to
import it takes seconds, for which nobody waits who asks for help.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

#: Parameters of every method that the command line has other words for.
OF_RUNS = ("checkpoint", "progress", "runtime", "memory")
#: Parameters whose option has another name.
SPELLED = {"random_state": "seed"}
#: So many choices stand beside an option.
FEW = 4
#: What a default stands for, where it does not say so itself.
SHOWN = {"standardize": "all but dosages"}
#: What the docstring of `BAHSIC` has no reason to say.
BESIDES = {
    "bandwidth": "Several between commas are a grid.",
    "tolerance": "Of ccm and weighting: where descent ends.",
}


class Option(click.Option):
    """An option in a section of the help, which lists its choices where they are many."""

    def __init__(self, *words: str, section: str = "Options", **about: Any) -> None:
        choices = getattr(about.get("type"), "choices", ())
        if len(choices) > FEW:
            listed = f"One of {', '.join(choices)}."
            about |= {"metavar": "NAME", "help": f"{about.get('help', '')} {listed}".strip()}
        super().__init__(list(words), **about)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> Any:
        extra = super().get_help_extra(ctx)
        if "default" in extra:  # one that is said in words comes in brackets
            extra["default"] = extra["default"].removeprefix("(").removesuffix(")")
        return extra


class TableNames(click.Choice[str]):
    """Names that the help lists, and those that a table has besides once the command runs.

    Parameters
    ----------
    module, table : str
        Where the table is; it takes seconds to import, for which nobody waits who asks for help.
    """

    def __init__(self, names: Sequence[str], module: str, table: str) -> None:
        super().__init__(names)
        self._table = module, table

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Pass names of the table; what is neither is refused as by any choice."""
        module, table = self._table
        if value not in self.choices and value in getattr(import_module(module), table):
            return value
        return super().convert(value, param, ctx)


#: Where the names are that a parameter may be.
TABLES = {
    "kernel": ("dhsic.kernels.table", "KERNELS"),
    "method": ("dhsic.selectors.select", "METHODS"),
}


# What users write, turned into values ------------------------------------------------------


def size(value: str | int) -> int:
    """Bytes of an amount of memory.

    >>> size("2GB"), size("500MiB")
    (2000000000, 524288000)
    """
    from dask.utils import parse_bytes

    try:
        amount = int(parse_bytes(value))
    except ValueError:
        amount = 0
    if amount <= 0:
        raise click.BadParameter(f"{value!r} is no amount of memory; write it like 2GB or 500MiB.")
    return amount


def number(value: str | float) -> Any:
    """Fraction of the features as a float, count of them as an int.

    >>> number("0.1"), number("100")
    (0.1, 100)
    """
    return _read(value, (), "neither a fraction like 0.1 nor a count like 100", _count_or_float)


def codes(value: str | int | list[int] | None) -> Any:
    """What stands for missing: ``auto``, ``none``, a number, or several between commas.

    >>> codes("auto"), codes("none"), codes("9"), codes("3,9")
    ('auto', None, 9, [3, 9])
    """
    if isinstance(value, str) and value.lower() == "none":
        return None
    what = "none of auto, none, a whole number, whole numbers between commas"
    return _read(value, ("auto",), what, partial(_several, int))


def sigma(value: str | float) -> Any:
    """Name of a policy, a number, or several between commas.

    >>> sigma("median"), sigma("0.5"), sigma("0.1,1")
    ('median', 0.5, [0.1, 1.0])
    """
    what = "none of dimension, median, a number, numbers between commas"
    return _read(value, ("dimension", "median"), what, partial(_several, float))


def _read(value: Any, names: tuple[str, ...], what: str, convert: Callable[[str], Any]) -> Any:
    """Value of a text; what is no text is a default."""
    if not isinstance(value, str) or value in names:
        return value
    try:
        return convert(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is {what}.") from error


def _count_or_float(text: str) -> float | int:
    return int(text) if text.strip().isdigit() else float(text)


def _several(kind: Callable[[str], Any], text: str) -> Any:
    numbers = [kind(part) for part in text.strip("()").split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


# How a method does its work ----------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """A parameter of a method, as its signature and docstring say."""

    name: str
    default: Any
    kind: str
    text: str

    def option(self) -> Option:
        """The option of this name; without it the default of the method is meant, as None."""
        word = spelled(self.name)
        first = re.split(r"(?<=\.)\s(?=[A-Z])", self.text)[0]
        return Option(
            f"{word}/--no-{word[2:]}" if "bool" in self.kind else word,
            self.name,
            section="Method",
            default=None,
            show_default=SHOWN.get(self.name, str(self.default)),
            help=" ".join(filter(None, (first, BESIDES.get(self.name)))),
            **self._type(),
        )

    def _type(self) -> dict[str, Any]:
        if said := re.match(r"\{(.*?)\}", self.kind):
            names = re.findall(r'"(.*?)"', said[1])
            table = TABLES.get(self.name)
            return {"type": TableNames(names, *table) if table else click.Choice(names)}
        if "bool" in self.kind:
            return {}
        if self.kind == "int":
            return {"type": click.IntRange(min=0), "metavar": "N"}
        return {"type": sigma if "sequence" in self.kind else number}


def spelled(name: str) -> str:
    """The option of a parameter.

    >>> spelled("label_kernel"), spelled("random_state")
    ('--label-kernel', '--seed')
    """
    return f"--{SPELLED.get(name, name).replace('_', '-')}"


#: Files and classes of `dhsic.selectors` whose fields are the parameters of the first.
BAHSIC = (("bahsic", "BAHSIC"), ("rounds", "KernelSelector"), ("base", "Selector"))


def parameters(classes: Sequence[tuple[str, str]]) -> Iterator[Parameter]:
    """Fields of classes, those that the numpydoc docstring of the first describes."""
    found = [_class_of(file, name) for file, name in classes]
    fields = [each for node in found for each in node.body if isinstance(each, ast.AnnAssign)]
    defaults = {
        each.target.id: ast.literal_eval(each.value)
        for each in fields
        if isinstance(each.target, ast.Name) and isinstance(each.value, ast.Constant)
    }
    node = found[0]
    section = (ast.get_docstring(node) or "").partition("Parameters\n----------\n")[2]
    section = section.partition("\n\n")[0].replace("\\\n", "")
    for word, kind, text in re.findall(r"^(\w+) : (.*)\n((?: +.*\n?)+)", section, re.MULTILINE):
        if word in defaults:
            said = " ".join(re.sub(r"`+", "", text).split())
            yield Parameter(word, defaults[word], kind, said)


def _class_of(file: str, name: str) -> ast.ClassDef:
    source = (Path(__file__).parents[1] / "selectors" / f"{file}.py").read_text("utf-8")
    return next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == name)


# The sections ------------------------------------------------------------------------------

PATH = click.Path()
_data, _target, _method, _output, _machine, _cluster = (
    partial(Option, section=name)
    for name in ("Data", "Target", "Method", "Output", "Machine", "Cluster")
)

#: Of the commands that open data.
OPENING = (
    _data("--variable", metavar="NAME", help="Variable of the store that holds the features."),
    _data("--sample-dim", metavar="DIM", help="Name or number of the samples' dimension."),
    _data(
        "--missing-code",
        default="auto",
        show_default=True,
        type=codes,
        metavar="CODE",
        help="Numbers of the data that stand for missing, such as 9 or 3,9; none to take every "
        "number as it is. By default what the store says, and -1, -9 and -127 beside 0, 1 and 2.",
    ),
    _data(
        "--missing-chunks",
        default="error",
        show_default=True,
        type=click.Choice(["error", "fill"]),
        help="Chunks that the store lacks: an error, for they may be lost, or the fill value, "
        "which a writer may leave out on purpose.",
    ),
    _data(
        "--pass-only",
        is_flag=True,
        help="Leave out variants of VCF Zarr whose FILTER is not PASS; one without (.) has not "
        "passed.",
    ),
)
GROUPS = _data(
    "--groups",
    metavar="NAME",
    help="Variable of the store that names the group of each feature (its gene): groups are "
    "selected as a whole, by definition, and -n counts them.",
)
TARGET = (
    _target(
        "--target",
        multiple=True,
        metavar="NAME",
        help="Labels: a variable of the store along the samples, or a column of --labels. Several "
        "are selected for jointly. Needed, unless --label-kernel self.",
    ),
    _target(
        "--labels",
        type=PATH,
        metavar="FILE",
        help="Table of labels: TSV, CSV, white space, .fam, .psam; rows are matched by name.",
    ),
    _target(
        "--sample-column",
        metavar="NAME",
        help="Column of the tables with the sample names; FID_IID for both of them.",
    ),
    _target(
        "--by-position",
        is_flag=True,
        help="Rows of the tables are in the order of the samples, whatever they are called.",
    ),
    _target(
        "--covariates",
        metavar="FILE[:COLS]",
        help="Table of covariates whose linear effect is taken out of the labels; COLS as a,b.",
    ),
    _target(
        "--covariate",
        multiple=True,
        metavar="NAME",
        help="A covariate: a column of --labels or a variable of the store. May be repeated.",
    ),
    _target("--drop-missing", is_flag=True, help="Leave out samples without a label or covariate."),
    _target(
        "--na",
        multiple=True,
        metavar="TEXT",
        help='Read this as missing besides NA, NaN, "." and nothing, for instance -9.',
    ),
    _target(
        "--not-na",
        multiple=True,
        metavar="TEXT",
        help="Read this as a value, though it is usual for missing: NA, or PLINK's -9.",
    ),
)
#: Names of `dhsic.selectors.select.METHODS`, which takes seconds to import.
METHODS = (
    *("bahsic", "fohsic", "ccm", "weighting", "svm-rfe", "linear", "pearson", "centroid", "t"),
    *("snr", "moderated-t", "b", "shrunken-centroid", "mmd", "kta", "qmi", "ridge"),
)
METHOD = (
    _method(
        "--method",
        default="bahsic",
        show_default=True,
        type=TableNames(METHODS, *TABLES["method"]),
        help="Backward elimination (bahsic), forward selection (fohsic), conditional covariance "
        "minimisation (ccm), feature weights (weighting), support vectors (svm-rfe), or a ranking "
        "in one pass by the linear kernel or another criterion.",
    ),
    _method(
        "-n",
        "--n-features",
        default=50,
        show_default="50, or all if fewer",
        type=click.IntRange(1),
        metavar="N",
        help="How many to select; the ranking covers all.",
    ),
    *(each.option() for each in parameters(BAHSIC) if each.name not in OF_RUNS),
    _method(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any other parameter of the method, by its name in Python: strategy=floating, "
        "epsilon=0.1, constraint=soft. May be repeated.",
    ),
)
CHECKPOINT = _output(
    "--checkpoint",
    type=PATH,
    help="Keep the state here, for `dhsic resume`: in a folder, or at a URL such as "
    "s3://bucket/run.dhsic. The folder that it is in is made where it is not there, if the one "
    "above is.",
)
OUT = _output(
    "--out",
    type=PATH,
    help="Write the result here; in a folder as of --checkpoint. The suffix says how: .tsv, .csv "
    "(also .gz), .parquet or .json for a table of all features, the best first (rank, score, "
    "selected, index, name; contig, position, id, ref, alt of variants; allele_frequency or mean, "
    "missing, constant, ...), .zarr or none for a Zarr store, which xarray reads.",
)
FORCE = _output("-f", "--force", is_flag=True, help="Overwrite --out.")
TRUTH = _output("--truth", type=PATH, metavar="FILE", help="Compare with what was planted.")
PROGRESS = _output(
    "--progress/--no-progress", default=None, help="Progress bar; default: on a terminal."
)
JSON = _output("--json", "as_json", is_flag=True, help="Print one JSON object.")
MACHINE = (
    _machine(
        "--threads",
        type=click.IntRange(1),
        metavar="N",
        help="Run in this process on so many threads; all usable cores by default.",
    ),
    _machine("--memory", type=size, help="Refuse to start if more may be needed, like 2GB."),
)
SCHEDULER = _cluster(
    "--scheduler", metavar="ADDRESS", help="Run on a Dask cluster, tcp://... or tls://..."
)
DETACH = _cluster(
    "--detach",
    is_flag=True,
    help="Leave the run to the cluster of --scheduler and return; see status, attach, cancel.",
)


def _configured(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    """What keeps the value of an option in the configuration of Dask, as long as a command runs."""

    def configure(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            import dask

            ctx.with_resource(dask.config.set({f"distributed.comm.tls.{key}": value}))

    return configure


#: Certificates, by the names that Dask's own commands have for them. Nothing of it is kept: a
#: resumed run is told again, or finds it in the configuration.
TLS = tuple(
    _cluster(
        option,
        type=click.Path(exists=True, dir_okay=False, readable=True),
        expose_value=False,
        callback=_configured(key),
        help=f"{said} By default as Dask is configured.",
    )
    for option, key, said in (
        ("--tls-ca-file", "ca-file", "Certificate of the authority (PEM) of --scheduler tls://."),
        ("--tls-cert", "client.cert", "Our certificate (PEM) for it."),
        ("--tls-key", "client.key", "Our private key (PEM) for it."),
    )
)
#: What is selected from what, and how: all that a plan looks at, too.
SELECTION = (*OPENING, GROUPS, *TARGET, *METHOD)
