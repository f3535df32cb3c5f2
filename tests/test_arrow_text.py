"""Rows of text tables by pyarrow: the same text as pandas writes."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dhsic
from dhsic.results import arrow_text
from dhsic.results.arrow_text import text_rows

EDGES = [0.0, -0.0, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9, 1e-10, 9.999999999999999e-05, 1e15, 1e16, 1e22]
EDGES += [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, np.inf, -np.inf, np.nan, 123456.0, 3e-5, 2e-6]


def by_pandas(columns, separator="\t"):
    frame = pd.DataFrame(columns)
    return frame.to_csv(sep=separator, index=False, header=False, lineterminator="\n").encode()


@given(st.lists(st.floats(width=64), min_size=1, max_size=30))
@example([sign * value for value in EDGES for sign in (1, -1)])
@example(np.random.default_rng(0).random(1000).tolist())
@example((10.0 ** np.random.default_rng(0).uniform(-12, 18, 3000)).tolist())
def test_floats(values):
    columns = {"first": np.arange(len(values)), "x": np.array(values, dtype=np.float64)}
    assert text_rows(columns, "\t") == by_pandas(columns)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=8))
def test_text_and_other_types(words):
    n = len(words)
    columns = {
        "count": np.arange(n, dtype=np.int32),
        "name": np.array(words, dtype=object),
        "selected": np.arange(n) % 2 == 0,
    }
    rows = text_rows(columns, ",")
    if rows is None:
        assert any(set(word) & set('",\r\n') for word in words)
    else:
        assert rows == by_pandas(columns, ",")


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a\tb", "c"], dtype=object),
        np.array(['say "x"', "c"], dtype=object),
        np.array(["two\nlines", "c"], dtype=object),
        np.array(["\udce4", "c"], dtype=object),
        np.array([1.5, "c"], dtype=object),
        np.float32([0.1, 0.2]),
    ],
)
def test_what_needs_quotes_or_has_another_type_is_left_to_pandas(values):
    assert text_rows({"x": values}, "\t") is None


def test_a_table_is_the_same_without_pyarrow(rng, tmp_path, monkeypatch):
    X = pd.DataFrame(rng.integers(0, 3, (40, 30)).astype(float))
    X.columns = [f"g{i}" for i in range(28)] + ['quo"ted', "tab\tbed"]
    result = dhsic.test_features(X, rng.standard_normal(40)).result_
    plain = dhsic.test_features(X.iloc[:, :28], rng.standard_normal(40)).result_
    for each, name in ((result, "quoted"), (plain, "plain")):
        dhsic.save(each, tmp_path / f"{name}.tsv")
        with monkeypatch.context() as patch:
            patch.setattr(arrow_text, "find_spec", lambda _: None)
            dhsic.save(each, tmp_path / f"{name}-by-pandas.tsv")
        text = (tmp_path / f"{name}.tsv").read_bytes()
        assert text == (tmp_path / f"{name}-by-pandas.tsv").read_bytes()
        assert len(pd.read_csv(io.BytesIO(text), sep="\t")) == each.sizes["features"]
