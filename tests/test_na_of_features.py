"""Texts of --na that are meant for the labels, and that many feature values are, too."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic

pytestmark = [
    pytest.mark.filterwarnings("ignore:Missing values depend on the labels"),
    pytest.mark.filterwarnings("ignore:'0' .* is used as a name"),
    pytest.mark.filterwarnings("always:na="),
]
M, D = 120, 12
RNG = np.random.default_rng(5)
X = RNG.poisson(1, (M, D))
STATUS = np.where(RNG.random(M) < 0.1, "0", np.where(X[:, 4] > 1, "case", "control"))


def write_tables(folder, column="st", values=X):
    features = pd.DataFrame(values, index=[f"s{i}" for i in range(M)]).add_prefix("g")
    features.to_csv(folder / "x.csv", index_label="id")
    labels = pd.DataFrame({column: STATUS}, features.index)
    labels.to_csv(folder / "y.csv", index_label="id")
    features.join(labels).to_csv(folder / "both.csv", index_label="id")


@pytest.mark.parametrize("code", ["0", "1"])
@pytest.mark.parametrize("column", ["st", "final status"])
def test_feature_values_that_na_removes_are_counted_and_the_option_keeps_them(
    code, column, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("test_na_of_features.STATUS", np.where(STATUS == "0", code, STATUS))
    write_tables(tmp_path, column)
    words = ("test", "both.csv", "--target", column, "--drop-missing")
    said = told(run(*words, "--na", code))
    n = (int(code) == X).sum()
    assert f"--na {code} also makes {n:,} of {X.size:,} feature values missing" in said
    option = shlex.split(re.search(r"for the labels alone, pass (--na .*?)\. ", said)[1])
    kept = run(*words, *option)
    assert "feature values missing" not in told(kept)
    assert re.search(r"\n +1 +(\S+) ", kept.output)[1] == "g4"


def test_labels_in_another_table_are_named_by_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    words = ("test", "x.csv", "--labels", "y.csv", "--target", "st", "--drop-missing")
    said = told(run(*words, "--na", "0"))
    assert "pass --na NAME=0, where NAME is the name of their column" in said
    assert "feature values missing" not in told(run(*words, "--na", "st=0"))


def test_python_is_told_its_parameter(tmp_path):
    write_tables(tmp_path)
    with pytest.warns(UserWarning, match=r"na=\['0'\] also makes .* pass na=\['st=0'\]\."):
        dhsic.test_features(tmp_path / "both.csv", "st", na=["0"])


@pytest.mark.parametrize("na", ["0", "-9", "99", "?"])
def test_few_missing_values_need_no_warning(na, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = np.round(RNG.normal(5, 1, (M, D)), 3).astype(object)
    values[RNG.random((M, D)) < (0.5 if na == "?" else 0.05)] = na  # "?" is no value otherwise
    write_tables(tmp_path, values=values)
    words = ("test", "both.csv", "--target", "st", "--drop-missing", "--na", na, "--na", "st=0")
    assert "feature values missing" not in told(run(*words))
