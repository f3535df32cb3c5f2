r"""The rational quadratic kernel ``(1 + sigma D / alpha)^(-alpha)``."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, prod
from typing import ClassVar

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.given import is_number
from dhsic.kernels.radial import AbstractRadial
from dhsic.namespace import namespace_of


@dataclass(frozen=True)
class RationalQuadratic(AbstractRadial):
    """A mixture of Gaussians of all widths about sigma; characteristic (JMLR 5.1.3's family).

    Parameters
    ----------
    alpha : float
        Above 0. The smaller, the wider the mixture; the Gaussian for alpha to infinity.

    Notes
    -----
    Sigma is the Gaussian's, with the same policies. Take it where no one width fits: clusters
    within clusters, some samples far out.
    """

    name: ClassVar[str] = "rational"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.alpha) and self.alpha > 0):
            raise InputError(f"RationalQuadratic alpha={self.alpha!r}; pass a number > 0.")

    def profile(self, z: Float) -> Float:
        """``(1 + z / alpha)^(-alpha)``."""
        kappa: Float = (1.0 + z / self.alpha) ** -self.alpha
        return kappa

    def fall(self, z: Float, t: Float) -> Float:
        """``kappa(z) ((1 - s)^(-alpha) - 1)``, s the part of ``1 + z / alpha`` that t takes."""
        xp = namespace_of(z)
        s = t / (self.alpha + z)
        fall: Float = self.profile(z) * xp.expm1(-self.alpha * xp.log1p(-s))
        return fall

    def coefficient(self, order: int, z: Float) -> Float:
        """``alpha (alpha + 1) ... / (p! alpha^p) (1 + z / alpha)^(-alpha-p)``."""
        rising = prod(self.alpha + k for k in range(order))
        first = rising / (factorial(order) * self.alpha**order)
        c: Float = first * (1.0 + z / self.alpha) ** (-self.alpha - order)
        return c

    def parameters(self) -> dict[str, float]:
        """Alpha."""
        return {"alpha": float(self.alpha)}
