"""Candidates, which are removed or added: features, each for itself, or groups of them.

Features are scored by progressive refinement: all of them first, then those whose place is
undecided; which engine goes when is `dhsic.engines.refine`'s to say. `Threshold` comes after low
rank, where K is known: features that an error could move across the threshold are scored exactly.
Of a million features few lie next to it; the others leave or stay whatever their error. So a round
costs little more than low rank alone, and its result is that of the exact engine, but for the part
of the tolerance that is left to features further off. Groups, a gene with all of its variants, are
scored by definition, from jobs that read whole groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.engines import AbstractEngine
from dhsic.engines.certificate import (
    CHANCE,
    Certificate,
    certified,
    expected_swaps,
    nearest_to_threshold,
    next_to_threshold,
)
from dhsic.engines.dense import Dense
from dhsic.engines.direct import DEFINITION_ENTRIES, Direct, DirectState
from dhsic.engines.final import DIRECT_COST, final_engine
from dhsic.engines.lowrank import orders_for
from dhsic.engines.question import Question
from dhsic.engines.refine import AbstractEngines, EngineChoice, tie_width
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.passes import TILE, AbstractPass, Cost, Tile, cut
from dhsic.passes.jobs import merged
from dhsic.passes.reader import AbstractReader
from dhsic.passes.score import Score, dtype_of, scoring_cost
from dhsic.runtime.base import Job
from dhsic.sources.scaling import Scaling

#: Widths of the band next to the threshold that is scored exactly, in deviations of the error.
BANDS = tuple(0.25 * step for step in range(1, 17))
#: The band is tried out at this part of the estimated error, on so many features at least, and then
#: drawn by the error seen.
PROBE, PROBED = 0.5, 256
#: Part of the tolerance that is left to features outside.
LEFT = 0.5
#: Part of the spread of gains that their series may neglect, and its highest order in float32.
EXACTLY, HIGHEST_ORDER = 1e-3, 6
#: Features of a job, and groups of it that may be under way together.
JOB_FEATURES, OPEN_GROUPS = 2048, 4


#: Gains of candidates, and a record of what they took.
Gains = tuple[Float, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Scoring:
    """What candidates are scored with."""

    engines: AbstractEngines
    data: AbstractReader
    n: int  # so many of the largest gains are to be in their places
    choice: EngineChoice | None = None  # of the first engine, where rounds have several
    aloud: bool = True  # whether the reporter of `data` hears of what was scored


class AbstractCandidates(ABC):
    """What may be removed or added, and the features of each."""

    #: Whether rounds have several engines to choose from.
    has_engines: ClassVar[bool] = True

    def __init__(self) -> None:
        self._alive: Mask = np.empty(0, dtype=bool)

    def drop_constant(self, scaling: Scaling) -> None:
        """Features that do not vary are no candidates, nor part of one."""
        self._alive = ~scaling.constant

    @property
    @abstractmethod
    def every(self) -> Index:
        """All candidates, ascending."""

    @abstractmethod
    def features(self, candidates: Index) -> Index:
        """Features of some candidates, ascending where they are."""

    @abstractmethod
    def summed(self, candidates: Index, of_features: Float) -> Float:
        """Sums over the features of each candidate."""

    @property
    @abstractmethod
    def mean_size(self) -> float:
        """Features of a candidate, on average: sigma is the same for all of a round."""

    @abstractmethod
    def gains(self, S: Index, asked: Scoring) -> Gains:
        """Gains of the candidates S, (s,), good enough to place the n largest, and a record."""


class Singles(AbstractCandidates):
    """Features, each for itself."""

    @property
    def every(self) -> Index:
        return np.flatnonzero(self._alive)

    def features(self, candidates: Index) -> Index:
        return candidates

    def summed(self, candidates: Index, of_features: Float) -> Float:
        return of_features

    @property
    def mean_size(self) -> float:
        return 1.0

    def gains(self, S: Index, asked: Scoring) -> Gains:
        engines, data, n = asked.engines, asked.data, asked.n
        d, facts = S.size, data.facts(S)
        gains, errors, sure = np.zeros(d), np.zeros(d), np.zeros(d, dtype=bool)
        open_, engine = np.arange(d), engines.first(facts, n, asked.choice)
        passes: list[str] = []
        products = {"float32": 0, "float64": 0}
        used, caution = 0.0, 1.0
        while open_.size:
            some = facts.take(open_)
            state = engine.prepare(engines.question)
            score, jobs = Score(engine, state), data.jobs(S[open_])
            found = data.scores(score, jobs, aloud=asked.aloud and not passes)
            if found.ndim == 2:  # the engine measures what it leaves out
                new, error = found.T
            else:
                new, error = found, caution * engine.error(engines.question, some, found)
            if passes:  # be wary of the next bounds where the last were too small
                used = max(used, _share(new - gains[open_], errors[open_]))
                caution = max(caution, 2 * used if used > 1 else 1.0)
            final = engine.is_final
            # What no number holds at this order and precision is for a dearer engine.
            lost = ~np.isfinite(new) & (not final)
            gains[open_], errors[open_] = np.where(lost, 0.0, new), np.where(lost, np.inf, error)
            sure[open_] = final
            errors[sure] = tie_width(gains) / 2
            passes.append(f"{engine.name}: {open_.size}")
            products[dtype_of(engine)] += engine.products(engines.question, some)
            open_ = np.flatnonzero(engines.still_open(gains, errors, n) & ~sure)
            if open_.size:
                engine = engines.then(facts, gains, errors, open_, n, caution)
        return gains, {
            "engine": ", ".join(passes),
            "products_float32": products["float32"],
            "products_float64": products["float64"],
            "error_bound_used": used,
        }


def _share(difference: Float, errors: Float) -> float:
    """Largest part of its error bound that a score turned out to be off."""
    known = np.isfinite(errors) & (errors > 0)
    return float((np.abs(difference[known]) / errors[known]).max(initial=0.0))


@dataclass(frozen=True)
class Threshold:
    """The threshold of a round: half way below the `n` largest gains of S.

    Of the features leaving, a part `tolerance` may be wrong ones. At least `fewest` are scored; by
    default `PROBED` where any are.
    """

    question: Question
    data: AbstractReader
    tolerance: float
    S: Index
    n: int
    fewest: int = 0

    def corrected(self, gains: Float, certificate: Certificate) -> tuple[Float, Index, Certificate]:
        """Gains, exact where the error could move them across it; which those are.

        The others are moved by the mean difference, which is no error of the order.
        """
        exact, sizes = gains.copy(), self.data.sizes(self.S)
        scored = np.zeros(self.S.size, dtype=bool)
        deviation = certificate.deviation
        band = self._first_band(gains, deviation * sizes)
        while band.any():
            which = np.flatnonzero(band)
            exact[which] = scored_to(EXACTLY, self.question, self.data, self.S[which])
            scored |= band
            off = (exact[scored] - gains[scored]) / sizes[scored]
            mean, deviation = float(off.mean()), float(off.std())
            exact[~scored] = (gains + mean * sizes)[~scored]
            band = self._band(exact, deviation * sizes, scored) & ~scored
        error = certificate.relative_error
        left = certified(error, exact, self.n, deviation, sizes, sure=scored)
        return exact, np.flatnonzero(scored), left

    def _first_band(self, gains: Float, deviations: Float) -> Mask:
        """Enough features next to the threshold to see the error by."""
        if self.tolerance == 0 or not np.isfinite(deviations).all():
            return np.ones(len(gains), dtype=bool)
        band = self._band(gains, PROBE * deviations, np.zeros(len(gains), dtype=bool))
        fewest = self.fewest or (PROBED if band.any() else 0)
        return nearest_to_threshold(gains, self.n, fewest) if band.sum() < fewest else band

    def _band(self, gains: Float, deviations: Float, sure: Mask) -> Mask:
        """Features next to it: as many as leave too few others for the tolerance to mind."""
        band = sure
        for width in BANDS:
            swaps = expected_swaps(gains, self.n, deviations, band)
            if swaps + CHANCE * np.sqrt(swaps / self.n) <= LEFT * self.tolerance:
                break
            band = next_to_threshold(gains, self.n, width * deviations) | sure
        return band


def scored_to(
    part: float, question: Question, data: AbstractReader, features: Index, *, aloud: bool = False
) -> Float:
    """Gains by the exact engine in float32, whose series neglects such a part of their spread."""
    facts = data.facts(features)
    orders = orders_for(question.kernel, question.sigma, facts, question.n_samples, part)
    gains = np.empty(features.size)
    for order in np.unique(orders):
        which = np.flatnonzero(orders == order)
        engine: AbstractEngine = Dense(int(order), "float32")
        if order > HIGHEST_ORDER:
            engine = final_engine(question, facts.take(which))
        score = Score(engine, engine.prepare(question))
        gains[which] = data.scores(score, data.jobs(features[which]), aloud=aloud)
    return gains


class Membership(AbstractCandidates):
    """Which features are in which group; `codes` (d,) are the group of each, from 0."""

    has_engines = False

    def __init__(self, codes: Index) -> None:
        super().__init__()
        self.codes = codes
        self._order = np.argsort(codes, kind="stable")
        self._edges = np.searchsorted(codes[self._order], np.arange(codes.max() + 2))
        self._alive = np.ones(codes.size, dtype=bool)

    @property
    def every(self) -> Index:
        return np.unique(self.codes[self._alive])

    def features(self, candidates: Index) -> Index:
        parts = [self._order[self._edges[g] : self._edges[g + 1]] for g in candidates]
        found = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
        return np.asarray(found[self._alive[found]])

    def summed(self, candidates: Index, of_features: Float) -> Float:
        sums = np.zeros(candidates.size)
        places = np.searchsorted(candidates, self.codes[self.features(candidates)])
        np.add.at(sums, places, of_features)
        return sums

    @property
    def sizes(self) -> Index:
        """Features of every group that vary."""
        return np.bincount(self.codes[self._alive], minlength=len(self._edges) - 1)

    @property
    def mean_size(self) -> float:
        groups = self.every
        return self.features(groups).size / groups.size

    def jobs(self, data: AbstractReader, groups: Index) -> list[Job]:
        """Jobs that read whole groups, a few of them open at a time."""
        out: list[Job] = []
        for some in self._batches(groups):
            features = self.features(np.array(some))
            out += merged(data.jobs(features, tags=self.codes[features]), 1)
        return out

    def gains(self, S: Index, asked: Scoring) -> Gains:
        question, data = asked.engines.question, asked.data
        state, sums = Direct().prepare(question), question.kernel.sums
        score = ScoreGroups(state, sums, self.sizes, asked.engines.joining)
        gains = np.empty(S.size)
        for groups, found in data.map(score, self.jobs(data, S)):
            gains[np.searchsorted(S, groups)] = found
            if asked.aloud:
                data.tell(len(groups))
        return gains, {"engine": f"groups: {S.size}"}

    def _batches(self, groups: Index) -> list[list[int]]:
        """Groups of each job: by their first features, so that neighbours are read together."""
        spans = []
        for group in groups:
            features = self.features(np.array([group]))
            spans.append((int(features[0]), int(features[-1]), features.size, int(group)))
        batches: list[list[int]] = []
        size = JOB_FEATURES
        ends: list[int] = []
        for first, last, n, group in sorted(spans):
            ends = [end for end in ends if end >= first]
            if size + n > JOB_FEATURES or len(ends) >= OPEN_GROUPS:
                batches.append([])
                size, ends = 0, []
            batches[-1].append(group)
            size += n
            ends.append(last)
        return batches


@dataclass(frozen=True, slots=True)
class ScoreGroups(AbstractPass):
    """Groups of a job, ascending, and by how much HSIC rises without each (or with it), (g,).

    Without a group g the statistic is ``G - G_g``; G_g, the statistic of its features alone, is
    summed as they are read. Then the kernel is taken of what is left, tile by tile.

    All features of a group are in one job, as many as `sizes` (n_groups,) says; their tags are its
    number. `state` is of the definition.
    """

    state: DirectState
    sums: AbstractSums
    sizes: Index
    joining: bool = False

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[Index, Float]:
        gain = self._with if self.joining else self._without
        gains = {group: gain(self.state, upper) for group, upper in self._statistics(blocks, m)}
        order = sorted(gains)
        return np.array(order, dtype=np.int64), np.array([gains[group] for group in order])

    def _statistics(self, blocks: Iterator[Tile], m: int) -> Iterator[tuple[int, Float]]:
        """Every group with its statistic, as soon as its last feature has been read."""
        open_: dict[int, Float] = {}
        left = self.sizes.copy()
        for tile in cut(blocks, 2 * TILE):
            Z = tile.values(np.float64)
            for group in np.unique(tile.tags).tolist():
                of_group = np.ascontiguousarray(Z[tile.tags == group])
                upper = open_.pop(group) if group in open_ else zero_upper(m)
                self.sums.add(upper, of_group)
                left[group] -= len(of_group)
                if left[group]:
                    open_[group] = upper
                else:
                    yield group, upper

    def cost(self, m: int) -> Cost:
        a_feature = np.count_nonzero(self.sizes) / self.sizes.sum()
        return scoring_cost(self.state.kernel, m, DIRECT_COST * a_feature)

    @staticmethod
    def _without(state: DirectState, upper: Float) -> float:
        """``<W, K(S without g) - K(S)>``, rows in tiles, the upper triangle of each."""
        part = Statistic(upper)
        G_g, norms_g = part.whole(), part.diagonal
        m = len(norms_g)
        height = max(1, DEFINITION_ENTRIES // m)
        gain = 0.0
        for a in range(0, m, height):
            rows, columns = slice(a, min(a + height, m)), slice(a, m)
            decrement = state.kernel.decrement_of(  # (rows, columns)
                state.G[rows, columns],
                state.norms[rows],
                state.norms[columns],
                G_g[rows, columns],
                norms_g[rows],
                norms_g[columns],
                state.sigma,
            )
            W = state.W[rows, columns]
            square = rows.stop - rows.start
            gain += 2.0 * float(np.vdot(W, decrement)) - float(
                np.vdot(W[:, :square], decrement[:, :square])
            )
        return gain

    def _with(self, state: DirectState, upper: Float) -> float:
        """``<W, K(S with g) - K(S)>``: what S with g loses without g."""
        part = Statistic(upper)
        G, norms = state.G + part.whole(), state.norms + part.diagonal
        return -self._without(replace(state, G=G, norms=norms), upper)
