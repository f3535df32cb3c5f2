r"""Missing values that depend on the labels: calls of cases fail more often than those of controls.

Tests leave missing samples out of a feature, so that this is no dependence of the feature. It says
that samples of the two kinds were measured in different ways, and such features are seldom to be
trusted. What the test takes, sums of the directions of labels over the missing samples, is at hand
in the pass that tests the features.

With classes the missing samples of each class follow a hypergeometric law (Fisher's exact test,
one class against the others, the p-value times the classes). Of other labels, and where covariates
are taken out, the sums over n of m samples are about normal, with variance
``n (m - n) / (m (m - 1))`` along each of a few orthonormal directions. For real labels by ranks the
first of these is a normal score: van der Waerden's test, and one of spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import chi2, hypergeom

from dhsic._typing import Float, Index

#: Classes whose missing samples are counted, and digits of directions that are the same.
MOST_CLASSES, DIGITS = 64, 10
#: Directions of other labels that are looked at.
MOST_DIRECTIONS = 5
#: Directions of labels, relative to the largest, below which they are none.
NOTHING = 1e-9
#: Missing samples times the least frequency of a class from which sums are about normal.
FEWEST_EXPECTED = 5.0
#: p-values above this are not computed exactly: none is told of.
ORDINARY = 1e-3
#: Level, over all features, from which on missing values depend on the labels.
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class MissingnessTest:
    """Test of missing values by the directions F (m, r) of labels, of mean 0, the largest first."""

    F: Float

    @cached_property
    def _classes(self) -> tuple[Float, Index] | None:
        """Matrix from sums to counts of missing samples per class, and sizes of the classes.

        Sums are those of the directions and, last, of ones. None where labels are no classes.
        """
        rows, sizes = np.unique(self.F.round(DIGITS), axis=0, return_counts=True)
        if len(rows) > MOST_CLASSES or len(rows) < 2:
            return None
        whole = np.column_stack([rows, np.ones(len(rows))])
        if np.linalg.matrix_rank(whole) < len(rows):
            return None
        return np.linalg.pinv(whole), sizes

    @cached_property
    def _basis(self) -> tuple[Float, float]:
        """Map (r, s) to orthonormal directions, and the fewest missing samples of a test."""
        _, singular, V = np.linalg.svd(self.F, full_matrices=False)
        n = min(MOST_DIRECTIONS, int((singular > NOTHING * singular[0]).sum()))
        to_basis = V[:n].T / singular[:n]
        largest = float(np.square(self.F @ to_basis).max())
        return to_basis, FEWEST_EXPECTED * largest * len(self.F)

    def log10_p(self, sums: Float, n: Float) -> Float:
        """``-log10 p`` of features, (c,): 0 where too few samples are missing for a test.

        Parameters
        ----------
        sums : (c, r)
            Sums of the directions over the missing samples of each feature.
        n : (c,)
            Missing samples.
        """
        found, m = np.zeros(len(n)), len(self.F)
        at = np.flatnonzero((n > 0) & (n < m))
        if not at.size:
            return found
        sums, n = sums[at], n[at]
        if self._classes is not None:
            found[at] = self._of_classes(np.column_stack([sums, n]), n)
            return found
        to_basis, fewest = self._basis
        size = np.square(sums @ to_basis).sum(axis=1) * (m * (m - 1.0)) / (n * (m - n))
        enough = np.minimum(n, m - n) >= fewest
        found[at] = np.where(enough, -chi2.logsf(size, to_basis.shape[1]) / np.log(10.0), 0.0)
        return found

    def _of_classes(self, sums: Float, n: Float) -> Float:
        """``-log10 p`` from the counts of missing samples in each class, (c,)."""
        assert self._classes is not None, "labels are classes"
        back, sizes = self._classes
        counts, m, k = np.rint(sums @ back), len(self.F), len(sizes)
        expected = n[:, None] * sizes / m
        spread = np.sqrt(expected * (1.0 - sizes / m) * ((m - n) / (m - 1.0))[:, None])
        z = np.abs(counts - expected) / np.maximum(spread, NOTHING)
        found = np.zeros(len(n))
        rows, classes = np.nonzero(z > chi2.isf(ORDINARY, 1) ** 0.5 / 2)
        law = hypergeom(m, sizes[classes], n[rows].astype(int))
        seen = counts[rows, classes]
        p = np.minimum(law.sf(seen - 1), law.cdf(seen)) * (2 if k == 2 else 2 * k)
        np.maximum.at(found, rows, -np.log10(np.clip(p, 1e-300, 1.0)))
        return found


def missing_by_label(log10_p: Float, alive: Index) -> Index:
    """Positions of the features whose missing values depend on the labels, the clearest first.

    Parameters
    ----------
    log10_p : (n,)
        ``-log10 p`` of the features `alive` (n,), of which NaN is none.
    """
    order = np.argsort(-log10_p, kind="stable")
    clear = log10_p[order] > -np.log10(LEVEL / max(1, log10_p.size))
    return np.asarray(alive[order[clear]])
