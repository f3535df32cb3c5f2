r"""HSIC of a product of kernels, one factor for each group of features.

With ``K(S)`` the elementwise product of the ``K_g``, g in S (all ones where S is empty), HSIC
changes by ``<W, P o (1 - K_g)>`` without g, P being the product of the others, and by
``<W, K(S) o (K_g - 1)>`` with one more: differences, never values, so nothing cancels. A product
has no division either: kernels may hold zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.decide import largest, tie_width
from dhsic.errors import InputError
from dhsic.selection.bahsic import Removal

#: Rounding error of a sum, relative to the sum of the sizes of its terms.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class ProductDependence:
    """What Algorithms 1 and 2 ask about a product of kernels; by definition, in float64.

    Memory: ``3 + log2 |S|`` matrices besides the kernels; time ``|S| log2 |S|`` products of two
    matrices, elementwise, for a round backwards, and ``2 |S|`` forwards.

    Attributes
    ----------
    W : (m, m) float64
        Weights of the labels.
    kernels : sequence of (m, m) float64
        ``K_g``, symmetric.
    """

    W: Float
    kernels: Sequence[Float]

    def bandwidth(self, S: Index) -> float:
        """1: the kernels are there already."""
        del S
        return 1.0

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        r"""The n groups g with the largest HSIC(S \ {g}) (Algorithm 1, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            each = zip(S, self._without_each(S, self.W), strict=True)
            terms = np.array([_summed(others, 1.0 - self.kernels[g]) for g, others in each])
            hsic = float(np.vdot(self.W, self._product(S)))
        gains = terms[:, 0]
        return self._chosen(S, terms, -gains, n, _record(S, n, sigma, hsic))

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """The n groups g of S with the largest HSIC(S-dagger + {g}) (Algorithm 2, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            A = self.W * self._product(S_dagger)
            hsic = float(A.sum())
            terms = np.array([_summed(A, self.kernels[g] - 1.0) for g in S])
        return self._chosen(S, terms, terms[:, 0], n, _record(S, n, sigma, hsic))

    def _product(self, S: Index) -> Float:
        """``K(S)``, (m, m)."""
        K = np.ones_like(self.W)
        for g in S:
            K *= self.kernels[g]
        return K

    def _without_each(self, S: Index, outside: Float) -> Iterator[Float]:
        r"""``outside o K(S \ {g})`` for each g of S in turn, by halves: each times the other."""
        if S.size == 1:
            yield outside
            return
        halves = S[: S.size // 2], S[S.size // 2 :]
        for ours, theirs in (halves, halves[::-1]):
            yield from self._without_each(ours, outside * self._product(theirs))

    def _chosen(
        self, S: Index, terms: Float, scores: Float, n: int, record: Mapping[str, float]
    ) -> Removal:
        """The n largest gains, ties by index; `terms` (s, 2) are the gains and their sizes."""
        gains, sizes = terms.T
        if not np.isfinite(gains).all():
            raise InputError(
                f"The product of {len(self.kernels)} kernels overflows; scale each to ones on its "
                "diagonal, K / numpy.sqrt(numpy.outer(d, d)) with d = K.diagonal()."
            )
        # Kernels that imply each other, such as indicators of classes, all have gain 0: then
        # nothing but rounding errors would tell them apart.
        first = largest(gains, n, max(tie_width(gains), ROUNDING * float(sizes.max())))
        return Removal(S[first], scores[first], record)


def _summed(A: Float, change: Float) -> tuple[float, float]:
    """``<A, change>``, and the sum of the sizes of its terms."""
    change *= A
    return float(change.sum()), float(np.abs(change).sum())


def _record(S: Index, n: int, sigma: float, hsic: float) -> dict[str, float]:
    return {"n_features": S.size, "n_removed": n, "sigma": sigma, "hsic": hsic}
