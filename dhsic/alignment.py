"""Whether labels name the same samples as the data, in the same order.

Rows are matched by position, as NumPy does. Where both sides carry names (the index of pandas,
the coordinate of xarray, the sample names of a store) and the names say otherwise, position is
wrong, and silently so; then there is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError


def names_of(given: Any) -> Array | None:
    """Names that a pandas or xarray object carries for its rows, or None."""
    if hasattr(given, "iloc"):  # pandas, whose names are its index
        return np.asarray(given.index)
    dims = getattr(given, "dims", ())
    if hasattr(given, "coords") and isinstance(dims, tuple) and dims and dims[0] in given.coords:
        return np.asarray(given.coords[dims[0]].values)
    return None


def check_order(samples: Array | None, given: Any, what: str, remedy: str | None = None) -> None:
    """Refuse labels or covariates (`what`) that name the samples of the data in another order.

    Names that have nothing in common are of different kinds and say nothing, nor does a plain
    count 0, 1, 2, ... that the other side shares in part only.

    Parameters
    ----------
    samples : (m,) array or None
        Names of the samples of the data.
    given : object
        What the caller passed: names are taken from it where it has any.
    what : str
        How messages call it.
    remedy : str, optional
        Expression that puts it in order.
    """
    theirs = names_of(given)
    if samples is None or theirs is None or len(samples) != len(theirs):
        return
    ours, named = [str(name) for name in samples], [str(name) for name in theirs]
    shared = len(set(ours) & set(named))
    counted = [str(i) for i in range(len(ours))]
    if ours == named or shared == 0 or (counted in (ours, named) and shared < len(set(ours))):
        return
    first = next(i for i, pair in enumerate(zip(ours, named, strict=True)) if pair[0] != pair[1])
    problem = f"sample {first} is {ours[first]!r} in X and {named[first]!r} in {what}"
    raw = f"{what}.to_numpy()"
    lacking = len(set(ours) - set(named))
    if lacking:
        raise InputError(
            f"Samples of {what} are others than those of X: {lacking} of X's {len(set(ours))} "
            f"names are not among them ({problem}). Take the samples that both have, or pass "
            f"{raw} if the rows belong together by position."
        )
    if len(set(ours)) < len(ours):
        raise InputError(
            f"Samples are in another order in {what} than in X ({problem}), and names repeat, so "
            f"they cannot be matched. Make names unique, or pass {raw} if the rows belong together "
            "by position."
        )
    raise InputError(
        f"Samples are in another order in {what} than in X: {problem}. Pass "
        f"{remedy or _in_order(given, what)}, or {raw} if the rows belong together by position."
    )


def _in_order(given: Any, what: str) -> str:
    if hasattr(given, "iloc"):
        return f"{what}.loc[X.index]"
    return f"{what}.sel({given.dims[0]}=X[{given.dims[0]!r}])"
