"""`dhsic plan`: what a selection will take, before it is begun."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from dhsic.cli.console import printable
from dhsic.cli.exits import echo_json
from dhsic.cli.job import SelectJob
from dhsic.cli.labels import open_with_labels
from dhsic.errors import InputError
from dhsic.plans.asking import Foreseen, plan_of
from dhsic.runtime import choose_runtime
from dhsic.runtime.base import AbstractRuntime

#: Options of `select` that are about what it writes: a plan writes nothing.
OF_RESULTS = {"checkpoint": None, "out": None, "truth": None, "force": False}


def plan(
    *, n_workers: int | None, worker_memory: int | None, as_json: bool, **options: Any
) -> None:
    """Print what a selection will take."""
    job = SelectJob.of(options | OF_RESULTS | {"as_json": as_json}).check()
    if n_workers is not None and (job.scheduler or job.threads):
        raise InputError(
            "--workers plans for a cluster that need not be there; leave out --scheduler and "
            "--threads."
        )
    runtime = Foreseen(n_workers) if n_workers else _runtime(job)
    with closing(runtime):
        request = job.request(open_with_labels(job))
        told = plan_of(request, runtime, worker_memory=worker_memory)
    if as_json:
        echo_json(told.to_dict())
    else:
        click.echo(printable(told, keep="\n"))


def _runtime(job: SelectJob) -> AbstractRuntime:
    """What the job would run on."""
    return choose_runtime("auto", scheduler=job.scheduler, n_threads=job.threads)
