"""Checks of what users set on a factorizer."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from dhsic.errors import InputError
from dhsic.given import is_number


def check_rank(rank: object, factorizer: str) -> None:
    """Refuse a rank that is no whole number from 1; None passes.

    Raises
    ------
    InputError
        It is none.
    """
    if rank is not None and not is_count(rank):
        raise InputError(f"{factorizer} rank={rank!r}; pass a whole number >= 1.")


def check_tolerance(tolerance: Any, factorizer: str) -> None:
    """Refuse a tolerance outside [0, 1).

    Raises
    ------
    InputError
        It is outside, or no number.
    """
    if not (is_number(tolerance) and 0 <= float(tolerance) < 1):
        raise InputError(f"{factorizer} tolerance={tolerance!r}; pass a number from 0 to below 1.")


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 1."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 1
