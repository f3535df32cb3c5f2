"""Candidates for removal or addition: single features, or groups of features.

Features are scored by progressive refinement: first all of them, then the features with undecided
rank; `dhsic.engines.refine` chooses the engines. After a low-rank round in which K is known,
`Threshold` scores exactly those features that an approximation error could move across the removal
threshold. Even of a million features, only few are so close to the threshold. The round therefore
costs little more than a low-rank round. The result is the same as with the exact engine, except for
errors in features farther away, which stay within the tolerance. Groups (for example all variants
of a gene) are scored by the definition of HSIC. Each job reads whole groups.
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
from dhsic.engines.exact_scoring import DIRECT_COST, final_engine
from dhsic.engines.lowrank import orders_for
from dhsic.engines.refine import AbstractEngines, EngineChoice, tie_width
from dhsic.engines.scoring_problem import ScoringProblem
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.passes import TILE, AbstractPass, Cost, Tile, split_tiles
from dhsic.passes.jobs import merged
from dhsic.passes.reader import AbstractReader
from dhsic.passes.score import Score, dtype_of, scoring_cost
from dhsic.runtime.base import Job
from dhsic.sources.scaling import Scaling

#: Widths to try for the band around the threshold in which features are scored exactly, in standard
#: deviations of the error.
BANDS = tuple(0.25 * step for step in range(1, 17))
#: Width of the first band as a fraction of the estimated error, and its minimum number of features.
#: Later bands use the error observed in the first.
PROBE, PROBED = 0.5, 256
#: Fraction of the tolerance that features outside the band may use.
LEFT = 0.5
#: Error of the truncated series relative to the spread of gains, and its highest order in float32.
EXACTLY, HIGHEST_ORDER = 1e-3, 6
#: Maximum number of features per job, and of groups that a job sums at the same time.
JOB_FEATURES, OPEN_GROUPS = 2048, 4


#: Gains of candidates, and the record of the work done.
Gains = tuple[Float, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Engines and data that are used to score candidates for removal or addition."""

    engines: AbstractEngines
    data: AbstractReader
    n: int  # number of largest gains that must be ranked correctly
    choice: EngineChoice | None = None  # first engine, if the round may use several
    aloud: bool = True  # whether progress is reported


class AbstractCandidates(ABC):
    """Candidates for removal or addition: features, or groups of features."""

    #: Whether a round can choose between several engines.
    has_engines: ClassVar[bool] = True

    def __init__(self) -> None:
        self._alive: Mask = np.empty(0, dtype=bool)

    def drop_constant(self, scaling: Scaling) -> None:
        """Exclude constant features, as candidates and as members of groups."""
        self._alive = ~scaling.constant

    @property
    @abstractmethod
    def every(self) -> Index:
        """All candidates, ascending."""

    @abstractmethod
    def features(self, candidates: Index) -> Index:
        """Return the features of the given candidates; ascending if the candidates are."""

    @abstractmethod
    def summed(self, candidates: Index, of_features: Float) -> Float:
        """Sum values of features over the features of each candidate.

        `of_features` has one value per feature.
        """

    def dimension(self, candidates: Index) -> int:
        """Number of features of the candidates; bandwidth policies choose sigma from it."""
        return self.features(candidates).size

    @property
    @abstractmethod
    def mean_size(self) -> float:
        """Mean number of features per candidate, used to choose one sigma for all candidates."""

    @property
    def mean_dimension(self) -> float:
        """Mean over candidates of their `dimension`."""
        return self.mean_size

    @abstractmethod
    def gains(self, S: Index, asked: Scoring) -> Gains:
        """Compute the gains of the candidates S, (s,), and a record of the work.

        The gain of a candidate is the change of HSIC when it is removed (or added). Gains are
        accurate enough to rank the `asked.n` largest.
        """


class Singles(AbstractCandidates):
    """Single features as candidates."""

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
            open_facts = facts.take(open_)
            state = engine.prepare(engines.question)
            score, jobs = Score(engine, state), data.jobs(S[open_])
            scores = data.scores(score, jobs, aloud=asked.aloud and not passes)
            if scores.ndim == 2:  # the engine measures what it leaves out
                new, error = scores.T
            else:
                new, error = scores, caution * engine.error(engines.question, open_facts, scores)
            if passes:  # scale up the next error bounds if the last ones were too small
                used = max(used, _share(new - gains[open_], errors[open_]))
                caution = max(caution, 2 * used if used > 1 else 1.0)
            final = engine.is_final
            # Values that overflow at this order and precision are left to a more expensive engine.
            lost = ~np.isfinite(new) & (not final)
            gains[open_], errors[open_] = np.where(lost, 0.0, new), np.where(lost, np.inf, error)
            sure[open_] = final
            errors[sure] = tie_width(gains) / 2
            passes.append(f"{engine.name}: {open_.size}")
            products[dtype_of(engine)] += engine.products(engines.question, open_facts)
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
    """Largest ratio of an observed error (`difference`) to its error bound.

    Only bounds that are finite and positive are used. The ratio is 0 if there are none.
    """
    bounded = np.isfinite(errors) & (errors > 0)
    return float((np.abs(difference[bounded]) / errors[bounded]).max(initial=0.0))


@dataclass(frozen=True)
class Threshold:
    """Removal threshold of a round: halfway between the n-th largest gain and the next one.

    The gain of a feature is the change of HSIC without it. S are the features of the round; the n
    features with the largest gains are removed. A fraction `tolerance` of the removed features may
    be wrong. If any feature is near the threshold, at least `fewest` features are scored exactly
    (default `PROBED`).
    """

    question: ScoringProblem
    data: AbstractReader
    tolerance: float
    S: Index
    n: int
    fewest: int = 0

    def corrected(self, gains: Float, certificate: Certificate) -> tuple[Float, Index, Certificate]:
        """Score exactly the features that an error could move across the removal threshold.

        The gain of a feature is the change of HSIC if it is removed. Returns all gains, the
        positions of the exact gains, and a certificate. The exact gains show the mean error of the
        approximate ones, relative to the mean square of the feature. The other gains are corrected
        by this error.
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
        remaining = certified(error, exact, self.n, deviation, sizes, sure=scored)
        return exact, np.flatnonzero(scored), remaining

    def _first_band(self, gains: Float, deviations: Float) -> Mask:
        """Mask of the features next to the threshold, which are scored first to measure the error.

        The mask contains all features if the tolerance is 0 or the estimated error is not finite.
        """
        if self.tolerance == 0 or not np.isfinite(deviations).all():
            return np.ones(len(gains), dtype=bool)
        band = self._band(gains, PROBE * deviations, np.zeros(len(gains), dtype=bool))
        fewest = self.fewest or (PROBED if band.any() else 0)
        return nearest_to_threshold(gains, self.n, fewest) if band.sum() < fewest else band

    def _band(self, gains: Float, deviations: Float, sure: Mask) -> Mask:
        """Mask of the features to score exactly.

        The mask is chosen such that the errors of the other features are tolerable. `sure` marks
        the features whose gains are exact already.
        """
        band = sure
        for width in BANDS:
            swaps = expected_swaps(gains, self.n, deviations, band)
            if swaps + CHANCE * np.sqrt(swaps / self.n) <= LEFT * self.tolerance:
                break
            band = next_to_threshold(gains, self.n, width * deviations) | sure
        return band


def scored_to(
    part: float,
    question: ScoringProblem,
    data: AbstractReader,
    features: Index,
    *,
    aloud: bool = False,
) -> Float:
    """Compute gains of features by the float32 power series, to a given precision.

    The gain of a feature is the change of HSIC if it is removed. Each feature has its own order of
    the series. The truncation error is at most `part` times the standard deviation of the gains.
    Features that need an order above `HIGHEST_ORDER` are scored by the final engine.
    """
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
    """Assignment of features to groups.

    `codes` (d,) are group numbers, from 0. With `as_one`, the features of a group are scaled
    together and count as one feature in sigma.
    """

    has_engines = False

    def __init__(self, codes: Index, *, as_one: bool = False) -> None:
        super().__init__()
        self.codes, self.as_one = codes, as_one
        self._order = np.argsort(codes, kind="stable")
        self._edges = np.searchsorted(codes[self._order], np.arange(codes.max() + 2))
        self._alive = np.ones(codes.size, dtype=bool)

    @property
    def every(self) -> Index:
        return np.unique(self.codes[self._alive])

    def features(self, candidates: Index) -> Index:
        parts = [self._order[self._edges[g] : self._edges[g + 1]] for g in candidates]
        features = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
        return np.asarray(features[self._alive[features]])

    def summed(self, candidates: Index, of_features: Float) -> Float:
        sums = np.zeros(candidates.size)
        places = np.searchsorted(candidates, self.codes[self.features(candidates)])
        np.add.at(sums, places, of_features)
        return sums

    @property
    def sizes(self) -> Index:
        """Number of varying features in each group."""
        return np.bincount(self.codes[self._alive], minlength=len(self._edges) - 1)

    def dimension(self, candidates: Index) -> int:
        return candidates.size if self.as_one else super().dimension(candidates)

    @property
    def mean_dimension(self) -> float:
        return 1.0 if self.as_one else self.mean_size

    @property
    def mean_size(self) -> float:
        groups = self.every
        return self.features(groups).size / groups.size

    def jobs(self, data: AbstractReader, groups: Index) -> list[Job]:
        """Create jobs that read whole groups, and keep at most `OPEN_GROUPS` sums at a time."""
        out: list[Job] = []
        for batch in self._batches(groups):
            features = self.features(np.array(batch))
            out += merged(data.jobs(features, tags=self.codes[features]), 1)
        return out

    def gains(self, S: Index, asked: Scoring) -> Gains:
        question, data = asked.engines.question, asked.data
        state, sums = Direct().prepare(question), question.kernel.sums
        score = ScoreGroups(state, sums, self.sizes, asked.engines.joining)
        gains = np.empty(S.size)
        for groups, group_gains in data.map(score, self.jobs(data, S)):
            gains[np.searchsorted(S, groups)] = group_gains
            if asked.aloud:
                data.tell(len(groups))
        return gains, {"engine": f"groups: {S.size}"}

    def _batches(self, groups: Index) -> list[list[int]]:
        """Divide groups into batches, one per job.

        Groups of neighbouring features stay together.
        """
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
    """Pass that computes the gains of whole groups: the change of HSIC without each group.

    The result is the group numbers and their gains, (g,) each. G (m, m) is the statistic of all
    features of the round. The statistic G_g of group g is summed while its features are read.
    Without the group the statistic is ``G - G_g``; the change of the kernel is computed tile by
    tile. All features of a group are in one job. `sizes` (n_groups,) is the number of features of
    each group, and tags are group numbers. `state` is a state of the engine `Direct`. If `joining`,
    groups are added instead of removed.
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
        """Yield each group of features, and its statistic (such as inner products of samples).

        A group is complete once all its features have been read.
        """
        open_: dict[int, Float] = {}
        n_unread = self.sizes.copy()
        for tile in split_tiles(blocks, 2 * TILE):
            Z = tile.values(np.float64)
            for group in np.unique(tile.tags).tolist():
                of_group = np.ascontiguousarray(Z[tile.tags == group])
                upper = open_.pop(group) if group in open_ else zero_upper(m)
                self.sums.add(upper, of_group)
                n_unread[group] -= len(of_group)
                if n_unread[group]:
                    open_[group] = upper
                else:
                    yield group, upper

    def cost(self, m: int) -> Cost:
        a_feature = np.count_nonzero(self.sizes) / self.sizes.sum()
        return scoring_cost(self.state.kernel, m, DIRECT_COST * a_feature)

    @staticmethod
    def _without(state: DirectState, upper: Float) -> float:
        """Change of HSIC without a group g of the features S, ``<W, K(S without g) - K(S)>``.

        K(S) is the kernel matrix of S. `state` has the label weights W and the statistic of S;
        `upper` is the upper triangle of the statistic G_g of the group, (m, m).
        """
        part = Statistic(upper)
        G_g, norms_g = part.to_dense(), part.diagonal
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
        """Change of HSIC if a group g is added to the features S, ``<W, K(S with g) - K(S)>``.

        K(S) is the kernel matrix of S, and W are label weights. `state` and `upper` are as in
        `_without`. It is the negative of the gain of removing g from the larger set.
        """
        part = Statistic(upper)
        G, norms = state.G + part.to_dense(), state.norms + part.diagonal
        return -self._without(replace(state, G=G, norms=norms), upper)
