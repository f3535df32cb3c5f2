"""The sum over features against landmarks, kept up to date as they leave or join.

As of `dhsic.passes.sums`, in O(b m): down-dated by the features removed, summed anew when few
are left of those it was summed from, or when more landmarks are asked for. A part of the landmarks,
the *check rows*, serves no factor: what is estimated on them is honest. In its passes genotypes are
used as they are stored (`dhsic.sources.scaling`), everything else is standardised tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.question import LowRankQuestion
from dhsic.kernels.bandwidth import BandwidthStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic, add_packed, packed, zero_upper
from dhsic.linalg.quadratic import add_products
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import Landmarks, LandmarkStats
from dhsic.lowrank.factorizers import Cholesky
from dhsic.passes import AbstractSum, Cost, Tile, Values, cut, tile_height
from dhsic.passes.jobs import WORTH_MANY, grouped
from dhsic.passes.reader import AbstractReader
from dhsic.passes.sums import AbstractFeatureSum
from dhsic.sources.scaling import Codes, Scaling, scaling_of
from dhsic.sources.views import checksums

#: Landmarks that a run begins with, and the fewest where samples are many.
FIRST_LANDMARKS, FEWEST = 192, 64
#: Check rows, at most and at least.
MOST_CHECKS, FEWEST_CHECKS = 96, 32
#: Rows by which turns of the kernel are told, at most and at least, and their entries.
MOST_TURNS, FEWEST_TURNS, TURN_ENTRIES = 32, 8, 1 << 22
#: So many features, and more, are summed against half as many landmarks and check rows: what is
#: wrong there costs nothing in the end.
MANY_FEATURES = 1 << 17
#: Features whose products are worth a triangle that travels: it takes a twentieth of their time.
WORTH_SQUARES = 16384
#: Entries of the statistic, and of its check rows, that decide how many landmarks many samples get.
ENTRIES, CHECK_ENTRIES = 1 << 25, 1 << 24
#: Part of the trace of K that its factor may miss where features join, unless the landmarks are too
#: few for that.
MISSING = 1e-7
#: Part of ``W o K`` that its compression may lose there, and most directions that are left of it.
LOST, MOST = 1e-6, 512
#: Directions of W times those of K, at most: ``W o K`` is compressed from as many.
PRODUCTS = 1536
#: Most landmarks, unless that is every sample, and most entries of the statistic with them.
MOST_LANDMARKS, MOST_ENTRIES = 1024, 1 << 26
#: Features of a tile of a statistic at least, for a product over few waits for memory; and entries
#: of it at a time, 16 MiB in float32.
LEAST_HEIGHT, STRIP_ENTRIES = 64, 1 << 22
#: Tiles of a task, in float32: codes, squares, products. And time of measuring a value, over that
#: of standardising it.
TILES, MEASURING = 6, 9.0
#: Features whose products are added up in float32.
IN_SINGLE = 2048
Sums = tuple[Float, Float]


def tile_entries(m: int) -> int:
    """Entries of a tile at a time, at most."""
    return min(max(tile_height(m), LEAST_HEIGHT) * m, max(STRIP_ENTRIES, m))


def lowrank_tile(m: int) -> int:
    """Bytes that a task in low rank holds."""
    return TILES * 4 * tile_entries(m)


@dataclass(frozen=True, slots=True)
class LandmarkSet:
    """Samples that are landmarks, `rows` (b,), ascending.

    `fit` and `check` are positions among them: those that make factors, and that check them.
    """

    rows: Index
    fit: Index
    check: Index
    n_samples: int

    @staticmethod
    def of(m: int, n: int, seed: int, *, everyone: bool = False) -> LandmarkSet:
        """`n` landmarks for factors, and check rows; where those are most samples, all are both.

        With `everyone` every sample is a landmark, and K is known, but as many make factors.
        """
        order = np.random.default_rng([seed, m]).permutation(m)
        n_check = check_number(m) if n >= first_number(m) else check_number(m) // 2
        every = np.arange(m)
        if 2 * (n + n_check) > m:
            return LandmarkSet(every, every, np.sort(order[: max(n_check, FIRST_LANDMARKS)]), m)
        rows = every if everyone else np.sort(order[: n + n_check])
        check, fit = np.sort(order[:n_check]), np.sort(order[n_check : n + n_check])
        return LandmarkSet(rows, np.searchsorted(rows, fit), np.searchsorted(rows, check), m)

    @property
    def is_everyone(self) -> bool:
        """Every sample is a landmark: K is known."""
        return len(self.rows) == self.n_samples


def check_number(m: int) -> int:
    """Check rows of a run over m samples."""
    return int(np.clip(CHECK_ENTRIES // m, FEWEST_CHECKS, MOST_CHECKS))


def turning_rows(m: int, seed: int) -> Index:
    """Samples whose rows of K tell its turns, ascending: check rows of any set of landmarks."""
    n = min(check_number(m), int(np.clip(TURN_ENTRIES // m, FEWEST_TURNS, MOST_TURNS)))
    return np.sort(np.random.default_rng([seed, m]).permutation(m)[:n])


def most_number(m: int) -> int:
    """Landmarks that a run over m samples may come to, short of all samples."""
    return max(first_number(m), min(MOST_LANDMARKS, MOST_ENTRIES // m))


def first_number(m: int) -> int:
    """Landmarks that a run over m samples begins with."""
    return int(np.clip(ENTRIES // m, FEWEST, FIRST_LANDMARKS))


class LandmarkSum(AbstractFeatureSum):
    """Sum for landmarks with all samples, (b, m), and squared norms; or for all, (m, m)."""

    epoch = 32

    def __init__(
        self,
        data: AbstractReader,
        seed: int,
        n: int | None = None,
        directions: Array | None = None,
    ) -> None:
        """Against `n` landmarks, by default as many as a run begins with, and `directions`.

        Those are sums of samples with such weights, (m, q) float32.
        """
        super().__init__(data)
        m = data.n_samples
        n = (
            first_number(m) // (2 if data.source.n_features >= MANY_FEATURES else 1)
            if n is None
            else n
        )
        self.chosen = LandmarkSet.of(m, n, seed)
        self._directions = directions
        self._m, self._seed = m, seed
        self.clear()

    @property
    def fit(self) -> Landmarks:
        """The sum against landmarks that make factors."""
        return self._part("fit", self.chosen.fit)

    @property
    def check(self) -> Landmarks:
        """The sum against those that check them."""
        return self._part("check", self.chosen.check)

    def at(self, rows: Index) -> Landmarks:
        """The sum against some of its landmarks, samples of these numbers."""
        return self._some(np.searchsorted(self.chosen.rows, rows))

    @property
    def norms(self) -> Float:
        """Squared norms of all samples, (m,)."""
        known = self._sums
        return known[1] if isinstance(known, tuple) else np.diagonal(known).copy()

    @property
    def statistic(self) -> Statistic:
        """The sum of all samples, where it is known."""
        assert isinstance(self._sums, np.ndarray), "every sample is a landmark"
        return Statistic(self._sums)

    @property
    def products(self) -> Float:
        """Inner products with the directions, (q, m)."""
        known = self._sums
        if isinstance(known, tuple):
            return known[0][len(self.chosen.rows) :]
        assert self._directions is not None, "directions are asked of a sum that has some"
        return np.asarray(self._directions.T @ self.statistic.whole())

    @property
    def pass_over(self) -> LandmarkSums:
        """Pass that sums over some features."""
        return LandmarkSums(self.chosen.rows, self._directions)

    @property
    def longest(self) -> float:
        return float(self.norms.max())

    def known(self, kernel: AbstractKernel, W: LowRankSymmetric) -> BandwidthStats:
        """Distances among landmarks, and HSIC by their factor."""
        every = self._some(np.arange(len(self.chosen.rows)))
        rows = self.chosen.rows
        among = Landmarks(every.inner[:, rows], every.norms[rows], np.arange(rows.size))
        return LandmarkStats(among, lambda sigma: self.question(kernel, sigma, W).hsic)

    def question(
        self, kernel: AbstractKernel, sigma: float, W: LowRankSymmetric
    ) -> LowRankQuestion:
        """What a round of forward selection asks: Cholesky with these landmarks factors K."""
        factorizer = Cholesky(rank=max(1, PRODUCTS // max(1, W.rank)), tolerance=MISSING)
        fit = self.fit
        factor = cache(lambda base: factorizer.factor(kernel, sigma, fit, base=base))
        return LowRankQuestion(kernel, sigma, W, factor, rank=MOST, tolerance=LOST)

    def start(self, features: Index, sums: Sums) -> None:
        """Begin with `features`, whose sums a first pass gave."""
        if self.chosen.is_everyone:
            self.restart(features)
        else:
            self._set(sums)
            self.begin(features)

    def clear(self) -> None:
        self._set((np.zeros((self.pass_over.n_rows, self._m)), np.zeros(self._m)))

    def add(self, features: Index) -> None:
        """Add features by their values, a part after the other."""
        data = self.data
        for Z in data.joined(Values(), data.jobs(features)):
            inner, norms = self._against_landmarks
            self._set((inner + Z[:, self.chosen.rows].T @ Z, norms + np.vecdot(Z.T, Z.T)))

    def remove(self, features: Index) -> None:
        known, gone = self._sums, self._sum(features)
        if isinstance(known, tuple):
            for have, part in zip(known, gone, strict=True):
                np.subtract(have, part, out=have)
        else:
            known -= gone
        self._set(known)
        self.data.compact(self.features)

    def restart(self, S: Index) -> None:
        self._set(self._sum(S))
        self.begin(S)

    def grow(self, S: Index, *, to_everyone: bool) -> bool:
        """Sum S against twice as many landmarks, or all samples; False where there are no more.

        Half as many as a run of fewer features begins with are doubled in any case.
        """
        if self.chosen.is_everyone:
            return False
        to_everyone &= not self.are_few
        n = len(self.chosen.fit) * (1 if to_everyone else 2)
        more = LandmarkSet.of(self._m, n, self._seed, everyone=to_everyone)
        too_many = n > most_number(self._m) or (more.is_everyone and not self.are_few)
        if too_many and not to_everyone:
            return False
        self.chosen = more
        self.restart(S)
        return True

    @property
    def are_few(self) -> bool:
        """Whether landmarks are half as many as a run of fewer features begins with."""
        return len(self.chosen.fit) < first_number(self._m) and not self.chosen.is_everyone

    def replay_rounds(self, survivors: Sequence[Index], n_rows: Sequence[int]) -> None:
        """Repeat rounds that are done, see `replay`, each of which ended with so many landmarks."""
        grown = []
        for number, n in enumerate(n_rows):
            if n != len(self.chosen.rows):
                self.chosen = self._of_rows(n)
                grown.append(number)
        self.replay(survivors, grown)

    def _of_rows(self, n_rows: int) -> LandmarkSet:
        """Landmarks of which there are so many, check rows included."""
        n = first_number(self._m) // (1 if n_rows == self._m else 2)
        while n_rows < self._m and len(LandmarkSet.of(self._m, n, self._seed).rows) < n_rows:
            n *= 2
        return LandmarkSet.of(self._m, n, self._seed, everyone=n_rows == self._m)

    def _sum(self, features: Index) -> Any:
        jobs, data = self.data.jobs(features), self.data
        if not self.chosen.is_everyone:
            jobs = grouped(jobs, WORTH_MANY)
            return data.added(self.pass_over, jobs)
        return data.added(AllSums(), grouped(jobs, WORTH_SQUARES))

    def _set(self, sums: Sums | Float) -> None:
        self._sums: Sums | Float = sums
        self._parts: dict[str, Landmarks] = {}

    @property
    def _against_landmarks(self) -> Sums:
        assert isinstance(self._sums, tuple), "features join where not all samples are known"
        return self._sums

    def _part(self, name: str, which: Index) -> Landmarks:
        """Some of the landmarks, taken out once a round."""
        if name not in self._parts:
            self._parts[name] = self._some(which)
        return self._parts[name]

    def _some(self, which: Index) -> Landmarks:
        known, rows = self._sums, self.chosen.rows[which]
        if isinstance(known, tuple):
            return Landmarks(known[0][which], known[1], rows)
        above = np.arange(self._m) >= rows[:, None]
        return Landmarks(np.where(above, known[rows], known[:, rows].T), self.norms, rows)


@dataclass(frozen=True, slots=True)
class MeasureLandmarks(AbstractSum):
    """Scaling of features, in parts; their statistic against landmarks; whether all are codes."""

    sums: LandmarkSums
    standardize: bool = True

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[list[Scaling], Sums, bool]:
        statistic = _Statistic(self.sums, m)
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
                scaling = scaling_of(codes.counts(), standardize=self.standardize)
                statistic.add_codes(codes, scaling)
                scaling = replace(scaling, checksum=checksums(tile.raw))
            parts.append(scaling)
        return [Scaling.join(parts)], statistic.sums(), are_codes

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], Sums, bool]:
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

    @property
    def n_rows(self) -> int:
        """Rows of the inner products: b + q."""
        return len(self.landmarks) + (0 if self.directions is None else self.directions.shape[1])

    def over(self, blocks: Iterator[Tile], m: int) -> Sums:
        statistic = _Statistic(self, m)
        for tile in cut(blocks, statistic.height):
            codes = tile.codes
            if codes is None:
                statistic.add(tile)
            else:
                statistic.add_codes(codes, tile.scaling)
        return statistic.sums()

    def add(self, left: Sums, right: Sums) -> Sums:
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

    Attributes
    ----------
    height : int
        Features of a tile.
    """

    def __init__(self, asked: LandmarkSums, m: int) -> None:
        self.landmarks, self._directions = asked.landmarks, asked.directions
        b = asked.n_rows
        self.height = max(tile_height(m), LEAST_HEIGHT)
        width = max(1, tile_entries(m) // self.height)
        self._strips = [slice(a, min(a + width, m)) for a in range(0, m, width)]
        self._inner: Float | None = None
        self._norms = np.zeros(m)
        self._shifts, self._norm_shift = np.zeros(b), 0.0
        self._part = np.empty((b, m), dtype=np.float32)  # of the last `_n` features
        self._product = np.empty(b * min(width, m), dtype=np.float32)
        self._n = 0

    def sums(self) -> Sums:
        """Inner products (b, m) and norms (m,) of all tiles; no more can be added."""
        self._flush()
        assert self._inner is not None, "a job has features"
        self._inner -= self._shifts[:, None]
        return self._inner, self._norms + self._norm_shift

    def add(self, tile: Tile) -> None:
        """Features that are standardised, a strip of samples at a time."""

        def strip(samples: slice) -> Array:
            return replace(tile, raw=tile.raw[:, samples]).values(np.float32)

        L = replace(tile, raw=tile.raw[:, self.landmarks]).values(np.float32)
        parts, sums = self._cut(strip)
        if sums is not None:
            L = np.column_stack([L, sums.astype(np.float32)])
        for samples, X in parts:
            self._add(L, X, samples)
            self._norms[samples] += np.einsum("ij,ij->j", X, X)
        self._count(len(L))

    def add_codes(self, codes: Codes, scaling: Scaling) -> None:
        """Add codes g, ``x = s (g - h)``: ``sum_j s^2 (g - h) g'`` and what h takes from it."""
        square, shift = scaling.scale**2, scaling.mean
        L = codes.some(self.landmarks).filled(shift) - shift[:, None]  # (c, b) float64
        parts, sums = self._cut(lambda samples: codes.some(samples).filled(shift))
        if sums is not None and self._directions is not None:
            whole = self._directions.sum(axis=0, dtype=np.float64)
            L = np.column_stack([L, sums - shift[:, None] * whole])
        L *= square[:, None]
        self._shifts += shift @ L
        weights = np.stack([square, -2 * square * shift]).astype(np.float32)
        single = L.astype(np.float32)
        for samples, g in parts:
            self._add(single, g, samples)
            self._norms[samples] += weights[1] @ g
            self._norms[samples] += weights[0] @ np.multiply(g, g, out=g)
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
            return only, (only[0][1] @ self._directions).astype(np.float64)
        again = ((samples, strip(samples)) for samples in self._strips)
        found = [(X @ self._directions[samples]).astype(np.float64) for samples, X in strips]
        return again, np.sum(found, axis=0)

    def _add(self, L: Array, X: Array, samples: slice) -> None:
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
        if self._inner is None:
            self._inner = self._part.astype(np.float64)
        else:
            self._inner += self._part
        self._n = 0
