"""The sum over features against landmarks, kept up to date as they leave or join.

As of `dhsic.passes.sums`, in O(b m): down-dated by the features removed, summed anew when few
are left of those it was summed from, or when more landmarks are asked for. A part of the landmarks,
the *check rows*, serves no factor: what is estimated on them is honest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, cast

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.question import LowRankQuestion
from dhsic.kernels.bandwidth import BandwidthStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.dot import Linear
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import BaseRows, Landmarks, LandmarkStats
from dhsic.lowrank.factorizers import Cholesky, Extension, Spectral
from dhsic.lowrank.slices import LINEAR, Round, Slice, Sums, add_sums, joined, renewed
from dhsic.passes import Values
from dhsic.passes.jobs import WORTH_MANY, grouped
from dhsic.passes.reader import AbstractReader
from dhsic.passes.statistic import AllSums, InnerProducts, LandmarkSums
from dhsic.passes.sums import AbstractFeatureSum
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.runtime.held import AbstractStep, Held, Site
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource

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
#: Samples of a slice, at least, where there are more than one.
SLICE = 16384


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
    """Sum for landmarks with all samples, (b, m), and squared norms; or for all, (m, m).

    It is asked in slices of samples (`dhsic.lowrank.slices`), each of which keeps what a round
    leaves there for the next one.
    """

    epoch = 32

    def __init__(
        self,
        data: AbstractReader,
        seed: int,
        n: int | None = None,
        weights: LowRankSymmetric | None = None,
    ) -> None:
        """Against `n` landmarks, by default as many as a run begins with, and directions of W."""
        super().__init__(data)
        m = data.n_samples
        n = (
            first_number(m) // (2 if data.source.n_features >= MANY_FEATURES else 1)
            if n is None
            else n
        )
        self.chosen = LandmarkSet.of(m, n, seed)
        self._weights = weights or LowRankSymmetric.of(np.empty((m, 0)), np.empty(0))
        self._directions = None if weights is None else weights.F.astype(np.float32)
        self._m, self._seed = m, seed
        self._held = Held([None] * len(sample_slices(m)))
        self._stale = True
        self._block: Slice | None = None
        self.clear()

    @property
    def fit(self) -> Landmarks:
        """The sum against landmarks that make factors."""
        return self._some(self.chosen.fit)

    @property
    def check(self) -> Landmarks:
        """The sum against those that check them."""
        return self._some(self.chosen.check)

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
        return LandmarkStats(lambda: among, lambda sigma: self.question(kernel, sigma, W).hsic)

    def question(
        self, kernel: AbstractKernel, sigma: float, W: LowRankSymmetric
    ) -> LowRankQuestion:
        """What a round of forward selection asks: Cholesky with these landmarks factors K."""
        factorizer = Cholesky(rank=max(1, PRODUCTS // max(1, W.rank)), tolerance=MISSING)
        fit = self.fit
        factor = cache(lambda base: factorizer.factor(kernel, sigma, fit, base=base))
        return LowRankQuestion(kernel, sigma, W, factor, rank=MOST, tolerance=LOST)

    # -- in slices -----------------------------------------------------------------------------

    def round(self, kernel: AbstractKernel, sigma: float, rank: int, *, linear: bool) -> Round:
        """What slices are told of a round, with so many directions at most.

        `linear` says whether inner products have directions too.
        """
        block, fit = self.block, self.marks.fit
        some = Landmarks(block.inner[fit], block.norms, fit)

        def extension(kernel: AbstractKernel, base: int | None) -> Extension:
            rows = BaseRows(kernel, sigma, some, base)
            found, _ = Spectral(rank).extension(rows, self._m, self._seed)
            return replace(found, used=fit[found.used])

        order = kernel.exact_order or 1
        bases = {term.base for term in kernel.expansion(order, sigma).terms}
        extensions = {base: extension(kernel, base) for base in {0} | bases}
        if linear:
            extensions[LINEAR] = extension(Linear(), None)
        marks = self.marks
        return Round(
            kernel, sigma, marks.rows, block.norms, marks.check, extensions, (*sorted(bases),)
        )

    def step(self, function: Callable[[Slice, Any], tuple[Slice, Sums]], state: Any) -> Sums:
        """Have all slices do something, and add up what they say."""
        values = self._slices, InSlices(function), self.data.source, self._sites, state
        self._held, sums = AbstractRuntime.stepped(self.data.runtime, *values)  # they are here
        self._block = function(self.block, state)[0]
        return cast("Sums", sums)

    def ask(self, question: Callable[[Slice, Any], Any], state: Any) -> list[Any]:
        """What all slices answer, in their order."""
        told = [question] * len(self._sites)
        answers = AbstractRuntime.asked(self.data.runtime, self._slices, _answer, told, state)
        return list(answers)

    @property
    def marks(self) -> LandmarkSet:
        """Landmarks that slices know: where all samples are, those that serve factors or checks."""
        chosen = self.chosen
        if not chosen.is_everyone:
            return chosen
        rows = np.union1d(chosen.fit, chosen.check)
        fit, check = np.searchsorted(rows, chosen.fit), np.searchsorted(rows, chosen.check)
        return LandmarkSet(rows, fit, check, self._m)

    @property
    def block(self) -> Slice:
        """The slice of the landmarks."""
        if self._block is None:
            self._block = joined(self.ask(_of_landmarks, self.marks.rows))
        return self._block

    @property
    def _sites(self) -> list[Site]:
        return [Site(told=part) for part in sample_slices(self._m)]

    @property
    def _slices(self) -> Held:
        if self._stale:
            inner, products, norms = self._rows_and_norms()
            self._held = Held(
                [
                    renewed(old, inner[:, s], products[:, s], norms[s], s, self._weights)
                    for old, s in zip(self._held.values, sample_slices(self._m), strict=True)
                ]
            )
            self._stale = False
        return self._held

    def _rows_and_norms(self) -> tuple[Float, Float, Float]:
        """Inner products with the landmarks that slices know, and directions of W; norms."""
        known = self._sums
        if isinstance(known, tuple):
            b = len(self.chosen.rows)
            return known[0][:b], known[0][b:], known[1]
        rows = self.marks.rows
        above = np.arange(self._m) >= rows[:, None]
        inner = np.where(above, known[rows], known[:, rows].T)
        F, norms = self._weights.F, self.norms
        products = F.T @ known + (known @ F).T - F.T * norms  # the lower triangle is 0
        return inner, products, norms

    # -- features ------------------------------------------------------------------------------

    def start(self, features: Index, sums: InnerProducts) -> None:
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

    def _set(self, sums: InnerProducts | Float) -> None:
        self._sums: InnerProducts | Float = sums
        self._stale, self._block = True, None

    @property
    def _against_landmarks(self) -> InnerProducts:
        assert isinstance(self._sums, tuple), "features join where not all samples are known"
        return self._sums

    def _some(self, which: Index) -> Landmarks:
        known, rows = self._sums, self.chosen.rows[which]
        if isinstance(known, tuple):
            return Landmarks(known[0][which], known[1], rows)
        above = np.arange(self._m) >= rows[:, None]
        return Landmarks(np.where(above, known[rows], known[:, rows].T), self.norms, rows)


@dataclass(frozen=True, slots=True)
class InSlices(AbstractStep):
    """What slices do without reading anything."""

    function: Callable[[Slice, Any], tuple[Slice, Sums]]

    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        raise TypeError("Slices are asked, nothing is read.")

    def add(self, left: Any, right: Any) -> Any:
        raise TypeError("Slices are asked, nothing is read.")

    def finish(self, value: Slice, total: Any, told: Any, state: Any) -> tuple[Slice, Sums]:
        with single_blas_thread():
            return self.function(value, state)

    def join(self, left: Sums, right: Sums) -> Sums:
        return add_sums(left, right)


def _answer(known: Slice, question: Callable[[Slice, Any], Any], state: Any) -> Any:
    with single_blas_thread():
        return question(known, state)


def _of_landmarks(known: Slice, rows: Index) -> Slice:
    """Those of the samples that are landmarks."""
    return known.part(np.flatnonzero(np.isin(known.samples, rows, assume_unique=True)))


def sample_slices(m: int) -> list[slice]:
    """Slices of m samples, by m alone: as many samples in each, but for one."""
    n = max(1, m // SLICE)
    edges = np.linspace(0, m, n + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]
