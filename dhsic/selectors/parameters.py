"""What the parameters of estimators may be: one table, checked before any work.

An estimator is its parameters: its fields are declared once, in its class, and what runs. Here
stands what each of them may be and the sentence for anything else, in scikit-learn's manner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from dhsic.algorithms.policies import check_step, how_many
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import AbstractBandwidth, Grid, resolve_bandwidth
from dhsic.kernels.table import resolve_kernel
from dhsic.progress import check_progress
from dhsic.sources.values import ValueKind
from dhsic.validation import is_positive

#: Of `standardize`: as suits the data.
AUTO = "auto"
Standardize = bool | str
APPROX = ("auto", "exact", "lowrank", "direct")


@dataclass(frozen=True)
class OneOf:
    """One of some names; `remedy` follows "pass" in the sentence for anything else."""

    options: tuple[str | None, ...]
    remedy: str

    def __call__(self, name: str, value: Any) -> None:
        if not (value is None or isinstance(value, str)) or value not in self.options:
            raise InputError(f"{name}={value!r} is unknown; pass {self.remedy}")


@dataclass(frozen=True)
class Such:
    """Whatever `holds` is true of; `remedy` as of `OneOf`."""

    holds: Callable[[Any], bool]
    remedy: str

    def __call__(self, name: str, value: Any) -> None:
        if not self.holds(value):
            raise InputError(f"{name}={value!r}; pass {self.remedy}")


@dataclass(frozen=True)
class By:
    """Whatever a function takes, which refuses anything else by itself."""

    check: Callable[[Any], object]

    def __call__(self, name: str, value: Any) -> None:
        self.check(value)


Constraint = OneOf | Such | By


def check_all(given: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Check parameters one by one.

    Raises
    ------
    InputError
        One is not what it may be; the error has its name.
    """
    for name, constraint in constraints.items():
        if name in given:
            try:
                constraint(name, given[name])
            except InputError as error:
                error.parameter = name
                raise


def is_flag(value: Any) -> bool:
    """Whether a value is True or False."""
    return isinstance(value, (bool, np.bool_))


def is_count(value: Any, least: int = 1) -> bool:
    """Whether a value is a whole number from `least`."""
    return isinstance(value, (int, np.integer)) and not is_flag(value) and int(value) >= least


def is_part(value: Any) -> bool:
    """Whether a value is a number from 0 to 1."""
    return isinstance(value, Real) and not is_flag(value) and 0 <= float(value) <= 1


def is_scaling(value: Any) -> bool:
    """Whether a value says whether features are scaled."""
    return value == AUTO if isinstance(value, str) else is_flag(value)


def width_of(bandwidth: object) -> AbstractBandwidth:
    """Policy for sigma; a grid is refused, for there are no labels to compare by before descent."""
    width = resolve_bandwidth(bandwidth)
    if isinstance(width, Grid):
        raise InputError(
            f"bandwidth={bandwidth!r} is a grid, and descent over weights takes one sigma for all "
            "steps; pass 'median', 'dimension' or a number."
        )
    return width


def seed_of(random_state: Any) -> int:
    """Seed of all random draws: a whole number, None for 0, or from a NumPy `RandomState`.

    Raises
    ------
    InputError
        Anything else.
    """
    if random_state is None:
        return 0
    if is_count(random_state, 0):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.get_state(legacy=False)["state"]["key"][0])
    raise InputError(f"random_state={random_state!r}; pass a whole number from 0.")


def check_stability(stability: Any) -> int:
    """Return the number of halves, 0 for none.

    Raises
    ------
    InputError
        Neither 0 nor a whole number >= 2.
    """
    HALVES("stability", stability)
    return int(stability)


def check_memory(memory: object) -> None:
    """Refuse what is no number of bytes."""
    BYTES("memory", memory)


def check_standardize(value: object) -> None:
    """Refuse what says nothing of scaling.

    Raises
    ------
    InputError
        Neither True, False nor ``"auto"``.
    """
    SCALING("standardize", value)


def scales(asked: Standardize, values: ValueKind, *, alone: bool = False) -> bool:
    """Whether features are scaled to unit deviation: as asked, or as suits the data.

    Scaled, a variant that three people carry weighs as much as a common one, and its few large
    values drown the rest in a kernel of all features. So dosages keep their scale, unless every
    feature is judged `alone`.
    """
    return alone or not values.dosages if isinstance(asked, str) else bool(asked)


POSITIVE = Such(is_positive, "a number above 0.")
COUNT = Such(is_count, "a whole number from 1.")
SCALING = Such(is_scaling, "'auto', True or False.")
HALVES = Such(
    lambda n: is_count(n, 0) and n != 1,
    "how many halves of the samples to select from, such as 50, or 0 for none.",
)
BYTES = Such(
    lambda n: n is None or (n is not True and isinstance(n, Real) and float(n) > 0),
    "a number of bytes, such as 8 * 2**30, or None for what the machine has.",
)

#: What parameters may be, by their names; in the order in which they are checked.
CONSTRAINTS: Mapping[str, Constraint] = {
    "n_features_to_select": By(lambda n: how_many(n, 1)),
    "step": By(check_step),
    "kernel": By(resolve_kernel),
    "bandwidth": By(resolve_bandwidth),
    "approx": OneOf(
        APPROX,
        "'auto', 'exact' (the expansion, exact in its result), 'lowrank' (in linear time) or "
        "'direct' (the definition, slow).",
    ),
    "missing": OneOf(("mean", "error"), "'mean' (fill in the mean of the feature) or 'error'."),
    "standardize": SCALING,
    "dtype": Such(
        lambda dtype: str(dtype) in ("float32", "float64"),
        "'float32' or 'float64'.",
    ),
    "tolerance": Such(
        is_part,
        "the part of the features leaving in a round that may be wrong ones, a number from 0 to "
        "1, such as 0.02.",
    ),
    "random_state": By(seed_of),
    "strategy": OneOf(("forward", "floating"), "one of forward, floating."),
    "stability": HALVES,
    "progress": By(check_progress),
    "memory": BYTES,
}
#: The same of descent over weights.
OF_DESCENT: Mapping[str, Constraint] = {
    **CONSTRAINTS,
    "bandwidth": By(width_of),
    "tolerance": POSITIVE,
    "max_iterations": COUNT,
    "constraint": OneOf(("hard", "soft"), "'hard' or 'soft'."),
    "inverse": OneOf(("exact", "none"), "'exact' or 'none'."),
    "approximation": OneOf((None, "random_features"), "None or 'random_features'."),
    "epsilon": POSITIVE,
    "lambda_1": POSITIVE,
    "lambda_2": POSITIVE,
    "n_random_features": COUNT,
    "penalty": POSITIVE,
    "steepness": POSITIVE,
    "start": OneOf(("uniform", "random"), "'uniform', or 'random' (with a random_state)."),
}
#: The same of support vectors.
OF_MACHINES: Mapping[str, Constraint] = {
    **CONSTRAINTS,
    "penalty": Such(is_positive, "C of the machine, a positive number."),
}
#: The same of criteria on single features, which check what is theirs.
OF_CRITERIA: Mapping[str, Constraint] = {k: v for k, v in CONSTRAINTS.items() if k != "bandwidth"}
