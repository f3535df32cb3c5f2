"""Paths and URLs under which stores lie: their forms, and the sentences that refuse others."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dhsic.buckets import SCHEMES, without_secrets
from dhsic.errors import DhsicError


def is_url(path: str | PathLike[str]) -> bool:
    """Whether a path is a URL of something else than a folder.

    >>> is_url("s3://bucket/run.dhsic"), is_url("file:///tmp/run.dhsic"), is_url("run.dhsic")
    (True, False, False)
    """
    return "://" in fspath(path) and not fspath(path).startswith("file://")


def as_path(path: str | PathLike[str]) -> Path:
    """Path of a folder, also where it is said as a URL."""
    text = fspath(path)
    return Path(unquote(urlsplit(text).path) if text.startswith("file://") else text)


def check_url(url: str, what: str, refusal: type[DhsicError]) -> str:
    """The URL as it is used, without slashes at its end; refuse one that cannot be used.

    The message calls it `what`, such as ``"checkpoint="``, and comes as a `refusal`.
    """
    parts = urlsplit(url)
    who, is_named, _ = parts.netloc.rpartition("@")  # of Azure: the container in an account
    if is_named and (":" in who or parts.scheme not in ("abfs", "abfss")):
        raise refusal(
            f"{what}{without_secrets(url)!r} was given with a user name or password in it, which "
            "would be written down with it. Leave them out, and put keys into the environment."
        )
    if parts.query or parts.fragment:
        raise refusal(
            f"{what}{without_secrets(url).partition('#')[0]!r} was given with a query or fragment "
            "(?, #). Leave it out; keys belong into the environment."
        )
    if parts.scheme not in SCHEMES:
        raise refusal(
            f"{what}{url!r} is neither a folder nor the URL of an object store. Pass a folder, or "
            "a URL such as s3://bucket/run.dhsic (gs://, az://)."
        )
    if not parts.netloc or not parts.path.strip("/"):
        raise refusal(
            f"{what}{url!r} names no folder in a bucket. Pass one, such as "
            f"{parts.scheme}://{parts.netloc or 'bucket'}/run.dhsic."
        )
    return url.rstrip("/")


def check_place(path: Path, what: str, refusal: type[DhsicError]) -> None:
    """Refuse a path for which more than one folder would have to be made: a slip, most likely."""
    folder = path.absolute().parent
    if not folder.exists() and not folder.parent.exists():
        raise refusal(
            f"{what} {str(path)!r} is to be in {folder}, and neither that folder nor the one "
            "above is there. Make it first, or choose another path."
        )
