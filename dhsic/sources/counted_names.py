"""Sample names that count the samples from 0 or 1, such as s0, s1, s2, ..."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from dhsic._typing import Array

#: Maximum ratio of the range of the numbers in sample names to their count. It exceeds 1 because
#: some samples may have been removed.
MOST_GAPS = 1.25
#: Minimum number of samples that are counted from another number than 0 and 1.
FEWEST = 20
#: Pattern of names that may count samples: a text, and a number.
NUMBERED = re.compile(r"(.*?)(\d+)", re.ASCII | re.DOTALL)
#: Pattern of texts that need no quotes or escapes in a command.
SIMPLE = re.compile(r"[\w.-]*", re.ASCII)


class Count(NamedTuple):
    """Description of names that count samples: prefix, first number and last number."""

    prefix: str
    first: int
    last: int

    @classmethod
    def of(cls, names: Array) -> Count | None:
        """Return the count in sample names; None if the names do not count samples.

        Samples are counted from 0 or 1. Without gaps, the first samples may have been removed.

        >>> Count.of(np.array(["s2", "s1", "s4"])), Count.of(np.array(["0_0", "1_1"]))
        (Count(prefix='s', first=1, last=4), Count(prefix='', first=0, last=1))
        >>> Count.of(np.array(["1", "900"])), Count.of(np.array(["a1", "b2"]))
        (None, None)
        >>> Count.of(np.array([f"s{i}" for i in range(5, 45)]))
        Count(prefix='s', first=5, last=44)
        """
        once = written_once(names)
        matches = [NUMBERED.fullmatch(name) for name in (names if once is None else once)]
        prefixes = {match and match[1] for match in matches}
        if len(prefixes) != 1 or None in prefixes:
            return None
        numbers = {int(match[2]) for match in matches if match}
        first, last = min(numbers), max(numbers)
        is_dense = last - first < MOST_GAPS * len(numbers) and first in (0, 1)
        is_dense |= last - first < len(numbers) and len(numbers) >= FEWEST
        return cls(str(prefixes.pop()), first, last) if is_dense else None

    def is_shifted(self, other: Count) -> bool:
        """Whether two counts with one prefix are shifted: one begins and ends at larger numbers.

        >>> [Count("", 0, 9).is_shifted(Count("", 1, last)) for last in (10, 9)]
        [True, False]
        """
        if self.prefix != other.prefix:
            return False
        shifts = other.first - self.first, other.last - self.last
        if {self.first, other.first} == {0, 1}:
            return shifts[0] * shifts[1] > 0
        return shifts[0] == shifts[1] and abs(shifts[0]) == 1

    def __str__(self) -> str:
        return f"from {self.prefix}{self.first} to {self.prefix}{self.last}"


def written_once(values: Array) -> Array | None:
    """Return the ids (m,) if all values (m,) have the form ``id_id``; else None."""
    halves = [value[: len(value) // 2] for value in values]
    if all(value == f"{half}_{half}" for value, half in zip(values, halves, strict=True)):
        return np.array(halves, dtype=object)
    return None


def counted_anew(names: Array, prefix: str, step: int) -> str:
    """Return a pandas expression that adds `step` to the numbers in names that begin with `prefix`.

    The result is "" if numbers have leading zeros, or if the prefix would need escapes.

    >>> counted_anew(np.array(["0", "1"]), "", 1), counted_anew(np.array(["s1", "s2"]), "s", -1)
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
