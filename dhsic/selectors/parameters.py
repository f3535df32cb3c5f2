"""What parameters of estimators may be, and the sentence for anything else.

An estimator is its parameters: its fields, and what each of them may be, are declared once, in its
class, in scikit-learn's manner. Here stands what these constraints are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from numbers import Real
from typing import Any

import numpy as np

from dhsic.errors import InputError
from dhsic.sources.values import ValueKind
from dhsic.validation import is_count, is_positive

#: Refuses what a parameter of that name may not be.
Constraint = Callable[[str, Any], object]

Standardize = bool | str


def such(holds: Callable[[Any], bool], remedy: str, verdict: str = "") -> Constraint:
    """Whatever `holds` is true of; `remedy` follows "pass" in the sentence for anything else."""

    def check(name: str, value: Any) -> None:
        if not holds(value):
            raise InputError(f"{name}={value!r}{verdict}; pass {remedy}")

    return check


def one_of(options: Collection[str | None], remedy: str) -> Constraint:
    """One of some names; `remedy` as of `such`."""
    return such(
        lambda value: (value is None or isinstance(value, str)) and value in options,
        remedy,
        " is unknown",
    )


def by(check: Callable[[Any], object]) -> Constraint:
    """Whatever a function takes, which refuses anything else by itself."""
    return lambda _, value: check(value)


def seed_of(random_state: Any) -> int:
    """Seed of all random draws: a whole number, None for 0, or from a NumPy `RandomState`."""
    if random_state is None:
        return 0
    if is_count(random_state, 0):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.get_state(legacy=False)["state"]["key"][0])
    raise InputError(f"random_state={random_state!r}; pass a whole number from 0.")


def scales(asked: Standardize, values: ValueKind, *, alone: bool = False) -> bool:
    """Whether features are scaled to unit deviation: as asked, or as suits the data.

    Scaled, a variant that three people carry weighs as much as a common one, and its few large
    values drown the rest in a kernel of all features. So dosages keep their scale, unless every
    feature is judged `alone`.
    """
    return alone or not values.dosages if isinstance(asked, str) else bool(asked)


POSITIVE = such(is_positive, "a number above 0.")
COUNT = such(is_count, "a whole number from 1.")
SCALING = such(
    lambda value: (
        isinstance(value, bool | np.bool_) or (isinstance(value, str) and value == "auto")
    ),
    "'auto', True or False.",
)
HALVES = such(
    lambda n: is_count(n, 0) and n != 1,
    "how many halves of the samples to select from, such as 50, or 0 for none.",
)
BYTES = such(
    lambda n: n is None or (n is not True and isinstance(n, Real) and float(n) > 0),
    "a number of bytes, such as 8 * 2**30, or None for what the machine has.",
)
