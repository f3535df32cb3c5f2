"""FOHSIC: forward selection by Algorithm 2, until enough features are chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from dhsic.algorithms import how_many
from dhsic.algorithms.fohsic import added, floating, fohsic
from dhsic.algorithms.state import SelectionState
from dhsic.errors import InputError, warn
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF, LabelMatrix
from dhsic.kernels.ridge import AbstractMatrixFunction
from dhsic.memory import MemoryEstimate
from dhsic.methods.kernel import KernelSelector
from dhsic.passes.dependence import JOINING_LANDMARKS, SourceForward
from dhsic.passes.engineplan import MOST_SAMPLES, EnginePlan
from dhsic.passes.landmarks import PRODUCTS, LandmarkSum
from dhsic.passes.sums import SquareSum
from dhsic.results.schema import Order
from dhsic.selection.run import SelectionRun
from dhsic.validation import one_of

#: Mean probability of a wrong choice per round above which a low-rank run warns.
DOUBTFUL = 0.1
#: Number of square matrices needed to compress the low-rank factor.
SQUARES = 6


@dataclass(eq=False, repr=False, kw_only=True)
class FOHSIC(KernelSelector[SourceForward]):
    """Forward selection by Algorithm 2, with the parameters of `dhsic.FOHSIC`."""

    _method = "fohsic"
    _parameter_constraints: ClassVar = {
        **KernelSelector._parameter_constraints,
        "strategy": one_of(("forward", "floating"), "'forward' or 'floating'."),
    }
    _aside = KernelSelector._aside - {"n_features_to_select"}
    _draws = True
    takes_groups = True

    step: float | int = 1
    strategy: str = "forward"
    max_expected_loss: float = field(default=0.01, init=False)
    rerank: bool = field(default=False, init=False)

    def check_samples(self, run: SelectionRun) -> None:
        self._check_statistic(run)
        if run.groups is not None and self.strategy != "forward":
            raise InputError(
                f"strategy={self.strategy!r} removes single features, so it does not support "
                "groups. Leave strategy= out, or the groups."
            )

    def engines(self, run: SelectionRun, solver: str) -> EnginePlan:
        """Scoring engines: low rank if requested, or if (m, m) matrices are too large."""
        able = (
            self._kernel.low_rank
            and self._kernel.is_product
            and self.strategy == "forward"
            and self.label_kernel not in (SELF, "precomputed")
            and run.groups is None
        )
        large = solver == "auto" and able and run.n_samples > MOST_SAMPLES
        low_rank = solver == "lowrank" or large
        return EnginePlan(is_low_rank=low_rank, eager=False, may_square=not low_rank)

    def memory_estimate(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        needed, budget = super().memory_estimate(run)
        if self.engines(run, self.solver).is_low_rank:
            landmarks = needed.landmarks + SQUARES * 8 * PRODUCTS**2
            return replace(needed, landmarks=landmarks), budget
        if self.strategy == "forward":
            return needed, budget
        survivors = needed.survivors + 2 * 8 * run.n_samples * self._n_wanted(run)
        return replace(needed, survivors=survivors), budget

    def _dependence(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> SourceForward:
        """Create HSIC(sigma, S + {j}) of the selected features S and each candidate j.

        HSIC is computed from the full kernel matrix or in low rank. `budget` is as in `rank`.
        """
        choices, data, candidates = self._parts(run, budget)
        if self.engines(run, self.solver).is_low_rank:
            landmarks = LandmarkSum(data, self._seed, JOINING_LANDMARKS)
            return SourceForward(choices, landmarks, candidates, self._factored(run, labels))
        total = SquareSum(data, choices.kernel.sums)
        return SourceForward(choices, total, candidates, run.weights(labels, self.statistic))

    def _ahead(self, run: SelectionRun, state: SelectionState) -> list[int]:
        n, n_missing = state.survivors.size, self._n_wanted(run) - state.eliminated.size
        out = []
        while n > 0:
            out.append(n)
            n_added = added(self.step, n, n_missing)
            n, n_missing = n - n_added, n_missing - n_added
        return out

    def rounds(
        self, run: SelectionRun, dependence: SourceForward, state: SelectionState
    ) -> Iterator[SelectionState]:
        if self.strategy == "floating":
            return floating(dependence, state, self._n_wanted(run))
        return fohsic(dependence, state, self.step, self._n_wanted(run))

    def _order(self, state: SelectionState) -> Order:
        features, scores = state.eliminated[::-1], state.scores[::-1]
        return Order(features, scores, state.removed_in[::-1], state.history, placed="added")

    def _warn(self, state: SelectionState, run: SelectionRun) -> None:
        errors = [float(record.get("cut_error", 0.0)) for record in state.history[:-1]]
        if errors and sum(errors) > DOUBTFUL * len(errors):
            warn(
                "By estimate, the low-rank approximation chose another feature than the exact "
                f"method in {np.mean(errors):.0%} of the rounds (round_cut_error in the result). "
                "Pass solver='exact' if there is enough memory.",
            )

    def _n_wanted(self, run: SelectionRun) -> int:
        return how_many(self.n_features_to_select, run.n_candidates)

    def _check_rounds(self, kernel: AbstractKernel) -> None:
        if kernel.scored_by == "matrix" and not AbstractMatrixFunction.of(kernel).updates:
            raise InputError(
                f"The {kernel.name} kernel does not work in forward selection, because every "
                "candidate would need its own linear system. Pass dhsic.kernels.Ridge(), or use "
                "BAHSIC."
            )
        if self.strategy == "floating":
            self._check_floating(kernel)
        if self.solver == "lowrank":
            self._check_low_rank(kernel)

    def _check_floating(self, kernel: AbstractKernel) -> None:
        if not kernel.of_inner_products:
            raise InputError(
                f"strategy='floating' does not support the {kernel.name} kernel, which is not a "
                "kernel of inner products. Pass another kernel, or strategy='forward'."
            )
        if self.step != 1:
            raise InputError(
                f"strategy='floating' adds one feature per round, but step={self.step!r}; leave "
                "step out, or pass strategy='forward'."
            )

    def _check_low_rank(self, kernel: AbstractKernel) -> None:
        if not (kernel.low_rank and kernel.is_product):
            raise InputError(
                f"In forward selection, solver='lowrank' needs the gaussian kernel, not the "
                f"{kernel.name} kernel; leave solver out."
            )
        if self.strategy != "forward" or self.label_kernel == SELF:
            raise InputError(
                "solver='lowrank' needs strategy='forward' and labels (not label_kernel='self'). "
                "Leave solver= out."
            )

    def described(self) -> str:
        floating = "floating " if self.strategy == "floating" else ""
        kernel = self._kernel.name
        return (
            f"{floating}FOHSIC with the {kernel} kernel, {self.statistic} HSIC, step {self.step:g}"
        )
