"""Which column names the samples: the rule, case by case, on random ids, and on real files."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhsic.errors import InputError
from dhsic.joins.table import Table
from dhsic.joins.text import read_table


def by_name(columns, names, wanted=(), **options):
    text = {name: np.array(values, dtype=object) for name, values in columns.items()}
    ours = None if names is None else np.array(names, dtype=object)
    m = len(next(iter(text.values()))) if names is None else len(names)
    return Table("t", text).by_name(ours, m, wanted=wanted, **options)


COUNT = [str(i) for i in range(1, 7)]
TURNED = [COUNT[i] for i in (3, 1, 5, 0, 2, 4)]
WORDS = list("fbdace")


@pytest.mark.parametrize(
    ("columns", "names", "told"),
    [
        ({"IID": TURNED}, COUNT, "('IID'), in another order"),
        ({"any": WORDS, "y": COUNT}, sorted(WORDS), "('any'), in another order"),
        ({"FID": TURNED, "IID": TURNED}, COUNT, "('IID'), in another order"),
        ({"FID": ["0"] * 6, "IID": TURNED}, COUNT, "('IID'), in another order"),
        ({"FID": list("112233"), "IID": TURNED}, COUNT, "('IID'), in another order"),
        ({"FID": TURNED, "IID": WORDS}, COUNT, "('FID'), in another order"),
        ({"FID": list("112233"), "IID": list("121212")}, ["1_1", "1_2", "2_1", "2_2", "3_1", "3_2"],
         "('FID' and 'IID' as FID_IID), in the same order"),
        ({"IID": COUNT}, [f"{i}_{i}" for i in TURNED], "('IID' written twice), in another order"),
        ({"id": [f"{i}_{i}" for i in TURNED]}, COUNT, "('id' without its repetition), in another"),
        ({"": COUNT, "y": WORDS}, COUNT, "rows matched by sample name, in the same order"),
        ({"": COUNT, "IID": WORDS}, sorted(WORDS), "('IID'), in another order"),
        ({"": COUNT, "IID": TURNED}, COUNT, "('IID'), in another order"),
        ({"PAT": COUNT, "IID": TURNED}, COUNT, "('IID'), in another order"),
        ({"IID": [1.0, 3.0, 2.0]}, ["1", "2", "3"], "('IID'), in another order"),
        ({"IID": [" a", "b "]}, ["a", "b"], "('IID'), in the same order"),
        ({"age": COUNT[:3] * 2, "IID": TURNED}, COUNT, "('IID'), in another order"),
        ({"code": ["71", "5", "900"]}, ["5", "71", "900"], "('code'), in another order"),
    ],
)  # fmt: skip
def test_the_column_that_names_all_samples_is_the_key(columns, names, told):
    joined = by_name(columns, names)
    assert told in joined.note
    key = columns[joined.key[-1]]
    assert [str(key[i]).split("_")[-1].strip().removesuffix(".0") for i in joined.rows] == [
        name.split("_")[-1] for name in names
    ]


@pytest.mark.parametrize(
    ("columns", "names", "sentence"),
    [
        ({"FID": COUNT, "IID": TURNED}, COUNT, "'IID' and 'FID' of t name .* 6 of 6.* 6.* 5 of"),
        ({"FID": COUNT, "IID": [*TURNED[:5], "x"]}, COUNT, "'IID' and 'FID' .* 5 of 6, the sec"),
        ({"id": WORDS, "twin": WORDS[::-1]}, WORDS, "'id' and 'twin' of t name samples"),
        ({"rank": TURNED}, COUNT, "'rank' of t holds whole numbers, .* not called like ids"),
        ({"": COUNT}, TURNED, "without a name of t holds whole numbers"),
        ({"IID": [*COUNT[:5], "5"]}, COUNT, "'IID' of t lacks|'IID' of t names 1 samples more"),
        ({"IID": COUNT[:5]}, COUNT, "'IID' of t lacks 1 of the 6 samples of the data: 6. It names"),
        ({"IID": WORDS}, COUNT, r"'IID' of t looks like names \(f, b.* none of them is .*1, 2"),
        ({"age": list("112233")}, COUNT, "No column of t names the samples of the data"),
        ({"IID": COUNT}, ["1", "1", "2"], "data name 1 samples more than once"),
        ({"FID": list("345"), "IID": list("123")}, ["1_1", "2_2", "3_3"], "looks like names"),
        ({"IID": COUNT}, None, "'IID': 1, 2, 3.* and the data have no sample names"),
        ({"word": WORDS}, None, "'word': f, b, d.* and the data have no sample names"),
        ({"": TURNED}, None, "without a name: 4, 2.* and the data have no sample names"),
    ],
)
def test_what_fits_in_no_way_or_in_two_is_refused(columns, names, sentence):
    with pytest.raises(InputError, match=sentence):
        by_name(columns, names)


@pytest.mark.parametrize(
    "columns", [{"age": COUNT}, {"": COUNT, "y": ["0"] * 6}, {"y": list("abbaab")}]
)
def test_nameless_rows_of_nameless_data_go_by_position(columns):
    joined = by_name(columns, None)
    assert joined.rows.tolist() == list(range(6))
    assert "by position, for neither the table nor the data name samples" in joined.note


def test_samples_are_left_out_where_the_key_is_sure():
    few = {"IID": TURNED[:4], "age": COUNT[:4]}
    joined = by_name(few, COUNT, drop_missing=True)
    assert joined.rows.tolist() == [3, 1, -1, 0, -1, 2]
    assert joined.take(np.array(list("wxyz"), dtype=object)).tolist() == [
        "z",
        "x",
        "",
        "w",
        "",
        "y",
    ]
    assert joined.note.endswith("in another order; 2 samples of the data are not there")
    with pytest.raises(InputError, match=r"'IID' and 'FID' of t .* the first names 4 of 6"):
        by_name({"FID": COUNT[:4], "IID": TURNED[:4]}, COUNT, drop_missing=True)
    strangers = {"IID": ["1", *(f"x{i}" for i in range(9))]}
    with pytest.raises(InputError, match="Those that it names are few"):
        by_name(strangers, COUNT, drop_missing=True)
    assert by_name(strangers, COUNT, drop_missing=True, said="IID").rows.tolist() == [0, *[-1] * 5]


def test_a_first_row_that_is_taken_for_names_is_seen():
    columns = {"a": np.array(["b", "c"]), "case": np.array(["control", "case"])}
    with pytest.raises(InputError, match="first row of t names a sample of the data"):
        by_name(columns, ["a", "b", "c"], drop_missing=True)


def test_a_column_that_is_wanted_is_no_key():
    assert by_name({"y": COUNT, "IID": TURNED}, COUNT, ("y",)).key == ("IID",)
    with pytest.raises(InputError, match="No column of t names"):
        by_name({"y": COUNT, "x": ["0.5"] * 6}, COUNT, ("y",))
    said = by_name({"FID": list("112233"), "IID": list("121212")}, ["1_1"], said="FID_IID")
    assert said.rows.tolist() == [0]


NAMED = st.lists(st.integers(0, 9).map(str), min_size=2, max_size=8, unique=True)


@given(st.data(), NAMED, st.booleans())
def test_no_other_column_moves_a_row(data, names, drop_missing):
    """Whatever stands beside IID, rows are where IID says, or the table is refused."""
    some = st.sampled_from([*names, "10", "11", "x"])
    rows = data.draw(st.permutations(names))[: data.draw(st.integers(1, len(names)))]
    rows = [*rows, *data.draw(st.lists(st.sampled_from(["20", "21", "z"]), unique=True))]
    rows = data.draw(st.permutations(rows))
    beside = {}
    for name in ("FID", "age", "rank", "", "PAT", "word"):
        if data.draw(st.booleans(), label=name):
            beside[name] = data.draw(st.lists(some, min_size=len(rows), max_size=len(rows)))
    if data.draw(st.booleans(), label="count"):
        beside["index"] = [str(i) for i in range(len(rows))]
    columns = dict(data.draw(st.permutations([*beside.items(), ("IID", rows)])))
    try:
        joined = by_name(columns, names, drop_missing=drop_missing)
    except InputError:
        return
    expected = [rows.index(name) if name in rows else -1 for name in names]
    assert joined.rows.tolist() == expected
    assert drop_missing or -1 not in expected


# Data of others.

SHARED = Path(__file__).parents[2] / "shared" / "data" / "genotypes"


@given(st.data(), st.booleans())
def test_families_tell_samples_of_one_name_apart(data, drop_missing):
    pairs = st.tuples(st.sampled_from("123"), st.sampled_from("123"))
    people = data.draw(st.lists(pairs, min_size=2, max_size=8, unique=True))
    names = [f"{family}_{sample}" for family, sample in people]
    others = data.draw(st.lists(pairs, max_size=4, unique=True))
    rows = data.draw(st.permutations(sorted({*people, *others})))
    rows = rows[: data.draw(st.integers(1, len(rows)))]
    columns = {"FID": [row[0] for row in rows], "IID": [row[1] for row in rows]}
    try:
        joined = by_name(columns, names, drop_missing=drop_missing)
    except InputError:
        return
    expected = [rows.index(person) if person in rows else -1 for person in people]
    assert joined.rows.tolist() == expected
    assert drop_missing or -1 not in expected


@pytest.mark.parametrize("order", ["same", "another"])
@pytest.mark.parametrize("names", ["IID", "FID_IID"])
@pytest.mark.parametrize(
    ("file", "column"),
    [
        ("regenie_phenotype_bin.txt", "Y1"),
        ("regenie_covariates.txt", "V3"),
        ("regenie_example.fam", "PHENO"),
        ("mouse_hs1940.pheno", "test0"),
    ],
)
def test_tables_that_are_about(file, column, names, order):
    path = SHARED / file
    if not path.is_file():
        pytest.skip(f"{file} is not there")
    rows = [line.split() for line in path.read_text().splitlines()]
    rows = rows if file.endswith(".fam") else rows[1:]
    at = {"Y1": 2, "V3": 4, "PHENO": 5, "test0": 1}[column]
    is_mouse = file.startswith("mouse")
    iid = [row[0] if is_mouse else row[1] for row in rows]
    fid = iid if is_mouse else [row[0] for row in rows]
    ours = iid if names == "IID" else [f"{f}_{i}" for f, i in zip(fid, iid, strict=True)]
    at_random = np.random.default_rng(0).permutation(len(ours))
    shown = np.arange(len(ours)) if order == "same" else at_random

    table = read_table(str(path))
    joined = table.by_name(np.array(ours, dtype=object)[shown], len(ours), wanted=(column,))
    assert joined.take(table.column(column)).tolist() == [rows[i][at] for i in shown]
    assert f"in {'the same' if order == 'same' else 'another'} order" in joined.note
