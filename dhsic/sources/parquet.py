"""Parquet: a table of typed columns, of which those of a block of features alone are read.

Columns are as in `dhsic.sources.tables`. Numbers keep their type where all columns have one, and
none lacks a value; else they are float64, or float32 where all are that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import DataError, InputError
from dhsic.sources import (
    AbstractSource,
    AbstractStored,
    Block,
    Names,
    check_finite,
    take_rows,
)
from dhsic.sources.arrays import ArraySource
from dhsic.sources.ids import some
from dhsic.sources.options import OpenOptions
from dhsic.sources.options import text as as_text
from dhsic.sources.tables import (
    TEXT,
    TableColumns,
    check_known,
    check_room,
    is_turned,
    refuse_counted,
    refuse_parts,
)


class ParquetFile:
    """The columns of a Parquet file; it opens itself again where it is needed.

    Raises
    ------
    InputError
        It is no such file, or pyarrow is not installed.
    """

    def __init__(self, path: str) -> None:
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise InputError(
                f"{path} is Parquet, which needs the package pyarrow. Install dhsic[parquet]."
            ) from error
        self.path = path
        try:
            self._metadata = pyarrow.parquet.read_metadata(path)
        except FileNotFoundError as error:
            raise InputError(f"There is no table at {path}. Check the path.") from error
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise InputError(f"{path} is no Parquet file ({error}). Write it again.") from error
        schema = self._metadata.schema.to_arrow_schema()
        self.n_rows = int(self._metadata.num_rows)
        self.names, self.types = tuple(schema.names), tuple(schema.types)
        said = (schema.pandas_metadata or {}).get("index_columns", [])
        self.index = tuple(name for name in said if name in self.names)  # a range is no column

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_metadata"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import pyarrow.parquet

        vars(self).update(state)
        self._metadata = pyarrow.parquet.read_metadata(self.path)

    def read(self, names: list[str]) -> Any:
        """Columns as an Arrow table."""
        import pyarrow as pa
        import pyarrow.parquet

        try:
            with pa.parquet.ParquetFile(self.path, metadata=self._metadata) as file:
                return file.read(columns=names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{self.path} does not read ({error}); it is damaged, or was written again "
                "meanwhile: write it again, or open it anew."
            ) from error

    def text(self, name: str) -> Array:
        """A column as text, "" where a value is missing; numbers and booleans as they are."""
        column = self.read([name]).column(name)
        if self.is_number(name) and not column.null_count:
            return np.asarray(column.to_numpy())
        values = column.to_pylist()
        return np.array(["" if value is None else str(value) for value in values], dtype=object)

    def is_number(self, name: str) -> bool:
        """Whether a column holds numbers or booleans."""
        import pyarrow.types as of

        kind = self.types[self.names.index(name)]
        return bool(of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind))

    def dtype(self, names: tuple[str, ...]) -> Any:
        """The one dtype of columns of numbers."""
        kinds = {self.types[self.names.index(name)] for name in names}
        dtypes = {np.dtype(kind.to_pandas_dtype()) for kind in kinds}
        if all(kind.kind == "f" for kind in dtypes):
            return max(dtypes, key=lambda kind: kind.itemsize)
        whole = len(dtypes) == 1 and not self._has_nulls(set(names))
        return dtypes.pop() if whole else np.dtype(np.float64)

    def _has_nulls(self, names: set[str]) -> bool:
        """Whether a column lacks a value, or may, for nobody counted."""
        for g in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(g)
            for i in range(group.num_columns):
                column = group.column(i)
                if column.path_in_schema in names:
                    counted = column.statistics
                    if counted is None or not counted.has_null_count or counted.null_count:
                        return True
        return False


class ParquetSource(AbstractStored):
    """Columns of numbers of a Parquet file, a sample a row."""

    def __init__(
        self, file: ParquetFile, features: tuple[str, ...], names: Names, code: int | None
    ) -> None:
        self.file, self.features, self.names, self.missing_code = file, features, names, code
        self.n_samples, self.n_features = file.n_rows, len(features)
        self.dtype = file.dtype(features)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        wanted = self.features[block.start : block.stop]
        table = self.file.read(list(wanted))
        values = np.empty((block.width, self.n_samples), self.dtype)
        for i, name in enumerate(wanted):
            values[i] = self._column(table.column(name), name)
        values = np.ascontiguousarray(take_rows(values, rows, slice(0, self.n_samples)))
        check_finite(values, block, rows, None, self.missing_code)
        return values.T

    def _column(self, column: Any, name: str) -> Array:
        if self.dtype.kind == "f" and column.null_count:
            column = column.cast("float64", safe=self.dtype.itemsize == np.dtype(float).itemsize)
        elif column.null_count:
            raise DataError(
                f"Column {name!r} of {self.file.path} lacks {column.null_count} values, which its "
                "statistics do not say. Write the file again."
            )
        return np.asarray(column.to_numpy())

    @property
    def layout(self) -> Any:
        return "parquet", self.features


def open_parquet(path: str, options: OpenOptions) -> AbstractSource:
    """Open a Parquet file, a sample a row; turned, it is read whole.

    Raises
    ------
    InputError
        Columns hold no numbers; the message names them.
    MemoryBudgetError
        It is to be turned, and does not fit into memory.
    """
    refuse_parts(path, options)
    file, turned, apart = ParquetFile(path), is_turned(options, path), tuple(options.not_features)
    check_known(path, apart, file.names)
    others = [name for name in file.names if name not in file.index]
    if not others or not file.n_rows:
        raise InputError(f"{path} has {file.n_rows} rows and no column of features. Check it.")
    is_text = not file.is_number(others[0])
    found = TableColumns.of(others, apart, is_text=is_text, turned=turned)
    ids: tuple[str, ...] = file.index or tuple(others[i] for i in found.ids)
    features = tuple(name for name in others if name not in {*ids, *apart})
    odd = [name for name in features if not file.is_number(name)]
    if odd or not features:
        listed = some((f"{n!r}: {file.types[file.names.index(n)]}" for n in odd), 4)
        raise InputError(
            f"{path} has {f'columns that hold no numbers ({listed})' if odd else 'no features'}, "
            f"and features are numbers. {TEXT}"
        )
    held = [name for name in apart if name not in ids and not turned]
    return _source(file, options, ids, features, held, turned=turned)


def _source(
    file: ParquetFile,
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
    along = where.row_names(path, columns, turned=turned)
    code, n_bytes = options.code_of({}), 8 * file.n_rows * len(features)
    coords = {name: file.text(name) for name in held}
    names = Names(across, along, sample_coords=coords)
    source = ParquetSource(file, features, names, code)
    if not ids and features[0] == file.names[0]:
        values = source.read(Block(0, 0, 1))[:, 0].astype(np.float64)
        refuse_counted(path, f"column {features[0]!r}", values)
    source.not_features = tuple(options.not_features)
    if not turned:
        return source
    check_room(2 * n_bytes, path, (file.n_rows, len(features)))
    whole = source.read(Block(0, 0, len(features))).T
    return ArraySource(whole, missing_code=code, names=Names(along, across))
