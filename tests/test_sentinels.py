"""Codes for missing values among features, covariates and labels that are numbers."""

import dask.array
import numpy as np
import pytest
import scipy.sparse
import zarr
from commands import run

import dhsic
from dhsic.interactions import find_pairs
from dhsic.joins.text import n_coded

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
    assert "Pass --missing-code -999" in refused.stderr
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
    sign = "-" if code > 0 else "+"
    assert f"pass y {sign} {abs(code)}, which ranks alike" in str(told.value)
    dhsic.select(X, ages - code, **QUIET)


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
