r"""Variance of products of features with log-rank scores, from their variance within risk sets.

Permutations of the scores assume that samples are exchangeable. They are not exchangeable if
censoring depends on a covariate, because the composition of the samples at risk then changes over
time. The product ``x'R b`` of a feature x with scores b of weights w (R projects out the
covariates, orthonormal basis Q) is a martingale, and given the covariates its variance is
estimated, as in the log-rank test and the score test of a Cox model, by

    ``V(x) = sum_k d_k w_k^2 Var_k(R x) - a' I^-1 a``,  ``a = sum_k d_k w_k Cov_k(R x, Z)``,

where ``Var_k`` and ``Cov_k`` are over the samples at risk at the k-th event time, weighted by
``exp(eta)``, and I is the information on the coefficients of the covariates Z, which are estimated.
With d_k tied events of n_k samples at risk, ``d_k (n_k - d_k) / (n_k - 1)`` replaces d_k, as in the
log-rank test. Under permutations the variance is proportional to ``x'R x``. The quotient of the two
is the *variance ratio* of the feature, scaled so that it is 1 on average over random features.
Products are divided by its root (`dhsic.criteria.label_covariance`). If censoring does not depend
on a feature, permutations are exact and the ratio only adds noise. Ratios that differ from 1 by no
more than chance are therefore set to 1.

The means of features within risk sets change slowly from event to event; they are computed at up to
`GROUPS` event times, which represent groups with equal numbers of events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.risk_sets import RiskSets
from dhsic.linalg.residual_covariance import EXPLAINED, AbstractProductVariance, strips

#: Maximum number of event times at which means within risk sets are computed.
GROUPS = 32
#: Smallest and largest variance ratio.
LEAST, MOST = 0.2, 5.0
#: Number of standard deviations by which a ratio above or below 1 must differ from 1 to count; the
#: part of the difference that counts grows from 0 to 1 above it (a positive-part estimate of James
#: and Stein). A ratio below 1 makes p-values smaller, so it must differ more to count.
DOUBT, DOUBT_BELOW, TINY = 0.5, 0.75, 1e-12


@dataclass(frozen=True, eq=False)
class RiskSetVariance(AbstractProductVariance):
    """Variance of products of features with S directions of log-rank scores.

    Attributes
    ----------
    of_squares : (m, S)
        Coefficients of the squares of a feature.
    means : (m, G)
        Weights of the samples at risk at each of G event times; each column sums to 1.
    of_means : (G, S)
        Coefficients of the squared means.
    slopes : (m, S q')
        Coefficients of a feature in the S covariances with q' covariates, divided by the root of
        the information.
    Q : (m, q)
        Orthonormal basis of the mean and the covariates.
    """

    of_squares: Float
    means: Float
    of_means: Float
    slopes: Float
    Q: Float

    @staticmethod
    def of(y: Array, eta: Float, weights: Float, Q: Float) -> RiskSetVariance:
        """Compute the coefficients for censored times y (m,) and weights (K, S) of the directions.

        `eta` (m,) is the linear predictor of the covariates. Q (m, q) is a basis of the covariates.
        """
        risk, relative = RiskSets.of(y), np.exp(eta)
        n, sums = risk.sums(np.ones(len(y))), risk.sums(relative)
        deaths = risk.deaths * (n - risk.deaths) / np.maximum(n - 1.0, 1.0)
        squares = deaths[:, None] * np.square(weights)
        of_squares = relative[:, None] * risk.cumulated(squares / sums[:, None])
        groups, chosen = _grouped(risk.deaths)
        at = np.arange(deaths.size)[chosen]
        present = (risk.first[:, None] <= at) & (at < risk.last[:, None])
        means = relative[:, None] * present / sums[chosen]
        of_means = np.zeros((chosen.size, weights.shape[1]))
        np.add.at(of_means, groups, squares)
        slopes = _slopes(risk, deaths, relative, weights, sums, _covariates(Q))
        return RiskSetVariance(of_squares, means, of_means, slopes, Q)._of_mean_one()

    def _of_mean_one(self) -> RiskSetVariance:
        """Scale the variances so that ratios are 1 on average over random directions of features.

        Features that are independent of times and censoring are exchangeable.
        """
        m, S = self.of_squares.shape
        lost = np.square(self.slopes).sum(axis=0).reshape(S, -1).sum(axis=1)
        trace = self.of_squares.sum(axis=0) - np.square(self.means).sum(axis=0) @ self.of_means
        scale = m / np.maximum(trace - lost, np.finfo(float).tiny)
        roots = np.repeat(np.sqrt(scale), self.slopes.shape[1] // S)
        return replace(
            self,
            of_squares=self.of_squares * scale,
            of_means=self.of_means * scale,
            slopes=self.slopes * roots,
        )

    @cached_property
    def errors(self) -> Float:
        """Standard deviations (S,) of the variance ratios of random normal features."""
        m, p, W, h = len(self.Q), self.means, self.of_means, self.of_squares
        of_products = np.square(p.T @ p)
        square = np.square(h).sum(axis=0) - 2.0 * (W * (np.square(p).T @ h)).sum(axis=0)
        square += (W * (of_products @ W)).sum(axis=0)
        return np.asarray(np.sqrt(2.0 * np.maximum(square / m - 1.0, 0.0) / (m + 2)))

    @property
    def n_directions(self) -> int:
        return self.of_squares.shape[1]

    @property
    def hazards(self) -> Float:
        """Relative weights of squares in the first direction, minus 1: (m, 1).

        Weights are divided by their mean. For the log-rank test the weights are the expected
        numbers of events of the samples.
        """
        own = self.of_squares[:, :1]
        return np.asarray(own / own.mean() - 1.0)

    def ratios_of(self, X: Float) -> Float:
        """Compute variance ratios of features X (c, m), (c, S); 1 if covariates explain them."""
        ratios = np.ones((len(X), self.n_directions))
        S = self.n_directions
        for rows, strip in strips(X):
            n = rows.stop - rows.start
            Z = strip - (strip @ self.Q) @ self.Q.T
            V = np.square(Z) @ self.of_squares - np.square(Z @ self.means) @ self.of_means
            V -= np.square((Z @ self.slopes).reshape(len(Z), S, -1)).sum(axis=2)
            sizes = np.vecdot(Z, Z)
            is_left = sizes > EXPLAINED * np.vecdot(strip, strip)
            excess = np.where(
                is_left[:, None], V / np.where(is_left, sizes, 1.0)[:, None] - 1.0, 0.0
            )
            doubt = np.where(excess > 0, DOUBT, DOUBT_BELOW) * self.errors
            sure = np.maximum(1.0 - np.square(doubt) / np.maximum(np.square(excess), TINY), 0.0)
            ratios[rows] = np.clip(1.0 + excess * sure, LEAST, MOST)[:n]
        return ratios


def _covariates(Q: Float) -> Float:
    """Covariates (m, q - 1) with mean 0 that, together with the constant, span Q."""
    U, singular, _ = np.linalg.svd(Q - Q.mean(axis=0), full_matrices=False)
    return np.asarray(U[:, singular > 1e-6])


def _grouped(deaths: Float) -> tuple[Array, Array]:
    """Group K event times into groups with equal numbers of events.

    Returns the group of each event time, (K,), and for each group the number of the event time in
    its middle.
    """
    ranks = (np.cumsum(deaths) - deaths / 2) / deaths.sum()
    if deaths.size <= GROUPS:
        return np.arange(deaths.size), np.arange(deaths.size)
    _, groups = np.unique((ranks * GROUPS).astype(np.int64), return_inverse=True)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    ends = np.append(starts[1:], deaths.size)
    return groups, (starts + ends - 1) // 2


def _slopes(
    risk: RiskSets, deaths: Float, relative: Float, weights: Float, sums: Float, Z: Float
) -> Float:
    """Coefficients (m, S q) that give the covariances of a feature with the covariates Z (m, q)."""
    (m, q), S = Z.shape, weights.shape[1]
    if not q:
        return np.zeros((m, S))
    means = np.column_stack([risk.sums(relative * z) for z in Z.T]) / sums[:, None]  # (K, q)
    hazard = (deaths / sums)[:, None]
    own = relative[:, None] * risk.cumulated(hazard)  # (m, 1)
    information = (Z * own).T @ Z - (means.T * deaths) @ means
    values, vectors = np.linalg.eigh(information)
    usable = values > 1e-10 * values.max(initial=0.0)
    root = vectors[:, usable] / np.sqrt(values[usable])
    each = []
    for w in weights.T:
        at_risk = relative[:, None] * risk.cumulated(w[:, None] * hazard)
        of_means = relative[:, None] * risk.cumulated(w[:, None] * hazard * means)
        each.append((Z * at_risk - of_means) @ root)
    return np.concatenate(each, axis=1)
