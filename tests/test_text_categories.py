"""Text that is a category, and text that is not: genotypes, amounts, dates, times and missing."""

import ast
import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal

import dhsic
from dhsic.cli import main
from dhsic.detached.folder import arrays_of, plain_request, request_of
from dhsic.errors import InputError
from dhsic.selection.request import Request
from dhsic.selectors import BAHSIC

M = 60
Y = np.where(np.arange(M) % 5 < 2, "case", "control")
#: Options of `dhsic.open_source` that the functions pass.
HOW = {"sample_dim": None, "variable": None, "missing_code": "auto", "pass_only": False}
#: Values of a column that is no category, repeated over the samples, and a part of the message.
REFUSED = {
    "genotypes": (["AA", "AG", "GG"], "Genotypes of letters"),
    "alleles with a stroke": (["A/A", "A/G", "--"], "Genotypes of letters"),
    "genotypes, missing NN": (["AA", "AG", "NN"], "Genotypes of letters"),
    "genotypes, missing 00": (["AA", "AG", "00"], "Genotypes of letters"),
    "genotypes and a word": (["AA", "AG", "GG", "Undetermined"], "'Undetermined' means a missing"),
    "genotypes with a blank": (["A A", "A G", "G G", "0 0"], "Genotypes of letters"),
    "IUPAC codes": (["A", "R", "G", "N"], "Genotypes of IUPAC codes"),
    "genotypes in words, failed": (["wt", "het", "hom", "fail"], "usually means a missing value"),
    "calls of more alleles": (["0/0", "0/1", "5/5"], "number"),
    "decimal commas": (["0,5", "1,5", "2,7"], "ecimal"),
    "thousands": (["1,370", "2,415", "950"], "thousands"),
    "one unit": (["5 mg", "7 mg", "12 mg"], "number"),
    "units": (["5 mg", "7 g", "12 mg"], "amounts|means numbers"),
    "currency": (["$5.10", "$7.20", "$6"], "number"),
    "percent": (["5%", "7%", "12%"], "number"),
    "limits": (["<0.1", "0.7", "1.2", "2.3"], "limit"),
    "a limit among words": (["<0.1", "low", "high"], "amounts|means numbers"),
    "parentheses": (["(0.75)", "(1.5)"], "amounts|means numbers"),
    "dates": (["2020-01-05", "2020-02-05", "2020-03-05"], "dates"),
    "months": (["Mar 2020", "Apr 2020", "May 2020"], "dates"),
    "times": (["1:30", "25:50", "2:10"], "times"),
    "times of most": (["1:30", "25:50", "2:10", "did not finish"], "times"),
    "durations": (["17 months", "2 years", "3 months"], "amounts|means numbers"),
    "pairs": (["120/80", "130/85", "110/70"], "amounts|means numbers"),
    "ranges": (["18-29", "30-39", "40+"], "ranges"),
    "text among numbers": (["1.5", "2.25", "3.75", "4", "oops"], "contains text in 12 of 60"),
    "numbers among text": (["low", "high", "7"], "must be|are not numbers"),
    "check boxes": (["yes", None], "number"),
    "names": ([f"P{i}" for i in range(M)], "like names or free text"),
    "names, repeated": ([f"P{i // 2}" for i in range(M)], "like names or free text"),
    "unknown": (["red", "blue", "Unknown"], "usually means a missing value"),
    "unknown beside one": (["red", "unknown"], "usually means a missing value"),
    "question marks": (["red", "blue", "?"], "usually means a missing value"),
    "not determined": (["red", "blue", "n.d."], "usually means a missing value"),
    "dashes": (["red", "blue", "-"], "usually means a missing value"),
    "case": (["Yes", "yes", "YES", "no"], "differ only in upper and lower case"),
    "case alone": (["male", "Male "], "differ only in upper and lower case"),
    "blanks": (["not  sure", "not sure", "sure"], "differ only in upper and lower case"),
    "letters that look the same": (["case", "\u0441ase", "other"], "look the same"),
}


def frame(values):
    """A frame with one number, and a column x with these values."""
    x = pd.Series([values[i % len(values)] for i in range(M)], dtype=object)
    return pd.DataFrame({"age": np.random.default_rng(0).normal(size=M).round(3), "x": x})


def ran(*words, code=0):
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize("kind", REFUSED)
def test_text_that_is_no_category_is_refused_in_frames_and_files(tmp_path, kind):
    values, sentence = REFUSED[kind]
    table = frame(values)
    with pytest.raises(InputError, match="(?s)" + sentence.replace("(", r"\(")):
        dhsic.select(table, Y)
    with pytest.raises(InputError):
        dhsic.test_features(table.astype({"x": "string"}), Y)
    table.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    for command in ("select", "test", "plan"):
        said = ran(command, tmp_path / "t.csv", "--target", "y", code=2)
        assert any(word in said for word in ("--not-feature", "--na", "rite", "Spell"))


@pytest.mark.parametrize("kind", [kind for kind, (of, _) in REFUSED.items() if len(of) < 10])
def test_columns_that_are_named_are_categories(tmp_path, kind):
    values = REFUSED[kind][0]
    table = frame(values)
    if "case" in kind or kind in ("blanks", "letters that look the same"):
        with pytest.raises(InputError, match=r"give them names|other names"):
            dhsic.test_features(table, Y, categories=["x"])
        return
    tests = dhsic.test_features(table, Y, categories=["x"])
    n = len({value for value in values if value is not None})
    assert tests.kinds.tolist() == ["number", f"categories ({n})"]
    if kind != "check boxes":
        table.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
        words = "--target", "y", "--category", "x", "--json"
        told = ran("test", tmp_path / "t.csv", *words)
        every = json.loads(told[told.index("{") : told.rindex("}") + 1])["selected"]
        p = {feature["name"]: feature["p"] for feature in every}
        np.testing.assert_allclose([p["age"], p["x"]], tests.p_values, rtol=1e-9)


@pytest.mark.parametrize("missing", ["NA", "n/a", "NaN", "null", ""])
def test_words_for_missing_are_missing(tmp_path, missing):
    table = frame(["red", "blue", "green", missing])
    none = table.assign(x=table["x"].mask(table["x"] == missing))
    expected = dhsic.test_features(none, Y)
    assert expected.kinds[1] == "categories (3)"
    assert_array_equal(dhsic.test_features(table, Y).p_values, expected.p_values)
    result = dhsic.select(table, Y, n_features_to_select=1, progress=False)
    assert result["n_missing"].to_numpy().tolist() == [0, M // 4]
    table.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    of_file = dhsic.test_features(tmp_path / "t.csv", "y")
    assert_array_equal(of_file.p_values, expected.p_values)


def test_the_remedies_for_words_are_followed(tmp_path):
    table = frame(["red", "blue", "green", "unknown"])
    none = table.assign(x=table["x"].mask(table["x"] == "unknown"))
    expected = dhsic.test_features(none, Y).p_values
    with pytest.raises(InputError) as told:
        dhsic.test_features(table, Y)
    X, sentence = table.copy(), str(told.value)
    exec(sentence.partition("missing, write ")[2].partition(". If")[0], {"X": X})
    assert_array_equal(dhsic.test_features(X, Y).p_values, expected)
    table.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"pass na=\['x=unknown'\]"):
        dhsic.test_features(tmp_path / "t.csv", "y")
    of_file = dhsic.test_features(tmp_path / "t.csv", "y", na=["x=unknown"])
    assert_array_equal(of_file.p_values, expected)
    said = ran("test", tmp_path / "t.csv", "--target", "y", code=2)
    assert "pass --na x=unknown. If it is the name of a category, pass --category x." in said
    ran("select", tmp_path / "t.csv", "--target", "y", "--na", "x=unknown", "--no-progress")


def test_none_as_a_level_is_told():
    with pytest.warns(UserWarning, match="'none' .20. in column 'x' is used as a name"):
        dhsic.test_features(frame(["none", "some", "many"]), Y)


@pytest.mark.parametrize("words", [("no", "yes"), ("F", "M"), ("control", "treated"), ("-", "+")])
def test_two_levels_are_0_and_1(words):
    zeros = np.arange(M) % 3 == 0
    table = frame(["a"]).assign(x=np.where(zeros, *sorted(words)))
    levels = dhsic.open_source(table, categories=[]).levels[1]
    numbers = table.assign(x=(table["x"] == levels[1]).astype(float))
    one, other = (dhsic.test_features(X, Y) for X in (table, numbers))
    assert_array_equal(one.p_values, other.p_values)
    options = {"n_features_to_select": 1, "progress": False}
    one, other = (dhsic.select(X, Y, **options) for X in (table, numbers))
    for name in ("rank", "score", "p_marginal"):
        assert_array_equal(one[name], other[name])


def test_booleans_with_missing_values_are_0_and_1():
    table = frame([True, False, None])
    numbers = table.assign(x=table["x"].astype(float))
    one, other = (dhsic.test_features(X, Y) for X in (table, numbers))
    assert_array_equal(one.p_values, other.p_values)


def test_whole_numbers_as_text_are_numbers_or_refused(tmp_path):
    table = frame([1, 2, 3]).astype({"x": int})
    expected = dhsic.test_features(table, Y)
    table.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    assert_array_equal(dhsic.test_features(tmp_path / "t.csv", "y").p_values, expected.p_values)
    for dtype in (str, "string", object):
        text = table.assign(x=table["x"].astype(str).astype(dtype))
        with pytest.raises(InputError, match="Convert text that contains numbers"):
            dhsic.test_features(text, Y)


def test_text_of_every_type_is_the_same_category():
    polars = pytest.importorskip("polars")
    values = ["low", None, "high", "mid"]
    table = frame(values)
    expected = dhsic.test_features(table, Y)
    assert expected.kinds[1] == "categories (3)"
    for dtype in ("string", "category"):
        tests = dhsic.test_features(table.astype({"x": dtype}), Y)
        assert_array_equal(tests.p_values, expected.p_values)
    of_polars = polars.DataFrame({"age": table["age"].to_numpy(), "x": table["x"].tolist()})
    for dtype in (polars.String, polars.Categorical):
        tests = dhsic.test_features(of_polars.with_columns(polars.col("x").cast(dtype)), Y)
        assert_array_equal(tests.p_values, expected.p_values)
    order = ["low", "mid", "high"]
    positions = table.assign(x=table["x"].map({name: k for k, name in enumerate(order)}))
    ordered = dhsic.test_features(positions, Y)
    enum = of_polars.with_columns(polars.col("x").cast(polars.Enum(order)))
    of_pandas = table.assign(x=pd.Categorical(table["x"], order, ordered=True))
    for data in (enum, of_pandas):
        tests = dhsic.test_features(data, Y)
        assert tests.kinds[1] == "ordered (3 levels)"
        assert_array_equal(tests.p_values, ordered.p_values)


def test_calls_in_a_file_are_dosages_beside_categories(tmp_path):
    table = frame(["red", "blue", "green"]).assign(rs=["0/0", "0/1", "1/1", "./."] * (M // 4))
    table.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    source = dhsic.open_source(tmp_path / "t.csv", not_features=["y"], categories=[])
    assert [*source.levels] == [1]
    (block,) = source.blocks(3)
    assert_array_equal(source.read(block)[:4, 2], [0.0, 1.0, 2.0, np.nan])


def test_several_files_have_no_categories(tmp_path):
    table = frame(["red", "blue", "green"])
    table[["age"]].to_csv(tmp_path / "a.csv", index_label="id")
    table[["x"]].to_csv(tmp_path / "b.csv", index_label="id")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(InputError, match="must be numbers"):
        dhsic.select(files, Y)
    with pytest.raises(InputError, match="Leave it out"):
        dhsic.select(files, Y, categories=["x"])


def test_a_stored_request_has_the_categories(tmp_path):
    table = frame([3, 1, 2]).assign(y=Y)
    table.to_csv(tmp_path / "t.csv", index=False)
    request = Request.of(BAHSIC(1), str(tmp_path / "t.csv"), "y", categories=["x"], **HOW)
    stored = json.loads(json.dumps(plain_request(request)))
    levels = request_of(stored, arrays_of(request)).opened().levels
    assert levels == request.opened().levels == {1: ("1", "2", "3")}


# Advice -----------------------------------------------------------------------------------


def remedies_of(function, *words, **options):
    """Values that the message of a refusal gives to parameters, by name."""
    with pytest.raises(InputError) as told:
        function(*words, **options)
    given = re.findall(r"(\w+)=(\[[^\]]*\]|'[^']*')", str(told.value))
    return {name: ast.literal_eval(value) for name, value in given}


def test_columns_of_amounts_are_named_or_left_out_as_the_message_says():
    table = frame(["18-29", "30-39", "40+"])
    advised = remedies_of(dhsic.test_features, table, Y)
    assert advised == {"categories": ["x"], "not_features": ["x"]}
    for name, value in advised.items():
        assert dhsic.test_features(table, Y, **{name: value}).names[0] == "age"


def test_names_are_left_out_as_the_message_says():
    table = frame([f"P{i}" for i in range(M)])
    advised = remedies_of(dhsic.select, table, Y)
    assert advised == {"not_features": ["x"]}
    result = dhsic.select(table, Y, n_features_to_select=1, progress=False, **advised)
    assert result["feature"].to_numpy().tolist() == ["age"]


def test_categories_are_columns_of_a_table():
    table = frame(["red", "blue", "green"])
    with pytest.raises(InputError, match=r"'age', 'x'\. Leave it out"):
        dhsic.test_features(table, Y, categories=["colour"])
    with pytest.raises(InputError, match=r"neither\. Leave it out, or read the data into a DataF"):
        dhsic.test_features(table[["age"]].to_numpy(), Y, categories=["age"])
    assert len(dhsic.test_features(table, Y).p_values) == 2


def test_open_sources_with_categories_exclude_them_for_pairs():
    table = frame(["red", "blue", "green"]).assign(bmi=np.arange(M) % 7)
    source = dhsic.open_source(table, categories=[])
    advised = remedies_of(dhsic.find_pairs, source, Y)
    assert advised == {"not_features": ["x"]}
    pairs = dhsic.find_pairs(table, Y, **advised)
    assert [*pairs["first_feature"].values, *pairs["second_feature"].values] == ["age", "bmi"]


def test_methods_without_categories_name_those_with_them():
    table = frame(["red", "blue", "green"])
    options = {"n_features_to_select": 1, "progress": False}
    advised = remedies_of(dhsic.select, table, Y, method="ccm", **options)
    assert advised == {"not_features": ["x"], "criterion": "hsic"}
    dhsic.select(table, Y, method="hsic", **options)
    dhsic.select(table, Y, method="ccm", not_features=["x"], **options)


def test_tests_of_some_columns_are_filtered_as_the_message_says():
    table = frame(["red", "blue", "green"])
    advised = remedies_of(dhsic.test_features, table, Y, ["x"])
    assert advised == {"not_features": ["x"]}
    tests = dhsic.test_features(table, Y, filters=dhsic.Filters(extract=["x"]))
    np.testing.assert_allclose(tests.p_values, dhsic.test_features(table, Y).p_values[1:])
    assert dhsic.test_features(table, Y, ["age"], **advised).names.tolist() == ["age"]


def test_labels_of_many_classes_need_data_without_categories():
    table = pd.concat([frame(["red", "blue", "green"])] * 3, ignore_index=True)
    y = np.array([f"class {i % 70}" for i in range(len(table))])
    with pytest.raises(InputError, match="not_features="):
        dhsic.test_features(table, y)
    dhsic.test_features(table, y, not_features=["x"])
    few = np.array([f"class {i % 7}" for i in range(len(table))])
    assert dhsic.test_features(table, few).kinds[1] == "categories (3)"
