r"""The inverse distance kernel, ``1 / (||x - x'|| + eps)`` but for a factor (JMLR 9.2, "dis")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.given import is_number
from dhsic.kernels.radial import AbstractRadial
from dhsic.namespace import namespace_of


@lru_cache(maxsize=16)
def _root_series(order: int) -> tuple[float, ...]:
    """b_1, ..., b_order of ``1 - sqrt(1 - y) = sum_n b_n y^n``, all positive."""
    b = [0.5]
    for n in range(2, order + 1):
        b.append(b[-1] * (2 * n - 3) / (2 * n))
    return tuple(b)


@dataclass(frozen=True)
class InverseDistance(AbstractRadial):
    """``eps / (sqrt(2 sigma D) + eps)``: 1 at distance 0, the inverse of the distance far out.

    Parameters
    ----------
    eps : float
        Above 0. Distances shorter than `eps` widths count as about the same; the smaller it is,
        the more the kernel hangs on the closest pairs of samples.

    Notes
    -----
    The paper's ``1 / (||x - x'|| + eps)`` is this kernel at ``bandwidth=0.5`` over `eps`; the
    factor changes no ranking, and without it HSIC would grow with the width and no grid of widths
    could be chosen from. With the other policies `eps` is in widths: ``eps / sqrt(2 sigma)``.
    On the diagonal it is 1, which the unbiased estimator does not see. Take it where samples form
    clusters of very different sizes, and few samples: it looks at all scales alike.
    """

    name: ClassVar[str] = "inverse-distance"
    eps: float = 0.1

    def __post_init__(self) -> None:
        if not (is_number(self.eps) and self.eps > 0):
            raise InputError(f"InverseDistance eps={self.eps!r}; pass a number > 0.")

    def profile(self, z: Float) -> Float:
        """``eps / (sqrt(2 z) + eps)``."""
        kappa: Float = self.eps / (namespace_of(z).sqrt(2.0 * z) + self.eps)
        return kappa

    def fall(self, z: Float, t: Float) -> Float:
        """``eps (u - v) / ((u + eps) (v + eps))`` with ``u - v = 2 t / (u + v)``.

        u and v are the roots of ``2 z`` and of ``2 (z - t)``.
        """
        xp = namespace_of(z)
        u, v = xp.sqrt(2.0 * z), xp.sqrt(2.0 * (z - t))
        gap = 2.0 * t / xp.where(u > 0, u + v, xp.ones_like(u))
        fall: Float = self.eps * gap / ((u + self.eps) * (v + self.eps))
        return fall

    def coefficient(self, order: int, z: Float) -> Float:
        """Of ``kappa(z) / (1 - rho sum_n b_n y^n)`` in ``y = t / z``, over ``z^p``.

        ``rho = r / (r + eps)``, ``r = sqrt(2 z)``: the reciprocal of a series, term by term.
        """
        r = namespace_of(z).sqrt(2.0 * z)
        rho = r / (r + self.eps)
        b = _root_series(order)
        e = [rho * 0.0 + 1.0]
        for n in range(1, order + 1):
            e.append(rho * sum(b[k - 1] * e[n - k] for k in range(1, n + 1)))
        c: Float = self.eps / (r + self.eps) * e[order]
        for _ in range(order):
            c = c / z
        return c

    def parameters(self) -> dict[str, float]:
        """What keeps it finite."""
        return {"eps": float(self.eps)}
