"""Tests of features on samples with weights: definitions, equalities, levels, and refusals."""

import json

import naive_weights as naive
import numpy as np
import pandas as pd
import pytest
from commands import run, told
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from stores import write_matrix

import dhsic
from dhsic.criteria import CRITERIA
from dhsic.criteria.weighted import (
    WeightedIndependence,
    effective_size,
    score_of,
    signed_moments,
)
from dhsic.detached.folder import arrays_of, plain_request, request_of
from dhsic.errors import CheckpointError, InputError
from dhsic.runtime.dask import DaskRuntime
from dhsic.selection.execution import result_of
from dhsic.selection.request import Request

M, D = 120, 15
QUIET = {"progress": False, "runtime": "threads"}
LABELS = ("real", "two", "three", "integers")


def drawn(seed, kind="real", m=M, *, missing=False):
    """Features of several kinds, labels that depend on features 0 and 5, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, D))
    X[:, 5:10] = rng.integers(0, 3, (m, 5))
    X[:, 10] = rng.integers(0, 2, m)
    X[:, 11:13] = rng.poisson(2, (m, 2))
    score = X[:, 0] + 0.8 * X[:, 5] + rng.standard_normal(m)
    y = {
        "real": score,
        "two": score > 0.5,
        "three": np.digitize(score, (0.2, 1.2)),
        "integers": np.clip(np.round(2 * score), -6, 6) + 7,
    }[kind]
    if missing:
        X[rng.random(X.shape) < 0.05] = np.nan
    return X, y, np.exp(0.5 * rng.standard_normal(m)), rng.standard_normal((m, 2))


def state_of(y, weights, covariates=None):
    criterion = WeightedIndependence()
    return criterion.prepare(criterion.read(y), covariates, weights)


def scores(X, y, weights, covariates=None):
    """Test of every feature, from arrays of its results by name."""
    state = state_of(y, weights, covariates)
    each = [score_of(state, x) for x in np.ascontiguousarray(X.T)]
    return {name: np.array([getattr(s, name) for s in each]) for name in ("log_p", "hsic")}


def weighted_tests(X, y, weights, **options):
    options = {"runtime": "threads", **options}
    return dhsic.test_features(X, y, sample_weight=weights, **options)


def same(one, other):
    """Whether two results of `test_features` have the same bits."""
    for name in ("p_values", "statistics", "adjusted", "widths"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    assert_array_equal(one.shapes, other.shapes)


# Definitions ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["real", "two", "three"])
@pytest.mark.parametrize("with_covariates", [False, True])
def test_hsic_is_that_of_the_definition(kind, with_covariates):
    X, y, weights, C = drawn(1, kind, 60)
    C = C if with_covariates and kind == "real" else None
    found = scores(X, y, weights, C)["hsic"]

    values = y.tolist()
    about = None if C is None else C.tolist()
    expected = [
        naive.hsic(x.tolist(), values, weights.tolist(), about, classes=kind != "real") for x in X.T
    ]

    assert_allclose(found, expected, rtol=1e-9)


def test_moments_are_those_of_all_signs(rng):
    Z, d = rng.standard_normal((3, 9)) ** 3, np.array([1.0, 0.5, 0.2])
    assert_allclose(signed_moments(Z, Z @ Z.T, d), naive.signed_moments(Z.tolist(), d), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Missing values depend")
# Equalities -------------------------------------------------------------------------

@pytest.mark.parametrize("kind", LABELS)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_weight_of_zero_leaves_the_sample_out_to_the_bit(kind, seed):
    X, y, weights, C = drawn(seed, kind, missing=True)
    kept = np.random.default_rng(seed + 1).random(M) > 0.15
    without = weighted_tests(X[kept], y[kept], weights[kept], covariates=C[kept])

    same(weighted_tests(X, y, np.where(kept, weights, 0.0), covariates=C), without)
    model = dhsic.OnePass(3, criterion="hsic", **QUIET)
    rest = model.fit(X[kept], y[kept], sample_weight=weights[kept], covariates=C[kept]).scores_
    found = model.fit(X, y, sample_weight=np.where(kept, weights, 0.0), covariates=C).scores_
    assert_array_equal(found, rest)


@pytest.mark.parametrize("method", ["bahsic", "fohsic", "linear", "pearson", "ridge", "hsic"])
def test_weights_of_zero_and_one_are_a_filter_for_every_method(method):
    X, y, weights, _ = drawn(2)
    kept = weights > 0.7
    options = {"method": method, "n_features_to_select": 3, **QUIET}
    some = dhsic.select(X[kept], y[kept], **options)
    found = dhsic.select(X, y, sample_weight=kept, **options)
    assert_array_equal(found["rank"], some["rank"])
    assert_array_equal(found["score"], some["score"])
    assert json.loads(found.attrs["left_out"]) == {"sample_weight": int((~kept).sum())}
    all_alike = dhsic.select(X, y, sample_weight=np.full(M, 0.3), **options)
    assert_array_equal(all_alike["score"], dhsic.select(X, y, **options)["score"])


def test_filters_of_values_do_not_count_samples_of_weight_zero():
    X, y, weights, _ = drawn(3)
    X, rare = X[:, 5:10], np.arange(M) < 30
    X[~rare, 0] = 0
    filters = dhsic.Filters(maf=0.05)
    found = weighted_tests(X, y, np.where(rare, 0.0, weights), filters=filters)
    same(found, weighted_tests(X[~rare], y[~rare], weights[~rare], filters=filters))
    assert found.features.tolist() == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:Missing values depend")
@pytest.mark.parametrize("kind", ["real", "two", "three"])
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_whole_weights_repeat_samples(kind, seed):
    """Scores of samples with weights, and of copies that share the weight, equally or not."""
    X, y, _, C = drawn(seed, kind)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, M)
    rows = np.repeat(np.arange(M), weights)
    expected = scores(X, y, weights.astype(float), C)["hsic"]

    copies = scores(X[rows], y[rows], np.ones(rows.size), C[rows])["hsic"]

    assert_allclose(copies, expected, rtol=1e-9)
    assert_array_equal(np.argsort(copies), np.argsort(expected))
    parts = rng.random(rows.size)
    parts *= (weights / np.bincount(rows, parts))[rows]
    shared = weighted_tests(X[rows], y[rows], parts, covariates=C[rows]).statistics
    assert_allclose(shared, expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Missing values depend")
@pytest.mark.parametrize("kind", LABELS)
def test_a_multiple_of_the_weights_changes_nothing(kind):
    X, y, weights, _ = drawn(4, kind)
    found = weighted_tests(X, y, weights)
    same(weighted_tests(X, y, 2.0**20 * weights), found)
    other = weighted_tests(X, y, 7.3e-5 * weights)
    assert_allclose(other.p_values, found.p_values, rtol=1e-9)
    assert_allclose(other.statistics, found.statistics, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Missing values depend")
def test_the_order_of_samples_does_not_matter(rng):
    X, y, weights, _ = drawn(5, missing=True)
    found, order = weighted_tests(X, y, weights), rng.permutation(M)
    other = weighted_tests(X[order], y[order], weights[order])
    assert_allclose(other.p_values, found.p_values, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Missing values depend")
def test_chunks_threads_and_resumed_runs_have_the_same_bits(tmp_path):
    X, y, weights, C = drawn(6, missing=True)
    whole = weighted_tests(X, y, weights, covariates=C)
    for number, width in enumerate((1, 4, 7)):
        store = write_matrix(tmp_path / f"{number}.zarr", X, chunks=(M, width))
        same(weighted_tests(store, y, weights, covariates=C), whole)
    options = {"criterion": "hsic", "checkpoint": str(tmp_path / "run"), **QUIET}
    first = dhsic.OnePass(3, **options).fit(X, y, sample_weight=weights)
    again = dhsic.OnePass(3, **options).fit(X, y, sample_weight=weights)
    assert_array_equal(again.scores_, first.scores_)
    with pytest.raises(CheckpointError, match="labels differ"):
        dhsic.OnePass(3, **options).fit(X, y, sample_weight=weights[::-1])


@pytest.mark.filterwarnings("ignore:Missing values depend")
def test_workers_have_the_same_bits(client, tmp_path):
    X, y, weights, _ = drawn(7, missing=True)
    store = write_matrix(tmp_path / "x.zarr", X, chunks=(M, 4))
    same(
        weighted_tests(store, y, weights, runtime=DaskRuntime(client)),
        weighted_tests(X, y, weights),
    )


def test_detached_runs_keep_weights(tmp_path):
    X, y, weights, _ = drawn(17)
    write_matrix(tmp_path / "x.zarr", X, chunks=(M, 4))
    model = dhsic.OnePass(3, criterion="hsic", **QUIET)
    where = {"sample_dim": None, "variable": None, "missing_code": "auto", "pass_only": False}
    kept = np.where(y > 2, 0, weights)
    request = Request.of(model, str(tmp_path / "x.zarr"), y, sample_weight=kept, **where)
    again = request_of(plain_request(request), arrays_of(request))
    assert_array_equal(again.sample_weight, weights[y <= 2])
    assert_array_equal(result_of(again)["p"], result_of(request)["p"])


# Levels -----------------------------------------------------------------------------


def of_sample(rng, m, kind, feature):
    """A sample of a population in which features and labels are independent, and its weights.

    Samples are drawn with a probability that depends on labels and features.
    """
    n = 8 * m
    X = rng.standard_normal((n, 10)) if feature == "normal" else rng.binomial(2, 0.3, (n, 10))
    y = rng.standard_normal(n) if kind == "real" else (rng.random(n) < 0.4).astype(float)
    X = X.astype(float)
    inner = (y - y.mean()) / y.std() + (X - X.mean(axis=0))[:, :2] @ [1.0, 1.0]
    chance = 0.05 + 0.9 / (1 + np.exp(-inner))
    rows = np.flatnonzero(rng.random(n) < chance)[:m]
    return X[rows], y[rows], 1 / chance[rows]


@pytest.mark.parametrize(("kind", "feature"), [("real", "normal"), ("two", "genotype")])
def test_weights_restore_the_level_that_sampling_destroys(rng, kind, feature):
    p, unweighted = [], []
    for _ in range(40):
        X, y, weights = of_sample(rng, 300, kind, feature)
        p.append(np.exp(scores(X, y, weights)["log_p"]))
        unweighted.append(dhsic.test_features(X[:, :2], y, runtime="threads").p_values)
    assert np.mean(np.array(unweighted) < 0.05) > 0.2
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09
    assert np.mean(np.array(p)[:, :2] < 0.05) < 0.14


def test_independent_weights_keep_level_and_power(rng):
    p, planted = [], []
    for _ in range(40):
        X = rng.standard_normal((200, 10))
        y = 0.35 * X[:, 0] + rng.standard_normal(200)
        found = scores(X, y, np.exp(0.5 * rng.standard_normal(200)))["log_p"]
        p.append(np.exp(found[1:]))
        planted.append(found[0])
    assert 0.03 < np.mean(np.array(p) < 0.05) < 0.07
    assert np.mean(np.array(planted) < np.log(0.001)) > 0.7


def test_rare_values_of_rare_classes_are_not_tested(rng):
    X, y = np.zeros((400, 3)), np.arange(400) < 8
    X[:4, 0], X[:, 1] = 1, rng.standard_normal(400)
    X[::2, 2] = 1
    weights = rng.uniform(0.5, 2, 400)
    with pytest.warns(UserWarning, match="1 of 3 features are not tested"):
        found = weighted_tests(X, y, weights)
    assert found.p_values[0] == 1
    assert np.isnan(found.widths[0])
    less = weighted_tests(X[:, :1], np.arange(400) % 2, weights)  # neither is rare
    assert less.p_values[0] < 1


def test_a_few_samples_with_all_the_weight_are_refused():
    X, y, weights, _ = drawn(8)
    large = np.exp(weights**3)
    with pytest.raises(InputError, match=r"count as [\d.]+ samples .* at least 30"):
        weighted_tests(X, y, large)
    limited = np.minimum(large, np.quantile(large, 0.8))
    assert effective_size(limited) >= 30
    weighted_tests(X, y, limited)


def test_missing_values_that_depend_on_labels_are_told_of():
    X, y, weights, _ = drawn(9, "two", 300)
    X[y & (np.arange(300) % 2 == 0), 1] = np.nan
    with pytest.warns(UserWarning, match=r"Missing values depend on the labels in 1 feature"):
        weighted_tests(X, y, weights)


# Doors ------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """A table with labels and weights, its path, and the expected result."""
    X, y, weights, _ = drawn(10)
    weights[:9] = 0
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(D)]).round(3)
    frame.index = pd.Index([f"s{i}" for i in range(M)], name="sample")
    expected = weighted_tests(frame.to_numpy(), y.round(3), weights.round(3))
    about = pd.DataFrame({"trait": y.round(3), "w": weights.round(3)}, frame.index)
    frame.join(about).to_csv(tmp_path / "t.csv")
    return frame, about, tmp_path / "t.csv", expected


def test_weights_are_names_series_and_arrays(table):
    frame, about, path, expected = table
    shuffled = about.sample(frac=1, random_state=0).reset_index()
    for data, labels, weights in (
        (path, "trait", "w"),
        (frame.join(about), "trait", "w"),
        (frame.join(about.w), about.trait, "w"),
        (frame, about.trait, about.w),
        (frame, about.trait, shuffled[["sample", "w"]]),
        (frame.to_numpy(), about.trait.to_numpy(), about.w.tolist()),
        (frame.to_xarray().to_array("gene").T.assign_coords(sample=frame.index), about.trait,
         about.w),
    ):  # fmt: skip
        same(weighted_tests(data, labels, weights), expected)
    with pytest.raises(InputError, match="different order"):
        weighted_tests(frame, about.trait, about.w.iloc[::-1])
    same(weighted_tests(frame, about.trait, about.w.iloc[::-1].to_numpy()[::-1]), expected)
    found = weighted_tests(frame.join(about), "trait", "w").result_
    assert found.attrs["sample_weight"] == "w"
    assert found.attrs["n_samples_filtered"] == 9
    assert_allclose(found.attrs["n_effective_samples"], effective_size(about.w.to_numpy()))


def test_some_samples_of_some_rows(table):
    frame, about, _, _ = table
    X, y, w = frame.to_numpy(), about.trait.to_numpy(), about.w.to_numpy()
    rows = np.arange(M) % 4 > 0
    same(weighted_tests(X, y, w, rows=rows), weighted_tests(X[rows], y[rows], w[rows]))


def test_select_tests_targets_and_classes_with_weights(table):
    frame, about, _, expected = table
    options = {"method": "hsic", "n_features_to_select": 3, **QUIET}
    whole = frame.join(about).assign(other=about.trait**2)
    each = dhsic.select(whole, ["trait", "other"], per_target=True, sample_weight="w", **options)
    assert_array_equal(each["p"].sel(targets="trait"), expected.p_values)
    labels = (about.trait > 0.5).map({True: "high", False: "low"})
    classes = dhsic.select(frame, labels, per_class=True, sample_weight=about.w, **options)
    alone = weighted_tests(frame, labels, about.w)
    assert_allclose(classes["p"].sel(classes="high"), alone.p_values, rtol=1e-9)
    many = dhsic.select_many(
        frame, about.trait, [{"stability": 0}], sample_weight=about.w, **options
    )
    assert_array_equal(many["p"][0], expected.p_values)
    stable = dhsic.select(frame, about.trait, sample_weight=about.w, stability=3, **options)
    assert stable["stability"].max() == 1


def p_of(result):
    return [row["p"] for row in json.loads(result.stdout)["selected"]]


def test_commands_have_the_bits_of_python(table, tmp_path):
    frame, about, path, expected = table
    about.to_csv(tmp_path / "about.tsv", sep="\t")
    about.w.sample(frac=1, random_state=1).to_csv(tmp_path / "w.csv")
    frame.to_csv(tmp_path / "x.csv")
    x, of_trait = tmp_path / "x.csv", ("--target", "trait", "-n", D, "--json")
    beside = ("--labels", tmp_path / "about.tsv")
    best = np.sort(expected.p_values)
    for words in (
        (path, "--weights", "w"),
        (x, *beside, "--weights", "w"),
        (x, *beside, "--weights", tmp_path / "w.csv"),
        (x, *beside, "--weights", f"{tmp_path / 'about.tsv'}:w"),
        (path, "--not-feature", "w", "--weights", tmp_path / "w.csv"),
    ):
        found = run("test", *words, *of_trait)
        assert_array_equal(p_of(found), best)
    said = told(run("test", path, "--weights", "w", "--target", "trait"))
    assert "9 samples with weight 0 excluded" in said
    assert "111 samples count as" in said
    chosen = run("select", path, "--weights", "w", "--method", "hsic", "--target", "trait", "-n", 3,
                 "--checkpoint", tmp_path / "run", "--json")  # fmt: skip
    assert_array_equal(p_of(chosen), best[:3])
    assert p_of(run("resume", tmp_path / "run", "--json")) == p_of(chosen)
    run("plan", path, "--weights", "w", "--method", "hsic", "--target", "trait")


def test_missing_weights_are_missing_values_of_a_command(table, tmp_path):
    frame, about, path, _ = table
    whole = frame.join(about)
    whole.loc[["s20", "s21"], "w"] = np.nan
    whole.to_csv(path)
    words = ("test", path, "--weights", "w", "--target", "trait", "-n", D, "--json")
    assert "2 of 120 samples have missing values (w: 2)" in told(run(*words, code=2))
    expected = weighted_tests(whole.dropna().drop(columns=["trait", "w"]), whole.dropna().trait,
                        whole.dropna().w)  # fmt: skip
    assert_array_equal(p_of(run(*words, "--drop-missing")), np.sort(expected.p_values))


# Refusals, and what they advise -----------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "sentence", "remedy"),
    [
        (lambda w: -w, "are negative, such as", abs),
        (lambda w: 0 * w, "All 120 weights .* are zero", lambda w: w + 1),
        (lambda w: np.where(w == w[3], np.nan, w), r"1 of 120 .* missing .* sample 3\)",
         lambda w: np.where(np.isnan(w), 0, w)),
        (lambda w: np.where(w == w[3], np.inf, w), "1 of 120 .* infinite",
         lambda w: np.where(np.isinf(w), 0, w)),
        (lambda w: np.array([f"{v:.3f} kg" for v in w]), "pass numbers",
         lambda w: np.array([float(v[:5]) for v in w])),
        (lambda w: np.column_stack([w, w]), r"shape \(120, 2\)", lambda w: w[:, 0]),
        (lambda w: w[:50], "50", lambda w: np.append(w, np.zeros(70))),
        (lambda w: "w", "has no variables", lambda _: np.arange(M)),
    ],
)  # fmt: skip
def test_impossible_weights_are_sentences(weights, sentence, remedy):
    X, y, good, _ = drawn(11)
    with pytest.raises(InputError, match=sentence):
        weighted_tests(X, y, weights(good))
    weighted_tests(X, y, remedy(weights(good)))


@pytest.mark.parametrize(
    "model",
    [
        dhsic.BAHSIC(3, kernel="ridge"),
        dhsic.CCM(3),
        dhsic.SVMRFE(3),
        dhsic.FeatureWeighting(3),
        *(dhsic.OnePass(3, criterion=name) for name in CRITERIA if name != "hsic"),
        dhsic.OnePass(3, criterion="hsic", loco=True),
        dhsic.OnePass(3, criterion="hsic", holdout=0.5),
        dhsic.OnePass(3, criterion="hsic", bandwidth="median"),
        dhsic.OnePass(3, criterion="hsic", label_kernel="linear"),
        dhsic.OnePass(3, criterion="hsic", statistic="biased"),
        dhsic.OnePass(3, criterion="hsic", clump_r2=0.5),
        dhsic.OnePass("auto", criterion="hsic"),
    ],
)
def test_methods_without_weights_say_so(model):
    X, y, weights, _ = drawn(12, "two")
    with pytest.raises(InputError, match=r"support.* sample_weight|sample_weight .* not supported"):
        model.set_params(progress=False).fit(X, y, sample_weight=weights)
    dhsic.OnePass(3, criterion="hsic", **QUIET).fit(X, y, sample_weight=weights)


def test_labels_without_a_weighted_form_say_so():
    X, y, weights, _ = drawn(13)
    event = np.arange(M) % 3 > 0
    for labels, options in (
        (np.column_stack([y, y**2]), {}),
        (np.column_stack([y > 0, y > 1]), {}),
        (np.abs(y), {"event": event}),
    ):
        with pytest.raises(InputError, match="sample_weight applies to one target"):
            weighted_tests(X, labels, weights, **options)
        dhsic.test_features(X, labels, runtime="threads", **options)
    weighted_tests(X, y, weights)


@pytest.mark.parametrize(
    "options", [{"features": [1, 2]}, {"method": "permutation"}, {"bandwidth": "median"}]
)
def test_tests_without_weights_say_so(options):
    X, y, weights, _ = drawn(14)
    with pytest.raises(InputError, match="sample_weight needs a test of all features"):
        weighted_tests(X, y, weights, **options)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(D)])
    found = weighted_tests(frame, y, weights, filters=dhsic.Filters(extract=["g1", "g2"]))
    assert_array_equal(found.p_values, weighted_tests(X, y, weights).p_values[1:3])


def test_pairs_say_what_takes_weights():
    X, y, weights, _ = drawn(15)
    with pytest.raises(InputError, match=r"not supported here.* dhsic\.test_features"):
        dhsic.find_pairs(X, y, sample_weight=weights)


def test_commands_say_what_to_do_with_weights(table, tmp_path):
    _, about, path, _ = table
    words = (path, "--target", "trait", "--weights")
    two = about.assign(v=1).drop(columns="trait")
    two.to_csv(tmp_path / "two.csv")
    refused = run("test", *words, tmp_path / "two.csv", "--not-feature", "w", code=2)
    assert "has 2 columns ('w', 'v'). Name one: --weights" in told(refused)
    run("test", *words, f"{tmp_path / 'two.csv'}:w", "--not-feature", "w")
    assert "dhsic test" in told(run("select", *words, "w", "--method", "svm-rfe", code=2))
    run("select", *words, "w")
    loci = ("--effects", tmp_path / "effects.tsv")
    assert "--effects does not support --weights" in told(run("test", *words, "w", *loci, code=2))
    run("test", path, "--target", "trait", "--not-feature", "w", *loci)
    assert "weights 'trait' are negative" in told(run("test", *words, "trait", code=2))


# scikit-learn -----------------------------------------------------------------------


def test_weights_are_routed_through_pipelines_and_searches():
    X, y, weights, _ = drawn(16, "two")
    with config_context(enable_metadata_routing=True):
        step = dhsic.OnePass(3, criterion="hsic", **QUIET).set_fit_request(sample_weight=True)
        last = LogisticRegression().set_fit_request(sample_weight=True)
        pipe = make_pipeline(step, last).fit(X, y, sample_weight=weights)
        alone = dhsic.OnePass(3, criterion="hsic", **QUIET).fit(X, y, sample_weight=weights)
        assert_array_equal(pipe[0].scores_, alone.scores_)
        grid = {"onepass__n_features_to_select": [1, 3]}
        last.set_score_request(sample_weight=True)
        search = GridSearchCV(make_pipeline(step, last), grid, cv=2)
        search.fit(X, y, sample_weight=weights)
        assert_array_equal(search.best_estimator_[0].scores_, alone.scores_)


@pytest.mark.parametrize(
    "check",
    [
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_all_zero_sample_weights_error",
        "check_sample_weights_shape",
    ],
)
def test_scikit_learn_checks_of_weights(check):
    """The others have 16 samples with weights that count as 5, of which there are no p-values."""
    model = dhsic.OnePass(2, criterion="hsic", **QUIET)
    getattr(estimator_checks, check)("OnePass", model)


def test_weights_with_blocks_are_refused_and_the_advice_works(rng):
    X, y = rng.standard_normal((60, 8)), np.repeat([0.0, 1.0], 30)
    donors, weights = np.repeat(np.arange(12), 5), rng.uniform(0.5, 2.0, 60)
    with pytest.raises(InputError, match=r"permute_whole.* does not support sample_weight"):
        dhsic.test_features(X, y, permute_whole=donors, sample_weight=weights)
    assert dhsic.test_features(X, y, permute_whole=donors).p_values.size == 8
    assert dhsic.test_features(X, y, sample_weight=weights).p_values.size == 8
