"""Execute one run, from the first check to the outcome: memory, ranking, stages."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from dhsic.errors import InputError
from dhsic.kernels.labels import SELF
from dhsic.memory import MemoryEstimate, WorkerMemory
from dhsic.results.schema import Outcome
from dhsic.runtime.threads import single_blas_thread
from dhsic.selection.run import LaterReader, SelectionRun, cache_budget
from dhsic.selection.stage import RankedRun
from dhsic.selection.stages import stages_of


def execute(run: SelectionRun) -> Outcome:
    """Execute one run, from its start or from the last round in its checkpoint.

    If a request consists of several runs, such as one run per target, it must be split up before.
    """
    needed, budget = promised(run, run.runtime.tightest())
    inspected = run.with_value_kind(load=cache_budget(budget))
    if run.announce is not None:
        run.announce(inspected, needed)
    return outcome_of(inspected, needed, budget)


def outcome_of(run: SelectionRun, needed: MemoryEstimate, budget: int | None) -> Outcome:
    """Execute a run after inspection of its feature values.

    `needed` and `budget` are the results of `promised`.
    """
    assert run.values is not None, "they were looked at"
    method, stages = run.selector, stages_of(run.selector)
    loads = any(stage.rereads(run, needed) for stage in stages)
    with single_blas_thread(), closing(LaterReader(run, budget, loads=loads)) as later:
        labels, m = method.labels(run), run.n_samples
        of_samples = run.blocks is None  # otherwise labels may be those of whole blocks
        if labels is not None and of_samples and labels.n_samples != m:
            raise InputError(
                f"The label matrix is {labels.n_samples} x {labels.n_samples}, but there are "
                f"{m} samples; pass one row per sample."
            )
        order, scaling = method.rank(replace(run, later=later), labels, budget)
        ranking = RankedRun(order, scaling, later, needed)
        for stage in reversed(stages):
            ranking = stage.ranked(run, ranking)
    outcome = Outcome(
        ranking.order,
        scaling,
        SELF if labels is None else labels.description,
        0 if labels is None else labels.n_targets,
        {**method.identity(), "standardize": run.standardizes},
        run.source,
        run.values,
        m,
        needed,
        run.runtime.name,
        ranking.pairs,
        run.rows,
    )
    if run.table is None:
        return outcome
    assert run.groups is not None, "the groups are the columns of the table"
    return run.groups.of_table(outcome, run.table)


def promised(run: SelectionRun, workers: WorkerMemory | None) -> tuple[MemoryEstimate, int | None]:
    """Estimate the memory of a run, and the size of its feature cache.

    The size is in bytes (None: unlimited). Invalid runs, and runs that do not fit into memory, are
    rejected here, before data are read. `workers` contains the memory limit of the smallest worker.
    """
    method, stages = run.selector, stages_of(run.selector)
    method.check()
    run.check_sizes()
    method.check_samples(run)
    needed, budget = method.memory_estimate(run)
    for stage in stages:
        stage.check(run)
    for cost in sorted((stage.cost(run) for stage in stages), key=lambda cost: cost.is_optional):
        with_stage = replace(needed, tasks=max(needed.tasks, cost.task_bytes))
        if not cost.is_optional or with_stage.total <= with_stage.allowed(method.memory_limit):
            needed = with_stage
    needed.check(method.memory_limit, method.smaller(run))
    return needed, run.room_on_workers(workers, budget)
