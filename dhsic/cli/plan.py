"""`dhsic plan`: what a selection will take, before it is begun."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from dhsic.cli.console import printable
from dhsic.cli.exits import Command, echo_json
from dhsic.cli.job import Job
from dhsic.cli.labels import open_with_labels
from dhsic.cli.options import selection_options, size
from dhsic.errors import InputError
from dhsic.plans import Plan
from dhsic.plans.asking import Foreseen, halves_of, plan_of
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.connect import choose_runtime
from dhsic.selectors.groups import Groups

#: Options of `select` that are about what it writes: a plan writes nothing.
OF_RESULTS = {"checkpoint": None, "out": None, "truth": None, "force": False}


@click.command(cls=Command)
@selection_options
@click.option(
    "--workers",
    "n_workers",
    type=click.IntRange(1),
    metavar="N",
    help="Plan for a cluster of so many workers of one thread each, which need not be there.",
)
@click.option(
    "--worker-memory", type=size, help="Refuse if a worker may need more than this, like 4GB."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def plan(
    *, n_workers: int | None, worker_memory: int | None, as_json: bool, **options: Any
) -> None:
    """Say what `dhsic select` with these options will take: memory, passes, time.

    Runs nothing: it reads names, labels and a few blocks, to see how fast they are read. Options
    of select about what it writes are taken and of no effect.
    """
    job = Job.of(options | OF_RESULTS | {"as_json": as_json}).check()
    if n_workers is not None and (job.scheduler or job.threads):
        raise InputError(
            "--workers plans for a cluster that need not be there; leave out --scheduler and "
            "--threads."
        )
    runtime = Foreseen(n_workers) if n_workers else _runtime(job)
    with closing(runtime):
        told = _plan(job, runtime, worker_memory)
    if as_json:
        echo_json(told.to_dict())
    else:
        click.echo(printable(told, keep="\n"))


def _runtime(job: Job) -> AbstractRuntime:
    """What the job would run on."""
    return choose_runtime("auto", scheduler=job.scheduler, n_threads=job.threads)


def _plan(job: Job, runtime: AbstractRuntime, worker_memory: int | None) -> Plan:
    source, taken = open_with_labels(job)
    groups = job.groups_of(source)
    memory = job.memory
    if not runtime.is_remote and worker_memory is not None:
        memory = worker_memory if memory is None else min(memory, worker_memory)
    run = job.selector().new_run(
        source,
        taken.y,
        runtime,
        groups=None if groups is None else Groups.of(groups, source.n_features),
        covariates=taken.covariates,
        rows=taken.rows,
        memory=memory,
    )
    halves = halves_of(job.stability or 0)
    return plan_of(run, job.method, worker_memory=worker_memory, besides=halves)
