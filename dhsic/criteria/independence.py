r"""HSIC and p-value of every single feature, to find which features depend on the labels at all.

The kernel on the feature is Gaussian. Under independence HSIC is approximately gamma distributed,
with the mean, variance and skewness over all permutations of the labels in closed form
(`dhsic.criteria.null`). The p-value is corrected, because HSIC is a mixture of chi-squares
(`dhsic.criteria.mixture`). For variants with few carriers HSIC has few different values, which are
enumerated or sampled (`dhsic.criteria.rare`).

A feature with few values, such as a genotype, takes O(q^3) operations for q values, and sums of a
few directions over its levels (`dhsic.criteria.discrete`). Other features take O(m r^3) each, where
r is the number of directions of their kernel matrix, 20 to 40. If the labels have many directions
(more than 64 classes, or a given matrix), each feature takes O(m^3).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import chdtri

from dhsic._typing import Array, Float, Index, Mask
from dhsic.criteria.base import AbstractCriterion, CriterionScores, LabelReading
from dhsic.criteria.discrete import LevelForms
from dhsic.criteria.features import ENTRIES, Features, Levels, resolve_width
from dhsic.criteria.kernels import COPIES, PAIRS
from dhsic.criteria.label_covariance import LabelCovariance, exchangeable, exchangeable_sums
from dhsic.criteria.label_functions import LabelDirections
from dhsic.criteria.missingness import MissingnessTest
from dhsic.criteria.mixture import Correction
from dhsic.criteria.multiscale import AT_ONCE, SHAPES, Multiscale
from dhsic.criteria.null import Moments, NullOf, log_tail, moments_permuted, rounding_of
from dhsic.criteria.rank_scores import scores_of
from dhsic.criteria.rare import FEW, Carriers, RareLaw, carriers_of
from dhsic.criteria.sums import gaussian
from dhsic.hsic import check_statistic, estimated, statistic_scale
from dhsic.kernels.bandwidth import MEDIAN_SAMPLES
from dhsic.kernels.base import dense_kernel, low_rank_kernel
from dhsic.kernels.censored import CensoredTarget
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.labels import FEW_DIRECTIONS, MIXED, LabelMatrix, label_matrix
from dhsic.kernels.ordinal import SCORE_KERNELS
from dhsic.linalg.covariates import covariate_basis, nothing_left, regained
from dhsic.linalg.residual_covariance import AbstractProductVariance, ResidualCovariance
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric, Symmetric

#: Fraction of the norm of the label matrix up to which covariates explain all of it.
NOTHING = 1e-12
#: Memory per feature: (m, m) matrices without low rank; and numbers if it has few levels.
SQUARES, FORMS = 6, 1000
LOG_10 = float(np.log(10.0))
#: Name of the setting with several widths.
MULTISCALE = "multiscale"
WIDTH_MEANING = (
    "kernel width at which the dependence is strongest, as a fraction of the range of ranks; "
    "the widest is 1"
)
SHAPE_MEANING = "shape of the dependence: linear, monotone or turning"
Q_MEANING = "q-value: false discovery rate among the features with this p-value or a smaller one"
#: Number of arrays of `AT_ONCE` numbers in memory while features are scored at several widths.
TILES_OF_RANKS = 8
#: Fraction of ``||C|| ||A||`` below which HSIC does not vary between permutations.
SAME = 1e-9
#: Maximum error of HSIC from omitted directions of labels, in standard deviations (for most
#: features it is a millionth); fraction of this error allowed before covariates are regressed out;
#: and maximum number of directions.
LEFT_OUT, MISSING, MOST_DIRECTIONS = 1e-3, 0.01, 128
#: Minimum number of samples with a value for a test, in addition to one per covariate.
FEWEST_PRESENT = 4
#: Lock that is held while a law is sampled, because other threads need the same law.
_DRAWING = threading.Lock()


@dataclass(frozen=True, eq=False)
class Permuted:
    """State of the test with one kernel width.

    It contains the label matrix C, a basis of the covariates, and quantities of C that determine
    moments.
    """

    C: Symmetric
    Q: Float | None  # (m, p), a basis of ``[1, covariates]``; None without covariates
    null: NullOf
    correction: Correction | None
    #: Laws of variants with few carriers, computed when needed.
    laws: dict[Carriers, RareLaw | None] = field(default_factory=dict)
    #: Covariance of labels that are residuals of relatives.
    covariance: LabelCovariance | None = None

    @staticmethod
    def of(labels: LabelMatrix, covariates: Array | None) -> Permuted:
        """Compute the label matrix ``C = R L R``, in which covariates are projected out.

        C has low rank if L has low rank. Raises an error if covariates explain all of L. Directions
        are omitted if they hardly matter: they change HSIC by at most their trace times ``

        A

        ``, while HSIC of permuted labels has standard deviation ``2^(1/2)

        C



        A

        / m``.
        """
        m = labels.n_samples
        part = 2**0.5 * LEFT_OUT / m
        L: Symmetric | None = labels.low_rank(MISSING * part, MOST_DIRECTIONS)
        L = DenseSymmetric(labels.L) if L is None else L
        Q = covariate_basis(covariates, m)
        C = L.projected(Q)
        if np.abs(C.diagonal).max() <= NOTHING * np.abs(L.diagonal).max():
            raise nothing_left()
        if isinstance(C, LowRankSymmetric):
            C = C.leading(part)
        correction = Correction.of(C)
        return Permuted(C, None if covariates is None else Q, NullOf.of(C), correction)

    @cached_property
    def missingness(self) -> MissingnessTest | None:
        """Create the test of whether missing values depend on the labels.

        The result is None if C has too many directions.
        """
        if not isinstance(self.C, LowRankSymmetric):
            return None
        return MissingnessTest(self.C.F * np.sqrt(np.abs(self.C.weights)))

    def log_p(self, z: Float, skewness: Float) -> Float:
        """Log p-values, (c,), of standardised HSIC z under independence.

        HSIC is z standard deviations above its mean. z and `skewness`, the skewness of HSIC under
        permutations, are (c,).
        """
        log_p = log_tail(z, skewness)
        if self.correction is not None:
            log_p = np.minimum(log_p + self.correction(z, skewness), 0.0)
        return log_p

    def log_p_of_rare(self, z: Float, carriers: Carriers, statistic: str) -> Float:
        """Log p-values of standardised HSIC z (c,) for rare variants.

        All variants have the same numbers of carriers, `carriers`. `statistic` is "unbiased" or
        "biased".
        """
        assert isinstance(self.C, LowRankSymmetric), "others have no directions"
        with _DRAWING:
            if carriers not in self.laws:
                self.laws[carriers] = RareLaw.of(self.C, self.null, carriers, statistic)
        law = self.laws[carriers]
        return np.zeros_like(z) if law is None else law.log_p(z)

    @property
    def regained(self) -> float:
        """Factor by which HSIC of permuted labels is multiplied.

        Regression on covariates makes HSIC of permuted residuals too small; the factor corrects
        this.
        """
        return regained(self.basis)

    @property
    def basis(self) -> Float:
        """Orthonormal basis of the intercept and the covariates, (m, p)."""
        return covariate_basis(None, len(self.C.diagonal)) if self.Q is None else self.Q

    @property
    def directions(self) -> Float:
        """Label columns that are summed over the levels of a feature, (m, k).

        They are the directions and the diagonal of the label matrix C. With covariates there are
        also the columns Q_i of their basis, and the products of pairs of columns.
        """
        if not isinstance(self.C, LowRankSymmetric):
            return np.empty((len(self.C.diagonal), 0))
        columns = [self.C.F, self.C.diagonal[:, None]]
        if self.Q is not None:
            i, j = np.triu_indices(self.Q.shape[1])
            columns += [self.Q, self.Q[:, i] * self.Q[:, j]]
        return np.concatenate(columns, axis=1)

    def sums_of(
        self, along: Float, counts: Float
    ) -> tuple[Float, Float, Float | None, Float | None]:
        """Compute the arguments U, Z'c, T and S of `LevelForms` methods.

        They are computed from sums over levels, `along` (c, q, k). Samples with a missing value are
        excluded. Labels are therefore centred over the samples of the levels, `counts` (c, q), and
        the basis of covariates is rescaled to these samples.
        """
        assert isinstance(self.C, LowRankSymmetric), "others have no directions"
        r, m = self.C.rank, self.C.n_samples
        U, of_diagonal, of_covariates = along[..., :r], along[..., r], along[..., r + 1 :]
        n = counts.sum(axis=1)
        gaps = np.flatnonzero((n < m) & (n > 0))
        if gaps.size:
            U, of_diagonal = U.copy(), of_diagonal.copy()
            means = U[gaps].sum(axis=1, keepdims=True) / n[gaps, None, None]
            weighted = means * self.C.weights
            squares = (weighted * means).sum(axis=2) * counts[gaps]
            of_diagonal[gaps] += squares - 2.0 * (U[gaps] * weighted).sum(axis=2)
            U[gaps] -= counts[gaps][..., None] * means
        if self.Q is None:
            return U, of_diagonal, None, None
        p = self.Q.shape[1]
        i, j = np.triu_indices(p)
        S = np.empty((*of_covariates.shape[:2], p, p))
        S[..., i, j] = S[..., j, i] = of_covariates[..., p:]
        larger = (m / np.maximum(n, 1.0))[:, None, None]
        return U, of_diagonal, of_covariates[..., :p] * np.sqrt(larger), S * larger[..., None]

    def of_samples(self, rows: Index) -> Permuted:
        """Restrict the state of the test to the samples `rows` (n,).

        Covariates are regressed out again.
        """
        Q = covariate_basis(None if self.Q is None else self.Q[rows], rows.size)
        return replace(self, C=self.C.of_samples(rows).projected(Q), Q=Q)


@dataclass(frozen=True)
class Independence(AbstractCriterion):
    r"""HSIC of the feature and the labels (JMLR eq. 4 and 5), as a p-value under independence.

    The score is ``-log10 p``. Labels may be of any kind. Covariates are regressed out, and the
    residuals are permuted (Freedman and Lane, 1983).

    When to use it: to find which features depend on the labels at all, with a controlled error
    rate. It tests each feature by itself, and detects dependence of any shape.

    Parameters
    ----------
    bandwidth : "multiscale", "dimension", "median" or float
        ``"multiscale"`` computes HSIC of ranks at six widths, from linear to very narrow, and HSIC
        of their distances from the middle rank, and combines them into one p-value
        (`dhsic.criteria.multiscale`). Other values set sigma of a single kernel on the feature. In
        both cases samples with a missing value are excluded for this feature, so that different
        missing rates in two classes do not look like dependence.
    label_kernel : str
        See `dhsic.kernels.labels.label_matrix`. With ``"auto"``, ``"ordinal"`` or ``"rank"`` and
        several widths, real labels are replaced by functions of their ranks.
    statistic : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    """

    name = "hsic"
    labels = LabelReading(
        lambda y, criterion: label_matrix(y, criterion.label_kernel).centred,
        lambda labels: Permuted.of(labels, None),
    )
    meaning = "-log10 of the p-value of HSIC under independence"
    has_bandwidth = True
    is_timed = False
    takes_covariates = True
    takes_codes = True
    tells_more = True
    bandwidth: Any = MULTISCALE
    label_kernel: str = "auto"
    statistic: str = "unbiased"

    def __post_init__(self) -> None:
        if not self.is_multiscale:
            resolve_width(self.bandwidth)
        check_statistic(self.statistic, 4)

    @property
    def is_multiscale(self) -> bool:
        """Whether HSIC is computed at several widths."""
        return isinstance(self.bandwidth, str) and self.bandwidth == MULTISCALE

    @property
    def leaves_missing_out(self) -> bool:
        return True

    @property
    def goes_by_ranks(self) -> bool:
        return self.is_multiscale

    def read(self, y: Array, covariates: Array | None = None) -> LabelMatrix:
        return label_matrix(y, self.label_kernel, covariates).centred

    def prepare(
        self, labels: LabelMatrix, covariates: Array | None = None
    ) -> Permuted | Multiscale:
        check_statistic(self.statistic, labels.n_samples)
        if not self.is_multiscale:
            return Permuted.of(labels, covariates)
        Q = covariate_basis(covariates, labels.n_samples)
        label_directions = LabelDirections.of(
            labels, Q, by_ranks=self.label_kernel in ("auto", MIXED, *SCORE_KERNELS)
        )
        if label_directions is None:  # too many directions: many classes, or a given matrix
            return Permuted.of(labels, covariates)
        if not label_directions.B.shape[1]:
            raise nothing_left()
        state = Multiscale.of(label_directions, Q)
        target = labels.parts[0]
        if isinstance(target, CensoredTarget):
            variance = target.variance(label_directions.B, Q)
            covariance = LabelCovariance.of_directions(variance)
            state = replace(state, covariance=covariance, hazards=variance.hazards)
        return state

    def of_relatives(
        self,
        state: Permuted | Multiscale,
        residuals: Sequence[Float],
        covariances: Sequence[ResidualCovariance],
    ) -> Permuted | Multiscale:
        """Add the covariances of residual labels of related samples to `state`.

        `residuals` are the residuals (m, n) of each target. If the label matrix has too many
        directions, samples are treated as exchangeable.
        """
        if isinstance(state, Multiscale):
            B = state.labels.B
        elif isinstance(state.C, LowRankSymmetric):
            B = state.C.F
        else:
            return state
        return replace(state, covariance=LabelCovariance.of(B, residuals, covariances))

    def covariances(self, state: Permuted | Multiscale) -> Sequence[AbstractProductVariance]:
        return () if state.covariance is None else state.covariance.covariances

    def directions(self, state: Permuted | Multiscale) -> Float:
        return state.directions

    def columns(self, state: Permuted | Multiscale, features: Features, place: slice) -> Float:
        """Compute ``-log10 p``, HSIC, and sigma (or width and shape) of c features.

        The result is (4, c), or (5, c) with width and shape. The last row is ``-log10 p`` of the
        test whether missing values depend on the labels.
        """
        missing = _missingness(state, features, place)
        if isinstance(state, Multiscale):
            scores = scores_of(state, features, place)
            return np.stack(
                [-scores.log_p / LOG_10, scores.hsic, scores.width, scores.shape, missing]
            )
        return np.vstack([self._of_one_width(state, features, place), missing])

    def _of_one_width(self, state: Permuted, features: Features, place: slice) -> Float:
        """Compute ``-log10 p``, HSIC and sigma of c features, with one width, (3, c)."""
        width = "median" if self.is_multiscale else self.bandwidth
        sigma = features.widths(resolve_width(width))
        results = np.empty((3, sigma.size))
        results[2] = sigma
        ratios = None
        if features.variance_ratios is not None and state.covariance is not None:
            ratios = state.covariance.ratios(features.variance_ratios)
        by_values = np.ones(sigma.size, dtype=bool)
        if place.stop > place.start:
            for level_group in features.levels:
                results[:2, level_group.which] = self._by_levels(
                    state,
                    level_group,
                    sigma[level_group.which],
                    place,
                    ratios=None if ratios is None else ratios[level_group.which],
                    is_coded=features.coded is not None,
                )
                by_values[level_group.which] = False
        for j in np.flatnonzero(by_values):
            missing = None if features.missing is None else features.missing[j]
            own = None if ratios is None else ratios[j]
            results[:2, j] = self._of_feature(state, features.X[j], float(sigma[j]), missing, own)
        return results

    def _by_levels(
        self,
        state: Permuted,
        some: Levels,
        sigma: Float,
        place: slice,
        *,
        ratios: Float | None,
        is_coded: bool,
    ) -> Float:
        """Compute ``-log10 p`` and HSIC of features with few values, from their levels, (2, c).

        `ratios` (c, 2, r) are the variance ratios of residual labels of related samples.
        """
        assert isinstance(state.C, LowRankSymmetric), "others have no directions"
        is_tested = some.counts.sum(axis=1) >= FEWEST_PRESENT + state.basis.shape[1]
        if not is_tested.all():
            results, which = np.zeros((2, is_tested.size)), np.flatnonzero(is_tested)
            if which.size:
                tested = some.take(which), sigma[which]
                own = None if ratios is None else ratios[which]
                results[:, which] = self._by_levels(
                    state, *tested, place, ratios=own, is_coded=is_coded
                )
            return results
        forms = LevelForms.of(gaussian(some.values.T, sigma), some.counts, self.statistic)
        U, of_diagonal, T, S = state.sums_of(some.along[..., place], some.counts)
        if ratios is not None:
            U = exchangeable_sums(U, some.counts, some.values.T, ratios)
        observed = forms.inner(U, state.C.weights, of_diagonal)
        rounding = SAME * state.C.norm * forms.norms
        part = _part_present(state.C, of_diagonal, forms.n_samples)
        null = forms.moments(state.null, T, S).scaled(part)
        z, skewness = _deviations(observed, null, rounding, state.regained)
        log_p = np.where(np.isnan(z), 0.0, state.log_p(np.nan_to_num(z), skewness))
        if is_coded:
            carriers = carriers_of(some.counts)
            rare = np.flatnonzero((carriers[:, 1:].sum(axis=1) <= FEW) & ~np.isnan(z))
            kinds, of_kind = np.unique(carriers[rare], axis=0, return_inverse=True)
            for number, kind in enumerate(kinds.tolist()):
                these = rare[of_kind == number]
                log_p[these] = state.log_p_of_rare(z[these], tuple(kind), self.statistic)
        return np.stack([-log_p / LOG_10, observed])

    def _of_feature(
        self,
        state: Permuted,
        x: Float,
        sigma: float,
        missing: Mask | None,
        ratios: Float | None,
    ) -> Float:
        """Score and HSIC, (2,), of one feature x (m,), from its kernel matrix.

        It is used for features with many values, and if C is not of low rank. Samples in the mask
        `missing` (m,) are excluded. The result agrees with `hsic_test`, unless labels are residuals
        of related samples, with variance ratios (2, r).
        """
        if missing is not None and missing.any():
            present = np.flatnonzero(~missing)
            if present.size < FEWEST_PRESENT + state.basis.shape[1]:
                return np.zeros(2)
            state, x = state.of_samples(present), x[present]
        kernel, X = Gaussian(), x[:, None]
        K: Symmetric | None = None
        if isinstance(state.C, LowRankSymmetric):
            K = low_rank_kernel(kernel, X, sigma)
        K = dense_kernel(kernel, X, sigma) if K is None else K
        A = estimated(K, self.statistic)
        rounding = np.array([rounding_of(state.C, A)])
        A = A.projected(state.basis)
        samples = np.arange(len(x))[None]
        observed = state.C.inner(samples, [A])[0]
        if ratios is not None and isinstance(C := state.C, LowRankSymmetric):
            # Off the diagonal of the kernel, directions are corrected; its diagonal is unchanged.
            scaled = LowRankSymmetric.of(exchangeable(C.F, x, state.basis, ratios[0]), C.weights)
            K = K.changed(statistic_scale(len(x), self.statistic), np.zeros(len(x)))
            observed += scaled.inner(samples, [K])[0] - C.inner(samples, [K])[0]
            observed += statistic_scale(len(x), self.statistic) * (
                scaled.diagonal.sum() - C.diagonal.sum()
            )
        null = moments_permuted(state.C, A)
        z, skewness = _deviations(observed, null, rounding, state.regained)
        log_p = 0.0 if np.isnan(z[0]) else float(state.log_p(z, skewness)[0])
        return np.array([-log_p / LOG_10, observed[0]])

    def tile_bytes(self, c: int, m: int) -> int:
        if self.is_multiscale:
            return 8 * (TILES_OF_RANKS * (AT_ONCE + m * FEW_DIRECTIONS) + 3 * c * m)
        return 8 * (SQUARES * m * m + FORMS * c + 4 * ENTRIES)

    def label_bytes(self, m: int) -> int:
        return 8 * (COPIES * MOST_DIRECTIONS * m + PAIRS * min(m, MEDIAN_SAMPLES) ** 2)

    def finish(self, state: Permuted | Multiscale, columns: Float) -> CriterionScores:
        """Compute scores, HSIC, p, q (Benjamini and Hochberg, 1995), and width or sigma."""
        score, observed, *rest, _ = columns
        p, q = 10.0**-score, np.empty_like(score)
        order = np.argsort(p)  # later sorts of sorted values are fast
        q[order] = adjusted_p_values(p[order])
        meanings: dict[str, tuple[Array, str]] = {
            "hsic": (observed, "HSIC of the feature alone and the labels"),
            "p": (p, "p-value: probability, under independence, of at least such an HSIC"),
            "q": (q, Q_MEANING),
        }
        if not isinstance(state, Permuted):
            meanings["width"] = rest[0], WIDTH_MEANING
            meanings["shape"] = SHAPES[rest[1].astype(np.int64)], SHAPE_MEANING
        else:
            meaning = "width of the kernel on the feature, sigma in exp(-sigma d^2)"
            meanings["sigma"] = rest[0], meaning
        return CriterionScores(score, others=meanings)


def adjusted_p_values(p: Float) -> Float:
    """Compute adjusted p-values (q-values) of Benjamini and Hochberg (1995), (n,).

    The results are the same as from scipy.stats.false_discovery_control, which takes long to
    import.

    >>> adjusted_p_values(np.array([0.5, 0.6, 0.1, 0.001])).tolist()
    [0.6, 0.6, 0.2, 0.004]
    """
    q, order = np.empty(p.size), np.argsort(p)
    steps = p[order] * (p.size / np.arange(1.0, p.size + 1.0))
    q[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return np.clip(q, 0.0, 1.0)


def inflation_of(p: Float) -> float:
    """Genomic inflation factor lambda of p-values.

    It is the median of the chi-squared statistics (1 degree of freedom) that correspond to the
    p-values, divided by the median under independence.
    """
    median = max(float(np.median(p)), np.finfo(float).tiny)
    return float(chdtri(1, median) / chdtri(1, 0.5))


def _missingness(state: Permuted | Multiscale, features: Features, place: slice) -> Float:
    """Compute ``-log10 p`` of the test of whether missing values depend on the labels, (c,).

    It is 0 if no value of the feature is missing.
    """
    c, sums, test = len(features.n_levels), features.missing_sums, state.missingness
    if sums is None or test is None:
        return np.zeros(c)
    along = sums[0][:, place][:, : test.F.shape[1]]
    if isinstance(state, Permuted):
        assert isinstance(state.C, LowRankSymmetric), "others have no test"
        along = along * np.sqrt(np.abs(state.C.weights))
    return test.log10_p(along, np.asarray(sums[1], dtype=np.float64))


def _part_present(C: Symmetric, of_diagonal: Float, n: Float) -> Float:
    """Factors (c,) that adapt moments over all samples to the samples with a value.

    A factor is the trace of the label matrix over these samples, divided by the trace of C, and
    multiplied by ``(m - 1) / (n - 1)``. It is 1 if no value is missing.

    Parameters
    ----------
    of_diagonal : (c, q)
        Sums of the diagonal of the label matrix over the levels of each feature.
    n : (c,)
        Number of samples with a value.
    """
    m, trace = C.n_samples, float(C.diagonal.sum())
    part = of_diagonal.sum(axis=1) / trace * ((m - 1) / (n - 1))
    return np.where(n < m, np.maximum(part, NOTHING), 1.0)


def _deviations(
    observed: Float, null: Moments, rounding: Float, times: float
) -> tuple[Float, Float]:
    """Return standardised HSIC, and the skewness under permutations; (c,) each.

    `observed` is HSIC and `null` contains its moments under permutations. `times` is a factor on
    permuted values (see `Permuted.regained`). `rounding` is the size of rounding errors.
    Standardised HSIC is NaN if all permutations have the same value.
    """
    spread = times * np.atleast_1d(np.sqrt(null.variance))
    varies = spread > rounding
    z = np.full_like(observed, np.nan)
    np.divide(observed - times * null.mean, spread, out=z, where=varies)
    return z, np.where(varies, null.skewness, 0.0)
