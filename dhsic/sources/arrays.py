"""Sources in memory and in dask graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.sources.base import (
    AbstractSource,
    Block,
    group_chunks,
    regular_edges,
    row_span,
    take_rows,
)
from dhsic.sources.domain import check_dtype, check_finite, check_shape, in_memory
from dhsic.sources.fingerprint import fingerprint

if TYPE_CHECKING:
    import dask.array as da

GRAIN = 256  # features that a fingerprint takes together where storage has no chunks


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names of features (d,) and samples (m,), and coordinates of features, where known."""

    features: Array | None = None
    samples: Array | None = None
    coords: Mapping[str, Array] = field(default_factory=dict)


class AbstractNamedSource(AbstractSource):
    """A source whose names are in memory."""

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, missing_code: int | None, names: Names | None
    ) -> None:
        check_shape(shape, "X")
        check_dtype(dtype, "X")
        self.n_samples, self.n_features = shape
        self.dtype = np.dtype(dtype)
        self.missing_code = missing_code
        self.names = names or Names()

    def feature_names(self) -> Array | None:
        return self.names.features

    def sample_names(self) -> Array | None:
        return self.names.samples

    def feature_coords(self) -> Mapping[str, Array]:
        return self.names.coords

    def _checked(self, values: Array, block: Block, rows: Index | None, span: slice) -> Array:
        """Take `rows` of (m, c) values that hold the samples of `span`; Fortran-ordered."""
        kept = _in_feature_order(take_rows(values.T, rows, span))
        check_finite(kept, block, rows, in_memory, self.missing_code)
        return kept.T


class ArraySource(AbstractNamedSource):
    """A NumPy array (m, d) in this process.

    Columns of a Fortran-ordered array are read without a copy (and read-only); those of a
    C-ordered one are copied, a block at a time.
    """

    in_memory = True

    def __init__(
        self, X: Array, *, missing_code: int | None = None, names: Names | None = None
    ) -> None:
        super().__init__(X.shape, X.dtype, missing_code, names)
        self.client_bytes = X.nbytes
        self._X = X

    def blocks(self, width: int) -> tuple[Block, ...]:
        edges = regular_edges(self.n_features, width)
        return tuple(Block(i, int(a), int(b)) for i, (a, b) in enumerate(pairwise(edges)))

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Read a block, (m, c)."""
        columns = self._X[:, block.start : block.stop]
        return self._checked(columns, block, rows, slice(0, self.n_samples))

    def fingerprint(self) -> str:
        edges = regular_edges(self.n_features, GRAIN)
        return fingerprint(self, edges, "array", self.names.features, self.names.samples)


class DaskSource(AbstractNamedSource):
    """A dask array (m, d), read in whole chunks along the features.

    A block is computed in the calling thread, one of the runtime's, unless the graph holds
    futures, which only their cluster can compute.
    """

    def __init__(
        self, X: da.Array, *, missing_code: int | None = None, names: Names | None = None
    ) -> None:
        check_sizes(X)
        check_chunks(X)
        super().__init__(X.shape, X.dtype, missing_code, names)
        self._X = X
        self._edges = np.unique(np.cumsum((0, *X.chunks[1])))
        held = _held_by(X)
        self.client_bytes = sum(value.nbytes for value in held if isinstance(value, np.ndarray))
        self._on_cluster = any(type(v).__module__.startswith("distributed") for v in held)

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Group dask chunks into blocks of up to `width` features."""
        return group_chunks(self._edges, width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Compute a block, (m, c)."""
        span = row_span(rows, self.n_samples)
        part = self._X[span, block.start : block.stop]
        computed = part.compute() if self._on_cluster else part.compute(scheduler="synchronous")
        return self._checked(np.asarray(computed), block, rows, span)

    def fingerprint(self) -> str:
        names = self.names.features, self.names.samples
        return fingerprint(self, self._edges, ("dask", self._X.chunks), *names)

    def pieces(self, blocks: tuple[Block, ...]) -> tuple[Any, ...]:
        return tuple(self._X[:, block.start : block.stop] for block in blocks)

    def with_pieces(self, blocks: tuple[Block, ...], arrays: tuple[Array, ...]) -> AbstractSource:
        return PiecesSource(self, blocks, arrays)


def check_sizes(X: da.Array) -> None:
    """Refuse a dask array that does not know its shape."""
    if any(np.isnan(size) for size in X.shape):
        raise InputError(
            f"The dask array X has chunks of unknown size (shape {X.shape}). Call "
            "X.compute_chunk_sizes() first, or write it to Zarr."
        )


def check_chunks(X: Any) -> None:
    """Refuse a dask array of others than NumPy's."""
    meta = getattr(X, "_meta", None)
    if meta is not None and not isinstance(meta, np.ndarray):
        raise InputError(
            f"Chunks of the dask array X are {type(meta).__module__} arrays. Make them NumPy "
            "arrays: X.map_blocks(lambda chunk: chunk.toarray())."
        )


class PiecesSource(AbstractNamedSource):
    """Blocks of another source that are at hand already, found by where they start and stop."""

    in_memory = True

    def __init__(
        self, whole: AbstractNamedSource, blocks: tuple[Block, ...], arrays: tuple[Array, ...]
    ) -> None:
        shape = whole.n_samples, whole.n_features
        super().__init__(shape, whole.dtype, whole.missing_code, whole.names)
        self._blocks = blocks
        self._pieces = {
            (b.start, b.stop): np.asarray(x) for b, x in zip(blocks, arrays, strict=True)
        }
        self.client_bytes = sum(x.nbytes for x in self._pieces.values())

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Return the blocks at hand, whatever `width` says."""
        return self._blocks

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Return a block at hand, (m, c)."""
        at_hand = self._pieces.get((block.start, block.stop))
        if at_hand is None:
            raise InputError(
                f"Features {block.start}:{block.stop} are not among the pieces at hand, "
                f"{sorted(self._pieces)}. Read blocks as they were handed over."
            )
        return self._checked(at_hand, block, rows, slice(0, self.n_samples))

    def fingerprint(self) -> str:
        """Refuse: pieces are a part of a source, and it alone can be fingerprinted."""
        raise TypeError("Pieces have no fingerprint; ask the source that they come from.")


def _in_feature_order(values: Array) -> Array:
    """Make (c, m) values C-ordered, a copy where they are not; what is lent is read-only."""
    ordered = np.ascontiguousarray(values)
    if ordered.base is not None:
        ordered = ordered.view()
        ordered.flags.writeable = False
    return ordered


def _held_by(X: da.Array) -> list[Any]:
    """Values that the graph carries with it: arrays that would travel, futures.

    Layers that are not written out (blockwise) hold recipes only, and writing them out is
    what is slow about a large graph.
    """
    graph: Any = X.__dask_graph__()
    layers = getattr(graph, "layers", {"": graph}).values()
    written = [layer for layer in layers if getattr(layer, "is_materialized", lambda: True)()]
    return [getattr(task, "value", task) for layer in written for task in layer.values()]
