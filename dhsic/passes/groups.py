"""Groups of features that are removed or added as one, a gene with all of its variants.

They are scored by definition, from jobs that read whole groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.direct import DEFINITION_ENTRIES, Direct, DirectState
from dhsic.engines.refine import AbstractEngines, EngineChoice
from dhsic.kernels.statistic import AbstractSums, Statistic, zero_upper
from dhsic.passes.execution import merged
from dhsic.passes.refinement import AbstractCandidates
from dhsic.passes.scaled import ScaledReader
from dhsic.passes.task import TILE, AbstractPass, Tile, cut
from dhsic.runtime.base import Job

#: Features of a job, and groups of it that may be under way together.
JOB_FEATURES, OPEN_GROUPS = 2048, 4


class Membership(AbstractCandidates):
    """Which features are in which group.

    Parameters
    ----------
    codes : (d,) int64
        Group of each feature, from 0.
    """

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

    def jobs(self, data: ScaledReader, groups: Index) -> list[Job]:
        """Jobs that read whole groups, a few of them open at a time."""
        out: list[Job] = []
        for some in self._batches(groups):
            features = self.features(np.array(some))
            out += merged(data.jobs(features, tags=self.codes[features]), 1)
        return out

    def gains(
        self,
        engines: AbstractEngines,
        data: ScaledReader,
        S: Index,
        n: int,
        choice: EngineChoice | None,
        *,
        aloud: bool = True,
    ) -> tuple[Float, dict[str, Any]]:
        question = engines.question
        state, sums = Direct().prepare(question), question.kernel.sums
        score = ScoreGroups(state, sums, self.sizes, engines.joining)
        gains = np.empty(S.size)
        for groups, found in data.reader.map(score, self.jobs(data, S)):
            gains[np.searchsorted(S, groups)] = found
            if aloud:
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
