"""Tables of labels as people write them, and which column names the samples.

They come with a header and without, of PLINK and of R; the rule is tried case by case, on random
ids, and on real files.
"""

import bz2
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhsic.errors import InputError
from dhsic.joins.table import Table
from dhsic.joins.text import read_table
from dhsic.sources.delimited import Delimited


def columns_of(tmp_path, text, name="table.txt"):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8-sig" if name.startswith("bom") else "utf-8"))
    table = read_table(str(path))
    return {key: values.tolist() for key, values in table.columns.items()}, table.assumed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "F1 S1 0.5\nF2 S2 1\n",
            {"FID": ["F1", "F2"], "IID": ["S1", "S2"], "PHENO1": ["0.5", "1"]},
        ),
        (
            "1 1 0.5 NA\n2 2 1 3\n",
            {"FID": "12", "IID": "12", "PHENO1": ["0.5", "1"], "PHENO2": ["NA", "3"]},
        ),
        ("S1 0.5\nS2 1\n", {"IID": ["S1", "S2"], "PHENO1": ["0.5", "1"]}),
        ("S1 0.5 1\nS2 1 2\n", {"IID": ["S1", "S2"], "PHENO1": ["0.5", "1"], "PHENO2": "12"}),
        ("0.5\t1.5\n1.0\t2.5\n", {"PHENO1": ["0.5", "1.0"], "PHENO2": ["1.5", "2.5"]}),
        ("F1,S1,-9\nF2,S2,1\n", {"FID": ["F1", "F2"], "IID": ["S1", "S2"], "PHENO1": ["-9", "1"]}),
    ],
)
def test_a_table_without_a_header_keeps_its_first_row(text, expected, tmp_path):
    columns, assumed = columns_of(tmp_path, text)
    assert list(columns) == list(expected)
    assert assumed == f"no header, columns assumed to be {', '.join(expected)}"
    for name, values in expected.items():
        assert columns[name] == list(values)


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("IID 0 1\na 1 2\nb 3 4\n", ["IID", "0", "1"], "a"),
        (",0,1\na,1,2\nb,3,4\n", ["", "0", "1"], "a"),
        ("trait age\n1 2\n3 4\n", ["trait", "age"], "1"),
        ("trait age\na 1 2\nb 3 4\n", ["", "trait", "age"], "a"),
        ('"FID","IID","y"\n"1","2","3"\n', ["FID", "IID", "y"], "1"),
        ("IID\ty\na\t1\t\nb\t2\t\n", ["IID", "y"], "a"),
        ("trait\tage\na\t1\t\nb\t2\t\n", ["", "trait", "age"], "a"),
        ("  FID  IID  y\n    1    1  3\n", ["FID", "IID", "y"], "1"),
        ("IID, y\na, 1\nb, 2\n,\n", ["IID", "y"], "a"),
        ("##version\n#IID\ty\r\na\t1\r\n\r\nb\t2\r\n", ["IID", "y"], "a"),
    ],
)
def test_headers_are_known(text, names, first, tmp_path):
    for name in ("table.txt", "bom.txt"):
        columns, assumed = columns_of(tmp_path, text, name)
        assert (list(columns), assumed) == (names, "")
        assert columns[names[0]][0] == first
        assert "" not in columns[names[-2]]


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("1 1 0 0 2\n", "a.fam", None),
        ("1 1 0\n", "a.fam", "has no header and 3 columns, but a .fam file has 6: FID, IID, PAT"),
        ("#IID IID y\na b 1\n", "a.psam", "same name: 'IID'. Rename them"),
    ],
)
def test_files_of_plink_that_are_none(text, name, sentence, tmp_path):
    if sentence is None:
        assert list(columns_of(tmp_path, text, name)[0]) == ["FID", "IID", "PAT", "MAT", "SEX"]
        return
    with pytest.raises(InputError, match=sentence):
        columns_of(tmp_path, text, name)


TEXT = "IID\ty\nS\xe9\t1\nb\t2\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            TEXT.encode("utf-16"),
            "it is UTF-16, or not a text file .perhaps a workbook.. Save it as text",
        ),
        (TEXT.encode("utf-16-le"), "it is UTF-16, or not a text file"),
        (gzip.compress(TEXT.encode(), mtime=0)[:25], "Compressed file ended"),
        (b"PK\x03\x04\0\0", "it is UTF-16, or not a text file"),
        (
            TEXT.encode("latin-1"),
            "the byte 0xe9 after .*S. is not valid UTF-8. .*iconv -f LATIN1",
        ),
        (b"##x\n\nIID,y\na,1\nb,2,3,4\n", "line 5 has 4 fields instead of 2. Correct"),
        (b'IID,y\na,1\n"b,2\nc,3\n', "a quote opened in line 3 is never closed"),
    ],
)
def test_what_is_no_table_of_ours_gets_a_sentence(content, sentence, tmp_path):
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(InputError, match=rf"t.txt cannot be read as a table: .*{sentence}"):
        read_table(str(tmp_path / "t.txt"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("# made by me\nIID q r s\na 1 1 1\n", ["IID", "q", "r", "s"]),
        ("# made by me\nIID\ty\na\t1\n", ["IID", "y"]),
        ("# sample sheet\nIID y\na 1\n", ["IID", "y"]),
        ("#made, today\nIID,y\na,1\n", ["IID", "y"]),
        ("#made, today\ncity,y\nOslo,1\nRome,2\n", ["city", "y"]),
        ("# v1\n# by me\n#FID IID y\n1 1 2\n", ["FID", "IID", "y"]),
        ("# a, b, c\n##x\n\nIID;y\na;1,5\nb;2,5\n", ["IID", "y"]),
        ("sep=;\nIID;y\na;1\n", ["IID", "y"]),
        ('"sep=|"\r\nIID|y\r\na|1\r\n', ["IID", "y"]),
    ],
)
def test_lines_above_the_header_are_passed_over(text, names, tmp_path):
    columns, assumed = columns_of(tmp_path, text)
    assert (list(columns), assumed) == (names, "")
    assert columns[names[0]][0] in ("a", "Oslo", "1")


@pytest.mark.parametrize(
    ("text", "separator", "names"),
    [
        ("id;Glucose, fasting;y\na;1;2\nb;2;3\n", ";", ["id", "Glucose, fasting", "y"]),
        ("id;Glucose, fasting;y\na;1,5;2,5\nb;2,5;3,5\n", ";", ["id", "Glucose, fasting", "y"]),
        ("id,dose\t(mg),y\na,1,2\n", ",", ["id", "dose\t(mg)", "y"]),
        ("id|g1|y\na|1|2\n", "|", ["id", "g1", "y"]),
        ("id,TP53|7157,y\na,1,2\n", ",", ["id", "TP53|7157", "y"]),
        ('id,"a;b;c",y\na,1,2\n', ",", ["id", "a;b;c", "y"]),
        ("id\tsize, mm\ty\na\t1\t2\n", "\t", ["id", "size, mm", "y"]),
        ("id y,z\na 1\nb 2\n", "", ["id", "y,z"]),
        ("id;y\na;1,5\nb;2,5\n", ";", ["id", "y"]),
        ("a;1,5\nb;2,5\n", ";", ["IID", "PHENO1"]),
    ],
)
def test_the_separator_is_the_mark_that_splits_all_lines_alike(text, separator, names, tmp_path):
    (tmp_path / "t.txt").write_text(text)
    assert Delimited(str(tmp_path / "t.txt")).separator == separator
    assert list(read_table(str(tmp_path / "t.txt")).columns) == names


def test_a_title_above_the_header_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("Table 1. Patients of 2019\nid,y,z\na,1,2\nb,2,3\n")
    with pytest.raises(InputError, match=r"is a title .'Table 1. .* Remove them: tail -n [+]2 "):
        read_table(str(tmp_path / "t.csv"))


def test_headers_with_a_sign_are_no_comments(tmp_path):
    for text in ("#IID\ty\nID1\tx\n", "# IID,y\na,1\n", "#FID IID y\n1 1 2\n"):
        assert "y" in columns_of(tmp_path, text)[0]


@pytest.mark.parametrize("way", ["gz", "bz2", "xz", "zst"])
def test_compressed_tables_are_read(way, tmp_path):
    compress = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard}
    content = compress[way](TEXT.encode())
    for name in (f"t.tsv.{way}", "t.txt"):
        (tmp_path / name).write_bytes(content)
        assert read_table(str(tmp_path / name)).columns["IID"].tolist() == ["S\xe9", "b"]
    (tmp_path / "cut.tsv").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"cut.tsv cannot be read as a table: .*is damaged"):
        read_table(str(tmp_path / "cut.tsv"))


def zstandard(content):
    return bytes(pytest.importorskip("pyarrow").compress(content, "zstd", asbytes=True))


def test_accents_are_the_same_composed_or_not():
    composed, apart = "Andr\xe9", "Andre\u0301"
    assert by_name({"id": [apart, "b"]}, ["b", composed]).rows.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("theirs", "ours", "sentence"),
    [
        (["007", "8"], ["7", "08"], "only in leading zeros: for example, '007' is '7' in the data"),
        (["1001.0", "1002.0"], ["1001", "1002"], "'.0', which spreadsheets append .* '1001.0' is"),
        (["Ann", "bob"], ["ann", "BOB"], "upper and lower case: for example, 'Ann' is 'ann'"),
        (["a.1", "a.2"], ["a-1", "a-2"], "punctuation such as .*'a.1' is 'a-1'"),
        (
            ["X7", "X8"],
            ["7", "8"],
            "an 'X' at the front, which R adds to numbers: for example, 'X7' is",
        ),
        (["X7.a", "X8.b"], ["7-a", "8-b"], "which R writes: for example, 'X7.a' is '7-a'"),
        (["a\u200b", "b"], ["a", "b\xa0c"], "invisible characters: for example, 'a.*' is 'a'"),
        (["x/a.sorted.bam", "x/b.sorted.bam"], ["a", "b"], "the folder and the suffix of a file"),
        (["S.01", "S.02"], ["s-1", "s-2"], "several details of spelling: for example, 'S.01' is"),
    ],
)
def test_names_that_look_the_same_are_told_apart_in_words(theirs, ours, sentence):
    with pytest.raises(InputError, match=sentence):
        by_name({"age": ["5", "6"], "id": theirs}, ours)


def test_some_names_that_are_written_in_another_way_are_named():
    theirs = ["a1", "a2", "A3", "A4"]
    with pytest.raises(InputError, match=r"lacks 2 of the 4 .* 2 of these names differ only"):
        by_name({"id": theirs}, ["a1", "a2", "a3", "a4"])


@pytest.mark.parametrize(
    ("columns", "ours", "sentence"),
    [
        (
            {"IID": ["a", "b"]},
            ["f_a", "g_b"],
            r"only in the part before '_', such as a FID: for example, 'a' is 'f_a'",
        ),
        (
            {"id": ["f_a", "g_b"]},
            ["a", "b"],
            r"only in the part before '_', such as a FID: for example, 'f_a' is 'a'",
        ),
        (
            {"FID": ["f", "g"], "IID": ["A", "B"]},
            ["f_a", "g_b"],
            r"case: for example, 'f_A' is 'f_a'",
        ),
        (
            {"barcode": ["AC", "GT"]},
            ["AC-1", "GT-1"],
            r"'AC' is 'AC-1'.* = \[s \+ '-1' for",
        ),
    ],
)
def test_families_on_one_side_are_named(columns, ours, sentence):
    with pytest.raises(InputError, match=sentence):
        by_name(columns, ours)


def test_names_of_people_are_not_called_names_of_families():
    with pytest.raises(
        InputError, match=r"Column 'IID' of t looks like sample names .* none of them is"
    ):
        by_name({"FID": ["f", "g"], "IID": ["x", "y"]}, ["a", "b"])


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
        ({"FID": COUNT, "IID": TURNED}, COUNT, "'IID' and 'FID' of t match .* 6 of 6.* 6.* 5 of"),
        (
            {"FID": COUNT, "IID": [*TURNED[:5], "x"]},
            COUNT,
            "'IID' and 'FID' .* 5 of 6 samples, and the sec",
        ),
        ({"id": WORDS, "twin": WORDS[::-1]}, WORDS, "'id' and 'twin' of t match different rows"),
        ({"rank": TURNED}, COUNT, "'rank' of t contains whole numbers, .* does not suggest ids"),
        ({"": COUNT}, TURNED, "\\(unnamed\\) of t contains whole numbers"),
        (
            {"IID": [*COUNT[:5], "5"]},
            COUNT,
            "'IID' of t lacks|'IID' of t, some sample names",
        ),
        ({"IID": COUNT[:5]}, COUNT, "'IID' of t lacks 1 of the 6 samples of the data: 6\\. Keep"),
        (
            {"IID": WORDS},
            COUNT,
            r"'IID' of t looks like sample names \(f, b.* none of them is .*1, 2",
        ),
        ({"age": list("112233")}, COUNT, "No column of t contains the sample names of the data"),
        ({"IID": COUNT}, ["1", "1", "2"], "Some sample names occur more than once"),
        (
            {"FID": list("345"), "IID": list("123")},
            ["1_1", "2_2", "3_3"],
            "looks like sample names",
        ),
        ({"IID": COUNT}, None, "'IID': 1, 2, 3.* but the data have no sample names"),
        ({"word": WORDS}, None, "'word': f, b, d.* but the data have no sample names"),
        ({"": TURNED}, None, "\\(unnamed\\): 4, 2.* but the data have no sample names"),
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
    assert "by position, because neither the table nor the data have sample names" in joined.note


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
    assert joined.note.endswith("in another order; 2 samples of the data have no row")
    with pytest.raises(InputError, match=r"'IID' and 'FID' of t .* the first matches 4 of 6"):
        by_name({"FID": COUNT[:4], "IID": TURNED[:4]}, COUNT, drop_missing=True)
    strangers = {"IID": ["1", *(f"x{i}" for i in range(9))]}
    with pytest.raises(InputError, match="Only few samples match"):
        by_name(strangers, COUNT, drop_missing=True)
    assert by_name(strangers, COUNT, drop_missing=True, sample_column="IID").rows.tolist() == [
        0,
        *[-1] * 5,
    ]


def test_a_first_row_that_is_taken_for_names_is_seen():
    columns = {"a": np.array(["b", "c"]), "case": np.array(["control", "case"])}
    with pytest.raises(InputError, match="first row of t contains a sample name of the data"):
        by_name(columns, ["a", "b", "c"], drop_missing=True)


def test_a_column_that_is_wanted_is_no_key():
    assert by_name({"y": COUNT, "IID": TURNED}, COUNT, ("y",)).key == ("IID",)
    with pytest.raises(InputError, match="No column of t contains"):
        by_name({"y": COUNT, "x": ["0.5"] * 6}, COUNT, ("y",))
    said = by_name({"FID": list("112233"), "IID": list("121212")}, ["1_1"], sample_column="FID_IID")
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
