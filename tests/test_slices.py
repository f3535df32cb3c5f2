"""Low rank over slices of samples: against matrices that are written out, however they are cut."""

import numpy as np
import pytest
from cases import ESTIMATORS
from numpy.testing import assert_allclose
from sliced import Sliced
from suites.factorizer import standardised, three_populations

from dhsic.hsic import factored_weights
from dhsic.kernels import Gaussian, Polynomial
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.symmetric import compression, products_of
from dhsic.lowrank import slices
from dhsic.lowrank.directions import core_along, orthonormal
from dhsic.lowrank.slices import LINEAR

M, D = 130, 400
KERNELS = {"gaussian": Gaussian(), "polynomial": Polynomial(), "polynomial-3": Polynomial(3, 0.5)}
CUTS = [(), (40,), (1, 50, 129)]


def a_round(rng, kernel="gaussian", *, statistic="unbiased", edges=(), **options):
    X = standardised(three_populations(M, D, rng))
    W = factored_weights(label_matrix(X[:, 0] > 0).factor(), statistic)
    order = rng.permutation(M)
    sigma = 1 / (2 * X.shape[1])
    given = W, KERNELS[kernel], sigma, np.sort(order[20:80]), np.sort(order[:20])
    return X, Sliced(X, *given, edges=edges, **options)


def written(X, case, base):
    """A base matrix of all samples, its diagonal 0."""
    norms = (X**2).sum(axis=1)
    K = X @ X.T
    if base != LINEAR:
        K = case.asked.kernel.part(base, K, norms, norms, case.asked.sigma)
    np.fill_diagonal(K, 0.0)
    return K


def off_diagonal(K):
    K = K.copy()
    np.fill_diagonal(K, 0.0)
    return K


@pytest.mark.parametrize("edges", CUTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_many_directions_are_kept_as_predict_the_check_rows(rng, monkeypatch, kernel, edges):
    monkeypatch.setattr(slices, "STRIP", 23)
    X, case = a_round(rng, kernel, edges=edges)
    found, _ = case.fit()
    check = case.rows[case.asked.check]
    for base in case.asked.bases[:2]:
        K, F = written(X, case, base), case.joined("F", base)
        weights = case.asked.extensions[base].weights
        outside = np.delete(F, case.rows[case.asked.extensions[base].used], axis=0)
        assert len(outside) > len(F) / 3
        left = []
        for k in range(len(weights) + 1):
            missed = off_diagonal(K - (F[:, :k] * weights[:k]) @ F[:, :k].T)[check]
            left.append((missed**2).sum())
        steady = found.fits[base].kept
        assert np.array_equal(steady, np.arange(len(steady)))  # none of them has grown
        first = next(k for k, value in enumerate(left) if value <= 1.01 * min(left))
        assert len(steady) == first


@pytest.mark.parametrize("edges", CUTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_that_tell_turns_are_those_of_the_product(rng, monkeypatch, kernel, edges):
    monkeypatch.setattr(slices, "STRIP", 23)
    X, case = a_round(rng, kernel, statistic="biased", edges=edges)
    _, sums = case.fit()
    rows, norms = case.rows[case.asked.turning], (X**2).sum(axis=1)
    K = case.asked.kernel.part(None, X @ X.T, norms, norms, case.asked.sigma)
    A = (case.W.to_dense() * K)[rows]

    assert_allclose(sums["2 A"].columns, 2 * A, rtol=1e-5, atol=1e-7 * np.abs(A).max())
    assert_allclose(sums["A 1"], A.sum(axis=1), atol=1e-9 * np.abs(A).max())
    assert_allclose(sums["diag A"], A[np.arange(len(rows)), rows])


@pytest.mark.parametrize("edges", CUTS)
@pytest.mark.parametrize("statistic", ESTIMATORS)
def test_row_sums_are_those_of_the_factor_and_what_it_misses(rng, statistic, edges):
    X, case = a_round(rng, statistic=statistic, edges=edges)
    found, _ = case.fit()
    W, check = case.W.to_dense(), case.rows[case.asked.check]
    missed, by_factor = {}, {}
    for key in (0, LINEAR):
        fit, F = found.fits[key], case.joined("F", key)[:, found.fits[key].kept]
        low = (F * fit.weights) @ F.T
        missed[key] = off_diagonal(written(X, case, key) - low)[check]
        K = off_diagonal(low)
        np.fill_diagonal(K, 1.0 if key == 0 else (X**2).sum(axis=1))
        by_factor[key] = (W * K).sum(axis=1)
    slope = np.vdot(missed[0], missed[LINEAR]) / np.vdot(missed[LINEAR], missed[LINEAR])
    wanted = by_factor[0] + slope * ((W * (X @ X.T)).sum(axis=1) - by_factor[LINEAR])

    assert found.slope == pytest.approx(slope, rel=1e-6)
    sums = np.concatenate([found.sums(0, known) for known in case.slices])
    assert_allclose(sums, wanted, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("edges", CUTS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_leading_directions_are_those_of_the_product(rng, kernel, edges):
    _, case = a_round(rng, kernel, edges=edges)
    found, _ = case.fit()
    along, sums = case.lead(found, tolerance=1e-6, multiplied=3)
    for base in case.asked.bases:
        fit, P = found.fits[base], case.joined("P", base)
        F = case.joined("F", base)[:, fit.kept]
        A = case.W.F @ case.W.core @ case.W.F.T * ((F * fit.weights) @ F.T)
        assert_allclose(P.T @ P, np.eye(P.shape[1]), atol=1e-7)
        assert_allclose(P @ along.core[base] @ P.T, A, atol=3e-6 * np.linalg.norm(A))
        B = case.joined("B", base)
        assert_allclose(sums[base], B.T @ B, atol=1e-9 * np.abs(sums[base]).max())
        T = orthonormal(sums[base])
        assert_allclose((B @ T).T @ (B @ T), np.eye(T.shape[1]), atol=1e-5)
        some = np.hstack([np.ones((M, 1)), P[:, :3] * P[:, [0]]])
        assert_allclose(B @ T @ ((B @ T).T @ some), some, atol=1e-4)


def test_on_directions_of_another_round_a_form_is_what_it_is_there(rng):
    X, case = a_round(rng, edges=(40, 90))
    case.lead(case.fit()[0], most=8)
    P = case.joined("P", 0)
    case.asked = Sliced(
        X[:, :300],
        *(case.W, Gaussian(), 1 / 600, *(case.rows[at] for at in ([0, *range(1, 80, 2)], [2, 4]))),
        beside=case.rows,
    ).asked
    found, sums = case.fit()
    fit = found.fits[0]
    F = case.joined("F", 0)[:, fit.kept]
    A = case.W.F @ case.W.core @ case.W.F.T * ((F * fit.weights) @ F.T)

    core = core_along(found, sums, case.W, 0)
    assert_allclose(core, P.T @ A @ P, atol=1e-10 * np.linalg.norm(A))


@pytest.mark.parametrize("edges", [(40,), (1, 50, 129)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_slices_say_together_what_one_says(rng, kernel, edges):
    state = rng.bit_generator.state
    features = None
    told = []
    for cut in ((), edges):
        rng.bit_generator.state = state
        X, case = a_round(rng, kernel, edges=cut)
        features = X[:, :9].T.copy()
        along, _ = case.lead(case.fit()[0], multiplied=4)
        told.append(case.weigh(along, features)[1])
    one, many = told

    assert one.keys() == many.keys()
    for name, found in one.items():
        value, other = found, many[name]
        if "B'f" in name:  # a direction may have either sign, and so has a product of two
            value, other = np.abs(value), np.abs(other)
        assert_allclose(other, value, atol=1e-7 * np.abs(value).max() + 1e-15)


def test_a_product_is_compressed_from_its_gram_matrix(rng):
    U, F = rng.standard_normal((200, 3)), rng.standard_normal((200, 5)) * np.logspace(0, -6, 5)
    U[:, 2] *= 1e5  # columns of all sizes
    Z = products_of(U, F)
    N = rng.standard_normal((3, 3))
    Theta = np.kron(N + N.T, np.diag([1, -1, 1, 1, -1]))
    mix, T, missing = compression(Z.T @ Z, Theta, None, 0.0)
    A = Z @ Theta @ Z.T

    assert missing < 1e-12
    assert_allclose((Z @ mix * T) @ (Z @ mix).T, A, atol=1e-12 * np.linalg.norm(A))
