"""A pass: what is done with features once they are read.

A pass is the only thing that ever runs over features. It is frozen and picklable, carries what it
needs besides the data (an engine and its state, landmarks, a criterion), and says what a job
gives, `AbstractPass.over`; how blocks are read is said once, in `run`, which is what travels to
workers. `dhsic.passes.reader` runs it: results are put side by side, or added along a tree of jobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.accelerator import accelerator
from dhsic.engines.question import FeatureStats
from dhsic.kernels.statistic import AbstractSums, zero_upper
from dhsic.namespace import Move, slices
from dhsic.runtime.base import Job
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.scaling import Codes, Scale, Scaling, measure, standardise
from dhsic.sources.views import packed, unpacked

#: Features of a tile in float64, of which one in single precision has twice as many: fewer take
#: longer each, for a product brings all of A into the order that it needs first. And tiles of a
#: task of the exact engine, in float64: values, functions, products.
TILE, TILES = 384, 8
#: Entries of a tile in low rank, 4 MiB in float32, and the most features of one.
TILE_ENTRIES, WIDEST = 1 << 20, 512
#: Entries of genotypes that are scored at a time: few calls, for threads take turns between them.
CODE_ENTRIES = 1 << 23


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of one block that a task reads."""

    local: Index  # (c,), positions in the block, ascending
    scaling: Scaling | None = None  # of each; None where it is not known yet, or not needed
    tags: Index | None = None  # (c,), what else a pass has to know of each: its number, or group
    is_known: bool = False  # whether their scaling goes with the source

    def __reduce__(self) -> tuple[Any, ...]:
        tags = None if self.tags is None else packed(self.tags)
        return _columns, (packed(self.local), self.scaling, tags, self.is_known)

    def scaling_in(self, source: AbstractSource, block: Block) -> Scaling | None:
        """How they are scaled, of a block of this source."""
        if not self.is_known:
            return self.scaling
        found: Scaling = source.scaling_of(block.start + self.local)
        return found


def _columns(local: Any, scaling: Scaling | None, tags: Any, is_known: bool) -> Columns:  # noqa: FBT001  # as pickled
    return Columns(unpacked(local), scaling, None if tags is None else unpacked(tags), is_known)


@dataclass(frozen=True, slots=True)
class Tile:
    """Some features as they were read, (c, m), and what is known of them (as of `Columns`)."""

    raw: Array
    missing_code: int | None
    scaling: Any = None
    tags: Any = None
    #: Standardised values by precision, and whether they are here, where several passes ask.
    known: dict[Any, Array] | None = None

    def values(self, dtype: Any, moved: Move | None = None) -> Array:
        """Standardised values, (c, m), not to be written in; on a device, if `moved` goes there."""
        known, key = {} if self.known is None else self.known, (np.dtype(dtype), moved is None)
        if key not in known:
            known[key] = standardise(self.raw, self.missing_code, self.scaling, dtype, moved)
        return known[key]

    def measured(self, *, standardize: Scale) -> tuple[Scaling, Float]:
        """Scaling, which is not known yet, and standardised values (c, m) float64."""
        return measure(self.raw, self.missing_code, standardize=standardize)

    @property
    def codes(self) -> Codes | None:
        """The values as codes of genotypes, None where they are something else."""
        return Codes.of(self.raw, self.missing_code)

    @property
    def facts(self) -> FeatureStats:
        """What engines know of the features."""
        return FeatureStats(self.scaling.max_abs, self.scaling.fourth_moment, self.scaling.n_levels)

    def part(self, which: slice | Index) -> Tile:
        """Some of the features."""
        scaling = None if self.scaling is None else self.scaling.take(which)
        tags = None if self.tags is None else self.tags[which]
        return Tile(self.raw[which], self.missing_code, scaling, tags)

    def of_samples(self, some: slice) -> Tile:
        """The features at some of the samples."""
        raw = self.raw[:, some]
        return self if raw.shape == self.raw.shape else replace(self, raw=raw, known=None)

    @staticmethod
    def joined(tiles: Sequence[Tile]) -> Tile:
        """Values of several as they were read, one after the other."""
        if len(tiles) == 1:
            return tiles[0]
        return Tile(np.concatenate([each.raw for each in tiles]), tiles[0].missing_code)

    def cut(self, height: int) -> Iterator[Tile]:
        """The features in even parts, of so many at most."""
        n = len(self.raw)
        n_parts = max(1, -(-n // height))
        for part in slices(n, max(1, -(-n // n_parts))):
            yield self.part(part)


def cut(blocks: Iterable[Tile], height: int | None) -> Iterator[Tile]:
    """Features of all blocks, at most `height` of one at a time; None: all."""
    for block in blocks:
        yield from [block] if height is None else block.cut(height)


def tile_height(m: int) -> int:
    """Features of a tile in low rank."""
    return max(1, min(WIDEST, TILE_ENTRIES // max(1, m)))


def tile_of(dtype: Any) -> int:
    """Features of a tile of the exact engine: as many bytes in any precision."""
    return TILE * 8 // int(np.dtype(dtype).itemsize)


def exact_tile(m: int, tiles: int = TILES) -> int:
    """Bytes that a task holds where features are standardised in float64."""
    return tiles * TILE * m * 8


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pass takes, from sizes: a plan counts it, and the memory estimate its largest."""

    float32: float = 0.0  # flops of matrix products, a feature
    float64: float = 0.0
    values: float = 0.0  # that are made ready, a feature, in the time of standardising one
    columns: int = 0  # bytes that come back of a feature, where they are many,
    result: int = 0  # and of a job to be added up
    state: int = 0  # bytes of its state, which every worker gets: at most,
    sent: int = 0  # and as it turns out (0: the same)
    tile: int = 0  # bytes that a task holds besides its blocks and its result


class AbstractPass(ABC):
    """What is done with features. Frozen, picklable."""

    #: Whether several runs may ask for the very same, so that it is worth to find that out.
    is_common: ClassVar[bool] = False

    @abstractmethod
    def over(self, blocks: Iterator[Tile], m: int) -> Any:
        """Result of a job from its blocks, in order, of m samples each."""

    def cost(self, m: int) -> Cost:
        """Cost over m samples, where sizes say that."""
        raise TypeError(f"{self} does not say what it takes")

    @classmethod
    def over_all(cls, passes: Sequence[Any], blocks: Sequence[Tile], m: int) -> tuple[Any, ...]:
        """Results of several passes of this class over the same features, each as alone.

        What does not differ between them may be done once.
        """
        return tuple(each.over(iter(blocks), m) for each in passes)


def square_cost(m: int) -> Cost:
    """Cost of a sum over features for every two samples: one triangle of it is computed."""
    return Cost(float64=float(m) ** 2, values=m, result=8 * m**2, tile=exact_tile(m))


class AbstractSum(AbstractPass):
    """A pass whose results are added up, two at a time (`dhsic.runtime.tree`)."""

    def add(self, left: Any, right: Any) -> Any:
        """Sum of two results; the left one may be overwritten."""
        left += right
        return left

    def whole(self, total: Any, m: int) -> Any:
        """The sum of all as it is used."""
        del m
        return total


def run(source: AbstractSource, job: Job, asked: tuple[AbstractPass, Index | None]) -> Any:
    """Run a pass over the blocks of a job: the task of every pass."""
    a_pass, rows = asked  # the samples that take part, None for all
    if job.samples is not None:
        source, rows = source.unchecked(), samples_of(source, job.samples, rows)
    blocks = (
        Tile(
            source.read_columns(block, columns.local, rows),
            source.missing_code,
            columns.scaling_in(source, block),
            columns.tags,
        )
        for block, columns in zip(job.blocks, job.payload, strict=True)
    )
    return a_pass.over(blocks, source.n_samples if rows is None else len(rows))


def samples_of(source: AbstractSource, some: slice, rows: Index | None) -> Index:
    """Some of the samples that take part, which are `rows` (None: all)."""
    return np.arange(*some.indices(source.n_samples)) if rows is None else rows[some]


@dataclass(frozen=True, slots=True)
class Measure(AbstractSum):
    """Scaling of the features, in parts, and with `sums` the upper triangle of their statistic."""

    is_common: ClassVar[bool] = True

    standardize: Scale = True
    sums: AbstractSums | None = None

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[list[Scaling], Float | None]:
        upper = None if self.sums is None else zero_upper(m)
        parts = []
        for tile in cut(blocks, TILE):
            scaling, Z = tile.measured(standardize=self.standardize)
            parts.append(scaling)
            if self.sums is not None and upper is not None:
                self.sums.add(upper, Z)
        return [Scaling.join(parts)], upper

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], Float | None]:
        (parts, upper), (others, part) = left, right
        if part is not None:
            upper += part
        return parts + others, upper

    def cost(self, m: int) -> Cost:
        return Cost(values=m, tile=exact_tile(m)) if self.sums is None else square_cost(m)


@dataclass(frozen=True, slots=True)
class Values(AbstractPass):
    """Standardised values, (c, m), computed in float64; each the same whatever others there are."""

    is_common: ClassVar[bool] = True

    dtype: Any = np.float64

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        tiles = cut(blocks, tile_height(m))
        return np.concatenate(
            [tile.values(np.float64).astype(self.dtype, copy=False) for tile in tiles]
        )

    def cost(self, m: int) -> Cost:
        return Cost(values=m, columns=m * np.dtype(self.dtype).itemsize)


@dataclass(frozen=True, slots=True)
class Sum(AbstractSum):
    """Upper triangle of the statistic, (m, m)."""

    is_common: ClassVar[bool] = True

    sums: AbstractSums

    def over(self, blocks: Iterator[Tile], m: int) -> Float:
        upper = zero_upper(m)
        for tile in cut(blocks, 2 * TILE):
            self.sums.add(upper, tile.values(np.float64))
        return upper

    def cost(self, m: int) -> Cost:
        return square_cost(m)


class AbstractByTile(AbstractPass):
    """A pass that has numbers for each feature, of one tile after the other."""

    @abstractmethod
    def by_tile(self, m: int) -> tuple[int | None, Callable[[Tile], Array]]:
        """Features of a tile, None for a block; and what is asked of one."""

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        height, asked = self.by_tile(m)
        return np.concatenate([asked(tile) for tile in cut(blocks, height)])

    @classmethod
    def over_all(cls, passes: Sequence[Any], blocks: Sequence[Tile], m: int) -> tuple[Any, ...]:
        each = [a_pass.by_tile(m) for a_pass in passes]
        parts: list[list[Array]] = [[] for _ in passes]
        for height in dict.fromkeys(height for height, _ in each):
            for tile in cut(blocks, height):
                shared = replace(tile, known={})  # values are standardised once
                for (mine, asked), some in zip(each, parts, strict=True):
                    if mine == height:
                        some.append(asked(shared))
        return tuple(np.concatenate(some) for some in parts)


class AbstractShared(AbstractPass):
    """A pass that does for several runs at once what does not differ between them."""

    @property
    @abstractmethod
    def shares(self) -> Hashable:
        """What is the same in passes that are done together."""

    @classmethod
    @abstractmethod
    def together(cls, passes: Sequence[Any], blocks: Iterable[Tile], m: int) -> Sequence[Any]:
        """Results of passes that share that."""

    def over(self, blocks: Iterator[Tile], m: int) -> Any:
        return self.together([self], blocks, m)[0]

    @classmethod
    def over_all(cls, passes: Sequence[Any], blocks: Sequence[Tile], m: int) -> tuple[Any, ...]:
        found: list[Any] = [None] * len(passes)
        for shared in dict.fromkeys(each.shares for each in passes):
            alike = [i for i, each in enumerate(passes) if each.shares == shared]
            of_alike = cls.together([passes[i] for i in alike], blocks, m)
            for i, result in zip(alike, of_alike, strict=True):
                found[i] = result
        return tuple(found)


def mover(device: str | None) -> Move | None:
    """What takes arrays to the device that is wanted; None on the cores."""
    return None if device is None else accelerator(device).array


def placed(device: str | None, state: Any) -> tuple[Any, Move | None]:
    """State of an engine on the device that is wanted, and what moves arrays there.

    None moves them on the cores, where engines that are NumPy's alone stay.
    """
    if device is None or not hasattr(state, "on"):
        return state, None
    found = accelerator(device)
    return found.state(state), found.array
