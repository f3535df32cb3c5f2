"""Matrices in files: tables of text, Parquet, NumPy's; tidy and as people have them."""

import gzip

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from stores import changed, draw_matrix
from suites.source import Case, SourceSuite

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, InputError, MemoryBudgetError
from dhsic.sources import tables
from dhsic.sources.opening import open_source

NAMES = [f"g{i}" for i in range(23)]


def framed(X):
    index = pd.Index([f"s{i}" for i in range(len(X))], name="sample")
    return pd.DataFrame(np.where(X == -1, np.nan, X), index=index, columns=NAMES)


def csv(X, path):
    framed(X).to_csv(path)


def tsv(X, path):
    framed(X).reset_index().to_csv(path, sep="\t", index=False, na_rep="NA")


def turned(X, path):
    framed(X).T.to_csv(path, index_label="gene")


def parquet(X, path):
    framed(X).to_parquet(path, row_group_size=4)


def parquet_turned(X, path):
    framed(X).T.to_parquet(path)


def npy(X, path):
    np.save(path, X)


def npy_fortran(X, path):
    np.save(path, np.asfortranarray(X.astype(X.dtype.newbyteorder(">"))))


def npy_turned(X, path):
    np.save(path, X.T.copy())


def npz(X, path):
    np.savez_compressed(path, X=X, y=np.arange(len(X)))


WAYS = {
    csv: (".csv", {}),
    tsv: (".tsv.gz", {}),
    turned: (".csv.gz", {"sample_dim": 1}),
    parquet: (".parquet", {}),
    parquet_turned: (".parquet", {"sample_dim": 1}),
    npy: (".npy", {"missing_code": -1}),
    npy_fortran: (".npy", {"missing_code": -1}),
    npy_turned: (".NPY", {"missing_code": -1, "sample_dim": 1}),
    npz: (".npz", {"missing_code": -1}),
}


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def way(request, tmp_path):
    """Write a matrix in one of the ways, and say how it is opened."""
    suffix, options = WAYS[request.param]

    def written(X, name="a"):
        path = tmp_path / f"{name}{suffix}"
        with path.open("wb") as file:
            file.close()
            if suffix == ".NPY":
                with path.open("wb") as open_file:
                    request.param(X, open_file)
            else:
                request.param(X, path)
        return path, options

    return written


class TestFiles(SourceSuite):
    @pytest.fixture
    def case(self, way):
        X = draw_matrix(dtype="i1")

        def opened(X, name):
            path, options = way(X, name)
            return open_source(path, **options)

        path, options = way(X)
        expected = np.where(X == -1, np.nan, X.astype(float))
        again = lambda: open_source(path, **options)  # noqa: E731
        return Case(again(), expected, again, lambda: opened(changed(X), "b"))


def test_a_ranking_is_that_of_the_matrix(way, rng):
    X = rng.normal(size=(30, 23))
    y = X[:, 4] * 1.0 + X[:, 9]
    path, options = way(X)
    asked = {"n_features_to_select": 3, "progress": False}
    meant = dhsic.select(X, y, **asked)
    found = dhsic.select(str(path), y, **asked, **options)
    for name in ("rank", "score"):
        np.testing.assert_array_equal(found[name].to_numpy(), meant[name].to_numpy())


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=9))
def test_numbers_of_text_are_those_that_were_written(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("t") / "a.tsv"
    rows = [f"s{i}\t{x!r}\t{-x!r}" for i, x in enumerate(numbers)]
    path.write_text("\n".join(["id\ta\tb", *rows]))
    source = open_source(path)
    read = source.read(source.blocks(9)[0])
    assert read.tobytes("C") == np.array([[x, -x] for x in numbers]).tobytes()


TEXT = "patient,disease,g1,g2,age\np1,case,1.5,2,40\np2,control,,3,51\np3,case,-1e-3,NA,62\n"


@pytest.mark.parametrize("way", ["text", "BOM", "CRLF", "packed", "quoted", "blanks", "parquet"])
def test_labels_out_of_the_same_table(tmp_path, way):
    path, content = tmp_path / "t.csv", TEXT.encode()
    if way == "BOM":
        content = b"\xef\xbb\xbf" + content
    elif way == "CRLF":
        content = content.replace(b"\n", b"\r\n") + b"\r\n"
    elif way == "packed":
        content = gzip.compress(content)
    elif way == "quoted":
        content = b'"patient", "disease", g1,g2,age\n"p1","case",1.5," 2 ",40\n'
        content += TEXT.partition("40\n")[2].encode()
    elif way == "blanks":
        path, content = tmp_path / "t.txt", TEXT.replace(",,", ",NA,").replace(",", "  ").encode()
    path.write_bytes(content)
    if way == "parquet":
        path = tmp_path / "t.parquet"
        pd.read_csv(tmp_path / "t.csv").to_parquet(path)
    source = open_source(path, not_features=("disease", "age"))
    assert source.feature_names().tolist() == ["g1", "g2"]
    assert source.sample_names().tolist() == ["p1", "p2", "p3"]
    values = source.read(source.blocks(2)[0])
    np.testing.assert_array_equal(values, [[1.5, 2], [np.nan, 3], [-1e-3, np.nan]])
    assert source.sample_coords()["disease"].tolist() == ["case", "control", "case"]
    assert dhsic.read_target(source, "age").tolist() == [40, 51, 62]


def test_rows_as_features(tmp_path):
    (tmp_path / "t.csv").write_text("gene,what,s1,s2,s3\ndisease,,a,b,a\ng1,x,1,2,3\ng2,y,4,NA,6\n")
    source = open_source(tmp_path / "t.csv", sample_dim=1, not_features=("what", "disease"))
    assert source.sample_names().tolist() == ["s1", "s2", "s3"]
    assert source.feature_names().tolist() == ["g1", "g2"]
    assert source.sample_coords()["disease"].tolist() == ["a", "b", "a"]
    assert dhsic.read_target(source, "disease").tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("text", "names", "features"),
    [
        ("FID IID PAT MAT rs1 rs2\n1 a 0 0 0 1\n1 b 0 0 2 1\n", ["a", "b"], ["rs1", "rs2"]),
        ("FID IID rs1\n1 a 0\n2 a 2\n", ["1_a", "2_a"], ["rs1"]),
        ("sample ID1 ID2\na 0 1\nb 2 1\n", ["a", "b"], ["ID1", "ID2"]),
        ("x1 x2\n0.5 1\n2.5 1\n", None, ["x1", "x2"]),
        ("a 1 2\nb 3 4\n", ["a", "b"], None),
        ("rs1 rs2\na 0 1\nb 2 1\n", ["a", "b"], ["rs1", "rs2"]),
        ("##made by me\n#sample rs1\n7 1\n8 2\n9 3\n", ["7", "8", "9"], ["rs1"]),
        (";g1;g2\n0;1.5;\n1;2.5;NaN\n", ["0", "1"], ["g1", "g2"]),
    ],
)
def test_the_first_column_names_the_samples(tmp_path, text, names, features):
    (tmp_path / "t.txt").write_text(text)
    source = open_source(tmp_path / "t.txt")
    for found, expected in ((source.sample_names(), names), (source.feature_names(), features)):
        assert expected is None if found is None else found.tolist() == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,a,a\ns,1,2\n", "two columns are named 'a'"),
        ("id,a,b\ns,1\n", "line 2 has 2 fields instead of 3. Write NA"),
        ("id,a,b\ns,1,2\nt,1,2,3\n", "line 3 has 4 fields"),
        ("id,a,b\ns,1,2\nt,1,high\n", "'high' in line 3, column 'b', .* not_features=\\['b'\\]"),
        ("id;a;b\ns;1,5;2,5\n", "text .'1,5'|Write decimal points, not commas"),
        ("id\ta\ns\t1\nt\t1,5\n", "'1,5' in line 3.*Write decimal points"),
        ("no,a\n4,1\n2,2\n9,3\n", "contains whole numbers that all differ .4, 2, 9., like names"),
        ("id,a\n", "has no rows"),
        ("", "it is empty"),
    ],
)
def test_untidy_tables_get_a_sentence(tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises((InputError, DataError), match=words):
        dhsic.select(tmp_path / "t.csv", np.arange(3.0))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,sex,a\ns,F,1\n", r"contains text \(column 'sex': 'F'\).* not_features="),
        ("class,a\nx,1\ny,2\nx,3\n", "would be used as sample names, but some of them"),
        ("id,name\na,b\n", "only the columns 'id', 'name'|contains text"),
    ],
)
def test_text_is_refused_where_there_are_no_categories(tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises((InputError, DataError), match=words):
        open_source(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("t.csv", {"not_features": ("agee",)}, "has no column 'agee'.* Did you mean 'age'"),
        ("t.csv", {"variable": "x"}, "contains a single matrix"),
        ("t.csv", {"sample_dim": "genes"}, "Pass one of its dimensions, or 0 or 1"),
        ("t.csv", {"not_features": ("disease",), "n_samples": 4}, "3 samples, but there are 4"),
        ("absent.csv", {}, "The table .* does not exist"),
        ("absent.npy", {}, "The array .* does not exist"),
        ("absent.npz", {}, "The array .* does not exist"),
        ("absent.parquet", {}, "The table .* does not exist"),
        ("t.npz", {}, "has 2 variables with two dimensions.*X .3, 2., Z .3, 2."),
        ("t.npz", {"variable": "y"}, "has shape .3,., but a matrix has two axes"),
        ("sparse.npz", {}, "scipy.sparse.load_npz"),
        ("cut.npy", {}, "is incomplete"),
        ("objects.npy", {}, "object"),
        ("t.parquet", {}, "not numeric .'disease': large_string|not numeric .'disease': string"),
    ],
)
def test_what_does_not_open_gets_a_sentence(tmp_path, monkeypatch, path, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TEXT)
    X = np.ones((3, 2))
    np.savez("t.npz", X=X, Z=X, y=np.ones(3))
    np.savez("sparse.npz", data=X, indices=X, indptr=X, shape=X, format=X)
    np.save("whole.npy", X)
    np.save("objects.npy", np.array([["a", 1]], dtype=object), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-8])
    pd.read_csv("t.csv").to_parquet("t.parquet")
    with pytest.raises((InputError, DataError), match=words):
        open_source(path, **options)


def test_infinity_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("id,a\ns,1e999\nt,1\nu,2\nv,3\n")
    with pytest.raises(DataError, match="Feature 0 of sample 0 is inf"):
        dhsic.select(tmp_path / "t.csv", np.arange(4.0), n_features_to_select=1)


def test_a_table_that_does_not_fit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "available_bytes", lambda: 500)
    (tmp_path / "t.csv").write_text(TEXT)
    with pytest.raises(MemoryBudgetError, match=r"only 500 B .*dhsic convert"):
        open_source(tmp_path / "t.csv", not_features=("disease",))


def test_the_command_line_takes_a_table(tmp_path, rng):
    X = rng.normal(size=(30, 23))
    frame = framed(X)
    frame["disease"] = np.where(X[:, 3] > 0, "case", "control")
    frame["site"] = "Rome"
    frame.to_csv(tmp_path / "t.csv")
    frame.T.to_csv(tmp_path / "g.csv", index_label="gene")
    frame[["disease"]].iloc[::-1].to_csv(tmp_path / "y.csv")
    frame.assign(disease=1.0 * (X[:, 3] > 0)).to_csv(tmp_path / "n.csv")

    def told(*words, code=0):
        done = CliRunner().invoke(main, ["select", *words, "-n", "1"])
        assert done.exit_code == code, done.output
        return done.output

    apart, table = ("--target", "disease", "--not-feature", "site"), str(tmp_path / "t.csv")
    said = told(table, *apart)
    assert "not features: site, disease" in said
    assert "g3" in said.splitlines()[-1] or " g3 " in said
    assert " g3 " in told(str(tmp_path / "g.csv"), *apart, "--transpose")
    labels = ("--labels", str(tmp_path / "y.csv"))
    leaking = str(tmp_path / "n.csv")
    assert "--not-feature disease" in told(leaking, *labels, *apart, code=2)
    said = told(table, *labels, *apart, "--not-feature", "disease")
    assert "in another order" in said
