"""Pools, blanks and standards among the samples are told, and left out by what is advised."""

import re
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.joins.quality_controls import warn_of_controls

M, D, N = 60, 12, 10
LIKE = "look like quality controls"


def frame(names, label="QC"):
    """Samples of two classes and N controls: features differ in these, g3 between the classes."""
    rng = np.random.default_rng(5)
    ill = np.arange(M) % 2 == 1
    X = rng.normal(size=(M + N, D))
    X[:M, 3] += 2.5 * ill
    X[M:] = 3 + 0.05 * rng.normal(size=(N, D))
    index = pd.Index([*(f"S{i:02d}" for i in range(M)), *names], name="sample")
    y = [*np.where(ill, "ill", "well"), *[label] * N]
    return pd.DataFrame(X, index, [f"g{i}" for i in range(D)]).assign(y=y)


def best(result):
    return int(np.argmin(result.p_values))


QC = [f"QC{i:02d}" for i in range(N)]
CONTROLS = {
    "QC": (QC, "QC"),
    "labels alone": ([f"S{i}" for i in range(90, 90 + N)], "Pooled QC"),
    "blanks as a class of the study": ([f"Blank_{i}" for i in range(N)], "well"),
    "pools": ([f"20240101_pool_{i}" for i in range(N)], "Control pool"),
    "standards": ([f"NIST SRM1950-{i}" for i in range(N)], "NIST"),
    "wells": ([f"NTC-{i}" for i in range(N)], "ntc"),
}


@pytest.mark.parametrize(
    ("name", "suffix"),
    [*((name, "csv") for name in CONTROLS), ("QC", "tsv"), ("QC", "parquet")],
)
@pytest.mark.filterwarnings("default")
def test_controls_are_told_until_they_are_left_out(name, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = frame(*CONTROLS[name])
    if suffix == "parquet":
        X.to_parquet("x.parquet")
    else:
        X.to_csv(f"x.{suffix}", sep="," if suffix == "csv" else "\t")
    words = ("test", f"x.{suffix}", "--target", "y", "-n", "1")
    said = told(run(*words))
    assert f"{N} of {M + N} samples {LIKE}" in said
    options = re.search(r"Exclude them: (--na .* --drop-missing)\. If", said)
    if options is None:
        command = re.search(r"--remove ids.txt \((printf .* > ids.txt) writes", said)[1]
        subprocess.run(["bash", "-c", command], check=True)
        more = ["--remove", "ids.txt"]
    else:
        words_of = subprocess.run(
            ["bash", "-c", f"printf '%s\\n' {options[1]}"],
            capture_output=True,
            text=True,
            check=True,
        )
        more = words_of.stdout.splitlines()
    left = run(*words, *more)
    assert LIKE not in told(left)
    assert "g3" in left.stdout


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_are_told_in_python_until_they_are_left_out(name):
    X = frame(*CONTROLS[name])
    names = {"X": X.drop(columns="y"), "Y": X["y"], "dhsic": dhsic, "numpy": np}
    with pytest.warns(UserWarning, match=LIKE) as told_of:
        dhsic.test_features(names["X"], names["Y"])
    assert told_of[0].filename == __file__
    advice = re.search(r"Exclude them: (.*)\. If they", str(told_of[0].message))[1]
    filters = None
    if advice.startswith("filters="):
        filters = eval(advice.removeprefix("filters="), names)
    else:
        exec(advice, names)
    found = dhsic.test_features(names["X"], names["Y"], filters=filters)
    assert best(found) == 3


def test_controls_are_told_of_a_column_and_of_an_array():
    X = frame(QC).reset_index(drop=True)
    names = {"X": X}
    with pytest.warns(UserWarning, match=LIKE) as told_of:
        dhsic.test_features(X, "y")
    exec(re.search(r"Exclude them: (.*)\. If", str(told_of[0].message))[1], names)
    assert best(dhsic.test_features(names["X"], "y")) == 3
    names = {"X": X.drop(columns="y").to_numpy(), "Y": X["y"].to_numpy(), "numpy": np}
    with pytest.warns(UserWarning, match=LIKE) as told_of:
        dhsic.test_features(names["X"], names["Y"])
    exec(re.search(r"Exclude them: (.*)\. If", str(told_of[0].message))[1], names)
    assert best(dhsic.test_features(names["X"], names["Y"])) == 3


ORDINARY = {
    "cases and controls": (None, ["case", "control"] * 15),
    "care": (None, ["standard", "intensive", "none"] * 10),
    "provinces": (None, ["ON", "QC", "BC"] * 10),
    "people of provinces": ([f"{p}-{i}" for p in ("ON", "QC", "BC") for i in range(10)], None),
    "parts of a river": (None, ["pool", "riffle", "run"] * 10),
    "pools of cells": ([f"pool_{i}" for i in range(30)], None),
    "one control": (["QC1", *(f"S{i}" for i in range(29))], None),
    "controls alone": (None, ["QC", "case"] * 15),
    "names": ([f"control_{i}" for i in range(15)] + [f"sample {i}" for i in range(15)], None),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_samples_are_no_controls(name):
    names, labels = ORDINARY[name]
    names = None if names is None else np.array(names, dtype=object)
    columns = [] if labels is None else [("y", np.array(labels, dtype=object))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_controls(columns, names, lambda *_: "")
