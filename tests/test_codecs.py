"""The codecs that are read, each as it is used, and how far each may go."""

import json
import lzma
import os
import warnings
import zlib
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from hostile import BOMBS, PICKLE, zstd_bomb
from numpy.testing import assert_array_equal
from stores import write

from dhsic import BAHSIC, DataError, InputError
from dhsic.errors import MemoryBudgetError
from dhsic.joins.text import read_table
from dhsic.results.files import load
from dhsic.runtime import choose_runtime
from dhsic.selection.run import SelectionRun
from dhsic.sources.chunked import read_array
from dhsic.sources.codecs import CLAIMED, OversizeError, decoded
from dhsic.sources.opening import open_source

VALUES = (np.arange(700).reshape(70, 10) % 120).astype("i4")
FILTERS = {
    "delta": [numcodecs.Delta("i4")],
    "delta, narrower": [numcodecs.Delta("i4", "i2")],
    "astype": [numcodecs.AsType("i2", "i4")],
    "shuffle": [numcodecs.Shuffle(4)],
    "offset": [numcodecs.FixedScaleOffset(0, 1, "i4", "u1")],
    "chain": [numcodecs.Delta("i4"), numcodecs.FixedScaleOffset(-200, 1, "i4", "u2")],
    "checksum": [numcodecs.CRC32()],
    "compressed twice": [numcodecs.Zlib(), numcodecs.CRC32()],
}
COMPRESSORS = {
    "none": None,
    "blosc": numcodecs.Blosc("zstd", 5, numcodecs.Blosc.BITSHUFFLE),
    "blosc, not compressed": numcodecs.Blosc("lz4", 0),
    "zstd": numcodecs.Zstd(1),
    "lz4": numcodecs.LZ4(),
    "zlib": numcodecs.Zlib(),
    "gzip": numcodecs.GZip(),
    "bz2": numcodecs.BZ2(),
    "lzma": numcodecs.LZMA(preset=1),
    "raw lzma": numcodecs.LZMA(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1}]),
}


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_format_2(filters, compressor, tmp_path):
    array = zarr.create_array(
        tmp_path / "x",
        shape=VALUES.shape,
        dtype="i4",
        chunks=(33, 10),
        zarr_format=2,
        filters=FILTERS[filters],
        compressors=COMPRESSORS[compressor],
    )
    array[...] = VALUES
    assert_array_equal(read_array(array), VALUES)
    source = open_source(tmp_path / "x", n_samples=10)
    assert_array_equal(source.read(source.blocks(70)[0]), VALUES.T)


@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("dtype", [bool, "f4", str, "S7", "U3"])
def test_other_types(compressor, dtype, tmp_path):
    values = np.array([["", "a", "0"], ["long" * 9, "ä", "1"]], object)
    values = (values > "1") if dtype is bool else np.ones((2, 3)) if dtype == "f4" else values
    values = np.char.encode(values.astype("U"), "utf-8").astype("S7") if dtype == "S7" else values
    values = values.astype("U3") if dtype == "U3" else values
    filters = {bool: [numcodecs.PackBits()], str: [numcodecs.VLenUTF8()]}.get(dtype)
    array = zarr.create_array(
        tmp_path / "x",
        shape=values.shape,
        dtype=dtype,
        chunks=(1, 3),
        zarr_format=2,
        filters=filters,
        compressors=COMPRESSORS[compressor],
    )
    array[...] = values
    assert_array_equal(read_array(array).astype(values.dtype), values)


def test_format_3(tmp_path):
    """Shards of codecs, and those of numcodecs by their names in format 3."""
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, ZstdCodec

    legacy = pytest.importorskip("zarr.codecs.numcodecs", reason="zarr 3.1.3 has them first")
    BZ2, LZ4, Delta, Zlib = legacy.BZ2, legacy.LZ4, legacy.Delta, legacy.Zlib

    text = np.array([["ä" * i for i in range(10)]] * 70, object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they are in no specification
        chains = {
            "plain": {"compressors": (GzipCodec(), Crc32cCodec())},
            "sharded": {"compressors": (ZstdCodec(), Crc32cCodec()), "shards": (66, 10)},
            "numcodecs": {"filters": (Delta(dtype="<i4"),), "compressors": (Zlib(), BZ2(), LZ4())},
            "shards, compressed": {
                "serializer": ShardingCodec(
                    chunk_shape=(11, 10), codecs=(BytesCodec(), BloscCodec(typesize=4))
                ),
                "compressors": (GzipCodec(),),
            },
        }
        for name, chain in chains.items():
            for values in (VALUES, text) if "filters" not in chain else (VALUES,):
                if values is text and "serializer" in chain:
                    continue
                path = tmp_path / f"{name} {values.dtype}"
                dtype = str if values is text else "i4"
                options = {"shape": values.shape, "dtype": dtype, "chunks": (33, 10)} | chain
                array = zarr.create_array(path, **options)
                array[...] = values
                assert_array_equal(read_array(array).astype(values.dtype), values)


@pytest.mark.parametrize("codec", BOMBS)
def test_a_bomb_is_not_unpacked(codec):
    bomb = BOMBS[codec]()
    with pytest.raises(OversizeError, match="but at most 1,000 are allowed"):
        decoded(codec, {}, 1000, bomb)


def test_frames_that_do_not_say_their_size():
    """As writers of streams leave them: bounded by their blocks, and by all frames together."""
    n = 10 << 17
    assert CLAIMED["zstd"](memoryview(zstd_bomb()[: 6 + 4 * 10] + b"\1\0\0"), n) <= n
    two = numcodecs.Zstd().encode(bytes(900)) + numcodecs.Zstd().encode(bytes(901))
    assert CLAIMED["zstd"](memoryview(two), 5000) == 1801
    skipped = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    assert CLAIMED["zstd"](memoryview(skipped + two), 5000) == 1801
    with pytest.raises(OversizeError):
        decoded("zstd", {}, 1800, two)


@pytest.mark.parametrize("codec", ["blosc", "zstd", "lz4", "zlib"])
@pytest.mark.parametrize("content", [b"", b"\1", b"\x28\xb5\x2f\xfd", b"\0" * 11])
def test_what_ends_early(codec, content):
    with pytest.raises((ValueError, zlib.error)):
        decoded(codec, {}, -1 if codec in CLAIMED else 9, content)


def test_a_chunk_is_named_that_would_make_too_much(tmp_path):
    array = zarr.create_array(
        tmp_path / "x", shape=(8, 9), dtype="i1", zarr_format=2, compressors=numcodecs.Zlib()
    )
    (tmp_path / "x/0.0").write_bytes(zlib.compress(bytes(73)))
    source = open_source(array, n_samples=9)
    with pytest.raises(
        DataError, match=r"Chunk '0.0' of .*x cannot be decoded.*at most 72 are allowed"
    ):
        source.read(source.blocks(8)[0])


def test_text_has_a_budget(tmp_path):
    """A name of 300 MB is not a name; many chunks share what there is for an array."""
    group = zarr.open_group(tmp_path / "x", mode="w")
    array = write(
        group, "name", np.array(["a" * (12 << 20), "b" * (12 << 20)], object), ("n",), chunks=(1,)
    )
    with pytest.raises(DataError, match="it would decode to"):
        read_array(array)


def test_an_array_of_objects_is_refused_whoever_opened_it(tmp_path):
    group = zarr.open_group(tmp_path / "x", mode="w", zarr_format=2)
    write(group, "trait", np.array(["a", "b"], object), ("samples",), compressors=None)
    path = tmp_path / "x/trait"
    content = json.loads((path / ".zarray").read_text())
    content["filters"].append({"id": "pickle"})
    (path / ".zarray").write_text(json.dumps(content))
    (path / "0").write_bytes(PICKLE)
    with pytest.raises(DataError, match="has the codec 'pickle', which dhsic does not decode"):
        read_array(zarr.open_group(tmp_path / "x", mode="r")["trait"])


def test_declared_sizes_are_refused_by_what_there_is(monkeypatch):
    array = zarr.create_array({}, shape=(10, 10**7), dtype="f8", chunks=(10, 10**7))
    monkeypatch.setattr("dhsic.sources.codecs.available_bytes", lambda: 10**9)
    with pytest.raises(MemoryBudgetError, match=r"shape \(10, 10000000\) .*needs 1.6 GB.*1.0 GB"):
        open_source(array, n_samples=10)
    with pytest.raises(MemoryBudgetError, match="Reading all of it needs"):
        read_array(array)


@pytest.mark.parametrize("what", ["codec", "pipe", "bomb"])
def test_a_result_comes_through_the_same_door(what, tmp_path):
    group = zarr.open_group(tmp_path / "r", mode="w", attributes={"dhsic_format": 1})
    rank = write(group, "rank", np.arange(5), ("features",), compressors=zarr.codecs.GzipCodec())
    assert load(tmp_path / "r")["rank"].to_numpy().tolist() == [0, 1, 2, 3, 4]
    chunk = tmp_path / "r/rank/c/0"
    assert rank.shape == (5,)
    if what == "bomb":
        chunk.write_bytes(BOMBS["gzip"]())
    elif what == "pipe":
        chunk.unlink()
        os.mkfifo(chunk)
    else:
        meta = tmp_path / "r/rank/zarr.json"
        meta.write_text(meta.read_text().replace('"gzip"', '"numcodecs.pickle"'))
    with pytest.raises(
        DataError, match=r"are allowed|is a pipe|cannot be read|its ranks are missing"
    ):
        load(tmp_path / "r")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda p: p.symlink_to("/dev/zero")])
def test_a_table_is_a_file(make, tmp_path):
    make(tmp_path / "labels.tsv")
    with pytest.raises(InputError, match="is not a regular file"):
        read_table(str(tmp_path / "labels.tsv"))


def test_a_chunk_larger_than_its_matrix_is_promised(tmp_path):
    """Zarr decodes it whole, whatever of it lies beyond the matrix."""
    promises = []
    for chunk in (10, 2000):
        array = zarr.create_array(
            tmp_path / str(chunk), shape=(10, 10), dtype="f8", chunks=(chunk, chunk)
        )
        source = open_source(array, sample_dim=1)
        run = SelectionRun(BAHSIC(), source, np.empty(0), choose_runtime("threads", n_threads=2))
        promises.append(run.selector.memory_estimate(run)[0].tasks)
    assert promises[1] - promises[0] > 2 * 1.9 * 2000 * 2000 * 8  # two threads, twice each
