r"""Kernel on censored times: log-rank scores with several weight functions.

The weights are functions of ``u``, the fraction of all events that came before a time: ``w_0 = 1``
and ``w_r(u) = sqrt(2) cos(pi r u)``. The first function detects proportional hazards. The second
one detects differences between early and late effects, and crossing hazards. Further functions
detect effects in the middle or at the end. Under independence the scores of two weights have
covariance ``sum_k d_k w(u_k) w'(u_k)``, which is 0 for these functions, because u is uniform over
the events for any censoring. The kernel

    ``l(y_i, y_j) = sum_r lambda_r s_ir s_jr``

has the weights lambda of a Gaussian kernel on u (`dhsic.linalg.rank_basis.width_weights`), and HSIC
with it is a kernel log-rank statistic (Fernandez, Gretton, Rindt and Sejdinovic, arXiv 1912.03784).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.label_parts import RealTargets
from dhsic.kernels.risk_sets import NullModel, RiskSets, check_events
from dhsic.kernels.risk_variance import RiskSetVariance
from dhsic.linalg.covariates import covariate_basis, nothing_left, orthonormal_columns
from dhsic.linalg.rank_basis import width_weights

#: Name of the label kernel of censored times.
LOG_RANK = "log-rank"
#: Number of weight functions, and width of the kernel on the fraction of events.
N_WEIGHTS, WIDTH = 5, 1 / 4
#: Minimum fraction of the norm of a column of scores that must be left after projection on the
#: covariates and the columns before it.
LEAST_LEFT = 1e-3


@dataclass(frozen=True)
class CensoredTarget(RealTargets):
    """Censored times with the kernel of log-rank scores, which are the columns of `values` (m, S).

    The columns are orthogonal, and their squared norms are the weights lambda of the kernel.
    `numbers` are the numbers of the weight functions; 0 is the log-rank test. y (m,) are the
    censored times, and `eta` (m,) is the linear predictor of the covariates.
    """

    y: Array = field(kw_only=True)
    eta: Float = field(kw_only=True)
    numbers: tuple[int, ...] = (0,)
    name: str = LOG_RANK

    @staticmethod
    def of(y: Array, covariates: Array | None, *, n_weights: int = N_WEIGHTS) -> CensoredTarget:
        """Compute the scores of censored times y (m,), given covariates (m, q).

        With ``n_weights=1`` the kernel detects effects on proportional hazards only.
        """
        eta = linear_predictor(y, covariates)
        scores = scores_of(y, eta, n_weights)
        B, numbers = orthonormal_columns(scores, covariate_basis(covariates, len(y)), LEAST_LEFT)
        if not numbers or numbers[0]:
            raise nothing_left()
        scale = np.sqrt(width_weights(WIDTH, n_weights)[numbers] * len(y))
        return CensoredTarget(B * scale, None, y=y, eta=eta, numbers=tuple(numbers))

    def unit_directions(self, Q: Float) -> tuple[Float, tuple[int, ...]]:
        """Orthonormal directions (m, S) orthogonal to Q, and numbers of the weight functions."""
        B, chosen = orthonormal_columns(self.values, Q, LEAST_LEFT)
        return B, tuple(self.numbers[i] for i in chosen)

    def variance(self, B: Float, Q: Float) -> RiskSetVariance:
        """Variance of products of features with directions B (m, S), which span the scores.

        Q (m, q) is the basis of the mean and the covariates.
        """
        risk, n_weights = RiskSets.of(self.y), max(self.numbers) + 1
        scores = scores_of(self.y, self.eta, n_weights)
        scores -= Q @ (Q.T @ scores)
        combination = np.linalg.lstsq(scores, B, rcond=1e-10)[0]
        weights = weights_at(risk, n_weights) @ combination
        return RiskSetVariance.of(self.y, self.eta, weights, Q)


def linear_predictor(y: Array, covariates: Array | None) -> Float:
    """Linear predictor (m,) of a Cox model of censored times y (m,) on covariates (m, q).

    Raises InputError if no event was observed.
    """
    check_events(y)
    if covariates is None:
        return np.zeros(len(y))
    Q = covariate_basis(covariates, len(y)) * len(y) ** 0.5
    return NullModel(RiskSets.of(y), Q - Q.mean(axis=0)).linear_predictor()


def log_rank_scores(y: Array, covariates: Array | None = None, n_weights: int = 1) -> Float:
    """Log-rank scores (m, n_weights) of censored times y (m,), given covariates (m, q)."""
    return scores_of(y, linear_predictor(y, covariates), n_weights)


def scores_of(y: Array, eta: Float, n_weights: int) -> Float:
    """Log-rank scores (m, n_weights) of censored times y (m,) with linear predictors eta (m,)."""
    risk = RiskSets.of(y)
    return risk.scores(weights_at(risk, n_weights), eta)


def weights_at(risk: RiskSets, n_weights: int) -> Float:
    """Values of the weight functions at the K event times, (K, n_weights)."""
    weights = np.cos(np.pi * np.outer(risk.event_ranks, np.arange(n_weights)))
    weights[:, 1:] *= np.sqrt(2.0)
    return np.asarray(weights)


def described(y: Array) -> str:
    """Describe censored times in one line, for messages.

    >>> from dhsic.kernels.risk_sets import CENSORED
    >>> described(np.array([(1, True, -np.inf), (3, False, -np.inf)], CENSORED))
    '2 censored times: 1 event, 1 censored (50%), times from 1 to 3'
    """
    m, n = len(y), int(y["event"].sum())
    late = np.isfinite(y["entry"])
    times = f"times from {y['time'].min():.4g} to {y['time'].max():.4g}"
    entered = ""
    if late.any():
        entries = y["entry"][late]
        entered = f", entered from {entries.min():.4g} to {entries.max():.4g}"
    return (
        f"{m:,} censored times: {n:,} event{'' if n == 1 else 's'}, {m - n:,} censored "
        f"({(m - n) / m:.0%}), {times}{entered}"
    )
