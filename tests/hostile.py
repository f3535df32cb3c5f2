"""Stores made to hurt, and the process that reads them."""

import bz2
import gzip
import importlib
import json
import lzma
import multiprocessing
import os
import pickle
import pkgutil
import resource
import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import zarr
from stores import write

M, D = 12, 30
BOMB = 1 << 28  # what bombs unpack to, or more
ROOM = 2 << 30  # address space that the reader has besides its own
ASK = ("--target", "trait", "-n", "2", "--threads", "1", "--no-progress")


class Touch:
    """Unpickled, it makes the file `canary` in the folder of the process."""

    def __reduce__(self):
        return Path.touch, (Path("canary"),)


PICKLE = pickle.dumps(Touch())


def store(zarr_format=2, path="x", **options):
    """A matrix of variants, their names, those of the samples and a trait; no compression."""
    rng = np.random.default_rng(5)
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    plain = {"compressors": None} | options
    calls = rng.integers(0, 3, (D, M)).astype("i1")
    write(group, "call_dosage", calls, ("variants", "samples"), **plain)
    write(group, "variant_position", np.arange(D, dtype="i4"), ("variants",), **plain)
    write(group, "variant_contig", np.zeros(D, "i1"), ("variants",), **plain)
    for name, n, dim in (("contig_id", 1, "contigs"), ("variant_id", D, "variants")):
        write(group, name, np.array([f"{dim}{i}" for i in range(n)], object), (dim,), **plain)
    samples = np.array([f"s{i}" for i in range(M)], object)
    write(group, "sample_id", samples, ("samples",), **plain)
    write(group, "trait", rng.standard_normal(M), ("samples",), **plain)


def meta(name, change, file=None):
    """Change the metadata of an array (None: the root) by a function of its JSON, or by items."""
    folder = Path("x", name or "")
    path = folder / (file or next(f for f in (".zarray", "zarr.json") if (folder / f).exists()))
    content = json.loads(path.read_text())
    content = change(content) or content
    path.write_text(json.dumps(content))


def items(**new):
    return lambda content: content.update(new)


def chunk_of(name):
    """The first chunk of an array."""
    files = sorted(p for p in Path("x", name).rglob("*") if p.is_file())
    return next(p for p in files if p.name not in (".zarray", ".zattrs", "zarr.json"))


def chunk(name, content):
    chunk_of(name).write_bytes(content)


def instead(path, make):
    """Put something else in the place of a file."""
    path = Path(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)


def link(to):
    return lambda path: path.symlink_to(to)


def sparse(path, size=1 << 36):
    with path.open("wb") as file:
        file.truncate(size)


# -- bombs --------------------------------------------------------------------------------------

PART = bytes(1 << 23)


def many(pack):
    """Streams after each other, each of 8 MiB of zeros."""
    return pack(PART) * (BOMB // len(PART))


def zlib_bomb():
    packer = zlib.compressobj(1)
    return b"".join(packer.compress(PART) for _ in range(BOMB // len(PART))) + packer.flush()


def zstd_bomb(size=None):
    """One frame of blocks of 128 KiB of zeros, which need not say its size."""
    flags, said = (0x00, b"") if size is None else (0xC0, struct.pack("<Q", size))
    head = struct.pack("<I", 0xFD2FB528) + bytes([flags, 0x38]) + said
    block, n = (1 << 17) << 3 | 1 << 1, BOMB >> 17
    return (
        head + (block.to_bytes(3, "little") + b"\0") * n + (block | 1).to_bytes(3, "little") + b"\0"
    )


def blosc_bomb():
    from numcodecs import Blosc

    packed = bytearray(Blosc("zstd").encode(bytes(1 << 16)))
    packed[4:8] = struct.pack("<I", 2**31 - 1000)
    return bytes(packed)


def lz4_bomb():
    return struct.pack("<I", 2**31 - 1000) + b"\x1f\0\1\0" + b"\xff" * (1 << 20)


BOMBS = {
    "blosc": blosc_bomb,
    "zstd": zstd_bomb,
    "lz4": lz4_bomb,
    "zlib": zlib_bomb,
    "gzip": lambda: many(gzip.compress),
    "bz2": lambda: many(bz2.compress),
    "lzma": lambda: many(lzma.compress),
}


def zipped(name="x.zip", compression=zipfile.ZIP_STORED, replace=()):
    """The store as a zip file, with other contents of some files."""
    replace = dict(replace)
    with zipfile.ZipFile(name, "w") as archive:
        for path in sorted(Path("x").rglob("*")):
            if path.is_file():
                key = str(path.relative_to("x"))
                content = replace.get(key)
                how = zipfile.ZIP_STORED if content is None else compression
                archive.writestr(key, content or path.read_bytes(), how)
    shutil.rmtree("x")


def shortened(name, key, size):
    """Have a zip file say that one of its files is shorter."""
    content = bytearray(Path(name).read_bytes())
    at = content.rindex(key.encode()) - 46
    content[at + 24 : at + 28] = struct.pack("<I", size)
    Path(name).write_bytes(content)


# -- the process --------------------------------------------------------------------------------


def _status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def _serve(pipe):
    from click.testing import CliRunner

    import dhsic
    from dhsic.cli import main
    from dhsic.memory import release_pages

    os.environ.update(OMP_NUM_THREADS="1")
    os.chdir("/")
    for module in pkgutil.walk_packages(dhsic.__path__, "dhsic."):  # not the first command's memory
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    dhsic.BAHSIC(1).fit(np.eye(6, 4), np.arange(6) % 2)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + ROOM,) * 2)
    while (asked := pipe.recv()) is not None:
        folder, words = asked
        os.chdir(folder)
        release_pages()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _status("VmRSS")
        if words[0] == "load":
            try:
                dhsic.load(words[1])
                code, told = 0, ""
            except dhsic.errors.DhsicError as error:
                code, told = 3, str(error)
        else:
            result = CliRunner().invoke(main, list(words), prog_name="dhsic")
            code, told = result.exit_code, result.output
        pipe.send((code, told, _status("VmHWM") - before))
        os.chdir("/")


class Reader:
    """A process of little memory that runs commands one after another."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()

    def run(self, folder, *words):
        """Exit code of a command, all it said, and by how much its memory grew at most."""
        self.pipe.send((str(folder), words))
        if not self.pipe.poll(120):
            self.process.kill()
            raise AssertionError(f"{words} hangs")
        return self.pipe.recv()

    def close(self):
        self.process.kill()
        self.process.join()


def is_pipe(path):
    return stat.S_ISFIFO(Path(path).stat().st_mode)
