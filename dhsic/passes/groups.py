"""Which features are in which group, and jobs that read whole groups.

Groups of features as candidates: a gene is removed, or added, with all of its variants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.state import SelectionState
from dhsic.engines.base import Question
from dhsic.engines.compact import ThinQuestion
from dhsic.engines.direct import TILE_ENTRIES, Direct, DirectState
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.passes.dependence import Reporter, SourceDependence
from dhsic.passes.forward import SourceForward
from dhsic.passes.reader import Reader, merged
from dhsic.passes.task import TILE, AbstractPass, Tile, cut
from dhsic.runtime.base import Job
from dhsic.sources.scaling import Scaling

#: Features of a job, and groups of it that may be under way together.
JOB_FEATURES, OPEN_GROUPS = 2048, 4


class Membership:
    """Which features are in which group.

    Parameters
    ----------
    codes : (d,) int64
        Group of each feature, from 0.
    """

    def __init__(self, codes: Index) -> None:
        self.codes = codes
        self._order = np.argsort(codes, kind="stable")
        self._edges = np.searchsorted(codes[self._order], np.arange(codes.max() + 2))
        self._alive = np.ones(codes.size, dtype=bool)

    def drop_constant(self, scaling: Scaling) -> None:
        """Constant features are in no group."""
        self._alive = ~scaling.constant

    @property
    def sizes(self) -> Index:
        """Features of every group that vary."""
        return np.bincount(self.codes[self._alive], minlength=len(self._edges) - 1)

    @property
    def groups(self) -> Index:
        """Groups that have features, ascending."""
        return np.unique(self.codes[self._alive])

    def features(self, groups: Index) -> Index:
        """Features of some groups, ascending."""
        parts = [self._order[self._edges[g] : self._edges[g + 1]] for g in groups]
        found = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
        return np.asarray(found[self._alive[found]])

    def jobs(self, reader: Reader, scaling: Scaling, groups: Index) -> list[Job]:
        """Jobs that read whole groups, a few of them open at a time."""
        return [
            self._job(reader, scaling, np.array(some, dtype=np.int64))
            for some in self._batches(groups)
        ]

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

    def _job(self, reader: Reader, scaling: Scaling, groups: Index) -> Job:
        features = self.features(groups)
        (job,) = merged(reader.jobs(features, scaling, self.codes[features]), 1)
        return job


class Grouped:
    """What makes candidates of groups, over the class that scores features.

    Parameters
    ----------
    *given, **named
        Of that class.
    membership : Membership
        The groups, and which features they have.
    """

    def __init__(self, *given: Any, membership: Membership, **named: Any) -> None:
        super().__init__(*given, **named)
        self.membership = membership

    def measure(self) -> Scaling:
        """Pass over all features; groups without one that varies are out from here on."""
        scaling: Scaling = super().measure()  # type: ignore[misc]  # of the class that it is over
        self.membership.drop_constant(scaling)
        return scaling

    @property
    def candidates(self) -> Index:
        """Groups of features that vary."""
        return self.membership.groups


class GroupedDependence(Grouped, SourceDependence):
    """`dhsic.algorithms.bahsic.Dependence` of which the features are groups."""

    def replay(self, state: SelectionState, survivors: Sequence[Index]) -> None:
        super().replay(state, [self.membership.features(groups) for groups in survivors])

    def bandwidth(self, S: Index) -> float:
        return super().bandwidth(self.membership.features(S))

    def _gains(self, question: Question, S: Index, n: int) -> tuple[Float, dict[str, Any]]:
        if not self.choices.kernel.is_additive:
            running, scaling = self._known()
            return self._scorer(running.reader, scaling).gains(question, S)
        features = self.membership.features(S)
        of_features, record = super()._gains(question, features, n)
        places = np.searchsorted(S, self.membership.codes[features])
        gains = np.zeros(S.size)
        np.add.at(gains, places, of_features)
        return gains, record

    def _scorer(self, reader: Reader, scaling: Scaling) -> GroupScorer:
        return GroupScorer(self.membership, reader, scaling, self.reporter, self._sums)

    def _advise(self, question: Question, S: Index, gains: Float, gone: Index, n: int) -> str:
        """There is one engine."""
        del question, S, gains, gone, n
        return ""


class GroupedForward(Grouped, SourceForward):
    """`dhsic.algorithms.fohsic.ForwardDependence` of which the features are groups."""

    @property
    def _width_of_one(self) -> float:
        """Features of a group, on average: sigma is the same for all candidates of a round."""
        groups = self.membership.groups
        return self.membership.features(groups).size / groups.size

    def _features(self, candidates: Index) -> Index:
        return self.membership.features(candidates)

    def _gains(
        self, question: Question | ThinQuestion, S: Index, n: int
    ) -> tuple[Float, dict[str, Any]]:
        assert isinstance(question, Question), "groups are scored from m x m matrices"
        del n
        scorer = GroupScorer(
            self.membership, self._reader, self._scaling, self.reporter, self._sums
        )
        return scorer.gains(question, S, joining=True)

    def _advise(self, question: Question | ThinQuestion, left: Index, gains: Float, n: int) -> str:
        """There is one engine."""
        del question, left, gains, n
        return ""


@dataclass(frozen=True)
class GroupScorer:
    """Scores groups by definition, through a reader."""

    membership: Membership
    reader: Reader
    scaling: Scaling
    reporter: Reporter | None
    sums: AbstractSums

    def gains(
        self, question: Question, S: Index, *, joining: bool = False
    ) -> tuple[Float, dict[str, Any]]:
        """Gains of the groups S, (s,), and a record of what it took."""
        jobs = self.membership.jobs(self.reader, self.scaling, S)
        score = ScoreGroups(Direct().prepare(question), self.sums, self.membership.sizes, joining)
        gains = np.empty(S.size)
        for groups, found in self.reader.map(score, jobs):
            gains[np.searchsorted(S, groups)] = found
            if self.reporter is not None:
                self.reporter.scored(len(groups))
        return gains, {"engine": f"groups: {S.size}", "bytes": self.reader.bytes_of(jobs)}


@dataclass(frozen=True, slots=True)
class ScoreGroups(AbstractPass):
    """Groups of a job, ascending, and by how much HSIC rises without each (or with it), (g,).

    Without a group g the statistic is ``G - G_g``; G_g, the statistic of its features alone, is
    summed as they are read. Then the kernel is taken of what is left, tile by tile.

    Attributes
    ----------
    state : DirectState
        Of the definition.
    sums : AbstractSums
        What the statistic sums over features.
    sizes : (n_groups,) int64
        Features of each group, all of which are in one job; their tags are its number.
    joining : bool
        Whether groups join.
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
        open_: dict[int, tuple[Float, int]] = {}
        for tile in cut(blocks, 2 * TILE):
            Z = tile.values(np.float64)
            for group in np.unique(tile.tags).tolist():
                upper, n = open_.pop(group) if group in open_ else (zero_upper(m), 0)
                of_group = np.ascontiguousarray(Z[tile.tags == group])
                self.sums.add(upper, of_group)
                n += len(of_group)
                if n == self.sizes[group]:
                    yield group, upper
                else:
                    open_[group] = upper, n

    @staticmethod
    def _without(state: DirectState, upper: Float) -> float:
        """``<W, K(S without g) - K(S)>``, rows in tiles, the upper triangle of each."""
        part = Statistic(upper)
        G_g, norms_g = part.whole(), part.diagonal
        m = len(norms_g)
        height = max(1, TILE_ENTRIES // m)
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
