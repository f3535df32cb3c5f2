"""A run: the eight steps from a source and labels to an order of the features.

Labels give L and L gives W; a pass over the source gives scaling and statistic; rounds of
Algorithm 1 follow, each kept by the checkpoint, until no feature is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from numbers import Real
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.checkpoint import Checkpoint
from dhsic.engines.memory import Promise
from dhsic.errors import InputError
from dhsic.hsic import check_estimator, weights
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.choosing import resolve_kernel
from dhsic.kernels.label_factors import factor_of
from dhsic.kernels.labels import LabelParts, label_parts
from dhsic.lowrank.weights import FactoredWeights, factored_weights
from dhsic.parameters import Parameters, seed_of
from dhsic.progress import Hook, Progress, check_progress
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.blas import single_blas_thread
from dhsic.scoring.adaptive import AdaptiveDependence
from dhsic.scoring.dependence import Choices, SourceDependence
from dhsic.scoring.planning import Plan, fitted
from dhsic.scoring.thin import ThinChoices, ThinDependence
from dhsic.selection.bahsic import bahsic, begin
from dhsic.selection.onepass import one_pass
from dhsic.selection.policies import sizes
from dhsic.selection.state import SelectionState
from dhsic.sources.base import AbstractSource
from dhsic.sources.domain import warn_of_codes
from dhsic.sources.scaling import Scaling
from dhsic.versions import versions

#: Values of features up to here, as scaled, have powers that are numbers.
LARGEST_PEAK = 1e15
#: Data all below this ask for a sigma whose powers are none.
SMALLEST_PEAK = 1e-4


@dataclass(frozen=True)
class Outcome:
    """What a run found out; `dhsic.results.to_dataset` makes it presentable."""

    state: SelectionState
    scaling: Scaling
    labels: LabelParts
    parameters: Mapping[str, Any]
    source: AbstractSource
    n_samples: int
    promise: Promise
    runtime: str

    @property
    def order(self) -> Index:
        """All features, the least relevant first: S-dagger behind the constant features."""
        return np.concatenate([np.flatnonzero(self.scaling.constant), self.state.eliminated])


@dataclass
class Run:
    """One run, ready to go; `announce` hears the memory promise before the work begins."""

    source: AbstractSource
    y: Array
    parameters: Parameters
    runtime: AbstractRuntime
    covariates: Array | None = None
    rows: Index | None = None
    checkpoint: str | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    progress: str | bool | Hook = False
    memory: int | None = None
    announce: Callable[[Promise], object] | None = None
    _budget: int | None = field(default=None, init=False)

    def execute(self) -> Outcome:
        """Do it, from the start or from where the checkpoint left off."""
        self.parameters.check()
        check_progress(self.progress)
        check_memory(self.memory)
        m = self.source.n_samples if self.rows is None else len(self.rows)
        self._check_sizes(m)
        check_estimator(self.parameters.estimator, m)
        needed, self._budget = self._fitted(m)
        needed.check(self.memory)
        if self.announce is not None:
            self.announce(needed)
        warn_of_codes(self.source, self.rows)
        with single_blas_thread():
            labels = label_parts(self.y, self.parameters.label_kernel)
            if labels.n_samples != m:
                raise InputError(
                    f"The label matrix is {labels.n_samples} x {labels.n_samples} and there are "
                    f"{m} samples; pass one row a sample."
                )
            state, scaling = self._select(labels)
        return Outcome(
            state,
            scaling,
            labels,
            self.parameters.identity(),
            self.source,
            m,
            needed,
            self.runtime.name,
        )

    def _check_sizes(self, m: int) -> None:
        if self.source.n_features == 0 or m == 0:
            raise InputError(
                f"The data have {m} samples and {self.source.n_features} features; there is "
                "nothing to select from."
            )
        if len(self.y) != m:
            hint = (
                " The number of features matches: the matrix may be transposed (sample_dim=)."
                if len(self.y) == self.source.n_features
                else ""
            )
            raise InputError(
                f"y has {len(self.y)} labels and the data have {m} samples; pass one label a "
                f"sample, in the order of the samples.{hint}"
            )

    def _weights(self, labels: LabelParts) -> Float:
        """W, (m, m)."""
        everyone = slice(0, labels.n_samples)
        L = labels.tile(everyone, everyone)
        W = weights(L, self.parameters.estimator, self.covariates)
        self._check_left(float(np.abs(W).max()), float(np.abs(L).max()), labels.n_samples)
        return W

    def _factored(self, labels: LabelParts) -> FactoredWeights:
        """W as a product of thin matrices."""
        factor = factor_of(labels)
        W = factored_weights(factor, self.parameters.estimator, self.covariates)
        largest = float((np.square(factor.B) @ np.abs(factor.weights)).max())
        self._check_left(W.norm / len(factor.B), largest, len(factor.B))
        return W

    def _check_left(self, largest_weight: float, largest_label: float, m: int) -> None:
        if largest_weight * m * m <= 1e-9 * largest_label:
            raise InputError(
                "Nothing is left of the labels once their mean and the covariates are taken "
                "out; pass labels that vary, or fewer covariates."
            )

    def promised_for(self, m: int) -> Promise:
        """Memory that the run will need at most, for m samples."""
        return self._fitted(m)[0]

    def _fitted(self, m: int) -> tuple[Promise, int | None]:
        """The promise, and what survivors get if it is less than they could."""
        kernel = resolve_kernel(self.parameters.kernel)
        return fitted(self._plan(m), self.source, self.runtime, kernel, m, self.memory)

    def _plan(self, m: int) -> Plan:
        asked = self.parameters
        kernel = resolve_kernel(asked.kernel)
        return Plan.of(asked.approx, kernel, m, self.source.n_features, asked.label_kernel)

    def _select(self, labels: LabelParts) -> tuple[SelectionState, Scaling]:
        dependence = self._dependence(labels)
        try:
            if self.checkpoint is None:
                return self._rounds(dependence, None)
            with Checkpoint(self.checkpoint) as kept:
                return self._rounds(dependence, kept)
        finally:
            dependence.close()

    def _dependence(self, labels: LabelParts) -> SourceDependence | AdaptiveDependence:
        """HSIC(sigma, S) by the engines that the plan says."""
        parameters = self.parameters
        kernel, bandwidth = (
            resolve_kernel(parameters.kernel),
            resolve_bandwidth(parameters.bandwidth),
        )
        standardize = bool(parameters.standardize)

        def choices() -> Choices:
            return Choices(
                kernel,
                bandwidth,
                self._weights(labels),
                standardize,
                np.dtype(str(parameters.dtype)),
                parameters.approx == "direct",
            )

        plan = self._plan(labels.n_samples)
        if not plan.begins_thin:
            return SourceDependence(
                self.source, choices(), self.runtime, rows=self.rows, memory=self._budget
            )
        thin = ThinChoices(
            kernel,
            bandwidth,
            self._factored(labels),
            standardize,
            float(parameters.tolerance),
            plan.may_square,
            seed_of(parameters.random_state),
        )
        return AdaptiveDependence(
            ThinDependence(self.source, thin, self.runtime, rows=self.rows, memory=self._budget),
            choices,
            eager=plan.eager,
        )

    def _rounds(
        self, dependence: SourceDependence | AdaptiveDependence, kept: Checkpoint | None
    ) -> tuple[SelectionState, Scaling]:
        previous = None if kept is None else kept.begin(self._identity())
        scaling = dependence.measure()
        self._check_measured(scaling)
        state = begin(np.flatnonzero(~scaling.constant)) if previous is None else previous
        if kept is not None and previous is None:
            kept.start(state)
        dependence.check_reach()
        dependence.resume(state)
        step = self.parameters.step
        ahead = [state.survivors.size] if step is None else sizes(step, state.survivors.size)
        progress = Progress(self.progress, sum(ahead))
        dependence.reporter = progress
        try:
            for state in _loop(dependence, state, step):  # noqa: B020  # the next from the last
                if kept is not None:
                    kept.save(state)
                progress.round_done(state)
        finally:
            progress.close()
        if kept is not None:
            kept.finish()
        self._tell_of_error(state)
        return state, scaling

    def _tell_of_error(self, state: SelectionState) -> None:
        """Warn where low rank was not as good as asked for."""
        errors = [float(record.get("cut_error", 0.0)) for record in state.history]
        above = sum(error > self.parameters.tolerance for error in errors)
        if above:
            warnings.warn(
                f"In {above} of {len(errors)} rounds more of the features that left are likely "
                f"the wrong ones than tolerance={self.parameters.tolerance:g} allows, by estimate "
                f"up to {max(errors):.2g} (round_cut_error in the result): with so many samples "
                "low rank can do no better. Pass a higher tolerance=, or approx='exact' where the "
                "memory is there.",
                stacklevel=2,
            )

    def _check_measured(self, scaling: Scaling) -> None:
        n = int((scaling.n_missing > 0).sum())
        if self.parameters.missing == "error" and n:
            first = int(np.flatnonzero(scaling.n_missing)[0])
            raise InputError(
                f"{int(scaling.n_missing.sum())} values are missing in {n} features (first: "
                f"feature {first}) and missing='error'; fill them in, or pass missing='mean'."
            )
        self._check_range(scaling)
        if scaling.constant.all():
            raise InputError(
                f"All {scaling.constant.size} features are constant over the samples; there is "
                "nothing to rank. Check the orientation and the choice of samples."
            )

    def _check_range(self, scaling: Scaling) -> None:
        """Refuse features whose squares or products no number holds."""
        beyond = np.flatnonzero(~np.isfinite(scaling.std) | ~(scaling.peak < LARGEST_PEAK))
        if beyond.size:
            raise InputError(
                f"{beyond.size} features (first: feature {beyond[0]}, of mean "
                f"{scaling.mean[beyond[0]]:.3g}) hold values so large, or vary by so little, that "
                "squares leave the range of floating-point numbers. Rescale them, take logarithms"
                + ("." if self.parameters.standardize else ", or pass standardize=True.")
            )
        highest = float(scaling.peak.max())
        if resolve_kernel(self.parameters.kernel).has_bandwidth and 0 < highest < SMALLEST_PEAK:
            raise InputError(
                f"No feature is further than {highest:.3g} from its mean, which asks for a sigma "
                "beyond numbers. Pass standardize=True, or rescale the data."
            )

    def _identity(self) -> dict[str, Any]:
        digest = sha256()
        for array in (self.y, self.covariates, self.rows):
            digest.update(repr(None if array is None else np.asarray(array).tolist()).encode())
        return {
            "source": self.source.fingerprint(),
            "parameters": {**self.parameters.identity(), "labels": digest.hexdigest()},
            "versions": versions(),
            "job": dict(self.job),
        }


def check_memory(memory: object) -> None:
    """Refuse what is no number of bytes."""
    size = float(memory) if isinstance(memory, Real) else 0.0
    if memory is not None and (memory is True or not size > 0):
        raise InputError(
            f"memory={memory!r}; pass a number of bytes, such as 8 * 2**30, or None for what the "
            "machine has."
        )


def _loop(
    dependence: SourceDependence | AdaptiveDependence,
    state: SelectionState,
    step: float | int | None,
) -> Iterator[SelectionState]:
    if step is None:
        if state.survivors.size:
            yield one_pass(dependence, state)
    else:
        yield from bahsic(dependence, state, step)
