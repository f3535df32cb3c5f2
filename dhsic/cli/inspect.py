"""`dhsic inspect`: contents and layout of a store, and the memory that a selection needs.

The command also reports the cost of reading with this layout, and recommends better chunks.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import ceil, prod
from typing import Any

import click
import numpy as np
import zarr

from dhsic._typing import Array, Index
from dhsic.cli.console import counted, echo_json, paragraph, waiting
from dhsic.cli.job import SelectJob
from dhsic.cli.options import in_options
from dhsic.cli.report import filters_told
from dhsic.cli.sites import Sites
from dhsic.errors import DataError, DhsicError, InputError
from dhsic.joins.coordinates import coordinates_of
from dhsic.joins.label_description import LabelDescription
from dhsic.joins.text import codes_in, is_missing, read_table, typed, written_by
from dhsic.joins.variables import along_samples, anndata_of, labels_at
from dhsic.memory import human
from dhsic.methods.bahsic import BAHSIC
from dhsic.passes.call_counts import counting_on
from dhsic.passes.jobs import MANY_BLOCKS, block_width
from dhsic.passes.single_pass import LOOKED_AT, look_at
from dhsic.results.files import is_result
from dhsic.runtime import choose_runtime
from dhsic.runtime.threads import Threads
from dhsic.selection.run import SelectionRun
from dhsic.sources import AbstractSource
from dhsic.sources.anndata import AbstractAnnData
from dhsic.sources.chunked import ChunkedArray, read_variable
from dhsic.sources.codecs import CHECKSUMS, described
from dhsic.sources.file_lists import expanded, short_name
from dhsic.sources.frames import AbstractFrame
from dhsic.sources.ids import abbreviate, is_id
from dhsic.sources.joined import JoinedSource, Part, parts_of
from dhsic.sources.mudata import joint_obs
from dhsic.sources.opening import on_disk, open_source
from dhsic.sources.options import dimension_names
from dhsic.sources.plink import samples_table
from dhsic.sources.sentinels import written
from dhsic.sources.sexes import SEX
from dhsic.sources.stores import metadata_of
from dhsic.sources.views import whole_of
from dhsic.sources.zarr import good_chunks
from dhsic.sources.zarr_matrices import parent

#: Maximum number of columns of an obsm matrix (such as coordinates) that is listed as a target.
MOST_DIMENSIONS = 3
#: Reading is slow if chunks have fewer raw bytes than this.
SMALL_CHUNK = 1 << 20
#: Tasks need much memory if blocks have more bytes than this; a task has about three copies of one.
LARGE_BLOCK = 64 << 20


def inspect(*, path: str | list[str], as_json: bool, **opening: Any) -> None:
    """Print the contents and layout of a store, and the memory of a selection."""
    path = expanded(path)
    if isinstance(path, str) and is_result(path):
        raise InputError(
            f"{path} is the result of a selection, not data. Use `dhsic report "
            f"{shlex.quote(path)}` to get a report, or dhsic.load (or xarray.open_zarr) in Python."
        )
    job = SelectJob(path, **opening)
    with waiting(path if isinstance(path, str) else ""):
        source = open_source(path, **job.opening)
    filtered = job.filters.of(path, source, counting_on(Threads), job.missing_chunks)
    source, rows = filtered.features_of(source), filtered.samples
    data, store = whole_of(source).chunked, anndata_of(path)
    layout = None if data is None else layout_of(whole_of(source), data)
    better = None if layout is None else better_chunks(whole_of(source), layout)
    advised = _about_file(path, source) if layout is None else advice(whole_of(source), layout)
    sites = Sites.of(source, filtered.left_out)
    run = SelectionRun(BAHSIC(), source, np.empty(0), choose_runtime("threads"), rows=rows)
    promise, values = run.selector.memory_estimate(run)[0], _values(source, rows)
    targets = dict(
        _targets(path, source, data) if store is None else _of_cells(job.data_name, store)
    )
    if job.target:
        targets = {name: targets.get(name) or _of_target(job, source, name) for name in job.target}
    matrices = {} if store is None else dict(_matrices(store))
    hint = in_options(whole_of(source).hint, click.get_current_context())
    if as_json:
        facts = {
            "n_samples": run.n_samples,
            "n_features": source.n_features,
            "n_features_filtered": source.n_features_filtered,
            "left_out": dict(filtered.left_out),
            "dtype": str(source.dtype),
            "missing_code": source.missing_code,
            "layout": None if layout is None else asdict(layout),
            "better_chunks": better,
            "advice": ([hint] if hint else []) + advised,
            "read_as": whole_of(source).read_as,
            "sample_names": _first(source.sample_names()),
            "feature_names": _first(source.feature_names()),
            "feature_coords": sorted(source.feature_coords()),
            "targets": targets,
            "promised_bytes": promise.total,
        }
        facts |= {"files": _files(source)} if parts_of(source) else {}
        facts |= sites.plain() | {"values": values}
        echo_json(facts if store is None else facts | {"matrices": matrices})
        return
    labelled_lines = [
        ("data", f"{short_name(path)}: {run.n_samples:,} samples x {source.n_features:,} features"),
        *(
            (
                "matrix" if _block_names(source) else "file",
                f"{file['file']}: {file['n_samples']:,} samples x {file['n_features']:,} features",
            )
            for file in _files(source)
        ),
        *([("filters", filters_told(filtered.left_out))] if filtered.left_out else []),
        *(
            [("values", _describe_storage(source, values))]
            if layout is None
            else layout.facts(source, values)
        ),
        *([("alleles", f"the dosage counts {source.counted}")] if source.counted else []),
        *([("table", whole_of(source).read_as)] if whole_of(source).read_as else []),
        ("samples", _names(source.sample_names())),
        ("features", _names(source.feature_names())),
        *sites.facts(),
        *([] if layout is None else layout.costs()),
        *(("target", f"{name}: {summary}") for name, summary in targets.items()),
        *([] if targets else [("target", "no variable along the samples")]),
        *(("variable", f"{name}: {what}") for name, what in matrices.items()),
        ("memory", f"selection with all samples: peak memory {promise}"),
    ]
    is_stored = layout is not None or isinstance(path, str)
    good = ["The layout is good for feature selection."] if is_stored else []
    labelled_lines += [("advice", line) for line in ([hint] if hint else []) + (advised or good)]
    click.echo("\n".join(paragraph(label, text) for label, text in labelled_lines))


def _block_names(source: AbstractSource) -> tuple[str, ...]:
    """Return the names of the matrices that a source joins; () for a single matrix."""
    whole = whole_of(source)
    return whole.block_names if isinstance(whole, JoinedSource) else ()


def _files(source: AbstractSource) -> list[dict[str, Any]]:
    """Return name and size of each file that a source joins; [] for a single file."""
    return [
        {
            "file": part.name,
            "n_samples": part.source.n_samples,
            "n_features": part.source.n_features,
        }
        for part in parts_of(source)
    ]


def _values(source: AbstractSource, rows: Index | None) -> str:
    """Return the kind of values that `select` would detect, or the reason why it rejects them."""
    reads_all = source.n_features * source.n_samples <= LOOKED_AT
    with Threads() as runtime:
        try:
            kind = str(look_at(source, runtime, rows, whole=reads_all))
        except DataError as error:
            return f"rejected: {in_options(str(error), click.get_current_context())}"
    return kind if reads_all else f"{kind} (in the few blocks that were read)"


def _describe_storage(source: AbstractSource, values: str) -> str:
    code = "no code" if source.missing_code is None else str(source.missing_code)
    return f"{source.dtype}, missing: {'NaN' if source.dtype.kind == 'f' else code}; {values}"


def _about_file(path: str | list[str], source: AbstractSource) -> list[str]:
    """Advice to convert a file that is not a Zarr store; empty for PLINK files and arrays.

    PLINK files are read as fast as a store.
    """
    if not isinstance(path, str):
        return []
    if samples_table(on_disk(path)) is not None:
        return []
    memory_note = "The whole file is held in memory. " if source.in_memory else ""
    remedy = f"dhsic convert {shlex.quote(path)} OUT.zarr"
    advantage = "A Zarr store has checksums, and is read in blocks, also by workers of a cluster"
    return [f"{memory_note}{advantage}: {remedy}."]


def _targets(
    path: str | list[str], source: AbstractSource, data: ChunkedArray | None
) -> Iterator[tuple[str, str]]:
    """Yield variables along the samples that could be labels, with a summary of each."""
    if not isinstance(path, str):
        parts = parts_of(source)
        if (frame := joint_obs(part.data for part in parts)) is not None:
            yield from _columns(frame)
        for part in parts if _block_names(source) else parts[:1]:
            yield from _targets_of_part(part)
        return
    if data is None:
        variables = dict(source.sample_coords())
        for name in _of_plink(on_disk(path)):
            with suppress(InputError):
                variables[name] = labels_at(path, name, "error", "")
        yield from ((name, _summary(values)) for name, values in variables.items())
        return
    group = parent(data.opened())
    if group is None:
        return
    with metadata_of(data.label):
        arrays = {name: array for name, array in group.arrays() if array.ndim == 1}
    for name in along_samples(arrays, source):
        yield name, _summary(read_variable(arrays[name], "fill"))


def _of_plink(path: str) -> list[str]:
    """Names of the phenotypes in PLINK's table of samples, then SEX; [] for other files."""
    table = samples_table(path)
    names = [] if table is None else [*read_table(table).columns]
    phenotypes = [name for name in names if not is_id(name) and name != SEX]
    return [*phenotypes, *(name for name in names if name == SEX)]


def _targets_of_part(part: Part) -> Iterator[tuple[str, str]]:
    """Yield variables along the samples of one file or matrix, with a summary of each."""
    store = anndata_of(part.data)
    if store is not None:
        yield from _of_cells(part.data, store)
    else:
        yield from _targets(part.data, part.source, part.source.chunked)


def _of_target(job: SelectJob, source: AbstractSource, name: str) -> str:
    """Summarise a target that is not among the listed variables.

    Raises
    ------
    InputError
        The data have no such variable.
    """
    data = job.path if isinstance(job.path, str) else source
    return _summary(labels_at(data, name, job.missing_chunks, "a variable of the data"))


def _of_cells(path: str, store: AbstractAnnData) -> Iterator[tuple[str, str]]:
    """Yield columns of obs, and coordinates of few dimensions in obsm, with a summary of each."""
    yield from _columns(store.obs)
    for name in store.coordinates():
        with suppress(DhsicError):  # text or damaged data: the error is reported when it is used
            if open_source(path, variable=name, sample_dim=0).n_features <= MOST_DIMENSIONS:
                yield name, _extent(coordinates_of(path, name, "fill"))


def _extent(values: Array) -> str:
    """Describe coordinates (m, t): their dimensions and ranges, and the samples without any."""
    missing = np.isnan(values).any(axis=1)
    present = values[~missing]
    if not len(present):
        return "no sample has coordinates"
    ends = zip(present.min(axis=0), present.max(axis=0), strict=True)
    ranges = ", ".join(f"{low:.4g} to {high:.4g}" for low, high in ends)
    summary = f"coordinates of {counted(values.shape[1], 'dimension')}, {ranges}"
    return f"{summary}; {int(missing.sum()):,} missing" if missing.any() else summary


def _columns(frame: AbstractFrame) -> Iterator[tuple[str, str]]:
    """Yield the columns of a frame of samples, each with a summary or why it cannot be read."""
    for name in frame.columns:
        try:
            yield name, _column(frame, name)
        except DataError as error:
            yield name, f"cannot be read: {error}"


def _column(frame: AbstractFrame, name: str) -> str:
    try:
        return _summary(frame.column(name))
    except DataError:  # perhaps chunks of zeros were not written
        summary = _summary(frame.column(name, "fill"))
        return f"{summary}, if missing chunks contain zeros; select does not assume this"


def _matrices(store: AbstractAnnData) -> Iterator[tuple[str, str]]:
    """Yield X, layers and other matrices of AnnData, with a description of each."""
    for name, node in store.matrices().items():
        if isinstance(node, str):
            description = node
        elif isinstance(node, zarr.Array):
            description = f"{' x '.join(f'{n:,}' for n in node.shape)}, {node.dtype}"
        elif node.attrs["encoding-type"] == "dataframe":
            columns: Any = node.attrs.get("column-order", ())
            description = f"dataframe with columns {abbreviate(map(str, columns), 3)}"
        else:
            description = f"sparse ({node.attrs['encoding-type']})"
        value_note = store.glance(name)
        yield name, description if value_note is None else f"{description}; {value_note}"


def _summary(values: Array) -> str:
    column = typed(values)
    missing = is_missing(column)
    present = column[~missing]
    if not present.size:
        return "missing for all samples"
    if len(np.unique(present.astype(str))) < 2:
        return "constant"
    summary = LabelDescription().of(present)
    for code, n in codes_in(present).items():
        summary += f"; {n:,} are {written(code)}, which {written_by(code)} for missing values"
    return f"{summary}; {int(missing.sum()):,} missing" if missing.any() else summary


def _first(names: Array | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names[:3]]


# Layout --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Storage layout of the array behind a source."""

    array: str
    axes: tuple[str, ...]  # "features", "samples", then the names of other axes
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str | None, ...] | None
    zarr_format: int
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None  # None without sharding
    codecs: tuple[str, ...]  # filters, compressors and checksums, in the order of writing
    has_checksum: bool
    fill_value: str
    stored_bytes: int
    sample_chunks: int  # number of chunks across the samples of one feature
    block_features: int  # number of features in the widest block of a full pass
    block_bytes: int  # bytes of that block after reading
    n_blocks: int  # number of blocks in a full pass
    #: Bytes decoded per byte of the matrix in a full pass. It is above 1 if chunks at the edges are
    #: padded, and for alleles that are summed to dosages.
    amplification: float

    def facts(self, source: AbstractSource, values: str) -> Iterator[tuple[str, str]]:
        """Yield facts about the array and its values, as pairs of a label and a text."""
        yield (
            "array",
            f"{self.array}: {self._sized(self.shape)}, {self.dtype}, Zarr {self.zarr_format}",
        )
        yield "values", _describe_storage(source, values)
        size = source.n_samples * whole_of(source).n_features * source.dtype.itemsize
        ratio = size / self.stored_bytes
        yield "stored", f"{human(self.stored_bytes)}, {ratio:.1f} times smaller than the values"
        check = "checksummed" if self.has_checksum else "no checksum"
        yield "codecs", f"{', '.join(self.codecs) or 'none'}; {check}"

    def costs(self) -> Iterator[tuple[str, str]]:
        """Yield facts about the cost of reading, as pairs of a label and a text."""
        shards = "" if self.shards is None else f", in shards of {self._sized(self.shards)}"
        yield "chunks", f"{self._sized(self.chunks)}{shards}"
        reading = (
            f"{counted(self.n_blocks, 'block')} of up to {self.block_features:,} features "
            f"({human(self.block_bytes)}), {counted(self.sample_chunks, 'chunk')} across the "
            f"samples; {self.amplification:.2f} bytes decoded per byte of values"
        )
        yield "reading", reading

    def _sized(self, sizes: tuple[int, ...]) -> str:
        return " x ".join(f"{n:,} {axis}" for n, axis in zip(sizes, self.axes, strict=True))


def _names(names: Array | None) -> str:
    return "no names" if names is None else abbreviate(names, 3).replace("in all", "names")


def layout_of(source: AbstractSource, data: ChunkedArray) -> Layout:
    """Return the storage layout of the array that a source reads."""
    array = data.opened()
    axes = ["samples", "features"] if data.feature_axis else ["features", "samples"]
    dims = dimension_names(array)
    other_axes = [str(d) for d in dims[2:]] if dims else [f"axis {i}" for i in range(2, array.ndim)]
    grid = array.shards or array.chunks
    blocks = source.blocks(block_width(source.n_samples, source.n_features, source.dtype.itemsize))
    widest = max(block.width for block in blocks)
    padded = prod(ceil(n / g) * g for n, g in zip(array.shape, grid, strict=True))
    read = source.n_samples * source.n_features * source.dtype.itemsize
    codecs = [described(codec) for codec in (*array.filters, *array.compressors)]
    return Layout(
        array=data.path or array.basename or "/",
        axes=(*axes, *other_axes),
        shape=array.shape,
        dtype=str(array.dtype),
        dims=dims,
        zarr_format=array.metadata.zarr_format,
        chunks=array.chunks,
        shards=array.shards,
        codecs=tuple(_codec_name(*codec) for codec in codecs),
        has_checksum=any(name in CHECKSUMS or config.get("checksum") for name, config in codecs),
        fill_value=str(array.fill_value),
        stored_bytes=int(array.nbytes_stored()),
        sample_chunks=ceil(source.n_samples / grid[1 - data.feature_axis]),
        block_features=widest,
        block_bytes=widest * source.n_samples * source.dtype.itemsize,
        n_blocks=len(blocks),
        amplification=padded * array.dtype.itemsize / read,
    )


def _codec_name(name: str, config: Mapping[str, Any]) -> str:
    if name == "blosc":
        shuffle = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}.get(
            config["shuffle"], config["shuffle"]
        )
        return f"blosc ({config['cname']} {config['clevel']}, {shuffle})"
    level = config.get("level")
    return name if level is None else f"{name} {level}"


def better_chunks(source: AbstractSource, layout: Layout) -> dict[str, int]:
    """Recommend numbers of features and samples per chunk.

    Chunks have 4 to 16 raw MiB, and all samples are in one chunk.
    """
    per_value = prod(layout.shape[2:]) * np.dtype(layout.dtype).itemsize
    features, samples = good_chunks(source.n_features, source.n_samples, per_value)
    return {"features": features, "samples": samples}


def advice(source: AbstractSource, layout: Layout) -> list[str]:
    """Return advice on the layout, with the command that fixes it; empty if none is needed."""
    best = better_chunks(source, layout)
    out = _about_chunks(source, layout, best)
    if out:
        out.append(f"To rewrite the store: dhsic convert; {_fix(layout, best)}.")
    if not layout.has_checksum:
        out.append(
            "The store has no checksums, so most damage to stored bytes cannot be detected. When "
            "you rewrite it, add crc32c as the last codec (format 3)."
        )
    return out


def _about_chunks(source: AbstractSource, layout: Layout, best: dict[str, int]) -> list[str]:
    out = []
    features = layout.axes.index("features")
    unit = prod(layout.chunks) * np.dtype(layout.dtype).itemsize
    recommended_bytes = prod((*best.values(), *layout.shape[2:])) * np.dtype(layout.dtype).itemsize
    if layout.sample_chunks > 1 and best["samples"] == source.n_samples:
        out.append(
            f"Samples are split over {layout.sample_chunks} chunks, so {layout.sample_chunks} "
            "chunks must be read for each block of features."
        )
    if unit < SMALL_CHUNK <= recommended_bytes:
        count = ceil(source.n_features / layout.chunks[features]) * layout.sample_chunks
        out.append(f"{count:,} small chunks ({human(unit)} raw each) make reading slow.")
    if layout.block_bytes > LARGE_BLOCK and best["features"] < layout.block_features:
        out.append(
            f"Chunks are {layout.block_features:,} features wide: each task needs memory for about "
            f"three copies of a block of {human(layout.block_bytes)}."
        )
    if layout.n_blocks < MANY_BLOCKS and best["features"] * 2 < layout.block_features:
        n = layout.n_blocks
        out.append(f"There are only {n} blocks, so at most {n} tasks run in parallel.")
    return out


def _fix(layout: Layout, best: dict[str, int]) -> str:
    sizes = [best.get(axis, n) for axis, n in zip(layout.axes, layout.shape, strict=True)]
    where = ", ".join(str(d) for d in layout.dims) if layout.dims else ", ".join(layout.axes)
    fix = f"chunks={tuple(sizes)} along ({where})"
    if layout.array.endswith("call_genotype"):
        fix += (
            f"; vcf2zarr: --variants-chunk-size {best['features']} "
            f"--samples-chunk-size {best['samples']}"
        )
    return fix
