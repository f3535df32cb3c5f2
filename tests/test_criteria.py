"""Criteria on single features: textbook formulas, independent libraries, HSIC, every way to run."""

import dataclasses

import naive
import naive_criteria as plain
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from strategies import matrices
from thorough import examples

import dhsic
from dhsic import OnePass
from dhsic.criteria import CRITERIA, moderated
from dhsic.criteria import sums as nodes
from dhsic.criteria.base import worst_first
from dhsic.criteria.features import Features, median_square
from dhsic.criteria.kernels import QMI
from dhsic.criteria.sums import kernel_sums
from dhsic.errors import InputError
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.directions import Directions
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection.conductor import execute
from dhsic.selection.run import SelectionRun
from dhsic.sources.opening import open_source

TWO_CLASS = ("centroid", "t", "snr", "moderated-t", "b", "mmd")


def run(X, y, criterion, runtime=None, *, rows=None, checkpoint=None, missing_code=None, **options):
    source = open_source(X, n_samples=len(y) if rows is None else None, missing_code=missing_code)
    parameters = OnePass(criterion=criterion, checkpoint=checkpoint, **options)
    runtime = Threads(1) if runtime is None else runtime
    return execute(SelectionRun(parameters, source, np.asarray(y), runtime, rows=rows))


def scores_of(outcome):
    """Scores and statistics by feature."""
    order = outcome.order
    scores = np.full(outcome.source.n_features, np.nan)
    scores[order.features] = order.scores
    return scores, order.extra.get("statistic", (None, ""))[0]


@st.composite
def problems(draw, classes=2, samples=(8, 16)):
    """(X, its columns filled in, y); every class has two samples or more."""
    X = draw(matrices(samples=samples, features=(1, 7), missing=True))
    y = np.arange(len(X)) % classes
    np.random.default_rng(draw(st.integers(0, 2**32 - 1))).shuffle(y)
    return X, plain.filled(X.tolist()), y.tolist()


def standardised(columns):
    return [((np.array(x) - np.mean(x)) / np.std(x)).tolist() for x in columns]


def with_gaps(X, columns):
    """Standardised columns of filled-in values, with NaN where X lacks a value."""
    return [
        np.where(np.isnan(x), np.nan, z).tolist()
        for x, z in zip(X.T, standardised(columns), strict=True)
    ]


def classes_present(X, y):
    """Features of which every class has a value."""
    classes = np.unique(y)
    return [j for j, x in enumerate(X.T) if np.isin(classes, np.array(y)[~np.isnan(x)]).all()]


def centred(columns):
    """Zero mean, plain."""
    return [(np.array(x) - np.mean(x)).tolist() for x in columns]


def separates(x, y):
    """Whether some class has no spread, for then rounding decides."""
    return any(np.ptp(values) < 1e-9 for values in plain.split(x, y))


# -- formulas ------------------------------------------------------------------------------------


@given(problems(), st.sampled_from([0.5, 0.2]), st.booleans())
def test_centroid(problem, weight, standardize):
    X, columns, y = problem
    Z = standardised(columns) if standardize else centred(columns)
    expected = np.array([plain.centroid(x, y, weight) for x in Z])

    score, v = scores_of(run(X, y, "centroid", centroid_weight=weight, standardize=standardize))

    assert_allclose(v, expected, rtol=1e-9, atol=1e-10)
    assert_array_equal(score, np.abs(v))


@given(problems())
def test_t_and_signal_to_noise(problem):
    X, columns, y = problem
    _, t = scores_of(run(X, y, "t"))
    score, snr = scores_of(run(X, y, "snr", standardize=False))

    for j, x in enumerate(columns):
        if separates(x, y):
            continue
        negative, positive = plain.split(x, y)
        welch = stats.ttest_ind(positive, negative, equal_var=False).statistic
        assert_allclose(t[j], welch, rtol=1e-8, atol=1e-9)
        assert_allclose(t[j], plain.welch(x, y), rtol=1e-8, atol=1e-9)
        assert_allclose(snr[j], plain.signal_to_noise(x, y), rtol=1e-8, atol=1e-9)
    assert_array_equal(score, np.abs(snr))


@given(problems(classes=3, samples=(9, 16)), st.booleans())
def test_shrunken_centroid(problem, standardize):
    X, columns, y = problem
    Z = standardised(columns) if standardize else centred(columns)

    score, statistic = scores_of(run(X, y, "shrunken-centroid", standardize=standardize))

    expected = [plain.shrunken_centroid(x, y) for x in Z]
    assert_allclose(score, expected, rtol=1e-9, atol=1e-10)
    assert statistic is None


@given(problems(), st.booleans())
def test_pearson(problem, named):
    X, columns, y = problem
    labels = np.array(["case" if v else "a control" for v in y]) if named else np.sin(y) + 1e3
    sign = [-1 if v == "a control" else 1 for v in labels] if named else labels

    score, R = scores_of(run(X, labels, "pearson"))

    assert_allclose(R, [stats.pearsonr(x, sign).statistic for x in columns], rtol=1e-8, atol=1e-9)
    assert_array_equal(score, R**2)


@given(problems(), st.sampled_from([0.0, 1.0, 30.0]), st.booleans())
def test_ridge(problem, penalty, standardize):
    X, columns, y = problem
    target = np.cos(np.arange(len(y))) + y
    Z = standardised(columns) if standardize else centred(columns)

    score, w = scores_of(run(X, target, "ridge", penalty=penalty, standardize=standardize))

    expected = np.array([plain.ridge(x, target, penalty) for x in Z])
    assert_allclose(score, expected[:, 0], rtol=1e-8, atol=1e-10)
    assert_allclose(w, expected[:, 1], rtol=1e-8, atol=1e-10)


@given(problems(samples=(8, 12)), st.sampled_from(["dimension", "median", 3.0]))
def test_mmd_and_alignment(problem, bandwidth):
    X, columns, y = problem
    mmd, _ = scores_of(run(X, y, "mmd", bandwidth=bandwidth))
    kta, _ = scores_of(run(X, y, "kta", bandwidth=bandwidth, label_kernel="binary"))

    Z = with_gaps(X, columns)
    for j in classes_present(X, y):
        x, labels = plain.present(Z[j], y)
        sigma = {"dimension": 0.5, "median": plain.median_sigma(x), 3.0: 3.0}[bandwidth]
        assert_allclose(mmd[j], plain.mmd(x, labels, sigma), rtol=1e-9, atol=1e-10)
        weights, L = plain.class_weights(Z[j], y), naive.label_gram(labels, "binary")
        K, L = (plain.weighted(matrix, weights) for matrix in (plain.gram(x, sigma), L))
        assert_allclose(kta[j], plain.alignment(K, L), rtol=1e-9, atol=1e-10)


@given(problems(classes=3, samples=(9, 12)), st.sampled_from(["auto", "linear", "one-vs-rest"]))
def test_alignment_with_any_labels(problem, label_kernel):
    X, columns, y = problem
    L = label_matrix(np.array(y), label_kernel).L

    kta, _ = scores_of(run(X, y, "kta", label_kernel=label_kernel))
    given_L, _ = scores_of(run(X, L, "kta", label_kernel="precomputed"))

    Z = with_gaps(X, columns)
    for j in classes_present(X, y):
        x, labels = plain.present(Z[j], y)
        K, among = plain.gram(x, 0.5), L[np.ix_(~np.isnan(Z[j]), ~np.isnan(Z[j]))].tolist()
        weights = plain.class_weights(Z[j], y)
        if label_kernel == "linear":  # all weights alike; labels have the mean of all samples
            weights = plain.equal_weights(Z[j], y)
            shifted = [v - plain.mean(labels) + plain.mean(y) for v in labels]
            among = naive.label_gram(shifted, "linear")
        K, among = (plain.weighted(matrix, weights) for matrix in (K, among))
        norm = np.linalg.norm(among) / np.linalg.norm(L)  # |L| is that of all samples
        assert_allclose(kta[j], plain.alignment(K, among) * norm, rtol=1e-9, atol=1e-10)
        assert_allclose(given_L[j], kta[j], rtol=1e-9, atol=1e-10)


@given(problems(classes=3, samples=(9, 12)), st.sampled_from(["dimension", 2.0]))
@examples(8)
def test_quadratic_mutual_information_is_the_integral(problem, bandwidth):
    X, columns, y = problem
    sigma = 0.5 if bandwidth == "dimension" else bandwidth
    target = np.sin(np.arange(len(y))) + np.array(y)
    z = (target - target.mean()) / target.std()

    of_classes, _ = scores_of(run(X, y, "qmi", bandwidth=bandwidth))
    of_numbers, _ = scores_of(run(X, 7 * target + 1, "qmi", bandwidth=bandwidth))

    width_of_z, Z = plain.median_sigma(z.tolist()), with_gaps(X, columns)
    for j in classes_present(X, y):
        x = Z[j]
        assert_allclose(of_classes[j], plain.qmi_of_classes(x, y, sigma), rtol=1e-8, atol=1e-12)
        expected = plain.qmi_of_numbers(x, z.tolist(), sigma, width_of_z)
        assert_allclose(of_numbers[j], expected, rtol=1e-7, atol=1e-9)


# -- the moderated t -----------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("m", "d"), [(6, 300), (20, 1000), (7, 2), (9, 1)])
def test_moderated_t_and_log_odds_are_those_of_limma(rng, spread, m, d):
    """From variances that are all alike (an infinite prior) to ones that differ widely."""
    y = np.arange(m) % 2
    X = rng.standard_normal((m, d)) * np.exp(spread * rng.standard_normal(d)) + 5
    if spread == 0:
        X[...] = X[:, :1] * (1 - 2 * rng.integers(0, 2, d))
    X[:, : d // 20] += 2.0 * y[:, None]
    columns, unscaled = X.T.tolist(), 1 / (y == 0).sum() + 1 / (y == 1).sum()
    t, lods, (scale, df0) = plain.e_bayes(*plain.two_groups(columns, y.tolist()), unscaled)

    outcome = run(X, y, "moderated-t")
    B, same = scores_of(run(X, y, "b"))

    score, actual = scores_of(outcome)
    facts = outcome.order.history[0]
    assert_allclose(actual, t, rtol=1e-8)
    assert_array_equal(score, np.abs(actual))
    assert_array_equal(same, actual)
    assert_allclose(B, lods, rtol=1e-7, atol=1e-8)
    assert_allclose([facts["prior_variance"], facts["prior_degrees"]], [scale, df0], rtol=1e-7)
    if spread == 0 and d > 1:
        assert np.isinf(df0)


@given(problems())
def test_log_odds_rank_as_the_moderated_t(problem):
    X, columns, y = problem
    t = run(X, y, "moderated-t")
    B = run(X, y, "b", proportion=0.2)

    if not any(separates(x, y) for x in columns):
        assert_array_equal(t.order.features, B.order.features)
        assert_array_equal(scores_of(B)[1], scores_of(t)[1])


@given(st.floats(1e-12, 1e12))
def test_inverse_of_trigamma(y):
    x = moderated.inverse_trigamma(y)

    assert_allclose(plain.special.polygamma(1, x), y, rtol=1e-9)


def test_a_prior_of_variances_half_of_which_are_zero():
    s2 = np.array([0.0, 0.0, 0.0, 1.0])

    assert np.isfinite(moderated.fit_prior(s2, 4.0).moderated(s2, 4.0)).all()


# -- what the paper claims: each is HSIC_0 --------------------------------------------------------


@given(problems())
def test_sums_are_biased_hsic_with_the_linear_kernel(problem):
    X, columns, y = problem
    Z, m = np.array(standardised(columns)).T, len(y)
    target = np.sin(np.arange(m)) + y

    def trace(labels, kernel):
        return (m - 1) ** 2 * dhsic.hsic(
            Z, labels, kernel="linear", label_kernel=kernel, statistic="biased"
        )

    def total(criterion, labels, **options):
        return scores_of(run(X, labels, criterion, **options))[0]

    labels, close = np.array(y), {"rtol": 1e-8, "atol": 1e-12}
    assert_allclose(4 * (total("centroid", y) ** 2).sum(), trace(labels, "balanced"), **close)
    standard = (target - target.mean()) / target.std()
    assert_allclose(m**2 * total("pearson", target).sum(), trace(standard, "linear"), **close)
    sizes = np.bincount(y)
    psi = (labels[:, None] == labels) / np.outer(sizes[labels], sizes[labels])
    expected = trace(psi, "precomputed")
    assert_allclose(total("shrunken-centroid", y).sum(), expected, **close)


@given(problems(samples=(8, 12)))
def test_scores_are_biased_hsic_of_the_feature(problem):
    X, columns, y = problem
    X = np.array(columns).T  # without gaps
    Z, m, labels = standardised(columns), len(y), np.array(y)
    target = np.sin(np.arange(m)) + labels

    mmd, _ = scores_of(run(X, y, "mmd", bandwidth=0.7))
    qmi, _ = scores_of(run(X, target, "qmi", bandwidth=0.7))
    explained, _ = scores_of(run(X, target, "ridge", penalty=2.0))

    centred = target - target.mean()
    nu = plain.median_sigma((centred / centred.std()).tolist())
    N = naive.gram([[v] for v in centred / centred.std()], "gaussian", nu / 2)
    for j, z in enumerate(Z):
        K = naive.gram([[v] for v in z], "gaussian", 0.7)
        hsic = naive.biased(K, naive.label_gram(y, "balanced"))
        assert_allclose(mmd[j], (m - 1) ** 2 * hsic, rtol=1e-8, atol=1e-10)
        kappa = naive.gram([[v] for v in z], "gaussian", 0.35)
        height = np.sqrt(0.7 / (2 * np.pi) * nu / (2 * np.pi))
        expected = height * ((m - 1) / m) ** 2 * naive.biased(kappa, N)
        assert_allclose(qmi[j], expected, rtol=1e-7, atol=1e-10)
        ridge = np.outer(z, z) / (np.dot(z, z) + 2.0)
        hsic = naive.biased(ridge.tolist(), np.outer(centred, centred).tolist())
        assert_allclose(
            explained[j] * (centred @ centred), (m - 1) ** 2 * hsic, rtol=1e-8, atol=1e-10
        )


# -- the kernel on one feature --------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [1e-3, 0.5, 5.0, 300.0])
@pytest.mark.parametrize("m", [30, 700])
def test_nodes_and_levels_give_the_sums_of_the_definition(rng, sigma, m, monkeypatch):
    monkeypatch.setattr("dhsic.criteria.sums.ROWS", 300)
    monkeypatch.setattr("dhsic.criteria.features.ENTRIES", 4 * m)
    X = np.stack(
        [
            rng.standard_normal(m),
            rng.exponential(size=m) ** 2,
            rng.integers(0, 3, m),
            rng.integers(0, 2, m) * 3.5,
            np.linspace(-2, 2, m),
        ]
    )
    B, w = rng.standard_normal((m, 4)), np.array([1.0, 2.0, -0.5, 0.1])
    n_levels = np.array([0, 0, 3, 2, 0])

    directions = Directions.of([B, B])
    fast, place = Features(X, n_levels, directions), directions.places[1]
    inner, squares = kernel_sums(fast, np.full(5, sigma), place, w, squares=True)
    fewer, _ = kernel_sums(fast, np.full(5, sigma), place, w)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "STEEPEST", 0.0)  # no nodes: by the definition
        slow = Features(X, np.zeros(5, int), directions)
        defined = kernel_sums(slow, np.full(5, sigma), place, w, squares=True)

    assert_array_equal(fewer, inner)
    scale = np.abs(B).sum(axis=0) @ (np.abs(w) * np.abs(B).sum(axis=0))
    for j, x in enumerate(X):
        K = np.exp(-sigma * np.subtract.outer(x, x) ** 2)
        expected = float(np.vdot(K @ (B * w), B))
        assert abs(inner[j] - expected) < 1e-12 * scale
        assert_allclose(squares[j], (K * K).sum(), rtol=1e-10)
        assert_allclose(defined[0][j], expected, rtol=1e-10)
        assert_allclose(defined[1][j], (K * K).sum(), rtol=1e-10)


@given(matrices(samples=(4, 25), features=(1, 6)), st.sampled_from([0.0, 1e-3]))
def test_the_median_distance_is_that_of_all_pairs(X, slope):
    for x in X.T:
        if np.ptp(x) > 0:
            more = np.tile(x, 4) + slope * np.arange(4 * len(x))
            expected = plain.median_sigma(more.tolist())
            assert_allclose(0.5 / median_square(more), expected, rtol=1e-12)
    assert median_square(np.ones(5)) == 1.0


@given(st.floats(0.01, 300.0), st.floats(0.01, 10.0))
def test_the_error_of_interpolation_is_below_its_bound(steepness, radius):
    sigma = steepness / radius**2
    r = nodes.n_nodes(int(steepness) + 1)
    x = np.concatenate([np.linspace(-radius, radius, 101), [0.0, radius / 3]])

    points, P = nodes.chebyshev_nodes(radius, r), nodes.interpolation(x, radius, r)

    K = np.exp(-sigma * np.subtract.outer(x, x) ** 2)
    assert np.abs(P @ nodes.gaussian(points, sigma) @ P.T - K).max() < 5e-13


# -- every way to run -----------------------------------------------------------------------------


@pytest.fixture
def wide(rng):
    """70 samples, 300 features of every kind, gaps, a constant one; 3 classes, numbers."""
    m, d = 70, 300
    X = rng.standard_normal((m, d))
    X[:, 100:200] = rng.integers(0, 3, (m, 100))
    X[:, 250] = 4.0
    X[:, 251] = X[:, 3]
    y = rng.integers(0, 3, m)
    X[:, 7] += y
    X[rng.random((m, d)) < 0.03] = np.nan
    return X, y


def labels_for(criterion, y):
    return np.minimum(y, 1) if criterion in TWO_CLASS else y


@pytest.mark.parametrize("criterion", CRITERIA)
def test_threads_and_dask_give_the_same_bits(wide, client, tmp_path, criterion):
    X, y = wide
    labels = labels_for(criterion, y)
    array = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(70, 16), dtype=X.dtype)
    array[...] = X
    path = str(tmp_path / "x.zarr")

    expected = run(path, labels, criterion, Threads(1))
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        others = [run(path, labels, criterion, r) for r in (Threads(3), runtime)]

    for other in others:
        assert_array_equal(other.worst_first, expected.worst_first)
        assert_array_equal(other.order.scores, expected.order.scores)
        for name, (values, _) in expected.order.extra.items():
            assert_array_equal(other.order.extra[name][0], values)
    assert expected.worst_first[0] == 250  # constant
    told = {"hsic", "p", "q", "width", "shape"} if criterion == "hsic" else set()
    assert expected.order.extra.keys() == ({"statistic"} if CRITERIA[criterion].signed else told)
    assert expected.order.history[0]["bytes_read"] == X.nbytes


@pytest.mark.parametrize("criterion", ["t", "moderated-t", "mmd"])
def test_a_run_that_is_done_is_taken_from_its_checkpoint(wide, tmp_path, criterion, monkeypatch):
    X, y = wide
    labels = labels_for(criterion, y)
    whole = run(X, labels, criterion)
    killed = pytest.raises(KeyboardInterrupt)
    with monkeypatch.context() as patch, killed:
        patch.setattr("dhsic.storage.checkpoint.Checkpoint.save", interrupt)
        run(X, labels, criterion, checkpoint=tmp_path / "c")

    first = run(X, labels, criterion, checkpoint=tmp_path / "c")
    again = run(X, labels, criterion, checkpoint=tmp_path / "c")

    for other in (first, again):
        assert_array_equal(other.worst_first, whole.worst_first)
        assert_array_equal(other.order.scores, whole.order.scores)
        assert other.order.extra.keys() == whole.order.extra.keys()
        if "statistic" in whole.order.extra:
            assert_array_equal(other.order.extra["statistic"][0], whole.order.extra["statistic"][0])
    assert again.order.history == first.order.history
    with pytest.raises(dhsic.CheckpointError, match="other parameters"):
        run(X, labels, "snr", checkpoint=tmp_path / "c")


def interrupt(self, state):
    raise KeyboardInterrupt


def test_an_infinite_prior_survives_a_checkpoint(rng, tmp_path):
    X, y = np.outer(rng.standard_normal(6), [1.0, -1.0, 1.0]), np.arange(6) % 2

    first, again = (run(X, y, "moderated-t", checkpoint=tmp_path / "c") for _ in range(2))

    assert np.isinf(first.order.history[0]["prior_degrees"])
    assert again.order.history[0]["prior_degrees"] == np.inf


@pytest.mark.parametrize("labels", ["two classes", "numbers"])
@pytest.mark.parametrize("values", ["genotypes", "numbers"])
def test_more_missing_values_in_one_class_are_no_dependence(rng, values, labels):
    """10% against 2%; scores of labels that depend on nothing are those of permuted ones."""
    m, d = (1200, 600) if values == "genotypes" else (500, 600)
    X = rng.binomial(2, 0.3, (m, d)) * 1.0 if values == "genotypes" else rng.gamma(2.0, size=(m, d))
    y = np.arange(m) % 2 if labels == "two classes" else rng.standard_normal(m)
    X[rng.random((m, d)) < np.where(y > 0.5, 0.1, 0.02)[:, None]] = np.nan
    criteria = ("mmd", "kta", "qmi") if labels == "two classes" else ("kta", "qmi")

    for criterion in criteria:
        with pytest.warns(UserWarning, match="Missing values depend on the labels"):
            scores = scores_of(run(X, y, criterion))[0]
        permuted = scores_of(run(X, rng.permutation(y), criterion))[0]
        ratio = np.median(scores) / np.median(permuted)
        assert 0.7 < ratio < 1.4, criterion  # 3 to 5 where missing values are the mean
        assert np.mean(scores > np.quantile(permuted, 0.95)) < 0.09, criterion


def test_a_class_without_a_value_of_a_feature_gives_no_score(rng):
    X, y = rng.binomial(2, 0.4, (60, 3)) * 1.0, np.arange(60) % 2
    X[:, 2] = rng.standard_normal(60)
    X[y == 1, 0] = X[y == 1, 2] = np.nan

    for criterion in ("mmd", "kta", "qmi"):
        with pytest.warns(UserWarning, match="Missing values depend on the labels"):
            scores = scores_of(run(X, y, criterion))[0]
        assert_allclose(scores[[0, 2]], 0.0, atol=1e-15)
        assert scores[1] > 0


@pytest.mark.parametrize("criterion", CRITERIA)
def test_missing_codes_are_missing(rng, criterion):
    X = rng.integers(0, 3, (40, 30)).astype(np.int8)
    X[rng.random(X.shape) < 0.05] = -1
    y = np.arange(40) % 2

    coded = run(X, y, criterion, missing_code=-1)
    floats = run(np.where(X < 0, np.nan, X.astype(float)), y, criterion)

    assert_allclose(scores_of(coded)[0], scores_of(floats)[0], rtol=1e-10, atol=1e-14)
    assert coded.scaling.n_missing.sum() == (X < 0).sum()
    if (X < 0).any():
        parameters = OnePass(criterion=criterion, missing="error")
        source = open_source(X, n_samples=40, missing_code=-1)
        asked = SelectionRun(parameters, source, y, Threads(1))
        with pytest.raises(InputError, match="values are missing"):
            execute(asked)


def test_rows_are_those_that_take_part(wide):
    X, y = wide
    rows = np.arange(1, 70, 2)

    some = run(X, y[rows], "qmi", rows=rows)

    assert_allclose(scores_of(some)[0], scores_of(run(X[rows], y[rows], "qmi"))[0], rtol=1e-12)


@pytest.mark.parametrize("criterion", ["t", "snr"])
def test_a_feature_without_spread_within_classes_comes_first(rng, criterion):
    y = np.arange(30) % 2
    X = rng.standard_normal((30, 5))
    X[:, 2] = 0.1 * y + 0.7
    X[:, 4] = 0.3 - y

    score, statistic = scores_of(run(X, y, criterion))

    assert np.isinf(score[[2, 4]]).all()
    assert_array_equal(np.sign(statistic[[2, 4]]), [1, -1])
    assert run(X, y, criterion).worst_first[-2:].tolist() == [2, 4]


def test_ties_go_by_position_each_on_its_own_scale():
    scores = np.array([1.0, 1e9, 1.0 + 1e-12, 0.5, np.inf, 1.0 + 1e-9, np.inf, 0.0])

    assert worst_first(scores).tolist() == [7, 3, 0, 2, 5, 1, 4, 6]


def test_standardising_is_up_to_the_criterion(rng):
    X, y = rng.standard_normal((20, 50)) * np.geomspace(0.1, 10, 50), np.arange(20) % 2

    for criterion, kind in CRITERIA.items():
        auto = run(X, y, criterion)
        fixed = run(X, y, criterion, standardize=kind.standardize)
        assert_array_equal(auto.order.scores, fixed.order.scores)


# -- refusals -------------------------------------------------------------------------------------

NAMES = np.array(["a", "b", "c"] * 4)
TWO = np.arange(12) % 2


@pytest.mark.parametrize(
    ("criterion", "y", "options", "words"),
    [
        *((c, NAMES, {}, "two classes, but y has 3") for c in TWO_CLASS),
        *((c, np.zeros(12), {}, "nothing can depend") for c in TWO_CLASS),
        ("shrunken-centroid", np.zeros(12), {}, "nothing can depend"),
        ("shrunken-centroid", np.linspace(0, 1, 12), {}, "needs classes"),
        ("qmi", np.zeros(12), {}, "nothing can depend|constant"),
        ("pearson", NAMES, {}, "y has 3 classes"),
        ("pearson", np.zeros(12), {}, "constant"),
        ("ridge", np.r_[np.nan, TWO[1:]], {}, "missing or not finite"),
        ("t", np.r_[1, np.zeros(11)], {}, "2 samples of each class, but y has 11 and 1"),
        ("t", np.stack([TWO, TWO], axis=1), {}, "one target"),
        ("t", TWO, {"bandwidth": 2.0}, "'t' has no bandwidth"),
        ("mmd", TWO, {"bandwidth": [0.1, 1.0]}, "not comparable"),
        ("kta", TWO, {"label_kernel": "round"}, "label_kernel='round'"),
        ("qmi", TWO, {"label_kernel": "linear"}, "'qmi' has no label_kernel"),
        ("ridge", TWO, {"penalty": -1.0}, "penalty=-1.0"),
        ("centroid", TWO, {"centroid_weight": 1.0}, "centroid_weight=1.0"),
        ("b", TWO, {"proportion": 0.0}, "proportion=0.0"),
        ("f", TWO, {}, "criterion='f' is unknown"),
        ("t", TWO, {"standardize": "no"}, "standardize='no'"),
        ("t", TWO, {"missing": "drop"}, "missing='drop'"),
    ],
)
def test_a_sentence_says_what_does_not_fit(rng, criterion, y, options, words):
    with pytest.raises(InputError, match=words) as caught:
        run(rng.standard_normal((12, 3)), y, criterion, **options)
    assert str(caught.value).endswith(".")


def test_covariates_are_refused(rng):
    source = open_source(rng.standard_normal((12, 3)), n_samples=12)
    parameters = OnePass(criterion="t")
    once = SelectionRun(parameters, source, TWO, Threads(1), covariates=np.ones((12, 1)))

    with pytest.raises(InputError, match="does not support covariates"):
        execute(once)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_values_beyond_numbers_are_refused(rng, criterion):
    X = rng.standard_normal((12, 3))
    X[:, 1] *= 1e200

    with pytest.raises(InputError, match="floating-point"):
        run(X, TWO, criterion)


def test_parameters_say_what_they_are():
    parameters = OnePass(criterion="mmd", bandwidth="median")

    assert parameters.identity()["bandwidth"] == "Median()"
    assert parameters.described() == "mmd of each feature in one pass"
    assert OnePass(criterion="t").identity().keys() == {
        "method",
        "criterion",
        "standardize",
        "missing",
    }
    assert dataclasses.is_dataclass(QMI)
