"""The statistic against landmarks, task by task: passes that sum it over features.

Genotypes are used as they are stored (`dhsic.sources.scaling`), everything else is standardised
tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.kernels.statistic import add_packed, packed, zero_upper
from dhsic.linalg.quadratic import add_products
from dhsic.namespace import DEVICE_ENTRIES, Move, host, into, like, namespace_of
from dhsic.passes import AbstractSum, Cost, Tile, cut, mover, tile_height
from dhsic.sources.scaling import Codes, Scaling, scaling_of
from dhsic.sources.views import checksums

#: Features of a tile of a statistic at least, for a product over few waits for memory; and entries
#: of it at a time, 16 MiB in float32.
LEAST_HEIGHT, STRIP_ENTRIES = 64, 1 << 22
#: Tiles of a task, in float32: codes, squares, products. And time of measuring a value, over that
#: of standardising it.
TILES, MEASURING = 6, 9.0
#: Features whose products are added up in float32.
IN_SINGLE = 2048
#: Inner products (b + q, m) and norms (m,).
InnerProducts = tuple[Float, Float]


def tile_entries(m: int) -> int:
    """Entries of a tile at a time, at most."""
    return min(max(tile_height(m), LEAST_HEIGHT) * m, max(STRIP_ENTRIES, m))


def lowrank_tile(m: int) -> int:
    """Bytes that a task in low rank holds."""
    return TILES * 4 * tile_entries(m)


@dataclass(frozen=True, slots=True)
class MeasureLandmarks(AbstractSum):
    """Scaling of features, in parts; their statistic against landmarks; whether all are codes."""

    is_common: ClassVar[bool] = True

    sums: LandmarkSums
    standardize: bool = True
    device: str | None = field(default_factory=wanted_device)

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[list[Scaling], InnerProducts, bool]:
        moved = mover(self.device)
        statistic = _Statistic(self.sums, m, moved)
        parts = []
        are_codes = True
        for tile in cut(blocks, statistic.height):
            codes = tile.codes
            are_codes &= codes is not None
            if codes is None:
                few = tile.cut(tile_height(m))  # so few are in float64 at a time
                measured = [part.measured(standardize=self.standardize)[0] for part in few]
                scaling = Scaling.join(measured)
                statistic.add(replace(tile, scaling=scaling))
            else:
                codes = codes if moved is None else codes.on(moved)
                scaling = scaling_of(codes.counts(), standardize=self.standardize)
                statistic.add_codes(codes, scaling)
                scaling = replace(scaling, checksum=checksums(tile.raw))
            parts.append(scaling)
        return [Scaling.join(parts)], statistic.sums(), are_codes

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], InnerProducts, bool]:
        sums = self.sums.add(left[1], right[1])
        return left[0] + right[0], sums, left[2] and right[2]

    def cost(self, m: int) -> Cost:
        return replace(self.sums.cost(m), values=MEASURING * m)


@dataclass(frozen=True, slots=True)
class LandmarkSums(AbstractSum):
    """Inner products of landmarks and samples, and norms, (m,), over the features.

    They are (b + q, m) where there are q `directions` (m, q) float32, by which samples are added
    up: after those of landmarks come those of such sums.
    """

    landmarks: Index
    directions: Array | None = None
    device: str | None = field(default_factory=wanted_device)

    @property
    def n_rows(self) -> int:
        """Rows of the inner products: b + q."""
        return len(self.landmarks) + (0 if self.directions is None else self.directions.shape[1])

    def over(self, blocks: Iterator[Tile], m: int) -> InnerProducts:
        moved = mover(self.device)
        statistic = _Statistic(self, m, moved)
        for tile in cut(blocks, statistic.height):
            codes = tile.codes
            if codes is None:
                statistic.add(tile)
            else:
                statistic.add_codes(codes if moved is None else codes.on(moved), tile.scaling)
        return statistic.sums()

    def add(self, left: InnerProducts, right: InnerProducts) -> InnerProducts:
        for have, more in zip(left, right, strict=True):
            np.add(have, more, out=have)
        return left

    def cost(self, m: int) -> Cost:
        b, q = len(self.landmarks), self.n_rows - len(self.landmarks)
        flops, result = 2.0 * (b + 2 * q) * m, 8 * m * (b + q + 1)
        return Cost(float32=flops, values=m, result=result, tile=lowrank_tile(m), state=4 * q * m)


@dataclass(frozen=True, slots=True)
class AllSums(AbstractSum):
    """Upper triangle of the inner products of all samples over the features, packed."""

    is_common: ClassVar[bool] = True

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        upper, part = zero_upper(m), np.zeros((m, m), dtype=np.float32, order="F")
        n = 0
        for tile in cut(blocks, tile_height(m)):
            add_products(part, np.ascontiguousarray(tile.values(np.float32)))
            n += len(tile.raw)
            if n >= IN_SINGLE:
                upper += part
                part[:] = 0
                n = 0
        upper += part
        return packed(upper)

    def add(self, left: Float, right: Float) -> Float:
        left += right
        return left

    def whole(self, total: Float, m: int) -> Float:
        upper = zero_upper(m)
        add_packed(upper, total)
        return upper

    def cost(self, m: int) -> Cost:
        return Cost(float32=float(m) ** 2, values=m, result=4 * m * (m + 1), tile=lowrank_tile(m))


class _Statistic:
    """Sums over tiles: in float32 over a few of them, from there in float64.

    With `moved` values and products are on a device, and so are sums in float32.

    Attributes
    ----------
    height : int
        Features of a tile.
    """

    def __init__(self, asked: LandmarkSums, m: int, moved: Move | None = None) -> None:
        self.landmarks, self._moved = asked.landmarks, moved
        self._directions: Any = asked.directions
        if moved is not None and asked.directions is not None:
            self._directions = moved(asked.directions)
        b = asked.n_rows
        self.height = max(tile_height(m), LEAST_HEIGHT)
        if moved is not None:
            self.height = max(1, min(IN_SINGLE, DEVICE_ENTRIES // m))
        width = max(1, tile_entries(m) // self.height) if moved is None else m
        self._strips = [slice(a, min(a + width, m)) for a in range(0, m, width)]
        self._inner: Float | None = None
        self._norms = np.zeros(m)
        self._shifts, self._norm_shift = np.zeros(b), 0.0
        self._part = np.empty((b, m), dtype=np.float32)  # of the last `_n` features
        self._product = np.empty(b * min(width, m), dtype=np.float32)
        self._there: Any = None  # the same on a device
        self._n = 0

    def sums(self) -> InnerProducts:
        """Inner products (b, m) and norms (m,) of all tiles; no more can be added."""
        self._flush()
        assert self._inner is not None, "a job has features"
        self._inner -= self._shifts[:, None]
        return self._inner, self._norms + self._norm_shift

    def add(self, tile: Tile) -> None:
        """Features that are standardised, a strip of samples at a time."""

        def strip(samples: slice) -> Array:
            return replace(tile, raw=tile.raw[:, samples]).values(np.float32, self._moved)

        L = replace(tile, raw=tile.raw[:, self.landmarks]).values(np.float32)
        parts, sums = self._cut(strip)
        if sums is not None:
            L = np.column_stack([L, sums.astype(np.float32)])
        for samples, X in parts:
            self._add(L, X, samples)
            self._norms[samples] += _norms(X)
        self._count(len(L))

    def add_codes(self, codes: Codes, scaling: Scaling) -> None:
        """Add codes g, ``x = s (g - h)``: ``sum_j s^2 (g - h) g'`` and what h takes from it."""
        square, shift = scaling.scale**2, scaling.mean
        L = host(codes.some(self.landmarks).filled(shift)) - shift[:, None]  # (c, b) float64
        parts, sums = self._cut(lambda samples: codes.some(samples).filled(shift))
        if sums is not None and self._directions is not None:
            whole = host(self._directions).sum(axis=0, dtype=np.float64)
            L = np.column_stack([L, sums - shift[:, None] * whole])
        L *= square[:, None]
        self._shifts += shift @ L
        weights = np.stack([square, -2 * square * shift]).astype(np.float32)
        single = L.astype(np.float32)
        for samples, g in parts:
            self._add(single, g, samples)
            there = like(g, weights)
            self._norms[samples] += host(there[1, :] @ g)
            self._norms[samples] += host(there[0, :] @ into(g, namespace_of(g).multiply, g, g))
        self._norm_shift += float(square @ (shift * shift))
        self._count(len(L))

    def _cut(
        self, strip: Callable[[slice], Array]
    ) -> tuple[Iterable[tuple[slice, Array]], Float | None]:
        """Strips of samples (c, s) of some features, and their sums along the directions, (c, q).

        A strip is made again for either, unless there is only one.
        """
        strips = ((samples, strip(samples)) for samples in self._strips)
        if self._directions is None:
            return strips, None
        if len(self._strips) == 1:
            only = list(strips)
            return only, host(only[0][1] @ self._directions).astype(np.float64)
        again = ((samples, strip(samples)) for samples in self._strips)
        found = [(X @ self._directions[samples, :]).astype(np.float64) for samples, X in strips]
        return again, np.sum(found, axis=0)

    def _add(self, L: Array, X: Array, samples: slice) -> None:
        if self._moved is not None:  # where a strip has all samples
            product = self._moved(L).T @ X
            self._there = product if self._there is None else self._there + product
            return
        part = self._part[:, samples]
        if not self._n:
            np.matmul(L.T, X, out=part)
            return
        product = self._product[: part.size].reshape(part.shape)
        np.matmul(L.T, X, out=product)
        part += product

    def _count(self, n: int) -> None:
        self._n += n
        if self._n >= IN_SINGLE:
            self._flush()

    def _flush(self) -> None:
        if not self._n:
            return
        if self._there is not None:
            self._part, self._there = host(self._there), None
        if self._inner is None:
            self._inner = self._part.astype(np.float64)
        else:
            self._inner += self._part
        self._n = 0


def _norms(X: Array) -> Float:
    """Squared norms of samples over features X (c, s), (s,), NumPy's."""
    here: Any = X
    if isinstance(here, np.ndarray):
        return np.asarray(np.einsum("ij,ij->j", X, X))
    xp = namespace_of(X)
    return host(xp.sum(xp.square(X), axis=0))
