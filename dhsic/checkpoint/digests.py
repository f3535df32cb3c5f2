"""Digests, against damage."""

from __future__ import annotations

import hashlib

from dhsic._typing import Array


def sha(*parts: str | Array) -> str:
    """Digest of texts and arrays, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part.tobytes())
    return digest.hexdigest()
