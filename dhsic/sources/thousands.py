"""Points that separate thousands in numbers some of which are below a thousand: 818, 1.840, 12.300.

Read as decimal points they make 1.84 of 1840 and leave 818, so that a column ranks wrongly without
a sign of it. (Where every number has such a point all are divided by 1000, which changes no
ranking.) Numbers say how they were written, if all with a point have three digits behind it:

- A program that writes three decimals writes 818 as 818.000, so whole numbers without a point,
  some of them with three digits, are not its own.
- A program that leaves out zeros at the end writes 1.840 as 1.84. A zero there tells that none did;
  among `MANY` different numbers without one there would be some with fewer digits (two of three
  times, and whole numbers would be one in a thousand).
- A few decimals among whole numbers, such as means that were filled in, lie in the middle of
  these. Thousands read as decimals lie far below (`BELOW`) most numbers without a point.

Numbers below 1 with decimals, other numbers of decimals, and whole numbers of four digits without a
point speak against it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError

#: Numbers below a thousand, and numbers with three digits behind a point, as texts.
_WHOLE = re.compile(r"[+-]?\d{1,3}")
POINTED = r"[+-]?[1-9]\d{0,2}\.\d{3}"
_POINTED = re.compile(POINTED)
#: Different whole numbers of three digits, at least; and the least of these.
FEWEST, LARGE = 3, 100
#: Different numbers with a point that are enough without a zero at the end.
MANY = 10
#: How far below the middle whole number thousands lie that are read as decimals, as a factor.
BELOW = 4
#: Expressions of Python for a field v, by what points are.
WITHOUT_POINTS = f"v.replace('.', '') if re.fullmatch(r'{POINTED}', v.strip()) else v"
WITH_POINTS = "v.strip() + '.0' if re.fullmatch(r'[+-]?\\d+', v.strip()) else v"


@dataclass
class PointedNumbers:
    """Numbers of a column as texts, counted by whether they have a point.

    Attributes
    ----------
    whole : dict
        Of each whole number below a thousand, as text, how often it occurs.
    pointed : dict
        The same of numbers with three digits behind a point.
    are_others : bool
        Whether another number or text is there.
    """

    whole: dict[str, int] = field(default_factory=dict)
    pointed: dict[str, int] = field(default_factory=dict)
    are_others: bool = False

    @classmethod
    def of(cls, texts: Iterable[str]) -> PointedNumbers:
        """Count texts, without those of missing values."""
        numbers = cls()
        for text in texts:
            numbers.add(text)
            if numbers.are_others:
                break
        return numbers

    def add(self, text: str) -> None:
        """Count a text without blanks around it."""
        if _POINTED.fullmatch(text):
            self.pointed[text] = self.pointed.get(text, 0) + 1
        elif _WHOLE.fullmatch(text):
            self.whole[text] = self.whole.get(text, 0) + 1
        else:
            self.are_others = True

    @property
    def may_separate_thousands(self) -> bool:
        """Whether points separate thousands, or cannot be told from those that do.

        >>> PointedNumbers.of(["818", "1.840", "609", "2.415", "350"]).may_separate_thousands
        True
        >>> PointedNumbers.of(["818", "1.84", "609", "2.415", "350"]).may_separate_thousands
        False
        >>> PointedNumbers.of(["165", "172", "171.333", "180"]).may_separate_thousands
        False
        """
        large = {text.lstrip("+") for text in self.whole if abs(int(text)) >= LARGE}
        if self.are_others or not self.pointed or len(large) < FEWEST:
            return False
        if len(self.pointed) >= MANY or any(text.endswith("0") for text in self.pointed):
            return True
        middle = np.median([abs(int(text)) for text, n in self.whole.items() for _ in range(n)])
        return bool(max(abs(float(text)) for text in self.pointed) * BELOW < middle)

    @property
    def sentence(self) -> str:
        """Sentence on the two ways in which numbers are written."""
        pointed, whole = [*self.pointed], [t for t in self.whole if abs(int(t)) >= LARGE]
        return (
            f"{sum(self.pointed.values()):,} numbers have three digits behind a point "
            f"({', '.join(pointed[:2])}) and {sum(self.whole.values()):,} have none "
            f"({', '.join(whole[:2])}), so points may separate thousands: {pointed[0]} is "
            f"{pointed[0].replace('.', '')} or {float(pointed[0]):g}."
        )


class ThousandsSearch:
    """Features that may hold such numbers, by one sample after the other.

    The first fraction and the first large whole number of a feature are looked at as texts, which
    rules out nearly all features at once; of the others all texts are read again.
    """

    def __init__(self, width: int) -> None:
        self._at = np.arange(width)
        self._has_fraction = np.zeros(width, dtype=bool)
        self._has_large = np.zeros(width, dtype=bool)

    def add(self, values: Array, fields: Sequence[str]) -> None:
        """Look at the values of a sample, (width,), NaN where missing, and at their texts."""
        at = self._at
        if not at.size:
            return
        if at.size < values.size:
            values = values[at]
        is_fraction = np.floor(values) < values  # not so of NaN
        is_other = np.zeros(0, dtype=np.int64)
        new = np.flatnonzero(is_fraction & ~self._has_fraction)
        if new.size:
            self._has_fraction[new] = True
            is_other = new[[not _POINTED.fullmatch(fields[i].strip()) for i in at[new]]]
        if not self._has_large.all():
            new = np.flatnonzero((np.abs(values) >= LARGE) & ~is_fraction & ~self._has_large)
            self._has_large[new] = True
            is_long = [not _WHOLE.fullmatch(fields[i].strip()) for i in at[new]]
            is_other = np.append(is_other, new[is_long])
        if is_other.size:
            kept = np.setdiff1d(np.arange(at.size), is_other)
            self._at, self._has_fraction = at[kept], self._has_fraction[kept]
            self._has_large = self._has_large[kept]

    def likely(self) -> list[int]:
        """Positions of features all texts of which are to be looked at."""
        return [int(i) for i in self._at[self._has_fraction & self._has_large]]


def are_likely(values: Array) -> bool:
    """Whether values of one feature (m,) may be such numbers, and its texts are to be looked at."""
    n_large = np.count_nonzero(np.abs(values) >= LARGE)
    return bool(n_large >= FEWEST and (np.floor(values) < values).any())


def refuse_thousands(
    path: str, rewritten: Callable[[str], str], named: Mapping[str, PointedNumbers]
) -> NoReturn:
    """Refuse features of a table whose points may separate thousands, with a command for each way.

    `rewritten` makes a command of an expression for a field v; `named` are the numbers of each
    column or row, by what it is called.
    """
    others = f" So do {len(named) - 1:,} more." if len(named) > 1 else ""
    called, numbers = next(iter(named.items()))
    raise InputError(
        f"{path}: in {called} {numbers.sentence}{others} If they do, write numbers without them: "
        f"{rewritten(WITHOUT_POINTS)}. If they are decimal, write a point in all: "
        f"{rewritten(WITH_POINTS)}"
    )
