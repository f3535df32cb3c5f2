"""Passes: functions that map features, as they are read, to results.

All work on features is done in passes. Passes are immutable and can be pickled. It carries the
parameters of the computation (an engine and its state, landmarks, a criterion), and computes the
result of one job in `AbstractPass.over`. The function `run`, which workers execute, reads the
blocks. The reader (`dhsic.passes.reader`) runs passes. It concatenates the results of jobs, or adds
them in a tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.accelerator import accelerator
from dhsic.engines.scoring_problem import FeatureStats
from dhsic.kernels.statistic import AbstractSums, zero_upper
from dhsic.namespace import Move, slices
from dhsic.runtime.base import Job
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.imputed import join_masks, rounded_dosages
from dhsic.sources.scaling import Codes, Scale, Scaling, measure, standardise
from dhsic.sources.views import packed, unpacked
from dhsic.sources.wide_ranges import with_order

#: Number of features per float64 tile, and the number of float64 arrays of this size (values,
#: functions, products) that a task of the exact engine holds. A float32 tile has twice as many
#: features: smaller products are slower, because each first reorders all of A for the cache.
TILE, TILES = 384, 8
#: Entries of a low-rank tile (4 MiB in float32), and its maximum number of features.
TILE_ENTRIES, WIDEST = 1 << 20, 512
#: Number of genotype entries scored per call. Calls are large, because threads wait for each other
#: between calls.
CODE_ENTRIES = 1 << 23


@dataclass(frozen=True, slots=True)
class Columns:
    """Features of one block that a task reads, with their scaling and integer tags."""

    local: Index  # (c,), positions in the block, ascending
    scaling: Scaling | None = None  # one entry per column; None if unknown or not needed
    tags: Index | None = None  # (c,), an integer per column for the pass: feature or group number
    is_known: bool = False  # whether the source carries their scaling, so `scaling` is not used

    def __reduce__(self) -> tuple[Any, ...]:
        tags = None if self.tags is None else packed(self.tags)
        return _columns, (packed(self.local), self.scaling, tags, self.is_known)

    def scaling_in(self, source: AbstractSource, block: Block) -> Scaling | None:
        """Return the scaling of these columns in a block of `source`; None if it is not known."""
        if not self.is_known:
            return self.scaling
        scaling: Scaling = source.scaling_of(block.start + self.local)
        return scaling


def _columns(local: Any, scaling: Scaling | None, tags: Any, is_known: bool) -> Columns:  # noqa: FBT001  # as pickled
    return Columns(unpacked(local), scaling, None if tags is None else unpacked(tags), is_known)


@dataclass(frozen=True, slots=True)
class Tile:
    """Values of c features as read, (c, m), with their scaling and tags (see `Columns`)."""

    raw: Array
    missing_code: int | None
    scaling: Any = None
    tags: Any = None
    #: Cache of standardised values by (precision, on host), used when several passes share a tile.
    known: dict[Any, Array] | None = None
    #: Mask (c,) of the features that are dosages and may be fractions; None if there are none.
    imputed: Array | None = None

    def values(self, dtype: Any, moved: Move | None = None) -> Array:
        """Return the standardised values, (c, m), as a read-only array.

        `moved` is a function that moves arrays to a device; with None, the values are in host
        memory.
        """
        cached, key = {} if self.known is None else self.known, (np.dtype(dtype), moved is None)
        if key not in cached:
            cached[key] = standardise(self.raw, self.missing_code, self.scaling, dtype, moved)
        return cached[key]

    def measured(self, *, standardize: Scale, p: Float | None = None) -> tuple[Scaling, Float]:
        """Measure the scaling; return it and the standardised values, (c, m) float64.

        p (m,) are weights of the samples (None: equal weights), see
        `dhsic.sources.scaling.measure`.
        """
        return measure(self.raw, self.missing_code, standardize=standardize, p=p)

    def in_order(self, Z: Float, mask: Mask | None, scaling: Scaling) -> Float:
        """Replace scaled values by values in the order that rank tests compare; return them.

        Z (c, m) are the scaled values, changed in place. `mask` (c, m) marks missing values; it may
        be None. Dosages are rounded, unless a feature would become constant by rounding. If scaling
        changed the order of a feature's values, they are replaced by their ranks.
        """
        if self.imputed is not None:
            which = np.flatnonzero(self.imputed)
            rounded = rounded_dosages(self.raw[which])
            varies = np.ptp(rounded, axis=1) > 0
            Z[which[varies]] = rounded[varies]
        return with_order(Z, self.raw, mask, scaling)

    @property
    def codes(self) -> Codes | None:
        """Genotype codes of the tile (`Codes`); None if the values are not genotypes."""
        return Codes.of(self.raw, self.missing_code)

    @property
    def facts(self) -> FeatureStats:
        """Statistics of the features that the scoring engines need."""
        return FeatureStats(self.scaling.max_abs, self.scaling.fourth_moment, self.scaling.n_levels)

    def part(self, which: slice | Index) -> Tile:
        """Return a tile that contains only the features `which`."""
        scaling = None if self.scaling is None else self.scaling.take(which)
        tags = None if self.tags is None else self.tags[which]
        imputed = None if self.imputed is None else self.imputed[which]
        return Tile(self.raw[which], self.missing_code, scaling, tags, imputed=imputed)

    def of_samples(self, some: slice) -> Tile:
        """Return the tile restricted to a slice of the samples."""
        raw = self.raw[:, some]
        return self if raw.shape == self.raw.shape else replace(self, raw=raw, known=None)

    @staticmethod
    def concatenate(tiles: Sequence[Tile]) -> Tile:
        """Concatenate the raw values of several tiles; scaling and tags are dropped."""
        if len(tiles) == 1:
            return tiles[0]
        imputed = join_masks([each.imputed for each in tiles], [len(each.raw) for each in tiles])
        return Tile(
            np.concatenate([each.raw for each in tiles]), tiles[0].missing_code, imputed=imputed
        )

    def split(self, height: int) -> Iterator[Tile]:
        """Split the features evenly into tiles of at most `height` features."""
        n = len(self.raw)
        n_parts = max(1, -(-n // height))
        for part in slices(n, max(1, -(-n // n_parts))):
            yield self.part(part)


def split_tiles(blocks: Iterable[Tile], height: int | None) -> Iterator[Tile]:
    """Split blocks into tiles of at most `height` features (None: whole blocks)."""
    for block in blocks:
        yield from [block] if height is None else block.split(height)


def tile_height(m: int) -> int:
    """Number of features per tile of a low-rank pass over m samples."""
    return max(1, min(WIDEST, TILE_ENTRIES // max(1, m)))


def tile_of(dtype: Any) -> int:
    """Number of features per tile of the exact engine.

    Tiles of all dtypes have the same number of bytes.
    """
    return TILE * 8 // int(np.dtype(dtype).itemsize)


def exact_tile(m: int, tiles: int = TILES) -> int:
    """Memory of the float64 arrays that a task of the exact engine holds, in bytes.

    There are `tiles` arrays of shape (`TILE`, m).
    """
    return tiles * TILE * m * 8


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a pass, computed from array sizes, for run plans and the memory estimate."""

    float32: float = 0.0  # flops of matrix products per feature
    float64: float = 0.0
    values: float = 0.0  # values prepared per feature, in units of standardising one value
    columns: int = 0  # bytes returned per feature, if results are concatenated
    result: int = 0  # bytes returned per job, if results are added up
    state: int = 0  # maximum bytes of the state, which every worker receives
    sent: int = 0  # actual bytes of the state (0: equal to `state`)
    tile: int = 0  # bytes that a task holds besides its blocks and its result


class AbstractPass(ABC):
    """Computation on features, done block by block.

    Subclasses are immutable and can be pickled.
    """

    #: Whether several runs may request an identical pass, so that comparing requests pays off.
    is_common: ClassVar[bool] = False

    @abstractmethod
    def over(self, blocks: Iterator[Tile], m: int) -> Any:
        """Compute the result of one job from its blocks, which come in order and have m samples."""

    def cost(self, m: int) -> Cost:
        """Estimate the cost for m samples, from array sizes alone."""
        raise TypeError(f"{self} has no cost estimate")

    @classmethod
    def over_all(cls, passes: Sequence[Any], blocks: Sequence[Tile], m: int) -> tuple[Any, ...]:
        """Compute the results of several passes of this class over the same features.

        Each result is the same as if its pass ran alone. Subclasses do shared work only once.
        """
        return tuple(each.over(iter(blocks), m) for each in passes)


def square_cost(m: int) -> Cost:
    """Cost of summing an (m, m) statistic over features.

    The statistic is symmetric, so only one triangle is computed.
    """
    return Cost(float64=float(m) ** 2, values=m, result=8 * m**2, tile=exact_tile(m))


class AbstractSum(AbstractPass):
    """Pass with results that are added in a tree (`dhsic.runtime.tree_reduce`)."""

    def add(self, left: Any, right: Any) -> Any:
        """Return the sum of two results; the left one may be overwritten."""
        left += right
        return left

    def convert_total(self, total: Any, m: int) -> Any:
        """Convert the sum over all jobs to the format that callers use."""
        del m
        return total


def run(source: AbstractSource, job: Job, asked: tuple[AbstractPass, Index | None]) -> Any:
    """Run a pass over the blocks of features of a job, on a worker.

    `asked` contains the pass and the sample indices of the run (None: all samples).
    """
    a_pass, rows = asked  # rows: the samples of the run, None for all
    if job.samples is not None:
        source, rows = source.unchecked(), samples_of(source, job.samples, rows)
    blocks = (
        Tile(
            source.read_columns(block, columns.local, rows),
            source.missing_code,
            columns.scaling_in(source, block),
            columns.tags,
            imputed=source.imputed_features(block, columns.local),
        )
        for block, columns in zip(job.blocks, job.payload, strict=True)
    )
    return a_pass.over(blocks, source.n_samples if rows is None else len(rows))


def samples_of(source: AbstractSource, some: slice, rows: Index | None) -> Index:
    """Indices of the run's samples at the positions `some`.

    `rows` are the indices of all samples of the run (None: all samples of the source).
    """
    return np.arange(*some.indices(source.n_samples)) if rows is None else rows[some]


@dataclass(frozen=True, slots=True)
class Measure(AbstractSum):
    """First pass, which measures the scaling of the features.

    The result is a list of scalings, and a statistic. If `sums` is given, the statistic is the sum
    over features that `sums` defines, as an upper triangle (m, m); otherwise it is None. With
    sample weights p (m,), the scaling is weighted.
    """

    is_common: ClassVar[bool] = True

    standardize: Scale = True
    sums: AbstractSums | None = None
    p: Float | None = None

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[list[Scaling], Float | None]:
        upper = None if self.sums is None else zero_upper(m)
        parts = []
        for tile in split_tiles(blocks, TILE):
            scaling, Z = tile.measured(standardize=self.standardize, p=self.p)
            parts.append(scaling)
            if self.sums is not None and upper is not None:
                self.sums.add(upper, Z)
        return [Scaling.join(parts)], upper

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], Float | None]:
        (parts, upper), (other_parts, part) = left, right
        if part is not None:
            upper += part
        return parts + other_parts, upper

    def cost(self, m: int) -> Cost:
        return Cost(values=m, tile=exact_tile(m)) if self.sums is None else square_cost(m)


@dataclass(frozen=True, slots=True)
class Values(AbstractPass):
    """Pass that returns the standardised values of features, (c, m).

    Values are computed in float64 and converted to `dtype`. The values of a feature do not depend
    on the other features that are read.
    """

    is_common: ClassVar[bool] = True

    dtype: Any = np.float64

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        tiles = split_tiles(blocks, tile_height(m))
        return np.concatenate(
            [tile.values(np.float64).astype(self.dtype, copy=False) for tile in tiles]
        )

    def cost(self, m: int) -> Cost:
        return Cost(values=m, columns=m * np.dtype(self.dtype).itemsize)


@dataclass(frozen=True, slots=True)
class Sum(AbstractSum):
    """Pass that sums inner products of samples, or another statistic of a kernel, over features.

    The result is an upper triangle, (m, m).
    """

    is_common: ClassVar[bool] = True

    sums: AbstractSums

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        upper = zero_upper(m)
        for tile in split_tiles(blocks, 2 * TILE):
            self.sums.add(upper, tile.values(np.float64))
        return upper

    def cost(self, m: int) -> Cost:
        return square_cost(m)


class AbstractByTile(AbstractPass):
    """Pass that computes an array per feature, tile by tile."""

    @abstractmethod
    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        """Return the number of features per tile, and the function to apply to each tile.

        The number is None if a tile is a whole block.
        """

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        height, function = self.by_tile(m)
        return np.concatenate([function(tile) for tile in split_tiles(blocks, height)])

    @classmethod
    def over_all(cls, passes: Sequence[Any], blocks: Sequence[Tile], m: int) -> tuple[Any, ...]:
        each = [a_pass.by_tile(m) for a_pass in passes]
        parts: list[list[Array]] = [[] for _ in passes]
        for height in dict.fromkeys(height for height, _ in each):
            for tile in split_tiles(blocks, height):
                shared = replace(tile, known={})  # values are standardised once
                for (mine, function), collected in zip(each, parts, strict=True):
                    if mine == height:
                        collected.append(function(shared))
        return tuple(np.concatenate(tile_results) for tile_results in parts)


class AbstractShared(AbstractPass):
    """Pass that can share some of its work with the passes of other runs."""

    @property
    @abstractmethod
    def shares(self) -> Hashable:
        """Key of the work that passes can share: passes with equal keys run together."""

    @classmethod
    @abstractmethod
    def together(cls, passes: Sequence[Any], blocks: Iterable[Tile], m: int) -> Sequence[Any]:
        """Compute the results of passes of several runs that can share work.

        These passes have the same `shares` key.
        """

    def over(self, blocks: Iterator[Tile], m: int) -> Any:
        return self.together([self], blocks, m)[0]

    @classmethod
    def over_all(cls, passes: Sequence[Any], blocks: Sequence[Tile], m: int) -> tuple[Any, ...]:
        results: list[Any] = [None] * len(passes)
        for shared in dict.fromkeys(each.shares for each in passes):
            alike = [i for i, each in enumerate(passes) if each.shares == shared]
            shared_results = cls.together([passes[i] for i in alike], blocks, m)
            for i, result in zip(alike, shared_results, strict=True):
                results[i] = result
        return tuple(results)


def mover(device: str | None) -> Move | None:
    """Function that moves arrays to the device; None for the CPU."""
    return None if device is None else accelerator(device).array


def placed(device: str | None, state: Any) -> tuple[Any, Move | None]:
    """Move the state of an engine to a device.

    Returns the state, and a function that moves arrays to the device. If `device` is None (the
    CPU), or the engine supports only NumPy, the state is unchanged and the function is None.
    """
    if device is None or not hasattr(state, "on"):
        return state, None
    target = accelerator(device)
    return target.state(state), target.array
