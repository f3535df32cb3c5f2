"""URLs of object stores: which are taken, and what must not be in them."""

from __future__ import annotations

import re
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dhsic.errors import DhsicError

#: Schemes of stores that replace an object only on a condition, which a single writer needs.
SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "memory")


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


def without_secrets(text: Any) -> str:
    """A message of a store without what may be a key or a signature: queries and passwords.

    >>> without_secrets("PUT https://me:pw@a.b/c?sig=x failed")
    'PUT https://a.b/c failed'
    """
    return re.sub(r"(?<=://)[^/\s@]*@", "", re.sub(r"\?\S*", "", str(text)))


def check_url(url: str, what: str, refusal: type[DhsicError]) -> str:
    """The URL as it is used, without slashes at its end; refuse one that cannot be used.

    Parameters
    ----------
    what : str
        How the message calls it, such as ``"checkpoint="``.
    refusal : type
        Error to raise.
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
