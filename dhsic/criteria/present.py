"""Weights of the samples with a value of a feature, for criteria that are kernel sums.

If missing values were replaced by the mean, a Gaussian kernel would treat the mean as a separate
value: if more values are missing in one class than in another, the feature would seem to depend on
the labels. So samples with a missing value are excluded. For classes, the other samples are
weighted so that each class keeps the total weight of all its samples. The proportions of classes
then do not depend on missing values. For other labels, the n samples with a value all have the
weight ``m / n``, and directions of labels are shifted to their mean over all m samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Float, Mask
from dhsic.criteria.missingness import ClassCounts


@dataclass(frozen=True, eq=False)
class PresentWeights:
    """Weights of the samples with a value of a feature, for label directions F (m, r).

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
        """Create the sample weights for the label directions F, (m, r): one row per sample.

        ``F diag(w) F'`` is the label matrix.
        """
        return PresentWeights(len(F), ClassCounts.of(F), F.mean(axis=0))

    def of_levels(self, U: Float, counts: Float) -> tuple[Float, Float]:
        """Weighted sums of F over the levels of features, (c, q, r), and weighted counts, (c, q).

        U (c, q, r) and `counts` (c, q) are the unweighted sums and numbers of samples. They are
        returned unchanged for features without missing values. Sums are 0 if all values of a class
        are missing.
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
        """Weighted rows of F, (n, r), and weights, (n,), of the n samples in the mask `present`.

        The rows are those of the label directions F (m, r).
        """
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
        """Weights (c, k) of samples by class, from the numbers n (c, k) of samples with a value.

        If a class has no sample with a value, all weights of the feature are 0.
        """
        assert self.classes is not None, "labels are classes"
        weights = self.classes.sizes / np.maximum(n, 1.0)
        return np.where((n > 0).all(axis=1, keepdims=True), weights, 0.0)
