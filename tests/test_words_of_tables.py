"""Words of clinical tables: events, and names of classes that are also words for missing values."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from commands import run, told

import dhsic
from dhsic.independence import test_features as features_tested

M, D = 80, 4
RNG = np.random.default_rng(8)
X = RNG.normal(size=(M, D))
EVENT = X[:, 1] + 0.5 * RNG.normal(size=M) > 0
TIME = np.round(RNG.exponential(size=M) * np.exp(-X[:, 1]) + 0.01, 3)
IDS = [f"s{i}" for i in range(M)]
CLASS = np.digitize(X[:, 1], [-0.5, 0.5])


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, pd.Index(IDS, name="id")).add_prefix("g").to_csv("x.csv")
    return lambda **columns: pd.DataFrame({"id": IDS, **columns}).to_csv("l.csv", index=False)


VALUE_OF_EVENT = re.compile(
    r"if (\S+) means that it was observed and (\S+) that the time is censored, "
    r"pass --event (.*?)(?:;|[.](?: |$))"
)


def output_of(*options, code=0):
    return told(run("test", "x.csv", "--labels", "l.csv", *options, code=code))


@pytest.mark.filterwarnings("ignore:The events")
@pytest.mark.parametrize(
    "words",
    [
        *(("dead", "alive"), ("Deceased", "Living"), ("1:DECEASED", "0:LIVING")),
        *(("event", "censored"), ("1:Recurred/Progressed", "0:DiseaseFree")),
        *(("relapse", "no relapse"), ("progressed", "not progressed"), ("yes", "no")),
    ],
)
def test_words_for_events_are_read(words):
    events = np.where(EVENT, *words)
    by_word = features_tested(X, TIME, event=events)
    np.testing.assert_array_equal(by_word.p_values, features_tested(X, TIME, event=EVENT).p_values)


def test_words_for_events_are_told():
    with pytest.warns(UserWarning, match="'dead' is read as an observed event, and 'alive'"):
        features_tested(X, TIME, event=np.where(EVENT, "dead", "alive"))


@pytest.mark.parametrize("words", [("1:LIVING", "0:DECEASED"), ("LTFU", "AWD")])
def test_other_words_for_events_are_named_by_the_option(words, write):
    write(time=TIME, died=np.where(EVENT, *words))
    said = output_of("--target", "time", "--event", "died", code=2)
    ways = {word: (other, option) for word, other, option in VALUE_OF_EVENT.findall(said)}
    assert {*ways} == {*words}
    assert ways[words[0]][0] == words[1]
    option = shlex.split(ways[words[0]][1])[0]
    assert f"{EVENT.sum()} events" in output_of("--target", "time", "--event", option)


OPPOSITE = {
    "censored": (0, 1),
    "Alive": ("No", "Yes"),
    "right_censored": ("FALSE", "True"),
    "lostToFollowup": (0.0, 1.0),
    "disease_free": ("n", "y"),
    "in_follow_up": ("No", "Yes"),
    "still_followed": (0, 1),
}


@pytest.mark.parametrize("name", OPPOSITE)
def test_columns_named_by_the_opposite_of_an_event_need_its_value(name, write):
    """1 in such a column usually means that there was no event."""
    no_event = {name: np.where(EVENT, *OPPOSITE[name])}
    write(time=TIME, **no_event)
    said = output_of("--target", "time", "--event", name, code=2)
    observed, censored = (str(value).removesuffix(".0") for value in OPPOSITE[name])
    ways = VALUE_OF_EVENT.findall(said)
    assert [way[:2] for way in ways] == [(observed, censored), (censored, observed)]
    for (*_, option), n_events in zip(ways, (EVENT.sum(), M - EVENT.sum()), strict=True):
        assert f"{n_events} events" in output_of("--target", "time", "--event", option)


@pytest.mark.parametrize("column", ["is_censored", "Alive"])
def test_in_python_too(column):
    values = pd.Series(np.where(EVENT, *OPPOSITE.get(column, (False, True))), name=column)
    with pytest.raises(dhsic.InputError, match="The name suggests the opposite") as error:
        features_tested(X, pd.Series(TIME), event=values)
    codes = re.findall(r"pass event=(.*?to_numpy[(][)])", str(error.value))
    usual, other = (eval(code, {"event": values}) for code in codes)
    assert (other == ~usual).all()
    expected = features_tested(X, TIME, event=EVENT).p_values
    found = features_tested(X, pd.Series(TIME), event=usual)
    np.testing.assert_array_equal(found.p_values, expected)

    frame = pd.DataFrame({"time": TIME, column: values})
    with pytest.raises(dhsic.InputError, match="The name suggests the opposite") as error:
        features_tested(X, frame, event=column)
    named = re.search(r"pass event='(.*?)'", str(error.value))[1]
    event = f"{column}={values[int(np.argmax(EVENT))]}"
    assert named.partition("=")[0] == column
    found = features_tested(X, frame, event=event)
    np.testing.assert_array_equal(found.p_values, expected)


def test_one_of_several_kinds_of_events(write):
    kinds = np.where(EVENT, 2, RNG.integers(0, 2, size=M))
    write(time=TIME, status=kinds)
    said = output_of("--target", "time", "--event", "status", code=2)
    assert "name the value of one: --event NAME=VALUE." in said
    assert f"{EVENT.sum()} events" in output_of("--target", "time", "--event", "status=2")
    said = output_of("--target", "time", "--event", "status=3", code=2)
    assert "No sample has the value '3' in 'status'. The values are" in said
    records = np.array([*zip(kinds, TIME, strict=True)], [("status", int), ("time", float)])
    found = features_tested(X, records, event="status=2").p_values
    np.testing.assert_array_equal(found, features_tested(X, TIME, event=EVENT).p_values)


@pytest.mark.filterwarnings("ignore:The events")
def test_words_that_speak_for_themselves_may_be_in_any_column(write):
    write(time=TIME, alive=np.where(EVENT, "dead", "alive"))
    assert f"{EVENT.sum()} events" in output_of("--target", "time", "--event", "alive")


def test_weights_with_decimal_commas_have_a_command(write):
    weights = np.round(RNG.uniform(0.5, 2, size=M), 2)
    write(y=X[:, 1], w=[str(weight).replace(".", ",") for weight in weights])
    said = output_of("--target", "y", "--weights", "w", code=2)
    command = re.search(r'no other marks: python( -c ".*?to_csv.*?")', said)[1]
    subprocess.run(["bash", "-c", shlex.quote(sys.executable) + command], check=True)
    np.testing.assert_array_equal(pd.read_csv("NEW.csv")["w"], weights)
    assert "NEW.csv" in said


def test_weights_with_decimal_commas_have_an_expression_in_python():
    weights = np.round(RNG.uniform(0.5, 2, size=M), 2)
    text = np.array([str(weight).replace(".", ",") for weight in weights])
    with pytest.raises(dhsic.InputError, match="numbers with commas") as error:
        features_tested(X, X[:, 1], sample_weight=text)
    code = re.search(r"no other marks: pass (.*)\.$", str(error.value))[1]
    numbers = eval(code, {"pandas": pd, "sample_weight": text})
    np.testing.assert_array_equal(
        features_tested(X, X[:, 1], sample_weight=numbers).p_values,
        features_tested(X, X[:, 1], sample_weight=weights).p_values,
    )


@pytest.mark.parametrize("word", ["NONE", "None", "NA", "nan", "NULL", "N/A"])
def test_names_of_classes_that_mean_missing_are_told_with_their_rows(word, write):
    n = int((CLASS == 0).sum())
    write(y=np.array([word, "MILD", "SEVERE"])[CLASS])
    said = output_of("--target", "y", code=2)
    note = f"'{word}' ({n} of {M}) in labels 'y' is read as missing"
    assert note in said
    assert note in output_of("--target", "y", "--drop-missing")
    option = re.search(r"name of a class, pass (--not-na \S+?)\.? ", f"{said} ")[1]
    assert f"3 classes {word} ({n})" in output_of("--target", "y", *option.split()) or n < M / 3


def test_numbers_without_a_value_are_no_names(write):
    write(y=np.where(np.arange(M) == 3, "NA", X[:, 1].astype(str)))
    assert "is read as missing" not in output_of("--target", "y", code=2)
