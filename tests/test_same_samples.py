"""Samples that are there twice are told, under whatever names; equal rows by chance are not."""

import re
import shlex
import subprocess
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
from dhsic.joins.replicates import MADE_UNIQUE, REPETITION, repeated
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
    for name in written(tmp_path, frame()):
        named = name in ("x.csv", "x.parquet", "x.zarr")
        options = ("--labels", "y.csv", "--target", "y", *(() if named else ("--by-position",)))
        told = " ".join(run(command, name, *options, "-n", 2).stderr.split())
        which = "'s3' = 's41', 's7' = 's49'" if named else "3 = 41, 7 = 49"
        assert (
            f"2 samples are in the data twice: they have all values of another sample ({which})"
            in told
        )
        if named:
            ids = re.search(r"--remove ids.txt \((printf .* > ids.txt) writes this file\)", told)
            subprocess.run(["bash", "-c", ids[1]], check=True)
            assert (tmp_path / "ids.txt").read_text() == "s41\ns49\n"
            left = run(command, name, *options, "-n", 2, "--remove", "ids.txt").stderr
            assert "twice" not in left


@pytest.mark.parametrize("function", [select, dhsic.test_features, find_pairs])
def test_copies_are_told_by_every_function(function):
    X = frame()
    with pytest.warns(UserWarning, match=TWICE) as told:
        function(X, ILL)
    assert told[0].filename == __file__
    filters = re.search(r"filters=(dhsic.Filters\(remove=.*\))\.$", str(told[0].message))[1]
    function(X, ILL, filters=eval(filters))
    with pytest.warns(UserWarning, match="3 = 41, 7 = 49.* delete their rows"):
        function(X.to_numpy(), ILL)


def test_many_copies_are_named():
    X = frame(60)
    X.iloc[30:] = X.iloc[:30].to_numpy()
    with pytest.warns(UserWarning, match=r"'s19' = 's49', \.\.\. \(30 in all\)") as told:
        select(X, np.arange(60) % 2)
    assert f"remove={[f's{i}' for i in range(30, 60)]}" in str(told[0].message)


def test_an_id_in_the_place_of_a_file_is_written_to_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame(copies=False).assign(y=ILL).to_csv("x.csv")
    words = ("test", "x.csv", "--target", "y", "-n", 2)
    for option, name in (("--remove", "s4"), ("--exclude", "g3")):
        told = " ".join(run(*words, option, name, code=2).stderr.split())
        command = told.partition("pass ids.txt: ")[2]
        subprocess.run(["bash", "-c", command], check=True)
        said = run(*words, option, "ids.txt").stderr
        assert f"(1 by {option})" in said


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


REPEATED = ["_rep{}", "-R{}", ".tech{}", "_tech_rep{}", " replicate {}", "_techrep-{}"]


@pytest.mark.parametrize("end", REPEATED)
@pytest.mark.filterwarnings("default")
def test_technical_replicates_are_told_by_their_names_until_they_are_averaged(
    end, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    X = frame(60, copies=False)
    X.index = pd.Index([f"P{i // 3:03d}{end.format(i % 3 + 1)}" for i in range(60)], name="id")
    X["y"] = np.repeat(RNG.normal(size=20), 3)
    X.to_csv("x.csv")
    told = " ".join(run("test", "x.csv", "--target", "y").stderr.split())
    assert "60 of 60 samples look like repeated measurements of 20, by their names" in told
    with pytest.warns(UserWarning, match="repeated measurements of 20") as warned:
        select(X, "y")
    average = re.search(r"X = (X\.groupby.*?mean\(\))", str(warned[0].message))[1]
    mean = eval(average, {"X": X})
    assert mean.index.tolist() == [f"P{i:03d}" for i in range(20)]
    mean.to_csv("mean.csv")
    assert "repeated" not in run("test", "mean.csv", "--target", "y").stderr
    pd.Series([name for name in X.index if name.endswith("1")]).to_csv(
        "first.txt", sep="\t", index=False, header=False
    )
    if " " not in end:
        again = run("test", "x.csv", "--target", "y", "--keep", "first.txt").stderr
        assert "repeated" not in again


@pytest.mark.parametrize("visit", [["first arm", "later"], [1, 2], []])
@pytest.mark.filterwarnings("default")
def test_samples_of_equal_names_are_averaged_or_kept_by_a_column(visit, tmp_path):
    X = frame(60, d=6, copies=False)
    X.index = pd.Index(np.repeat(range(1, 31), 2), name="record_id")
    X = X.assign(y=RNG.normal(size=60), **({"visit": visit * 30} if visit else {}))
    X = X.assign(ill=[*"aabb"] * 15) if visit else X
    X.to_csv(tmp_path / "x.csv")
    for data in (X, tmp_path / "x.csv"):
        with pytest.warns(UserWarning, match="60 samples look like repeated meas.* of 30") as said:
            select(data, "ill" if visit else "y")
        message = str(said[0].message)
        averaged = eval(re.search(r"X = (X\.groupby.*?)\. Or", message)[1], {"X": X, "pandas": pd})
        assert len(averaged) == 30
        options, left = {}, data
        if visit:
            options["filters"] = eval(re.search(r"apart: filters=(dhsic.*\))\.$", message)[1])
        else:
            left = eval(re.search(r"X = (X\[.*\])\.$", message)[1], {"X": X})
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*repeated measurements")
            select(averaged, "ill" if visit else "y")
            assert select(left, "ill" if visit else "y", **options).attrs["n_samples"] == 30
    if visit:
        words = ("select", tmp_path / "x.csv", "--target", "y", "-n", 2)
        told = " ".join(run(*words).stderr.split())
        option = shlex.split(re.search(r"them apart: (--keep-if '[^']*')\.", told)[1])
        assert "repeated" not in run(*words, *option).stderr


def test_names_that_a_program_made_unique_are_replicates():
    names = [f"P{i}{end}" for i in range(12) for end in ("", ".1", ".2")]
    assert len(repeated(names, MADE_UNIQUE)) == 12


ORDINARY_NAMES = {
    "conditions": [f"{c}_rep{k}" for c in ("wt", "ko", "treated") for k in range(1, 5)],
    "numbers": [f"S_{i}" for i in range(60)],
    "plates": [f"{row}{column}" for row in "ABCDEFGH" for column in range(1, 13)],
    "cells": [f"ACGT{i:04d}-1" for i in range(60)],
    "families": [f"F{i}_{k}" for i in range(20) for k in (1, 2, 3)],
    "people of PLINK": [f"{i}_{i}" for i in range(60)],
    "TCGA": [f"TCGA-A{i}-01A-11R" for i in range(60)],
    "numbers with a point": [f"{i}.{k}" for i in range(20) for k in (1, 2)],
    "some": [f"P{i}" for i in range(60)] + [f"P{i}_rep2" for i in range(12)],
    "one each": [f"P{i}_rep1" for i in range(60)],
}


@pytest.mark.parametrize("name", ORDINARY_NAMES)
def test_ordinary_names_are_of_no_replicates(name):
    for pattern in (REPETITION, MADE_UNIQUE):
        assert repeated(ORDINARY_NAMES[name], pattern) == []
