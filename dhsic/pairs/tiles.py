"""Tiles of pairs: all pairs of two ranges of features, read, screened and tested.

The d features of a scan are divided into ranges (runs); each pair of ranges, and each range with
itself, is a job. The division depends on sizes and the source alone. Products are computed in
float32; candidate pairs are recomputed in float64, row by row, from values that do not depend on
the tile, so the result is independent of the tiles.

A tile is tested in one of two ways:

- *whole*: shares of all of its pairs are computed, from four products besides those with labels;
- *screened*: only the products with labels are computed for all pairs.

The screen works as follows. A tested pair has ``|M z|^2 >= least m``, so a share s requires ``|U'M
z|^2`` of at least ``s least m`` (less if both features explain much of the labels by themselves,
which is known for each feature). ``U'z`` differs from ``U'M z`` by ``C'beta``, the contribution of
both main effects, which is small if main effects are small. So all pairs with a strong main effect
are tested, and of the other pairs only those with ``|U'z|^2 >= MARGIN s least m``. The screen
misses pairs of linked features whose main effects hide the product. The number of missed pairs is
counted on the permuted pairs, all of which are tested anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.namespace import slices
from dhsic.pairs.share import (
    NEAR,
    Labels,
    ProductFit,
    ResidualProducts,
    Side,
    shares_of_all,
    shares_of_rows,
)
from dhsic.passes import AbstractPass, Columns, Cost, Tile
from dhsic.runtime.base import Job

#: A pair passes the screen if its ``|U'z|^2`` is at least this fraction of the required value.
MARGIN = 0.75
#: A main effect is strong if m times the share of labels that it explains exceeds its expectation,
#: the number of label columns, by more than this.
STRONG = 15.0
#: Relative error of shares in float32.
ROUNDING = 1e-3
#: Maximum number of features of a run, and of bytes of its float32 values.
WIDEST, RUN_BYTES = 4096, 128 << 20
#: Memory per function of a feature if there are several, in float32 arrays: the function itself,
#: and a part of the stored values, sorted values and their order.
COPIES_OF_FUNCTIONS = 3
#: Minimum number of runs of a scan, so that threads share the work.
FEWEST_RUNS = 6
#: Maximum number of entries of a strip, which is a set of rows of a tile whose products are in
#: memory together; and factor by which strips of a screen are larger, because BLAS copies the
#: columns for every strip.
STRIP_ENTRIES, SCREENED = 1 << 19, 4
#: Maximum number of values in a batch of pairs that are computed row by row; fits the CPU cache.
ROW_ENTRIES = 1 << 18
#: Maximum number of values, and of products with labels, in a batch of pairs with permuted labels.
PERMUTED_ENTRIES = 1 << 20
#: Maximum number of permutations whose rough shares are kept for the inflation.
MEASURED = 100
#: Lower bound, used in the screen, of the share of the labels that features leave unexplained.
LEAST_LEFT = 0.1


def run_width(m: int, d: int, functions: int = 1) -> int:
    """Number of features in a range.

    It is smaller if there are several functions, which also need float64.
    """
    each = 4 * m * (1 if functions == 1 else 2 * COPIES_OF_FUNCTIONS * functions)
    return max(1, min(WIDEST, RUN_BYTES // each, -(-d // FEWEST_RUNS)))


def runs_of(jobs: Sequence[Job], width: int) -> list[Job]:
    """Merge or split jobs into ranges of about `width` features each; features must have tags."""
    runs: list[Job] = []
    size = width
    for job in jobs:
        for part in _split(job, width):
            n = part.payload[0].local.size
            if size + n > width:
                runs.append(part)
                size = n
            else:
                runs[-1] = _merge_jobs(runs[-1], part)
                size += n
    return runs


def _split(job: Job, width: int) -> Iterator[Job]:
    """Split a job of one block into parts of at most `width` features."""
    (columns,) = job.payload
    for a in range(0, columns.local.size, width):
        span = slice(a, a + width)
        part = replace(columns, local=columns.local[span], tags=columns.tags[span])
        yield Job(job.blocks, (part,))


def _merge_jobs(first: Job, second: Job) -> Job:
    return Job(first.blocks + second.blocks, first.payload + second.payload)


def tile_jobs(runs: Sequence[Job]) -> list[Job]:
    """Return one job per pair of ranges of features, and one per range with itself.

    Tags of features encode the side of the tile that they are on.
    """
    jobs = []
    for i, j in combinations_with_replacement(range(len(runs)), 2):
        first = _marked(runs[i], 0)
        jobs.append(first if i == j else _merge_jobs(first, _marked(runs[j], 1)))
    return jobs


def between_jobs(runs: Sequence[Job], others: Sequence[Job]) -> list[Job]:
    """Return one job for each range of features with each range of other features."""
    return [_merge_jobs(_marked(run, 0), _marked(other, 1)) for run in runs for other in others]


def run_jobs(runs: Sequence[Job]) -> list[Job]:
    """Return one job per range of features, to be paired with columns of the pass."""
    return [_marked(run, 0) for run in runs]


def columns_beside(columns: Float, first: int) -> Tile:
    """Side of tiles that consists of columns (m, k) that are not features.

    In pairs, their positions are `first`, ``first + 1``, ...
    """
    raw = np.ascontiguousarray(columns.T)
    scaling, _ = Tile(raw, None).measured(standardize=True)
    return Tile(raw, None, scaling, tags=2 * (first + np.arange(len(raw))) + 1)


def _marked(job: Job, side: int) -> Job:
    columns: tuple[Columns, ...] = tuple(
        replace(each, tags=2 * each.tags + side) for each in job.payload
    )
    return Job(job.blocks, columns)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRun:
    """Features on one side of a tile: their positions, stored values and `Side`."""

    features: Index
    tiles: list[Tile]
    side: Side

    @classmethod
    def both(
        cls, blocks: Iterator[Tile], labels: Labels, beside: Tile | None = None
    ) -> tuple[FeatureRun, FeatureRun]:
        """Return both sides of a tile; they are the same object if the tile is on the diagonal.

        With `beside` (see `columns_beside`), the second side is `beside`.
        """
        of: tuple[list[Tile], list[Tile]] = [], [] if beside is None else [beside]
        for tile in blocks:
            of[int(tile.tags[0]) % 2].append(tile)
        first_run = cls._of(of[0], labels)
        return first_run, cls._of(of[1], labels) if of[1] else first_run

    @classmethod
    def _of(cls, tiles: list[Tile], labels: Labels) -> FeatureRun:
        X = np.concatenate([tile.values(np.float32) for tile in tiles])
        features = np.concatenate([tile.tags for tile in tiles]) // 2
        return cls(features, tiles, Side.of(X, labels))

    def exact(self, at: Index, labels: Labels) -> Side:
        """Return the side of the features at positions `at` of the range, in float64."""
        parts, begin = [], 0
        for tile in self.tiles:
            rows = at[(at >= begin) & (at < begin + len(tile.raw))] - begin
            begin += len(tile.raw)
            if rows.size:
                parts.append(tile.part(rows).values(np.float64))
        return Side.of(np.concatenate(parts), labels)


@dataclass(frozen=True, slots=True, eq=False)
class BestPairs:
    """Best pairs of some tiles, best first; ties are broken by feature position.

    Attributes
    ----------
    pairs : (n, 2) int64
        Positions of the features, ascending within a pair.
    shares, linked : (n,) float64
        Shares and squared correlations.
    n_judged, n_reaching : int
        Number of pairs with a computed share, and number of these pairs that reach the target
        share.
    """

    pairs: Index
    shares: Float
    linked: Float
    n_judged: int = 0
    n_reaching: int = 0

    @classmethod
    def none(cls) -> BestPairs:
        """Create an object without pairs."""
        return cls(np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0))

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> BestPairs:
        """Create the object from the dictionary that `arrays` returns."""
        counts = int(arrays["n_judged"]), int(arrays["n_reaching"])
        return cls(arrays["pairs"], arrays["shares"], arrays["linked"], *counts)

    def arrays(self) -> dict[str, Any]:
        """Return all fields by name, for saving."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def order(self) -> Index:
        """Indices of the pairs, best first."""
        return np.lexsort((self.pairs[:, 1], self.pairs[:, 0], -self.shares))

    def take(self, which: Index) -> BestPairs:
        """Select some of the pairs."""
        columns = self.pairs[which], self.shares[which], self.linked[which]
        return BestPairs(*columns, self.n_judged, self.n_reaching)

    def best(self, n: int) -> BestPairs:
        """Return the best n pairs."""
        return self.take(self.order()[:n])

    def with_(self, other: BestPairs, n: int) -> BestPairs:
        """Return the best n pairs among the pairs of both objects."""
        return BestPairs(
            np.concatenate([self.pairs, other.pairs]),
            np.concatenate([self.shares, other.shares]),
            np.concatenate([self.linked, other.linked]),
            self.n_judged + other.n_judged,
            self.n_reaching + other.n_reaching,
        ).best(n)


@dataclass(frozen=True, slots=True)
class Strip:
    """Range of rows of a tile.

    If `is_square`, only pairs above the diagonal of the tile are counted.
    """

    rows: slice
    is_square: bool

    def skipped(self, width: int) -> Array:
        """Mask (c, width) of uncounted entries, which are on or below the tile's diagonal."""
        below: Array = np.arange(self.rows.start, self.rows.stop)[:, None] >= np.arange(width)
        return below

    def places(self, mask: Array) -> Index:
        """Rows and columns (n, 2), within the tile, of the True entries of a mask (c, width)."""
        if self.is_square:
            mask &= ~self.skipped(mask.shape[1])
        rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])  # faster than np.nonzero
        return np.column_stack([rows + self.rows.start, columns])

    def n_pairs(self, width: int) -> int:
        """Number of pairs in the rows, if the tile has `width` columns."""
        n = int(self.rows.stop - self.rows.start) * width
        return n - int(self.skipped(width).sum()) if self.is_square else n


@dataclass(frozen=True, slots=True)
class Scan(AbstractPass):
    """Pass that returns the `BestPairs` of each tile: the best n, with shares of at least `reach`.

    `labels` are in float64. If `screens`, only pairs that pass the screen are tested, see the
    module docstring.
    """

    labels: Labels
    reach: float
    n: int
    screens: bool
    beside: Tile | None = None  # columns with which features are paired

    def over(self, blocks: Iterator[Tile], m: int) -> BestPairs:
        narrow = self.labels.narrowed()
        left, right = FeatureRun.both(blocks, narrow, self.beside)
        judge = self._screened if self.screens else self._screen_tile
        parts = list(judge(left.side, right.side, narrow, is_square=left is right))
        at = np.concatenate([np.empty((0, 2), dtype=np.int64), *(places for places, _ in parts)])
        return replace(self._exact(left, right, at), n_judged=sum(n for _, n in parts))

    def _screen_tile(
        self, left: Side, right: Side, narrow: Labels, *, is_square: bool
    ) -> Iterator[tuple[Index, int]]:
        """Yield pairs (n, 2) with a float32 share near or above `reach`, and the number tested.

        All pairs of the tile are tested.
        """
        for rows in strips(len(left.g), len(right.g)):
            strip_side, strip = left.take(rows), Strip(rows, is_square)
            share = shares_of_all(
                strip_side, right, narrow, ProductFit.of_all(strip_side, right, narrow)
            )
            places = strip.places(share >= self.reach * (1 - ROUNDING))
            yield places, strip.n_pairs(share.shape[1])

    def _screened(
        self, left: Side, right: Side, narrow: Labels, *, is_square: bool
    ) -> Iterator[tuple[Index, int]]:
        """Yield pairs and numbers like `_screen_tile`, but test only pairs with promising products.

        These are pairs with strong main effects, and pairs that pass the screen.
        """
        for first, second in _strong(left, right):
            candidates = self._screen_tile(
                left.take(first), right.take(second), narrow, is_square=False
            )
            for places, n in candidates:
                at = np.column_stack([first[places[:, 0]], second[places[:, 1]]])
                yield at[at[:, 0] < at[:, 1]] if is_square else at, n
        lifts, least = lifted(right), self.reach * (1 - ROUNDING)
        for rows in strips(len(left.g), len(right.g), SCREENED):
            strip_side = left.take(rows)
            mask = passed(strip_side, lifts, narrow, self.reach)
            for strong in _strong(strip_side, right):
                mask[np.ix_(*strong)] = False
            places = Strip(rows, is_square).places(mask)
            share = np.empty(len(places), dtype=np.float32)
            for part in chunks(len(places), left.X.shape[1]):
                j, k = places[part].T
                share[part], _ = shares_of_rows(left.take(j), right.take(k), narrow)
            yield places[share >= least], len(places)

    def _exact(self, left: FeatureRun, right: FeatureRun, at: Index) -> BestPairs:
        """Recompute the shares of candidate pairs in float64, and return the best pairs.

        `at` (n, 2) are their positions in the tile.
        """
        best = BestPairs.none()
        for part in chunks(len(at), len(self.labels.U)):
            (first, j), (second, k) = (np.unique(one, return_inverse=True) for one in at[part].T)
            sides = left.exact(first, self.labels).take(j), right.exact(second, self.labels).take(k)
            share, linked = shares_of_rows(*sides, self.labels)
            pairs = np.column_stack([left.features[first[j]], right.features[second[k]]])
            is_there = share >= self.reach
            n = int(is_there.sum())
            batch = BestPairs(pairs[is_there], share[is_there], linked[is_there], 0, n)
            best = best.with_(batch, self.n)
        return best

    def cost(self, m: int) -> Cost:
        t, q = self.labels.U.shape[1], self.labels.Q.shape[1]
        copies = 2 + (2 if q > 1 else 0) + 2  # X and P of both sides, and products
        return Cost(
            values=m,
            state=8 * m * (t + q),
            tile=copies * min(RUN_BYTES, 4 * m * WIDEST) + 16 * 4 * STRIP_ENTRIES,
        )


def passed(left: Side, columns: Array, narrow: Labels, reach: float) -> Array:
    """Mask (c, c') of the pairs that pass the screen; `columns` is the `lifted` right side."""
    m, rows = left.X.shape[1], lifted(left)
    size = (rows * narrow.U[:, 0]) @ columns.T
    size *= size
    for u in narrow.U.T[1:]:
        size += ((rows * u) @ columns.T) ** 2
    return np.asarray(size >= np.float32(MARGIN * reach * narrow.least * m))


def _strong(left: Side, right: Side) -> Iterator[tuple[Index, Index]]:
    """Yield sets of pairs (rows, columns) that cover all pairs with a strong main effect."""
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
    """Values of features, scaled by ``(1 - 2 a)^-1/4`` to bound ``e' N^-1 e`` in the screen.

    a_j is the share of the labels that x_j explains. The smallest eigenvalue of N for unlinked
    features is ``1 - a_j - a_k >= sqrt((1 - 2 a_j)(1 - 2 a_k))``.
    """
    explained = (side.C**2).sum(axis=1) / side.g
    lift = np.maximum(1 - 2 * explained, LEAST_LEFT) ** -0.25
    return np.asarray(side.X * lift[:, None].astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class PermutationResult:
    """Results of permuted labels in a tile, and of the observed labels.

    Attributes
    ----------
    largest : (B,) float64
        Largest share of each permutation.
    some : (1 + B', s) float32
        Approximate shares of every n-th pair: for the observed labels, and for the first B'
        permutations (at most `MEASURED`).
    n_reaching, n_lost : int
        Number of pairs that reach the target share with the observed labels, and how many of these
        pairs a screen would miss.
    """

    largest: Float
    some: Array
    n_reaching: int
    n_lost: int


@dataclass(frozen=True, slots=True)
class Largest(AbstractPass):
    """Pass that returns the largest share of each permutation of the labels, for each tile.

    The result is a `PermutationResult`. If `reach` is set, it also counts the pairs with a share of
    at least `reach` with the observed labels, and how many of these pairs a screen would miss.
    """

    labels: Labels
    columns: Array  # (m, (1 + B) t) float32, see `permuted_columns`
    reach: float | None
    every: int
    beside: Tile | None = None  # columns with which features are paired

    def over(self, blocks: Iterator[Tile], m: int) -> PermutationResult:
        narrow = self.labels.narrowed()
        left, right = FeatureRun.both(blocks, narrow, self.beside)
        of_all = replace(left.side, C=left.side.P @ self.columns)
        other = replace(right.side, C=right.side.P @ self.columns)
        n_labels = self.columns.shape[1] // narrow.U.shape[1]
        top, largest = np.zeros((2, n_labels), dtype=np.float32)
        n = self._at_once(m)
        room = [np.empty(n * size, np.float32) for size in (m, self.columns.shape[1])]
        sampled, n_reaching, n_lost = [], 0, 0
        for rows in strips(len(left.features), len(right.features)):
            first, strip = left.side.take(rows), Strip(rows, left is right)
            fit = ProductFit.of_all(first, right.side, narrow)
            if strip.is_square:
                fit.is_told[strip.skipped(len(right.features))] = False
            if self.reach is not None:
                reaches = shares_of_all(first, right.side, narrow, fit) >= self.reach
                n_reaching += int(reaches.sum())
                n_lost += self._lost(first, right.side, narrow, reaches)
            is_sampled = np.zeros(fit.is_told.shape, dtype=bool)
            is_sampled.flat[np.flatnonzero(fit.is_told)[:: self.every]] = True
            of_rows = of_all.take(rows)
            for at in blocks_of(fit.left.shape, n):
                sides = of_rows.take(at[0]), other.take(at[1])
                products = ResidualProducts.of(*sides, fit.part(at), self.columns, n_labels, room)
                rough = products.rough_shares()
                top = np.maximum(top, rough.max(axis=(0, 1)))
                j, k, of = np.nonzero((rough >= NEAR * top) & (rough > 0))
                np.maximum.at(largest, of, products.shares(j, k, of))
                sampled.append(rough[is_sampled[at], : 1 + MEASURED].T)
        return PermutationResult(
            largest[1:].astype(np.float64), np.concatenate(sampled, axis=1), n_reaching, n_lost
        )

    def _at_once(self, m: int) -> int:
        """Maximum number of pairs with products in memory at the same time."""
        return max(1, PERMUTED_ENTRIES // max(m, int(self.columns.shape[1])))

    def _lost(self, left: Side, right: Side, narrow: Labels, reaches: Array) -> int:
        """Number of pairs that reach the target share but would be missed by a screen."""
        assert self.reach is not None, "a screen is tried"
        if not reaches.any():
            return 0
        reaches = reaches & ~passed(left, lifted(right), narrow, self.reach)
        for strong in _strong(left, right):
            reaches[np.ix_(*strong)] = False
        return int(reaches.sum())

    def cost(self, m: int) -> Cost:
        t, q, n_columns = self.labels.U.shape[1], self.labels.Q.shape[1], self.columns.shape[1]
        of_features = 2 * 4 * n_columns * min(WIDEST, max(1, RUN_BYTES // (4 * m)))
        tile = 6 * min(RUN_BYTES, 4 * m * WIDEST) + 24 * 4 * STRIP_ENTRIES
        tile += of_features + 10 * 4 * max(PERMUTED_ENTRIES, m, n_columns)
        return Cost(values=m, state=4 * m * n_columns + 8 * m * (t + q), tile=tile)


def blocks_of(shape: tuple[int, ...], n: int) -> Iterator[tuple[slice, slice]]:
    """Divide an array of this shape into blocks of at most n entries, as pairs of slices."""
    columns = slices(shape[1], min(n, shape[1]))
    return product(slices(shape[0], max(1, n // shape[1])), columns)


def permuted_columns(labels: Labels, permuted: Array) -> Array:
    """Labels and their permutations (B, m, t) beside each other, (m, (1 + B) t) in float32."""
    every = np.concatenate([labels.U[None].astype(np.float32), permuted])
    return np.ascontiguousarray(every.transpose(1, 0, 2)).reshape(len(labels.U), -1)


def strips(n_rows: int, n_columns: int, times: int = 1) -> list[slice]:
    """Divide the rows of a tile into strips that are `times` larger than the default."""
    return slices(n_rows, max(1, times * STRIP_ENTRIES // max(1, n_columns)))


def chunks(n: int, m: int) -> list[slice]:
    """Divide n pairs, of m values each, into batches."""
    return slices(n, max(1, ROW_ENTRIES // m))
