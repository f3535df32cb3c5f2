r"""Moderated t and B-statistic (Smyth 2004; JMLR 6.2), which use variances of all features.

The variance of one feature is estimated using all features (Smyth 2004, sections 4 and 6). Residual
variances ``s_j^2`` with f degrees of freedom are modelled as draws from ``s_0^2 F(f, f_0)``:
features have different true variances, which vary about ``s_0^2`` like an estimate with ``f_0``
degrees of freedom. The mean and variance of ``log s_j^2`` determine both parameters (JMLR eq. 25).
The paper prints the gamma function instead of Smyth's logarithmic derivatives, digamma psi and
trigamma psi', the number of samples m instead of the degrees of freedom, and the moderated variance
without the square. Here

    ``psi'(f_0 / 2) = var_j(log s_j^2) - psi'(f / 2)``
    ``log s_0^2 = mean_j(log s_j^2) - psi(f/2) + log(f/2) + psi(f_0/2) - log(f_0/2)``
    ``moderated s_j^2 = (f_0 s_0^2 + f s_j^2) / (f_0 + f)``

If variances do not vary more than f degrees of freedom explain, ``f_0`` is infinite and ``s_0^2``
is their mean, as in limma since 2017.

The odds that a feature differs between classes (Smyth 2004, section 5; JMLR 6.2, B-statistic)
assume that a fraction `proportion` of the features differs, and that their differences have a
variance ``v_0`` times the residual variance. With ``v = 1/m_+ + 1/m_-``, moderated t and its f
degrees of freedom,

    ``B = log(proportion / (1 - proportion)) - log(r) / 2
    + (1 + f) / 2 log((t^2 + f) / (t^2 / r + f))``,  ``r = (v + v_0) / v``,

where ``v_0`` is estimated from the excess of the largest ``|t|`` over their expected values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma, stdtr, stdtrit

from dhsic._typing import Float
from dhsic.criteria.base import (
    TWO_OF_TWO,
    Classes,
    CriterionScores,
    check_part,
)
from dhsic.criteria.features import Features
from dhsic.criteria.linear import AbstractOfClasses, class_moments, ratio

#: Range of the standard deviation of true differences, in standard deviations of the data.
DEVIATIONS = (0.1, 4.0)
#: Fraction of the median variance to which smaller variances are raised, so that logarithms exist.
LEAST = 1e-5
#: Maximum value x of trigamma for which its inverse is ``1 / x + 1 / 2`` up to rounding errors.
FLAT = 1e-9
#: Prior degrees of freedom above which the variance is treated as known, as in limma.
NORMAL = 1e6


class AbstractModerated(AbstractOfClasses):
    """Criterion based on the moderated t-statistic, which is its `statistic`."""

    labels = TWO_OF_TWO
    signed = "moderated t-statistic, the last class minus the first"
    standardize = False

    def columns(self, state: Classes, features: Features, place: slice) -> Float:
        moments = class_moments(features, state, place)
        return np.stack([moments.difference, moments.pooled])


@dataclass(frozen=True)
class ModeratedT(AbstractModerated):
    """The moderated t-statistic (Smyth 2004; JMLR 6.2 and eq. 25); the score is its absolute value.

    ``t_j = (x+ - x-) / (s_j sqrt(1/m+ + 1/m-))``, where ``s_j^2`` is the pooled variance within
    classes, shrunken towards the variance of all features (`dhsic.criteria.moderated`). limma's
    ``lmFit`` and ``eBayes`` give the same result for two groups. It needs two classes of at least
    two samples each. Features are not scaled: if all had the same variance, one feature would
    contain no information about the variance of another.

    When to use it: for few samples and many features in the same unit (log expression,
    methylation), if the variance of a single feature is too uncertain to divide by.
    """

    name = "moderated-t"
    meaning = "magnitude of the moderated t-statistic"

    def finish(self, state: Classes, columns: Float) -> CriterionScores:
        t, prior = _moderated(state, columns)
        return CriterionScores(np.abs(t), t, prior.facts)


@dataclass(frozen=True)
class LogOdds(AbstractModerated):
    """The B-statistic: log odds that a feature differs between classes (Smyth 2004; JMLR 6.2).

    It increases with the absolute value of the moderated t, so the ranking is the same as by
    `ModeratedT`. `statistic` is the moderated t. See `dhsic.criteria.moderated`.

    When to use it: like `ModeratedT`, if a score of 0 should mean even odds.

    Parameters
    ----------
    proportion : float
        Assumed fraction of the features that differ, between 0 and 1; it shifts all scores.
    """

    name = "b"
    meaning = "log odds that the feature differs between the classes"
    proportion: float = 0.01

    def __post_init__(self) -> None:
        check_part("proportion", self.proportion, "the fraction of features that may differ")

    def finish(self, state: Classes, columns: Float) -> CriterionScores:
        t, prior = _moderated(state, columns)
        degrees = prior.total(_degrees(state), len(t))
        v = _unscaled(state)
        v0 = spread_of_differences(t, degrees, v, self.proportion, prior.variance)
        B = log_odds(t, np.inf if prior.degrees > NORMAL else degrees, v, v0, self.proportion)
        return CriterionScores(B, t, {**prior.facts, "prior_spread": v0}, key=np.abs(t))


def _moderated(classes: Classes, columns: Float) -> tuple[Float, Prior]:
    """Compute the moderated t, (s,), and the prior of the variances."""
    difference, variances = columns
    degrees = _degrees(classes)
    prior = fit_prior(variances, degrees)
    error = np.sqrt(prior.moderated(variances, degrees) * _unscaled(classes))
    return ratio(difference, error), prior


def _degrees(classes: Classes) -> float:
    """Degrees of freedom of a pooled variance, m - 2."""
    return float(classes.sizes.sum() - len(classes.sizes))


def _unscaled(classes: Classes) -> float:
    """Variance of a difference of class means, relative to the data's: ``1/m+ + 1/m-``."""
    return float((1 / classes.sizes).sum())


@dataclass(frozen=True, slots=True)
class Prior:
    """Prior distribution of feature variances, ``s_0^2`` (`variance`) and ``f_0`` (`degrees`)."""

    degrees: float
    variance: float

    @property
    def facts(self) -> dict[str, float]:
        return {"prior_degrees": self.degrees, "prior_variance": self.variance}

    def moderated(self, variances: Float, degrees: float) -> Float:
        """Moderated variances ``(f_0 s_0^2 + f s_j^2) / (f_0 + f)``, (s,)."""
        if np.isinf(self.degrees):
            return np.full(len(variances), self.variance)
        own = self.degrees * self.variance
        return np.asarray((own + degrees * variances) / (self.degrees + degrees))

    def total(self, degrees: float, n_features: int) -> float:
        """Degrees of freedom of a moderated t; at most the total over all features."""
        return min(self.degrees + degrees, degrees * n_features)


def fit_prior(variances: Float, degrees: float) -> Prior:
    """Estimate the prior from the variances of s features, each with `degrees` degrees of freedom.

    The variances must not all be 0.
    """
    middle = float(np.median(variances)) or 1.0  # 1 if most are 0, as in limma
    s2 = np.maximum(variances, LEAST * middle)
    if len(s2) == 1:
        return Prior(0.0, float(s2[0]))  # there are no other features
    e = np.log(s2) - digamma(degrees / 2) + np.log(degrees / 2)
    excess = float(e.var(ddof=1) - polygamma(1, degrees / 2))
    if excess <= 0:
        return Prior(np.inf, float(s2.mean()))
    half = inverse_trigamma(excess)
    return Prior(2 * half, float(np.exp(e.mean() + digamma(half) - np.log(half))))


def inverse_trigamma(y: float) -> float:
    """Inverse of the trigamma function: x with ``psi'(x) = y``, for y > 0.

    The solutions of ``1/x + 1/(2 x^2) = y`` and ``1/x + 1/x^2 = y``, which are bounds of psi',
    bracket the root.

    >>> round(inverse_trigamma(float(polygamma(1, 3.5))), 9)
    3.5
    """
    from scipy.optimize import brentq  # imported here because it loads slowly

    if y < FLAT:
        return 1 / y + 0.5
    low, high = ((1 + np.sqrt(1 + 2 * a * y)) / (2 * y) for a in (1, 2))
    return float(brentq(lambda x: polygamma(1, x) - y, low * (1 - 1e-9), high, xtol=1e-14 * low))


def log_odds(t: Float, degrees: float, v: float, v0: float, proportion: float) -> Float:
    """Compute the B-statistic of the moderated t, (s,).

    `dhsic.criteria.moderated` has its equation, with f = `degrees`. If `degrees` is infinite, the
    result is the limit.
    """
    r = (v + v0) / v
    square = np.square(t)
    if np.isinf(degrees):
        evidence = square * (1 - 1 / r) / 2
    else:
        evidence = (1 + degrees) / 2 * np.log((square + degrees) / (square / r + degrees))
    return np.asarray(np.log(proportion / (1 - proportion)) - np.log(r) / 2 + evidence)


def spread_of_differences(
    t: Float, degrees: float, v: float, proportion: float, prior_variance: float
) -> float:
    """Estimate ``v_0`` as the mean of estimates from the largest ``|t|`` (limma's ``tmixture``).

    Each feature with a large ``|t|`` gives an estimate, limited to bounds. It is the ``v_0`` for
    which ``|t|`` equals its expected quantile, if a fraction `proportion` of all t-statistics is
    multiplied by ``sqrt(1 + v_0 / v)``.
    """
    s = len(t)
    n = int(np.ceil(proportion / 2 * s))
    p = max(n / s, proportion)
    top = np.sort(np.abs(t))[::-1][:n]
    null = 2 * stdtr(degrees, -top)
    target = ((np.arange(1, n + 1) - 0.5) / s - (1 - p) * null) / p
    above = target > null
    v0 = np.zeros(n)
    v0[above] = v * (np.square(top[above] / stdtrit(degrees, target[above] / 2)) - 1)
    low, high = np.square(DEVIATIONS) / prior_variance
    return float(np.clip(v0, low, high).mean())
