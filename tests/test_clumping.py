"""Clumping: plain loops over the ranking, on every method and runtime, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from commands import run
from distributed import Client, LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import dhsic
from dhsic.errors import InputError
from dhsic.reports.sentences import order_of
from dhsic.selection import clumping

QUIET = {"progress": False}


def plain(X, best, n, r2):
    """Best first: features kept until there are n, then those passed over; and by which."""
    centred = [X[:, j] - X[:, j].mean() for j in range(X.shape[1])]
    kept, by = [], {}
    for j in best:
        if len(kept) == n:
            break
        for i in kept:
            inner = sum(centred[i] * centred[j])
            if inner**2 > r2 * sum(centred[i] ** 2) * sum(centred[j] ** 2):
                by[j] = i
                break
        else:
            kept.append(j)
    return kept + [j for j in best if j not in kept], by


def linked(m=60, d=30, seed=0):
    """Features that are much alike in runs of five, and a target of two of them."""
    rng = np.random.default_rng(seed)
    base = np.repeat(rng.normal(size=(m, -(-d // 5))), 5, axis=1)[:, :d]
    X = base + 0.6 * rng.normal(size=(m, d))
    return X, X[:, 2] + X[:, 12] + 0.3 * rng.normal(size=m)


def order(result):
    return np.argsort(result["rank"].to_numpy())


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 100),
    n=st.integers(1, 12),
    r2=st.sampled_from([0.05, 0.2, 0.5, 0.9]),
    at_once=st.sampled_from([1, 4, 512]),
)
def test_as_plain_loops(seed, n, r2, at_once):
    X, y = linked(seed=seed)
    alone = dhsic.select(X, y, n_features_to_select=n, **QUIET)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clumping, "AT_ONCE", at_once)
        found = dhsic.select(X, y, n_features_to_select=n, clump_r2=r2, **QUIET)
    expected, by = plain(X, list(order(alone)), n, r2)
    assert_array_equal(order(found), expected)
    stands = found["clumped_by"].to_numpy()
    assert {int(j): int(stands[j]) for j in np.flatnonzero(stands >= 0)} == by
    assert found.attrs["n_clumped"] == len(by)
    assert_array_equal(np.sort(found["score"]), np.sort(alone["score"]))


@pytest.mark.parametrize("method", ["bahsic", "fohsic", "linear", "pearson", "svm-rfe"])
def test_of_any_method(method):
    X, y = linked()
    y = y if method != "svm-rfe" else (y > 0).astype(int)
    options = {"method": method, "n_features_to_select": 4, **QUIET}
    alone = dhsic.select(X, y, **options)
    found = dhsic.select(X, y, clump_r2=0.3, **options)
    assert_array_equal(order(found), plain(X, list(order(alone)), 4, 0.3)[0])


@pytest.mark.slow
def test_genotypes_with_missing_calls_from_a_store_on_threads_and_dask(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, "--samples", 80, "--variants", 300, "--missing", 0.05)
    options = {
        "rerank": False,
        "target": "sample_trait",
        "n_features_to_select": 12,
        "clump_r2": 0.2,
        **QUIET,
    }
    found = dhsic.select(store, **options)
    calls = dhsic.open_source(store)
    codes = calls.read(calls.blocks(10**6)[0]).astype(float)
    X = np.where(codes < 0, np.nan, codes)
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    alone = dhsic.select(store, **options | {"clump_r2": None})
    constant = set(np.flatnonzero(X.std(axis=0) == 0))
    best = [j for j in order(alone) if j not in constant]
    expected, by = plain(X, best, 12, 0.2)
    assert_array_equal(order(found)[: len(best)], expected)
    assert by
    at = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(2, **at) as cluster, Client(cluster):
        there = dhsic.select(store, **options)
    for name in ("rank", "score", "clumped_by"):
        assert_array_equal(there[name], found[name])


def test_a_resumed_run_and_several_targets(tmp_path):
    X, y = linked()
    options = {"n_features_to_select": 5, "clump_r2": 0.3, **QUIET}
    whole = dhsic.select(X, y, **options)
    kept = tmp_path / "run.dhsic"
    dhsic.select(X, y, checkpoint=kept, **options | {"clump_r2": None})
    again = dhsic.select(X, y, checkpoint=kept, **options)  # it changes nothing of what is kept
    assert_array_equal(again["rank"], whole["rank"])
    several = dhsic.select(X, np.column_stack([y, -y]), per_target=True, **options)
    assert_array_equal(several["rank"][0], whole["rank"])
    halves = dhsic.select(X, y, stability=3, **options)
    assert_array_equal(halves["rank"], whole["rank"])


def test_the_command_says_what_went_behind(tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, "--samples", 60, "--variants", 200)
    said = run("select", store, "--target", "sample_trait", "-n", 8, "--clump-r2", 0.2).stderr
    assert "(column clumped_by) is above 0.2" in " ".join(said.split())


def test_those_that_repeat_better_ones_are_counted_where_too_few_others_are_there():
    X, y = linked()
    asked = {"n_features_to_select": 20, "clump_r2": 0.3, **QUIET}
    found = dhsic.select(X, y, **asked)
    n = int((found["selected"] & (found["clumped_by"] >= 0)).sum())
    assert 0 < n < 20
    told = [*order_of(found)]
    expected = f"{n} of the 20 selected features are redundant: the data have only"
    assert sum(expected in line for line in told) == 1
    few = dhsic.select(X, y, **asked | {"n_features_to_select": 4})
    assert not any("are redundant:" in line for line in order_of(few))


def test_what_is_refused():
    X, y = linked()
    with pytest.raises(InputError, match="between 0 and 1"):
        dhsic.select(X, y, n_features_to_select=3, clump_r2=1.0, **QUIET)
    with pytest.raises(InputError, match="does not support groups"):
        dhsic.BAHSIC(2, clump_r2=0.2, **QUIET).fit(X, y, feature_groups=np.arange(30) // 3)
    wide = np.random.default_rng(0).normal(size=(6, 9000))
    with pytest.raises(InputError, match=r"is 5,000"):
        dhsic.select(wide, np.arange(6.0), n_features_to_select=5000, clump_r2=0.2, **QUIET)


@pytest.mark.parametrize("asked", [{"clump_r2": 0.01}, {"interactions": "auto"}])
def test_of_a_file_that_was_loaded_and_compacted_as_of_an_array(tmp_path, asked):
    rng = np.random.default_rng(0)
    X = rng.binomial(2, rng.uniform(0.1, 0.5, 400), (100, 400)).astype(np.int8)
    y = rng.standard_normal(100) + X[:, 350] * X[:, 20]
    np.save(tmp_path / "X.npy", X)
    expected, found = (
        dhsic.select(data, y, n_features_to_select=5, **asked, **QUIET)
        for data in (X, tmp_path / "X.npy")
    )
    for name in ("rank", "score", "selected"):
        assert_array_equal(found[name], expected[name])
