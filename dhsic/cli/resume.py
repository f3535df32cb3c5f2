"""`dhsic resume`: go on with a selection that was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from dhsic.checkpoint import Checkpoint
from dhsic.cli.detached import show
from dhsic.cli.exits import Command
from dhsic.cli.job import Job, absolute
from dhsic.cli.options import detach_option
from dhsic.cli.planted import compare
from dhsic.cli.printable import printable
from dhsic.cli.selecting import perform
from dhsic.cli.talk import say, shown
from dhsic.cli.tls import tls_options
from dhsic.cli.types import size
from dhsic.results import exists, load
from dhsic.sources.truth import read_truth
from dhsic.tables import table_suffix


@click.command(cls=Command)
@click.argument("checkpoint", type=click.Path())
@click.option("--scheduler", metavar="ADDRESS", help="Run on this Dask cluster.")
@tls_options
@click.option("--threads", type=click.IntRange(1), help="Run in this process on so many threads.")
@click.option("--memory", type=size, help="Refuse to start if more may be needed, like 2GB.")
@detach_option
@click.option("--out", type=click.Path(), help="Write the result here, not to --out of the run.")
@click.option("-f", "--force", is_flag=True, default=None, help="Overwrite what is at --out.")
@click.option("--progress/--no-progress", default=None, help="Progress bar.")
@click.option("--json", "as_json", is_flag=True, default=None, help="Print one JSON object.")
@click.pass_context
def resume(ctx: click.Context, /, checkpoint: str, **options: Any) -> None:
    """Go on with a `dhsic select` from its CHECKPOINT.

    What was asked then is asked again; the options below replace what was said about the
    machine. The ranking is the one that the run would have had.
    """
    job = _with(Job.kept_in(checkpoint), options)
    ctx.params["as_json"] = job.as_json
    if options["out"] is None and _is_written(job, checkpoint):
        _show_again(ctx, job)
        return
    if job.detach:
        job = _as_detached(job)
    perform(ctx, job)


def _with(job: Job, options: Mapping[str, Any]) -> Job:
    """The job with what is said now in place of what was said then."""
    said = {name: value for name, value in options.items() if value is not None}
    if "threads" in said:
        job = replace(job, scheduler=None)
    if "scheduler" in said:
        job = replace(job, threads=None)
    if "out" in said:  # --force of the run was about another place
        said = {"force": False, **said, "out": absolute(said["out"])}
    return replace(job, **said)


def _show_again(ctx: click.Context, job: Job) -> None:
    """Show the result of a run that is complete; one that is a table, from the checkpoint."""
    out = job.out or ""
    if table_suffix(out):
        perform(ctx, replace(job, out=None, detach=False))
    else:
        result = load(out)
        planted = None if job.truth is None else compare(result, read_truth(job.truth))
        show(result, planted, None, as_json=job.as_json)
    told = f"The run of {job.checkpoint} is complete; its result is in {out}."
    click.echo(printable(told), err=True)


def _as_detached(job: Job) -> Job:
    """The job as one for a cluster, which writes its result into the checkpoint."""
    for name, given in (("--out", job.out), ("--truth", job.truth)):
        if given is not None:
            say("note", f"{name} {shown(given)} of the run is for `dhsic attach`, once it is done")
    return replace(job, out=None, truth=None)


def _is_written(job: Job, checkpoint: str) -> bool:
    """Whether the run is complete and its result where it was asked for."""
    if job.force or job.out is None or not exists(job.out):
        return False
    with Checkpoint(checkpoint) as kept:
        return kept.is_complete()
