r"""Test of every feature by HSIC of ranks at several widths, in one pass.

A feature is replaced by R functions phi_r of its ranks (`dhsic.linalg.rank_basis`), and labels by S
directions b_s (`dhsic.criteria.label_functions`). For each feature there is one table

    ``C[r, s] = phi_r . b_s``,  (R, S),

and HSIC with width h of the features and width k of the labels is a weighted sum of its squares,
``sum_rs lambda_r(h) mu_s(k) C[r, s]^2 / m``. The distribution of HSIC under independence is called
its *law*. Features without ties are permutations of the same ranks, so all of them have the same
law. For a feature with ties, the law is computed from its pattern of ties
(`dhsic.criteria.patterns`), by the mean, variance and skewness over all permutations.

Features with two or three values (genotypes) are scored in `dhsic.criteria.level_scores`, others in
`dhsic.criteria.rank_scores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from dhsic._typing import Float, Index
from dhsic.criteria.label_covariance import LabelCovariance
from dhsic.criteria.label_functions import LabelDirections
from dhsic.criteria.missingness import MissingnessTest
from dhsic.criteria.null import NullOf
from dhsic.criteria.patterns import PatternSums
from dhsic.criteria.rank_law import Calibration, DirectLaw, TailTable, WidthLaw, combined
from dhsic.criteria.rare import Carriers, RareLaw
from dhsic.criteria.unbalanced import along_parabola, drawn_sums, is_unbalanced, tail_bend
from dhsic.linalg.covariates import regained
from dhsic.linalg.rank_basis import N_FUNCTIONS, distance_weights, rank_basis, width_weights
from dhsic.linalg.symmetric import LowRankSymmetric

#: Widths of the kernel on ranks, as fractions of their range; the widest kernel is linear.
WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
#: Width of the kernel on distances from the middle rank, as a fraction of their range. It detects
#: effects that are the same on both sides, such as a parabola, better than a kernel on ranks.
DISTANCE_WIDTH = 1 / 16
#: Shares of the kernels in the combination: one for each of `WIDTHS`, then that on distances.
SHARES = np.array([0.82, 0.05, 0.02, 0.01, 0.02, 0.04, 0.04])
#: Widths and shares for features with three values: a kernel of the value itself, and a kernel of
#: all differences between levels.
LEVEL_WIDTHS = (1.0, 1 / 8)
LEVEL_SHARES = np.array([0.75, 0.25])
#: Number of levels above which neighbouring levels are merged when the law of a pattern is
#: computed; and the same number for features without ties.
MOST_LEVELS, MOST_UNTIED = 64, 1024
#: Maximum number of values that are gathered at a time.
AT_ONCE = 1 << 20
#: HSIC does not vary between permutations if its spread is below this fraction of ``||C|| ||A||``.
SAME = 1e-9
#: Minimum fraction of the labels' variance among the samples with a value.
NOTHING_LEFT = 1e-6
#: Names of the shapes of a dependence; results refer to them by number.
SHAPES = np.array(["", "linear", "monotone", "turning"], dtype=object)
#: Minimum squared z of a function that is used for the shape; and maximum decrease of a curve,
#: relative to its increase, at which it counts as monotone.
PART_OF_SHAPE, GOES_BACK = 9.0, 0.4


@dataclass(frozen=True, eq=False)
class WidthFamily:
    """Family of n kernels for features of one kind, with laws of HSIC and weights of p-values.

    `widths` are the widths of the kernels on ranks or levels. There may be a last kernel on
    distances from the middle rank. `weights` (n, R) are the weights of the R functions for each
    kernel. `laws` (n K,) are the null distributions of HSIC for each pair of a label matrix and a
    kernel, and `shares` (n K,) are the weights of their p-values in the combination. Both are
    ordered by label matrix, then by kernel.
    """

    widths: Float
    weights: Float
    laws: tuple[WidthLaw | DirectLaw, ...]
    shares: Float
    calibration: Calibration

    @staticmethod
    def of(
        widths: tuple[float, ...],
        shares: Float,
        n_functions: int,
        labels: LabelDirections,
        nu: int,
        distance: float | None = None,
    ) -> WidthFamily:
        """Create the family for kernel widths, with R = `n_functions` functions of the features.

        If `distance` is given, it is the width of a last kernel on distances from the middle rank.
        `shares` are the weights of the kernels in the combined p-value. `nu` is the number of
        samples minus 1, and minus the number of covariates.
        """
        weights = np.array([width_weights(h, n_functions) for h in widths])
        if n_functions == 1:
            widths, weights, shares = widths[:1], weights[:1], np.ones(1)
        elif distance is not None:
            weights = np.vstack([weights, distance_weights(distance, n_functions)])
        each = labels.matrices
        laws = tuple(WidthLaw.of(row, C, nu) for C in each for row in weights)
        both = np.multiply.outer(labels.shares, shares).ravel()
        calibration = Calibration.of(weights, each, laws, both, nu)
        return WidthFamily(np.array(widths), weights, laws, both, calibration)


@dataclass(frozen=True, eq=False)
class WidthMoments:
    """Mean, standard deviation and skewness of HSIC under independence, (n, K, c) each.

    There are n widths, K label matrices and c features.
    """

    mean: Float
    spread: Float
    skewness: Float

    @staticmethod
    def empty(n: int, K: int, c: int) -> WidthMoments:
        """Create uninitialised arrays for n widths, K label matrices and c features."""
        return WidthMoments(*(np.empty((n, K, c)) for _ in range(3)))

    def take(self, which: Index) -> WidthMoments:
        """Select the moments of the features at the positions `which`."""
        return WidthMoments(*(each[..., which] for each in (self.mean, self.spread, self.skewness)))

    def repeated(self, c: int) -> WidthMoments:
        """Repeat the moments of one feature for c features."""
        each = self.mean, self.spread, self.skewness
        return WidthMoments(*(np.repeat(values, c, axis=2) for values in each))

    def scaled(self, part: Float) -> WidthMoments:
        """Moments if only a fraction `part` (K, c) of the labels' variance is present."""
        return WidthMoments(self.mean * part, self.spread * part, self.skewness)

    def spread_by(self, ratios: Float) -> WidthMoments:
        """Moments if the variances at n widths are multiplied by `ratios` (n, c)."""
        return WidthMoments(self.mean, self.spread * np.sqrt(ratios[:, None]), self.skewness)


@dataclass(frozen=True, eq=False)
class Multiscale:
    """State of the test at several widths: labels, and null distributions by kind of feature."""

    labels: LabelDirections
    Q: Float  # (m, p), orthonormal basis of ``[1, covariates]``
    nulls: tuple[NullOf, ...]
    ranks: WidthFamily  # for features with many values
    levels: WidthFamily  # for features with three values
    single: WidthFamily  # for features with two values
    #: Laws of variants with few carriers; they are computed when needed.
    laws: dict[tuple[int, Carriers], RareLaw | None] = field(default_factory=dict)
    #: Covariance of labels that are residuals of relatives.
    covariance: LabelCovariance | None = None
    #: Expected numbers of events of the samples of censored times, relative to their mean, minus 1.
    hazards: Float | None = None  # (m, 1)
    #: Whether small p-values of a rare class are corrected.
    bends: bool = True

    @staticmethod
    def of(labels: LabelDirections, Q: Float) -> Multiscale:
        """Create the state of the test from the directions of the labels."""
        m = len(labels.B)
        R, nu = len(rank_basis(m, N_FUNCTIONS)), m - Q.shape[1]
        return Multiscale(
            labels,
            Q,
            tuple(NullOf.of(C) for C in labels.matrices),
            WidthFamily.of(WIDTHS, SHARES, R, labels, nu, DISTANCE_WIDTH),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 2, labels, nu),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 1, labels, nu),
        )

    @property
    def additive(self) -> Multiscale:
        """Return the state of a test of the dosage only, without dominance.

        Use it if some samples have only one copy of a chromosome, such as X in males. Only samples
        with two copies can be heterozygous, so a test of dominance would detect sex.
        """
        return replace(self, levels=self.single)

    @property
    def n_samples(self) -> int:
        return len(self.labels.B)

    @property
    def has_covariates(self) -> bool:
        return bool(self.Q.shape[1] > 1)

    @property
    def K(self) -> int:
        """Number K of label matrices."""
        return len(self.labels.mu)

    @cached_property
    def tail_bend(self) -> float:
        """Coefficient of the correction of small p-values if one of two classes is rare.

        It is 0 if no correction is needed. See `dhsic.criteria.unbalanced`.
        """
        b = self.labels.B[:, 0]
        if not self.bends or self.labels.B.shape[1] > 1 or not is_unbalanced(b):
            return 0.0
        if self.has_covariates:
            return self.drawn_tail_bend()
        return _tail_bend_of_classes(b.size, round(self.rarer_share * b.size))

    def drawn_tail_bend(self) -> float:
        """Compute `tail_bend` from random sets of members of the rarer class."""
        b, family = self.labels.B[:, 0], self.ranks
        moments, log_ps = self.moments(self.untied), []
        for sums in drawn_sums(rank_basis(self.n_samples, N_FUNCTIONS), b):
            T = (family.weights @ np.square(sums).T)[:, None] * self.labels.mu[0] / self.n_samples
            log_p = tails(self, family, T, moments.repeated(len(sums)), self.untied_tables)[:, 0]
            together = combined(log_p, family.shares)
            log_ps.append(together + family.calibration.log_ratio(together))
        return tail_bend(np.concatenate(log_ps))

    @cached_property
    def two_classes(self) -> tuple[float, float] | None:
        """Values of the label direction in each of two classes; None for other labels."""
        if self.labels.B.shape[1] > 1 or self.has_covariates:
            return None
        values = np.unique(self.labels.B.round(12))
        return (float(values[0]), float(values[1])) if values.size == 2 else None

    @cached_property
    def rarer_share(self) -> float:
        """Fraction of the samples in the rarer of two classes; 0.5 for other labels."""
        if self.two_classes is None:
            return 0.5
        is_low = self.labels.B[:, 0] < sum(self.two_classes) / 2
        return float(min(is_low.mean(), 1 - is_low.mean()))

    @cached_property
    def missingness(self) -> MissingnessTest:
        """Test of whether missing values depend on the labels."""
        return MissingnessTest(self.labels.B)

    @cached_property
    def matrices(self) -> tuple[LowRankSymmetric, ...]:
        return self.labels.matrices

    @cached_property
    def diagonals(self) -> Float:
        """Diagonals of the label matrices, (m, K)."""
        return np.square(self.labels.B) @ self.labels.mu.T

    @cached_property
    def directions(self) -> Float:
        """Label columns that are summed over the levels of a feature, (m, S + K + p).

        They are the S directions of the labels and the diagonals of the K label matrices. If there
        are covariates, their basis Q (m, p) is included.
        """
        Q = self.Q[:, : self.Q.shape[1] if self.has_covariates else 0]
        return np.concatenate([self.labels.B, self.diagonals, Q], axis=1)

    @cached_property
    def basis(self) -> Float:
        """Values of the R orthogonal functions of ranks at all ranks, (R, m)."""
        return rank_basis(self.n_samples, N_FUNCTIONS)

    @cached_property
    def untied(self) -> PatternSums:
        """Sums over the kernel matrix of a feature without ties, for n widths."""
        edges = np.linspace(0, self.n_samples, min(self.n_samples, MOST_UNTIED) + 1).astype(int)
        functions, counts = self.functions_between(edges[None])
        return PatternSums.of(functions, counts, self.ranks.weights)

    @cached_property
    def untied_tables(self) -> tuple[TailTable, ...]:
        """Tables of log p-values for features without ties, one per law.

        Each table is a function of standardised HSIC.
        """
        skewness = self.moments(self.untied).skewness[..., 0]  # (n, K)
        laws = [law for law in self.ranks.laws if isinstance(law, WidthLaw)]  # all of them
        by_law = zip(laws, skewness.T.ravel(), strict=True)
        return tuple(law.tabulated(float(skew)) for law, skew in by_law)

    @cached_property
    def _cumulated(self) -> Float:
        """Cumulative sums of the R orthogonal functions of ranks over the ranks, (R, m + 1)."""
        zeros = np.zeros((len(self.basis), 1))
        return np.concatenate([zeros, np.cumsum(self.basis, axis=1)], axis=1)

    def functions_between(self, edges: Index) -> tuple[Float, Float]:
        """Average the R functions over the ranks between `edges` (c, q + 1).

        Returns the means, (c, R, q), and the numbers of ranks between edges, (c, q).
        """
        counts = np.diff(edges, axis=1)
        sums = np.diff(self._cumulated[:, edges], axis=2).transpose(1, 0, 2)
        return sums / np.maximum(counts, 1)[:, None, :], counts.astype(np.float64)

    def moments(self, sums: PatternSums) -> WidthMoments:
        """Compute moments of HSIC under independence for each label matrix.

        `sums` are the `PatternSums` of the features.
        """
        by_null = [null.moments(sums.trace, sums.second, sums.third) for null in self.nulls]
        mean, variance, skewness = (
            np.stack([np.asarray(getattr(each, name)).T for each in by_null], axis=1)
            for name in ("mean", "variance", "skewness")
        )  # (n, K, c)
        return WidthMoments(mean, np.sqrt(variance), skewness)

    def label_parts(self, diagonal: Float, totals: Float, n: Float) -> Float:
        """Fraction (K, c) of the trace of each label matrix that is due to samples with a value.

        The label matrices are centred over these samples.

        Parameters
        ----------
        diagonal : (c, K)
            Sums of the diagonals over the missing samples.
        totals : (c, S)
            Sums of the directions over the samples with a value.
        n : (c,)
            Number of samples with a value.
        """
        trace = self.diagonals.sum(axis=0)
        means = np.square(totals) @ self.labels.mu.T / np.maximum(n, 1)[:, None]
        return np.asarray(np.maximum((trace - diagonal - means) / trace, NOTHING_LEFT).T)


@dataclass(frozen=True, eq=False)
class FeatureScores:
    """Test results of c features, (c,) each.

    `shape` contains positions in `SHAPES`.
    """

    log_p: Float
    hsic: Float
    width: Float
    shape: Float

    @staticmethod
    def empty(c: int) -> FeatureScores:
        return FeatureScores(*(np.zeros(c) for _ in range(4)))

    def put(self, which: Index, other: FeatureScores) -> None:
        """Replace the scores of the features at the positions `which` by the scores in `other`."""
        for name in ("log_p", "hsic", "width", "shape"):
            getattr(self, name)[which] = getattr(other, name)


@lru_cache(256)
def _tail_bend_of_classes(m: int, k: int) -> float:
    """Coefficient `Multiscale.tail_bend` for two classes of k and m - k samples."""
    b = np.where(np.arange(m) < k, m - k, -k) / np.sqrt(float(m) * k * (m - k))
    labels = LabelDirections(b[:, None], np.ones((1, 1)), np.ones(1))
    return Multiscale.of(labels, np.full((m, 1), m**-0.5)).drawn_tail_bend()


def tails(
    state: Multiscale,
    family: WidthFamily,
    T: Float,
    moments: WidthMoments,
    tables: Sequence[TailTable] | None = None,
) -> Float:
    """Log p-values of HSIC at each width, (n, K, c); 0 if HSIC does not vary.

    T (n, K, c) is HSIC. If all features have the same skewness, `tables` of the laws may be passed,
    which is faster.
    """
    times = regained(state.Q)
    std = moments.spread * times
    varies = std > SAME * np.abs(moments.mean)
    z = np.zeros_like(T)
    np.divide(T - moments.mean * times, std, out=z, where=varies)
    log_p, n = np.zeros_like(T), len(family.weights)
    for number, law in enumerate(family.laws):
        k, w = divmod(number, n)
        if tables is None:
            log_p[w, k] = law.log_p(z[w, k], moments.skewness[w, k])
        else:
            log_p[w, k] = tables[number](z[w, k])
    return np.where(varies, log_p, 0.0)


def concentration_of(state: Multiscale, moments: WidthMoments) -> Float:
    """Difference in the skewness of HSIC between the widest and the narrowest width, (c,).

    It is divided by the same difference for features without ties, and lies between 0 and 1.
    """
    free, narrowest = state.moments(state.untied).skewness[:, 0, 0], len(state.ranks.widths) - 1
    span = free[0] - free[narrowest]
    own = moments.skewness[0, 0] - moments.skewness[narrowest, 0]
    return np.clip(own / span, 0.0, 1.0) if span > 0 else np.zeros_like(own)


def combined_scores(
    state: Multiscale,
    family: WidthFamily,
    log_p: Float,
    T: Float,
    moments: WidthMoments,
    concentration: Float,
    shape: Float,
) -> FeatureScores:
    """Combine the p-values `log_p` (n, K, c) at all widths into one score per feature.

    T (n, K, c) is HSIC, and `moments` are its moments. `concentration` (c,) is the result of
    `concentration_of`. It interpolates between the calibrations of `state.single` and `family`.
    `shape` (c,) is copied to the result.
    """
    n, K, c = log_p.shape
    by_law = log_p.transpose(1, 0, 2).reshape(n * K, c)
    together = combined(by_law, family.shares)
    of_one = state.single.calibration.log_ratio(together)
    ratio = of_one + concentration * (family.calibration.log_ratio(together) - of_one)
    n_widths = family.widths.size  # the kernel on distances has no width among ranks
    by_width = log_p[:n_widths].transpose(1, 0, 2).reshape(n_widths * K, c)
    k, w = np.divmod(np.argmin(by_width, axis=0), n_widths)
    hsic = (T - moments.mean)[w, k, np.arange(c)] / (state.n_samples - 1)
    adjusted_log_p = together + ratio
    if family is state.ranks:
        adjusted_log_p = adjusted_log_p + along_parabola(adjusted_log_p, state.tail_bend)
    return FeatureScores(np.minimum(adjusted_log_p, 0.0), hsic, family.widths[w], shape)


def shapes_of(table: Float, mu: Float, curve: Float) -> Float:
    """Shape of the dependence of each feature, as a number in `SHAPES`, (c,).

    The shape is linear, monotone, or not monotone. It is derived from a curve: the sum of the
    significant functions of the strongest label direction. Coefficients are damped (Fejer), so that
    the curve of a step does not oscillate.

    Parameters
    ----------
    table : (c, R, S)
        Table C of each feature.
    mu : (K, S)
        Weights of the label directions.
    curve : (R, n)
        Values of the functions at n ascending ranks.
    """
    weighted = np.square(table) * mu[0]
    s = weighted.sum(axis=1).argmax(axis=1)
    own = np.take_along_axis(table, s[:, None, None], axis=2)[..., 0]  # (c, R)
    z2 = np.square(own)
    significant = np.where(z2 > PART_OF_SHAPE, own, 0.0)
    leading = z2.argmax(axis=1)
    every = np.arange(len(own))
    significant[every, leading] = own[every, leading]
    is_line = (np.count_nonzero(significant, axis=1) == 1) & (leading == 0)
    significant *= 1.0 - np.arange(significant.shape[1]) / (significant.shape[1] + 1.0)
    places = np.linspace(0, curve.shape[1] - 1, 49).astype(int)
    steps = np.diff(significant @ curve[:, places], axis=1)
    up, down = np.maximum(steps, 0).sum(axis=1), np.maximum(-steps, 0).sum(axis=1)
    turns = np.minimum(up, down) > GOES_BACK * np.maximum(up, down)
    return np.where(is_line, 1.0, np.where(turns, 3.0, 2.0))
