"""Samples that are there twice are told, under whatever names; equal rows by chance are not."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr
import zarr
from commands import run

import dhsic
from dhsic.interactions import find_pairs
from dhsic.joins.same_samples import repeated_samples

M, D = 50, 30
RNG = np.random.default_rng(3)
NAMES = [f"s{i}" for i in range(M)]
ILL = RNG.random(M) < 0.5
TWICE = r"2 samples are in the data twice.*'s3' = 's41', 's7' = 's49'"
select = partial(dhsic.select, n_features_to_select=2)


def frame(m=M, d=D, *, copies=True):
    values = RNG.normal(size=(m, d))
    if copies:
        values[41], values[49] = values[3], values[7]
    columns, index = [f"g{i}" for i in range(d)], pd.Index([f"s{i}" for i in range(m)], name="id")
    return pd.DataFrame(values, columns=columns, index=index)


def written(folder, X):
    X.to_csv(folder / "x.csv")
    X.to_parquet(folder / "x.parquet")
    np.save(folder / "x.npy", X.to_numpy())
    zarr.save_array(str(folder / "a.zarr"), X.to_numpy())
    ds = xr.Dataset(
        {"X": (("sample", "gene"), X.to_numpy())}, coords={"sample": X.index.to_numpy(object)}
    )
    ds.to_zarr(folder / "x.zarr", consolidated=False)
    return "x.csv", "x.parquet", "x.npy", "a.zarr", "x.zarr"


@pytest.mark.parametrize("command", ["select", "test", "pairs"])
@pytest.mark.filterwarnings("default")
def test_copies_are_told_in_every_format_until_they_are_left_out(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"id": NAMES, "y": np.where(ILL, "a", "b")}).to_csv("y.csv", index=False)
    (tmp_path / "copies.txt").write_text("s41\ns49\n")
    for name in written(tmp_path, frame()):
        named = name in ("x.csv", "x.parquet", "x.zarr")
        options = ("--labels", "y.csv", "--target", "y", *(() if named else ("--by-position",)))
        told = " ".join(run(command, name, *options, "-n", 2).stderr.split())
        which = "'s3' = 's41', 's7' = 's49'" if named else "3 = 41, 7 = 49"
        assert (
            f"2 samples are in the data twice: they have all values of another one ({which})"
            in told
        )
        if named:
            assert "--remove takes their names" in told
            left = run(command, name, *options, "-n", 2, "--remove", "copies.txt").stderr
            assert "twice" not in left


@pytest.mark.parametrize("function", [select, dhsic.test_features, find_pairs])
def test_copies_are_told_by_every_function(function):
    X = frame()
    with pytest.warns(UserWarning, match=TWICE) as told:
        function(X, ILL)
    assert told[0].filename == __file__
    function(X, ILL, filters=dhsic.Filters(remove=["s41", "s49"]))
    with pytest.warns(UserWarning, match="3 = 41, 7 = 49.* delete the rows"):
        function(X.to_numpy(), ILL)


def test_copies_of_large_data_are_compared_in_parts():
    X = RNG.normal(size=(60, 400_000)).astype(np.float32)
    X[50], X[51] = X[4], X[5]
    X[51, 64:] = RNG.normal(size=400_000 - 64)  # the same at the beginning alone
    groups, n = repeated_samples(dhsic.open_source(X), None)
    assert groups == [[4, 50]]
    assert 400 < n < 600


def test_copies_that_lack_values_are_told():
    X = frame()
    X.iloc[[3, 41], 5:9] = np.nan
    with pytest.warns(UserWarning, match=TWICE):
        select(X, ILL)


def test_equal_rows_by_chance_are_not_told():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = frame(d=12)  # too few features
        select(few, ILL)
        X = frame(copies=False)
        X.iloc[9] = X.iloc[8] + 1e-9  # not the same
        select(X, ILL)
    genotypes = RNG.integers(0, 3, (M, 200))
    genotypes[4] = genotypes[9]
    counts = RNG.poisson(0.2, (M, 200)).astype(float)
    counts[4] = counts[9]
    for values in (genotypes, genotypes.astype(float), counts, scipy.sparse.csr_array(counts)):
        assert repeated_samples(dhsic.open_source(values), None) == ([], 0)
