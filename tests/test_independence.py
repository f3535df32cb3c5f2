"""The mathematics of tests of independence: plain loops, every permutation, closed forms."""

import naive
import naive_independence
import numpy as np
import pytest
from cases import ESTIMATORS, PLAIN_KERNELS, REAL_KERNELS
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from strategies import labels, matrices
from thorough import examples

import dhsic
from dhsic.criteria import null as permutation
from dhsic.criteria.null import Moments, moments_permuted, p_of_gamma, values_permuted
from dhsic.errors import InputError
from dhsic.hsic import estimated
from dhsic.independence import hsic_test
from dhsic.kernels import Gaussian
from dhsic.kernels.base import dense_kernel
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.symmetric import DenseSymmetric


def drawn(m, n, seed=0):
    """Permutations as a test draws them."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(m) for _ in range(n)]


def centred(A):
    """``H A H``."""
    return DenseSymmetric(A).projected(covariate_basis(None, len(A)))


def sides(data, X, sigma=0.07):
    """Labels, their kernel, covariates or none, and K and L as lists."""
    y, label_kernel = data.draw(labels(len(X)))
    kernel = data.draw(st.sampled_from(PLAIN_KERNELS))
    rng = np.random.default_rng(len(X))
    C = rng.standard_normal((len(X), 2)) if data.draw(st.booleans()) else None
    K = naive.gram(X.tolist(), kernel, sigma)
    left = y
    if C is not None and label_kernel in REAL_KERNELS:  # what a regression on C leaves of y
        design = np.column_stack([np.ones(len(y)), C])
        left = y - design @ np.linalg.lstsq(design, y)[0]
    return y, label_kernel, kernel, C, K, label_matrix(left, label_kernel).L.tolist()


@pytest.fixture
def quadratic(rng):
    """Two columns, and labels that follow the square of the first."""
    X = rng.uniform(-1, 1, (60, 2))
    return X, X[:, 0] ** 2 + 0.05 * rng.standard_normal(60)


# -- permutations -------------------------------------------------------------------------------


@examples(10)
@given(st.data(), matrices(samples=(6, 10)), st.sampled_from(ESTIMATORS), st.booleans())
def test_permutations_are_the_definition(data, X, statistic, low):
    y, label_kernel, _, C, K, L = sides(data, X)
    Q = covariate_basis(C, len(X))
    before = DenseSymmetric(np.array(L)) if not low else label_matrix(y, label_kernel, C).low_rank()
    A = estimated(DenseSymmetric(np.array(K)), statistic).projected(Q)
    P = drawn(len(X), 5, seed=3)
    expected = [naive_independence.statistic(K, L, p, statistic, C) for p in P]
    scale = np.abs(K).max() * np.abs(L).max()

    actual = values_permuted(before.projected(Q), [A], 5, 3)[0]

    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * scale)


@examples(10)
@given(st.data(), matrices(samples=(6, 9)), st.sampled_from(ESTIMATORS))
def test_hsic_test_is_the_definition(data, X, statistic):
    y, label_kernel, kernel, C, K, L = sides(data, X)
    given_as = {"kernel": kernel, "label_kernel": label_kernel, "covariates": C}
    given_as |= {"bandwidth": 0.07, "statistic": statistic}
    expected = naive_independence.p_value(K, L, drawn(len(X), 15, seed=8), statistic, C)
    scale = np.abs(K).max() * np.abs(L).max()

    test = hsic_test(X, y, **given_as, n_permutations=15, random_state=8)

    assert test.statistic == pytest.approx(dhsic.hsic(X, y, **given_as), abs=1e-10 * scale)
    assert test.p_value == expected
    assert (test.method, test.n_samples, test.n_permutations) == ("permutation", len(X), 15)


def test_blocks_of_permutations_do_not_matter(quadratic, monkeypatch):
    X, y = quadratic
    Y = {"real": y, "classes": y > 0.3, "several": np.column_stack([y, X])}
    for labelled in Y.values():
        whole = hsic_test(X, labelled, n_permutations=50)
        with monkeypatch.context() as few:
            few.setattr(permutation, "BLOCK_BYTES", 1)
            cut = hsic_test(X, labelled, n_permutations=50)
        assert cut.p_value == whole.p_value
        assert cut.null_mean == pytest.approx(whole.null_mean, rel=1e-9, abs=1e-15)
        assert cut.null_variance == pytest.approx(whole.null_variance, rel=1e-9)


def test_ties_count(rng):
    """Two classes of two samples: a third of all permutations change nothing."""
    x = np.array([0.0, 0.1, 1.0, 1.1])

    test = hsic_test(x, [0, 0, 1, 1], bandwidth=1.0, n_permutations=3000)

    assert test.p_value == pytest.approx(1 / 3, abs=0.03)


def test_seeds_repeat_and_differ(quadratic):
    X, _ = quadratic
    y = np.arange(60) % 3

    first = hsic_test(X, y, random_state=1)

    assert first == hsic_test(X, y, random_state=1)
    assert first.null_mean != hsic_test(X, y, random_state=2).null_mean


def test_of_several_widths_every_permutation_takes_its_best(quadratic):
    X, y = quadratic
    grid, x = (0.01, 1.0, 100.0), X[:, :1]
    Q, C = covariate_basis(None, 60), label_matrix(y).L
    forms = [estimated(dense_kernel(Gaussian(), x, s), "unbiased").projected(Q) for s in grid]
    values = values_permuted(DenseSymmetric(C).projected(Q), forms, 99, 0)
    alone = [dhsic.hsic(x, y, bandwidth=s) for s in grid]

    test = hsic_test(x, y, bandwidth=list(grid), n_permutations=99)

    assert test.statistic == pytest.approx(max(alone))
    assert test.sigma == grid[int(np.argmax(alone))]
    assert test.null_mean == pytest.approx(values.max(axis=0).mean())


@pytest.mark.slow  # it compiles itself first
@pytest.mark.filterwarnings("ignore")
def test_hyppo_agrees(quadratic):
    """Same p-value but for its own draws; its statistic is another."""
    hyppo = pytest.importorskip("hyppo.independence")
    X, y = quadratic
    x = np.roll(X[:, :1], 1)

    theirs = hyppo.Hsic().test(x, y[:, None], reps=1000, auto=False)[1]

    ours = hsic_test(x, y, statistic="biased", label_kernel="gaussian").p_value
    assert ours == pytest.approx(theirs, abs=0.05)


# -- closed forms -------------------------------------------------------------------------------


@examples(6)
@given(st.data(), matrices(samples=(5, 6)), st.sampled_from(ESTIMATORS), st.booleans())
def test_moments_are_those_of_every_permutation(data, X, statistic, low):
    y, label_kernel, _, C, K, L = sides(data, X)
    C = None if C is None else C[:, :1]
    Q = covariate_basis(C, len(X))
    expected = naive_independence.moments(K, L, statistic, C)
    scale = np.abs(K).max() * np.abs(L).max()
    A = estimated(DenseSymmetric(np.array(K)), statistic).projected(Q)
    before = label_matrix(y, label_kernel, C).low_rank() if low else DenseSymmetric(np.array(L))

    null = moments_permuted(before.projected(Q), A)

    actual = null.mean, null.variance, null.skewness * null.variance**1.5
    for order, (ours, theirs) in enumerate(zip(actual, expected, strict=True), start=1):
        assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-10 * scale**order)


@pytest.mark.parametrize("m", [4, 7, 40])
def test_variance_is_that_of_kazi_aoual(rng, m):
    """Their closed form, which was derived by hand."""
    C, A = (
        DenseSymmetric(S @ S.T).projected(covariate_basis(None, m))
        for S in rng.standard_normal((2, m, 3))
    )

    def invariants(form):
        B, t = form.matrix, np.trace(form.matrix)
        u, s = np.sum(B**2), np.sum(np.diag(B) ** 2)
        return t, (m - 1) * u - t**2, m * (m + 1) * s - (m - 1) * (t**2 + 2 * u)

    (t_C, a_C, b_C), (t_A, a_A, b_A) = invariants(C), invariants(A)
    variance = 2 * a_A * a_C / ((m - 1) ** 2 * (m + 1) * (m - 2))
    variance += b_A * b_C / ((m + 1) * m * (m - 1) * (m - 2) * (m - 3))

    null = moments_permuted(C, A)

    assert null.mean == pytest.approx(t_A * t_C / (m - 1))
    assert null.variance == pytest.approx(variance)


def test_moments_do_not_mind_the_unit(rng):
    """Squares of these entries are in range, and cubes of their products are not."""
    C, A = (
        DenseSymmetric(S @ S.T).projected(covariate_basis(None, 30))
        for S in rng.standard_normal((2, 30, 3))
    )
    expected = moments_permuted(C, A)

    for unit in (1e-70, 1e70):
        null = moments_permuted(C, A.changed(unit, unit * A.diagonal))
        assert null.mean == pytest.approx(unit * expected.mean)
        assert null.variance == pytest.approx(unit**2 * expected.variance)
        assert null.skewness == pytest.approx(expected.skewness)


SAMPLES = 60
TAILED = {
    "correlation": lambda rng: (rng.standard_normal(SAMPLES), rng.standard_normal(SAMPLES)),
    "wide": lambda rng: (rng.standard_normal((SAMPLES, 40)), rng.standard_normal(SAMPLES)),
    "classes": lambda rng: (rng.standard_normal((SAMPLES, 2)), np.arange(SAMPLES) % 3),
    "heavy": lambda rng: (rng.standard_t(2, SAMPLES), rng.exponential(size=SAMPLES)),
}


@pytest.mark.parametrize("draw", TAILED.values(), ids=TAILED)
def test_gamma_is_right_far_out_in_the_tail(rng, draw):
    """Moments and p-values against those of many permutations."""
    X, y = draw(rng)
    n = 20000
    K = dense_kernel(Gaussian(), X.reshape(SAMPLES, -1), 0.5 / np.size(X[0]))
    Q = covariate_basis(None, SAMPLES)
    C = label_matrix(y).low_rank().projected(Q)
    A = estimated(K, "unbiased").projected(Q)
    values = np.sort(values_permuted(C, [A], n, 0)[0])

    null = moments_permuted(C, A)

    assert null.mean == pytest.approx(values.mean(), abs=4 * values.std() / n**0.5)
    assert null.variance == pytest.approx(values.var(), rel=0.1)
    assert null.skewness == pytest.approx(stats.skew(values), rel=0.2)
    for level, off in ((0.05, 1.15), (0.01, 1.3), (0.001, 2.0)):
        p_value = p_of_gamma(values[round(n * (1 - level))], null, 0.0)
        assert level / off < p_value < level * off


def test_gamma_is_a_gamma_with_three_moments():
    null = Moments(mean=2.0, variance=9.0, skewness=0.5)
    gamma = stats.gamma(4 / 0.5**2, scale=3 * 0.5 / 2)

    for observed in (-5.0, 2.0, 20.0):
        expected = gamma.sf(observed - 2.0 + gamma.mean())
        assert p_of_gamma(observed, null, 0.0) == pytest.approx(expected)
    assert gamma.stats("mvs")[1:] == pytest.approx((9.0, 0.5))


def test_gamma_of_a_negative_skewness_has_no_end():
    null = Moments(mean=0.0, variance=1.0, skewness=-1.5)

    assert p_of_gamma(3.0, null, 0.0) == pytest.approx(stats.norm.sf(3.0))


def test_gamma_of_what_is_the_same_in_every_permutation():
    assert p_of_gamma(1.0, Moments(mean=1.0, variance=1e-40, skewness=7.0), 1e-15) == 1.0


def test_moments_of_gretton_are_the_limit(rng):
    """Their closed forms for a Gaussian kernel, off by O(1/m)."""
    m = 300
    x, y = rng.standard_normal((2, m))
    K, L = (dense_kernel(Gaussian(), v[:, None], 0.5).matrix for v in (x, y))
    H = np.eye(m) - 1 / m
    mu_x, mu_y = (A[~np.eye(m, dtype=bool)].mean() for A in (K, L))
    mean = (1 + mu_x * mu_y - mu_x - mu_y) / m
    Kc, Lc = (np.sum((H @ A @ H - np.diag(np.diag(H @ A @ H))) ** 2) for A in (K, L))
    variance = 2 * (m - 4) * (m - 5) / np.prod(m - np.arange(4.0)) * Kc * Lc / (m * (m - 1)) ** 2

    options = {"label_kernel": "precomputed", "bandwidth": 0.5, "statistic": "biased"}
    test = hsic_test(x, L, **options, method="gamma")

    assert test.null_mean == pytest.approx(mean, rel=0.02)
    assert test.null_variance == pytest.approx(variance, rel=0.03)


@pytest.mark.parametrize("statistic", ESTIMATORS)
@pytest.mark.parametrize("y", ["classes", "real"])
def test_gamma_agrees_with_permutations(rng, statistic, y):
    for _ in range(5):
        x, noise = rng.standard_normal((2, 80))
        labelled = 0.1 * x**2 + noise
        labelled = labelled > 0 if y == "classes" else labelled
        options = {"statistic": statistic}
        permuted = hsic_test(x, labelled, **options, n_permutations=2000)

        approximate = hsic_test(x, labelled, **options, method="gamma")

        assert approximate.statistic == permuted.statistic
        assert approximate.p_value == pytest.approx(permuted.p_value, abs=0.08)


def test_normal_is_theorem_5(quadratic):
    X, y = quadratic
    for options in ({}, {"covariates": X[:, 1]}, {"kernel": "linear"}):
        value, variance = dhsic.hsic(X, y, **options), dhsic.hsic_variance(X, y, **options)

        test = hsic_test(X, y, **options, method="normal")

        assert (test.statistic, test.null_variance) == pytest.approx((value, variance), rel=1e-9)
        assert test.p_value == pytest.approx(stats.norm.sf(value / variance**0.5), rel=1e-6)
        low, high = test.interval(0.9)
        assert stats.norm.cdf(high, value, variance**0.5) == pytest.approx(0.95)
        assert low + high == pytest.approx(2 * value)


def test_intervals_hold_what_they_should(rng):
    """Dependent data: nine in ten intervals at 90% hold the mean of all estimates."""
    options = {"bandwidth": 0.5, "label_kernel": "linear", "method": "normal"}
    found = []
    for _ in range(120):
        x, noise = rng.standard_normal((2, 100))
        found.append(hsic_test(x, x + noise, **options))
    mean = np.mean([test.statistic for test in found])

    held = sum(low < mean < high for low, high in (test.interval(0.9) for test in found))

    assert 0.8 <= held / 120 <= 0.98


def test_intervals_are_of_the_normal_distribution(quadratic):
    X, y = quadratic
    with pytest.raises(InputError, match="pass method='normal'"):
        hsic_test(X, y, n_permutations=9).interval()
    with pytest.raises(
        InputError, match=r"level=95 is out of range\. Pass a number between 0 and 1"
    ):
        hsic_test(X, y, method="normal").interval(95)
