r"""Certificates: estimated errors of approximate gains, and expected numbers of wrong removals.

The gain of feature j, the change of HSIC on its removal, is a sum over pairs of samples. So its
error with a low-rank A, ``E_j = <A - A_low, decrement_j>``, can be estimated on n rows i that were
not used for the factor, where A is known exactly:

    ``e_j = (m / n) sum_i t_ij``,  ``t_ij`` the part of row i.

The error of a gain grows with the feature's mean square, so errors are divided by it. If all mean
squares are equal, an error common to all features does not change their order, so the mean over
features is subtracted. The rows are a sample, so e_j has a variance ``V_j``, which is estimated
from the variance over rows. There are two estimates of the mean of ``E_j^2``: ``e_j^2 - V_j``,
which is always unbiased, but noisy for few rows; and ``2 (n / m) V_j``, which is precise, and
unbiased if errors have no structure that features share. The second estimate is used, unless the
first one is significantly larger.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines.scoring_problem import LowRankScoringProblem
from dhsic.lowrank.base import BaseRows, Landmarks
from dhsic.namespace import slices

#: Number of standard deviations that is significant, and number that an error is assumed never to
#: reach.
CHANCE, FAR = 2.0, 9.0
#: Maximum difference of mean squares, relative to the largest, at which they count as equal.
SAME = 1e-3
#: Fraction and minimum number of sampled features, those next to the threshold, that are used to
#: estimate the error there.
NEAR, FEWEST = 0.25, 64
#: Number of equal bins of the surviving features, by their rank.
BINS = 20
#: Number of gains processed at a time.
AT_A_TIME = 1 << 17


@dataclass(frozen=True, slots=True)
class Certificate:
    """Estimated error of the gains of a round; a gain is the change of HSIC without a feature.

    `relative_error` is the root mean square error of gains divided by their standard deviation.
    `expected_swap_rate` is the expected fraction of removed features that exact gains would keep.
    `deviation` is the root mean square error of the gains next to the threshold, divided by the
    mean square of the feature. `wrong` (bins,) is the expected fraction of the removed features
    that should have survived, by the bin of surviving features they belong in (see `standing`).
    """

    relative_error: float
    expected_swap_rate: float
    deviation: float
    wrong: Float = field(compare=False)

    def at_threshold(self, gains: Float, n: int, sizes: Float) -> Certificate:
        """Create the certificate of the gains (c,) of all features; n features are removed.

        The gain of a feature is the change of HSIC if it is removed. `sizes` (c,) are mean squares
        of the features.
        """
        return certified(self.relative_error, gains, n, self.deviation, sizes)


EXACT = Certificate(0.0, 0.0, 0.0, np.zeros(BINS))
#: Certificate if errors are not finite: all removals may be wrong.
UNKNOWN = Certificate(float("inf"), 1.0, float("inf"), np.full(BINS, np.inf))


def certified(
    relative_error: float,
    gains: Float,
    n: float,
    deviation: float,
    sizes: Float,
    sure: Mask | None = None,
) -> Certificate:
    """Create the certificate of gains (c,), if the n features with the largest gains are removed.

    The gain of a feature is the change of HSIC if it is removed. `sizes` (c,) are mean squares of
    the features. Gains in the mask `sure` have no error.
    """
    deviations = deviation * sizes if sure is None else np.where(sure, 0.0, deviation * sizes)
    swaps = min(expected_swaps(gains, n, deviations, sure), 1.0)
    return Certificate(relative_error, swaps, deviation, wrong(gains, n, deviations))


def joining_row_errors(question: LowRankScoringProblem, check: Landmarks, X: Float) -> Float:
    """Contributions of n exact rows to the errors of scores of features to be added, (n, c).

    They are t_ij in the docstring of the module. The features are X (c, m). `check` are the n
    landmarks with exact rows of the kernel matrix. The kernel must be a product over features.
    """
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
    """Estimate the certificate of a round from the errors of c sampled features.

    n of these features would be removed. t (r, c) are the contributions ``t_ij`` of r rows of the
    kernel matrix to the errors. Gains (c,) are the approximate changes of HSIC without each
    feature, and sizes (c,) the mean squares of the features. m is the number of samples. `rounded`
    is the rounding error of gains, relative to their standard deviation.
    """
    if not (np.isfinite(t).all() and np.isfinite(gains).all()):
        return UNKNOWN
    gain_std = float(gains.std()) or 1.0
    same = bool(np.ptp(sizes) <= SAME * sizes.max())
    everyone = np.sqrt(_mean_square(t, m, centre=same))
    t = t / sizes
    away = np.abs(gains - _threshold(gains, n)) / sizes
    near = np.argsort(away, kind="stable")[: max(FEWEST, int(NEAR * len(gains)))]
    deviation = float(np.sqrt(_mean_square(t[:, near], m, centre=same)))
    rounding = rounded * float((gains / sizes).std())
    relative = float(np.hypot(everyone / gain_std, rounded))
    return certified(relative, gains, n, float(np.hypot(deviation, rounding)), sizes)


def _mean_square(t: Float, m: int, *, centre: bool) -> float:
    """Estimate the mean, over c features, of the squared errors of their gains.

    t (r, c) are the contributions ``t_ij`` of r of the m rows to the errors, each divided by the
    mean square of its feature. If `centre`, the mean error over features is subtracted first.
    """
    r, c = t.shape
    if centre:
        t = t - t.mean(axis=1, keepdims=True)
    e = m * t.mean(axis=0)
    if r == m:
        return float(np.mean(e * e))
    V = m * m / r * t.var(axis=0, ddof=1)
    measured = e * e - (1 - r / m) * V
    unstructured = float(V.mean())
    mean, squares_std = float(measured.mean()), float(measured.std())
    surplus = mean - CHANCE * squares_std / float(np.sqrt(c))
    return float(max(2 * r / m * unstructured, surplus))


def expected_swaps(gains: Float, n: float, deviations: Float, sure: Mask | None = None) -> float:
    """Expected fraction of the n largest gains that are not among the n largest exact gains.

    Errors of gains (c,) are normal with standard deviations `deviations`, (c,); gains in the mask
    `sure` have no error.
    """
    threshold = _threshold(gains, n)
    n_leaving = int((gains >= threshold).sum())
    if n_leaving == len(gains):
        return 0.0
    near, crossing = _crossing(gains, threshold, deviations)
    total = float((crossing if sure is None else crossing[~sure[near]]).sum())
    # Next to sure gains each crossing, up or down, is one wrong feature; else two are one swap.
    together = 1.0 if sure is not None and sure.any() else 0.5
    return float(together * total / n_leaving)


def wrong(gains: Float, n: float, deviations: Float) -> Float:
    """Expected fraction of the n removed features that belong in each bin of survivors.

    `standing` defines the bins. The n features with the largest gains (c,) are removed. Errors of
    gains are normal with standard deviations `deviations`, (c,).
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
    """Find the gains near the removal threshold, and their probabilities to cross it by an error.

    Gains are changes of HSIC if a feature is removed. Returns positions and probabilities.
    """
    crossings = []
    for batch in slices(len(gains), AT_A_TIME):
        away, deviation = np.abs(gains[batch] - threshold), deviations[batch]
        near = np.flatnonzero((away < FAR * deviation) & (deviation > 0))
        crossings.append((near + batch.start, ndtr(-away[near] / deviation[near])))
    near_by, crossing = zip(*crossings, strict=True)
    return np.concatenate(near_by), np.concatenate(crossing)


def standing(gains: Float, parts: int = BINS) -> Array:
    """Bin of each surviving feature by its gain (change of HSIC without it), (c,) uint8.

    There are `parts` bins of equal size, except for ties. Bin 0 has the largest gains, so its
    features are removed next.
    """
    return np.searchsorted(_edges(gains, parts), -gains, side="right").astype(np.uint8)


def _edges(gains: Float, parts: int) -> Float:
    """Edges between `parts` bins of the negated gains, (parts - 1,); empty if there are no gains.

    Gains are changes of HSIC if a feature is removed.
    """
    if not len(gains):
        return np.empty(0)
    places, ordered = np.arange(1, parts) * len(gains) // parts, -gains
    ordered.partition(places)
    return ordered[places]


def next_to_threshold(gains: Float, n: int, widths: Float) -> Mask:
    """Mask of the features whose gains are closer to the removal threshold than their `widths`.

    The gain of a feature is the change of HSIC if it is removed. The threshold is the midpoint
    between the n-th and the next largest gain. If the mask would contain most of the features, it
    contains all of them.
    """
    near = np.abs(gains - _threshold(gains, n)) <= widths
    return np.ones_like(near) if 2 * near.sum() > len(near) else near


def nearest_to_threshold(gains: Float, n: int, number: int) -> Mask:
    """Mask of the `number` features whose gains are nearest to the removal threshold.

    The gain of a feature is the change of HSIC without it. The threshold is just below the n-th
    largest gain.
    """
    away = np.abs(gains - _threshold(gains, n))
    near = np.zeros(len(gains), dtype=bool)
    near[np.argsort(away, kind="stable")[:number]] = True
    return near


def _threshold(gains: Float, n: float) -> float:
    """Midpoint between the n-th largest gain (change of HSIC without a feature) and the next."""
    if len(gains) == 1:
        return float(gains[0])
    k = int(min(max(round(n), 1), len(gains) - 1))
    ordered = -gains
    ordered.partition([k - 1, k])
    return -float(ordered[k - 1] + ordered[k]) / 2
