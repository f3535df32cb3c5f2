"""Backward elimination from end to end, and the linear kernel's one pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dhsic.engines.memory import Promise
from dhsic.errors import InputError
from dhsic.kernels.choosing import resolve_kernel
from dhsic.kernels.labels import SELF, LabelParts
from dhsic.parameters import seed_of
from dhsic.runs.labelled import factored_of
from dhsic.runs.outcome import Order
from dhsic.runs.rounds import AbstractRounds
from dhsic.scoring.adaptive import MOST_SAMPLES, AdaptiveDependence
from dhsic.scoring.dependence import SourceDependence
from dhsic.scoring.grouped import GroupedDependence
from dhsic.scoring.membership import Membership
from dhsic.scoring.planning import Plan, fitted
from dhsic.scoring.thin import ThinChoices, ThinDependence
from dhsic.selection.bahsic import bahsic
from dhsic.selection.onepass import one_pass
from dhsic.selection.policies import sizes
from dhsic.selection.state import SelectionState

AnyDependence = SourceDependence | AdaptiveDependence


@dataclass
class Elimination(AbstractRounds[AnyDependence]):
    """A run of Algorithm 1: rounds until no feature is left."""

    #: What scores are, where not falls of HSIC.
    meaning: ClassVar[str] = ""

    def check_samples(self, m: int) -> None:
        """As many as the estimator takes; and what low rank is not for."""
        super().check_samples(m)
        if self.parameters.label_kernel == SELF and self.parameters.approx == "lowrank":
            raise InputError(
                "approx='lowrank' takes labels of few directions, and label_kernel='self' has as "
                "many as samples; leave it out."
            )

    @property
    def smaller(self) -> str:
        """Low rank has no m x m matrices where samples are many."""
        m = self.n_samples
        asked = replace(self, parameters=replace(self.parameters, approx="auto"))
        if asked.plan(m).begins_thin and not self.plan(m).begins_thin and m > MOST_SAMPLES:
            return "use fewer samples or approx='lowrank'"
        return super().smaller

    def promise_for(self, m: int) -> Promise:
        """By sizes and the engines planned; survivors get less where memory is short."""
        kernel = resolve_kernel(self.parameters.kernel)
        needed, self.budget = fitted(
            self.plan(m), self.source, self.runtime, kernel, m, self.memory
        )
        return self.with_groups(needed, m)

    def plan(self, m: int) -> Plan:
        """Engines for m samples."""
        asked = self.parameters
        kernel = resolve_kernel(asked.kernel)
        if self.groups is not None or asked.label_kernel == SELF:
            return Plan(begins_thin=False, eager=False, may_square=True)
        return Plan.of(asked.approx, kernel, m, self.source.n_features, asked.label_kernel)

    def dependence(self, labels: LabelParts | None) -> AnyDependence:
        """HSIC(sigma, S) by the engines that the plan says."""
        plan = self.plan(self.n_samples)
        if self.groups is not None:
            return GroupedDependence(
                self.source,
                self.choices(labels),
                self.runtime,
                membership=Membership(self.groups.codes),
                rows=self.rows,
                memory=self.budget,
            )
        if not plan.begins_thin or labels is None:
            return SourceDependence(
                self.source,
                self.choices(labels),
                self.runtime,
                rows=self.rows,
                memory=self.budget,
            )
        asked = self.parameters
        known = self.choices(labels, weigh=False)
        thin = ThinChoices(
            known.kernel,
            known.bandwidth,
            factored_of(labels, asked.estimator, self.covariates),
            known.standardize,
            float(asked.tolerance),
            plan.may_square,
            seed_of(asked.random_state),
        )
        return AdaptiveDependence(
            ThinDependence(self.source, thin, self.runtime, rows=self.rows, memory=self.budget),
            lambda: self.choices(labels),
            eager=plan.eager,
        )

    def ahead(self, state: SelectionState) -> list[int]:
        """Survivors at the start of every round that is left."""
        step, n = self.parameters.step, state.survivors.size
        return [n] if step is None else sizes(step, n)

    def rounds(self, dependence: AnyDependence, state: SelectionState) -> Iterator[SelectionState]:
        """Algorithm 1, or all features at once."""
        if self.parameters.step is not None:
            yield from bahsic(dependence, state, self.parameters.step)
        elif state.survivors.size:
            yield one_pass(dependence, state)

    def order(self, state: SelectionState) -> Order:
        """The order of leaving."""
        return Order(
            state.eliminated,
            state.scores,
            state.removed_in,
            state.history,
            meaning=self.meaning,
        )

    def tell(self, state: SelectionState) -> None:
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
