"""Rows of one unit with one label are told, by a column or by their values, until one is kept."""

import re
import subprocess
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.joins.repeated_measurements import close_groups, warn_of_repeats

UNITS, VISITS, D = 40, 4, 30
M = UNITS * VISITS
LIKE = f"{M} samples look like repeated measurements of {UNITS} units"


def visits(column=None, noise=0.1, *, is_shuffled=False, y=None):
    """Visits of units of two classes, between which g3 differs; rows have names of their own."""
    rng = np.random.default_rng(8)
    ill = np.arange(UNITS) % 2 == 1
    X = rng.normal(size=(UNITS, D))
    X[:, 3] += 3 * ill
    X = np.repeat(X, VISITS, axis=0) + noise * rng.normal(size=(M, D))
    frame = pd.DataFrame(X.round(3), columns=[f"g{i}" for i in range(D)])
    labels = np.where(ill, "ill", "well") if y is None else y
    frame["y"] = np.repeat(labels, VISITS)
    if column is not None:
        frame[column] = np.repeat(rng.choice(90_000, UNITS, replace=False), VISITS)
    if is_shuffled:
        frame = frame.sample(frac=1, random_state=2)
    frame.index = pd.Index([f"r{i}" for i in range(M)], name="row")
    return frame


CASES = {
    "a column": partial(visits, "patient", noise=2),
    "a column without a name of units": partial(visits, "num", noise=2),
    "shuffled": partial(visits, "id_nr", noise=2, is_shuffled=True),
    "values": visits,
    "shuffled values": partial(visits, is_shuffled=True),
    "numbers": partial(visits, "rid", noise=2, y=np.random.default_rng(4).normal(size=UNITS)),
}


@pytest.mark.parametrize(
    ("name", "suffix"), [*((name, "csv") for name in CASES), ("a column", "parquet")]
)
@pytest.mark.filterwarnings("default")
def test_repetitions_are_told_until_one_of_each_is_kept(name, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = CASES[name]()
    X.to_csv("x.csv") if suffix == "csv" else X.to_parquet("x.parquet")
    words = ["test", f"x.{suffix}", "--target", "y", "-n", "1"]
    said = told(run(*words))
    assert LIKE in said
    assert ("is also used as a feature" in said) == ("values" not in name)
    command = re.search(r"--keep ids.txt \((printf .* > ids.txt) writes", said)[1]
    subprocess.run(["bash", "-c", command], check=True)
    more = re.search(r"exclude it: --not-feature (\w+)\.", said)
    left = run(*words, "--keep", "ids.txt", *(("--not-feature", more[1]) if more else ()))
    assert f"{UNITS} samples x {D} features" in told(left)
    assert "Warning" not in told(left)
    assert name == "numbers" or "g3" in left.stdout


def test_repetitions_are_told_of_frames_and_arrays():
    X = visits("patient", noise=2)
    with pytest.warns(UserWarning, match=LIKE) as told_of:
        dhsic.test_features(X, "y")
    assert told_of[0].filename == __file__
    said = str(told_of[0].message)
    filters = eval(re.search(r"filters=(dhsic.Filters\(.*?\))\.", said)[1])
    not_features = eval(re.search(r"not_features=(\[.*\])\.$", said)[1])
    left = dhsic.test_features(X.drop(columns=not_features), "y", filters=filters)
    assert int(np.argmin(left.p_values)) == 3
    with pytest.warns(UserWarning, match="used as a feature"):
        dhsic.test_features(X.drop(columns="y"), X["y"])
    X = visits()
    y, X = X.pop("y").to_numpy(), X.to_numpy()
    with pytest.warns(UserWarning, match=LIKE) as told_of:
        dhsic.test_features(X, y)
    rows = eval(re.search(r"only the rows (\[.*\]) \(counted", str(told_of[0].message))[1])
    assert int(np.argmin(dhsic.test_features(X[rows], y[rows]).p_values)) == 3


@pytest.mark.filterwarnings("default")
def test_a_column_that_is_no_feature_tells_of_repetitions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = visits("patient", noise=2)
    X["patient"] = "P" + X["patient"].astype(str)
    X.to_csv("x.csv")
    words = ("test", "x.csv", "--target", "y", "--not-feature", "patient")
    said = told(run(*words))
    assert LIKE in said
    assert "used as a feature" not in said


def ordinary(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(M, D)), columns=[f"g{i}" for i in range(D)])
    return rng, X, rng.integers(0, 2, M)


def clusters(n, y_of):
    rng, X, _ = ordinary()
    at = np.arange(M) % n
    return X * 0.1 + 3 * rng.normal(size=(n, D))[at], y_of(at)


def smooth():
    rng, X, y = ordinary()
    walk = np.cumsum(rng.normal(size=(M, 1)), axis=0)
    return X * 0.01 + walk * rng.normal(size=D), y


def with_column(of):
    rng, X, y = ordinary()
    column, y = of(rng, y)
    return X.assign(column=column), y


def paired():
    X = visits()
    return X.drop(columns="y"), np.arange(M) % 2


AGES = np.random.default_rng(1).integers(40, 60, M)
ORDINARY = {
    "independent": lambda: ordinary()[1:],
    "tissues that are the classes": lambda: clusters(
        10, lambda at: np.array([f"t{a}" for a in at])
    ),
    "few clusters": lambda: clusters(5, lambda at: at % 2),
    "a walk": smooth,
    "before and after": paired,
    "age decides": lambda: with_column(lambda *_: (AGES, AGES > 50)),
    "age and its double": lambda: with_column(lambda *_: (AGES, 2.5 * AGES)),
    "ages": lambda: with_column(lambda _, y: (AGES, y)),
    "counts": lambda: with_column(lambda rng, y: (rng.poisson(2 + 30 * y), y)),
    "sites": lambda: with_column(lambda rng, y: (rng.integers(1, 6, M), y)),
    "dosage of a marker": lambda: with_column(lambda _, y: (2 * y, y)),
    "patients whose labels change": lambda: with_column(lambda _, y: (np.arange(M) // 4 * 7, y)),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_rows_are_no_repetitions(name):
    X, y = ORDINARY[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_repeats(X, dhsic.open_source(X), np.asarray(y), None, None)


def test_groups_of_different_sizes_are_found():
    rng = np.random.default_rng(3)
    at = np.repeat(np.arange(20), rng.integers(1, 5, 20))
    at = np.concatenate([at, np.arange(20)])
    X = rng.normal(size=(20, D))[at] + 0.05 * rng.normal(size=(at.size, D))
    codes = close_groups(X)
    assert (codes[:, None] == codes).tolist() == (at[:, None] == at).tolist()
