"""Backward elimination from end to end, and the linear kernel's one pass.

Labels give L and L gives W; a pass over the source gives scaling and statistic; rounds of
Algorithm 1 follow, each kept by the checkpoint, until no feature is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dhsic.checkpoint import Checkpoint
from dhsic.engines.memory import Promise
from dhsic.hsic import check_estimator
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.choosing import resolve_kernel
from dhsic.kernels.labels import LabelParts
from dhsic.parameters import Parameters, seed_of
from dhsic.progress import Progress
from dhsic.runs.base import AbstractRun
from dhsic.runs.labelled import factored_of, weights_of
from dhsic.runs.measured import check_measured
from dhsic.runs.outcome import Order
from dhsic.scoring.adaptive import AdaptiveDependence
from dhsic.scoring.dependence import Choices, SourceDependence
from dhsic.scoring.planning import Plan, fitted
from dhsic.scoring.thin import ThinChoices, ThinDependence
from dhsic.selection.bahsic import bahsic
from dhsic.selection.onepass import one_pass
from dhsic.selection.policies import sizes
from dhsic.selection.state import SelectionState, begin
from dhsic.sources.scaling import Scaling


@dataclass
class Elimination(AbstractRun):
    """A run of Algorithm 1."""

    parameters: Parameters
    _budget: int | None = field(default=None, init=False)

    def check_samples(self, m: int) -> None:
        """As many as the estimator takes."""
        check_estimator(self.parameters.estimator, m)

    def promise_for(self, m: int) -> Promise:
        """By sizes and the engines planned; survivors get less where memory is short."""
        kernel = resolve_kernel(self.parameters.kernel)
        needed, self._budget = fitted(
            self._plan(m), self.source, self.runtime, kernel, m, self.memory
        )
        return needed

    def select(self, labels: LabelParts | None) -> tuple[Order, Scaling]:
        """All rounds."""
        assert labels is not None, "y was given"
        dependence = self._dependence(labels)
        try:
            if self.checkpoint is None:
                return self._rounds(dependence, None)
            with Checkpoint(self.checkpoint) as kept:
                return self._rounds(dependence, kept)
        finally:
            dependence.close()

    def _plan(self, m: int) -> Plan:
        asked = self.parameters
        kernel = resolve_kernel(asked.kernel)
        return Plan.of(asked.approx, kernel, m, self.source.n_features, asked.label_kernel)

    def _dependence(self, labels: LabelParts) -> SourceDependence | AdaptiveDependence:
        """HSIC(sigma, S) by the engines that the plan says."""
        asked = self.parameters
        kernel, bandwidth = resolve_kernel(asked.kernel), resolve_bandwidth(asked.bandwidth)
        standardize = bool(asked.standardize)

        def choices() -> Choices:
            return Choices(
                kernel,
                bandwidth,
                weights_of(labels, asked.estimator, self.covariates),
                standardize,
                np.dtype(str(asked.dtype)),
                asked.approx == "direct",
            )

        plan = self._plan(labels.n_samples)
        if not plan.begins_thin:
            return SourceDependence(
                self.source, choices(), self.runtime, rows=self.rows, memory=self._budget
            )
        thin = ThinChoices(
            kernel,
            bandwidth,
            factored_of(labels, asked.estimator, self.covariates),
            standardize,
            float(asked.tolerance),
            plan.may_square,
            seed_of(asked.random_state),
        )
        return AdaptiveDependence(
            ThinDependence(self.source, thin, self.runtime, rows=self.rows, memory=self._budget),
            choices,
            eager=plan.eager,
        )

    def _rounds(
        self, dependence: SourceDependence | AdaptiveDependence, kept: Checkpoint | None
    ) -> tuple[Order, Scaling]:
        previous = None if kept is None else kept.begin(self.identity())
        scaling = dependence.measure()
        asked = self.parameters
        check_measured(
            scaling,
            missing=asked.missing,
            standardize=bool(asked.standardize),
            has_bandwidth=resolve_kernel(asked.kernel).has_bandwidth,
        )
        state = begin(np.flatnonzero(~scaling.constant)) if previous is None else previous
        if kept is not None and previous is None:
            kept.start(state)
        dependence.check_reach()
        dependence.resume(state)
        step = asked.step
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
        return Order(state.eliminated, state.scores, state.removed_in, state.history), scaling

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
