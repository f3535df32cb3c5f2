"""`dhsic inspect`: what a store holds, how it is laid out, and what a selection would need.

What commands say of the variants of a store: FILTER, and how many have several alternatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr

from dhsic._typing import Array
from dhsic.cli.console import counted, in_options, paragraph
from dhsic.cli.exits import echo_json
from dhsic.cli.labels import describe
from dhsic.cli.layout import Layout, advice, better_chunks, layout_of
from dhsic.errors import DataError, InputError
from dhsic.joins.keys import some
from dhsic.joins.missing import PLINK_MISSING, is_missing, plink_missing, typed
from dhsic.joins.variables import IDENTIFIERS, anndata_of
from dhsic.memory import Promise, human
from dhsic.passes.once import LOOKED_AT, look_at
from dhsic.runtime import choose_runtime
from dhsic.runtime.threads import Threads
from dhsic.selectors.bahsic import BAHSIC
from dhsic.sources.anndata import AnnDataStore, Frame
from dhsic.sources.base import AbstractSource
from dhsic.sources.opening import open_source, parent
from dhsic.sources.options import MissingChunks
from dhsic.sources.stores import metadata_of
from dhsic.sources.variants import ALLELES, FILTER, Filters, n_multiallelic
from dhsic.sources.views import whole_of
from dhsic.sources.zarr import ChunkedArray, dimension_names, member, read_array


@dataclass(frozen=True, eq=False)
class Sites:
    """The variants of a store, those that a source leaves out too.

    Attributes
    ----------
    n_filtered : int
        Those left out.
    filters : Filters or None
        FILTER; None where the store keeps none.
    n_multiallelic : int or None
        Those of two alternative alleles or more; None where the store keeps no alleles.
    """

    n_filtered: int
    filters: Filters | None
    n_multiallelic: int | None

    @classmethod
    def of(cls, source: AbstractSource) -> Sites:
        """Look at the store that a source reads."""
        data = whole_of(source).chunked
        group = None if data is None else parent(data.opened())
        n_filtered = source.n_features_filtered
        if group is None:
            return cls(n_filtered, None, None)
        d = source.n_features + n_filtered
        has = {name for name in (FILTER, ALLELES) if _describes(group, name, d)}
        return cls(
            n_filtered,
            Filters.of(group, d, "fill") if FILTER in has else None,
            n_multiallelic(group) if ALLELES in has else None,
        )

    def plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "n_features_filtered": self.n_filtered,
            "filters": None if self.filters is None else self.filters.plain(),
            "n_multiallelic": self.n_multiallelic,
        }

    def facts(self) -> Iterator[tuple[str, str]]:
        """What there is to say, each with a label."""
        if self.filters is not None:
            out = f"; {self.n_filtered:,} left out" if self.n_filtered else ""
            yield "filter", f"{self.filters}{out}"
        if self.n_multiallelic is not None:
            yield "alleles", f"{counted(self.n_multiallelic, 'variant')} with several alternatives"

    def notes(self) -> Iterator[str]:
        """What is to be known before the variants are ranked."""
        if self.n_filtered:
            yield f"{counted(self.n_filtered, 'variant')} left out by FILTER: {self.filters}"
        elif self.filters is not None and self.filters.n_failed:
            yield (
                f"variants of any FILTER take part: {self.filters}; --pass-only leaves out all but "
                "PASS"
            )
        if self.n_multiallelic:
            yield (
                f"{counted(self.n_multiallelic, 'variant')} of the store with several alternative "
                "alleles, which a dosage counts together; bcftools norm -m- makes a variant of each"
            )


def _describes(group: zarr.Group, name: str, d: int) -> bool:
    """Whether an array of a group is along the d features; there may be variants besides them."""
    array = member(group, name)
    return array is not None and array.shape[0] == d


def inspect(
    *,
    path: str,
    variable: str | None,
    sample_dim: str | None,
    missing_code: Any,
    missing_chunks: MissingChunks,
    pass_only: bool,
    as_json: bool,
) -> None:
    """Print what a store holds, how well it is laid out, and what a selection would need."""
    axis = int(sample_dim) if sample_dim is not None and sample_dim.isdigit() else sample_dim
    source = open_source(
        path,
        variable=variable,
        sample_dim=axis,
        missing_code=missing_code,
        missing_chunks=missing_chunks,
        pass_only=pass_only,
    )
    whole = whole_of(source)
    data = whole.chunked
    if data is None:
        raise InputError(f"{path} is no Zarr store; inspect looks at the layout of one.")
    layout = layout_of(whole, data)
    sites = Sites.of(source)
    promise, values = _promise(source), _values(source)
    store = anndata_of(path)
    if store is None:
        targets, matrices = dict(_targets(data, source.n_samples)), {}
    else:
        targets, matrices = dict(_columns(store.obs)), dict(_matrices(store))
    if as_json:
        plain = _plain(source, layout, promise, targets) | sites.plain() | {"values": values}
        echo_json(plain if store is None else plain | {"matrices": matrices})
    else:
        shown = _lines(path, source, layout, promise, targets, sites, values, matrices)
        click.echo("\n".join(shown))


def _promise(source: AbstractSource) -> Promise:
    """What a `select` with default options would promise to need."""
    run = BAHSIC().new_run(source, np.empty(0), choose_runtime("threads"))
    return run.selector.fitted(run)[0]


def _values(source: AbstractSource) -> str:
    """What the values are, as a `select` would find, or why it would refuse them."""
    whole = source.n_features * source.n_samples <= LOOKED_AT
    with Threads() as runtime:
        try:
            told = str(look_at(source, runtime, None, whole=whole))
        except DataError as error:
            return f"refused: {in_options(str(error), click.get_current_context())}"
    return told if whole else f"{told} (in the few blocks that were read)"


def _targets(data: ChunkedArray, m: int) -> Iterator[tuple[str, str]]:
    """Arrays along the samples that could be labels, and what is in them."""
    parent = str(Path(data.path).parent) if data.path else None
    if parent is None:
        return
    with metadata_of(data.label):
        group = zarr.open_group(data.store, path="" if parent == "." else parent, mode="r")
        arrays = sorted(group.arrays())
    for name, array in arrays:
        dims = dimension_names(array)
        along = dims is None or dims[0] not in ("variants", "features", "contigs", "filters")
        if array.ndim == 1 and array.shape[0] == m and along and name not in IDENTIFIERS:
            yield name, _summary(read_array(array, "fill"))


def _columns(frame: Frame) -> Iterator[tuple[str, str]]:
    """Columns about the samples, and what is in them; the others say why they cannot be read."""
    for name in frame.columns:
        try:
            yield name, _column(frame, name)
        except DataError as error:
            yield name, f"cannot be read: {error}"


def _column(frame: Frame, name: str) -> str:
    try:
        return _summary(frame.column(name))
    except DataError:  # perhaps its writer left out chunks of zeros
        told = _summary(frame.column(name, "fill"))
        return f"{told}, if chunks that are not stored hold zeros; select does not assume so"


def _matrices(store: AnnDataStore) -> Iterator[tuple[str, str]]:
    """X, layers and the like, and what they are."""
    for name, node in store.matrices().items():
        if isinstance(node, zarr.Array):
            yield name, f"{' x '.join(f'{n:,}' for n in node.shape)}, {node.dtype}"
        else:
            yield name, f"sparse ({node.attrs['encoding-type']}), not read"


def _summary(values: Array) -> str:
    column = typed(values)
    missing = is_missing(column)
    present = column[~missing]
    if len(np.unique(present.astype(str))) < 2:
        return "constant"
    told = describe(present, "auto")
    n_coded = plink_missing(present)
    if n_coded:
        told += f"; {n_coded:,} are {PLINK_MISSING}, PLINK's missing"
    return f"{told}; {int(missing.sum()):,} missing" if missing.any() else told


def _plain(
    source: AbstractSource, layout: Layout, promise: Promise, targets: dict[str, str]
) -> dict[str, Any]:
    return {
        "n_samples": source.n_samples,
        "n_features": source.n_features,
        "dtype": str(source.dtype),
        "missing_code": source.missing_code,
        "layout": asdict(layout),
        "better_chunks": better_chunks(whole_of(source), layout),
        "advice": advice(whole_of(source), layout),
        "sample_names": _first(source.sample_names()),
        "feature_names": _first(source.feature_names()),
        "feature_coords": sorted(source.feature_coords()),
        "targets": targets,
        "promised_bytes": promise.total,
    }


def _lines(
    path: str,
    source: AbstractSource,
    layout: Layout,
    promise: Promise,
    targets: dict[str, str],
    sites: Sites,
    values: str,
    matrices: dict[str, str],
) -> Iterator[str]:
    sizes = " x ".join(f"{n:,} {axis}" for n, axis in zip(layout.shape, layout.axes, strict=True))
    whole = whole_of(source)
    ratio = source.n_samples * whole.n_features * source.dtype.itemsize / layout.stored_bytes
    yield paragraph(
        "data", f"{Path(path).name}: {source.n_samples:,} samples x {source.n_features:,} features"
    )
    yield paragraph("array", f"{layout.array}: {sizes}, {layout.dtype}, Zarr {layout.zarr_format}")
    yield paragraph("values", f"{source.dtype}, missing: {_missing(source)}; {values}")
    yield paragraph(
        "stored", f"{human(layout.stored_bytes)}, {ratio:.1f} times smaller than the values"
    )
    yield paragraph("codecs", _codecs(layout))
    yield paragraph("samples", _names(source.sample_names()))
    yield paragraph("features", _names(source.feature_names()))
    for label, fact in sites.facts():
        yield paragraph(label, fact)
    yield paragraph("chunks", _chunks(layout))
    yield paragraph(
        "reading",
        f"{counted(layout.n_blocks, 'block')} of up to {layout.block_features:,} features "
        f"({human(layout.block_bytes)}), {counted(layout.sample_chunks, 'chunk')} across the "
        f"samples; {layout.amplification:.2f} bytes decoded per byte of values",
    )
    for name, summary in targets.items() or {"": "no variable along the samples"}.items():
        yield paragraph("target", f"{name}: {summary}".removeprefix(": "))
    for name, what in matrices.items():
        yield paragraph("variable", f"{name}: {what}")
    yield paragraph("memory", f"a selection of all samples: {promise}")
    for line in advice(whole, layout) or ["The layout is good for feature selection."]:
        yield paragraph("advice", line)


def _missing(source: AbstractSource) -> str:
    if source.dtype.kind == "f":
        return "NaN"
    return "no code" if source.missing_code is None else str(source.missing_code)


def _codecs(layout: Layout) -> str:
    names = ", ".join(layout.codecs) or "none"
    return f"{names}; {'checksummed' if layout.has_checksum else 'no checksum'}"


def _chunks(layout: Layout) -> str:
    def shown(sizes: tuple[int, ...]) -> str:
        return " x ".join(f"{n:,} {axis}" for n, axis in zip(sizes, layout.axes, strict=True))

    if layout.shards is None:
        return shown(layout.chunks)
    return f"{shown(layout.chunks)}, in shards of {shown(layout.shards)}"


def _names(names: Array | None) -> str:
    return "no names" if names is None else some(names, 3).replace("in all", "names")


def _first(names: Array | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names[:3]]
