"""Text tables (CSV, TSV) as matrices: one row or column per sample, names in the first column.

The whole table is read once, row by row, into one float64 matrix, because blocks of features cannot
be read from text. A table that does not fit into memory can be converted to a store by `dhsic
convert`. Columns that are not features (labels, covariates) are excluded by name. Any other column
with text is refused, because the text may be a typo in a column of numbers. Parquet is stored by
columns: see `dhsic.sources.parquet`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.delimited import Delimited
from dhsic.sources.geo import advice_on_samples, variables_of
from dhsic.sources.headers import GEO
from dhsic.sources.ids import NA, abbreviate, is_id, is_value, na_of, names_rows_by_name
from dhsic.sources.marked_numbers import (
    command,
    unique_names,
)
from dhsic.sources.number_fields import (
    NumberFields,
)
from dhsic.sources.options import OpenOptions
from dhsic.sources.row_numbers import (
    RisingFeatures,
    counting_columns,
    is_unlikely,
    refuse_counting,
    refuse_rising,
    repeated_rows,
)
from dhsic.sources.sexes import SEX, CallsBySex, DosagesOnX, Sexes
from dhsic.sources.summary_rows import refuse_summary, summary_rows
from dhsic.sources.table_formats import (
    COUNTED_IN_RAW,
    COUNTED_IN_TRAW,
    counts_alleles,
    format_of,
    heterozygotes_in,
    phenotypes_of_plink,
    samples_of_traw,
    variants_of_traw,
)
from dhsic.sources.tables import (
    TRANSPOSE,
    TableColumns,
    check_known,
    check_room,
    is_turned,
    refuse_counted,
    refuse_parts,
)
from dhsic.sources.text_features import (
    ABOUT_ALLELES,
    COUNTED_IN_CALLS,
    OF_ALLELES,
    about_boxes,
    are_two_digits,
    check_boxes,
    is_field,
    of_calls,
    ticks,
)
from dhsic.sources.text_refusal import TextRefusal
from dhsic.sources.thousands import PointedNumbers, ThousandsSearch, are_likely, refuse_thousands
from dhsic.sources.variants import CONTIG, are_on_x
from dhsic.validation import is_numeral

#: Names, in lower case, of rows that summarise the rows above them.
SUMMARIES = frozenset(
    (
        *("total", "totals", "sum", "mean", "average", "avg", "median", "sd", "std", "stdev", "se"),
        *("sem", "min", "max", "minimum", "maximum", "variance", "cv", "grand total", "subtotal"),
    )
)
#: Share of feature values that may equal numbers of `na` without a hint.
MOST_CODED = 0.1
#: Bytes of memory of a field in Python, as text and as a number.
BYTES_OF_FIELD = 120


class TextTable:
    """Text table that is read row by row.

    If columns are samples, `beside` contains the rows that are not features, such as labels, by
    name, as far as rows have been read.
    """

    def __init__(self, path: str, options: OpenOptions) -> None:
        self.text, self.path = Delimited(path), path
        self.known = format_of(self.text)
        self.turned = is_turned(options, path, 1 if self.known is None else 0)
        if not self.turned:
            self.known = None
        self.apart, self.na = tuple(options.not_features), tuple(options.na)
        self._required = options.required
        self.beside: dict[str, Array] = {}
        self.infers_codes = isinstance(options.missing_code, str)
        self.calls: Callable[[], set[str]] = set
        self.n_coded: Callable[[], int] = int
        line, first = next(self.text.rows(), (0, []))
        if not first:
            self._refuse_empty()
        self._check_width(line, first)
        if self.text.may_have_header:
            top, has_ids = self.text.top.rows[0], not is_value(self.text.top.rows[0][0])
            remedy = (
                "write id as its first field"
                if has_ids
                else "write a letter before each of them (w2500)"
            )
            raise self.text.refused(
                f"its first line ({abbreviate(top, 4)}) may be a header, because its numbers "
                "differ from those below, or it may contain values. If it is a header, "
                f"{remedy}. If not, add a header line above it."
            )
        names, is_text = self.text.names or self.text.width, not is_field(first[0])
        self.columns = TableColumns.of(
            names, self.apart, is_text=is_text, turned=self.turned, known=self.known
        )
        if not self.turned:
            check_known(path, self._required, self.columns.names, self._first_fields(), TRANSPOSE)
        if not self.columns.numbers:
            if Path(first[0].strip()).exists():
                raise InputError(
                    f"{path} lists paths of files. To read these as one matrix, pass @{path}."
                )
            raise InputError(
                f"{path} has only the columns {abbreviate(map(repr, self.columns.names))}, and "
                "none of them is a feature. Check the column separator, and which columns are "
                "labels."
            )
        self.refusal = TextRefusal(
            self.text, path, self.columns, self.na, self.turned, self._is_apart
        )
        self._check_first(first, line)

    @property
    def not_features(self) -> tuple[str, ...]:
        """Columns that are not features: excluded by the user, or because of their names."""
        if self.turned:
            return self.apart
        apart = [name for name in self.apart if name in self.columns.names]
        return *apart, *(self.columns.names[i] for i in self.columns.assumed)

    @property
    def hint(self) -> str:
        """Sentence on columns that look like ids and are not used as features; "" for none."""
        if self.turned:
            return ""
        twice = []
        if phenotypes_of_plink(self.columns.names):
            twice = heterozygotes_in([self.columns.names[i] for i in self.columns.numbers])
        about_twice = (
            f"{len(twice):,} columns of {self.path} ({abbreviate(twice, 2)}) mark heterozygotes, "
            "as plink --recode AD writes them, so each variant counts twice. Tests of dosages find "
            "dominant and recessive effects too: write the table with plink --recode A."
        )
        return " ".join(filter(None, [self.columns.hint(self.path), about_twice if twice else ""]))

    def described(self) -> str:
        """Return a description of how the table is read: orientation, separator and header."""
        between = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", "": "spaces"}
        top = self.text.top
        header = f"header in line {top.n_skipped + 1}" if self.text.names else "no header"
        about = f", a {self.known.name} table" if self.known else ""
        row = "feature" if self.turned else "sample"
        mark = between.get(self.text.separator, repr(self.text.separator))
        shown = f" ({abbreviate(self.text.names, 4)})" if self.text.names else ""
        return f"one {row} per row{about}, {mark} between columns, {header}{shown}"

    def rows(self) -> Iterator[tuple[list[str], Array]]:
        """Yield the fields and the numbers (width,) of each row; InputError for an invalid row."""
        numbers, ids = self.columns.numbers, self.columns.ids
        start, stop = numbers[0], numbers[-1] + 1
        is_run = stop - start == len(numbers)
        n_apart = 0 if self.known is None else self.known.n_rows_apart
        na_at = {
            k: texts
            for k, i in enumerate(numbers)
            if (texts := na_of(self.na, self.columns.names[i])) != self.na
        }
        fields_of = NumberFields(len(numbers), self.na, self.refusal.refuse, na_at)
        self.calls, self.n_coded = lambda: fields_of.calls, lambda: fields_of.n_coded
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

    def _refuse_empty(self) -> NoReturn:
        """Refuse a table without rows; in a GEO series, the values may be in another file."""
        if self.text.top.format_name == GEO:
            raise InputError(
                f"{self.path} describes samples, but its table has no values; series of sequencing "
                "have them in supplementary files. Pass such a file as the data, and labels from "
                f"this one: dhsic test DATA --labels {shlex.quote(self.path)}."
            )
        raise InputError(f"{self.path} has no rows; pass a table with one row per sample.")

    def _first_fields(self) -> Iterator[str]:
        """Yield the first field of each row."""
        return (fields[0] for _, fields in self.text.rows())

    def _is_apart(self, name: str) -> bool:
        """Whether a row with this name is not a feature, if columns are samples."""
        return name in self.apart or (self.known is None and names_rows_by_name(name))

    def _check_rising_row(self, fields: list[str], values: Array) -> None:
        """Refuse a row of consecutive numbers, which counts the samples.

        A row that increases with gaps is accepted, because samples may be ordered in time.
        """
        n = len(values)
        counts = np.array_equal(values[1:], values[:-1] + 1) and np.isfinite(values[0])
        if self.columns.ids and counts and is_unlikely(n, n, n - 1):
            name = fields[self.columns.ids[0]]
            refuse_rising(self.path, [(f"row {name!r}", name, values[0], values[-1])])

    def _pointed_row(self, fields: list[str], line: int) -> dict[str, PointedNumbers]:
        """Return the numbers of a row that is a feature as `PointedNumbers`, under its name."""
        name = fields[self.columns.ids[0]] if self.columns.ids else f"of line {line}"
        missing = {*NA, *(text.lower() for text in self.na)}
        texts = (fields[i].strip() for i in self.columns.numbers)
        return {name: PointedNumbers.of(t for t in texts if t.lower() not in missing)}

    def _pointed_columns(self, likely: Sequence[int]) -> dict[int, PointedNumbers]:
        """Return the numbers of the features `likely` as `PointedNumbers`, by column position."""
        at = [self.columns.numbers[i] for i in likely]
        every = {i: PointedNumbers() for i in at}
        missing = {i: self.refusal.missing_texts(i) for i in at}
        for _, fields in self.text.rows() if at else ():
            for i in at:
                if (text := fields[i].strip()).lower() not in missing[i]:
                    every[i].add(text)
            at = [i for i in at if not every[i].are_others]
            if not at:
                break
        return every

    def _check_thousands(self, every: Mapping[Any, PointedNumbers]) -> None:
        """Refuse features whose points may separate thousands.

        `every` has the numbers of each feature, by name of the row or position of the column.
        """
        pointed = {key: of for key, of in every.items() if of.may_separate_thousands}
        if not pointed:
            return
        called = (lambda name: f"row {name!r}") if self.turned else self.columns.called
        named = {called(key): numbers for key, numbers in pointed.items()}
        refuse_thousands(
            self.path, lambda change: self.refusal.rewritten([*pointed], change), named
        )

    def resolve_names(self, beside: list[list[str]], first: Array) -> Names:
        """Return the names and the labels in a table.

        `beside` has the fields of each row that are not features. InputError is raised if there are
        no row names, and the `first` column of numbers (n,) probably contains them.
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
        top = self.text.top
        is_even = len(top.rows[0]) == self.text.width  # a header of R has no field for the names
        unique = unique_names(path, self.text.separator, top.n_skipped) if is_even else ""
        along = columns.row_names(path, text[:n_ids], turned=self.turned, unique=unique)
        if along is not None and not self.turned:
            self._check_summary(along)
        if along is None and columns.numbers[0] == 0:
            called = columns.called(0)
            refuse_counted(path, called, first, turned=self.turned, renamed=self._renamed())
        if not self.turned:
            return Names(across, along, sample_coords=label_texts)
        names_column, advice = [columns.names[i] for i in columns.ids], ""  # never features
        known = [*names_column, *self.beside, *label_texts]
        if top.format_name == GEO and across is not None:
            self.beside |= variables_of(across, self.text.lines_above())
            known += self.beside
            if not {*self._required} <= {*known}:
                advice = advice_on_samples(across, self.text.lines_above())
        check_known(path, self._required, known, (), "", advice)
        about = {} if self.known is None else self.known.coords
        coords = {coord: label_texts[name] for name, coord in about.items() if name in label_texts}
        return Names(along, across, coords, sample_coords=self.beside)

    def _renamed(self) -> str:
        """Return a colon and a command that renames the first column to id; "" without a header."""
        if self.text.names is None:
            return ""
        field = f"[^{self.text.separator or ' '}]*".replace("\t", r"\t")
        at = self.text.top.n_skipped + 1
        quoted = shlex.quote(f'{at}s/^("[^"]*"|{field})/id/')
        return f": sed -E {quoted} {shlex.quote(self.path)} > NEW"

    def _check_summary(self, names: Array) -> None:
        """Refuse last rows whose names (total, mean) say that they summarise the others."""
        n = len(names)
        while n > 0 and str(names[n - 1]).strip().lower() in SUMMARIES:
            n -= 1
        if 0 < n < len(names):
            line, command = self._without_last(len(names) - n)
            raise InputError(
                f"{self.path} ends with {abbreviate(map(repr, names[n:]), 3)} (from line "
                f"{line} on); these rows summarise the samples and are not samples. Remove "
                f"them and everything after them: {command}"
            )

    def _without_last(self, k: int) -> tuple[int, str]:
        """Return the line at which the last k rows begin, and a command that removes them."""
        line = [number for number, _ in self.text.rows()][-k]
        return line, f"head -n {line - 1} {shlex.quote(self.path)} > NEW"

    def check_sums(self, X: Array, names: Array | None) -> None:
        """Refuse summary rows (totals, means) at the end of X (m, d), judging by their values."""
        statistics = summary_rows(X.__getitem__, X.shape)
        if not statistics:
            return
        k = len(statistics)
        if self.turned:
            sep = {"": r"r'\s+'"}.get(self.text.separator, repr(self.text.separator))
            command = (
                f'python -c "import pandas as p; p.read_csv({self.path!r}, sep={sep}, '
                f"skiprows={self.text.top.n_skipped}, dtype=str, keep_default_na=False)"
                f".iloc[:, :-{k}].to_csv('NEW.csv', index=False)\""
            )
            remedy = f"Leave out the last {'column' if k == 1 else f'{k} columns'}: {command}"
        else:
            line, command = self._without_last(k)
            remedy = f"Leave out what follows from line {line} on: {command}"
        refuse_summary(self.path, np.arange(len(X)) if names is None else names, statistics, remedy)

    def check_alleles(self, X: Array) -> None:
        """Refuse genotypes whose alleles are counted from 1, so that 0 is a missing allele.

        Numbers such as 12 count as genotypes only if the user did not pass `missing_code`.
        """
        calls = self.calls()
        if calls and of_calls(calls) == OF_ALLELES:
            which = f"{abbreviate(map(repr, sorted(calls)), 5)}"
        elif not calls and self.infers_codes and are_two_digits(X):
            which = f"{abbreviate((f'{value:.0f}' for value in np.unique(X[~np.isnan(X)])), 5)}"
        else:
            return
        raise InputError(
            f"All features of {self.path} are genotypes of alleles from 1 on ({which}). "
            f"{ABOUT_ALLELES[:-1]}{self.refusal.in_every_column(OF_ALLELES, turned=self.turned)}."
        )

    def counted(self) -> str:
        """Return a description of the allele that dosages of PLINK or of calls count; or ""."""
        columns = self.columns
        if self.calls():
            return COUNTED_IN_CALLS
        if self.known is not None:
            return COUNTED_IN_TRAW if self.known.is_traw else ""
        is_raw = bool(phenotypes_of_plink(columns.names)) and columns.are_named
        names = [columns.names[i] for i in columns.numbers]
        return COUNTED_IN_RAW if is_raw and counts_alleles(names) else ""

    def box_hint(self, X: Array) -> str:
        """Return a sentence on features of X (m, d) with only 1 and missing values; "" for none."""
        boxes = [] if self.turned or not self.columns.are_named else check_boxes(X)
        if not boxes:
            return ""
        at = [self.columns.numbers[i] for i in boxes]
        zeros = dict.fromkeys(at, ticks(self.na))
        written = command(self.path, self.text.separator, self.text.top.n_skipped, zeros)
        names = [self.columns.names[i] for i in at]
        return about_boxes(names, f"{written}, then pass NEW.csv.")

    def na_hint(self, X: Array, labels: Mapping[str, Array]) -> str:
        """Return a sentence if numbers in `na` make many values of X (m, d) missing; else "".

        `labels` are the texts of the columns that are not features, by name. If these numbers occur
        there, the user may have meant only the labels.
        """
        n = self.n_coded()
        if not n or n < MOST_CODED * X.size:
            return ""
        numbers = [text for text in self.na if is_numeral(text)]
        of = [name for name, texts in labels.items() if not {*numbers}.isdisjoint(texts)]
        scoped = [f"{name}={text}" for name in of or ["NAME"] for text in numbers]
        return (
            f"na={numbers!r} also makes {n:,} of {X.size:,} feature values missing. If it is meant "
            f"for the labels alone, pass na={scoped!r}"
            f"{'' if of else ', where NAME is the name of their column'}."
        )

    def on_x(self, names: Names, rows: Iterable[Array]) -> DosagesOnX | None:
        """Return the variants on chromosome X of a PLINK table; None for other tables.

        A .traw table has chromosomes. A .raw table has none, so variants on X are recognised by the
        calls of males and females in its `rows`, (d,) each.
        """
        coords = names.coords
        assert not callable(coords), "they are in memory"
        if self.known is not None:
            on_x = are_on_x(coords[CONTIG]) if CONTIG in coords else None
            return None if on_x is None else DosagesOnX.of(np.flatnonzero(on_x), None)
        if self.counted() != COUNTED_IN_RAW:
            return None
        labels = names.sample_coords
        assert not callable(labels), "they are in memory"
        sex = next((codes for name, codes in labels.items() if name.upper() == SEX), None)
        calls = CallsBySex.none(len(self.columns.numbers))
        sexes = Sexes.of_codes(sex, 0 if sex is None else len(sex))
        for is_male, is_female, row in zip(sexes.males, sexes.females, rows, strict=False):
            if is_male or is_female:
                calls.add(row, is_male)
        return DosagesOnX.of_calls(calls, sex)

    def _check_width(self, line: int, fields: list[str]) -> None:
        if len(fields) != self.text.width:
            self._check_notes(line, fields)
            raise self.text.short_line(line, fields)

    def _check_notes(self, line: int, fields: list[str]) -> None:
        """Refuse notes below the table: rows of text in few fields, from `line` to the end."""
        if not self._is_note(fields):
            return
        if all(self._is_note(row) for number, row in self.text.rows() if number >= line):
            raise InputError(
                f"{self.path} ends with text ({next(filter(None, fields))[:40]!r}) from line "
                f"{line} on, like notes below a table. Remove it: head -n {line - 1} "
                f"{shlex.quote(self.path)} > NEW"
            )

    def _is_note(self, fields: Sequence[str]) -> bool:
        """Whether a row has only text, and only in the first half of the columns."""
        present = [i for i, field in enumerate(fields) if field.strip()]
        is_short = 2 * (present[-1] + 1) <= self.text.width if present else True
        return is_short and not any(is_value(field.strip()) for field in fields[1:] if field)

    def _check_first(self, first: list[str], line: int) -> None:
        """Refuse text columns that the first row shows, unless the user excluded them."""
        ids = self.columns.ids
        n_apart = 0 if self.known is None else self.known.n_rows_apart
        if n_apart or (self.turned and ids and self._is_apart(first[ids[0]])):
            return
        names = self.columns.names
        is_empty = not any(first[i].strip() for i in self.columns.numbers)
        if ids and is_empty and first[ids[0]] and is_id(first[ids[0]]):
            raise InputError(
                f"Line {line} of {self.path} has the name {first[ids[0]]!r} and no values, as "
                "pandas writes it below columns of two levels. It is not a sample. Remove it: sed "
                f"{line}d {shlex.quote(self.path)} > NEW"
            )
        odd = [
            i
            for i in self.columns.numbers
            if not (is_field(first[i]) or first[i].strip() in na_of(self.na, names[i]))
        ]
        if odd and self.turned:
            self.refusal.refuse_descriptions(odd)
        if odd:
            listed = abbreviate((f"{self.columns.called(i)}: {first[i]!r}" for i in odd), 4)
            self.refusal.refuse_text(
                f"{self.path} contains text ({listed}), but features must be numbers.", odd, line
            )


def open_table(path: str, options: OpenOptions) -> AbstractSource:
    """Open CSV, TSV or other text as a matrix in memory.

    Raises
    ------
    InputError
        The file is not a table of numbers; the message shows the first invalid field.
    MemoryBudgetError
        The table does not fit into memory.
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
    options.feature_axis(values.shape, None, path, convention)  # checks the number of labels
    names = table.resolve_names(beside, values[:, 0])
    if (
        columns.are_named
        and not table.turned
        and (counting := counting_columns(values.__getitem__, values.shape))
    ):
        count_columns = [columns.names[columns.numbers[i]] for i in counting]
        refuse_counting(path, count_columns, f"not_features={count_columns[:4]!r}")
    X = values.T if table.turned else values
    samples = names.samples
    table.check_alleles(X)
    table.check_sums(X, samples if isinstance(samples, np.ndarray) else None)
    source = ArraySource(X, missing_code=options.code_of(), names=names)
    source.not_features = table.not_features
    source.row_numbers = not table.turned and columns.are_counted(samples)
    repeated = "" if table.turned else repeated_rows(path, names.samples, values)
    labels = names.sample_coords
    assert not callable(labels), "they are in memory"
    hints = table.hint, repeated, table.box_hint(X), table.na_hint(X, labels)
    source.hint = " ".join(filter(None, hints))
    source.read_as, source.counted = table.described(), table.counted()
    source.on_x = table.on_x(names, values)
    return source
