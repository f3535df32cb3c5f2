r"""Test of every feature on samples of unequal weight: HSIC of weighted ranks, and its p-value.

Samples have the probabilities ``p_i = w_i / sum w``. Ranks are weighted mid-ranks,

    ``u_i = sum_{x_k < x_i} p_k + 1/2 sum_{x_k = x_i} p_k``,

Functions phi_r of these ranks and directions b_s of the labels have weighted mean 0. Covariates are
projected out of both, with weights. With the table ``C[r, s] = sum_i p_i phi_r(i) b_s(i)``, HSIC of
one width is ``sum_rs lambda_r mu_s C[r, s]^2``, a V-statistic of the weighted distribution: a
sample may be split into copies with the same total weight, and nothing changes.

Weights depend on the sample and cannot be permuted, so p-values do not come from permutations. If
feature and label are independent in the population that the weights represent, ``z_i = p_i phi_r(i)
b_s(i)`` have mean 0, however weights depend on features and labels. Their sum has the robust
variance ``V = sum_i z_i z_i'`` (Huber, 1967; White, 1980; Binder, 1983). The law of HSIC is
approximated by the law for random signs of the vectors z_i: its mean, variance and skewness are
sums over samples. The tail is computed for a ratio (`dhsic.criteria.rank_law`); its degrees of
freedom are the effective sample size ``(sum w)^2 / sum w^2`` (Kish, 1965), so multiplying all
weights by a number changes nothing.

The robust variance is too small if rare values of a feature meet rare labels in no sample.
Therefore the variance of products of skewed functions is mixed with the variance for independent
factors, ``sum (p phi_r)^2 sum (p b_s)^2 / sum p^2``. Its weight increases with the skewness, which
decreases with the number of samples. Products of still rarer values are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from dhsic._typing import Array, Float, Index, Mask
from dhsic.criteria.base import CriterionScores
from dhsic.criteria.features import Features
from dhsic.criteria.independence import FEWEST_PRESENT, LOG_10, Independence
from dhsic.criteria.label_functions import LabelDirections, weighted_directions
from dhsic.criteria.level_scores import shapes_of_levels
from dhsic.criteria.multiscale import LEVEL_SHARES, LEVEL_WIDTHS, WidthFamily, shapes_of
from dhsic.criteria.rank_law import combined
from dhsic.errors import InputError, warn
from dhsic.kernels.labels import LabelMatrix, label_matrix
from dhsic.linalg.covariates import nothing_left
from dhsic.linalg.rank_basis import rank_basis
from dhsic.linalg.residual_covariance import AbstractProductVariance
from dhsic.linalg.weighted_samples import effective_size, weighted_basis, weighted_ranks

#: Number of functions of weighted ranks, widths of the kernels, and their shares: unequal weights
#: leave fewer effective samples, so the narrowest width of the unweighted test is omitted.
N_FUNCTIONS = 12
WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
SHARES = np.array([0.7, 0.1, 0.07, 0.065, 0.065])
#: Minimum effective number of samples for p-values.
FEWEST_EFFECTIVE = 30
#: Skewness of a product of feature and label at which two estimates of its variance have equal
#: weight (the robust one, and the one for independent factors); and skewness above which the
#: product is left out of the test.
SKEWED, TOO_SKEWED = 0.15, 0.5
#: Number of ranks at which the shape of a dependence is evaluated.
CURVE = 500
#: Weight of a function, relative to the largest, below which it is omitted from moments; and
#: standard deviation of HSIC, relative to its mean, up to which it counts as constant.
NEGLIGIBLE, SAME = 1e-7, 1e-9
#: Norm of a function after projection, relative to before, up to which it counts as 0.
NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class WeightedSamples:
    """State of the test: sample probabilities, labels, and null distributions by kind of feature.

    Attributes
    ----------
    p : (m,)
        Weights, which sum to 1.
    labels : LabelDirections
        Directions times ``sqrt(p)``; they are orthonormal.
    Q : (m, q)
        Orthonormal basis of ``sqrt(p) [1, covariates]``.
    ranks, levels, single : WidthFamily
        Kernels and laws for features with many values, with three, and with two.
    """

    p: Float
    labels: LabelDirections
    Q: Float
    ranks: WidthFamily
    levels: WidthFamily
    single: WidthFamily

    @staticmethod
    def of(labels: LabelMatrix, covariates: Array | None, weights: Float) -> WeightedSamples:
        """Create the state from labels, covariates (m, q) and positive weights (m,)."""
        p = weights / weights.sum()
        n_effective = effective_size(weights)
        if n_effective < FEWEST_EFFECTIVE:
            raise InputError(
                f"The weights of {p.size} samples are so unequal that they count as "
                f"{n_effective:.1f} samples ((sum of weights)^2 / sum of squares), but p-values "
                f"need at least {FEWEST_EFFECTIVE}. Limit the largest weights, such as "
                "numpy.minimum(weights, numpy.quantile(weights, 0.95)), or collect more samples."
            )
        Q = weighted_basis(covariates, p)
        directions = weighted_directions(labels, p, Q)
        if not directions.B.shape[1]:
            raise nothing_left()
        nu = degrees_of_freedom(n_effective)
        return WeightedSamples(
            p,
            directions,
            Q,
            WidthFamily.of(WIDTHS, SHARES, N_FUNCTIONS, directions, nu),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 2, directions, nu),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 1, directions, nu),
        )

    @property
    def additive(self) -> WeightedSamples:
        """Return the state of a test of the dosage only.

        See `Multiscale.additive`.
        """
        return replace(self, levels=self.single)

    def of_samples(self, present: Mask) -> WeightedSamples:
        """Restrict the state to the samples with a value.

        Labels are centred over these samples.
        """
        size = self.p[present].sum()
        Q, _ = np.linalg.qr(self.Q[present])
        B = _residuals(self.labels.B[present] / np.sqrt(size), Q)
        return replace(self, p=self.p[present] / size, labels=replace(self.labels, B=B), Q=Q)

    def family(self, n_levels: int) -> WidthFamily:
        """Kernels and null distributions for features with `n_levels` distinct values."""
        if n_levels > 3:
            return self.ranks
        return self.levels if n_levels == 3 else self.single


@dataclass(frozen=True, slots=True)
class WeightedScore:
    """Test of one feature: log p-value, HSIC, width, and shape as a position in `SHAPES`."""

    log_p: float = 0.0
    hsic: float = 0.0
    width: float = 1.0
    shape: float = 0.0


@dataclass(frozen=True)
class WeightedIndependence(Independence):
    """Test `Independence` at several widths, for weighted samples."""

    takes_codes = False

    def read(self, y: Array, covariates: Array | None = None) -> LabelMatrix:
        """Read the labels; `prepare` regresses out covariates, with weights."""
        return label_matrix(y, self.label_kernel).centred

    def prepare(
        self, labels: LabelMatrix, covariates: Array | None = None, weights: Float | None = None
    ) -> Any:
        assert weights is not None, "other samples are tested by `Independence`"
        return WeightedSamples.of(labels, covariates, weights)

    def covariances(self, state: Any) -> Sequence[AbstractProductVariance]:
        return ()

    def directions(self, state: Any) -> Float:
        return np.empty((state.p.size, 0))

    def columns(self, state: Any, features: Features, place: slice) -> Float:
        """Compute ``-log10 p``, HSIC, width and shape of c features, (5, c).

        The last row is ``-log10 p`` of the test whether missing values depend on the labels.
        """
        out = np.zeros((5, len(features.X)))
        for j, x in enumerate(features.X):
            mask = None if features.missing is None else features.missing[j]
            score = score_of(state, x, mask)
            out[:4, j] = -score.log_p / LOG_10, score.hsic, score.width, score.shape
            if mask is not None and mask.any():
                out[4, j] = -score_of(state, mask.astype(np.float64)).log_p / LOG_10
        return out

    def finish(self, state: Any, columns: Float) -> CriterionScores:
        n_untested = int(np.isnan(columns[2]).sum())
        if n_untested:
            warn(
                f"{n_untested:,} of {columns.shape[1]:,} features are not tested, and have "
                "p-value 1. With these weights, too few samples have both a rare value of the "
                "feature and a rare label. Limit the largest weights, or test these features "
                "without weights."
            )
        return super().finish(state, columns)

    def tile_bytes(self, c: int, m: int) -> int:
        from_samples = 4 * N_FUNCTIONS * (1 + 64) * m  # functions, and their products with labels
        return 8 * (from_samples + 3 * c * m)


def degrees_of_freedom(n_effective: float) -> int:
    """Degrees of freedom: the effective sample size, rounded to two digits.

    >>> degrees_of_freedom(87.4), degrees_of_freedom(1234.0)
    (87, 1200)
    """
    return int(float(f"{n_effective:.2g}"))


def _residuals(F: Float, Q: Float) -> Float:
    """Columns of F (m, k) with the orthonormal columns of Q (m, q) projected out."""
    F = F - Q @ (Q.T @ F)
    return np.asarray(F - Q @ (Q.T @ F))  # the second projection corrects rounding errors


def feature_functions(x: Float, state: WeightedSamples) -> tuple[Float, Index]:
    """Functions of a feature, multiplied by the square roots of the sample weights p: (R, m).

    Also returns the first sample of each level. For features with two or three levels, the
    functions are the value and, orthogonal to it, the squared value. For other features, they are
    the normal score of the weighted rank, and cosines orthogonal to it.
    """
    u, firsts = weighted_ranks(x, state.p)
    n_levels = firsts.size
    if n_levels > 3:
        r = np.arange(2, state.ranks.weights.shape[1] + 1)[:, None]
        F = np.vstack([ndtri(u), np.sqrt(2.0) * np.cos(np.pi * r * u)])
    else:
        centred = x - state.p @ x
        F = np.vstack([centred, np.square(centred)])[: state.family(n_levels).weights.shape[1]]
    F = F * np.sqrt(state.p)
    before = np.linalg.norm(F, axis=1)
    F = _residuals(F.T, state.Q).T
    n_unit = len(F) if n_levels <= 3 else 1  # cosines keep their size, which ties reduce
    for k in range(n_unit):
        F[k] -= F[:k].T @ (F[:k] @ F[k])
        norm = np.linalg.norm(F[k])
        F[k] = F[k] / norm if norm > NOTHING * before[k] else 0.0
    F[n_unit:] -= np.outer(F[n_unit:] @ F[0], F[0])
    return F, firsts


def score_of(state: WeightedSamples, x: Float, missing: Mask | None = None) -> WeightedScore:
    """Test one feature x (m,); samples in the mask `missing` (m,) are excluded."""
    if missing is not None and missing.any():
        if (~missing).sum() < FEWEST_PRESENT + state.Q.shape[1]:
            return WeightedScore()
        state, x = state.of_samples(~missing), x[~missing]
    F, firsts = feature_functions(x, state)
    if firsts.size < 2:
        return WeightedScore()
    B, family = state.labels.B, state.family(firsts.size)
    Z = (F[:, None, :] * B.T[None]).reshape(-1, len(B))  # contribution of each sample, (R S, m)
    C = Z.sum(axis=1)
    D = np.array([np.outer(row, mu).ravel() for mu in state.labels.mu for row in family.weights])
    hsic = float(family.shares @ (D @ np.square(C)))
    factors, skewness = independent_factors(F, B, state.p)
    D = np.where(skewness <= TOO_SKEWED, D, 0.0)
    if not D[0].any():
        return WeightedScore(hsic=hsic, width=np.nan)
    # Functions and labels are residuals, so their products vary less than errors do.
    Z *= np.sqrt(len(B) / (len(B) - state.Q.shape[1]))
    factors *= len(B) / (len(B) - state.Q.shape[1])
    robust = 1.0 / (1.0 + np.square(skewness / SKEWED))
    by_signs = np.sqrt(robust)[:, None] * Z
    V = by_signs @ by_signs.T + np.sqrt(np.outer(1.0 - robust, 1.0 - robust)) * factors
    moments = np.array([signed_moments(by_signs, V, d) for d in D])
    log_p, width = tail_of(family, D @ np.square(C), moments)
    variance = np.diagonal(V)
    table = np.divide(C, np.sqrt(variance), out=np.zeros_like(C), where=variance > 0)
    at_levels = F[:, firsts] / np.sqrt(state.p[firsts])
    return WeightedScore(log_p, hsic, width, _shape(state, table.reshape(len(F), -1), at_levels))


def tail_of(family: WidthFamily, T: Float, moments: Float) -> tuple[float, float]:
    """Combined log p-value of HSIC T (n,) at each width and label matrix, and the best width.

    `moments` (n, 3) are mean, standard deviation and skewness under independence.
    """
    mean, spread, skewness = moments.T
    varies = spread > SAME * mean
    z = np.divide(T - mean, spread, out=np.zeros_like(T), where=varies)
    each = [law.log_p(z[k : k + 1], skewness[k : k + 1]) for k, law in enumerate(family.laws)]
    log_p = np.where(varies[:, None], np.array(each), 0.0)
    together = combined(log_p, family.shares)
    together = np.minimum(together + family.calibration.log_ratio(together), 0.0)
    best = int(log_p[:, 0].argmin()) % len(family.weights)
    return float(together[0]), float(family.widths[best])


def independent_factors(F: Float, B: Float, p: Float) -> tuple[Float, Float]:
    """Covariance of products of independent functions and labels (R S, R S), and skewness (R S,).

    F (R, m) and B (m, S) are functions and directions, multiplied by ``sqrt(p)``. Absolute values
    of the skewness are returned.
    """
    square = float(p @ p)
    of_features, of_labels = (F * p) @ F.T, (B.T * p) @ B
    variance = np.asarray(np.kron(of_features, of_labels) / square)
    root = np.sqrt(p) ** 3
    thirds = np.abs(np.outer(F**3 @ root, root @ B**3).ravel()) / float((p**3).sum())
    spread = np.sqrt(np.diagonal(variance))
    return variance, np.divide(thirds, spread**3, out=np.zeros_like(thirds), where=spread > 0)


def signed_moments(Z: Float, V: Float, d: Float) -> tuple[float, float, float]:
    r"""Mean, standard deviation and skewness of ``sum_c d_c (Z e + f)_c^2`` under independence.

    Z (n, m) are the terms of the samples in n sums, and d (n,) the weights of the sums; e (m,) are
    random signs. f (n,) is normal, such that the covariance of ``Z e + f`` is V (n, n). With ``G =
    Z' diag(d) Z`` and g its diagonal, the mean for f = 0 is ``tr G``, the variance ``2 (tr G^2 -
    g'g)``, and the third moment ``8 (tr G^3 - 3 sum_i g_i (G^2)_ii + 2 sum_i g_i^3)``.
    """
    kept = d > NEGLIGIBLE * d.max()
    Z, V, d = Z[kept], V[np.ix_(kept, kept)], d[kept]
    g = d @ np.square(Z)
    DV = d[:, None] * V
    second = 2.0 * (float((DV * DV.T).sum()) - float(g @ g))
    squared = ((DV @ (d[:, None] * Z)) * Z).sum(axis=0)  # diagonal of G^2
    of_diagonal = 2.0 * float((g**3).sum()) - 3.0 * float(g @ squared)
    third = float(((DV @ DV) * DV.T).sum()) + of_diagonal
    spread = np.sqrt(max(second, 0.0))
    mean = float(d @ np.diagonal(V))
    return mean, float(spread), 8.0 * third / spread**3 if spread > 0 else 0.0


def _shape(state: WeightedSamples, table: Float, at_levels: Float) -> float:
    """Shape of a dependence, as a position in `SHAPES`.

    `table` contains standardised products (R, S). `at_levels` (R, q) are the functions at the q
    distinct values of the feature.
    """
    if at_levels.shape[1] > 3:
        return float(shapes_of(table[None], state.labels.mu, rank_basis(CURVE, len(table)))[0])
    return float(shapes_of_levels(at_levels[None], table[None])[0])
