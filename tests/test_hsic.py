"""HSIC, its weights W and the label kernels against the definitions."""

import naive
import numpy as np
import pytest
from cases import CLASS_KERNELS, ESTIMATORS, PLAIN_KERNELS
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from strategies import labels, matrices

import dhsic
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix, named_classes


@given(st.data(), st.integers(5, 12))
def test_label_matrix_is_the_definition(data, m):
    y, kernel = data.draw(labels(m))

    L = label_matrix(y, kernel).L

    np.testing.assert_allclose(L, naive.label_gram(y.tolist(), kernel), rtol=1e-12, atol=1e-15)


@given(st.data(), matrices(), st.sampled_from(PLAIN_KERNELS), st.sampled_from(ESTIMATORS))
def test_hsic_is_the_definition(data, X, kernel, statistic):
    y, label_kernel = data.draw(labels(len(X)))
    K = naive.gram(X.tolist(), kernel, 0.07)
    expected = naive.hsic(K, naive.label_gram(y.tolist(), label_kernel), statistic)

    actual = dhsic.hsic(
        X, y, kernel=kernel, label_kernel=label_kernel, bandwidth=0.07, statistic=statistic
    )

    assert actual == pytest.approx(expected, rel=1e-8, abs=1e-10 * np.abs(K).max())


@given(st.data(), matrices(), st.sampled_from(ESTIMATORS))
def test_weights_give_hsic_for_any_kernel_matrix(data, X, statistic):
    y, kernel = data.draw(labels(len(X)))
    L = label_matrix(y, kernel).L
    K = X @ X.T
    W = weights(L, statistic)
    expected = naive.hsic(K.tolist(), L.tolist(), statistic)

    assert np.vdot(W, K) == pytest.approx(expected, rel=1e-9, abs=1e-12 * np.abs(K).max())
    np.testing.assert_allclose(W, W.T, rtol=0, atol=1e-15)


def test_class_kernels_agree_where_the_paper_says_so(rng):
    """Constants drop out: eq. 16 for y in {0, 1} is eq. 16 for +-1 over 4; eq. 19 without z."""
    y = rng.integers(0, 2, 20)
    X = rng.standard_normal((20, 3))
    plain = dhsic.hsic(X, y, label_kernel="binary")
    L = np.outer(y, y).astype(float)
    assert dhsic.hsic(X, L, label_kernel="precomputed") == pytest.approx(plain / 4)

    m, sizes = 20, np.bincount(y)
    c = (m / (sizes * (m - sizes))) ** 2
    L = np.where(y[:, None] == y[None, :], c[y][:, None], 0.0)
    assert dhsic.hsic(X, L, label_kernel="precomputed") == pytest.approx(
        dhsic.hsic(X, y, label_kernel="one-vs-rest")
    )


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([0, 1, 1, 0, 1], "balanced"),
        ([True, False, True, True, False], "balanced"),
        (["a", "b", "a", "b", "b"], "balanced"),
        (["a", "b", "c", "b", "c"], "multiclass"),
        ([1, 2, 3, 1, 2, 3], "multiclass"),
        ([1.0, 2.0, 3.0, 1.0, 2.0, 3.0], "multiclass"),
        ([1, 2, 3, 4, 5, 6], "gaussian"),
        ([0.5, 2.25, 3.0, 1.0, 2.0], "gaussian"),
        ([3, 2, 1, 4, 5] * 2, "multiclass"),
        # Classes of which one is rare, also where others were filtered out.
        ([0, 1, 2] * 5 + [3], "multiclass"),
        ([1.0, 2.0, 4.0] * 6 + [3.0], "multiclass"),
        # Numbers that may be either: they begin elsewhere, have gaps, or are more than five.
        ([0, 1, 2] * 4 + [3], "multiclass + gaussian"),
        ([0, 1, 2] * 6 + [8], "multiclass + gaussian"),
        ([31, 32, 33] * 6 + [34], "multiclass + gaussian"),
        ([-1, 0, 1] * 6 + [2], "multiclass + gaussian"),
        ([*range(10)] * 3, "multiclass + gaussian"),
        ([*range(20, 70)] * 2, "multiclass + gaussian"),
        ([str(digit) for digit in range(10)] * 3, "multiclass"),
        # Measurements: they are many, or hardly any two samples share one.
        ([*range(51)] * 5, "gaussian"),
        ([*range(20, 60), 20], "gaussian"),
    ],
)
def test_auto_label_kernel(y, expected):
    assert label_matrix(np.array(y)).description == expected
    assert label_matrix(named_classes(np.array(y))).description == expected


def test_classes_of_all_samples_are_classes_of_some(rng):
    y = np.repeat([1, 2, 3], [5, 5, 2])
    some = np.r_[0:2, 5:7, 10]

    assert label_matrix(y[some]).description == "gaussian"
    assert label_matrix(named_classes(y)[some]).description == "multiclass"
    assert_array_equal(label_matrix(named_classes(y)).L, label_matrix(y).L)
    both = np.column_stack([rng.standard_normal(12), y])
    assert label_matrix(named_classes(both)[some]).description == "multiclass + gaussian"
    assert_array_equal(label_matrix(named_classes(both)).L, label_matrix(both).L)


def test_several_targets_add_up(rng):
    """Each by its own kernel, of norm 1; real ones alone share a kernel on standardised values."""
    real = rng.standard_normal((12, 2)) * [1, 100]
    classes, H = np.arange(12) % 2, np.eye(12) - 1 / 12
    both = label_matrix(np.column_stack([real, classes]))
    each = [
        label_matrix(classes, "balanced").L,
        *(label_matrix(column, "gaussian").L for column in real.T),
    ]
    expected = sum(L / np.linalg.norm(H @ L @ H) for L in each)

    np.testing.assert_allclose(both.L, expected, rtol=1e-5)
    assert (both.n_targets, both.description) == (3, "balanced + gaussian + gaussian")
    Z = (real - real.mean(0)) / real.std(0)
    np.testing.assert_allclose(label_matrix(real).L, label_matrix(Z, "gaussian").L, rtol=1e-12)


@pytest.mark.parametrize("statistic", ESTIMATORS)
def test_covariates_are_projected_out(rng, statistic):
    """Labels that follow the covariate alone have no dependence left; W is blind to it."""
    m = 40
    C = rng.standard_normal((m, 2))
    L = label_matrix(rng.standard_normal(m), "gaussian").L
    R = np.eye(m) - (Q := np.linalg.qr(np.column_stack([np.ones(m), C]))[0]) @ Q.T

    W = weights(L, statistic, C)

    if statistic == "biased":
        np.testing.assert_allclose(W, R @ L @ R / (m - 1) ** 2, atol=1e-15)
        np.testing.assert_allclose(W @ C, 0, atol=1e-14)
    else:
        np.testing.assert_allclose(W, weights(R @ L @ R, "unbiased"), atol=1e-15)
    np.testing.assert_allclose(weights(L, statistic, C * 1e6 + 3), W, atol=1e-12 * abs(W).max())
    np.testing.assert_allclose(
        weights(L, statistic, np.column_stack([C, C[:, 0]])), W, atol=1e-12 * abs(W).max()
    )


def test_hsic_sees_what_correlation_does_not(rng):
    x = rng.uniform(-1, 1, 200)

    assert dhsic.hsic(x, x**2, label_kernel="gaussian") > 20 * abs(
        dhsic.hsic(x, rng.uniform(-1, 1, 200), label_kernel="gaussian")
    )


@pytest.mark.parametrize(
    ("y", "options", "sentence"),
    [
        ([1, 1, 1, 1, 1], {}, "so nothing can depend on them"),
        ([0.1, 0.5, np.nan, 1.0, 2.0], {}, "1 of 5 labels are missing"),
        ([0.1, 0.5, np.inf, 1.0, 2.0], {}, "not finite"),
        (["a", None, "b", "a", "b"], {}, "1 of 5 labels are missing"),
        ([0.1] * 5, {"label_kernel": "linear"}, "constant"),
        ([0, 1, 2, 0, 1], {"label_kernel": "balanced"}, "needs two classes, but y has 3"),
        (["a", "b", "a", "b", "c"], {"label_kernel": "linear"}, "needs numbers"),
        ([1, 2, 3, 4, 5], {"label_kernel": "multiclass"}, "its own class"),
        ([0, 1, 0, 1, 0], {"label_kernel": "cosine"}, "unknown; pass one of"),
        (np.zeros((5, 0)), {}, "shape"),
        (np.ones((5, 4)), {"label_kernel": "precomputed"}, "pass \\(m, m\\)"),
        (np.triu(np.ones((5, 5))), {"label_kernel": "precomputed"}, "not symmetric"),
        (np.full((5, 5), np.nan), {"label_kernel": "precomputed"}, "NaN"),
        ([0, 1, 0, 1], {}, "4 samples"),
        ([0, 1, 0, 1, 0], {"statistic": "plugin"}, "statistic='plugin' is unknown"),
        ([0, 1, 0, 1, 0], {"kernel": "rbf"}, "kernel='rbf' is unknown"),
        ([0, 1, 0, 1, 0], {"bandwidth": "silverman"}, "is unknown; pass 'dimension'"),
        ([0, 1, 0, 1, 0], {"bandwidth": -1.0}, "positive, finite"),
        ([0, 1, 0, 1, 0], {"bandwidth": []}, "empty grid"),
        ([0, 1, 0, 1, 0], {"covariates": np.ones((4, 1))}, "one row per sample"),
        ([0, 1, 0, 1, 0], {"covariates": [[np.nan]] * 5}, "first at sample 0"),
        ([0, 1, 0, 1, 0], {"covariates": np.eye(5)}, "leave no degrees of freedom"),
    ],
)
def test_bad_input_gets_a_sentence(y, options, sentence):
    X = np.arange(10.0).reshape(5, 2) ** 2

    with pytest.raises(InputError, match=sentence):
        dhsic.hsic(
            X,
            y if isinstance(y, np.ndarray) else np.array(y, dtype=object if None in y else None),
            **options,
        )


def test_too_few_samples():
    with pytest.raises(InputError, match="at least 4 samples, but n_samples=3"):
        dhsic.hsic(np.arange(3.0), [0, 1, 0])


def test_class_kernels_are_listed():
    assert set(CLASS_KERNELS) < set(dhsic.kernels.labels.LABEL_KERNELS)


@given(st.data(), matrices(), st.sampled_from(ESTIMATORS))
def test_normalized_hsic_is_a_cosine(data, X, statistic):
    y, kernel = data.draw(labels(len(X)))
    K, L = naive.gram(X.tolist(), "gaussian", 0.07), naive.label_gram(y.tolist(), kernel)
    xx, xy, yy = (naive.hsic(A, B, statistic) for A, B in ((K, K), (K, L), (L, L)))
    if min(xx / np.max(K) ** 2, yy / np.abs(L).max() ** 2) < 1e-6:
        return  # rounding decides

    found = dhsic.hsic(
        X, y, label_kernel=kernel, bandwidth=0.07, statistic=statistic, normalize=True
    )

    assert found == pytest.approx(xy / np.sqrt(xx * yy), rel=1e-6, abs=1e-8)
    assert statistic == "unbiased" or abs(found) <= 1 + 1e-9


@pytest.mark.parametrize("method", ["cholesky", "nystrom"])
def test_normalized_in_low_rank_scaled_and_without_variation(rng, method):
    x, c = rng.standard_normal((2, 200))
    asked = {"normalize": True, "covariates": c}
    exact = dhsic.hsic(x, x**2 + c, **asked)

    assert dhsic.hsic(x, x**2 + c, method=method, **asked) == pytest.approx(exact, rel=1e-3)
    assert dhsic.hsic(x, x > 0, normalize=True) == pytest.approx(
        dhsic.hsic(x, x > 0, label_kernel="binary", normalize=True)
    )
    with pytest.warns(UserWarning, match="X with itself is 0, because it is constant"):
        assert dhsic.hsic(np.ones(200), x, method=method, normalize=True) == 0.0
    with pytest.raises(InputError, match="pass method='exact'"):
        dhsic.hsic(x, x, method="blockwise", normalize=True)
