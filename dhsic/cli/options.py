"""Options that say what to select, of ``dhsic select`` and of the commands that are about it.

The options for certificates of a Dask cluster, with the names that Dask's own commands have.

What users write on the command line, turned into values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from dhsic.hsic import ESTIMATORS
from dhsic.kernels.labels import LABEL_KERNELS
from dhsic.kernels.table import KERNELS
from dhsic.selectors import METHODS
from dhsic.selectors.parameters import APPROX
from dhsic.sources.request import MissingChunks

#: Option, key of Dask's configuration, help.
FILES = (
    ("--tls-ca-file", "ca-file", "Certificate of the authority (PEM) that --scheduler tls:// has."),
    ("--tls-cert", "client.cert", "Our certificate (PEM) for it."),
    ("--tls-key", "client.key", "Our private key (PEM) for it."),
)


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; what they name becomes configuration of Dask, here alone.

    Nothing of it is kept: a resumed run is told again, or finds it in the configuration.
    """
    for option, key, said in reversed(FILES):
        command = click.option(
            option,
            type=click.Path(exists=True, dir_okay=False, readable=True),
            expose_value=False,
            callback=_configured(f"distributed.comm.tls.{key}"),
            help=f"{said} By default as Dask is configured.",
        )(command)
    return command


def _configured(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def configure(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            import dask

            ctx.with_resource(dask.config.set({key: value}))

    return configure


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


def number(value: str | float) -> float | int:
    """Fraction of the features as a float, count of them as an int.

    >>> number("0.1"), number("100")
    (0.1, 100)
    """
    if not isinstance(value, str):  # the default
        return value
    try:
        return int(value) if value.strip().isdigit() else float(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is neither a fraction like 0.1 nor a count like 100."
        ) from error


def codes(value: str | int | list[int] | None) -> str | int | list[int] | None:
    """What stands for missing: ``auto``, ``none``, a number, or several between commas.

    >>> codes("auto"), codes("none"), codes("9"), codes("3,9")
    ('auto', None, 9, [3, 9])
    """
    if not isinstance(value, str) or value == "auto":
        return value
    if value.lower() == "none":
        return None
    try:
        numbers = [int(part) for part in value.strip("()").split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is none of auto, none, a whole number, whole numbers between commas."
        ) from error
    return numbers[0] if len(numbers) == 1 else numbers


def sigma(value: str | float) -> str | float | list[float]:
    """Name of a policy, a number, or several between commas.

    >>> sigma("median"), sigma("0.5"), sigma("0.1,1")
    ('median', 0.5, [0.1, 1.0])
    """
    if not isinstance(value, str) or value in ("dimension", "median"):
        return value
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is none of dimension, median, a number, numbers between commas."
        ) from error
    return numbers[0] if len(numbers) == 1 else numbers


option = click.option

#: Of the commands that open data.
missing_code_option = option(
    "--missing-code",
    default="auto",
    show_default=True,
    type=codes,
    metavar="CODE",
    help="Numbers of the data that stand for missing, such as 9 or 3,9; none to take every "
    "number as it is. By default what the store says, and -1, -9 and -127 beside 0, 1 and 2.",
)
missing_chunks_option = option(
    "--missing-chunks",
    default="error",
    show_default=True,
    type=click.Choice(get_args(MissingChunks)),
    help="Chunks that the store lacks: an error, for they may be lost, or the fill value, which a "
    "writer may leave out on purpose.",
)
pass_option = option(
    "--pass-only",
    is_flag=True,
    help="Leave out variants of VCF Zarr whose FILTER is not PASS; one without (.) has not passed.",
)

#: In the order of the help.
OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("path", type=click.Path()),
    option(
        "--target",
        multiple=True,
        metavar="NAME",
        help="Labels: a variable of the store along the samples, or a column of --labels. Several "
        "are selected for jointly. Needed, unless --label-kernel self.",
    ),
    option(
        "--labels",
        type=click.Path(),
        metavar="FILE",
        help="Table of labels: TSV, CSV, white space, .fam, .psam; rows are matched by name.",
    ),
    option(
        "--sample-column",
        metavar="NAME",
        help="Column of the tables with the sample names; FID_IID for both of them.",
    ),
    option(
        "--by-position",
        is_flag=True,
        help="Rows of the tables are in the order of the samples, whatever they are called.",
    ),
    option(
        "--covariates",
        metavar="FILE[:COLS]",
        help="Table of covariates whose linear effect is taken out of the labels; COLS as a,b.",
    ),
    option(
        "--covariate",
        multiple=True,
        metavar="NAME",
        help="A covariate: a column of --labels or a variable of the store. May be repeated.",
    ),
    option("--drop-missing", is_flag=True, help="Leave out samples without a label or covariate."),
    option(
        "--na",
        multiple=True,
        metavar="TEXT",
        help='Read this as missing besides NA, NaN, "." and nothing, for instance -9.',
    ),
    option(
        "--not-na",
        multiple=True,
        metavar="TEXT",
        help="Read this as a value, though it is usual for missing: NA, or PLINK's -9.",
    ),
    option(
        "-n",
        "--n-features",
        default=50,
        show_default="50, or all if fewer",
        type=click.IntRange(1),
        metavar="N",
        help="How many to select; the ranking covers all.",
    ),
    option(
        "--method",
        default="bahsic",
        show_default=True,
        type=click.Choice(list(METHODS)),
        help="Backward elimination (bahsic), forward selection (fohsic), conditional covariance "
        "minimisation (ccm), feature weights (weighting), support vectors (svm-rfe), or a ranking "
        "in one pass by the linear kernel or another criterion.",
    ),
    option("--kernel", show_default="gaussian", type=click.Choice(list(KERNELS))),
    option(
        "--bandwidth",
        show_default="dimension",
        type=sigma,
        help="dimension, which is 1/(2|S|) for |S| features left; median; a number, sigma in "
        "exp(-sigma d^2); or several between commas to choose from. Only the gaussian kernel has "
        "one.",
    ),
    option(
        "--label-kernel",
        show_default="auto",
        type=click.Choice([name for name in LABEL_KERNELS if name != "precomputed"]),
    ),
    option("--estimator", show_default="unbiased", type=click.Choice(ESTIMATORS)),
    option(
        "--step",
        show_default="0.1",
        type=number,
        help="What a round removes: a fraction of the features left, or a count.",
    ),
    option(
        "--approx",
        show_default="auto",
        type=click.Choice(APPROX),
        help="How candidates are scored: by the expansion, exact in its result; in linear time, by "
        "low-rank factors; the cheaper of both (auto); or by definition.",
    ),
    option(
        "--tolerance",
        show_default="0.02",
        type=number,
        help="bahsic: part of the features leaving in a round that low rank may get wrong. ccm and "
        "weighting: where descent ends.",
    ),
    option(
        "--seed",
        "random_state",
        show_default="0",
        type=click.IntRange(min=0),
        help="Of the random draws of low rank.",
    ),
    option("--dtype", show_default="float32", type=click.Choice(["float32", "float64"])),
    option(
        "--standardize/--no-standardize",
        default=None,
        show_default="all but dosages",
        help="Features to unit deviation. With it, variants that few samples carry weigh most in a "
        "kernel; without it, dosages count as they are. Features are centred in any case.",
    ),
    option(
        "--missing",
        show_default="mean",
        type=click.Choice(["mean", "error"]),
        help="Missing values of features: the mean of the feature, or an error.",
    ),
    missing_code_option,
    missing_chunks_option,
    option(
        "--stability",
        type=click.IntRange(0),
        metavar="N",
        help="Select from N random halves of the samples too, and show what part of them selects "
        "each feature.",
    ),
    option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any other parameter of the method, by its name in Python: strategy=floating, "
        "epsilon=0.1, constraint=soft. May be repeated.",
    ),
    option("--variable", metavar="NAME", help="Variable of the store that holds the features."),
    option(
        "--groups",
        metavar="NAME",
        help="Variable of the store that names the group of each feature (its gene): groups are "
        "selected as a whole, by definition, and -n counts them.",
    ),
    option("--sample-dim", metavar="DIM", help="Name or number of the samples' dimension."),
    pass_option,
    option(
        "--checkpoint",
        type=click.Path(),
        help="Keep the state here, for `dhsic resume`: in a folder, or at a URL such as "
        "s3://bucket/run.dhsic. The folder that it is in is made where it is not there, if the one "
        "above is.",
    ),
    option(
        "--out",
        type=click.Path(),
        help="Write the result here; in a folder as of --checkpoint. The suffix says how: .tsv, "
        ".csv (also .gz), .parquet or .json for a table of all features, the best first (rank, "
        "score, selected, index, name; contig, position, id, ref, alt of variants; "
        "allele_frequency or mean, missing, constant, ...), .zarr or none for a Zarr store, which "
        "xarray reads.",
    ),
    option("-f", "--force", is_flag=True, help="Overwrite --out."),
    option("--truth", type=click.Path(), metavar="FILE", help="Compare with what was planted."),
    option("--scheduler", metavar="ADDRESS", help="Run on a Dask cluster, tcp://... or tls://..."),
    option(
        "--threads",
        type=click.IntRange(1),
        metavar="N",
        help="Threads; all usable cores by default.",
    ),
    option("--memory", type=size, help="Refuse to start if more may be needed, like 2GB."),
    option("--progress/--no-progress", default=None, help="Progress bar; default: on a terminal."),
)


#: Of the commands that begin a run, or go on with one.
detach_option = click.option(
    "--detach",
    is_flag=True,
    help="Leave the run to the cluster of --scheduler and return; see status, attach, cancel.",
)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument and options of a selection, as a `dhsic.cli.job.Job` has them."""
    for add in reversed(OPTIONS):
        command = add(command)
    return tls_options(command)
