"""What callers hand over: arrays, refused where something would be lost, and parameters.

An estimator is its parameters: its fields, and what each of them may be, are declared once, in its
class, in scikit-learn's manner. What these constraints are made of stands last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np

from dhsic._typing import Array, Mask
from dhsic.errors import InputError

#: Squares, products and sums of numbers up to here stay far from the end of float64.
LARGEST = 1e60
#: Integers up to here are floats of 64 bits, and bytes of those that go beyond.
EXACT, WIDE = 2**53, 8

#: Units in the last place of the largest value by which equal numbers differ when computed twice.
ROUNDING = 4

#: Refuses what a parameter of that name may not be.
Constraint = Callable[[str, Any], object]


def as_array(given: Any, what: str) -> Array:
    """NumPy array of what a caller passed as `what`; anything else is refused."""
    refuse_lossy(given, what)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:  # ragged lists, arrays of another device
        raise InputError(
            f"{what} is no array ({str(error).rstrip('.')}). Pass a NumPy array, or lists of equal "
            "length."
        ) from error
    if array.ndim == 0:
        raise InputError(
            f"{what}={str(given)[:40]!r} ({type(given).__name__}) is no array. Pass one with one "
            "row a sample."
        )
    return array


def beyond_float(values: Array) -> Mask:
    """Where integers lie beyond those of which float64 holds every one.

    >>> beyond_float(np.array([2**53, 2**53 + 1, -(2**62)]))
    array([False,  True,  True])
    """
    wide = values.dtype.kind in "iu" and values.dtype.itemsize == WIDE
    if not wide or not values.size:
        return np.zeros(values.shape, dtype=bool)
    most = values.dtype.type(EXACT)
    low = values.min() < -most if values.dtype.kind == "i" else False
    if not low and values.max() <= most:
        return np.zeros(values.shape, dtype=bool)
    found: Mask = values > most
    return found | (values < -most) if values.dtype.kind == "i" else found


def refuse_wide(given: Any, what: str) -> None:
    """Refuse integers of which float64 would lose digits, of Python too."""
    array = np.asarray(given)
    wide = beyond_float(array)
    if array.dtype.kind == "O":
        is_wide = [isinstance(v, Integral) and abs(int(v)) > EXACT for v in array.ravel()]
        wide = np.reshape(is_wide, array.shape)
    if wide.any():
        at = tuple(int(i) for i in np.argwhere(wide)[0])
        raise InputError(
            f"In {what} {int(wide.sum())} integers lie beyond 2**53, up to which float64 holds "
            f"every one (first at sample {at[0]}: {array[at]}); digits would be lost. Subtract an "
            "offset, or make them text (.astype(str)) if they name classes."
        )


def is_numeral(text: str) -> bool:
    """Whether a text is a number, written in plain digits.

    Python reads 1_0 as ten, too, and every script's digits; in a table these are names.

    >>> [is_numeral(text) for text in ("1e-3", " 2", "1_0", "0,5")]
    [True, True, False, False]
    """
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Whether it is a finite real number, and no truth value."""
    is_real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    return is_real and bool(np.isfinite(float(value)))


def is_positive(value: Any) -> bool:
    """Whether it is a finite number above 0."""
    return is_number(value) and float(value) > 0


def is_count(value: Any, least: int = 1) -> bool:
    """Whether it is a whole number from `least`, and no truth value."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def refuse_lossy(given: Any, what: str) -> None:
    """Refuse sparse and masked arrays, and AnnData: NumPy would make something else of them."""
    if type(given).__module__.partition(".")[0] == "anndata":
        raise InputError(
            f"{what} is an {type(given).__name__} object of anndata, which holds several matrices. "
            "Pass the matrix, adata.X (adata.X.toarray() where it is sparse and fits in memory), "
            "and labels as adata.obs[...]; or pass the path of its Zarr store, with variable='X'."
        )
    if hasattr(given, "tocsc") or type(given).__module__.partition(".")[0] in ("scipy", "sparse"):
        raise InputError(
            f"For {what} came a sparse {type(given).__name__} of shape {given.shape}; dhsic reads "
            f"dense matrices. Pass {what}.toarray() if it fits in memory, else write it to Zarr, "
            "densely."
        )
    if isinstance(given, np.ma.MaskedArray):
        raise InputError(
            f"For {what} came a masked array, whose mask would be lost. Pass "
            f"{what}.astype(float).filled(np.nan)."
        )


def as_numbers(given: Any, what: str) -> Array:
    """NumPy array of real, finite numbers, float64; anything else is refused."""
    array = as_array(given, what)
    if array.dtype.kind not in "biufO":
        refuse_dtype(array.dtype, what)
    refuse_wide(array, what)
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"In {what} there is what is no number ({error}). Pass numbers; encode text, for "
            "instance with pandas.get_dummies."
        ) from error
    bad = np.argwhere(~(np.abs(numbers) < LARGEST))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise InputError(
            f"In {what} {len(bad)} values are NaN, infinite or huge (first at sample {at[0]}: "
            f"{numbers[at]}). Fill them in, rescale them, or drop those samples."
        )
    return np.asarray(numbers)


def refuse_dtype(dtype: Any, what: str) -> NoReturn:
    """Refuse what is not a number on a line: complex, text, dates, objects."""
    kind = np.dtype(dtype).kind
    if kind == "c":
        raise InputError(
            f"The dtype of {what} is {dtype}. Complex data not supported: pass its magnitude "
            "(numpy.abs), or its real and imaginary parts as columns of their own."
        )
    if kind in "mM":
        raise InputError(
            f"The dtype of {what} is {dtype}, dates or durations. Pass numbers, for instance days: "
            f"({what} - {what}.min()) / np.timedelta64(1, 'D')."
        )
    raise InputError(
        f"The dtype of {what} is {dtype}; numbers are booleans, integers or floats. Convert it "
        "(.astype('float32')), encode text (pandas.get_dummies), or choose another variable."
    )


def check_symmetric(A: Array, what: str, letter: str) -> None:
    """Refuse a matrix that is not its transpose but for rounding."""
    worst = float(np.abs(A - A.T).max(initial=0.0))
    if worst > 1e-8 * float(np.abs(A).max(initial=0.0)):
        raise InputError(
            f"{what} is not symmetric (largest difference {worst:.3g}); pass ({letter} + {letter}')"
            " / 2."
        )


# Parameters --------------------------------------------------------------------------------


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


POSITIVE = such(is_positive, "a number above 0.")
COUNT = such(is_count, "a whole number from 1.")
SCALING = such(
    lambda value: (
        isinstance(value, bool | np.bool_)
        or (isinstance(value, str) and value in ("auto", "presence"))
    ),
    "'auto', 'presence', True or False.",
)
HALVES = such(
    lambda n: is_count(n, 0) and n != 1,
    "how many halves of the samples to select from, such as 50, or 0 for none.",
)
THRESHOLD = such(
    lambda part: part is None or (is_number(part) and 0.5 < float(part) <= 1),
    "a part of the halves above 0.5 and up to 1, such as 0.9, or None.",
)
BYTES = such(
    lambda n: n is None or (n is not True and isinstance(n, Real) and float(n) > 0),
    "a number of bytes, such as 8 * 2**30, or None for what the machine has.",
)
