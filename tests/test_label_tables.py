"""Tables as people write them: with a header and without, of PLINK, of R, and not tidy."""

import gzip

import pytest

from dhsic.errors import InputError
from dhsic.joins.text import read_table


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
    assert assumed == f"no header, columns taken for {', '.join(expected)}"
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
        ("1 1 0\n", "a.fam", "has 3 columns and no header; a .fam file has 6: FID, IID, PAT"),
        ("#IID IID y\na b 1\n", "a.psam", "two columns 'IID'; rename one"),
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
        (TEXT.encode("utf-16"), "it is UTF-16, or no text .a workbook... Save it as text"),
        (TEXT.encode("utf-16-le"), "it is UTF-16, or no text"),
        (gzip.compress(TEXT.encode(), mtime=0)[:25], "Compressed file ended"),
        (b"PK\x03\x04\0\0", "it is UTF-16, or no text"),
        (TEXT.encode("latin-1"), "byte 7 is 0xe9, which is no UTF-8. .*iconv -f LATIN1"),
        (b"# made by me\nIID q r s\na 1 1 1\n", "first line is a comment .'# made by me'"),
        (b"# made by me\nIID\ty\na\t1\n", "first line is a comment"),
        (b"# sample sheet\nIID y\na 1\n", "first line is a comment"),
        (b"#made, today\nIID,y\na,1\n", "first line is a comment .*Remove it"),
        (b"##x\n\nIID,y\na,1\nb,2,3,4\n", "line 5 has 4 fields, and 2 are expected. Mend"),
        (b'IID,y\na,1\n"b,2\nc,3\n', "a quote that is opened in row 2 is not closed"),
    ],
)
def test_what_is_no_table_of_ours_gets_a_sentence(content, sentence, tmp_path):
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(InputError, match=rf"t.txt cannot be read as a table: .*{sentence}"):
        read_table(str(tmp_path / "t.txt"))


def test_headers_with_a_sign_are_no_comments(tmp_path):
    for text in ("#IID\ty\nID1\tx\n", "# IID,y\na,1\n", "#FID IID y\n1 1 2\n"):
        assert "y" in columns_of(tmp_path, text)[0]


def test_packed_tables_are_read(tmp_path):
    for name in ("t.tsv.gz", "t.txt"):
        (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()))
        assert read_table(str(tmp_path / name)).columns["IID"].tolist() == ["S\xe9", "b"]
