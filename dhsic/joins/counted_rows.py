"""Sample names that are row numbers, counted from different starts, or in another order.

- If the data count samples from 0 and a table from 1, all names but one match, and each row is
  matched to the neighbour of its sample.
- If the data have no sample names, rows are matched by position. A column of the table, or an index
  of pandas, that numbers the rows in another order than theirs shows that the table was sorted or
  shuffled, and the data perhaps were not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.joins.keys import Key, as_text, free, quoted, written_once

#: Minimum number of rows; with fewer, a measurement may be all of 1, 2, 3, ... by chance.
FEWEST = 10
#: Maximum range of numbers that count rows, relative to the number of rows: some were removed.
MOST_GAPS = 1.25
#: Pattern of names that may count samples: a text, and a number.
NUMBERED = re.compile(r"(.*?)(\d+)", re.ASCII | re.DOTALL)
#: Pattern of texts that need no quotes or escapes in a command.
SIMPLE = re.compile(r"[\w.-]*", re.ASCII)


class Count(NamedTuple):
    """Names that count samples: the text before the number, the first and the last number."""

    prefix: str
    first: int
    last: int

    @classmethod
    def of(cls, names: Array) -> Count | None:
        """Return the count of some names; None if they do not count from 0 or 1.

        >>> Count.of(as_text(["s2", "s1", "s4"])), Count.of(as_text(["0_0", "1_1"]))
        (Count(prefix='s', first=1, last=4), Count(prefix='', first=0, last=1))
        >>> Count.of(as_text([1, 900])), Count.of(as_text(["a1", "b2"]))
        (None, None)
        """
        once = written_once(names)
        matches = [NUMBERED.fullmatch(name) for name in (names if once is None else once)]
        prefixes = {match and match[1] for match in matches}
        if len(prefixes) != 1 or None in prefixes:
            return None
        numbers = {int(match[2]) for match in matches if match}
        first, last = min(numbers), max(numbers)
        is_dense = last - first < MOST_GAPS * len(numbers)
        return cls(str(prefixes.pop()), first, last) if first in (0, 1) and is_dense else None

    def __str__(self) -> str:
        return f"from {self.prefix}{self.first} to {self.prefix}{self.last}"


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
    if theirs is None or own is None or theirs.prefix != own.prefix:
        return
    is_shifted = (theirs.first - own.first) * (theirs.last - own.last) > 0
    if not is_shifted:
        return
    expression = _counted_anew(key.values, own.prefix, own.first - theirs.first)
    rewritten = rewriting(expression) if expression else ""
    side = "the data" if own.first == 0 else what
    raise InputError(
        f"Column {key.description} of {what} numbers its rows {theirs}, and the samples of the "
        f"data are numbered {own}, so by these numbers a row may belong to the neighbour of its "
        "sample. If they were counted from different starts, make the names the same"
        f"{': ' * bool(rewritten)}{rewritten}. If equal numbers are the same sample, remove sample "
        f"{own.prefix}0 from {side}."
    )


def _counted_anew(names: Array, prefix: str, step: int) -> str:
    """Return a pandas expression that adds `step` to names with a prefix; "" if this is not simple.

    >>> _counted_anew(as_text([0, 1]), "", 1), _counted_anew(as_text(["s1", "s2"]), "s", -1)
    ('{v}.astype(int) + 1', "'s' + ({v}.str[1:].astype(int) - 1).astype(str)")
    """
    added = f".astype(int) {'+' if step > 0 else '-'} {abs(step)}"
    numbers = [name.removeprefix(prefix) for name in names]
    is_simple = SIMPLE.fullmatch(prefix) and all(
        number.isdecimal() and number == str(int(number)) for number in numbers
    )
    if not is_simple:
        return ""
    if not prefix:
        return f"{{v}}{added}"
    return f"{prefix!r} + ({{v}}.str[{len(prefix)}:]{added}).astype(str)"


def counts_in_other_order(values: Array, *, has_gaps: bool = True) -> bool:
    """Whether a column numbers its rows from 0 or 1, but not in ascending order.

    `has_gaps`: some rows may have been removed.

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
    """Return a column (rows,) as whole numbers; None if it has other values, or too few."""
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
                f"Column {quoted(name)} of {what} numbers the rows in another order than theirs "
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
