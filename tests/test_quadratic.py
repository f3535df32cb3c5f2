"""Quadratic forms of a matrix in panels, and the products by BLAS that they are made of."""

import numpy as np
import pytest

from dhsic.engines.scoring_problem import ScoringProblem
from dhsic.hsic import weights
from dhsic.kernels import Gaussian
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.statistic import HEIGHT, Statistic
from dhsic.linalg import quadratic
from dhsic.linalg.quadratic import NARROW, Quadratic, times_lower


def symmetric(rng, m):
    A = rng.standard_normal((m, m))
    return A + A.T


@pytest.mark.parametrize("m", [1, 5, 40, 131, 300])
@pytest.mark.parametrize("panel", [16, 48, 2048])
@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-4), ("float64", 1e-11)])
def test_forms_and_pairs_are_those_of_the_matrix(m, panel, dtype, near, rng, monkeypatch):
    monkeypatch.setattr(quadratic, "PANEL", panel)
    monkeypatch.setattr(quadratic, "NARROW", 16)
    A, X = symmetric(rng, m), rng.standard_normal((3, 7, m)).astype(dtype)

    forms = Quadratic.of(A, 2.0, dtype)

    expected = np.einsum("kci,ij,lcj->klc", X, A / 2, X, dtype=np.float64)
    size = near * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(forms.pairs(X), expected, rtol=0, atol=size)
    np.testing.assert_allclose(forms.forms(X[0]), expected[0, 0], rtol=0, atol=size)
    T = np.zeros((m, m))
    for a, b, part in forms.columns():
        T[a:, a:b] = part
    np.testing.assert_allclose(T + T.T, A / 2, rtol=0, atol=near)
    assert sum(panel.size for panel in forms.panels) == quadratic.form_entries(m)


def test_products_of_a_triangle_see_nothing_above_it(rng):
    X, A = rng.standard_normal((4, 6)), rng.standard_normal((9, 6))
    product = X.copy()

    times_lower(product, A)

    np.testing.assert_allclose(product, X @ np.tril(A[:6]), rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "lower"),
    [
        (np.ones((2, 3)), np.ones((2, 3))),
        (np.ones((2, 3)), np.ones((3, 4))),
        (np.ones((2, 3)), np.ones((3, 3), dtype=np.float32)),
        (np.ones((2, 3)), np.ones((3, 3)).T[::-1]),
        (np.ones((3, 2)).T, np.ones((3, 3))),
        (np.ones((2, 3), dtype=int), np.ones((3, 3), dtype=int)),
    ],
)
def test_blas_is_handed_no_wrong_arrays(X, lower):
    with pytest.raises(ValueError, match=r"pass \(c, n\) and at"):
        times_lower(X, lower)


@pytest.mark.parametrize(("strip", "width"), [(192, 1920), (48, 96)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_above_the_triangle_of_a_round_is_never_read(dtype, strip, width, rng, monkeypatch):
    """Whatever the round before has left in the room: every part of the triangle says the same."""
    monkeypatch.setattr("dhsic.engines.scoring_problem.STRIP", strip)
    monkeypatch.setattr("dhsic.engines.scoring_problem.WIDTH", width)
    m = NARROW + HEIGHT + 30
    Z, X = rng.standard_normal((m, 20)), rng.standard_normal((5, m)).astype(dtype)
    W = weights(label_matrix(rng.integers(0, 2, m)).L)
    G = np.triu(Z @ Z.T) + np.tril(np.full((m, m), np.nan), -1)
    question = ScoringProblem(Gaussian(), 0.02, W, Statistic.of(G))
    for key in ("T", 0):
        question.rooms[0].array(key, (m, m), "float64" if key == "T" else dtype).fill(np.nan)

    forms = question.form(0, 2.0 if dtype == "float32" else 1.0, dtype)

    D = ((Z[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)
    A = W * np.exp(-0.02 * D) / (2.0 if dtype == "float32" else 1.0)
    expected = np.einsum("ci,ij,cj->c", X, A, X, dtype=np.float64)
    near = 1e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(forms.forms(X), expected, rtol=0, atol=near * np.abs(A).sum())
    parts = 2 * sum((X[:, a:] @ part * X[:, a:b]).sum(axis=1) for a, b, part in forms.columns())
    np.testing.assert_allclose(parts, expected, rtol=0, atol=near * np.abs(A).sum())
    assert question.weighted(0).norm == pytest.approx(np.linalg.norm(W * np.exp(-0.02 * D)))
