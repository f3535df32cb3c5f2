"""Object stores: how `obstore` opens one, and what its errors mean.

Keys come from the environment, where `obstore` looks for them: ``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_ENDPOINT_URL``, ``AWS_REGION``, those of a workload identity, and
their like of other stores. Each process opens a store for itself, so that none travels.

What a store answers when it does not do as it was told may hold key ids, signatures and even tokens
of a session, so nothing of it is passed on but the status, the code and what happened to the
connection.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlsplit

from dhsic.errors import InputError, StoreError

# What a store said -------------------------------------------------------------------------


def without_secrets(text: Any) -> str:
    """A message of a store without what may be a key or a signature: queries and passwords.

    >>> without_secrets("PUT https://me:pw@a.b/c?sig=x failed")
    'PUT https://a.b/c failed'
    """
    return re.sub(r"(?<=://)[^/\s@]*@", "", re.sub(r"\?\S*", "", str(text)))


STATUS = re.compile(r"status code: (\d{3}[ \w]*)")
CODE = re.compile(r"<Code>(\w{1,60})</Code>")
CAUSE = re.compile(r'message: "([ \w]{1,80})"')
KIND = re.compile(r"kind: ([A-Z][a-z]+)\b")
#: Where a machine of a cloud is asked who it is, when the environment says nothing of keys.
METADATA = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")


def sentence(url: str, error: Exception) -> str:
    """Say what an error of `obstore` means for who reads or keeps something at a URL.

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
#: Schemes of stores that replace an object only on a condition, which a single writer needs; and of
#: those that are only read.
SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "memory")
OF_WEBS = ("http", "https")
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
    return _in_memory(bucket) if scheme == "memory" else _opened(f"{scheme}://{bucket}", patience)


def folder_of(url: str, options: Mapping[str, Any] | None = None) -> Any:
    """Return the `obstore` store of the objects below a URL; `options` configure it.

    Raises
    ------
    InputError
        There is no store of that scheme.
    StoreError
        The store does not answer.
    """
    if urlsplit(url).scheme not in (*SCHEMES, *OF_WEBS):
        raise InputError(
            f"{without_secrets(url)} cannot be opened: there is no such kind of store. Check the "
            "scheme (s3://, gs://, az://, https://), or copy what is there to a local folder."
        )
    with translate_errors(url):
        return _opened(url, None, tuple(sorted((options or {}).items())))


def fetched(url: str) -> bytes:
    """Read the object at a URL.

    Raises
    ------
    InputError, StoreError
        The object does not exist; or see `folder_of`.
    """
    folder, _, name = url.rpartition("/")
    store = folder_of(folder)
    with translate_errors(url) as obstore:
        try:
            return bytes(obstore.get(store, name).bytes())
        except FileNotFoundError:
            raise absent(url) from None


@contextmanager
def translate_errors(url: str) -> Iterator[Any]:
    """Yield `obstore`, turning its errors into ours; FileNotFoundError passes unchanged."""
    obstore = load_obstore()
    try:
        yield obstore
    except FileNotFoundError:
        raise
    except obstore.exceptions.BaseError as error:
        raise StoreError(sentence(without_secrets(url), error)) from None  # its text may hold keys


def absent(url: str) -> InputError:
    """The error of an object that is not there."""
    return InputError(f"There is nothing at {without_secrets(url)}. Check the URL.")


def _opened(url: str, patience: float | None, options: tuple[tuple[str, Any], ...] = ()) -> Any:
    endpoint = next((os.environ[name] for name in ENDPOINTS if name in os.environ), "")
    seconds = PATIENCE if patience is None else patience
    return open_bucket(url, endpoint, seconds, os.getpid(), options)


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
def open_bucket(
    url: str,
    endpoint: str,
    patience: float,
    pid: int,  # a process that was forked has none of the threads of the old one
    options: tuple[tuple[str, Any], ...] = (),
) -> Any:
    """Store of a bucket, or of what lies below a URL."""
    is_web = urlsplit(url).scheme in OF_WEBS
    if patience > ASKING and not is_web and not any(name in os.environ for name in KEYS):
        _ask_who_we_are(url, endpoint, pid, options)
    how: dict[str, Any] = {"timeout": timedelta(seconds=min(REQUEST, patience))}
    if (url if is_web else endpoint).startswith("http://"):
        how["allow_http"] = True
    retry = {
        "max_retries": 1000,  # time decides
        "retry_timeout": timedelta(seconds=patience),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=min(15, max(patience / 4, 0.1))),
            "base": 2,
        },
    }
    store, more = load_obstore().store, {"config": dict(options)} if options else {}
    return store.from_url(url, client_options=how, retry_config=retry, **more)


def _ask_who_we_are(
    url: str, endpoint: str, pid: int, options: tuple[tuple[str, Any], ...]
) -> None:
    """Ask for anything, with little patience: a laptop without keys would wait for long."""
    try:
        load_obstore().head(open_bucket(url, endpoint, ASKING, pid, options), "dhsic")
    except FileNotFoundError:
        return
    except load_obstore().exceptions.BaseError as error:
        if is_about_keys(error):
            raise
