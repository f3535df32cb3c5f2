"""Validation of user input: arrays and parameters.

Arrays are refused if their conversion would lose information. Parameters of estimators are fields
of classes, which also declare the constraints, as in scikit-learn. The functions that create
constraints are at the end of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np

from dhsic._typing import Array, Mask
from dhsic.errors import InputError

#: Squares, products and sums of numbers up to this size are far from the limits of float64.
LARGEST = 1e60
#: Integer up to which float64 is exact; and bytes of the widest integer types, and of float64.
EXACT, WIDE = 2**53, 8

#: Maximum difference between two computations of the same number, in units in the last place.
ROUNDING = 4

#: Function that raises an error for invalid values of a named parameter.
Constraint = Callable[[str, Any], object]


def as_array(given: Any, what: str) -> Array:
    """Convert input to a NumPy array; raise InputError if this loses information.

    `what` is the name of the input in messages.
    """
    refuse_lossy(given, what)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:  # ragged lists, arrays on another device
        raise InputError(
            f"{what} is not an array ({str(error).rstrip('.')}). Pass a NumPy array, or lists of "
            "equal length."
        ) from error
    if array.ndim == 0:
        raise InputError(
            f"{what}={str(given)[:40]!r} ({type(given).__name__}) is not an array. Pass an array "
            "with one row per sample."
        )
    return np.asarray(in_double(array))


def in_double(values: Any) -> Any:
    """Convert an array or series of numbers with more than 64 bits to float64.

    Other values are returned unchanged. pandas cannot compare or hash such long numbers.

    >>> in_double(np.array([0.5], dtype=np.longdouble)).dtype, in_double(np.array([1])).dtype
    (dtype('float64'), dtype('int64'))
    """
    return values.astype(np.float64) if is_long(values.dtype) else values


def is_long(dtype: Any) -> bool:
    """Whether numbers of a type have more than 64 bits, as `numpy.longdouble` on some machines."""
    return getattr(dtype, "kind", "") == "f" and getattr(dtype, "itemsize", 0) > WIDE


def beyond_float(values: Array) -> Mask:
    """Return the mask of integers beyond the range in which float64 is exact.

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
    beyond: Mask = values > most
    return beyond | (values < -most) if values.dtype.kind == "i" else beyond


def refuse_wide(given: Any, what: str) -> None:
    """Raise InputError for integers that float64 would round, including Python integers."""
    array = np.asarray(given)
    wide = beyond_float(array)
    if array.dtype.kind == "O":
        is_wide = [isinstance(v, Integral) and abs(int(v)) > EXACT for v in array.ravel()]
        wide = np.reshape(is_wide, array.shape)
    if wide.any():
        at = tuple(int(i) for i in np.argwhere(wide)[0])
        if array.dtype == np.int64 and (array[wide] == np.iinfo(np.int64).min).all():
            raise InputError(
                f"{int(wide.sum())} values in {what} are the smallest 64-bit integer (first at "
                f"sample {at[0]}), which usually stands for a missing date (NaT) or number. "
                "Exclude these samples, or write the values as float64, with NaN where they are "
                "missing."
            )
        raise InputError(
            f"{int(wide.sum())} integers in {what} are larger than 2**53, beyond which float64 "
            f"cannot represent every integer (first at sample {at[0]}: {array[at]}), so digits "
            "would be lost. Subtract an offset, or convert them to text (.astype(str)) if they "
            "are names of classes."
        )


def is_numeral(text: str) -> bool:
    """Whether a text is a number in plain digits.

    Python also reads 1_0 as ten, and accepts digits of all scripts; in tables, these are names.

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
    """Whether a value is a finite real number and not a boolean."""
    is_real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    return is_real and bool(np.isfinite(float(value)))


def is_positive(value: Any) -> bool:
    """Whether a value is a finite number above 0."""
    return is_number(value) and float(value) > 0


def is_count(value: Any, least: int = 1) -> bool:
    """Whether a value is an integer of at least `least` and not a boolean."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def refuse_lossy(given: Any, what: str) -> None:
    """Raise InputError for objects that NumPy would misread: sparse or masked arrays, AnnData."""
    if type(given).__module__.partition(".")[0] == "anndata":
        raise InputError(
            f"{what} is an anndata {type(given).__name__} object, which contains several "
            "matrices. Pass the matrix adata.X (adata.X.toarray() if it is sparse and fits in "
            "memory), and labels as adata.obs[...]. Or pass the path of its Zarr store, with "
            "variable='X'."
        )
    if hasattr(given, "tocsc") or type(given).__module__.partition(".")[0] in ("scipy", "sparse"):
        raise InputError(
            f"{what} is a sparse {type(given).__name__} of shape {given.shape}, but dhsic needs "
            f"a dense matrix here. Pass {what}.toarray() if it fits in memory; otherwise write "
            "it to Zarr as a dense array."
        )
    if isinstance(given, np.ma.MaskedArray):
        raise InputError(
            f"{what} is a masked array, and its mask would be lost. Pass "
            f"{what}.astype(float).filled(np.nan)."
        )


def as_numbers(given: Any, what: str) -> Array:
    """Convert input to a NumPy array of finite float64 numbers, or raise InputError."""
    array = as_array(given, what)
    if array.dtype.kind not in "biufO":
        refuse_dtype(array.dtype, what)
    refuse_wide(array, what)
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what} contains values that are not numbers ({error}). Pass numbers; encode text, "
            "for example with pandas.get_dummies."
        ) from error
    bad = np.argwhere(~(np.abs(numbers) < LARGEST))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise InputError(
            f"{len(bad)} values in {what} are NaN, infinite or larger than {LARGEST:g} (first at "
            f"sample {at[0]}: {numbers[at]}). Fill them in, rescale them, or drop these samples."
        )
    return np.asarray(numbers)


def refuse_dtype(dtype: Any, what: str) -> NoReturn:
    """Raise InputError for a dtype that is not real: complex, text, dates, objects."""
    kind = np.dtype(dtype).kind
    if kind == "c":
        raise InputError(
            f"The dtype of {what} is {dtype}. Complex data not supported: pass the magnitude "
            "(numpy.abs), or the real and imaginary parts as separate columns."
        )
    if kind in "mM":
        raise InputError(
            f"The dtype of {what} is {dtype}, which are dates or durations. Pass numbers, for "
            f"example days: ({what} - {what}.min()) / np.timedelta64(1, 'D')."
        )
    raise InputError(
        f"The dtype of {what} is {dtype}, but must be bool, integer or float. Convert it "
        "(.astype('float32')), encode text (pandas.get_dummies), or choose another variable."
    )


def check_symmetric(A: Array, what: str, letter: str) -> None:
    """Raise InputError if a matrix A is not symmetric up to rounding.

    In the message, `what` describes the matrix, and `letter` is its symbol in a formula.
    """
    worst = float(np.abs(A - A.T).max(initial=0.0))
    if worst > 1e-8 * float(np.abs(A).max(initial=0.0)):
        raise InputError(
            f"{what} is not symmetric (largest difference {worst:.3g}); pass ({letter} + "
            f"{letter}') / 2."
        )


# Parameters --------------------------------------------------------------------------------


def such(holds: Callable[[Any], bool], remedy: str, verdict: str = "") -> Constraint:
    """Return the constraint that `holds(value)` is true.

    The error message consists of the value, `verdict`, "; pass " and `remedy`.
    """

    def check(name: str, value: Any) -> None:
        if not holds(value):
            raise InputError(f"{name}={value!r}{verdict}; pass {remedy}")

    return check


def one_of(options: Collection[str | None], remedy: str) -> Constraint:
    """Return the constraint that a value is one of `options`; for `remedy`, see `such`."""
    return such(
        lambda value: (value is None or isinstance(value, str)) and value in options,
        remedy,
        " is unknown",
    )


def by(check: Callable[[Any], object]) -> Constraint:
    """Return the constraint that `check` raises no error for a value."""
    return lambda _, value: check(value)


def seed_of(random_state: Any) -> int:
    """Convert `random_state` to a seed: an integer, 0 for None, or a draw from a `RandomState`."""
    if random_state is None:
        return 0
    if is_count(random_state, 0):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.get_state(legacy=False)["state"]["key"][0])
    raise InputError(
        f"random_state={random_state!r} is not a valid seed; pass a whole number from 0."
    )


POSITIVE = such(is_positive, "a number above 0.")
COUNT = such(is_count, "a whole number from 1.")
SCALING = such(
    lambda value: (
        isinstance(value, bool | np.bool_)
        or (isinstance(value, str) and value in ("auto", "presence"))
    ),
    "'auto', 'presence', True or False.",
)
BYTES = such(
    lambda n: n is None or (n is not True and isinstance(n, Real) and float(n) > 0),
    "a number of bytes, such as 8 * 2**30, or None for all memory of the machine.",
)
