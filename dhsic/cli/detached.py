"""Commands for detached runs on a cluster: `dhsic status`, `attach` and `cancel`.

`detach` starts a detached run. `status` also reports on runs of a local process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import click
import xarray as xr

from dhsic.cli.console import counted, echo_json, printable, say, seconds, shown, tell
from dhsic.cli.job import SelectJob
from dhsic.cli.report import show
from dhsic.detached import attach as attached
from dhsic.detached.driver import send
from dhsic.detached.folder import Folder, Status
from dhsic.detached.run import Run
from dhsic.joins.genes import Genes
from dhsic.results.files import check_vacant, save
from dhsic.results.nearest_genes import annotate as add_genes
from dhsic.selection.request import Request
from dhsic.simulation.truth import read_truth
from dhsic.storage.checkpoint import Checkpoint

#: Description of each state of a detached run.
MEANINGS = {
    "waiting": "is waiting for a worker",
    "running": "is running",
    "done": "is complete; `dhsic attach` shows the result",
    "failed": "failed",
    "cancelled": "was cancelled; `dhsic resume` continues it",
    "lost": "was lost: no worker is running it; `dhsic resume` continues it",
}
#: Description of each state of a run in a local process.
OF_PROCESSES = {
    "running": "is running in the process that started it",
    "done": "is complete; `dhsic resume` shows the result",
    "stopped": "has stopped: no process is running it; `dhsic resume` continues it",
}


def status(checkpoint: str, scheduler: str | None, *, as_json: bool) -> None:
    """Run ``dhsic status``: print the state of the run of a checkpoint."""
    saved = Checkpoint(checkpoint)
    if saved.is_begun() and not Folder(checkpoint).is_detached:
        facts = _of_a_process(saved)
        who, meaning = checkpoint, OF_PROCESSES[facts["status"]]
    else:
        with attached(checkpoint, scheduler=scheduler) as run:
            state, reported = run.status, run.folder.status
            facts = {"id": run.id, "status": state, **run.progress(), "message": reported.message}
            facts["checkpoint"] = str(run.path)
            facts["driver"] = reported.driver if state == "running" else ""
        who, meaning = run.id, MEANINGS[state]
    if as_json:
        echo_json(facts)
        return
    far = f": {facts['message']}" if facts["status"] == "failed" else f"; {_far(facts)}"
    click.echo(printable(f"{who} {meaning}{far}"))


def _of_a_process(kept: Checkpoint) -> dict[str, Any]:
    is_written, is_complete, state = kept.is_written(), kept.is_complete(), kept.load()
    history = () if state is None else state.history
    return {
        "id": None,
        "status": "done" if is_complete else "running" if is_written else "stopped",
        "round": 0 if state is None else state.round,
        "features_left": 0 if state is None else len(state.survivors),
        "seconds": sum(float(record.get("seconds", 0.0)) for record in history),
        "message": "",
        "checkpoint": str(kept.path),
    }


def _far(known: Mapping[str, Any]) -> str:
    if not known["round"]:
        return "no round completed"
    text = (
        f"{counted(known['round'], 'round')} completed, {known['features_left']:,} features left, "
        f"{seconds(known['seconds'])}"
    )
    if known["status"] == "running" and known.get("seconds_left"):
        text += f", about {seconds(known['seconds_left'])} left at this speed"
    return text + (f"; driver: {known['driver']}" if known.get("driver") else "")


def detach(job: SelectJob, request: Request) -> None:
    """Start a job on its cluster, and print its id and the command that follows it."""
    options = {name: value for name, value in job.plain().items() if name != "detach"}
    folder = Folder(job.checkpoint)
    send(replace(request, job=options), folder, scheduler=job.scheduler)
    if job.as_json:
        echo_json({"id": request.id, "checkpoint": str(folder.path), "scheduler": job.scheduler})
        return
    click.echo(request.id)
    say("sent", f"runs on {job.scheduler}; to follow it: dhsic status {shown(str(folder.path))}")


def settle(job: SelectJob, result: xr.Dataset) -> None:
    """Save the result of a detached run that `resume` completed locally; mark the run as done."""
    if job.checkpoint is None or not (folder := Folder(job.checkpoint)).is_detached:
        return
    with folder.driven():
        save(result, folder.result, overwrite=True)
        folder.say(Status("done"))


def cancel(checkpoint: str, scheduler: str | None) -> None:
    """Run ``dhsic cancel``: stop a run; its completed rounds remain in the checkpoint."""
    with attached(checkpoint, scheduler=scheduler) as run:
        run.cancel()
        state = run.wait(10.0)
        meaning = "stops when its current tasks end" if state == "running" else MEANINGS[state]
        click.echo(printable(f"{run.id} {meaning}"))


def attach(
    checkpoint: str,
    scheduler: str | None,
    *,
    out: str | None,
    selected_only: bool,
    force: bool,
    truth: str | None,
    annotate: str | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Run ``dhsic attach``: follow a run until it ends, then print the selected features."""
    from tqdm.auto import tqdm  # imported here because it loads slowly

    genes = None if annotate is None else Genes.read(annotate)
    if out is not None:
        check_vacant(out, overwrite=force, selected_only=selected_only)
    planted = None if truth is None else read_truth(truth)
    hidden = None if progress is None else not progress  # None draws it only on a terminal
    with attached(checkpoint, scheduler=scheduler) as run:
        bar = tqdm(unit=" features", unit_scale=True, desc="dhsic", leave=False, disable=hidden)
        _follow(run, bar)
        result = run.result(0.0)
    if genes is not None:
        result = add_genes(result, genes)
    if out is not None:
        save(result, out, overwrite=force, selected_only=selected_only)
    show(result, planted, out, as_json=as_json)


def _follow(run: Run, bar: Any) -> None:
    with closing(bar):

        def move(now: Mapping[str, Any]) -> None:
            bar.total = now["features_total"] or None
            bar.set_postfix_str(f"round {now['round']}, {now['features_left']:,} left")
            bar.update(now["features_done"] - bar.n)

        try:
            run.wait(callback=move)
        except KeyboardInterrupt:
            tell(f"The run continues; to follow it: dhsic status {shown(str(run.path))}")
            raise
