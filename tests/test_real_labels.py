"""Real labels of any scale and offset: HSIC does not know the one, and rankings not the other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dhsic
from dhsic.errors import InputError
from dhsic.kernels.labels import label_matrix

M, D, SIGNAL = 40, 12, 3


@pytest.fixture
def problem(rng):
    X = rng.standard_normal((M, D))
    return X, X[:, SIGNAL] + 0.1 * rng.standard_normal(M)


def ranked(X, y, **options):
    return dhsic.BAHSIC(3, progress=False, runtime="threads", **options).fit(X, y)


@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
@pytest.mark.parametrize("solver", ["exact", "lowrank"])
@pytest.mark.parametrize("offset", [1e6, -3e9])
def test_an_offset_of_linear_labels_changes_nothing(problem, statistic, solver, offset):
    X, y = problem
    y = np.round(y, 3)
    options = {"label_kernel": "linear", "statistic": statistic, "solver": solver}
    expected, got = ranked(X, y, **options), ranked(X, y + offset, **options)
    assert_array_equal(got.ranking_, expected.ranking_)
    assert_allclose(got.scores_, expected.scores_, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "auto"])
@pytest.mark.parametrize("method", ["fohsic", "weighting", "ccm", "linear"])
def test_other_methods_take_them_too(problem, method, kernel):
    X, y = problem
    options = {"method": method, "label_kernel": kernel, "progress": False, "runtime": "threads"}
    got = dhsic.select(X, y + 1e8, n_features_to_select=2, **options)
    assert int(got["rank"][SIGNAL]) == 1


@pytest.mark.parametrize("kernel", ["linear", "gaussian", "auto"])
@pytest.mark.parametrize("covariates", [False, True])
@pytest.mark.parametrize(
    "change",
    [lambda y: np.round(y) + 1e12, lambda y: y * 1e-300, lambda y: y * 1e-310],
    ids=["far from 0", "small", "subnormal"],
)
@pytest.mark.filterwarnings("ignore:Labels differ by")
def test_labels_that_vary_are_not_constant(problem, rng, kernel, covariates, change):
    X, y = problem
    C = rng.standard_normal((M, 2)) if covariates else None
    model = dhsic.BAHSIC(3, progress=False, label_kernel=kernel, runtime="threads")
    assert model.fit(X, change(y), covariates=C).ranking_[SIGNAL] == 1


def test_several_targets_of_any_scale(problem):
    X, y = problem
    both = ranked(X, np.c_[y * 1e-300, y + 1e9], label_kernel="linear")
    assert_allclose(both.scores_, ranked(X, np.c_[y, y], label_kernel="linear").scores_, rtol=1e-5)


@pytest.mark.parametrize("constant", [0.0, 0.3, 1e12, 1e-300, -5])
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_constant_labels_are_refused_whatever_they_are(problem, constant, kernel):
    X, _ = problem
    y = np.full(M, float(constant))
    rounded = np.where(np.arange(M) % 2, y, np.nextafter(y, np.inf))
    for same in (y, rounded if constant else y):
        with pytest.raises(InputError, match="Target 0 is constant"):
            ranked(X, same, label_kernel=kernel)


def test_hsic_of_labels_too_small_to_square_is_said_to_be_another(problem):
    X, y = problem
    with pytest.warns(UserWarning, match=r"differ by at most .*e-300.* by 2\*\*\d+"):
        small = dhsic.hsic(X[:, SIGNAL], y * 1e-300, label_kernel="linear")
    assert small > 0
    assert_allclose(
        dhsic.hsic(X[:, SIGNAL], y * 1e-300, label_kernel="gaussian"),
        dhsic.hsic(X[:, SIGNAL], y, label_kernel="gaussian"),
    )


def test_the_label_matrix_itself_is_that_of_the_labels(problem):
    _, y = problem
    L = label_matrix(y + 3, "linear").L
    assert_allclose(L, np.outer(y + 3, y + 3))
    H = np.eye(M) - 1 / M
    whole = slice(0, M)
    centred = label_matrix(y + 3, "linear").centred.tile(whole, whole)
    assert_allclose(centred, H @ L @ H, atol=1e-12)


def test_a_given_matrix_of_equal_rows_gets_its_own_sentence(problem):
    X, _ = problem
    with pytest.raises(InputError, match="all rows of L are equal"):
        ranked(X, np.ones((M, M)), label_kernel="precomputed", statistic="biased")
