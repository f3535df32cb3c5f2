"""A part of an object store: how `obstore` opens it, and what its errors mean.

A put of one object is atomic. One on a condition ends in one of two ways even where the answer to
it is lost and it is sent again: what is there then tells which. For that no two writers may ever
write the same bytes on a condition, which marks in their contents see to.

Keys come from the environment, where `obstore` looks for them: ``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_ENDPOINT_URL``, ``AWS_REGION``, those of a workload identity, and
their like of other stores.

What a store answers when it does not do as it was told may hold key ids, signatures and even tokens
of a session, so nothing of it is passed on but the status, the code and what happened to the
connection.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dhsic.errors import InputError, StoreError
from dhsic.storage import AbstractStore, Found, LostError, Tag, gone

# What a store said -------------------------------------------------------------------------

STATUS = re.compile(r"status code: (\d{3}[ \w]*)")
CODE = re.compile(r"<Code>(\w{1,60})</Code>")
CAUSE = re.compile(r'message: "([ \w]{1,80})"')
KIND = re.compile(r"kind: ([A-Z][a-z]+)\b")
#: Where a machine of a cloud is asked who it is, when the environment says nothing of keys.
METADATA = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")


def sentence(url: str, error: Exception) -> str:
    """Say what an error of `obstore` means for who keeps something at a URL.

    >>> sentence("s3://b/run", OSError("PUT status code: 403 Forbidden: <Code>AccessDenied</Code>"))
    ... # doctest: +ELLIPSIS
    'The object store refuses access to s3://b/run (403 Forbidden, AccessDenied). Check the keys...'
    """
    text = str(error)
    if is_about_keys(error):
        return (
            f"No keys for {url} were found. Put them into the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY, ...), or give this machine an identity that may use it."
        )
    reason = _reason(text) or type(error).__name__
    if reason.startswith("404"):
        return no_bucket(url)
    if reason.startswith(("401", "403")):
        return (
            f"The object store refuses access to {url} ({reason}). Check the keys in the "
            "environment (AWS_ACCESS_KEY_ID, ...), and what they permit."
        )
    return (
        f"The object store of {url} does not do what it was asked for ({reason}). What is kept "
        "there stays valid; go on when the store is back, or check the endpoint and the region in "
        "the environment (AWS_ENDPOINT_URL, AWS_REGION, ...)."
    )


def no_bucket(url: str) -> str:
    """Say that there is no place for what is to be kept at a URL."""
    return (
        f"Nothing can be kept at {url}: there is no bucket {urlsplit(url).netloc!r}, or it is in "
        "another region. Make it, or check the URL and AWS_REGION."
    )


def is_about_keys(error: Exception) -> bool:
    """Whether keys were looked for in vain."""
    return any(place in str(error) for place in METADATA)


def _reason(text: str) -> str:
    status = STATUS.search(text)
    if status:
        code = CODE.search(text)
        return status[1].strip() + (f", {code[1]}" if code else "")
    cause, kind = CAUSE.search(text), KIND.findall(text)
    if cause:
        return cause[1]
    if kind:
        return f"no connection: {kind[0].lower()}"
    first = text.partition("\n")[0].rstrip(" .")
    return "" if "://" in first or "<" in first else first[:200]  # of a setting that is wrong


# Opening -----------------------------------------------------------------------------------

#: Seconds that a store may stay away before a run stops, and one request may take.
PATIENCE, REQUEST = 90.0, 30.0
#: Seconds that the machine may take to say who it is where the environment names no keys.
ASKING = 5.0
#: Variables of which S3, and each other store, has one where the environment says who we are.
KEYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_FEDERATED_TOKEN_FILE",
)
#: Variables that say where an S3 is which is not Amazon's.
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def bucket_of(url: str, patience: float | None = None) -> Any:
    """Store of `obstore` for the bucket of a URL, which may stay away for `patience` seconds."""
    scheme, bucket = urlsplit(url)[:2]
    if scheme == "memory":
        return _in_memory(bucket)
    endpoint = next((os.environ[name] for name in ENDPOINTS if name in os.environ), "")
    seconds = PATIENCE if patience is None else patience
    return open_bucket(f"{scheme}://{bucket}", endpoint, seconds, os.getpid())


def load_obstore() -> Any:
    """The package that reads object stores, which need not be installed."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise InputError(
            "A URL of an object store needs the package obstore, which is not installed. Install "
            "dhsic[cloud], here and on all workers, or pass a folder."
        ) from error
    return obstore


@cache
def _in_memory(bucket: str) -> Any:  # noqa: ARG001  # a store for each
    """Store of this process alone, for tests."""
    return load_obstore().store.MemoryStore()


@lru_cache(maxsize=16)
def open_bucket(bucket: str, endpoint: str, patience: float, pid: int) -> Any:  # a key
    """Store of a bucket; a process that was forked has none of the threads of the old one."""
    if patience > ASKING and not any(name in os.environ for name in KEYS):
        _ask_who_we_are(bucket, endpoint, pid)
    options: dict[str, Any] = {"timeout": timedelta(seconds=min(REQUEST, patience))}
    if endpoint.startswith("http://"):
        options["allow_http"] = True
    retry = {
        "max_retries": 1000,  # time decides
        "retry_timeout": timedelta(seconds=patience),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=min(15, max(patience / 4, 0.1))),
            "base": 2,
        },
    }
    store = load_obstore().store
    return store.from_url(bucket, client_options=options, retry_config=retry)


def _ask_who_we_are(bucket: str, endpoint: str, pid: int) -> None:
    """Ask for anything, with little patience: a laptop without keys would wait for long."""
    try:
        load_obstore().head(open_bucket(bucket, endpoint, ASKING, pid), "dhsic")
    except FileNotFoundError:
        return
    except load_obstore().exceptions.BaseError as error:
        if is_about_keys(error):
            raise


# Objects -----------------------------------------------------------------------------------

#: What begins the names of objects that are there for a moment.
MOMENTARY = ".dhsic-"
#: Requests in flight at once.
AT_ONCE = 32
#: Times that a condition is tried again where the answer left open whether it held.
TRIES = 4


class ObjectStore(AbstractStore):
    """Objects below a URL, by the rest of their keys; "" is the object at the URL itself.

    The store may stay away for `patience` seconds, by default for `PATIENCE`.
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
        """There are no folders to make."""
        return False

    def names(self) -> set[str]:
        return {name for name in self._top() if not name.startswith(MOMENTARY)}

    def _top(self) -> set[str]:
        """First parts of the names of all objects."""
        with self._asked() as obstore:
            found = obstore.list_with_delimiter(self._bucket, self._prefix)
        keys = [*found["common_prefixes"], *(meta["path"] for meta in found["objects"])]
        return {str(key).removeprefix(f"{self._prefix}/").strip("/") for key in keys}

    def tree(self, name: str = "") -> list[str]:
        """Names of all objects below a name."""
        with self._asked() as obstore:
            pages = obstore.list(self._bucket, prefix=self._key(name), chunk_size=1000)
            keys = [str(meta["path"]) for page in pages for meta in page]
        return [key.removeprefix(f"{self._prefix}/") for key in keys]

    def has(self, name: str) -> bool:
        with self._asked() as obstore:
            try:
                obstore.head(self._bucket, self._key(name))
            except FileNotFoundError:
                return False
            return True

    def get(self, name: str) -> Found | None:
        with self._asked() as obstore:
            try:
                result = obstore.get(self._bucket, self._key(name))
                data = bytes(result.bytes())
            except FileNotFoundError:
                return None
            return Found(data, _tag(result.meta), result.meta["last_modified"])

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        wanted = list(names)
        found = zip(wanted, _at_once(self.get, wanted), strict=True)
        return {name: of.data for name, of in found if of is not None}

    def write(self, name: str, data: bytes | Path, *, sync: bool = True) -> None:
        """Write an object, whatever was there; `data` may be a file."""
        with self._asked() as obstore:
            obstore.put(self._bucket, self._key(name), data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Put objects, many at once."""
        _at_once(lambda name: self.write(name, files[name]), files)

    def write_node(
        self, name: str, files: Mapping[str, bytes], confirm: Callable[[], object]
    ) -> None:
        """Put objects, many at once: each where none is, or in the place of what a dead run left.

        Between looking at what is there and replacing it `confirm` asks for the lease. So what a
        successor has put there is either seen too late to be replaced, or not at all.
        """

        def put(part: str) -> None:
            key, tag = f"{name}/{part}", None
            while self.put_if(key, files[part], tag) is None:
                found = self.get(key)
                confirm()
                tag = None if found is None else found.tag

        _at_once(put, files)

    def replace(self, name: str, data: bytes, tag: Tag | None) -> Tag:
        written = self.put_if(name, data, tag)
        if written is not None:
            return written
        if not self.has(name):
            raise gone(self.path)
        raise LostError(
            f"{self.path}/{name} was written by another process, which has "
            "followed this one. Let that one go on; the rounds that are done are kept."
        )

    def put_if(self, name: str, data: bytes, tag: Tag | None) -> Tag | None:
        """Write an object where version `tag` is, None where none is; None where that is not so."""
        exceptions = load_obstore().exceptions
        refused = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
        mode: Any = "create" if tag is None else dict(tag)
        for last in (*[False] * (TRIES - 1), True):
            try:
                with self._asked() as obstore:
                    return _tag(obstore.put(self._bucket, self._key(name), data, mode=mode))
            except (StoreError, *refused) as error:
                found = self.get(name)  # the answer may have been lost, or be that to a second try
                if found is not None and found.data == data:
                    return found.tag
                if (None if found is None else found.tag) != tag:
                    return None
                if last:  # as it was, and still it is not written
                    if isinstance(error, StoreError):
                        raise
                    raise StoreError(no_bucket(self.path)) from None
        return None

    def remove(self, *names: str) -> None:
        def delete(name: str) -> None:
            with self._asked() as obstore:
                try:
                    obstore.delete(self._bucket, self._key(name))
                except FileNotFoundError:
                    return

        below = [name for found in _at_once(self.tree, names) for name in found]
        _at_once(delete, [*below, *filter(None, names)])

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if name else self._prefix

    @property
    def _bucket(self) -> Any:
        return bucket_of(self.path, self._patience)

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """Yield `obstore`; its errors become a sentence, but for those of conditions."""
        obstore = load_obstore()
        exceptions = obstore.exceptions
        try:
            yield obstore
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise
        except FileNotFoundError:
            raise StoreError(no_bucket(self.path)) from None
        except exceptions.BaseError as error:
            raise StoreError(sentence(self.path, error)) from None  # its text may hold keys


def _tag(of: Mapping[str, Any]) -> Tag:
    """What tells a version of an object from any other."""
    return {name: str(of[name]) for name in ("e_tag", "version") if of.get(name) is not None}


def _at_once(function: Callable[[str], Any], names: Iterable[str]) -> list[Any]:
    """What a function returns for every name, several at once; raises what one of them raises."""
    wanted = list(names)
    if len(wanted) < 2:
        return list(map(function, wanted))
    with ThreadPoolExecutor(min(AT_ONCE, len(wanted))) as threads:
        return list(threads.map(function, wanted))
