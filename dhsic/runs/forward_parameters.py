"""Parameters of forward selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import resolve_kernel
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.labels import SELF
from dhsic.kernels.levelled import AbstractLevelled
from dhsic.kernels.ridge import AbstractWhole, Ridge
from dhsic.parameters import Parameters
from dhsic.selection.policies import how_many

STRATEGIES = ("forward", "floating")


@dataclass(frozen=True)
class ForwardParameters(Parameters):
    """Of forward selection; as of elimination, and how many to choose, and how."""

    method: ClassVar[str] = "fohsic"

    step: float | int = 1
    n_features_to_select: int | float | None = 50
    strategy: str = "forward"

    def check(self) -> ForwardParameters:
        """Refuse what is unknown before any work."""
        super().check()
        how_many(self.n_features_to_select, 1)
        kernel = resolve_kernel(self.kernel)
        if isinstance(kernel, AbstractWhole) and not isinstance(kernel, Ridge):
            raise InputError(
                f"The {kernel.name} kernel is not to be had in forward selection, where every "
                "candidate would take a system of its own; take dhsic.kernels.Ridge(), or BAHSIC."
            )
        if self.strategy not in STRATEGIES:
            raise InputError(
                f"strategy={self.strategy!r} is unknown; pass one of {', '.join(STRATEGIES)}."
            )
        if self.strategy == "floating":
            self._check_floating(kernel)
        if self.approx == "lowrank":
            self._check_low_rank(kernel)
        return self

    def _check_floating(self, kernel: AbstractKernel) -> None:
        if isinstance(kernel, AbstractWhole | AbstractLevelled):
            raise InputError(
                f"strategy='floating' and the {kernel.name} kernel: sets are compared by kernels "
                "of inner products; take another kernel, or strategy='forward'."
            )
        if self.step != 1:
            raise InputError(
                f"step={self.step!r} and strategy='floating', which adds one feature a round; "
                "leave step out, or pass strategy='forward'."
            )

    def _check_low_rank(self, kernel: AbstractKernel) -> None:
        if not isinstance(kernel, Gaussian):
            raise InputError(
                f"approx='lowrank' and the {kernel.name} kernel: forward selection in low rank "
                "takes the gaussian one; leave approx out."
            )
        if self.strategy != "forward" or self.label_kernel == SELF:
            raise InputError(
                "approx='lowrank' goes with strategy='forward' and labels of their own; leave it "
                "out."
            )

    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run."""
        return {
            **super().identity(),
            "n_features_to_select": self.n_features_to_select,
            "strategy": self.strategy,
        }

    def __str__(self) -> str:
        """In a few words."""
        name = resolve_kernel(self.kernel).name
        floating = "floating " if self.strategy == "floating" else ""
        return (
            f"{floating}FOHSIC with the {name} kernel, {self.estimator} HSIC, step {self.step:g},"
        )
