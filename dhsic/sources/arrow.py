"""Tables in Arrow formats: Parquet (a file, or a folder of parts) and Feather.

Only the requested columns of a table are read. A pickled table opens its file again when it is
read. The parts in a folder, as written by Dask and Spark, are in the order of the numbers in their
names.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np

from dhsic._typing import Array
from dhsic.errors import DataError, InputError
from dhsic.sources.ids import abbreviate

#: First bytes of Parquet files, of Feather files (the Arrow file format), and of Feather version 1.
PARQUET, FEATHER, FEATHER_1 = b"PAR1", b"ARROW1", b"FEA1"
#: First bytes of an Arrow stream, which begins with the marker of a message.
STREAM = b"\xff\xff\xff\xff"
#: Pattern of the name that pandas gives an unnamed index.
UNNAMED = re.compile(r"__index_level_\d+__")
#: Number of first bytes from which the format of a file is recognised.
HEAD = 8
#: Folders in which table formats store their versions; files of old versions may lie beside them.
VERSIONS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi", "metadata": "Iceberg"}
#: Python code that numbers the repeats of column names of a table t: g1, g1.1, g1.2.
NUMBERED = (
    "k = defaultdict(count); t = t.rename_columns([n + f'.{i}' * (i > 0) for n in t.column_names "
    "for i in [next(k[n])]])"
)
#: Pattern of the folder name of a partition, as in Hive, and its text for a missing value.
PARTITION, NO_VALUE = re.compile(r"([^=]+)=(.*)"), "__HIVE_DEFAULT_PARTITION__"


def begins(path: str | Path) -> bytes:
    """Return the first `HEAD` bytes of a file, which show its format."""
    with Path(path).open("rb") as file:
        return file.read(HEAD)


def is_folder_of_parts(path: Path) -> bool:
    """Whether a folder contains parts of a Parquet table, according to its first file."""
    while path.is_dir():
        there = _visible(path)
        first = next((one for one in there if one.is_file()), None)
        first = first or next((one for one in there if PARTITION.fullmatch(one.name)), None)
        if first is None:
            return False
        path = first
    return begins(path)[: len(PARQUET)] == PARQUET


def _visible(path: Path) -> list[Path]:
    """Return the entries of a folder in natural order, without names that begin with _ or a dot."""
    return sorted((p for p in path.iterdir() if p.name[0] not in "_."), key=lambda p: _key(p.name))


def _key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers by value, so that part.10 follows part.2.

    >>> sorted(["part.10", "part.2"], key=_key)
    ['part.2', 'part.10']
    """
    return [(int(t) if t.isdigit() else 0, t) for t in re.split(r"(\d+)", name)]


class AbstractArrowTable(ABC):
    """A table with typed columns, which are read by name.

    Attributes
    ----------
    path : str
    n_rows : int
    names : tuple of str
        Names of the columns, all different.
    types : mapping
        Set of the types of each column. In a folder, parts may have different types; parts without
        values are ignored.
    index : tuple of str
        Columns that pandas wrote from the index of a DataFrame: the names of the rows.
    partitions : tuple of str
        Columns whose values are in the names of folders (NAME=VALUE); their values are text.
    file_code : (str, str)
        Python expressions that read a file `{path!r}` even if column names repeat, and write a
        table t.
    """

    file_code: ClassVar[tuple[str, str]]
    path: str
    n_rows: int
    names: tuple[str, ...]
    types: dict[str, set[Any]]
    index: tuple[str, ...]
    partitions: tuple[str, ...] = ()

    def _take_schemas(self, schemas: Sequence[Any]) -> None:
        """Set `names`, `types` and `index` from the schemas of all parts."""
        import pyarrow.types as of

        first = schemas[0]
        counts = Counter(first.names)
        twice = [name for name, n in counts.items() if n > 1]
        if twice:
            raise InputError(
                f"{self.path} has {counts[twice[0]]} columns named "
                f"{twice[0]!r}{f' ({len(twice)} such names in total)' if len(twice) > 1 else ''}, "
                f"but column names must be unique. {self._renamed()}"
            )
        self.names = tuple(first.names)
        self.types = {name: set() for name in self.names}
        for schema in schemas:
            for name, kind in zip(schema.names, schema.types, strict=True):
                self.types[name] |= set() if of.is_null(kind) else {kind}
        index = (first.pandas_metadata or {}).get("index_columns", [])
        self.index = tuple(name for name in index if name in self.names)  # a range is not a column

    def _renamed(self) -> str:
        """Return advice on how to rename columns whose names repeat."""
        read, write = self.file_code
        part = next((part for part in parts_of(self.path) if part != self.path), "")
        where = f" in each file of this folder, such as {part}" if part else ""
        return (
            f'Rename them{where}: python -c "import pyarrow.feather, pyarrow.parquet; from '
            "collections import defaultdict; from itertools import count; t = "
            f'{read.format(path=part or self.path)}; {NUMBERED}; {write}"'
            f"{'.' if part else f'. Then pass {write.split(chr(39))[1]}.'}"
        )

    @abstractmethod
    def _read(self, names: list[str]) -> Any:
        """Read columns as an Arrow table."""

    @abstractmethod
    def has_nulls(self, names: set[str]) -> bool:
        """Whether any of the columns has missing values; True if the file does not count them."""

    def read(self, names: list[str]) -> Any:
        """Read columns as an Arrow table.

        Raises
        ------
        DataError
            The file cannot be read.
        """
        import pyarrow as pa

        try:
            return self._read(names)
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{self.path} cannot be read ({error}). The file is damaged, or it changed while "
                "it was read. Write it again, or run again."
            ) from error

    def text(self, name: str) -> Array:
        """Read a column as text, with "" for missing values.

        Numbers and booleans without missing values are not converted.
        """
        column = self.read([name]).column(name)
        if self.is_number(name) and not self.is_decimal(name) and not column.null_count:
            return np.asarray(column.to_numpy())
        return _texts(column)

    def levels(self, name: str) -> list[str]:
        """Return the levels of an ordered category, lowest first; [] for any other column.

        The result is also [] if the parts of the table differ in their levels or their order.
        """
        import pyarrow.types as of

        kinds = self.types.get(name, set())
        if not (kinds and all(of.is_dictionary(kind) and kind.ordered for kind in kinds)):
            return []
        chunks = self.read([name]).column(name).chunks
        each = [[*map(str, chunk.dictionary.to_pylist())] for chunk in chunks]
        return each[0] if each and all(levels == each[0] for levels in each) else []

    def columns(self) -> dict[str, Array]:
        """Read all columns as text, like the columns of a text table; missing values are ""."""
        table = self.read(list(self.names))
        if not self.n_rows:
            raise InputError(f"{self.path} has no rows; pass a table with one row per sample.")
        return {
            "" if UNNAMED.fullmatch(name) else name: _texts(table.column(name))
            for name in self.names
        }

    def type_text(self, name: str) -> str:
        """Return the type of a column as text, for messages."""
        return " or ".join(sorted(map(str, self.types[name]))) or "nothing"

    def is_number(self, name: str) -> bool:
        """Whether a column contains numbers or booleans, or only missing values."""
        import pyarrow.types as of

        are = (of.is_integer, of.is_floating, of.is_boolean, of.is_decimal)
        return all(any(is_one(kind) for is_one in are) for kind in self.types[name])

    def is_text(self, name: str) -> bool:
        """Whether a column contains text."""
        import pyarrow.types as of

        are = (of.is_string, of.is_large_string, of.is_string_view)
        kinds = self.types[name]
        return bool(kinds) and all(any(is_one(kind) for is_one in are) for kind in kinds)

    def kind(self, name: str) -> str:
        """Return the kind of a column: "dates", "times", "binary" or "lists"; "" for any other."""
        import pyarrow.types as of

        kinds = {
            "dates": (of.is_date, of.is_timestamp),
            "times": (of.is_time, of.is_duration),
            "binary": (of.is_binary, of.is_large_binary, of.is_fixed_size_binary),
            "lists": (of.is_list, of.is_large_list, of.is_fixed_size_list),
        }
        types = self.types[name]
        each = (
            kind
            for kind, tests in kinds.items()
            if types and all(any(is_one(one) for is_one in tests) for one in types)
        )
        return next(each, "")

    def is_whole(self, name: str) -> bool:
        """Whether a column has an integer type."""
        import pyarrow.types as of

        return bool(self.types[name]) and all(map(of.is_integer, self.types[name]))

    def is_decimal(self, name: str) -> bool:
        """Whether a column contains decimal numbers of fixed precision."""
        import pyarrow.types as of

        return any(of.is_decimal(kind) for kind in self.types[name])

    def dtype(self, names: tuple[str, ...]) -> np.dtype[Any]:
        """Return the common dtype of numeric columns; decimal numbers are float64."""
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
    """A Parquet table: one file, or a folder of parts.

    Raises
    ------
    InputError
        The path is not a Parquet file or folder, or column names are not unique.
    """

    file_code = (
        "pyarrow.parquet.ParquetFile({path!r}).read()",
        "pyarrow.parquet.write_table(t, 'NEW.parquet')",
    )

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
                raise InputError(f"The table {part} does not exist. Check the path.") from error
            except (OSError, pa.ArrowInvalid) as error:
                raise InputError(
                    f"{part} is not a valid Parquet file ({error}). Write it again."
                ) from error
        return parts_metadata

    def _check_same(self, part: str, odd: set[str]) -> None:
        """Raise InputError if the columns of a part differ from those of the first part."""
        if odd:
            raise InputError(
                f"{part} and {self.parts[0]} are parts of one table, but only one of them has "
                f"the columns {abbreviate(map(repr, sorted(odd)), 4)}. Write all parts with the "
                "same columns, or pass one file."
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
    """A Feather file in the Arrow file format (.feather, .arrow).

    Raises
    ------
    InputError
        The path is not a Feather file, or column names are not unique.
    """

    file_code = (
        "pyarrow.ipc.open_file({path!r}).read_all()",
        "pyarrow.feather.write_feather(t, 'NEW.feather')",
    )

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
            raise InputError(
                f"{path} is not a valid Feather file ({error}). Write it again."
            ) from error

    def _check_kind(self, head: bytes) -> None:
        for mark, what, read in (
            (FEATHER_1, "a Feather file of version 1", "pyarrow.feather.read_table({path!r})"),
            (STREAM, "an Arrow stream", "pyarrow.ipc.open_stream({path!r}).read_all()"),
        ):
            if head.startswith(mark):
                raise InputError(
                    f"{self.path} is {what}. Its columns cannot be read one by one. Write it as a "
                    "Feather file of version 2: "
                    f"pyarrow.feather.write_feather({read.format(path=self.path)}, 'out.feather')."
                )

    def _read(self, names: list[str]) -> Any:
        import pyarrow as pa
        import pyarrow.ipc

        options = pa.ipc.IpcReadOptions(included_fields=[self.names.index(name) for name in names])
        with pa.ipc.open_file(self.path, options=options) as file:
            return file.read_all().select(names)

    def has_nulls(self, names: set[str]) -> bool:
        return True  # the file has no counts


def parts_of(path: str) -> list[str]:
    """Return the files of a Parquet table in order: the file, or the parts in a folder.

    Raises
    ------
    InputError
        The folder contains several tables, versions of a table, or other files.
    """
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    version = next((what for name, what in VERSIONS.items() if (folder / name).is_dir()), None)
    if version is not None:
        raise InputError(
            f"{path} is a {version} table, so some of its files may belong to older versions. "
            "Read it with its own package, and write it as one Parquet file."
        )
    return [str(one) for one in _parts_in(folder, path)]


def _parts_in(folder: Path, path: str) -> list[Path]:
    """Return the Parquet files in a folder or its partitions; InputError for any other content."""
    entries = _visible(folder)
    deeper = [one for one in entries if one.is_dir()]
    keys = {match[1] for one in deeper if (match := PARTITION.fullmatch(one.name))}
    if deeper and len(deeper) == len(entries) and len(keys) == 1:
        parts = [part for one in deeper for part in _parts_in(one, path)]
        if len({tuple(_partition(path, str(part))) for part in parts}) > 1:
            raise InputError(
                f"Subfolders of {path} are partitioned by different columns "
                f"({abbreviate((one.name for one in deeper), 3)}). Pass one of these subfolders."
            )
        return parts
    if deeper:
        raise InputError(
            f"{folder} has subfolders ({abbreviate((one.name for one in deeper), 3)}) that are "
            "not partitions of one column (NAME=VALUE). Pass one of these subfolders."
        )
    odd = [one.name for one in entries if begins(one)[: len(PARQUET)] != PARQUET]
    if odd or not entries:
        what = f"files that are not Parquet ({abbreviate(odd, 3)})" if odd else "no Parquet files"
        raise InputError(
            f"The folder {folder} contains {what}. Pass a folder that contains only parts of one "
            "table."
        )
    return entries


def _partition(path: str, part: str) -> dict[str, str | None]:
    """Return the values of the partition columns for one file, by column; None if missing."""
    folders = Path(part).relative_to(path).parts[:-1] if part != path else ()
    matches = (match for folder in folders if (match := PARTITION.fullmatch(folder)))
    return {
        unquote(match[1]): None if match[2] == NO_VALUE else unquote(match[2]) for match in matches
    }


def is_arrow(path: str) -> bool:
    """Whether a path is an Arrow table, according to its first bytes."""
    place = Path(path)
    if place.is_dir():
        return is_folder_of_parts(place)
    return place.is_file() and begins(place).startswith((PARQUET, FEATHER, FEATHER_1))


def arrow_table(path: str) -> AbstractArrowTable:
    """Open the Arrow table at a path; its first bytes determine the format.

    Raises
    ------
    InputError
        There is no such table, or pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise InputError(
            f"{path} needs the package pyarrow, which is not installed. Install dhsic[parquet]."
        )
    head = begins(path) if Path(path).is_file() else b""
    is_feather = head.startswith((FEATHER, FEATHER_1, STREAM))
    return FeatherTable(path) if is_feather else ParquetTable(path)
