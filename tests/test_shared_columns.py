"""Tables without sample names, and a column of both sides that shows the order of the rows."""

import re

import numpy as np
import pandas as pd
import pytest
from advice import Advice, CommandAdvice, follow, follow_command
from commands import run, told

import dhsic
from dhsic.errors import InputError

M, D = 60, 12
RNG = np.random.default_rng(3)
ILL = RNG.random(M) < 0.5
NUMBERS = RNG.choice(900_000, M, replace=False) + 100_000
AGE = RNG.integers(20, 80, M)
ORDER = RNG.permutation(M)
REMEDY = r"Match rows by this column: pass (?P<options>--not-feature .*?)\. If"


def frame(name="mrn"):
    X = pd.DataFrame(RNG.normal(size=(M, D)).round(4), columns=[f"g{i}" for i in range(D)])
    X["g5"] += 3 * ILL
    X.insert(0, "age", AGE)
    X.insert(1, name, NUMBERS)
    return X


def labels(name="mrn", order=ORDER, **columns):
    status = np.where(ILL, "case", "control")
    return pd.DataFrame({name: NUMBERS, "status": status, **columns}).iloc[order]


def written(X, name):
    separator = {"csv": ",", "tsv": "\t"}.get(name.split(".")[-1])
    if separator:
        X.to_csv(name, index=False, sep=separator)
    else:
        X.reset_index(drop=True).to_parquet(name)
    return name


def association(data, target, **options):
    return dhsic.test_features(data, target, **options)


def best(*words):
    lines = run(*words).stdout.splitlines()
    return next(line.split()[1] for line in lines if line.split()[:1] == ["1"])


@pytest.mark.parametrize("name", ["mrn", "RID", "Study number"])
@pytest.mark.parametrize(("file", "table"), [("x.csv", "y.tsv"), ("x.parquet", "y.parquet")])
def test_record_numbers_in_another_order_name_the_samples(name, file, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = written(frame(name), file)
    words = ("test", data, "--labels", written(labels(name), table), "--target", "status", "-n", 2)
    follow_command(CommandAdvice(words, REMEDY))
    remedy = ("--not-feature", name, "--sample-column", name)
    assert best(*words, *remedy) == "g5"
    result = told(run(*words, *remedy))
    assert f"{M} samples x {D + 1} features" in result
    assert "in another order" in result


@pytest.mark.parametrize("command", ["select", "pairs"])
def test_every_command_refuses_rows_of_other_samples(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = (command, written(frame(), "x.csv"), "--target", "status", "-n", 2)
    words = (*words, "--labels", written(labels(), "y.csv"))
    assert "so it identifies the samples" in told(run(*words, code=2))
    in_order = (*words[:-1], written(labels(order=np.arange(M)), "z.csv"))
    assert "by position" in told(run(*in_order, "--by-position"))


def test_numbers_under_another_name_and_of_some_samples_name_the_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = written(frame("mrn"), "x.csv")
    table = written(labels("record")[: M - 9], "y.csv")
    words = ("test", data, "--labels", table, "--target", "status", "-n", 2, "--drop-missing")
    advised = told(run(*words, code=2))
    assert f"{M - 9} of {M} the same" in advised
    remedy = re.search(REMEDY, advised)["options"].split()
    assert remedy == ["--not-feature", "mrn", "--sample-column", "record"]
    assert best(*words, *remedy) == "g5"


def test_covariates_in_another_order_are_matched_by_the_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = frame()
    table = pd.DataFrame({"mrn": NUMBERS, "copy": X["g5"]}).iloc[ORDER]
    data = written(X.assign(status=ILL.astype(int)), "x.csv")
    words = ("test", data, "--target", "status", "-n", 2)
    words = (*words, "--covariates", f"{written(table, 'c.csv')}:copy")
    remedy = re.search(REMEDY, told(run(*words, code=2)))["options"].split()
    rows = run(*words, *remedy).stdout
    assert rows != run(*words, "--by-position").stdout
    written(table.sort_index(), "c.csv")
    assert rows == run(*words, *remedy[:2]).stdout
    with pytest.raises(InputError, match="so the rows of covariates are in a different order"):
        dhsic.test_features(X, ILL, covariates=table)


@pytest.mark.filterwarnings("default")
def test_record_numbers_in_the_same_order_are_told_as_a_feature(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = written(labels(order=np.arange(M)), "y.csv")
    words = ("test", written(frame(), "x.csv"), "--labels", table, "--target", "status", "-n", 2)
    pattern = r"If it is not a measurement, pass (?P<options>--not-feature .*?)\. "
    follow_command(CommandAdvice(words, pattern, code=0))


@pytest.mark.parametrize("is_file", [True, False])
def test_frames_in_another_order_are_put_in_order_by_the_expressions(is_file, tmp_path):
    X, y = frame(), labels().reset_index(drop=True)
    if is_file:
        X.to_csv(tmp_path / "x.csv", index=False)
    data = str(tmp_path / "x.csv") if is_file else X
    options = {"n_features_to_select": 2, "interactions": None}
    with pytest.raises(InputError) as error:
        dhsic.select(data, y, **options)
    pattern = r"pass (.+) for y, (.+) for X, and by_position=True"
    target, rest = re.search(pattern, str(error.value)).groups()
    names = {"X": data, "y": y, "dhsic": dhsic}
    y_in_order = eval(target, names)["status"]
    result = dhsic.select(eval(rest, names), y_in_order, by_position=True, **options)
    assert result["feature"].values[result["rank"].values == 1] == ["g5"]
    arguments = {"data": data, "target": ILL, "covariates": y[["mrn"]]}
    position = r"already match by position, pass (?P<name>by_position)=(?P<value>True)"
    follow(Advice(association, arguments, position))


def test_measurements_of_both_sides_show_the_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, table = frame().drop(columns="mrn"), labels(age=AGE).drop(columns="mrn")
    words = ("test", written(X, "x.csv"), "--target", "status", "-n", 2, "--labels")
    said = told(run(*words, written(table, "y.csv"), code=2))
    assert "Add a first column, called id, with the same sample names to both tables" in said
    ids = [f"s{i}" for i in range(M)]
    written(X.assign(id=ids)[["id", *X]], "x.csv")
    written(table.assign(id=np.array(ids)[ORDER])[["id", *table]], "y.csv")
    assert best(*words, "y.csv") == "g5"


@pytest.mark.parametrize("columns", [{"age": AGE}, {"sex": AGE % 2}, {"weight": AGE + 0.25}, {}])
def test_tidy_tables_are_matched_by_position_without_a_word(columns, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = frame().drop(columns="mrn").assign(**columns)
    table = labels(order=np.arange(M), **columns).drop(columns="mrn")
    table["other"] = RNG.permutation(NUMBERS)
    if "sex" in columns:
        table["sex"] = table["sex"].to_numpy()[::-1]
    words = ("test", written(X, "x.csv"), "--target", "status", "-n", 2)
    assert best(*words, "--labels", written(table, "y.csv")) == "g5"
