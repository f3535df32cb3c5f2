r"""Test of every feature by HSIC of ranks at several widths, if samples come in blocks.

Labels are exchanged between whole blocks, or within blocks (`dhsic.linalg.blocks`). The functions
phi_r of the ranks of a feature are averaged over the samples of each of G units, and the means and
the directions b_s of the labels are centred within strata: ``M_r`` and ``b_s``, (G,). Units are the
blocks or samples that are exchanged. Units are exchanged only within the same stratum. For
independent permutations within all strata t, of n_t units each, the product ``Z_rs = M_r . b_s``
has mean 0 and variance

    ``V_rs = sum_t |M_r(t)|^2 |b_s(t)|^2 / (n_t - 1)``,

where ``M_r(t)`` and ``b_s(t)`` are the parts in stratum t. A stratum with one unit contributes
nothing. HSIC at a width is ``T = sum_rs lambda_r mu_s Z_rs^2 / V_rs``, with weights lambda_r of the
functions and mu_s of the directions. Division by ``V_rs`` gives each function the same weight as
for samples without blocks. Otherwise the first function, the level of a feature, would have more
weight, because donors differ most in it.

Mean, variance and skewness of T over all permutations are exact if there is one stratum without
covariates. Otherwise they are computed for a ratio of quadratic forms in normal numbers
(`dhsic.criteria.rank_law`), with the covariances of the Z_rs, and degrees of freedom ``nu = (sum_t
|b(t)|^2)^2 / sum_t |b(t)|^4 / (n_t - 1)`` (Satterthwaite, 1946). With few distinct assignments of
labels to units, all of them are enumerated and the p-value is exact. With up to 256 units, p-values
below 0.1 come from random permutations: the tail of the distribution is stretched so that it agrees
with the smallest p-values of the draws. No p-value is below the fraction of the assignments that
give the same label matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import exp

import numpy as np
from scipy.special import gammaln

from dhsic._typing import Array, Float, Index
from dhsic.criteria.base import AbstractCriterion, CriterionScores, LabelReading
from dhsic.criteria.features import Features
from dhsic.criteria.independence import LOG_10, Independence
from dhsic.criteria.label_functions import LEAST_LEFT, LabelDirections
from dhsic.criteria.multiscale import (
    DISTANCE_WIDTH,
    LEVEL_SHARES,
    LEVEL_WIDTHS,
    SHARES,
    WIDTHS,
    FeatureScores,
    Multiscale,
    WidthFamily,
    WidthMoments,
    combined_scores,
    concentration_of,
    shapes_of,
    tails,
)
from dhsic.criteria.null import NullOf
from dhsic.criteria.patterns import PatternSums
from dhsic.criteria.rank_law import combined
from dhsic.criteria.rank_scores import sorted_levels
from dhsic.criteria.rare import FEW
from dhsic.errors import InputError, warn
from dhsic.kernels.labels import MIXED, LabelMatrix, label_matrix
from dhsic.linalg.blocks import Blocks
from dhsic.linalg.covariates import covariate_basis, nothing_left, orthonormal_columns
from dhsic.linalg.rank_basis import N_FUNCTIONS, level_functions, rank_basis
from dhsic.validation import as_array

#: Maximum number of assignments of labels to units that are enumerated.
MOST_ASSIGNMENTS = 2000
#: Maximum number of units for which moments over permutations are exact.
MOST_EXACT = 256
#: Number of features whose moments are computed together.
HEIGHT = 16
#: Fraction of the variance of a function below which it does not vary between units.
NOTHING = 1e-12
#: Difference of log p-values up to which assignments are ties.
TIE = 1e-9
#: Maximum number of units whose permutations are drawn; and p-value below which they are drawn.
MOST_DRAWN, DRAWN_BELOW = 256, 0.1
#: Number of draws, and maximum numbers of products and of permuted labels in memory; and the number
#: of draws with a smaller p-value below which the tail is extrapolated.
DRAWS, NUMBERS, LABELS, FEW_DRAWS = 9_999, 4_000_000, 6_000_000, 20
#: p-value that some assignment should reach.
WANTED = 0.05


@dataclass(frozen=True, eq=False)
class BlockState:
    """State of the test: labels of the G units, and null distributions of products with them.

    Attributes
    ----------
    blocks : Blocks
        Units and strata of the samples.
    units : Multiscale
        State of the test of the units: directions (G, S) of their labels, and the null
        distributions of HSIC at each width.
    C : (G, q)
        Orthonormal basis of the covariates, centred within strata.
    h : (G, S)
        Variance of products with each direction: the coefficients of the squares of a function.
    nu : float
        Degrees of freedom.
    assigned : (G, N + 1, S) or None
        Directions of the observed labels, then of all N distinct assignments of labels to units.
        None if there are too many.
    log_least : float
        Logarithm of the smallest possible p-value.
    regained : float
        Factor by which products with permuted residuals are multiplied, because regression on
        covariates reduces the variance of these residuals.
    """

    blocks: Blocks
    units: Multiscale
    C: Float
    h: Float
    nu: float
    assigned: Float | None
    log_least: float
    regained: float

    @staticmethod
    def of(labels: LabelDirections, blocks: Blocks, covariates: Float | None) -> BlockState:
        """Create the state from label directions (G, S) of the G units.

        Units are the blocks or samples that permutations exchange. `covariates` (G, q) are means
        over units.
        """
        G = blocks.n_units
        C = np.empty((G, 0))
        if covariates is not None:
            within = blocks.centred(np.ascontiguousarray(covariates.T)).T
            C = orthonormal_columns(within, np.empty((G, 0)), LEAST_LEFT)[0]
        of_labels = labels.B
        B = blocks.centred(np.ascontiguousarray(labels.B.T)).T
        is_left = np.linalg.norm(B, axis=0) > LEAST_LEFT
        if not is_left.any():
            raise _constant_within()
        B, numbers = orthonormal_columns(B, C, LEAST_LEFT)
        if not numbers:
            raise nothing_left()
        mu = labels.mu[:, numbers]
        mu = mu / np.linalg.norm(mu, axis=1, keepdims=True)
        labels = LabelDirections(B, mu, labels.shares)
        h, nu, regained = _variances(B, mu[0], blocks, C.shape[1])
        assignments, log_least = _assignments(of_labels, blocks)
        assigned = None
        if assignments is not None:
            log_least = _log_least(labels, assignments)
            if not C.shape[1]:  # residuals of covariates are not exchanged exactly
                assigned = B[np.concatenate([np.arange(G)[None], assignments]).T]
        units = _law_of_units(labels, nu, G)
        units = replace(units, bends=G > MOST_DRAWN and not blocks.has_strata)
        return BlockState(blocks, units, C, h, nu, assigned, log_least, regained)

    @property
    def additive(self) -> BlockState:
        """Return the state of a test of the dosage only.

        See `Multiscale.additive`.
        """
        return replace(self, units=self.units.additive)

    @property
    def is_exact(self) -> bool:
        """Whether the moments over all permutations are known in closed form."""
        return not (self.blocks.has_strata or self.C.shape[1]) and self.blocks.n_units <= MOST_EXACT

    @cached_property
    def drawn(self) -> Float | None:
        """Directions of the observed labels and of N permutations, (G, N + 1, S).

        There are S directions of G units (blocks or samples that permutations exchange). The result
        is None if there are many units.
        """
        G, (R, S) = self.blocks.n_units, (N_FUNCTIONS, self.h.shape[1])
        if G > MOST_DRAWN:
            return None
        n = min(DRAWS, NUMBERS // (R * S), LABELS // (G * S))
        keys = self.blocks.strata + np.random.default_rng(0).random((n, G))
        B = self.units.labels.B
        return np.concatenate([B[:, None], B[keys.argsort(axis=1).T] * self.regained], axis=1)

    @cached_property
    def cumulated(self) -> Float:
        """Cumulative sums of the R rank functions over ascending ranks, (R, m + 1)."""
        R, m = self.units.ranks.weights.shape[1], self.blocks.units.size
        basis = rank_basis(m, N_FUNCTIONS)[:R]
        return np.concatenate([np.zeros((len(basis), 1)), np.cumsum(basis, axis=1)], axis=1)

    @cached_property
    def curve(self) -> Float:
        """Values of the R rank functions at ascending ranks, (R, m)."""
        return np.diff(self.cumulated, axis=1)

    def means(self, functions: Float, level: Index) -> Float:
        """Means of R functions over the samples of each unit, centred within strata, (R, G).

        Units are the blocks or samples that permutations exchange. `functions` (R, q) are the
        values of the functions at the q levels of a feature. `level` (m,) is the level of each
        sample, or q if the value is missing. Covariates are projected out.
        """
        blocks, (R, q) = self.blocks, functions.shape
        if blocks.n_units * q < blocks.units.size:
            counts = np.bincount(blocks.units * (q + 1) + level, minlength=blocks.n_units * (q + 1))
            by_level = counts.reshape(blocks.n_units, q + 1)[:, :q].astype(np.float64)
            n = by_level.sum(axis=1)
            M = functions @ by_level.T / np.maximum(n, 1.0)
        else:
            padded = np.concatenate([functions, np.zeros((R, 1))], axis=1)
            M = padded[:, level[blocks.by_unit]]
            n = (level[blocks.by_unit] < q).astype(np.float64)
            if blocks.n_units < blocks.units.size:
                begins = np.cumsum(blocks.sizes) - blocks.sizes
                n = np.add.reduceat(n, begins)
                M = np.add.reduceat(M, begins, axis=1) / np.maximum(n, 1.0)
        M = blocks.centred(M, None if n.all() else np.minimum(n, 1.0))
        return M - (M @ self.C) @ self.C.T if self.C.shape[1] else M


def _law_of_units(labels: LabelDirections, nu: float, G: int) -> Multiscale:
    """State of the test of G units (blocks or samples that are exchanged).

    `nu` is its number of degrees of freedom.
    """
    R, degrees = len(rank_basis(G, N_FUNCTIONS)), max(2, round(nu))
    return Multiscale(
        labels,
        np.full((G, 1), G**-0.5),
        tuple(NullOf.of(C) for C in labels.matrices),
        WidthFamily.of(WIDTHS, SHARES, R, labels, degrees, DISTANCE_WIDTH),
        WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 2, labels, degrees),
        WidthFamily.of(LEVEL_WIDTHS, LEVEL_SHARES, 1, labels, degrees),
    )


def _variances(B: Float, mu: Float, blocks: Blocks, q: int) -> tuple[Float, float, float]:
    """Compute coefficients h (G, S), degrees of freedom nu, and factor `regained`.

    They are attributes of `BlockState`. B (G, S) are the label directions of G units (blocks or
    samples that permutations exchange), mu (S,) their weights, and q is the number of covariates.
    """
    n = np.diff(np.append(blocks.starts, blocks.n_units))
    parts = np.add.reduceat(np.square(B), blocks.starts, axis=0)  # |b_s(t)|^2
    per_unit = parts / np.maximum(n - 1, 1)[:, None]
    own = parts @ mu
    nu = float(own.sum() ** 2 / (np.square(own) / np.maximum(n - 1, 1)).sum())
    left = max(nu - q, 1.0)
    return np.repeat(per_unit, n, axis=0) * (nu / left), left, (nu / left) ** 0.5


def _assignments(B: Float, blocks: Blocks) -> tuple[Index | None, float]:
    """All distinct assignments of labels to units (N, G), and the log of the smallest p-value.

    Units are the blocks or samples that permutations exchange. B (G, S) are their label directions
    before they are centred within strata; units with equal rows have equal labels. The assignments
    are None if N is above `MOST_ASSIGNMENTS`.
    """
    kinds = np.unique(B.round(9), axis=0, return_inverse=True)[1].ravel()
    ends = np.append(blocks.starts[1:], blocks.n_units)
    each = [np.arange(a, b) for a, b in zip(blocks.starts, ends, strict=True)]
    log_n = 0.0
    for some in each:
        counts = np.bincount(kinds[some])
        log_n += float(gammaln(some.size + 1) - gammaln(counts + 1.0).sum())
    if log_n > np.log(MOST_ASSIGNMENTS + 0.5):
        return None, -log_n
    by_stratum = [list(_arrangements(some, kinds)) for some in each]
    rows = [np.concatenate(row) for row in product(*by_stratum)]
    return np.array(rows, dtype=np.int64), -log_n


def _arrangements(some: Index, kinds: Index) -> Iterator[Index]:
    """Yield the units `some` in all distinct orders; units of the same kind are interchangeable."""
    if not some.size:
        yield some
        return
    for kind in np.unique(kinds[some]).tolist():
        at = int(np.flatnonzero(kinds[some] == kind)[0])
        for others in _arrangements(np.delete(some, at), kinds):
            yield np.append(some[at : at + 1], others)


def _log_least(labels: LabelDirections, assignments: Index) -> float:
    """Log of the fraction of assignments (N, G) that leave the label matrix unchanged."""
    mu = labels.mu[0]
    inner = np.square(labels.B.T @ labels.B[assignments]) * mu[:, None] * mu  # (N, S, S)
    return float(np.log(np.mean(inner.sum(axis=(1, 2)) >= (1.0 - 1e-9) * (mu @ mu))))


def _constant_within() -> InputError:
    return InputError(
        "Labels are constant within every block of permute_within=, so no permutation within "
        "blocks changes them. If whole blocks may be exchanged, pass them as permute_whole=."
    )


def scores_of_blocks(state: BlockState, features: Features) -> FeatureScores:
    """Compute the scores of all features of a tile."""
    scores = FeatureScores.empty(len(features.X))
    for a in range(0, len(features.X), HEIGHT):
        rows = slice(a, a + HEIGHT)
        missing = None if features.missing is None else features.missing[rows]
        each = list(_means_of(state, features.X[rows], missing))
        for family in (state.units.ranks, state.units.levels, state.units.single):
            at = np.array([i for i, (own, _) in enumerate(each) if own is family], dtype=np.int64)
            if at.size:
                M = np.stack([each[i][1] for i in at])
                scores.put(a + at, _of_family(state, family, M))
    return scores


def _means_of(
    state: BlockState, X: Float, missing: Array | None
) -> Iterator[tuple[WidthFamily, Float]]:
    """Yield the unit means of each feature, and the kernel family that tests it.

    Units are the blocks or samples that permutations exchange. Features are X (c, m); means of R
    functions over G units are (R, G).
    """
    order, starts, n_present = sorted_levels(X, missing)
    m = X.shape[1]
    for x, samples, begins_here, n in zip(X, order, starts, n_present.tolist(), strict=True):
        begins = np.flatnonzero(begins_here[:n])
        level = np.full(m, begins.size)
        level[samples[:n]] = np.cumsum(begins_here[:n]) - 1
        counts = np.diff(np.append(begins, n))
        family = state.units.ranks
        if begins.size <= 3:
            is_rare = begins.size < 3 or counts.min() <= FEW
            family = state.units.single if is_rare else state.units.levels
            values = x[samples[begins]]
            R = family.weights.shape[1]
            functions = level_functions(counts[None].astype(np.float64), values[None], R)[0]
        else:
            edges = np.append(begins, n) * m // n
            functions = np.diff(state.cumulated[:, edges], axis=1) / np.maximum(np.diff(edges), 1)
        yield family, state.means(functions, level)


def _of_family(state: BlockState, family: WidthFamily, M: Float) -> FeatureScores:
    """Scores of c features with the kernels of one family, from their unit means M (c, R, G).

    These are means of R functions over G units (blocks or samples that permutations exchange).
    """
    units = state.units
    V = np.square(M) @ state.h  # (c, R, S)
    roots = np.sqrt(np.where(V > 0, V, np.inf))
    z = M @ units.labels.B / roots
    T = _hsic(family, z, units.labels.mu)
    moments = _moments(state, family, M)
    log_p = tails(units, family, T, moments)
    of_levels = np.full(len(M), 1.0 if family is units.levels else 0.0)
    is_ranks = family is units.ranks
    concentration = concentration_of(units, moments) if is_ranks else of_levels
    shape = shapes_of(z, units.labels.mu, state.curve) if is_ranks else np.ones(len(M))
    scores = combined_scores(units, family, log_p, T, moments, concentration, shape)
    by_draws = state.assigned is not None or state.drawn is not None
    below = np.log(1.0 if state.assigned is not None else DRAWN_BELOW)
    for j in np.flatnonzero(scores.log_p <= below).tolist() if by_draws else ():
        scores.log_p[j] = _permuted(state, family, M[j], roots[j], moments.take(np.array([j])))
    return replace(scores, log_p=np.maximum(scores.log_p, state.log_least))


def _hsic(family: WidthFamily, z: Float, mu: Float) -> Float:
    """HSIC (n, K, c) for n kernel widths of the feature and K label matrices.

    z (c, R, S) are standardised products.
    """
    return np.asarray(np.einsum("nr,crk->nkc", family.weights, np.square(z) @ mu.T))


def _moments(state: BlockState, family: WidthFamily, M: Float) -> WidthMoments:
    """Moments of HSIC over the permutations that blocks allow, from unit means M (c, R, G).

    These are means of R functions over G units (blocks or samples that permutations exchange).
    """
    units, G = state.units, M.shape[2]
    h = state.h @ units.labels.mu[0] / units.labels.mu[0].sum()
    roots = np.sqrt(h)
    scaled = M * roots
    sizes = np.linalg.norm(scaled, axis=2, keepdims=True)
    unit = np.divide(scaled, sizes, out=np.zeros_like(M), where=sizes > 0)
    if state.is_exact:
        sums = PatternSums.of(unit * np.sqrt(G), np.ones((len(M), G)), family.weights)
        exact = units.moments(sums)
        return WidthMoments(exact.mean * (G - 1), exact.spread * (G - 1), exact.skewness)
    gram = unit @ unit.transpose(0, 2, 1)
    n, K = len(family.weights), units.K
    mean, variance, third = (np.empty((n, K, len(M))) for _ in range(3))
    for w, row in enumerate(np.sqrt(family.weights)):
        A = gram * row[:, None] * row
        square = A @ A
        one, two = np.einsum("crr->c", A), np.einsum("crr->c", square)
        three = np.einsum("crs,crs->c", square, A)
        for k, mu in enumerate(units.labels.mu):
            powers = one * mu.sum(), two * np.square(mu).sum(), three * (mu**3).sum()
            mean[w, k], variance[w, k], third[w, k] = ratio_moments(*powers, state.nu)
    spread = np.sqrt(variance)
    skewness = np.divide(third, spread**3, out=np.zeros_like(third), where=spread > 0)
    return WidthMoments(mean, spread, skewness)


def ratio_moments(one: Float, two: Float, three: Float, nu: float) -> tuple[Float, Float, Float]:
    """Mean, variance and third central moment of ``Q / V``, as in `dhsic.criteria.rank_law`.

    Q is a mixture of chi-squares; `one`, `two` and `three` are the sums of its weights, of their
    squares and of their cubes. V has nu degrees of freedom.
    """
    second = (one**2 + 2.0 * two) / (1.0 + 2.0 / nu)
    third = one**3 + 6.0 * one * two + 8.0 * three
    third = third / ((1.0 + 2.0 / nu) * (1.0 + 4.0 / nu))
    return one, np.maximum(second - one**2, 0.0), third - 3.0 * one * second + 2.0 * one**3


def _permuted(
    state: BlockState, family: WidthFamily, M: Float, roots: Float, moments: WidthMoments
) -> float:
    """Log p-value of one feature with unit means M (R, G), from all or random permutations.

    These are means of R functions over G units (blocks or samples that permutations exchange). The
    result is the fraction of permutations with a combined p-value of at most the observed value.
    `roots` (R, S) are the standard deviations of products.
    """
    B = state.drawn if state.assigned is None else state.assigned
    assert B is not None, "there are few units"
    products = (M @ B.reshape(len(B), -1)).reshape(len(M), *B.shape[1:])
    z = products.transpose(1, 0, 2) / roots  # (N + 1, R, S)
    T = _hsic(family, z, state.units.labels.mu)
    n, K, N = T.shape
    log_p = tails(state.units, family, T, moments.repeated(N))
    together = combined(log_p.transpose(1, 0, 2).reshape(n * K, N), family.shares)
    own, others = together[0], together[1:]
    n_smaller = int(np.count_nonzero(others <= own + TIE))
    if state.assigned is not None:
        return float(np.log(n_smaller / others.size))
    if n_smaller >= FEW_DRAWS:
        return float(np.log((1 + n_smaller) / N))
    end = float(np.partition(others, FEW_DRAWS - 1)[FEW_DRAWS - 1])
    return float(own * np.log((0.5 + FEW_DRAWS) / N) / end) if end < 0 else 0.0


@dataclass(frozen=True)
class BlockIndependence(AbstractCriterion):
    """Test of HSIC at several widths for samples in blocks.

    Permutations respect the blocks.

    Parameters
    ----------
    blocks : Blocks
        Blocks of the samples.
    label_kernel : str
        See `Independence`.
    """

    name = "hsic"
    meaning = Independence.meaning
    labels = LabelReading(lambda y, criterion: criterion.read(y), lambda labels: labels)
    has_bandwidth = True
    is_timed = False
    takes_covariates = True
    tells_more = True
    blocks: Blocks
    label_kernel: str = "auto"

    @property
    def leaves_missing_out(self) -> bool:
        return True

    @property
    def goes_by_ranks(self) -> bool:
        return True

    def read(self, y: Array, covariates: Array | None = None) -> LabelMatrix:
        """Read the labels of the samples as labels of the G units.

        Units are the blocks or samples that permutations exchange.
        """
        if self.label_kernel == "precomputed":
            raise InputError(
                f"{self.blocks.options} needs one label per sample, not "
                "label_kernel='precomputed'; pass labels, or leave the blocks out."
            )
        self.blocks.check()
        labels = self.blocks.of_units(as_array(y, "y"))
        return label_matrix(labels, self.label_kernel, self._of_units(covariates)).centred

    def _of_units(self, covariates: Array | None) -> Float | None:
        """Means of covariates (m, q) over units (blocks or samples that are exchanged), (G, q)."""
        if covariates is None:
            return None
        C = np.asarray(covariates, dtype=np.float64)
        C = C[:, None] if C.ndim == 1 else C
        return self.blocks.means(np.ascontiguousarray(C.T)).T

    def prepare(self, labels: LabelMatrix, covariates: Array | None = None) -> BlockState:
        """Prepare the state from labels of units, and covariates (m, q) of the samples.

        Units are the blocks or samples that permutations exchange.
        """
        C = self._of_units(covariates)
        Q = covariate_basis(C, self.blocks.n_units)
        directions = LabelDirections.of(labels, Q, by_ranks=self.label_kernel in ("auto", MIXED))
        if directions is None:
            raise InputError(
                f"Labels with more than 64 classes are not supported with {self.blocks.options}; "
                "merge classes, or leave the blocks out."
            )
        if not directions.B.shape[1]:
            raise nothing_left()
        state = BlockState.of(directions, self.blocks, C)
        least = exp(state.log_least)
        if least > WANTED:
            warn(
                f"The labels of {self.blocks.n_units:,} blocks can be exchanged in so few ways "
                f"that no p-value is below {least:.2g}. Samples of more blocks are needed to show "
                "a dependence."
            )
        return state

    def directions(self, state: BlockState) -> Float:
        return np.empty((state.blocks.units.size, 0))

    def columns(self, state: BlockState, features: Features, place: slice) -> Float:
        """Compute ``-log10 p``, HSIC, width and shape of c features, (5, c).

        The last row would be the test of missing values. It is 0, because this criterion has no
        such test.
        """
        scores = scores_of_blocks(state, features)
        none = np.zeros_like(scores.hsic)
        return np.stack([-scores.log_p / LOG_10, scores.hsic, scores.width, scores.shape, none])

    def tile_bytes(self, c: int, m: int) -> int:
        G = min(self.blocks.n_units, MOST_EXACT)
        return 8 * (4 * N_FUNCTIONS * m * HEIGHT + 4 * HEIGHT * G * G + 3 * c * m)

    def label_bytes(self, m: int) -> int:
        drawn = 16 * LABELS + 24 * NUMBERS if self.blocks.n_units <= MOST_DRAWN else 0
        return Independence().label_bytes(m) + 8 * N_FUNCTIONS * m + drawn

    def finish(self, state: BlockState, columns: Float) -> CriterionScores:
        return Independence().finish(state.units, columns)
