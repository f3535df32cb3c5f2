"""Selections with pairs: who joins is what a scan finds, and nothing else changes."""

import numpy as np
import pandas as pd
import pytest
from commands import run

import dhsic
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.interactions import find_pairs
from dhsic.pairs import scan
from dhsic.reports.html import page_of
from dhsic.results.views import pairs_of
from dhsic.runtime.threads import Threads
from dhsic.selection import pair_scan

ASKED = {"n_features_to_select": 4, "method": "linear", "interactions": "best"}


@pytest.fixture
def acting(rng):
    """Features that act alone (5, 9), a pair that acts together (3, 8), one that does not vary."""
    X = rng.integers(0, 3, (200, 60)).astype(float)
    X[:, 2] = 1.0
    X[:, 4] = X[:, 3]
    X[:20, 4] = 1.0  # in linkage
    y = X[:, 5] - X[:, 9] + 1.5 * (X[:, 3] - 1) * (X[:, 8] - 1) + rng.standard_normal(200)
    return X, y


@pytest.mark.parametrize("n", [4, 60])
def test_features_of_significant_pairs_join_behind(acting, n):
    X, y = acting
    alone = dhsic.select(X, y, method="linear", n_features_to_select=n)

    result = dhsic.select(X, y, **ASKED | {"n_features_to_select": n})

    best = alone["rank"].values <= min(n, 50)
    expected = find_pairs(X, y, selection=np.flatnonzero(best), n_pairs=100)
    found = pairs_of(result)
    assert found.drop_vars("lead").equals(expected.drop_vars(["beta", "se"]))
    assert found.attrs == expected.attrs
    assert (found["family_wise"] <= 0.05).sum() > 1
    real = expected.isel(pairs=found["lead"])
    joined = {*real["first"].values.tolist(), *real["second"].values.tolist()}
    chosen = {*np.flatnonzero(alone["selected"]).tolist()}
    assert joined == {3, 8}
    assert {*np.flatnonzero(result["selected"]).tolist()} == chosen | joined
    assert result.attrs["n_joined"] == len(joined - chosen)
    assert result.attrs["n_selected"] == len(chosen | joined)
    assert result["pair_with"].values[[3, 8, 5]].tolist() == [8, 3, -1]
    np.testing.assert_array_equal(result["rank"] <= result.attrs["n_selected"], result["selected"])
    others = result["rank"].values > result.attrs["n_selected"]
    order = np.argsort(alone["rank"].values[others])
    assert np.all(np.diff(result["rank"].values[others][order]) > 0)


def test_the_same_bits_saved_resumed_and_of_data_with_filters(acting, tmp_path):
    X, y = acting
    expected = dhsic.select(X, y, **ASKED)
    kept = {"checkpoint": tmp_path / "run", "runtime": Threads(2)}

    found = [dhsic.select(X, y, **ASKED, **kept) for _ in range(2)]

    assert (tmp_path / "run.pairs").is_dir()
    for each in found:
        assert pairs_of(each).identical(pairs_of(expected))
        np.testing.assert_array_equal(each["rank"], expected["rank"])
    dhsic.save(expected, tmp_path / "r.zarr")
    loaded = dhsic.load(tmp_path / "r.zarr")
    assert pairs_of(loaded).equals(pairs_of(expected))
    assert {3, 8} < {*dhsic.selected_features(loaded)["features"].values.tolist()}
    assert "Pairs that act together" in page_of(loaded)
    names = [f"f{i}" for i in range(60)]
    (tmp_path / "some.txt").write_text("\n".join(names[3:]))
    frame = pd.DataFrame(X, columns=names)
    some = dhsic.select(frame, y, **ASKED, filters=dhsic.Filters(extract=tmp_path / "some.txt"))
    assert some["feature"].values[some["pair_with"].values >= 0].tolist() == ["f3", "f8"]
    assert (some["pair_first"].values[0], some["pair_second"].values[0]) == (3, 8)


def test_where_all_pairs_are_too_many_those_of_the_best_are_looked_at(acting, monkeypatch):
    X, y = acting
    monkeypatch.setattr(pair_scan, "MOST_OF_BEST", 200 * 20**2)

    few = dhsic.select(X, y, **ASKED)
    monkeypatch.setattr(scan, "MOST_PERMUTED", 32)
    monkeypatch.setattr(scan, "PERMUTED_RUNS", 4)
    whole = dhsic.select(X, y, **ASKED | {"interactions": "all"})

    assert few.attrs["pair_n_pairs"] == 20 * 19 // 2
    assert "of 190 pairs of the best 20 features are significant" in page_of(few)
    assert "carried over" not in page_of(few)
    assert whole.attrs["pair_n_pairs"] == 59 * 58 // 2
    assert whole.attrs["pair_n_pairs_permuted"] == 32 * 31 // 2
    assert "of 1,711 pairs are significant" in page_of(whole)
    assert "estimated on 496 permuted pairs" in page_of(whole)
    law = scan.Null(
        *(whole.attrs[f"pair_null_{name}"] for name in ("location", "scale")), 1711 / 496
    )
    log_p = np.log(whole["pair_p_value"].values)
    np.testing.assert_allclose(whole["pair_family_wise"], law.family_wise(log_p))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"interactions": "some"}, InputError, "interactions='some'"),
        (
            {"method": "bahsic", "feature_groups": list("abcdef") * 10},
            InputError,
            "does not support groups",
        ),
        ({"method": "bahsic", "label_kernel": "self"}, InputError, "Leave out interactions="),
        ({"memory_limit": 100_000_000}, MemoryBudgetError, "memory"),
    ],
)
def test_what_pairs_cannot_be_looked_at_in_is_refused(acting, options, error, sentence):
    X, y = acting
    with pytest.raises(error, match=sentence):
        dhsic.select(X, y, **ASKED | options)


@pytest.mark.filterwarnings("ignore:Shares of all pairs")
def test_on_the_command_line(tmp_path):
    store = tmp_path / "g.vcz"
    planted = ("--samples", 200, "--variants", 120, "--causal", 2, "--pairs", 1)
    run("simulate", store, *planted, "--trait", "quantitative")
    asked = (store, "--target", "sample_trait", "-n", 4, "--interactions", "best")

    said = " ".join(run("select", *asked).stderr.split())

    assert "pairs are significant (family-wise, 0.05); 1 of these" in said
    assert "not explained by better pairs: 1:" in said
    assert "They added 0 features to the selection." in said
    planned = " ".join(run("plan", *asked).stdout.split())
    assert "a scan of 7,140 pairs follows, which takes about a second on one core" in planned
