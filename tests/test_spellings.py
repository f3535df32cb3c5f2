"""Names of classes, groups and categories that are one name in several spellings."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.errors import InputError

M = 90
RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(M, 8)), columns=[f"g{i}" for i in range(8)])
ILL = X["g3"] + 0.3 * RNG.normal(size=M) > 0
SITE = RNG.random(M) < 0.4
#: Two classes as two sites write them.
SITES = {
    "letters": (("yes", "no"), ("y", "n")),
    "letters in capitals": (("yes", "no"), ("Y", "N")),
    "codes": (("yes", "no"), ("1", "0")),
    "codes of a program": (("TRUE", "FALSE"), ("1", "0")),
    "decimal codes": (("case", "control"), ("1.0", "0.0")),
    "codes of PLINK": (("case", "control"), ("2", "1")),
    "short words": (("positive", "negative"), ("pos", "neg")),
    "signs": (("positive", "negative"), ("+", "-")),
    "sexes": (("male", "female"), ("M", "F")),
    "sexes, some in short": (("male", "female"), ("m", "female")),
    "plurals": (("case", "control"), ("cases", "controls")),
    "languages": (("yes", "no"), ("ja", "nein")),
    "two countries": (("tumour", "normal"), ("tumor", "normal")),
    "underscores": (("stage_II", "stage_I"), ("stage II", "stage I")),
    "hyphens": (("stage-II", "stage-I"), ("stage II", "stage I")),
    "hyphens before numbers": (("grade-2", "grade-1"), ("grade 2", "grade_1")),
    "a dot": (("tumour.", "normal."), ("tumour", "normal")),
    "blanks before signs": (("ER +", "ER -"), ("ER+", "ER-")),
    "blanks around strokes": (("mild / none", "severe"), ("mild/none", "severe")),
    "one word": (("non-responder", "responder"), ("nonresponder", "responder")),
    "plural and hyphen": (("long survivor", "ctrl"), ("long-survivor", "control")),
}
#: Classes that are not one.
DIFFERENT = {
    "signs": ("ER+", "ER-"),
    "signs and none": ("ER+", "ER-", "ER"),
    "two signs": ("ER+PR+", "ER+PR-", "ER-PR+", "ER-PR-"),
    "hyphens before numbers": ("a-1", "a1", "b"),
    "minus signs": ("T-1", "T1", "T 1"),
    "days before and after": ("day -1", "day 1", "day-1"),
    "letters": ("m", "f", "x"),
    "bases": ("T", "F", "N"),
    "scores": ("+", "-", "0"),
    "words beside another class": ("yes", "no", "positive", "negative", "other"),
    "blood groups": ("A", "B", "AB", "A B"),
    "letters alone": ("y", "n"),
    "grades": ("I", "II", "III"),
    "doses": ("0", "1", "2"),
    "in doubt": ("case", "case?", "control"),
}
BMI = (X["g1"] + 0.3 * RNG.normal(size=M)).rename("bmi")
OPTIONS = {"n_features_to_select": 2, "progress": False}


def at_sites(kind):
    (case, control), (other_case, other_control) = SITES[kind]
    one, two = np.where(ILL, case, control), np.where(ILL, other_case, other_control)
    return pd.Series(np.where(SITE, two, one), dtype=object)


def refused(*args, **options):
    with pytest.raises(InputError, match="probably one name in several spellings") as error:
        dhsic.select(*args, **{**OPTIONS, **options})
    return str(error.value)


def advice(said, **names):
    """Do what a sentence says to pass."""
    code = re.search(r"the same way: pass (\S.*?\}\))\. If", said)[1]
    return eval(code, {"pandas": pd, **names})


def table(path, name, values, **others):
    X.assign(**{name: values}, **others).to_csv(path, index_label="id")


def do(said):
    """Run the command of a sentence, which writes NEW.csv."""
    exec(shlex.split(re.search(r'(python -c ".*"), then pass NEW\.csv', said)[1])[2], {})


@pytest.mark.parametrize("kind", SITES)
def test_labels_are_refused_with_code_that_makes_spellings_the_same(kind):
    y = at_sites(kind)
    classes = advice(refused(X, y), y=y)
    assert [*map(len, classes.groupby(ILL).unique())] == [1, 1]
    assert dhsic.select(X, classes, **OPTIONS).attrs["labels"].startswith("2 classes")
    declared = pd.Series(y, dtype="category")  # the other remedy
    n = len(set(y))
    assert dhsic.select(X, declared, **OPTIONS).attrs["labels"].startswith(f"{n} classes")


@pytest.mark.parametrize("kind", SITES)
def test_labels_are_refused_with_a_command_that_makes_spellings_the_same(
    kind, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    table("x.csv", "status", at_sites(kind))
    words = ("test", "x.csv", "--target", "status", "-n", 1)
    said = told(run(*words, code=2))
    assert "Some values of labels 'status' are probably one name in several spellings" in said
    do(said)
    again = run("test", "NEW.csv", *words[2:])
    assert "2 classes" in again.stderr
    assert re.search(r"\b1\s+g3\b", again.stdout)
    n = len(set(at_sites(kind)))
    assert f"{n} classes" in run(*words, "--label-kernel", "multiclass").stderr


@pytest.mark.parametrize("kind", ["codes", "sexes", "underscores"])
def test_covariates_and_categories_are_refused_with_their_remedies(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    covariates = pd.DataFrame({"group": at_sites(kind), "age": RNG.normal(size=M)})
    said = refused(X, BMI, covariates=covariates)
    covariates["group"] = advice(said, covariates=covariates)
    assert covariates["group"].nunique() == 2
    dhsic.select(X, BMI, covariates=covariates, **OPTIONS)
    table("x.csv", "group", at_sites(kind), bmi=BMI)
    for words in (("--covariate", "group"), ("--category", "group")):
        said = told(run("test", "x.csv", "--target", "bmi", *words, code=2))
        assert "'group' are probably one name in several spellings" in said
        do(said)
        run("test", "NEW.csv", "--target", "bmi", *words)
    data = X.assign(group=at_sites(kind))
    said = refused(data, BMI, categories=["group"])
    data["group"] = advice(said, X=data)
    kinds = dhsic.test_features(data, BMI, categories=["group"]).kinds
    assert kinds[-1] == "categories (2)"


@pytest.mark.parametrize("values", [(True, False, "yes", "no"), (1, 0, "yes", "no")])
def test_values_of_other_types_beside_names_are_refused(values):
    case, control, other_case, other_control = values
    each = zip(ILL, SITE, strict=True)
    at = [(other_case if c else other_control) if s else (case if c else control) for c, s in each]
    y = pd.Series(at, dtype=object)
    classes = advice(refused(X, y), y=y)
    assert classes.nunique() == 2


@pytest.mark.parametrize("kind", DIFFERENT)
def test_different_classes_are_accepted(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = DIFFERENT[kind]
    y = pd.Series([names[i % len(names)] for i in range(M)], dtype=object)
    n = len(names)
    assert dhsic.select(X, y, **OPTIONS).attrs["labels"].startswith(f"{n} classes")
    table("x.csv", "status", y)
    assert f"{n} classes" in run("test", "x.csv", "--target", "status").stderr
