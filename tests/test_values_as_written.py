"""Values of tables that read as what they are not: thousands, words, dates, days, spellings.

Each kind is planted in features, labels and covariates, the sentence is followed, and what is
ordinary is taken without a word.
"""

import re
import shlex
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic import open_source
from dhsic.joins.class_names import words_among
from dhsic.joins.text import read_table
from dhsic.sources.dates import date_formats
from dhsic.sources.thousands import PointedNumbers

M, D = 60, 6
IDS = [f"s{i}" for i in range(M)]
PLAIN = {"progress": False, "n_features_to_select": 2, "interactions": None}


def german(numbers):
    """Numbers as they are written in German, with a point after thousands."""
    return [f"{int(number):,}".replace(",", ".") for number in numbers]


def features(rng, folder, **columns):
    X = pd.DataFrame(rng.normal(50, 10, (M, D)).round(1), index=pd.Index(IDS, name="id"))
    X.add_prefix("g").assign(**columns).to_csv(folder / "x.csv")
    return X.to_numpy()


def labels(folder, **columns):
    pd.DataFrame({"id": IDS, **columns}).to_csv(folder / "l.csv", index=False)


def refused(*options):
    return told(run("test", "x.csv", "--labels", "l.csv", *options, code=2))


def follow(command, name):
    """Run a command of Python that a sentence says; returns the name of what it writes."""
    assert command.startswith("python -c ")
    command = command.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    subprocess.run(["bash", "-c", command], check=True)
    return name


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Points that separate thousands -----------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_thousands_in_features_are_refused_and_both_commands_work(separator, rng, folder):
    numbers = np.exp(rng.normal(6.8, 1, M)).astype(int)
    text = german(numbers)
    table = pd.DataFrame({"id": IDS, "1007": rng.normal(size=M).round(3), "income": text})
    table.to_csv("t.csv", sep=separator, index=False)
    with pytest.raises(dhsic.InputError, match=r"column .income. .* points may separate") as error:
        open_source("t.csv")
    thousands, decimal = re.findall(r'python -c ".*?to_csv.*?"', str(error.value))
    follow(thousands, "NEW.csv")
    source = open_source("NEW.csv")
    np.testing.assert_array_equal(source.read(slice(0, 2), None)[:, 1], numbers)
    assert source.feature_names().tolist() == ["1007", "income"]
    follow(decimal, "NEW.csv")
    values = open_source("NEW.csv").read(slice(0, 2), None)
    np.testing.assert_array_equal(values[:, 1], [float(t) for t in text])
    np.testing.assert_array_equal(values[:, 0], table["1007"])


def test_thousands_in_rows_of_features_are_refused_and_the_command_works(rng, folder):
    numbers = np.exp(rng.normal(6.8, 1, M)).astype(int)
    rows = {
        "g0": rng.normal(size=M).round(3),
        "cells": german(numbers),
        "g1": rng.integers(0, 9, M),
    }
    pd.DataFrame(rows, index=IDS).T.to_csv("t.csv", index_label="gene")
    with pytest.raises(dhsic.InputError, match=r"row .cells. .* points may separate") as error:
        open_source("t.csv", sample_dim=1)
    follow(re.search(r'python -c ".*?to_csv.*?"', str(error.value))[0], "NEW.csv")
    values = open_source("NEW.csv", sample_dim=1).read(slice(0, 3), None)
    np.testing.assert_array_equal(values[:, 1], numbers)


@pytest.mark.filterwarnings("ignore:.*lie extremely far")  # numbers as decimals have two ranges
@pytest.mark.parametrize("role", ["--target", "--covariate"])
def test_thousands_in_labels_and_covariates_are_refused_and_both_commands_work(role, rng, folder):
    numbers = np.exp(rng.normal(6.8, 1, M)).astype(int)
    features(rng, folder)
    labels(folder, y=rng.normal(size=M).round(2), n=[*german(numbers[:-1]), ""])
    options = ("--target", "y", "--covariate", "n") if role == "--covariate" else ("--target", "n")
    said = refused(*options)
    assert "points may separate thousands" in said
    thousands, decimal = re.findall(r'python -c ".*?to_csv.*?"', said)
    follow(thousands, "NEW.csv")
    read = read_table("NEW.csv").columns["n"].tolist()
    assert read == [*map(str, numbers[:-1]), ""]
    run("test", "x.csv", "--labels", "NEW.csv", *options, "--drop-missing")
    follow(decimal, "NEW.csv")
    read = read_table("NEW.csv").columns["n"].tolist()
    assert [float(t) for t in read[:-1]] == [float(t) for t in german(numbers[:-1])]
    run("test", "x.csv", "--labels", "NEW.csv", *options, "--drop-missing")
    if role == "--target":
        with pytest.raises(dhsic.InputError, match="points may separate thousands"):
            dhsic.read_target("l.csv", "n")


def test_thousands_in_frames_of_text_are_named_and_the_remedy_works(rng):
    numbers = np.exp(rng.normal(6.8, 1, M)).astype(int)
    X = pd.DataFrame({"a": rng.normal(size=M), "b": german(numbers)})
    with pytest.raises(dhsic.InputError, match=r"In 'b' .*points may separate thousands") as error:
        dhsic.select(X, rng.normal(size=M), **PLAIN)
    remedy = re.search(r"remove them first: (X\[.*?\)\)?)\. Convert", str(error.value))[1]
    exec(remedy, {"X": X})
    exec(re.search(r"contains numbers: (X\[.*?\(float\))", str(error.value))[1], {"X": X})
    np.testing.assert_array_equal(X["b"], numbers)
    dhsic.select(X, rng.normal(size=M), **PLAIN)


THOUSANDS = {
    "a zero at the end": ["818", "1.840", "609", "350"],
    "below most others": ["818", "1.841", "609", "350", "744"],
    "negative": ["-818", "-1.840", "609", "350"],
    "one below 1,000": ["918", *(f"{n}.{100 + 7 * n}" for n in range(1, 14))],
    "one below 1,000 and no zero": ["918", *(f"{1 + n % 9}.{101 + 10 * n}" for n in range(30))],
    "many": ["3", "500", "609", "350", *(f"{n}.{100 + 9 * n}" for n in range(1, 12) if n % 10)],
}
NO_THOUSANDS = {
    "means filled in": ["165", "172", "171.333", "180", "158", "166.667"],
    "fractions below 1": ["818", "0.125", "609", "350", "1.840"],
    "other decimals": ["818", "12.5", "609", "350", "1.840"],
    "three decimals all": ["818.000", "1.840", "609.000", "350.000"],
    "small numbers": ["1", "2", "3", "1.125", "2.250"],
    "a code": ["999", *(f"{n}.{100 + 7 * n}" for n in range(1, 14))],
    "a limit": ["500", *(f"{n}.{100 + 7 * n}" for n in range(1, 14))],
    "one of the same size": ["318", *(f"{100 + n}.{100 + 7 * n}" for n in range(1, 14))],
    "one, and a number below 1": ["918", "0.918", *(f"{n}.{100 + 7 * n}" for n in range(1, 14))],
    "one among few": ["918", "3.187", "4.210", "1.870"],
    "three decimals without others": [f"{n}.{100 + 7 * n}" for n in range(1, 14)],
    "limits": ["500", "500", "500", "1.125", "2.250", "7.311"],
    "large numbers without": ["818", "609", "350", "1.840", "2415"],
    "all thousands": ["1.840", "2.415", "12.300"],
    "counts": ["818", "609", "350", "12"],
}


@pytest.mark.parametrize("kind", THOUSANDS)
def test_ways_to_write_thousands(kind):
    assert PointedNumbers.of(THOUSANDS[kind]).may_separate_thousands


@pytest.mark.parametrize("kind", NO_THOUSANDS)
def test_numbers_without_thousands(kind, folder):
    assert not PointedNumbers.of(NO_THOUSANDS[kind]).may_separate_thousands
    text = NO_THOUSANDS[kind]
    pd.DataFrame({"id": range(len(text)), "a": text}).to_csv("t.csv", index=False)
    values = open_source("t.csv").read(slice(0, 1), None)
    np.testing.assert_array_equal(values[:, 0], [float(t) for t in text])


@pytest.mark.parametrize("write", ["{:.3f}", "{:g}", "{}"])
def test_measurements_of_three_decimals_are_read_in_every_writing(write, rng, folder):
    X = rng.normal(300, 150, (400, 20)).round(3)
    X[:, :4] = X[:, :4].round()
    rows = [",".join([f"s{i}", *map(write.format, x.tolist())]) for i, x in enumerate(X)]
    (folder / "t.csv").write_text("\n".join(["id," + ",".join(f"g{j}" for j in range(20)), *rows]))
    assert open_source("t.csv").n_features == 20


# Words for a missing value -----------------------------------------------------------------------

WORDS = [
    "?",
    "unknown",
    "Unk",
    "-",
    "--",
    "Not available",
    "missing",
    "n.d.",
    "#VALUE!",
    "(unknown)",
    "NaT",
    r"\N",
    "(null)",
    "#",
    "***",
    "pending",
    "not_assessed",
    "missing: not collected",
    "99",
]


def with_word(rng, word):
    y = np.where(np.arange(M) % 2, "case", "control").astype(object)
    y[[3, 8, 21]] = word
    return y


@pytest.mark.parametrize("word", WORDS)
def test_words_for_missing_values_are_no_classes_and_both_options_work(word, rng, folder):
    features(rng, folder)
    labels(folder, v=with_word(rng, word), y=rng.normal(size=M).round(2))
    for options in (("--target", "v"), ("--target", "y", "--covariate", "v")):
        said = refused(*options, "--drop-missing")
        assert f"3 of 60 values of {'labels' if len(options) == 2 else 'covariate'} 'v' are" in said
        leave = shlex.split(re.search(r"samples with (--na .*? --drop-missing);", said)[1])
        left = told(run("test", "x.csv", "--labels", "l.csv", *options, *leave))
        assert "3 of 60 samples excluded" in left
        keep = shlex.split(re.search(r"pass (--not-na \S.*)\.", said)[1])
        kept = told(run("test", "x.csv", "--labels", "l.csv", *options, *keep))
        assert "excluded" not in kept


@pytest.mark.parametrize("word", ["?", "unknown", "--", "NaT", "88", 999])
def test_words_in_python_are_refused_and_both_remedies_work(word, rng):
    X, y = rng.normal(size=(M, D)), with_word(rng, word)
    z = rng.normal(size=M)
    doors = (
        lambda X, y, _: dhsic.select(X, y, **PLAIN),
        lambda X, y, z: dhsic.select(X, z, covariates=y, **PLAIN),
        lambda X, y, _: dhsic.test_features(X, y),
    )
    for door, name in zip(doors, ("y", "covariates", "Y"), strict=True):
        for given in (y, pd.Series(y), *([y.astype(str)] if isinstance(word, str) else [])):
            with pytest.raises(dhsic.InputError, match="usually means a missing value") as error:
                door(X, given, z)
        said = str(error.value)
        keep = eval(re.search(r"keep = (.*) selects", said)[1], {"pandas": pd, name: y})
        assert keep.sum() == M - 3
        door(X[keep], y[keep], z[keep])
        category = re.search(r"categories: (pandas\.Series\(.*\))\.$", said)[1]
        door(X, eval(category, {"pandas": pd, name: y}), z)


MAY_BE_MISSING = ["nd", "0", "withdrawn", "indeterminate", "unassigned"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("word", MAY_BE_MISSING)
def test_words_that_may_be_missing_are_told_and_the_option_excludes_them(word, rng, folder):
    features(rng, folder)
    labels(folder, v=with_word(rng, word))
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "v"))
    option = shlex.split(re.search(r"if it does, use (--na .*? --drop-missing)", said)[1])
    left = told(run("test", "x.csv", "--labels", "l.csv", "--target", "v", *option))
    assert "3 of 60 samples excluded" in left
    assert "may mean a missing value" not in left
    with pytest.warns(UserWarning, match=f"'{word}' .* may mean a missing value"):
        dhsic.select(rng.normal(size=(M, D)), with_word(rng, word), **PLAIN)


NAMES = {
    "signs": ["+", "-", "+/-"],
    "presence": ["present", "missing", "part"],
    "what is known": ["known", "unknown", "new"],
    "one other": ["tumour", "unknown"],
    "diets": ["HFD", "chow", "control"],
    "stars": ["ns", "*", "***"],
    "wells": ["full", "half", "empty"],
    "numbers and words": ["7", "8", "ward"],
    "names with digits": ["block 1", "block 2", "9"],
}


@pytest.mark.parametrize("kind", NAMES)
def test_words_that_are_names_are_taken(kind, rng):
    text = np.resize(np.array(NAMES[kind], dtype=object), M)
    assert words_among(text) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhsic.select(rng.normal(size=(M, D)), text, **PLAIN)


def test_words_that_may_be_names_are_told_and_taken(rng, folder):
    features(rng, folder)
    labels(folder, v=np.resize(["none", "low", "high"], M))
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "v"))
    assert "3 classes high (20), low (20), none (20)" in said
    option = shlex.split(re.search(r"if it does, use (--na .*?--drop-missing)", said)[1])
    assert "2 classes" in told(run("test", "x.csv", "--labels", "l.csv", "--target", "v", *option))
    with pytest.warns(UserWarning, match=r"'none' \(20\) in y is used as a name, but may mean"):
        dhsic.select(rng.normal(size=(M, D)), np.resize(["none", "low", "high"], M), **PLAIN)


def test_groups_in_two_spellings_are_refused(rng, folder):
    sex = np.resize(["m", "f", "M", "f"], M)
    X = features(rng, folder)
    labels(folder, y=rng.normal(size=M).round(2), sex=sex)
    said = refused("--target", "y", "--covariate", "sex")
    assert "differ only in case or in spaces ('M' and 'm')" in said
    with pytest.raises(dhsic.InputError, match="'M' and 'm'") as error:
        dhsic.select(X, rng.normal(size=M), covariates=sex, **PLAIN)
    category = re.search(r"categories: (pandas\.Series\(.*\))\.$", str(error.value))[1]
    groups = eval(category, {"pandas": pd, "covariates": sex})
    dhsic.select(X, rng.normal(size=M), covariates=groups, **PLAIN)
    labels(folder, y=rng.normal(size=M).round(2), sex=np.resize(["m1", "f", "M2", "f"], M))
    run("test", "x.csv", "--labels", "l.csv", "--target", "y", "--covariate", "sex")


# Dates --------------------------------------------------------------------------------------------

WAYS = {
    "ISO": "%Y-%m-%d",
    "German": "%d.%m.%Y",
    "American": "%m/%d/%y",
    "with times": "%Y-%m-%dT%H:%M",
    "with months": "%d-%b-%Y",
    "digits": "%Y%m%d",
    "days and months": "%d.%m",
}


@pytest.mark.parametrize("role", ["--target", "--covariate"])
@pytest.mark.parametrize("way", WAYS)
def test_dates_are_refused_and_the_command_makes_days_of_them(way, role, rng, folder):
    days = rng.permutation(2 * M)[:M]
    dates = (pd.Timestamp("2020-02-03") + pd.to_timedelta(days, unit="D")).strftime(WAYS[way])
    X = features(rng, folder)
    labels(folder, y=rng.normal(size=M).round(2), day=dates)
    options = ("--target", "y", "--covariate", "day") if "c" in role else ("--target", "day")
    said = refused(*options)
    assert "not decimal numbers" in said or "are dates (" in said
    follow(re.search(r'python -c ".*?to_csv.*?"', said)[0], "NEW.csv")
    made = read_table("NEW.csv").columns["day"].astype(float)
    np.testing.assert_allclose(made - made.min(), days - days.min())
    run("test", "x.csv", "--labels", "NEW.csv", *options)
    if way not in ("digits", "days and months"):
        with pytest.raises(dhsic.InputError, match="are dates") as error:
            dhsic.select(X, rng.normal(size=M), covariates=dates.to_numpy(), **PLAIN)
        expression = re.search(r"numbers of days: pass (.*?)(?: \(format|\. If)", str(error.value))
        made = eval(expression[1], {"pandas": pd, "covariates": dates.to_numpy()})
        np.testing.assert_allclose(made - made.min(), days - days.min())


@pytest.mark.parametrize("command", ["plan", "select", "pairs"])
def test_commands_in_sentences_are_the_same_in_every_command(command, rng, folder):
    features(rng, folder)
    labels(folder, day=(pd.Timestamp("2020-02-03") + pd.to_timedelta(range(M), unit="D")).date)
    options = ("x.csv", "--labels", "l.csv", "--target", "day")
    said = told(run(command, *options, code=2))
    follow(re.search(r'python -c ".*?to_csv.*?"', said)[0], "NEW.csv")
    assert len(set(read_table("NEW.csv").columns["day"].tolist())) == M


def test_dates_of_batches_are_groups_and_told(rng, folder):
    X = features(rng, folder)
    batches = np.resize(["2019-03-04", "2019-03-11", "2019-04-01"], M)
    labels(folder, y=rng.normal(size=M).round(2), batch=batches)
    command = ("test", "x.csv", "--labels", "l.csv", "--target", "y", "--covariate", "batch")
    assert (
        "has 3 different dates (2019-03-04, 2019-03-11, 2019-04-01), and each is treated as a group"
        in told(run(*command))
    )
    dhsic.select(X, rng.normal(size=M), covariates=batches, **PLAIN)


def test_dates_whose_day_may_be_the_month_have_two_readings(rng, folder):
    assert date_formats(np.array(["3/4/19", "2/1/20"])) == ["%d/%m/%y", "%m/%d/%y"]
    features(rng, folder)
    labels(
        folder,
        y=rng.normal(size=M).round(2),
        day=[f"{i % 12 + 1}/{i // 12 + 1}/19" for i in range(M)],
    )
    sentence = refused("--target", "y", "--covariate", "day")
    assert "If the month comes first, use format='%m/%d/%y' instead." in sentence


NO_DATES = {
    "age bands": ["20-29", "30-39", "40-49", "10-12"],
    "genotypes": ["0/0", "0/1", "1/1", "1/2"],
    "sites": ["site 1", "site 2", "ward 3"],
    "dilutions": ["1:2", "1:10", "1:100"],
    "versions": ["1.1.1", "2.0.3"],
    "phases": ["II-1", "III-2"],
}


@pytest.mark.parametrize("kind", NO_DATES)
def test_names_that_are_no_dates(kind):
    assert date_formats(np.array(NO_DATES[kind])) == []


@pytest.mark.parametrize(
    "text", [["5.04", "15.11", "3.02", "28.10"], ["1.04", "1.05", "1.12", "1.02"]]
)
def test_numbers_of_two_decimals_are_numbers(text, rng, folder):
    features(rng, folder)
    labels(folder, y=np.resize(text, M))
    run("test", "x.csv", "--labels", "l.csv", "--target", "y")


# -1 below grades ----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["--target", "--covariate"])
def test_minus_one_below_grades_is_told_with_the_option_that_declares_it(role, rng, folder):
    grades = np.resize([1, 2, 3, 4, 5], M)
    grades[[3, 8, 21, 40]] = -1
    X = features(rng, folder)
    labels(folder, y=rng.normal(size=M).round(2), grade=grades)
    options = ("--target", "y", "--covariate", "grade")
    options = options if role == "--covariate" else ("--target", "grade")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = told(run("test", "x.csv", "--labels", "l.csv", *options))
    assert "'grade' are -1, and all others are whole numbers from 1 to" in said
    declared = shlex.split(re.search(r"missing, pass (--na .*? --drop-missing)", said)[1])
    said = told(run("test", "x.csv", "--labels", "l.csv", *options, *declared))
    assert "4 of 60 samples excluded" in said
    run("test", "x.csv", "--labels", "l.csv", *options, "--not-na", "-1")
    y = rng.normal(size=M)
    for name, pass_grades in (
        ("y", lambda: dhsic.select(X, grades, **PLAIN)),
        ("covariates", lambda: dhsic.select(X, y, covariates=grades, **PLAIN)),
    ):
        with pytest.warns(UserWarning, match=f"values of {name} are -1") as caught:
            pass_grades()
        keep = re.search(r"keep = ([^;,]*)", str(caught[0].message))[1].partition(" selects")[0]
        assert eval(keep, {name: grades}).sum() == M - 4


@pytest.mark.parametrize(
    "values", [[-1, 1], [-1, 0, 1, 2, 3], [-1, 1, 2], [-1, -2, 1, 2, 3], [-1, 1.5, 2, 3]]
)
def test_minus_one_among_ordinary_values_is_taken(values, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhsic.select(rng.normal(size=(M, D)), np.resize(values, M), **PLAIN)


# Infinite values, and labels that PLINK does not have --------------------------------------------


@pytest.mark.parametrize("text", ["inf", "-inf", "-Infinity", "1e400"])
def test_infinite_values_are_refused_and_declared_missing(text, rng, folder):
    X = features(rng, folder)
    column = rng.normal(size=M).round(2).astype(object)
    column[4] = text
    value = float(text)
    na = ("--na", f"{value:g}", "--drop-missing")
    labels(folder, y=rng.normal(size=M).round(2), infinite=column)
    for options in (("--target", "infinite"), ("--target", "y", "--covariate", "infinite")):
        assert "infinite" in refused(*options)
        said = told(run("test", "x.csv", "--labels", "l.csv", *options, *na))
        assert "1 of 60 samples excluded" in said
    y, numbers, Z = rng.normal(size=M), column.astype(float), X.copy()
    Z[4, 1] = value
    for door in (
        lambda: dhsic.select(X, numbers, **PLAIN),
        lambda: dhsic.select(X, y, covariates=numbers, **PLAIN),
        lambda: dhsic.test_features(X, numbers),
        lambda: dhsic.test_features(X, y, covariates=numbers),
        lambda: dhsic.find_pairs(X, y, covariates=numbers),
        lambda: dhsic.hsic(X, numbers),
    ):
        with pytest.raises(dhsic.InputError, match="infinite"):
            door()
    for door in (dhsic.test_features, dhsic.find_pairs, dhsic.BAHSIC(2, progress=False).fit):
        with pytest.raises(dhsic.DataError, match=r"Feature 1 of sample 4 is -?inf"):
            door(Z, y)
    table = pd.read_csv("x.csv", dtype=str)
    table.iloc[4, 2] = text
    table.to_csv("x.csv", index=False)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=3))
    assert "Feature 1 of sample 4 is" in said
    run("test", "x.csv", "--labels", "l.csv", "--target", "y", *na[:2])


def test_phenotypes_that_are_all_missing_are_told(rng, folder):
    table = pd.DataFrame(rng.integers(0, 3, (M, D))).add_prefix("rs").add_suffix("_A")
    about = {"FID": IDS, "IID": IDS, "PAT": 0, "MAT": 0, "SEX": 1, "PHENOTYPE": -9}
    pd.DataFrame(about).join(table).to_csv("x.raw", sep=" ", index=False)
    assert "Missing option '--target'" in told(run("test", "x.raw", code=2))
    said = told(run("test", "x.raw", "--target", "PHENOTYPE", code=2))
    assert "which PLINK writes for missing values" in said
    assert "(CLI: --labels)" in said
    labels(folder, y=rng.normal(size=M).round(2))
    run("test", "x.raw", "--labels", "l.csv", "--target", "y")


# Labels again as a covariate ----------------------------------------------------------------------


@pytest.mark.parametrize("written", ["same", "other units", "float32", "three decimals"])
def test_labels_that_are_a_covariate_again_are_refused_or_told(written, rng):
    X, y = rng.normal(size=(M, D)), rng.normal(size=M)
    ways = {"same": y, "other units": 12 * y + 3, "float32": y.astype("f4")}
    covariate = ways.get(written, y.round(3))
    z = rng.normal(size=M)
    for door in (dhsic.test_features, lambda *a, **k: dhsic.select(*a, **k, **PLAIN)):
        if written in ("same", "other units"):
            with pytest.raises(dhsic.InputError, match="explain target 0 completely"):
                door(X, y, covariates=np.column_stack([z, covariate]))
        else:
            with pytest.warns(UserWarning, match="the rest may be rounding error"):
                door(X, y, covariates=np.column_stack([z, covariate]))
        with pytest.warns(UserWarning, match="explain all but 0.00[0-9]+ of the variance of tar"):
            door(X, y, covariates=y + 0.05 * z)
        for other in (z, y + 0.3 * z):
            door(X, y, covariates=other)


@pytest.mark.parametrize("word", ["n/a", "", pd.NA])
@pytest.mark.parametrize("n_columns", [3, 20])
def test_a_word_for_missing_among_objects_is_named_and_converted(word, n_columns):
    values = np.random.default_rng(0).normal(size=(30, n_columns))
    X = pd.DataFrame(values).add_prefix("g").add_suffix("_").astype(object)
    X.loc[7, "g1_"] = word
    with pytest.raises(dhsic.InputError, match=r"Convert text that contains numbers") as error:
        dhsic.select(X, values[:, 0] > 0, n_features_to_select=1)
    assert f"column 'g1_' has {word!r} in row 7" in str(error.value)
    assert str(error.value).count("g2_") <= 3
    exec(
        re.search(r"contains numbers: (X\[.*?'coerce'\))", str(error.value))[1],
        {"X": X, "pandas": pd},
    )
    assert X["g1_"].isna().sum() == 1
    dhsic.select(X, values[:, 0] > 0, n_features_to_select=1)
