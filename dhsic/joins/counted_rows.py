"""Sample names that are row numbers, counted from different starts, or in another order.

- If the data count samples from 0 and a table from 1, all names but one match, and each row is
  matched to the neighbour of its sample.
- If the data have no sample names, rows are matched by position. If a column of the table, or an
  index of pandas, numbers the rows and is not ascending, the table was sorted or shuffled, and the
  data perhaps were not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.joins.keys import Key, as_text, free, quoted
from dhsic.sources.counted_names import Count, counted_anew

#: Minimum number of rows; with fewer, a measurement may be all of 1, 2, 3, ... by chance.
FEWEST = 10
#: Maximum range of numbers that count rows, relative to the number of rows: some were removed.
MOST_GAPS = 1.25


def refuse_other_start(what: str, key: Key, ours: Array, rewriting: Callable[[str], str]) -> None:
    """Refuse names that count from 0 in the table and from 1 in the data, or the reverse.

    The table and the data must each have a number that the other lacks. If all numbers of one lie
    between the smallest and the largest of the other, they may be the same samples.

    Parameters
    ----------
    what : str
        Name of the table in messages.
    key : Key
        Column that names the samples in the table.
    ours : (m,) array of str
        Sample names of the data.
    rewriting : callable
        Returns advice on how to change the names of the table by a pandas expression; "" if there
        is none.
    """
    theirs, own = Count.of(key.values), Count.of(ours)
    if theirs is None or own is None or not own.is_shifted(theirs):
        return
    expression = counted_anew(key.values, own.prefix, own.first - theirs.first)
    rewritten = rewriting(expression) if expression else ""
    side = "the data" if own.first < theirs.first else what
    first = min(own.first, theirs.first)
    raise InputError(
        f"Column {key.description} of {what} numbers its rows {theirs}, and the samples of the "
        f"data are numbered {own}, so a match by these numbers may assign each row to the next "
        "sample. If one numbering starts at 0 and the other at 1, make the names the "
        f"same{': ' * bool(rewritten)}{rewritten}. If equal numbers are the same sample, remove "
        f"sample {own.prefix}{first} from {side}."
    )


def counts_in_other_order(values: Array, *, has_gaps: bool = True) -> bool:
    """Whether a column numbers its rows from 0 or 1, but not in ascending order.

    With `has_gaps`, some rows may have been removed.

    >>> counts_in_other_order(np.roll(np.arange(20), 3)), counts_in_other_order(np.arange(20))
    (True, False)
    """
    numbers = _whole_numbers(values)
    if numbers is None:
        return False
    ascending, n = np.sort(numbers), numbers.size
    is_count = ascending[0] in (0, 1) and bool((np.diff(ascending) > 0).all())
    span = MOST_GAPS * n if has_gaps else n
    return is_count and ascending[-1] - ascending[0] < span and bool((ascending != numbers).any())


def _whole_numbers(values: Array) -> Float | None:
    """Convert a column (rows,) of whole numbers to float64; None for others, or few rows."""
    column = np.asarray(values)
    if column.ndim != 1 or len(column) < FEWEST or column.dtype.kind not in "iufOUT":
        return None
    if column.dtype.kind not in "iuf":
        texts = as_text(column)
        if not all(text.isascii() and text.isdigit() for text in texts):
            return None
        column = texts
    numbers = column.astype(np.float64)
    return numbers if (numbers == np.floor(numbers)).all() else None


def refuse_other_order(
    what: str, columns: Mapping[str, Array], wanted: tuple[str, ...], by_position: str
) -> None:
    """Refuse a table whose rows are numbered in another order, if the data have no sample names.

    Parameters
    ----------
    what : str
        Name of the table in messages.
    columns : mapping
        Columns of the table, (rows,) each.
    wanted : tuple of str
        Columns of labels or covariates, which do not number rows.
    by_position : str
        Advice on how to match rows by position.
    """
    for name in free(columns, wanted):
        if counts_in_other_order(columns[name]):
            raise InputError(
                f"Column {quoted(name)} of {what} numbers the rows, but in another order "
                f"({', '.join(map(str, columns[name][:3]))}, ...), and the data have no sample "
                "names to compare with. If the column numbers the samples of the data, sort the "
                f"rows of {what} by it. Otherwise, {by_position}"
            )


def refuse_shuffled_index(what: str, index: Array) -> None:
    """Refuse labels with a shuffled index 0, 1, 2, ... of pandas, if X has no sample names.

    `what` is the name of the labels in messages.
    """
    if counts_in_other_order(index, has_gaps=False):
        raise InputError(
            f"The index of {what} has the numbers from {np.min(index)} to {np.max(index)} in "
            f"another order ({', '.join(map(str, index[:3]))}, ...), and X has no sample names to "
            f"compare with. If X is in the order of these numbers, pass {what}.sort_index(). If "
            f"the rows of {what} are in the order of X, pass {what}.to_numpy()."
        )
