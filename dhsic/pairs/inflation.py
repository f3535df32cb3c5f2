r"""Inflation: factor by which the shares of all pairs exceed the shares with permuted labels.

Permutations give the null distribution if samples are exchangeable. Related samples are not:
polygenic effects are correlated among relatives, and so are products of any two variants. Every
share of explained variance, including the largest, is then larger than with permuted labels. Most
pairs have no effect, so the factor can be estimated from the median share. `Inflation` is the
median share of a sample of pairs, divided by the mean of the medians of permutations for the same
pairs. Its rank among the permutations gives a p-value. Deviances of shares are divided by the
inflation (genomic control; Devlin and Roeder, 1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from dhsic._typing import Array, Float, Index
from dhsic.namespace import slices
from dhsic.pairs.share import Labels
from dhsic.passes.reader import Reader

#: Approximate number of pairs in the sample; and minimum number for computing the inflation.
SAMPLED, FEWEST = 1 << 16, 1000
#: Level of the permutation p-value at which inflation is significant.
BEYOND_CHANCE = 0.05
#: Number of single features that are looked at, and of values that are read at a time; minimum
#: number of features, and inflation of their main effects that is reported.
SINGLE, VALUES, FEWEST_SINGLE, MUCH = 1024, 1 << 20, 200, 2.0


@dataclass(frozen=True, slots=True)
class Inflation:
    """Inflation factor of the shares of all pairs, and its permutation p-value."""

    times: float
    p: float

    @classmethod
    def of(cls, medians: Float) -> Inflation | None:
        """Compute the inflation from the result of `medians_of`; None if that is empty."""
        if not medians.size:
            return None
        here, of_permutations = medians[0], medians[1:]
        rank = 1 + int((of_permutations >= here).sum())
        return cls(float(here / of_permutations.mean()), rank / (1 + of_permutations.size))

    @property
    def is_real(self) -> bool:
        """Whether the inflation is significant."""
        return self.times > 1 and self.p <= BEYOND_CHANCE

    @property
    def corrected(self) -> float:
        """Factor by which deviances are divided; 1 without significant inflation."""
        return self.times if self.is_real else 1.0


def medians_of(some: Array) -> Float:
    """Medians (1 + B,) of the approximate shares of variance (1 + B, s) that s pairs explain.

    The first row is for the observed labels, the others for B permutations. The result is empty if
    s is too small.
    """
    if some.shape[1] < FEWEST:
        return np.empty(0)
    medians = np.median(some, axis=1).astype(np.float64)
    return medians if medians[1:].any() else np.empty(0)


def every(n_pairs: int) -> int:
    """Odd number n, such that every n-th pair is sampled to estimate the inflation."""
    return (n_pairs // SAMPLED) | 1


def main_inflation(reader: Reader, alive: Index, labels: Labels) -> float | None:
    """Compute the inflation of main effects of single features; None if there are few features.

    It is the median chi-square of about `SINGLE` of the features `alive`, divided by its median
    under independence (genomic control). If labels depend on populations or batches, and features
    differ between them, products of features are associated with the labels. A permutation cannot
    show this.
    """
    if alive.size < FEWEST_SINGLE:
        return None
    places = np.linspace(0, alive.size - 1, min(SINGLE, alive.size)).round().astype(np.int64)
    shares, (m, t) = [], labels.U.shape
    for batch in slices(places.size, max(1, VALUES // m)):
        X = reader.values(alive[places[batch]])
        X = X - (X @ labels.Q) @ labels.Q.T
        norms = np.maximum((X**2).sum(axis=1), np.finfo(float).tiny)
        shares.append(((X @ labels.U) ** 2).sum(axis=1) / norms)
    median = float(np.median(np.concatenate(shares)))
    chi_square_median = 2.0 * gammaincinv(t / 2.0, 0.5)  # t degrees of freedom
    return float((m - labels.Q.shape[1]) * median / chi_square_median)
