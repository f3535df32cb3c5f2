"""Parquet and Feather: files whatever they are called, folders of parts, columns of every type."""

import re
import shlex
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from refusals import assert_refused

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError, InputError
from dhsic.joins.text import typed
from dhsic.joins.variables import read_target
from dhsic.sources.opening import open_source

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.feather")

M = 24
RNG = np.random.default_rng(0)
STATUS = np.array(["case", "control"])[RNG.integers(0, 2, M)]
NAMES = [f"s{i}" for i in range(M)]
FRAME = pd.DataFrame(
    {
        "a": RNG.standard_normal(M),
        "b": RNG.standard_normal(M) + 2 * (STATUS == "case"),
        "c": RNG.standard_normal(M),
        "status": STATUS,
    },
    index=pd.Index(NAMES, name="sample"),
)


def ranked(data, target="status", **options):
    found = dhsic.select(data, target, n_features_to_select=1, progress=False, **options)
    return dict(zip(found["feature"].values, found["rank"].values.tolist(), strict=True))


EXPECTED = ranked(FRAME.drop(columns="status"), FRAME["status"].to_numpy())


def run(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    return result.exit_code, result.output


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.parquet", "x.pq", "x.parq", "x.PARQUET", "table", "x.data"])
def test_parquet_is_known_by_its_name_or_content(name, tmp_path):
    FRAME.to_parquet(tmp_path / name)
    assert ranked(tmp_path / name) == EXPECTED
    assert open_source(tmp_path / name, not_features=["status"]).sample_names().tolist() == NAMES
    if name == "table":  # without a suffix
        asked = ("--target", "status", "-n", 1, "--no-progress")
        assert run("select", tmp_path / name, *asked)[0] == 0


@pytest.mark.parametrize("name", ["x.feather", "x.arrow", "table"])
@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
def test_feather_is_read_as_parquet(name, compression, tmp_path):
    path = tmp_path / name
    FRAME.reset_index().to_feather(path, compression=compression, chunksize=7)
    assert ranked(path) == EXPECTED
    source = open_source(path, not_features=["status"])
    assert source.sample_names().tolist() == NAMES
    block = source.blocks(2)[1]
    np.testing.assert_array_equal(source.read(block, np.array([5, 2])), FRAME[["c"]].iloc[[5, 2]])


@pytest.mark.filterwarnings("ignore:Feather V1", "ignore:.*feather.*:FutureWarning")
def test_what_is_no_file_of_columns_is_refused_with_what_makes_one(tmp_path):
    table = pa.Table.from_pandas(FRAME.reset_index())
    with pa.ipc.new_stream(str(tmp_path / "x.arrow"), table.schema) as stream:
        stream.write_table(table)
    pa.feather.write_feather(FRAME.reset_index(), tmp_path / "x.feather", version=1)
    for name, what in (
        ("x.arrow", "an Arrow stream"),
        ("x.feather", "Feather file of version 1"),
    ):
        with pytest.raises(InputError, match=f"{what}.*pyarrow.feather.write_feather") as caught:
            ranked(tmp_path / name)
        remedy = (
            str(caught.value).partition("Write it as a Feather file of version 2: ")[2].rstrip(".")
        )
        exec(remedy.replace("'out.feather'", repr(str(tmp_path / "out.feather"))), {"pyarrow": pa})
        assert ranked(tmp_path / "out.feather") == EXPECTED


def test_columns_of_one_name_are_refused_with_a_command_that_numbers_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = [FRAME["a"].to_numpy(), FRAME["b"].to_numpy(), FRAME["status"].to_numpy()]
    twice = pa.table(values, names=["g1", "g1", "status"])
    pa.parquet.write_table(twice, tmp_path / "x.parquet")
    pa.feather.write_feather(twice, tmp_path / "x.feather")
    for name in ("x.parquet", "x.feather"):
        words = ("2 columns named 'g1'", "rename_columns")
        assert_refused(lambda name=name: ranked(tmp_path / name), InputError, words, tmp_path)
        assert run("select", tmp_path / name, "--target", "status")[0] == 2
        with pytest.raises(InputError) as caught:
            ranked(tmp_path / name)
        command, new = re.search(
            r"Rename them: python(.*)[.] Then pass (\S+)[.]", str(caught.value)
        ).groups()
        subprocess.run(["bash", "-c", shlex.quote(sys.executable) + command], check=True)
        assert set(ranked(new)) == {"g1", "g1.1"}
    (tmp_path / "cells").mkdir()
    pa.parquet.write_table(twice, tmp_path / "cells" / "part.0.parquet")
    with pytest.raises(
        InputError, match=r"in each file of this folder, such as .*part\.0\.parquet"
    ):
        ranked(tmp_path / "cells")
    pa.parquet.write_table(twice.rename_columns(["g1", "g2", "status"]), tmp_path / "x.parquet")
    assert set(ranked(tmp_path / "x.parquet")) == {"g1", "g2"}


# -- folders of parts -----------------------------------------------------------------------------


def write_parts(folder, frame, n=12, name="part.{}.parquet"):
    """Parts as Dask writes them: part.10 after part.9."""
    folder.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), n)):
        frame.iloc[rows].to_parquet(folder / name.format(i))


@pytest.mark.parametrize("folder", ["x.parquet", "cells"])
def test_parts_are_one_table_in_their_order(folder, tmp_path):
    path = tmp_path / folder
    write_parts(path, FRAME)
    (path / "_SUCCESS").touch()
    (path / "._SUCCESS.crc").touch()
    (path / "_metadata").write_bytes(b"PAR1")
    assert ranked(path) == EXPECTED
    source = open_source(path, not_features=["status"])
    assert source.sample_names().tolist() == NAMES
    np.testing.assert_array_equal(read_target(path, "status"), STATUS)
    dhsic.convert(path, tmp_path / "out.zarr", not_features=["status"])
    assert ranked(tmp_path / "out.zarr") == EXPECTED


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_dask_wrote_it(tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    dd.from_pandas(FRAME, npartitions=11).to_parquet(tmp_path / "x.parquet")
    assert ranked(tmp_path / "x.parquet") == EXPECTED


def test_parts_of_other_types_have_one_together(tmp_path):
    """A column of whole numbers in one part, lacking all in another, of fractions in a third."""
    folder = tmp_path / "x.parquet"
    folder.mkdir()
    counts = [
        pa.array([1, 2, 3]),
        pa.nulls(3),
        pa.array([0.5, None, 2.5]),
        pa.array([], pa.int64()),
    ]
    for i, values in enumerate(counts):
        extra = pa.array(np.arange(len(values)) + 10.0 * i)
        pa.parquet.write_table(pa.table({"n": values, "x": extra}), folder / f"part-{i:05}.parquet")
    source = open_source(folder)
    expected = [1, 2, 3, np.nan, np.nan, np.nan, 0.5, np.nan, 2.5]
    np.testing.assert_array_equal(source.read(source.blocks(9)[0])[:, 0], expected)


def test_folders_that_are_no_table_are_refused(tmp_path):
    write_parts(tmp_path / "x.parquet", FRAME, 2)
    (tmp_path / "x.parquet/notes.txt").write_text("by hand")
    with pytest.raises(InputError, match=r"files that are not Parquet \(notes.txt\)"):
        ranked(tmp_path / "x.parquet")
    (tmp_path / "empty.parquet").mkdir()
    with pytest.raises(InputError, match="no Parquet files"):
        ranked(tmp_path / "empty.parquet")
    write_parts(tmp_path / "delta.parquet", FRAME, 2)
    (tmp_path / "delta.parquet/_delta_log").mkdir()
    with pytest.raises(InputError, match="a Delta Lake table, so some of its files"):
        ranked(tmp_path / "delta.parquet")
    write_parts(tmp_path / "other.parquet", FRAME, 2)
    FRAME.rename(columns={"a": "z"}).to_parquet(tmp_path / "other.parquet/part.2.parquet")
    with pytest.raises(
        InputError, match=r"only one of them has the columns 'a', 'z'\. Write all parts"
    ):
        ranked(tmp_path / "other.parquet")


@pytest.mark.filterwarnings("default:The folder names")
def test_folders_of_partitions_are_one_table_and_their_columns_no_features(tmp_path):
    FRAME.reset_index().to_parquet(tmp_path / "one.parquet")
    whole = FRAME.reset_index().assign(year=2019 + np.arange(M) % 3)
    whole.to_parquet(tmp_path / "x", partition_cols=["year", "status"])
    assert min(p.name for p in (tmp_path / "x").iterdir()) == "year=2019"
    assert ranked(tmp_path / "x") == ranked(tmp_path / "one.parquet")
    with pytest.warns(
        UserWarning, match=r"define the columns 'year', which are not used as features"
    ):
        assert ranked(tmp_path / "x").keys() == {"a", "b", "c"}
    source = open_source(tmp_path / "x")
    assert source.not_features == ("year", "status")
    order = [FRAME.index.tolist().index(name) for name in source.sample_names()]
    assert source.sample_coords()["status"].tolist() == [STATUS[i] for i in order]
    np.testing.assert_array_equal(
        source.read(source.blocks(3)[0]), FRAME[["a", "b", "c"]].to_numpy()[order]
    )
    code, told = run("test", tmp_path / "x", "--target", "status", "--covariate", "year", "-n", 1)
    assert code == 0, told
    assert "not features: status, year" in told
    dhsic.convert(tmp_path / "x", tmp_path / "out.zarr")
    assert ranked(tmp_path / "out.zarr") == ranked(tmp_path / "one.parquet")
    labels = FRAME.reset_index()[["sample", "status"]].assign(site=["u", "v"] * (M // 2))
    labels.to_parquet(tmp_path / "labels", partition_cols=["status"])
    FRAME.drop(columns="status").to_csv(tmp_path / "x.csv")
    said = ("test", tmp_path / "x.csv", "--labels", tmp_path / "labels", "--target", "status")
    code, told = run(*said, "--covariates", f"{tmp_path / 'labels'}:site")
    assert code == 0, told


def test_a_partition_of_no_value_is_missing_and_signs_are_decoded(tmp_path):
    status = [None, "a b/c", *STATUS[2:]]
    whole = FRAME.reset_index().assign(status=status)
    whole.to_parquet(tmp_path / "x.parquet", partition_cols=["status"])
    source = open_source(tmp_path / "x.parquet")
    held = dict(zip(source.sample_names(), source.sample_coords()["status"], strict=True))
    assert held == {n: s or "" for n, s in zip(FRAME.index, status, strict=True)}


def test_partitions_that_differ_or_lie_beside_files_are_refused_and_a_part_is_read(tmp_path):
    whole = FRAME.reset_index().assign(year=2019 + np.arange(M) % 2)
    whole.to_parquet(tmp_path / "x", partition_cols=["year"])
    FRAME.to_parquet(tmp_path / "x/part.0.parquet")
    with pytest.raises(InputError, match=r"has subfolders .*year=2019.* Pass one of these"):
        ranked(tmp_path / "x")
    whole.drop(columns="year").to_parquet(tmp_path / "y/year=1", partition_cols=["status"])
    whole.drop(columns="year").to_parquet(tmp_path / "y/year=2", partition_cols=["b"])
    with pytest.raises(InputError, match=r"partitioned by different columns"):
        ranked(tmp_path / "y")
    assert set(ranked(tmp_path / "y/year=1")) == {"a", "b", "c"}


# -- types ----------------------------------------------------------------------------------------


def test_decimal_numbers_are_numbers(tmp_path):
    digits = FRAME["b"].round(4)
    exact = [None if i == 3 else Decimal(f"{v:.4f}") for i, v in enumerate(digits)]
    table = pa.table(
        {
            "id": pa.array(NAMES),
            "price": pa.array(exact, pa.decimal128(10, 4)),
            "x": pa.array(FRAME["a"].to_numpy()),
            "status": pa.array(STATUS),
        }
    )
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet", not_features=["status"])
    expected = digits.where(np.arange(M) != 3).to_numpy()
    np.testing.assert_allclose(source.read(source.blocks(4)[0])[:, 0], expected, rtol=1e-15)
    frame = pl.DataFrame(table).drop("id")
    assert ranked(tmp_path / "x.parquet") == ranked(frame) == {"price": 1, "x": 2}
    beside = open_source(tmp_path / "x.parquet", not_features=["status", "price"]).sample_coords()
    np.testing.assert_array_equal(typed(beside["price"]), expected)


def test_decimal_integers_beyond_floats_are_refused(tmp_path):
    wide = pa.array([Decimal(2**60 + i) for i in range(M)], pa.decimal128(38, 0))
    table = pa.table({"id": NAMES, "code": wide, "x": FRAME["a"].to_numpy(), "status": STATUS})
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"'code' .* larger than 2\*\*53"):
        ranked(tmp_path / "x.parquet")


@pytest.mark.parametrize("write", [pa.parquet.write_table, pa.feather.write_feather])
def test_columns_of_nothing_are_missing(write, tmp_path):
    columns = {"id": NAMES, "empty": pa.nulls(M), "x": FRAME["a"].to_numpy()}
    write(pa.table(columns | {"status": STATUS}), tmp_path / "table")
    source = open_source(tmp_path / "table", not_features=["status"])
    values = source.read(source.blocks(4)[0])
    assert np.isnan(values[:, 0]).all()
    np.testing.assert_array_equal(values[:, 1], FRAME["a"])
    assert ranked(tmp_path / "table") == {"x": 1, "empty": 2}
    nothing = pl.DataFrame({"empty": [None] * M, "x": FRAME["a"].to_numpy(), "status": STATUS})
    assert ranked(nothing) == {"x": 1, "empty": 2}


# -- tables of labels -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels.parquet", "labels.feather", "labels"])
def test_labels_in_a_table_of_arrow(name, tmp_path):
    FRAME.drop(columns="status").to_csv(tmp_path / "x.csv")
    labels = FRAME[["status"]].assign(
        age=pd.array(np.where(np.arange(M) == 4, pd.NA, RNG.integers(20, 80, M)), dtype="Int64"),
        batch=pd.Categorical(np.array(["1", "2"])[np.arange(M) % 2]),
    )
    turned = labels.sample(frac=1, random_state=0)
    if name == "labels.feather":
        turned.reset_index().to_feather(tmp_path / name)
    else:
        turned.to_parquet(tmp_path / name)
    turned.to_csv(tmp_path / "labels.csv")
    said = ["select", tmp_path / "x.csv", "--target", "status", "-n", 1, "--no-progress"]
    ranks = []
    for table in (name, "labels.csv"):
        out = tmp_path / f"{table}.tsv"
        more = ["--labels", tmp_path / table, "--covariates", f"{tmp_path / table}:age,batch"]
        code, told = run(*said, *more, "--drop-missing", "--out", out)
        assert code == 0, told
        assert "1 of 24 samples excluded" in told
        ranks.append(pd.read_csv(out, sep="\t")["rank"].tolist())
    assert ranks[0] == ranks[1]
