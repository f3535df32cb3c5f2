"""HSIC and its variance without an (m, m) matrix: factors of L and W, strips, low rank."""

import tracemalloc

import dask.array as da
import naive
import numpy as np
import pytest
import zarr
from cases import ESTIMATORS, PLAIN_KERNELS
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import labels, matrices

import dhsic
from dhsic.errors import InputError
from dhsic.hsic import factored_weights, weights
from dhsic.independence import forms
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.symmetric import LowRankSymmetric

LOW_RANK = ("nystrom", "cholesky", "spectral", "random_features")
CLOSE = 1e-7  # a Gaussian L may lack 1e-10 of its trace


def targets(data, m, rng):
    """Labels with their kernel, and of several kinds at once."""
    if data.draw(st.booleans()):
        return data.draw(labels(m))
    real = rng.standard_normal((m, data.draw(st.integers(1, 3))))
    return np.column_stack([real, np.arange(m) % 2, np.arange(m) % 3]), "auto"


def problem(data, m):
    """Labels, their kernel, and covariates or none."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    C = rng.standard_normal((m, 2)) if data.draw(st.booleans()) else None
    return *targets(data, m, rng), C


# -- factors of the label matrix ----------------------------------------------------------------


@given(st.data(), st.integers(8, 30))
def test_label_factor_is_the_label_matrix(data, m):
    y, kernel, _ = problem(data, m)
    expected = label_matrix(y, kernel)

    actual = label_matrix(y, kernel).factor()

    L, has_gaussian = actual.to_dense(), "gaussian" in expected.description
    atol = m * m * 1e-10 if has_gaussian else 1e-14
    np.testing.assert_allclose(L, expected.L, rtol=1e-12, atol=atol * np.abs(expected.L).max())
    assert actual.error <= (1e-10 if has_gaussian else 1e-14)


@pytest.mark.parametrize(
    ("kernel", "n", "rank"),
    [("binary", 2, 1), ("balanced", 2, 1), ("multiclass", 5, 5), ("one-vs-rest", 5, 5)],
)
def test_classes_have_the_rank_that_the_paper_says(rng, kernel, n, rank):
    assert label_matrix(np.arange(40) % n, kernel).factor().F.shape == (40, rank)


def test_gaussian_labels_on_a_line_have_few_directions(rng):
    L = label_matrix(rng.standard_normal(4200), "gaussian")  # more than the median distance takes

    factor = L.factor()

    some = slice(0, 60)
    expected = L.tile(some, some)
    np.testing.assert_allclose(factor.F[some] @ factor.F[some].T, expected, atol=1e-6)
    assert factor.F.shape[1] < 40
    assert 0 < factor.error <= 1e-10


def test_error_says_what_too_few_directions_miss(rng):
    y = rng.standard_normal((50, 3))

    factor = label_matrix(y, "gaussian").factor(max_rank=10)

    missing = label_matrix(y, "gaussian").L - factor.F @ factor.F.T
    assert factor.error == pytest.approx(np.trace(missing) / 50)
    assert factor.F.shape == (50, 10)


def test_a_given_matrix_is_decomposed(rng):
    L = rng.standard_normal((20, 20))
    L += L.T

    factor = label_matrix(L, "precomputed").factor()

    np.testing.assert_allclose((factor.F * factor.weights) @ factor.F.T, L, atol=1e-12)
    assert (factor.weights < 0).any()


def test_what_has_no_factor_of_low_rank_is_refused(monkeypatch):
    monkeypatch.setattr("dhsic.kernels.label_parts.MOST_DECOMPOSED", 5)
    monkeypatch.setattr("dhsic.kernels.label_parts.MOST_DIRECTIONS", 3)
    with pytest.raises(InputError, match="6 samples is too large"):
        label_matrix(np.eye(6), "precomputed").factor()
    with pytest.raises(InputError, match="4 classes, but low-rank methods"):
        label_matrix(np.arange(8) % 4).factor()


# -- factored weights ---------------------------------------------------------------------------


@given(st.data(), st.integers(8, 20), st.sampled_from(ESTIMATORS))
def test_factored_weights_are_the_weights(data, m, statistic):
    y, kernel, C = problem(data, m)
    rng = np.random.default_rng(m)
    F, lam, diagonal = rng.standard_normal((m, 3)), rng.standard_normal(3), rng.random(m)
    K = (F * lam) @ F.T
    np.fill_diagonal(K, diagonal)
    W = weights(label_matrix(y, kernel).L, statistic, C)
    atol = CLOSE * np.abs(W).max()

    actual = factored_weights(label_matrix(y, kernel).factor(), statistic, C)

    which = rng.permutation(m)[:5]
    np.testing.assert_allclose(actual.rows(which), W[which], rtol=0, atol=atol)
    assert actual.norm == pytest.approx(np.linalg.norm(W), rel=CLOSE)
    total = np.abs(W * K).sum()
    sums = actual.hadamard_sums(LowRankSymmetric(F, lam, diagonal))
    assert sums.sum() == pytest.approx(np.vdot(W, K), abs=CLOSE * total)
    np.testing.assert_allclose(sums, (W * K).sum(axis=1), rtol=0, atol=CLOSE * total)
    x = rng.standard_normal(m)
    np.testing.assert_allclose(actual.times(x), W @ x, rtol=0, atol=m * atol)


def test_unbiased_weights_have_rank_of_the_labels_plus_two(rng):
    actual = factored_weights(label_matrix(np.arange(30) % 2).factor())

    assert actual.F.shape == (30, 3)
    np.testing.assert_array_equal(actual.diagonal, 0.0)


# -- strips -------------------------------------------------------------------------------------


@pytest.fixture
def low_strips(monkeypatch):
    """Strips of few rows, and few features at a time."""
    monkeypatch.setattr(forms, "FEWEST", 5)
    monkeypatch.setattr(forms, "MOST", 5)


@pytest.mark.usefixtures("low_strips")
@pytest.mark.parametrize("statistic", ESTIMATORS)
@pytest.mark.parametrize("kernel", PLAIN_KERNELS)
@pytest.mark.parametrize("bandwidth", ["median", "dimension", 0.1, [0.01, 0.1, 1.0]])
@pytest.mark.parametrize("y", ["classes", "real", "mixed"])
def test_blockwise_is_exact(rng, statistic, kernel, bandwidth, y):
    m = 23
    X = rng.standard_normal((m, 12)) + 10
    real = X[:, 0] + rng.standard_normal(m)
    Y = {"classes": X[:, 1] > 10, "real": real, "mixed": np.column_stack([real, X[:, 1] > 10])}[y]
    options = {
        "kernel": kernel,
        "bandwidth": bandwidth,
        "covariates": rng.standard_normal((m, 2)) if y == "real" else None,
    }

    for function, more in (
        (dhsic.hsic, {"statistic": statistic}),
        (dhsic.hsic_variance, {}),
    ):
        expected = function(X, Y, **options, **more)
        actual = function(X, Y, **options, **more, method="blockwise")
        assert actual == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("low_strips")
def test_blockwise_takes_what_can_be_sliced(rng, tmp_path):
    X = rng.standard_normal((23, 12))
    store = zarr.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(7, 5), dtype=X.dtype)
    store[:] = X
    expected = dhsic.hsic(X, X[:, 0])

    for given_as in (X, X.tolist(), da.from_array(X, chunks=(9, 4)), store):
        actual = dhsic.hsic(given_as, X[:, 0], method="blockwise")
        assert actual == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("low_strips")
def test_blockwise_takes_a_label_matrix(rng):
    x = rng.standard_normal(17)
    L = np.outer(x, x)

    actual = dhsic.hsic(x, L, label_kernel="precomputed", method="blockwise")

    assert actual == pytest.approx(dhsic.hsic(x, x, label_kernel="linear"), rel=1e-9)


def test_strips_cover_the_upper_triangle(monkeypatch):
    monkeypatch.setattr(forms, "FEWEST", 4)
    monkeypatch.setattr(forms, "MOST", 4)
    A = np.arange(121.0).reshape(11, 11)
    A += A.T
    sums, products, whole = np.zeros(11), np.zeros((11, 2)), 0.0

    for rows, columns in forms.tiles(11):
        tile = A[rows, columns]
        whole += (1 if rows == columns else 2) * tile.sum()
        forms.add_row_sums(sums, rows, columns, tile)
        forms.add_product(products, rows, columns, tile, A[:, :2])

    np.testing.assert_allclose(sums, A.sum(axis=1))
    np.testing.assert_allclose(products, A @ A[:, :2])
    assert whole == pytest.approx(A.sum())


# -- variance -----------------------------------------------------------------------------------


@given(st.data(), matrices(samples=(5, 7)), st.sampled_from(PLAIN_KERNELS))
def test_variance_is_theorem_5(data, X, kernel):
    y, label_kernel = data.draw(labels(len(X)))
    K = naive.gram(X.tolist(), kernel, 0.07)
    L = naive.label_gram(y.tolist(), label_kernel)
    expected = naive.variance(K, L)
    close = {"rel": 1e-6, "abs": 1e-10 * (np.abs(K).max() * np.abs(L).max()) ** 2}

    actual = dhsic.hsic_variance(X, y, kernel=kernel, label_kernel=label_kernel, bandwidth=0.07)

    assert actual == pytest.approx(expected, **close)
    assert naive.printed_variance(K, L) == pytest.approx(expected, **close)
    assert naive.u_statistic(K, L) == pytest.approx(naive.unbiased(K, L), **close)


def test_variance_is_that_of_samples_drawn_anew(rng):
    """Dependent data: the mean estimate is within a third of the variance over 150 draws."""
    m, values, variances = 120, [], []
    for _ in range(150):
        x = rng.standard_normal(m)
        y = x + 0.5 * rng.standard_normal(m)
        options = {"bandwidth": 0.5, "label_kernel": "linear"}
        values.append(dhsic.hsic(x, y, **options))
        variances.append(dhsic.hsic_variance(x, y, **options))

    assert np.mean(variances) == pytest.approx(np.var(values), rel=1 / 3)


# -- low rank -----------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", ESTIMATORS)
@pytest.mark.parametrize("method", LOW_RANK)
def test_low_rank_comes_close(rng, method, statistic):
    X = rng.standard_normal((150, 3))
    y = X[:, 0] ** 2 + 0.1 * rng.standard_normal(150)
    limits = {"spectral": {"rank": 50}, "random_features": {"n_landmarks": 3000}}.get(method, {})

    for function, more in (
        (dhsic.hsic, {"statistic": statistic}),
        (dhsic.hsic_variance, {}),
    ):
        actual = function(X, y, **more, method=method, **limits)
        assert actual == pytest.approx(function(X, y, **more), rel=0.05)


@pytest.mark.parametrize("method", ["nystrom", "cholesky"])
@given(data=st.data(), X=matrices(samples=(8, 20), features=(2, 4)))
def test_low_rank_is_exact_where_nothing_is_left_out(method, data, X):
    """As many landmarks as samples and no limit of the rank."""
    y, label_kernel, C = problem(data, len(X))
    kernel = data.draw(st.sampled_from(PLAIN_KERNELS))
    assume(len(np.unique(X, axis=0)) == len(X))
    options = {"kernel": kernel, "label_kernel": label_kernel, "covariates": C, "bandwidth": 0.02}
    limits = {"method": method, "rank": len(X), "rtol": 1e-12, "n_landmarks": len(X)}
    scale = np.abs(naive.gram(X.tolist(), kernel, 0.02)).max()
    scale *= np.abs(label_matrix(y, label_kernel).L).max()

    for function, square in ((dhsic.hsic, 1), (dhsic.hsic_variance, 2)):
        expected = function(X, y, **options)
        actual = function(X, y, **options, **limits)
        assert actual == pytest.approx(expected, rel=1e-5, abs=1e-7 * scale**square)


def test_low_rank_repeats_itself(rng):
    X, y = rng.standard_normal((80, 4)), rng.standard_normal(80)
    options = {"method": "nystrom", "n_landmarks": 20}

    first = dhsic.hsic(X, y, **options, random_state=1)

    assert first == dhsic.hsic(X, y, **options, random_state=1)
    assert first != dhsic.hsic(X, y, **options, random_state=2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "magic"}, "magic"),
        ({"method": "exact", "rank": 5}, "does not accept rank"),
        ({"method": "blockwise", "n_landmarks": 5}, "does not accept n_landmarks"),
        ({"method": "random_features", "rank": 5}, "has no rank"),
        ({"method": "random_features", "kernel": "linear"}, "need the Gaussian kernel"),
        ({"method": "nystrom", "n_landmarks": 7}, "7 landmarks of 6 samples"),
        ({"method": "nystrom", "n_landmarks": 0}, "n_landmarks=0"),
        ({"method": "nystrom", "random_state": -1}, "random_state=-1"),
    ],
)
def test_methods_that_do_not_fit(options, sentence):
    with pytest.raises(InputError, match=sentence):
        dhsic.hsic(np.arange(6.0), np.arange(6.0), **options)


def test_labels_that_need_too_many_directions_are_refused(rng, monkeypatch):
    monkeypatch.setattr("dhsic.independence.estimate.LABEL_ERROR", 1e-30)

    with pytest.raises(InputError, match=r"cannot be represented with rank \d+"):
        dhsic.hsic(np.arange(50.0), rng.standard_normal(50), method="cholesky")


def test_memory_is_linear_in_the_samples(rng):
    """3,000 samples, whose K takes 72 MB."""
    m = 3000
    X, y = rng.standard_normal((m, 5)), rng.standard_normal(m)
    options = {"bandwidth": 0.1, "n_landmarks": 50, "method": "nystrom"}

    tracemalloc.start()
    dhsic.hsic_variance(X, y > 0, **options)
    factored = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert factored < m * 500 * 8


@pytest.mark.usefixtures("low_strips")
def test_memory_of_blockwise_is_that_of_strips(rng, monkeypatch):
    monkeypatch.setattr(forms, "MOST", 50)
    monkeypatch.setattr(forms, "FEWEST", 50)
    m = 2000
    X, y = rng.standard_normal((m, 5)), rng.standard_normal(m)
    dhsic.hsic_variance(X[:9], y[:9], bandwidth=0.1, method="blockwise", label_kernel="linear")

    tracemalloc.start()
    dhsic.hsic_variance(X, y, bandwidth=0.1, method="blockwise", label_kernel="linear")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 7 * 50 * m * 8
