"""Python code that puts labels or covariates in the order of the samples of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from os import PathLike, fspath
from typing import Any

import pandas as pd

from dhsic.joins.keys import as_text
from dhsic.sources.opening import open_source

#: Pandas expressions that write an index {v} as `as_text` does, with their functions; the first
#: that has this result is used.
_AS_TEXT: dict[str, Callable[[pd.Index], pd.Index]] = {
    "{v}": lambda v: v,
    "{v}.map(lambda t: '_'.join(map(str, t)))": lambda v: v.map(lambda t: "_".join(map(str, t))),
    "{v}.astype(str)": lambda v: v.astype(str),
    "{v}.astype(str).str.strip()": lambda v: v.astype(str).str.strip(),
    "{v}.astype(int).astype(str)": lambda v: v.astype(int).astype(str),
    "{v}.astype(str).str.strip().str.normalize('NFC')": lambda v: (
        v.astype(str).str.strip().str.normalize("NFC")
    ),
}


def reordered(what: str, labels: Any, names: Any, code: str) -> str:
    """Return code that sorts labels into the order of the data; "" if no code can do this.

    Parameters
    ----------
    what : str
        Python expression for the labels.
    labels : pandas or xarray object
        The labels. Their row names contain all `names`, after conversion to text.
    names : (m,) array or index
        Names of the samples of the data.
    code : str
        Python expression for `names`.
    """
    is_pandas, ours = hasattr(labels, "iloc"), pd.Index(names)
    dim = "" if is_pandas else labels.dims[0]
    theirs = labels.index if is_pandas else labels[dim].to_index()
    if {*ours.tolist()} <= {*theirs.tolist()}:
        return f"{what}.loc[{code}]" if is_pandas else f"{what}.sel({dim}={code})"
    is_index = code.endswith((".index", ".columns"))
    our_text = _as_text_code(ours, code if is_index else f"pandas.Index({code})")
    their_text = _as_text_code(theirs, f"{what}.index" if is_pandas else f"{what}.indexes[{dim!r}]")
    if not (our_text and their_text):
        return ""
    if is_pandas:
        is_text = their_text == f"{what}.index"
        return f"{what if is_text else f'{what}.set_axis({their_text})'}.loc[{our_text}]"
    return f"{what}.assign_coords({{{dim!r}: {their_text}}}).sel({dim}={our_text})"


def opening_code(data: Any, options: Mapping[str, Any]) -> str:
    """Return code that opens data with the same options; data that are no path are called X.

    The values of `storage_options` are not written, because they may contain passwords.

    >>> opening_code("e.csv", {"not_features": ("age",), "na": ()})
    "dhsic.open_source('e.csv', not_features=['age'])"
    """
    parts = [repr(fspath(data)) if isinstance(data, str | PathLike) else "X"]
    defaults = signature(open_source).parameters
    for name, value in options.items():
        plain = [*value] if isinstance(value, tuple) else value
        if repr(value) != repr(defaults[name].default) and plain != []:
            parts.append(f"{name}={'...' if name == 'storage_options' else repr(plain)}")
    return f"dhsic.open_source({', '.join(parts)})"


def _as_text_code(names: pd.Index, code: str) -> str:
    """Return code that converts names to text like `as_text`; "" if no expression does."""
    wanted = as_text(names).tolist()
    for change, function in _AS_TEXT.items():
        try:
            texts = function(names).tolist()
        except (TypeError, ValueError):  # such as float("P1")
            continue
        if texts == wanted:
            return change.format(v=code)
    return ""
