"""Parquet and Feather: tables with typed columns, which are read one block of columns at a time.

`dhsic.sources.tables` decides which columns are features. Integers keep their type if all columns
have the same type and no value is missing. If all columns are floats, they get the widest of their
types. Other numbers become float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import AbstractSource, AbstractStored, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.arrow import UNNAMED, AbstractArrowTable, FeatherTable, arrow_table
from dhsic.sources.blocks import Block, check_finite, take_rows
from dhsic.sources.ids import NA, abbreviate
from dhsic.sources.odd_fields import no_features
from dhsic.sources.options import OpenOptions
from dhsic.sources.options import text as as_text
from dhsic.sources.row_numbers import (
    counting_columns,
    refuse_counting,
    refuse_rising,
    rising_columns,
)
from dhsic.sources.summary_rows import MOST_FEATURES, refuse_summary, summary_rows
from dhsic.sources.tables import (
    TableColumns,
    check_known,
    check_room,
    is_turned,
    refuse_counted,
    refuse_parts,
)
from dhsic.sources.text_features import (
    OF_ALLELES,
    OF_CALLS,
    OF_CODES,
    OF_LETTERS,
    are_bases,
    dosages_of,
)
from dhsic.validation import EXACT, is_numeral

#: Maximum number of values of a table that are all checked for row numbers when it is opened.
MOST_VALUES = 1 << 22
#: Maximum number of columns that a command lists.
MOST_LISTED = 20
#: Kinds of genotypes as text, and pandas expressions of their dosages.
GENOTYPES = {
    "genotypes of letters": OF_LETTERS,
    "genotypes of IUPAC codes": OF_CODES,
    "genotype calls": OF_CALLS,
    "genotype calls of alleles from 1 on, where 0 is missing,": OF_ALLELES,
}
#: Kinds of columns that can be converted to numbers: the meaning of these, and the statement that
#: converts the columns c of a pandas frame t.
_CHANGES = {
    **{
        kind: (
            "dosages",
            f"t[c] = t[c].apply(lambda v: {change.format(v='v.astype(str).str.strip()')})",
        )
        for kind, change in GENOTYPES.items()
    },
    "dates": (
        "days since 1970",
        (
            "t[c] = t[c].apply(lambda v: (p.to_datetime(v, utc=True) - p.Timestamp(0, tz='UTC')) "
            "/ p.Timedelta(days=1))"
        ),
    ),
    "times": (
        "seconds",
        "t[c] = t[c].astype(str).apply(p.to_timedelta).apply(lambda v: v.dt.total_seconds())",
    ),
    "binary": (
        "numbers",
        "t[c] = t[c].apply(lambda v: p.to_numeric(v.str.decode('utf-8'), errors='coerce'))",
    ),
    "lists": (
        "one column per element",
        (
            "t = p.concat([t.drop(columns=c), *(p.DataFrame([*t[n]], t.index).add_prefix(n + '_') "
            "for n in c)], axis=1)"
        ),
    ),
}


class ParquetSource(AbstractStored):
    """Source of the numeric columns of an Arrow table, with one row per sample."""

    def __init__(
        self, file: AbstractArrowTable, features: tuple[str, ...], names: Names, code: int | None
    ) -> None:
        self.file, self.features, self.names, self.missing_code = file, features, names, code
        self.n_samples, self.n_features = file.n_rows, len(features)
        self.dtype = file.dtype(features)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        features = self.features[block.start : block.stop]
        table = self.file.read(list(features))
        values = np.empty((block.width, self.n_samples), self.dtype)
        for i, name in enumerate(features):
            values[i] = self._column(table.column(name), name)
        values = np.ascontiguousarray(take_rows(values, rows, slice(0, self.n_samples)))
        check_finite(values, block, rows, self._place, self.missing_code)
        return values.T

    def _place(self, feature: int, sample: int) -> str:
        """Describe the column that contains a value, for messages."""
        del sample
        return f", in column {self.features[feature]!r}"

    def _column(self, column: Any, name: str) -> Array:
        if self.file.is_decimal(name):
            self._check_decimal(column, name)
            column = column.cast("float64", safe=False)
        elif self.dtype.kind == "f" and column.null_count:
            column = column.cast("float64", safe=self.dtype.itemsize == np.dtype(float).itemsize)
        elif column.null_count:
            raise DataError(
                f"Column {name!r} of {self.file.path} has {column.null_count} missing values, "
                "but the statistics of the file state none. Write the file again."
            )
        return np.asarray(column.to_numpy())

    def _check_decimal(self, column: Any, name: str) -> None:
        """Refuse integers beyond 2**53, which float64 cannot represent exactly."""
        if any(kind.scale > 0 for kind in self.file.types[name]):
            return
        values = np.abs(column.cast("float64", safe=False).to_numpy())
        if np.nanmax(values, initial=0) > EXACT:
            raise DataError(
                f"Column {name!r} of {self.file.path} contains integers larger than 2**53, "
                "beyond which float64 cannot represent every integer, so digits would be lost. "
                "If the column is a name rather than a number, exclude it (not_features=); "
                "otherwise subtract an offset."
            )

    @property
    def layout(self) -> Any:
        return "parquet", self.features


def open_parquet(path: str, options: OpenOptions) -> AbstractSource:
    """Open a Parquet or Feather file; a table with samples as columns is read into memory.

    Raises
    ------
    InputError
        Columns are not numeric; the message lists them.
    MemoryBudgetError
        The table must be transposed and does not fit into memory.
    """
    refuse_parts(path, options)
    file, turned = arrow_table(path), is_turned(options, path)
    check_known(path, options.required, file.names, _row_names(file), _transposed(file))
    apart = tuple(name for name in options.not_features if name in file.names)
    others = [name for name in file.names if name not in file.index]
    if not others or not file.n_rows:
        raise InputError(f"{path} has {file.n_rows} rows and no feature columns. Check the file.")
    is_text = not file.is_number(others[0])
    found = TableColumns.of(others, apart, is_text=is_text, turned=turned)
    index = tuple(name for name in file.index if name not in apart)
    if found.ids and all(map(UNNAMED.fullmatch, index)) and _repeats(file, index):
        index = ()  # a column contains the names, not the pandas index
    ids: tuple[str, ...] = index or tuple(others[i] for i in found.ids)
    of_folders = [name for name in file.partitions if name not in apart]
    assumed = (*(others[i] for i in found.assumed), *of_folders)
    taken = {*ids, *apart, *assumed}
    features = tuple(name for name in others if name not in taken)
    odd = [name for name in features if not file.is_number(name)]
    if odd or not features:
        listed = abbreviate((f"{n!r}: {file.type_text(n)}" for n in odd), 4)
        remedy = _remedy(file, odd, ids) if odd else "Check which columns are excluded."
        raise InputError(
            f"{path} has {f'columns that are not numeric ({listed})' if odd else 'no features'}, "
            f"but features must be numbers. {remedy}"
        )
    held = [name for name in (*apart, *assumed) if name not in ids and not turned]
    source = _source(file, options, ids, features, held, turned=turned)
    source.not_features = (*apart, *assumed)
    hints = ["" if turned else found.hint(path), _of_partitions(path, of_folders)]
    source.hint = " ".join(filter(None, hints))
    return source


def _row_names(file: AbstractArrowTable) -> Iterator[str]:
    """Yield the row names: the index, or else the first column."""
    yield from map(str, file.text((*file.index, *file.names)[0]))


def _transposed(file: AbstractArrowTable) -> str:
    """Return advice with a command that transposes a table."""
    suffix = "feather" if file.path.lower().endswith((".feather", ".arrow")) else "parquet"
    index = "" if file.index else f".set_index({file.names[0]!r})"
    return (
        f'transpose it: python -c "import pandas as p; t = p.read_{suffix}({file.path!r}){index}'
        f".T; t.rename_axis(columns=None).reset_index(names='id').to_{suffix}('NEW.{suffix}')\", "
        f"then pass NEW.{suffix}."
    )


def _remedy(file: AbstractArrowTable, odd: list[str], ids: tuple[str, ...]) -> str:
    """Return advice on the columns `odd`, which are not numeric but may contain numbers as text."""
    numerals = [name for name in odd if _holds_numerals(file, name)]
    kinds = {name: _kind(file, name) for name in odd if name not in numerals}
    _, of_codes, of_reference, from_one = GENOTYPES
    if of_codes in kinds.values():  # a column without heterozygotes has the same codes
        kinds = {
            name: of_codes if not of and are_bases(file.text(name).tolist()) else of
            for name, of in kinds.items()
        }
    if from_one in kinds.values():  # a column without the other alleles has the same coding
        kinds = {name: from_one if of == of_reference else of for name, of in kinds.items()}
    others = [name for name, kind in kinds.items() if kind not in _CHANGES]
    steps = [no_features(others)] if others else []
    steps[:0] = [
        _converted(file, [name for name, of in kinds.items() if of == kind], kind)
        for kind in _CHANGES
        if kind in kinds.values()
    ]
    if numerals:
        beside = [*ids, *(name for name in file.names if name not in numerals)]
        is_few = len(numerals) <= MOST_LISTED
        columns = f"{numerals!r}" if is_few else f"t.columns.difference({beside!r})"
        ends = file.path.lower().endswith((".feather", ".arrow"))
        kind, name = ("feather", "NEW.feather") if ends else ("parquet", "NEW.parquet")
        which = abbreviate(map(repr, numerals), 3)
        contain = "contains" if len(numerals) == 1 else "contain"
        steps.insert(
            0,
            f"{which} {contain} numbers written as text. Convert them to numbers: "
            f'python -c "import pandas as p; '
            f"t = p.read_{kind}({file.path!r}); c = {columns}; "
            f"t[c] = t[c].apply(p.to_numeric, errors='coerce'); t.to_{kind}('{name}')\", then pass "
            f"{name}.",
        )
    return " ".join(steps)


def _kind(file: AbstractArrowTable, name: str) -> str:
    """Return the kind of a column that is not numeric (a key of `_CHANGES`); "" for other text."""
    if not file.is_text(name):
        return file.kind(name)
    texts = [str(text).strip() for text in file.text(name).tolist()]
    dosages = dosages_of(text for text in texts if text.lower() not in NA)
    return next((kind for kind, change in GENOTYPES.items() if change == dosages), "")


def _converted(file: AbstractArrowTable, names: list[str], kind: str) -> str:
    """Return advice with a command that converts columns of one `kind` (a key of `_CHANGES`)."""
    what, change = _CHANGES[kind]
    ends = file.path.lower().endswith((".feather", ".arrow"))
    suffix = "feather" if ends else "parquet"
    are = "are" if len(names) > 1 else "is"
    return (
        f"{abbreviate(map(repr, names), 3)} {are} of {kind}. Convert to {what}: "
        f'python -c "import pandas as p; t = p.read_{suffix}({file.path!r}); c = {names!r}; '
        f"{change}; t.to_{suffix}('NEW.{suffix}')\", then pass NEW.{suffix}; or exclude "
        f"{'them' if len(names) > 1 else 'it'}: not_features={names[:MOST_LISTED]!r}."
    )


def _holds_numerals(file: AbstractArrowTable, name: str) -> bool:
    """Whether a column is text that contains only numbers and missing values."""
    if not file.is_text(name):
        return False
    texts = [str(text).strip() for text in file.text(name).tolist()]
    there = [text for text in texts if text.lower() not in NA]
    return bool(there) and all(map(is_numeral, there))


def _repeats(file: AbstractArrowTable, index: tuple[str, ...]) -> bool:
    """Whether an index is a single column with repeated values."""
    return len(index) == 1 and len(set(file.text(index[0]).tolist())) < file.n_rows


def _of_partitions(path: str, names: list[str]) -> str:
    """Return a sentence on columns that folder names define (Hive partitions); "" for none."""
    if not names:
        return ""
    return (
        f"The folder names of {path} define the columns {abbreviate(map(repr, names))}, which "
        "are not used as features. They may be a target or covariates."
    )


def _joined_levels(levels: list[Array]) -> Array | None:
    """Join the levels of an index, each (m,), to names (m,), with "_" between levels.

    The result is None unless each level has repeated values but the joined names are unique.
    """
    m = len(levels[0]) if len(levels) > 1 else 0
    joined = ["_".join(row) for row in zip(*levels, strict=True)] if m else []
    is_needed = m > 0 and all(len({*level}) < m for level in levels)
    return np.array(joined, dtype=object) if is_needed and len({*joined}) == m else None


def _source(
    file: AbstractArrowTable,
    options: OpenOptions,
    ids: tuple[str, ...],
    features: tuple[str, ...],
    held: list[str],
    *,
    turned: bool,
) -> AbstractSource:
    path, across = file.path, np.array(features, dtype=object)
    options.feature_axis((file.n_rows, len(features)), None, path, convention=1)
    where = TableColumns(ids, are_named=True, ids=tuple(range(len(ids))), apart=(), numbers=())
    columns = [as_text(file.text(name)) for name in ids]
    along = _joined_levels(columns) if {*ids} <= {*file.index} else None
    along = where.row_names(path, columns, turned=turned) if along is None else along
    code, n_bytes = options.code_of(), 8 * file.n_rows * len(features)
    coords = {name: file.text(name) for name in held}
    levels = {name: each for name in held if (each := file.levels(name))}
    names = Names(across, along, sample_coords=coords, levels=levels)
    source = ParquetSource(file, features, names, code)
    if not ids and features[0] == file.names[0]:
        values = source.read(Block(0, 0, 1))[:, 0].astype(np.float64)
        refuse_counted(path, f"column {features[0]!r}", values)
    if not turned:
        source.row_numbers = where.are_counted(along)
        _refuse_row_numbers(source)
        _refuse_sums(source, along)
        return source
    check_room(2 * n_bytes, path, (file.n_rows, len(features)))
    whole = source.read(Block(0, 0, len(features))).T
    return ArraySource(whole, missing_code=code, names=Names(along, across))


def _refuse_sums(source: ParquetSource, samples: Array | None) -> None:
    """Refuse last rows that contain sums or means of the others; skip this for large tables."""
    n, d = source.n_samples, source.n_features
    if n * min(d, MOST_FEATURES) > MOST_VALUES:
        return

    def values(at: tuple[slice, Index]) -> Array:
        names = tuple(source.features[i] for i in at[1])
        part = ParquetSource(source.file, names, Names(), source.missing_code)
        return part.read(Block(0, 0, len(names))).astype(np.float64)

    if statistics := summary_rows(values, (n, d)):
        names = np.arange(n) if samples is None else samples
        path = source.file.path
        suffix = "feather" if isinstance(source.file, FeatherTable) else "parquet"
        remedy = (
            f'Leave it out: python -c "import pandas as p; p.read_{suffix}({path!r})'
            f".iloc[:-{len(statistics)}].to_{suffix}('NEW.{suffix}')\""
        )
        refuse_summary(path, names, statistics, remedy)


def _refuse_row_numbers(source: ParquetSource) -> None:
    """Refuse columns that number the rows, in any order, or increase from row to row.

    In tables of more than `MOST_VALUES` values, only integer columns are checked.
    """
    file, n, d = source.file, source.n_samples, source.n_features
    at = np.arange(d)
    if n * d > MOST_VALUES:
        at = np.flatnonzero([file.is_whole(name) for name in source.features])
    if not at.size or n * at.size > MOST_VALUES:
        return
    names = tuple(source.features[i] for i in at)
    part = ParquetSource(file, names, Names(), source.missing_code)
    X = part.read(Block(0, 0, len(names))).astype(np.float64)
    if counting := counting_columns(X.__getitem__, (n, d)):
        listed = [names[i] for i in counting]
        refuse_counting(file.path, listed, f"not_features={listed[:4]!r}")
    if rising := rising_columns(X.__getitem__, (n, d)):
        named = [(f"column {names[i]!r}", names[i], a, b) for i, a, b in rising]
        refuse_rising(file.path, named)
