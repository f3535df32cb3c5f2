"""Forward selection from end to end: rounds of Algorithm 2 until enough features are chosen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dhsic.engines.memory import Promise
from dhsic.engines.thin_adding import PRODUCTS
from dhsic.errors import InputError
from dhsic.kernels.choosing import resolve_kernel
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.labels import SELF, LabelParts
from dhsic.parameters import seed_of
from dhsic.runs.forward_parameters import ForwardParameters
from dhsic.runs.labelled import factored_of
from dhsic.runs.outcome import Order
from dhsic.runs.rounds import AbstractRounds
from dhsic.scoring.adaptive import MOST_SAMPLES
from dhsic.scoring.chosen import ThinChosen
from dhsic.scoring.forward import SourceForward
from dhsic.scoring.grouped import GroupedForward
from dhsic.scoring.membership import Membership
from dhsic.scoring.planning import Plan, fitted
from dhsic.selection.floating import floating
from dhsic.selection.fohsic import added, fohsic
from dhsic.selection.policies import how_many
from dhsic.selection.state import SelectionState

#: Part of the choices, on average over rounds, that low rank may likely get wrong unsaid.
DOUBTFUL = 0.1
#: Square matrices that compressing A of low rank takes.
SQUARES = 6


@dataclass
class Forward(AbstractRounds[SourceForward]):
    """A run of Algorithm 2."""

    parameters: ForwardParameters

    def check_samples(self, m: int) -> None:
        """As many as the estimator takes; and what groups are not for."""
        super().check_samples(m)
        if self.groups is not None and self.parameters.strategy != "forward":
            raise InputError(
                f"strategy={self.parameters.strategy!r} takes single features back, and groups "
                "were given; leave it out."
            )

    def promise_for(self, m: int) -> Promise:
        """As of elimination by the engine that is taken."""
        kernel = resolve_kernel(self.parameters.kernel)
        plan = Plan(begins_thin=self._is_thin(m), eager=False, may_square=not self._is_thin(m))
        needed, self.budget = fitted(plan, self.source, self.runtime, kernel, m, self.memory)
        if self._is_thin(m):
            return replace(needed, landmarks=needed.landmarks + SQUARES * 8 * PRODUCTS**2)
        if self.parameters.strategy == "forward":
            return self.with_groups(needed, m)
        return replace(needed, survivors=needed.survivors + 2 * 8 * m * self._n_wanted)

    @property
    def _n_wanted(self) -> int:
        n_all = self.source.n_features if self.groups is None else self.groups.n
        return how_many(self.parameters.n_features_to_select, n_all)

    def _is_thin(self, m: int) -> bool:
        """Low rank where it is asked for, or where m x m matrices would be too large."""
        asked = self.parameters
        able = (
            isinstance(resolve_kernel(asked.kernel), Gaussian)
            and asked.strategy == "forward"
            and asked.label_kernel not in (SELF, "precomputed")
            and self.groups is None
        )
        return asked.approx == "lowrank" or (asked.approx == "auto" and able and m > MOST_SAMPLES)

    def dependence(self, labels: LabelParts | None) -> SourceForward:
        """HSIC(sigma, S-dagger + {j}), from the whole kernel matrix or in low rank."""
        is_thin = self._is_thin(self.n_samples)
        choices = self.choices(labels, weigh=not is_thin)
        if self.groups is not None:
            return GroupedForward(
                self.source,
                choices,
                self.runtime,
                membership=Membership(self.groups.codes),
                rows=self.rows,
                memory=self.budget,
            )
        return SourceForward(
            self.source,
            choices,
            self.runtime,
            rows=self.rows,
            memory=self.budget,
            thin=self._thin(labels) if is_thin else None,
        )

    def _thin(self, labels: LabelParts | None) -> ThinChosen:
        assert labels is not None, "low rank has labels"
        asked = self.parameters
        W = factored_of(labels, asked.estimator, self.covariates)
        return ThinChosen(W, seed_of(asked.random_state))

    def ahead(self, state: SelectionState) -> list[int]:
        """Candidates of every round that is left."""
        n, n_missing = state.survivors.size, self._n_wanted - state.eliminated.size
        out = []
        while n > 0:
            out.append(n)
            taken = added(self.parameters.step, n, n_missing)
            n, n_missing = n - taken, n_missing - taken
        return out

    def rounds(self, dependence: SourceForward, state: SelectionState) -> Iterator[SelectionState]:
        """Algorithm 2, or its floating form."""
        if self.parameters.strategy == "floating":
            return floating(dependence, state, self._n_wanted)
        return fohsic(dependence, state, self.parameters.step, self._n_wanted)

    def order(self, state: SelectionState) -> Order:
        """The order of joining, turned."""
        worst_first = slice(None, None, -1)
        return Order(
            state.eliminated[worst_first],
            state.scores[worst_first],
            state.removed_in[worst_first],
            state.history,
            placed="added",
        )

    def tell(self, state: SelectionState) -> None:
        """Warn where low rank was not sure of its choices."""
        errors = [float(record.get("cut_error", 0.0)) for record in state.history[:-1]]
        if errors and sum(errors) > DOUBTFUL * len(errors):
            warnings.warn(
                "Low rank likely chose another feature than the definition in "
                f"{np.mean(errors):.0%} of the rounds, by estimate (round_cut_error in the "
                "result). Pass approx='exact' where the memory is there.",
                stacklevel=2,
            )
