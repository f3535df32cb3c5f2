"""Values that are dates, one number in several types, or numbers of more than 64 bits."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dhsic
from dhsic.errors import InputError

M = 90
RNG = np.random.default_rng(7)
X = pd.DataFrame(RNG.normal(size=(M, 8)), columns=[f"g{i}" for i in range(8)])
MEASURED = X["g3"] + 0.3 * RNG.normal(size=M)
DAYS = (100 * MEASURED).round().astype(int) + 3000
WHEN = (pd.Timestamp("2010-05-01") + pd.to_timedelta(DAYS, unit="D")).rename(None)
BOTH = (X["g1"] + MEASURED).to_numpy()
#: The same days, as values of other types.
DATED = {
    "with a time zone": WHEN.dt.tz_localize("Europe/Berlin"),
    "an index with a time zone": pd.DatetimeIndex(WHEN).tz_localize("UTC"),
    "an index": pd.DatetimeIndex(WHEN),
    "dates": WHEN.dt.date,
    "dates of which one is missing": WHEN.dt.date.where(X.index > 0, None),
    "a list of dates": WHEN.dt.date.tolist(),
    "a list of timestamps": WHEN.tolist(),
    "a list of datetimes": [d.to_pydatetime() for d in WHEN],
    "a list of datetime64": list(WHEN.to_numpy()),
    "an array of timestamps": np.array(WHEN.tolist(), dtype=object),
    "periods": WHEN.dt.to_period("D"),
    "months": WHEN.dt.to_period("M"),
    "a list of weeks": WHEN.dt.to_period("W").tolist(),
    "a list of durations": [dt.timedelta(int(d)) for d in DAYS],
    "times of day": [dt.time(12 + d % 4, d % 60) for d in np.argsort(np.argsort(DAYS))],
}
OPTIONS = {"n_features_to_select": 2, "progress": False}


def first(*args, **options):
    """Name of the best feature."""
    found = dhsic.select(*args, **{**OPTIONS, **options})
    return str(found["feature"].values[int(np.argmin(found["rank"].values))])


def advice(said, **names):
    """Do what a sentence says to pass."""
    code = re.search(r"pass (\S.*?)\.( If|$)", said)[1]
    return eval(code, {"pandas": pd, "numpy": np, **names})


def refused(*args, **options):
    with pytest.raises(InputError) as error:
        dhsic.select(*args, **{**OPTIONS, **options})
    return str(error.value)


@pytest.mark.parametrize("kind", DATED)
def test_labels_that_are_dates_are_refused_with_code_that_converts_them(kind):
    y = DATED[kind]
    said = refused(X, y)
    assert re.match(r"Values of y are (dates|periods|durations|times of day) \(", said)
    days = advice(said, y=y)
    assert days.dtype == float
    assert days.isna().sum() == ("missing" in kind)
    if kind != "times of day":
        keep = days.notna()
        assert np.abs(np.diff(days[keep] - DAYS[keep])).max() < 62
        assert first(X[keep], days[keep]) == "g3"


@pytest.mark.parametrize("kind", ["with a time zone", "dates", "a list of weeks"])
@pytest.mark.parametrize("beside", [False, True])
def test_covariates_that_are_dates_are_refused_with_code_that_converts_them(kind, beside):
    covariates = pd.DataFrame({"when": DATED[kind]})
    if beside:
        covariates["age"] = RNG.normal(size=M)
    said = refused(X, BOTH, covariates=covariates)
    assert said.startswith("Values of covariates['when'] are ")
    covariates["when"] = advice(said, covariates=covariates)
    assert first(X, BOTH, covariates=covariates) == "g1"  # the days explain the other


def test_dates_that_all_differ_are_no_sample_names():
    days = pd.date_range("2020-01-01", periods=M, tz="UTC")
    for dates in (pd.Series(days.date), pd.Series(days.tz_localize(None).to_period("D"))):
        covariates = pd.DataFrame({"visit": dates, "age": RNG.normal(size=M)})
        said = refused(X, BOTH, covariates=covariates)
        assert said.startswith("Values of covariates['visit'] are ")


def test_dates_that_are_batches_are_classes_if_they_are_declared():
    y = np.where(X["g3"] > 0, "2020-01-07", "2020-02-14")
    y = pd.Series(pd.to_datetime(y)).dt.date
    declared = advice(refused(X, y).replace("declare categories:", "pass").split("names,")[1], y=y)
    found = dhsic.select(X, declared, **OPTIONS)
    assert found.attrs["labels"].startswith("2 classes")


def test_dates_beside_other_values_are_described():
    said = refused(X, [*WHEN.tolist()[1:], "unclear"])
    assert "Only 89 of 90 values are dates; others are 'unclear'" in said


CASE = (MEASURED > 0).astype(int)
SITE = RNG.random(M) < 0.5
#: One number in two types: values of cases and controls, at each of two sites.
TYPES = {
    "numbers and text": ((1.0, 0.0), ("1", "0")),
    "integers and text with a point": ((1, 0), ("1.0", "0.0")),
    "booleans and integers": ((True, False), (1, 0)),
    "booleans and text": ((np.True_, np.False_), ("1", "0")),
    "booleans and decimal numbers": ((True, False), (1.0, 0.0)),
}


def at_sites(kind):
    one, two = TYPES[kind]
    each = zip(CASE, SITE, strict=True)
    return pd.Series([(two if site else one)[1 - case] for case, site in each], dtype=object)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("form", ["series", "array", "list"])
def test_one_number_in_two_types_is_refused_with_code_that_converts_it(kind, form):
    series = at_sites(kind)
    y = {"series": series, "array": series.to_numpy(), "list": series.tolist()}[form]
    said = refused(X, y)
    assert "are equal numbers of different types (" in said
    numbers = advice(said, y=y)
    assert (numbers == CASE).all()
    assert first(X, numbers) == "g3"


@pytest.mark.parametrize("kind", TYPES)
def test_covariates_with_one_number_in_two_types_are_refused(kind):
    covariates = pd.DataFrame({"sex": at_sites(kind), "age": RNG.normal(size=M)})
    said = refused(X, BOTH, covariates=covariates)
    assert "Some values of covariates['sex'] are equal numbers of different types" in said
    covariates["sex"] = advice(said, covariates=covariates)
    dhsic.select(X, BOTH, covariates=covariates, **OPTIONS)


def test_numbers_in_two_types_beside_names_are_written_in_one_way():
    y = at_sites("numbers and text").where(X["g3"] < 1, "severe")
    y[0] = None
    written = advice(refused(X, y), y=y)
    assert set(written[1:]) == {"0.0", "1.0", "severe"}
    assert written.isna().sum() == 1
    found = dhsic.select(X[1:], written[1:], **OPTIONS)
    assert found.attrs["labels"].startswith("3 classes")


@pytest.mark.parametrize("values", [(1, 1.0, 2), (True, False, 2), ("1", 2, 3), (1, "1", 2)])
def test_numbers_of_other_types_are_accepted(values):
    y = pd.Series([values[i % 3] for i in range(M)], dtype=object)
    dhsic.select(X, y, **OPTIONS)


def test_numbers_of_more_than_64_bits_are_read_as_float64():
    long, age = X.astype(np.longdouble), pd.Series(RNG.normal(size=M), name="age")
    expected = dhsic.select(X, MEASURED.to_numpy(), covariates=age, **OPTIONS)
    cube = xr.DataArray(long.to_numpy(), dims=("m", "d"), coords={"d": X.columns})
    mixed = X.assign(g3=long["g3"])
    y, numbers = MEASURED.to_numpy().astype(np.longdouble), long.to_numpy()
    long_age = age.astype(np.longdouble)
    for data in (long, mixed, cube, numbers, numbers.tolist(), [[*row] for row in numbers]):
        found = dhsic.select(data, y, covariates=long_age, **OPTIONS)
        assert (found["rank"].values == expected["rank"].values).all()
        assert (found["score"].values == expected["score"].values).all()
    for labels in (pd.Series(y), [*y], pd.Series(y).astype(object)):
        found = dhsic.select(X, labels, covariates=age, **OPTIONS)
        assert (found["score"].values == expected["score"].values).all()
    tests = dhsic.test_features(long, y)
    assert (tests.p_values == dhsic.test_features(X, MEASURED.to_numpy()).p_values).all()
    assert dhsic.hsic(long, y) == dhsic.hsic(X, MEASURED.to_numpy())


def test_classes_that_are_numbers_of_more_than_64_bits():
    y = CASE.to_numpy().astype(np.longdouble)
    assert dhsic.select(X, y, **OPTIONS).attrs["labels"].startswith("2 classes")
