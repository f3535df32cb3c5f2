r"""HSIC of ranks at several widths: what one pass computes for every feature.

A feature is replaced by functions of its ranks (`dhsic.linalg.rank_basis`), labels by a few
directions (`dhsic.criteria.label_functions`). For each feature there is one table

    ``C[r, s] = phi_r . b_s``,  (R, S),

and HSIC at a width h of the features and a width k of the labels is a reweighting of its squares,
``sum_rs lambda_r(h) mu_s(k) C[r, s]^2 / m``. Features without ties are permutations of the same
values, so they share one law under independence; features with ties have that of their pattern
(`dhsic.criteria.patterns`), in mean, variance and skewness of all permutations.

Features of two or three values (genotypes) are in `dhsic.criteria.level_scores`, others in
`dhsic.criteria.rank_scores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dhsic._typing import Float, Index
from dhsic.criteria.label_functions import LabelDirections
from dhsic.criteria.missingness import MissingnessTest
from dhsic.criteria.null import NullOf
from dhsic.criteria.patterns import PatternSums
from dhsic.criteria.rank_law import Calibration, TailTable, WidthLaw, combined
from dhsic.criteria.rare import Carriers, RareLaw
from dhsic.criteria.unbalanced import along_parabola, drawn_sums, is_unbalanced, tail_bend
from dhsic.linalg.covariates import regained
from dhsic.linalg.rank_basis import N_FUNCTIONS, rank_basis, width_weights
from dhsic.linalg.symmetric import LowRankSymmetric

#: Widths of the kernel on ranks, as parts of their range, and the share of each in the combination:
#: the widest kernel is a straight line.
WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
SHARES = np.array([0.7, 0.1, 0.06, 0.05, 0.045, 0.045])
#: The same for features of three values: the value itself, and all differences between levels.
LEVEL_WIDTHS = (1.0, 1 / 8)
LEVEL_SHARES = np.array([0.75, 0.25])
#: Levels of which more than these are merged, next to next, for the law of a pattern; and for that
#: of features without ties.
MOST_LEVELS, MOST_UNTIED = 64, 1024
#: Numbers that are gathered at once.
AT_ONCE = 1 << 20
#: Part of ``||C|| ||A||`` below which HSIC of permutations does not vary.
SAME = 1e-9
#: Part of the labels' variance that samples present have, at least.
NOTHING_LEFT = 1e-6
#: Shapes of a dependence, by number.
SHAPES = np.array(["", "linear", "monotone", "turning"], dtype=object)
#: Z^2 from which on a function takes part in the shape, and how far a curve may go back, relative
#: to how far it goes on, and does not turn.
PART_OF_SHAPE, GOES_BACK = 9.0, 0.4


@dataclass(frozen=True, eq=False)
class WidthFamily:
    """Kernels at several widths on features of one kind, and laws and shares of each with labels.

    `weights` (n, R) are of the functions; `laws` (n K) and `shares` (n K,) are in the order of
    widths for the first label matrix, then for the next.
    """

    widths: Float
    weights: Float
    laws: tuple[WidthLaw, ...]
    shares: Float
    calibration: Calibration

    @staticmethod
    def of(
        widths: tuple[float, ...],
        shares: Float,
        n_functions: int,
        labels: LabelDirections,
        nu: int,
    ) -> WidthFamily:
        """Family for features of `n_functions`; `nu` is samples less 1, less covariates."""
        weights = np.array([width_weights(h, n_functions) for h in widths])
        if n_functions == 1:
            widths, weights, shares = widths[:1], weights[:1], np.ones(1)
        each = labels.matrices
        laws = tuple(WidthLaw.of(row, C, nu) for C in each for row in weights)
        both = np.multiply.outer(labels.shares, shares).ravel()
        calibration = Calibration.of(weights, each, laws, both, nu)
        return WidthFamily(np.array(widths), weights, laws, both, calibration)


@dataclass(frozen=True, eq=False)
class WidthMoments:
    """Mean, deviation and skewness of HSIC at each width and label matrix, (n, K, c)."""

    mean: Float
    spread: Float
    skewness: Float

    def take(self, which: Index) -> WidthMoments:
        """Moments of the features at the positions `which`."""
        return WidthMoments(*(each[..., which] for each in (self.mean, self.spread, self.skewness)))

    def repeated(self, c: int) -> WidthMoments:
        """Moments of one feature, copied for c features."""
        each = self.mean, self.spread, self.skewness
        return WidthMoments(*(np.repeat(values, c, axis=2) for values in each))

    def scaled(self, part: Float) -> WidthMoments:
        """Moments where samples present have only a part (K, c) of the labels' variance."""
        return WidthMoments(self.mean * part, self.spread * part, self.skewness)


@dataclass(frozen=True, eq=False)
class Multiscale:
    """Labels that are permuted, with all that scoring a feature asks of them."""

    labels: LabelDirections
    Q: Float  # (m, p), orthonormal basis of ``[1, covariates]``
    nulls: tuple[NullOf, ...]
    ranks: WidthFamily  # of features of many values
    levels: WidthFamily  # of three values
    single: WidthFamily  # of two values
    #: Laws of variants that few samples carry, made where they are asked for.
    laws: dict[tuple[int, Carriers], RareLaw | None] = field(default_factory=dict)

    @staticmethod
    def of(labels: LabelDirections, Q: Float) -> Multiscale:
        """From the directions of labels."""
        m = len(labels.B)
        R, nu = len(rank_basis(m, N_FUNCTIONS)), m - Q.shape[1]
        return Multiscale(
            labels,
            Q,
            tuple(NullOf.of(C) for C in labels.matrices),
            WidthFamily.of(WIDTHS, SHARES, R, labels, nu),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 2, labels, nu),
            WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 1, labels, nu),
        )

    @property
    def additive(self) -> Multiscale:
        """State of a test of the dosage alone, without dominance.

        It is for chromosomes of which some samples have one copy, as males have of X: only samples
        with two copies are heterozygous, so dominance would test for the sexes.
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
        """Number of label matrices."""
        return len(self.labels.mu)

    @cached_property
    def tail_bend(self) -> float:
        """Correction of small p-values where a class is rare (`dhsic.criteria.unbalanced`)."""
        b, family = self.labels.B[:, 0], self.ranks
        if self.labels.B.shape[1] > 1 or not is_unbalanced(b):
            return 0.0
        moments, found = self.moments(self.untied), []
        for sums in drawn_sums(rank_basis(self.n_samples, N_FUNCTIONS), b):
            T = (family.weights @ np.square(sums).T)[:, None] * self.labels.mu[0] / self.n_samples
            log_p = tails(self, family, T, moments.repeated(len(sums)), self.untied_tables)[:, 0]
            together = combined(log_p, family.shares)
            found.append(together + family.calibration.log_ratio(together))
        return tail_bend(np.concatenate(found))

    @cached_property
    def missingness(self) -> MissingnessTest:
        """Test of missing values by the directions of the labels."""
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
        """Columns that are summed over levels: B, the diagonals, and Q if there are covariates."""
        Q = self.Q[:, : self.Q.shape[1] if self.has_covariates else 0]
        return np.concatenate([self.labels.B, self.diagonals, Q], axis=1)

    @cached_property
    def basis(self) -> Float:
        """Functions of ranks, (R, m) float32: products with them are sums of thousands of terms."""
        return rank_basis(self.n_samples, N_FUNCTIONS).astype(np.float32)

    @cached_property
    def untied(self) -> PatternSums:
        """Sums over the kernel matrix of a feature without ties, (1, n, ...)."""
        edges = np.linspace(0, self.n_samples, min(self.n_samples, MOST_UNTIED) + 1).astype(int)
        functions, counts = self.functions_between(edges[None])
        return PatternSums.of(functions, counts, self.ranks.weights)

    @cached_property
    def untied_tables(self) -> tuple[TailTable, ...]:
        """Laws of features without ties, by deviation alone."""
        skewness = self.moments(self.untied).skewness[..., 0]  # (n, K)
        by_law = zip(self.ranks.laws, skewness.T.ravel(), strict=True)
        return tuple(law.tabulated(float(skew)) for law, skew in by_law)

    @cached_property
    def _cumulated(self) -> Float:
        """Sums of the functions over the places before each, (R, m + 1)."""
        basis = rank_basis(self.n_samples, N_FUNCTIONS)
        return np.concatenate([np.zeros((len(basis), 1)), np.cumsum(basis, axis=1)], axis=1)

    def functions_between(self, edges: Index) -> tuple[Float, Float]:
        """Means of the functions between edges (c, q + 1), (c, R, q), and places there, (c, q)."""
        counts = np.diff(edges, axis=1)
        sums = np.diff(self._cumulated[:, edges], axis=2).transpose(1, 0, 2)
        return sums / np.maximum(counts, 1)[:, None, :], counts.astype(np.float64)

    def moments(self, sums: PatternSums) -> WidthMoments:
        """Moments under independence for each label matrix."""
        found = [null.moments(sums.trace, sums.second, sums.third) for null in self.nulls]
        mean, variance, skewness = (
            np.stack([np.asarray(getattr(each, name)).T for each in found], axis=1)
            for name in ("mean", "variance", "skewness")
        )  # (n, K, c)
        return WidthMoments(mean, np.sqrt(variance), skewness)

    def label_parts(self, diagonal: Float, totals: Float, n: Float) -> Float:
        """Part of the trace of the label matrices that samples present have, centred, (K, c).

        Parameters
        ----------
        diagonal : (c, K)
            Sums of the diagonals over the missing samples.
        totals : (c, S)
            Sums of the directions over the samples present.
        n : (c,)
            Samples present.
        """
        whole = self.diagonals.sum(axis=0)
        means = np.square(totals) @ self.labels.mu.T / np.maximum(n, 1)[:, None]
        return np.asarray(np.maximum((whole - diagonal - means) / whole, NOTHING_LEFT).T)


@dataclass(frozen=True, eq=False)
class FeatureScores:
    """Test results of c features, (c,) each."""

    log_p: Float
    hsic: Float
    width: Float
    shape: Float

    @staticmethod
    def empty(c: int) -> FeatureScores:
        return FeatureScores(*(np.zeros(c) for _ in range(4)))

    def put(self, which: Index, other: FeatureScores) -> None:
        """Store the scores of the features at the positions `which`."""
        for name in ("log_p", "hsic", "width", "shape"):
            getattr(self, name)[which] = getattr(other, name)


def tails(
    state: Multiscale,
    family: WidthFamily,
    T: Float,
    moments: WidthMoments,
    tables: Sequence[TailTable] | None = None,
) -> Float:
    """Logarithms of p-values of HSIC at each width, (n, K, c): 0 where permutations do not vary.

    By the `tables` of the laws, where all features have the same skewness.
    """
    times = regained(state.Q)
    spread = moments.spread * times
    varies = spread > SAME * np.abs(moments.mean)
    z = np.zeros_like(T)
    np.divide(T - moments.mean * times, spread, out=z, where=varies)
    found, n = np.zeros_like(T), len(family.weights)
    for number, law in enumerate(family.laws):
        k, w = divmod(number, n)
        if tables is None:
            found[w, k] = law.log_p(z[w, k], moments.skewness[w, k])
        else:
            found[w, k] = tables[number](z[w, k])
    return np.where(varies, found, 0.0)


def concentration_of(state: Multiscale, moments: WidthMoments) -> Float:
    """How much laws differ between widths, relative to features without ties: 0 to 1, (c,)."""
    free = state.moments(state.untied).skewness[:, 0, 0]
    span, own = free[0] - free[-1], moments.skewness[0, 0] - moments.skewness[-1, 0]
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
    """Scores of features from p-values at all widths, (n, K, c)."""
    n, K, c = log_p.shape
    by_law = log_p.transpose(1, 0, 2).reshape(n * K, c)
    together = combined(by_law, family.shares)
    of_one = state.single.calibration.log_ratio(together)
    ratio = of_one + concentration * (family.calibration.log_ratio(together) - of_one)
    k, w = np.divmod(np.argmin(by_law, axis=0), n)
    hsic = (T - moments.mean)[w, k, np.arange(c)] / (state.n_samples - 1)
    found = together + ratio
    if family is state.ranks:
        found = found + along_parabola(found, state.tail_bend)
    return FeatureScores(np.minimum(found, 0.0), hsic, family.widths[w], shape)


def shapes_of(table: Float, mu: Float, curve: Float) -> Float:
    """Shape of each dependence by number in `SHAPES`, (c,).

    Of the label direction that says most, the functions that stand out make a curve: a straight
    line, one that goes up or down throughout, or one that turns. Coefficients fall off evenly
    (Fejer), by which the curve of a step does not swing.

    Parameters
    ----------
    table : (c, R, S)
        C of each feature.
    mu : (K, S)
        Weights of the directions.
    curve : (R, n)
        The functions at ascending ranks; empty where the first alone is monotone.
    """
    weighted = np.square(table) * mu[0]
    s = weighted.sum(axis=1).argmax(axis=1)
    own = np.take_along_axis(table, s[:, None, None], axis=2)[..., 0]  # (c, R)
    z2 = np.square(own)
    kept = np.where(z2 > PART_OF_SHAPE, own, 0.0)
    leading = z2.argmax(axis=1)
    every = np.arange(len(own))
    kept[every, leading] = own[every, leading]
    is_line = (np.count_nonzero(kept, axis=1) == 1) & (leading == 0)
    kept *= 1.0 - np.arange(kept.shape[1]) / (kept.shape[1] + 1.0)
    places = np.linspace(0, curve.shape[1] - 1, 49).astype(int)
    steps = np.diff(kept @ curve[:, places], axis=1)
    up, down = np.maximum(steps, 0).sum(axis=1), np.maximum(-steps, 0).sum(axis=1)
    turns = np.minimum(up, down) > GOES_BACK * np.maximum(up, down)
    return np.where(is_line, 1.0, np.where(turns, 3.0, 2.0))
