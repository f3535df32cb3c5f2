"""W and K of one estimate, in a form that answers ``<W, K>`` for a width of the data kernel.

Three forms: matrices in memory (here), tiles that are never all there
(`dhsic.independence.tiled`), and factors of low rank (here). An estimate asks a
pairing, and does not see its form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float
from dhsic.hsic import FactoredWeights
from dhsic.kernels.bandwidth import AbstractBandwidth, DistanceStats, Grid, hsic_value
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic
from dhsic.lowrank.base import AbstractFactorizer, Factor, Landmarks
from dhsic.lowrank.landmarks import BaseRows


class AbstractPairing(ABC):
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


def chosen_sigma(pairing: AbstractPairing, policy: AbstractBandwidth) -> float:
    """Sigma by the policy; 1 for kernels that have none."""
    if not pairing.kernel.has_bandwidth:
        return 1.0
    if isinstance(policy, Grid):
        return policy.sigmas[int(np.argmax(pairing.values(policy.sigmas)))]
    return policy(pairing, pairing.n_features)


@dataclass(frozen=True, eq=False)
class DensePairing(AbstractPairing):
    """W and the statistic of all pairs in memory, (m, m) each."""

    kernel: AbstractKernel
    n_features: int
    W: Float
    statistic: Statistic

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """Tile by tile, in the cache."""
        return [hsic_value(self.kernel, sigma, self.W, self.statistic) for sigma in sigmas]

    def influence(self, sigma: float) -> tuple[Float, Float]:
        """Sums over tiles, then one product with W."""
        norms = self.statistic.diagonal
        row_sums, sums = np.zeros(len(self.W)), np.zeros(len(self.W))
        for rows, columns, inner in self.statistic.tiles():
            K = self.kernel.gram(inner, norms[rows], norms[columns], sigma)
            if rows == columns:
                np.fill_diagonal(K, 0.0)
            sums[rows] += K.sum(axis=1)
            if rows != columns:
                sums[columns] += K.sum(axis=0)
            K *= self.W[rows, columns]
            row_sums[rows] += K.sum(axis=1)
            if rows != columns:
                row_sums[columns] += K.sum(axis=0)
        return row_sums, self.W @ sums

    def sample(self) -> Statistic:
        """All of it."""
        return self.statistic


@dataclass(frozen=True, eq=False)
class FactoredPairing(AbstractPairing):
    """W and K as products of thin matrices, (m, q) and (m, r).

    Attributes
    ----------
    weights : FactoredWeights
        W.
    factorizer : AbstractFactorizer
        What factors K, and its `seed`.
    landmarks : Landmarks
        What it factors K from; the norms of the samples give the diagonal of K.
    few : (n, d) float64
        The samples that a median distance takes.
    """

    kernel: AbstractKernel
    n_features: int
    weights: FactoredWeights
    factorizer: AbstractFactorizer
    seed: int
    landmarks: Landmarks
    few: Float

    def values(self, sigmas: Sequence[float]) -> list[float]:
        """JMLR Lemma 6 and 7, with the true diagonal of K."""
        return [float(self._row_sums(self._factor(s), s).sum()) for s in sigmas]

    def influence(self, sigma: float) -> tuple[Float, Float]:
        """JMLR 2.6.3; the diagonal that the factor has is taken out of its row sums."""
        K = self._factor(sigma)
        sums = K.F @ (K.weights * K.F.sum(axis=0)) - (K.F * K.F) @ K.weights
        return self._row_sums(K, sigma), self.weights.times(sums)

    def sample(self) -> Statistic:
        """Of every so-many-th sample."""
        return Statistic.of(self.few @ self.few.T)

    def _factor(self, sigma: float) -> Factor:
        return self.factorizer.factor(self._itself(), sigma, self.landmarks, seed=self.seed)

    def _row_sums(self, K: Factor, sigma: float) -> Float:
        diagonal = BaseRows(self._itself(), sigma, self.landmarks).diagonal()
        return self.weights.row_sums(K.F, K.weights, diagonal)

    def _itself(self) -> AbstractKernel:
        """Kernel whose first base matrix is K, which factorizers factor; the linear one's is 1."""
        return self.kernel.with_gram_base
