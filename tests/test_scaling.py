"""Scaling: one pass in float64, missing values, constants, few-valued features."""

import naive
import numpy as np
import pytest
from hypothesis import given
from strategies import matrices

from dhsic.sources.scaling import Scaling, measure, standardise


@given(matrices(missing=True))
def test_standardised_as_defined(X):
    expected = np.array(naive.standardise(X.tolist())).T

    scaling, Z = measure(X.T.copy(), None, standardize=True)

    np.testing.assert_allclose(Z, expected, atol=1e-9)
    np.testing.assert_allclose(
        standardise(X.T.copy(), None, scaling, np.float64), expected, atol=1e-9
    )
    np.testing.assert_array_equal(scaling.n_missing, np.isnan(X).sum(axis=0))
    np.testing.assert_allclose(scaling.max_abs, np.abs(expected).max(axis=1))
    np.testing.assert_allclose(scaling.fourth_moment, (expected**4).mean(axis=1))
    levels = [len({round(v, 9) for v in row}) for row in expected]
    assert [n if n <= 8 else 0 for n in levels] == scaling.n_levels.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "float32", "float64", "bool"])
def test_dtypes_agree(rng, dtype):
    raw = rng.integers(0, 2, (5, 40)).astype(dtype)
    scaling, expected = measure(raw.astype("float64"), None, standardize=True)

    actual, Z = measure(raw, None, standardize=True)

    np.testing.assert_array_equal(Z, expected)
    np.testing.assert_array_equal(actual.mean, scaling.mean)
    for out in (np.float32, np.float64):
        values = standardise(raw, None, actual, out)
        assert values.dtype == out
        np.testing.assert_allclose(values, expected, atol=1e-6 if out == np.float32 else 0)


def test_missing_code_counts_only_where_there_is_one(rng):
    raw = np.array([[0, 1, -1, 2, 1]], dtype=np.int8)

    with_code, Z = measure(raw, -1, standardize=True)
    without, _ = measure(raw, None, standardize=True)

    assert (with_code.n_missing[0], without.n_missing[0]) == (1, 0)
    assert with_code.mean[0] == 1.0
    assert Z[0, 2] == 0.0
    assert with_code.n_levels[0] == 3  # the mean coincides with a level
    assert standardise(raw, -1, with_code, np.float32)[0, 2] == 0.0


@pytest.mark.parametrize(
    "row", [[3, 3, 3], [0.1, 0.1, 0.1], [1e300] * 3, [np.nan, 2.0, 2.0], [np.nan] * 3]
)
def test_constants_are_seen_and_scaled_to_nothing(row):
    scaling, Z = measure(np.array([row], dtype=float), None, standardize=True)

    assert scaling.constant.tolist() == [True]
    np.testing.assert_array_equal(Z, np.zeros((1, 3)))


def test_large_offsets_keep_their_digits(rng):
    x = rng.standard_normal(50)
    scaling, _ = measure((x + 1e6)[None], None, standardize=True)

    Z = standardise((x + 1e6)[None], None, scaling, np.float32)

    np.testing.assert_allclose(Z[0], (x - x.mean()) / x.std(), atol=1e-5)
    single = (x + 1e4).astype(np.float32)[None]
    exact = single[0].astype(np.float64)
    Z = standardise(single, None, measure(single, None, standardize=True)[0], np.float32)
    np.testing.assert_allclose(Z[0], (exact - exact.mean()) / exact.std(), atol=1e-6)


def test_features_are_centred_in_any_case():
    raw = np.array([[1.0, np.nan, 4.0, 4.0]])

    scaling, Z = measure(raw, None, standardize=False)

    filled = np.array([[-2.0, 0.0, 1.0, 1.0]])
    np.testing.assert_allclose(Z, filled)
    np.testing.assert_allclose(standardise(raw, None, scaling, np.float64), filled)


def test_join_and_take(rng):
    raw = rng.standard_normal((6, 20))
    whole, _ = measure(raw, None, standardize=True)
    parts = [measure(raw[a:b], None, standardize=True)[0] for a, b in ((0, 2), (2, 6))]

    joined = Scaling.join(parts)

    np.testing.assert_array_equal(joined.mean, whole.mean)
    np.testing.assert_array_equal(joined.take(slice(1, 3)).std, whole.std[1:3])
