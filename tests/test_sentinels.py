"""Codes for missing values among features, covariates and labels that are numbers."""

import re
import shlex
import warnings

import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from commands import run
from refusals import remedy_of

import dhsic
from dhsic.interactions import find_pairs
from dhsic.joins.slips import slips_in
from dhsic.joins.text import check_coded, codes_in, n_coded

M, D = 120, 20
PLAIN = {"progress": False, "n_features_to_select": 3}
QUIET = {"interactions": None, **PLAIN}


def values(rng):
    return rng.normal(50, 10, (M, D)).round(1)


def coded(X, code, rng, part=0.05, features=slice(None)):
    X = X.copy()
    X[:, features] = np.where(rng.random(X[:, features].shape) < part, code, X[:, features])
    return X


@pytest.mark.parametrize("code", [-999, 999, 9999, -9999, 99999])
def test_a_code_in_features_is_refused_by_name_value_and_count(code, rng):
    X, y = coded(values(rng), code, rng), rng.integers(0, 2, M)
    n = int((code == X).sum())
    with pytest.raises(dhsic.DataError, match=rf"{n} values of \d+ features are {code},") as told:
        dhsic.select(X, y, **QUIET)
    assert "(feature 0: " in str(told.value)
    lost = np.where(code == X, np.nan, X)
    named, missing = dhsic.select(X, y, missing_code=code, **QUIET), dhsic.select(lost, y, **QUIET)
    np.testing.assert_array_equal(named["rank"], missing["rank"])
    dhsic.select(X, y, missing_code=None, **QUIET)


@pytest.mark.parametrize("form", ["int16", "float32", "dask", "zarr", "sparse"])
def test_a_code_is_refused_in_every_form(form, rng, tmp_path):
    X, y = coded(values(rng).round(), -999, rng), rng.integers(0, 2, M)
    if form == "zarr":
        data = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(50, 7))
    else:
        data = {
            "int16": lambda: X.astype(np.int16),
            "float32": lambda: X.astype(np.float32),
            "dask": lambda: dask.array.from_array(X, chunks=(40, 6)),
            "sparse": lambda: scipy.sparse.csc_array(X),
        }[form]()
    with pytest.raises(dhsic.DataError, match="are -999"):
        dhsic.select(data, y, **QUIET)


DOORS = {
    "test": dhsic.test_features,
    "some": lambda X, y: dhsic.test_features(X, y, features=[3, 1]),
    "pairs": find_pairs,
    "fohsic": lambda X, y: dhsic.select(X, y, method="fohsic", **PLAIN),
    "pearson": lambda X, y: dhsic.select(X, y, method="pearson", **PLAIN),
    "ccm": lambda X, y: dhsic.select(X, y, method="ccm", **PLAIN),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_codes(door, rng):
    with pytest.raises(dhsic.DataError, match="are 999"):
        DOORS[door](coded(values(rng), 999, rng), rng.integers(0, 2, M))


NEIGHBOURS = {
    "one feature": (-999, [4], values),  # of values from 0
    "-9": (-9, slice(None), lambda rng: rng.uniform(0, 4, (M, D))),
    "99": (99, slice(None), lambda rng: rng.integers(1, 6, (M, D)).astype(float)),
    "-99": (-99, slice(0, 3), lambda rng: rng.standard_normal((M, D))),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_that_are_codes(name, rng):
    code, features, make = NEIGHBOURS[name]
    X, y = coded(make(rng), code, rng, 0.1, features), rng.integers(0, 2, M)
    with pytest.raises(dhsic.DataError, match=f"are {code},"):
        dhsic.select(X, y, **QUIET)


@pytest.mark.parametrize("code", [-99, -77, -88])
@pytest.mark.parametrize("n_features", [1, 2, 14])
@pytest.mark.parametrize("largest", [4, 75, 500])
def test_negative_codes_beside_values_from_0_on_are_refused_in_few_features(
    code, n_features, largest, rng
):
    X = coded(rng.uniform(0, largest, (M, 150)), code, rng, 0.05, slice(3, 3 + n_features))
    y = rng.integers(0, 2, M)
    with pytest.raises(dhsic.DataError, match=f"are {code},"):
        dhsic.select(X, y, **QUIET)
    lost = np.where(code == X, np.nan, X)
    named, missing = dhsic.select(X, y, missing_code=code, **QUIET), dhsic.select(lost, y, **QUIET)
    np.testing.assert_array_equal(named["rank"], missing["rank"])


LONE = {
    "9999 in one": (9999, 1, values),
    "999 in one": (999, 1, values),
    "99 in ten": (99, 10, lambda rng: rng.integers(1, 6, (M, D)).astype(float)),
    "88 beside ages": (88, 1, lambda rng: rng.integers(20, 61, (M, D)).astype(float)),
    "-1 beside grades": (-1, 1, lambda rng: rng.integers(1, 6, (M, D)).astype(float)),
    "-1 beside ages": (-1, 1, lambda rng: rng.integers(20, 61, (M, D)).astype(float)),
    "-1 of integers": (-1, 2, lambda rng: rng.integers(1, 8, (M, D))),
}


@pytest.mark.filterwarnings("default:.* codes that many programs")
@pytest.mark.parametrize("kind", LONE)
def test_codes_that_stand_apart_in_few_features_are_told_with_an_option(kind, rng, tmp_path):
    code, n_features, make = LONE[kind]
    X = np.concatenate([make(rng) for _ in range(8)], axis=1)
    X = coded(X, code, rng, 0.1, slice(0, n_features))
    y = rng.integers(0, 2, M)
    with pytest.warns(UserWarning, match=rf"{n_features} feature.* \(0: {code} \d+ times, others"):
        dhsic.select(X, y, **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhsic.select(X, y, missing_code=None, **QUIET)
    table = pd.DataFrame(X).add_prefix("lab").assign(ill=np.where(y, "yes", "no"))
    table.to_csv(tmp_path / "t.csv", index_label="id")
    command = ("test", tmp_path / "t.csv", "--target", "ill", "-n", "1")
    said = " ".join(run(*command).stderr.split())
    option = shlex.split(re.search(r"missing values, pass (--na .*?); otherwise", said)[1])
    assert option == [each for j in range(n_features) for each in ("--na", f"lab{j}={code}")]
    assert "codes that many programs" not in " ".join(run(*command, *option).stderr.split())


NO_LONE = {
    "copies": lambda rng: rng.integers(-1, 4, (M, D)),
    "signs": lambda rng: rng.choice([-1, 1], (M, D)),
    "likert from -2": lambda rng: rng.integers(-2, 4, (M, D)),
    "correlations": lambda rng: np.clip(rng.normal(0, 1, (M, D)), -1, 4),
    "percentages to 99": lambda rng: rng.integers(0, 100, (M, D)),
    "counts to 99": lambda rng: np.minimum(rng.exponential(60, (M, D)).round(), 99),
    "incomes": lambda rng: np.exp(rng.normal(6, 1.5, (M, D))).round(),
    "oxygen": lambda rng: rng.integers(88, 101, (M, D)),
    "changes": lambda rng: rng.normal(0, 60, (M, D)).round(),
}


@pytest.mark.parametrize("name", NO_LONE)
def test_scales_that_end_in_a_code_are_not_told(name, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="X has values below 0")
        dhsic.select(NO_LONE[name](rng).astype(float), rng.integers(0, 2, M), **QUIET)


NO_CODES = {
    "heavy tails": lambda rng: np.exp(rng.normal(4, 2, (M, D))).round(),
    "percentages": lambda rng: rng.integers(0, 101, (M, D)).astype(float),
    "cauchy": lambda rng: rng.standard_t(1, (M, D)).round(),
    "zeros": lambda rng: np.where(rng.random((M, D)) < 0.9, 0, rng.integers(1, 2000, (M, D))),
    "within": lambda rng: np.where(rng.random((M, D)) < 0.01, 999.0, rng.normal(500, 200, (M, D))),
    "two values": lambda rng: np.column_stack([values(rng), [999.0] * 4 + [1.0] * (M - 4)]),
    "about -9": lambda rng: rng.normal(-9, 3, (M, D)).round(),
}


@pytest.mark.parametrize("name", NO_CODES)
def test_values_that_are_no_codes_are_taken(name, rng):
    dhsic.select(NO_CODES[name](rng), rng.integers(0, 2, M), **QUIET)


def test_the_option_that_the_sentence_names_works(tmp_path, rng):
    X = coded(values(rng), -999, rng)
    y = rng.integers(0, 2, M)
    X[:, 7] = np.where(X[:, 7] == -999, -999, 50 + 12 * y + rng.normal(0, 5, M)).round(1)
    rows = [",".join(["id", *(f"lab{j}" for j in range(D)), "died"])]
    rows += [
        ",".join([f"p{i}", *map(str, X[i].tolist()), "yes" if y[i] else "no"]) for i in range(M)
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    command = ("test", tmp_path / "t.csv", "--target", "died", "-n", "1")
    refused = run(*command, code=3)
    assert "lab0: " in refused.stderr
    assert "pass --missing-code -999" in refused.stderr
    assert "lab7" in run(*command, "--missing-code", "-999").stdout
    run(*command, "--missing-code", "none")


AGES = np.random.default_rng(8).normal(50, 10, 200).round()


@pytest.mark.parametrize("code", [999, 9999, 99999, 99, -1, -9])
def test_codes_among_covariates_and_labels_are_refused(code, rng):
    X, y, ages = rng.standard_normal((200, 6)), rng.standard_normal(200), AGES.copy()
    ages[rng.permutation(200)[:13]] = code
    with pytest.raises(dhsic.InputError, match=f"13 of 200 values of covariates are {code},"):
        dhsic.select(X, y, covariates=ages[:, None], **QUIET)
    with pytest.raises(dhsic.InputError, match=f"values of y are {code},") as told:
        dhsic.select(X, ages, **QUIET)
    shift = re.search(r"pass (y [+-] \d+), which gives the same ranking", str(told.value))[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhsic.select(X, eval(shift, {"y": ages}), **QUIET)


SCALES = {
    "ages": AGES,
    "days of visits": np.repeat([-1.0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77], 10),
    "signs": np.array([-1.0, 1] * 50),
    "clusters and noise": np.arange(-1.0, 12).repeat(9),
    "percentages": np.arange(0.0, 100).repeat(3),
    "near 999": np.array([999.0, 1000, 1001] * 20),
    "incomes": np.exp(np.random.default_rng(0).normal(6, 1, 300)).round(),
    "cut off at 99": np.minimum(np.random.default_rng(1).exponential(60, 300).round(), 99),
}


@pytest.mark.parametrize("name", SCALES)
def test_scales_without_a_code_are_taken(name):
    found = [n_coded(SCALES[name], code) for code in (999, 9999, 99999, 99, -1)]
    assert found == [0] * 5


def test_99_beside_steps_of_a_scale_is_a_code():
    steps = np.tile(np.arange(1.0, 8.0), 10)

    assert n_coded(np.append(steps, [99] * 5), 99) == 5
    assert n_coded(np.append(10 * steps, [99] * 5), 99) == 0
    assert n_coded(np.append(np.arange(20.0, 70.0), [999] * 4 + [9999] * 3), 999) == 4


SETS = ([888, 999], [8888, 9999], [77, 88, 99], [-888, -999], [998, 999], [-999, 999], [-9, -8])


@pytest.mark.parametrize("codes", SETS, ids=str)
def test_several_codes_in_one_feature_are_refused_together(codes, rng):
    base = rng.integers(1, 6, (M, D)) if max(map(abs, codes)) < 100 else values(rng)
    X, y = base.astype(float), rng.integers(0, 2, M)
    for code in codes:
        X = coded(X, code, rng, 0.04)
    said = re.escape(" or ".join(map(str, sorted(codes))))
    with pytest.raises(dhsic.DataError, match=f"are {said}, which") as told:
        dhsic.select(X, y, **QUIET)
    first = str(told.value).partition(" If they are real")[0]
    assert remedy_of(first, "missing_code") == ("missing_code", sorted(codes))
    lost = np.where(np.isin(X, codes), np.nan, X)
    named, missing = dhsic.select(X, y, missing_code=codes, **QUIET), dhsic.select(lost, y, **QUIET)
    np.testing.assert_array_equal(named["rank"], missing["rank"])


@pytest.mark.parametrize("codes", SETS, ids=str)
def test_several_codes_in_a_column_are_refused_together_and_left_out(codes, rng, tmp_path):
    few = max(map(abs, codes)) < 100
    column = (rng.integers(1, 6, 200) if few else AGES).astype(int)
    at = rng.permutation(200)[: 6 * len(codes)].reshape(len(codes), 6)
    for code, rows in zip(codes, at, strict=True):
        column[rows] = code
    X, y = rng.standard_normal((200, 6)), rng.standard_normal(200)
    with pytest.raises(dhsic.InputError, match=f"{at.size} of 200 values of covariates") as told:
        dhsic.select(X, y, covariates=column[:, None], **QUIET)
    expression = re.search(r"keep = (.*); then", str(told.value))[1]
    keep = eval(expression, {"numpy": np, "covariates": column[:, None]})
    np.testing.assert_array_equal(keep, ~np.isin(column, codes))
    dhsic.select(X[keep], y[keep], covariates=column[keep][:, None], **QUIET)
    ids = [f"s{i}" for i in range(200)]
    pd.DataFrame(X, index=pd.Index(ids, name="id")).add_prefix("g").to_csv(tmp_path / "x.csv")
    table = pd.DataFrame({"id": ids, "trait": y, "age": column})
    table.to_csv(tmp_path / "p.csv", index=False)
    command = ("test", tmp_path / "x.csv", "--labels", tmp_path / "p.csv", "--target", "trait")
    refused = run(*command, "--covariate", "age", code=2).stderr
    remedy = re.search(r"with ((--na \S+ )+--drop-missing)", refused)[1].split()
    assert "lack" not in run(*command, "--covariate", "age", *remedy).stderr.partition("rror")[2]
    kept = re.search(r"pass ((--not-na -?\d+ ?)+)\.", refused)[1].split()
    run(*command, "--covariate", "age", *kept)


BOUNDED = {
    "ages to 99": np.arange(18.0, 100).repeat(3),
    "oxygen": np.random.default_rng(0).integers(88, 101, 200).astype(float),
    "pressure": np.random.default_rng(0).integers(985, 1020, 200).astype(float),
    "from -8": np.tile(np.arange(-8.0, 9), 5),
    "fahrenheit": np.random.default_rng(0).normal(98.6, 0.5, 200).round(1),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_values_among_which_codes_are_values_are_taken(name, rng):
    column = BOUNDED[name]
    assert codes_in(column) == {}
    X = np.column_stack([rng.permutation(column) for _ in range(5)])
    dhsic.select(X, rng.integers(0, 2, len(X)), **QUIET)


def pressures(rng):
    """Blood pressures of 60 people, 6 of them 0; counts that go on from 0; and who is ill."""
    y = np.arange(200) % 2
    pressure = (120 + 25 * y + rng.normal(0, 12, 200)).round()
    pressure[rng.permutation(200)[:20]] = 0
    X = rng.poisson(3, (200, 12)).astype(float)
    X[:, 4] = pressure
    return X, y


@pytest.mark.filterwarnings("default:In 1 feature, zeros")
def test_zeros_far_below_all_others_are_told_and_left_out_of_one_feature(rng, tmp_path):
    X, y = pressures(rng)
    with pytest.warns(
        UserWarning, match=r"In 1 feature, zeros .*\(4: 20 zeros, others at least \d+\)"
    ):
        dhsic.select(X, y, **QUIET)
    table = pd.DataFrame(X).add_prefix("lab").rename(columns={"lab4": "blood pressure"})
    table.assign(ill=np.where(y, "yes", "no")).to_csv(tmp_path / "t.csv", index_label="id")
    command = ("test", tmp_path / "t.csv", "--target", "ill", "-n", "1")
    first = run(*command)
    said = " ".join(first.stderr.split())
    option = shlex.split(re.search(r"missing values, pass (--na .*?); otherwise", said)[1])
    assert option == ["--na", "blood pressure=0"]
    again = run(*command, *option)
    assert "blood pressure" in again.stdout
    assert "zeros" not in again.stderr
    X[X[:, 4] == 0, 4] = np.nan
    table.assign(**{"blood pressure": X[:, 4]}, ill=np.where(y, "yes", "no")).to_csv(
        tmp_path / "nan.csv", index_label="id"
    )
    assert run(*command[:1], tmp_path / "nan.csv", *command[2:]).stdout == again.stdout


@pytest.mark.filterwarnings("default:20 of 200 values")
def test_zeros_of_a_covariate_are_told_with_an_option_for_it_alone(rng, tmp_path):
    X, y = pressures(rng)
    ids = [f"s{i}" for i in range(200)]
    genotypes = rng.integers(0, 3, (200, 6))
    pd.DataFrame(genotypes, index=pd.Index(ids, name="id")).add_prefix("g").to_csv(
        tmp_path / "x.csv"
    )
    table = pd.DataFrame({"id": ids, "ill": y, "bp": X[:, 4], "n": X[:, 0]})
    table.to_csv(tmp_path / "p.csv", index=False)
    command = ("test", tmp_path / "x.csv", "--labels", tmp_path / "p.csv", "--target", "ill")
    said = " ".join(run(*command, "--covariate", "bp", "--covariate", "n").stderr.split())
    assert "20 of 200 values of 'bp' are 0, far below all others" in said
    assert "of 'n'" not in said
    option = re.search(r"If they are missing, pass (.*?)\.", said)[1].split()
    left = " ".join(run(*command, "--covariate", "bp", *option).stderr.split())
    assert "20 of 200 samples excluded" in left
    assert "missing" not in left.partition("values ")[2].partition("run ")[0]  # zeros of genotypes
    assert "has this name" in run(*command, "--na", "bpp=0", code=2).stderr
    with pytest.warns(UserWarning, match="20 of 200 values of covariates are 0") as told:
        dhsic.select(genotypes, y, covariates=X[:, [4]], **QUIET)
    keep = re.search(r"keep = (.*); then", str(told[0].message))[1]
    assert eval(keep, {"covariates": X[:, [4]]}).sum() == 180


NO_GAPS = {
    "counts": lambda rng: rng.poisson(3, (200, 8)),
    "dropouts": lambda rng: np.log2(1 + rng.poisson(rng.uniform(1, 50, 8), (200, 8))),
    "amounts": lambda rng: rng.exponential(5, (200, 8)) * (rng.random((200, 8)) < 0.7),
    "cells": lambda rng: np.log1p(
        rng.poisson(np.geomspace(0.1, 30, 80), (200, 80)) * rng.uniform(1, 1.3, (200, 1))
    ),
    "cigarettes": lambda rng: rng.choice([0, 3, 5, 7, 10, 12, 15, 20, 30, 40, 60], (200, 8)),
}


@pytest.mark.parametrize("name", NO_GAPS)
def test_zeros_that_are_values_are_not_told(name, rng):
    X = NO_GAPS[name](rng).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhsic.select(X, rng.standard_normal(200), covariates=X[:, :1], **QUIET)


ODD = [(">90",), ("missing", "missing"), ("12,5",), ("5 years", ">90"), ("n/a ", "not done")]


@pytest.mark.parametrize("cells", ODD, ids=str)
def test_text_in_a_covariate_of_numbers_is_counted_named_and_left_out(cells, rng, tmp_path):
    ids = [f"s{i}" for i in range(60)]
    ages = rng.integers(20, 60, 60).astype(object)
    ages[[7, 12][: len(cells)]] = cells
    X, y = rng.standard_normal((60, 5)).round(3), rng.standard_normal(60).round(3)
    pd.DataFrame(X, index=pd.Index(ids, name="id")).add_prefix("g").to_csv(tmp_path / "x.csv")
    table = pd.DataFrame({"id": ids, "y": y, "age": ages})
    table[::-1].to_csv(tmp_path / "p.csv", index=False)
    table[["id", "age"]].to_csv(tmp_path / "c.csv", index=False)
    names = ("--labels", tmp_path / "p.csv", "--target", "y")
    odd = [cell for cell in cells if cell.strip() != "n/a"]
    for options, line in (
        ((*names, "--covariate", "age"), 61 - [7, 12][len(cells) - len(odd)]),
        ((*names, "--covariates", tmp_path / "c.csv"), [9, 14][len(cells) - len(odd)]),
    ):
        said = " ".join(run("test", tmp_path / "x.csv", *options, code=2).stderr.split())
        n = 60 - (len(cells) - len(odd))
        assert f"Covariate 'age' contains text in {len(odd)} of {n} values: " in said
        assert all(f"{cell!r} (" in said for cell in odd)
        assert f"in line {line})" in said
        if odd == ["12,5"]:
            assert "--na" not in said
            continue
        remedy = shlex.split(said.partition("are missing, use ")[2].partition(". If all")[0])
        left_out = " ".join(run("test", tmp_path / "x.csv", *options, *remedy).stderr.split())
        assert f"{len(cells)} of 60 samples excluded" in left_out
    for given in (ages, pd.Series(ages, name="age"), pd.DataFrame({"age": ages})):
        with pytest.raises(dhsic.InputError, match="contains text in") as told:
            dhsic.select(X, y, covariates=given, **QUIET)
        remedy = re.search(
            r"declare them as categories: (pandas\.Series\(.*\))\.$", str(told.value)
        )[1]
        groups = eval(remedy, {"pandas": pd, "covariates": given})
        if len(odd) == len(cells):
            dhsic.select(X, y, covariates=groups, **QUIET)
        found = re.search(r"[Pp]ass (?:numbers: )?(.*?\))(?: replaces|\. If all)", str(told.value))
        numbers = eval(found[1], {"pandas": pd, "covariates": given})
        there = ~pd.isna(numbers)
        assert there.sum() == 60 - sum(cell not in (">90", "12,5") for cell in cells)
        dhsic.select(X[there], y[there], covariates=np.asarray(numbers)[there][:, None], **QUIET)
        with pytest.raises(dhsic.InputError, match="y contains text in"):
            dhsic.select(X, given if given is ages else given.squeeze().rename("y"), **QUIET)


@pytest.mark.parametrize("written", ["{},5", "{} %", "1.0{:02d},4"])
def test_covariates_with_commas_or_percent_are_numbers_and_no_groups(written, rng, tmp_path):
    ids = [f"s{i}" for i in range(60)]
    ages = [written.format(n) for n in rng.integers(20, 40, 60)]
    X, y = rng.standard_normal((60, 5)).round(3), rng.standard_normal(60).round(3)
    pd.DataFrame(X, index=pd.Index(ids, name="id")).add_prefix("g").to_csv(tmp_path / "x.csv")
    pd.DataFrame({"id": ids, "y": y, "age": ages}).to_csv(tmp_path / "p.csv", index=False)
    options = ("--labels", tmp_path / "p.csv", "--target", "y", "--covariate", "age")
    said = " ".join(run("test", tmp_path / "x.csv", *options, code=2).stderr.split())
    assert "Covariate 'age' is text: " in said
    assert "--na" not in said
    with pytest.raises(dhsic.InputError, match="covariates is text"):
        dhsic.select(X, y, covariates=np.array(ages), **QUIET)


GROUPS = {
    "batches": ["1", "2", "3", "4b"] * 15,
    "sites": ["7", "8", "ward"] * 20,
    "coded": ["yes", "no", "1"] * 20,
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_some_of_which_are_numbers_are_groups(name, rng, tmp_path):
    ids = [f"s{i}" for i in range(60)]
    X, y = rng.standard_normal((60, 5)).round(3), rng.standard_normal(60).round(3)
    pd.DataFrame(X, index=pd.Index(ids, name="id")).add_prefix("g").to_csv(tmp_path / "x.csv")
    table = pd.DataFrame({"id": ids, "y": y, "batch": GROUPS[name]})
    table.to_csv(tmp_path / "p.csv", index=False)
    options = ("--labels", tmp_path / "p.csv", "--target", "y", "--covariate", "batch")
    run("test", tmp_path / "x.csv", *options)
    dhsic.select(X, y, covariates=np.array(GROUPS[name]), **QUIET)


def test_text_in_frames_is_named_and_both_remedies_work(rng):
    X = pd.DataFrame(rng.standard_normal((60, 4)), columns=[*"abcd"]).astype(object)
    X.loc[4, "b"] = "<0.1"
    X["c"] = X["c"].astype(str)
    X["smoker"] = ["yes", "no"] * 30
    y = rng.integers(0, 2, 60)
    with pytest.raises(dhsic.InputError, match=r"text in 1 of 60 values: '<0\.1' \(1") as told:
        dhsic.open_source(X)
    said = str(told.value)
    names = {"X": X, "pandas": pd}
    exec(re.search(r"above: (X\[\['b'\]\] = .*?)\. pandas\.to_numeric alone", said)[1], names)
    exec(re.search(r"(X\[\['a', .*?\.astype\(float\))", said)[1], names)
    exec(re.search(r"category is missing: (X = pandas.*)\.$", said)[1], names)
    assert names["X"].loc[4, "b"] == 0.05
    dhsic.select(names["X"], y, **QUIET)


@pytest.mark.parametrize("code", [-999.25, -99.9, 999.9, -32768, 9.969209968386869e36, 1e20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fill_values_of_programs_are_refused_and_declared(code, dtype, rng):
    y = rng.integers(0, 2, M)
    X = coded(values(rng), code, rng).astype(dtype)
    with pytest.raises(dhsic.DataError, match="many programs write for missing values") as told:
        dhsic.select(X, y, **QUIET)
    said = re.search(r"pass missing_code=(\S+)\. If", str(told.value))[1]
    assert float(said) == code
    lost = np.where(np.asarray(code, dtype) == X, np.nan, X)
    named = dhsic.select(X, y, missing_code=float(said), **QUIET)["rank"].values
    np.testing.assert_array_equal(named, dhsic.select(lost, y, **QUIET)["rank"].values)
    covariate = np.where(rng.random(M) < 0.1, code, rng.normal(50, 9, M).round(1))[:, None]
    with pytest.raises(dhsic.InputError, match="values of covariates are"):
        dhsic.select(values(rng), y, covariates=covariate, **QUIET)


SHORT_SCALES = {  # values, their codes
    "sex": ([1] * 50 + [2] * 40 + [9] * 6, [9]),
    "died": ([0] * 60 + [1] * 30 + [9], [9]),
    "education": ([1, 2, 3, 4] * 20 + [8] * 3 + [9] * 4, [8, 9]),
    "answers": ([1, 2, 3, 4, 5, 6, 7] * 12 + [9] * 9, [9]),
    "refused": ([1, 2] * 40 + [7, 7, 8, 9, 9], [7, 8, 9]),
    "two digits": ([1, 2, 3, 4, 5] * 18 + [88, 99], [88, 99]),
}


@pytest.mark.parametrize("name", SHORT_SCALES)
def test_codes_beside_short_scales_of_arrays_are_refused(name, rng):
    column, codes = SHORT_SCALES[name]
    labels = rng.permutation(column)
    X = rng.standard_normal((len(labels), 6))
    for given in ({"y": labels}, {"y": labels[:, None] * 1.0}, {"covariates": labels[:, None]}):
        with pytest.raises(dhsic.InputError) as told:
            check_coded(X, **given)
        named = re.search(r"are ([\d or]+), which", str(told.value))[1].split(" or ")
        assert sorted(map(int, named)) == codes
        what = next(iter(given))
        shift = re.search(r"pass (\w+ \+ \d+), which gives the same ranking", str(told.value))[1]
        check_coded(X, **{what: eval(shift, given)})
        keep = eval(re.search(r"keep = (.*); then", str(told.value))[1], {"numpy": np, **given})
        check_coded(X[keep], **{what: given[what][keep]})


@pytest.mark.parametrize("name", ["sex", "education"])
def test_codes_beside_short_scales_of_labels_are_refused_and_the_options_work(
    name, rng, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    column, codes = SHORT_SCALES[name]
    labels = rng.permutation(column)
    X, m = rng.standard_normal((len(labels), 6)), len(labels)
    table = pd.DataFrame(X, index=[f"s{i}" for i in range(m)]).add_prefix("g").assign(q=labels)
    table.to_csv("t.csv", index_label="id")
    refused = " ".join(run("test", "t.csv", "--target", "q", code=2).stderr.split())
    assert f"values of 'q' are {' or '.join(map(str, dict(codes_in(labels))))}" in refused
    remedy = shlex.split(re.search(r"with ((--na \S+ )+--drop-missing)", refused)[1])
    left_out = run("test", "t.csv", "--target", "q", *remedy).stderr
    assert f"{np.isin(labels, codes).sum()} of {m} samples excluded" in " ".join(left_out.split())
    kept = re.search(r"pass ((--not-na -?\d+ ?)+)\.", refused)[1].split()
    assert "left out" not in run("test", "t.csv", "--target", "q", *kept).stderr


ORDINARY = {
    "0 to 10": np.repeat(np.arange(11), 5),
    "1 to 9": np.repeat(np.arange(1, 10), 5),
    "0 to 8": np.repeat(np.arange(9), 5),
    "credit": np.repeat([1, 2, 3, 4, 5, 7, 8, 9], [53, 30, 59, 408, 54, 38, 30, 18]),
    "classes of glass": np.repeat([1, 2, 3, 5, 6, 7], [70, 76, 17, 13, 9, 29]),
    "few counts": np.repeat([0, 1, 2, 3, 8], [60, 20, 8, 2, 1]),
    "counts": np.repeat(np.delete(np.arange(10), 8), [10, 30, 40, 30, 20, 10, 5, 2, 1]),
    "steps": np.repeat([0, 3, 6, 9], 10),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_small_whole_numbers_without_a_code_are_taken(name):
    assert codes_in(ORDINARY[name]) == {}


def test_counts_have_no_codes():
    rng = np.random.default_rng(4)
    kinds = [lambda mean: rng.poisson(mean, (150, 60))]
    kinds += [lambda mean: rng.negative_binomial(1, 1 / (1 + mean), (150, 60))]
    found = [
        codes_in(column)
        for kind in kinds
        for mean in (0.1, 0.5, 1, 2, 4, 6)
        for column in kind(mean).T
    ]
    assert sum(map(bool, found)) <= 3  # of 720


@pytest.mark.filterwarnings("default")  # also far from all others
@pytest.mark.parametrize(
    ("codes", "is_refused"),
    [([999], True), ([99999], True), ([99, 99], True), ([99], False), ([-1], True), ([102], False)],
    ids=str,
)
def test_one_or_two_codes_far_from_all_others_are_refused(codes, is_refused, rng):
    ages = rng.permutation(np.concatenate([rng.integers(20, 82, 150), codes]))
    assert codes_in(ages) == ({codes[0]: len(codes)} if is_refused else {})
    X, y = rng.standard_normal((len(ages), 6)), rng.standard_normal(len(ages))
    if is_refused:
        with pytest.raises(dhsic.InputError, match=f"of covariates are {codes[0]}, which many"):
            dhsic.select(X, y, covariates=ages[:, None], **QUIET)


def test_codes_of_answers_in_many_features_are_refused_and_the_options_work(rng, tmp_path):
    answers = rng.integers(1, 6, (150, 8)).astype(float)
    answers[rng.random(answers.shape) < 0.1] = 9
    X, y = np.hstack([rng.normal(50, 10, (150, 20)).round(1), answers]), rng.standard_normal(150)
    with pytest.raises(dhsic.DataError, match=r"8 features are 9, which surveys write") as told:
        dhsic.select(X, y, **QUIET)
    assert remedy_of(str(told.value).partition(" If they are real")[0], "missing_code")[1] == 9
    lost = np.where(X == 9, np.nan, X)
    named, missing = dhsic.select(X, y, missing_code=9, **QUIET), dhsic.select(lost, y, **QUIET)
    np.testing.assert_array_equal(named["rank"], missing["rank"])
    dhsic.select(X, y, missing_code=None, **QUIET)
    table = pd.DataFrame(X, index=[f"s{i}" for i in range(150)]).add_prefix("q").assign(y=y)
    table.to_csv(tmp_path / "t.csv", index_label="id")
    command = ("test", tmp_path / "t.csv", "--target", "y")
    assert "pass --missing-code 9" in " ".join(run(*command, code=3).stderr.split())
    run(*command, "--missing-code", "9")
    every = [word for i in range(20, 28) for word in ("--na", f"q{i}=9")]
    assert "surveys" not in run(*command, *every).stderr


def test_a_code_of_answers_in_one_feature_is_told(rng):
    X = np.column_stack(
        [rng.normal(50, 10, (150, 20)), rng.choice([1, 2, 9], 150, p=[0.5, 0.4, 0.1])]
    )
    with pytest.warns(UserWarning, match=r"1 feature .* \(20: 9 \d+ times, others at most 2\)"):
        dhsic.select(X, rng.standard_normal(150), **QUIET)


@pytest.mark.parametrize("mean", [0.5, 2, 4])
def test_counts_of_features_have_no_codes(mean, rng):
    for X in (rng.poisson(mean, (150, 60)), rng.negative_binomial(1, 1 / (1 + mean), (150, 60))):
        dhsic.select(X, rng.standard_normal(150), missing_code="auto", **QUIET)


SLIPS = np.random.default_rng(6).normal(170, 9, 150).round()


@pytest.mark.parametrize(("far", "code"), [(9999, 2), (1e30, 2), (1e6, 0), (5e5, 0)])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.filterwarnings("default")
def test_far_labels_are_told_with_covariates_as_without(far, code, n, rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = rng.standard_normal((90, 8))
    y = (50 + 15 * X[:, 3] + rng.standard_normal(90)).round(1).clip(1, 100)
    y[7 : 7 + n] = far
    names = pd.Index([f"s{i}" for i in range(90)], name="id")
    pd.DataFrame(X, names).add_prefix("g").to_csv("x.csv")
    pd.DataFrame({"y": y, "c": rng.standard_normal(90)}, names).to_csv("l.csv")
    words = ["test", "x.csv", "--labels", "l.csv", "--target", "y"]
    sentences = set()
    for more in [], ["--covariate", "c"]:
        said = " ".join(run(*words, *more, code=code).stderr.split())
        sentences.add(re.search(r"(Error|Warning): .*?--drop-missing", said)[0])
        options = re.search(r"--na \S+ --drop-missing", said)[0].split()
        done = run(*words, *more, *options)
        assert re.search(r"\n +1 +(\S+) ", done.output)[1] == "g3"
    assert len(sentences) == 1
    assert f"{n} of 90 values" in said or f"{n} value" in said


@pytest.mark.filterwarnings("default")
def test_slips_among_labels_are_told_by_sample_and_left_out_by_the_options(rng, tmp_path):
    heights = SLIPS.copy()
    heights[[7, 20]] = 1530, 1.84
    X = pd.DataFrame(rng.standard_normal((150, 6)), index=[f"s{i}" for i in range(150)])
    X = X.add_prefix("g")
    said = r"2 values of y lie extremely far .*: 1530 of 's7', 1.84 of 's20'"
    with pytest.warns(UserWarning, match=said):
        dhsic.select(X, heights, **QUIET)
    X.assign(height=heights).to_csv(tmp_path / "t.csv", index_label="id")
    command = ("test", tmp_path / "t.csv", "--target", "height")
    told = " ".join(run(*command).stderr.split())
    remedy = shlex.split(re.search(r"out: (--na .*--drop-missing)", told)[1])
    again = " ".join(run(*command, *remedy).stderr.split())
    assert "extremely" not in again
    assert "2 of 150 samples excluded" in again


@pytest.mark.parametrize("factor", [1000, 100, 1 / 1000])
@pytest.mark.parametrize("n", [4, 8, 40])
@pytest.mark.filterwarnings("default")
def test_labels_of_some_samples_in_another_unit_are_told_together(factor, n, rng, tmp_path):
    weights = rng.normal(70, 12 if factor == 100 else 20, 150).clip(30, 140).round(2)
    at = np.sort(rng.choice(150, n, replace=False))
    slips = np.where(np.isin(np.arange(150), at), weights * factor, weights)
    np.testing.assert_array_equal(slips_in(slips), at)
    X = pd.DataFrame(rng.standard_normal((150, 6))).add_prefix("g").assign(weight=slips)
    X.to_csv(tmp_path / "t.csv", index_label="id")
    command = ("test", tmp_path / "t.csv", "--target", "weight")
    told = " ".join(run(*command).stderr.split())
    how = "Divided by" if factor > 1 else "Multiplied by"
    assert f"{n} values of 'weight' lie extremely far from all others" in told
    assert f"{how} {max(factor, 1 / factor):,.0f}, they lie among the others" in told
    if n > 20:
        assert "or leave those samples out. " in f"{told} "
        return
    remedy = shlex.split(re.search(r"out: (--na .*?--drop-missing)", told)[1])
    again = " ".join(run(*command, *remedy).stderr.split())
    assert "extremely" not in again
    assert f"{n} of 150 samples excluded" in again


DRAWS = {
    "two groups": lambda rng, m: np.where(rng.random(m) < 0.3, 60, 4) + rng.normal(size=m),
    "normal": lambda rng, m: rng.normal(size=m),
    "Cauchy": lambda rng, m: rng.standard_cauchy(m),
    "t of 3": lambda rng, m: rng.standard_t(3, m),
    "log-normal": lambda rng, m: rng.lognormal(0, 2, m),
    "exponential": lambda rng, m: rng.exponential(1, m),
    "Pareto": lambda rng, m: 1 + rng.pareto(1, m),
    "Poisson": lambda rng, m: rng.poisson(5, m),
    "overdispersed": lambda rng, m: rng.negative_binomial(0.5, 0.05, m),
    "gamma": lambda rng, m: rng.gamma(0.3, 1, m),
    "uniform": lambda rng, m: rng.uniform(size=m),
    "p-values": lambda rng, m: 10 ** -rng.uniform(0, 8, m),
}


@pytest.mark.parametrize("name", DRAWS)
def test_ordinary_distributions_have_no_slips(name):
    rng = np.random.default_rng(0)
    found = [
        slips_in(np.asarray(DRAWS[name](rng, m), float)).size for m in (60, 150) for _ in range(60)
    ]
    assert sum(map(bool, found)) <= 1


@pytest.mark.parametrize("python", [False, True])
def test_minus_nine_that_repeats_within_the_range_of_a_trait_is_refused(python, rng, tmp_path):
    X = rng.standard_normal((M, D))
    y = (4 * X[:, 2] + rng.standard_normal(M)).round(4)
    y[::8] = -9
    y[1] = -11.25
    if python:
        with pytest.raises(dhsic.InputError, match=r"15 of 120 .* no other value repeats as often"):
            dhsic.select(X, y, **PLAIN)
        return
    pd.DataFrame(X).add_prefix("g").assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    said = " ".join(run("test", tmp_path / "t.csv", "--target", "y", code=2).stderr.split())
    assert "15 of 120 values of 'y' are -9, and no other value repeats as often" in said
    remedy = re.search(r"with (--na \S+ --drop-missing)", said)[1].split()
    assert run("test", tmp_path / "t.csv", "--target", "y", "-n", "1", *remedy).stdout.count("g2")
    run("test", tmp_path / "t.csv", "--target", "y", "-n", "1", "--not-na", "-9")


def test_temperatures_that_repeat_are_values(rng):
    assert codes_in(rng.normal(-9, 1, 500).round(1)) == {}
    assert codes_in(np.append(rng.normal(0, 5, 400).round(1), [-9.0] * 5)) == {}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_minus_one_beside_classes_from_zero_is_told(n_classes, rng, tmp_path):
    X, y = rng.standard_normal((M, D)), np.arange(M) % n_classes
    X[:, 2] += y
    y[::15] = -1
    with pytest.warns(UserWarning, match=r"8 of 120 values of y are -1, which pandas writes"):
        dhsic.select(X, y, **PLAIN)
    pd.DataFrame(X).add_prefix("g").assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    words = ("test", tmp_path / "t.csv", "--target", "y", "-n", "1")
    said = " ".join(run(*words).stderr.split())
    remedy = re.search(r"If they are missing, pass (--na \S+ --drop-missing)", said)[1]
    found = run(*words, *remedy.split())
    assert f"labels {n_classes} classes" in " ".join(found.stderr.split())


@pytest.mark.filterwarnings("error")
def test_signs_and_balanced_trends_are_classes(rng):
    X = rng.standard_normal((M, D))
    for y in (np.arange(M) % 2 * 2 - 1, np.arange(M) % 3 - 1):
        dhsic.select(X, y, **PLAIN)


@pytest.mark.parametrize(("code", "scale"), [(999.99, 8), (99.9, 20), (9.99, 1)])
def test_a_repeated_number_of_nines_in_few_features_is_told(code, scale, rng):
    X = np.round(rng.uniform(0.1, 1, (120, 40)) * scale, 3)
    X[:25, 5] = code
    with pytest.warns(UserWarning, match=rf"repeated number, .* \(5: {code} 25 times"):
        dhsic.test_features(X, rng.standard_normal(120))
    X[:25, 5] = scale * 98.63
    dhsic.test_features(X, rng.standard_normal(120))


def test_minus_one_below_logarithms_is_told_in_many_features(rng):
    X = np.log2(rng.uniform(1.4, 60, (120, 60)))
    X[:, 30:] -= 3  # other features have negative values
    X[:12, 5:25] = -1
    with pytest.warns(UserWarning, match=r"18 features contain .* In 2 other features"):
        dhsic.test_features(X, rng.standard_normal(120))


def test_a_code_of_a_failed_sample_is_refused(rng):
    X = rng.uniform(1, 60, (120, 60))
    X[7] = -9
    with pytest.raises(dhsic.DataError, match="60 values of 60 of 60 features are -9"):
        dhsic.test_features(X, rng.standard_normal(120))


def test_99_above_the_ages_of_a_covariate_is_told(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    age = np.clip(rng.normal(55, 14, 240).round(), 18, 92)
    names = [f"S{i}" for i in range(240)]
    pd.DataFrame(rng.standard_normal((240, 5)), names).add_prefix("g").to_csv("x.csv")
    table = pd.DataFrame({"id": names, "y": rng.standard_normal(240), "age": age.astype(int)})
    command = "test", "x.csv", "--labels", "y.csv", "--target", "y", "--covariate", "age"
    warnings.simplefilter("default")  # warnings of commands are printed
    table.to_csv("y.csv", index=False)
    assert "missing" not in run(*command).stderr
    table.loc[:18, "age"] = 99
    table.to_csv("y.csv", index=False)
    said = " ".join(run(*command).stderr.split())
    assert "19 of 240 values of 'age' are 99, more than of any other number" in said
    assert "If they are missing, pass --na age=99 --drop-missing." in said
    assert "221 real values" in run(*command, "--na", "age=99", "--drop-missing").stderr
