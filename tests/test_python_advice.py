"""Advice in Python on labels and frames with text or dates among numbers, followed as it stands."""

import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

import dhsic

M = 60
RNG = np.random.default_rng(2)
X = pd.DataFrame(RNG.normal(10, 2, (M, 5)).round(2), columns=[*"abcde"])
Y = (X["b"] + 0.1 * RNG.normal(size=M)).round(2).rename("y")


def best(data, labels, **options):
    return int(np.argmin(dhsic.test_features(data, labels, **options).p_values))


def refused(data, labels):
    with pytest.raises(dhsic.InputError) as error:
        dhsic.test_features(data, labels)
    return str(error.value)


def followed(sentence, data):
    """Run every statement that assigns columns of X."""
    names = {"X": data.copy(), "pandas": pd}
    for statement in re.findall(r"X\[\[.*?\]\] = .*?\)(?=\. |\.$| replaces)", sentence):
        exec(statement, names)
    return names["X"]


COMMAS = {
    "decimal": lambda v: f"{v:.2f}".replace(".", ","),
    "German": lambda v: f"{1000 * v:,.2f}".translate(str.maketrans(",.", ".,")),
    "English": lambda v: f"{1000 * v:,.2f}",
}


@pytest.mark.parametrize("kind", COMMAS)
def test_numbers_with_commas_are_converted_in_labels_and_frames(kind):
    scale = 1 if kind == "decimal" else 1000
    texts = Y.map(COMMAS[kind]).to_numpy()
    code = re.search(r"pass (pandas\.to_numeric\(.*?\))\. If all", refused(X, texts))[1]
    numbers = eval(code, {"pandas": pd, "Y": texts})
    np.testing.assert_allclose(numbers, scale * Y)
    assert best(X, numbers.to_numpy()) == 1
    data = X.assign(b=X["b"].map(COMMAS[kind]))
    mended = followed(refused(data, Y), data)
    np.testing.assert_allclose(mended["b"], scale * X["b"])
    assert best(mended, Y) == 1


def test_commas_of_two_meanings_have_both():
    said = refused(X, (Y * 1000).round().astype(int).map("{:,}".format).to_numpy())
    assert "If commas are decimal marks: pass pandas.to_numeric" in said
    code = re.search(r"separate thousands: pass (.*?)\. If all", said)[1]
    texts = (Y * 1000).round().astype(int).map("{:,}".format)
    np.testing.assert_allclose(eval(code, {"pandas": pd, "Y": texts}), (Y * 1000).round())


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_values_below_a_limit_become_half_of_it(share):
    limit = round(X["b"].quantile(share), 1)
    data = X.astype({"b": object})
    data.loc[X["b"] < limit, "b"] = f"<{limit}"
    said = refused(data, Y)
    assert "would make these values missing" in said
    assert "get_dummies" not in said
    mended = followed(said, data)
    np.testing.assert_allclose(mended["b"], X["b"].where(X["b"] >= limit, limit / 2))
    assert best(mended, Y) == 1
    labels = Y.astype(object).where(limit <= Y, f"<{limit}")
    said = refused(X, labels)
    code = re.search(r"above: pass (pandas\.to_numeric\(.*\))\. If all", said)[1]
    numbers = eval(code, {"pandas": pd, "Y": labels})
    np.testing.assert_allclose(numbers, Y.where(limit <= Y, limit / 2))


def test_dates_and_durations_become_numbers():
    start = pd.Timestamp("2020-01-01")
    data = X.assign(
        b=start + pd.to_timedelta(X["b"], unit="D"),
        c=(start + pd.to_timedelta(X["c"], unit="D")).dt.tz_localize("UTC"),
        d=pd.to_timedelta(X["d"], unit="h"),
    )
    said = refused(data, Y)
    names = {"X": data}
    for statement in re.findall(r"Or drop them: (X = X\.drop\(.*?\))\.", said):
        exec(statement, names)
    assert [*names["X"].columns] == ["a", "e"]
    mended = followed(said, data)
    np.testing.assert_allclose(mended["b"] - mended["b"].min(), X["b"] - X["b"].min(), atol=1e-6)
    np.testing.assert_allclose(mended["d"], 3600 * X["d"])
    assert best(mended, Y) == 1


def test_text_that_is_numbers_is_assigned():
    data = X.astype({"b": str, "c": str})
    said = refused(data, Y)
    assert best(followed(said, data), Y) == 1
    data = X.astype({"b": object})
    data.iloc[3, 1] = "lost"
    mended = followed(refused(data, Y), data)
    assert mended["b"].isna().sum() == 1
    assert best(mended, Y) == 1


def test_a_default_index_is_not_matched_with_names():
    kept = X["a"] > X["a"].median()
    data, y = X[kept], Y[kept].reset_index(drop=True)
    said = refused(data, y)
    assert "Keep only the samples" not in said
    assert "index of Y is 0, 1, 2" in said
    assert best(data, y, by_position=True) == 1
    y.index = data.index
    assert best(data, y) == 1
    assert "index of X is 0, 1, 2" in refused(data.reset_index(drop=True), y)
    named = X.set_axis([f"s{i}" for i in range(M)])
    other = Y.set_axis([f"s{i + 5}" for i in range(M)])
    assert "Keep only the samples" in refused(named, other)


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_infinite_values_are_told_with_the_name_of_the_feature(form, tmp_path):
    data = X.astype(float)
    data.iloc[7, 3] = np.inf
    path = tmp_path / f"x.{form}"
    if form != "frame":
        getattr(data, f"to_{form}")(path, index=False)
    with pytest.raises(dhsic.DataError, match=r"Feature 3 of sample 7 is inf, in column 'd'"):
        dhsic.test_features(data if form == "frame" else path, Y.to_numpy())


KINDS = {
    "dates": [datetime(2020, 1, 1 + i % 28, tzinfo=UTC).date() for i in range(M)],
    "timestamps": pd.date_range("2020-01-01", periods=M, freq="31h")[RNG.permutation(M)],
    "zoned": pd.date_range("2020-01-01", periods=M, tz="UTC", freq="31h")[RNG.permutation(M)],
    "times": [datetime(2020, 1, 1, i % 24, i, tzinfo=UTC).time() for i in range(M)],
    "durations": pd.to_timedelta(RNG.permutation(M), unit="h"),
    "lists": [[float(i % 7), float(i % 5)] for i in range(M)],
    "binary": [f"{i % 9}.5".encode() for i in range(M)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_other_types_of_arrow_are_converted_by_the_command(kind, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X.assign(z=KINDS[kind]).pipe(lambda t: getattr(t, f"to_{suffix}")(f"x.{suffix}"))
    said = refused(f"x.{suffix}", Y.to_numpy())
    assert "text" not in said
    command = re.search(r'python -c ".*?"', said)[0]
    command = command.replace("python", shlex.quote(sys.executable), 1)
    subprocess.run(["bash", "-c", command], check=True)
    source = dhsic.open_source(f"NEW.{suffix}")
    assert source.n_features == 6 + (kind == "lists")
    assert best(source, Y.to_numpy()) == 1
    assert dhsic.open_source(f"x.{suffix}", not_features=["z"]).n_features == 5
