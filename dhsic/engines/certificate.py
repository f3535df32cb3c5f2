r"""How far fast gains are from the definition, and what that means for the features that leave.

The gain of feature j is a sum over pairs of samples, so what an A of low rank misses of it,
``E_j = <A - A_low, decrement_j>``, is estimated on rows i that its factor has not seen, where A is
known exactly:

    ``e_j = (m / n) sum_i t_ij``,  ``t_ij`` the part of row i.

The error of a gain grows with the feature's mean square, so it is measured in units of that; and
where all features have the same, an error that they share moves none of them in the order, so the
mean over features is taken out. The rows are a sample, hence e_j has a variance
``V_j`` that is estimated from the spread of its rows, and two estimates of the mean of ``E_j^2``
follow: ``e_j^2 - V_j``, right whatever the error looks like but noisy where the rows are few; and
``2 (n / m) V_j``, right where what A misses has no structure that the features share, and precise.
The second is taken, and the first where it is larger by more than chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines.question import LowRankQuestion
from dhsic.lowrank.base import BaseRows, Landmarks
from dhsic.namespace import slices

#: Standard deviations that count as more than chance, and that no error ever comes to.
CHANCE, FAR = 2.0, 9.0
#: Mean squares that differ by less, relative to the largest, are the same.
SAME = 1e-3
#: Features next to the threshold that its error is estimated from: this part, and at least.
NEAR, FEWEST = 0.25, 64
#: Equal parts of the features that stay, by which it is told where they stand.
BINS = 20
#: Gains that are looked at at a time.
AT_A_TIME = 1 << 17


@dataclass(frozen=True, slots=True)
class Certificate:
    """Estimated error of the gains of a round.

    `relative_error` is the root mean square error of gains over their standard deviation,
    `expected_swap_rate` the part of the features that leave which the definition would keep, by
    expectation, and `deviation` the root mean square error of the gains next to the threshold, per
    mean square of a feature. `wrong` (bins,) are features that leave by mistake, by where they
    should stand among those that stay (`standing`), as parts of those that leave.
    """

    relative_error: float
    expected_swap_rate: float
    deviation: float
    wrong: Float = field(compare=False)

    def at_threshold(self, gains: Float, n: int, sizes: Float) -> Certificate:
        """Certificate of the gains of all features, of which the n largest leave."""
        return certified(self.relative_error, gains, n, self.deviation, sizes)


EXACT = Certificate(0.0, 0.0, 0.0, np.zeros(BINS))
#: Nothing can be told: some errors are no numbers.
UNKNOWN = Certificate(float("inf"), 1.0, float("inf"), np.full(BINS, np.inf))


def certified(
    relative_error: float,
    gains: Float,
    n: float,
    deviation: float,
    sizes: Float,
    sure: Mask | None = None,
) -> Certificate:
    """Certificate of gains (c,) with such errors, of which the n largest leave.

    Sizes (c,) are mean squares of the features; gains that are `sure` have no error.
    """
    deviations = deviation * sizes if sure is None else np.where(sure, 0.0, deviation * sizes)
    swaps = min(expected_swaps(gains, n, deviations, sure), 1.0)
    return Certificate(relative_error, swaps, deviation, wrong(gains, n, deviations))


def joining_row_errors(question: LowRankQuestion, check: Landmarks, X: Float) -> Float:
    """``n e_j / m`` row by row, of features X (c, m) that join; the kernel is a product."""
    rows, factor, sigma = check.samples, question.factor(0), question.sigma
    every = np.arange(rows.size)
    missed = BaseRows(question.kernel, sigma, check).part(every, slice(None))
    missed -= (factor.F[rows] * factor.weights) @ factor.F.T  # K - F F'
    missed *= question.W.rows(rows)
    missed[every, rows] = 0.0
    t = np.empty((rows.size, len(X)))
    for j, x in enumerate(X):
        delta = x[rows][:, None] - x[None, :]
        delta *= delta
        t[:, j] = np.vecdot(missed, question.kernel.factor(delta, -sigma))
    return t


def certify(
    t: Float, gains: Float, n: float, m: int, sizes: Float, rounded: float = 0.0
) -> Certificate:
    """Certificate from the errors of a sample of features, of which n would leave.

    Their errors t (r, c) are row by row, ``n e_j / m``; gains (c,) are the fast ones, sizes
    (c,) the mean squares of the features, m is the number of samples. By rounding gains are wrong
    by a part `rounded` of their standard deviation.
    """
    if not (np.isfinite(t).all() and np.isfinite(gains).all()):
        return UNKNOWN
    spread = float(gains.std()) or 1.0
    same = bool(np.ptp(sizes) <= SAME * sizes.max())
    everyone = np.sqrt(_mean_square(t, m, centre=same))
    t = t / sizes
    away = np.abs(gains - _threshold(gains, n)) / sizes
    near = np.argsort(away, kind="stable")[: max(FEWEST, int(NEAR * len(gains)))]
    deviation = float(np.sqrt(_mean_square(t[:, near], m, centre=same)))
    rounding = rounded * float((gains / sizes).std())
    relative = float(np.hypot(everyone / spread, rounded))
    return certified(relative, gains, n, float(np.hypot(deviation, rounding)), sizes)


def _mean_square(t: Float, m: int, *, centre: bool) -> float:
    """Mean over features of the squared error; with `centre`, what they share aside."""
    r, c = t.shape
    if centre:
        t = t - t.mean(axis=1, keepdims=True)
    e = m * t.mean(axis=0)
    if r == m:
        return float(np.mean(e * e))
    V = m * m / r * t.var(axis=0, ddof=1)
    measured = e * e - (1 - r / m) * V
    unstructured = float(V.mean())
    mean, spread = float(measured.mean()), float(measured.std())
    surplus = mean - CHANCE * spread / float(np.sqrt(c))
    return float(max(2 * r / m * unstructured, surplus))


def expected_swaps(gains: Float, n: float, deviations: Float, sure: Mask | None = None) -> float:
    """Part of the n largest gains, (c,), that are the wrong ones, errors being normal.

    Errors have these standard deviations, (c,); gains that are `sure` have none.
    """
    threshold = _threshold(gains, n)
    n_leaving = int((gains >= threshold).sum())
    if n_leaving == len(gains):
        return 0.0
    near, crossing = _crossing(gains, threshold, deviations)
    total = float((crossing if sure is None else crossing[~sure[near]]).sum())
    # Next to gains that are sure every crossing, up or down, is one wrong feature; else they pair.
    together = 1.0 if sure is not None and sure.any() else 0.5
    return float(together * total / n_leaving)


def wrong(gains: Float, n: float, deviations: Float) -> Float:
    """Features that leave by mistake, by where they should stand, (bins,).

    As parts of the n that leave, errors being normal with these standard deviations, (c,).
    """
    threshold = _threshold(gains, n)
    stays = gains < threshold
    near, crossing = _crossing(gains, threshold, deviations)
    near, crossing = near[stays[near]], crossing[stays[near]]
    edges = _edges(gains[stays], BINS)
    bins = np.searchsorted(edges, -gains[near], side="right")
    mistaken = np.bincount(bins, weights=crossing, minlength=BINS)
    return np.asarray(mistaken / max(1, len(gains) - int(stays.sum())))


def _crossing(gains: Float, threshold: float, deviations: Float) -> tuple[Index, Float]:
    """Positions of gains so near the threshold that an error may take them across; how likely."""
    found = []
    for some in slices(len(gains), AT_A_TIME):
        away, deviation = np.abs(gains[some] - threshold), deviations[some]
        near = np.flatnonzero((away < FAR * deviation) & (deviation > 0))
        found.append((near + some.start, ndtr(-away[near] / deviation[near])))
    near_by, crossing = zip(*found, strict=True)
    return np.concatenate(near_by), np.concatenate(crossing)


def standing(gains: Float, parts: int = BINS) -> Array:
    """Bins of features that stay, (c,) uint8, by their gains: 0 for the largest, which leave next.

    Bins, `parts` of them, have as many features each, but for ties.
    """
    return np.searchsorted(_edges(gains, parts), -gains, side="right").astype(np.uint8)


def _edges(gains: Float, parts: int) -> Float:
    """Where bins end, of gains the other way round, (parts - 1,); none of no gains."""
    if not len(gains):
        return np.empty(0)
    places, ordered = np.arange(1, parts) * len(gains) // parts, -gains
    ordered.partition(places)
    return ordered[places]


def next_to_threshold(gains: Float, n: int, widths: Float) -> Mask:
    """Gains within their width of the threshold below the n largest; all if those are most."""
    near = np.abs(gains - _threshold(gains, n)) <= widths
    return np.ones_like(near) if 2 * near.sum() > len(near) else near


def nearest_to_threshold(gains: Float, n: int, number: int) -> Mask:
    """Mask of so many gains next to the threshold below the n largest."""
    away = np.abs(gains - _threshold(gains, n))
    near = np.zeros(len(gains), dtype=bool)
    near[np.argsort(away, kind="stable")[:number]] = True
    return near


def _threshold(gains: Float, n: float) -> float:
    """Half way between the n-th and the next largest gain."""
    if len(gains) == 1:
        return float(gains[0])
    k = int(min(max(round(n), 1), len(gains) - 1))
    ordered = -gains
    ordered.partition([k - 1, k])
    return -float(ordered[k - 1] + ordered[k]) / 2
