"""Pairs that are scanned by default, and products of several functions of features."""

import numpy as np
import pandas as pd
import pytest
from commands import run

import dhsic
from dhsic.errors import InputError
from dhsic.interactions import find_pairs
from dhsic.linalg.rank_basis import rank_functions
from dhsic.pairs import products
from dhsic.pairs.share import Labels
from dhsic.results.schema import Order
from dhsic.results.views import pairs_of
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection import pair_order, pair_scan
from dhsic.selection.multi_output import parts


def uniform(rng, m, d):
    return rng.random((m, d)).astype(np.float32)


@pytest.fixture
def exclusive_or(rng):
    """Labels of two classes that only the two first features tell, together."""
    X = uniform(rng, 400, 300)
    return X, (X[:, 0] - 0.5) * (X[:, 1] - 0.5) > 0


@pytest.fixture
def ring(rng):
    """Labels that are a sum of two products of functions that turn, and noise."""
    X = uniform(rng, 400, 60)
    F, G = (rank_functions(X[:, j], 2) for j in (4, 9))
    return X, F[1] * G[1] + rng.standard_normal(400)


def test_an_exclusive_or_is_in_front_by_default(exclusive_or):
    X, y = exclusive_or

    result = dhsic.select(X, y, n_features_to_select=2)
    without = dhsic.select(X, y, n_features_to_select=2, interactions=None)

    assert sorted(result["rank"].values[:2]) == [1, 2]
    assert result.attrs["n_joined"] == 0
    assert result.attrs["n_selected"] == 2
    assert "interactions" not in result.attrs["asked"]
    assert "pair_first" not in without
    others = result["rank"].values > 2  # keep their order
    assert np.all(np.diff(result["rank"].values[others][np.argsort(without["rank"][others])]) > 0)


@pytest.mark.filterwarnings("ignore:Shares of all pairs")
@pytest.mark.parametrize(
    ("on_cluster", "asked"),
    [
        (True, "auto"),
        pytest.param(True, "best", marks=pytest.mark.slow),
        pytest.param(False, "auto", marks=pytest.mark.slow),
        pytest.param(False, "best", marks=pytest.mark.slow),
    ],
)
def test_each_of_several_targets_has_its_own_pairs(exclusive_or, client, on_cluster, asked):
    X, y = exclusive_or
    targets = {"both": y, "line": X[:, 7] + 0.1 * X[:, 8], "none": X[::-1, 4]}
    options = {"n_features_to_select": 2, "interactions": asked}
    runtime = DaskRuntime(client) if on_cluster else Threads(2)

    together = dhsic.select(X, targets, per_target=True, runtime=runtime, **options)

    for name, part in parts(together):
        alone = dhsic.select(X, targets[name], runtime=Threads(1), **options)
        pairs = pairs_of(part)
        np.testing.assert_array_equal(part["rank"], alone["rank"])
        assert pairs.equals(pairs_of(alone))
        assert pairs.attrs == pairs_of(alone).attrs
    if asked == "auto":
        assert sorted(together["rank"].values[0, :2]) == [1, 2]


@pytest.mark.filterwarnings("ignore:'g7' has the same values as the labels")
def test_a_target_in_the_table_is_no_feature_of_another(tmp_path, exclusive_or):
    X, y = exclusive_or
    table = pd.DataFrame(X[:, :9], columns=[f"g{j}" for j in range(9)])
    table.insert(0, "sample", [f"s{i}" for i in range(len(X))])
    table.assign(both=np.where(y, "yes", "no"), line=X[:, 7]).to_csv(
        tmp_path / "x.csv", index=False
    )
    asked = ("--target", "both", "--target", "line", "--per-target", "-n", 2, "--no-progress")

    out = run("select", tmp_path / "x.csv", *asked).stdout

    names = [line.split()[1] for line in out.splitlines() if line.split()[:1] in (["1"], ["2"])]
    assert set(names[:2]) == {"g0", "g1"}
    assert names[2] == "g7"
    assert "line" not in names
    assert "9 features" in run("select", tmp_path / "x.csv", *asked).stderr


def test_features_of_pairs_and_those_that_act_alone_share_the_front(rng):
    X = uniform(rng, 500, 200)
    u = 12**0.5 * (X - 0.5)
    y = 0.8 * u[:, 2] + u[:, 5] * u[:, 8] + 0.7 * rng.standard_normal(500)

    result = dhsic.select(X, y, n_features_to_select=3)

    assert sorted(result["rank"].values[[2, 5, 8]]) == [1, 2, 3]
    assert result["pair_with"].values[[2, 5, 8]].tolist() == [-1, 8, 5]


def test_the_same_bits_on_threads_and_resumed(exclusive_or, tmp_path):
    X, y = exclusive_or
    expected = dhsic.select(X, y, n_features_to_select=2)
    kept = {"checkpoint": tmp_path / "run", "runtime": Threads(2)}

    found = [dhsic.select(X, y, n_features_to_select=2, **kept) for _ in range(2)]

    for each in found:
        assert pairs_of(each).equals(pairs_of(expected))
        np.testing.assert_array_equal(each["rank"], expected["rank"])


@pytest.mark.parametrize(
    "options",
    [
        {"rerank": False},
        {"kernel": "linear"},
        {"feature_groups": [*"abc"] * 100},
        {"label_kernel": "self"},
        {"control": "shadow", "fdr": 0.5},
        {"method": "linear"},
        {"method": "fohsic", "n_features_to_select": 1},
    ],
)
def test_no_pair_is_scanned_by_default(exclusive_or, options):
    X, y = exclusive_or

    result = dhsic.select(X, y, **{"n_features_to_select": 2} | options)

    assert "pair_first" not in result
    assert "pairs_not_scanned" not in result.attrs


def test_too_many_pairs_are_not_scanned_and_the_result_says_so(exclusive_or, monkeypatch):
    X, y = exclusive_or
    monkeypatch.setattr(pair_scan, "MOST_FLOPS", 1e6)

    result = dhsic.select(X, y, n_features_to_select=2)
    many = dhsic.select(X, {"a": y, "b": ~y}, n_features_to_select=2, per_target=True)

    assert "pair_first" not in result
    assert result.attrs["pairs_not_scanned"].startswith("not scanned: the 44,850 pairs of 300")
    assert "pair_first" not in many


@pytest.mark.filterwarnings("ignore:Shares of all pairs")
def test_a_ring_is_found_by_functions_and_not_by_products(ring):
    X, y = ring

    one, two, four = (find_pairs(X, y, n_pairs=3, functions=n) for n in (1, 2, 4))

    assert (one["family_wise"] > 0.05).all()
    for found in (two, four):
        assert (found["first"].values[0], found["second"].values[0]) == (4, 9)
        assert found["family_wise"].values[0] < 1e-3


def test_the_share_of_functions_is_that_of_least_squares(ring):
    X, y = ring
    C = X[:, 30:32]

    found = find_pairs(X, y, n_pairs=2000, functions=2, covariates=C, n_permutations=0)

    pair = (found["first"] == 4) & (found["second"] == 9)
    F, G = (rank_functions(X[:, j], 2) for j in (4, 9))
    base = np.column_stack([np.ones(400), C, F.T, G.T])
    left = [
        column - base @ np.linalg.lstsq(base, column, rcond=None)[0] for column in (y, F[1] * G[1])
    ]
    blocks = []
    for f in F:
        for g in G:
            z = f * g - base @ np.linalg.lstsq(base, f * g, rcond=None)[0]
            blocks.append((left[0] @ z) ** 2 / (z @ z) / (left[0] @ left[0]))
    np.testing.assert_allclose(found["share"].values[pair], max(blocks), rtol=1e-4)


@pytest.mark.parametrize("t", [3, 8, 20])
def test_traces_are_those_of_labels_without_main_effects(rng, t):
    n, g, permuted, r = 5, 4, 3, 8
    along, main = 0.1 * rng.standard_normal((2, n, 8, permuted * t))
    along = along[:, :g]

    traces = products._traces(along, main, t)

    for i in range(n):
        for b in range(permuted):
            E, C = (each[i, :, b * t : (b + 1) * t] for each in (along, main))
            expected = np.trace(E @ np.linalg.inv(np.eye(t) - C.T @ C) @ E.T)
            assert len(C) == r
            np.testing.assert_allclose(traces[i, b], expected)


@pytest.mark.parametrize("classes", [2, 4, 12])
def test_p_values_of_functions_are_uniform_where_nothing_is_there(rng, classes):
    X, y = rng.standard_normal((300, 100)), rng.integers(0, classes, 300)

    found = find_pairs(X, y, n_pairs=4950, functions=4, n_permutations=0)

    p = found["p_value"].values
    for level in (0.5, 0.1, 0.01):
        error = 4 * (level * (1 - level) / p.size) ** 0.5
        assert abs((p <= level).sum() / 4950 - level) < error


def test_shares_and_p_values_of_blocks_go_back(rng):
    labels = Labels.of(rng.standard_normal((100, 1)), np.full((100, 1), 0.1), functions=4)

    for p in (0.5, 1e-3, 1e-12):
        np.testing.assert_allclose(labels.log_p(labels.share_at(p)), np.log(p), rtol=1e-4)


@pytest.mark.parametrize(
    ("p_of_1", "expected", "n_joined"),
    [
        (1e-3, [0, 4, 5, 1, 2, 3], 0),  # weaker than the pair
        (1e-5, [0, 1, 2, 4, 5, 3], 2),  # significant alone beyond doubt: main effects rank it
    ],
)
def test_pairs_go_before_features_of_less_evidence(p_of_1, expected, n_joined):
    order = Order(np.array([5, 4, 3, 2, 1, 0]), np.arange(6.0), np.ones(6, dtype=int), ())
    p = np.array([1e-9, p_of_1, 1e-20, 0.5, 0.6, 0.9])

    placed = pair_order._placed(order, np.array([[4, 5]]), np.array([np.log(1e-6)]), p, 3, 6)
    unknown = pair_order._placed(order, np.array([[4, 5]]), np.array([np.log(1e-6)]), None, 3, 6)

    assert placed.features[::-1].tolist() == expected
    assert placed.n_joined == n_joined
    assert unknown.features[::-1].tolist() == [0, 1, 2, 4, 5, 3]
    assert unknown.n_joined == 2


def test_features_that_are_significant_alone_stay_where_they_are():
    order = Order(np.array([5, 4, 3, 2, 1, 0]), np.arange(6.0), np.ones(6, dtype=int), ())
    p = np.array([1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 0.5])

    placed = pair_order._placed(order, np.array([[3, 4], [4, 5]]), np.array([-300, -200]), p, 2, 6)

    assert placed.features[::-1].tolist() == [0, 1, 5, 2, 3, 4]
    assert placed.n_joined == 1
    assert placed.extra["pair_with"][0].tolist() == [-1, -1, -1, 4, 3, 4]


def test_other_numbers_of_functions_are_refused(ring):
    with pytest.raises(InputError, match="functions=3"):
        find_pairs(*ring, functions=3)
