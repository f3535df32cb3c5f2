"""Paths and URLs of stores: parsing and validation."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dhsic.errors import DhsicError
from dhsic.object_store import SCHEMES, without_secrets


def is_url(path: str | PathLike[str]) -> bool:
    """Whether a path is the URL of an object store (not a file:// URL).

    >>> is_url("s3://bucket/run.dhsic"), is_url("file:///tmp/run.dhsic"), is_url("run.dhsic")
    (True, False, False)
    """
    return "://" in fspath(path) and not fspath(path).startswith("file://")


def as_path(path: str | PathLike[str]) -> Path:
    """Convert a path or a file:// URL to a Path."""
    text = fspath(path)
    return Path(unquote(urlsplit(text).path) if text.startswith("file://") else text)


def check_url(url: str, what: str, refusal: type[DhsicError]) -> str:
    """Return the URL without trailing slashes; raise `refusal` if the URL cannot be used.

    The error message calls the URL `what`, such as ``"checkpoint="``.
    """
    parts = urlsplit(url)
    who, is_named, _ = parts.netloc.rpartition("@")  # Azure: container@account
    if is_named and (":" in who or parts.scheme not in ("abfs", "abfss")):
        raise refusal(
            f"{what}{without_secrets(url)!r} contains a user name or password, which would be "
            "stored with it. Remove them, and put keys into environment variables."
        )
    if parts.query or parts.fragment:
        raise refusal(
            f"{what}{without_secrets(url).partition('#')[0]!r} contains a query or fragment (?, "
            "#). Remove it, and put keys into environment variables."
        )
    if parts.scheme not in SCHEMES:
        raise refusal(
            f"{what}{url!r} is neither a folder nor the URL of an object store. Pass a folder, "
            "or a URL such as s3://bucket/run.dhsic (gs://, az://)."
        )
    if not parts.netloc or not parts.path.strip("/"):
        raise refusal(
            f"{what}{url!r} does not contain a folder in a bucket. Pass one, such as "
            f"{parts.scheme}://{parts.netloc or 'bucket'}/run.dhsic."
        )
    return url.rstrip("/")


def check_place(path: Path, what: str, refusal: type[DhsicError]) -> None:
    """Raise `refusal` if neither the parent nor the grandparent of `path` exists.

    Such a path is probably mistyped. The message begins with `what`, such as "The result".
    """
    folder = path.absolute().parent
    if not folder.exists() and not folder.parent.exists():
        raise refusal(
            f"{what} {str(path)!r} cannot be created in {folder}, because neither that folder "
            "nor its parent exists. Create it first, or choose another path."
        )
