"""Conversion of data to a Zarr store in the layout that dhsic reads fastest.

Features are along the first axis of the store. A chunk of 4 to 16 MiB contains all samples of some
features, and has a checksum. The store is written to a temporary folder beside its destination, and
renamed when it is complete. If a conversion was killed, the next one keeps all valid chunks. This
is safe because a chunk is written atomically, and always with the same bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr

from dhsic._typing import Array
from dhsic.conversion.content import Content
from dhsic.conversion.matrices import (
    AbstractMatrix,
    Pass,
    SourceMatrix,
    TextMatrix,
    passes_of,
    room_of,
)
from dhsic.errors import DataError, InputError, MemoryBudgetError
from dhsic.memory import available_bytes, resident_bytes
from dhsic.renamed import takes_former_names
from dhsic.sources.chunked import member
from dhsic.sources.file_lists import expanded, is_several
from dhsic.sources.opening import on_disk, open_source, opener_of
from dhsic.sources.options import MissingChunks, OpenOptions
from dhsic.sources.stores import guarded
from dhsic.sources.tables import refuse_parts
from dhsic.sources.text_tables import TextTable, open_table
from dhsic.sources.vcf import is_vcf
from dhsic.sources.zarr import check_free, create_array, good_chunks, put_in_place
from dhsic.storage.folder import replacing
from dhsic.storage.paths import as_path, check_place, is_url

#: Default memory limit of a conversion in bytes, unless it needs more.
MODEST = 10**9
#: Names in the temporary folder: the new store, the store between two passes, the request, and the
#: mark of a complete first pass.
STORE, BETWEEN, ASKED, DONE = "store", "between", "asked.json", "between.done"


@dataclass(frozen=True)
class Converted:
    """Summary of a conversion, mainly the shape, dtype and chunks of the new store."""

    path: str
    n_samples: int
    n_features: int
    dtype: str
    chunks: tuple[int, ...]  # features, samples, further axes
    n_passes: int
    is_resumed: bool
    left: tuple[str, ...]  # arrays that were not copied

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain data, for JSON."""
        return asdict(self)


@takes_former_names
def convert(
    X: Any,
    out: str | PathLike[str],
    *,
    variable: str | None = None,
    sample_dim: str | int | None = None,
    missing_chunks: MissingChunks = "error",
    not_features: Sequence[str] = (),
    na: Sequence[str] = (),
    intersect_samples: bool = False,
    memory_limit: int | None = None,
    zarr_format: Literal[2, 3] = 3,
    overwrite: bool = False,
    on_part: Callable[[int, int], object] | None = None,
) -> Converted:
    """Write data as a Zarr store that dhsic reads fast, with names, coordinates and labels.

    Values keep their dtype, and genotypes remain genotypes. If a conversion is killed, the same
    call continues it and produces the same bytes, provided that the data have not changed. Every
    chunk is read back and compared.

    Parameters
    ----------
    X : array, dataset, group, path or URL
        Any data that `open_source` reads; a text table may be larger than memory.
    out : path
        Folder of the store, such as ``out.zarr``.
    variable, sample_dim, missing_chunks, not_features, na, intersect_samples
        See `open_source`. Columns that are not features become variables along the samples.
    memory_limit : int, optional
        Memory limit of this process in bytes; by default 1 GB, or more if chunks need it.
    zarr_format : {2, 3}
        Version of the Zarr format.
    overwrite : bool
        Replace an existing Zarr store.
    on_part : callable, optional
        Function that is called with the number of bytes converted so far and the total number, over
        all passes.

    Returns
    -------
    Converted
        Shape, chunks, and the arrays that were not copied.

    Raises
    ------
    InputError
        X cannot be read, or `out` already exists.
    MemoryBudgetError
        Chunks of X, or chunks of the new store, do not fit into `memory_limit`.
    DataError
        A chunk of X is damaged, or the stored values differ from the written values.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     made = convert(np.eye(3), f"{folder}/x.zarr")
    >>> made.n_samples, made.chunks
    (3, (3, 3))
    """
    path = _place(out, overwrite=overwrite)
    options = OpenOptions(
        *(variable, sample_dim),
        missing_chunks=missing_chunks,
        not_features=not_features,
        na=na,
    )
    X = expanded(X)
    matrix, content = _opened(X, options, intersect_samples=intersect_samples)
    d, m = matrix.shape[:2]
    chunks = good_chunks(d, m, matrix.value_bytes)
    passes, max_values = _planned(matrix, chunks, memory_limit)
    aside = path.with_name(f".{path.name}.partial")
    request = {"matrix": matrix.identity(), "file": _stamp(X), "format": zarr_format}
    old_passes = _start_or_resume(aside, request, passes, max_values)
    is_resumed, passes = old_passes is not None, old_passes or passes
    group = _group(aside / STORE, zarr_format)
    content.write(group)
    code = content.attributes.get("missing_value")
    fill = code  # in Zarr 2, the fill value is the missing code
    if matrix.dtype.kind == "i" and code is None:
        fill = 0  # -1 would mean missing
    last = partial(_array, group, content.name, content.dims, matrix, fill)
    report = _Report(on_part, len(passes) * prod(matrix.shape) * matrix.dtype.itemsize)
    if len(passes) > 1:
        dims = (*("features", "samples"), *content.dims[2:])
        scratch_array = _array(
            _group(aside / BETWEEN, 3), "X", dims, matrix, None, passes[0], "lz4"
        )
        if not (aside / DONE).exists():
            _do(passes[0], matrix.read, scratch_array, check=is_resumed, report=report)
            with replacing(aside / DONE) as file:
                file.write(b"all")
        read = partial(_read_back, scratch_array)
        _do(passes[1], read, last(passes[1]), check=is_resumed, report=report)
    else:
        _do(passes[0], matrix.read, last(passes[0]), check=is_resumed, report=report)
    group[content.name].attrs.update(content.attributes)
    put_in_place(aside / STORE, path)
    shutil.rmtree(aside, ignore_errors=True)
    sizes = (*chunks, *matrix.shape[2:])
    return Converted(
        str(path),
        m,
        d,
        str(matrix.dtype),
        sizes,
        len(passes),
        is_resumed,
        tuple(sorted(content.left)),
    )


def _place(out: str | PathLike[str], *, overwrite: bool) -> Path:
    """Return the path of the new store; raise InputError if it cannot be written there."""
    if is_url(out):
        raise InputError(
            f"{fspath(out)} is a URL, but a store can only be written to a local folder. Pass a "
            "folder, and copy it when the conversion is complete."
        )
    path = as_path(out)
    if path.suffix.lower() == ".zip":
        raise InputError(
            f"{path} would be a zip file, but the store is written as a folder. Pass the path of "
            "a folder."
        )
    if path.suffix and (opener_of(path) is not None or is_vcf(fspath(path))):
        raise InputError(
            f"{path} has the suffix of a data file, but a Zarr folder is written. Pass the "
            "path of the store last, such as NEW.zarr."
        )
    check_place(path, "The store", InputError)
    check_free(path, overwrite=overwrite)
    path.parent.mkdir(exist_ok=True)
    return path


def _opened(
    X: Any, options: OpenOptions, *, intersect_samples: bool
) -> tuple[AbstractMatrix, Content]:
    """Open the data; return the matrix to convert, and the metadata to write beside it."""
    if opener_of(X) is open_table:
        return _text(on_disk(X), options)
    source = open_source(
        X,
        variable=options.variable,
        sample_dim=options.sample_dim,
        missing_chunks=options.missing_chunks,
        not_features=options.not_features,
        na=options.na,
        intersect_samples=intersect_samples,
    )
    calls = getattr(source, "calls", None)
    if calls is not None and calls.mask is not None and source.dtype.kind == "u":
        raise InputError(
            f"{calls.mask.label} marks missing values of unsigned integers, which cannot be "
            "represented. Write them as int8 with -1 for missing values."
        )
    return SourceMatrix(source), Content.of(source, X, options.variable)


def _text(path: str, options: OpenOptions) -> tuple[AbstractMatrix, Content]:
    """Open a text table, which may be larger than memory; the result is as for `_opened`."""
    refuse_parts(path, options)
    table = TextTable(path, options)
    matrix = TextMatrix(table)
    names = table.resolve_names(matrix.beside, matrix.first)
    content = Content.of_table(names)
    rows = (numbers for _, numbers in table.rows())
    content.add_sexes(table.on_x(names, rows), matrix.shape[0])
    return matrix, content


# The folder --------------------------------------------------------------------------------


def _planned(
    matrix: AbstractMatrix, chunks: tuple[int, int], memory_limit: int | None
) -> tuple[list[Pass], int]:
    """Plan the passes over the matrix, which read it in rectangles (`dhsic.conversion.matrices`).

    Returns the passes, and the maximum number of values of a rectangle.
    """
    process_bytes = resident_bytes()
    limit = min(MODEST, available_bytes() + process_bytes) if memory_limit is None else memory_limit
    try:
        return passes_of(matrix, chunks, process_bytes, limit), room_of(
            matrix, process_bytes, limit
        )
    except MemoryBudgetError:
        if memory_limit is not None:
            raise
    limit = available_bytes() + process_bytes
    return passes_of(matrix, chunks, process_bytes, limit), room_of(matrix, process_bytes, limit)


def _stamp(X: Any) -> list[int]:
    """Return sizes and modification times of files, to detect changes; [] for other data."""
    if is_several(X):
        return [number for each in X for number in _stamp(each)]
    path = as_path(X) if isinstance(X, str | PathLike) and not is_url(X) else None
    if path is None or not path.is_file():
        return []
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _start_or_resume(
    aside: Path, asked: dict[str, Any], passes: list[Pass], room: int
) -> list[Pass] | None:
    """Prepare the temporary folder `aside` of a conversion.

    The folder may contain an interrupted conversion for the same request. If its rectangles have at
    most `room` values, it is continued, and its passes are returned. Otherwise the folder is
    emptied, and None is returned.
    """
    request_path = aside / ASKED
    asked = json.loads(json.dumps(asked))
    if request_path.exists():
        old_request = json.loads(request_path.read_text())
        old_passes = [
            Pass(tuple(one["chunks"]), tuple(one["rectangle"])) for one in old_request.pop("passes")
        ]
        if old_request == asked and all(prod(one.rectangle) <= room for one in old_passes):
            return old_passes
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    with replacing(request_path) as file:
        file.write(json.dumps(asked | {"passes": [asdict(one) for one in passes]}).encode())
    return None


def _group(path: Path, zarr_format: Literal[2, 3]) -> zarr.Group:
    return zarr.open_group(path, mode="a", zarr_format=zarr_format, use_consolidated=False)


def _array(
    group: zarr.Group,
    name: str,
    dims: tuple[str, ...],
    matrix: AbstractMatrix,
    fill: Any,
    one: Pass,
    codec: Literal["zstd", "lz4"] = "zstd",
) -> zarr.Array[Any]:
    """Open the array that a pass writes, or create it if it does not exist."""
    existing = member(group, name)
    if existing is not None:
        return existing
    array: zarr.Array[Any] = create_array(
        group,
        name,
        shape=matrix.shape,
        dtype=matrix.dtype,
        chunks=(*one.chunks, *matrix.shape[2:]),
        dims=dims,
        fill_value=fill,
        codec=codec,
    )
    return array


# A pass ------------------------------------------------------------------------------------


class _Report:
    """Counter of converted bytes that calls `on_part` with the bytes done and the total."""

    def __init__(self, on_part: Callable[[int, int], object] | None, total: int) -> None:
        self.on_part, self.done, self.total = on_part, 0, total

    def add(self, n_bytes: int) -> None:
        self.done += n_bytes
        if self.on_part is not None:
            self.on_part(self.done, self.total)


def _do(
    one: Pass,
    read: Callable[[slice, slice], Array],
    array: zarr.Array[Any],
    *,
    check: bool,
    report: _Report,
) -> None:
    """Execute a pass: write its rectangles, read each one back, and compare the values.

    If `check` is True, rectangles that are already stored are kept.
    """
    d, m = array.shape[:2]
    value = prod(array.shape[2:]) * array.dtype.itemsize
    for features, samples in one.rectangles(d, m):
        if not (check and _is_there(array, one, features, samples)):
            values = read(features, samples)
            array[features, samples] = values
            for part, rows in _chunks(one, features, samples):
                local = slice(part.start - features.start, part.stop - features.start)
                there = slice(rows.start - samples.start, rows.stop - samples.start)
                _compare(_read_back(array, part, rows), values[local, there], array)
        n = (features.stop - features.start) * (samples.stop - samples.start)
        report.add(n * value)


def _chunks(one: Pass, features: slice, samples: slice) -> list[tuple[slice, slice]]:
    """Return a pair of slices (features, samples) for each chunk of a rectangle."""
    width, height = one.chunks
    return [
        (slice(a, min(a + width, features.stop)), slice(s, min(s + height, samples.stop)))
        for a in range(features.start, features.stop, width)
        for s in range(samples.start, samples.stop, height)
    ]


def _is_there(array: zarr.Array[Any], one: Pass, features: slice, samples: slice) -> bool:
    """Whether all chunks of a rectangle exist and can be decoded."""
    try:
        for part, rows in _chunks(one, features, samples):
            _read_back(array, part, rows)
    except DataError:
        return False
    return True


def _read_back(array: zarr.Array[Any], features: slice, samples: slice) -> Array:
    """Read a stored rectangle; raise DataError if it is missing or cannot be decoded."""
    label = str(array.store_path)
    try:
        values = np.asarray(guarded(array, label)[features, samples])
    except (DataError, MemoryError, OSError):
        raise
    except Exception as error:  # a codec may raise anything
        raise DataError(
            f"{label} cannot be decoded ({error}). Remove its folder, and convert again."
        ) from error
    return values


def _compare(found: Array, written: Array, array: zarr.Array[Any]) -> None:
    """Raise DataError unless the stored values are bitwise equal to the written values."""
    if np.ascontiguousarray(found).tobytes() != np.ascontiguousarray(written).tobytes():
        raise DataError(
            f"The stored values of {array.store_path} differ from the written values: the disk is "
            "failing, or another process writes to it. Remove its folder, and convert again."
        )
