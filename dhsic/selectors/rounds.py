"""Selectors that work in rounds: labels give W, a pass gives scaling, rounds follow, each kept.

What backward elimination and forward selection share; which rounds, a subclass says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dhsic.algorithms.policies import check_step
from dhsic.algorithms.state import SelectionState, begin
from dhsic.errors import InputError
from dhsic.hsic import check_estimator, checked_factored_weights, checked_weights
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.labels import SELF
from dhsic.kernels.table import check_approx, check_bandwidth, resolve_kernel
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.memory import MemoryEstimate
from dhsic.passes.dependence import AbstractRoundDependence, Choices
from dhsic.passes.groups import OPEN_GROUPS, AbstractCandidates, Membership, Singles
from dhsic.passes.lowrank import MOST_SAMPLES
from dhsic.passes.planning import EnginePlan, memory_of
from dhsic.passes.scaled import ScaledReader
from dhsic.progress import Progress
from dhsic.results import Order
from dhsic.selectors.base import Selector
from dhsic.selectors.parameters import by, one_of, scales, such
from dhsic.selectors.run import Kept, SelectionRun
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind
from dhsic.validation import is_number

APPROX = ("auto", "exact", "lowrank", "direct")

D = TypeVar("D", bound=AbstractRoundDependence)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelSelector(Selector, Generic[D]):
    """What selectors that score sets of features by a kernel share: Algorithm 1 or 2."""

    #: Whether a round judges every feature alone.
    _alone: ClassVar[bool] = False
    _constraints: ClassVar = {
        **Selector._constraints,
        "step": by(check_step),
        "kernel": by(resolve_kernel),
        "bandwidth": by(resolve_bandwidth),
        "approx": one_of(
            APPROX,
            "'auto', 'exact' (the expansion, exact in its result), 'lowrank' (in linear time) or "
            "'direct' (the definition, slow).",
        ),
        "dtype": such(
            lambda dtype: str(dtype) in ("float32", "float64"), "'float32' or 'float64'."
        ),
        "tolerance": such(
            lambda part: is_number(part) and 0 <= part <= 1,
            "the part of the features leaving in a round that may be wrong ones, a number from 0 "
            "to 1, such as 0.02.",
        ),
    }
    takes_self: ClassVar[bool] = True

    step: float | int | None = 0.1
    kernel: Any = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    estimator: str = "unbiased"
    approx: str = "auto"
    tolerance: float = 0.02
    dtype: Any = "float32"

    @abstractmethod
    def engines(self, run: SelectionRun, approx: str) -> EnginePlan:
        """Engines of a run where `approx` is asked for."""

    @abstractmethod
    def _dependence(self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None) -> D:
        """HSIC(sigma, S), by the engines that the parameters ask for; `budget` as of `rank`."""

    @abstractmethod
    def _ahead(self, run: SelectionRun, state: SelectionState) -> list[int]:
        """Candidates of every round that is left."""

    @abstractmethod
    def rounds(
        self, run: SelectionRun, dependence: D, state: SelectionState
    ) -> Iterator[SelectionState]:
        """State after every round that is left."""

    @abstractmethod
    def _order(self, state: SelectionState) -> Order:
        """Order of the candidates."""

    @abstractmethod
    def _warn(self, state: SelectionState) -> None:
        """Warn of what the rounds showed."""

    @abstractmethod
    def _check_rounds(self, kernel: AbstractKernel) -> None:
        """Refuse what the rounds of the method cannot be asked for."""

    def _check_together(self) -> None:
        check_bandwidth(self.kernel, self.bandwidth)
        check_approx(self._kernel, self.approx)
        self._check_rounds(self._kernel)

    def identity(self) -> dict[str, Any]:
        return self._identified()

    def scales(self, values: ValueKind) -> bool:
        return scales(self.standardize, values, alone=self._alone)

    def smaller(self, run: SelectionRun) -> str:
        is_low_rank, may_be = (self.engines(run, a).is_low_rank for a in (self.approx, "auto"))
        more = " or approx='lowrank'" if may_be and not is_low_rank else ""
        return f"use fewer samples{more if run.n_samples > MOST_SAMPLES else ''}"

    def _rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        dependence = self._dependence(run, labels, budget)
        with closing(dependence), run.kept() as (kept, previous):
            scaling = dependence.measure()
            run.check_found(kept, scaling, has_bandwidth=self._kernel.has_bandwidth)
            if self.label_kernel == SELF:
                dependence.weigh_itself(
                    lambda L: checked_weights(L, self.estimator, run.covariates)
                )
            state = begin(dependence.candidates) if previous is None else previous
            if previous is None:
                kept.start(state, scaling.checksum)
            dependence.check_overflow()
            dependence.resume(state)
            state = self._to_the_end(run, dependence, state, kept)
        self._warn(state)
        order = self._order(state)
        if run.groups is not None:
            membership = Membership(run.groups.codes)
            membership.drop_constant(scaling)
            order = run.groups.spread(order, membership)
        return order, scaling

    def _to_the_end(
        self, run: SelectionRun, dependence: D, state: SelectionState, kept: Kept
    ) -> SelectionState:
        progress = Progress(run.progress, sum(self._ahead(run, state)))
        dependence.data.reporter = progress
        with closing(progress):
            for after in self.rounds(run, dependence, state):
                state = after
                kept.save(state)
                progress.round_done(state)
        kept.finish()
        return state

    @property
    def _kernel(self) -> AbstractKernel:
        return resolve_kernel(self.kernel)

    def _check_estimator(self, run: SelectionRun) -> None:
        """Refuse fewer samples than the estimator takes, and what groups are not for."""
        check_estimator(self.estimator, run.n_samples)
        if run.groups is None:
            return
        if self._kernel.scored_by == "matrix":
            raise InputError(
                f"The {self._kernel.name} kernel and groups: its matrix is no function of the "
                "parts that groups are. Take another kernel, or leave the groups out."
            )
        if self.approx == "lowrank":
            raise InputError(
                "approx='lowrank' scores single features, and groups were given; leave it out."
            )

    def _fitted(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        """Memory as of `fitted`, with the statistics of the groups that are under way."""
        m, plan = run.n_samples, self.engines(run, self.approx)
        source, runtime = run.source, run.runtime
        needed, budget = memory_of(plan, source, runtime, self._kernel, m, run.memory)
        n_open = 0 if run.groups is None else (OPEN_GROUPS + 4) * runtime.n_here
        return replace(needed, tasks=needed.tasks + n_open * 8 * m * m), budget

    def _parts(
        self, run: SelectionRun, budget: int | None
    ) -> tuple[Choices, ScaledReader, AbstractCandidates]:
        """What does not change during a run, what reads the features, and what is ranked."""
        choices = Choices(
            self._kernel,
            resolve_bandwidth(self.bandwidth),
            run.standardizes,
            np.dtype(str(self.dtype)),
            self.approx == "direct",
        )
        data = ScaledReader(run.source, run.runtime, run.rows, budget)
        return choices, data, Singles() if run.groups is None else Membership(run.groups.codes)

    def _factored(self, run: SelectionRun, labels: LabelMatrix | None) -> LowRankSymmetric:
        """W of low rank."""
        assert labels is not None, "data that are their own labels are scored exactly"
        return checked_factored_weights(labels.factor(), self.estimator, run.covariates)
