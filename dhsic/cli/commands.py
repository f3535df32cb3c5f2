"""What users can type. A command loads what it works with when it runs, not for its ``--help``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from dhsic.cli import options as of
from dhsic.cli.console import listen
from dhsic.cli.exits import EPILOG, TYPED, Command
from dhsic.cli.options import Option


class _InOrder(click.Group):
    """A group that lists its commands in the order of work, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="dhsic", prog_name="dhsic")
@click.option("-v", "--verbose", is_flag=True, help="Say more; show the traceback of an error.")
def main(*, verbose: bool) -> None:
    """Feature selection by kernel dependence (HSIC) over chunked Zarr."""
    listen(verbose=verbose)


def command(
    name: str, loads: str, *params: click.Parameter, example: str
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command of `main` that a module of `dhsic.cli` does, with an example below its help."""
    epilog = f"\b\nExample:\n  {example}"
    return main.command(name, cls=Command, loads=loads, params=list(params), epilog=epilog)


DATA = click.Argument(["path"], type=of.PATH)
RUN = click.Argument(["checkpoint"], type=of.PATH)
#: The cluster of a run that was sent away.
ASKED = (
    Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Ask this cluster; by default the one that was sent to.",
        section="Cluster",
    ),
    *of.TLS,
)


_output = partial(Option, section="Output")


def _count(*words: str, least: int = 1, **about: Any) -> Option:
    return Option(*words, show_default=True, type=click.IntRange(least), metavar="N", **about)


@command(
    "simulate",
    "simulate",
    DATA,
    _count("--samples", "n_samples", default=500, least=2, help="Samples."),
    _count("--variants", "n_variants", default=20_000, help="Variants."),
    _count("--seed", default=0, least=0, help="Seed of the draws."),
    Option("--causal", "n_causal", default=10, show_default=True, help="Additive variants."),
    Option(
        "--pairs",
        "n_pairs",
        default=2,
        show_default=True,
        help="Pairs of variants that act only together.",
    ),
    Option("--populations", "n_populations", default=3, show_default=True, help="Populations."),
    Option("--missing", default=0.005, show_default=True, help="Fraction of calls missing."),
    Option(
        "--heritability",
        default=0.8,
        show_default=True,
        help="Fraction of the liability's variance that the planted variants explain.",
    ),
    Option(
        "--trait",
        default="binary",
        show_default=True,
        type=click.Choice(["binary", "quantitative"]),
        help="What sample_trait is.",
    ),
    Option(
        "--layout",
        default="vcz",
        show_default=True,
        type=click.Choice(["vcz", "plain"]),
        help="VCF Zarr (call_genotype), or one matrix (dosage).",
    ),
    Option(
        "--zarr-format",
        default="3",
        show_default=True,
        type=click.Choice(["2", "3"]),
        help="Format of the store.",
    ),
    Option("-f", "--force", is_flag=True, help="Overwrite a store that is there."),
    Option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    example="dhsic simulate g.vcz --samples 500 --variants 20000",
)
def _simulate(**options: Any) -> None:
    """Write simulated genotypes to PATH, and the truth beside it.

    PATH becomes a Zarr store. Genotypes have linkage, populations and missing calls; the store
    has a variable sample_trait, and the variants behind it are listed in a table, PATH without its
    suffix + .truth.tsv.
    """
    from dhsic.cli.simulate import simulate

    simulate(**options)


@command("inspect", "inspect", DATA, *of.OPENING, of.JSON, example="dhsic inspect g.vcz")
def _inspect(**options: Any) -> None:
    """Say what PATH holds, how it is laid out, what a selection needs.

    Reads metadata, names and candidate labels, and features to see what their values are: all of
    them up to a billion values, else a few blocks.
    """
    from dhsic.cli.inspect import inspect

    inspect(**options)


@command(
    "plan",
    "plan",
    DATA,
    *of.SELECTION,
    *(of.CHECKPOINT, of.OUT, of.FORCE, of.TRUTH, of.PROGRESS, of.JSON),
    *of.MACHINE,
    of.SCHEDULER,
    Option(
        "--workers",
        "n_workers",
        type=click.IntRange(1),
        metavar="N",
        help="Plan for a cluster of so many workers of one thread each, which need not be there.",
        section="Cluster",
    ),
    Option(
        "--worker-memory",
        type=of.size,
        help="Refuse if a worker may need more than this, like 4GB.",
        section="Cluster",
    ),
    *of.TLS,
    example="dhsic plan g.vcz --target sample_trait --workers 8",
)
def _plan(**options: Any) -> None:
    """Say what `dhsic select` with these options will take.

    That is memory, passes and time. Runs nothing: it reads names, labels and a few blocks, to see
    how fast they are read. Options of select about what it writes are taken and of no effect.
    """
    from dhsic.cli.plan import plan

    plan(**options)


@command(
    "select",
    "select",
    DATA,
    *of.SELECTION,
    *(of.CHECKPOINT, of.OUT, of.FORCE, of.TRUTH, of.PROGRESS, of.JSON),
    *of.MACHINE,
    of.SCHEDULER,
    of.DETACH,
    *of.TLS,
    example="dhsic select g.vcz --target sample_trait -n 20 --out best.tsv",
)
@click.pass_context
def _select(ctx: click.Context, /, **options: Any) -> None:
    """Select the features of PATH on which the labels depend most.

    PATH is a Zarr store (a matrix, VCF Zarr or AnnData), a folder or a URL. The table of selected
    features goes to stdout, everything else to stderr.
    """
    from dhsic.cli.job import SelectJob
    from dhsic.cli.select import perform

    perform(ctx, SelectJob.of(options | {"typed": ctx.meta[TYPED]}))


@command(
    "resume",
    "select",
    RUN,
    _output("--out", type=of.PATH, help="Write the result here, not to --out of the run."),
    _output("-f", "--force", is_flag=True, default=None, help="Overwrite what is at --out."),
    of.PROGRESS,
    _output("--json", "as_json", is_flag=True, default=None, help="Print one JSON object."),
    *of.MACHINE,
    of.SCHEDULER,
    of.DETACH,
    *of.TLS,
    example="dhsic resume run.dhsic --out best.tsv",
)
@click.pass_context
def _resume(ctx: click.Context, /, checkpoint: str, **options: Any) -> None:
    """Go on with a `dhsic select` from its CHECKPOINT.

    What was asked then is asked again; the options below replace what was said about the
    machine. The ranking is the one that the run would have had.
    """
    from dhsic.cli.select import resume

    resume(ctx, checkpoint, options)


@command("status", "detached", RUN, of.JSON, *ASKED, example="dhsic status run.dhsic")
def _status(**options: Any) -> None:
    """Say how the run of CHECKPOINT is."""
    from dhsic.cli.detached import status

    status(**options)


@command(
    "attach",
    "detached",
    RUN,
    _output("--out", type=of.PATH, help="Write the result here, as of dhsic select."),
    *(of.FORCE, of.TRUTH, of.PROGRESS, of.JSON, *ASKED),
    example="dhsic attach run.dhsic --out best.tsv",
)
def _attach(**options: Any) -> None:
    """Follow the run of CHECKPOINT until it ends; print its features."""
    from dhsic.cli.detached import follow

    follow(**options)


@command("cancel", "detached", RUN, *ASKED, example="dhsic cancel run.dhsic")
def _cancel(**options: Any) -> None:
    """Stop the run of CHECKPOINT; the rounds that are done stay.

    `dhsic resume` goes on from them.
    """
    from dhsic.cli.detached import cancel

    cancel(**options)
