"""Base class of selectors that optimise weights of features by descent.

Labels define an objective. One pass over the source determines the scaling of the features, and
another one the kernel parameter sigma. Descent steps follow, each saved in the checkpoint, until
the weights converge or the maximum number of steps is reached. Features are ranked by weight.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Float
from dhsic.algorithms.state import SelectionState
from dhsic.errors import InputError, warn
from dhsic.kernels.bandwidth import (
    MEDIAN_SAMPLES,
    AbstractBandwidth,
    DistanceStats,
    Grid,
    Median,
    resolve_bandwidth,
)
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.labels import LabelMatrix
from dhsic.kernels.statistic import InnerProducts, Statistic
from dhsic.memory import (
    VECTORS,
    MemoryEstimate,
    fit_budget,
    resident_bytes,
    square_bytes,
    task_bytes,
)
from dhsic.methods.base import Selector
from dhsic.passes import Sum
from dhsic.passes.jobs import block_bytes, n_partials
from dhsic.passes.reader import COMPACT_BYTES
from dhsic.passes.weighted import Projections, WeightedSource
from dhsic.results.schema import Order
from dhsic.selection.progress import recording
from dhsic.selection.run import SelectionRun
from dhsic.sources.scaling import Scaling
from dhsic.validation import COUNT, POSITIVE, by
from dhsic.weighting import AbstractWeighting, WeightState

#: Matrices (m, D) in a step with D random features; matrices of samples for the median rule.
OF_FEATURES, MEDIAN = 9, 4


def width_of(bandwidth: object) -> AbstractBandwidth:
    """Bandwidth policy for sigma; rejects a grid, because descent needs one sigma."""
    width = resolve_bandwidth(bandwidth)
    if isinstance(width, Grid):
        raise InputError(
            f"bandwidth={bandwidth!r} is a grid, but descent over weights needs one sigma for all "
            "steps; pass 'median', 'dimension' or a number."
        )
    return width


def sigma_of(data: WeightedSource, bandwidth: object) -> float:
    """Sigma of ``exp(-sigma ||x - x'||^2)`` at weights of 1, by a bandwidth policy."""
    width = width_of(bandwidth)
    needed = data.sample_statistic() if isinstance(width, Median) else Statistic.of(np.eye(1))
    return width(DistanceStats(Gaussian(), None, needed), data.features.size)


@dataclass(eq=False, repr=False, kw_only=True)
class DescentSelector(Selector):
    """Base class of selectors by descent over feature weights."""

    _parameter_constraints: ClassVar = {
        **Selector._parameter_constraints,
        "bandwidth": by(width_of),
        "tol": POSITIVE,
        "max_iterations": COUNT,
    }
    _aside = Selector._aside | {"max_iterations"}  # a continued run may take more steps
    _draws = True

    #: Bandwidth: one sigma for all steps, from the unweighted features.
    bandwidth: Any = "median"
    label_kernel: str = "auto"
    max_iterations: int = 100
    tol: float = 1e-4

    @abstractmethod
    def _weighting(
        self, run: SelectionRun, data: WeightedSource, labels: LabelMatrix
    ) -> tuple[AbstractWeighting, Float]:
        """Create the objective with its descent, and starting weights.

        The scaling of the data must be known.
        """

    @abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """Number of m x m kernel matrices, and of random features, for the memory estimate.

        The number of random features is 0 if the method uses kernel matrices.
        """

    def memory_estimate(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        m, (n_bases, n_directions) = run.n_samples, self._sizes()
        stored = m * run.source.n_features * np.dtype(run.source.dtype).itemsize
        n_here, n_sampled = run.runtime.n_here, min(m, MEDIAN_SAMPLES)
        summed = Projections(0, n_directions) if n_directions else Sum(InnerProducts())
        cost, block = summed.cost(m), block_bytes(run.source, m)
        partials = n_partials(run.source.n_features)
        of_median = (MEDIAN + n_here + 2) * 8 * n_sampled * n_sampled

        def promised(budget: int) -> MemoryEstimate:
            return MemoryEstimate(
                process=resident_bytes(),
                squares=of_median if n_directions else square_bytes(m, n_bases),
                # a second copy of the features with weight above 0
                survivors=0 if run.runtime.is_remote else 2 * min(stored, budget),
                vectors=VECTORS * 8 * run.source.n_features,
                landmarks=OF_FEATURES * 8 * n_directions * m,
                **task_bytes(n_here, block, cost.tile, cost.result, partials),
            )

        return fit_budget(promised, COMPACT_BYTES, stored, self.memory_limit)

    def rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        assert labels is not None, "y was given"
        data = WeightedSource(
            run.source,
            run.runtime,
            rows=run.rows,
            standardize=run.standardizes,
            seed=self._seed,
            memory=budget,
            block_scaling=run.block_scaling,
        )
        with closing(data), recording(run) as recorder:
            started = time.perf_counter()
            scaling = data.measure()
            recorder.check(scaling, has_bandwidth=True)
            method, start = self._weighting(run, data, labels)
            data.reporter = recorder.progress
            recorder.progress.expect(self.max_iterations * data.features.size)
            done = recorder.begin(data.features, scaling)
            if done.round:
                at = method.state.restored(done.round, recorder.arrays)
            else:
                at = method.begin(start)
            nothing, before = np.empty(0), 0
            n_left = max(0, self.max_iterations - done.round)
            for at in islice(method.steps(at, self.tol), n_left):  # noqa: B020  # from the last
                record = {
                    **at.record(),
                    "n_nonzero": int(np.count_nonzero(at.w)),
                    "seconds": time.perf_counter() - started,
                    "bytes_read": data.bytes_read - before,
                }
                done = done.after(nothing.astype(np.int64), nothing, record)
                recorder.note(done, at.arrays())
                started, before = time.perf_counter(), data.bytes_read
            recorder.finish()
            self._check_converged(at)
            potential = np.full(run.source.n_features, np.nan)
            potential[data.features] = method.potential(at.w)
        return _order(data.features, at, done, potential), scaling

    def _check_converged(self, at: WeightState) -> None:
        if at.residual > self.tol and at.iteration >= self.max_iterations:
            warn(
                f"The weights have not converged to tol={self.tol:g} after {at.iteration} steps. "
                "Pass a larger max_iterations=, or a larger tol=.",
            )


def _order(features: Any, at: WeightState, done: SelectionState, potential: Float) -> Order:
    """Order features by weight.

    Features of equal weight (mostly 0) are ordered by potential, then by position.
    """
    best_first = np.lexsort((features, -potential[features], -at.w))
    worst_first = best_first[::-1]
    return Order(
        features[worst_first],
        at.w[worst_first],
        np.full(at.w.size, done.round),
        done.history,
        placed="weighted",
        extra={
            "potential": (
                potential,
                "gain of the objective per unit of weight, at the final weights",
            )
        },
    )
