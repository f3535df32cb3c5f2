"""Synthetic data are what the papers say: shapes, moments, and what tells what about y."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from refusals import assert_refused
from scipy import stats

from dhsic import datasets
from dhsic.datasets import (
    additive_regression,
    binary_shell,
    binary_xor,
    collinear_classes,
    nonlinear_regression,
    xor_three,
)
from dhsic.errors import InputError

#: Function, features in all, relevant ones, distinct labels (None: real values).
TABLE = [
    (binary_xor, 22, 2, [-1, 1]),
    (collinear_classes, 22, 2, [0, 1, 2, 3]),
    (nonlinear_regression, 22, 2, None),
    (binary_shell, 10, 4, [-1, 1]),
    (xor_three, 10, 3, [0, 1, 2, 3]),
    (additive_regression, 10, 4, None),
]
EACH = pytest.mark.parametrize(
    ("make", "d", "n", "classes"), TABLE, ids=[row[0].__name__ for row in TABLE]
)
M = 20_000
NEAR = 5 / M**0.5  # five standard errors of a mean of deviation 1


def test_the_table_is_complete():
    public = {
        name
        for name, value in vars(datasets).items()
        if inspect.isfunction(value)
        and value.__module__ == datasets.__name__
        and not name.startswith("_")
    }

    assert public == {row[0].__name__ for row in TABLE}


@EACH
@given(st.integers(1, 40), st.integers(0, 5), st.integers(0, 2**40))
def test_shapes_and_classes(make, d, n, classes, m, n_noise, seed):
    data = make(m, n_noise, seed)

    assert data.X.shape == (m, n + n_noise)
    assert data.X.dtype == np.float64
    assert data.y.shape == (m,)
    assert np.isfinite(data.X).all()
    assert np.isfinite(data.y).all()
    assert_array_equal(data.relevant, np.arange(n))
    if classes:
        sizes = [int((data.y == c).sum()) for c in classes]
        assert sum(sizes) == m
        assert max(sizes) - min(sizes) <= (2 if make is binary_xor else 1)


@EACH
def test_defaults_and_seeds(make, d, n, classes):
    first, again, other = make(30), make(30, random_state=0), make(30, random_state=1)

    assert first.X.shape == (30, d)
    assert_array_equal(first.X, again.X)
    assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


@EACH
def test_noise_is_standard_normal_and_tells_nothing(make, d, n, classes):
    data = make(M)
    noise = data.X[:, n:]

    assert np.abs(noise.mean(axis=0)).max() < NEAR
    assert np.abs(noise.var(axis=0) - 1).max() < 2**0.5 * NEAR
    assert np.abs(correlations(noise, data.y)).max() < NEAR


def correlations(X, y):
    return np.array([np.corrcoef(x, y)[0, 1] for x in X.T])


def test_neither_feature_of_xor_tells_anything_alone_and_their_product_all():
    data = binary_xor(M)
    x = data.X[:, :2]

    for f in (x, x**2, np.abs(x), x**3):
        assert np.abs(correlations(f, data.y)).max() < NEAR
    assert np.abs(x.mean(axis=0)).max() < NEAR * 1.1
    assert np.abs(x.var(axis=0) - 1 - 0.3**2).max() < NEAR
    for sign in (-1, 1):  # of x_1: x_2 then tells y
        side = np.sign(x[:, 0]) == sign
        assert np.corrcoef(x[side, 1], data.y[side])[0, 1] * sign > 0.8


def test_three_classes_are_collinear_and_the_fourth_is_not():
    data = collinear_classes(M)
    centres = np.array([data.X[data.y == c, :2].mean(axis=0) for c in range(4)])
    spreads = np.array([data.X[data.y == c, :2].std(axis=0) for c in range(4)])
    a, b, c, beside = centres

    assert np.abs(centres - [[-1, -1], [0, 0], [1, 1], [1, -1]]).max() < 0.3 * 2 * NEAR
    assert np.abs(spreads - 0.3).max() < 0.3 * 2 * NEAR
    assert abs(np.linalg.det([b - a, c - a])) < 0.05
    assert abs(np.linalg.det([b - a, beside - a])) > 1
    assert correlations(data.X[:, :1], data.y)[0] > 0.7
    assert 0 < correlations(data.X[:, 1:2], data.y)[0] < 0.3


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_nonlinear_regression_is_the_formula_and_noise(noise):
    data = nonlinear_regression(M, noise=noise)
    x1, x2 = data.X.T[:2]
    rest = data.y - x1 * np.exp(-(x1**2) - x2**2)

    assert rest.std() == pytest.approx(noise, rel=NEAR, abs=1e-15)
    assert data.y.var() == pytest.approx(1 / 25 + noise**2, rel=3 * NEAR)
    if noise:
        assert stats.kstest(rest / noise, "norm").pvalue > 1e-3


def test_the_shell_lies_between_its_radii_and_is_that_of_the_conditional_law():
    data = binary_shell(M)
    squares = (data.X[:, :4] ** 2).sum(axis=1)
    inside, shell = squares[data.y == -1], squares[data.y == 1]
    law = stats.chi2(4)
    low, high = law.cdf([9, 16])

    assert shell.min() >= 9
    assert shell.max() <= 16
    assert stats.kstest((law.cdf(shell) - low) / (high - low), "uniform").pvalue > 1e-3
    assert stats.kstest(inside, law.cdf).pvalue > 1e-3
    directions = data.X[data.y == 1, :4] / np.sqrt(shell)[:, None]
    assert np.abs(directions.T @ directions / len(shell) - np.eye(4) / 4).max() < NEAR
    assert np.abs(correlations(data.X[:, :4], data.y)).max() < NEAR
    assert (correlations(data.X[:, :4] ** 2, data.y) > 0.3).all()


def test_xor_of_three_needs_all_three():
    data = xor_three(M)
    x1, x2, x3 = x = data.X.T[:3]
    classes = np.column_stack([data.y == c for c in range(4)])

    for f in (*x, *(x**2)):
        assert max(abs(np.corrcoef(f, is_c)[0, 1]) for is_c in classes.T) < NEAR
    assert np.abs(x.var(axis=1) - 1.5).max() < 3 * NEAR
    signs = np.array(
        [[(f * g)[data.y == c].mean() for f, g in ((x1, x3), (x2, x3))] for c in range(4)]
    )
    assert np.abs(signs - [[1, 1], [1, -1], [-1, 1], [-1, -1]]).max() < 4 * NEAR
    for f, g in ((x1, x3), (x2, x3), (x1, x2)):  # a pair tells two classes of four
        means = sorted((f * g)[data.y == c].mean() for c in range(4))
        assert np.abs(np.array(means) - [-1, -1, 1, 1]).max() < 4 * NEAR


def test_additive_regression_is_the_formula_and_noise():
    data = additive_regression(M)
    x1, x2, x3, x4 = data.X.T[:4]
    rest = data.y - (-2 * np.sin(2 * x1) + np.maximum(x2, 0) + x3 + np.exp(-x4))

    assert stats.kstest(rest, "norm").pvalue > 1e-3
    assert np.abs(correlations(data.X, rest)).max() < NEAR
    assert data.y.mean() == pytest.approx((2 * np.pi) ** -0.5 + np.exp(0.5), abs=4 * NEAR)


REFUSED = {
    "m": (lambda: binary_xor(0), "m=0", ">= 1"),
    "m, a half": (lambda: xor_three(2.5), "m=2.5", "whole"),
    "n_noise": (lambda: binary_shell(5, -1), "n_noise=-1", ">= 0"),
    "random_state": (lambda: additive_regression(5, 0, -3), "random_state=-3", ">= 0"),
    "a generator": (
        lambda: collinear_classes(5, random_state=np.random.default_rng()),
        *("random_state=Generator", "whole number"),
    ),
    "noise": (lambda: nonlinear_regression(5, noise=-1.0), "noise=-1.0", ">= 0"),
    "noise, NaN": (lambda: nonlinear_regression(5, noise=np.nan), "noise=nan", ">= 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case, tmp_path):
    call, *words = REFUSED[case]
    assert_refused(call, InputError, words, tmp_path)
