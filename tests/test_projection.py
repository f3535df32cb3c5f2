"""Features projected once: numbers, and the scores that they give in later rounds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dhsic.engines.question import FeatureStats, LowRankQuestion
from dhsic.hsic import factored_weights
from dhsic.kernels import resolve_kernel
from dhsic.kernels.dot import Polynomial
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.passes import Columns, projection, run
from dhsic.passes.projection import Numbers, Project, Projection, enough
from dhsic.runtime.base import Job
from dhsic.sources.arrays import ArraySource
from dhsic.sources.scaling import measure

M, D, RANK = 60, 23, 5
KERNELS = [("gaussian", 1), ("gaussian", 2), ("polynomial", 2), (Polynomial(3), 3)]


def a_question(rng, kernel, sigma, *, estimator="unbiased"):
    """A round with K of few directions, W o K of few enough to be projected on all of them."""
    y = rng.standard_normal(M)
    W = factored_weights(label_matrix(y, "linear").factor(), estimator)
    F = rng.standard_normal((M, RANK))

    def factor(base):
        scale = np.exp(-base)
        return LowRankSymmetric.of(F * scale, np.ones(RANK))

    return LowRankQuestion(kernel, sigma, W, factor)


def by_pairs(question, order, X):
    """Gains from all pairs of samples, as the series in powers has it."""
    series = question.kernel.power_series(order, question.sigma)
    gains = np.zeros(len(X))
    for x in series.products:
        A = question.weighted(x.base).whole().copy()
        if series.of_differences:
            np.fill_diagonal(A, 0.0)
        gains += x.coefficient * np.einsum("ci,ij,cj->c", X**x.a, A, X**x.b)
    return gains


def in_order(function, items):
    return map(function, items)


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
@pytest.mark.parametrize(("kernel", "order"), KERNELS)
def test_numbers_give_the_series_of_what_the_directions_hold(
    rng, monkeypatch, kernel, order, estimator
):
    monkeypatch.setattr(projection, "SCORED", 5)
    kernel = resolve_kernel(kernel)
    first, later = (a_question(rng, kernel, s, estimator=estimator) for s in (0.01, 0.02))
    found = Projection(order, first)
    X = rng.standard_normal((D, M)).astype("f4")
    every = np.arange(D)
    found.take(every, [found.numbers.of_values(X[:9]), found.numbers.of_values(X[9:])])

    for question in (first, later):
        held = found.question(question)
        scored = found.gains(held, every, in_order)
        wanted = by_held(held, order, X.astype("f8"))
        assert_allclose(scored, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def by_held(held, order, X):
    """Gains from all pairs, with row sums and diagonals as the question has them."""
    series = held.kernel.power_series(order, held.sigma)
    gains = np.zeros(len(X))
    for x in series.products:
        A = held.weighted(x.base)
        if series.of_differences and not (x.a and x.b):
            gains += x.coefficient * X ** (x.a + x.b) @ (A.row_sums - A.diagonal + A.own)
        elif series.of_differences:
            B = A.F * A.weights @ A.F.T
            gains += x.coefficient * np.einsum("ci,ij,cj->c", X**x.a, B, X**x.b)
        else:
            gains += x.coefficient * np.einsum("ci,ij,cj->c", X**x.a, A.whole(), X**x.b)
    return gains


@pytest.mark.parametrize(("kernel", "order"), KERNELS)
def test_of_few_directions_nothing_is_lost_in_the_round_itself(rng, kernel, order):
    kernel = resolve_kernel(kernel)
    question = a_question(rng, kernel, 0.01)
    found = Projection(order, question)
    X = rng.standard_normal((D, M)).astype("f4")
    found.take(np.arange(D), [found.numbers.of_values(X)])

    scored = found.gains(found.question(question), np.arange(D), in_order)

    wanted = by_pairs(question, order, X.astype("f8"))
    assert_allclose(scored, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_a_pass_gives_numbers_of_standardised_values(rng, monkeypatch, standardize, missing):
    monkeypatch.setattr(projection, "PROJECTED", 5)
    monkeypatch.setattr(projection, "SAMPLES", 17)
    X = rng.choice(np.array([0, 1, 2], "i1"), p=[0.5, 0.3, 0.2], size=(M, D))
    X[rng.random(X.shape) < missing] = -1
    scaling, Z = measure(X.T, -1, standardize=standardize)
    U = rng.standard_normal((7, M)).astype("f4")
    numbers = Numbers(U, ((1, 0, 4), (3, 0, 4), (2, 4, 7), (4, 4, 7)))
    source = ArraySource(X, missing_code=-1)
    job = Job((source.blocks(D)[0],), (Columns(np.arange(D), scaling),))

    found = run(source, job, (Project(numbers), None))

    wanted = [Z @ U[:4].T, Z**3 @ U[:4].T, Z**2 @ U[4:].T, Z**4 @ U[4:].T]
    assert found.dtype == np.float32
    assert_allclose(found, np.concatenate(wanted, axis=1), rtol=1e-4, atol=2e-3)


def test_numbers_of_features_that_left_are_forgotten(rng):
    question = a_question(rng, resolve_kernel("gaussian"), 0.01)
    found = Projection(1, question)
    X = rng.standard_normal((D, M)).astype("f4")
    every = np.arange(10, 10 + D)
    found.take(every, [found.numbers.of_values(X)])
    held = found.question(question)
    before = found.gains(held, every, in_order)
    few = every[2::3]

    found.keep(few)

    assert_allclose(found.gains(held, few, in_order), before[2::3], rtol=1e-12)


def test_the_order_that_is_enough_grows_with_values_and_sigma():
    facts = FeatureStats(np.array([3.0, 30.0]), np.array([3.0, 900.0]), np.zeros(2))
    kernel = resolve_kernel("gaussian")

    short, long = (enough(kernel, p, 1e-5, facts, 1000, 0.02) for p in (1, 2))

    assert short.tolist() == [True, False]
    assert long.all()
    assert enough(kernel, 2, 1e-3, facts, 1000, 0.02).tolist() == [True, False]
    assert enough(resolve_kernel("polynomial"), 2, 1.0, facts, 1000, 0.02).all()
