"""Algorithms 1 and 2 as generators of states, and the number of features removed per round."""

from __future__ import annotations

import math
from typing import Any

from dhsic.errors import InputError
from dhsic.validation import is_count, is_number


def check_step(step: object) -> float | int:
    """Return `step` as a fraction (float) or a count (int); raises an error if it is neither."""
    value: Any = step
    if is_count(value):
        return int(value)
    if is_number(value) and 0 < value < 1:
        return float(value)
    raise InputError(f"step={step!r}; pass a fraction in (0, 1) or a whole number >= 1.")


def how_many(n_features_to_select: Any, d: int) -> int:
    """Number of features to select from d; requested as a count, a fraction, or None (half)."""
    n = n_features_to_select
    if n is None:
        return max(1, d // 2)
    if is_count(n):
        return min(int(n), d)
    if is_number(n) and 0 < n < 1:
        return max(1, int(n * d))
    raise InputError(
        f"n_features_to_select={n!r}; pass a count >= 1, a fraction in (0, 1) or None for half."
    )


def removed(step: float | int, n: int) -> int:
    """Number of features that a round removes from n: ``max(1, floor(step n))``, or a count."""
    if isinstance(step, int):
        return min(step, n)
    return max(1, math.floor(step * n))


def sizes(step: float | int, n: int) -> list[int]:
    """Number of features at the start of every round, from n until all are removed."""
    out = []
    while n > 0:
        out.append(n)
        n -= removed(step, n)
    return out
