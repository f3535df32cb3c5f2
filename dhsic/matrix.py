"""Kernel matrices as dask arrays, computed lazily and block by block, never as a whole in memory.

For a block of K, a statistic (such as inner products) is summed over the feature chunks of the
data, one after another. So a task holds one block and two chunks. Chunks are read again for every
block, so data may be larger than memory. If chunks of a dask array share work (for example the
means of features), they are computed once and passed on. Blocks below the diagonal are transposes
of the blocks above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import dask.array as da
import numpy as np
from dask.base import optimize, tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.local import get_sync
from dask.optimization import cull
from dask.typing import Key

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels import check_overflow, resolve_kernel
from dhsic.kernels.bandwidth import (
    MEDIAN_SAMPLES,
    Dimension,
    DistanceStats,
    Fixed,
    Median,
    resolve_bandwidth,
)
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic
from dhsic.sources.arrays import check_sizes
from dhsic.validation import as_array, as_numbers, is_count, refuse_lossy

#: Approximate number of features read together, if the data are not a dask array.
WIDTH = 4096

#: Sums over features for a block: ``G = X X'``, (r, c), its diagonal at rows (r,) and columns (c,).
Sums = tuple[Float, Float, Float]


def kernel_matrix(
    X: Any,
    kernel: str | AbstractKernel = "gaussian",
    bandwidth: object = "median",
    block_size: int = 2048,
) -> da.Array:
    """Kernel matrix K of the samples of X as a dask array, computed lazily, block by block.

    Parameters
    ----------
    X : (m, d) or (m,) numpy, dask or zarr array, or xarray.DataArray with samples first
        Data, which are not standardised; chunks along the features are never merged. Chunks of a
        dask array are computed again for every block, unless they share work with each other or a
        cluster holds them.
    kernel : {"gaussian", "polynomial", "linear"} or kernel object
        Kernel on the data.
    bandwidth : "median", "dimension" or float
        Sigma in ``exp(-sigma d^2)``. The median distance is computed as a task of the graph, from
        at most 4,096 equally spaced samples, as in `dhsic.hsic`. The distances of these samples (up
        to 128 MiB) are the only array that may be larger than a block.
    block_size : int
        Number of rows and columns of a block of K. The data are read m / block_size times.

    Returns
    -------
    dask.array.Array
        (m, m) float64, symmetric to the last bit.

    Raises
    ------
    InputError
        If X is not a matrix, a parameter is unknown, or the block size is below 1; also during the
        computation, if values are not numbers.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> K = dhsic.kernel_matrix(np.eye(4), kernel="linear", block_size=3)
    >>> K.chunks
    ((3, 1), (3, 1))
    >>> float(K.sum())
    4.0
    """
    chosen = resolve_kernel(kernel)
    X = _sliceable(X)
    if not is_count(block_size):
        raise InputError(
            f"block_size={block_size!r} is invalid. Pass a whole number of samples, at least 1."
        )
    block_size = int(block_size)
    token = tokenize(X, chosen.name, chosen.parameters(), repr(bandwidth), block_size)
    graph: dict[Key, Any] = {}
    sigma, sampled = _sigma(X, chosen, bandwidth, graph, f"sigma-{token}")
    blocks = _in_blocks(X, block_size)
    name, sums = f"kernel-{token}", f"inner-{token}"
    add = partial(_add_features, centred=chosen.has_bandwidth)
    for i, j in combinations_with_replacement(range(len(blocks.heights)), 2):
        total = _add_chain(graph, sums, blocks, (i, j), add)
        if i < j:
            graph[name, i, j] = (_gram, chosen, total, sigma)
            graph[name, j, i] = (np.transpose, (name, i, j))
        else:
            graph[name, i, i] = (_symmetric_gram, chosen, total, sigma)
    shared: list[Any] = [a for a in (blocks.shared, sampled) if a is not None]
    layers = HighLevelGraph.from_collections(name, graph, dependencies=shared)
    return da.Array(layers, name, (blocks.heights, blocks.heights), dtype=np.dtype(np.float64))


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Data X divided into row blocks i and feature chunks f; `heights` are the rows per block.

    ``chunks[i][f]`` is a chunk, a function that reads it, or its key in the graph of `shared`.
    """

    heights: tuple[int, ...]
    chunks: list[list[Any]]
    shared: da.Array | None = None


def _part(X: Any, rows: slice, features: slice) -> Array:
    """Select rows and features of an array X; returns a view if the array is in memory."""
    return np.asarray(X[rows, features])


def _sliceable(X: Any) -> Any:
    """Convert X to an object with shape (m, d) that supports ``X[rows, features]``."""
    refuse_lossy(X, "X")
    if not (hasattr(X, "chunks") and len(X.shape) == 2):
        X = as_array(X, "X")
        X = X[:, None] if X.ndim == 1 else X
    if isinstance(getattr(X, "data", None), da.Array):  # xarray
        X = X.data
    if len(X.shape) != 2 or 0 in X.shape:
        raise InputError(
            f"X has shape {X.shape}; pass (m, d), one row per sample and at least one feature."
        )
    check_sizes(X)
    return X


def _in_blocks(X: Any, block_size: int, step: int = 1) -> _Blocks:
    """Divide every step-th sample of X into blocks of up to `block_size` samples.

    Feature chunks are those of X.
    """
    if isinstance(X, da.Array):
        return _dask_blocks(X[::step].rechunk({0: block_size}))
    m, d = X.shape
    kept = range(0, m, step)
    starts = range(0, len(kept), block_size)
    chunk = WIDTH if getattr(X, "chunks", None) is None else int(np.max(X.chunks[1]))
    width = chunk * max(1, WIDTH // chunk)
    heights = tuple(min(block_size, len(kept) - a) for a in starts)
    in_memory = isinstance(X, np.ndarray)
    read = partial(_part, X) if in_memory else partial(partial, _part, X)  # at once, or in a task
    chunks = [
        [
            read(slice(kept[a], kept[a + n - 1] + 1, step), slice(f, min(f + width, d)))
            for f in range(0, d, width)
        ]
        for a, n in zip(starts, heights, strict=True)
    ]
    return _Blocks(heights, chunks)


def _dask_blocks(X: da.Array) -> _Blocks:
    heights, widths = X.chunks
    keys = [[(X.name, i, f) for f in range(len(widths))] for i in range(len(heights))]
    task_values = (getattr(task, "value", task) for task in X.__dask_graph__().values())
    if any(type(value).__module__.startswith("distributed") for value in task_values):
        return _Blocks(heights, keys, X)  # a cluster holds the chunks
    (simple,) = optimize(X)
    graph = dict(simple.__dask_graph__())
    if X.npartitions * len(cull(graph, [keys[0][0]])[0]) > 3 * len(graph):
        return _Blocks(heights, keys, X)  # chunks share work
    chunks = [[partial(get_sync, cull(graph, [key])[0], key) for key in row] for row in keys]
    return _Blocks(heights, chunks)


def _sigma(
    X: Any, kernel: AbstractKernel, bandwidth: object, graph: dict[Key, Any], name: str
) -> tuple[Any, da.Array | None]:
    """Return sigma by the bandwidth policy, and the dask array from which it is computed.

    Sigma is a number, or the key of a task that is added to `graph`. The array is None if no tasks
    of a dask array are used.
    """
    policy = resolve_bandwidth(bandwidth)
    if not kernel.has_bandwidth:
        return 1.0, None
    if isinstance(policy, Fixed):
        return policy.sigma, None
    m, d = X.shape
    if isinstance(policy, Dimension):
        return 1.0 / (2.0 * d), None
    if not isinstance(policy, Median):
        raise InputError(
            f"bandwidth={bandwidth!r} is chosen by labels, and there are none. Pass 'median', "
            "'dimension' or one positive number, such as the one with the largest dhsic.hsic."
        )
    blocks = _in_blocks(X, MEDIAN_SAMPLES, -(-m // MEDIAN_SAMPLES))
    total = _add_chain(graph, f"{name}-inner", blocks, (0, 0), partial(_add_features, centred=True))
    graph[name] = (_median, kernel, total)
    return name, blocks.shared


def _add_chain(
    graph: dict[Key, Any],
    name: str,
    blocks: _Blocks,
    pair: tuple[int, int],
    add: Callable[..., Sums],
) -> Key:
    """Add tasks to `graph` that sum the statistic of a block over the features.

    Return the key of the last task, which computes the total.
    """
    i, j = pair
    before: Key | None = None
    for f, (left, right) in enumerate(zip(blocks.chunks[i], blocks.chunks[j], strict=True)):
        key = (name, i, j, f)
        graph[key] = (add, before, left, right if i < j else None)
        before = key
    return name, i, j, len(blocks.chunks[i]) - 1


def _add_features(before: Sums | None, left: Any, right: Any, *, centred: bool) -> Sums:
    """Add a chunk of features to the sums of a block (None before the first); return the sums.

    `left` and `right` are the values of the samples in the rows and columns of the block; `right`
    is None for a block on the diagonal. If `centred`, a common vector is subtracted first:
    distances do not change, and are more precise.
    """
    x = _numbers(left)
    y = x if right is None else _numbers(right)
    if centred:
        origin = x.mean(axis=0)
        x = x - origin
        y = x if right is None else y - origin
    inner = x @ y.T
    if right is None:
        rows = columns = np.diagonal(inner).copy()
    else:
        rows, columns = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    if before is None:
        return inner, rows, columns
    inner += before[0]
    return inner, rows + before[1], columns + before[2]


def _numbers(chunk: Any) -> Float:
    return np.asarray(as_numbers(chunk() if callable(chunk) else chunk, "X"))


def _gram(kernel: AbstractKernel, sums: Sums, sigma: float) -> Float:
    check_overflow(kernel, float(max(norms.max() for norms in sums[1:])))
    return kernel.gram(*sums, sigma)


def _symmetric_gram(kernel: AbstractKernel, sums: Sums, sigma: float) -> Float:
    """Compute the kernel values of a block on the diagonal, symmetric to the last bit."""
    K = _gram(kernel, sums, sigma)
    below = np.tril_indices_from(K, -1)
    K[below] = K.T[below]
    return K


def _median(kernel: AbstractKernel, sums: Sums) -> float:
    """Compute sigma by the median rule from the sums over sampled rows, as in `dhsic.hsic`."""
    return Median()(DistanceStats(kernel, None, Statistic.of(sums[0])), 1)
