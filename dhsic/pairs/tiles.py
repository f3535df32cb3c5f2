"""Tiles of pairs: all pairs of two runs of features, read, screened and judged.

A scan of d features is cut into runs, and each pair of runs is a job; so is each run with itself.
How that is cut depends on sizes and the source alone. Products are computed in float32, and pairs
that may be among those wanted are computed again in float64, a row at a time, from values that do
not depend on the tile: what is found is the same whatever tile it was found in.

A tile is gone through in one of two ways. *Whole*: the shares of all of its pairs, by four products
besides those with labels. *Screened*: by the products with labels alone. A pair that is tested has
``|M z|^2 >= least m``, so a share s asks for ``|U'M z|^2`` of at least ``s least m`` (less where
both features explain much of the labels by themselves, which is known of each feature); ``U'z`` is
that but for ``C'beta``, what both main effects contribute. That is small where main effects are; so
pairs with a feature whose main effect is strong are gone through as a whole, and of the others
those of ``|U'z|^2 >= MARGIN s least m``. What that loses, where main effects of linked features
hide their product, is counted where pairs are gone through as a whole anyway, for permutations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.namespace import slices
from dhsic.pairs.share import (
    Labels,
    ProductFit,
    Side,
    largest_share,
    rough_shares,
    shares_of_all,
    shares_of_rows,
)
from dhsic.passes import AbstractPass, Columns, Cost, Tile
from dhsic.runtime.base import Job

#: Of what a share asks of ``|U'z|^2``, the part that is asked for.
MARGIN = 0.75
#: Main effects are strong where the labels that a feature explains, times m, exceed the columns of
#: labels, which is what to expect of any feature, by this much.
STRONG = 15.0
#: Part of a share by which float32 may be off.
ROUNDING = 1e-3
#: Features of a run, at most, and bytes of its values in float32.
WIDEST, RUN_BYTES = 4096, 128 << 20
#: Arrays in float32 that a function of a feature takes, where there are several: itself, and its
#: share of values as stored, sorted, and their order.
COPIES_OF_FUNCTIONS = 3
#: Runs that a scan is cut into at least, for threads to share them.
FEWEST_RUNS = 6
#: Entries of a strip, some rows of a tile whose products are at hand at a time; and how many times
#: more where products with labels are all: BLAS copies the columns for every strip.
STRIP_ENTRIES, SCREENED = 1 << 19, 4
#: Pairs that are computed by rows at a time, by their values: they stay in the cache.
ROW_ENTRIES = 1 << 18
#: Permutations of which shares of some pairs are kept, at most.
MEASURED = 100
#: What is left of the labels by features that explain them, at least, for the screen.
LEAST_LEFT = 0.1


def run_width(m: int, d: int, functions: int = 1) -> int:
    """Features of a run; of several functions each, float64 and what is left of them beside."""
    each = 4 * m * (1 if functions == 1 else 2 * COPIES_OF_FUNCTIONS * functions)
    return max(1, min(WIDEST, RUN_BYTES // each, -(-d // FEWEST_RUNS)))


def runs_of(jobs: Sequence[Job], width: int) -> list[Job]:
    """Jobs of about `width` features each, from jobs of a block or part of one, tagged."""
    runs: list[Job] = []
    size = width
    for job in jobs:
        for part in _split(job, width):
            n = part.payload[0].local.size
            if size + n > width:
                runs.append(part)
                size = n
            else:
                runs[-1] = _joined(runs[-1], part)
                size += n
    return runs


def _split(job: Job, width: int) -> Iterator[Job]:
    """A job of one block in parts of at most `width` features."""
    (columns,) = job.payload
    for a in range(0, columns.local.size, width):
        some = slice(a, a + width)
        part = replace(columns, local=columns.local[some], tags=columns.tags[some])
        yield Job(job.blocks, (part,))


def _joined(first: Job, second: Job) -> Job:
    return Job(first.blocks + second.blocks, first.payload + second.payload)


def tile_jobs(runs: Sequence[Job]) -> list[Job]:
    """A job for each pair of runs, and for each with itself; tags say which run features are of."""
    jobs = []
    for i, j in combinations_with_replacement(range(len(runs)), 2):
        left = _marked(runs[i], 0)
        jobs.append(left if i == j else _joined(left, _marked(runs[j], 1)))
    return jobs


def cross_jobs(runs: Sequence[Job], others: Sequence[Job]) -> list[Job]:
    """Jobs of `tile_jobs`, and of each of these runs with each of some others."""
    between = [_joined(_marked(run, 0), _marked(other, 1)) for run in runs for other in others]
    return tile_jobs(runs) + between


def _marked(job: Job, side: int) -> Job:
    columns: tuple[Columns, ...] = tuple(
        replace(each, tags=2 * each.tags + side) for each in job.payload
    )
    return Job(job.blocks, columns)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRun:
    """Features of one side of a tile: their numbers, where they were read, and their `Side`."""

    features: Index
    tiles: list[Tile]
    side: Side

    @classmethod
    def both(cls, blocks: Iterator[Tile], labels: Labels) -> tuple[FeatureRun, FeatureRun]:
        """The two runs of a tile; one and the same where there is but one."""
        of: tuple[list[Tile], list[Tile]] = [], []
        for tile in blocks:
            of[int(tile.tags[0]) % 2].append(tile)
        left = cls._of(of[0], labels)
        return left, cls._of(of[1], labels) if of[1] else left

    @classmethod
    def _of(cls, tiles: list[Tile], labels: Labels) -> FeatureRun:
        X = np.concatenate([tile.values(np.float32) for tile in tiles])
        features = np.concatenate([tile.tags for tile in tiles]) // 2
        return cls(features, tiles, Side.of(X, labels))

    def exact(self, at: Index, labels: Labels) -> Side:
        """Some of them in float64."""
        parts, begin = [], 0
        for tile in self.tiles:
            some = at[(at >= begin) & (at < begin + len(tile.raw))] - begin
            begin += len(tile.raw)
            if some.size:
                parts.append(tile.part(some).values(np.float64))
        return Side.of(np.concatenate(parts), labels)


@dataclass(frozen=True, slots=True, eq=False)
class BestPairs:
    """The best pairs of some tiles, the best first: ties go to the features that come first.

    Attributes
    ----------
    pairs : (n, 2) int64
        Features, the first one before the second.
    shares, linked : (n,) float64
        Their shares and squared correlations.
    n_judged, n_reaching : int
        Pairs whose shares were computed, and that reach what is asked for.
    """

    pairs: Index
    shares: Float
    linked: Float
    n_judged: int = 0
    n_reaching: int = 0

    @classmethod
    def none(cls) -> BestPairs:
        """No pairs."""
        return cls(np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0))

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> BestPairs:
        """From what `arrays` gave."""
        counts = int(arrays["n_judged"]), int(arrays["n_reaching"])
        return cls(arrays["pairs"], arrays["shares"], arrays["linked"], *counts)

    def arrays(self) -> dict[str, Any]:
        """All of it, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def order(self) -> Index:
        """Where they stand, the best first."""
        return np.lexsort((self.pairs[:, 1], self.pairs[:, 0], -self.shares))

    def take(self, which: Index) -> BestPairs:
        """Some of them."""
        found = self.pairs[which], self.shares[which], self.linked[which]
        return BestPairs(*found, self.n_judged, self.n_reaching)

    def best(self, n: int) -> BestPairs:
        """The best n of them."""
        return self.take(self.order()[:n])

    def with_(self, other: BestPairs, n: int) -> BestPairs:
        """The best n of both."""
        return BestPairs(
            np.concatenate([self.pairs, other.pairs]),
            np.concatenate([self.shares, other.shares]),
            np.concatenate([self.linked, other.linked]),
            self.n_judged + other.n_judged,
            self.n_reaching + other.n_reaching,
        ).best(n)


@dataclass(frozen=True, slots=True)
class Strip:
    """Some rows of a tile; of a run with itself each pair is there twice, and counts once."""

    rows: slice
    is_square: bool

    def skipped(self, width: int) -> Array:
        """Entries on the diagonal or below it, (c, width)."""
        below: Array = np.arange(self.rows.start, self.rows.stop)[:, None] >= np.arange(width)
        return below

    def places(self, mask: Array) -> Index:
        """Rows and columns (n, 2) of the entries of a mask, in the whole tile."""
        if self.is_square:
            mask &= ~self.skipped(mask.shape[1])
        rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])  # faster than in two axes
        return np.column_stack([rows + self.rows.start, columns])

    def n_pairs(self, width: int) -> int:
        """Pairs of the rows."""
        n = int(self.rows.stop - self.rows.start) * width
        return n - int(self.skipped(width).sum()) if self.is_square else n


@dataclass(frozen=True, slots=True)
class Scan(AbstractPass):
    """The best n pairs of each tile of those whose share is `reach` or more; `BestPairs`.

    `labels` are in float64; `screens` says in which way tiles are gone through.
    """

    labels: Labels
    reach: float
    n: int
    screens: bool

    def over(self, blocks: Iterator[Tile], m: int) -> BestPairs:
        narrow = self.labels.narrowed()
        left, right = FeatureRun.both(blocks, narrow)
        judge = self._screened if self.screens else self._whole
        parts = list(judge(left.side, right.side, narrow, is_square=left is right))
        at = np.concatenate([np.empty((0, 2), dtype=np.int64), *(places for places, _ in parts)])
        return replace(self._exact(left, right, at), n_judged=sum(n for _, n in parts))

    def _whole(
        self, left: Side, right: Side, narrow: Labels, *, is_square: bool
    ) -> Iterator[tuple[Index, int]]:
        """Places (n, 2) of pairs that may reach, in float32, and how many were judged for them."""
        for rows in strips(len(left.g), len(right.g)):
            some, strip = left.take(rows), Strip(rows, is_square)
            share = shares_of_all(some, right, narrow, ProductFit.of_all(some, right, narrow))
            places = strip.places(share >= self.reach * (1 - ROUNDING))
            yield places, strip.n_pairs(share.shape[1])

    def _screened(
        self, left: Side, right: Side, narrow: Labels, *, is_square: bool
    ) -> Iterator[tuple[Index, int]]:
        """As of `_whole`, of pairs with a strong main effect and of those that pass the screen."""
        for first, second in _strong(left, right):
            found = self._whole(left.take(first), right.take(second), narrow, is_square=False)
            for places, n in found:
                at = np.column_stack([first[places[:, 0]], second[places[:, 1]]])
                yield at[at[:, 0] < at[:, 1]] if is_square else at, n
        lifts, least = lifted(right), self.reach * (1 - ROUNDING)
        for rows in strips(len(left.g), len(right.g), SCREENED):
            some = left.take(rows)
            mask = passed(some, lifts, narrow, self.reach)
            for strong in _strong(some, right):
                mask[np.ix_(*strong)] = False
            places = Strip(rows, is_square).places(mask)
            share = np.empty(len(places), dtype=np.float32)
            for part in chunks(len(places), left.X.shape[1]):
                j, k = places[part].T
                share[part], _ = shares_of_rows(left.take(j), right.take(k), narrow)
            yield places[share >= least], len(places)

    def _exact(self, left: FeatureRun, right: FeatureRun, at: Index) -> BestPairs:
        """Candidates computed in float64, the best of them."""
        found = BestPairs.none()
        for part in chunks(len(at), len(self.labels.U)):
            (first, j), (second, k) = (np.unique(one, return_inverse=True) for one in at[part].T)
            sides = left.exact(first, self.labels).take(j), right.exact(second, self.labels).take(k)
            share, linked = shares_of_rows(*sides, self.labels)
            pairs = np.column_stack([left.features[first[j]], right.features[second[k]]])
            is_there = share >= self.reach
            n = int(is_there.sum())
            some = BestPairs(pairs[is_there], share[is_there], linked[is_there], 0, n)
            found = found.with_(some, self.n)
        return found

    def cost(self, m: int) -> Cost:
        t, q = self.labels.U.shape[1], self.labels.Q.shape[1]
        copies = 2 + (2 if q > 1 else 0) + 2  # X and P of both sides, and what products take
        return Cost(
            values=m,
            state=8 * m * (t + q),
            tile=copies * min(RUN_BYTES, 4 * m * WIDEST) + 16 * 4 * STRIP_ENTRIES,
        )


def passed(left: Side, columns: Array, narrow: Labels, reach: float) -> Array:
    """Which pairs pass the screen, (c, c') bool; `columns` are the right side, `lifted`."""
    m, rows = left.X.shape[1], lifted(left)
    size = (rows * narrow.U[:, 0]) @ columns.T
    size *= size
    for u in narrow.U.T[1:]:
        size += ((rows * u) @ columns.T) ** 2
    return np.asarray(size >= np.float32(MARGIN * reach * narrow.least * m))


def _strong(left: Side, right: Side) -> Iterator[tuple[Index, Index]]:
    """Rows and columns of the pairs that have a feature of a strong main effect."""
    by_left, by_right = ((side.C**2).sum(axis=1) / side.g for side in (left, right))
    t = left.C.shape[1]
    rows, columns = (
        np.flatnonzero(by > (t + STRONG) / left.X.shape[1]) for by in (by_left, by_right)
    )
    if rows.size:
        yield rows, np.arange(len(by_right))
    if columns.size:
        yield np.setdiff1d(np.arange(len(by_left)), rows), columns


def lifted(side: Side) -> Array:
    """Values times what features lack of the labels to the power -1/4, for ``e' N^-1 e``.

    With a_j the part of the labels that x_j explains, of unlinked features the smallest eigenvalue
    of N is ``1 - a_j - a_k >= sqrt((1 - 2 a_j)(1 - 2 a_k))``.
    """
    explained = (side.C**2).sum(axis=1) / side.g
    lift = np.maximum(1 - 2 * explained, LEAST_LEFT) ** -0.25
    return np.asarray(side.X * lift[:, None].astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """What permutations of labels gave in a tile, and the labels as they are.

    Attributes
    ----------
    largest : (B,) float64
        Largest shares of the permutations.
    some : (1 + B', s) float32
        Rough shares of every so-many-th pair: of the labels as they are, and of the first B'
        permutations, `MEASURED` at most.
    n_reaching, n_lost : int
        Pairs that reach, of the labels as they are, and those of them that a screen would lose.
    """

    largest: Float
    some: Array
    n_reaching: int
    n_lost: int


@dataclass(frozen=True, slots=True)
class Largest(AbstractPass):
    """What permuted labels give; `reach` is None where no screen is tried. `Tried`."""

    labels: Labels
    permuted: Array  # (B, m, t) float32
    reach: float | None
    every: int

    def over(self, blocks: Iterator[Tile], m: int) -> Tried:
        narrow = self.labels.narrowed()
        left, right = FeatureRun.both(blocks, narrow)
        largest, some, n_reaching, n_lost = np.zeros(len(self.permuted)), [], 0, 0
        for rows in strips(len(left.features), len(right.features)):
            first, strip = left.side.take(rows), Strip(rows, left is right)
            fit = ProductFit.of_all(first, right.side, narrow)
            if strip.is_square:
                fit.is_told[strip.skipped(len(right.features))] = False
            if self.reach is not None:
                reaches = shares_of_all(first, right.side, narrow, fit) >= self.reach
                n_reaching += int(reaches.sum())
                n_lost += self._lost(first, right.side, narrow, reaches)
            at = np.flatnonzero(fit.is_told)[:: self.every]
            found = [rough_shares(first, right.side, narrow, fit).ravel()[at]]
            for b, U in enumerate(self.permuted):
                each = replace(narrow, U=U)
                sides = first.told_of(each), right.side.told_of(each)
                rough = rough_shares(*sides, each, fit)
                largest[b] = max(largest[b], largest_share(*sides, each, rough))
                if b < MEASURED:
                    found.append(rough.ravel()[at])
            some.append(np.stack(found))
        return Tried(largest, np.concatenate(some, axis=1), n_reaching, n_lost)

    def _lost(self, left: Side, right: Side, narrow: Labels, reaches: Array) -> int:
        """How many of the pairs that reach a screen would lose."""
        assert self.reach is not None, "a screen is tried"
        if not reaches.any():
            return 0
        reaches = reaches & ~passed(left, lifted(right), narrow, self.reach)
        for strong in _strong(left, right):
            reaches[np.ix_(*strong)] = False
        return int(reaches.sum())

    def cost(self, m: int) -> Cost:
        t, q = self.labels.U.shape[1], self.labels.Q.shape[1]
        tile = 6 * min(RUN_BYTES, 4 * m * WIDEST) + 24 * 4 * STRIP_ENTRIES
        return Cost(values=m, state=4 * m * t * len(self.permuted) + 8 * m * (t + q), tile=tile)


def strips(n_rows: int, n_columns: int, times: int = 1) -> list[slice]:
    """Rows of a tile, some at a time, and `times` as many."""
    return slices(n_rows, max(1, times * STRIP_ENTRIES // max(1, n_columns)))


def chunks(n: int, m: int) -> list[slice]:
    """Pairs of m values each, some at a time."""
    return slices(n, max(1, ROW_ENTRIES // m))
