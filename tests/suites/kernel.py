"""What every kernel on data must do: `KernelSuite`, subclassed per kernel."""

import pickle
from abc import ABC, abstractmethod

import numpy as np
import pytest

from dhsic.kernels.statistic import InnerProducts, Statistic, zero_upper
from dhsic.linalg.quadratic import add_products


class KernelSuite(ABC):
    """Subclasses set `kernel` and `value(x, z, sigma)`, the definition for two samples."""

    kernel = None
    sigma = 0.03
    orders = (1, 2, 3, 4, 5, 6, 7, 9, 12)

    @abstractmethod
    def value(self, x, z, sigma):
        """What subclasses give."""

    @pytest.fixture
    def X(self, rng):
        X = rng.standard_normal((9, 6))
        X[:, 1] = rng.integers(0, 3, 9)
        return X

    def gram_of(self, X):
        statistic = Statistic.of(X @ X.T)
        G, norms = statistic.whole(), statistic.diagonal
        return G, self.kernel.gram(G, norms, norms, self.sigma)

    def test_gram_is_the_definition(self, X):
        _, K = self.gram_of(X)
        expected = [[self.value(x, z, self.sigma) for z in X] for x in X]

        np.testing.assert_allclose(K, expected, rtol=1e-11)

    def test_statistic_is_additive_and_can_be_downdated(self, X):
        upper = zero_upper(9)
        for a, b in ((0, 2), (2, 5), (5, 6)):
            add_products(upper, np.ascontiguousarray(X[:, a:b].T))
        InnerProducts().take_away(upper, np.ascontiguousarray(X[:, 2:5].T), map)
        rest = X[:, [0, 1, 5]]

        np.testing.assert_allclose(Statistic(upper).whole(), rest @ rest.T, atol=1e-12)

    def test_loss_is_the_difference(self, X):
        G, K = self.gram_of(X)
        for j in range(X.shape[1]):
            _, without = self.gram_of(np.delete(X, j, axis=1))
            loss = self.kernel.decrement(G, np.diag(G), np.diag(G), X[:, j], X[:, j], self.sigma)

            np.testing.assert_allclose(loss, without - K, atol=1e-12 * np.abs(K).max())

    def test_expansion_reaches_the_loss_within_its_remainder(self, X, rng):
        G, _ = self.gram_of(X)
        W = rng.standard_normal((9, 9))
        W += W.T
        peak, fourth = np.abs(X).max(axis=0), (X**4).mean(axis=0)
        exact = np.array(
            [
                np.vdot(W, self.kernel.decrement(G, np.diag(G), np.diag(G), x, x, self.sigma))
                for x in X.T
            ]
        )
        for order in self.orders:
            expansion = self.kernel.expansion(order, self.sigma)
            gains, size = self.evaluate(expansion, X, G, W)
            bound = 1e-12 * size
            if expansion.remainder is not None:
                bound = bound + 9 * size * expansion.remainder(peak, fourth)
            assert (np.abs(gains - exact) <= bound).all(), order
        np.testing.assert_allclose(gains, exact, rtol=1e-7, atol=1e-9 * size)

    def evaluate(self, expansion, X, G, W):
        """Gains by an expansion, in plain loops over its terms; and the norm of its A."""
        norms = np.diag(G)
        rows = np.ascontiguousarray(X.T)
        gains, size = np.zeros(X.shape[1]), 0.0
        for term, f in zip(expansion.terms, expansion.functions(rows), strict=True):
            A = W * self.kernel.base(term.base, G, norms, norms, self.sigma)
            size = max(size, np.linalg.norm(A))
            other = np.ones_like(f) if term.linear else f
            gains += term.coefficient * np.einsum("ci,ij,cj->c", f, A, other)
        return gains, size

    def test_exact_order_is_exact(self):
        exact = self.kernel.exact_order
        if exact is not None:
            assert self.kernel.expansion(exact, self.sigma).remainder is None

    def test_magnitudes_bound_each_term(self, X):
        peak, fourth = np.abs(X).max(axis=0), (X**4).mean(axis=0)
        for order in self.orders[:4]:
            expansion = self.kernel.expansion(order, self.sigma)
            rows = np.ascontiguousarray(X.T)
            sizes = expansion.magnitudes(peak, fourth)
            functions = expansion.functions(rows)
            for term, f, size in zip(expansion.terms, functions, sizes, strict=True):
                norm = np.linalg.norm(f, axis=1) / 3
                actual = abs(term.coefficient) * (norm if term.linear else norm**2)
                assert (actual <= (1 + 1e-12) * size).all()

    def test_factor_is_loss_over_gram(self, X):
        G, K = self.gram_of(X)
        x = X[:, 1]
        if self.kernel.is_product:
            factor = self.kernel.factor(np.subtract.outer(x, x) ** 2, self.sigma)
            loss = self.kernel.decrement(G, np.diag(G), np.diag(G), x, x, self.sigma)
            np.testing.assert_allclose(factor * K, loss, rtol=1e-12)

    def test_pickles(self):
        assert pickle.loads(pickle.dumps(self.kernel)) == self.kernel
