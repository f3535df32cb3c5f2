"""Object stores: opening them with `obstore`, and translating its errors.

`obstore` reads access keys from the environment: ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``,
``AWS_ENDPOINT_URL``, ``AWS_REGION``, the variables of a workload identity, and the corresponding
variables of other stores. Each process opens stores itself, so none are sent to workers.

The response of a store to a failed request may contain key ids, signatures and even session tokens.
Only its status, its code and the state of the connection are therefore included in messages.
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

# Messages for errors -----------------------------------------------------------------------


def without_secrets(text: Any) -> str:
    """Remove user names, passwords and queries, which may be secret, from URLs in a text.

    >>> without_secrets("PUT https://me:pw@a.b/c?sig=x failed")
    'PUT https://a.b/c failed'
    """
    return re.sub(r"(?<=://)[^/\s@]*@", "", re.sub(r"\?\S*", "", str(text)))


STATUS = re.compile(r"status code: (\d{3}[ \w]*)")
CODE = re.compile(r"<Code>(\w{1,60})</Code>")
CAUSE = re.compile(r'message: "([ \w]{1,80})"')
KIND = re.compile(r"kind: ([A-Z][a-z]+)\b")
#: Addresses at which cloud machines ask for their identity if the environment has no keys.
METADATA = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")


def sentence(url: str, error: Exception) -> str:
    """Return a message for an `obstore` error at a URL.

    >>> sentence("s3://b/run", OSError("PUT status code: 403 Forbidden: <Code>AccessDenied</Code>"))
    ... # doctest: +ELLIPSIS
    'The object store refuses access to s3://b/run (403 Forbidden, AccessDenied). Check the keys...'
    """
    text = str(error)
    if is_about_keys(error):
        return (
            f"No keys for {url} were found. Put them into environment variables "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...), or give this machine a cloud "
            "identity that has access."
        )
    reason = _reason(text) or type(error).__name__
    if reason.startswith("404"):
        return no_bucket(url)
    if reason.startswith(("401", "403")):
        return (
            f"The object store refuses access to {url} ({reason}). Check the keys in the "
            "environment variables (AWS_ACCESS_KEY_ID, ...), and their permissions."
        )
    return (
        f"The object store of {url} does not complete requests ({reason}). Data stored there "
        "stay valid. Resume when the store is available again, or check the endpoint and the "
        "region in the environment variables (AWS_ENDPOINT_URL, AWS_REGION, ...)."
    )


def no_bucket(url: str) -> str:
    """Return the message that the bucket of a URL does not exist."""
    return (
        f"{url} cannot be used: the bucket {urlsplit(url).netloc!r} does not exist, or is in "
        "another region. Create it, or check the URL and AWS_REGION."
    )


def is_about_keys(error: Exception) -> bool:
    """Whether an error of `obstore` means that no access keys were found."""
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
    return "" if "://" in first or "<" in first else first[:200]  # the error of a wrong setting


# Opening -----------------------------------------------------------------------------------

#: Maximum time without a response from a store before a run stops, and per request, in seconds.
PATIENCE, REQUEST = 90.0, 30.0
#: Maximum seconds for a request for the identity of the machine, if the environment has no keys.
ASKING = 5.0
#: Schemes of stores with conditional writes, which ensure that there is a single writer; and of
#: stores that are only read.
SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "memory")
OF_WEBS = ("http", "https")
#: Environment variables with keys; one of them is set for S3, or another store, if there are keys.
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
#: Environment variables with the address of an S3 store other than Amazon's.
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def bucket_of(url: str, patience: float | None = None) -> Any:
    """Open the bucket of a URL as a store of `obstore`.

    `patience` is the maximum number of seconds without a response.
    """
    scheme, bucket = urlsplit(url)[:2]
    return _in_memory(bucket) if scheme == "memory" else _opened(f"{scheme}://{bucket}", patience)


def folder_of(url: str, options: Mapping[str, Any] | None = None) -> Any:
    """Open the objects below a URL as a store of `obstore`, with these `options`.

    Raises
    ------
    InputError
        The scheme is not supported.
    StoreError
        The store does not answer.
    """
    if urlsplit(url).scheme not in (*SCHEMES, *OF_WEBS):
        raise InputError(
            f"{without_secrets(url)} cannot be opened, because stores of this kind are not "
            "supported. Check the scheme (s3://, gs://, az://, https://), or copy the data to a "
            "local folder."
        )
    with translate_errors(url):
        return _opened(url, None, tuple(sorted((options or {}).items())))


def fetched(url: str) -> bytes:
    """Read the object at a URL.

    Raises
    ------
    InputError, StoreError
        The object does not exist. For other errors, see `folder_of`.
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
    """Context that yields the module `obstore`, and converts its errors to StoreError.

    FileNotFoundError is not converted.
    """
    obstore = load_obstore()
    try:
        yield obstore
    except FileNotFoundError:
        raise
    except obstore.exceptions.BaseError as error:
        raise StoreError(sentence(without_secrets(url), error)) from None  # it may contain keys


def absent(url: str) -> InputError:
    """Return the error for an object that does not exist."""
    return InputError(f"Nothing exists at {without_secrets(url)}. Check the URL.")


def _opened(url: str, patience: float | None, options: tuple[tuple[str, Any], ...] = ()) -> Any:
    endpoint = next((os.environ[name] for name in ENDPOINTS if name in os.environ), "")
    seconds = PATIENCE if patience is None else patience
    return open_bucket(url, endpoint, seconds, os.getpid(), options)


def load_obstore() -> Any:
    """Import and return the package `obstore`; raise InputError if it is not installed."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        raise InputError(
            "A URL of an object store needs the package obstore, which is not installed. Install "
            "dhsic[cloud] here and on all workers, or pass a folder."
        ) from error
    return obstore


@cache
def _in_memory(bucket: str) -> Any:  # noqa: ARG001  # one store per bucket
    """Return the store of a bucket in the memory of this process, for tests."""
    return load_obstore().store.MemoryStore()


@lru_cache(maxsize=16)
def open_bucket(
    url: str,
    endpoint: str,
    patience: float,
    pid: int,  # a forked process lacks the threads of its parent
    options: tuple[tuple[str, Any], ...] = (),
) -> Any:
    """Open a bucket, or the objects below a URL, as a store of `obstore`; stores are cached."""
    is_web = urlsplit(url).scheme in OF_WEBS
    if patience > ASKING and not is_web and not any(name in os.environ for name in KEYS):
        _ask_who_we_are(url, endpoint, pid, options)
    how: dict[str, Any] = {"timeout": timedelta(seconds=min(REQUEST, patience))}
    if (url if is_web else endpoint).startswith("http://"):
        how["allow_http"] = True
    retry = {
        "max_retries": 1000,  # the time limit decides
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
    """Raise an error within `ASKING` seconds if no access keys are found.

    Keys come from the environment, or from the cloud machine. Without this check, the first request
    would wait for a long time.
    """
    try:
        load_obstore().head(open_bucket(url, endpoint, ASKING, pid, options), "dhsic")
    except FileNotFoundError:
        return
    except load_obstore().exceptions.BaseError as error:
        if is_about_keys(error):
            raise
