"""What an object store said when it did not do as it was told, as one sentence without secrets.

Answers of stores may hold key ids, signatures and even tokens of a session, so nothing of them is
passed on but the status, the code and what happened to the connection.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

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
