"""Symmetric matrices: what dense ones and those of low rank share, and which are of low rank."""

import numpy as np
import pytest
from cases import KERNELS
from hypothesis import given
from hypothesis import strategies as st

from dhsic.kernels import Gaussian
from dhsic.kernels.base import COMPLETE, dense_kernel, low_rank_kernel
from dhsic.kernels.labels import label_matrix
from dhsic.linalg import symmetric
from dhsic.linalg.symmetric import DenseSymmetric, LowRankSymmetric


def drawn(rng, m, r):
    """Directions, their weights, and a diagonal of its own."""
    return LowRankSymmetric(*map(rng.standard_normal, ((m, r), r, m)))


@given(st.integers(3, 9), st.integers(1, 4), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_a_form_of_low_rank_is_its_matrix(m, r, q, seed):
    rng = np.random.default_rng(seed)
    low = drawn(rng, m, r)
    full = DenseSymmetric(low.to_dense())
    Q = np.linalg.qr(rng.standard_normal((m, q)))[0]
    Z, diagonal = rng.standard_normal((m, 3)), rng.standard_normal(m)
    P = np.stack([rng.permutation(m) for _ in range(4)])
    other = DenseSymmetric(full.quadratic(np.eye(m)) * np.eye(m) + np.ones((m, m)))
    close = {"rtol": 1e-10, "atol": 1e-12 * max(1.0, full.norm**2)}

    for before, after in ((low, full), (low.projected(Q), full.projected(Q))):
        np.testing.assert_allclose(before.to_dense(), after.matrix, **close)
        np.testing.assert_allclose(before.diagonal, after.diagonal, **close)
        np.testing.assert_allclose(before.row_sums, after.row_sums, **close)
        np.testing.assert_allclose(before.quadratic(Z), after.quadratic(Z), **close)
        np.testing.assert_allclose(before.inner(P, [other]), after.inner(P, [other]), **close)
        np.testing.assert_allclose(before.norm**2, after.norm**2, **close)
        for less in (0.0, 0.7):
            changed = before.changed(3.0, diagonal, less).to_dense()
            np.testing.assert_allclose(changed, after.changed(3.0, diagonal, less).matrix, **close)
    R = np.eye(m) - Q @ Q.T
    np.testing.assert_allclose(full.projected(Q).matrix, R @ full.matrix @ R, **close)


@given(st.integers(3, 9), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_powers_are_sums_over_entries(m, r, seed):
    rng = np.random.default_rng(seed)
    low = drawn(rng, m, r)
    A = low.to_dense()
    cubes = sum(a**3 for a in A.ravel())
    traces = sum(A[i, j] * A[j, k] * A[k, i] for i, j, k in np.ndindex(m, m, m))
    squares = sum(A[i, i] * a * a for i, row in enumerate(A) for a in row)
    H, scale = np.eye(m) - 1 / m, 1e-12 * max(1.0, np.abs(A).sum() ** 3)

    for form in (low, DenseSymmetric(A)):
        assert form.cubic_sums() == pytest.approx((cubes, squares, traces), abs=scale)
        less = form.changed(1.0, form.diagonal, 0.7)
        np.testing.assert_allclose(less.to_dense(), A - 0.7 * H, atol=scale)


def test_rows_that_are_multiplied_together_do_not_matter(rng, monkeypatch):
    S = rng.standard_normal((40, 40))
    expected = np.trace(np.linalg.matrix_power(S + S.T, 3))

    for rows in (1, 7, 64):
        monkeypatch.setattr(symmetric, "MULTIPLIED", rows)
        assert DenseSymmetric(S + S.T).cubic_sums()[2] == pytest.approx(expected)


def test_rows_that_are_looked_up_together_do_not_matter(rng, monkeypatch):
    A, C = (DenseSymmetric(S + S.T) for S in rng.standard_normal((2, 40, 40)))
    P = np.stack([rng.permutation(40) for _ in range(3)])
    expected = [np.vdot(C.matrix[np.ix_(p, p)], A.matrix) for p in P]

    for rows in (1, 7, 64):
        monkeypatch.setattr(symmetric, "GATHERED", rows)
        np.testing.assert_allclose(C.inner(P, [A])[0], expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_kernels_of_one_feature_are_of_low_rank(rng, kernel):
    X = rng.standard_normal((200, 1)) ** 3

    low = low_rank_kernel(kernel, X, 0.3)

    K = dense_kernel(kernel, X, 0.3).matrix
    np.testing.assert_allclose(low.to_dense(), K, rtol=0, atol=COMPLETE * np.trace(K))
    assert low.F.shape[1] < 50


def test_kernels_of_many_features_are_not(rng):
    assert low_rank_kernel(Gaussian(), rng.standard_normal((200, 50)), 0.01) is None


def test_labels_are_of_low_rank_where_they_can_be(rng):
    y = rng.standard_normal((300, 2))

    assert isinstance(label_matrix(y[:, 0]).low_rank(), LowRankSymmetric)
    assert isinstance(label_matrix(np.arange(300) % 5).low_rank(), LowRankSymmetric)
    assert label_matrix(y).low_rank() is None
    assert label_matrix(np.arange(300) % 100, "multiclass").low_rank() is None
    assert label_matrix(y @ y.T, "precomputed").low_rank() is None
