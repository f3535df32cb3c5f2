"""Results of a pass that stay on the workers that computed them.

Neighbouring jobs of a pass form a *site* (`dhsic.runtime.base`). The results of a site, a few
numbers per feature, stay on the worker that read the features, until the surviving features move to
the client process. A query applies a function to these results on the workers and returns only its
own results. Surviving features are sent as bit masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.linalg.quadratic import Each
from dhsic.passes import run
from dhsic.passes.jobs import positions
from dhsic.runtime.base import AbstractRuntime, AbstractStep, Job, Site, SiteValues
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import run_of
from dhsic.sources.views import packed, unpacked

#: Minimum number of features per site, to limit the number of calls.
LEAST = 2048


@dataclass(frozen=True, slots=True)
class ConcatenateResults(AbstractStep):
    """Update that concatenates the results of several jobs to one value stored on a worker."""

    def of(self, source: AbstractSource, job: Job, state: Any) -> list[Array]:
        return [run(source, job, state)]

    def finish(
        self, value: Any, total: list[Array], told: Any, state: Any, each: Each
    ) -> tuple[Array, None]:
        return np.concatenate(total), None

    def join(self, left: None, right: None) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SelectFeatures(ConcatenateResults):
    """Update of a value stored on a worker that keeps the rows of given features only."""

    def finish(
        self, value: Array, total: Any, told: Any, state: Any, each: Each
    ) -> tuple[Array, None]:
        return value[unpacked(told)], None


class ResidentValues:
    """Results of a pass for `features` (ascending) that stay on workers.

    Each of several groups of neighbouring features has an array (c, ...) of results, on its worker.
    """

    def __init__(
        self, runtime: AbstractRuntime, held: SiteValues, features: Index, widths: list[int]
    ) -> None:
        self.features = features
        self._runtime, self._held = runtime, held
        self._edges = [*accumulate(widths, initial=0)]

    def keep(self, S: Index, runtime: AbstractRuntime) -> None:
        """Drop the values of features not in S, if these are at least half of all features.

        `runtime` is the current runtime. It uses local threads if the features have moved to this
        process.
        """
        if 2 * S.size <= self.features.size:
            positions_by_site = self._places(S)
            sites = [Site(told=packed(at_site)) for at_site in positions_by_site]
            source: Any = None  # nothing is read
            self._held, _ = self._runtime.update(self._held, SelectFeatures(), source, sites, None)
            self.features, self._edges = S, [*accumulate(map(len, positions_by_site), initial=0)]
        if runtime is not self._runtime:
            every = [None] * len(self._held)
            self._held = SiteValues(list(self._runtime.query(self._held, _itself, every, None)))
            self._runtime = runtime

    def query(self, S: Index, ask: Callable[[Array], Array]) -> Iterator[Array]:
        """Apply a function to the stored results of the features S, and yield one answer per array.

        Each worker stores arrays of the results of neighbouring features.
        """
        position_masks = [packed(at_site) for at_site in self._places(S)]
        return self._runtime.query(self._held, _ask, position_masks, ask)

    def _places(self, S: Index) -> list[Index]:
        at = positions(S, self.features)
        cuts = np.searchsorted(at, self._edges)
        starts = self._edges[:-1]
        return [at[a:b] - start for (a, b), start in zip(pairwise(cuts), starts, strict=True)]


def _itself(value: Array, told: None, state: None) -> Array:
    del told, state
    return value


def _ask(value: Array, told: Any, ask: Callable[[Array], Array]) -> Array:
    return ask(value[run_of(unpacked(told))])


def sites_of(jobs: list[Job]) -> tuple[list[Site], list[int]]:
    """Group neighbouring jobs whose results one worker stores as one array (a site).

    Returns the sites, and the number of features of each site.
    """
    sites, widths = [], []
    site_jobs: list[Job] = []
    n = 0
    for number, job in enumerate(jobs, 1):
        site_jobs.append(job)
        n += sum(columns.local.size for columns in job.payload)
        if n >= LEAST or number == len(jobs):
            sites.append(Site(tuple(site_jobs)))
            widths.append(n)
            site_jobs, n = [], 0
    return sites, widths
