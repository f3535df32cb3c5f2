"""What every kernel on data must do: `KernelSuite`, subclassed per kernel."""

import pickle
from abc import ABC, abstractmethod

import numpy as np
import pytest

from dhsic.kernels.statistic import Statistic, zero_upper


class KernelSuite(ABC):
    """Subclasses set `kernel` and `value(x, z, sigma)`, the definition for two samples.

    What is expected of expansions is asked of kernels that are scored by one.
    """

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

    @pytest.fixture
    def has_series(self):
        if self.kernel.scored_by not in ("series", "taylor"):
            pytest.skip(f"scored by {self.kernel.scored_by}")

    def statistic_of(self, X):
        """What `sums` adds up over the features of X, in both triangles."""
        upper = zero_upper(len(X))
        self.kernel.sums.add(upper, np.ascontiguousarray(X.T))
        return Statistic(upper).to_dense()

    def gram_of(self, X):
        G = self.statistic_of(X)
        return G, self.kernel.gram(G, np.diag(G), np.diag(G), self.sigma)

    def test_gram_is_the_definition(self, X):
        _, K = self.gram_of(X)
        expected = [[self.value(x, z, self.sigma) for z in X] for x in X]

        np.testing.assert_allclose(K, expected, rtol=1e-11)

    def test_statistic_is_additive_and_can_be_downdated(self, X):
        upper = zero_upper(9)
        for a, b in ((0, 2), (2, 5), (5, X.shape[1])):
            self.kernel.sums.add(upper, np.ascontiguousarray(X[:, a:b].T))
        self.kernel.sums.take_away(upper, np.ascontiguousarray(X[:, 2:5].T), map)
        rest = self.statistic_of(np.delete(X, [2, 3, 4], axis=1))

        np.testing.assert_allclose(Statistic(upper).to_dense(), rest, atol=1e-12 * X.shape[1])

    def test_loss_is_the_difference(self, X):
        G, K = self.gram_of(X)
        for j in range(X.shape[1]):
            _, without = self.gram_of(np.delete(X, j, axis=1))
            loss = self.kernel.decrement(G, np.diag(G), np.diag(G), X[:, j], X[:, j], self.sigma)

            np.testing.assert_allclose(loss, without - K, atol=1e-12 * np.abs(K).max())

    def test_gain_is_the_difference(self, X):
        _, K = self.gram_of(X)
        for j in range(X.shape[1]):
            G, without = self.gram_of(np.delete(X, j, axis=1))
            gain = self.kernel.increment(G, np.diag(G), np.diag(G), X[:, j], X[:, j], self.sigma)

            np.testing.assert_allclose(gain, K - without, atol=1e-12 * np.abs(K).max())

    @pytest.mark.usefixtures("has_series")
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

    @pytest.mark.usefixtures("has_series")
    def test_exact_order_is_exact(self):
        exact = self.kernel.exact_order
        if exact is not None:
            assert self.kernel.expansion(exact, self.sigma).remainder is None

    @pytest.mark.usefixtures("has_series")
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

    def test_factor_is_loss_over_base_and_gain_over_gram(self, X):
        """The gain of a feature is told by the factor at minus sigma, and by nothing else."""
        kernel, sigma = self.kernel, self.sigma
        if not (kernel.is_product or kernel.scored_by == "levels"):
            pytest.skip("of other kernels no factor is read")
        G, K = self.gram_of(X)
        norms, x = np.diag(G), X[:, 1]
        apart = np.subtract.outer(x, x) ** 2
        factor = kernel.factor(apart, sigma)
        loss = kernel.decrement(G, norms, norms, x, x, sigma)
        base = kernel.base(0, G, norms, norms, sigma)

        np.testing.assert_allclose(base * (factor + kernel.constant), loss, rtol=1e-12)
        assert (factor <= np.exp(kernel.exponent(np.abs(x).max(), sigma)) * (1 + 1e-12)).all()
        if kernel.is_product:
            gain = kernel.increment(G, norms, norms, x, x, sigma)
            np.testing.assert_allclose(kernel.factor(apart, -sigma) * K, gain, rtol=1e-9)

    def test_pickles(self):
        assert pickle.loads(pickle.dumps(self.kernel)) == self.kernel
