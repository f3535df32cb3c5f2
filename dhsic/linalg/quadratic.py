"""Quadratic forms ``x' A x`` of a symmetric matrix: one triangle of it, half of a product.

With A in panels of columns, ``x' A x = sum_panels x_p' (T x)_p``, where T is A on and next to the
diagonal, twice A below and nothing above. A panel of ``T x`` is used up while it is in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.namespace import Movable, namespace_of, zeros

#: Columns of a panel: products of this width run at nearly full speed, little of the upper
#: triangle comes along, and so few products are summed in the working dtype.
PANEL = 128


@dataclass(frozen=True, slots=True)
class Quadratic(Movable):
    """A symmetric (m, m) matrix, ready for quadratic forms.

    Attributes
    ----------
    panels : tuple of arrays
        Panel p is (m - a, b - a), the columns a..b of T from row a on.
    """

    panels: tuple[Array, ...]

    @staticmethod
    def of(A: Float, scale: float, dtype: Any) -> Quadratic:
        """``A / scale``, cast to the dtype."""
        panels = []
        for a in range(0, len(A), PANEL):
            part = A[a:, a : a + PANEL]
            panel = np.empty(part.shape, dtype=dtype)
            np.multiply(part, 2 / scale, out=panel, casting="same_kind")
            panel[: part.shape[1]] *= 0.5
            panels.append(panel)
        return Quadratic(tuple(panels))

    def forms(self, X: Array) -> Float:
        """``x' A x`` of every row of X (c, m), float64 (c,)."""
        xp = namespace_of(X)
        out = zeros(X.shape[0], like=X)
        a = 0
        for panel in self.panels:
            b = a + panel.shape[1]
            out += xp.vecdot(X[:, a:b], X[:, a:] @ panel)
            a = b
        return out

    def pairs(self, X: Array) -> Float:
        """``x_k' A x_l`` of the rows of X (n, c, m) with each other, float64 (n, n, c).

        ``x_k' T x_l`` holds the entries of A below the diagonal twice, ``x_l' T x_k`` those above.
        """
        xp = namespace_of(X)
        n, c, m = X.shape
        out = zeros((n, n, c), like=X)
        a = 0
        for panel in self.panels:
            b = a + panel.shape[1]
            product = xp.reshape(X[..., a:], (n * c, m - a)) @ panel
            product = xp.reshape(product, (1, n, c, b - a))
            out += xp.vecdot(X[:, None, :, a:b], product)
            a = b
        pairs: Float = (out + xp.permute_dims(out, (1, 0, 2))) / 2
        return pairs
