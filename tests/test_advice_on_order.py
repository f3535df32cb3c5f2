"""Labels in another order than the data are refused with code that puts them in order."""

import re
import unicodedata

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dhsic
from dhsic.errors import InputError

M = 60
RNG = np.random.default_rng(3)
G = RNG.normal(size=(M, 8))
NAMES = [f"P{i:03d}" for i in range(M)]
VISITS = pd.MultiIndex.from_product([[f"P{i:02d}" for i in range(M // 2)], ["v1", "v2"]])
NUMBERED = pd.MultiIndex.from_product([range(M // 2), [1, 2]])
BMI = G[:, 3] + 0.3 * RNG.normal(size=M)
#: Names of the samples of the data, and of the labels.
PAIRS = {
    "the same": (NAMES, NAMES),
    "blanks at the end of labels": (NAMES, [f"{name} " for name in NAMES]),
    "blanks at the end of data": ([f"{name} " for name in NAMES], NAMES),
    "numbers and text": (range(100, 100 + M), [*map(str, range(100, 100 + M))]),
    "text and numbers": ([*map(str, range(100, 100 + M))], range(100, 100 + M)),
    "decimal numbers and text": (np.arange(100.0, 100 + M), [*map(str, range(100, 100 + M))]),
    "whole and decimal numbers": (range(100, 100 + M), np.arange(100.0, 100 + M)),
    "two levels and joined": (VISITS, ["_".join(name) for name in VISITS]),
    "joined and two levels": (["_".join(name) for name in VISITS], VISITS),
    "two levels of numbers and joined": (NUMBERED, [f"{a}_{b}" for a, b in NUMBERED]),
    "two levels": (VISITS, VISITS),
    "bytes": ([name.encode() for name in NAMES], NAMES),
    "accents": (
        [f"Ren\u00e9{i}" for i in range(M)],
        [unicodedata.normalize("NFD", f"Ren\u00e9{i}") for i in range(M)],
    ),
}
OPTIONS = {"n_features_to_select": 2, "progress": False}


def frame(names):
    return pd.DataFrame(G, columns=[f"g{i}" for i in range(8)], index=names)


def refused(X, y, **options):
    with pytest.raises(InputError, match="are in a different order from those of X") as error:
        dhsic.select(X, y, **OPTIONS, **options)
    return str(error.value)


def advice(said, **names):
    """Do what a sentence says to pass."""
    code = re.search(r"Pass (\S.*?), or by_position", said)[1]
    return eval(code, {"pandas": pd, "dhsic": dhsic, **names})


@pytest.mark.parametrize("kind", PAIRS)
def test_labels_are_put_in_order_by_the_advice(kind):
    ours, theirs = PAIRS[kind]
    X, y = frame(ours), pd.Series(BMI, index=theirs)
    shuffled = y.sample(frac=1, random_state=1)
    ordered = advice(refused(X, shuffled), X=X, y=shuffled)
    assert (ordered.to_numpy() == BMI).all()
    expected = dhsic.select(X, BMI, **OPTIONS)
    assert (dhsic.select(X, ordered, **OPTIONS)["rank"] == expected["rank"]).all()
    said = refused(X, BMI, covariates=shuffled.to_frame("age"))
    ordered = advice(said, X=X, covariates=shuffled.to_frame("age"))
    assert (ordered["age"].to_numpy() == BMI).all()


@pytest.mark.parametrize("kind", ["the same", "blanks at the end of labels", "text and numbers"])
def test_labels_are_put_in_the_order_of_xarray_and_of_files(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours, theirs = PAIRS[kind]
    shuffled = pd.Series(BMI, index=theirs).sample(frac=1, random_state=1)
    cube = xr.DataArray(G, dims=("cells", "genes"), coords={"cells": list(ours)})
    labels = xr.DataArray(shuffled, dims="cells", coords={"cells": list(shuffled.index)})
    assert (advice(refused(cube, labels), X=cube, y=labels).values == BMI).all()
    said = refused(cube, shuffled)
    assert (advice(said, X=cube, y=shuffled) == BMI).all()
    X = frame(ours)
    assert (advice(refused(X, labels), X=X, y=labels).values == BMI).all()
    frame(ours).to_csv("x.csv", index_label="id")
    said = refused("x.csv", shuffled)
    assert (advice(said, y=shuffled) == BMI).all()
    frame(ours).assign(bmi=BMI, status="ill").to_csv("e.csv", index_label="id")
    options = {"not_features": ["bmi", "status"]}
    ordered = advice(refused("e.csv", shuffled, **options), y=shuffled)
    assert (ordered == BMI).all()
    ranks = [dhsic.select("e.csv", y, **OPTIONS, **options)["rank"] for y in (ordered, BMI)]
    assert (ranks[0] == ranks[1]).all()
    source = dhsic.open_source("e.csv", **options)
    assert (advice(refused(source, shuffled), X=source, y=shuffled) == BMI).all()


def test_names_that_no_code_makes_the_same_are_described():
    X = frame(["_".join(name) for name in VISITS])
    with_blanks = pd.MultiIndex.from_tuples([(f"{a} ", b) for a, b in VISITS])
    y = pd.Series(BMI, index=with_blanks)[::-1]
    assert "Write the names in the same way in both, or pass by_position=True" in refused(X, y)


@pytest.mark.parametrize("kind", ["the same", "blanks at the end of labels", "text and numbers"])
def test_events_are_put_in_the_order_of_times_by_the_advice(kind):
    ours, theirs = PAIRS[kind]
    times = pd.Series(np.exp(BMI), index=ours)
    event = pd.Series(G[:, 5] > -1, index=theirs).sample(frac=1, random_state=1)
    with pytest.raises(InputError, match="The index of event= differs") as error:
        dhsic.select(frame(ours), times, event=event, **OPTIONS)
    code = re.search(r"same order: (\S.*)\.$", str(error.value))[1]
    ordered = eval(code, {"event": event, "y": times})
    assert (ordered.to_numpy() == (G[:, 5] > -1)).all()
    dhsic.select(frame(ours), times, event=ordered, **OPTIONS)


def test_events_of_other_samples_are_told():
    times = pd.Series(np.exp(BMI), index=NAMES)
    event = pd.Series(G[:, 5] > -1, index=[*NAMES[1:], "P999"])
    with pytest.raises(InputError, match="has other names"):
        dhsic.select(frame(NAMES), times, event=event, **OPTIONS)
