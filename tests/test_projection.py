"""Features projected once: numbers, and the scores that they give in later rounds."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sliced import Sliced, joined

from dhsic.engines.scoring_problem import FeatureStats
from dhsic.hsic import factored_weights
from dhsic.kernels import resolve_kernel
from dhsic.kernels.dot import Polynomial
from dhsic.kernels.labels import label_matrix
from dhsic.lowrank.directions import (
    Along,
    core_along,
    orthonormal,
    projected_on,
)
from dhsic.passes import Columns, projection, run
from dhsic.passes.projection import (
    ROUNDED,
    Numbers,
    Project,
    Projection,
    enough,
    from_half,
    in_half,
)
from dhsic.runtime.base import Job
from dhsic.sources.arrays import ArraySource
from dhsic.sources.scaling import measure

M, D, RANK = 60, 23, 5
KERNELS = [("gaussian", 1), ("gaussian", 2), ("polynomial", 2), (Polynomial(3), 3)]


def rounds(rng, kernel, order, *, statistic="unbiased"):
    """Two rounds with K of few directions, W o K of few enough to be projected on all of them.

    Features are projected on those of the first; the second has other features and sigma.
    """
    y = rng.standard_normal(M)
    W = factored_weights(label_matrix(y, "linear").factor(), statistic)
    G = rng.standard_normal((M, RANK))
    every = np.arange(M)
    cases = []
    for scale, sigma in ((1.0, 1e-5), (0.9, 2e-5)):
        X = np.hstack([G * scale, np.zeros((M, 1))])
        case = Sliced(X, W, kernel, sigma, every, every[:20], edges=(25, 40), rank=RANK)
        cases.append(case)
    first, second = cases
    found, _ = first.fit()
    along, sums = first.lead(found, most=projection.LEADING, multiplied=projection.MULTIPLIED)
    basis = {base: orthonormal(sums[base]) for base in along.core}
    widths = {base: len(core) for base, core in along.core.items()}
    project = Projection(kernel, order, basis, widths)
    numbers = project.numbers(projection.stacked(first.ask(projected_on, basis)))
    first.weighed = first.weigh(along, X.T[:1])
    second.slices = [
        replace(to, P=of.P, B=of.B) for to, of in zip(second.slices, first.slices, strict=True)
    ]
    second.block = replace(second.block, P=first.block.P, B=first.block.B)
    found, sums = second.fit()
    core = {base: core_along(found, sums, W, base) for base in found.asked.bases}
    second.weighed = second.weigh(Along(found, core, second.of_differences), X.T[:1])
    return project, numbers, first, second


def scored(project, numbers, case, order, X):
    along, sums = case.weighed
    even = {base: T.T @ sums["B'f", base] for base, T in project.basis.items()}
    series = case.asked.kernel.power_series(order, case.asked.sigma)
    return project.scorer(series, along.core, even)(in_half(numbers.of_values(X)))


def by_held(project, case, order, X):
    """Gains from all pairs of samples, of what slices hold of A in place of it."""
    along, sums = case.weighed
    even = {base: T.T @ sums["B'f", base] for base, T in project.basis.items()}
    held = case.home(along, project.basis, even)
    series = case.asked.kernel.power_series(order, case.asked.sigma)
    gains = np.zeros(len(X))
    for x in series.products:
        A = held[x.base]
        if series.of_differences and not (x.a and x.b):
            gains += x.coefficient * X ** (x.a + x.b) @ (A.row_sums - A.diagonal + A.own)
        elif series.of_differences:
            B = A.F * A.weights @ A.F.T
            gains += x.coefficient * np.einsum("ci,ij,cj->c", X**x.a, B, X**x.b)
        else:
            gains += x.coefficient * np.einsum("ci,ij,cj->c", X**x.a, A.to_dense(), X**x.b)
    return gains


def by_pairs(case, order, X):
    """Gains from all pairs of samples, as the series in powers has it, with A as its factors."""
    found = case.weighed[0].fitted
    series = case.asked.kernel.power_series(order, case.asked.sigma)
    gains = np.zeros(len(X))
    for x in series.products:
        K = joined([found.factor(x.base, known) for known in case.slices]).to_dense()
        A = case.W.to_dense() * K
        sums = np.concatenate([found.sums(x.base, known) for known in case.slices])
        if series.of_differences:
            np.fill_diagonal(A, 0.0)
            A[np.diag_indices(M)] = 0.0
            sums = sums - case.W.diagonal
        if series.of_differences and not (x.a and x.b):
            gains += x.coefficient * X ** (x.a + x.b) @ sums
        else:
            gains += x.coefficient * np.einsum("ci,ij,cj->c", X**x.a, A, X**x.b)
    return gains


def in_order(function, items):
    return map(function, items)


@pytest.mark.parametrize("statistic", ["unbiased", "biased"])
@pytest.mark.parametrize(("kernel", "order"), KERNELS)
def test_numbers_give_the_series_of_what_the_directions_hold(
    rng, monkeypatch, kernel, order, statistic
):
    monkeypatch.setattr(projection, "SCORED", 5)
    project, numbers, *cases = rounds(rng, resolve_kernel(kernel), order, statistic=statistic)
    X = rng.standard_normal((D, M)).astype("f4")

    for case in cases:
        wanted = by_held(project, case, order, X.astype("f8"))
        found = scored(project, numbers, case, order, X)
        assert_allclose(found, wanted, rtol=0, atol=2 * ROUNDED * np.abs(wanted).max())


@pytest.mark.parametrize(("kernel", "order"), KERNELS)
def test_of_few_directions_nothing_is_lost_in_the_round_itself(rng, kernel, order):
    project, numbers, case, _ = rounds(rng, resolve_kernel(kernel), order)
    X = rng.standard_normal((D, M)).astype("f4")

    wanted = by_pairs(case, order, X.astype("f8"))
    found = scored(project, numbers, case, order, X)
    assert_allclose(found, wanted, rtol=0, atol=2 * ROUNDED * np.abs(wanted).max())


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
    wanted = np.concatenate(wanted, axis=1)
    largest = np.abs(wanted).max(axis=1, keepdims=True)
    assert_allclose(from_half(found) / largest, wanted / largest, rtol=ROUNDED, atol=1e-6)


def test_the_order_that_is_enough_grows_with_values_and_sigma():
    facts = FeatureStats(np.array([3.0, 30.0]), np.array([3.0, 900.0]), np.zeros(2))
    kernel = resolve_kernel("gaussian")

    short, long = (enough(kernel, p, 1e-5, facts, 1000, 0.02) for p in (1, 2))

    assert short.tolist() == [True, False]
    assert long.all()
    assert enough(kernel, 2, 1e-3, facts, 1000, 0.02).tolist() == [True, False]
    assert enough(resolve_kernel("polynomial"), 2, 1.0, facts, 1000, 0.02).all()
