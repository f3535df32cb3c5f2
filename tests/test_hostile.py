"""Stores that somebody made to hurt: none runs code, hangs, or takes memory that was not promised.

Each row makes a store in an empty folder and names what the refusal has to say. A process of little
memory reads it by command.
"""

import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hostile import (
    ASK,
    BOMB,
    BOMBS,
    PICKLE,
    Reader,
    chunk,
    chunk_of,
    instead,
    items,
    link,
    meta,
    shortened,
    sparse,
    store,
    zipped,
    zstd_bomb,
)
from stores import write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")

GROWTH = 192 << 20  # bytes: less than any bomb
VLEN, GROUP = {"id": "vlen-utf8"}, "zarr.json"


@pytest.fixture(scope="module")
def reader():
    process = Reader()
    yield process
    process.close()


def made(*steps, zarr_format=2):
    """A store, changed step by step."""

    def make():
        store(zarr_format)
        for step in steps:
            step()

    return make


def pickled(name, **new):
    """An array whose chunks are pickles, of which the metadata say how they decode."""
    return made(lambda: meta(name, items(**new)), lambda: chunk(name, PICKLE))


def codecs(name, *added, at=None):
    """Codecs of format 3 after, or before, those that are there."""

    def change(content):
        content["codecs"] = [*content["codecs"], *added] if at is None else [*added]

    return lambda: meta(name, change)


def bomb(codec, name="call_dosage"):
    return made(
        lambda: meta(name, items(compressor={"id": codec})), lambda: chunk(name, BOMBS[codec]())
    )


def bomb_3(codec, content):
    added = {"name": codec, "configuration": {"level": 1} if codec == "gzip" else {}}
    if codec == "zstd":
        added["configuration"] = {"level": 1, "checksum": False}
    return made(
        codecs("call_dosage", added), lambda: chunk("call_dosage", content()), zarr_format=3
    )


def declared(name, **new):
    return made(lambda: meta(name, items(**new)))


def file(path, make):
    return made(lambda: instead(path, make))


def chunk_is(name, make):
    return made(lambda: instead(chunk_of(name), make))


def pickle_in_shards():
    inner = {"name": "numcodecs.pickle", "configuration": {}}
    shards = {
        "chunk_shape": [1, 12],
        "codecs": [{"name": "bytes"}, inner],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    codecs("call_dosage", {"name": "sharding_indexed", "configuration": shards}, at=0)()


def consolidated(change):
    """Consolidated metadata that say other things of an array than its own file."""

    def make():
        zarr.consolidate_metadata("x", zarr_format=2)
        meta(None, change, ".zmetadata")

    return make


def elsewhere(content):
    """Metadata of an array outside of the store."""
    known = content["metadata"]
    known["../secret/.zarray"] = known["trait/.zarray"]


def nested(path, depth=200_000):
    return lambda: Path(path).write_text('{"a":' * depth + "1" + "}" * depth)


def zip_of(compression, content, size=None):
    def make():
        key = str(chunk_of("call_dosage").relative_to("x"))
        zipped("x.zip", compression, {key: content}.items())
        if size is not None:
            shortened("x.zip", key, size)

    return made(make)


def anndata():
    """Names of samples that are said to be in another folder."""
    group = zarr.open_group("x", mode="w", zarr_format=2, attributes={"encoding-type": "anndata"})
    write(group, "X", np.ones((12, 6), "f4"), None)
    write(group, "trait", np.arange(12.0), None)
    for name in ("obs", "var"):
        group.create_group(name, attributes={"_index": "../../../secret"})


PICKLES = {
    name: pickled(name, filters=[VLEN, {"id": "pickle"}], compressor=None)
    for name in ("sample_id", "variant_id", "contig_id")
} | {
    "compressor": pickled("variant_id", compressor={"id": "pickle"}),
    "matrix": pickled("call_dosage", filters=[{"id": "pickle"}]),
    "matrix, compressor": pickled("call_dosage", compressor={"id": "pickle"}),
    "target": pickled("trait", compressor={"id": "pickle"}),
    "target of objects": pickled("trait", dtype="|O", fill_value=None, filters=[{"id": "pickle"}]),
    "target of text": pickled("trait", dtype="|O", fill_value="", filters=[VLEN, {"id": "pickle"}]),
    "positions": pickled("variant_position", compressor={"id": "pickle"}),
    "within another": pickled("trait", filters=[{"id": "pickle"}], compressor={"id": "gzip"}),
    "format 3": made(codecs("call_dosage", {"name": "numcodecs.pickle"}), zarr_format=3),
    "shards": made(pickle_in_shards, zarr_format=3),
    "own file, consolidated otherwise": made(
        lambda: zarr.consolidate_metadata("x", zarr_format=2),
        lambda: meta("trait", items(compressor={"id": "pickle"})),
        lambda: meta("sample_id", items(compressor={"id": "pickle"})),
        lambda: meta("call_dosage", items(compressor={"id": "pickle"})),
        lambda: chunk("call_dosage", PICKLE),
    ),
    "consolidated, own file otherwise": made(
        consolidated(
            lambda content: content["metadata"]["trait/.zarray"].update(compressor={"id": "pickle"})
        ),
        lambda: chunk("trait", PICKLE),
    ),
}
OTHERS = {
    "json": declared("sample_id", filters=[{"id": "json2"}]),
    "msgpack": declared("sample_id", filters=[{"id": "msgpack2"}]),
    "unknown": declared("call_dosage", compressor={"id": "nonesuch"}),
    "unknown in format 3": made(codecs("trait", {"name": "nonesuch"}), zarr_format=3),
    "numbers of other sizes": declared(
        "call_dosage", filters=[{"id": "delta", "dtype": "<f8", "astype": "|i1"}]
    ),
    "objects in numbers": declared(
        "call_dosage", filters=[{"id": "astype", "encode_dtype": "|i1", "decode_dtype": "|O"}]
    ),
}
SIZES = {codec: bomb(codec) for codec in BOMBS} | {
    "names in gzip": bomb("gzip", "variant_id"),
    "names in zstd": bomb("zstd", "sample_id"),
    "target in bz2": bomb("bz2", "trait"),
    "gzip, format 3": bomb_3("gzip", BOMBS["gzip"]),
    "zstd, format 3": bomb_3("zstd", BOMBS["zstd"]),
    "zstd that says a size": bomb_3("zstd", lambda: zstd_bomb(BOMB)),
    "blosc that ends early": made(
        lambda: meta("trait", items(compressor={"id": "blosc"})), lambda: chunk("trait", b"\2\1")
    ),
    "gzip in gzip": made(
        lambda: meta("trait", items(filters=[{"id": "gzip"}], compressor={"id": "gzip"})),
        lambda: chunk("trait", BOMBS["gzip"]()),
    ),
    "a count of names": made(lambda: chunk("sample_id", b"\xff\xff\xff\x7f" + bytes(40))),
    "long name": chunk_is("variant_id", lambda path: sparse(path, BOMB)),
    "long chunk": chunk_is("call_dosage", sparse),
    "long metadata": file("x/trait/.zarray", lambda path: sparse(path, BOMB)),
    "chunk of the matrix": declared("call_dosage", chunks=[10**6, 10**6]),
    "chunks of the matrix": declared("call_dosage", shape=[10**13, 12], chunks=[1, 12]),
    "matrix": declared("call_dosage", shape=[10**13, 12], chunks=[10**6, 12]),
    "names": declared("variant_id", shape=[10**12]),
    "chunk of names": declared("sample_id", chunks=[10**10]),
    "target": declared("trait", shape=[10**12]),
    "chunks of the target": declared("trait", shape=[10**9], chunks=[1]),
    "chunk of the target": declared("trait", chunks=[10**9]),
    "width of the target": declared("trait", dtype="|S2000000000", fill_value=None),
    "nested metadata": made(nested("x/trait/.zarray")),
    "nested root": made(nested("x/.zgroup")),
    "digits": made(lambda: Path("x/trait/.zarray").write_text('{"shape": [' + "9" * 9999 + "]}")),
    "negative": declared("call_dosage", shape=[-5, 12]),
    "no chunks": declared("call_dosage", chunks=[0, 0]),
    "shape of words": declared("trait", shape="many"),
    "zip, deflated": zip_of(zipfile.ZIP_DEFLATED, bytes(BOMB)),
    "zip that says less": zip_of(zipfile.ZIP_DEFLATED, bytes(BOMB), 360),
    "zip, bzip2": zip_of(zipfile.ZIP_BZIP2, bytes(BOMB)),
}
FILES = {
    "pipe for a chunk": chunk_is("call_dosage", os.mkfifo),
    "pipe for names": chunk_is("sample_id", os.mkfifo),
    "pipe for .zarray": file("x/call_dosage/.zarray", os.mkfifo),
    "pipe for .zattrs": file("x/trait/.zattrs", os.mkfifo),
    "pipe for .zgroup": file("x/.zgroup", os.mkfifo),
    "pipe for zarr.json": file("x/zarr.json", os.mkfifo),
    "pipe for .zmetadata": file("x/.zmetadata", os.mkfifo),
    "pipe for the store": lambda: os.mkfifo("x"),
    "pipe for the zip file": lambda: os.mkfifo("x.zip"),
    "endless chunk": chunk_is("call_dosage", link("/dev/zero")),
    "endless names": chunk_is("variant_id", link("/dev/random")),
    "endless metadata": file("x/.zgroup", link("/dev/zero")),
    "loop for a chunk": chunk_is("call_dosage", link("0.0")),
    "loop for metadata": file("x/trait/.zarray", link(".zarray")),
    "loop for the store": lambda: Path("x").symlink_to("x"),
    "folder for a chunk": chunk_is("call_dosage", Path.mkdir),
    "folder for names": chunk_is("sample_id", Path.mkdir),
    "folder for metadata": file("x/trait/.zarray", Path.mkdir),
    "link to nothing": chunk_is("sample_id", link("/nowhere")),
}
PATHS = {
    "index elsewhere": anndata,
    "dimension elsewhere": made(
        lambda: meta("call_dosage", items(_ARRAY_DIMENSIONS=["../../secret", "samples"]), ".zattrs")
    ),
    "metadata elsewhere": made(consolidated(elsewhere)),
}
CASES = {
    f"{kind}: {what}": make
    for kind, cases in (
        *(("pickle", PICKLES), ("codec", OTHERS), ("size", SIZES), ("file", FILES)),
        ("path", PATHS),
    )
    for what, make in cases.items()
}
#: What is no harm: the store is read, and nothing beyond it.
READ = {"path: index elsewhere", "path: dimension elsewhere", "path: metadata elsewhere"}


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_run_and_nothing_hangs(case, reader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    secret = zarr.create_array("secret", shape=(12,), dtype="i4", zarr_format=2)
    secret[...] = 777_777
    CASES[case]()
    path = next(p for p in ("x.zip", "x") if os.path.lexists(p))
    for command, *more in (("select", *ASK), ("inspect",)):
        code, told, growth = reader.run(tmp_path, command, path, *more)
        assert not (tmp_path / "canary").exists(), "a pickle was read"
        assert growth < GROWTH, f"memory grew by {growth:,}: {told}"
        assert "777777" not in told.replace(",", "")
        assert code in (0, 2, 3, 5), told
        if command == "select" and case not in READ:
            assert "Error: " in told
