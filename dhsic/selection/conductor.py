"""Execute one run, from the first check to the outcome: memory, ranking, clumping, pairs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from dhsic.errors import InputError
from dhsic.kernels.labels import SELF
from dhsic.memory import MemoryEstimate, WorkerMemory, task_bytes
from dhsic.passes.jobs import block_bytes
from dhsic.results.schema import Outcome
from dhsic.runtime.threads import single_blas_thread
from dhsic.selection.clumping import AT_ONCE, check_clumping, clumped
from dhsic.selection.interactions import NO_MEMORY, PairScan, planned_scan, with_pairs
from dhsic.selection.rerank import bytes_read_again
from dhsic.selection.run import LaterReader, SelectionRun, room


def execute(run: SelectionRun) -> Outcome:
    """Execute a run from the start, or from where its checkpoint stopped."""
    needed, budget = promised(run, run.runtime.tightest())
    inspected = run.looked(load=room(budget))
    if run.announce is not None:
        run.announce(inspected, needed)
    return outcome_of(inspected, needed, budget)


def outcome_of(run: SelectionRun, needed: MemoryEstimate, budget: int | None) -> Outcome:
    """Execute a run whose value kind is known; `needed` and `budget` are from `promised`."""
    assert run.values is not None, "they were looked at"
    method, scan = run.selector, pair_scan(run, needed)
    loads = scan is not None and not scan.skipped
    with single_blas_thread(), closing(LaterReader(run, budget, loads=loads)) as later:
        labels, m = method.labels(run), run.n_samples
        if labels is not None and labels.n_samples != m:
            raise InputError(
                f"The label matrix is {labels.n_samples} x {labels.n_samples} and there are "
                f"{m} samples; pass one row a sample."
            )
        order, scaling = method.rank(replace(run, later=later), labels, budget)
        pairs = None
        if method.clump_r2 is not None:
            order = clumped(order, later.known(scaling), run.n_wanted, method.clump_r2)
        if scan is not None:
            data, unscaled = later.known(scaling), later.unscaled(scaling)
            order, pairs = with_pairs(run, scan, order, data, unscaled, run.n_wanted)
    return Outcome(
        order,
        scaling,
        SELF if labels is None else labels.description,
        0 if labels is None else labels.n_targets,
        {**method.identity(), "standardize": run.standardizes},
        run.source,
        run.values,
        m,
        needed,
        run.runtime.name,
        pairs,
        run.rows,
    )


def promised(run: SelectionRun, workers: WorkerMemory | None) -> tuple[MemoryEstimate, int | None]:
    """Memory estimate of a run, and the size of its feature cache in bytes (None: unlimited).

    Runs that can be rejected before the data are read are rejected here.
    """
    method = run.selector
    method.check()
    run.check_sizes()
    method.check_samples(run)
    (needed, budget), after = method.fitted(run), [0]
    if method.clump_r2 is not None:
        check_clumping(run.n_wanted, has_groups=run.groups is not None)
        n = min(run.n_wanted + AT_ONCE, run.source.n_features)
        after.append(bytes_read_again(n, run.n_samples, run.source) + 8 * n * n)
    if run.held_out is not None:
        m, judge = len(run.held_out.rows), run.held_out.judge
        block = block_bytes(run.source, m)
        after.append(task_bytes(run.runtime.n_here, block, judge.cost(m).tile)["tasks"])
    scan = planned_scan(run)
    needed = replace(needed, tasks=max(needed.tasks, *after))
    if scan is not None:
        scanned = replace(needed, tasks=max(needed.tasks, scan.bytes_beside))
        if not scan.is_optional or scanned.total <= scanned.allowed(method.memory):
            needed = scanned
    needed.check(method.memory, method.smaller(run))
    return needed, run.room_on_workers(workers, budget)


def pair_scan(run: SelectionRun, needed: MemoryEstimate) -> PairScan | None:
    """Scan of pairs, marked as skipped if it does not fit in memory; None without a scan."""
    scan = planned_scan(run)
    if scan is not None and scan.bytes_beside > needed.tasks:
        return PairScan(scan.kind, (), NO_MEMORY)
    return scan
