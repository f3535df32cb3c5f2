"""Features that are text with a meaning as numbers: dates, units, flags; the advice is followed."""

import re

import numpy as np
import pandas as pd
import pytest
from commands import run
from test_column_advice import followed

import dhsic

RNG = np.random.default_rng(17)
M = 60
Y = RNG.normal(size=M)
NAMES = [f"s{i}" for i in range(M)]
#: Whole numbers from 1 to 46 that follow the labels, some of them twice.
RANKS = np.argsort(np.argsort(Y + 0.3 * RNG.normal(size=M))) + 1
N = 1 + 3 * RANKS // 4
DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(N, unit="D")
#: For each kind: texts of the numbers, and the values that the advice writes.
KINDS = {
    "dates": (list(DAYS.strftime("%Y-%m-%d")), 7305.0 + N),
    "days first": (list(DAYS.strftime("%d/%m/%Y")), 7305.0 + N),
    "times of day": ([f"{n // 6:02d}:{n % 6}0" for n in N], N / 6),
    "feet": ([f"{4 + n // 12}'{n % 12}\"" for n in N], 48.0 + N),
    "two units": ([f"{n} h" if n % 2 else f"{n / 24:.6f} d" for n in N], 1.0 * N),
    "multiples": ([f"{n}K" if n % 2 else f"{n / 1e3}M" for n in N], 1e3 * N),
    "ranges": ([f"{n}-{n + 2}" for n in N], 1.0 + N),
    "pressure": ([f"{100 + n}/{60 + n // 2}" for n in N], 100.0 + N),
    "ages": ([f"{n} years {n % 5} months" for n in N], 12.0 * N + N % 5),
    "flags": ([f"{n / 4}H" if n > 40 else f"{n / 4}" for n in N], N / 4),
    "footnotes": ([f"{n / 4}*" if n % 7 == 0 else f"{n / 4}" for n in N], N / 4),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(**columns):
    ids = pd.Index(NAMES, name="id")
    numbers = {f"g{j}": RNG.normal(size=M).round(3) for j in range(3)}
    frame = pd.DataFrame({**numbers, **columns}, ids)
    frame.to_csv("x.csv")
    pd.DataFrame({"y": Y}, ids).to_csv("y.csv")
    return frame


def told(*words, code=0):
    return " ".join(
        run("test", *words, "--labels", "y.csv", "--target", "y", code=code).stderr.split()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_features_that_mean_numbers_are_written_by_the_command(kind):
    texts, values = KINDS[kind]
    table(odd=texts)
    followed(told("x.csv", code=2))
    np.testing.assert_allclose(pd.read_csv("NEW.csv")["odd"], values, atol=1e-4)
    run("test", "NEW.csv", "--labels", "y.csv", "--target", "y", "--out", "t.tsv")
    assert pd.read_csv("t.tsv", sep="\t").iloc[0]["name"] == "odd"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_columns_of_frames_that_mean_numbers_are_converted_by_the_code(kind):
    texts, values = KINDS[kind]
    frame = table(odd=[None, *texts[1:]])
    with pytest.raises(dhsic.InputError) as error:
        dhsic.test_features(frame, Y)
    code = re.search(r"(X\[\[?'odd'.*?)\.(?: If|$| pandas.to_numeric alone)", str(error.value))[1]
    names = {"X": frame, "pandas": pd}
    exec(code, names)
    np.testing.assert_allclose(names["X"]["odd"], [np.nan, *values[1:]], atol=1e-4)
    tested = dhsic.test_features(names["X"], Y)
    assert tested.names[np.argmin(tested.p_values)] == "odd"


def test_several_columns_are_converted_by_one_command():
    kinds = ("dates", "feet", "two units", "ranges")
    table(**{f"c{j}": KINDS[kind][0] for j, kind in enumerate(kinds)})
    said = told("x.csv", code=2)
    assert "dates in column 'c0'" in said
    assert "numbers in two units in column 'c1'" in said
    followed(said)
    for j, kind in enumerate(kinds):
        np.testing.assert_allclose(pd.read_csv("NEW.csv")[f"c{j}"], KINDS[kind][1], atol=1e-4)
    options = re.search(r"pass ((?:--category c\d ?)+)\.", told("x.csv", code=2))
    assert options, said


def test_times_that_may_be_read_twice_are_told():
    table(day=[f"{i % 12 + 1}/{i // 12 + 1}/19" for i in range(M)])
    said = told("x.csv", code=2)
    assert "If the month comes first, use format='%m/%d/%y' instead. Two-digit years" in said


def test_bands_may_be_categories():
    table(band=np.array(["20-29", "30-39", "40-49"])[N % 3])
    option = re.search(r"pass (--category band)\.", told("x.csv", code=2))[1]
    assert "categories, without order" in told("x.csv", *option.split())
