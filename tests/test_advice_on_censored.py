"""Advice about times to an event that may be censored, followed."""

import re

import numpy as np
import pandas as pd
import pytest
from commands import run

import dhsic
from dhsic.errors import InputError

M, D = 60, 8
RNG = np.random.default_rng(3)
X = RNG.standard_normal((M, D))
TIME = RNG.exponential(size=M).round(4) * np.exp(-X[:, 2]) + 0.01
EVENT = RNG.random(M) < 0.7
FEW = {"n_features_to_select": 1, "progress": False, "rerank": False}


def refusal(labels, **options):
    with pytest.raises(InputError) as caught:
        dhsic.select(X, labels, **FEW, **options)
    return str(caught.value)


def records(**fields):
    """A structured array of these fields."""
    kinds = [(name, np.asarray(values).dtype) for name, values in fields.items()]
    array = np.empty(M, kinds)
    for name, values in fields.items():
        array[name] = values
    return array


def test_entries_need_events():
    said = refusal(TIME, entry=0.1 * TIME)
    assert "Pass both, or leave entry= out" in said
    dhsic.select(X, TIME, entry=0.1 * TIME, event=EVENT, **FEW)
    dhsic.select(X, TIME, **FEW)


def test_a_second_number_is_named_as_the_entry():
    y = records(dead=EVENT, time=TIME, start=0.1 * TIME)
    name = re.search(r"name a time of entry with (\w+)=", refusal(y))[1]
    dhsic.select(X, y, **FEW, **{name: "start"})


def test_records_without_a_boolean_field_name_their_event():
    y = records(dead=EVENT.astype(int), time=TIME)
    said = refusal(y)
    assert re.search(r"Pass one field: (y\['\w+'\])", said)
    name = re.search(r"field of the events: (\w+)=", said)[1]
    assert "60 censored times" in dhsic.select(X, y, **FEW, **{name: "dead"}).attrs["labels"]


def test_only_kernels_of_times_apply():
    y = records(dead=EVENT, time=TIME)
    said = refusal(y, label_kernel="multiclass")
    for kernel in re.findall(r"'(auto|linear)'", said):
        dhsic.select(X, y, **FEW, label_kernel=kernel)


def test_relatedness_is_left_out():
    y = records(dead=EVENT, time=TIME)
    with pytest.raises(InputError, match=r"loco=.* Leave loco= out"):
        dhsic.test_features(X, y, loco=True)
    dhsic.test_features(X, y)


@pytest.mark.parametrize(
    ("column", "value", "pattern"),
    [
        ("time", "", r"\((--drop-missing)\)|with (--drop-missing)"),
        ("dead", "", r"\((--drop-missing)\)|with (--drop-missing)"),
        ("time", "-5", r"(--na \S+ --drop-missing)"),
    ],
)
def test_samples_without_a_time_or_event_are_excluded(column, value, pattern, tmp_path):
    table = pd.DataFrame(X.round(3)).add_prefix("g")
    table.insert(0, "id", [f"s{i}" for i in range(M)])
    table = table.assign(time=TIME.round(3), dead=EVENT.astype(int)).astype(str)
    table.loc[5, column] = value
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ("test", tmp_path / "t.csv", "--target", "time", "--event", "dead", "-n", "1")
    said = " ".join(run(*words, code=2).stderr.split())
    remedy = next(filter(None, re.search(pattern, said).groups()))
    assert "59 censored times" in " ".join(run(*words, *remedy.split()).stderr.split())
