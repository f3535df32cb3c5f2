"""Passes that sum inner products of samples and landmarks (the statistic) over features.

Genotype codes are used as they are stored (`dhsic.sources.scaling`); all other values are
standardised tile by tile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import wanted_device
from dhsic.kernels.statistic import add_packed, packed, zero_upper
from dhsic.linalg.quadratic import add_products
from dhsic.namespace import DEVICE_ENTRIES, Move, host, into, like, namespace_of, slices
from dhsic.passes import AbstractShared, AbstractSum, Cost, Tile, mover, split_tiles, tile_height
from dhsic.sources.scaling import Codes, Scale, Scaling, scaling_of
from dhsic.sources.views import checksums

#: Minimum number of features per tile of a statistic, because products of fewer are memory-bound;
#: and entries processed at a time (16 MiB in float32).
LEAST_HEIGHT, STRIP_ENTRIES = 64, 1 << 22
#: Number of float32 arrays of the size of a tile (codes, squares, products) that a task holds; and
#: time of measuring a value, relative to standardising it.
TILES, MEASURING = 6, 6.0
#: Time per flop of small products that are added up, relative to one large product.
SUMMED = 1.3
#: Number of features whose products are added in float32; the sums are then added in float64.
IN_SINGLE = 2048
#: Inner products (b + q, m) with b landmarks and q directions, and squared norms (m,) of samples.
InnerProducts = tuple[Float, Float]


def tile_entries(m: int) -> int:
    """Maximum number of entries of a tile that are processed at a time, for m samples."""
    return min(max(tile_height(m), LEAST_HEIGHT) * m, max(STRIP_ENTRIES, m))


def height_of(device: str | None, m: int) -> int:
    """Number of features per tile, on the CPU or on a device."""
    if device is None:
        return max(tile_height(m), LEAST_HEIGHT)
    return max(1, min(IN_SINGLE, DEVICE_ENTRIES // m))


def lowrank_tile(m: int) -> int:
    """Memory of a task of a low-rank pass over m samples, in bytes."""
    return TILES * 4 * tile_entries(m)


def add_inner(left: InnerProducts, right: InnerProducts) -> InnerProducts:
    """Add two results (inner products and squared norms); the left one is overwritten."""
    for total, addend in zip(left, right, strict=True):
        np.add(total, addend, out=total)
    return left


def scaled(
    tile: Tile, codes: Codes | None, m: int, *, standardize: Scale, p: Float | None = None
) -> Scaling:
    """Measure the scaling of a tile.

    It is computed from counts if the tile has genotype codes. With weights p (m,) of the samples,
    the scaling is weighted and computed from the values.
    """
    if codes is None or p is not None:
        few = tile.split(tile_height(m))  # limits the memory of float64 values
        return Scaling.join([part.measured(standardize=standardize, p=p)[0] for part in few])
    scaling = scaling_of(codes.counts(), standardize=standardize)
    return replace(scaling, checksum=checksums(tile.raw))


@dataclass(frozen=True, slots=True)
class MeasureLandmarks(AbstractShared, AbstractSum):
    """First pass of low rank, which measures the scaling and runs another pass.

    The pass `taken` runs on the same tiles. The result is a list of scalings, the result of
    `taken`, and whether all values are genotype codes.
    """

    is_common: ClassVar[bool] = True

    taken: AbstractAccumulation
    standardize: Scale = True

    @property
    def shares(self) -> tuple[Scale, str | None]:
        return self.standardize, self.taken.device

    @classmethod
    def together(
        cls, passes: Sequence[MeasureLandmarks], blocks: Iterable[Tile], m: int
    ) -> list[tuple[list[Scaling], Any, bool]]:
        standardize, all_taking = (
            passes[0].standardize,
            [each.taken.create_accumulator(m) for each in passes],
        )
        parts = []
        are_codes = True
        for tile in split_tiles(blocks, all_taking[0].height):
            codes = all_taking[0].placed(tile.codes)
            are_codes &= codes is not None
            parts.append(scaled(tile, codes, m, standardize=standardize))
            shared = replace(tile, scaling=parts[-1], known={})
            for taking in all_taking:
                taking.take(shared, codes)
        return [([Scaling.join(parts)], taking.result(), are_codes) for taking in all_taking]

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], Any, bool]:
        return left[0] + right[0], self.taken.add(left[1], right[1]), left[2] and right[2]

    def cost(self, m: int) -> Cost:
        return replace(self.taken.cost(m), values=MEASURING * m)


@dataclass(frozen=True, slots=True)
class Ends:
    """Values of n features at the landmarks, and their products with directions of the labels.

    The directions are those of the low-rank label weights. A slice of the samples needs these
    values to compute its inner products with landmarks, because landmarks may be in other slices.
    """

    raw: Array  # (n, b), values at the b landmarks, as stored
    sums: Float  # (n, q), products of standardised values with the directions of W

    @staticmethod
    def join(parts: list[Ends]) -> Ends:
        """Concatenate the values of several groups of features, in the order of the features."""
        raw, sums = (np.concatenate([getattr(p, name) for p in parts]) for name in ("raw", "sums"))
        return Ends(raw, sums)

    def take(self, which: Index) -> Ends:
        """Return the values of the features `which` only."""
        return Ends(self.raw[which], self.sums[which])


class AbstractAccumulation(AbstractSum):
    """Pass that adds up its result tile by tile; it can also run within a first pass."""

    device: str | None

    @abstractmethod
    def create_accumulator(self, m: int) -> _Tiles:
        """Create the accumulator of a job with m samples."""

    def over(self, blocks: Iterator[Tile], m: int) -> Any:
        taking = self.create_accumulator(m)
        for tile in split_tiles(blocks, taking.height):
            taking.take(tile, taking.placed(tile.codes))
        return taking.result()


@dataclass(frozen=True, slots=True)
class TakeEnds(AbstractAccumulation):
    """Pass that computes `Ends`: values of features at the landmarks, and some products.

    The products are with the directions of the low-rank label weights. The result is a list with
    one item per tile of features.
    """

    landmarks: Index
    directions: Array
    device: str | None = field(default_factory=wanted_device)

    def create_accumulator(self, m: int) -> _Ends:
        return _Ends(self, m)

    def cost(self, m: int) -> Cost:
        b, q = len(self.landmarks), int(self.directions.shape[1])
        return Cost(float32=2.0 * q * m, values=m, columns=b + 8 * q, tile=lowrank_tile(m))


@dataclass(frozen=True, slots=True)
class LandmarkSums(AbstractAccumulation):
    """Pass that sums inner products of b landmarks and m samples, and squared norms.

    Squared norms are (m,). Inner products are (b + q, m): there are b rows for the landmarks and q
    rows for weighted sums of samples, with weights `directions` (m, q) float32. If the pass runs on
    a slice of the samples, `ends` gives the values at landmarks and the weighted sums of each
    feature; tags are the positions of features in `ends`.
    """

    landmarks: Index
    directions: Array | None = None
    ends: Ends | None = None
    device: str | None = field(default_factory=wanted_device)

    @property
    def n_rows(self) -> int:
        """Number of rows of the sums: b landmarks, and q directions of the label weights."""
        along = self.directions if self.ends is None else self.ends.sums
        return len(self.landmarks) + (0 if along is None else along.shape[1])

    def create_accumulator(self, m: int) -> _Statistic:
        return _Statistic(self, m)

    def add(self, left: InnerProducts, right: InnerProducts) -> InnerProducts:
        return add_inner(left, right)

    def cost(self, m: int) -> Cost:
        b, q = len(self.landmarks), self.n_rows - len(self.landmarks)
        flops, result = SUMMED * 2.0 * (b + 2 * q) * m, 8 * m * (b + q + 1)
        return Cost(float32=flops, values=m, result=result, tile=lowrank_tile(m), state=4 * q * m)


@dataclass(frozen=True, slots=True)
class AllSums(AbstractSum):
    """Pass that sums inner products of all samples, (m, m).

    The result of a job is one triangle, packed.
    """

    is_common: ClassVar[bool] = True

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        upper, part = zero_upper(m), np.zeros((m, m), dtype=np.float32, order="F")
        n = 0
        for tile in split_tiles(blocks, tile_height(m)):
            add_products(part, np.ascontiguousarray(tile.values(np.float32)))
            n += len(tile.raw)
            if n >= IN_SINGLE:
                upper += part
                part[:] = 0
                n = 0
        upper += part
        return packed(upper)

    def convert_total(self, total: Float, m: int) -> Float:
        upper = zero_upper(m)
        add_packed(upper, total)
        return upper

    def cost(self, m: int) -> Cost:
        return Cost(float32=float(m) ** 2, values=m, result=4 * m * (m + 1), tile=lowrank_tile(m))


class _Tiles(ABC):
    """Accumulator of a result over tiles.

    A tile has up to `height` features. Each tile is processed in strips of samples. If a device is
    used, values, products and float32 sums are on it.
    """

    def __init__(self, directions: Array | None, device: str | None, m: int) -> None:
        self._moved: Move | None = mover(device)
        self._directions: Any = directions
        self.height, self._width = height_of(device, m), m
        if self._moved is None:
            self._width = max(1, tile_entries(m) // self.height)
        else:
            self._directions = None if directions is None else self._moved(directions)
        self._strips = slices(m, self._width)

    @abstractmethod
    def take(self, tile: Tile, codes: Codes | None) -> None:
        """Add a tile, using its genotype codes if it has codes."""

    @abstractmethod
    def result(self) -> Any:
        """Return the result; no more tiles can be added."""

    def placed(self, codes: Codes | None) -> Codes | None:
        """Move genotype codes to the device, if there is one."""
        return codes if codes is None or self._moved is None else codes.on(self._moved)

    def _values(self, tile: Tile, samples: slice) -> Array:
        return tile.of_samples(samples).values(np.float32, self._moved)

    def _strips_and_products(
        self, strip: Callable[[slice], Array]
    ) -> tuple[Iterable[tuple[slice, Array]], Float | None]:
        """Yield strips of samples, and compute products with directions over all samples.

        Strips are (c, s) for c features. The products are (c, q). If there are several strips, each
        is computed twice: for the products, and for the caller.
        """
        strips = ((samples, strip(samples)) for samples in self._strips)
        if self._directions is None:
            return strips, None
        if len(self._strips) == 1:
            only = list(strips)
            return only, host(only[0][1] @ self._directions).astype(np.float64)
        again = ((samples, strip(samples)) for samples in self._strips)
        products = [(X @ self._directions[samples, :]).astype(np.float64) for samples, X in strips]
        return again, np.sum(products, axis=0)


class _Ends(_Tiles):
    """Accumulator of `Ends`, for the pass `TakeEnds`."""

    def __init__(self, asked: TakeEnds, m: int) -> None:
        super().__init__(asked.directions, asked.device, m)
        self._landmarks = asked.landmarks
        self._whole = asked.directions.sum(axis=0, dtype=np.float64)
        self._parts: list[Ends] = []

    def result(self) -> list[Ends]:
        return [Ends.join(self._parts)]

    def take(self, tile: Tile, codes: Codes | None) -> None:
        def strip(samples: slice) -> Array:
            if codes is not None:
                return codes.take_samples(samples).filled(tile.scaling.mean)
            return self._values(tile, samples)

        sums = self._strips_and_products(strip)[1]
        assert sums is not None, "there are directions, if none"
        if codes is not None:
            sums = (sums - tile.scaling.mean[:, None] * self._whole) * tile.scaling.scale[:, None]
        self._parts.append(Ends(tile.raw[:, self._landmarks], sums))


class _Statistic(_Tiles):
    """Accumulator of inner products, for the pass `LandmarkSums`.

    Sums are float32 within a few tiles, and float64 beyond.
    """

    def __init__(self, asked: LandmarkSums, m: int) -> None:
        super().__init__(asked.directions, asked.device, m)
        self.landmarks, self._ends = asked.landmarks, asked.ends
        b = asked.n_rows
        self._inner: Float | None = None
        self._norms = np.zeros(m)
        self._shifts, self._norm_shift = np.zeros(b), 0.0
        self._part = np.empty((b, m), dtype=np.float32)  # sum over the last `_n` features
        self._product = np.empty(b * min(self._width, m), dtype=np.float32)
        self._there: Any = None  # the float32 sum on a device
        self._n = 0

    def result(self) -> InnerProducts:
        self._flush()
        assert self._inner is not None, "a job has features"
        self._inner -= self._shifts[:, None]
        return self._inner, self._norms + self._norm_shift

    def take(self, tile: Tile, codes: Codes | None) -> None:
        if self._ends is None:
            self._take(tile, tile.raw[:, self.landmarks], codes, None)
        else:
            ends = self._ends.take(tile.tags)
            of_ends = Codes.of(ends.raw, tile.missing_code)
            self._take(tile, ends.raw, None if of_ends is None else codes, ends.sums)

    def _take(self, tile: Tile, raw: Array, codes: Codes | None, sums: Float | None) -> None:
        """Add a tile.

        `raw` are its values at the landmarks, `sums` its products with directions. If `sums` is
        None, the products are computed.
        """
        if codes is None:
            values = replace(tile, raw=raw, known=None).values(np.float32)
            self._of_values(tile, values, sums)
        else:
            L = Codes.of(raw, tile.missing_code)
            assert L is not None, "landmarks have codes where all have"
            self._of_codes(codes, tile.scaling, L.filled(tile.scaling.mean), sums)

    def _of_values(self, tile: Tile, L: Array, sums: Float | None) -> None:
        """Add standardised features, a strip of samples at a time.

        L (c, b) are their values at the landmarks, `sums` their products with directions.
        """
        parts, own_sums = self._strips_and_products(lambda samples: self._values(tile, samples))
        sums = own_sums if sums is None else sums
        if sums is not None:
            L = np.column_stack([L, sums.astype(np.float32)])
        for samples, X in parts:
            self._add(L, X, samples)
            self._norms[samples] += _norms(X)
        self._count(len(L))

    def _of_codes(self, codes: Codes, scaling: Scaling, L: Float, sums: Float | None) -> None:
        """Add genotype codes g of c features, with values ``x = s (g - h)`` given by `scaling`.

        It sums ``s^2 (g - h) g'`` over features, and corrections for the shifts h. L (c, b) are the
        codes at the landmarks.
        """
        square, shift = scaling.scale**2, scaling.mean
        L = L - shift[:, None]  # (c, b) float64
        parts, products = self._strips_and_products(
            lambda samples: codes.take_samples(samples).filled(shift)
        )
        if products is not None and self._directions is not None:
            products -= shift[:, None] * host(self._directions).sum(axis=0, dtype=np.float64)
        elif sums is not None:
            products = sums / scaling.scale[:, None]
        if products is not None:
            L = np.column_stack([L, products])
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

    def _add(self, L: Array, X: Array, samples: slice) -> None:
        if self._moved is not None:  # then a strip has all samples
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
    """Squared norms of samples over features X (c, m), returned as a NumPy array."""
    here: Any = X
    if isinstance(here, np.ndarray):
        return np.asarray(np.einsum("ij,ij->j", X, X))
    xp = namespace_of(X)
    return host(xp.sum(xp.square(X), axis=0))
