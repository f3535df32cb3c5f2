r"""Pairs tested by products of several functions of each feature: ring-shaped interactions.

The product of two features detects an effect of one feature that grows with the other feature. It
does not detect a ring: a label that is 1 on a ring around the middle of two features is
uncorrelated with their product, but is a sum of products of non-monotone functions. Here each
feature has R functions of its ranks, 2 or 4 (`dhsic.linalg.rank_basis`). The first, third, ...
function has different values at the two ends of the ranks; the second, fourth, ... function has
equal values. A pair therefore has four blocks of ``g = (R / 2)^2`` products ``z_rs``, one block for
each combination of the two kinds of functions.

Let M be the projection onto the orthogonal complement of Q and of all R functions of both features,
W an orthonormal basis of the projected products ``M z_rs`` of a block, and V an orthonormal basis
of the projected labels ``M U``. The share of the block is ``|W' V|^2 / min(g, t)``, the mean
squared canonical correlation of products and labels. For one column of labels (t = 1) it is the
share of their variance that the products explain.
For normal labels under the null hypothesis,

    ``share ~ Beta(s max(g, t) / 2, s (n - g - t + s) / 2)``,  ``s = min(g, t)``,
    ``n = m - q - 2 R``,

exactly for s = 1; otherwise this is the usual approximation for Pillai's trace. If there are fewer
products, for example for two binary features, the same law is used, and p-values are conservative.
The share of the pair is the largest share of its four blocks. Its p-value is ``1 - (1 - p)^4``, the
p-value of the smallest of four independent p-values.

Products of independent features are nearly orthonormal. Large scans therefore test only pairs with
a block in which the sum of ``|U' z_rs|^2 / m`` is at least `MARGIN` times the target share, the
smallest share that the scan looks for. This takes R^2 matrix products per tile and label column.
Products of features in linkage are smaller, so such pairs may be missed. There are no additional
false positives, because permutations test all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.linalg.rank_basis import rank_basis, rank_functions
from dhsic.namespace import slices
from dhsic.pairs.share import BLOCKS, Labels
from dhsic.pairs.tiles import (
    COPIES_OF_FUNCTIONS,
    FEWEST_RUNS,
    MARGIN,
    MEASURED,
    STRIP_ENTRIES,
    WIDEST,
    BestPairs,
    PermutationResult,
    Strip,
    run_width,
    strips,
)
from dhsic.passes import AbstractPass, Cost, Tile
from dhsic.sources.scaling import missing_mask

#: Allowed numbers of functions of a feature.
FUNCTIONS = (1, 2, 4)
#: Maximum number of values of products in memory at a time.
ENTRIES = 1 << 19
#: Maximum number of pairs whose shares for all permutations are in memory at a time.
AT_ONCE = 1 << 13
#: A function of which Q leaves a smaller share of the mean square unexplained is not used.
EXPLAINED = 1e-4
#: Lower bound of the share of the labels that main effects of a pair leave unexplained.
LEAST_LEFT = 1e-6
#: Maximum number of pairs for which a scan tests all pairs, without a screen.
FEW = 1 << 13


def block_size(functions: int) -> int:
    """Number of products in a block, for this number of functions per feature."""
    return max(1, functions // 2) ** 2


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRun:
    """Functions of the features on one side of a tile of pairs.

    Attributes
    ----------
    features : (c,) int64
        Positions of the features.
    F : (c, R, m) float32
        Functions of the ranks; rows are 0 if a feature has fewer than R functions.
    gaps : (c, m) bool or None
        Mask of missing values; None if no value is missing.
    """

    features: Index
    F: Array
    gaps: Array | None = None

    @classmethod
    def both(cls, blocks: Iterator[Tile], functions: int) -> tuple[FunctionRun, FunctionRun]:
        """Return both sides of a tile; they are the same object if the tile is on the diagonal."""
        of: tuple[list[Tile], list[Tile]] = [], []
        for tile in blocks:
            of[int(tile.tags[0]) % 2].append(tile)
        left = cls._of(of[0], functions)
        return left, cls._of(of[1], functions) if of[1] else left

    @classmethod
    def of_values(cls, X: Array, functions: int) -> FunctionRun:
        """Compute the functions for feature values (c, m) without missing values."""
        return cls(np.arange(len(X)), functions_of(X, None, functions))

    @classmethod
    def _of(cls, tiles: list[Tile], functions: int) -> FunctionRun:
        features = np.concatenate([tile.tags for tile in tiles]) // 2
        masks = [missing_mask(tile.raw, tile.missing_code) for tile in tiles]
        of_each = [
            functions_of(tile.raw, mask, functions) for tile, mask in zip(tiles, masks, strict=True)
        ]
        gaps = None
        if any(mask is not None for mask in masks):
            each = zip(tiles, masks, strict=True)
            none = [np.zeros(t.raw.shape, dtype=bool) if mask is None else mask for t, mask in each]
            gaps = np.concatenate(none)
        return cls(features, np.concatenate(of_each), gaps)


def functions_of(raw: Array, mask: Mask | None, functions: int) -> Array:
    """Functions of the ranks of each feature, (c, R, m); 0 where the mask (c, m) is True."""
    c, m = raw.shape
    F_all = np.zeros((c, functions, m), dtype=np.float32)
    order = np.argsort(raw, axis=1, kind="stable")
    ascending = np.take_along_axis(raw, order, axis=1)
    is_plain = (ascending[:, 1:] != ascending[:, :-1]).all(axis=1)
    if mask is not None:
        is_plain &= ~mask.any(axis=1)
    basis = rank_basis(m, functions).astype(np.float32)
    for j in range(c):
        if is_plain[j]:
            F_all[j, : len(basis), order[j]] = basis.T
        else:
            F = rank_functions(raw[j], functions, None if mask is None else mask[j])
            F_all[j, : len(F)] = F
    return F_all


def product_shares(
    left: FunctionRun, right: FunctionRun, at: Index, labels: Labels, others: Array | None = None
) -> tuple[Float, Float]:
    """Shares of pairs for the labels and B permutations, (n, 1 + B), and linkage of pairs, (n,).

    Parameters
    ----------
    left, right : FunctionRun
        Functions of the features on both sides of a tile.
    at : (n, 2)
        Pairs of features: index on the left, and index on the right side.
    others : (B, m, t), optional
        Permuted labels, orthonormal.

    Returns
    -------
    shares : (n, 1 + B)
        NaN for pairs that are not tested.
    linked : (n,)
        Squared correlation of the features' ranks.
    """
    m = len(labels.U)
    columns = labels.U[None] if others is None else np.concatenate([labels.U[None], others])
    dtype = np.float64 if others is None else np.float32
    Y = np.ascontiguousarray(columns.transpose(1, 0, 2).reshape(m, -1), dtype=dtype)
    QY = np.concatenate([labels.Q.astype(dtype), Y], axis=1)
    shares = np.empty((len(at), len(columns)))
    linked = np.empty(len(at))
    step = max(1, ENTRIES // (labels.functions**2 * m))
    for a in range(0, len(at), step):
        j, k = at[a : a + step].T
        batch = slice(a, a + len(j))
        shares[batch], linked[batch] = _of_some(left, right, j, k, labels, QY)
    return shares, linked


def _of_some(
    left: FunctionRun, right: FunctionRun, j: Index, k: Index, labels: Labels, QY: Array
) -> tuple[Float, Float]:
    """Compute `product_shares` for a batch of pairs.

    Pairs are features j on the left and k on the right side. QY has the columns of Q and of the
    labels.
    """
    (m, t), n, q = labels.U.shape, len(j), labels.Q.shape[1]
    F, G = (run.F[at].astype(QY.dtype) for run, at in ((left, j), (right, k)))
    Z = products_of(F, G)
    g = Z.shape[2]
    A = np.concatenate([F, G, *_gaps(left, right, j, k, F.dtype)], axis=1)  # (n, 2 R or more, m)
    of_Z = (Z.reshape(-1, m) @ QY).reshape(n, BLOCKS, g, -1)
    of_A = (A.reshape(-1, m) @ QY).reshape(n, A.shape[1], -1)
    (ZQ, ZY), (AQ, AY) = ((each[..., :q], each[..., q:]) for each in (of_Z, of_A))
    ZZ = np.matmul(Z, Z.swapaxes(2, 3)) - np.matmul(ZQ, ZQ.swapaxes(2, 3))
    AZ = np.matmul(A, Z.reshape(n, -1, m).swapaxes(1, 2))
    AZ -= np.matmul(AQ, ZQ.reshape(n, -1, q).swapaxes(1, 2))
    AA = np.matmul(A, A.swapaxes(1, 2)) - np.matmul(AQ, AQ.swapaxes(1, 2))
    main = _coordinates(AA, [AZ, AY], EXPLAINED * m)
    AZ, AY = main[..., : BLOCKS * g], main[..., BLOCKS * g :]
    AZ = AZ.reshape(n, -1, BLOCKS, g).transpose(0, 2, 3, 1)  # (n, BLOCKS, g, 2 R)
    ZZ -= np.matmul(AZ, AZ.swapaxes(2, 3))
    ZY = ZY - np.matmul(AZ, AY[:, None])
    least = labels.least * m
    is_there = np.diagonal(ZZ, axis1=2, axis2=3).max(axis=2) >= least
    along = _coordinates(ZZ.reshape(-1, g, g), [ZY.reshape(n * BLOCKS, g, -1)], least)
    if t == 1:
        share = np.square(along).sum(axis=1).reshape(n, BLOCKS, -1)
        share /= np.maximum(1.0 - np.square(AY).sum(axis=1), LEAST_LEFT)[:, None]
    else:
        share = _traces(along, np.repeat(AY, BLOCKS, axis=0), t).reshape(n, BLOCKS, -1) / min(g, t)
    share = np.where(is_there[..., None], share, 0.0).max(axis=1)
    linked = (np.vecdot(F[:, 0], G[:, 0]) / m) ** 2
    is_tested = is_there.any(axis=1) & (linked <= labels.linked)
    return np.where(is_tested[:, None], np.minimum(share, 1.0), np.nan), linked


def _gaps(left: FunctionRun, right: FunctionRun, j: Index, k: Index, dtype: Any) -> list[Array]:
    """Indicators (n, 1, m) of samples in which a feature of the pair is missing.

    The list is empty if no value is missing. The indicator is an additional main effect. The
    product is 0 in these samples, but its mean in the other samples is not 0 if the features are
    linked.
    """
    masks = [run.gaps[at] for run, at in ((left, j), (right, k)) if run.gaps is not None]
    return [np.logical_or.reduce(masks)[:, None].astype(dtype)] if masks else []


def products_of(F: Array, G: Array) -> Array:
    """Products (n, `BLOCKS`, g, m) of functions (n, R, m) of two features, in four blocks."""
    n, R, m = F.shape
    order = [*range(0, R, 2), *range(1, R, 2)]
    left, right = (each[:, order].reshape(n, 2, R // 2, m) for each in (F, G))
    Z = left[:, :, None, :, None] * right[:, None, :, None]
    return np.asarray(Z.reshape(n, BLOCKS, (R // 2) ** 2, m))


def _traces(along: Float, main: Float, t: int) -> Float:
    """Pillai's traces (n, 1 + B) of products with t label columns, given the main effects.

    E (t, g) are the coordinates of the labels along the products, and C (r, t) the coordinates
    along the main effects. The trace is ``tr E' (I - C' C)^-1 E``. If there are more label columns
    than main effects, it is computed as ``|E|^2 + tr (C E)' (I - C C')^-1 C E`` (Woodbury).
    """
    n, g, columns = along.shape
    E = along.reshape(n, g, columns // t, t).transpose(0, 2, 3, 1)  # (n, B, t, g)
    C = main.reshape(n, -1, columns // t, t).transpose(0, 2, 1, 3)  # (n, B, r, t)
    r = C.shape[2]
    if t <= r:
        N = np.eye(t, dtype=C.dtype) - np.matmul(C.swapaxes(2, 3), C)
        both = _coordinates(N.reshape(-1, t, t), [E.reshape(-1, t, g)], LEAST_LEFT)
        return np.asarray(np.square(both).sum(axis=(1, 2)).reshape(n, -1))
    N = np.eye(r, dtype=C.dtype) - np.matmul(C, C.swapaxes(2, 3))
    both = _coordinates(N.reshape(-1, r, r), [np.matmul(C, E).reshape(-1, r, g)], LEAST_LEFT)
    explained = np.square(both).sum(axis=(1, 2)).reshape(n, -1)
    return np.asarray(np.square(E).sum(axis=(2, 3)) + explained)


def _coordinates(G: Float, columns: list[Float], least: float) -> Float:
    """Compute ``L^-1 C`` with ``G = L L'`` (n, g, g), for several matrices C (n, g, c).

    The results are concatenated. G are the inner products of g vectors, and C are their inner
    products with other vectors. The result contains the inner products of an orthonormal basis of
    the g vectors with the other vectors (Gram-Schmidt). If the squared residual of a vector is
    below `least`, it is skipped and its row is 0.
    """
    columns_left = np.concatenate([G, *columns], axis=2)
    g = G.shape[1]
    for i in range(g):
        size = columns_left[:, i, i].copy()
        is_there = size >= least
        scale = np.where(is_there, 1.0 / np.sqrt(np.where(is_there, size, 1.0)), 0.0)
        columns_left[:, i, i:] *= scale[:, None]
        row = columns_left[:, i, i + 1 :]
        columns_left[:, i + 1 :, i + 1 :] -= row[:, : g - i - 1, None] * row[:, None]
    return columns_left[:, :, g:]


def _all(left: FunctionRun, right: FunctionRun) -> Iterator[Index]:
    """Yield the indices (n, 2) of all pairs of a tile, in batches."""
    width = len(right.F)
    for rows in slices(len(left.F), max(1, AT_ONCE // width)):
        every = np.ones((rows.stop - rows.start, width), dtype=bool)
        yield Strip(rows, left is right).places(every)


def _screened(
    left: FunctionRun, right: FunctionRun, labels: Labels, least: float
) -> Iterator[Index]:
    """Yield the indices (n, 2) of pairs that pass the screen.

    In at least one block, the sum used by the screen (see the module docstring) is >= `least`.
    """
    c, R, _ = left.F.shape
    narrow = labels.U.astype(np.float32)
    for rows in strips(c, len(right.F)):
        F = left.F[rows]
        mask = np.zeros((len(F), len(right.F)), dtype=bool)
        for a, b in product((0, 1), repeat=2):
            size = np.zeros(mask.shape, dtype=np.float32)
            for u, r in product(narrow.T, range(a, R, 2)):
                weighted = F[:, r] * u
                for s in range(b, R, 2):
                    part = weighted @ right.F[:, s].T
                    part *= part
                    size += part
            mask |= size >= np.float32(least)
        yield Strip(rows, left is right).places(mask)


@dataclass(frozen=True, slots=True)
class ProductScan(AbstractPass):
    """Pass that returns the best n pairs of each tile, with shares of at least `reach`.

    With `screens`, only pairs that pass the screen are tested, see the module docstring.
    """

    labels: Labels
    reach: float
    n: int
    screens: bool

    def over(self, blocks: Iterator[Tile], m: int) -> BestPairs:
        left, right = FunctionRun.both(blocks, self.labels.functions)
        s = min(block_size(self.labels.functions), self.labels.U.shape[1])
        least = MARGIN * self.reach * s * m
        places = _screened(left, right, self.labels, least) if self.screens else _all(left, right)
        best, n_judged = BestPairs.none(), 0
        for at in places:
            shares, linked = product_shares(left, right, at, self.labels)
            n_judged += len(at)
            is_there = shares[:, 0] >= self.reach
            pairs = np.column_stack([left.features[at[:, 0]], right.features[at[:, 1]]])[is_there]
            pairs.sort(axis=1)
            tile_best = BestPairs(pairs, shares[is_there, 0], linked[is_there], 0, len(pairs))
            best = best.with_(tile_best, self.n)
        return BestPairs(best.pairs, best.shares, best.linked, n_judged, best.n_reaching)

    def cost(self, m: int) -> Cost:
        return _cost(self.labels, m, 0)


@dataclass(frozen=True, slots=True)
class LargestProducts(AbstractPass):
    """Pass that returns the largest shares with permuted labels, for products of functions.

    `dhsic.pairs.tiles.Largest` does the same for plain products.
    """

    labels: Labels
    permuted: Array  # (B, m, t)
    every: int

    def over(self, blocks: Iterator[Tile], m: int) -> PermutationResult:
        left, right = FunctionRun.both(blocks, self.labels.functions)
        largest, sampled = np.zeros(len(self.permuted)), []
        for at in _all(left, right):
            shares, _ = product_shares(left, right, at, self.labels, self.permuted)
            shares = shares[~np.isnan(shares[:, 0])]
            if len(shares):
                largest = np.maximum(largest, shares[:, 1:].max(axis=0))
            sampled.append(shares[:: self.every, : 1 + MEASURED].T.astype(np.float32))
        return PermutationResult(largest, np.concatenate(sampled, axis=1), 0, 0)

    def cost(self, m: int) -> Cost:
        return _cost(self.labels, m, len(self.permuted))


def _cost(labels: Labels, m: int, n_permuted: int) -> Cost:
    t, q = labels.U.shape[1], labels.Q.shape[1]
    return Cost(
        values=m,
        state=8 * m * (t * (1 + n_permuted) + q),
        tile=task_bytes_of(labels.functions, m, t, n_permuted, width=None),
    )


def task_bytes_of(functions: int, m: int, t: int, n_permuted: int, width: int | None) -> int:
    """Memory of a task, besides stored values, for functions, products and shares, in bytes."""
    width = run_width(m, WIDEST * FEWEST_RUNS, functions) if width is None else width
    runs = 2 * 4 * COPIES_OF_FUNCTIONS * functions * m * width
    n_pairs, g = width * width, functions * functions
    entries = min(ENTRIES, n_pairs * g * m)
    at_once = min(AT_ONCE + width, n_pairs)
    along = 8 * (1 + n_permuted) * (4 * t * entries // m + 3 * at_once)
    return runs + 6 * 8 * entries + along + 24 * 4 * min(STRIP_ENTRIES, n_pairs)
