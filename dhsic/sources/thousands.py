"""Detection of points that separate thousands, as in 818, 1.840 and 12.300.

If such points are read as decimal points, 1840 becomes 1.84 but 818 stays 818, so the ranking of
the column is silently wrong. (If every number has such a point, all are divided by 1000, which does
not change a ranking.) If all numbers with a point have three digits after it, the following
indicates that points separate thousands:

- Whole numbers of three digits without a point, such as 818. A program that writes three decimals
  would write 818.000.
- Final zeros, as in 1.840. A program that omits final zeros would write 1.84. `MANY` different
  numbers without a final zero indicate the same, because some decimals would probably end in 0.
- Numbers with a point that, read as decimals, are far below (`BELOW`) most numbers without a point.
  A few true decimals among whole numbers, such as means in place of missing values, would be near
  the middle of the whole numbers. Beside `MANY` numbers with a point, one or two whole numbers are
  sufficient, unless these may be codes or limits.

Decimal numbers below 1, numbers with fewer or more decimals, and whole numbers of four digits
without a point show that points do not separate thousands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError

#: Patterns of whole numbers below a thousand, and of numbers with three digits after a point.
_WHOLE = re.compile(r"[+-]?\d{1,3}")
POINTED = r"[+-]?[1-9]\d{0,2}\.\d{3}"
_POINTED = re.compile(POINTED)
#: Minimum number of different whole numbers of three digits; and the smallest such number.
FEWEST, LARGE = 3, 100
#: Minimum number of different numbers with a point, if none has a final zero; and if there are in
#: addition fewer than `FEWEST` whole numbers.
MANY, MANY_BESIDE_FEW = 10, 30
#: Pattern of whole numbers that may be codes or limits: 999, 888, 990, 500.
_ROUND = re.compile(r"[+-]?(99\d|(\d)\2\2|\d00)")
#: Minimum ratio of the median whole number to thousands that are read as decimals.
BELOW = 4
#: Python expressions that convert a field v, for points that separate thousands and for decimals.
WITHOUT_POINTS = f"v.replace('.', '') if re.fullmatch(r'{POINTED}', v.strip()) else v"
WITH_POINTS = "v.strip() + '.0' if re.fullmatch(r'[+-]?\\d+', v.strip()) else v"


@dataclass
class PointedNumbers:
    """Counts of the number texts of a column: whole numbers, and numbers with a point.

    Attributes
    ----------
    whole : dict
        Number of occurrences of each whole number below a thousand, by its text.
    pointed : dict
        Number of occurrences of each number with three digits after a point, by its text.
    are_others : bool
        Whether there are any other numbers or texts. Counting may stop at the first of them.
    """

    whole: dict[str, int] = field(default_factory=dict)
    pointed: dict[str, int] = field(default_factory=dict)
    are_others: bool = False

    @classmethod
    def of(cls, texts: Iterable[str]) -> PointedNumbers:
        """Count texts without missing values; stop at the first text of another form."""
        numbers = cls()
        for text in texts:
            numbers.add(text)
            if numbers.are_others:
                break
        return numbers

    def add(self, text: str) -> None:
        """Count a text, which has no surrounding blanks."""
        if _POINTED.fullmatch(text):
            self.pointed[text] = self.pointed.get(text, 0) + 1
        elif _WHOLE.fullmatch(text):
            self.whole[text] = self.whole.get(text, 0) + 1
        else:
            self.are_others = True

    @property
    def may_separate_thousands(self) -> bool:
        """Whether points certainly or possibly separate thousands.

        >>> PointedNumbers.of(["818", "1.840", "609", "2.415", "350"]).may_separate_thousands
        True
        >>> PointedNumbers.of(["818", "1.84", "609", "2.415", "350"]).may_separate_thousands
        False
        >>> PointedNumbers.of(["165", "172", "171.333", "180"]).may_separate_thousands
        False
        """
        large = {text.lstrip("+") for text in self.whole if abs(int(text)) >= LARGE}
        if self.are_others or not self.pointed or not large:
            return False
        has_zero = any(text.endswith("0") for text in self.pointed)
        if len(large) < FEWEST:
            n_least = MANY if has_zero else MANY_BESIDE_FEW
            are_exact = not any(map(_ROUND.fullmatch, large))
            return are_exact and len(self.pointed) >= n_least and self._are_below()
        return len(self.pointed) >= MANY or has_zero or self._are_below()

    def _are_below(self) -> bool:
        """Whether numbers with a point, read as decimals, are far below the whole numbers."""
        middle = np.median([abs(int(text)) for text, n in self.whole.items() for _ in range(n)])
        return bool(max(abs(float(text)) for text in self.pointed) * BELOW < middle)

    @property
    def sentence(self) -> str:
        """Sentence with the counts and examples of numbers with and without points."""
        pointed, whole = [*self.pointed], [t for t in self.whole if abs(int(t)) >= LARGE]
        return (
            f"{sum(self.pointed.values()):,} numbers have three digits after a point "
            f"({', '.join(pointed[:2])}) and {sum(self.whole.values()):,} have no point "
            f"({', '.join(whole[:2])}), so the points may separate thousands: {pointed[0]} is "
            f"{pointed[0].replace('.', '')} or {float(pointed[0]):g}."
        )


class ThousandsSearch:
    """Search, while samples are read, for features in which points may separate thousands.

    Only the text of the first fraction and of the first large whole number of a feature is
    examined. This excludes nearly all features at once. The texts of the other features must be
    read again.
    """

    def __init__(self, width: int) -> None:
        self._at = np.arange(width)
        self._has_fraction = np.zeros(width, dtype=bool)
        self._has_large = np.zeros(width, dtype=bool)

    def add(self, values: Array, fields: Sequence[str]) -> None:
        """Examine the values (width,) of a sample, NaN if missing, and their texts `fields`."""
        at = self._at
        if not at.size:
            return
        if at.size < values.size:
            values = values[at]
        is_other = np.zeros(0, dtype=np.int64)
        if not self._has_fraction.all():
            new = np.flatnonzero((np.floor(values) < values) & ~self._has_fraction)
            self._has_fraction[new] = True
            is_odd = [not _POINTED.fullmatch(fields[i].strip()) for i in at[new]]
            is_other = new[np.array(is_odd, dtype=bool)]
        is_large = np.abs(values) >= LARGE  # False for NaN
        if is_large.any():
            new = np.flatnonzero(is_large & ~(np.floor(values) < values) & ~self._has_large)
            self._has_large[new] = True
            is_long = [not _WHOLE.fullmatch(fields[i].strip()) for i in at[new]]
            is_other = np.append(is_other, new[np.array(is_long, dtype=bool)])
        if is_other.size:
            kept = np.setdiff1d(np.arange(at.size), is_other)
            self._at, self._has_fraction = at[kept], self._has_fraction[kept]
            self._has_large = self._has_large[kept]

    def likely(self) -> list[int]:
        """Return the positions of the features that must be examined completely as text."""
        return [int(i) for i in self._at[self._has_fraction & self._has_large]]


def are_likely(values: Array) -> bool:
    """Whether points in the values of one feature (m,) may separate thousands."""
    return bool((np.abs(values) >= LARGE).any() and (np.floor(values) < values).any())


def refuse_thousands(
    path: str, rewritten: Callable[[str], str], named: Mapping[str, PointedNumbers]
) -> NoReturn:
    """Raise InputError for features in which points may separate thousands.

    `rewritten` converts an expression for a field v to a command that rewrites the table; the
    message contains a command for each meaning of the points. `named` contains the numbers of each
    feature, by the description of its column or row.
    """
    others = f" The same is true of {len(named) - 1:,} more." if len(named) > 1 else ""
    called, numbers = next(iter(named.items()))
    raise InputError(
        f"{path}: in {called} {numbers.sentence}{others} If the points separate thousands, "
        f"remove them: {rewritten(WITHOUT_POINTS)}. If they are decimal points, write a point in "
        f"all numbers: {rewritten(WITH_POINTS)}"
    )
