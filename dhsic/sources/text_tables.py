"""Tables of text as matrices: CSV and TSV, a sample a row (or a column), named by the first one.

The whole table is read, once, row after row, into one matrix of float64: text has no blocks of
features, and what does not fit into memory is made a store by `dhsic convert`. Columns that are no
features (labels, covariates) are said by name; a column of text that nobody names is refused, for
it may be a slip in a column of numbers. Parquet is columns already: `dhsic.sources.parquet`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import is_value, names_rows_by_name, some
from dhsic.sources.number_fields import (
    NumberFields,
    comma_advice,
    is_comma_number,
)
from dhsic.sources.options import OpenOptions
from dhsic.sources.row_numbers import (
    RisingFeatures,
    counting_columns,
    is_unlikely,
    refuse_counting,
    refuse_rising,
)
from dhsic.sources.table_formats import (
    COUNTED_IN_RAW,
    COUNTED_IN_TRAW,
    counts_alleles,
    format_of,
    phenotypes_of_plink,
    samples_of_traw,
    variants_of_traw,
)
from dhsic.sources.tables import (
    TEXT,
    TableColumns,
    check_known,
    check_room,
    is_turned,
    refuse_counted,
    refuse_parts,
)

#: Bytes of a field in Python, as text and as a number.
BYTES_OF_FIELD = 120


class TextTable:
    """A table of text whose rows are read one after the other.

    `beside` are the rows that are no features, by name, where columns are samples; it fills while
    rows are read.
    """

    def __init__(self, path: str, options: OpenOptions) -> None:
        self.text, self.path = Delimited(path), path
        self.known = format_of(self.text)
        self.turned = is_turned(options, path, 1 if self.known is None else 0)
        if not self.turned:
            self.known = None
        self.apart, self.na = tuple(options.not_features), tuple(options.na)
        self.beside: dict[str, Array] = {}
        line, first = next(self.text.rows(), (0, []))
        if not first:
            raise InputError(f"{path} holds no rows; pass a table with a row a sample.")
        self._check_width(line, first)
        if self.text.may_have_header:
            raise self.text.refused(
                f"its first line ({some(self.text.top.rows[0], 4)}) may name the columns, for its "
                "numbers are in order, or may hold values. If it names them, write id as its "
                "first field; if not, write a line above it that does."
            )
        names, is_text = self.text.names or self.text.width, not is_value(first[0])
        self.columns = TableColumns.of(
            names, self.apart, is_text=is_text, turned=self.turned, known=self.known
        )
        if not self.turned:
            check_known(path, self.apart, self.columns.names)
        if not self.columns.numbers:
            raise InputError(
                f"{path} has the columns {some(map(repr, self.columns.names))} alone, and none of "
                "them is a feature. Check what separates its columns, and which are labels."
            )
        self._check_first(first)

    @property
    def not_features(self) -> tuple[str, ...]:
        """Columns that are no features: as somebody said, and as their names say."""
        held = () if self.turned else self.columns.assumed
        return *self.apart, *(self.columns.names[i] for i in held)

    @property
    def hint(self) -> str:
        """Columns that were taken for ids, in a sentence; "" for none."""
        return "" if self.turned else self.columns.hint(self.path)

    def described(self) -> str:
        """How the table is read, for people."""
        between = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", "": "blanks"}
        top = self.text.top
        header = f"header in line {top.n_skipped + 1}" if self.text.names else "no header"
        about = f", a {self.known.name} table" if self.known else ""
        row = "feature" if self.turned else "sample"
        mark = between.get(self.text.separator, repr(self.text.separator))
        shown = f" ({some(self.text.names, 4)})" if self.text.names else ""
        return f"a {row} a row{about}, {mark} between columns, {header}{shown}"

    def rows(self) -> Iterator[tuple[list[str], Array]]:
        """Fields and numbers of each row; InputError where one has others."""
        numbers, ids = self.columns.numbers, self.columns.ids
        start, stop = numbers[0], numbers[-1] + 1
        is_run = stop - start == len(numbers)
        n_apart = 0 if self.known is None else self.known.n_rows_apart
        fields_of = NumberFields(len(numbers), self.na, self._refuse)
        rising = RisingFeatures()
        for n, (line, fields) in enumerate(self.text.rows()):
            self._check_width(line, fields)
            wanted = fields[start:stop] if is_run else [fields[i] for i in numbers]
            if n < n_apart or (self.turned and ids and self._is_apart(fields[ids[0]])):
                self.beside[fields[ids[0]]] = np.array(wanted, dtype=object)
                continue
            values = fields_of.row(wanted, line)
            if self.turned:
                self._check_rising_row(fields, values)
            else:
                rising.add_sample(values)
            yield fields, values
        found = [
            (self.columns.called(numbers[i]), self.columns.names[numbers[i]], first, last)
            for i, first, last in rising.unlikely(len(numbers))
            if i or ids  # a first column is refused as names
        ]
        if found:
            refuse_rising(self.path, found)

    def _is_apart(self, name: str) -> bool:
        """Whether a row of that name is no feature."""
        return name in self.apart or (self.known is None and names_rows_by_name(name))

    def _check_rising_row(self, fields: list[str], values: Array) -> None:
        """Refuse a row that counts samples; one that only rises may follow their order in time."""
        n = len(values)
        if self.columns.ids and (np.diff(values) == 1).all() and is_unlikely(n, n, n - 1):
            name = fields[self.columns.ids[0]]
            refuse_rising(self.path, [(f"row {name!r}", name, values[0], values[-1])])

    def named(self, beside: list[list[str]], first: Array) -> Names:
        """Names, and what is no feature, by the fields of each row that are not numbers.

        Refused where nothing names the rows but the `first` column of numbers, most likely.
        """
        path, columns, n_ids = self.path, self.columns, len(self.columns.ids)
        text = list(np.array(beside, dtype=object).reshape(len(beside), -1).T)
        across = columns.named()
        held = dict(zip((columns.names[i] for i in columns.apart), text[n_ids:], strict=True))
        if self.known is not None and self.known.is_traw and across is not None:
            variants = variants_of_traw(path, held | {"SNP": text[0]})
            return Names(variants.names(), samples_of_traw(across), variants.coords())
        along = columns.row_names(path, text[:n_ids], turned=self.turned)
        if along is None and columns.numbers[0] == 0:
            refuse_counted(path, columns.called(0), first, turned=self.turned)
        if not self.turned:
            return Names(across, along, sample_coords=held)
        check_known(path, self.apart, [*self.beside, *held])
        about = {} if self.known is None else self.known.coords
        coords = {coord: held[name] for name, coord in about.items() if name in held}
        return Names(along, across, coords, sample_coords=self.beside)

    def counted(self) -> str:
        """The allele that dosages of PLINK count, for people; "" for other tables."""
        columns = self.columns
        if self.known is not None:
            return COUNTED_IN_TRAW if self.known.is_traw else ""
        is_raw = bool(phenotypes_of_plink(columns.names)) and columns.are_named
        names = [columns.names[i] for i in columns.numbers]
        return COUNTED_IN_RAW if is_raw and counts_alleles(names) else ""

    def _refuse(self, i: int, field: str, line: int) -> NoReturn:
        """Refuse a field of a feature that is no number."""
        self._refuse_text(
            f"{self.path} has {field!r} in line {line}, "
            f"{self.columns.called(self.columns.numbers[i])}, and features are numbers.",
            [field],
        )

    def _refuse_text(self, sentence: str, fields: list[str]) -> NoReturn:
        """Refuse fields that are no numbers, and say what to do about them."""
        if all(map(is_comma_number, fields)):
            numbers = self.columns.numbers
            every = (row[i] for _, row in self.text.rows() for i in numbers if i < len(row))
            remedy = comma_advice(self.path, self.text.separator, fields[0], every)
        else:
            na = some((repr(field) for field in fields), 1)
            remedy = f"{TEXT} If {na} stands for a missing value, say so: na=[{fields[0]!r}]."
        raise InputError(f"{sentence} {remedy}")

    def _check_width(self, line: int, fields: list[str]) -> None:
        if len(fields) != self.text.width:
            raise self.text.refused(
                f"line {line} has {len(fields)} fields, and {self.text.width} are expected. Write "
                "NA, or nothing between separators, for what is missing."
            )

    def _check_first(self, first: list[str]) -> None:
        """Refuse columns of text that nobody said anything of, all that the first row shows."""
        ids = self.columns.ids
        n_apart = 0 if self.known is None else self.known.n_rows_apart
        if n_apart or (self.turned and ids and self._is_apart(first[ids[0]])):
            return
        odd = [
            i
            for i in self.columns.numbers
            if not is_value(first[i]) and first[i].strip() not in self.na
        ]
        if odd:
            listed = some((f"{self.columns.called(i)}: {first[i]!r}" for i in odd), 4)
            self._refuse_text(
                f"{self.path} holds text ({listed}), and features are numbers.",
                [first[i] for i in odd],
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
    convention = 0 if table.turned else 1
    options.feature_axis(values.shape, None, path, convention)  # as many samples as labels?
    names = table.named(beside, values[:, 0])
    if (
        columns.are_named
        and not table.turned
        and (counting := counting_columns(values.__getitem__, values.shape))
    ):
        found = [columns.names[columns.numbers[i]] for i in counting]
        refuse_counting(path, found, " ".join(f"not_features=['{name}']" for name in found[:4]))
    X = values.T if table.turned else values
    source = ArraySource(X, missing_code=options.code_of(), names=names)
    source.not_features, source.hint = table.not_features, table.hint
    source.read_as, source.counted = table.described(), table.counted()
    return source
