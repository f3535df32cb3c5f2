"""Factorizers: each against the suite, and against the plain loops."""

import naive
import numpy as np
import pytest
from cases import KERNELS
from hypothesis import given
from hypothesis import strategies as st
from strategies import matrices
from suites.factorizer import (
    CompleteFactorizerSuite,
    RandomDirectionsSuite,
    SampleFactorizerSuite,
    base_matrix,
    cloud,
    everyone,
    product,
    three_populations,
)

from dhsic.errors import InputError
from dhsic.kernels import Gaussian, Polynomial
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank import (
    FACTORIZERS,
    Cholesky,
    Landmarks,
    Nystrom,
    RandomFeatures,
    Spectral,
    measured_error,
    resolve_factorizer,
)
from dhsic.lowrank.base import CHUNK, BaseRows, landmark_statistic, random_directions, uniform_rows


class TestNystrom(CompleteFactorizerSuite):
    factorizer = Nystrom()

    def complete(self, m):
        return Nystrom(rtol=0)


class TestNystromTruncated(SampleFactorizerSuite):
    factorizer = Nystrom(rank=3)
    largest_rank = 3


class TestNystromFarApart(SampleFactorizerSuite):
    factorizer = Nystrom(n_landmarks=25, sampling="kmeans++")
    largest_rank = 25


class TestNystromByLeverage(SampleFactorizerSuite):
    factorizer = Nystrom(n_landmarks=25, rank=10, sampling="leverage")
    largest_rank = 10


class TestCholesky(CompleteFactorizerSuite):
    factorizer = Cholesky()

    def complete(self, m):
        return Cholesky(rtol=0)


class TestCholeskyTruncated(SampleFactorizerSuite):
    factorizer = Cholesky(rank=10)
    largest_rank = 10


class TestSpectral(CompleteFactorizerSuite):
    factorizer = Spectral(5)
    largest_rank = 5

    def complete(self, m):
        return Spectral(m)


class TestRandomFeatures(RandomDirectionsSuite):
    factorizer = RandomFeatures()


# -- against the plain loops --------------------------------------------------------------------


@given(matrices(samples=(8, 12), features=(3, 9)), st.sampled_from(["gaussian", "polynomial"]))
def test_nystrom_is_the_plain_loops(X, name):
    X = np.array(naive.standardise(X.tolist()))
    K = naive.gram(X.tolist(), name, 0.2)
    rows = [1, 4, 6]
    if np.linalg.cond(np.array(K)[np.ix_(rows, rows)]) > 1e6:
        return  # landmarks that are copies have no inverse
    expected = np.array(naive.nystrom(K, rows))
    factor = Nystrom().factor(KERNELS[name], 0.2, landmark_statistic(X, np.array(rows)))

    np.testing.assert_allclose(factor.F @ factor.F.T, expected, atol=1e-8 * np.abs(K).max())


@given(matrices(samples=(6, 9), features=(3, 6)), st.integers(1, 4))
def test_cholesky_is_the_plain_loops(X, rank):
    """Samples of different length: no two residuals are equal, so the pivots are the same."""
    X = np.array(naive.standardise(X.tolist())) * np.linspace(1, 1.3, len(X))[:, None]
    K = naive.gram(X.tolist(), "polynomial", 0.0)
    eigenvalues = np.linalg.eigvalsh(K)
    if eigenvalues[-rank] < 1e-6 * eigenvalues[-1]:
        return  # K has no such rank
    expected, _ = naive.incomplete_cholesky(K, rank)
    factor = Cholesky(rank=rank, rtol=0).factor(Polynomial(), 1.0, everyone(X))

    np.testing.assert_allclose(factor.F @ factor.F.T, expected, atol=1e-8 * np.abs(K).max())


def test_measured_error_is_the_plain_loops(rng):
    X = cloud(9, 3, rng)
    K = naive.gram(X.tolist(), "gaussian", 0.3)
    factor = Nystrom().factor(Gaussian(), 0.3, landmark_statistic(X, np.array([0, 5])))
    expected = naive.off_diagonal_error(K, (factor.F @ factor.F.T).tolist())

    assert measured_error(Gaussian(), 0.3, everyone(X), factor) == pytest.approx(expected)


# -- each on its own ----------------------------------------------------------------------------


def test_nystrom_truncates_to_the_leading_directions(rng):
    """No other 4 directions are nearer to what 30 landmarks make of K."""
    X = cloud(120, 4, rng)
    landmarks = landmark_statistic(X, uniform_rows(120, 30, 0))
    whole = Nystrom().factor(Gaussian(), 0.3, landmarks).F
    few = Nystrom(rank=4).factor(Gaussian(), 0.3, landmarks).F
    singular = np.linalg.svd(whole, compute_uv=False)

    missing = np.linalg.norm(whole @ whole.T - few @ few.T)
    assert missing == pytest.approx(np.linalg.norm(singular[4:] ** 2), rel=1e-6)


def test_nystrom_leaves_a_landmark_out_as_if_fitted_anew(rng):
    """Its error with all landmarks used is that of fits to all but one."""
    X = cloud(80, 4, rng)
    rows = uniform_rows(80, 12, 1)
    outside = np.setdiff1d(np.arange(80), rows)
    K = base_matrix(Gaussian(), X, 0.2)
    squares = expected = 0.0
    for i in rows:
        others = rows[rows != i]
        F = Nystrom().factor(Gaussian(), 0.2, landmark_statistic(X, others)).F
        squares += ((K[i] - F[i] @ F.T)[outside] ** 2).sum()
        d = np.maximum(1 - (F[i] @ F[i]), 0)
        expected += d
    factor = Nystrom().factor(Gaussian(), 0.2, landmark_statistic(X, rows))
    d = 1 - np.einsum("ij,ij->i", factor.F, factor.F)[outside]
    rho = squares / (expected * d.sum())
    residual = rho * (d.sum() ** 2 - d @ d)
    inside = (K[rows] ** 2).sum() + (K[rows][:, outside] ** 2).sum()
    total = inside + (K[rows][:, outside] ** 2).mean() * len(outside) * (len(outside) - 1)

    assert factor.error == pytest.approx(np.sqrt(residual / total), rel=1e-6)


@pytest.mark.parametrize("sampling", ["uniform", "kmeans++", "leverage"])
def test_sampling_takes_from_the_pool_what_it_is_told(rng, sampling):
    X = np.vstack([cloud(60, 3, rng) * 0.1, cloud(4, 3, rng) * 5])  # a crowd and a few outliers
    landmarks = everyone(X)
    nystrom = Nystrom(n_landmarks=20, sampling=sampling)
    used = nystrom.chosen(BaseRows(Gaussian(), 0.5, landmarks), seed=1)

    assert len(used) == 20
    assert (np.diff(used) > 0).all()
    others = [nystrom.chosen(BaseRows(Gaussian(), 0.5, landmarks), seed) for seed in range(30)]
    assert any((used != other).any() for other in others)
    outliers = np.mean([np.isin(np.arange(60, 64), other).mean() for other in others])
    assert outliers > {"uniform": 0.1, "leverage": 0.5, "kmeans++": 0.99}[sampling]


def test_kmeans_takes_no_copies(rng):
    X = np.repeat(cloud(6, 3, rng), 4, axis=0)
    factor = Nystrom(n_landmarks=15, sampling="kmeans++", rtol=0).factor(
        Gaussian(), 0.3, everyone(X)
    )

    assert factor.rank == 6
    assert measured_error(Gaussian(), 0.3, everyone(X), factor) < 1e-10


def test_cholesky_stops_at_its_tolerance(rng):
    X = cloud(150, 3, rng)
    ranks = []
    for tolerance in (1e-1, 1e-3, 1e-6):
        factor = Cholesky(rtol=tolerance).factor(Gaussian(), 0.2, everyone(X))
        missing = 150 - (factor.F**2).sum()
        before = 150 - (factor.F[:, :-1] ** 2).sum()
        assert missing <= tolerance * 150 < before
        ranks.append(factor.rank)
    assert ranks == sorted(set(ranks))


def test_cholesky_takes_pivots_from_the_landmarks(rng):
    X = cloud(50, 3, rng)
    rows = uniform_rows(50, 12, 0)
    factor = Cholesky(rtol=0).factor(Gaussian(), 0.3, landmark_statistic(X, rows))
    nystrom = Nystrom(rtol=0).factor(Gaussian(), 0.3, landmark_statistic(X, rows))

    assert factor.rank == 12
    np.testing.assert_allclose(product(factor), product(nystrom), atol=1e-7)


def test_spectral_is_no_worse_than_eigenvectors_of_the_hollow_matrix(rng):
    """The free diagonal can only help; on the flat floor of wide data it does little."""
    for X in (cloud(150, 4, rng), three_populations(150, 600, rng)):
        sigma = 1 / X.shape[1]
        K = base_matrix(Gaussian(), X, sigma)
        values, V = np.linalg.eigh(K)
        order = np.argsort(-np.abs(values))[:4]
        directions = V[:, order] * np.sqrt(np.abs(values[order]))
        plain = LowRankSymmetric.of(directions, np.sign(values[order]))
        factor = Spectral(4).factor(Gaussian(), sigma, everyone(X))

        check = everyone(X)
        assert measured_error(Gaussian(), sigma, check, factor) <= (
            measured_error(Gaussian(), sigma, check, plain) * (1 + 1e-6)
        )


def test_spectral_has_negative_directions(rng):
    """Two samples: K without its diagonal has eigenvalues k and -k."""
    X = rng.standard_normal((2, 3))
    factor = Spectral(2).factor(Gaussian(), 0.1, everyone(X))

    assert sorted(factor.weights) == [-1, 1]
    np.testing.assert_allclose(product(factor), base_matrix(Gaussian(), X, 0.1), atol=1e-14)


def test_spectral_finds_with_a_few_what_nystrom_needs_many_for(rng):
    X = three_populations(400, 2000, rng)
    sigma = 1 / (2 * X.shape[1])
    landmarks = landmark_statistic(X, uniform_rows(400, 100, 0))
    spectral = Spectral(3).factor(Gaussian(), sigma, landmarks)
    nystrom = Nystrom(rank=3).factor(Gaussian(), sigma, landmarks)

    error = measured_error(Gaussian(), sigma, everyone(X), spectral)
    assert error < measured_error(Gaussian(), sigma, everyone(X), nystrom)


def test_a_rank_that_the_landmarks_do_not_bear_is_cut(rng):
    """More directions never blow up the extension."""
    X = cloud(300, 5, rng)
    landmarks = landmark_statistic(X, uniform_rows(300, 60, 0))
    errors = [
        measured_error(
            Gaussian(), 0.2, everyone(X), Spectral(rank).factor(Gaussian(), 0.2, landmarks)
        )
        for rank in (3, 300)
    ]
    assert errors[1] < 1.2 * errors[0]


def test_random_features_converge(rng):
    """The error falls as one over the root of their number; seeded."""
    X = cloud(100, 5, rng)
    errors = []
    for b in (100, 1600):
        directions = random_directions(4, np.arange(5), b)
        landmarks = Landmarks(directions @ X.T, np.einsum("ij,ij->i", X, X), None)
        factor = RandomFeatures().factor(Gaussian(), 0.1, landmarks)
        errors.append(measured_error(Gaussian(), 0.1, everyone(X), factor))
    assert errors[0] < 0.3
    assert 2.5 < errors[0] / errors[1] < 6.5  # 4 but for chance


def test_random_features_say_where_the_kernel_drowns(rng):
    X = three_populations(100, 800, rng)
    directions = random_directions(0, np.arange(X.shape[1]), 50)
    landmarks = Landmarks(directions @ X.T, np.einsum("ij,ij->i", X, X), None)
    factor = RandomFeatures().factor(Gaussian(), 8 / X.shape[1], landmarks)

    assert measured_error(Gaussian(), 8 / X.shape[1], everyone(X), factor) > 1
    assert factor.error > 1


def test_random_features_are_unbiased(rng):
    """Mean over seeds of F F' is K."""
    X = cloud(6, 3, rng)
    total = np.zeros((6, 6))
    for seed in range(40):
        directions = random_directions(seed, np.arange(3), 500)
        landmarks = Landmarks(directions @ X.T, np.einsum("ij,ij->i", X, X), None)
        total += product(RandomFeatures().factor(Gaussian(), 0.2, landmarks, seed=seed))

    np.testing.assert_allclose(total / 40, base_matrix(Gaussian(), X, 0.2), atol=0.03)


# -- landmarks ----------------------------------------------------------------------------------


def test_uniform_rows_are_seeded_and_sorted():
    rows = uniform_rows(1000, 50, 7)

    assert rows.dtype == np.int64
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, uniform_rows(1000, 50, 7))
    assert (rows != uniform_rows(1000, 50, 8)).any()
    np.testing.assert_array_equal(uniform_rows(5, 5, 0), np.arange(5))


@given(st.lists(st.integers(0, 3 * CHUNK), min_size=1, max_size=30), st.integers(0, 2**63))
def test_random_directions_do_not_know_the_blocks(features, seed):
    together = random_directions(seed, np.array(features), 3)
    alone = np.column_stack([random_directions(seed, np.array([j]), 3) for j in features])

    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together[:2], random_directions(seed, np.array(features), 2))


def test_random_directions_are_standard_normal():
    directions = random_directions(0, np.arange(5000), 40)
    correlations = np.corrcoef(directions)

    assert abs(directions.mean()) < 0.01
    assert abs(directions.std() - 1) < 0.01
    assert np.abs(correlations - np.eye(40)).max() < 0.08
    assert (random_directions(1, np.arange(50), 40) != directions[:, :50]).all()


def test_landmark_statistic_adds_over_features(rng):
    X = cloud(20, 9, rng)
    rows = np.array([3, 7])
    whole = landmark_statistic(X, rows)
    parts = [landmark_statistic(X[:, a:b], rows) for a, b in ((0, 4), (4, 9))]

    np.testing.assert_allclose(whole.inner, sum(p.inner for p in parts), atol=1e-12)
    np.testing.assert_allclose(whole.norms, sum(p.norms for p in parts), atol=1e-12)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Nystrom(rank=0), "rank=0; pass a whole number"),
        (lambda: Nystrom(rank=2.5), "rank=2.5"),
        (lambda: Nystrom(n_landmarks=True), "n_landmarks=True"),
        (lambda: Nystrom(sampling="best"), "'best' is unknown; pass one of 'uniform'"),
        (lambda: Nystrom(rtol=-1), "rtol=-1; pass a number of at least 0"),
        (lambda: Cholesky(rtol=1), "rtol=1; pass"),
        (lambda: Cholesky(rtol="low"), "rtol='low'"),
        (lambda: Spectral(None), "rank=None; pass a whole number"),
        (lambda: Spectral(3, n_iterations=0), "n_iterations=0"),
        (lambda: uniform_rows(10, 11, 0), "11 landmarks of 10 samples"),
        (lambda: uniform_rows(10, 0, 0), "0 landmarks"),
        (lambda: Landmarks(np.ones(3), np.ones(3), None), r"shape \(3,\)"),
        (lambda: Landmarks(np.ones((1, 3), "f4"), np.ones(3), None), "float32"),
        (lambda: Landmarks(np.ones((1, 3)), np.ones(2), None), "there are 3 samples"),
        (lambda: Landmarks(np.ones((2, 3)), np.ones(3), np.array([1])), r"pass \(2,\) integers"),
        (lambda: Landmarks(np.ones((2, 3)), np.ones(3), np.array([1, 1])), "1 of them different"),
        (
            lambda: Landmarks(np.ones((2, 3)), np.ones(3), np.array([1, 3])),
            "range from 1 to 3",
        ),
        (lambda: resolve_factorizer("lu"), "'lu' is unknown; pass one of nystrom"),
        (lambda: resolve_factorizer(3), "factorizer=3"),
        (lambda: resolve_factorizer("random_features", rank=3), "has no rank; it has n"),
        (lambda: resolve_factorizer("spectral", rtol=0.1), "has no rtol; it has rank"),
        (lambda: resolve_factorizer(Nystrom(), rank=3), "set them there"),
    ],
)
def test_refusals_are_sentences(make, words):
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_random_features_refuse_other_kernels_and_samples(rng):
    X = cloud(6, 3, rng)
    with pytest.raises(InputError, match="Gaussian kernel, but kernel is 'polynomial'"):
        RandomFeatures().factor(Polynomial(), 0.1, Landmarks(X.T.copy(), np.ones(6), None))
    with pytest.raises(InputError, match="these 6 landmarks are samples"):
        RandomFeatures().factor(Gaussian(), 0.1, everyone(X))


def test_a_check_of_other_samples_is_refused(rng):
    X = cloud(8, 3, rng)
    factor = Nystrom().factor(Gaussian(), 0.1, everyone(X))
    with pytest.raises(InputError, match="The factor has 8 samples, but the check has 5"):
        measured_error(Gaussian(), 0.1, everyone(X[:5]), factor)


def test_names_stand_for_factorizers():
    assert resolve_factorizer("nystrom", rank=3, rtol=1e-8) == Nystrom(rank=3, rtol=1e-8)
    assert resolve_factorizer("nystrom", sampling="leverage") == Nystrom(sampling="leverage")
    assert resolve_factorizer("cholesky") == Cholesky()
    assert resolve_factorizer("spectral") == Spectral(5)
    assert resolve_factorizer("random_features") == RandomFeatures()
    assert resolve_factorizer(Cholesky(rank=2)) == Cholesky(rank=2)
    assert all(cls.name == name for name, cls in FACTORIZERS.items())
