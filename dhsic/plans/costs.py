"""From a run that has not begun to its work: which rounds, and which passes in each."""

from __future__ import annotations

import numpy as np

from dhsic.algorithms.state import begin
from dhsic.engines.final import has_series
from dhsic.kernels.table import resolve_kernel
from dhsic.memory import Promise, human
from dhsic.passes.lowrank import CHEAP, FEW_FEATURES, flops_of_round
from dhsic.plans.exact import Exact
from dhsic.plans.lowrank import Joining, Thin
from dhsic.plans.tally import CountingReader, Move, Tally
from dhsic.plans.work import Work
from dhsic.selectors.bahsic import Elimination
from dhsic.selectors.fohsic import Forward
from dhsic.selectors.onepass import Once
from dhsic.selectors.parameters import Parameters
from dhsic.selectors.rounds import AbstractRounds
from dhsic.selectors.run import AbstractRun
from dhsic.selectors.svmrfe import Recursive

VARY = "all features vary; those that do not leave before the first round"
SERIES = "a round takes 1.4 products a feature in float32 and 0.2 in float64, as seen on genotypes"
JOINED = "a candidate takes 4 products in float32; fewer on genotypes, more on outliers"
OPEN = (
    "low rank meets its tolerance (the lower figure), or needs K of all samples, or more "
    "landmarks, from the first round (the upper one)"
)
PACKED = "values of one byte take at most four consecutive integers, so survivors pack in two bits"
MACHINES = "the support vector machines of the rounds, which run in this process, are not counted"
UNTIMED = "what this kernel or criterion computes is not foreseen, so there are no flops or times"


def work_of(run: AbstractRun, promised: Promise) -> Work | None:
    """All passes of a run; None where the data decide how many steps it takes.

    Parameters
    ----------
    promised : Promise
        Of this run, made before: it says how many survivors have room.
    """
    if isinstance(run, Elimination):
        return _eliminated(run)
    if isinstance(run, Forward):
        return _joined(run, is_thin=promised.landmarks > 0)
    return _at_once(run) if isinstance(run, Once) else None


def _tally(run: AbstractRun) -> Tally:
    groups = run.groups
    if groups is None:
        return Tally.of(run, run.source.n_features, None, run.budget)
    return Tally.of(run, groups.n, groups.codes, run.budget)


def _eliminated(run: Elimination) -> Work:
    tally, asked = _tally(run), run.parameters
    kernel, plan = resolve_kernel(asked.kernel), run.plan(run.n_samples)
    exact = Exact(
        tally,
        kernel,
        in_double=str(asked.dtype) == "float64",
        by_definition=asked.approx == "direct" or run.groups is not None,
    )
    thin = Thin(tally, kernel, plan.may_square) if plan.begins_thin else None
    is_thin = thin is not None
    (thin or exact).measure()
    sizes, before = _sizes(run, tally), tally.n_features
    for number, n in enumerate(sizes, 1):
        tally.number, tally.n = number, n
        gone, before = before - tally.n_features, tally.n_features
        if is_thin and plan.may_square and _prefers_exact(tally, eager=plan.eager):
            is_thin = False
            exact.begin()
            gone = 0
        if is_thin and thin is not None:
            thin.round(gone)
        else:
            exact.round(gone)
    assumed = [OPEN] if plan.begins_thin else []
    if not kernel.is_additive and kernel.exact_order is None and run.groups is None:
        assumed.append(SERIES)
    if isinstance(run, Recursive):
        assumed.append(MACHINES)
    return _work(run, tally, sizes, assumed, is_timed=has_series(kernel))


def _prefers_exact(tally: Tally, *, eager: bool) -> bool:
    """As `dhsic.passes.lowrank.LowRankScorer` decides."""
    n = tally.n_features
    return n <= FEW_FEATURES or (eager and flops_of_round(tally.m, n) <= CHEAP)


def _joined(run: Forward, *, is_thin: bool) -> Work:
    tally, asked = _tally(run), run.parameters
    kernel = resolve_kernel(asked.kernel)
    joining = Joining(tally, kernel, is_thin=is_thin)
    joining.measure()
    sizes = _sizes(run, tally)
    for number, n in enumerate(sizes, 1):
        gone = tally.n_features
        tally.number, tally.n = number, n
        joining.round(gone - tally.n_features)
    timed = has_series(kernel) and run.groups is None and asked.strategy == "forward"
    return _work(run, tally, sizes, [] if kernel.is_additive else [JOINED], is_timed=timed)


def _at_once(run: Once) -> Work:
    tally = _tally(run)
    tally.over("score")
    criterion = run.parameters.resolved()
    sizes = [run.source.n_features]
    return _work(run, tally, sizes, [], is_timed=not criterion.has_bandwidth)


def _sizes(run: AbstractRounds, tally: Tally) -> list[int]:  # type: ignore[type-arg]  # of any
    return run.ahead(begin(np.arange(tally.n, dtype=np.int64)))


def _work(
    run: AbstractRun, tally: Tally, sizes: list[int], assumed: list[str], *, is_timed: bool
) -> Work:
    known = [VARY, *assumed]
    if not is_timed:
        known.append(UNTIMED)
    if np.dtype(run.source.dtype).itemsize == 1 and isinstance(run.parameters, Parameters):
        known.append(PACKED)
    kept = _kept(tally.reader, run)
    return Work(tuple(tally.passes), tuple(sizes), kept, tuple(known), is_timed)


def _kept(reader: CountingReader, run: AbstractRun) -> str:
    """Where features are kept on the way, in words."""
    if not reader.moves:
        return "stay in memory" if run.source.in_memory else "are read where they are stored"
    largest: dict[str, Move] = {}
    for move in reader.moves:
        largest.setdefault(move.place, move)
    return ", then ".join(
        f"in {move.place}: {move.n_features:,} in {human(move.n_bytes)}"
        for move in largest.values()
    )
