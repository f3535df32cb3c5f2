"""Weights of the samples that have a value of a feature, for criteria that are kernel sums.

A missing value that is replaced by the mean of its feature is a value of its own to a Gaussian
kernel: where one class lacks more values than another, the feature seems to depend on the labels.
So samples without a value are left out. For classes, the samples present are weighted so that each
class has the total weight of all its samples, and classes keep their proportions whatever is
missing. For other labels all samples present have the same weight ``m / n``, and directions of
labels are shifted to their mean over all samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Mask
from dhsic.criteria.missingness import ClassCounts


@dataclass(frozen=True, eq=False)
class PresentWeights:
    """Weights for a label factor F (m, r).

    Attributes
    ----------
    n_samples : int
        Number of samples m.
    classes : ClassCounts or None
        Classes of the samples, by their rows of F; None if labels are not classes.
    mean : (r,)
        Mean of F over all samples.
    """

    n_samples: int
    classes: ClassCounts | None
    mean: Float

    @staticmethod
    def of(F: Float) -> PresentWeights:
        """Weights for F (m, r)."""
        return PresentWeights(len(F), ClassCounts.of(F), F.mean(axis=0))

    def of_levels(self, U: Float, counts: Float) -> tuple[Float, Float]:
        """Sums of F over levels (c, q, r) and counts (c, q), weighted where samples are missing.

        Features without a missing value keep the bits of theirs. The sums are 0 if a class has no
        value at all.
        """
        gaps = np.flatnonzero(counts.sum(axis=1) < self.n_samples)
        if not gaps.size:
            return U, counts
        U, counts = U.copy(), np.array(counts, dtype=np.float64)
        if self.classes is not None:
            by_class = self.classes.counts(U[gaps], counts[gaps])  # (g, q, k)
            by_class *= self._of_classes(by_class.sum(axis=1))[:, None]
            U[gaps], totals = by_class @ self.classes.rows, by_class.sum(axis=2)
            counts[gaps] = np.where(totals.any(axis=1, keepdims=True), totals, counts[gaps])
            return U, counts
        part = self.n_samples / counts[gaps].sum(axis=1)
        U[gaps] *= part[:, None, None]
        counts[gaps] *= part[:, None]
        shift = self.mean - U[gaps].sum(axis=1, keepdims=True) / self.n_samples
        U[gaps] += counts[gaps][:, :, None] * shift
        return U, counts

    def of_samples(self, F: Float, present: Mask) -> tuple[Float, Float]:
        """Weighted rows of F over the samples `present` (m,), (n, r), and their weights (n,)."""
        F = F[present]
        if self.classes is None:
            weights = np.full(len(F), self.n_samples / len(F))
            return (F - F.mean(axis=0) + self.mean) * weights[:, None], weights
        ones = np.ones((1, len(F)))
        by_class = self.classes.counts(F[None], ones)[0]  # (n, k)
        weights = by_class @ self._of_classes(by_class.sum(axis=0)[None])[0]
        if not weights.any():
            return np.zeros_like(F), ones[0]
        return F * weights[:, None], weights

    def _of_classes(self, n: Float) -> Float:
        """Weight of a sample of each class, (c, k), from numbers present; 0 if a class has none."""
        assert self.classes is not None, "labels are classes"
        weights = self.classes.sizes / np.maximum(n, 1.0)
        return np.where((n > 0).all(axis=1, keepdims=True), weights, 0.0)
