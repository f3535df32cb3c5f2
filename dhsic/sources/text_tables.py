"""Tables of text as matrices: CSV and TSV, a sample a row (or a column), named by the first one.

The whole table is read, once, row after row, into one matrix of float64: text has no blocks of
features, and what does not fit into memory is made a store by `dhsic convert`. Columns that are no
features (labels, covariates) are said by name; a column of text that nobody names is refused, for
it may be a slip in a column of numbers. Parquet is columns already: `dhsic.sources.parquet`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import NA, abbreviate, is_value, na_of, names_rows_by_name
from dhsic.sources.marked_numbers import command, numbers_of, words_of
from dhsic.sources.number_fields import (
    NumberFields,
    comma_advice,
    decimal_mark,
    has_comma_numbers,
    rewritten_fields,
)
from dhsic.sources.odd_fields import OddFields, advice, no_features
from dhsic.sources.options import OpenOptions
from dhsic.sources.row_numbers import (
    RisingFeatures,
    counting_columns,
    is_unlikely,
    refuse_counting,
    refuse_rising,
    repeated_rows,
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
    TableColumns,
    check_known,
    check_room,
    is_turned,
    refuse_counted,
    refuse_parts,
)
from dhsic.sources.thousands import PointedNumbers, ThousandsSearch, are_likely, refuse_thousands

#: Names of rows that sum up those above them, in lower case.
SUMMARIES = frozenset(
    (
        *("total", "totals", "sum", "mean", "average", "avg", "median", "sd", "std", "stdev", "se"),
        *("sem", "min", "max", "minimum", "maximum", "variance", "cv", "grand total", "subtotal"),
    )
)
#: Columns of text that a sentence describes, at most.
MOST_TOLD = 3
#: Features that a command lists, at most; beyond, it is for all of them.
MOST_LISTED = 20
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
            top, has_ids = self.text.top.rows[0], not is_value(self.text.top.rows[0][0])
            remedy = "id as its first field" if has_ids else "a letter before each of them (w2500)"
            raise self.text.refused(
                f"its first line ({abbreviate(top, 4)}) may name the columns, for its numbers are "
                "unlike those below, or may hold values. If it names them, write "
                f"{remedy}; if not, write a line above it that does."
            )
        names, is_text = self.text.names or self.text.width, not is_value(first[0])
        self.columns = TableColumns.of(
            names, self.apart, is_text=is_text, turned=self.turned, known=self.known
        )
        if not self.turned:
            check_known(path, self.apart, self.columns.names)
        if not self.columns.numbers:
            raise InputError(
                f"{path} has the columns {abbreviate(map(repr, self.columns.names))} alone, and "
                "none of them is a feature. Check what separates its columns, and which are labels."
            )
        self._check_first(first, line)

    @property
    def not_features(self) -> tuple[str, ...]:
        """Columns that are no features: as somebody said, and as their names say."""
        labels = () if self.turned else self.columns.assumed
        return *self.apart, *(self.columns.names[i] for i in labels)

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
        shown = f" ({abbreviate(self.text.names, 4)})" if self.text.names else ""
        return f"a {row} a row{about}, {mark} between columns, {header}{shown}"

    def rows(self) -> Iterator[tuple[list[str], Array]]:
        """Fields and numbers of each row; InputError where one has others."""
        numbers, ids = self.columns.numbers, self.columns.ids
        start, stop = numbers[0], numbers[-1] + 1
        is_run = stop - start == len(numbers)
        n_apart = 0 if self.known is None else self.known.n_rows_apart
        na_at = {
            k: texts
            for k, i in enumerate(numbers)
            if (texts := na_of(self.na, self.columns.names[i])) != self.na
        }
        fields_of = NumberFields(len(numbers), self.na, self._refuse, na_at)
        rising, thousands = RisingFeatures(), ThousandsSearch(len(numbers))
        pointed: dict[str, PointedNumbers] = {}
        before = 0
        for n, (line, fields) in enumerate(self.text.rows()):
            self._check_width(line, fields)
            if before and line != before + 1 and self.text.width > 2:
                self._check_notes(line, fields)
            before = line
            selected = fields[start:stop] if is_run else [fields[i] for i in numbers]
            if n < n_apart or (self.turned and ids and self._is_apart(fields[ids[0]])):
                self.beside[fields[ids[0]]] = np.array(selected, dtype=object)
                continue
            values = fields_of.row(selected, line)
            if self.turned:
                self._check_rising_row(fields, values)
                if are_likely(values):
                    pointed |= self._pointed_row(fields, line)
            else:
                rising.add_sample(values)
                thousands.add(values, selected)
            yield fields, values
        unlikely = [
            (self.columns.called(numbers[i]), self.columns.names[numbers[i]], first, last)
            for i, first, last in rising.unlikely(len(numbers))
            if i or ids  # a first column is refused as names
        ]
        if unlikely:
            refuse_rising(self.path, unlikely)
        self._check_thousands(pointed or self._pointed_columns(thousands.likely()))

    def _is_apart(self, name: str) -> bool:
        """Whether a row of that name is no feature."""
        return name in self.apart or (self.known is None and names_rows_by_name(name))

    def _check_rising_row(self, fields: list[str], values: Array) -> None:
        """Refuse a row that counts samples; one that only rises may follow their order in time."""
        n = len(values)
        if self.columns.ids and (np.diff(values) == 1).all() and is_unlikely(n, n, n - 1):
            name = fields[self.columns.ids[0]]
            refuse_rising(self.path, [(f"row {name!r}", name, values[0], values[-1])])

    def _pointed_row(self, fields: list[str], line: int) -> dict[str, PointedNumbers]:
        """Numbers of a row of a feature as texts, by its name."""
        name = fields[self.columns.ids[0]] if self.columns.ids else f"of line {line}"
        missing = {*NA, *(text.lower() for text in self.na)}
        texts = (fields[i].strip() for i in self.columns.numbers)
        return {name: PointedNumbers.of(t for t in texts if t.lower() not in missing)}

    def _pointed_columns(self, likely: Sequence[int]) -> dict[int, PointedNumbers]:
        """Numbers of some features as texts, by the place of their columns."""
        at = [self.columns.numbers[i] for i in likely]
        every = {i: PointedNumbers() for i in at}
        missing = {i: self._missing_texts(i) for i in at}
        for _, fields in self.text.rows() if at else ():
            for i in at:
                if (text := fields[i].strip()).lower() not in missing[i]:
                    every[i].add(text)
            at = [i for i in at if not every[i].are_others]
            if not at:
                break
        return every

    def _check_thousands(self, every: Mapping[Any, PointedNumbers]) -> None:
        """Refuse features whose points may separate thousands; rows by name, columns by place."""
        pointed = {key: of for key, of in every.items() if of.may_separate_thousands}
        if not pointed:
            return
        called = (lambda name: f"row {name!r}") if self.turned else self.columns.called
        named = {called(key): numbers for key, numbers in pointed.items()}
        refuse_thousands(self.path, lambda change: self._rewritten([*pointed], change), named)

    def _rewritten(self, features: Sequence[Any], change: str) -> str:
        """Command that rewrites fields of some features, rows by name or columns by place."""
        columns, top = self.columns, self.text.top
        where = "1:" if columns.are_named else ":"
        places = _listed(columns.numbers)
        if not self.turned:
            listed = _listed(features)
            places = listed if listed.count(",") <= MOST_LISTED else places
        elif columns.ids and len(features) <= MOST_LISTED:
            where = f"t[{columns.ids[0]}].str.strip().isin({[*features]!r})"
        where = f"{where}, {places}"
        return rewritten_fields(self.path, self.text.separator, top.n_skipped, where, change)

    def _decimal_marks(self) -> dict[Any, set[str]]:
        """Decimal marks of the numbers of each feature, rows by name or columns by place."""
        marks: dict[Any, set[str]] = {}
        for line, fields in self.text.rows():
            row = fields[self.columns.ids[0]].strip() if self.columns.ids else f"of line {line}"
            for i in self.columns.numbers:
                if i < len(fields) and not (self.turned and self._is_apart(row)):
                    key = row if self.turned else i
                    marks.setdefault(key, set()).add(decimal_mark(fields[i]))
        return marks

    def resolve_names(self, beside: list[list[str]], first: Array) -> Names:
        """Names, and what is no feature, by the fields of each row that are not numbers.

        Refused where nothing names the rows but the `first` column of numbers, most likely.
        """
        path, columns, n_ids = self.path, self.columns, len(self.columns.ids)
        text = list(np.array(beside, dtype=object).reshape(len(beside), -1).T)
        across = columns.number_names()
        label_texts = dict(
            zip((columns.names[i] for i in columns.apart), text[n_ids:], strict=True)
        )
        if self.known is not None and self.known.is_traw and across is not None:
            variants = variants_of_traw(path, label_texts | {"SNP": text[0]})
            return Names(variants.names(), samples_of_traw(across), variants.coords())
        along = columns.row_names(path, text[:n_ids], turned=self.turned)
        if along is not None and not self.turned:
            self._check_summary(along)
        if along is None and columns.numbers[0] == 0:
            refuse_counted(path, columns.called(0), first, turned=self.turned)
        if not self.turned:
            return Names(across, along, sample_coords=label_texts)
        check_known(path, self.apart, [*self.beside, *label_texts])
        about = {} if self.known is None else self.known.coords
        coords = {coord: label_texts[name] for name, coord in about.items() if name in label_texts}
        return Names(along, across, coords, sample_coords=self.beside)

    def _check_summary(self, names: Array) -> None:
        """Refuse last rows that sum up the others, by what they are called."""
        n = len(names)
        while n > 0 and str(names[n - 1]).strip().lower() in SUMMARIES:
            n -= 1
        if 0 < n < len(names):
            lines = [line for line, _ in self.text.rows()][n:]
            raise InputError(
                f"{self.path} ends with {abbreviate(map(repr, names[n:]), 3)}, which sums up the "
                f"samples and is none (line {lines[0]}). Leave out what follows them: head -n "
                f"{lines[0] - 1} {shlex.quote(self.path)} > NEW"
            )

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
        at = self.columns.numbers[i]
        self._refuse_text(
            f"{self.path} has {field!r} in line {line}, {self.columns.called(at)}, and features "
            "are numbers.",
            [at],
            line,
        )

    def _refuse_text(self, sentence: str, at: Sequence[int], line: int) -> NoReturn:
        """Refuse columns that hold text, or the row of a line where columns are samples."""
        odd = self._odd_row(line) if self.turned else self._odd_columns(at)
        if len(odd) > 1 and all(column.are_few and column.is_only_in(line) for column in odd):
            raise InputError(
                f"{self.path} has text in line {line} in {len(odd):,} columns of numbers, such as "
                f"{abbreviate(map(repr, odd[0].places), 1)} in {odd[0].called}, as a line of units "
                f"or of notes has. Leave that line out: sed {line}d {shlex.quote(self.path)} > NEW"
            )
        if remedy := self._marked(odd, at):
            raise InputError(f"{sentence} {remedy}")
        commas = [text for column in odd for text in column.commas]
        if commas and all(len(column.commas) == len(column.places) for column in odd):
            marks = self._decimal_marks()
            features = [key for key, of in marks.items() if has_comma_numbers(of)]
            every = set().union(*marks.values())
            remedy = comma_advice(lambda v: self._rewritten(features, v), commas[0], every)
        else:
            remedy = " ".join([*(column.sentence for column in odd[:MOST_TOLD]), advice(odd)])
        raise InputError(f"{sentence} {remedy}")

    def _marked(self, odd: Sequence[OddFields], at: Sequence[int]) -> str:
        """How to write columns as numbers that are numbers with marks, or two words; "" if none."""
        if self.turned or self.text.names is None or any(column.are_few for column in odd):
            return ""
        changes = [numbers_of(column.places) or words_of(column.places) for column in odd]
        if not all(changes) or any(
            change == words_of(column.places) and column.n_odd < column.n_present
            for change, column in zip(changes, odd, strict=True)
        ):
            return ""
        top, by_place = self.text.top, dict(zip(at, changes, strict=True))
        written = command(self.path, self.text.separator, top.n_skipped, by_place)
        return (
            f"{odd[0].sentence} If they are features, write numbers alone: {written}, then pass "
            f"NEW.csv. {no_features(column.name for column in odd)}"
        )

    def _odd_columns(self, at: Sequence[int]) -> list[OddFields]:
        """Columns that hold text, of some positions."""
        names = self.columns.names
        odd = {i: OddFields(self.columns.called(i), names[i]) for i in at}
        missing = {i: self._missing_texts(i) for i in at}
        for line, fields in self.text.rows():
            for i in at:
                text = fields[i].strip() if i < len(fields) else ""
                if text.lower() not in missing[i]:
                    odd[i].add(text, f"in line {line}")
        return list(odd.values())

    def _missing_texts(self, at: int) -> set[str]:
        """Texts of missing values in a column, in lower case."""
        return {*NA, *(text.lower() for text in na_of(self.na, self.columns.names[at]))}

    def _odd_row(self, line: int) -> list[OddFields]:
        """The row of a line, as a feature that holds text."""
        fields = next(fields for number, fields in self.text.rows() if number == line)
        name = fields[self.columns.ids[0]] if self.columns.ids else f"of line {line}"
        row = OddFields(f"row {name!r}" if self.columns.ids else f"the row {name}", name)
        for i in self.columns.numbers:
            text = fields[i].strip()
            if text.lower() not in NA and text not in self.na:
                row.add(text, f"in {self.columns.called(i)}")
        return [row]

    def _check_width(self, line: int, fields: list[str]) -> None:
        if len(fields) != self.text.width:
            self._check_notes(line, fields)
            raise self.text.refused(
                f"line {line} has {len(fields)} fields, and {self.text.width} are expected. Write "
                "NA, or nothing between separators, for what is missing."
            )

    def _check_notes(self, line: int, fields: list[str]) -> None:
        """Refuse notes below the rows: text in few fields, from a line on to the end."""
        if not self._is_note(fields):
            return
        if all(self._is_note(row) for number, row in self.text.rows() if number >= line):
            raise InputError(
                f"{self.path} ends with text ({next(filter(None, fields))[:40]!r}) from line "
                f"{line} on, as notes below a table are. Leave it out: head -n {line - 1} "
                f"{shlex.quote(self.path)} > NEW"
            )

    def _is_note(self, fields: Sequence[str]) -> bool:
        """Whether a row is text in at most half of the columns."""
        present = [i for i, field in enumerate(fields) if field.strip()]
        is_short = 2 * (present[-1] + 1) <= self.text.width if present else True
        return is_short and not any(is_value(field.strip()) for field in fields[1:] if field)

    def _check_first(self, first: list[str], line: int) -> None:
        """Refuse columns of text that nobody said anything of, all that the first row shows."""
        ids = self.columns.ids
        n_apart = 0 if self.known is None else self.known.n_rows_apart
        if n_apart or (self.turned and ids and self._is_apart(first[ids[0]])):
            return
        names = self.columns.names
        odd = [
            i
            for i in self.columns.numbers
            if not (is_value(first[i]) or first[i].strip() in na_of(self.na, names[i]))
        ]
        if odd and self.turned:
            self._check_described(odd)
        if odd:
            listed = abbreviate((f"{self.columns.called(i)}: {first[i]!r}" for i in odd), 4)
            self._refuse_text(
                f"{self.path} holds text ({listed}), and features are numbers.", odd, line
            )

    def _check_described(self, odd: Sequence[int]) -> None:
        """Refuse columns of text about features, such as further names of genes, by their names."""
        rows = self.text.top.rows[1:]
        described = [
            self.columns.names[i]
            for i in odd
            if len(rows) > 1 and all(i < len(row) and not is_value(row[i]) for row in rows)
        ]
        if described and len(described) == len(odd) and len(odd) < len(self.columns.numbers):
            raise InputError(
                f"{self.path} holds text about features beside their names, in "
                f"{abbreviate(map(repr, described), 4)}, and columns are samples. Leave it out: "
                f"not_features={described!r}."
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
    names = table.resolve_names(beside, values[:, 0])
    if (
        columns.are_named
        and not table.turned
        and (counting := counting_columns(values.__getitem__, values.shape))
    ):
        count_columns = [columns.names[columns.numbers[i]] for i in counting]
        refuse_counting(path, count_columns, f"not_features={count_columns[:4]!r}")
    X = values.T if table.turned else values
    source = ArraySource(X, missing_code=options.code_of(), names=names)
    source.not_features = table.not_features
    repeated = "" if table.turned else repeated_rows(path, names.samples, values)
    source.hint = " ".join(filter(None, (table.hint, repeated)))
    source.read_as, source.counted = table.described(), table.counted()
    return source


def _listed(places: Sequence[int]) -> str:
    """Columns as a list of Python, in which those that follow each other are a range."""
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    runs = [run.tolist() for run in np.split(np.asarray(places), breaks)]
    parts = [
        f"*range({run[0]}, {run[-1] + 1})" if len(run) > 2 else ", ".join(map(str, run))
        for run in runs
    ]
    return f"[{', '.join(parts)}]"
