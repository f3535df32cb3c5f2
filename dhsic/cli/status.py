"""`dhsic status`: how a run is, on a cluster or in the process that began it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from dhsic.checkpoint import Checkpoint
from dhsic.cli.exits import Command, echo_json
from dhsic.cli.printable import printable
from dhsic.cli.talk import counted, seconds
from dhsic.cli.tls import tls_options
from dhsic.detached.attach import attach
from dhsic.detached.folder import Folder

argument = click.argument("checkpoint", type=click.Path())

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

#: What is said of each state, besides how far the run is.
MEANINGS = {
    "waiting": "waits for a worker",
    "running": "runs",
    "done": "is done; `dhsic attach` shows the result",
    "failed": "failed",
    "cancelled": "was cancelled; `dhsic resume` goes on",
    "lost": "is lost: nobody works on it; `dhsic resume` goes on",
}
#: The same of a run that was not left to a cluster.
OF_PROCESSES = {
    "running": "runs in the process that began it",
    "done": "is done; `dhsic resume` shows the result",
    "stopped": "has stopped: no process works on it; `dhsic resume` goes on",
}


def scheduler_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of the cluster that it asks."""
    return click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Ask this cluster; by default the one that was sent to.",
    )(tls_options(command))


@click.command(cls=Command)
@argument
@scheduler_option
@json_option
def status(checkpoint: str, scheduler: str | None, *, as_json: bool) -> None:
    """Say how the run of CHECKPOINT is."""
    kept = Checkpoint(checkpoint)
    if kept.is_begun() and not Folder(checkpoint).is_detached:
        known = _of_a_process(kept)
        who, meaning = checkpoint, OF_PROCESSES[known["status"]]
    else:
        known = _of_a_cluster(checkpoint, scheduler)
        who, meaning = known["id"], MEANINGS[known["status"]]
    if as_json:
        echo_json(known)
        return
    far = f": {known['message']}" if known["status"] == "failed" else f"; {_far(known)}"
    click.echo(printable(f"{who} {meaning}{far}"))


def _of_a_cluster(checkpoint: str, scheduler: str | None) -> dict[str, Any]:
    with attach(checkpoint, scheduler=scheduler) as run:
        state, message = run.status, run.folder.status.message
        known = {"id": run.id, "status": state, **run.progress(), "message": message}
        return known | {"checkpoint": str(run.path)}


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
        return "no round is done"
    return (
        f"{counted(known['round'], 'round')} done, {known['features_left']:,} features left, "
        f"{seconds(known['seconds'])}"
    )
