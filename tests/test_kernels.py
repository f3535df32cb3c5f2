"""Kernels on data, bandwidth policies."""

import naive
import numpy as np
import pytest
from suites.kernel import KernelSuite

from dhsic.errors import InputError
from dhsic.kernels import Gaussian, Linear, Polynomial, resolve_kernel
from dhsic.kernels.bandwidth import (
    Dimension,
    DistanceStats,
    Fixed,
    Grid,
    Median,
    resolve_bandwidth,
)
from dhsic.kernels.statistic import HEIGHT, Statistic, add_packed, packed, zero_upper


class TestGaussian(KernelSuite):
    kernel = Gaussian()

    def value(self, x, z, sigma):
        return naive.gaussian(x, z, sigma)

    def test_remainder_shrinks_with_the_order_and_holds_for_rare_variants(self, rng):
        """One sample in forty carries the allele: |x| = 6.2."""
        m = 40
        x = np.zeros(m)
        x[0] = 1
        x = (x - x.mean()) / x.std()
        A = rng.standard_normal((m, m))
        A += A.T
        exact = np.sum(A * np.expm1(0.01 * np.subtract.outer(x, x) ** 2))
        peak, fourth = np.array([np.abs(x).max()]), np.array([(x**4).mean()])
        bounds = []
        for order in range(1, 20):
            expansion = self.kernel.expansion(order, 0.01)
            gain = sum(
                term.coefficient * (f[0] @ A @ (np.ones(m) if term.linear else f[0]))
                for term, f in zip(expansion.terms, expansion.functions(x[None]), strict=True)
            )
            bounds.append(m * np.linalg.norm(A) * expansion.remainder(peak, fourth)[0])
            assert abs(gain - exact) <= bounds[-1] + 1e-9
        assert bounds[-1] < 1e-9 * bounds[0]


class TestLinear(KernelSuite):
    kernel = Linear()
    orders = (1,)

    def value(self, x, z, sigma):
        return naive.linear(x, z, sigma)


class TestPolynomial(KernelSuite):
    kernel = Polynomial()
    orders = (2,)

    def value(self, x, z, sigma):
        return naive.polynomial(x, z, sigma)


class TestCubic(KernelSuite):
    kernel = Polynomial(degree=3, offset=0.5)
    orders = (3,)

    def value(self, x, z, sigma):
        return naive.polynomial(x, z, sigma, 3, 0.5)


@pytest.mark.parametrize("width", [40, 2048])
def test_statistic_tiles_cover_each_pair_once(width, rng, monkeypatch):
    monkeypatch.setattr("dhsic.kernels.statistic.WIDTH", width)
    m = 2 * HEIGHT + 7
    X = rng.standard_normal((m, 3))
    statistic = Statistic.of(np.triu(X @ X.T))

    np.testing.assert_array_equal(statistic.to_dense(), (G := np.triu(X @ X.T)) + np.triu(G, 1).T)
    assert sum(t.size for _, _, t in statistic.tiles()) < 0.8 * m * m


def test_a_packed_triangle_adds_up(rng):
    X, Y = rng.standard_normal((2, 9, 9))
    upper = zero_upper(9)
    for matrix in (X, Y):
        triangle = packed(np.asfortranarray(np.triu(matrix)))
        assert triangle.shape == (45,)
        add_packed(upper, triangle)

    np.testing.assert_array_equal(np.triu(upper), np.triu(X) + np.triu(Y))


def test_bandwidth_policies_are_the_definitions(rng):
    X = rng.standard_normal((11, 5))
    L = naive.label_gram([i % 2 for i in range(11)], "balanced")
    from dhsic.hsic import weights

    known = DistanceStats(Gaussian(), weights(np.array(L)), Statistic.of(X @ X.T))
    for given in ("dimension", "median", 0.2, [0.01, 0.1, 1.0, 5.0]):
        expected = naive.choose_sigma(given, X.tolist(), L, "gaussian", "unbiased")

        actual = resolve_bandwidth(given)(known, 5)

        assert actual == pytest.approx(expected, rel=1e-10)


def test_bandwidth_names():
    assert resolve_bandwidth("dimension") == Dimension()
    assert resolve_bandwidth("median") == Median()
    assert resolve_bandwidth(0.5) == Fixed(0.5)
    assert resolve_bandwidth([2, 1.0, 1]) == Grid((1.0, 2.0))


@pytest.mark.parametrize("bad", ["wide", 0, -1.0, np.nan, np.inf, [], [1.0, -2.0], True, None])
def test_bad_bandwidth(bad):
    with pytest.raises(InputError, match="bandwidth"):
        resolve_bandwidth(bad)


@pytest.mark.parametrize("bad", ["rbf", None, 3, Gaussian])
def test_bad_kernel(bad):
    with pytest.raises(InputError, match="is unknown"):
        resolve_kernel(bad)


@pytest.mark.parametrize("bad", [{"degree": 0}, {"degree": 1.5}, {"offset": -1}])
def test_bad_polynomial(bad):
    with pytest.raises(InputError, match="Polynomial"):
        Polynomial(**bad)
