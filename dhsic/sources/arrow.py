"""Tables in the formats of Arrow: Parquet, a file or a folder of parts, and Feather.

A table is read some columns at a time, and opens itself again where it is needed. The parts of a
folder, as Dask and Spark write them, follow each other in the order of the numbers in their names.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from dhsic._typing import Array
from dhsic.errors import DataError, InputError
from dhsic.sources.ids import abbreviate

#: How files begin: Parquet, Feather (the file of Arrow), and its first version.
PARQUET, FEATHER, FEATHER_1 = b"PAR1", b"ARROW1", b"FEA1"
#: How a stream of Arrow begins: a message, and its length.
STREAM = b"\xff\xff\xff\xff"
#: What pandas calls an index without a name.
UNNAMED = re.compile(r"__index_level_\d+__")
#: Bytes of a file that tell what it is.
HEAD = 8
#: Folders in which a table keeps its versions; what they replaced may lie beside it.
VERSIONS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi", "metadata": "Iceberg"}
#: A folder of a partition, as Hive names it, and what it says of a value that is missing.
PARTITION, NO_VALUE = re.compile(r"([^=]+)=(.*)"), "__HIVE_DEFAULT_PARTITION__"


def begins(path: str | Path) -> bytes:
    """First bytes of a file."""
    with Path(path).open("rb") as file:
        return file.read(HEAD)


def is_folder_of_parts(path: Path) -> bool:
    """Whether a folder holds parts of a table in Parquet, by how the first of its files begins."""
    while path.is_dir():
        there = _visible(path)
        first = next((one for one in there if one.is_file()), None)
        first = first or next((one for one in there if PARTITION.fullmatch(one.name)), None)
        if first is None:
            return False
        path = first
    return begins(path)[: len(PARQUET)] == PARQUET


def _visible(path: Path) -> list[Path]:
    """Return the entries of a folder without markers and logs, in natural order of names."""
    return sorted((p for p in path.iterdir() if p.name[0] not in "_."), key=lambda p: _key(p.name))


def _key(name: str) -> list[tuple[int, str]]:
    """Key that sorts part.10 after part.2.

    >>> sorted(["part.10", "part.2"], key=_key)
    ['part.2', 'part.10']
    """
    return [(int(t) if t.isdigit() else 0, t) for t in re.split(r"(\d+)", name)]


class AbstractArrowTable(ABC):
    """A table of typed columns that are read by name.

    Attributes
    ----------
    path : str
    n_rows : int
    names : tuple of str
        Names of the columns, which differ.
    types : mapping
        Types of each column: of a folder one for each part, without those that hold nothing.
    index : tuple of str
        Columns that name the rows, as pandas wrote it.
    partitions : tuple of str
        Columns that folders are named by; they hold text.
    """

    path: str
    n_rows: int
    names: tuple[str, ...]
    types: dict[str, set[Any]]
    index: tuple[str, ...]
    partitions: tuple[str, ...] = ()

    def _take_schemas(self, schemas: Sequence[Any]) -> None:
        """Take names and types of the columns from the schema of each part."""
        import pyarrow.types as of

        first = schemas[0]
        counts = Counter(first.names)
        twice = [name for name, n in counts.items() if n > 1]
        if twice:
            raise InputError(
                f"{self.path} has {counts[twice[0]]} columns called {twice[0]!r}"
                f"{f' ({len(twice)} such names in all)' if len(twice) > 1 else ''}; each column "
                "needs a name of its own. Rename them with pyarrow: table.rename_columns(names)."
            )
        self.names = tuple(first.names)
        self.types = {name: set() for name in self.names}
        for schema in schemas:
            for name, kind in zip(schema.names, schema.types, strict=True):
                self.types[name] |= set() if of.is_null(kind) else {kind}
        index = (first.pandas_metadata or {}).get("index_columns", [])
        self.index = tuple(name for name in index if name in self.names)  # a range is no column

    @abstractmethod
    def _read(self, names: list[str]) -> Any:
        """Columns as an Arrow table."""

    @abstractmethod
    def has_nulls(self, names: set[str]) -> bool:
        """Whether a column has missing values, or may have if the file stores no count."""

    def read(self, names: list[str]) -> Any:
        """Columns as an Arrow table.

        Raises
        ------
        DataError
            They do not read.
        """
        import pyarrow as pa

        try:
            return self._read(names)
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{self.path} does not read ({error}); it is damaged, or was written again "
                "meanwhile: write it again, or open it anew."
            ) from error

    def text(self, name: str) -> Array:
        """A column as text, "" where a value is missing; numbers and booleans as they are."""
        column = self.read([name]).column(name)
        if self.is_number(name) and not self.is_decimal(name) and not column.null_count:
            return np.asarray(column.to_numpy())
        return _texts(column)

    def columns(self) -> dict[str, Array]:
        """All columns as text, "" where a value is missing, as of a table of text."""
        table = self.read(list(self.names))
        if not self.n_rows:
            raise InputError(f"{self.path} holds no rows; pass a table with a row a sample.")
        return {
            "" if UNNAMED.fullmatch(name) else name: _texts(table.column(name))
            for name in self.names
        }

    def type_text(self, name: str) -> str:
        """Type of a column, for sentences."""
        return " or ".join(sorted(map(str, self.types[name]))) or "nothing"

    def is_number(self, name: str) -> bool:
        """Whether a column holds numbers or booleans, or nothing."""
        import pyarrow.types as of

        are = (of.is_integer, of.is_floating, of.is_boolean, of.is_decimal)
        return all(any(is_one(kind) for is_one in are) for kind in self.types[name])

    def is_whole(self, name: str) -> bool:
        """Whether a column holds integers, by its types."""
        import pyarrow.types as of

        return bool(self.types[name]) and all(map(of.is_integer, self.types[name]))

    def is_decimal(self, name: str) -> bool:
        """Whether a column holds decimal numbers of fixed precision."""
        import pyarrow.types as of

        return any(of.is_decimal(kind) for kind in self.types[name])

    def dtype(self, names: tuple[str, ...]) -> np.dtype[Any]:
        """The one dtype of columns of numbers; decimal numbers are float64."""
        kinds = {kind for name in names for kind in self.types[name]}
        if not kinds or any(map(self.is_decimal, names)):
            return np.dtype(np.float64)
        dtypes = {np.dtype(kind.to_pandas_dtype()) for kind in kinds}
        if all(kind.kind == "f" for kind in dtypes):
            return max(dtypes, key=lambda kind: kind.itemsize)
        is_whole = len(dtypes) == 1 and all(self.types[name] for name in names)
        return dtypes.pop() if is_whole and not self.has_nulls(set(names)) else np.dtype(np.float64)


def _texts(column: Any) -> Array:
    values = column.to_pylist()
    return np.array(["" if value is None else str(value) for value in values], dtype=object)


class ParquetTable(AbstractArrowTable):
    """A Parquet file, or a folder of parts.

    Raises
    ------
    InputError
        It is no such file or folder, or columns have no names of their own.
    """

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        self.path = path
        self.parts = parts_of(path)
        schemas = [part.schema.to_arrow_schema() for part in self._metadata]
        for part, schema in zip(self.parts[1:], schemas[1:], strict=True):
            self._check_same(part, set(schema.names) ^ set(schemas[0].names))
        self._take_schemas(schemas)
        self._of_folders = [_partition(path, part) for part in self.parts]
        partition_names = [*self._of_folders[0]] if self._of_folders else []
        self.partitions = tuple(name for name in partition_names if name not in self.names)
        self.names += self.partitions
        self.types |= {name: {pa.string()} for name in self.partitions}
        self.n_rows = sum(int(part.num_rows) for part in self._metadata)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_metadata"}

    @cached_property
    def _metadata(self) -> list[Any]:
        import pyarrow as pa
        import pyarrow.parquet

        parts_metadata = []
        for part in self.parts:
            try:
                parts_metadata.append(pa.parquet.read_metadata(part))
            except FileNotFoundError as error:
                raise InputError(f"There is no table at {part}. Check the path.") from error
            except (OSError, pa.ArrowInvalid) as error:
                raise InputError(f"{part} is no Parquet file ({error}). Write it again.") from error
        return parts_metadata

    def _check_same(self, part: str, odd: set[str]) -> None:
        """Raise an error for a part whose columns differ from those of the first one."""
        if odd:
            raise InputError(
                f"{part} and {self.parts[0]} are parts of one table, and only one of them has "
                f"{abbreviate(map(repr, sorted(odd)), 4)}. Write parts with the same columns, or "
                "pass one file."
            )

    def _read(self, names: list[str]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet

        tables, stored = [], [name for name in names if name not in self.partitions]
        for part, metadata, texts in zip(self.parts, self._metadata, self._of_folders, strict=True):
            with pa.parquet.ParquetFile(part, metadata=metadata) as file:
                table = file.read(columns=stored, use_threads=False)
            for name in self.partitions:
                value = pa.scalar(texts[name], pa.string())
                table = table.append_column(name, pa.repeat(value, int(metadata.num_rows)))
            tables.append(table.select(names))
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables, promote_options="permissive")

    def has_nulls(self, names: set[str]) -> bool:
        for metadata in self._metadata:
            for g in range(metadata.num_row_groups):
                group = metadata.row_group(g)
                columns = (group.column(i) for i in range(group.num_columns))
                for column in columns:
                    counted = column.statistics
                    if column.path_in_schema in names and (
                        counted is None or not counted.has_null_count or counted.null_count
                    ):
                        return True
        return False


class FeatherTable(AbstractArrowTable):
    """A Feather file, as Arrow writes its tables (.feather, .arrow).

    Raises
    ------
    InputError
        It is no such file, or columns have no names of their own.
    """

    def __init__(self, path: str) -> None:
        import pyarrow as pa
        import pyarrow.ipc

        self.path = path
        self._check_kind(begins(path))
        try:
            with pa.ipc.open_file(path) as file:
                self._take_schemas([file.schema])
            of_one = pa.ipc.IpcReadOptions(included_fields=[0])
            with pa.ipc.open_file(path, options=of_one) as file:
                n = file.num_record_batches
                self.n_rows = sum(file.get_batch(i).num_rows for i in range(n))
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path} is no Feather file ({error}). Write it again.") from error

    def _check_kind(self, head: bytes) -> None:
        for mark, what, read in (
            (FEATHER_1, "a Feather file of version 1", "pyarrow.feather.read_table({path!r})"),
            (STREAM, "a stream of Arrow", "pyarrow.ipc.open_stream({path!r}).read_all()"),
        ):
            if head.startswith(mark):
                raise InputError(
                    f"{self.path} is {what}, of which no column is read by itself. Write it as a "
                    f"file: pyarrow.feather.write_feather({read.format(path=self.path)}, "
                    "'out.feather')."
                )

    def _read(self, names: list[str]) -> Any:
        import pyarrow as pa
        import pyarrow.ipc

        options = pa.ipc.IpcReadOptions(included_fields=[self.names.index(name) for name in names])
        with pa.ipc.open_file(self.path, options=options) as file:
            return file.read_all().select(names)

    def has_nulls(self, names: set[str]) -> bool:
        return True  # which nobody counted


def parts_of(path: str) -> list[str]:
    """Files of a table in Parquet: itself, or the parts in a folder, in their order.

    Raises
    ------
    InputError
        The folder holds several tables, versions of one, or other files.
    """
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    version = next((what for name, what in VERSIONS.items() if (folder / name).is_dir()), None)
    if version is not None:
        raise InputError(
            f"{path} is a table of {version}, of which some files may be of older versions. Read "
            "it with its own package, and write it as one file of Parquet."
        )
    return [str(one) for one in _parts_in(folder, path)]


def _parts_in(folder: Path, path: str) -> list[Path]:
    """Files of Parquet in a folder, or in the folders of its partitions."""
    entries = _visible(folder)
    deeper = [one for one in entries if one.is_dir()]
    keys = {match[1] for one in deeper if (match := PARTITION.fullmatch(one.name))}
    if deeper and len(deeper) == len(entries) and len(keys) == 1:
        parts = [part for one in deeper for part in _parts_in(one, path)]
        if len({tuple(_partition(path, str(part))) for part in parts}) > 1:
            raise InputError(
                f"{path} is partitioned by other columns in some of its folders than in others "
                f"({abbreviate((one.name for one in deeper), 3)}). Pass one of these folders."
            )
        return parts
    if deeper:
        raise InputError(
            f"{folder} holds folders ({abbreviate((one.name for one in deeper), 3)}), which are no "
            "partitions of one column (NAME=VALUE). Pass one of these folders."
        )
    odd = [one.name for one in entries if begins(one)[: len(PARQUET)] != PARQUET]
    if odd or not entries:
        what = f"other files than Parquet ({abbreviate(odd, 3)})" if odd else "no files of Parquet"
        raise InputError(f"The folder {folder} holds {what}. Pass one that holds parts of a table.")
    return entries


def _partition(path: str, part: str) -> dict[str, str | None]:
    """Values of a part that the names of its folders say, by column; None where one is missing."""
    folders = Path(part).relative_to(path).parts[:-1] if part != path else ()
    matches = (match for folder in folders if (match := PARTITION.fullmatch(folder)))
    return {
        unquote(match[1]): None if match[2] == NO_VALUE else unquote(match[2]) for match in matches
    }


def is_arrow(path: str) -> bool:
    """Whether a path holds an Arrow table, judged by its first bytes."""
    place = Path(path)
    if place.is_dir():
        return is_folder_of_parts(place)
    return place.is_file() and begins(place).startswith((PARQUET, FEATHER, FEATHER_1))


def arrow_table(path: str) -> AbstractArrowTable:
    """Open the table at a path, whose format is told by its first bytes.

    Raises
    ------
    InputError
        There is none, or pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise InputError(
            f"{path} needs the package pyarrow, which is not installed. Install dhsic[parquet]."
        )
    head = begins(path) if Path(path).is_file() else b""
    is_feather = head.startswith((FEATHER, FEATHER_1, STREAM))
    return FeatherTable(path) if is_feather else ParquetTable(path)
