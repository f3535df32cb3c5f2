r"""Marginal interactions: evidence that a feature acts together with any of many other features.

The d possible partners x_l of a feature are standardised. Let Q (m, q) be an orthonormal basis of
the mean, covariates and known main effects; it is regressed out of all features. The partners
define one kernel, ``K_ik = sum_l x_il x_kl / d``, and the products of a feature x with all partners
define the kernel ``x_i x_k K_ik``. The statistic of x (Crawford et al., 2017) is

    ``S = sum_(i != k) K^j_ik x_i x_k r_i r_k = sum_l (r'(x o x_l))^2 / d - diagonal``,

where r are the residual labels without main effects of the feature (x and x o x are regressed out).
If the feature is a partner, ``K^j = K - x x' / d`` excludes it. The diagonal is left out, because
its part of S is also large if only the variance of the labels is larger in samples with extreme x.
If d is larger than m, it would have most of the variance of S.

**Null moments.** Let ``w = (x o r)^2``. If residuals are independent with symmetric laws, all signs
of r are equally likely given their sizes. Then S has mean 0 and, since the diagonal is 0,

    ``Var S = 2 w'(K^j o K^j) w``,   ``E S^3 = 8 sum_ikl K_ik K_kl K_li w_i w_k w_l``

exactly, even if the variance of a residual depends on the sample. With the row sums n of ``K o
K^2`` (K without its diagonal), the mean u of w, and ``w = u + delta``, the third moment is

    ``8 u^2 (3 w'n - 2 u 1'n)``

up to terms of second and third order in delta, whose mean over independent delta is 0. So a feature
needs quadratic forms of (m, m) matrices alone, which are matrix products over a block of features.

**Relatives.** A polygenic trait has covariance ``K + lambda I`` up to a factor, with lambda of
largest restricted likelihood. Residuals are ``r = P y``, where P is the inverse of this matrix on
the complement of Q, scaled to ``tr P = m - q``. Their covariance is P, so ``E S = x'(K o P) x``,
which is subtracted.

**Calibration.** These moments do not account for estimated main effects, residuals that are
correlated along K, and skewed labels. So the standardised statistic is computed for a sample of
features and permuted labels: ``P^(1/2) y`` is exchangeable, is permuted, and ``(K + lambda
I)^(1/2)`` restores its covariance. The mixed model is fitted again, because a fit removes a part of
S that all features share, and Q is regressed out (Freedman and Lane, 1983). The mean and variance
over permutations and features standardise all statistics again, and the difference of the third
moment is added. The p-value is the tail of Pearson's distribution of type III.

If all products together explain a share h of the residual variance, S has mean ``h Var S / 2``,
where the variance is that without interactions. Interactions make w larger where x is extreme. So h
is estimated by ``2 S f^2 / Var S``, with f the mean of w over the mean of x o x, which is 1 without
interactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh

from dhsic._typing import Array, Float, Mask
from dhsic.criteria.null import log_tail
from dhsic.linalg.quadratic import Each, Quadratic, add_products, form_entries, form_flops
from dhsic.pairs.share import EXPLAINED
from dhsic.passes import AbstractByTile, AbstractSum, Cost, Tile, split_tiles, tile_height, tile_of
from dhsic.relatedness import reml_penalty
from dhsic.sources.scaling import Scaling

#: A feature is tested if its square is spread over at least as many samples (the inverse of the
#: mean fourth power, times m): among fewer, signs of residuals have too few combinations.
FEWEST_CARRIERS = 16
#: The feature itself is removed from the variance of S if this changes it by more than about this
#: fraction.
WORTH_REMOVING = 1e-3
#: Lower bound of the variance without the feature itself, relative to the variance with it.
LEAST_VARIANCE = 0.1
#: Number of permutations, and maximum number of features, of the calibration.
PERMUTATIONS, CALIBRATED = 128, 128
#: Ratio of the penalties from which means of S are interpolated.
NEAR = 1.5
#: Number of float32 arrays (c, m) of a task, with one label column; and more for each other column.
COPIES, COPIES_EACH = 14, 2
#: Number of values per feature and permutation: S minus its mean, its variance, its third moment,
#: and the ratio of the means of w and of the squares of x.
VALUES = 4
#: Number of (m, m) float64 matrices during preparation.
SQUARES = 9


@dataclass(frozen=True, slots=True)
class Gram(AbstractSum):
    """Pass that sums ``Z Z'`` over standardised features in float32: its upper triangle, (m, m).

    The first pass also measures the scaling of features; the list of scalings is empty afterwards.
    """

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[list[Scaling], Array]:
        upper, parts = np.zeros((m, m), dtype=np.float32, order="F"), []
        for tile in split_tiles(blocks, tile_of(np.float32)):
            if tile.scaling is None:
                scaling, values = tile.measured(standardize=True)
                parts.append(scaling)
                Z = values.astype(np.float32)
            else:
                Z = tile.values(np.float32)
            add_products(upper, np.ascontiguousarray(Z))
        return parts, upper

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], Array]:
        (parts, upper), (other_parts, part) = left, right
        upper += part
        return parts + other_parts, upper

    def cost(self, m: int) -> Cost:
        tile = tile_of(np.float32)
        return Cost(float32=float(m) ** 2, values=m, result=4 * m * m, tile=2 * 8 * tile * m)


@dataclass(frozen=True, slots=True, eq=False)
class PartnerKernel:
    """Kernel K of the partners without its diagonal, and products with it, for quadratic forms.

    Attributes
    ----------
    kernel, squares, covariance : Quadratic
        K, ``K o K`` and ``K o P``, (m, m) float32; P is the covariance of the residuals.
    cube_sums : (m,)
        Row sums of ``K o K^2``.
    Q : (m, q) float32
        Orthonormal basis of the mean, covariates and known main effects.
    n_partners : int
        Number d of features in K.
    """

    kernel: Quadratic
    squares: Quadratic
    covariance: Quadratic
    cube_sums: Float
    Q: Array
    n_partners: int

    @classmethod
    def of(cls, K: Float, P: Float, Q: Float, d: int) -> PartnerKernel:
        """Prepare the matrices from K (m, m) with diagonal 0, and the residual covariance P."""
        sums = np.vecdot(K @ K, K)
        kernel, squares, covariance = (Quadratic.of(A, 1.0, np.float32) for A in (K, K * K, K * P))
        return cls(kernel, squares, covariance, sums, Q.astype(np.float32), d)


@dataclass(frozen=True, slots=True, eq=False)
class MixedModel:
    """Mixed model of the labels, in the eigenvectors of the kernel.

    Attributes
    ----------
    values : (m,)
        Eigenvalues of the kernel, of mean 1.
    vectors : (m, m)
        Eigenvectors, with Q regressed out of them.
    Q : (m, q)
        Orthonormal basis of the mean, covariates and known main effects.
    labels : (m, t)
        Coordinates of the label columns along the eigenvectors.
    penalty : float
        Variance of the noise, divided by the mean polygenic variance of a sample (REML).
    """

    values: Float
    vectors: Float
    Q: Float
    labels: Float
    penalty: float

    @classmethod
    def of(cls, K: Float, U: Float, Q: Float) -> MixedModel:
        """Fit the model to label columns U (m, t); Q has been regressed out of U and K."""
        values, vectors = eigh(K, driver="evd", check_finite=False)
        values = np.maximum(values, 0.0) / float(values.mean())
        vectors -= Q @ (Q.T @ vectors)
        labels = vectors.T @ U
        penalty = reml_penalty(values, np.square(labels), Q.shape[1])
        return cls(values, vectors, Q, labels, penalty)

    def covariance(self, penalty: float) -> Float:
        """Covariance P of the residuals, (m, m), scaled to trace m - q."""
        weights = 1.0 / (self.values + penalty)
        P = (self.vectors * weights) @ self.vectors.T
        P *= (len(P) - self.Q.shape[1]) / float(np.trace(P))
        return np.asarray(P)

    def residuals(self) -> Array:
        """Residuals ``P y`` of the labels, (m, t) float32, of unit variance."""
        return self._residuals(self.labels, self.penalty)

    def _residuals(self, labels: Float, penalty: float) -> Array:
        weights = 1.0 / (self.values + penalty)
        inverse = 1.0 / float(np.square(self.vectors).sum(axis=0) @ weights)
        degrees = len(self.Q) - self.Q.shape[1]
        scale = degrees * np.sqrt(inverse / (weights @ np.square(labels)))
        return np.asarray(self.vectors @ (labels * weights[:, None]) * scale, dtype=np.float32)

    def permuted(self, n: int, seed: int) -> Iterator[tuple[float, Array]]:
        """Yield penalty and residuals (m, t) of n permutations of the whitened labels.

        The model is fitted again to each of them.
        """
        rng = np.random.default_rng([seed, 3])
        roots = np.sqrt(self.values + self.penalty)[:, None]
        white = self.vectors @ (self.labels / roots)
        for _ in range(n):
            labels = roots * (self.vectors.T @ white[rng.permutation(len(white))])
            penalty = reml_penalty(self.values, np.square(labels), self.Q.shape[1])
            yield penalty, self._residuals(labels, penalty)


@dataclass(frozen=True, slots=True)
class MarginalScan(AbstractByTile):
    """Pass that computes the moments of S (see `VALUES`), (c, 4) float64.

    `residuals` (m, t) are float32. Tags of features are 1 for partners, and 0 for other features.
    The moments are NaN for features that are not tested.
    """

    state: PartnerKernel
    residuals: Array

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        return tile_height(m), self._moments

    def cost(self, m: int) -> Cost:
        return scan_cost(m, self.residuals.shape[1])

    def _moments(self, tile: Tile) -> Float:
        X = projected(tile.values(np.float32), self.state.Q)
        moments = moments_of(X, tile.tags == 1, [self.residuals], self.state)[0]
        moments[:, 0] -= self.residuals.shape[1] * self.state.covariance.forms(X)
        return np.asarray(moments)


def scan_cost(m: int, t: int) -> Cost:
    """Cost of `MarginalScan` for m samples and t label columns."""
    tile = 4 * (COPIES + COPIES_EACH * t) * tile_height(m) * m
    state = 4 * (3 * form_entries(m) + m * t)
    return Cost(float32=(t + t * (t + 1) / 2 + 1) * form_flops(m), values=m, state=state, tile=tile)


def projected(X: Array, Q: Array) -> Array:
    """Regress Q (m, q) out of centred features X (c, m); both are float32."""
    return X - (X @ Q) @ Q.T if Q.shape[1] > 1 else X


def moments_of(
    X: Array, is_partner: Mask, draws: Iterable[Array], state: PartnerKernel, each: Each = map
) -> Float:
    """Moments (n, c, 4) of features X (c, m) for n draws of residuals; mean of S not removed.

    Q has been regressed out of X. The function `each` may run draws in parallel threads. Features
    that are not tested are NaN.
    """
    m = X.shape[1]
    a = X * X
    sizes = a.sum(axis=1)
    tested = np.square(sizes) > FEWEST_CARRIERS * np.vecdot(a, a)
    at = np.flatnonzero(tested & (sizes > EXPLAINED * m))
    if not at.size:
        return np.full((len([*draws]), len(X), VALUES), np.nan)
    features = FeatureTile.of(X[at], a[at], is_partner[at], state)
    moments = np.stack([*each(partial(features.moments, state=state), draws)])
    out = np.full((len(moments), len(X), VALUES), np.nan)
    out[:, at] = moments
    return out


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTile:
    """Features x (c, m) with Q regressed out, and quantities that do not depend on the labels.

    `a` are squares of x, and `v` their residuals after regression on x. `sizes` and `v_sizes` are
    the sums of squares of x and v. `own` are the positions of the partners.
    """

    x: Array
    a: Array
    v: Array
    sizes: Array
    v_sizes: Array
    own: Array

    @classmethod
    def of(cls, x: Array, a: Array, is_partner: Mask, state: PartnerKernel) -> FeatureTile:
        sizes = a.sum(axis=1)
        v = a - (a @ state.Q) @ state.Q.T
        v -= x * (np.vecdot(v, x) / sizes)[:, None]
        v_sizes = np.vecdot(v, v)
        v_sizes = np.where(v_sizes > EXPLAINED * np.vecdot(a, a), v_sizes, np.inf)
        own = np.flatnonzero(is_partner)
        return cls(x, a, v, sizes, v_sizes, own)

    def moments(self, residuals: Array, state: PartnerKernel) -> Float:
        """Compute the moments of S (see `VALUES`) for residuals (m, t), (c, 4)."""
        products = [self._product(r) for r in residuals.T]
        statistic, full, less, third, size = np.zeros((5, len(self.x)))
        for s, W in enumerate(products):
            statistic += state.kernel.forms(W)
            for k in range(s, len(products)):
                w = W * products[k]
                weight = 2.0 if k == s else 4.0
                full += weight * state.squares.forms(w)
                self._subtract_own(less, w, weight, state)
                if k == s:
                    third += _third(w, state)
                    size += w.sum(axis=1, dtype=np.float64) / (len(products) * self.sizes)
                    own = self.own
                    statistic[own] += np.vecdot(w[own], self.a[own]) / state.n_partners
        variance = np.maximum(full - less, LEAST_VARIANCE * full)
        return np.stack([statistic, variance, third, size], axis=1)

    def _product(self, r: Array) -> Array:
        """Products ``x o r``, with main effects of x and its square regressed out of r."""
        W = r - self.x * ((self.x @ r) / self.sizes)[:, None]
        W -= self.v * ((self.v @ r) / self.v_sizes)[:, None]
        W *= self.x
        return W

    def _subtract_own(self, less: Float, w: Array, weight: float, state: PartnerKernel) -> None:
        """Add to `less` (c,) the part of ``w'(K o K) w`` that is due to the feature itself."""
        d, own = state.n_partners, self.own
        spread = np.vecdot(self.a[own], self.a[own]) / w.shape[1]
        own = own[spread**2 > WORTH_REMOVING * d]
        if own.size:
            part, wa = w[own], w[own] * self.a[own]
            crossed = 2.0 / d * state.kernel.forms(part * self.x[own])
            squared = (wa.sum(axis=1, dtype=np.float64) ** 2 - np.vecdot(wa, wa)) / d**2
            less[own] += weight * (crossed - squared)


def _third(w: Array, state: PartnerKernel) -> Float:
    """Third moment of S, (c,), from w (c, m), see the module docstring."""
    u = w.mean(axis=1, dtype=np.float64)
    sums = w @ state.cube_sums
    return np.asarray(8.0 * u**2 * (3.0 * sums - 2.0 * u * state.cube_sums.sum()))


def calibration_moments(
    X: Array,
    is_partner: Mask,
    K: Float,
    model: MixedModel,
    state: PartnerKernel,
    draws: Sequence[tuple[float, Array]],
    each: Each,
) -> Float:
    """Moments of features X (c, m) for n permutations `draws` of the labels, (n, c, 4).

    Each permutation has its own penalty, and the mean ``x'(K o P) x`` depends on the penalty. It is
    interpolated from three penalties, by a parabola in their logarithm.
    """
    X = projected(X, state.Q)
    penalties, residuals = zip(*draws, strict=True)
    moments = moments_of(X, is_partner, residuals, state, each)
    at = np.array([-1.0, 0.0, 1.0])
    means = []
    for step in at:
        products = X @ (K * model.covariance(model.penalty * NEAR**step)).astype(np.float32)
        means.append(np.vecdot(products, X, dtype=np.float64))
    steps = np.log(np.array(penalties) / model.penalty) / np.log(NEAR)
    weights = [np.prod([(steps - b) / (a - b) for b in at if b != a], axis=0) for a in at]
    moments[..., 0] -= model.labels.shape[1] * (np.array(weights).T @ np.array(means))
    return moments


@dataclass(frozen=True, slots=True)
class MarginalCalibration:
    """Mean, standard deviation and excess skewness of standardised statistics of permuted labels.

    The excess is the skewness minus the mean skewness that the third moments predict.
    """

    mean: float
    std: float
    skewness: float

    @classmethod
    def of(cls, moments: Float) -> MarginalCalibration:
        """Compute the calibration from the moments (n, c, 4) of n permutations and c features."""
        statistic, variance, third, _ = moments[:, ~np.isnan(moments[0, :, 0])].T
        z = statistic / np.sqrt(variance)
        mean, std = float(z.mean()), float(z.std())
        predicted = float((third / variance**1.5).mean())
        return cls(mean, std, float((((z - mean) / std) ** 3).mean()) - predicted)

    def log_p(self, moments: Float) -> Float:
        """Log p-values (c,) of features with these moments (c, 4)."""
        statistic, variance, third, _ = moments.T
        z = (statistic / np.sqrt(variance) - self.mean) / self.std
        skewness = third / variance**1.5 + self.skewness
        return log_tail(z, np.maximum(skewness, 0.0))

    def shares(self, moments: Float) -> tuple[Float, Float]:
        """Shares of the labels' variance that interactions explain, and their errors, (c,)."""
        statistic, variance, _, size = moments.T
        deviation = np.sqrt(variance)
        unit = 2.0 * np.square(size) / deviation  # `size` is 1 without interactions
        return unit * (statistic / deviation - self.mean), unit * self.std
