"""Labels and covariates that are measurements written as text: durations, ranges, units."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.joins.text import read_table

M, D = 80, 4
RNG = np.random.default_rng(6)
X = RNG.normal(size=(M, D))
NUMBERS = np.round(40 + 8 * X[:, 1] + 3 * RNG.normal(size=M)).astype(int)
IDS = [f"s{i}" for i in range(M)]

#: Texts of a whole number, and the number that is written for 40, by kind.
KINDS = {
    "hours and minutes": ("{n}:30", 40.5),
    "hours, minutes and seconds": ("{n}:00:00", 40.0),
    "days of pandas": ("{n} days 12:00:00", 40.5),
    "period": ("P{n}Y", 40.0),
    "years and months": ("{n}y 6m", 486.0),
    "years and months in words": ("{n} years, 6 months", 486.0),
    "weeks and days": ("{n}w2d", 282.0),
    "completed weeks": ("{n}+2", 282.0),
    "clock": ("{n}h05", 2405.0),
    "months": ("{n} months", 40.0),
    "range": ("{n}-{next}", 42.0),
    "pressure": ("{n}/60", 40.0),
}


def texts(kind):
    return np.array([KINDS[kind][0].format(n=n, next=n + 4) for n in NUMBERS], dtype=object)


def expected(kind):
    """Numbers that the remedy writes, which are linear in the number in the text."""
    ratio = {"486.0": 12, "282.0": 7, "2405.0": 60}.get(str(KINDS[kind][1]), 1)
    return ratio * (NUMBERS - 40) + KINDS[kind][1]


def write(folder, **columns):
    pd.DataFrame(X, pd.Index(IDS, name="id")).add_prefix("g").to_csv(folder / "x.csv")
    pd.DataFrame({"id": IDS, **columns}).to_csv(folder / "l.csv", index=False)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_tables_become_numbers_by_the_command(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, y=texts(kind))
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    command = re.search(r'python( -c ".*?to_csv.*?")', said)[1]
    subprocess.run(["bash", "-c", shlex.quote(sys.executable) + command], check=True)
    written = read_table("NEW.csv").columns["y"].astype(float)
    np.testing.assert_allclose(written, expected(kind))
    assert re.search(
        r"\n +1 +g1 ", run("test", "x.csv", "--labels", "NEW.csv", "--target", "y").output
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("passed_as", ["labels", "covariates"])
def test_values_in_python_become_numbers_by_the_expression(kind, passed_as):
    values = texts(kind)
    y, C = (values, None) if passed_as == "labels" else (RNG.normal(size=M), values)
    with pytest.raises(dhsic.InputError, match="so each would be its own group") as error:
        dhsic.test_features(X, y, covariates=C)
    expression = re.search(
        r"To use them as [a-z ]+: pass (.*)\. If they are names", str(error.value)
    )[1]
    name = re.search(r"Series\((\w+)\)", expression)[1]
    numbers = eval(expression, {"pandas": pd, name: values})
    np.testing.assert_allclose(numbers, expected(kind))
    dhsic.test_features(X, numbers)
    as_names = pd.Series(values, dtype="category")
    assert dhsic.test_features(X, as_names).p_values.shape == (D,)


@pytest.mark.parametrize("kind", ["hours and minutes", "months", "range"])
def test_covariates_of_tables_are_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, y=RNG.normal(size=M), c=texts(kind))
    options = ("test", "x.csv", "--labels", "l.csv", "--target", "y", "--covariate", "c")
    assert "so each would be its own group" in told(run(*options, code=2))


def test_fractions_as_text_are_refused_in_python():
    with pytest.raises(dhsic.InputError, match="are numbers as text"):
        dhsic.test_features(X, (NUMBERS + 0.5).astype(str))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("form", [np.asarray, pd.Series, list])
def test_whole_numbers_as_text_are_told_in_python(form):
    with pytest.warns(UserWarning, match="are whole numbers as text") as record:
        as_classes = dhsic.test_features(X, form(NUMBERS.astype(str)))
    expression = re.search(r"such as ages: pass (.*)\. If they", str(record[0].message))[1]
    name = re.search(r"Series\((\w+)\)", expression)[1]
    numbers = eval(expression, {"pandas": pd, name: NUMBERS.astype(str)})
    as_numbers = dhsic.test_features(X, numbers)
    assert as_numbers.p_values[1] < as_classes.p_values[1]


@pytest.mark.parametrize("first", [0, 1])
def test_numbered_classes_are_not_told(first):
    dhsic.test_features(X, (np.arange(M) % 12 + first).astype(str))


NAMES = {
    "alleles": ["A*02:01", "B*07:02"],
    "wells": ["A1", "B12"],
    "visits": ["month 3", "week 2"],
    "clusters": ["cluster 1", "cluster 2"],
    "streets": ["12 Main St", "7 Hill Rd"],
    "plates": ["1-2", "2-1"],
    "mixtures": ["1:2", "1:10"],
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_are_no_measurements(kind):
    distinct = [text.replace("2", f"2{i}") for i in range(10, 16) for text in NAMES[kind]]
    dhsic.test_features(X, np.resize(np.array(distinct), M))


POSITIVE = NUMBERS + 0.5
SIGNED = POSITIVE - 40
#: Quantities in several forms, and the numbers that the remedy writes.
QUANTITIES = {
    "parentheses": ([f"({-v})" if v < 0 else f"{v}" for v in SIGNED], SIGNED),
    "parentheses and dollars": ([f"(${-v})" if v < 0 else f"${v}" for v in SIGNED], SIGNED),
    "dollars with a minus": ([f"-${-v}" if v < 0 else f"${v}" for v in SIGNED], SIGNED),
    "minus at the end": ([f"{-v}-" if v < 0 else f"{v}" for v in SIGNED], SIGNED),
    "thousands and millions": ([f"{v}{'MK'[i % 2]}" for i, v in enumerate(POSITIVE)], None),
    "thousands and ones": ([f"{v}K" if i % 2 else f"{v}" for i, v in enumerate(POSITIVE)], None),
    "days and hours": ([f"{n} d" if n % 2 else f"{24 * n} h" for n in NUMBERS], 24 * NUMBERS),
    "hours and minutes": ([f"{n} h" if n % 2 else f"{60 * n} min" for n in NUMBERS], 60 * NUMBERS),
    "metres": ([f"{n} cm" if n % 2 else f"{n / 100:.2f} m" for n in NUMBERS], NUMBERS),
    "feet": ([f"{n // 12}' {n % 12}\"" if n % 12 else f"{n // 12}'" for n in NUMBERS], NUMBERS),
    "feet in words": ([f"{n // 12} ft {n % 12} in" for n in NUMBERS], NUMBERS),
    "stones": ([f"{n // 14} st {n % 14} lb" for n in NUMBERS], NUMBERS),
}
MULTIPLE = {"thousands and millions": (1e6, 1e3), "thousands and ones": (1.0, 1e3)}


def quantities(kind):
    given, numbers = QUANTITIES[kind]
    if numbers is None:
        numbers = POSITIVE * np.resize(MULTIPLE[kind], M)
    return np.array(given, dtype=object), numbers


@pytest.mark.parametrize("kind", ["parentheses", "thousands and ones", "days and hours", "feet"])
def test_quantities_of_tables_become_numbers_by_the_command(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, numbers = quantities(kind)
    write(tmp_path, y=given, c=given, z=RNG.normal(size=M))
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "y", code=2))
    command = re.search(r'python( -c ".*?to_csv.*?")', said)[1]
    subprocess.run(["bash", "-c", shlex.quote(sys.executable) + command], check=True)
    np.testing.assert_allclose(read_table("NEW.csv").columns["y"].astype(float), numbers)
    said = told(run("test", "x.csv", "--labels", "l.csv", "--target", "z", "--covariate=c", code=2))
    assert "so each would be its own group" in said


@pytest.mark.parametrize("kind", QUANTITIES)
def test_quantities_in_python_become_numbers_by_the_expression(kind):
    given, numbers = quantities(kind)
    with pytest.raises(dhsic.InputError, match="so each would be its own group") as error:
        dhsic.test_features(X, given)
    expression = re.search(
        r"To use them as [a-z ]+: pass (.*)\. If they are names", str(error.value)
    )[1]
    name = re.search(r"Series\((\w+)\)", expression)[1]
    np.testing.assert_allclose(eval(expression, {"pandas": pd, name: given}), numbers)
    as_names = pd.Series(given, dtype="category")
    assert dhsic.test_features(X, as_names).p_values.shape == (D,)


@pytest.mark.parametrize(
    "forms", [("{n} cm", "5' {inches}\""), ("{n} mg/dL", "{n} mmol/L")], ids=["heights", "ratios"]
)
def test_units_that_cannot_be_converted_are_listed(forms):
    given = [forms[i % 2].format(n=n, inches=n % 12) for i, n in enumerate(NUMBERS)]
    with pytest.raises(dhsic.InputError, match="numbers in different units") as error:
        dhsic.test_features(X, np.array(given, dtype=object))
    assert "Write all of them as numbers of one unit" in str(error.value)


def test_times_of_day_become_hours():
    given = [f"{n // 4:02d}:{15 * (n % 4):02d}" for n in NUMBERS]
    with pytest.raises(dhsic.InputError, match="are times of day") as error:
        dhsic.test_features(X, np.array(given, dtype=object))
    expression = re.search(r"numbers of hours: pass (.*)\. If they are", str(error.value))[1]
    name = re.search(r"Series\((\w+)\)", expression)[1]
    np.testing.assert_allclose(eval(expression, {"pandas": pd, name: given}), NUMBERS / 4)


def test_dates_with_two_digits_of_the_year_have_a_sentence_on_the_century():
    days = (pd.Timestamp("1941-03-05") + pd.to_timedelta(97 * np.arange(M), unit="D")).strftime
    with pytest.raises(dhsic.InputError, match="are read as 1969 to 2068"):
        dhsic.test_features(X, days("%d/%m/%y").to_numpy())
    with pytest.raises(dhsic.InputError, match="are dates") as error:
        dhsic.test_features(X, days("%d/%m/%Y").to_numpy())
    assert "1969" not in str(error.value)


def test_the_advice_on_dates_in_a_column_of_the_frame_names_the_column():
    days = pd.date_range("2020-01-01", periods=M, freq="97D")
    frame = pd.DataFrame(np.asarray(X)).add_prefix("g").assign(when=days)
    for target, name in ("when", "X['when']"), (["when"], "X['when']"):
        with pytest.raises(dhsic.InputError, match="are dates") as error:
            dhsic.test_features(frame, target)
        expression = re.search(r"of days: pass (.*)\. If they are", str(error.value))[1]
        assert name in expression
        numbers = eval(expression, {"pandas": pd, "X": frame})
        np.testing.assert_allclose(np.diff(numbers), 97)
