"""Times to an event whose events are not passed: a warning names their column."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run

import dhsic

RNG = np.random.default_rng(23)
M = 80
IDS = pd.Index([f"s{i}" for i in range(M)], name="sample")
X = pd.DataFrame(RNG.normal(size=(M, 5)), columns=list("abcde"), index=IDS)
Y = pd.DataFrame(
    {
        "OS_days": np.exp(3 - X.a + RNG.normal(size=M)).round(1),
        "vital_status": RNG.choice(["Alive", "Dead"], M),
        "age": RNG.integers(30, 80, M) + 0.5,
        "sex": RNG.integers(0, 2, M),
    },
    index=IDS,
)
HINT = "'OS_days' looks like times to an event, and 'vital_status' looks like its events"


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.to_csv("x.csv")
    Y.to_csv("y.csv")


def told(command, *words):
    n = () if command in ("test", "pairs") else ("-n", 2)
    return " ".join(run(command, "x.csv", "--labels", "y.csv", *words, *n).stderr.split())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", ["select", "test", "pairs"])
def test_times_without_events_are_told_and_the_option_works(command):
    said = told(command, "--target", "OS_days")
    assert HINT in said
    option = re.search(r"pass (--event vital_status)\.", said)[1]
    said = told(command, "--target", "OS_days", *option.split())
    assert HINT not in said
    assert "censored" in said


@pytest.mark.filterwarnings("default")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_events_among_the_features_are_told(suffix):
    """The first feature would be the event itself."""
    frame = X.join(Y[["OS_days"]]).assign(died=(Y.vital_status == "Dead").astype(int))
    frame.to_csv("t.csv")
    frame.to_parquet("t.parquet")
    for command in ("select", "test"):
        words = (command, f"t.{suffix}", "--target", "OS_days", "-n", 2)
        said = " ".join(run(*words).stderr.split())
        assert "'OS_days' looks like times to an event, and 'died' looks like its events" in said
        found = run(*words, *re.search(r"pass (--event died)\.", said)[1].split())
        assert "censored" in found.stderr
        assert "died" not in found.stdout
    with pytest.warns(UserWarning, match="'died' looks like its events"):
        dhsic.test_features(f"t.{suffix}", "OS_days")


@pytest.mark.filterwarnings("default")
def test_events_among_the_targets_are_told():
    assert HINT in told("select", "--target", "OS_days", "--target", "vital_status")
    assert HINT in told("select", "--target", "OS_days", "--target", "vital_status", "--per-target")


@pytest.mark.parametrize("target", ["age", "sex", "vital_status"])
def test_other_labels_are_no_times(target):
    assert "times to an event" not in told("test", "--target", target)


@pytest.mark.filterwarnings("ignore:.*could be")
def test_frames_that_hold_times_and_events_are_told():
    for data, y in (
        (X.join(Y[["OS_days", "age", "vital_status"]]), "OS_days"),
        (X, Y[["OS_days", "vital_status"]].assign(vital_status=Y.vital_status == "Dead")),
    ):
        with pytest.warns(UserWarning, match=HINT):
            dhsic.test_features(data, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dhsic.test_features(X, Y.OS_days)
        data = X.join(Y[["OS_days"]].assign(died=Y.vital_status == "Dead"))
        dhsic.test_features(data, "OS_days", event="died")
