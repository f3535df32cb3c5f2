"""Distribution of HSIC under independence (its law) for variants with few carriers.

If only k samples carry a variant, HSIC of permuted labels depends only on the labels of these k
samples. It has few different values, and a gamma distribution does not fit. Therefore sets of
carriers are sampled, or enumerated for two classes. The resulting law is used for all variants with
the same number of carriers. Missing calls of such variants are replaced by the most frequent code
(`missing_as_commonest`). Covariates are ignored here. They change the mean and variance of HSIC,
which are known for every variant, but the law is for standardised HSIC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from scipy.sparse import csr_array

from dhsic._typing import Array, Float, Index
from dhsic.criteria.discrete import LevelForms
from dhsic.criteria.features import medians_of_levels
from dhsic.criteria.null import NullOf, log_tail
from dhsic.criteria.sums import gaussian
from dhsic.linalg.symmetric import LowRankSymmetric

#: Maximum number of carriers for this law, and number of sampled sets.
FEW, DRAWS = 16, 8192
#: Number of the largest sampled values; beyond them the tail is that of a gamma distribution.
BEYOND = 32
#: Maximum relative difference of equal values of z; and number of decimals up to which rows are
#: equal.
TIE, DIGITS = 1e-6, 12
#: Number of classes for which sets of carriers are enumerated instead of sampled.
TWO = 2
#: Codes by distance from the most frequent code, which is the key and comes first.
OTHERS = {0: (0, 1, 2), 1: (1, 0, 2), 2: (2, 1, 0)}

#: Most frequent code, and numbers of carriers of the two other codes (see `OTHERS`).
Carriers = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class RareLaw:
    """Distribution of standardised HSIC of rare variants under independence.

    `z` are ascending values, and `reach` are the probabilities of at least each value, over random
    sets of carriers. `skewness` is the skewness over all permutations; `n_sets` is the number of
    possible sets of carriers.
    """

    z: Float
    reach: Float
    skewness: float
    n_sets: int
    is_drawn: bool

    @staticmethod
    def of(C: LowRankSymmetric, null: NullOf, carriers: Carriers, statistic: str) -> RareLaw | None:
        """Compute the law for variants with these carriers, for a Gaussian kernel of median width.

        C is the label matrix, `statistic` the estimator of HSIC. Returns None if HSIC does not
        vary.
        """
        m, (code, *numbers) = C.n_samples, carriers
        counts = np.array([[m - sum(numbers), *numbers]], dtype=np.float64)
        values = np.array([OTHERS[code]], dtype=np.float64)
        sigma = 0.5 / medians_of_levels(values, counts)
        forms = LevelForms.of(gaussian(values, sigma), counts, statistic)
        return RareLaw.by(C, null, numbers, forms)

    @staticmethod
    def by(
        C: LowRankSymmetric, null: NullOf, numbers: Sequence[int], forms: LevelForms
    ) -> RareLaw | None:
        """Compute the law for variants whose matrices A are in `forms`; ``HSIC = <C, A>``.

        C is the label matrix. `numbers` are the numbers of carriers of the two less frequent codes.
        Returns None if HSIC does not vary.
        """
        m = C.n_samples
        moments = forms.moments(null, None, None)
        std = float(np.sqrt(moments.variance[0]))
        if std <= 1e-9 * C.norm * float(forms.norms[0]):
            return None
        columns = np.column_stack([C.F, C.diagonal])
        first, second, parts, is_drawn = _sums(columns, *numbers)
        U = np.stack([columns.sum(axis=0) - first - second, first, second], axis=1)
        observed = forms.inner(U[..., :-1], C.weights, U[..., -1])
        order = np.argsort(observed, kind="stable")
        z = (observed[order] - float(moments.mean[0])) / std
        reach = np.minimum(np.cumsum(parts[order][::-1])[::-1], 1.0)  # rounding may exceed 1
        n_sets = comb(m, numbers[0]) * comb(m - numbers[0], numbers[1])
        return RareLaw(z, reach, float(moments.skewness[0]), n_sets, is_drawn)

    def log_p(self, z: Float) -> Float:
        """Log p-values of standardised HSIC z, (c,)."""
        n = self.z.size
        least = np.searchsorted(self.z, z - TIE * (1.0 + np.abs(z)), side="left")
        if not self.is_drawn:
            return np.asarray(np.log(self.reach[np.minimum(least, n - 1)]))
        log_p = np.log((1.0 + n - least) / (1.0 + n))
        beyond = np.flatnonzero(n - least < BEYOND)
        edge = np.append(z[beyond], self.z[-BEYOND])
        tail = log_tail(edge, np.full(edge.size, self.skewness))
        far = np.log(BEYOND / n) + np.minimum(tail[:-1] - tail[-1], 0.0)
        log_p[beyond] = np.maximum(far, -np.log(float(self.n_sets)))
        return np.asarray(log_p)


def _sums(columns: Float, k: int, n: int) -> tuple[Float, Float, Float, bool]:
    """Sums of columns (m, r) over sets of k carriers of one code and n of another, (c, r) each.

    Also returns the probabilities of the sets, (c,), and whether they are sampled. Sets are
    enumerated if there is one carrier. If labels are two classes, the counts of carriers per class
    are enumerated. Otherwise sets are sampled.
    """
    m = len(columns)
    rows, of_row, sizes = np.unique(
        columns.round(DIGITS), axis=0, return_inverse=True, return_counts=True
    )
    if k + n == 1:
        none = np.zeros_like(columns)
        pair = (columns, none) if k else (none, columns)
        return *pair, np.full(m, 1.0 / m), False
    if len(rows) == TWO:
        from scipy.stats import hypergeom  # imported here because it loads slowly

        classes = [columns[of_row.ravel() == i][0] for i in range(TWO)]
        x, y = (each.ravel() for each in np.meshgrid(np.arange(k + 1), np.arange(n + 1)))
        parts = hypergeom.pmf(x, m, sizes[1], k) * hypergeom.pmf(y, m - k, sizes[1] - x, n)
        x, y, parts = x[parts > 0], y[parts > 0], parts[parts > 0]
        first = np.multiply.outer(x, classes[1]) + np.multiply.outer(k - x, classes[0])
        second = np.multiply.outer(y, classes[1]) + np.multiply.outer(n - y, classes[0])
        return first, second, parts, False
    carrier_sets = _sample_sets(m, k + n)
    first, second = sums_over(columns, carrier_sets[:, :k]), sums_over(columns, carrier_sets[:, k:])
    return first, second, np.full(DRAWS, 1.0 / DRAWS), True


@lru_cache(FEW)
def _sample_sets(m: int, k: int) -> Index:
    """Draw `DRAWS` random sets of k of m samples; the sets are the same in every call."""
    return subsets(np.random.default_rng([m, k]), m, k, DRAWS)


def subsets(rng: np.random.Generator, m: int, k: int, n: int) -> Index:
    """Draw n random sets of k of m numbers, (n, k).

    The draws are the same, bit for bit, as by ``rng.choice(m, k, replace=False)``, but faster.

    Floyd's algorithm replaces a repeated number by the last one. Then each set is shuffled.
    """
    last, places = np.arange(m - k, m), np.arange(k - 1, 0, -1)
    numbers = rng.integers(np.tile(np.append(last, places), (n, 1)), endpoint=True)
    subset, every = numbers[:, :k], np.arange(n)
    for i in range(1, k):
        is_taken = (subset[:, :i] == subset[:, i : i + 1]).any(axis=1)
        subset[is_taken, i] = last[i]
    for place, others in zip(places, numbers[:, k:].T, strict=True):
        subset[every, others], subset[:, place] = subset[:, place].copy(), subset[every, others]
    return subset


def sums_over(columns: Float, drawn: Index) -> Float:
    """Sums of columns (m, r) over n sets of k rows, `drawn` (n, k): (n, r)."""
    n, k = drawn.shape
    of_each = np.ones(drawn.size), drawn.ravel(), k * np.arange(n + 1)
    return np.asarray(csr_array(of_each, shape=(n, len(columns))) @ columns)


def missing_as_commonest(counts: Float, *others: Float) -> None:
    """Replace missing calls of variants with few carriers by the most frequent code, in place.

    If missing calls were replaced by the mean, they would be a separate level of the feature. This
    level would be as frequent as carriers, and matter for a kernel with the median width.

    Parameters
    ----------
    counts : (4, c)
        Counts of 0, 1, 2 and missing.
    *others : (4, c, ...)
        Sums over the samples with each code, which are merged in the same way.
    """
    present = counts[:3]
    rare = np.flatnonzero((present.sum(axis=0) - present.max(axis=0) <= FEW) & (counts[3] > 0))
    commonest = present[:, rare].argmax(axis=0)
    for each in (*others, counts):
        each[commonest, rare] += each[3, rare]
        each[3, rare] = 0.0


def carriers_of(counts: Float) -> Array:
    """`Carriers` of variants, (c, 3) int64, from counts of 0, 1, 2 and missing, (c, 4)."""
    code = counts[:, :3].argmax(axis=1)
    ordered = np.array([OTHERS[each] for each in range(3)])[code]
    numbers = np.take_along_axis(counts[:, :3], ordered[:, 1:], axis=1)
    return np.column_stack([code, numbers]).astype(np.int64)
