r"""Marginal interactions: evidence that a feature acts together with any of many other features.

The features x_l of the *partners*, as many as d, are standardised, and Q (m, q), an orthonormal
basis of the mean, covariates and known main effects, is regressed out of them. They define one
kernel, ``K_ik = sum_l x_il x_kl / d``. For a feature x (Q regressed out, too), all its products
with partners define the kernel ``x_i x_k K_ik``. Its statistic (Crawford et al., 2017) is

    ``S = sum_(i != k) K^j_ik x_i x_k r_i r_k = sum_l (r'(x o x_l))^2 / d - diagonal``,

with r the residual labels without main effects of the feature (x and x o x are regressed out), and
``K^j = K - x x' / d`` without the feature itself, if it is a partner. The diagonal is left out:
its part of S grows if the labels merely vary more in samples with extreme x, and it has most of the
variance of S if d is larger than m.

**Null moments.** Let ``w = (x o r)^2``. If residuals are independent with symmetric laws, all signs
of r are equally likely given their sizes. Then S has mean 0 and, since the diagonal is 0,

    ``Var S = 2 w'(K^j o K^j) w``,   ``E S^3 = 8 sum_ikl K_ik K_kl K_li w_i w_k w_l``

exactly, however the variance of single residuals depends on the sample. With the row sums n of
``K o K^2`` (K without its diagonal), the mean u of w, and ``w = u + delta``, the third moment is

    ``8 u^2 (3 w'n - 2 u 1'n)``

up to terms of second and third order in delta, whose mean over independent delta is 0. So a feature
needs quadratic forms of (m, m) matrices alone, which are matrix products over a block of features.

**Relatives.** A polygenic trait has covariance ``K + lambda I`` up to a factor, with lambda of
largest restricted likelihood. Residuals are ``r = P y``, where P is the inverse of this matrix on
the complement of Q, scaled to ``tr P = m - q``. Their covariance is P, so ``E S = x'(K o P) x``,
which is subtracted.

**Calibration.** What these moments do not contain are main effects that are estimated, chains of
residuals that are correlated along K, and labels with skewed laws. So the standardised statistic is
computed for a sample of features and permuted labels: ``P^(1/2) y`` is exchangeable, is permuted,
Q is regressed out of it again (Freedman and Lane, 1983), and it is multiplied by ``P^(1/2)``. The
mean and variance over permutations and features standardise all statistics again, and the
difference of the third moment is added. The p-value is the tail of Pearson's distribution of
type III.

If all products together explain a share h of the residual variance, S has mean ``h Var S / 2``,
where the variance is that without interactions. These make w larger where x is extreme. So h is
estimated by ``2 S f^2 / Var S``, with f the mean of w over the mean of x o x, which is 1 without
interactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from dhsic.relatedness import reml_penalties
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
#: Number of float32 arrays (c, m) of a task, with one label column; and more for each other column.
COPIES, COPIES_EACH = 14, 2
#: Number of values per feature and permutation: S minus its mean, its variance, its third moment,
#: and the mean of w over that of the squares of x.
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
        K, ``K o K`` and ``K o P``, (m, m) float32.
    cube_sums : (m,)
        Row sums of ``K o K^2``.
    Q : (m, q) float32
        Orthonormal basis of what is regressed out of labels and features.
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
        """Prepare the matrices from K (m, m), which is overwritten, and the covariance P."""
        np.fill_diagonal(K, 0.0)
        sums = np.vecdot(K @ K, K)
        kernel, squares, covariance = (Quadratic.of(A, 1.0, np.float32) for A in (K, K * K, K * P))
        return cls(kernel, squares, covariance, sums, Q.astype(np.float32), d)


@dataclass(frozen=True, slots=True, eq=False)
class WhiteLabels:
    """Labels with the covariance of a mixed model removed.

    Attributes
    ----------
    white : (m, t)
        ``P^(1/2) y`` for orthonormal label columns y, which is exchangeable without interactions.
    root : (m, m)
        ``P^(1/2)``.
    P : (m, m)
        Inverse covariance of the labels on the complement of Q, scaled to trace m - q.
    Q : (m, q)
        Orthonormal basis of what is regressed out.
    penalty : float
        Variance of the noise over the mean polygenic variance of a sample (REML).
    """

    white: Float
    root: Float
    P: Float
    Q: Float
    penalty: float

    @classmethod
    def of(cls, K: Float, U: Float, Q: Float) -> WhiteLabels:
        """Fit the mixed model to label columns U (m, t), with Q regressed out of them and of K."""
        m, q = Q.shape
        values, E = eigh(K, driver="evd", check_finite=False)
        values = np.maximum(values, 0.0) / float(values.mean())
        (penalty,) = reml_penalties(values, E, [U], q)
        E -= Q @ (Q.T @ E)
        inverse = (m - q) / float((np.square(E) / (values + penalty)).sum())
        P = (E * (inverse / (values + penalty))) @ E.T
        root = (E * np.sqrt(inverse / (values + penalty))) @ E.T
        return cls(root @ U, root, P, Q, penalty)

    def residuals(self, white: Float) -> Float:
        """Residuals ``P y`` (m, t) of white labels, each column of unit variance."""
        m, q = self.Q.shape
        return np.asarray(self.root @ (white * np.sqrt((m - q) / np.square(white).sum(axis=0))))

    def permuted(self, n: int, seed: int) -> Array:
        """Residuals of n permutations of the white labels, (n, m, t) float32."""
        rng = np.random.default_rng([seed, 3])
        out = np.empty((n, *self.white.shape), dtype=np.float32)
        for each in out:
            white = self.white[rng.permutation(len(self.white))]
            each[:] = self.residuals(white - self.Q @ (self.Q.T @ white))
        return out


@dataclass(frozen=True, slots=True)
class MarginalScan(AbstractByTile):
    """Pass that computes the moments of S (see `VALUES`), (c, 4) float64.

    `residuals` (m, t) are float32. Tags of features are 1 for partners, else 0. Features that are
    not tested are NaN.
    """

    state: PartnerKernel
    residuals: Array

    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        return tile_height(m), self._moments

    def cost(self, m: int) -> Cost:
        return scan_cost(m, self.residuals.shape[1])

    def _moments(self, tile: Tile) -> Float:
        values, is_partner = tile.values(np.float32), tile.tags == 1
        return np.asarray(moments_of(values, is_partner, [self.residuals], self.state)[0])


def scan_cost(m: int, t: int) -> Cost:
    """Cost of `MarginalScan` for m samples and t label columns."""
    tile = 4 * (COPIES + COPIES_EACH * t) * tile_height(m) * m
    state = 4 * (3 * form_entries(m) + m * t)
    return Cost(float32=(t + t * (t + 1) / 2 + 1) * form_flops(m), values=m, state=state, tile=tile)


def moments_of(
    X: Array, is_partner: Mask, draws: Iterable[Array], state: PartnerKernel, each: Each = map
) -> Float:
    """Moments of standardised features X (c, m) for n draws of residuals, (n, c, 4).

    The function `each` may run draws in parallel threads. Features that are not tested are NaN.
    """
    m, Q = X.shape[1], state.Q
    if Q.shape[1] > 1:
        X = X - (X @ Q) @ Q.T
    a = X * X
    sizes = a.sum(axis=1)
    tested = np.square(sizes) > FEWEST_CARRIERS * np.vecdot(a, a)
    at = np.flatnonzero(tested & (sizes > EXPLAINED * m))
    if not at.size:
        return np.full((len(list(draws)), len(X), VALUES), np.nan)
    features = FeatureTile.of(X[at], a[at], is_partner[at], state)
    moments = np.stack([*each(partial(features.moments, state=state), draws)])
    out = np.full((len(moments), len(X), VALUES), np.nan)
    out[:, at] = moments
    return out


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTile:
    """Features x (c, m) with Q regressed out, and what is computed from them alone.

    `a` are squares of x, `v` their part that x does not explain, `mean` the mean of S, and `own`
    the positions of the partners.
    """

    x: Array
    a: Array
    v: Array
    sizes: Array
    v_sizes: Array
    mean: Float
    own: Array

    @classmethod
    def of(cls, x: Array, a: Array, is_partner: Mask, state: PartnerKernel) -> FeatureTile:
        sizes = a.sum(axis=1)
        v = a - (a @ state.Q) @ state.Q.T
        v -= x * (np.vecdot(v, x) / sizes)[:, None]
        v_sizes = np.vecdot(v, v)
        v_sizes = np.where(v_sizes > EXPLAINED * np.vecdot(a, a), v_sizes, np.inf)
        own = np.flatnonzero(is_partner)
        return cls(x, a, v, sizes, v_sizes, state.covariance.forms(x), own)

    def moments(self, residuals: Array, state: PartnerKernel) -> Float:
        """Moments of S, see `VALUES`, for residuals (m, t): (c, 4)."""
        products = [self._product(r) for r in residuals.T]
        statistic = -len(products) * self.mean
        full, less, third, size = (np.zeros_like(statistic) for _ in range(4))
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
        """``x o r`` with the main effects of x and of its square regressed out of r."""
        W = r - self.x * ((self.x @ r) / self.sizes)[:, None]
        W -= self.v * ((self.v @ r) / self.v_sizes)[:, None]
        W *= self.x
        return W

    def _subtract_own(self, less: Float, w: Array, weight: float, state: PartnerKernel) -> None:
        """Add the part of ``w'(K o K) w`` that is due to the feature itself to `less` (c,)."""
        d, own = state.n_partners, self.own
        spread = np.vecdot(self.a[own], self.a[own]) / w.shape[1]
        own = own[spread**2 > WORTH_REMOVING * d]
        if own.size:
            part, wa = w[own], w[own] * self.a[own]
            crossed = 2.0 / d * state.kernel.forms(part * self.x[own])
            squared = (wa.sum(axis=1, dtype=np.float64) ** 2 - np.vecdot(wa, wa)) / d**2
            less[own] += weight * (crossed - squared)


def _third(w: Array, state: PartnerKernel) -> Float:
    """Third moment of S, see the module docstring."""
    u = w.mean(axis=1, dtype=np.float64)
    sums = w @ state.cube_sums
    return np.asarray(8.0 * u**2 * (3.0 * sums - 2.0 * u * state.cube_sums.sum()))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Mean, standard deviation and excess skewness of standardised statistics of permuted labels.

    The excess is the skewness minus the mean of what the third moments predict.
    """

    mean: float
    std: float
    skewness: float

    @classmethod
    def of(cls, moments: Float) -> Calibration:
        """Compute it from the moments (n, c, 4) of n permutations and c features."""
        statistic, variance, third, _ = moments[:, ~np.isnan(moments[0, :, 0])].T
        z = statistic / np.sqrt(variance)
        mean, std = float(z.mean()), float(z.std())
        predicted = float((third / variance**1.5).mean())
        return cls(mean, std, float((((z - mean) / std) ** 3).mean()) - predicted)

    def log_p(self, moments: Float) -> Float:
        """Log p-values of features with these moments (c, 4)."""
        statistic, variance, third, _ = moments.T
        z = (statistic / np.sqrt(variance) - self.mean) / self.std
        skewness = third / variance**1.5 + self.skewness
        return log_tail(z, np.maximum(skewness, 0.0))

    def shares(self, moments: Float) -> tuple[Float, Float]:
        """Estimated shares of the labels that interactions explain, and standard errors, (c,)."""
        statistic, variance, _, size = moments.T
        deviation = np.sqrt(variance)
        unit = 2.0 * np.square(size) / deviation  # `size` is 1 without interactions
        return unit * (statistic / deviation - self.mean), unit * self.std
