"""Pairs: shares as plain loops give them, however the scan is cut; laws; what does not fit."""

import json
import re
import warnings

import naive
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import QUICK, SIMULATE, run
from hypothesis import assume, given
from hypothesis import strategies as st
from naive_interactions import effects, shares
from scipy import stats
from scipy.stats import f as fisher
from sklearn.preprocessing import scale
from strategies import matrices

import dhsic
from dhsic import interactions
from dhsic.errors import CheckpointError, InputError, MemoryBudgetError
from dhsic.interactions import PairTest, anova, find_pairs
from dhsic.kernels import Polynomial
from dhsic.pairs import scan, tiles
from dhsic.pairs.pair_set import PairSet
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

FEW = {"n_pairs": 1000, "n_permutations": 0}


def table(found):
    pairs = zip(found["first"].to_numpy(), found["second"].to_numpy(), strict=True)
    return {(int(j), int(k)): s for (j, k), s in zip(pairs, found["share"].to_numpy(), strict=True)}


def indicators(y):
    return [[float(v == c) for v in y] for c in sorted(set(y))]


@pytest.fixture
def untidy(rng):
    """Rare variants, genotypes with gaps, copies, a constant, and one of a pair that acts."""
    m = 90
    X = rng.standard_normal((m, 13))
    X[:, 4:8] = rng.integers(0, 3, (m, 4))
    X[rng.random(m) < 0.1, 4] = np.nan
    X[:, 8], X[:, 9] = X[:, 0], X[:, 1] + 0.2 * X[:, 9]
    X[:, 10:12] = rng.random((m, 2)) < 0.03
    X[:, 12] = 5.0
    y = 1.5 * X[:, 3] * X[:, 5] + X[:, 2] + rng.standard_normal(m)
    return X, y


@pytest.mark.parametrize("kind", ["real", "two", "four"])
@pytest.mark.parametrize("q", [0, 2])
def test_shares_are_those_of_plain_loops(untidy, rng, kind, q):
    X, y = untidy
    C = rng.standard_normal((len(y), q))
    labels = {"real": y, "two": (y > 0).astype(int), "four": np.digitize(y, [-1, 0, 1])}[kind]
    Y = [y.tolist()] if kind == "real" else indicators(labels.tolist())

    found = find_pairs(X, labels, covariates=C if q else None, **FEW)

    expected = shares(X.T.tolist(), Y, C.T.tolist())
    assert table(found) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.attrs["n_pairs"] == 66
    assert (0, 8) not in expected
    assert np.all(np.diff(found["share"]) <= 0)


@given(X=matrices(samples=(12, 14), features=(2, 6), missing=True), seed=st.integers(0, 99))
def test_any_data_are_as_plain_loops(X, seed):
    y = np.random.default_rng(seed).standard_normal(len(X))

    found = find_pairs(X, y, missing_code=None, **FEW)

    assert table(found) == pytest.approx(shares(X.T.tolist(), [y.tolist()]), rel=1e-6, abs=1e-9)


def test_p_value_is_that_of_the_product_in_a_linear_model(untidy):
    X, y = untidy
    j, k, m = 3, 6, len(y)
    both = np.column_stack([np.ones(m), X[:, j], X[:, k]])
    whole = np.column_stack([both, X[:, j] * X[:, k]])
    small, large = (np.linalg.lstsq(A, y)[1][0] for A in (both, whole))

    found = find_pairs(X, y, **FEW).to_dataframe().set_index(["first", "second"]).loc[j, k]

    assert found["share_before"] == pytest.approx((small - large) / small)
    share = found["share"]
    expected = fisher.sf(share / (1 - share) * (m - 4), 1, m - 4)
    assert share <= found["share_before"]
    assert found["p_value"] == pytest.approx(expected)


def test_coding_of_features_changes_nothing(untidy):
    X, y = untidy
    coded = X * np.linspace(-3, 7.3, X.shape[1]) + 100

    assert table(find_pairs(coded, y, **FEW)) == pytest.approx(
        table(find_pairs(X, y, **FEW)), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("runs", [1, 3, 13])
@pytest.mark.parametrize("screens", [False, True])
def test_however_it_is_cut_the_same_bits_are_found(untidy, monkeypatch, runs, screens):
    X, y = untidy
    n = 2 if screens else 20
    monkeypatch.setattr(scan, "EXPECTED", 1)
    few = {"n_pairs": n, "n_permutations": 20}
    expected = find_pairs(X, y, **few)
    monkeypatch.setattr(tiles, "FEWEST_RUNS", runs)
    monkeypatch.setattr(tiles, "STRIP_ENTRIES", 40)
    monkeypatch.setattr(tiles, "ROW_ENTRIES", 300)
    if screens:
        monkeypatch.setattr(scan, "FEW_PAIRS", 0)
        monkeypatch.setattr(scan, "MOST_SCREENED", 1.0)

    found = find_pairs(X, y, **few)

    for name in ("first", "second", "share", "linkage", "p_value"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_screen_finds_what_going_through_all_finds(rng, monkeypatch):
    X = rng.integers(0, 3, (150, 60))
    X[:, 50:] = rng.random((150, 10)) < 0.05
    y = X[:, 3] * X[:, 8] + X[:, 20] * 2 + rng.standard_normal(150)
    monkeypatch.setattr(scan, "EXPECTED", 10)
    few = {"n_pairs": 5, "n_permutations": 20}
    whole = find_pairs(X, y, **few)
    monkeypatch.setattr(scan, "FEW_PAIRS", 0)
    monkeypatch.setattr(scan, "MOST_SCREENED", 0.1)

    found = find_pairs(X, y, **few)

    np.testing.assert_array_equal(found["share"], whole["share"])
    assert table(found) == table(whole)
    assert found.attrs["n_judged"] < found.attrs["n_pairs"] / 2
    assert "n_audited" not in whole.attrs
    assert found.attrs["n_audited"] >= 5
    assert found.attrs["n_lost"] == 0


def test_same_bits_on_threads_stores_and_a_cluster(untidy, tmp_path, client):
    X, y = untidy
    store = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(90, 5), dtype="float64")
    store[:] = X
    expected = find_pairs(X, y, n_pairs=30, n_permutations=20)

    at = {"data": str(tmp_path / "x.zarr"), "target": y, "n_pairs": 30, "sample_dim": 0}
    at["n_permutations"] = 20
    found = [
        find_pairs(X, y, n_pairs=30, n_permutations=20, runtime=Threads(3)),
        find_pairs(**at),
        find_pairs(**at, runtime=DaskRuntime(client)),
    ]

    for each in found:
        assert each.equals(expected)
        assert each.attrs["threshold"] == expected.attrs["threshold"]


def test_main_effects_of_a_selection_are_taken_out(rng):
    X = rng.standard_normal((300, 40))
    y = 3 * X[:, :5].sum(axis=1) + X[:, 7] * X[:, 9] + X[:, 0] * X[:, 11]
    y += rng.standard_normal(300)
    selection = dhsic.select(X, y, n_features_to_select=5, interactions=None)
    frame = pd.DataFrame(X, columns=[f"g{i}" for i in range(40)])

    without = find_pairs(X, y, n_pairs=2)
    found = find_pairs(X, y, n_pairs=2, selection=selection)
    named = find_pairs(frame, y, n_pairs=2, selection=[f"g{i}" for i in range(5)])

    assert set(table(found)) == {(7, 9), (0, 11)}
    assert found["family_wise"].max() < 1e-6 < without["family_wise"].max()
    assert set(named["second_feature"].to_numpy()) == {"g9", "g11"}
    np.testing.assert_allclose(named["share"], found["share"])
    expected = shares(X[:, [7, 9]].T.tolist(), [y.tolist()], X[:, :5].T.tolist())
    assert found["share"][list(table(found)).index((7, 9))] == pytest.approx(expected[0, 1])


@pytest.mark.parametrize("functions", [1, 2])
def test_covariates_and_main_effects_are_taken_out_together(functions, rng):
    """Whatever the covariates are to each other: alike, one of them constant, one twice."""
    X = rng.standard_normal((200, 12))
    age = rng.standard_normal(200)
    C = np.column_stack([age, age + 0.3 * rng.standard_normal(200), np.ones(200), 50 + 2 * age])
    y = 3 * age + X[:, 0] + X[:, 1] + X[:, 4] * X[:, 7] + rng.standard_normal(200)
    asked = {"n_pairs": 5, "n_permutations": 0, "functions": functions}

    found = find_pairs(X, y, selection=[0, 1], covariates=C, **asked)
    expected = find_pairs(X, y, covariates=np.column_stack([C, X[:, :2]]), **asked)

    assert [*table(found)] == [*table(expected)]
    np.testing.assert_allclose(found["share"], expected["share"], rtol=1e-8)
    if functions == 1:
        j, k = next(iter(table(found)))
        taken = [*C[:, :2].T.tolist(), *X[:, :2].T.tolist()]
        plain = shares(X[:, [j, k]].T.tolist(), [y.tolist()], taken)
        assert found["share"][0] == pytest.approx(plain[0, 1])


def of_names(names, seed=0):
    X = np.random.default_rng(seed).standard_normal((80, len(names)))
    return pd.DataFrame(X, columns=names)


def with_repeats(frame):
    """A frame whose names may repeat, as an array that has them."""
    return xr.DataArray(frame.to_numpy(), {"gene": frame.columns.to_numpy()}, ("cell", "gene"))


@pytest.mark.parametrize("filters", [None, dhsic.Filters(exclude=["g0", "g1"])])
def test_features_of_a_selection_are_found_by_name(filters):
    frame = of_names([f"g{j}" for j in range(12)])
    y = frame["g3"] + 2 * frame["g8"] + 0.1 * frame["g5"] * frame["g6"]
    selection = dhsic.select(frame, y, n_features_to_select=2, filters=filters)
    turned = frame.iloc[:, ::-1]
    more = pd.concat([of_names(["new", "twice", "twice"], seed=1), turned], axis=1)

    expected = find_pairs(frame, y, n_pairs=1, selection=["g3", "g8"], n_permutations=0)
    for data in (frame, turned, with_repeats(more), frame[["g8", "g6", "g3", "g5"]]):
        found = find_pairs(data, y, n_pairs=1, selection=selection, n_permutations=0)
        assert {found["first_feature"].item(), found["second_feature"].item()} == {"g5", "g6"}
        np.testing.assert_allclose(found["share"], expected["share"])
        terms = interactions.shares(data, y, selection)
        assert {*terms["first_feature"].to_numpy()} == {"g3", "g8"}
    by_place = find_pairs(frame.to_numpy(), y, n_pairs=1, selection=selection, n_permutations=0)
    np.testing.assert_allclose(by_place["share"], expected["share"])
    with pytest.raises(InputError, match="has 12 features, but the data have 11"):
        find_pairs(frame.to_numpy()[:, 1:], y, selection=selection)


def test_features_of_a_selection_that_have_no_name_of_their_own_are_refused():
    frame = of_names([f"g{j}" for j in range(6)])
    y = frame["g3"] + frame["g4"] + np.random.default_rng(1).standard_normal(80)
    selection = dhsic.select(frame, y, n_features_to_select=2)

    with pytest.raises(InputError, match=r"The 2 features.*: 1 missing \(g4\)\. Pass"):
        find_pairs(frame.rename(columns={"g4": "other"}), y, selection=selection)
    twice = with_repeats(frame.rename(columns={"g0": "g4"}))
    with pytest.raises(InputError, match=r": 1 repeated \(g4\)\. Pass"):
        interactions.shares(twice, y, selection)
    with pytest.raises(InputError, match=r"more than once in X \(g4\)"):
        find_pairs(twice, y, selection=["g3", "g4"])
    same = dhsic.select(twice, y, n_features_to_select=2)  # alike in all, so nothing is in doubt
    found = find_pairs(twice, y, n_pairs=1, selection=same, n_permutations=0)
    assert found.attrs["n_main_effects"] == 2
    with pytest.raises(InputError, match=r": 1 repeated \(g4\)\. Pass"):
        find_pairs(twice[:, ::-1], y, selection=same)


def test_rates_are_those_of_the_fitted_law(untidy):
    X, y = untidy

    found = find_pairs(X, y, n_pairs=1000)

    law = scan.Null(found.attrs["null_location"], found.attrs["null_scale"], 1.0)
    rate = law.rate(np.log(found["p_value"].to_numpy()))
    np.testing.assert_allclose(found["family_wise"], 1 - np.exp(-rate))
    n = np.arange(1, len(rate) + 1)
    expected = [min((rate[k:] / n[k:]).min(), 1.0) for k in range(len(rate))]
    np.testing.assert_allclose(found["false_discovery"], expected)
    is_beyond = found["share"] >= found.attrs["threshold"]
    np.testing.assert_array_equal(is_beyond, found["family_wise"] <= 0.05)


def test_law_of_independent_pairs_is_known(rng):
    smallest = rng.random((4000, 50)).min(axis=1)

    law = scan.Null.of(np.log(smallest), 3.0)

    assert law.location == pytest.approx(np.log(50), abs=0.1)
    assert law.scale == pytest.approx(1, abs=0.05)
    assert law.family_wise(np.log([0.05 / 150]))[0] == pytest.approx(0.05, abs=0.01)
    assert law.family_wise(np.array([law.log_p_at(0.1)]))[0] == pytest.approx(0.1)


@pytest.mark.filterwarnings("ignore:1 value of y lies extremely far")
def test_a_law_tells_no_more_than_a_pair_alone_nor_than_permutations(rng):
    """A family of one pair has its p-value; where few samples decide, nothing is extrapolated."""
    p = np.array([1e-50, 1e-6, 0.2])
    alone = scan.Null(-2.0, 0.5, 1.0, 100)
    np.testing.assert_allclose(alone.family_wise(np.log(p)), p)
    assert alone.log_p_at(0.05) == pytest.approx(np.log(0.05))
    heavy = scan.Null(1.0, scan.HEAVY + 0.1, 1.0, 99)
    assert heavy.family_wise(np.log(p))[0] == pytest.approx(0.01)

    X, y = rng.integers(0, 3, (300, 20)).astype(float), rng.standard_normal(300)
    X[:, :8] = rng.random((300, 8)) < 0.03
    X[0, :2], y[0] = 1, 1e6  # a slip of the pen, of who carries two rare variants
    with pytest.warns(UserWarning, match=r"at least 1/101, .* typing errors"):
        found = find_pairs(X, y, n_pairs=3)
    assert found["family_wise"].to_numpy().min() >= 1 / 101 - 1e-12


def test_some_are_permuted_of_many_features(rng, monkeypatch):
    monkeypatch.setattr(scan, "MOST_PERMUTED", 60)
    monkeypatch.setattr(scan, "PERMUTED_RUNS", 6)
    X, y = rng.standard_normal((60, 200)), rng.standard_normal(60)

    found = find_pairs(X, y, n_pairs=1)

    assert found.attrs["n_pairs_permuted"] == 60 * 59 // 2
    assert found.attrs["n_pairs"] == 200 * 199 // 2
    assert found["family_wise"][0] > 0.01


def test_heavy_tails_are_told_of(rng):
    X = rng.integers(0, 2, (80, 60)) * (rng.random((80, 60)) < 0.4)

    with pytest.warns(UserWarning, match="ranks or logarithms"):
        find_pairs(X, rng.standard_cauchy(80), n_pairs=1, least=0.1, n_permutations=40)


def test_a_class_of_one_sample_and_labels_that_a_feature_explains(rng):
    X = rng.standard_normal((40, 6))
    names = np.array(["a"] * 20 + ["b"] * 19 + ["c"])
    Y = indicators(names.tolist())
    assert table(find_pairs(X, names, **FEW)) == pytest.approx(
        shares(X.T.tolist(), Y), rel=1e-9, abs=1e-12
    )

    X[:, 2] = np.arange(40) % 2
    found = find_pairs(X, np.arange(40) % 2, **FEW)

    assert max(s for (j, k), s in table(found).items() if 2 in (j, k)) < 1e-6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_pairs": 0}, "n_pairs=0; pass a whole number from 1"),
        ({"n_permutations": 5}, "n_permutations=5; pass a whole number from 20"),
        ({"alpha": 2}, "alpha=2; pass a number between 0 and 1"),
        ({"least": 0}, "least=0; pass a number between 0 and 1"),
        ({"missing": "x"}, "missing='x' is unknown"),
        ({"missing": "error"}, "9 values are missing|values are missing in"),
        ({"selection": [99]}, "pass positions from 0 to 12"),
        ({"selection": dhsic.select}, "selection|features"),
        (
            {"covariates": np.random.default_rng(0).random((90, 87))},
            "no degrees of freedom are",
        ),
    ],
)
def test_what_does_not_fit_is_refused(untidy, options, sentence):
    X, y = untidy
    with pytest.raises(InputError, match=sentence):
        find_pairs(X, y, **options)


def test_labels_that_nothing_is_left_of(untidy):
    X, y = untidy
    with pytest.raises(InputError, match="Nothing is left of the labels"):
        find_pairs(X, y, covariates=y[:, None])
    with pytest.raises(InputError, match="90 samples"):
        find_pairs(X, y[:50])


class StoppedError(Exception):
    """What ends a scan in a test."""


def test_a_scan_that_is_stopped_goes_on_to_the_same_bits(untidy, tmp_path, monkeypatch):
    X, y = untidy
    monkeypatch.setattr(scan, "TILES", 2)
    asked = {"n_pairs": 30, "n_permutations": 20}
    expected = find_pairs(X, y, **asked)
    over, seen = tiles.Scan.over, []

    def stop(self, blocks, m):
        seen.append(1)
        if len(seen) == 8:
            raise StoppedError
        return over(self, blocks, m)

    monkeypatch.setattr(tiles.Scan, "over", stop)
    with pytest.raises(StoppedError):
        find_pairs(X, y, **asked, checkpoint=tmp_path / "run", runtime=Threads(1))
    assert len(list((tmp_path / "run/tiles").iterdir())) == 3
    monkeypatch.setattr(tiles.Largest, "over", None)  # what was permuted is kept too

    found = find_pairs(X, y, **asked, checkpoint=tmp_path / "run", runtime=Threads(1))

    assert found.identical(expected)
    assert len(seen) == 8 + 21 - 6
    again = find_pairs(X, y, **asked, checkpoint=tmp_path / "run")
    assert again.identical(expected)
    assert len(seen) == 8 + 21 - 6


def test_damaged_findings_are_made_again(untidy, tmp_path, monkeypatch):
    X, y = untidy
    monkeypatch.setattr(scan, "TILES", 2)
    asked = {"n_pairs": 30, "n_permutations": 20, "checkpoint": tmp_path / "run"}
    expected = find_pairs(X, y, **asked)
    for name in ("null", "tiles/000002"):
        data = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_bytes(data[:-40] + data[-39:] + b"x")

    assert find_pairs(X, y, **asked).identical(expected)


def test_checkpoints_of_something_else_are_refused(untidy, tmp_path):
    X, y = untidy
    kept = {"n_permutations": 0, "checkpoint": tmp_path / "run"}
    find_pairs(X, y, n_pairs=3, **kept)
    other = X.copy()
    other[3, 3] += 1e-9

    with pytest.raises(CheckpointError, match="n_pairs is 3 in the checkpoint and 4 here"):
        find_pairs(X, y, n_pairs=4, **kept)
    with pytest.raises(CheckpointError, match=r"other data|values of the data have changed"):
        find_pairs(other, y, n_pairs=3, **kept)
    with pytest.raises(CheckpointError, match="labels differ"):
        find_pairs(X, y + X[:, 1], n_pairs=3, **kept)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").touch()
    with pytest.raises(CheckpointError, match=r"contains other files \(notes.txt\)"):
        find_pairs(X, y, checkpoint=tmp_path / "full")
    with pytest.raises(CheckpointError, match="other parameters"):
        dhsic.select(X, y, n_features_to_select=5, checkpoint=tmp_path / "run")


@pytest.mark.filterwarnings("ignore:Shares of all pairs")
def test_on_the_command_line(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, *SIMULATE, "--trait", "quantitative")
    asked = (store, "--target", "sample_trait", "-n", "3", "--permutations", "20")
    y = dhsic.read_target(str(store), "sample_trait")

    result = run("pairs", *asked, "--json", "--threads", "2", "--out", tmp_path / "p.tsv")

    told = json.loads(result.stdout)
    expected = find_pairs(str(store), y, n_pairs=3, n_permutations=20)
    assert [pair["first"] for pair in told["pairs"]] == expected["first"].values.tolist()
    assert [pair["share"] for pair in told["pairs"]] == expected["share"].values.tolist()
    assert told["threshold"] == expected.attrs["threshold"]
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    np.testing.assert_allclose(table["p_value"], expected["p_value"])
    assert run("pairs", *asked, "--out", tmp_path / "p.tsv", code=2).stderr.count("exists already")
    assert "in .tsv or .csv" in " ".join(
        run("pairs", *asked, "--out", "p.x", code=2).stderr.split()
    )


def test_a_selection_on_the_command_line(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, *SIMULATE)
    run("select", store, *QUICK, "--out", tmp_path / "best.zarr")

    asked = ("--target", "sample_trait", "-n", "2", "--selection", tmp_path / "best.zarr")
    result = run("pairs", store, *asked, "--permutations", "0")

    assert len(result.stdout.splitlines()) == 3
    assert "first_name" in result.stdout
    assert " pairs scanned in " in " ".join(result.stderr.split())
    result = run("pairs", store, *asked, "--shares", "--out", tmp_path / "shares.tsv")
    assert len(result.stdout.splitlines()) == 3
    assert "main effects" in " ".join(result.stderr.split())
    shared = pd.read_csv(tmp_path / "shares.tsv", sep="\t")
    assert (shared["second"] < 0).sum() == dhsic.load(tmp_path / "best.zarr")["selected"].sum()
    told = json.loads(run("pairs", store, *asked, "--shares", "--json").stdout)
    assert sum(row["share"] for row in told["shares"]) == pytest.approx(1 - told["higher_order"])
    assert "--selection" in run("pairs", store, *asked[:2], "--shares", code=2).stderr


def test_what_was_planted_is_found_and_told(tmp_path):
    store, planted = tmp_path / "g.vcz", ("--samples", "300", "--variants", "400")
    run("simulate", store, *planted, "--causal", "2", "--pairs", "1", "--trait", "quantitative")
    with (tmp_path / "g.truth.tsv").open() as file:
        pair = [line.split("\t")[:2] for line in file if "\tpair\t" in line]

    asked = ("--target", "sample_trait", "-n", "3", "--permutations", "0")
    result = run("pairs", store, *asked, "--truth", tmp_path / "g.truth.tsv")

    first, second = (name for _, name in sorted(pair, key=lambda row: int(row[0])))
    assert f"found 1 of 1 planted pair: {first} and {second}" in " ".join(result.stderr.split())


def test_a_forecast_counts_what_a_scan_does(rng, monkeypatch):
    seen = []
    over = tiles.Scan.over

    def count(self, blocks, m):
        seen.append(1)
        return over(self, blocks, m)

    monkeypatch.setattr(tiles.Scan, "over", count)
    X, y = rng.standard_normal((40, 100)), rng.standard_normal(40)
    find_pairs(X, y, n_permutations=0)
    test = PairTest(n_permutations=20)

    told = test.forecast(dhsic.open_source(X), 40, (1, 1), 2, PairSet.of_all(np.arange(100)))

    assert told.n_tiles == len(seen)
    assert told.n_pairs == 4950
    assert told.flops == 2 * 40 * 4950 * 6
    assert told.permuted_flops == 2 * 40 * 4950 * 26
    assert told.seconds(1e9, 1e9, 10) < told.seconds(1e9, 1e9, 1)


def test_what_does_not_fit_in_memory_is_refused(untidy):
    X, y = untidy
    with pytest.raises(MemoryBudgetError, match=r"A scan of pairs needs .* use fewer threads"):
        find_pairs(X, y, memory_limit=10_000_000)


def test_a_plan_on_the_command_line(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, *SIMULATE)

    asked = ("pairs", store, "--target", "sample_trait", "--plan")
    result = run(*asked)
    told = json.loads(run(*asked, "--json").stdout)

    assert "719,400 in 21 tiles" in result.stdout
    assert "flops" in result.stdout
    assert told["n_pairs"] == 719_400
    assert told["flops"] == 2 * 60 * 719_400 * 6
    assert "A scan of pairs needs" in run(*asked, "--memory", "10MB", code=5).stderr


def test_nothing_is_advised_that_the_command_does_not_have(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, *SIMULATE)

    said = run("pairs", store, code=2).stderr + run("pairs", "--help").stdout
    assert "Missing option '--target'" in said
    assert "--groups" not in said
    assert "--per-target" not in said


KINDS = {"gaussian": {}, "polynomial": {"degree": 2}, "cubic": {"degree": 3, "offset": 0.5}}


@given(
    X=matrices(samples=(8, 10), features=(1, 4)),
    seed=st.integers(0, 99),
    kind=st.sampled_from(sorted(KINDS)),
    statistic=st.sampled_from(["unbiased", "biased"]),
)
def test_shares_of_a_kernel_are_those_of_plain_loops(X, seed, kind, statistic):
    y, p = np.random.default_rng(seed).standard_normal(len(X)), X.shape[1]
    assume(np.ptp(X, axis=0).all())
    kernel = "gaussian" if kind == "gaussian" else Polynomial(**KINDS[kind])
    L = naive.label_gram(y.tolist(), "gaussian")
    columns = list(zip(*naive.standardise(X.tolist()), strict=True))
    hsic, of = effects(columns, lambda K: naive.hsic(K, L, statistic), 0.5 / p, **KINDS[kind])

    asked = {"kernel": kernel, "statistic": statistic, "standardize": True, "missing_code": None}
    if hsic <= 1e-9:
        return
    found = interactions.shares(X, y, range(p), **asked)

    assert found.attrs["hsic"] == pytest.approx(hsic, rel=1e-9)
    pairs = zip(found["first"].to_numpy(), found["second"].to_numpy(), strict=True)
    told = {(j,) if k < 0 else (j, k): v for (j, k), v in
            zip(pairs, found["hsic"].to_numpy(), strict=True)}  # fmt: skip
    assert told == pytest.approx(of, rel=1e-7, abs=1e-9 * hsic)
    parts = [found.attrs[name] for name in ("main_effects", "pairs", "higher_order")]
    assert sum(parts) == pytest.approx(1)
    if p < 3:
        assert parts[2] == pytest.approx(0, abs=1e-7)


def test_what_acts_alone_and_what_together_is_told(rng, monkeypatch):
    X = rng.standard_normal((300, 12))
    y = X[:, 1] + 2 * X[:, 3] * X[:, 8] + rng.standard_normal(300)
    selection = dhsic.select(X, y, n_features_to_select=4, kernel="polynomial")

    found = interactions.shares(X, y, selection)

    assert found.attrs["kernel"] == "polynomial"
    assert {1, 3, 8} < {*found["first"].values.tolist()}
    best = zip(found["first"].values[:3].tolist(), found["second"].values[:3].tolist(), strict=True)
    assert {(1, -1), (3, 8)} < {*best}
    monkeypatch.setattr(anova, "AT_ONCE", 300 * 7)  # the same by strips
    again = interactions.shares(X, y, selection)
    np.testing.assert_allclose(again["share"], found["share"], rtol=1e-9, atol=1e-12)
    additive = interactions.shares(X, y, [1, 3], kernel="linear", label_kernel="linear")
    alone = [
        dhsic.hsic(scale(X[:, [j]]), y, kernel="linear", label_kernel="linear") for j in (1, 3)
    ]
    np.testing.assert_allclose(np.sort(additive["hsic"][:2]), np.sort(alone))
    assert additive.attrs["pairs"] == 0


@pytest.mark.parametrize(
    ("selection", "options", "sentence"),
    [
        ([], {}, "features have shape|feature in selection="),
        ([1, 2], {"kernel": "ridge"}, "cannot be decomposed into terms"),
        ([1, 2], {"kernel": "linear", "bandwidth": "median"}, "has no width"),
        ([1, 99], {}, "pass positions from 0 to 12"),
        ([12], {}, "constant|vary"),
        ([0, 1], {"memory_limit": 1000}, "peak memory"),
    ],
)
def test_shares_that_cannot_be_told_are_refused(untidy, selection, options, sentence):
    X, y = untidy
    with pytest.raises((InputError, MemoryBudgetError), match=sentence):
        interactions.shares(X, y, selection, **options)


def of_two_populations(rng, m=400, d=300):
    """Genotypes of two populations, and labels that follow these and a pair."""
    population = rng.integers(0, 2, m)
    first = rng.uniform(0.1, 0.9, d)
    second = np.clip(first + rng.normal(0, 0.15, d), 0.02, 0.98)
    X = rng.binomial(2, np.where(population[:, None] == 1, first, second)).astype("i1")
    pair = (X[:, 3] - X[:, 3].mean()) * (X[:, 4] - X[:, 4].mean())
    return X, population + 0.8 * pair + 0.5 * rng.standard_normal(m)


@pytest.mark.filterwarnings("ignore:Shares of all pairs")
def test_labels_that_follow_populations_are_told_and_components_help(rng):
    X, y = of_two_populations(rng)
    with pytest.warns(UserWarning, match=r"by chance \(lambda [3-9].* see dhsic\.pca"):
        find_pairs(X, y, n_pairs=1, n_permutations=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = find_pairs(X, y, n_pairs=1, n_permutations=20, covariates=dhsic.pca(X, 2))
    assert sorted([found["first"].item(), found["second"].item()]) == [3, 4]


def test_the_inflation_of_single_features_is_that_of_chi_squares(rng):
    X, y = of_two_populations(rng, d=220)
    y = y - y.mean()
    Z = X - X.mean(axis=0)
    r2 = (Z.T @ y) ** 2 / ((Z**2).sum(axis=0) * (y @ y))
    with pytest.warns(UserWarning, match="lambda") as told:
        find_pairs(X, y, n_pairs=1, n_permutations=20)
    said = float(re.search(r"lambda ([\d.]+)\)", str(told[-1].message))[1])
    assert said == pytest.approx(np.median(399 * r2) / stats.chi2.median(1), abs=0.06)
