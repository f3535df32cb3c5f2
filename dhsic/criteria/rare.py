"""HSIC under independence of variants that few samples carry: drawn, once for all that are alike.

Where k samples differ from all others, HSIC of permuted labels hangs on which k samples carry the
variant, and on nothing else: it takes few values, and no gamma distribution is right. So carriers
are drawn, of two classes all of them counted, and what comes out serves all variants of as many.
Missing calls of such variants are taken for the commonest code (`missing_as_commonest`), and
covariates for nothing here: they move mean and variance, which are known for every variant by
itself; the law is that of its deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import hypergeom

from dhsic._typing import Array, Float, Index
from dhsic.criteria.features import medians_of_levels
from dhsic.criteria.leveled import LevelForms
from dhsic.criteria.null import NullOf, log_tail
from dhsic.criteria.sums import gaussian
from dhsic.linalg.symmetric import LowRankSymmetric

#: Carriers up to which they are drawn, and how often.
FEW, DRAWS = 16, 8192
#: The largest values drawn, beyond which the tail is that of a gamma distribution.
BEYOND = 32
#: Deviations that are equal but for rounding, and digits of directions that are.
TIE, DIGITS = 1e-6, 12
#: Classes whose carriers are counted, not drawn.
TWO = 2
#: Codes in order of distance from the commonest one, which comes first.
OTHERS = {0: (0, 1, 2), 1: (1, 0, 2), 2: (2, 1, 0)}

#: Commonest code, and carriers of the next two.
Carriers = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class RareLaw:
    """Deviations of HSIC, ascending, and the part of carriers that reach each.

    `skewness` is that of all permutations; where carriers were drawn there are `n_sets` in all.
    """

    z: Float
    reach: Float
    skewness: float
    n_sets: int
    is_drawn: bool

    @staticmethod
    def of(C: LowRankSymmetric, null: NullOf, carriers: Carriers, estimator: str) -> RareLaw | None:
        """Law of a variant of so many carriers by the Gaussian kernel of its median width."""
        m, (code, *numbers) = C.n_samples, carriers
        counts = np.array([[m - sum(numbers), *numbers]], dtype=np.float64)
        values = np.array([OTHERS[code]], dtype=np.float64)
        sigma = 0.5 / medians_of_levels(values, counts)
        forms = LevelForms.of(gaussian(values, sigma), counts, estimator)
        return RareLaw.by(C, null, numbers, forms)

    @staticmethod
    def by(
        C: LowRankSymmetric, null: NullOf, numbers: Sequence[int], forms: LevelForms
    ) -> RareLaw | None:
        """Law of a variant of such forms, of one feature; None where HSIC is always the same.

        `numbers` are the carriers of the two codes that are not the commonest, which comes first.
        """
        m = C.n_samples
        moments = forms.moments(null, None, None)
        spread = float(np.sqrt(moments.variance[0]))
        if spread <= 1e-9 * C.norm * float(forms.norms[0]):
            return None
        columns = np.column_stack([C.F, C.diagonal])
        first, second, parts, is_drawn = _sums(columns, *numbers)
        U = np.stack([columns.sum(axis=0) - first - second, first, second], axis=1)
        observed = forms.inner(U[..., :-1], C.weights, U[..., -1])
        order = np.argsort(observed, kind="stable")
        z = (observed[order] - float(moments.mean[0])) / spread
        reach = np.minimum(np.cumsum(parts[order][::-1])[::-1], 1.0)  # sums round
        n_sets = comb(m, numbers[0]) * comb(m - numbers[0], numbers[1])
        return RareLaw(z, reach, float(moments.skewness[0]), n_sets, is_drawn)

    def log_p(self, z: Float) -> Float:
        """Logarithms of p-values of deviations, (c,)."""
        n = self.z.size
        least = np.searchsorted(self.z, z - TIE * (1.0 + np.abs(z)), side="left")
        if not self.is_drawn:
            return np.asarray(np.log(self.reach[np.minimum(least, n - 1)]))
        found = np.log((1.0 + n - least) / (1.0 + n))
        beyond = np.flatnonzero(n - least < BEYOND)
        edge = np.append(z[beyond], self.z[-BEYOND])
        tail = log_tail(edge, np.full(edge.size, self.skewness))
        far = np.log(BEYOND / n) + np.minimum(tail[:-1] - tail[-1], 0.0)
        found[beyond] = np.maximum(far, -np.log(float(self.n_sets)))
        return np.asarray(found)


def _sums(columns: Float, k: int, n: int) -> tuple[Float, Float, Float, bool]:
    """Sums (c, r) of columns (m, r) over k carriers and n others, and parts (c,) of all sets.

    One after the other for one carrier, and by how many of them are of one class for labels of two;
    else drawn, which is True then.
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
        classes = [columns[of_row.ravel() == i][0] for i in range(TWO)]
        x, y = (each.ravel() for each in np.meshgrid(np.arange(k + 1), np.arange(n + 1)))
        parts = hypergeom.pmf(x, m, sizes[1], k) * hypergeom.pmf(y, m - k, sizes[1] - x, n)
        x, y, parts = x[parts > 0], y[parts > 0], parts[parts > 0]
        first = np.multiply.outer(x, classes[1]) + np.multiply.outer(k - x, classes[0])
        second = np.multiply.outer(y, classes[1]) + np.multiply.outer(n - y, classes[0])
        return first, second, parts, False
    drawn = _drawn(m, k + n)
    first, second = sums_over(columns, drawn[:, :k]), sums_over(columns, drawn[:, k:])
    return first, second, np.full(DRAWS, 1.0 / DRAWS), True


@lru_cache(FEW)
def _drawn(m: int, k: int) -> Index:
    """`DRAWS` sets of k of m samples, the same ones whoever asks."""
    return subsets(np.random.default_rng([m, k]), m, k, DRAWS)


def subsets(rng: np.random.Generator, m: int, k: int, n: int) -> Index:
    """As n times ``rng.choice(m, k, replace=False)``, (n, k), to the bit: up to 200 times as fast.

    Floyd's algorithm, in which what is drawn twice is the last one instead; then all are shuffled.
    """
    last, places = np.arange(m - k, m), np.arange(k - 1, 0, -1)
    drawn = rng.integers(np.tile(np.append(last, places), (n, 1)), endpoint=True)
    found, every = drawn[:, :k], np.arange(n)
    for i in range(1, k):
        is_taken = (found[:, :i] == found[:, i : i + 1]).any(axis=1)
        found[is_taken, i] = last[i]
    for place, others in zip(places, drawn[:, k:].T, strict=True):
        found[every, others], found[:, place] = found[:, place].copy(), found[every, others]
    return found


def sums_over(columns: Float, drawn: Index) -> Float:
    """Sums of columns (m, r) over the rows that are drawn (n, k), (n, r)."""
    n, k = drawn.shape
    of_each = np.ones(drawn.size), drawn.ravel(), k * np.arange(n + 1)
    return np.asarray(csr_array(of_each, shape=(n, len(columns))) @ columns)


def missing_as_commonest(counts: Float, *others: Float) -> None:
    """Count missing calls of variants that few carry as their commonest code, in place.

    As the mean of the feature, next to that code, they would be as many as carriers and more: a
    level of its own to a kernel whose width is the median distance.

    Parameters
    ----------
    counts : (4, c)
        Of 0, 1, 2 and missing.
    *others : (4, c, ...)
        What goes with them: sums over each.
    """
    present = counts[:3]
    rare = np.flatnonzero((present.sum(axis=0) - present.max(axis=0) <= FEW) & (counts[3] > 0))
    commonest = present[:, rare].argmax(axis=0)
    for each in (*others, counts):
        each[commonest, rare] += each[3, rare]
        each[3, rare] = 0.0


def carriers_of(counts: Float) -> Array:
    """`Carriers` of variants of these counts of 0, 1, 2 and missing, (c, 4): (c, 3) int64."""
    code = counts[:, :3].argmax(axis=1)
    ordered = np.array([OTHERS[each] for each in range(3)])[code]
    numbers = np.take_along_axis(counts[:, :3], ordered[:, 1:], axis=1)
    return np.column_stack([code, numbers]).astype(np.int64)
