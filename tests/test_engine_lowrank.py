"""The low-rank engine: full factors give the dense engine's gains, few directions come near."""

import pickle

import numpy as np
import pytest
from cases import ESTIMATORS, KERNELS
from hypothesis import given
from hypothesis import strategies as st
from strategies import labels, matrices
from suites.engine import facts_of
from suites.factorizer import everyone, standardised, three_populations

from dhsic.engines import lowrank
from dhsic.engines.dense import Dense
from dhsic.engines.direct import Direct
from dhsic.engines.lowrank import LowRank
from dhsic.engines.scoring_problem import LowRankScoringProblem, ScoringProblem
from dhsic.errors import InputError
from dhsic.hsic import factored_weights, weights
from dhsic.kernels import Gaussian, Polynomial
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.statistic import Statistic
from dhsic.linalg import symmetric
from dhsic.linalg.symmetric import LowRankSymmetric, diagonal_of_product
from dhsic.lowrank import Cholesky, Nystrom, Spectral

#: Rounding of float32 gains, in units of `allowance`: a few units in the last place.
SINGLE = 4 * float(np.finfo(np.float32).eps)
DOUBLE = 1e-11


class Case:
    """One round, asked in both forms: W (m, m), and W and K as products of thin matrices."""

    def __init__(self, X, y, kernel, *, order=2, statistic="unbiased", label_kernel="auto", **more):
        self.X, self.kernel, self.order = X, kernel, order
        self.factorizer = more.get("factorizer", Cholesky(rtol=0))
        self.sigma = more.get("sigma", 1 / (2 * X.shape[1]))
        covariates = more.get("covariates")
        W = weights(label_matrix(y, label_kernel).L, statistic, covariates)
        self.question = ScoringProblem(kernel, self.sigma, W, Statistic.of(X @ X.T))
        L = label_matrix(y, label_kernel).factor(tolerance=1e-14)
        self.weights = factored_weights(L, statistic, covariates)
        self.landmarks = everyone(X)
        self.expansion = kernel.expansion(order, self.sigma)
        self.factors = {
            term.base: self.factorizer.factor(kernel, self.sigma, self.landmarks, base=term.base)
            for term in self.expansion.terms
        }
        self.facts = facts_of(X)
        self.rows = np.ascontiguousarray(X.T)

    def state(self, engine, **options):
        factor = self.factors.__getitem__
        question = LowRankScoringProblem(self.kernel, self.sigma, self.weights, factor, **options)
        return engine.prepare(question)

    def gains(self, dtype=np.float64, **options):
        engine = LowRank(self.order, dtype)
        return engine.score(
            self.state(engine, **{"tolerance": 0, **options}), self.rows, self.facts
        )

    def dense(self):
        engine = Dense(self.order, np.float64)
        return engine.score(engine.prepare(self.question), self.rows, self.facts)

    def direct(self):
        return Direct().score(Direct().prepare(self.question), self.rows, self.facts)

    def allowance(self):
        """``sum |coefficient| ||f||^2 ||A||``: no gain is larger, whatever the data."""
        sizes = self.expansion.magnitudes(self.facts.max_abs, self.facts.fourth_moment)
        norms = [self.question.weighted(term.base).norm for term in self.expansion.terms]
        return len(self.X) * sum(n * size for n, size in zip(norms, sizes, strict=True))


@st.composite
def rounds(draw):
    X = standardised(draw(matrices(samples=(8, 24), features=(2, 9))))
    m = len(X)
    y, label_kernel = draw(labels(m))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Case(
        X,
        y,
        draw(st.sampled_from(sorted(KERNELS)).map(KERNELS.get)),
        order=draw(st.integers(1, 4)),
        statistic=draw(st.sampled_from(ESTIMATORS)),
        label_kernel=label_kernel,
        covariates=draw(st.sampled_from([None, rng.standard_normal((m, 2))])),
        factorizer=draw(st.sampled_from([Cholesky(rtol=0), Nystrom(rtol=0)])),
    )


def genotypes(rng, m=240, d=300, **more):
    X = three_populations(m, d, rng)
    X = X[:, X.std(axis=0) > 0]
    y = X[:, :5].sum(axis=1) + rng.standard_normal(m) > 0
    return Case(X, y, Gaussian(), **more)


# -- against the other engines ------------------------------------------------------------------


@given(rounds())
def test_full_factors_give_the_dense_gains(case):
    assert (np.abs(case.gains() - case.dense()) <= DOUBLE * case.allowance()).all()


@given(rounds())
def test_single_precision_is_within_its_bound(case):
    single = case.gains(dtype=np.float32, tolerance=1e-8)

    assert single.dtype == np.float64
    assert (np.abs(single - case.dense()) <= SINGLE * case.allowance()).all()


@pytest.mark.parametrize("statistic", ESTIMATORS)
@pytest.mark.parametrize("kernel", [Gaussian(), Polynomial(), Polynomial(3, 0.5)], ids=str)
@pytest.mark.parametrize("label_kernel", ["balanced", "one-vs-rest", "linear", "gaussian"])
def test_high_orders_give_the_definition(rng, statistic, kernel, label_kernel):
    X = standardised(rng.standard_normal((40, 50)))
    y = X[:, 0] + rng.standard_normal(40)
    y = {"balanced": y > 0, "one-vs-rest": np.digitize(y, [-0.7, 0.7])}.get(label_kernel, y)
    case = Case(X, y, kernel, order=8, statistic=statistic, label_kernel=label_kernel)
    expected = case.direct()

    np.testing.assert_allclose(case.gains(), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


# -- what compression does ----------------------------------------------------------------------


@given(rounds(), st.sampled_from([0.0, 1e-6, 1e-3, 0.1]))
def test_compression_keeps_the_product_to_the_tolerance(case, tolerance):
    """Against U M U' o F diag(w) F', diagonal and all, written out."""
    W, factor = case.weights, next(iter(case.factors.values()))
    whole = (W.F @ W.core @ W.F.T) * ((factor.F * factor.weights) @ factor.F.T)
    A = W.hadamard(factor, tolerance=tolerance)
    size = np.linalg.norm(whole)
    lost = np.linalg.norm(whole - (A.F * A.weights) @ A.F.T)

    assert lost <= (tolerance + 1e-12) * size
    assert lost == pytest.approx(A.error * size, abs=1e-12 * size)


@given(rounds())
def test_rows_and_norm_are_those_of_the_matrix(case):
    base, factor = next(iter(case.factors.items()))
    A = case.weights.hadamard(factor)
    written = case.question.weighted(base)
    half = np.tril(written.T)

    np.testing.assert_allclose(A.row_sums, (half + half.T).sum(axis=1), atol=1e-10 * written.norm)
    np.testing.assert_allclose(A.norm, written.norm, rtol=1e-6)


def test_directions_are_orthogonal_and_few(rng):
    case = genotypes(rng, factorizer=Spectral(5))
    A = case.weights.hadamard(case.factors[0], tolerance=1e-6)

    assert A.rank <= 5 * case.weights.rank
    np.testing.assert_allclose(A.F.T @ A.F / 240, np.eye(A.rank), atol=1e-9)
    assert (np.diff(np.abs(A.weights)) <= 0).all()


def test_more_directions_are_nearer(rng):
    """On data of few directions; of all directions none is missing."""
    case = genotypes(rng, m=300, d=900, order=1, factorizer=Spectral(5))
    exact = case.dense()
    errors = [np.linalg.norm(case.gains(rank=rank) - exact) for rank in (1, 3, 10)]

    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]
    assert errors[2] < 0.1 * np.linalg.norm(exact)


def test_a_handful_of_directions_chooses_the_same_tenth(rng):
    case = genotypes(rng, m=400, d=2000, order=1, factorizer=Spectral(5))
    n = case.X.shape[1] // 10
    first = set(np.argsort(-case.dense())[:n])
    gains = case.gains(dtype=np.float32, rank=8)

    assert len(first & set(np.argsort(-gains)[:n])) >= 0.9 * n


def test_a_factor_of_nothing_leaves_the_diagonal(rng):
    case = genotypes(rng, m=60, d=40, statistic="biased")
    case.factors = {0: LowRankSymmetric(np.zeros((60, 0)), np.zeros(0), np.ones(60), 1.0)}
    A = case.weights.diagonal
    whole = sum(
        term.coefficient * (A @ (g if term.linear else g * g).T)
        for term, g in zip(case.expansion.terms, case.expansion.functions(case.rows), strict=True)
    )

    np.testing.assert_allclose(case.gains(), whole, rtol=1e-9)


# -- how it is computed -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_change_nothing_but_rounding(rng, monkeypatch, dtype):
    case = genotypes(rng, m=100, d=30)
    whole = case.gains(dtype=dtype)
    monkeypatch.setattr(lowrank, "TILE_SAMPLES", 7)
    monkeypatch.setattr(lowrank, "SCORED_ENTRIES", 31)
    tiled = case.gains(dtype=dtype)

    unit = np.finfo(dtype).eps
    np.testing.assert_allclose(tiled, whole, rtol=0, atol=50 * unit * np.abs(whole).max())


def test_strips_of_the_product_change_nothing_but_rounding(rng, monkeypatch):
    case = genotypes(rng, m=100, d=30, factorizer=Spectral(3))
    whole = case.gains()
    monkeypatch.setattr(symmetric, "STRIP_ENTRIES", 1)
    strips = case.gains()

    np.testing.assert_allclose(strips, whole, rtol=0, atol=1e-12 * np.abs(whole).max())


def test_the_state_holds_thin_arrays_and_travels(rng):
    case = genotypes(rng, m=200, d=50, factorizer=Spectral(3))
    engine = LowRank(2)
    state = case.state(engine)
    forms = state.A[0]

    assert forms.Y.dtype == forms.correction.dtype == np.float32
    assert forms.Y.flags.c_contiguous
    assert forms.Y.shape == (len(forms.theta), 200)
    assert len(pickle.dumps(state)) < 4 * 200 * (len(forms.theta) + 4) + 4096
    there = pickle.loads(pickle.dumps((engine, state)))
    np.testing.assert_array_equal(
        there[0].score(there[1], case.rows, case.facts),
        engine.score(state, case.rows, case.facts),
    )


def test_the_correction_is_of_the_directions_as_rounded(rng):
    """What float32 makes of Y has another diagonal; that one is taken away."""
    case = genotypes(rng, m=50, d=50)
    forms = case.state(LowRank(1)).A[0]

    np.testing.assert_allclose(
        forms.correction, -diagonal_of_product(forms.Y.T, forms.theta), rtol=1e-6, atol=1e-9
    )


def test_an_outlier_too_far_for_its_numbers_is_no_error(rng):
    case = genotypes(rng, m=60, d=4, sigma=50.0)
    case.rows[0, 0] = 1e4

    assert not np.isfinite(case.gains(dtype=np.float32)[0])


# -- what it refuses ----------------------------------------------------------------------------


def test_refuses_other_samples(rng):
    case = genotypes(rng, m=30, d=10)
    case.factors = {0: LowRankSymmetric.of(np.ones((29, 1)), np.ones(1))}

    with pytest.raises(InputError, match="W has 30 samples, the factor 29"):
        case.gains()
