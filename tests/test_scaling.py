"""Scaling: one pass in float64, missing values, constants, few-valued features; and codes.

Codes are genotypes used as they are stored: by plain loops they give what standardised values do.
"""

from dataclasses import fields, replace

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import matrices

from dhsic.sources import scaling as codes
from dhsic.sources.scaling import (
    PRESENCE,
    Codes,
    Scaling,
    code_values,
    measure,
    scaling_of,
    standardise,
)


@pytest.mark.parametrize("missing", [False, True])
def test_what_rounding_alone_tells_apart_is_constant(missing):
    rows = np.array([[0.1 * 3, 0.3, 0.3], [0.3, 0.3 + 1e-14, 0.3], [2.0**53, 2.0**53 - 1, 2.0**53]])
    rows = np.column_stack([rows, np.full(3, np.nan)]) if missing else rows
    scaling, _ = measure(rows, None, standardize=True)
    assert scaling.constant.tolist() == [True, False, False]


@given(matrices(missing=True), st.sampled_from([True, False, PRESENCE]))
def test_standardised_as_defined(X, standardize):
    expected = np.array(naive.standardise(X.tolist(), standardize)).T

    scaling, Z = measure(X.T.copy(), None, standardize=standardize)

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


@st.composite
def genotypes(draw, missing=None):
    """(c, m) int8 or, where none is missing, uint8; some features constant, some all missing."""
    c, m = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    raw = rng.choice(np.array([0, 0, 1, 2], "i1"), size=(c, m))
    has_missing = draw(st.booleans()) if missing is None else missing
    for j in range(c):
        kind = draw(st.sampled_from(["any", "any", "rare", "constant", "two codes", "lost"]))
        if kind == "rare":
            raw[j] = 2 * (rng.random(m) < 1.5 / m)
        elif kind == "constant":
            raw[j] = draw(st.integers(0, 2))
        elif kind == "two codes":
            raw[j] = raw[j].clip(1)
        if has_missing:
            raw[j, rng.random(m) < (1.0 if kind == "lost" else 0.2)] = -1
    return raw if has_missing or draw(st.booleans()) else raw.astype("u1")


def by_level(raw, function):
    """``function(feature, code)`` for the codes 0, 1, 2 and missing, (4, c)."""
    return np.array([[function(feature, code) for feature in raw] for code in (0, 1, 2, -1)])


@given(genotypes(), st.integers(1, 4), st.sampled_from(["f4", "f8"]), st.sampled_from([1, 50, 999]))
def test_sums_are_those_over_the_samples_of_a_code(raw, k, dtype, at_a_time):
    Y = np.random.default_rng(raw.size).standard_normal((raw.shape[1], k)).astype(dtype)
    expected = by_level(
        raw.astype(int),
        lambda feature, code: sum(
            (y for y, g in zip(Y, feature, strict=True) if g == code), 0 * Y[0]
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "AT_A_TIME", at_a_time)
        sums = Codes.of(raw, -1).sums(Y)

    assert sums.shape == (4, len(raw), k)
    assert sums.dtype == np.float64
    assert_allclose(sums, expected, rtol=0, atol=40 * np.finfo(dtype).eps * raw.shape[1])


@given(genotypes(), st.sampled_from([1, 50, 999]))
def test_counts_are_whole(raw, at_a_time):
    expected = by_level(raw.astype(int), lambda feature, code: int((feature == code).sum()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "AT_A_TIME", at_a_time)
        assert_array_equal(Codes.of(raw, -1).counts(), expected)


def test_counts_are_whole_where_samples_are_many(rng):
    raw = rng.choice(np.array([-1, 0, 1, 2], "i1"), p=[0.01, 0.2, 0.3, 0.49], size=(3, 300_000))
    expected = by_level(raw, lambda feature, code: int((feature == code).sum()))

    assert_array_equal(Codes.of(raw, -1).counts(), expected)


@given(genotypes())
def test_missing_ones_are_filled_in(raw):
    means = np.random.default_rng(raw.size).random(len(raw))
    filled = Codes.of(raw, -1).filled(means)

    assert filled.dtype == np.float32
    for feature, values, mean in zip(raw.tolist(), filled, means, strict=True):
        for code, value in zip(feature, values, strict=True):
            assert value == np.float32(mean if code == -1 else code)


@given(genotypes(), st.sampled_from([True, False, PRESENCE]))
def test_scaling_is_the_measured_one(raw, standardize):
    known = Codes.of(raw, -1)
    scaling = scaling_of(known.counts(), standardize=standardize)
    expected, Z = measure(raw, -1, standardize=standardize)

    assert not scaling.checksum.any()
    scaling = replace(scaling, checksum=expected.checksum)  # codes that are counted have none
    for field in fields(scaling):
        found, wanted = getattr(scaling, field.name), getattr(expected, field.name)
        assert found.dtype == wanted.dtype, field.name
        if found.dtype.names:
            assert_array_equal(found, wanted)
            continue
        assert_allclose(found, wanted, rtol=1e-12, atol=1e-13, err_msg=field.name)
    assert_array_equal(scaling.constant, expected.constant)
    values = code_values(scaling)
    for j, feature in enumerate(raw.astype(int)):
        if not scaling.constant[j]:
            by_code = [values[3 if code == -1 else code, j] for code in feature]
            assert_allclose(by_code, Z[j], rtol=1e-11, atol=1e-12)


@given(genotypes())
def test_what_is_constant_stays_so_to_the_bit(raw):
    """Standardised with it, and summed over its codes, a constant feature is 0."""
    scaling = scaling_of(Codes.of(raw, -1).counts(), standardize=True)
    Z = standardise(raw, -1, scaling, np.float64)

    assert not Z[scaling.constant].any()
    assert not scaling.max_abs[scaling.constant].any()
    assert (scaling.std[~scaling.constant] > 0).all()


@pytest.mark.parametrize(
    ("raw", "missing_code"),
    [
        (np.array([[0, 1, 3]], "i1"), None),
        (np.array([[0, 1, 255]], "u1"), None),
        (np.array([[0, 1, 255]], "u1"), 255),
        (np.array([[0, 1, -1]], "i1"), None),
        (np.array([[0, 1, -1]], "i1"), -9),
        (np.array([[0, 1, -9]], "i1"), -9),
        (np.array([[0, -1, -2]], "i1"), -1),
        (np.array([[0, 1, 2]], "i1"), 2),
        (np.array([[0, 1, 2]], "u1"), 0),
        (np.array([[0, 1, 2]], "i2"), None),
        (np.array([[0, 1, 2]], "f4"), None),
        (np.array([[False, True]]), None),
        (np.empty((0, 3), "i1"), None),
    ],
)
def test_other_values_are_no_codes(raw, missing_code):
    assert Codes.of(raw, missing_code) is None


@pytest.mark.parametrize(
    ("raw", "missing_code", "has_missing"),
    [
        (np.array([[0, 1, 2]], "i1"), None, False),
        (np.array([[0, 1, 2]], "u1"), 255, False),
        (np.array([[0, 1, 2]], "i1"), -9, False),
        (np.array([[1, 1, 1]], "i1"), -1, False),
        (np.array([[0, -1, 2]], "i1"), -1, True),
    ],
)
def test_these_are(raw, missing_code, has_missing):
    assert Codes.of(raw, missing_code) == Codes(raw, has_missing)
