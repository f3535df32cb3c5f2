"""Which engine scores next: the one that settles the places for the least work.

A round scores all features with a cheap engine and then only those whose place is still open
with dearer ones, the last of which converges. How far the expansion goes follows from error
bounds: given (a guess of) the gains, the number of places that an engine would leave open can be
counted before it runs. The guess is the gains so far; for the first
pass of a round, the gains of the round before it.

From gains with error bounds to the features that leave, and in which order.

Exact ties are real: duplicated columns, flipped alleles. Gains within `TIE` of the largest
magnitude of the round count as equal and go by feature index, so the order does not hang on
the last bit of a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.engines.dense import Dense
from dhsic.engines.final import DOUBLE_COST, LONGEST_TAYLOR, cost_of, final_engine, has_series
from dhsic.kernels.base import AbstractKernel

#: Gains closer than this, relative to the largest magnitude in the round, are ties.
TIE = 1e-10


def tie_width(gains: Float) -> float:
    """Absolute width of a tie."""
    return TIE * float(np.abs(gains).max(initial=0.0))


def undecided(gains: Float, errors: Float, n: int) -> Mask:
    """Features whose place among the n largest is open within the error bounds, (d,)."""
    low, high = gains - errors, gains + errors
    out = np.zeros(len(gains), dtype=bool)
    n = min(n, len(gains))
    threshold = np.partition(low, len(low) - n)[len(low) - n]
    candidates = np.flatnonzero(high >= threshold)
    by_gain = candidates[np.argsort(-gains[candidates], kind="stable")]
    low, high = low[by_gain], high[by_gain]
    # Sorted by gain, intervals overlap where a later one reaches above this one's lower end or
    # an earlier one reaches below this one's upper end.
    later = np.maximum.accumulate(high[::-1])[::-1]
    earlier = np.minimum.accumulate(low)
    out[by_gain[:-1]] |= later[1:] > low[:-1]
    out[by_gain[1:]] |= earlier[:-1] < high[1:]
    return out


def largest(gains: Float, n: int, tie: float) -> Index:
    """Positions of the n largest gains, the largest first; ties by position."""
    by_gain = np.argsort(-gains, kind="stable")
    falls = -np.diff(gains[by_gain])
    group = np.concatenate([[0], np.cumsum(falls > tie)])  # equal within a chain of ties
    ordered = by_gain[np.lexsort((by_gain, group))]
    return ordered[:n].astype(np.int64)


#: With this few features left a round is a matter of milliseconds: converge at once.
FEW_FEATURES = 64
#: Neglected part that the first engine of a run may have, over the spread of gains by chance.
FIRST_NEGLECTED = 0.02
#: Highest orders worth a pass of their own, by precision.
HIGHEST_ORDER = {"float32": 4, "float64": 6}
#: What a pass costs besides its forms, in forms.
PASS_COST = 400.0


def first_engine(question: Question, facts: FeatureStats, dtype: Any) -> AbstractEngine:
    """Engine for the first pass of the first round, when nothing is known of the gains."""
    kernel = question.kernel
    single = np.dtype(dtype) == np.float32
    radial = kernel.scored_by == "taylor"  # their last engine may be the definition: slow
    if len(facts.max_abs) <= FEW_FEATURES or not has_series(kernel) or not (single or radial):
        return final_engine(question, facts)
    if kernel.exact_order is not None:
        return Dense(kernel.exact_order, dtype)
    # Of gains by chance:
    spread = 2 * np.sqrt(2) * question.sigma * question.norm(_first_base(kernel))
    for order in _orders(kernel, np.dtype(dtype).name):
        neglected = question.neglected(order, facts)
        neglected = np.minimum(neglected, np.finfo(np.float64).max)  # quantiles subtract
        if np.quantile(neglected, 0.9) <= FIRST_NEGLECTED * spread:
            return Dense(order, np.dtype(dtype))
    return final_engine(question, facts)


def next_engine(
    question: Question,
    facts: FeatureStats,
    gains: Float,
    errors: Float,
    open_: Index,
    n: int,
    dtype: Any,
    caution: float = 1.0,
) -> AbstractEngine:
    """Engine that should score the open features.

    Parameters
    ----------
    question : Question
        The round's.
    facts : FeatureStats
        Of all features, (d,).
    gains, errors : (d,) float64
        What is known or guessed of the gains, and bounds on how far they may be off.
    open_ : int array
        Features to score.
    n : int
        How many of the largest gains matter, in order.
    dtype : float32 or float64
        Working precision.
    caution : float
        Factor on error bounds, once one was found too small.
    """
    some = facts.take(open_)
    last = final_engine(question, some)
    if open_.size <= FEW_FEATURES or not has_series(question.kernel):
        return last
    last_cost = cost_of(last, question, some) / open_.size
    best: AbstractEngine = last
    least = last_cost * open_.size + PASS_COST
    for engine, cost in _candidates(question, dtype, last_cost):
        work = cost * open_.size + PASS_COST
        if work >= least:
            continue
        tried = errors.copy()
        tried[open_] = caution * engine.error(question, some, gains[open_])
        n_left = int(_still_open(gains, tried, open_, n).sum())
        work += last_cost * n_left + (PASS_COST if n_left else 0.0)
        if work < least:
            best, least = engine, work
    return best


def engine_named(name: str, question: Question, facts: FeatureStats) -> AbstractEngine:
    """Engine of that name for these features; the last one unless it is an order."""
    if not name.startswith("order "):
        return final_engine(question, facts)
    _, order, dtype = name.split()
    return Dense(int(order), np.dtype(dtype))


def _first_base(kernel: AbstractKernel) -> int:
    """Base of the first term, which sets the size of gains."""
    return 1 if kernel.scored_by == "taylor" else 0


def _orders(kernel: AbstractKernel, precision: str) -> range:
    """Orders worth a pass of their own; radial kernels hold a matrix for each."""
    highest = HIGHEST_ORDER[precision]
    if kernel.scored_by == "taylor":
        highest = min(highest, LONGEST_TAYLOR)
    return range(1, highest + 1)


def _still_open(gains: Float, errors: Float, open_: Index, n: int) -> Mask:
    return undecided(gains, errors, n)[open_]


def _candidates(
    question: Question, dtype: Any, last_cost: float
) -> list[tuple[AbstractEngine, float]]:
    """Dense engines cheaper than converging, with their cost per column."""
    kernel = question.kernel
    exact = kernel.exact_order
    single = np.dtype(dtype) == np.float32
    out: list[tuple[AbstractEngine, float]] = []
    for name, factor in (("float32", 1.0), ("float64", DOUBLE_COST)):
        if name == "float32" and not single:
            continue
        for order in _orders(kernel, name) if exact is None else [exact]:
            cost = factor * kernel.expansion(order, question.sigma).n_forms
            if cost < last_cost:
                out.append((Dense(order, np.dtype(name)), cost))
    return out
