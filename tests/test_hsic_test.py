"""What tests of independence promise: their level, power, memory, and sentences."""

import tracemalloc

import numpy as np
import pytest
from cases import ESTIMATORS
from scipy import stats
from thorough import TIMES

from dhsic.errors import InputError, MemoryBudgetError
from dhsic.independence import METHODS, hsic_test
from dhsic.independence import test as question
from dhsic.kernels import Polynomial

# -- level and power ----------------------------------------------------------------------------


#: Data sets of a simulation.
TIMES_DRAWN = 80 * TIMES


def rejections(draw, n, **options):
    """How often independence is rejected at 5%."""
    options = {"n_permutations": 99} | options
    return sum(
        hsic_test(*data, **options, random_state=i).p_value <= 0.05
        for i, data in enumerate(draw() for _ in range(n))
    )


def within(n):
    """Rejections that a test at 5% has in all but one of 500 simulations."""
    return stats.binom.interval(0.998, n, 0.05)


@pytest.mark.parametrize(
    ("method", "statistic"),
    [("permutation", "unbiased"), ("permutation", "biased"), ("gamma", "unbiased")],
)
def test_level(rng, method, statistic):
    def draw():
        return rng.standard_normal((30, 2)), rng.exponential(size=30)

    low, high = within(TIMES_DRAWN)

    assert low <= rejections(draw, TIMES_DRAWN, method=method, statistic=statistic) <= high


def test_level_with_classes(rng):
    def draw():
        return rng.standard_normal(25), np.arange(25) % 3

    low, high = within(TIMES_DRAWN)

    assert low <= rejections(draw, TIMES_DRAWN) <= high


def test_normal_is_conservative(rng):
    def draw():
        return rng.standard_normal(60), rng.standard_normal(60)

    assert rejections(draw, TIMES_DRAWN, method="normal") <= within(TIMES_DRAWN)[1]


@pytest.mark.parametrize("method", METHODS)
def test_power(rng, method):
    """A quadratic, which no correlation sees."""

    def draw():
        x = rng.uniform(-1, 1, 60)
        return x, x**2 + 0.2 * rng.standard_normal(60)

    assert rejections(draw, 20, method=method) >= 18


@pytest.mark.parametrize("method", ["permutation", "gamma"])
@pytest.mark.parametrize("statistic", ESTIMATORS)
def test_confounders(rng, method, statistic):
    """X and Y both follow C: dependent, and independent once C is taken out."""
    options = {"method": method, "statistic": statistic, "label_kernel": "linear"}
    low, high = within(TIMES_DRAWN)
    with_C = without = 0
    for i in range(TIMES_DRAWN):
        C, x, y = rng.standard_normal((3, 40))
        given_as = {**options, "n_permutations": 99, "random_state": i}
        x, y = C + 0.5 * x, C + 0.5 * y
        without += hsic_test(x, y, **given_as).p_value <= 0.05
        with_C += hsic_test(x, y, covariates=C, **given_as).p_value <= 0.05

    assert without > 0.93 * TIMES_DRAWN
    assert low <= with_C <= high


def test_dependence_beside_a_confounder_is_found(rng):
    C, x, noise = rng.standard_normal((3, 80))
    options = {"covariates": C, "label_kernel": "linear"}

    assert hsic_test(x + C, x + 0.5 * noise + C, **options).p_value < 0.01


@pytest.mark.parametrize("method", ["permutation", "gamma"])
def test_what_covariates_explain_in_full_is_no_dependence(rng, method):
    """X is the covariate, and its kernel linear: rounding is all that is left."""
    C, y = rng.standard_normal((2, 30))

    for label_kernel in ("linear", "gaussian"):
        options = {"kernel": "linear", "covariates": C, "label_kernel": label_kernel}
        for statistic in ESTIMATORS:
            test = hsic_test(3 * C + 1, y, **options, statistic=statistic, method=method)
            assert statistic == "unbiased" or test.p_value == 1.0


# -- what is refused, and what is needed --------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "bootstrap"}, "method='bootstrap' is unknown; pass one of permutation, gamma"),
        ({"n_permutations": 0}, "n_permutations=0 is invalid. Pass a whole number >= 1"),
        ({"n_permutations": 9.5}, "n_permutations=9.5 is invalid. Pass a whole number"),
        ({"random_state": -1}, "random_state=-1; pass a whole number >= 0"),
        ({"method": "normal", "statistic": "biased"}, "needs the unbiased estimator"),
        ({"method": "gamma", "bandwidth": [0.1, 1.0]}, "among 2 bandwidths"),
        ({"statistic": "plugin"}, "statistic='plugin' is unknown"),
        ({"kernel": "rbf"}, "kernel='rbf' is unknown"),
        ({"label_kernel": "cosine"}, "unknown; pass one of"),
        ({"bandwidth": -1.0}, "positive, finite"),
        ({"Y": np.ones(12, dtype=int)}, "so nothing can depend on them"),
        ({"Y": np.r_[np.nan, np.arange(11.0)]}, "1 of 12 labels are missing"),
        ({"X": np.full(12, np.nan)}, "NaN"),
        ({"X": np.ones((12, 2))}, "X is constant over its 12 samples"),
        ({"X": np.arange(11.0)}, "one row per sample"),
        ({"covariates": np.arange(12) % 2, "label_kernel": "binary"}, "Nothing is left"),
        ({"covariates": np.ones(11)}, "one row per sample"),
        ({"X": 1e40 * np.arange(12.0), "kernel": Polynomial(degree=5)}, "overflows"),
        ({"X": np.arange(3.0), "Y": [0, 1, 0]}, "4 samples"),
        (
            {"X": np.arange(3.0), "Y": [0, 1, 0], "statistic": "biased", "method": "gamma"},
            "at least 4 samples, but there are 3",
        ),
    ],
)
def test_bad_input_gets_a_sentence(options, sentence):
    data = {"X": np.arange(12.0), "Y": np.arange(12) % 2} | options

    with pytest.raises(InputError, match=sentence):
        hsic_test(data.pop("X"), data.pop("Y"), **data)


def test_matrices_that_do_not_fit_are_refused(rng, monkeypatch):
    monkeypatch.setattr(question, "available_bytes", lambda: 1000)
    X, y = rng.standard_normal((200, 20)), rng.standard_normal((200, 2))

    assert 0 < hsic_test(X[:, 0], y[:, 0], n_permutations=9).p_value <= 1
    for data in ((X, y[:, 0]), (X[:, 0], y)):
        with pytest.raises(MemoryBudgetError, match="200 x 200 samples need"):
            hsic_test(*data, n_permutations=9)


@pytest.mark.parametrize(
    ("method", "bandwidth"),
    [("permutation", "median"), ("permutation", [0.01, 0.1, 1.0]), ("gamma", "median")],
)
def test_memory_is_within_what_is_asked_for(rng, method, bandwidth):
    m = 600
    X, y = rng.standard_normal((m, 20)), rng.standard_normal((m, 2))
    options = {"method": method, "n_permutations": 3, "bandwidth": bandwidth}
    hsic_test(X[:50], y[:50], **options)

    tracemalloc.start()
    hsic_test(X, y, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < (question.SQUARES + np.size(bandwidth)) * 8 * m * m
