"""Categories beside numbers: tables as they are opened, ranked, tested and re-ranked."""

import json
import math

import naive
import naive_mixed
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

import dhsic
from dhsic.algorithms.ridge import ridge_order
from dhsic.cli import main
from dhsic.criteria.categories import scores_of_category, unordered_functions
from dhsic.criteria.independence import Independence
from dhsic.errors import InputError
from dhsic.runtime.dask import DaskRuntime
from dhsic.sources.categories import IndicatorSource

COLUMNS = ["age", "sex", "colour", "smokes", "noise", "town"]


def clinic(rng, m=160):
    """A table in which colour and, with age, sex decide the outcome."""
    table = pd.DataFrame(
        {
            "age": rng.normal(60, 10, m).round(1),
            "sex": rng.choice(["m", "f"], m),
            "colour": rng.choice(["red", "green", "blue", "grey"], m, p=[0.4, 0.3, 0.2, 0.1]),
            "smokes": rng.random(m) < 0.4,
            "noise": rng.normal(size=m).round(3),
            "town": pd.Categorical(rng.choice(list("uvwxyz"), m)),
        }
    )
    is_case = (table["colour"] == "red") ^ ((table["sex"] == "m") & (table["age"] > 60))
    return table, np.where(is_case, "case", "control")


def names_of(result):
    """Names of the selected features."""
    return result["feature"].to_numpy()[result["selected"].to_numpy()].tolist()


# Opening ---------------------------------------------------------------------------------


def test_columns_of_text_are_categories_and_text_is_refused_by_default(rng):
    table, _ = clinic(rng)
    table.loc[3, "colour"] = None
    source = dhsic.open_source(table, categories=["smokes"])
    assert source.levels == {
        1: ("f", "m"),
        2: ("blue", "green", "grey", "red"),
        3: ("False", "True"),
        5: tuple("uvwxyz"),
    }
    kinds = source.feature_coords()["kind"].tolist()
    assert kinds == ["number", "categories (2)", "categories (4)", "categories (2)", "number",
                     "categories (6)"]  # fmt: skip
    indicators = IndicatorSource(source)
    assert indicators.columns.tolist() == [0, 1, 2, 2, 2, 2, 3, 4, 5, 5, 5, 5, 5, 5]
    values = np.concatenate([indicators.read(block) for block in indicators.blocks(2)], axis=1)
    assert_array_equal(values[:, 0], table["age"])
    assert_array_equal(values[:, 1], table["sex"] == "m")
    expected = (table["colour"] == "green").astype(float)
    expected[3] = np.nan
    assert_array_equal(values[:, 3], expected)
    with pytest.raises(InputError, match="are not numbers"):
        dhsic.open_source(table)


def test_a_text_table_has_the_categories_of_the_frame(rng, tmp_path):
    table, y = clinic(rng)
    table.loc[[3, 5], "colour"] = [None, "?"]
    path = tmp_path / "clinic.csv"
    table.assign(outcome=y).to_csv(path, index=False, na_rep="NA")
    options = {"not_features": ["outcome"], "na": ["colour=?"], "categories": ["smokes"]}
    source = dhsic.open_source(path, **options)
    of_frame = dhsic.open_source(table.replace("?", None), categories=["smokes"])
    assert source.levels == of_frame.levels
    assert source.feature_names().tolist() == COLUMNS
    (block,) = source.blocks(10)
    assert_array_equal(source.read(block), of_frame.read(block))
    assert source.sample_coords()["outcome"].tolist() == y.tolist()
    assert "colour" not in source.sample_coords()


def test_a_table_of_only_categories(tmp_path, rng):
    table, y = clinic(rng)
    path = tmp_path / "only.csv"
    table[["sex", "colour", "town"]].assign(outcome=y).to_csv(path, index=False)
    result = dhsic.select(path, "outcome", n_features_to_select=1, progress=False)
    assert names_of(result) == ["colour"]
    in_memory = dhsic.select(
        table[["sex", "colour", "town"]], y, n_features_to_select=1, progress=False
    )
    assert_array_equal(in_memory["rank"], result["rank"])


def test_ordered_categories_are_numbers(rng):
    table, _ = clinic(rng)
    grade = pd.Categorical(rng.choice(["low", "mid", "high"], len(table)),
                           ["low", "mid", "high"], ordered=True)  # fmt: skip
    source = dhsic.open_source(table[["age"]].assign(grade=grade), categories=())
    assert source.levels == {}
    assert source.feature_coords()["kind"].tolist() == ["number", "ordered (3 levels)"]
    assert_array_equal(source.read(source.blocks(2)[0])[:, 1], grade.codes)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([f"note {i}" for i in range(160)], "like names or free text"),
        (["12", "13", "14", "oops"] * 40, "contains text in 40 of 160 values"),
        (["12 mg", "15 mg", "9 mg", "8 mg"] * 40, "are not numbers"),
        (pd.date_range("2020-01-01", periods=160), "Convert dates"),
    ],
)
def test_text_that_is_no_category_is_refused(rng, column, sentence):
    table, y = clinic(rng)
    with pytest.raises(InputError, match=sentence):
        dhsic.select(table.assign(other=column), y)


def test_a_column_with_too_many_levels_is_excluded_as_the_message_says(rng):
    table, y = clinic(rng)
    table["note"] = [f"note {i}" for i in range(len(table))]
    with pytest.raises(InputError, match=r"not_features=\['note'\]"):
        dhsic.test_features(table, y)
    tests = dhsic.test_features(table, y, not_features=["note"])
    assert tests.names.tolist() == COLUMNS


# Selection -------------------------------------------------------------------------------


def test_backward_elimination_is_that_of_the_definition(rng):
    m = 14
    columns = [
        rng.normal(size=m).tolist(),
        rng.choice(list("ab"), m).tolist(),
        rng.choice(list("pqr"), m).tolist(),
        rng.normal(size=m).tolist(),
        [None, *rng.choice(list("uvwx"), m - 1).tolist()],
    ]
    y = ["s" if v == "p" else "t" for v in columns[2]]
    L = naive.label_gram(y, "balanced")
    expected = naive_mixed.backward(columns, L)
    table = pd.DataFrame({f"c{j}": column for j, column in enumerate(columns)})
    result = dhsic.select(
        table,
        y,
        step=1,
        n_features_to_select=2,
        rerank=False,
        standardize=True,
        categories=["c4"],
        progress=False,
    )
    order = np.argsort(-result["rank"].to_numpy())
    assert order.tolist() == expected
    sigmas = result["round_sigma"].to_numpy()
    assert_allclose(sigmas, [1 / (2 * n) for n in (5, 4, 3, 2, 1)])


@pytest.mark.parametrize("standardize", [True, False, "presence"])
def test_two_levels_are_the_number_0_or_1(rng, standardize):
    table, y = clinic(rng, 60)
    as_numbers = table.assign(sex=(table["sex"] == "m").astype(float))
    options = {"standardize": standardize, "n_features_to_select": 2, "progress": False}
    one, other = (dhsic.select(X, y, **options) for X in (table, as_numbers))
    for name in ("rank", "score", "p_marginal", "fall_given_others"):
        assert_array_equal(one[name], other[name])


def test_defaults_rank_the_columns_that_matter(rng):
    table, _ = clinic(rng)
    each = table["age"] > 60, table["sex"] == "m", table["colour"] == "red"
    y = np.where(np.sum(each, axis=0) >= 2, "case", "control")
    table.loc[:9, "colour"] = None
    result = dhsic.select(table, y, n_features_to_select=3, progress=False)
    assert result["feature"].to_numpy().tolist() == COLUMNS
    assert result["kind"].to_numpy()[2] == "categories (4)"
    assert set(names_of(result)) == {"age", "sex", "colour"}
    assert sorted(result["rank"].to_numpy()) == [1, 2, 3, 4, 5, 6]
    assert result["n_missing"].to_numpy()[2] == 10
    assert np.isnan(result["mean"].to_numpy()[2])
    assert result.attrs["given_others"] == 6
    tests = dhsic.test_features(table, y)
    assert_array_equal(tests.p_values, result["p_marginal"])
    forward = dhsic.select(table, y, method="fohsic", n_features_to_select=3, progress=False)
    assert "colour" in names_of(forward)


def test_categories_of_integers_are_named(rng):
    table, y = clinic(rng)
    codes = table["colour"].map({"red": 2, "green": 1, "blue": 4, "grey": 3})
    tests = dhsic.test_features(table.assign(colour=codes), y, categories=["colour"])
    assert tests.kinds.tolist() == dhsic.test_features(table, y).kinds.tolist()
    assert_allclose(tests.p_values, dhsic.test_features(table, y).p_values, rtol=1e-9)
    assert tests.to_dataframe()["kind"].tolist()[2] == "categories (4)"
    assert "categories (4)" in str(tests)


def test_estimators_see_the_columns_of_the_table(rng):
    table, y = clinic(rng)
    model = dhsic.BAHSIC(2, progress=False).fit(table, y)
    assert model.n_features_in_ == 6
    chosen = model.get_feature_names_out().tolist()
    assert chosen == model.transform(table).columns.tolist()
    assert len(chosen) == 2
    assert "colour" in chosen
    with pytest.raises(InputError, match="Pass the columns of fit in their order"):
        model.transform(table[COLUMNS[::-1]])


def test_threads_dask_and_resumed_runs_agree(rng, tmp_path, client):
    table, y = clinic(rng, 60)
    options = {"n_features_to_select": 2, "progress": False}
    first = dhsic.select(table, y, checkpoint=tmp_path / "run", **options)
    again = dhsic.select(table, y, checkpoint=tmp_path / "run", **options)
    on_dask = dhsic.select(table, y, runtime=DaskRuntime(client), **options)
    for name in ("rank", "score", "p_marginal", "fall_given_others"):
        assert_array_equal(first[name], again[name])
        assert_array_equal(first[name], on_dask[name])


def test_stages_count_columns(rng):
    table, y = clinic(rng)
    options = {"n_features_to_select": 2, "progress": False}
    result = dhsic.select(table, y, stability=4, holdout=0.3, **options)
    assert result.attrs["n_held_out"] == 48
    assert result["stability"].shape == (6,)
    assert result["stability"].to_numpy()[2] == 1.0
    chosen = np.flatnonzero(result["selected"].to_numpy())
    assert np.isfinite(result["p"].to_numpy()[chosen]).all()
    held = dhsic.select(table, y, n_features_to_select="auto", progress=False)
    assert 1 <= int(held["selected"].sum()) <= 6
    assert "colour" in names_of(held)


def test_filters_go_by_the_names_of_columns(rng):
    table, y = clinic(rng)
    filters = dhsic.Filters(extract=["age", "colour", "town"])
    tests = dhsic.test_features(table, y, filters=filters)
    every = dhsic.test_features(table, y)
    assert tests.names.tolist() == ["age", "colour", "town"]
    assert_allclose(tests.p_values, every.p_values[[0, 2, 5]], rtol=1e-12)
    result = dhsic.select(table, y, n_features_to_select=1, filters=filters, progress=False)
    assert result["feature"].to_numpy().tolist() == ["age", "colour", "town"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"method": "ccm"}, "CCM"),
        ({"method": "linear"}, "LinearHSIC"),
        ({"method": "pearson"}, "criterion='pearson'"),
        ({"kernel": "delta"}, "kernel='delta'"),
        ({"control": "fdr"}, "control='fdr'"),
        ({"interactions": "linear"}, "interactions='linear'"),
        ({"clump_r2": 0.5}, "clump_r2=0.5"),
        ({"solver": "lowrank"}, "solver='lowrank'"),
        ({"label_kernel": "self"}, "label_kernel='self'"),
        ({"method": "hsic", "bandwidth": "median"}, "bandwidth='median'"),
        ({"feature_groups": np.arange(6)}, "feature_groups="),
    ],
)
def test_options_that_do_not_support_categories_are_refused(rng, options, named):
    table, y = clinic(rng, 40)
    with pytest.raises(InputError) as told:
        dhsic.select(table, y, **options)
    assert str(told.value).startswith(f"{named} does not support categories")
    columns = ["sex", "colour", "town"]
    assert f"not_features={columns!r}" in str(told.value)
    numbers = dhsic.select(table, y, not_features=columns, n_features_to_select=2, progress=False)
    assert numbers.sizes["features"] == 3


def test_tests_of_some_features_refuse_categories(rng):
    table, y = clinic(rng, 40)
    with pytest.raises(InputError, match="supported by the test of all features"):
        dhsic.test_features(table, y, ["age", "colour"])


def test_pairs_still_refuse_text(rng):
    table, y = clinic(rng, 40)
    with pytest.raises(InputError, match="are not numbers"):
        dhsic.find_pairs(table, y)


def test_indicators_of_one_category_are_told(rng, caplog):
    table, y = clinic(rng, 60)
    dummies = pd.get_dummies(table[["age", "noise", "colour"]], dtype=float)
    with caplog.at_level("INFO", logger="dhsic"):
        dhsic.select(dummies, y, method="hsic", n_features_to_select=1, progress=False)
    assert "the prefix 'colour' (4 columns) are indicators of one category" in caplog.text
    caplog.clear()
    gaps = dummies.copy()  # as of missing categories
    gaps.loc[::20, gaps.columns.str.startswith("colour")] = np.nan
    for X in (gaps, pd.get_dummies(table[["age", "colour"]]), pd.get_dummies(table, dtype=int)):
        with caplog.at_level("INFO", logger="dhsic"):
            dhsic.select(X, y, method="hsic", n_features_to_select=1, progress=False)
        assert "the prefix 'colour' (4 columns)" in caplog.text
        caplog.clear()
    with caplog.at_level("INFO", logger="dhsic"):
        without = dummies.drop(columns="colour_red")
        dhsic.select(without, y, method="hsic", n_features_to_select=1, progress=False)
    assert "indicators" not in caplog.text


# Tests of single columns -----------------------------------------------------------------


def state_of(y):
    criterion = Independence()
    return criterion.prepare(criterion.read(np.asarray(y)))


def test_functions_of_unordered_levels_are_orthonormal():
    counts = np.array([5.0, 1.0, 3.0, 11.0])
    functions, eigenvalues = unordered_functions(counts)
    p = counts / counts.sum()
    assert_allclose((functions * p) @ functions.T, np.eye(3), atol=1e-12)
    assert_allclose(functions @ p, 0.0, atol=1e-12)
    kernel = (functions.T * eigenvalues) @ functions  # of the centred kernel [x = x']
    centred = np.eye(4) - p - p[:, None] + p @ p
    assert_allclose(kernel / kernel[0, 0], centred / centred[0, 0], atol=1e-12)


def test_p_values_are_near_those_of_the_chi_square_test(rng):
    m = 300
    x = rng.integers(0, 4, m)
    y = np.where(rng.random(m) < 0.25 + 0.15 * (x == 2), "s", rng.choice(list("tu"), m))
    log_p = float(scores_of_category(state_of(y), x).log_p[0])
    statistic = naive_mixed.chi_square(list(map(str, x)), y.tolist())
    assert log_p == pytest.approx(chi2.logsf(statistic, 6), rel=0.25)


def test_the_order_and_names_of_levels_are_without_effect(rng):
    x, y = rng.integers(0, 5, 120), rng.normal(size=120)
    one = scores_of_category(state_of(y), x)
    other = scores_of_category(state_of(y), np.array([3, 0, 4, 1, 2])[x])
    assert_allclose(one.log_p, other.log_p, rtol=1e-9)
    assert_allclose(one.hsic, other.hsic, rtol=1e-9)


@pytest.mark.parametrize("labels", ["classes", "numbers", "heavy tails"])
def test_p_values_are_uniform_without_dependence(rng, labels):
    m = 80
    y = {
        "classes": np.repeat(["s", "t"], [60, 20]),
        "numbers": rng.normal(size=m),
        "heavy tails": rng.standard_cauchy(m),
    }[labels]
    state, x = state_of(y), np.repeat([0, 1, 2, 3], [40, 20, 15, 5])
    p = np.exp([scores_of_category(state, rng.permutation(x)).log_p[0] for _ in range(400)])
    for level in (0.05, 0.2, 0.5):
        expected = 400 * level
        assert abs((p <= level).sum() - expected) < 4 * math.sqrt(expected * (1 - level))


def test_missing_values_are_left_out(rng):
    x, y = rng.integers(0, 3, 100), rng.choice(list("st"), 100)
    x[:20] = -1
    alone = scores_of_category(state_of(y[20:]), x[20:])
    both = scores_of_category(state_of(y), x)
    assert_allclose(both.log_p, alone.log_p, rtol=0.02, atol=0.02)


def test_censored_times_have_a_test_of_categories(rng):
    m = 120
    group = rng.integers(0, 3, m)
    time = rng.exponential(size=m) * np.where(group == 2, 4.0, 1.0) + 0.01
    table = pd.DataFrame({"group": np.array(list("abc"))[group], "x": rng.normal(size=m)})
    tests = dhsic.test_features(table, time, event=rng.random(m) < 0.8)
    assert tests.p_values[0] < 1e-4
    null = table.assign(group=rng.permutation(table["group"].to_numpy()))
    assert dhsic.test_features(null, time, event=rng.random(m) < 0.8).p_values[0] > 1e-3


# Re-ranking ------------------------------------------------------------------------------


def test_groups_leave_by_the_loss_of_ridge_regression(rng):
    X, U = rng.normal(size=(40, 7)), rng.normal(size=(40, 2))
    codes = np.array([0, 1, 1, 1, 2, 3, 3])
    G, B = X.T @ X, X.T @ U
    order, losses = ridge_order(G, B, 1.0, 40, codes)
    penalty = np.trace(G) / 40
    expected = naive_mixed.ridge_losses(G.tolist(), B.tolist(), penalty, codes.tolist())
    assert order[0] == int(np.argmin(expected))
    assert losses[0] == pytest.approx(min(expected))
    assert sorted(order.tolist()) == [0, 1, 2, 3]


def test_groups_of_one_feature_leave_as_features(rng):
    X, U = rng.normal(size=(40, 7)), rng.normal(size=(40, 2))
    G, B = X.T @ X, X.T @ U
    features, losses = ridge_order(G, B, 1.0, 40)
    groups, of_groups = ridge_order(G, B, 1.0, 40, np.arange(7))
    assert_array_equal(features, groups)
    assert_allclose(losses, of_groups)


# Commands --------------------------------------------------------------------------------


def run(*words):
    result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_commands_read_categories(rng, tmp_path):
    table, y = clinic(rng)
    codes = table["colour"].map({"red": 2, "green": 1, "blue": 4, "grey": 3})
    path = tmp_path / "clinic.csv"
    table.assign(colour=codes, outcome=y).to_csv(path, index=False)
    words = path, "--target", "outcome", "--category", "colour", "--json"
    tested = json.loads(run("test", *words))["selected"]
    assert tested[0]["name"] == "colour"
    assert tested[0]["mean"] is None  # a mean of codes has no meaning
    p = {feature["name"]: feature["p"] for feature in tested}
    tests = dhsic.test_features(table, y)
    assert_allclose([p[name] for name in COLUMNS], tests.p_values, rtol=1e-6)
    kinds = {feature["name"]: feature["kind"] for feature in tested}
    assert [kinds[name] for name in COLUMNS] == tests.kinds.tolist()
    selected = json.loads(run("select", *words, "-n", 2))["selected"]
    assert selected[0]["name"] == "colour"
    assert "6" in run("plan", path, "--target", "outcome")
