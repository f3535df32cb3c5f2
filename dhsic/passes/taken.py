"""Numbers of features that live where they were read, and what is asked of them round by round.

Neighbouring jobs of a pass make a *site* (`dhsic.runtime.base`): its numbers stay on the worker of
a cluster that has read them, until the features that are left come to this process. What is asked
of a feature comes back, and nothing else; which features are left is told in bits.
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
from dhsic.runtime.base import AbstractRuntime, AbstractStep, Held, Job, Site
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import run_of
from dhsic.sources.views import packed, unpacked

#: Features of a site, at least: few calls for each of them.
LEAST = 2048


@dataclass(frozen=True, slots=True)
class Take(AbstractStep):
    """Results of a pass, one after the other."""

    def of(self, source: AbstractSource, job: Job, state: Any) -> list[Array]:
        return [run(source, job, state)]

    def finish(
        self, value: Any, total: list[Array], told: Any, state: Any, each: Each
    ) -> tuple[Array, None]:
        return np.concatenate(total), None

    def join(self, left: None, right: None) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Keep(Take):
    """Some of the features alone."""

    def finish(
        self, value: Array, total: Any, told: Any, state: Any, each: Each
    ) -> tuple[Array, None]:
        return value[unpacked(told)], None


class Taken:
    """What was taken of features (ascending), an array (c, ...) for those of each site."""

    def __init__(
        self, runtime: AbstractRuntime, held: Held, features: Index, widths: list[int]
    ) -> None:
        self.features = features
        self._runtime, self._held = runtime, held
        self._edges = [*accumulate(widths, initial=0)]

    def keep(self, S: Index, runtime: AbstractRuntime) -> None:
        """Forget features that have left, once they are half.

        `runtime` is that of now: it is this process where survivors have come here.
        """
        if 2 * S.size <= self.features.size:
            told = self._places(S)
            sites = [Site(told=packed(some)) for some in told]
            source: Any = None  # nothing is read
            self._held, _ = self._runtime.stepped(self._held, Keep(), source, sites, None)
            self.features, self._edges = S, [*accumulate(map(len, told), initial=0)]
        if runtime is not self._runtime:
            every = [None] * len(self._held)
            self._held = Held(list(self._runtime.asked(self._held, _itself, every, None)))
            self._runtime = runtime

    def asked(self, S: Index, ask: Callable[[Array], Array]) -> Iterator[Array]:
        """What is asked of features S, site by site: function of some of the array of a site."""
        told = [packed(some) for some in self._places(S)]
        return self._runtime.asked(self._held, _ask, told, ask)

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
    """Sites of neighbouring jobs, and features of each."""
    sites, widths = [], []
    some: list[Job] = []
    n = 0
    for number, job in enumerate(jobs, 1):
        some.append(job)
        n += sum(columns.local.size for columns in job.payload)
        if n >= LEAST or number == len(jobs):
            sites.append(Site(tuple(some)))
            widths.append(n)
            some, n = [], 0
    return sites, widths
