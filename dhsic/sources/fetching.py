"""Files at URLs, downloaded once to a folder of this process and read there.

Zarr stores are read at their location. HDF5, Parquet, tables, PLINK, BGEN and VCF files are read by
seeking, or by libraries that need paths. They are therefore downloaded to a temporary folder (in
``TMPDIR``), together with the files that belong to them. The folder is removed when the process
ends. Workers that have access to this folder read from it. Other workers download their own copy,
and refuse a different version.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import pickle
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, mkdtemp
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.memory import human
from dhsic.object_store import absent, folder_of, translate_errors, without_secrets
from dhsic.sources import FINGERPRINT_CHUNKS, AbstractSource
from dhsic.sources.bgen import INDEX_SUFFIX, SAMPLES_SUFFIX
from dhsic.sources.bgen import SUFFIX as BGEN
from dhsic.sources.blocks import Block
from dhsic.sources.plink import SUFFIXES, TABLES, lacking
from dhsic.sources.views import AbstractView

#: Number of bytes per request, and number of requests at a time; each must end in 30 seconds.
PART, AT_ONCE = 16 << 20, 4
#: Minimum size in bytes of downloads that are logged as warnings.
LARGE = 64 << 20

logger = logging.getLogger("dhsic")
_lock = Lock()
#: Copies that this process has downloaded, by process id and URL.
_copies: dict[tuple[int, str], Copy] = {}


@dataclass(frozen=True)
class Copy:
    """Local copy of a file at a URL, and of the files that belong to it, in one folder.

    Attributes
    ----------
    url : str
    path : Path
        Path of the copy; all machines use the same path.
    objects : tuple of (str, Mapping)
        URL of each file, and its version according to the store.
    digest : str
        Digest of the content of the files.
    """

    url: str
    path: Path
    objects: tuple[tuple[str, Mapping[str, str]], ...]
    digest: str
    options: Mapping[str, Any] | None

    def fetch_again(self) -> None:
        """Download the files to the same paths if they do not exist on this machine.

        Raises
        ------
        DataError
            The version at the URL has changed.
        """
        with _lock:
            if all((self.path.parent / _name(url)).is_file() for url, _ in self.objects):
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atexit.register(shutil.rmtree, self.path.parent, ignore_errors=True)
            if _fetched(self.path.parent, self.objects, self.options) != self.digest:
                raise changed(self.url)

    def in_sentence(self, error: Exception) -> str:
        """Return the text of an error, with the URL in place of the local path."""
        folder = without_secrets(self.url).rpartition("/")[0]
        return str(error).replace(str(self.path.parent), folder)


class FetchedSource(AbstractView):
    """Source of a local copy of a URL; another machine that unpickles it downloads its own copy."""

    def __init__(self, base: AbstractSource, copy: Copy) -> None:
        super().__init__(base)
        self._copy = copy

    def __reduce__(self) -> tuple[Any, ...]:
        return _elsewhere, (self._copy, pickle.dumps(self.base))

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        return self.base.read_columns(block, local, rows)

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        return f"{self.base.fingerprint(n_chunks)}-{self._copy.digest}"


def _elsewhere(copy: Copy, base: bytes) -> FetchedSource:
    copy.fetch_again()
    return FetchedSource(pickle.loads(base), copy)  # the source was pickled with the copy


def fetch(url: str, options: Mapping[str, Any] | None = None) -> Copy:
    """Download the file at a URL, unless this process already has its current version.

    Raises
    ------
    InputError
        The file or a file that belongs to it does not exist, or the disk is full.
    StoreError
        The store does not answer, or refuses access.
    DataError
        The file changed while it was downloaded.
    """
    with _lock:
        cached = _copies.get((os.getpid(), url))
        options = cached.options if options is None and cached is not None else options
        objects = tuple(_first_existing(names, options) for names in _parts_of(url))
        objects += tuple(
            found for name in _optional_parts_of(url) if (found := _existing((name,), options))
        )
        if cached is not None and cached.objects == objects and cached.path.is_file():
            return cached
        root = _folder(os.getpid()).name
        n_bytes, free = sum(int(of["size"]) for _, of in objects), shutil.disk_usage(root).free
        shown = without_secrets(url)
        if n_bytes > free:
            raise InputError(
                f"{shown} needs {human(n_bytes)} in the download folder {root}, but only "
                f"{human(free)} are free there. Free some space, or set TMPDIR to a folder on a "
                "larger disk. Or convert it to Zarr at its present location (dhsic convert), "
                "because Zarr is read without a download."
            )
        level = logging.WARNING if n_bytes >= LARGE else logging.INFO
        logger.log(level, "Downloading %s (%s) to %s.", shown, human(n_bytes), root)
        folder = Path(mkdtemp(dir=root))
        digest = _fetched(folder, objects, options)
        copy = Copy(url, folder / _name(url), objects, digest, options)
        _copies[os.getpid(), url] = copy
        return copy


def changed(url: str) -> DataError:
    """Return the error for a file that has changed since it was downloaded."""
    return DataError(
        f"{without_secrets(url)} has changed since it was first read: its version is different. "
        "Restore the first version and resume, or start again."
    )


@cache
def _folder(pid: int) -> TemporaryDirectory[str]:  # noqa: ARG001  # each process has its own
    """Create a temporary folder, once per process, that is removed when the process ends."""
    return TemporaryDirectory(prefix="dhsic-fetched-", ignore_cleanup_errors=True)


def _parts_of(url: str) -> list[tuple[str, ...]]:
    """Return the possible URLs of each file that is needed to read `url`, including `url`."""
    suffix = PurePosixPath(urlsplit(url).path).suffix
    calls = SUFFIXES.get(suffix.lower())
    if calls is None:
        return [(url,)]
    stem = url.removesuffix(suffix)
    kinds = ((calls,), *TABLES[calls])
    return [tuple(url if s == suffix else stem + s for s in suffixes) for suffixes in kinds]


def _optional_parts_of(url: str) -> list[str]:
    """Return the URLs of files that may lie beside a BGEN file: its samples and its index."""
    if not url.lower().endswith(BGEN):
        return []
    return [url[: -len(BGEN)] + SAMPLES_SUFFIX, url + INDEX_SUFFIX]


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _existing(
    urls: tuple[str, ...], options: Mapping[str, Any] | None
) -> tuple[str, dict[str, str]] | None:
    """Return the first of some URLs that exists, and its version; None if none does."""
    for url in urls:
        with translate_errors(url) as obstore:
            try:
                return url, _version(obstore.head(*_place(url, options)))
            except FileNotFoundError:
                continue
    return None


def _first_existing(
    urls: tuple[str, ...], options: Mapping[str, Any] | None
) -> tuple[str, dict[str, str]]:
    """Return the first of some URLs that exists, and its version; InputError if none does."""
    found = _existing(urls, options)
    if found is not None:
        return found
    if len(urls) == 1 and PurePosixPath(urls[0]).suffix not in SUFFIXES:
        raise absent(urls[0])
    raise lacking(tuple(map(without_secrets, urls)))


def _place(url: str, options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """Return the store of an object, and its name in this store."""
    return folder_of(url.rpartition("/")[0], options), _name(url)


def _version(meta: Mapping[str, Any]) -> dict[str, str]:
    version_keys = ("size", "e_tag", "version", "last_modified")
    return {name: str(meta[name]) for name in version_keys if meta.get(name) is not None}


def _fetched(folder: Path, objects: Any, options: Mapping[str, Any] | None) -> str:
    """Download files to a folder, and return the digest of their content."""
    digest = hashlib.sha256()
    for url, version in objects:
        aside = folder / f".{os.getpid()}-{_name(url)}"
        with translate_errors(url) as obstore, aside.open("wb") as file:
            for data in _read(obstore, url, version, options):
                digest.update(data)
                file.write(data)
        aside.replace(folder / _name(url))
    return digest.hexdigest()


def _read(
    obstore: Any, url: str, version: Mapping[str, str], options: Mapping[str, Any] | None
) -> Iterator[Any]:
    """Yield the bytes of an object in parts; DataError if its version has changed."""
    store, name = _place(url, options)
    size = int(version["size"])

    def asked_for(span: tuple[int, int] | None) -> Any:
        response = obstore.get(store, name, options=None if span is None else {"range": span})
        if _version(response.meta) != version:
            raise changed(url)
        return response

    try:
        asked_for((0, 1)).bytes()
    except obstore.exceptions.BaseError:  # some web servers do not support ranges
        yield from asked_for(None).stream(min_chunk_size=PART)
        return
    spans = [(start, min(start + PART, size)) for start in range(0, size, PART)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for first in range(0, len(spans), AT_ONCE):
            pieces = threads.map(
                lambda span: asked_for(span).bytes(), spans[first : first + AT_ONCE]
            )
            yield from pieces
