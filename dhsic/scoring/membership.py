"""Which features are in which group, and jobs that read whole groups."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Index
from dhsic.runtime.base import Job
from dhsic.scoring.group_tasks import GroupedColumns
from dhsic.scoring.reader import Reader, merged
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
        (job,) = merged(reader.jobs(features, scaling), 1)
        return Job(job.blocks, GroupedColumns(job.payload, self.codes[features]))
