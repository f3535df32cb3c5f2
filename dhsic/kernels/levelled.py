r"""Kernels that change with a feature through its pairs of levels alone.

    ``K(S \ j) - K(S) = base o (F(x_i, x_i') + constant)``

with F a function of two values that is 0 where they are equal. There is no series, and none is
needed where features have few values: see `dhsic.engines.levelled`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel, Expansion


class AbstractLevelled(AbstractKernel):
    """`factor` is F as a function of ``(x_i - x_i')^2``."""

    #: What the loss holds besides F.
    constant: ClassVar[float] = 0.0

    @property
    def exact_order(self) -> int | None:
        """No order is."""
        return None

    @abstractmethod
    def factor(self, squared_difference: Float, sigma: float) -> Float:
        """F, an array like `squared_difference`."""

    @abstractmethod
    def exponent(self, peak: Float, sigma: float) -> Float:
        """Largest logarithm of F for features of these largest magnitudes, (c,)."""

    def expansion(self, order: int, sigma: float) -> Expansion:
        """Refuse: there is none."""
        del sigma
        raise InputError(
            f"The {self.name} kernel has no expansion of order {order}; score it by levels, or by "
            "the definition (approx='direct')."
        )
