"""Fast conversion of tables to text by pyarrow, with the same output as pandas.

Arrow and Python both write the shortest digits that determine a float, but place the decimal point
differently: ``3`` and ``3.0``, ``0.00001`` and ``1e-05``, ``1e-7`` and ``1e-07``. This module
changes the text of Arrow to that of Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from dhsic._typing import Array, Float

#: Magnitude from which floats are written by Python.
LARGE = 1e10


def packed(values: Array, special: str = "") -> Any:
    """Convert an array of text to an Arrow array, which is indexed and written faster.

    Arrays of other types, and text with any character in `special`, are returned unchanged. Without
    pyarrow, all arrays are returned unchanged.
    """
    if values.dtype != object or find_spec("pyarrow") is None:
        return values
    import pyarrow as pa

    try:
        column = pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return values
    texts = [
        (part.buffers()[2] or pa.py_buffer(b"")).to_pybytes()
        for part in getattr(column, "chunks", [column])
    ]
    is_special = any(each.encode() in text for each in special for text in texts)
    return values if is_special else column


def text_rows(columns: Mapping[str, Any], separator: str) -> bytes | None:
    """Convert the rows of a table to text like ``pandas.DataFrame.to_csv``, without a header.

    Columns are NumPy arrays, or Arrow arrays from `packed` without quotes, line breaks and
    separators. NaN and empty text become empty fields. The result is None if pyarrow is not
    installed, if a value needs quotes, or if a column has another type than text, boolean, integer
    or float64.
    """
    if find_spec("pyarrow") is None:
        return None
    import pyarrow as pa
    from pyarrow import csv

    written = []
    for values in columns.values():
        column = _text_column(values, separator)
        if column is None:
            return None
        written.append(column)
    file = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, delimiter=separator, quoting_style="none")
    csv.write_csv(pa.table(written, names=[*map(str, range(len(written)))]), file, options)
    return file.getvalue().to_pybytes()  # type: ignore[no-any-return]  # pyarrow's


def _text_column(values: Any, separator: str) -> Any:
    """Convert values to an Arrow column with the text of pandas; None if this is impossible."""
    import pyarrow as pa
    from pyarrow import compute

    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind in "iu":
        return pa.array(values)
    if values.dtype.kind == "b":
        return compute.if_else(pa.array(values), "True", "False")
    if values.dtype == np.float64:
        return _float_column(values)
    if values.dtype != object:
        return None
    try:
        column = pa.array(values, pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return None
    needs_quotes = compute.match_substring_regex(column, f'["\r\n{re.escape(separator)}]')
    return None if compute.any(needs_quotes).as_py() else column


def _float_column(values: Float) -> Any:
    """Convert floats to an Arrow column of text, as by ``repr``; NaN becomes null."""
    import pyarrow as pa
    from pyarrow import compute

    size = np.abs(values)
    column = compute.cast(pa.array(size, from_pandas=True), pa.string())
    with np.errstate(invalid="ignore"):
        is_whole = (size == np.floor(size)) & (size < LARGE)
        cases: tuple[tuple[Array, Callable[[Any], Any]], ...] = (
            (size >= LARGE, lambda texts: pa.array([repr(float(text.as_py())) for text in texts])),
            (is_whole, lambda texts: compute.binary_join_element_wise(texts, ".0", "")),
            ((size >= 1e-5) & (size < 1e-4), partial(_with_exponent, exponent=5)),
            ((size >= 1e-6) & (size < 1e-5), partial(_with_exponent, exponent=6)),
            ((size >= 1e-9) & (size < 1e-6), _with_two_digits),
        )
    for mask, written in cases:
        if mask.any():
            changed = written(column.filter(pa.array(mask)))
            column = compute.replace_with_mask(column, pa.array(mask), changed)
    if np.signbit(values).any():
        sign = compute.if_else(pa.array(np.signbit(values)), "-", "")
        column = compute.binary_join_element_wise(sign, column, "")
    return column


def _with_exponent(texts: Any, exponent: int) -> Any:
    """Convert texts such as ``0.0000123`` to ``1.23e-05``; all numbers have this exponent."""
    from pyarrow import compute

    digits = compute.utf8_slice_codeunits(texts, exponent + 1)
    first, others = (compute.utf8_slice_codeunits(digits, *part) for part in ((0, 1), (1,)))
    point = compute.if_else(compute.equal(others, ""), "", ".")
    return compute.binary_join_element_wise(first, point, others, f"e-0{exponent}", "")


def _with_two_digits(texts: Any) -> Any:
    """Convert texts such as ``1.2e-7`` to ``1.2e-07``."""
    from pyarrow import compute

    digits, exponent = (compute.utf8_slice_codeunits(texts, *p) for p in ((0, -1), (-1,)))
    return compute.binary_join_element_wise(digits, exponent, "0")
