"""What every factorizer must do: `FactorizerSuite`, subclassed per factorizer."""

import pickle
from abc import abstractmethod

import naive
import numpy as np
import pytest
from cases import KERNELS

from dhsic.kernels import Gaussian
from dhsic.lowrank import Landmarks, measured_error
from dhsic.lowrank.base import landmark_statistic, random_directions, uniform_rows

#: Bases of the expansions of the kernels of cases.KERNELS.
BASES = {"gaussian": (0,), "linear": (1,), "polynomial": (0, 1, 2), "polynomial-3": (1,)}


def standardised(X):
    """Zero mean and unit spread; a constant feature becomes 0."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def three_populations(m, d, rng):
    """Genotypes: three directions on a flat floor."""
    frequencies = np.clip(rng.uniform(0.1, 0.9, d) + 0.15 * rng.standard_normal((3, d)), 0.05, 0.95)
    return standardised(rng.binomial(2, frequencies[rng.integers(0, 3, m)]).astype(float))


def cloud(m, d, rng):
    """A few features with a smooth kernel of quickly falling eigenvalues."""
    return standardised(rng.standard_normal((m, d)))


def product(factor):
    """``F diag(weights) F'`` without its diagonal."""
    A = (factor.F * factor.weights) @ factor.F.T
    np.fill_diagonal(A, 0.0)
    return A


def base_matrix(kernel, X, sigma, base=0):
    """The base matrix without its diagonal."""
    G = X @ X.T
    K = kernel.base(base, G, np.diag(G), np.diag(G), sigma)
    np.fill_diagonal(K, 0.0)
    return K


def everyone(X):
    """Statistic with all samples as landmarks."""
    return landmark_statistic(X, np.arange(len(X)))


class FactorizerSuite:
    """Subclasses set `factorizer`, and `largest_rank` where it has one."""

    factorizer = None
    largest_rank = None
    kernels = tuple(BASES)
    widths = (0.5, 4.0)  # sigma d

    def landmarks(self, X, b, seed=0):
        return landmark_statistic(X, uniform_rows(len(X), b, seed))

    def factor(self, kernel, sigma, X, b, **options):
        return self.factorizer.factor(kernel, sigma, self.landmarks(X, b), **options)

    def check(self, factor, m, b):
        r = factor.F.shape[1]
        assert factor.F.shape == (m, factor.rank)
        assert factor.weights.shape == (r,)
        assert factor.F.dtype == factor.weights.dtype == np.float64
        assert factor.F.flags.c_contiguous
        assert r <= min(b, self.largest_rank or b)
        assert np.isfinite(factor.F).all()
        assert (np.abs(factor.weights) == 1).all()
        assert isinstance(factor.error, float)
        assert factor.error >= 0  # and no NaN

    @pytest.fixture(params=["three_populations", "cloud"])
    def X(self, request, rng):
        if request.param == "cloud":
            return cloud(240, 4, rng)
        return three_populations(240, 1200, rng)

    def test_shapes_types_and_rank(self, X, kernel_name):
        for base in BASES[kernel_name]:
            for b in (1, 7, 60):
                factor = self.factor(KERNELS[kernel_name], 1 / (2 * X.shape[1]), X, b, base=base)
                self.check(factor, 240, b)

    def test_same_input_same_bits(self, X):
        first, again = (self.factor(Gaussian(), 0.01, X, 40, seed=3) for _ in range(2))

        np.testing.assert_array_equal(first.F, again.F)
        np.testing.assert_array_equal(first.weights, again.weights)
        assert first.error == again.error

    def test_permuting_samples_permutes_rows(self, X, rng):
        order = rng.permutation(len(X))
        place = np.argsort(order)
        landmarks = self.landmarks(X, 40)
        rows = None if landmarks.rows is None else place[landmarks.rows]
        permuted = Landmarks(landmarks.inner[:, order].copy(), landmarks.norms[order], rows)
        expected = self.factorizer.factor(Gaussian(), 0.1, landmarks)
        got = self.factorizer.factor(Gaussian(), 0.1, permuted)

        np.testing.assert_allclose(product(got), product(expected)[order][:, order], atol=1e-7)
        assert got.error == pytest.approx(expected.error, rel=1e-5)

    def test_error_is_the_true_one_within_a_factor_of_two(self, X):
        check = everyone(X)
        for sigma in (width / X.shape[1] for width in self.widths):
            for b in (30, 80):
                factor = self.factor(Gaussian(), sigma, X, b)
                true = measured_error(Gaussian(), sigma, check, factor)
                assert true / 2 <= factor.error <= 2 * true, (sigma, b)

    def test_copies_and_constant_data(self, rng):
        copies = np.repeat(cloud(10, 3, rng), 5, axis=0)
        for X in (copies, np.zeros((12, 4))):
            for b in (1, 3, len(X)):
                self.check(self.factor(Gaussian(), 0.2, X, b), len(X), b)

    def test_few_samples(self, rng):
        for m in (1, 2, 3, 4):
            X = rng.standard_normal((m, 5))
            for b in range(1, m + 1):
                self.check(self.factor(Gaussian(), 0.1, X, b), m, b)

    def test_huge_and_small_sigma(self, X):
        for sigma in (1e-12, 1e6):
            factor = self.factor(Gaussian(), sigma, X, 30)
            self.check(factor, 240, 30)
        flat = self.factor(Gaussian(), 1e-12, X, 30)
        np.testing.assert_allclose(
            measured_error(Gaussian(), 1e-12, everyone(X), flat), 0, atol=0.2
        )

    def test_travels(self, X):
        there = pickle.loads(pickle.dumps(self.factorizer))
        assert there == self.factorizer
        pickle.loads(pickle.dumps(self.factor(Gaussian(), 0.1, X, 5)))
        assert hash(there) == hash(self.factorizer)


class SampleFactorizerSuite(FactorizerSuite):
    """Also what holds where landmarks are samples."""

    def test_error_with_all_samples_is_the_definition(self, rng, kernel_name):
        X = cloud(25, 6, rng)
        kernel = KERNELS[kernel_name]
        for base in BASES[kernel_name]:
            landmarks = everyone(X)
            factor = self.factorizer.factor(kernel, 0.05, landmarks, base=base)
            K = base_matrix(kernel, X, 0.05, base)
            true = naive.off_diagonal_error(K.tolist(), product(factor).tolist())

            assert measured_error(kernel, 0.05, landmarks, factor, base) == pytest.approx(
                true, rel=1e-6, abs=1e-12
            )

    def test_error_of_other_kernels_within_a_factor_of_three(self, X, kernel_name):
        sigma = 1 / (2 * X.shape[1])
        for base in BASES[kernel_name]:
            factor = self.factor(KERNELS[kernel_name], sigma, X, 80, base=base)
            true = measured_error(KERNELS[kernel_name], sigma, everyone(X), factor, base)
            assert true / 3 - 1e-6 <= factor.error <= 3 * true + 1e-6

    def test_check_rows_estimate_the_error(self, X):
        landmarks = self.landmarks(X, 60)
        others = np.setdiff1d(np.arange(240), landmarks.rows)[::4]
        factor = self.factorizer.factor(Gaussian(), 0.01, landmarks)
        true = measured_error(Gaussian(), 0.01, everyone(X), factor)
        held = measured_error(Gaussian(), 0.01, landmark_statistic(X, others), factor)

        assert held == pytest.approx(true, rel=1.0)  # the rows without landmarks: not lower

    def test_random_directions_are_refused(self, X):
        directions = Landmarks(np.ones((3, 240)), np.ones(240), None)
        with pytest.raises(Exception, match="random directions"):
            self.factorizer.factor(Gaussian(), 0.1, directions)

    def test_the_largest_entry_of_a_direction_does_not_flip(self, X):
        """Signs are fixed: data that differ by rounding give the same directions."""
        landmarks = self.landmarks(X, 40)
        nearly = Landmarks(landmarks.inner * (1 + 1e-14), landmarks.norms, landmarks.rows)
        first = self.factorizer.factor(Gaussian(), 0.01, landmarks)
        second = self.factorizer.factor(Gaussian(), 0.01, nearly)
        r = min(first.rank, second.rank, 3)

        assert r > 0
        assert (np.einsum("ij,ij->j", first.F, second.F)[:r] > 0).all()


class CompleteFactorizerSuite(SampleFactorizerSuite):
    """Also: with full rank and all samples K is reproduced off the diagonal."""

    @abstractmethod
    def complete(self, m):
        """What subclasses give."""

    def test_reproduces_the_base_matrix(self, rng, kernel_name):
        for X in (cloud(40, 6, rng), three_populations(40, 300, rng)):
            kernel, sigma = KERNELS[kernel_name], 1 / (2 * X.shape[1])
            for base in BASES[kernel_name]:
                factor = self.complete(40).factor(kernel, sigma, everyone(X), base=base)
                K = base_matrix(kernel, X, sigma, base)

                np.testing.assert_allclose(product(factor), K, atol=1e-8 * np.abs(K).max())
                assert factor.error <= 1e-8

    def test_reproduces_copies(self, rng):
        X = np.repeat(cloud(8, 3, rng), 3, axis=0)
        factor = self.complete(24).factor(Gaussian(), 0.3, everyone(X))

        np.testing.assert_allclose(product(factor), base_matrix(Gaussian(), X, 0.3), atol=1e-8)


class RandomDirectionsSuite(FactorizerSuite):
    """The same with random directions of feature space as landmarks."""

    kernels = ("gaussian",)
    widths = (0.25, 0.5)  # a smaller K drowns in the sampling error

    def landmarks(self, X, b, seed=0):
        directions = random_directions(seed, np.arange(X.shape[1]), b)
        return Landmarks(directions @ X.T, np.einsum("ij,ij->i", X, X), None)
