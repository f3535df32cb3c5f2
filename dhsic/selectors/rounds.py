"""A run of rounds: labels give W, a pass gives scaling, rounds follow, each kept.

What backward elimination and forward selection share; which rounds, a subclass says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dhsic._typing import Float
from dhsic.algorithms.state import SelectionState, begin
from dhsic.errors import InputError
from dhsic.hsic import check_estimator
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.labels import SELF
from dhsic.kernels.table import check_approx, check_bandwidth, resolve_kernel
from dhsic.memory import Promise
from dhsic.passes.dependence import AbstractRoundDependence, Choices
from dhsic.passes.groups import OPEN_GROUPS, AbstractCandidates, Membership, Singles
from dhsic.passes.scaled import ScaledReader
from dhsic.progress import Progress
from dhsic.results import Order
from dhsic.selectors.base import Selector
from dhsic.selectors.parameters import scales
from dhsic.selectors.run import AbstractRun, Kept, weights_from, weights_of
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind

D = TypeVar("D", bound=AbstractRoundDependence)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelSelector(Selector):
    """What selectors that score sets of features by a kernel share: parameters of the rounds."""

    #: Whether a round judges every feature alone.
    _alone: ClassVar[bool] = False

    step: float | int | None = 0.1
    kernel: Any = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    estimator: str = "unbiased"
    approx: str = "auto"
    tolerance: float = 0.02
    dtype: Any = "float32"

    def _check_together(self) -> None:
        check_bandwidth(self.kernel, self.bandwidth)
        check_approx(resolve_kernel(self.kernel), self.approx)
        self._check_rounds()

    @abstractmethod
    def _check_rounds(self) -> None:
        """Refuse what the rounds of the method cannot be asked for."""

    def identity(self) -> dict[str, Any]:
        kernel = resolve_kernel(self.kernel)
        return {
            "method": self._method,
            "step": self.step,
            "kernel": kernel.name,
            **{f"kernel_{k}": v for k, v in kernel.parameters().items()},
            "bandwidth": repr(resolve_bandwidth(self.bandwidth)),
            "label_kernel": self.label_kernel,
            "estimator": self.estimator,
            "approx": self.approx,
            "standardize": self.standardize,
            "missing": self.missing,
            "dtype": str(self.dtype),
            "tolerance": float(self.tolerance),
            "seed": self._seed,
            **self._besides(),
        }

    @abstractmethod
    def _besides(self) -> dict[str, Any]:
        """What else identifies a run of the method."""

    def scales(self, values: ValueKind) -> bool:
        return scales(self.standardize, values, alone=self._alone)


@dataclass(frozen=True)
class AbstractRounds(AbstractRun, Generic[D]):
    """A run of Algorithm 1 or 2."""

    parameters: KernelSelector
    takes_self: ClassVar[bool] = True

    @abstractmethod
    def dependence(self, labels: LabelMatrix | None, budget: int | None) -> D:
        """HSIC(sigma, S), by the engines that the parameters ask for; `budget` as of `select`."""

    @abstractmethod
    def ahead(self, state: SelectionState) -> list[int]:
        """Candidates of every round that is left."""

    @abstractmethod
    def rounds(self, dependence: D, state: SelectionState) -> Iterator[SelectionState]:
        """State after every round that is left."""

    @abstractmethod
    def order(self, state: SelectionState) -> Order:
        """Order of the candidates."""

    @abstractmethod
    def tell(self, state: SelectionState) -> None:
        """Warn of what the rounds showed."""

    def _check_rounds(self, m: int) -> None:
        """Refuse fewer samples than the estimator takes, and what groups are not for."""
        check_estimator(self.parameters.estimator, m)
        if self.groups is None:
            return
        kernel = resolve_kernel(self.parameters.kernel)
        if kernel.scored_by == "matrix":
            raise InputError(
                f"The {kernel.name} kernel and groups: its matrix is no function of the parts that "
                "groups are. Take another kernel, or leave the groups out."
            )
        if self.parameters.approx == "lowrank":
            raise InputError(
                "approx='lowrank' scores single features, and groups were given; leave it out."
            )

    def with_groups(self, needed: Promise, m: int) -> Promise:
        """The promise, with the statistics of the groups that are under way."""
        if self.groups is None:
            return needed
        squares = (OPEN_GROUPS + 4) * self.runtime.n_here
        return replace(needed, tasks=needed.tasks + squares * 8 * m * m)

    def data(self, budget: int | None) -> ScaledReader:
        """What rounds read the features by."""
        return ScaledReader(self.source, self.runtime, self.rows, budget)

    def candidates(self) -> AbstractCandidates:
        """What rounds remove or add: features, or groups of them."""
        return Singles() if self.groups is None else Membership(self.groups.codes)

    def weights(self, labels: LabelMatrix | None) -> Float:
        """W, (m, m); zeros until the data, which are their own labels, have been read."""
        return weights_of(labels, self.parameters.estimator, self.covariates, self.n_samples)

    def choices(self) -> Choices:
        """What does not change during a run."""
        asked = self.parameters
        return Choices(
            resolve_kernel(asked.kernel),
            resolve_bandwidth(asked.bandwidth),
            self.standardizes,
            np.dtype(str(asked.dtype)),
            asked.approx == "direct",
        )

    def select(self, labels: LabelMatrix | None, budget: int | None) -> tuple[Order, Scaling]:
        dependence = self.dependence(labels, budget)
        with closing(dependence), self.kept() as (kept, previous):
            return self._all(dependence, kept, previous)

    def _all(
        self, dependence: D, kept: Kept, previous: SelectionState | None
    ) -> tuple[Order, Scaling]:
        asked, scaling = self.parameters, dependence.measure()
        has_bandwidth = resolve_kernel(asked.kernel).has_bandwidth
        self.check_found(kept, scaling, has_bandwidth=has_bandwidth)
        if asked.label_kernel == SELF:
            dependence.weigh_itself(lambda L: weights_from(L, asked.estimator, self.covariates))
        state = begin(dependence.candidates) if previous is None else previous
        if previous is None:
            kept.start(state, scaling.checksum)
        dependence.check_overflow()
        dependence.resume(state)
        state = self._to_the_end(dependence, state, kept)
        self.tell(state)
        order = self.order(state)
        if self.groups is not None:
            order = self.groups.spread(order, self._membership(scaling))
        return order, scaling

    def _to_the_end(self, dependence: D, state: SelectionState, kept: Kept) -> SelectionState:
        progress = Progress(self.progress, sum(self.ahead(state)))
        dependence.data.reporter = progress
        try:
            for after in self.rounds(dependence, state):
                state = after
                kept.save(state)
                progress.round_done(state)
        finally:
            progress.close()
        kept.finish()
        return state

    def _membership(self, scaling: Scaling) -> Membership:
        assert self.groups is not None, "asked for groups only"
        membership = Membership(self.groups.codes)
        membership.drop_constant(scaling)
        return membership
