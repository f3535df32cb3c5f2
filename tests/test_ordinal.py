"""Ordinal labels and labels by ranks, with every method, command and form of labels."""

import json
import pickle
import re
import shutil

import naive_ordinal as naive
import numpy as np
import pandas as pd
import polars as pl
import pytest
from commands import SIMULATE, run, told
from numpy.testing import assert_allclose, assert_array_equal
from stores import write_anndata, write_matrix

import dhsic
from dhsic.detached.folder import arrays_of, plain_request, request_of
from dhsic.errors import InputError
from dhsic.interactions import find_pairs
from dhsic.joins.label_description import LabelDescription
from dhsic.kernels import Spectrum
from dhsic.kernels.labels import label_matrix, target_kernels
from dhsic.kernels.ordinal import Level, is_ordinal, levels_of, rank_scores
from dhsic.selection.cross_validation import rank_correlation
from dhsic.selection.request import Request

M, D = 120, 30
NAMES = ["low", "mild", "moderate", "severe"]
FEW = {"n_features_to_select": 2, "progress": False, "interactions": None}


def categories(codes):
    return pd.Categorical.from_codes(codes, NAMES, ordered=True)


@pytest.fixture(scope="module")
def data():
    """Features; a latent value that follows feature 4 and the product of 7 and 9; its grades."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((M, D))
    z = 1.2 * X[:, 4] + 1.5 * X[:, 7] * X[:, 9] + 0.7 * rng.standard_normal(M)
    return X, z, np.digitize(z, [-1.2, 0.2, 1.5])


# Definitions ------------------------------------------------------------------------


@pytest.mark.parametrize("n_levels", [3, 5, 40])
def test_scores_and_kernels_are_as_defined(n_levels):
    y = np.random.default_rng(2).integers(0, n_levels, 40).astype(float)
    assert_allclose(rank_scores(y), naive.normal_scores(y.tolist()), atol=1e-12)
    for kernel in ("ordinal", "rank"):
        L = label_matrix(y, kernel)
        assert L.description == kernel
        assert_allclose(L.L, naive.label_kernel(y.tolist()), atol=1e-9)


def test_only_the_order_of_the_values_matters():
    y = np.random.default_rng(3).standard_normal(60)
    changed = np.append(np.exp(5 * y[:-1]), 1e12 if y[-1] == y.max() else np.exp(5 * y[-1]))
    for kernel in ("ordinal", "rank"):
        assert_array_equal(label_matrix(y, kernel).L, label_matrix(changed, kernel).L)


def test_the_rank_correlation_is_as_defined():
    rng = np.random.default_rng(4)
    y, z = rng.integers(0, 4, 50), rng.standard_normal(50).round(1)
    assert np.isclose(rank_correlation(y, z), naive.rank_correlation(y.tolist(), z.tolist()))
    assert rank_correlation(y, np.zeros(50)) == 0.0


def test_a_trend_is_tested_as_by_a_model_of_proportional_odds():
    from scipy.stats import chi2

    rng = np.random.default_rng(5)
    x = rng.standard_normal(200)
    y = np.digitize(0.3 * x + rng.logistic(size=200), [-1.5, 0.0, 1.5])
    found = dhsic.test_features(x[:, None], y, label_kernel="ordinal").p_values[0]
    expected = chi2.sf(naive.proportional_odds(y.tolist(), x.tolist()), 1)
    assert np.isclose(np.log10(found), np.log10(expected), atol=0.5)


def test_the_level_of_the_test_holds_for_few_unequal_levels():
    rng, p = np.random.default_rng(6), []
    for _ in range(10):
        y = rng.choice(4, M, p=[0.7, 0.2, 0.07, 0.03])
        p.append(dhsic.test_features(rng.standard_normal((M, 200)), y, label_kernel="ordinal"))
    assert 0.035 < np.mean([found.p_values < 0.05 for found in p]) < 0.065


# Python -----------------------------------------------------------------------------


def test_every_form_of_ordinal_labels_gives_the_same_ranking(data):
    X, _, codes = data
    frame = pd.DataFrame(X, [f"s{i}" for i in range(M)], [f"g{i}" for i in range(D)])
    grade = pd.Series(categories(codes), frame.index, name="grade")
    first = dhsic.select(X, codes + 1, label_kernel="ordinal", **FEW)
    assert first["rank"].to_numpy()[4] == 1
    for found in (
        dhsic.select(X, categories(codes), **FEW),
        dhsic.select(frame, grade, **FEW),
        dhsic.select(frame, grade[::-1].to_frame().loc[frame.index], **FEW),
        dhsic.select(frame.assign(grade=grade), "grade", **FEW),
        dhsic.select(X, pl.Series("grade", list(grade), dtype=pl.Enum(NAMES)), **FEW),
        dhsic.select(X, categories(codes), label_kernel="rank", **FEW),
    ):
        assert_array_equal(found["score"], first["score"])
    assert found.attrs["label_kernel_used"] == "rank"


def test_ordered_categories_of_a_store(data, tmp_path):
    X, _, codes = data
    y = categories(codes)
    write_anndata(tmp_path / "x.zarr", X.astype("f4"), obs={"grade": (y, "categorical")})
    expected = dhsic.select(X.astype("f4"), y, **FEW)
    found = dhsic.select(tmp_path / "x.zarr", "grade", **FEW)
    assert_array_equal(found["score"], expected["score"])
    words = ("select", tmp_path / "x.zarr", "--target", "grade", "-n", 2, "--no-progress")
    for kernel in ("auto", "ordinal"):
        assert "4 ordered levels low (" in told(run(*words, "--label-kernel", kernel))
    assert "4 classes" in told(run(*words, "--label-kernel", "multiclass"))


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_ordered_categories_of_arrow_tables_and_of_stores_made_of_them(data, tmp_path, suffix):
    X, _, codes = data
    path, store = tmp_path / f"t.{suffix}", tmp_path / "t.zarr"
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(X.shape[1])]).assign(
        stage=categories(codes)
    )
    if suffix == "parquet":
        frame.to_parquet(path, row_group_size=20)
    else:
        frame.to_feather(path)
    expected = dhsic.test_features(X, categories(codes)).p_values
    run("convert", path, store, "--not-feature", "stage")
    frame[["stage"]].to_parquet(tmp_path / "labels.parquet")
    np.save(tmp_path / "x.npy", X)
    best = np.sort(expected)[:3]
    for where in (path, store):
        assert_array_equal(dhsic.test_features(where, "stage").p_values, expected)
        said = run("test", where, "--target", "stage", "-n", 3, "--json")
        assert_array_equal([row["p"] for row in json.loads(said.stdout)["selected"]], best)
        assert "ordered levels" in told(said)
    words = ("--labels", tmp_path / "labels.parquet", "--target", "stage", "-n", 3, "--json")
    said = run("test", tmp_path / "x.npy", *words)
    assert_array_equal([row["p"] for row in json.loads(said.stdout)["selected"]], best)


def test_two_ordered_levels_are_two_classes(data):
    y = pd.Categorical(np.where(data[1] > 0, "high", "low"), ["low", "high"], ordered=True)
    found = dhsic.select(data[0], y, **FEW)
    assert found.attrs["label_kernel_used"] == "balanced"
    assert "2 classes" in found.attrs["labels"]


def test_unordered_categories_stay_classes(data):
    found = dhsic.select(data[0], pd.Series(np.array(NAMES)[data[2]], dtype="category"), **FEW)
    assert found.attrs["label_kernel_used"] == "multiclass"


def test_missing_levels_are_refused(data):
    codes = data[2].copy()
    codes[3] = -1
    with pytest.raises(InputError, match="1 of 120 labels are missing"):
        dhsic.select(data[0], categories(codes), **FEW)


def test_several_targets_of_several_kinds(data):
    X, z, codes = data
    targets = pd.DataFrame({"grade": categories(codes), "z": z, "word": np.array(NAMES)[codes]})
    found = dhsic.select(X, targets, **FEW)
    assert found.attrs["label_kernel_used"] == "multiclass + ordinal + gaussian"
    assert found["rank"].to_numpy()[4] == 1
    each = dhsic.select(X, targets, per_target=True, **FEW)
    alone = dhsic.select(X, categories(codes), **FEW)
    assert_array_equal(each["score"].sel(targets="grade"), alone["score"])
    assert "4 ordered levels" in str(each["labels"].sel(targets="grade").item())
    by_rank = dhsic.select(X, np.column_stack([z, np.exp(z)]), label_kernel="rank", **FEW)
    assert by_rank.attrs["label_kernel_used"] == "rank"


METHODS = (
    *("bahsic", "fohsic", "ccm", "weighting", "linear", "pearson", "kta", "qmi", "ridge", "hsic"),
    *("svm-rfe", "shrunken-centroid"),
)


@pytest.mark.parametrize("method", METHODS)
def test_methods_take_ordered_levels(data, method):
    found = dhsic.select(data[0], categories(data[2]), method=method, n_features_to_select=2)
    assert 4 in np.argsort(found["rank"].to_numpy())[:2]
    assert "4 ordered levels low (" in found.attrs["labels"] or method == "svm-rfe"


def test_methods_of_two_classes_refuse_levels(data):
    with pytest.raises(InputError, match="'t' compares two classes, but y has 4"):
        dhsic.select(data[0], categories(data[2]), method="t", n_features_to_select=2)


@pytest.mark.parametrize("kernel", ["auto", "rank"])
def test_covariates_hold_out_stability_shadows_and_cross_validation(data, kernel):
    X, z, codes = data
    y = categories(codes) if kernel == "auto" else np.exp(4 * z)
    options = {**FEW, "label_kernel": kernel}
    assert dhsic.select(X, y, covariates=X[:, :2], **options)["rank"].to_numpy()[4] == 1
    assert dhsic.select(X, y, holdout=0.4, **options)["p"].to_numpy()[4] < 0.01
    assert dhsic.select(X, y, stability=4, **options)["stability"].to_numpy()[4] == 1
    assert dhsic.select(X, y, control="shadow", **options)["rank"].to_numpy()[4] == 1
    chosen = dhsic.select(X, y, **{**options, "n_features_to_select": "auto"})
    assert 0.3 < max(json.loads(chosen.attrs["cv_results"])["mean_test_score"]) < 1.0


def test_estimators_of_cross_validation_get_positions(data):
    from sklearn.linear_model import LogisticRegression

    model = dhsic.BAHSICCV(LogisticRegression(), n_features=[1, 2], cv=3, progress=False)
    model.fit(data[0], categories(data[2]))
    assert model.get_support()[4]


def test_classes_of_levels_are_selected_for_one_by_one(data):
    found = dhsic.select(data[0], categories(data[2]), per_class=True, **FEW)
    assert sorted(found["classes"].to_numpy().tolist()) == sorted(NAMES)


def test_pairs_are_tested_against_scores(data):
    X, z, codes = data
    for y, kernel in ((categories(codes), "auto"), (codes, "ordinal"), (np.exp(4 * z), "rank")):
        found = find_pairs(X, y, n_pairs=1, n_permutations=20, label_kernel=kernel)
        assert (found["first"].item(), found["second"].item()) == (7, 9)
        assert found.attrs["label_columns"] == 1
        assert found.attrs["labels"]


def test_heavy_tails_hide_a_feature_from_values_and_not_from_ranks():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((200, 100))
    y = np.exp(3 * (0.8 * X[:, 4] + rng.standard_normal(200)))
    auto = dhsic.select(X, y, **FEW)
    by_ranks = dhsic.select(X, y, label_kernel="rank", **FEW)
    assert by_ranks["rank"].to_numpy()[4] == 1
    assert by_ranks.attrs["explained_given_others"] > 3 * max(
        auto.attrs["explained_given_others"], 0.0
    )
    assert "their heavy tails favour ranks: label_kernel='rank'" in auto.attrs["labels"]


def test_levels_are_numbers_with_a_name():
    y = levels_of(np.array([2, 0, 1, -1]), ["a", "b", "c"])
    assert not is_ordinal(y)  # one is missing
    assert is_ordinal(y[:3])
    assert pickle.loads(pickle.dumps(y[0])) == Level(2, "c")  # our own bytes
    assert target_kernels(y[:3, None]) == ["ordinal"]
    assert target_kernels(y[:2, None]) == ["balanced"]


def test_a_detached_request_keeps_the_levels(data, tmp_path):
    y = levels_of(data[2], NAMES)
    request = Request(dhsic.BAHSIC(2), str(tmp_path / "x.zarr"), y=y)
    again = request_of(plain_request(request), arrays_of(request))
    assert again.y.tolist() == request.y.tolist()
    assert list(map(str, again.y)) == list(map(str, request.y))


# What is said -----------------------------------------------------------------------


def test_labels_are_described_in_one_line(data):
    _, z, codes = data
    y = levels_of(codes, NAMES)
    sizes = " < ".join(f"{name} ({n})" for name, n in zip(NAMES, np.bincount(codes), strict=True))
    assert LabelDescription().of(y) == (
        f"4 ordered levels {sizes}, kernel 'ordinal'; if they have no order, pass --label-kernel "
        "multiclass"
    )
    assert LabelDescription("multiclass").of(y).startswith("4 classes")
    heavy = LabelDescription().of(np.exp(4 * z))
    assert heavy.endswith("; their heavy tails favour ranks: --label-kernel rank")
    assert "heavy" not in LabelDescription().of(z)
    assert "heavy" not in LabelDescription(by_ranks=True).of(np.exp(4 * z))
    assert LabelDescription("rank").of(z).endswith(", by ranks, kernel 'rank'")
    assert "(120 ordered levels), kernel 'ordinal'" in LabelDescription("ordinal").of(z)


def test_every_result_has_the_labels_in_one_line(data):
    X, z, codes = data
    y = categories(codes)
    assert "4 ordered levels" in dhsic.test_features(X, y).labels
    assert "4 ordered levels" in dhsic.test_features(X, y, features=[4]).labels
    assert "real values" in dhsic.select(X, z, **FEW).attrs["labels"]
    assert "the data are used" in dhsic.select(X, None, label_kernel="self", **FEW).attrs["labels"]
    L = dhsic.select(X, z[:, None] * z, label_kernel="precomputed", **FEW)
    assert "a precomputed label matrix" in L.attrs["labels"]


def test_functions_of_matrices_and_strings_take_levels(data):
    X, _, codes = data
    y = categories(codes)
    for function in (dhsic.hsic, dhsic.hsic_test):
        by_name, by_number = (
            function(X[:, :5], labels, label_kernel="ordinal") for labels in (y, codes)
        )
        assert function(X[:, :5], y) == by_name == by_number
    strings = ["ab" * (code + 1) for code in codes]
    found = dhsic.rank_substrings(Spectrum(2), strings, y)
    expected = dhsic.rank_substrings(Spectrum(2), strings, codes, label_kernel="ordinal")
    assert_array_equal(found.scores, expected.scores)


def test_two_names_need_no_order(data):
    for y in (data[1] > 0, np.where(data[1] > 0, "high", "low")):
        found = dhsic.select(data[0], y, label_kernel="ordinal", **FEW)
        assert found.attrs["label_kernel_used"] == "balanced"
        assert_array_equal(found["score"], dhsic.select(data[0], y, **FEW)["score"])
        chosen = {**FEW, "n_features_to_select": "auto", "label_kernel": "ordinal"}
        assert dhsic.select(data[0], y, **chosen)["rank"].to_numpy()[4] == 1


def test_text_needs_an_order(data):
    words = np.array(NAMES)[data[2]]
    with pytest.raises(InputError, match="needs an order") as caught:
        dhsic.select(data[0], words, label_kernel="ordinal", **FEW)
    listed = re.search(r"pass (pandas\.Categorical\(y, .*?\)) \(CLI", str(caught.value))[1]
    y = eval(listed, {"pandas": pd, "y": words})  # the sentence under test
    found = dhsic.select(data[0], y, label_kernel="ordinal", **FEW)
    assert found.attrs["label_kernel_used"] == "ordinal"


# Everywhere the same ----------------------------------------------------------------


def test_threads_dask_and_a_resumed_run_give_the_same_bits(data, tmp_path):
    from distributed import Client, LocalCluster

    from dhsic.runtime.dask import DaskRuntime

    X, _, codes = data
    y, path = categories(codes), tmp_path / "x.zarr"
    write_matrix(path, X.astype(np.float32), chunks=(10, M))
    first = dhsic.select(path, y, checkpoint=tmp_path / "run", **FEW)
    again = dhsic.select(path, y, checkpoint=tmp_path / "run", **FEW)
    assert_array_equal(again["score"], first["score"])
    shutil.rmtree(tmp_path / "run")
    cluster = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with LocalCluster(**cluster, dashboard_address="127.0.0.1:0") as local, Client(local) as client:
        found = dhsic.select(path, y, runtime=DaskRuntime(client), **FEW)
    assert_array_equal(found["score"], first["score"])
    assert_array_equal(found["rank"], first["rank"])


# Command line -----------------------------------------------------------------------


@pytest.fixture
def table(data, tmp_path):
    """A table with grades as text and as numbers, and values with heavy tails."""
    X, z, codes = data
    frame = pd.DataFrame(X.round(4)).add_prefix("g")
    frame.insert(0, "sample", [f"s{i}" for i in range(M)])
    labels = pd.DataFrame({"sample": frame["sample"], "grade": np.array(NAMES)[codes]})
    labels = labels.assign(level=codes + 1, income=np.exp(4 * z).round(6))
    frame.to_csv(tmp_path / "x.csv", index=False)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path / "x.csv", "--labels", tmp_path / "labels.csv"


ORDER = ",".join(NAMES)


@pytest.mark.parametrize("command", ["select", "test", "pairs", "plan"])
def test_every_command_takes_an_order_and_says_so(command, table):
    found = run(command, *table, "--target", "grade", "--order", ORDER)
    assert "4 ordered levels low (" in " ".join((found.stderr + found.stdout).split())
    for target, kernel, said in (
        ("level", "ordinal", "4 ordered levels 1 ("),
        ("income", "rank", "by ranks"),
    ):
        found = run(command, *table, "--target", target, "--label-kernel", kernel)
        assert said in " ".join((found.stderr + found.stdout).split())


def test_inspect_describes_levels_and_heavy_tails(table, tmp_path):
    labels = pd.read_csv(table[2]).drop(columns=["sample", "grade"])
    pd.read_csv(table[0]).join(labels).to_csv(tmp_path / "all.csv", index=False)
    words = ("inspect", tmp_path / "all.csv", "--target", "level", "--target", "income")
    said = " ".join(run(*words).stdout.split())
    assert "if they are ordered levels, pass --label-kernel ordinal" in said
    assert "their heavy tails favour ranks: --label-kernel rank" in said


def test_an_order_gives_the_ranking_of_the_numbers(table):
    words = ("-n", 2, "--json", "--no-progress")
    by_name = run("select", *table, "--target", "grade", "--order", ORDER, *words)
    by_number = run("select", *table, "--target", "level", "--label-kernel", "ordinal", *words)
    first, second = (json.loads(found.stdout)["selected"] for found in (by_name, by_number))
    assert first == second


def test_targets_have_orders_of_their_own(table):
    words = ("--target", "grade", "--target", "level", "-n", 1)
    said = told(run("select", *table, *words, "--order", ORDER, code=2))
    option = re.search(r"Pass (--order) NAME=LEVELS, where NAME is one of (\w+)", said)
    order = (option[1], f"{option[2]}={ORDER}")
    assert "4 ordered levels low" in told(run("select", *table, *words, *order))
    each = run("select", *table, *words, *order, "--per-target")
    assert "4 ordered levels low" in told(each)
    assert "4 classes" in told(each)


def test_text_without_an_order_names_the_levels(table):
    words = ("select", *table, "--target", "grade", "--label-kernel", "ordinal", "-n", 1)
    said = told(run(*words, code=2))
    option = re.search(r"(--order) (\S+)$", said)
    assert "ordered levels" in told(run(*words, option[1], option[2]))


def test_levels_that_are_not_listed_are_refused(table):
    words = ("select", *table, "--target", "grade", "-n", 1)
    said = told(run(*words, "--order", "mild,moderate,severe", code=2))
    assert "Add these levels to --order" in said
    remedy = re.search(r"pass (--na .* --drop-missing)\.", said)[1].split()
    assert "3 ordered levels" in told(run(*words, "--order", "mild,moderate,severe", *remedy))
    said = told(run(*words, "--order", "mild,mild", code=2))
    assert "each once" in said


def test_an_order_and_an_event_exclude_each_other(table):
    words = ("select", *table, "--target", "level", "-n", 1)
    said = told(run(*words, "--order", "1,2,3,4", "--event", "grade", code=2))
    assert "pass only one of them" in said
    assert "4 ordered levels" in told(run(*words, "--order", "1,2,3,4"))


def test_effects_are_those_on_scores(table, tmp_path):
    words = ("--target", "income", "--label-kernel", "rank", "--effects", tmp_path / "e.tsv")
    assert "normal score of the label" in told(run("test", *table, *words))
    effects = pd.read_csv(tmp_path / "e.tsv", sep="\t")
    assert effects["P"].idxmin() == 4


def test_other_chromosomes_predict_scores(tmp_path):
    run("simulate", tmp_path / "g.vcz", *SIMULATE)
    names = dhsic.open_source(tmp_path / "g.vcz").sample_names()
    trait = dhsic.read_target(tmp_path / "g.vcz", "sample_trait")
    grade = np.array(["low", "mild", "severe"])[(trait == trait.max()) + (np.arange(M // 2) % 2)]
    pd.DataFrame({"IID": names, "grade": grade}).to_csv(tmp_path / "l.tsv", sep="\t", index=False)
    words = ("test", tmp_path / "g.vcz", "--labels", tmp_path / "l.tsv", "--target", "grade")
    words = (*words, "--order", "low,mild,severe", "--out", tmp_path / "out.tsv", "--force")
    alone = run(*words)
    assert "3 ordered levels" in told(alone)
    first = pd.read_csv(tmp_path / "out.tsv", sep="\t").set_index("index")["p"]
    run(*words, "--loco")
    second = pd.read_csv(tmp_path / "out.tsv", sep="\t").set_index("index")["p"]
    assert 0.5 < np.log(first).corr(np.log(second)) < 1.0
