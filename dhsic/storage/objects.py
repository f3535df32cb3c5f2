"""Store in an object store, below a URL.

Writing one object is atomic. If the response to a conditional write is lost and the request is
repeated, the stored content shows whether the first request succeeded. For this purpose, random
tokens make the content of every conditional write unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dhsic.errors import StoreError
from dhsic.object_store import bucket_of, load_obstore, no_bucket, sentence
from dhsic.storage.base import AbstractStore, LostError, StoredFile, Tag, store_removed_error

# Objects -----------------------------------------------------------------------------------

#: Prefix of the names of temporary objects.
MOMENTARY = ".dhsic-"
#: Maximum number of concurrent requests.
AT_ONCE = 32
#: Number of retries of a conditional write whose outcome is unclear.
TRIES = 4


class ObjectStore(AbstractStore):
    """Store of the objects below a URL.

    The name of an object is the part of its key after the URL; "" is the object at the URL itself.
    Requests are retried for `patience` seconds (default: `PATIENCE` of `dhsic.object_store`).
    """

    path: str
    rarer = 10

    def __init__(self, url: str, patience: float | None = None) -> None:
        self.path = url
        self._prefix = urlsplit(url).path.strip("/")
        self._patience = patience

    def is_there(self) -> bool:
        return bool(self._top())

    def make(self) -> bool:
        """Return False: object stores have no folders."""
        return False

    def names(self) -> set[str]:
        return {name for name in self._top() if not name.startswith(MOMENTARY)}

    def _top(self) -> set[str]:
        """Return the top-level names below the URL: names of objects up to the first slash."""
        with self._translate_errors() as obstore:
            listing = obstore.list_with_delimiter(self._bucket, self._prefix)
        keys = [*listing["common_prefixes"], *(meta["path"] for meta in listing["objects"])]
        return {str(key).removeprefix(f"{self._prefix}/").strip("/") for key in keys}

    def tree(self, name: str = "") -> list[str]:
        """Return the names of all objects below a name, at any depth."""
        with self._translate_errors() as obstore:
            pages = obstore.list(self._bucket, prefix=self._key(name), chunk_size=1000)
            keys = [str(meta["path"]) for page in pages for meta in page]
        return [key.removeprefix(f"{self._prefix}/") for key in keys]

    def has(self, name: str) -> bool:
        with self._translate_errors() as obstore:
            try:
                obstore.head(self._bucket, self._key(name))
            except FileNotFoundError:
                return False
            return True

    def get(self, name: str) -> StoredFile | None:
        with self._translate_errors() as obstore:
            try:
                result = obstore.get(self._bucket, self._key(name))
                data = bytes(result.bytes())
            except FileNotFoundError:
                return None
            return StoredFile(data, _tag(result.meta), result.meta["last_modified"])

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        name_list = list(names)
        entries = zip(name_list, _at_once(self.get, name_list), strict=True)
        return {name: entry.data for name, entry in entries if entry is not None}

    def write(self, name: str, data: bytes | Path, *, sync: bool = True) -> None:
        """Write or replace an object; `data` is its content, or the path of a file to upload."""
        with self._translate_errors() as obstore:
            obstore.put(self._bucket, self._key(name), data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Write several objects concurrently."""
        _at_once(lambda name: self.write(name, files[name]), files)

    def write_node(
        self, name: str, files: Mapping[str, bytes], confirm: Callable[[], object]
    ) -> None:
        """Write objects concurrently, replacing objects of an interrupted run.

        `confirm` checks the lease after the version of an existing object was read and before the
        object is replaced. It prevents overwriting the objects of a process that has taken over.
        """

        def put(part: str) -> None:
            key, tag = f"{name}/{part}", None
            while self.put_if(key, files[part], tag) is None:
                entry = self.get(key)
                confirm()
                tag = None if entry is None else entry.tag

        _at_once(put, files)

    def replace(self, name: str, data: bytes, tag: Tag | None) -> Tag:
        written = self.put_if(name, data, tag)
        if written is not None:
            return written
        if not self.has(name):
            raise store_removed_error(self.path)
        raise LostError(
            f"{self.path}/{name} was written by another process, which took over from this one. "
            "Let that process finish; completed rounds are kept."
        )

    def put_if(self, name: str, data: bytes, tag: Tag | None) -> Tag | None:
        """Replace version `tag` of an object; return the new tag, or None if the version differs.

        If `tag` is None, the object must not exist.
        """
        exceptions = load_obstore().exceptions
        refused = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
        mode: Any = "create" if tag is None else dict(tag)
        for last in (*[False] * (TRIES - 1), True):
            try:
                with self._translate_errors() as obstore:
                    return _tag(obstore.put(self._bucket, self._key(name), data, mode=mode))
            except (StoreError, *refused) as error:
                entry = self.get(name)  # the first answer may be lost
                if entry is not None and entry.data == data:
                    return entry.tag
                if (None if entry is None else entry.tag) != tag:
                    return None
                if last:  # still unchanged and not written
                    if isinstance(error, StoreError):
                        raise
                    raise StoreError(no_bucket(self.path)) from None
        return None

    def remove(self, *names: str) -> None:
        def delete(name: str) -> None:
            with self._translate_errors() as obstore:
                try:
                    obstore.delete(self._bucket, self._key(name))
                except FileNotFoundError:
                    return

        object_names = [name for names_below in _at_once(self.tree, names) for name in names_below]
        _at_once(delete, [*object_names, *filter(None, names)])

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if name else self._prefix

    @property
    def _bucket(self) -> Any:
        return bucket_of(self.path, self._patience)

    @contextmanager
    def _translate_errors(self) -> Iterator[Any]:
        """Yield the module `obstore`, and convert its errors to errors of dhsic.

        The errors of rejected conditional writes are not converted.
        """
        obstore = load_obstore()
        exceptions = obstore.exceptions
        try:
            yield obstore
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise
        except FileNotFoundError:
            raise StoreError(no_bucket(self.path)) from None
        except exceptions.BaseError as error:
            raise StoreError(sentence(self.path, error)) from None  # error may contain secrets


def _tag(of: Mapping[str, Any]) -> Tag:
    """Return the version tag of an object (ETag, version, or both) in a response of the store."""
    return {name: str(of[name]) for name in ("e_tag", "version") if of.get(name) is not None}


def _at_once(function: Callable[[str], Any], names: Iterable[str]) -> list[Any]:
    """Call a function for each of several names, on several threads; return the results."""
    name_list = list(names)
    if len(name_list) < 2:
        return list(map(function, name_list))
    with ThreadPoolExecutor(min(AT_ONCE, len(name_list))) as threads:
        return list(threads.map(function, name_list))
