"""Decompression of gzip, bzip2, xz and Zstandard files, which are recognised by first bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from io import BufferedReader
from typing import IO, Any

from dhsic.errors import InputError

#: Suffixes of compressed files.
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
#: Errors of compressed data that are truncated or damaged.
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError)


def decompressed(raw: IO[bytes], path: str) -> IO[bytes]:
    """Return the bytes of a binary file as a stream from its start, decompressed if necessary.

    Raises
    ------
    InputError
        The file is compressed with Zstandard, and no package that reads Zstandard is installed.
    """
    first = raw.read(max(map(len, _OPENERS)))
    raw.seek(0)
    opener = next((of for magic, of in _OPENERS.items() if first.startswith(magic)), None)
    return raw if opener is None else opener(raw, path)


def _zstandard(raw: IO[bytes], path: str) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found]  # of Python 3.14
    except ImportError:
        pass
    else:
        return zstd.open(raw)
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(
            f"{path} is compressed with Zstandard, which needs Python 3.14 or the package "
            f"pyarrow. Install dhsic[parquet], or decompress the file: zstd -d {path}."
        ) from error
    stream: Any = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return BufferedReader(stream)


#: First bytes of compressed files, and functions that open them.
_OPENERS: dict[bytes, Callable[[IO[bytes], str], Any]] = {
    b"\x1f\x8b": lambda raw, _: gzip.GzipFile(fileobj=raw),
    b"BZh": lambda raw, _: bz2.BZ2File(raw),
    b"\xfd7zXZ\0": lambda raw, _: lzma.LZMAFile(raw),  # noqa: SIM115  # the caller closes it
    b"\x28\xb5\x2f\xfd": _zstandard,
}
