"""Plain data: what JSON can say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} is not plain data")


def plain(value: Any) -> Any:
    """Return a copy of plain data (NumPy scalars included) as JSON gives it back."""
    return json.loads(json.dumps(value, default=_plain))


def canonical(value: Any) -> str:
    """Plain data as JSON, the same text for the same data."""
    return json.dumps(value, sort_keys=True, default=_plain)
