"""Plans: forecast of the memory, passes and time of a run, on this machine or a cluster.

If the run would be rejected, the plan raises the same error, with the same advice.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dhsic.errors import ClusterError, InputError
from dhsic.joins.filters import Filters
from dhsic.memory import WorkerMemory
from dhsic.methods import method_of, selector_of
from dhsic.passes.single_pass import LOOKED_AT
from dhsic.plans.report import Plan, Stored
from dhsic.plans.rounds import Work, work_of
from dhsic.plans.shape_source import Sizes
from dhsic.plans.time import NETWORK, Expected, Rates
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.cores import usable_cores
from dhsic.runtime.threads import Threads
from dhsic.selection.conductor import promised
from dhsic.selection.cross_validation import Validation
from dhsic.selection.request import Request
from dhsic.selection.run import SelectionRun
from dhsic.selection.stages import stages_of
from dhsic.sources.views import whole_of
from dhsic.validation import BYTES

__all__ = ["Plan", "Rates", "Sizes", "plan"]


class PlannedRuntime(AbstractRuntime):
    """Runtime of a planned cluster with n workers and a shared folder; it executes nothing."""

    name = "dask"
    is_remote = True

    def __init__(self, n_workers: Any, worker_threads: Any = None) -> None:
        each = 1 if worker_threads is None else worker_threads
        for name, n in (("n_workers", n_workers), ("worker_threads", each)):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                what = name.rpartition("_")[2]
                raise InputError(f"{name}={n!r}; pass a number of {what}, at least 1.")
        self.n_workers = n_workers * each
        self.threads = {f"worker {number}": each for number in range(n_workers)}

    def results(self, *asked: Any, divisible: bool) -> Generator[Any]:
        raise TypeError(f"A plan does not run anything, but got {len(asked[2])} jobs.")


#: Assumption about data of given sizes.
SIZES = (
    "genotypes are stored as in VCF Zarr, and decoded from memory at the speed of this machine; "
    "the time of a slow disk or network is not included"
)
#: Numbers of workers for which times are shown, besides the requested one.
OTHERS = (1, 2, 10)


def plan(
    data: Any,
    target: Any = None,
    *,
    method: str = "bahsic",
    n_features_to_select: int | float | None = 50,
    n_workers: int | None = None,
    worker_memory: int | str | None = None,
    worker_threads: int | None = None,
    rates: Rates | Mapping[str, float] | None = None,
    feature_groups: Any = None,
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    pass_only: bool = False,
    filters: Filters | None = None,
    by_position: bool = False,
    **parameters: Any,
) -> Plan:
    """Forecast memory, passes and time of `select` with the same arguments.

    One or two blocks of the data are read to measure the speed.

    Parameters
    ----------
    data, target, method, n_features_to_select, feature_groups, sample_dim, variable, \
    missing_code, pass_only, filters, by_position, **parameters
        As in `dhsic.select`. `target` may be omitted: labels have little influence on the forecast.
        For genotypes that do not exist yet, pass ``dhsic.plans.Sizes(n_samples, n_features)``.
    n_workers : int, optional
        Number of workers of a cluster with a shared folder; by default the plan is for the runtime
        that the run would use here.
    worker_memory : int or str, optional
        Memory of each worker in bytes, or of this process without `n_workers`; such as ``"4GB"``.
    worker_threads : int, optional
        Threads of each worker, 1 by default; each thread has a task in memory.
    rates : Rates or mapping, optional
        Work that one thread does per second, such as the ``rates`` of another plan; by default it
        is measured on this machine, in about a second.

    Returns
    -------
    Plan

    Raises
    ------
    MemoryBudgetError
        The run does not fit in memory; the message says what to change.
    InputError
        As from `dhsic.select`.

    Examples
    --------
    >>> import numpy as np
    >>> rates = Rates(float32=5e10, float64=2e10, decode=1e9, values=4e8, elements=2e8)
    >>> X = np.random.default_rng(0).standard_normal((100, 400))
    >>> told = plan(X, np.arange(100) % 2, rates=rates)
    >>> told.n_rounds, told.data.n_blocks
    (50, 4)
    """
    request = Request.of(
        selector_of(method, n_features_to_select, parameters),
        data,
        target,
        feature_groups=feature_groups,
        by_position=by_position,
        sample_dim=sample_dim,
        variable=variable,
        missing_code=missing_code,
        pass_only=pass_only,
        filters=filters,
        compares_samples=False,
    )
    if n_workers is None and worker_threads is not None:
        raise InputError(
            f"worker_threads={worker_threads!r} describes the workers of n_workers=; pass "
            "n_workers= too."
        )
    foreseen = None if n_workers is None else PlannedRuntime(n_workers, worker_threads)
    with request.running(foreseen) as runtime:
        return plan_of(request, runtime, worker_memory=bytes_of(worker_memory), rates=rates)


def plan_of(
    request: Request,
    runtime: AbstractRuntime,
    *,
    worker_memory: int | None = None,
    rates: Rates | Mapping[str, float] | None = None,
    n_runs: int = 1,
    asked_by: str = "",
) -> Plan:
    """Plan a request on a runtime; for `worker_memory`, `rates` and errors, see `plan`.

    The request may be one of `n_runs` runs that share each reading of the data. `asked_by` is the
    option that requests these runs.
    """
    if Validation.of(request.selector.n_features_to_select) is not None:
        raise InputError(
            "n_features_to_select='auto' also ranks the features of every fold, but a plan "
            "describes one ranking; pass a number."
        )
    run = request.new_run(runtime)
    if worker_memory is not None and not runtime.is_remote:
        most = run.selector.memory_limit
        run = run.asking(memory_limit=worker_memory if most is None else min(most, worker_memory))
    m, is_remote = run.n_samples, run.runtime.is_remote
    limits = limits_of(run.runtime, worker_memory)
    promise, budget = promised(run, limits)
    if is_remote:
        _check_reach(run)
    values = "not inspected, because rates= was passed"
    if rates is None:
        with Threads() as here:
            run = run.with_value_kind(here, whole=run.source.n_features * m <= LOOKED_AT)
        values = run.values_told()
    work, worker = work_of(run, budget), None
    if limits is not None:
        worker = run.on_worker(limits)  # `promised` has checked the same estimate
    speed = Rates.measured(run.source, m) if rates is None else Rates.of(rates)
    assumed = [*_besides(run, n_runs, asked_by), *(() if work is None else work.assumed)]
    assumed += _of_machines(run, is_measured=rates is None)
    n_steps = getattr(run.selector, "max_iterations", None)
    return Plan(
        method=method_of(request.selector)[0],
        description=run.selector.described(),
        data=Stored.of(run.source, m),
        values=values,
        runtime=run.runtime.name,
        n_workers=len(run.runtime.threads) or run.runtime.n_workers,
        worker_threads=threads_of(run.runtime),
        promise=promise,
        worker=worker,
        work=work,
        n_steps=int(n_steps) if work is None and n_steps is not None else None,
        rates=speed,
        times=() if work is None else tuple(_times(run, work, speed)),
        assumed=tuple(assumed),
    )


def limits_of(runtime: AbstractRuntime, worker_memory: int | None) -> WorkerMemory | None:
    """Return the memory limit of a worker: `worker_memory`, or by default the cluster's limit.

    Return None if there is no cluster.
    """
    if not runtime.is_remote:
        return None
    tightest = runtime.tightest() if worker_memory is None else None
    n_threads = max(runtime.threads.values(), default=1)
    return tightest or WorkerMemory(worker_memory, n_threads, "worker_memory=")


def threads_of(runtime: AbstractRuntime) -> int:
    """Threads per worker of a cluster; 1 without a cluster."""
    return max(runtime.n_workers // len(runtime.threads), 1) if runtime.threads else 1


def _besides(run: SelectionRun, n_runs: int, asked_by: str) -> Iterator[str]:
    """Yield notes on work that a run does and the plan omits."""
    if n_runs > 1:
        sharing = "they share one reading of the data, and run in parallel as far as memory allows"
        yield f"this is one of {n_runs:,} runs ({asked_by}): {sharing}"
    for stage in stages_of(run.selector):
        if note := stage.cost(run).note:
            yield note


def _of_machines(run: SelectionRun, *, is_measured: bool) -> Iterator[str]:
    """Yield assumptions on workers, on other machines, and on data that do not exist yet."""
    if run.runtime.is_remote:
        each = threads_of(run.runtime)
        threads = (
            f"workers have {each} threads each" if each > 1 else "workers have one thread each"
        )
        yield (
            f"{threads} and share a folder; each worker receives the state of a round at "
            f"{NETWORK / 1e6:.0f} MB/s"
        )
    if isinstance(whole_of(run.source), Sizes):
        yield SIZES
    if is_measured:
        yield "other machines are as fast as this one, and read the store as fast"


def bytes_of(amount: int | str | None) -> int | None:
    """Parse an amount of memory, in bytes or as text; InputError if it is invalid."""
    if not isinstance(amount, str):
        BYTES("memory", amount)
        return None if amount is None else int(amount)
    from dask.utils import parse_bytes

    try:
        return int(parse_bytes(amount))
    except ValueError as error:
        raise InputError(
            f"worker_memory={amount!r} is not an amount of memory, such as '4GB' or '500MiB'."
        ) from error


def _check_reach(run: SelectionRun) -> None:
    from dhsic.runtime.dask import CLIENT_BYTES

    if run.source.client_bytes > CLIENT_BYTES:
        raise ClusterError(
            f"The data ({run.source.client_bytes / 2**20:.0f} MiB) are in the memory of this "
            f"process, and at most {CLIENT_BYTES / 2**20:.0f} MiB are sent to workers. Write them "
            "to Zarr and pass the path, or leave n_workers= out."
        )


def _times(run: SelectionRun, work: Work, rates: Rates) -> Iterator[Expected]:
    """Yield expected times of the run on 1, 2, 10 and the planned number of workers or threads.

    Numbers of threads above the number of local cores are omitted.
    """
    if not work.is_timed:
        return
    is_remote, each = run.runtime.is_remote, threads_of(run.runtime)
    ours = len(run.runtime.threads) or run.runtime.n_workers
    afar = work if is_remote else None
    for n in sorted({*OTHERS, ours}):
        if not is_remote and n <= max(ours, usable_cores()):
            yield Expected.of(work, rates, n, on_cluster=False)
            continue
        if afar is None:
            if run.source.client_bytes:
                return  # data in memory are not sent to workers
            afar = _elsewhere(run, n)
        yield Expected.of(afar, rates, n, on_cluster=True, n_threads=each)


def _elsewhere(run: SelectionRun, n_workers: int) -> Work:
    there = replace(run, runtime=PlannedRuntime(n_workers)).asking(memory_limit=1 << 62)
    work = work_of(there, there.selector.memory_estimate(there)[1])
    assert work is not None, "it is foreseen here, so it is there"
    return work
