"""Opening of DataFrames and text tables that contain both categories and numbers.

Columns of text become categorical features, as do columns of numbers that the caller names. Text in
a few fields of a numeric column raises an error, as in other tables, because it may be a typo.
Numbers with units, dates, and text that differs between most samples raise an error, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index, Mask
from dhsic.errors import InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.answers import are_answers
from dhsic.sources.arrays import open_in_memory
from dhsic.sources.categories import MOST, CodedColumn, MixedSource, check_known, check_levels
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import BOOLEANS, NA, abbreviate, is_id, is_value, na_of, names_rows_by_name
from dhsic.sources.marked_numbers import command, numbers_of
from dhsic.sources.odd_fields import OddFields
from dhsic.sources.options import OpenOptions
from dhsic.sources.table_formats import format_of
from dhsic.sources.tables import TableColumns, check_room, is_turned
from dhsic.sources.text_features import CALLS, are_bases, are_codes, is_field
from dhsic.sources.text_tables import BYTES_OF_FIELD, open_table
from dhsic.validation import is_numeral


def is_frame(X: Any) -> bool:
    """Whether X is a DataFrame of pandas."""
    return isinstance(X, pd.DataFrame)


def may_be_mixed(X: Any, options: Mapping[str, Any]) -> bool:
    """Whether X is a DataFrame that may have categorical columns, judging by dtypes and options."""
    if not is_frame(X) or options.get("categories") is None:
        return False
    return bool(options["categories"]) or not all(
        pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes
    )


def open_mixed_frame(X: pd.DataFrame, options: OpenOptions) -> AbstractSource:
    """Open a DataFrame of numeric and categorical columns; `options.categories` is not None.

    Raises
    ------
    InputError
        A column is neither numeric nor categorical. It contains text among numbers, dates, names
        or free text.
    """
    wanted, plain = tuple(options.categories or ()), replace(options, categories=None)
    check_known("the DataFrame", wanted, [str(name) for name in X.columns])
    if X.columns.has_duplicates:
        return open_in_memory(X.loc[:, X.columns.duplicated(keep=False)], plain)  # refused there
    coded = {
        str(name): of
        for name in X.columns
        if (of := _coded_series(X[name], is_category=str(name) in wanted)) is not None
    }
    if not coded:
        return open_in_memory(X, plain)
    texts = (
        {*map(_text, X[name].dropna().tolist())} for name in X.columns if str(name) not in coded
    )
    coded = _without_genotypes(coded, wanted, texts)
    if not coded:
        return open_in_memory(X, plain)
    check_levels("The DataFrame", coded, wanted, _in_frame)
    left = X.loc[:, [str(name) not in coded for name in X.columns]]
    columns, code = dict(coded), plain.code_of()
    samples = X.index.to_numpy(dtype=object)
    if left.shape[1]:
        numbers = open_in_memory(left, plain)
        columns |= _number_columns(numbers, map(str, left.columns))
    else:
        options.check_length(len(X), "The DataFrame")
        options.check_dim(0, X.index.name, "the DataFrame")
    order = [str(name) for name in X.columns]
    return MixedSource({name: columns[name] for name in order}, samples, missing_code=code)


def _in_frame(changes: Mapping[str, str]) -> str:
    """Return Python code that converts columns of a DataFrame X by pandas expressions."""
    texts = "X[{name!r}].astype(str).str.strip()"
    return "; ".join(
        f"X[{name!r}] = {change.format(p='pandas', v=texts.format(name=name))}"
        for name, change in changes.items()
    )


def _in_table(text: Delimited, changes: Mapping[str, str]) -> str:
    """Return a shell command that converts columns of a text table by pandas expressions."""
    assert text.names is not None, "tables of categories have a header"
    at = {text.names.index(name): change for name, change in changes.items()}
    written = command(text.path, text.separator, text.top.n_skipped, at)
    return f"{written}, then pass NEW.csv{text.formula_advice()}"


def _coded_series(column: pd.Series, *, is_category: bool) -> CodedColumn | None:
    """Return a categorical column as codes; None for numbers and for columns without levels."""
    kind, name = column.dtype, column.name
    if isinstance(kind, pd.CategoricalDtype) and kind.ordered and not is_category:
        codes = column.cat.codes.to_numpy(np.float64)
        n = len(kind.categories)
        return CodedColumn(np.where(codes < 0, np.nan, codes), kind=f"ordered ({n} levels)")
    texts = [None if pd.isna(v) is True else _text(v) for v in column.tolist()]
    texts = [None if text is None or text.lower() in NA else text for text in texts]
    if is_category or isinstance(kind, pd.CategoricalDtype):
        return CodedColumn.of(_as_written_once(texts))
    is_text = not pd.api.types.is_numeric_dtype(kind) and kind.kind not in "mMc"
    is_text &= all(pd.isna(v) is True or isinstance(v, str | bool) for v in column.tolist())
    is_text &= not (isinstance(name, str) and _names_samples(name, texts))
    return CodedColumn.of(texts) if is_text and _are_levels(texts, "") else None


def _text(value: Any) -> str:
    """Return a value as text; whole numbers have no decimal point."""
    return value.strip() if isinstance(value, str) else str(value).removesuffix(".0")


def _names_samples(name: str, texts: Sequence[str | None]) -> bool:
    """Whether a text column contains sample names, judging by its name and repeated values."""
    is_unique = len(set(texts)) == len(texts)
    return names_rows_by_name(name) or (is_id(name) and is_unique)


def _as_written_once(texts: Sequence[str | None]) -> list[str | None]:
    """Write equal numbers alike (1 for 1.0) if all texts are numbers; else keep the texts."""
    if not all(text is None or is_numeral(text) for text in texts):
        return list(texts)
    return [None if text is None else repr(float(text)).removesuffix(".0") for text in texts]


def _are_levels(texts: Sequence[str | None], separator: str) -> bool:
    """Whether the texts of a column are the levels of a category.

    They are not if they are numbers, genotypes, check boxes or lists of answers such as 1,3.
    `separator` is the character between the columns of the table; lists use another one.
    """
    present = [text for text in texts if text is not None]
    odd = OddFields("", "", n_empty=len(texts) - len(present))
    for text in present:
        odd.add(text, "")
    if odd.n_empty and len({text.lower() for text in present}) == 1:
        return False  # a check box
    if present and all(text.lower() in BOOLEANS for text in present):
        return True
    if odd.has_numbers or not odd.places or odd.dosages or not CALLS.keys().isdisjoint(odd.places):
        return False
    if numbers_of(odd.places) or len({*odd.commas, *odd.limits}) == len(odd.places):
        return False
    if odd.commas and 2 * len(odd.commas) >= len(odd.places):
        return False  # other text is a typo, or a unit below the header
    return not (separator and are_answers(odd.places, separator))


def _without_genotypes(
    coded: dict[str, CodedColumn], wanted: Sequence[str], others: Iterable[Iterable[Any]]
) -> dict[str, CodedColumn]:
    """Drop categorical columns of single bases if other columns contain IUPAC codes.

    A and G may be names of groups. If another column contains A, R and G, they are genotypes.
    `coded` are the categorical columns, and `others` the texts of the other columns. Columns in
    `wanted`, which the caller declared as categories, always remain.
    """
    may_be = [name for name, of in coded.items() if name not in wanted and are_bases(of.levels)]
    if not any(coded[name].levels for name in may_be) or not any(map(are_codes, others)):
        return coded
    return {name: of for name, of in coded.items() if name not in may_be or not of.levels}


def _number_columns(source: AbstractSource, names: Iterable[str]) -> dict[str, CodedColumn]:
    """Return the columns of a numeric source in memory, by name."""
    (X,) = (source.read(block) for block in source.blocks(source.n_features))
    values = np.asarray(X, dtype=np.float64)
    return {name: CodedColumn(values[:, j]) for j, name in enumerate(names)}


def open_mixed_table(path: str, options: OpenOptions) -> AbstractSource:
    """Open a text table of numeric and categorical columns; `options.categories` is not None.

    Tables without a header, with samples as columns, or in a published format have no categories.
    """
    wanted, plain = tuple(options.categories or ()), replace(options, categories=None)
    text = Delimited(path)
    known = format_of(text)
    if text.names is None or is_turned(options, path, 1 if known is None else 0):
        if wanted:
            check_known(path, wanted, ())
        return open_table(path, plain)
    table = _TextColumns(text, options)
    check_known(path, wanted, table.feature_names)
    coded = table.coded(wanted)
    if not coded:
        return open_table(path, plain)
    check_levels(path, coded, wanted, partial(_in_table, text))
    others = [name for name in table.feature_names if name not in coded]
    if not others:
        return MixedSource(coded, *table.names(path, coded), missing_code=plain.code_of())
    apart = (*options.not_features, *coded)
    numbers = open_table(path, replace(plain, not_features=apart))
    columns = coded | _number_columns(numbers, others)
    texts = {k: v for k, v in numbers.sample_coords().items() if k not in coded}
    base = replace(numbers.names, sample_coords=texts)
    source = MixedSource(
        {name: columns[name] for name in table.feature_names},
        numbers.sample_names(),
        base,
        missing_code=plain.code_of(),
    )
    source.not_features = tuple(name for name in numbers.not_features if name not in coded)
    source.row_numbers, source.hint = numbers.row_numbers, numbers.hint
    source.read_as, source.counted = numbers.read_as, numbers.counted
    return source


class _TextColumns:
    """Columns of a text table that has a header and one row per sample."""

    def __init__(self, text: Delimited, options: OpenOptions) -> None:
        assert text.names is not None, "it has a header"
        self.text, self.na, self.all_names = text, tuple(options.na), tuple(text.names)
        first = next(self._rows(), [])
        is_text = bool(first) and not is_value(first[0])
        apart = tuple(options.not_features)
        self.columns = TableColumns.of(self.all_names, apart, is_text=is_text, turned=False)
        if self._first_repeats():  # a first column of text that names no samples
            self.columns = TableColumns.of(self.all_names, apart, is_text=False, turned=False)
        n_rows = text.count()
        check_room(BYTES_OF_FIELD * n_rows, text.path, (n_rows, text.width))

    @property
    def feature_names(self) -> list[str]:
        return [self.all_names[i] for i in self.columns.numbers]

    def coded(self, wanted: Sequence[str]) -> dict[str, CodedColumn]:
        """Return the categorical columns as codes, by name, in the order of the table."""
        at = {i for i in self.columns.numbers if self.all_names[i] in wanted} | self._of_text()
        texts: dict[int, list[str | None]] = {i: [] for i in sorted(at)}
        for fields in self._rows() if at else ():
            for i, column in texts.items():
                column.append(self._text_at(i, fields))
        coded = {}
        for i, column in texts.items():
            name = self.all_names[i]
            if name in wanted:
                coded[name] = CodedColumn.of(_as_written_once(column))
            elif _are_levels(column, self.text.separator):
                coded[name] = CodedColumn.of(column)
        others = ({*texts[i]} - {None} for i in texts if self.all_names[i] not in coded)
        return _without_genotypes(coded, wanted, others)

    def names(self, path: str, coded: Mapping[str, CodedColumn]) -> tuple[Array | None, Names]:
        """Return the sample names and the non-feature columns of a table without numbers."""
        del coded
        rows = [[fields[i].strip() for i in range(self.text.width)] for fields in self._rows()]
        by_column = np.array(rows, dtype=object).T
        ids = [by_column[i] for i in self.columns.ids]
        beside = {self.all_names[i]: by_column[i] for i in self.columns.apart}
        return self.columns.row_names(path, ids, turned=False), Names(sample_coords=beside)

    def _rows(self) -> Iterator[list[str]]:
        """Yield the fields of each row; raise InputError for a row of the wrong length."""
        for line, fields in self.text.rows():
            if len(fields) != self.text.width:
                raise self.text.short_line(line, fields)
            yield fields

    def _first_repeats(self) -> bool:
        """Whether the first column, where sample names are expected, contains repeated text."""
        if self.columns.ids != (0,) or is_id(self.all_names[0]):
            return False
        first = [fields[0].strip() for fields in islice(self._rows(), MOST + 1)]
        if len(set(first)) > MOST:  # more than a category may have
            return False
        texts = [fields[0].strip() for fields in self._rows()]
        return len(set(texts)) < len(texts) and _are_levels(texts, "")

    def _text_at(self, i: int, fields: Sequence[str]) -> str | None:
        """Text of a field; None if it is missing."""
        text = fields[i].strip()
        return None if text.lower() in NA or text in na_of(self.na, self.all_names[i]) else text

    def _of_text(self) -> set[int]:
        """Return the columns in which the first non-missing field is text.

        All other columns contain a number or a genotype call, and therefore have no levels.
        """
        at, undecided = set[int](), list(self.columns.numbers)
        for fields in self._rows():
            if not undecided:
                break
            there = [i for i in undecided if self._text_at(i, fields) is not None]
            at |= {i for i in there if not is_field(fields[i])}
            undecided = sorted({*undecided} - {*there})
        return at


def refuse_categories(categories: Sequence[str] | None) -> None:
    """Refuse the option `categories` for data other than DataFrames and text tables."""
    if categories:
        raise InputError(
            f"categories={[*categories]!r} names columns of a DataFrame or a text table (CSV, "
            "TSV), but the data are neither. Leave it out, or read the data into a DataFrame."
        )


def refuse_codes(source: AbstractSource, categories: Sequence[str] | None) -> None:
    """Refuse a source that is already open with categories, where they are not supported.

    `categories` is None where they are not supported; then the error asks for the table itself.
    """
    if source.levels and categories is None:
        names = source.feature_names()
        assert names is not None, "columns of tables have names"
        columns = [str(names[j]) for j in source.levels]
        raise InputError(
            f"X was opened with categories ({abbreviate(map(repr, columns), 5)}), which are not "
            "supported here. Pass the table itself instead of the open source, and exclude these "
            f"columns: not_features={columns!r}."
        )


def take_columns(X: pd.DataFrame, names: Array, selected: Mask) -> Index:
    """Return the positions of the selected columns of a frame.

    `names` (d,) are the columns that `fit` saw, and `selected` (d,) is a mask over them. The frame
    must have the same columns in the same order.
    """
    if [str(name) for name in X.columns] != [str(name) for name in names]:
        raise InputError(
            f"X has the columns {abbreviate(map(repr, X.columns), 8)}, but fit saw "
            f"{abbreviate(map(repr, names), 8)}. Pass the columns of fit in their order: "
            "X[selector.feature_names_in_]."
        )
    return np.flatnonzero(selected)
