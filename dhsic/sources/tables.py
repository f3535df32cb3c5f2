"""Tables of text as matrices: CSV and TSV, a sample a row (or a column), named by the first one.

The whole table is read, once, row after row, into one matrix of float64: text has no blocks of
features, and what does not fit into memory is made a store by `dhsic convert`. Columns that are no
features (labels, covariates) are said by name; a column of text that nobody names is refused, for
it may be a slip in a column of numbers. Parquet is columns already: `dhsic.sources.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError, MemoryBudgetError
from dhsic.memory import available_bytes, human
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import NA, PARENTS, did_you_mean, is_id, plain, some
from dhsic.sources.options import OpenOptions, says_names
from dhsic.validation import is_numeral

#: Bytes of a field in Python, as text and as a number.
BYTES_OF_FIELD = 120
#: What to do about fields that are no numbers.
COMMAS = (
    "Write decimal points, not commas: of a table between semicolons, sed 's/,/./g' FILE > NEW."
)
TEXT = (
    "Write NA for what is missing, or nothing. Say which columns are no features: target= names "
    "labels, not_features= others; or encode them (pandas.get_dummies)."
)


def refuse_parts(path: str, options: OpenOptions) -> None:
    """Refuse the name of a part of a file of one matrix."""
    if options.variable is not None:
        raise InputError(
            f"{path} holds one matrix, and variable={options.variable!r} names a part of a store. "
            "Leave it out."
        )


def check_room(n_bytes: int, path: str, shape: tuple[int, ...]) -> None:
    """Refuse what is read whole and does not fit into memory."""
    there = available_bytes()
    if n_bytes > there:
        raise MemoryBudgetError(
            f"{path} holds a table of {shape[0]:,} x {shape[1]:,}; reading it takes "
            f"{human(n_bytes)}, and there are {human(there)}. Make it a store, which is read in "
            "blocks: dhsic convert PATH OUT.zarr."
        )


def is_turned(options: OpenOptions, path: str) -> bool:
    """Whether the columns of a table are samples, and its rows features."""
    return replace(options, n_samples=None).feature_axis((0, 0), None, path, convention=1) == 0


@dataclass(frozen=True)
class TableColumns:
    """What the columns of a table are, by position: names of rows, no features, features."""

    names: tuple[str, ...]  # "column 1" and so on where no line names them
    are_named: bool
    ids: tuple[int, ...]
    apart: tuple[int, ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(
        cls, names: Sequence[str] | int, apart: Sequence[str], *, is_text: bool, turned: bool
    ) -> TableColumns:
        """Tell columns, names or so many, by these and by whether the first one `is_text`.

        The first one names the rows, if it is text or called like ids; ids of PLINK and others
        with an underscore may follow, unless columns are samples (`turned`).
        """
        are_named, n_ids = not isinstance(names, int), 0
        known = tuple(
            [f"column {i + 1}" for i in range(names)] if isinstance(names, int) else names
        )
        is_called = are_named and (is_id(known[0]) or says_names(known[0], of_features=turned))
        if known[0] not in apart and (is_text or is_called):
            n_ids = 1
            while are_named and not turned and n_ids < len(known) and _is_more(known[n_ids], apart):
                n_ids += 1
        others = range(n_ids, len(known))
        return cls(
            known,
            are_named,
            tuple(range(n_ids)),
            tuple(i for i in others if known[i] in apart),
            tuple(i for i in others if known[i] not in apart),
        )

    def named(self) -> Array | None:
        """Names of the columns of numbers, None where no line names them."""
        names = np.array([self.names[i] for i in self.numbers], dtype=object)
        return names if self.are_named else None

    def called(self, i: int) -> str:
        """A column for sentences."""
        return f"column {self.names[i]!r}" if self.are_named else self.names[i]

    def row_names(self, path: str, columns: Sequence[Array], *, turned: bool) -> Array | None:
        """Names of the rows by columns of ids: IID where there is one, FID_IID if that repeats.

        Refused where features have names that repeat, or where text that is not called like names
        does.
        """
        if not self.ids:
            return None
        by_name = {
            plain(self.names[i]): values for i, values in zip(self.ids, columns, strict=True)
        }
        iid, fid = by_name.get("iid"), by_name.get("fid")
        names = columns[0] if iid is None else iid
        repeated = _repeated(names)
        if repeated and iid is not None and fid is not None:
            pairs = zip(fid, iid, strict=True)
            names = np.array([f"{family}_{sample}" for family, sample in pairs], dtype=object)
        elif repeated and (turned or not is_id(self.names[0])):
            what = "feature" if turned else "sample"
            raise InputError(
                f"The first column of {path} ({self.called(0)}) would name the {what}s, and "
                f"{len(repeated)} of its texts are there more than once ({some(repeated, 3)}). "
                f"Give each {what} a name of its own; if it holds labels, say so: target=, or "
                "not_features=."
            )
        return names


def _is_more(name: str, apart: Sequence[str]) -> bool:
    """Whether a column beside ids holds some too, and is no gene called ID1."""
    is_one = plain(name) in PARENTS | {"fid", "iid"} or (is_id(name) and "_" in name)
    return is_one and name not in apart


def _repeated(names: Array) -> list[str]:
    if len(set(names)) == len(names):
        return []
    texts, counts = np.unique(names.astype(str), return_counts=True)
    return [str(text) for text in texts[counts > 1]]


def is_value(text: str) -> bool:
    """Whether a field is a number, or says that one is missing."""
    return is_numeral(text) or text.strip().lower() in NA


def check_known(path: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names of columns that a table does not have."""
    for name in wanted:
        if name not in known:
            raise InputError(
                f"{path} has no column {name!r}; its columns are "
                f"{some(map(repr, known), 20)}.{did_you_mean(name, known)}"
            )


def refuse_counted(path: str, called: str, column: Array) -> None:
    """Refuse a first column of whole numbers that all differ: names, most likely."""
    values = column[~np.isnan(column)]
    is_whole = bool((values == np.floor(values)).all())
    if is_whole and values.size > 2 and len(np.unique(values)) == len(column):
        raise InputError(
            f"The first column of {path} ({called}) holds whole numbers that all differ "
            f"({some(column.astype(np.int64), 3)}), as names do. If it names the rows, call it so: "
            "id, sample_id. If it is a feature, put a column of names before it."
        )


class TextTable:
    """A table of text whose rows are read one after the other.

    `beside` are the rows that are no features, by name, where columns are samples; it fills while
    rows are read.
    """

    def __init__(self, path: str, options: OpenOptions) -> None:
        self.text, self.path = Delimited(path), path
        self.turned, self.apart = is_turned(options, path), tuple(options.not_features)
        self.beside: dict[str, Array] = {}
        line, first = next(self.text.rows(), (0, []))
        if not first:
            raise InputError(f"{path} holds no rows; pass a table with a row a sample.")
        self._check_width(line, first)
        known, is_text = self.text.names or self.text.width, not is_value(first[0])
        self.columns = TableColumns.of(known, self.apart, is_text=is_text, turned=self.turned)
        if not self.turned:
            check_known(path, self.apart, self.columns.names)
        if not self.columns.numbers:
            raise InputError(
                f"{path} has the columns {some(map(repr, self.columns.names))} alone, and none of "
                "them is a feature. Check what separates its columns, and which are labels."
            )
        self._check_first(first)

    def rows(self) -> Iterator[tuple[list[str], Array]]:
        """Fields and numbers of each row; InputError where one has others."""
        numbers, ids = self.columns.numbers, self.columns.ids
        start, stop = numbers[0], numbers[-1] + 1
        is_run = stop - start == len(numbers)
        for line, fields in self.text.rows():
            self._check_width(line, fields)
            wanted = fields[start:stop] if is_run else [fields[i] for i in numbers]
            if self.turned and ids and fields[0] in self.apart:
                self.beside[fields[0]] = np.array(wanted, dtype=object)
                continue
            try:
                values = np.array([*map(float, wanted)])
            except ValueError:
                values = np.array([*map(self._number, numbers, wanted, repeat(line))])
            yield fields, values

    def named(self, beside: list[list[str]], first: Array) -> Names:
        """Names, and what is no feature, by the fields of each row that are not numbers.

        Refused where nothing names the rows but the `first` column of numbers, most likely.
        """
        path, columns, n_ids = self.path, self.columns, len(self.columns.ids)
        text = list(np.array(beside, dtype=object).reshape(len(beside), -1).T)
        along, across = columns.row_names(path, text[:n_ids], turned=self.turned), columns.named()
        if along is None and columns.numbers[0] == 0:
            refuse_counted(path, columns.called(0), first)
        held = dict(zip((columns.names[i] for i in columns.apart), text[n_ids:], strict=True))
        if not self.turned:
            return Names(across, along, sample_coords=held)
        check_known(path, self.apart, [*self.beside, *held])
        return Names(along, across, sample_coords=self.beside)

    def _number(self, i: int, field: str, line: int) -> float:
        """A field as a number, NaN where it says that it is missing."""
        if is_numeral(field):
            return float(field)
        if field.strip().lower() in NA:
            return np.nan
        is_comma = is_numeral(field.replace(",", ".", 1))
        raise InputError(
            f"{self.path} has {field!r} in line {line}, {self.columns.called(i)}, and features are "
            f"numbers. {COMMAS if is_comma else TEXT}"
        )

    def _check_width(self, line: int, fields: list[str]) -> None:
        if len(fields) != self.text.width:
            raise self.text.refused(
                f"line {line} has {len(fields)} fields, and {self.text.width} are expected. Write "
                "NA, or nothing between separators, for what is missing."
            )

    def _check_first(self, first: list[str]) -> None:
        """Refuse columns of text that nobody said anything of, all that the first row shows."""
        if self.turned and self.columns.ids and first[0] in self.apart:
            return
        odd = [i for i in self.columns.numbers if not is_value(first[i])]
        if odd:
            listed = some((f"{self.columns.called(i)}: {first[i]!r}" for i in odd), 4)
            are_commas = all(is_numeral(first[i].replace(",", ".", 1)) for i in odd)
            raise InputError(
                f"{self.path} holds text ({listed}), and features are numbers. "
                f"{COMMAS if are_commas else TEXT}"
            )


def open_table(path: str, options: OpenOptions) -> AbstractSource:
    """Open CSV, TSV or other text as a matrix in memory.

    Raises
    ------
    InputError
        It is no table of numbers, and which field is none.
    MemoryBudgetError
        It does not fit into memory.
    """
    refuse_parts(path, options)
    table = TextTable(path, options)
    columns = table.columns
    width, n_lines = len(columns.numbers), table.text.count()
    check_room(8 * width * n_lines + BYTES_OF_FIELD * table.text.width, path, (n_lines, width))
    values, beside = np.empty((n_lines, width)), []
    for n, (fields, numbers) in enumerate(table.rows()):
        values[n] = numbers
        beside.append([fields[i] for i in (*columns.ids, *columns.apart)])
    values = values[: len(beside)]
    options.feature_axis(values.shape, None, path, convention=1)  # as many samples as labels?
    names = table.named(beside, values[:, 0])
    X = values.T if table.turned else values
    source = ArraySource(X, missing_code=options.code_of(), names=names)
    source.not_features = table.apart
    return source
