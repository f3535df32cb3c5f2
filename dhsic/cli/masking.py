"""A command as it may be written down: without passwords, signatures and keys."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

MASK = "***"
SECRET = r"secret|token|passw|signature|credential|sas|(?:access|account|api)[-_]?key"
#: Options of which the next word is nobody's business.
OPTION = re.compile(rf"--[\w-]*(?:key|{SECRET})[\w-]*", re.IGNORECASE)
#: Settings whose value is secret by their names, as NAME=VALUE or in JSON.
SETTING = re.compile(
    rf"""((?:--[\w-]*key|(?:{SECRET})[\w-]*)["']?\s*[=:]\s*["']?)[^\s"',;&}}]+""", re.IGNORECASE
)
#: What a URL has before an ``@``, and after a ``?``.
WHO = re.compile(r"(\w+)://(\S*)@")
QUERY = re.compile(r"(://[^?]*\?).*", re.DOTALL)


def masked(word: str) -> str:
    """A word of a command, with stars for what may be secret.

    >>> masked("s3://me:pw@b/x"), masked("https://a.b/x.zarr?sig=x"), masked("secret=x")
    ('s3://***@b/x', 'https://a.b/x.zarr?***', 'secret=***')
    >>> masked("abfs://container@account/x"), masked("s3://b/x@2")
    ('abfs://container@account/x', 's3://b/x@2')
    """
    word = QUERY.sub(rf"\1{MASK}", WHO.sub(_masked_who, word))
    return SETTING.sub(rf"\1{MASK}", word)


def _masked_who(match: re.Match[str]) -> str:
    """Who it is that a URL names; a password may hold any sign, also an ``@``."""
    scheme, who = match.groups()
    is_plain = ":" not in who and ("/" in who or scheme in ("abfs", "abfss"))
    return match[0] if is_plain else f"{scheme}://{MASK}@"


def masked_command(words: Iterable[str]) -> str:
    """A command as a line for a shell.

    >>> masked_command(["dhsic", "select", "a b.zarr", "--tls-key", "me.pem", "-n", "5"])
    "dhsic select 'a b.zarr' --tls-key '***' -n 5"
    """
    out: list[str] = []
    is_secret = False
    for word in words:
        out.append(MASK if is_secret else masked(word))
        is_secret = OPTION.fullmatch(word) is not None
    return shlex.join(out)
