"""Masses and retention times beside samples are named, and left out by the advice."""

import re
import subprocess

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.joins.mass_spectra import describes_features, warn_of_descriptions

M, D = 30, 8
LIKE = "seem to describe features (mass or retention time), not samples"


@pytest.fixture
def peaks(rng):
    """Areas (m, d) with the fourth larger in cases; class of each sample; and m/z, RT per peak."""
    ill = np.arange(M) % 2 == 1
    X = rng.lognormal(9, 0.4, (M, D))
    X[:, 3] *= 1 + 2 * ill
    names = [f"S{i:02d}" for i in range(M)]
    frame = pd.DataFrame(X.round(1), names, [f"F{j}" for j in range(D)])
    about = pd.DataFrame(
        [rng.uniform(100, 900, D).round(4), rng.uniform(0.5, 20, D).round(2)],
        ["m/z", "RT"],
        frame.columns,
    )
    return pd.concat([about, frame]), pd.Series(np.where(ill, "case", "control"), names)


def best(path, *words):
    result = path.parent / "r.tsv"
    said = run("test", path, *words, "--no-progress", "--out", result, "--force")
    return pd.read_csv(result, sep="\t").iloc[0]["name"], told(said)


@pytest.mark.parametrize("transpose", [False, True])
def test_samples_without_a_label_are_named(transpose, peaks, tmp_path):
    X, y = peaks
    table = X.assign(status=y)[["status", *X.columns]]
    path = tmp_path / "peaks.csv"
    (table.T if transpose else table).to_csv(path, index_label="name")
    words = ["--target", "status", *["--transpose"] * transpose]
    said = told(run("test", path, *words, code=2))
    assert f"2 of 32 samples have missing values (status: 2): m/z, RT. 'm/z', 'RT' {LIKE}." in said
    name, said = best(path, *words, "--drop-missing")
    assert name == "F3"
    assert f"2 of 32 samples excluded for missing values: m/z, RT. 'm/z', 'RT' {LIKE}" in said


def test_other_samples_without_a_label_are_named_alone(peaks, tmp_path):
    X, y = peaks
    table = X.iloc[2:].assign(status=y.mask(np.arange(M) % 5 == 0))
    table.to_csv(tmp_path / "peaks.csv", index_label="name")
    said = told(run("test", tmp_path / "peaks.csv", "--target", "status", code=2))
    assert "6 of 30 samples have missing values (status: 6): S00, S05, S10, ... (6 in all)." in said
    assert "describe" not in said


@pytest.mark.filterwarnings("default")
def test_masses_without_labels_are_left_out_by_the_option(peaks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _ = peaks
    X.T.to_csv("peaks.csv", index_label="peak")
    words = ["select", "peaks.csv", "--transpose", "--label-kernel", "self", "-n", "2"]
    said = told(run(*words, "--no-progress"))
    assert f"'m/z', 'RT' {LIKE}. Exclude them: --remove ids.txt" in said
    command = re.search(r"\((printf .* > ids.txt) writes", said)[1]
    subprocess.run(["bash", "-c", command], check=True)
    left = told(run(*words, "--remove", "ids.txt", "--no-progress"))
    assert "describe features" not in left
    assert "2 of 32 samples" in left or "30 samples" in left


def test_masses_in_a_frame_are_left_out_by_the_parameter(peaks):
    X, y = peaks
    labels = pd.concat([pd.Series(["control", "case"], ["m/z", "RT"]), y])
    keep = {"n_features_to_select": 1, "progress": False}
    with pytest.warns(UserWarning, match=re.escape(LIKE)) as told_of:
        dhsic.select(X, labels, **keep)
    advice = re.search(r"filters=(dhsic\.Filters\(.*\))\.$", str(told_of[0].message))[1]
    result = dhsic.select(X, labels, filters=eval(advice), **keep)
    assert str(result["feature"][result["selected"].to_numpy()].item()) == "F3"


@pytest.mark.parametrize(
    "name",
    [
        *("m/z", "mz", "M.Z", "RT", "rt (min)", "Retention time", "Ret. time [min]"),
        *("row m/z", "row retention time", "Average Mz", "Average Rt(min)", "mzmed", "rtmax"),
        *("Mass-to-charge ratio", "m/z ratio"),
    ],
)
def test_names_that_programs_write(name):
    assert describes_features(name)


def test_samples_are_samples():
    names = np.array(["RT1", "S_RT", "mz01", "art", "mass", "Z", "RT-PCR", "Max", "min", "time"])
    warn_of_descriptions(names)  # a warning would be an error
    warn_of_descriptions(None)
