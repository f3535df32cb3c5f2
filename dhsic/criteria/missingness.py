r"""Test whether missing values depend on the labels, for example more failed calls in cases.

Tests of a feature exclude samples without a value, so they do not detect this dependence. Missing
values that depend on the labels show that the two classes were measured in different ways. Such
features can rarely be trusted. The test needs sums of the directions of labels over the missing
samples, which are available in the pass that tests the features.

For classes, the number of missing samples in each class is hypergeometric. Each class is tested
against the others by Fisher's exact test, and the p-value is multiplied by the number of classes.
For other labels, and with covariates, the sums over n of m samples are approximately normal, with
variance ``n (m - n) / (m (m - 1))`` along each of a few orthonormal directions. If few samples are
missing, only one or two directions are used. If real labels are replaced by functions of ranks, the
first direction is a normal score (van der Waerden's test), and the second tests spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri

from dhsic._typing import Float, Index
from dhsic.criteria.null import log_of_tail

#: Maximum number of classes; and number of decimals up to which rows of directions are equal, after
#: scaling the largest entry to 1.
MOST_CLASSES, DIGITS = 64, 9
#: Maximum number of directions that are tested if labels are not classes.
MOST_DIRECTIONS = 5
#: Directions of labels count as 0 below this fraction of the largest one.
NOTHING = 1e-9
#: Minimum expected number of missing samples in a class for the normal approximation.
FEWEST_EXPECTED = 5.0
#: p-values above this are not computed exactly, because they are not reported.
ORDINARY = 1e-3
#: Family-wise significance level over all features.
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Classes of samples, used to compute class counts from sums of label directions F (m, r).

    Attributes
    ----------
    rows : (k, r)
        Row of F for each class.
    sizes : (k,)
        Number of samples in each class.
    back : (r + 1, k)
        Matrix that converts sums of the directions, and of ones (last), to numbers per class.
    """

    rows: Float
    sizes: Index
    back: Float

    @staticmethod
    def of(F: Float) -> ClassCounts | None:
        """Find classes: samples in a class have the same row of F.

        Returns None if class counts cannot be computed from sums.
        """
        scale = float(np.abs(F).max(initial=0.0)) or 1.0
        alike, first, sizes = np.unique(
            (F / scale).round(DIGITS), axis=0, return_index=True, return_counts=True
        )
        if len(alike) > MOST_CLASSES or len(alike) < 2:
            return None
        augmented = np.column_stack([F[first] / scale, np.ones(len(first))])
        if np.linalg.matrix_rank(augmented) < len(first):
            return None
        back = np.linalg.pinv(augmented)
        back[:-1] /= scale
        return ClassCounts(F[first], sizes.astype(np.int64), back)

    def counts(self, sums: Float, n: Float) -> Float:
        """Number of samples in each class, (..., k), from sums (..., r) over n (...) samples."""
        return np.rint(np.concatenate([sums, n[..., None]], axis=-1) @ self.back)


@dataclass(frozen=True, eq=False)
class MissingnessTest:
    """Test of whether missing values depend on the labels.

    Labels are centred directions F (m, r). The direction with the largest norm comes first.
    """

    F: Float

    @cached_property
    def _classes(self) -> ClassCounts | None:
        """Classes of the samples; None if labels are not classes."""
        return ClassCounts.of(self.F)

    @cached_property
    def _bases(self) -> list[tuple[Float, float]]:
        """Matrices (r, s) that map F to s orthonormal directions.

        Each matrix comes with the number of missing samples that it needs. The first matrix has the
        most directions; matrices with fewer directions need fewer samples.
        """
        _, singular, V = np.linalg.svd(self.F, full_matrices=False)
        most = min(MOST_DIRECTIONS, int((singular > NOTHING * singular[0]).sum()))
        bases = []
        for n in sorted({most, *range(1, min(2, most) + 1)}, reverse=True):
            to_basis = V[:n].T / singular[:n]
            largest = float(np.square(self.F @ to_basis).max())
            bases.append((to_basis, FEWEST_EXPECTED * largest * len(self.F)))
        return bases

    def log10_p(self, sums: Float, n: Float) -> Float:
        """Compute ``-log10 p`` of features, (c,); 0 if too few samples are missing for a test.

        Parameters
        ----------
        sums : (c, r)
            Sums of the directions over the missing samples of each feature.
        n : (c,)
            Number of missing samples.
        """
        log10_p, m = np.zeros(len(n)), len(self.F)
        at = np.flatnonzero((n > 0) & (n < m))
        if not at.size:
            return log10_p
        sums, n = sums[at], n[at]
        if self._classes is not None:
            log10_p[at] = self._of_classes(self._classes, sums, n)
            return log10_p
        smaller, of_missing = np.minimum(n, m - n), np.zeros(len(n))
        for to_basis, fewest in reversed(self._bases):  # maps with more directions overwrite others
            size = np.square(sums @ to_basis).sum(axis=1) * (m * (m - 1.0)) / (n * (m - n))
            degrees = to_basis.shape[1]
            log_p = log_of_tail(chdtrc(degrees, size), chdtr(degrees, size))
            value = -log_p / np.log(10.0)
            of_missing = np.where(smaller >= fewest, value, of_missing)
        log10_p[at] = of_missing
        return log10_p

    def _of_classes(self, groups: ClassCounts, sums: Float, n: Float) -> Float:
        """Compute ``-log10 p`` from the numbers of missing values in each class, (c,)."""
        from scipy.stats import hypergeom  # imported here because it loads slowly

        sizes, m = groups.sizes, len(self.F)
        counts, k = groups.counts(sums, n), len(sizes)
        expected = n[:, None] * sizes / m
        std = np.sqrt(expected * (1.0 - sizes / m) * ((m - n) / (m - 1.0))[:, None])
        z = np.abs(counts - expected) / np.maximum(std, NOTHING)
        log10_p = np.zeros(len(n))
        unusual = z > chdtri(1, ORDINARY) ** 0.5 / 2
        if k == 2:
            unusual[:, 1] = False  # the tests of both classes are the same
        for is_more in (True, False):
            rows, classes = np.nonzero(unusual & ((counts > expected) == is_more))
            law = hypergeom(m, sizes[classes], n[rows].astype(int))
            observed = counts[rows, classes]
            tail = law.sf(observed - 1) if is_more else law.cdf(observed)
            p = tail * (2 if k == 2 else 2 * k)
            np.maximum.at(log10_p, rows, -np.log10(np.clip(p, 1e-300, 1.0)))
        return log10_p


def missing_by_label(log10_p: Float, alive: Index) -> Index:
    """Positions of features whose missing values depend on the labels, most significant first.

    Parameters
    ----------
    log10_p : (n,)
        ``-log10 p`` of the features `alive` (n,); NaN counts as not significant.
    """
    order = np.argsort(-log10_p, kind="stable")
    clear = log10_p[order] > -np.log10(LEVEL / max(1, log10_p.size))
    return np.asarray(alive[order[clear]])
