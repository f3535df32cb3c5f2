"""Selections of samples with weights: definitions, equalities, the same bits, and refusals."""

from itertools import product

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
from stores import write_matrix

import dhsic
from dhsic.errors import InputError
from dhsic.runtime.dask import DaskRuntime

M, D = 60, 8
QUIET = {"progress": False, "runtime": "threads", "rerank": False}
OF_JOINING = {"progress": False, "runtime": "threads", "dtype": "float64"}
LABELS = ("real", "two", "three", "integers", "ordinal")
SELECTORS = {
    "bahsic": dhsic.BAHSIC(3, dtype="float64", **QUIET),
    "bahsic, low rank": dhsic.BAHSIC(3, solver="lowrank", **QUIET),
    "bahsic, direct": dhsic.BAHSIC(3, solver="direct", **QUIET),
    "bahsic, linear": dhsic.BAHSIC(3, kernel="linear", **QUIET),
    "bahsic, linear, low rank": dhsic.BAHSIC(3, kernel="linear", solver="lowrank", **QUIET),
    "bahsic, polynomial": dhsic.BAHSIC(3, kernel="polynomial", dtype="float64", **QUIET),
    "bahsic, grid": dhsic.BAHSIC(3, bandwidth=[0.03, 0.3], dtype="float64", **QUIET),
    "bahsic, presence": dhsic.BAHSIC(3, standardize="presence", dtype="float64", **QUIET),
    "fohsic": dhsic.FOHSIC(3, **OF_JOINING),
    "fohsic, floating": dhsic.FOHSIC(3, strategy="floating", **OF_JOINING),
    "fohsic, low rank": dhsic.FOHSIC(3, solver="lowrank", **OF_JOINING),
    "linear": dhsic.LinearHSIC(3, progress=False, runtime="threads"),
}


def drawn(seed, kind="real", *, missing=False):
    """Features of several kinds, labels that depend on features 0 and 4, weights, covariates."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((M, D))
    X[:, 4:6] = rng.integers(0, 3, (M, 2))
    X[:, 6:] = rng.poisson(0.4, (M, 2))
    score = X[:, 0] + 0.8 * X[:, 4] + 0.7 * rng.standard_normal(M)
    levels = np.digitize(score, (0.2, 1.2))
    y = {
        "real": score,
        "two": score > 0.5,
        "three": levels,
        "integers": np.clip(np.round(2 * score), -3, 3) + 4,
        "ordinal": pd.Categorical.from_codes(levels, ["low", "mid", "high"], ordered=True),
    }[kind]
    if missing:
        X[rng.random(X.shape) < 0.05] = np.nan
    return X, y, np.exp(0.5 * rng.standard_normal(M)), rng.standard_normal((M, 2))


def fitted(model, *data, **options):
    """Ranking and scores of a selector."""
    model.fit(*data, **options)
    return model.ranking_, model.scores_


# Definitions ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["real", "two", "three"])
@pytest.mark.parametrize("is_linear", [False, True])
def test_algorithm_1_is_that_of_the_definition(kind, is_linear):
    X, y, weights, _ = drawn(1, kind, missing=True)
    X, y, weights = X[:25, :5], y[:25], weights[:25]
    kernel = "linear" if is_linear else "gaussian"
    model = dhsic.BAHSIC(2, kernel=kernel, step=1, dtype="float64", **QUIET)
    ranking, scores = fitted(model, X, y, sample_weight=weights)

    rows = [[None if np.isnan(v) else v for v in row] for row in X.tolist()]
    order, expected = naive.bahsic(rows, y.tolist(), weights.tolist(), is_linear=is_linear)

    assert np.argsort(ranking).tolist() == order
    assert_allclose(scores, expected, rtol=1e-7, atol=1e-12)


def test_the_first_feature_of_forward_selection_is_that_of_the_definition():
    X, y, weights, _ = drawn(2, "two")
    ranking, _ = fitted(SELECTORS["fohsic"], X[:30], y[:30], sample_weight=weights[:30])
    expected = naive.fohsic_first(X[:30].tolist(), y[:30].tolist(), weights[:30].tolist())
    assert np.argmin(ranking) == expected


# Equalities -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [*product(("bahsic", "linear"), LABELS), *product([*SELECTORS][1:-1], ("real", "three"))],
)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_sample_may_be_split_into_copies(name, kind, seed):
    """Whole weights equal repeated samples, whose copies share the weight equally or not."""
    X, y, _, C = drawn(seed, kind, missing=seed % 2 == 0)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, M).astype(float)
    rows = np.repeat(np.arange(M), weights.astype(int))
    parts = rng.random(rows.size) + 0.1
    parts *= (weights / np.bincount(rows, parts))[rows]
    C = C if seed % 3 == 0 else None
    model = SELECTORS[name]

    model.fit(X, y, sample_weight=weights, covariates=C)
    expected = model.result_["score_first_round"].to_numpy()
    copies = {"sample_weight": parts, "covariates": None if C is None else C[rows]}
    model.fit(X[rows], y[rows], **copies)

    scores = model.result_["score_first_round"].to_numpy()
    assert_allclose(scores, expected, rtol=1e-4, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["bahsic", "bahsic, linear", "fohsic", "linear"])
@pytest.mark.parametrize("kind", ["two", "three"])
def test_whole_weights_rank_like_repeated_samples_without_weights(name, kind):
    """The biased estimator of repeated samples is HSIC of the weighted ones, up to a factor."""
    X, y, _, C = drawn(4, kind, missing=True)
    weights = np.random.default_rng(4).integers(1, 4, M)
    rows = np.repeat(np.arange(M), weights)
    model = SELECTORS[name]
    ranking, scores = fitted(model, X, y, sample_weight=weights, covariates=C)
    biased = model.__class__(**{**model.get_params(), "statistic": "biased"})
    expected, repeated = fitted(biased, X[rows], y[rows], covariates=C[rows])
    assert_array_equal(ranking, expected)
    factor = (repeated @ scores) / (scores @ scores)
    assert_allclose(factor * scores, repeated, rtol=1e-6, atol=1e-9 * np.abs(repeated).max())


@pytest.mark.parametrize("name", SELECTORS)
def test_a_weight_of_zero_leaves_the_sample_out_to_the_bit(name):
    X, y, weights, C = drawn(5, missing=True)
    kept = np.random.default_rng(6).random(M) > 0.15
    model = SELECTORS[name]
    rest = fitted(model, X[kept], y[kept], sample_weight=weights[kept], covariates=C[kept])
    found = fitted(model, X, y, sample_weight=np.where(kept, weights, 0.0), covariates=C)
    for one, other in zip(found, rest, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("name", SELECTORS)
def test_a_multiple_of_the_weights_changes_nothing(name):
    X, y, weights, _ = drawn(7, "three")
    found = fitted(SELECTORS[name], X, y, sample_weight=weights)
    same = fitted(SELECTORS[name], X, y, sample_weight=2.0**20 * weights)
    assert_array_equal(same[1], found[1])


def test_several_targets_groups_and_precomputed_labels():
    X, y, weights, _ = drawn(8)
    rows = np.repeat(np.arange(M), 2)
    both = np.column_stack([y, y > 0.5, X[:, 1] > 0])
    L, groups = np.outer(y, y), ["a", "a", "b", "b", "c", "c", "d", "e"]
    for labels, copies, options, grouped in (
        (both, both[rows], {}, {}),
        (both[:, :1] ** [[1, 2]], (both[:, :1] ** [[1, 2]])[rows], {}, {}),
        (L, L[np.ix_(rows, rows)], {"label_kernel": "precomputed"}, {}),
        (y, y[rows], {}, {"feature_groups": groups}),
    ):
        model = dhsic.BAHSIC(2, dtype="float64", **QUIET, **options)
        once = fitted(model, X, labels, sample_weight=weights, **grouped)
        twice = fitted(model, X[rows], copies, sample_weight=weights[rows], **grouped)
        assert_allclose(twice[1], once[1], rtol=1e-5, atol=1e-9)


def test_weights_correct_for_samples_that_were_drawn_by_a_feature_and_the_label(rng):
    """Feature 0 has an effect; feature 1 decides, with the label, who is drawn."""
    model, ranks, weighted = dhsic.BAHSIC(1, **QUIET), [], []
    for _ in range(4):
        X = rng.standard_normal((2000, 12))
        y = 0.3 * X[:, 0] + rng.standard_normal(2000)
        chance = 0.05 + 0.9 / (1 + np.exp(1 - 2 * (y + X[:, 1])))
        rows = np.flatnonzero(rng.random(2000) < chance)[:500]
        ranks.append(fitted(model, X[rows], y[rows])[0])
        weighted.append(fitted(model, X[rows], y[rows], sample_weight=1 / chance[rows])[0])
    assert np.max(ranks, axis=0)[1] <= 2
    assert np.mean(weighted, axis=0)[1] > 2.5
    assert np.median(weighted, axis=0)[0] == 1


# The same bits ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["bahsic", "bahsic, low rank", "bahsic, linear, low rank", "fohsic"]
)
def test_threads_workers_and_resumed_runs_have_the_same_bits(name, client, tmp_path):
    X, y, weights, C = drawn(9, missing=True)
    store = write_matrix(tmp_path / "x.zarr", X, chunks=(M, 3))
    options = {"sample_weight": weights, "covariates": C}
    model = SELECTORS[name]
    alone = fitted(model, store, y, **options)
    parameters = model.get_params() | {"checkpoint": str(tmp_path / "run")}
    resumed = type(model)(**parameters)
    fitted(resumed, store, y, **options)
    again = fitted(resumed, store, y, **options)
    on_workers = type(model)(**{**model.get_params(), "runtime": DaskRuntime(client)})
    for other in (again, fitted(on_workers, store, y, **options)):
        assert_array_equal(other[0], alone[0])
        assert_array_equal(other[1], alone[1])


# Doors ------------------------------------------------------------------------------


def test_commands_select_with_weights(tmp_path):
    X, y, weights, _ = drawn(10, "two")
    weights[:5] = 0
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(D)]).round(3)
    frame.insert(0, "sample", [f"s{i}" for i in range(M)])
    frame["trait"], frame["w"] = np.where(y, "case", "control"), weights.round(3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    expected = dhsic.select(frame.set_index("sample"), "trait", sample_weight="w",
                            n_features_to_select=3, progress=False, stability=2)  # fmt: skip
    words = (tmp_path / "t.csv", "--target", "trait", "--weights", "w", "-n", 3)
    out = tmp_path / "out.csv"
    said = told(run("select", *words, "--stability", 2, "--out", out))
    assert "5 samples with weight 0 excluded" in said
    assert "55 samples count as" in said
    found = pd.read_csv(out)
    names = expected["feature"].to_numpy()[np.argsort(expected["rank"].to_numpy())]
    assert found.sort_values("rank")["name"].tolist()[:3] == names[:3].tolist()
    run("plan", *words)
    refused = run("select", *words, "--method", "ccm", code=2)
    assert "not supported by CCM" in told(refused)
    run("select", *words, "--method", "fohsic")


def test_weights_are_routed_through_pipelines_and_searches():
    X, y, weights, _ = drawn(11, "two")
    with config_context(enable_metadata_routing=True):
        step = dhsic.BAHSIC(3, **QUIET).set_fit_request(sample_weight=True)
        last = LogisticRegression().set_fit_request(sample_weight=True)
        last.set_score_request(sample_weight=True)
        grid = {"bahsic__n_features_to_select": [1, 3]}
        search = GridSearchCV(make_pipeline(step, last), grid, cv=2)
        search.fit(X, y, sample_weight=weights)
        alone = fitted(dhsic.BAHSIC(3, **QUIET), X, y, sample_weight=weights)
        assert_array_equal(search.best_estimator_[0].scores_, alone[1])


# Refusals, and what they advise -----------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"rerank": True},
        {"bandwidth": "median"},
        {"label_kernel": "self"},
        {"interactions": "best"},
        {"holdout": 0.3},
        {"control": "shadow"},
        {"clump_r2": 0.2},
        {"n_features_to_select": "auto"},
    ],
)
def test_parameters_without_weights_are_refused_and_the_advice_works(options):
    X, y, weights, _ = drawn(12, "two")
    (name,) = options
    model = dhsic.BAHSIC(**{"n_features_to_select": 2, "progress": False} | options)
    with pytest.raises(InputError, match=f"{name}=.* does not support sample_weight") as refused:
        model.fit(X, y, sample_weight=weights)
    advised = str(refused.value)
    assert "Pass" in advised or f"Leave out {name}=" in advised
    dhsic.BAHSIC(2, progress=False).fit(X, y, sample_weight=weights)
    model.fit(X, y)


def test_censored_times_and_matrix_kernels_are_refused_and_the_advice_works():
    X, y, weights, _ = drawn(13)
    event = np.arange(M) % 3 > 0
    model = dhsic.BAHSIC(2, progress=False)
    with pytest.raises(InputError, match=r"event=\) do not support sample_weight .* weights out"):
        model.fit(X, np.abs(y) + 1, event=event, sample_weight=weights)
    model.fit(X, np.abs(y) + 1, event=event)
    with pytest.raises(InputError, match="not supported by BAHSIC with the ridge kernel"):
        dhsic.BAHSIC(2, kernel="ridge", progress=False).fit(X, y, sample_weight=weights)
    model.fit(X, y, sample_weight=weights)
