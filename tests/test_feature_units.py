"""Features with values in two units, or with dates as numbers, are told; ordinary ones are not."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.joins.units import are_compact_dates, are_days, other_unit

M = 60
UNITS, DAYS = "may be in another unit", "as in spreadsheets"
COMPACT = "dates written as numbers"
DATA = Path(__file__).parents[2] / "shared/data"


def clinical(rng):
    """A table of ordinary measurements, and classes."""
    return pd.DataFrame({
        "height": rng.normal(171, 9, M).round(1),
        "weight": rng.normal(78, 12, M).round(1),
        "glucose": rng.lognormal(1.7, 0.2, M).round(2),
        "creatinine": rng.lognormal(0.1, 0.2, M).round(2),
        "counts": rng.negative_binomial(2, 0.01, M),
        "status": np.where(rng.random(M) < 0.5, "case", "control"),
    }, index=pd.Index([f"s{i}" for i in range(M)], name="id"))  # fmt: skip


def messages(frame):
    y, X = frame["status"].to_numpy(), frame.drop(columns="status").astype(float)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dhsic.select(X, y, n_features_to_select=2, progress=False, interactions=None)
    texts = [str(each.message) for each in caught]
    return [text for text in texts if UNITS in text or COMPACT in text or DAYS in text]


CASES = [("height", 0.01), ("height", 1000), ("glucose", 18.0156), ("creatinine", 88.42)]


@pytest.mark.parametrize(("name", "ratio"), CASES)
@pytest.mark.parametrize("share", [0.5, 0.3])
def test_a_part_in_another_unit_is_told_until_it_is_rescaled(name, ratio, share, rng):
    table = clinical(rng)
    assert not messages(table)
    part = rng.permutation(M) < share * M
    table.loc[part, name] = (table.loc[part, name] * ratio).round(3)
    (message,) = messages(table)
    assert f"'{name}' has two groups of values" in message
    words = re.search(r"multiply values below (\S+) by (\S+)\.", message)
    limit, factor = map(float, words.groups())
    x = table[name]
    table[name] = x.where(x >= limit, x * factor)
    assert not messages(table)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_units_and_dates_are_told_and_left_out_on_the_command_line(suffix, rng, tmp_path):
    table = clinical(rng)
    table.loc[rng.permutation(table.index)[:25], "height"] /= 100
    days = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.permutation(700)[:M], unit="D")
    table["seen"] = days.strftime("%Y%m%d").astype(int)
    table["visit_date"] = (days - pd.Timestamp("1899-12-30")).days
    path = tmp_path / f"x.{suffix}"
    table.to_csv(path) if suffix == "csv" else table.to_parquet(path)
    words = ["test", path, "--target", "status", "--no-progress"]
    said = told(run(*words))
    assert "'height' has two groups of values that differ by a factor of about 100: 35" in said
    assert f"'seen' contains {COMPACT}, such as 2022" in said
    assert "'visit_date' contains dates as numbers of days, such as 44" in said
    options = [
        word for name in ("height", "seen", "visit_date") for word in ("--not-feature", name)
    ]
    assert all(f"--not-feature {name}" in said for name in ("height", "seen", "visit_date"))
    left = told(run(*words, *options))
    assert UNITS not in left
    assert "dates" not in left


NAMED = {  # values, factor of the other unit, options, the sentence
    "height": (lambda rng: rng.normal(176, 12, 200), 1 / 100, (), "Multiplied by 100,"),
    "waist": (lambda rng: rng.normal(171, 9, 200), 1 / 2.54, (), "Multiplied by 2.54,"),
    "age": (lambda rng: rng.normal(60, 9, 200), 12, ("--covariate", "age"), "Divided by 12,"),
    "time": (
        lambda rng: rng.uniform(300, 999, 200),
        1 / 30.44,
        ("--event", "event"),
        "Multiplied by 30.44,",
    ),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", NAMED)
def test_labels_covariates_and_times_in_two_units_are_told(name, rng, tmp_path):
    draw, factor, options, sentence = NAMED[name]
    values = draw(rng).round(1)
    mixed = np.where(np.arange(200) % 3 == 0, (values * factor).round(3), values)
    table = pd.DataFrame(rng.normal(size=(200, 5)).round(3)).add_prefix("g")
    table["event"], table["y"] = rng.integers(0, 2, 200), rng.normal(size=200).round(3)
    words = ["--target", "y" if name == "age" else name, *options]
    ignored = [word for other in {"event", "y"} - {*words} for word in ("--not-feature", other)]
    for column, is_told in ((values, False), (mixed, True)):
        table[name] = column
        table.to_csv(tmp_path / "t.csv", index=False)
        said = told(run("test", tmp_path / "t.csv", *words, *ignored))
        assert ("lie extremely far from all others" in said) == is_told
        assert (f"{sentence} they lie among the others" in said) == is_told


@pytest.mark.parametrize("kind", ["covariates", "times", "array"])
def test_two_units_are_told_in_python(kind, rng):
    ages = rng.uniform(18, 90, 200).round(1)
    mixed = np.where(np.arange(200) % 3 == 0, (ages * 365.25).round(), ages)
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    quiet = {"n_features_to_select": 2, "progress": False, "interactions": None}
    arguments = {
        "covariates": {"target": y, "covariates": mixed[:, None]},
        "times": {"target": mixed, "event": rng.integers(0, 2, 200)},
        "array": {"target": mixed},
    }[kind]
    with pytest.warns(UserWarning, match=r"67 values .*Divided by 365\.25, they lie among"):
        dhsic.select(X, **arguments, **quiet)


def test_the_best_features_of_a_wide_table_are_read_again(rng):
    X = pd.DataFrame(rng.normal(size=(200, 600))).add_prefix("g")
    y = X["g3"] + 0.3 * rng.normal(size=200)
    glucose = 100 + 20 * X["g3"]
    X["g3"] = np.where(np.arange(200) % 3 == 0, (glucose / 18.02).round(2), glucose.round())
    with pytest.warns(UserWarning, match=r"'g3' has two groups .* about 18\.02: 133 from"):
        dhsic.select(X, y.to_numpy(), n_features_to_select=5, progress=False, interactions=None)


ORDINARY = {
    "normal": lambda rng: rng.normal(100, 20, 200),
    "exponential": lambda rng: rng.exponential(1, 200),
    "log-normal": lambda rng: rng.lognormal(0, 2, 200),
    "Poisson": lambda rng: rng.poisson(5, 200) + 1.0,
    "zero-inflated": lambda rng: np.where(rng.random(200) < 0.6, 0, rng.lognormal(1, 1, 200)),
    "bimodal": lambda rng: np.where(rng.random(200) < 0.4, 1, 3) * rng.lognormal(0, 0.1, 200),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_columns_have_one_unit(name, rng):
    columns = [ORDINARY[name](rng) for _ in range(300)]
    assert not any(other_unit(x) or other_unit(x, is_named=True) for x in columns)


def test_ordinary_features_have_one_unit(rng):
    for _ in range(200):
        x = rng.lognormal(2, rng.uniform(0.1, 3), M)
        assert other_unit(x) is None
        assert other_unit(np.append(rng.lognormal(2, 0.9, M), rng.lognormal(6, 0.5, M))) is None
        assert other_unit(rng.poisson(np.repeat([2, 300], M)) + 1.0) is None
    few = np.append(rng.normal(170, 9, M), rng.normal(1.7, 0.09, 4))
    assert other_unit(few) is None  # fewer than five
    assert other_unit(np.append(few, 0)) is None
    assert other_unit(np.repeat([1.0, 100.0], M)) is None  # codes
    assert other_unit(np.full(M, np.nan)) is None


def test_numbers_that_are_no_dates(rng):
    assert not are_compact_dates(rng.integers(20_000_000, 21_000_000, M).astype(float))
    assert not are_compact_dates(np.full(M, np.nan))
    assert not are_days("income", rng.integers(30_000, 50_000, M).astype(float))
    assert not are_days("date", rng.normal(0, 1, M))


@pytest.mark.skipif(not DATA.is_dir(), reason="real data are not part of the project")
def test_real_features_have_one_unit_and_no_dates():
    for path in sorted(DATA.glob("*/*.npz")):
        X = np.load(path, allow_pickle=False)["X"].astype(float)
        odd = [j for j, x in enumerate(X.T) if other_unit(x) or are_compact_dates(x)]
        assert not odd, path.name
