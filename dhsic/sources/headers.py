"""Top of a text table: lines above the header, the separator, and the header.

Programs write lines above the header: comments that begin with ``#`` (featureCounts) or ``##``,
``#1.2`` and the dimensions in GCT files, ``!Series_...`` in GEO files, ``sep=;`` in files from
Excel. The separator is the character that splits the first rows into the same number of fields;
characters in quotes do not count. A header may consist of numbers, such as wavelengths or years.
Such a row is compared with the rows below it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np

from dhsic._typing import Array
from dhsic.sources.ids import is_id, is_value
from dhsic.sources.number_fields import is_comma_number
from dhsic.validation import is_numeral

#: Separators; those that are rarely part of a name come first.
MARKS = ("\t", ",", ";", "|")
#: Limits on the first rows that are examined: number of rows, and number of characters. At least
#: two rows are examined.
MOST_ROWS, MOST_CHARACTERS = 12, 1 << 20
#: Minimum length of a row of sorted numbers that is unlikely by chance: with any steps, and with
#: equal steps.
ORDERED, EQUALLY_SPACED = 7, 5
#: Minimum number of rows for a comparison that shows that the row above them may be a header.
FEWEST_ROWS = 3
#: Minimum number of fractions below a row of whole numbers for this row to be a header.
FRACTIONS = 6
#: Formats with special lines at the beginning.
GCT, GEO = "GCT", "GEO"
#: Pattern of the line below the table in a GEO file.
GEO_END = re.compile(r"!\w+_table_end", re.IGNORECASE)

_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_GEO_LINE = re.compile(
    r"!(series|sample|platform|database|dataset|subset|annotation)_|\^\w+ ?=", re.IGNORECASE
)
_GCT_VERSION = re.compile(r"#1\.\d")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")


@dataclass(frozen=True)
class TableTop:
    """The first rows of a text table, and how its lines are read.

    Attributes
    ----------
    n_skipped : int Number of lines above the first row. separator : str A character, or "" for
    blanks. rows : list of list of str Fields of the first rows, including the header, without
    surrounding blanks. format_name : str GCT or GEO; "" for a plain table. sizes : tuple of int For
    a GCT file: numbers of features, samples, feature annotations and sample annotations. title :
    str The first line if it is a title, which neither names columns nor contains values; else "".
    n_titles : int Number of rows of titles.
    """

    n_skipped: int
    separator: str
    rows: list[list[str]]
    format_name: str = ""
    sizes: tuple[int, ...] = ()
    title: str = ""
    n_titles: int = 0


def top_of(lines: Iterator[str], *, is_list: bool = False) -> TableTop | None:
    """Read the first lines of a table, or of a list of ids; None if it has no rows."""
    numbered, above = enumerate(lines), _LinesAbove()
    first = next((one for one in numbered if above.ends_at(*one, numbered, is_list=is_list)), None)
    texts = [] if first is None else [first[1], *_some_rows(numbered)]
    comment = above.comments[-1] if above.comments else None
    if comment is None and first is None:
        return None
    separator, is_sure = above.separator, True
    if separator is None:
        separator, is_sure = _separator(texts if comment is None else [comment[1], *texts])
    if comment is not None and texts and not is_sure:
        separator, _ = _separator(texts)
    rows, n_skipped = _fields(texts, separator), 0 if first is None else first[0]
    if comment is not None:
        names = _fields([comment[1]], separator)[0]
        if not rows or _names_columns(names, rows, separator):
            n_skipped, rows = comment[0], [names, *rows]
    n_titles = _n_titles(rows)
    title = texts[0].strip() if n_titles else ""
    return TableTop(n_skipped, separator, rows, above.format_name, above.sizes, title, n_titles)


class _LinesAbove:
    """Reader of the lines above the first row, with the separator and format that they declare."""

    def __init__(self) -> None:
        self.separator: str | None = None
        self.format_name, self.sizes = "", tuple[int, ...]()
        self.comments: list[tuple[int, str]] = []

    def ends_at(
        self, number: int, line: str, numbered: Iterator[tuple[int, str]], *, is_list: bool
    ) -> bool:
        """Whether a line is the first row; if not, store the format or separator that it declares.

        In a GCT file, the next line, which contains the dimensions, is read from `numbered`.
        """
        bare = line.strip()
        if is_list or not bare or line.startswith("##"):
            return bool(bare) and not line.startswith("##")
        if declaration := _SEPARATOR_LINE.fullmatch(bare):
            self.separator = declaration[1]
        elif _GCT_VERSION.fullmatch(bare) and not self.comments:
            self.format_name, written = GCT, next(numbered, (0, ""))[1].split()
            self.sizes = tuple(map(int, written)) if all(map(str.isdigit, written)) else ()
        elif _GEO_LINE.match(line):
            self.format_name = GEO
        elif line.startswith("#"):
            self.comments.append((number, line))
        else:
            return True
        return False


def _some_rows(numbered: Iterator[tuple[int, str]]) -> list[str]:
    """Return the next non-empty lines: at least two, and up to `MOST_ROWS` if they are short."""
    texts: list[str] = []
    for _, line in numbered:
        if line.strip():
            texts.append(line)
        if len(texts) >= MOST_ROWS or (len(texts) > 1 and sum(map(len, texts)) > MOST_CHARACTERS):
            break
    return texts


def _fields(texts: Sequence[str], separator: str) -> list[list[str]]:
    """Return the stripped fields of each row that is not empty; a quoted field may span lines."""
    if not separator:
        return [fields for line in texts if (fields := by_blanks(line))]
    rows: list[list[str]] = []
    with suppress(csv.Error):  # the last line ends within a quote
        reader = csv.reader(texts, delimiter=separator, skipinitialspace=True, strict=True)
        rows.extend([field.strip() for field in fields] for fields in reader)
    return [fields for fields in rows if any(fields)] or [texts[0].split(separator)]


def by_blanks(line: str) -> list[str]:
    """Split a line at blanks; a quoted field may contain blanks."""
    if '"' not in line:
        return line.split()
    return next(csv.reader([" ".join(line.split())], delimiter=" "), [])


def _separator(texts: Sequence[str]) -> tuple[str, bool]:
    """Return the separator of lines, and whether all lines have the same number of fields.

    The separator is "" for fields separated by blanks.

    >>> _separator(["id;Glucose, fasting;b", "s1;1,5;2"]), _separator(["a|b", "1|2"])
    ((';', True), ('|', True))
    """
    rows = {mark: _fields(texts, mark) for mark in MARKS if any(mark in text for text in texts)}
    fits = {mark: _agreement(of) for mark, of in rows.items() if _width(of[0]) > 1}
    equal = [mark for mark, share in fits.items() if share == 1]
    if "\t" in equal:
        return "\t", True
    if ";" in equal and "," in equal:
        commas = sum(text.count(",") for text in texts[1:])
        if commas == sum(len(_DECIMAL_COMMA.findall(text)) for text in texts[1:]):
            return ";", True
    if equal:
        return max(equal, key=lambda mark: len(rows[mark][0])), True
    blanks = _fields(texts, "")
    if len(texts) > 1 and len(blanks[0]) > 1 and _agreement(blanks) == 1:
        return "", True
    below_title = [mark for mark, of in rows.items() if _n_titles(of)]
    if below_title:
        return below_title[0], False
    likely = [mark for mark in fits if mark != "|"]
    return max(likely, key=lambda mark: fits[mark]) if likely else "", False


def _width(fields: Sequence[str]) -> int:
    """Return the number of fields of a line without the empty fields at its end."""
    return max((i + 1 for i, field in enumerate(fields) if field), default=1)


def _agreement(rows: Sequence[Sequence[str]]) -> float:
    """Return the fraction of other rows that are as long as the first row, or one field longer."""
    header, *below = rows
    fit = {len(header), _width(header)}
    shares = [sum(len(row) in {w, w + 1} for row in below) for w in fit]
    return max(shares) / len(below) if below else 1.0


def _n_titles(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of title rows at the top; they have text in at most half of the columns."""
    width = len(rows[-1])
    n = next((i for i, row in enumerate(rows) if 2 * _width(row) > width), len(rows))
    has_values = any(is_value(field) for row in rows[:n] for field in row if field)
    is_table = width > 2 and len(rows) > n + 1 and all(len(row) == width for row in rows[n:])
    return n if is_table and not has_values else 0


def _names_columns(fields: list[str], rows: Sequence[Sequence[str]], separator: str) -> bool:
    """Whether `fields` of a line that begins with "#" are the header of the rows below it."""
    width = len(rows[0])
    is_remark = not separator and fields[0] == "#"
    if is_remark:
        del fields[0]
    if len(fields) not in (width, width - 1):
        return False
    has_ids = any(map(is_id, fields))
    if has_ids and not is_remark:
        return True
    if any(map(is_id, rows[0])) and is_header(rows[0]):
        return False
    return has_ids or (not is_remark and not _is_text_above_numbers(rows[0], rows[1:]))


def is_header(fields: Sequence[str], below: Sequence[Sequence[str]] = ()) -> bool:
    """Whether the first row of a table is a header.

    A header has a field that is a typical name of an id column, or it has no fields that are
    values, or its first field is empty or begins with "#". A row of numbers is a header if the rows
    `below` differ from it.

    >>> [is_header(line.split()) for line in ("IID 1 2", "F1 S1 0.5", "age sex", "S1 NA")]
    [True, False, True, False]
    >>> is_header(["spectrum", "900", "902"], [["a", "0.1", "0.2"], ["b", "0.3", "0.15"]])
    False
    >>> is_header(["spectrum", "900", "902"], [[s, "0.1", "0.2"] for s in "abc"])
    True
    """
    if fields[0] == "" or fields[0].startswith("#"):
        return True
    is_named = any(is_id(field) for field in fields if field)
    has_values = any(is_value(field) or is_comma_number(field) for field in fields)
    return is_named or not has_values or _are_positions(fields, below)


def _is_text_above_numbers(fields: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a column other than the first has text in the first row and numbers below."""
    columns = zip(*below, strict=False)
    return bool(below) and any(
        not is_value(name) and all(map(is_value, column)) and any(map(is_numeral, column))
        for name, column in islice(zip(fields, columns, strict=False), 1, None)
    )


def _are_positions(fields: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the numbers in a first row are column names, such as wavelengths or years.

    The result is True if they are whole numbers above fractions, or if they are sorted and the
    numbers in the rows below are not.
    """
    numbers, rows = _numbers(fields, below)
    if numbers is None or not len(rows):
        return False
    are_whole = bool((numbers == np.floor(numbers)).all())
    present = rows[~np.isnan(rows)]
    are_fractions = present.size >= FRACTIONS and bool((present != np.floor(present)).all())
    if are_whole and are_fractions and len(rows) > 1:
        return True
    if not _is_ordered(numbers):
        return False
    if are_whole and _is_text_above_numbers(fields, below):
        return True
    is_spaced = _is_spaced(numbers)
    if is_spaced and numbers.size >= EQUALLY_SPACED and not any(map(_is_spaced, rows)):
        return True
    return numbers.size >= ORDERED and not any(map(_is_ordered, rows))


def may_be_header(fields: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a first row that was read as values may be a header.

    The result is True if it is the only sorted row, if its numbers are far from all other numbers,
    or if it is the only row of different whole numbers.
    """
    numbers, rows = _numbers(fields, below)
    if numbers is None or not len(rows):
        return False
    if _are_of_another_kind(numbers, rows):
        return True
    if not _is_ordered(numbers):
        return False
    if numbers.size > 2 and _is_spaced(numbers):
        return not any(map(_is_spaced, rows))
    return numbers.size >= EQUALLY_SPACED and 2 * sum(map(_is_ordered, rows)) < len(rows)


def _are_of_another_kind(numbers: Array, rows: Array) -> bool:
    """Whether the numbers (n,) of a first row are unlike the `rows` (k, n) below it.

    The result is True if all of them are far outside the range of the rows. It is also True if the
    first row consists of many whole numbers and is the only row without repeated numbers.
    """
    if len(rows) < FEWEST_ROWS or np.isnan(rows).all(axis=0).any():
        return False
    low, high = np.nanmin(rows), np.nanmax(rows)
    if high > low and (np.maximum(low - numbers, numbers - high) > high - low).all():
        return True
    are_whole = bool((numbers == np.floor(numbers)).all())
    return are_whole and numbers.size >= ORDERED and not any(map(_all_differ, rows))


def _all_differ(numbers: Array) -> bool:
    return len(np.unique(numbers)) == numbers.size


def _numbers(fields: Sequence[str], below: Sequence[Sequence[str]]) -> tuple[Array | None, Array]:
    """Return the numbers (n,) of the first row, and the numbers (k, n) of the rows below.

    Columns of text are skipped. The first row may lack a field above the row names. The first
    result is None unless the first row consists of text and of at least two numbers that all
    differ.
    """
    shift = len(below[0]) - len(fields) if below else 0
    first = int(shift == 0 and not is_value(fields[0]))
    at = [i for i in range(first, len(fields)) if is_numeral(fields[i])]
    unmatched = [fields[i] for i in range(first, len(fields)) if i not in {*at}]
    if shift not in (0, 1) or len(at) < 2 or any(map(is_value, unmatched)):
        return None, np.empty((0, 0))
    numbers = np.array([float(fields[i]) for i in at])
    if not _all_differ(numbers):
        return None, np.empty((0, 0))
    rows = []
    for row in below:
        values = [row[i + shift] for i in at if i + shift < len(row)]
        if len(values) == len(at) and all(map(is_value, values)):
            rows.append([float(v) if is_numeral(v) else np.nan for v in values])
    return numbers, np.array(rows).reshape(len(rows), len(at))


def _is_ordered(numbers: Array) -> bool:
    """Whether numbers strictly increase, or strictly decrease."""
    steps = np.diff(numbers)
    return bool((steps > 0).all() or (steps < 0).all())


def _is_spaced(numbers: Array) -> bool:
    """Whether the differences of successive numbers are equal."""
    steps = np.diff(numbers)
    return bool(_is_ordered(numbers) and np.allclose(steps, steps[0], rtol=1e-6))
