"""Descent over weights of features from end to end; the methods that do it are files beside.

Labels give an objective; a pass over the source gives the scaling, another sigma; steps follow,
each kept by the checkpoint, until the weights stay or there have been enough. The features are
ranked by their weights.
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np

from dhsic._typing import Array, Float
from dhsic.algorithms.state import SelectionState, begin
from dhsic.kernels.bandwidth import (
    MEDIAN_SAMPLES,
    DistanceStats,
    Median,
)
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.statistic import Statistic
from dhsic.memory import Promise, fitted, promise
from dhsic.passes.reader import COMPACT_BYTES, block_bytes
from dhsic.passes.task import TILE
from dhsic.passes.weighted import WeightedSource
from dhsic.progress import Progress
from dhsic.results import Order
from dhsic.selectors.base import Selector
from dhsic.selectors.parameters import OF_DESCENT, scales, width_of
from dhsic.selectors.run import AbstractRun, Kept
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind

#: Matrices (m, D) of a step with D random features; matrices of samples that the median takes.
THIN, MEDIAN = 9, 4


class State(Protocol):
    """State after a step."""

    @property
    def iteration(self) -> int:
        """Steps done."""

    @property
    def w(self) -> Float:
        """Weights, (n,)."""

    @property
    def residual(self) -> float:
        """What is compared with the tolerance."""

    def arrays(self) -> dict[str, Array]:
        """What `Method.restored` makes the state from again."""

    def record(self) -> dict[str, float | int]:
        """For the history of rounds."""


class Method(Protocol):
    """A method over some data, ready to go."""

    def begin(self) -> State:
        """State before the first step."""

    def restored(self, iteration: int, arrays: Mapping[str, Array]) -> State:
        """State after so many steps."""

    def steps(self, state: Any) -> Iterator[State]:
        """States after every further step, until the weights stay."""

    def potential(self, w: Float) -> Float:
        """How much the objective gains per unit of weight, feature by feature, (n,)."""


@dataclass(eq=False, repr=False, kw_only=True)
class DescentSelector(Selector):
    """What selectors by descent over weights share."""

    _constraints = OF_DESCENT
    _draws = True

    #: Sigma, once for all steps, from the features as they are without weights.
    bandwidth: Any = "median"
    label_kernel: str = "auto"
    max_iterations: int = 100
    tolerance: float = 1e-4

    def _check_together(self) -> None: ...

    def identity(self) -> dict[str, Any]:
        return {
            "method": self._method,
            "bandwidth": repr(width_of(self.bandwidth)),
            "label_kernel": self.label_kernel,
            "standardize": self.standardize,
            "missing": self.missing,
            "tolerance": float(self.tolerance),
            "seed": self._seed,
            **self._besides(),  # but not the steps, of which there may be more
        }

    @abstractmethod
    def _besides(self) -> dict[str, Any]:
        """What else identifies a run of the method."""

    def scales(self, values: ValueKind) -> bool:
        return scales(self.standardize, values)


@dataclass(frozen=True)
class AbstractWeighting(AbstractRun):
    """A run of descent over weights."""

    parameters: DescentSelector

    @abstractmethod
    def method(self, data: WeightedSource, labels: LabelMatrix) -> Method:
        """The method over the data, which are measured."""

    @abstractmethod
    def size(self) -> Size:
        """What the method makes besides passes."""

    @property
    def smaller(self) -> str:
        return "use fewer samples"

    def fitted(self, m: int) -> tuple[Promise, int | None]:
        stored = m * self.source.n_features * np.dtype(self.source.dtype).itemsize
        return fitted(partial(self._promised, m), COMPACT_BYTES, stored, self.memory)

    def select(self, labels: LabelMatrix | None, budget: int | None) -> tuple[Order, Scaling]:
        assert labels is not None, "y was given"
        data = WeightedSource(
            self.source,
            self.runtime,
            rows=self.rows,
            standardize=self.standardizes,
            seed=self.parameters._seed,
            memory=budget,
        )
        with closing(data), self.kept() as (kept, previous):
            return self._descend(data, labels, kept, previous)

    def _descend(
        self,
        data: WeightedSource,
        labels: LabelMatrix,
        kept: Kept,
        previous: SelectionState | None,
    ) -> tuple[Order, Scaling]:
        started = time.perf_counter()
        scaling = data.measure()
        self.check_found(kept, scaling, has_bandwidth=True)
        method = self.method(data, labels)
        progress = Progress(self.progress, self.parameters.max_iterations * data.features.size)
        data.reporter = progress
        try:
            if previous is None or not previous.round:
                at, done = method.begin(), begin(data.features)
                if previous is None:
                    kept.start(done, scaling.checksum)
            else:
                at, done = method.restored(previous.round, kept.arrays), previous
            for at, done in self._steps(data, method, at, done, started):  # noqa: B020
                kept.save(done, at.arrays())
                progress.round_done(done)
            kept.finish()
            self._check_settled(at)
            return self._order(data, at, done, method.potential(at.w)), scaling
        finally:
            progress.close()

    def _steps(
        self, data: WeightedSource, method: Method, at: State, done: SelectionState, started: float
    ) -> Iterator[tuple[State, SelectionState]]:
        """States after `at`, whose history is that of `done`, each with its history.

        The passes before the first step, from `started` on, are in its record.
        """
        none = np.empty(0, dtype=np.int64)
        before = 0
        for after in islice(method.steps(at), max(0, self.parameters.max_iterations - done.round)):
            record = {
                **after.record(),
                "n_nonzero": int(np.count_nonzero(after.w)),
                "seconds": time.perf_counter() - started,
                "bytes_read": data.bytes_read - before,
            }
            done = done.after(none, np.empty(0), record)
            yield after, done
            started, before = time.perf_counter(), data.bytes_read

    def _check_settled(self, at: State) -> None:
        asked = self.parameters
        if at.residual > asked.tolerance and at.iteration >= asked.max_iterations:
            warnings.warn(
                f"The weights still change after {at.iteration} steps, more than "
                f"tolerance={asked.tolerance:g} allows. Pass a higher max_iterations=, or a higher "
                "tolerance=.",
                stacklevel=2,
            )

    def _order(
        self, data: WeightedSource, at: State, done: SelectionState, potential: Float
    ) -> Order:
        """By weight; where weights are equal, of 0 above all, by potential, then by number."""
        best_first = np.lexsort((np.arange(at.w.size), -potential, -at.w))
        worst_first = best_first[::-1]
        everywhere = np.full(self.source.n_features, np.nan)
        everywhere[data.features] = potential
        return Order(
            data.features[worst_first],
            at.w[worst_first],
            np.full(at.w.size, done.round),
            done.history,
            placed="weighted",
            extra={
                "potential": (everywhere, "gain of the objective per unit of weight, in the end")
            },
        )

    def _promised(self, m: int, budget: int) -> Promise:
        """Memory at most, with `budget` bytes for features."""
        itemsize = np.dtype(self.source.dtype).itemsize
        d, size = self.source.n_features, self.size()
        held = 0 if self.runtime.is_remote else min(m * d * itemsize, budget)
        promised = promise(
            n_samples=m,
            n_features=d,
            n_bases=size.n_bases,
            squares=not size.n_directions,
            landmarks=size.n_directions,
            sample_entries=0,
            block_bytes=block_bytes(self.source, m),
            tile_bytes=8 * TILE * (m + size.n_directions) * 8,
            n_threads=self.runtime.n_here,
            survivor_bytes=2 * held,  # once more in all for those of weight above 0
        )
        if not size.n_directions:
            return promised
        some = min(m, MEDIAN_SAMPLES)
        return replace(
            promised,
            squares=(MEDIAN + self.runtime.n_here + 2) * 8 * some * some,
            landmarks=THIN * 8 * size.n_directions * m,
        )


@dataclass(frozen=True)
class Size:
    """What a method makes besides passes.

    Attributes
    ----------
    n_bases : int
        Kinds of m x m matrices, as of `dhsic.memory.promise`.
    n_directions : int
        Random features; 0 where kernel matrices are made instead.
    """

    n_bases: int
    n_directions: int = 0


def sigma_of(data: WeightedSource, bandwidth: object) -> float:
    """Sigma of ``exp(-sigma ||x - x'||^2)`` for features of weight 1: by a policy of BAHSIC."""
    width = width_of(bandwidth)
    needed = data.sample_statistic() if isinstance(width, Median) else Statistic.of(np.eye(1))
    return width(DistanceStats(Gaussian(), None, needed), data.features.size)
