"""W and K of one estimate, in a form that answers ``<W, K>`` for a width of the data kernel.

Two forms: tiles, which are all in memory or never all there (`dhsic.independence.tiled`), and
matrices of low rank. An estimate asks a form, and does not see which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.independence.tiled import SlicedData, TiledWeights, add_row_sums
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES, AbstractBandwidth, DistanceStats, Grid
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric
from dhsic.lowrank.base import AbstractFactorizer, Landmarks


class HsicForm(ABC):
    """Weights W (m, m) and a data kernel whose width is still open.

    Attributes
    ----------
    kernel : AbstractKernel
        Kernel on the data.
    n_features : int
        Number of features d.
    """

    kernel: AbstractKernel
    n_features: int

    @abstractmethod
    def values(self, sigmas: Sequence[float]) -> list[float]:
        """``<W, K>`` for every sigma."""

    @abstractmethod
    def influence(self, sigma: float) -> tuple[Float, Float]:
        """``(W o K) 1`` and ``W Kt 1``, Kt being K without its diagonal; (m,) each."""

    @abstractmethod
    def sample(self) -> Statistic:
        """Statistic of all samples, or of so many as a median distance takes."""

    def pair_distances(self) -> Float:
        """Squared distances of the pairs of `sample`, (n,)."""
        return DistanceStats(self.kernel, None, self.sample()).pair_distances()

    def hsic(self, sigma: float) -> float:
        """``<W, K>``."""
        return self.values([sigma])[0]

    def sigma(self, policy: AbstractBandwidth) -> float:
        """Width by the policy; 1 for kernels that have none."""
        if not self.kernel.has_bandwidth:
            return 1.0
        if isinstance(policy, Grid):
            return policy.sigmas[int(np.argmax(self.values(policy.sigmas)))]
        return policy(self, self.n_features)


@dataclass(frozen=True, eq=False)
class TiledHsic(HsicForm):
    """W and the inner products of the data tile by tile, exact."""

    kernel: AbstractKernel
    n_features: int
    W: DenseSymmetric | TiledWeights
    data: Statistic | SlicedData

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """All of them in one pass over the data."""
        totals, norms = [0.0] * len(sigmas), self.data.diagonal
        for rows, columns, inner in self.data.tiles():
            W = self.W.tile(rows, columns)
            for i, sigma in enumerate(sigmas):
                K = self.kernel.gram(inner, norms[rows], norms[columns], sigma)
                totals[i] += (1 if rows == columns else 2) * float(np.vdot(W, K))
        return totals

    def influence(self, sigma: float) -> tuple[Float, Float]:
        """A pass over the data, then one over W."""
        norms = self.data.diagonal
        row_sums, sums = np.zeros(len(norms)), np.zeros(len(norms))
        for rows, columns, inner in self.data.tiles():
            K = self.kernel.gram(inner, norms[rows], norms[columns], sigma)
            if rows == columns:
                np.fill_diagonal(K, 0.0)
            add_row_sums(sums, rows, columns, K)
            K *= self.W.tile(rows, columns)
            add_row_sums(row_sums, rows, columns, K)
        return row_sums, self.W.times(sums)

    def sample(self) -> Statistic:
        return self.data if isinstance(self.data, Statistic) else self.data.sample(MEDIAN_SAMPLES)


@dataclass(frozen=True, eq=False)
class LowRankHsic(HsicForm):
    """W and K of low rank.

    Attributes
    ----------
    factorizer : AbstractFactorizer
        What factors K, and its `seed`.
    landmarks : Landmarks
        What it factors K from.
    few : (n, d) float64
        The samples that a median distance takes.
    """

    kernel: AbstractKernel
    n_features: int
    W: LowRankSymmetric
    factorizer: AbstractFactorizer
    seed: int
    landmarks: Landmarks
    few: Float

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """JMLR Lemma 6 and 7, with the true diagonal of K."""
        return [float(self.W.hadamard_sums(self._factor(sigma)).sum()) for sigma in sigmas]

    def influence(self, sigma: float) -> tuple[Float, Float]:
        """JMLR 2.6.3."""
        K = self._factor(sigma)
        return self.W.hadamard_sums(K), self.W.times(K.across)

    def sample(self) -> Statistic:
        return Statistic.of(self.few @ self.few.T)

    def _factor(self, sigma: float) -> LowRankSymmetric:
        return self.factorizer.factor(self.kernel, sigma, self.landmarks, base=None, seed=self.seed)


def few_samples(X: Float) -> Float:
    """The samples of X (m, d) that a median distance takes: every so-many-th."""
    return X[:: -(-len(X) // MEDIAN_SAMPLES)]
