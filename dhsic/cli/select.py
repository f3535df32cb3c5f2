"""`dhsic select`: the selection, from the command line to the table of features.

`dhsic resume`: go on with a selection that was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from dhsic.cli.console import counted, masked, printable, say, shown
from dhsic.cli.detached import check_detach, detach, settle
from dhsic.cli.exits import BEGUN, CHECKPOINT
from dhsic.cli.inspect import Sites
from dhsic.cli.job import SelectJob, absolute
from dhsic.cli.labels import describe, notes_on, open_with_labels
from dhsic.cli.report import show
from dhsic.joins.labels import Labelled
from dhsic.memory import Promise, available_bytes, human, peak_bytes, resident_bytes
from dhsic.results import exists, load, save
from dhsic.runtime import choose_runtime
from dhsic.selectors.run import SelectionRun
from dhsic.simulation.truth import read_truth
from dhsic.storage.checkpoint import Checkpoint
from dhsic.tables import table_suffix


def perform(ctx: click.Context, job: SelectJob) -> None:
    """Run a job and print its result."""
    started = time.perf_counter()
    ctx.meta[CHECKPOINT] = job.checkpoint
    job.check()
    if job.detach:
        check_detach(job)
    truth = None if job.truth is None else read_truth(job.truth)
    given = open_with_labels(job)
    _say_data(job, given)
    if job.scheduler is not None and not job.as_json:
        say("cluster", f"connecting to {job.scheduler}")
    request = job.request(given, _provenance(job, given))
    if job.detach:
        detach(job, request)
        return
    runtime = choose_runtime("auto", scheduler=job.scheduler, n_threads=job.threads)
    with closing(runtime):
        result = request.run(runtime, announce=partial(_announce, ctx, job))
    settle(job, result)
    if job.out is not None:
        save(result, job.out, overwrite=job.force)
    took = {"seconds": time.perf_counter() - started, "peak_bytes": peak_bytes()}
    show(result, truth, job.out, as_json=job.as_json, took=took)


def _announce(ctx: click.Context, job: SelectJob, run: SelectionRun, promise: Promise) -> None:
    """Say what is about to begin, and that there is something to lose from now on."""
    ctx.meta[BEGUN] = True
    other = (
        "--no-standardize keeps their scale" if run.standardizes else "--standardize scales them"
    )
    asked = "as asked" if "standardize" in job.parameters else other
    say("values", f"{run.values_told()} ({asked})")
    allowed = available_bytes() + resident_bytes() if job.memory is None else job.memory
    where = (
        f"{run.runtime.n_workers} threads" if run.runtime.name == "threads" else run.runtime.name
    )
    say("run", f"{run.selector.described()} on {where}{_kept(job)}")
    say("memory", f"{promise}; allowed {human(allowed)}")


def _say_data(job: SelectJob, given: Labelled) -> None:
    source = given.source
    kind = np.dtype(source.dtype).name
    say(
        "data",
        f"{Path(job.path).name}: {source.n_samples:,} samples x {source.n_features:,} features, "
        f"{kind}",
    )
    kernel = job.labels_as if job.takes_label_kernel else None
    say("labels", "; ".join([describe(given.y, kernel), *given.notes]))
    for note in (*Sites.of(source).notes(), *notes_on(given.y)):
        say("note", note)
    if job.n_features > source.n_features:
        say(
            "note",
            f"--n-features {job.n_features:,} exceeds the {source.n_features:,} features there "
            "are; all are selected",
        )


def _kept(job: SelectJob) -> str:
    if job.checkpoint is None:
        return ""
    kept = Checkpoint(job.checkpoint)
    if not kept.is_begun():
        return f", checkpoint {shown(job.checkpoint)}"
    state = kept.load()
    done = 0 if state is None else state.round
    return f", checkpoint {shown(job.checkpoint)} with {counted(done, 'round')} of a run"


def _provenance(job: SelectJob, given: Labelled) -> dict[str, str | int]:
    """What was asked and what the labels were, for the attributes of the result."""
    return {
        **({"command": job.typed} if job.typed else {}),
        "data": masked(job.data or job.path),
        "target": ", ".join(job.target),
        "labels": "; ".join(given.notes),
        **given.left_out,
    }


def resume(ctx: click.Context, checkpoint: str, options: Mapping[str, Any]) -> None:
    """Go on with the job of a checkpoint; `options` replace what was said about the machine."""
    job = _with(SelectJob.kept_in(checkpoint), options)
    ctx.params["as_json"] = job.as_json
    if options["out"] is None and _is_written(job, checkpoint):
        _show_again(ctx, job)
        return
    if job.detach:
        job = _as_detached(job)
    perform(ctx, job)


def _with(job: SelectJob, options: Mapping[str, Any]) -> SelectJob:
    """The job with what is said now in place of what was said then."""
    said = {name: value for name, value in options.items() if value is not None}
    if "threads" in said:
        job = replace(job, scheduler=None)
    if "scheduler" in said:
        job = replace(job, threads=None)
    if "out" in said:  # --force of the run was about another place
        said = {"force": False, **said, "out": absolute(said["out"])}
    return replace(job, **said)


def _show_again(ctx: click.Context, job: SelectJob) -> None:
    """Show the result of a run that is complete; one that is a table, from the checkpoint."""
    out = job.out or ""
    if table_suffix(out):
        perform(ctx, replace(job, out=None, detach=False))
    else:
        truth = None if job.truth is None else read_truth(job.truth)
        show(load(out), truth, None, as_json=job.as_json)
    told = f"The run of {job.checkpoint} is complete; its result is in {out}."
    click.echo(printable(told), err=True)


def _as_detached(job: SelectJob) -> SelectJob:
    """The job as one for a cluster, which writes its result into the checkpoint."""
    for name, given in (("--out", job.out), ("--truth", job.truth)):
        if given is not None:
            say("note", f"{name} {shown(given)} of the run is for `dhsic attach`, once it is done")
    return replace(job, out=None, truth=None)


def _is_written(job: SelectJob, checkpoint: str) -> bool:
    """Whether the run is complete and its result where it was asked for."""
    if job.force or job.out is None or not exists(job.out):
        return False
    with Checkpoint(checkpoint) as kept:
        return kept.is_complete()
