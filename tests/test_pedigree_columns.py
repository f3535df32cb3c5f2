"""Columns before the genotypes of .raw tables that other programs wrote; columns of text."""

import re

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.independence import test_features as features_tested

M, D = 80, 6
RNG = np.random.default_rng(5)
G = RNG.integers(0, 3, size=(M, D))
Y = G[:, 2] + 0.5 * RNG.normal(size=M)
IDS = [f"i{i}" for i in range(M)]
RAW = pd.DataFrame({
    "FID": np.arange(M) + 1, "IID": IDS, "PAT": 0, "MAT": 0,
    "SEX": RNG.integers(1, 3, M), "PHENOTYPE": np.where(Y > 1, 2, 1),
    **{f"rs{j}_A": G[:, j] for j in range(D)},
})  # fmt: skip


@pytest.mark.parametrize("has_index", [False, True])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_the_pedigree_of_a_table_is_no_feature(has_index, separator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RAW.to_csv("x.csv", sep=separator, index=has_index)
    pd.DataFrame({"IID": IDS, "y": Y}).to_csv("l.csv", index=False)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y"))
    assert f"{M} samples x {D} features" in said
    assert "not features: SEX, PHENOTYPE" in said


def test_the_pedigree_of_a_frame_is_dropped_by_the_advice():
    frame = RAW.set_index("IID").drop(columns="FID")
    with pytest.raises(dhsic.InputError, match=r"of a \.raw table of PLINK") as error:
        features_tested(frame, Y)
    code = re.search(r"Drop them: (.*)\.$", str(error.value))[1]
    tested = features_tested(eval(code, {"X": frame}), Y)
    assert tested.names.tolist() == [f"rs{j}_A" for j in range(D)]


@pytest.mark.filterwarnings("ignore")
def test_sex_beside_genotypes_may_be_a_feature():
    frame = RAW.set_index("IID").drop(columns=["FID", "PAT", "MAT", "PHENOTYPE"])
    assert features_tested(frame, Y).names.tolist()[0] == "SEX"


@pytest.mark.parametrize("form", ["PT{}M", "P{}D", "P{}DT6H"])
def test_durations_are_no_categories(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = pd.Index(IDS, name="id")
    pd.DataFrame({"g": RNG.normal(size=M), "d": [form.format(5 * g) for g in G[:, 2]]}, ids).to_csv(
        "x.csv"
    )
    pd.DataFrame({"y": Y}, ids).to_csv("l.csv")
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    assert "looks like amounts, ranges, dates, times" in said or "means numbers: durations" in said
    option = re.search(r"pass (--category \w+)\.", said)[1]
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", *option.split()))
    assert "categories, without order (number of levels): d (3)" in said


def test_names_of_weekdays_are_told_as_categories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = pd.Index(IDS, name="id")
    days = np.array(["Mon", "Tue", "Wed"])[G[:, 2]]
    pd.DataFrame({"g": RNG.normal(size=M), "day": days}, ids).to_csv("x.csv")
    pd.DataFrame({"y": Y}, ids).to_csv("l.csv")
    result = run("test", "x.csv", "--labels", "l.csv", "--target", "y")
    assert "categories, without order (number of levels): day (3)" in told(result)
    assert re.search(r"\n +1 +day ", result.output)


@pytest.mark.filterwarnings("always")
def test_tables_without_names_say_that_they_are_matched_by_position(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, columns in {"x.csv": G + RNG.normal(size=G.shape), "z.csv": G * 1.5}.items():
        pd.DataFrame(columns).add_prefix(f"{name[0]}_").to_csv(name, index=False)
    for name in ("y", "c", "w"):
        pd.DataFrame({name: RNG.uniform(1, 2, size=M)}).to_csv(f"{name}.csv", index=False)
    options = ("--labels", "y.csv", "--target", "y", "--covariates", "c.csv", "--weights", "w.csv")
    said = told(run("test", "x.csv", *options))
    for part in ("y from y.csv; rows", "c.csv: rows", "w.csv: weights w; rows"):
        assert f"{part} matched by position, because neither" in said
    said = told(run("test", "x.csv", "z.csv", "--labels", "y.csv", "--target", "y"))
    assert "2 of 2 files have no sample names" in said
