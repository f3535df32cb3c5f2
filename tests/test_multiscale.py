"""The test of features at several widths, against its definition and against what it promises."""

import dask.array as da
import naive_multiscale as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import dhsic
from dhsic.criteria import rank_law
from dhsic.criteria.class_tables import set_skewed
from dhsic.criteria.features import Features
from dhsic.criteria.independence import Independence, inflation_of
from dhsic.criteria.label_functions import LabelDirections
from dhsic.criteria.multiscale import DISTANCE_WIDTH, SHARES, WIDTHS, Multiscale
from dhsic.criteria.patterns import PatternSums
from dhsic.criteria.rank_law import combined
from dhsic.criteria.rank_scores import sorted_levels
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.covariates import covariate_basis
from dhsic.linalg.directions import Directions
from dhsic.linalg.rank_basis import distance_weights, rank_basis, rank_functions, width_weights

SHAPED = {
    "line": lambda x: x,
    "parabola": np.square,
    "absolute": np.abs,
    "waves": lambda x: np.sin(4 * x),
    "bump": lambda x: np.exp(-8 * x * x),
    "ripple": lambda x: np.cos(6 * x),
    "two-sided": lambda x: np.abs(x) > 1.2,
    "step": lambda x: x > 1,
}


def effect(rng, x, shape, r2):
    f = SHAPED[shape](x).astype(float)
    f = (f - f.mean()) / f.std()
    return np.sqrt(r2) * f + np.sqrt(1 - r2) * rng.standard_normal(len(x))


def scored(y, X, missing=None, covariates=None, **options):
    """Columns of the criterion of features X (m, n) in memory."""
    criterion = Independence(**options)
    state = criterion.prepare(criterion.read(y, covariates), covariates)
    directions = Directions.of([criterion.directions(state)])
    Z = np.ascontiguousarray((X - X.mean(axis=0)).T)
    mask = None
    if missing is not None:
        mask = np.ascontiguousarray(missing.T)
        Z[mask] = 0.0
    features = Features(Z, np.zeros(len(Z), dtype=np.uint8), directions, missing=mask)
    return state, criterion.columns(state, features, directions.places[0])


# Functions of ranks -----------------------------------------------------------------------------


@pytest.mark.parametrize("m", [5, 12, 61])
def test_functions_of_ranks_are_those_of_the_definition(rng, m):
    tied = rng.integers(0, 4, m).astype(float)

    assert_allclose(rank_basis(m), naive.basis(m, 24), atol=1e-10)
    assert_allclose(rank_functions(tied), naive.functions_of_ranks(tied, 24), atol=1e-10)
    B = rank_basis(m)
    assert_allclose(B @ B.T / m, np.eye(len(B)), atol=1e-12)


def assert_cosines_are_eigenfunctions(points, h, weights):
    """Of a Gaussian kernel on points of [0, 1] that is reflected at 0 and 1."""
    m = len(points)
    u = (np.arange(m) + 0.5) / m
    images = np.concatenate([2 * k + s * points for k in range(-4, 5) for s in (1, -1)])
    K = np.exp(-((points[::40, None] - images) ** 2) / (2 * h * h)) / (np.sqrt(2 * np.pi) * h)
    K = K.reshape(len(points[::40]), -1, m).sum(axis=1)

    for r in range(1, 13):
        phi = np.cos(np.pi * r * u)
        eigenvalue = weights[r - 1] * np.exp(-((np.pi * h) ** 2) / 2)
        assert_allclose(K @ phi / m, eigenvalue * phi[::40], atol=2e-6)


@pytest.mark.parametrize("h", [1 / 2, 1 / 8, 1 / 32])
def test_a_width_is_a_weighting_of_the_same_functions(h):
    u = (np.arange(2000) + 0.5) / 2000
    assert_cosines_are_eigenfunctions(u, h, width_weights(h, 12))


def test_a_kernel_on_distances_from_the_middle_is_a_weighting_of_the_same_functions():
    u = (np.arange(2000) + 0.5) / 2000
    assert_cosines_are_eigenfunctions(np.abs(2 * u - 1), 1 / 16, distance_weights(1 / 16, 12))


def test_samples_are_sorted_with_their_ties_and_without_missing_ones():
    X = np.array([[0.3, -2.0, 0.1 * 3, 0.0, -0.0, 7.0], [1.0, -1.0, 5.0, -3.0, 2.0, 0.5]])
    missing = np.zeros(X.shape, dtype=bool)
    missing[1, 2] = True

    order, starts, n = sorted_levels(X, missing)

    assert_array_equal(order[0], [1, 3, 4, 0, 2, 5])
    assert_array_equal(starts[0], [True, True, False, True, False, True])
    assert_array_equal(order[1], [3, 1, 5, 0, 4, 2])
    assert_array_equal(n, [6, 5])


# Laws -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [[1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 1, 2, 3], [0, 1, 1, 2, 2, 2, 9]])
@pytest.mark.parametrize("target", ["real", "classes"])
def test_moments_are_those_of_all_permutations(rng, x, target):
    y = rng.standard_normal(7) if target == "real" else np.array([0, 0, 0, 0, 0, 1, 1])
    labels = LabelDirections.of(label_matrix(y).centred, covariate_basis(None, 7), by_ranks=True)
    state = Multiscale.of(labels, covariate_basis(None, 7))
    functions = naive.functions_of_ranks(x, 24)
    _, first, counts = np.unique(x, return_index=True, return_counts=True)
    weights = [width_weights(h, len(functions)) for h in WIDTHS]
    weights = np.array([*weights, distance_weights(DISTANCE_WIDTH, len(functions))])
    kernels = [naive.kernel(functions, h) for h in naive.WIDTHS]
    kernels.append(naive.kernel(functions, naive.DISTANCE_WIDTH, naive.distance_weight))
    at_levels = np.array(functions)[None, :, first]

    found = state.moments(PatternSums.of(at_levels, counts[None].astype(float), weights))

    for w in (0, 2, 5, 6):
        for k, C in enumerate(labels.matrices):
            expected = naive.moments(kernels[w], C.to_dense().tolist())
            own = [each[w, k, 0] for each in (found.mean, found.spread, found.skewness)]
            assert_allclose(own, expected, rtol=1e-6, atol=1e-9)


def test_p_values_are_combined_as_defined(rng):
    p = rng.random((len(SHARES), 50)) ** 3
    p[:, 0] = 1e-3

    found = np.exp(combined(np.log(p), SHARES))

    expected = [naive.combined(column, SHARES) for column in p.T]
    assert_allclose(found, expected, rtol=1e-9)
    assert found[0] == pytest.approx(1e-3)
    tiny = combined(np.full((2, 1), -2000.0) - [[0.0], [3.0]], np.array([0.5, 0.5]))
    assert_allclose(tiny, -2000 - np.log(0.5 * (1 + np.exp(3))), rtol=1e-12)


@pytest.mark.parametrize("target", ["real", "three classes", "coordinates"])
def test_p_values_have_the_same_bits_whatever_the_chunks(rng, target):
    m = 60
    X = rng.standard_normal((m, 41))
    X[:, 20:30] = rng.poisson(2, (m, 10))
    y = {
        "real": rng.standard_normal(m),
        "three classes": np.arange(m) % 3,
        "coordinates": rng.random((m, 2)),
    }[target]
    expected = dhsic.test_features(X, y).p_values
    for width in (1, 5, 13, 31):
        chunked = da.from_array(X, chunks=(m, width))
        assert_array_equal(dhsic.test_features(chunked, y).p_values, expected)


@pytest.mark.parametrize(
    "target", ["real", "two classes", pytest.param("rare class", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", ["no ties", "counts", "half zeros"])
def test_p_values_are_those_of_permutations(rng, target, kind):
    """In the bulk and in the tail, for features of several effects, at 60 samples."""
    m, n, n_copies = 60, 6, 800
    X = rng.standard_normal((m, n))
    X = {"no ties": X, "counts": rng.poisson(2, X.shape), "half zeros": np.maximum(X, 0)}[kind]
    y = rng.standard_normal(m) + np.linspace(0, 0.8, n)[-1] * X[:, -1] + 0.5 * X[:, -2] ** 2
    y = {"real": y, "two classes": y > np.median(y), "rare class": y > np.quantile(y, 0.9)}[target]
    _, found = scored(y, X.astype(float))
    copies = np.column_stack([X[rng.permutation(m)] for _ in range(n_copies)]).astype(float)
    _, drawn = scored(y, copies)
    scores = drawn[0].reshape(n_copies, n)

    part = (scores >= found[0]).mean(axis=0)
    p = 10.0 ** -found[0]
    for a, b in zip(part, p, strict=True):
        assert abs(a - b) <= 0.12 * b + 4 * np.sqrt(max(b, 1e-3) / n_copies)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("real", "no ties"),
        ("two", "counts"),
        ("places", "no ties"),
        ("confounded", "confounded"),
        ("two", "lost"),
        pytest.param("rare", "no ties", marks=pytest.mark.slow),
        pytest.param("real", "many zeros", marks=pytest.mark.slow),
    ],
)
def test_p_values_of_noise_are_uniform(target, kind):
    rng = np.random.default_rng(5)
    m, n, found = 200, 800, []
    for _ in range(12):
        C = rng.standard_normal((m, 3)) if target == "confounded" else None
        y = {
            "real": lambda: rng.standard_normal(m),
            "rare": lambda: rng.permutation(m) < m // 20,
            "two": lambda: rng.permutation(m) % 2,
            "places": lambda: rng.random((m, 2)),
            "confounded": lambda: C[:, 0] + rng.standard_normal(m),  # noqa: B023  # called here
        }[target]()
        X = rng.standard_normal((m, n))
        missing = None
        if kind == "counts":
            X = rng.poisson(1.0, (m, n)).astype(float)
        elif kind == "many zeros":
            X = np.where(rng.random((m, n)) < 0.9, 0, np.exp(X))
        elif kind == "confounded":
            X += C[:, [0]]
        elif kind == "lost":  # more of one class than of the other
            missing = rng.random((m, n)) < np.where(y == 1, 0.2, 0.02)[:, None]
        found.append(10.0 ** -scored(y, X, missing, C)[1][0])
    p = np.concatenate(found)

    for level in (0.5, 0.1, 0.01):
        error = 4 * np.sqrt(level * (1 - level) / p.size)
        shared = 0.06 if kind == "confounded" else 0.03  # features share the labels and covariates
        assert np.mean(p <= level) == pytest.approx(level, abs=error + shared * level + 2 / p.size)


# What is seen -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect_of", "shape"),
    [((0, 1, 2), "linear"), ((0, 0, 3), "monotone"), ((0, -0.1, 3), "monotone"),
     ((0, 2, 2.2), "monotone"), ((0, 2, 0), "turning")],
)  # fmt: skip
def test_shapes_of_genotypes(rng, effect_of, shape):
    dosages = rng.binomial(2, 0.45, (1000, 5)).astype(np.int8)
    y = np.array(effect_of)[dosages[:, 2]] + rng.standard_normal(1000)
    assert dhsic.test_features(dosages, y).shapes[2] == shape


@pytest.mark.parametrize("shape", SHAPED)
@pytest.mark.parametrize("classes", [False, True])
def test_every_shape_is_first_of_many(rng, shape, classes):
    X = rng.standard_normal((500, 200))
    y = effect(rng, X[:, 17], shape, 0.3)
    found = dhsic.test_features(X, y > np.median(y) if classes else y)

    assert found.p_values.argmin() == 17
    assert found.adjusted[17] < 1e-3
    if shape == "step":  # noise may bend what a step leaves flat
        assert found.shapes[17] != "linear"
    else:
        assert found.shapes[17] == ("linear" if shape == "line" else "turning")


def test_an_effect_on_the_spread_alone_is_seen(rng):
    X = rng.standard_normal((500, 100))
    y = np.exp(0.8 * X[:, 4]) * rng.standard_normal(500)

    found = dhsic.test_features(X, y)

    assert found.p_values.argmin() == 4
    assert found.p_values[4] < 1e-8


def test_nothing_is_lost_on_lines(rng):
    """p-values of lines are at most about twice those of Pearson's correlation."""
    more = []
    for _ in range(20):
        x = rng.standard_normal(400)
        y = effect(rng, x, "line", 0.05)
        p = dhsic.test_features(x[:, None], y).p_values[0]
        more.append(np.log10(p) - np.log10(stats.pearsonr(x, y).pvalue))
    assert np.median(more) < 0.5


def test_only_the_order_of_values_counts(rng):
    x = rng.standard_normal((150, 3))
    y = x[:, 0] ** 2 + rng.standard_normal(150)

    raw, transformed = (dhsic.test_features(X, y).p_values for X in (x, np.exp(2 * x)))

    assert_allclose(raw, transformed, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Missing values depend on the labels")
def test_missing_values_are_left_out_of_their_feature(rng):
    """As if the feature had been tested on the samples that have it, and none carries a class."""
    m = 400
    X = rng.standard_normal((m, 3))
    y = X[:, 0] ** 2 + rng.standard_normal(m) > 1
    present = rng.random(m) < np.where(y, 0.7, 0.95)
    lost = X.copy()
    lost[~present, 0] = np.nan
    lost[~present, 1] = np.nan

    found = dhsic.test_features(lost, y)
    alone = dhsic.test_features(X[present], y[present])

    assert_allclose(np.log(found.p_values[:2]), np.log(alone.p_values[:2]), rtol=0.05, atol=0.1)
    assert found.p_values[0] < 1e-8


@pytest.mark.filterwarnings("ignore:Missing values depend on the labels")
def test_missing_calls_tell_nothing_of_the_labels(rng):
    m, n = 1000, 4000
    y = rng.permutation(m) % 2
    X = rng.binomial(2, 0.2, (m, n)).astype(np.int8)
    X[rng.random((m, n)) < np.where(y == 1, 0.10, 0.02)[:, None]] = -1

    with pytest.warns(UserWarning, match="treated as missing"):
        p = dhsic.test_features(X, y).p_values

    assert np.mean(p <= 0.01) == pytest.approx(0.01, abs=0.006)
    assert stats.chi2.isf(np.median(p), 1) / stats.chi2.isf(0.5, 1) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_genotypes_that_act_by_dominance_are_seen(rng, dtype):
    X = rng.binomial(2, 0.5, (600, 50)).astype(dtype)
    y = 0.7 * (X[:, 9] == 1) + rng.standard_normal(600)

    found = dhsic.test_features(X, y)

    assert found.p_values.argmin() == 9
    assert found.shapes[9] == "turning"
    assert found.widths[9] < 1


def test_genotypes_are_tested_alike_however_they_are_stored(rng):
    X = rng.binomial(2, 0.3, (300, 40))
    y = X[:, 2] + 2 * rng.standard_normal(300)

    found, other = (dhsic.test_features(X.astype(t), y) for t in (np.int8, np.float64))

    assert_allclose(np.log(found.p_values), np.log(other.p_values), rtol=1e-3, atol=1e-4)
    assert_array_equal(found.widths, other.widths)


def test_one_width_by_name_is_as_before(rng):
    X = rng.standard_normal((60, 4))
    y = X[:, 1] + rng.standard_normal(60)

    found = dhsic.test_features(X, y, bandwidth="median")
    alone = dhsic.hsic_test(((X - X.mean(0)) / X.std(0))[:, 1], y, method="gamma")

    assert found.statistics[1] == pytest.approx(alone.statistic, rel=1e-6)
    assert found.widths is None
    assert np.isfinite(found.sigmas).all()


def test_several_targets_are_tested_together_and_classes_count(rng):
    """A class column beside noise is not drowned by it."""
    X = rng.standard_normal((300, 30))
    status = X[:, 5] + rng.standard_normal(300) > 0
    Y = np.column_stack([rng.standard_normal(300), status]).astype(object)

    found = dhsic.test_features(X, Y)

    assert found.p_values.argmin() == 5
    assert found.p_values[5] < 1e-10


@pytest.mark.slow
def test_tails_are_right_where_a_class_has_a_handful_of_samples():
    rng = np.random.default_rng(2)
    y = rng.permutation(100) < 4
    p = np.concatenate(
        [10.0 ** -scored(y, rng.standard_normal((100, 20_000)))[1][0] for _ in "abcde"]
    )

    assert np.mean(p <= 0.01) == pytest.approx(0.01, rel=0.12)
    assert np.mean(p <= 1e-3) == pytest.approx(1e-3, rel=0.35)
    assert np.mean(p <= 1e-4) <= 3e-4


@pytest.mark.filterwarnings("ignore:Missing values depend on the labels")
def test_p_values_of_rare_alleles_and_rare_cases_are_uniform():
    """The sum over the few cases is skewed; lambda was 1.13 by the moments of its square."""
    rng = np.random.default_rng(4)
    y = (rng.permutation(2000) < 95).astype(int)
    X = rng.binomial(2, 0.05, (2000, 10_000)).astype(np.int8)
    X[rng.random(X.shape) < np.where(y == 1, 0.1, 0.02)[:, None]] = -1

    p = dhsic.test_features(X, y, missing_code=-1).p_values

    assert inflation_of(p) == pytest.approx(1, abs=0.06)
    assert np.mean(p <= 0.5) / 0.5 == pytest.approx(1, abs=0.025)
    assert np.mean(p <= 0.1) / 0.1 == pytest.approx(1, abs=0.07)


def test_both_tails_of_a_skewed_sum_are_those_of_permutations(rng):
    counts = np.array([[180.0, 18.0, 2.0]])
    g = np.repeat([0.0, 1, 2], counts[0].astype(int))
    f = np.unique(g - g.mean())[None]
    b = np.where(np.arange(200) < 12, 1.0, 0.0) - 12 / 200
    drawn = np.abs([rng.permutation(b) @ g for _ in range(20_000)])
    for size in (0.9, 1.5, 2.5):
        log_p = np.zeros(1)
        set_skewed(log_p, f, counts, np.array([size]), np.zeros(1), (-0.06, 0.94))
        apart = (np.mean(drawn >= size - 0.5) + np.mean(drawn >= size + 0.5)) / 2
        assert np.exp(log_p[0]) == pytest.approx(apart, rel=0.35)


@pytest.mark.parametrize(
    "table", [((1501, 420, 19), (28, 26, 6)), ((1098, 726, 116), (13, 32, 15))]
)
def test_a_rare_class_has_the_exact_p_value_of_the_trend(table):
    """Dominance is not tested where hardly any case is expected to have the rarest genotype."""
    x = np.concatenate([np.repeat([0, 1, 2], of_class) for of_class in table])
    y = np.repeat([0, 1], [sum(of_class) for of_class in table])
    p = dhsic.test_features(x[:, None].astype(np.int8), y).p_values
    assert p[0] == pytest.approx(naive.exact_trend(table), rel=1e-6)


def test_coordinates_are_calibrated_as_by_many_more_draws(rng, monkeypatch):
    """Coordinates have 27 directions, of which few draws fit into an array."""
    places = rng.random((300, 2))

    def ratios():
        rank_law._ratios_of_orthonormal.cache_clear()
        criterion = Independence()
        return criterion.prepare(criterion.read(places, None), None).ranks.calibration.ratios

    few = ratios()
    monkeypatch.setattr(rank_law, "DRAWS", 4 * rank_law.DRAWS)
    many = ratios()
    rank_law._ratios_of_orthonormal.cache_clear()

    common = rank_law.GRID >= 0.1
    assert_allclose(few[common], many[common], atol=0.03)
    assert not np.array_equal(few, many)
