r"""Features that are needed and that maximal HSIC leaves out (Liu and Ruan, arXiv 2406.06903).

Labels ``y = x_0 + r x_1`` of independent signs need both features. With a Gaussian kernel, of which
rho is the value at two different signs, and a linear kernel on y, HSIC is ``(1 - rho) / 2`` for
``x_0`` alone and ``(1 - rho^2) (1 + r^2) / 4`` for both: less wherever
``r^2 < (1 - rho) / (1 + rho)``.
"""

from itertools import combinations

import numpy as np
import pytest

import dhsic
from dhsic.runtime.threads import Threads

M, N_COPIES, N_NOISE = 400, 6, 20


def hsic_of(X, y, sigma):
    """HSIC of all columns of X together, Gaussian kernel, and of y, linear kernel."""
    K = np.exp(-sigma * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    centred = y - y.mean()
    return centred @ K @ centred / len(y) ** 2


def signs(rng, *shape):
    return rng.choice([-1.0, 1.0], shape)


@pytest.mark.parametrize("sigma_of", [lambda d: 1 / (2 * d), lambda _: 0.5], ids=["1/2d", "fixed"])
@pytest.mark.parametrize("r", [0.5, 0.8])
def test_the_subset_of_maximal_hsic_lacks_a_needed_feature(r, sigma_of):
    rng = np.random.default_rng(0)
    X = signs(rng, M, 4)
    y = X[:, 0] + r * X[:, 1]
    subsets = [S for k in range(1, 5) for S in combinations(range(4), k)]
    best = max(subsets, key=lambda S: hsic_of(X[:, S], y, sigma_of(len(S))))
    assert best == (0,)
    explained = np.corrcoef(X[:, 0], y)[0, 1] ** 2
    assert explained < 0.85  # the second feature has the rest


def test_hsic_of_one_and_of_both_is_as_computed():
    X = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    r, sigma = 0.5, 0.3
    rho, y = np.exp(-4 * sigma), X @ [1.0, r]
    assert hsic_of(X[:, :1], y, sigma) == pytest.approx((1 - rho) / 2)
    assert hsic_of(X, y, sigma) == pytest.approx((1 - rho**2) * (1 + r**2) / 4)


@pytest.fixture
def with_copies():
    """Two needed features, the first; near copies of the first one; noise."""
    rng = np.random.default_rng(0)
    needed = signs(rng, M, 2)
    copies = np.where(rng.random((M, N_COPIES)) < 0.02, -1, 1) * needed[:, :1]
    X = np.hstack([needed, copies, signs(rng, M, N_NOISE)])
    return X, needed @ [1.0, 0.5] + 0.1 * rng.standard_normal(M)


def test_elimination_by_hsic_alone_prefers_copies(with_copies):
    """The second feature comes after all copies of the first."""
    model = dhsic.BAHSIC(2, rerank=False, progress=False, runtime=Threads(1))
    ranking = model.fit(*with_copies).ranking_
    assert ranking[1] == N_COPIES + 2


def test_the_default_keeps_what_is_needed(with_copies):
    """The last stage ranks each feature given the others: copies add nothing."""
    model = dhsic.BAHSIC(2, progress=False, runtime=Threads(1)).fit(*with_copies)
    assert np.flatnonzero(model.support_).tolist() == [0, 1]
