"""The sum over features against landmarks, kept up to date as they leave or join.

As of `dhsic.passes.sums`, in O(b m): down-dated by the features removed, summed anew when few
are left of those it was summed from, or when more landmarks are asked for. A part of the landmarks,
the *check rows*, serves no factor: what is estimated on them is honest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
from dhsic.lowrank.slices import LINEAR, Slice, SlicedRound, Sums, rows_of
from dhsic.passes import Tile, Values
from dhsic.passes.drawn import LandmarkSet, first_number, most_number, turning_rows
from dhsic.passes.jobs import WORTH_MANY, grouped, positions
from dhsic.passes.reader import AbstractReader
from dhsic.passes.sliced import (
    InSlices,
    Renewal,
    RenewSums,
    Sampling,
    SliceWork,
    TakeSample,
    answer,
    itself,
    longest,
    rows_and_norms,
)
from dhsic.passes.statistic import AllSums, Ends, InnerProducts, LandmarkSums, TakeEnds
from dhsic.passes.sums import AbstractFeatureSum
from dhsic.runtime.base import Held, Job, Jobs, Make, Site
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource

#: So many features, and more, are summed against half as many landmarks and check rows: what is
#: wrong there costs nothing in the end.
MANY_FEATURES = 1 << 17
#: Features whose products are worth a triangle that travels: it takes a twentieth of their time.
WORTH_SQUARES = 16384
#: Part of the trace of K that its factor may miss where features join, unless the landmarks are too
#: few for that.
MISSING = 1e-7
#: Part of ``W o K`` that its compression may lose there, and most directions that are left of it.
LOST, MOST = 1e-6, 512
#: Directions of W times those of K, at most: ``W o K`` is compressed from as many.
PRODUCTS = 1536
#: Samples of a slice, at least, where there are more than one.
SLICE = 16384


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
        self._cuts, self._runtime = sample_slices(m, data.source), data.runtime
        self._held: Held | None = None
        self._block: Slice | None = None
        self._square: Float | None = None  # of all samples, where that is known
        self._ends: tuple[Index, Ends] | None = None  # of features, where there are many slices
        #: Features that slices do not know to have left, and those that were left then.
        self._leaving: tuple[Index, Index] | None = None
        self.sampled: Index | None = None  # features whose values slices have

    @property
    def fit(self) -> Landmarks:
        """The sum against landmarks that make factors."""
        return self._some(self.marks.fit)

    @property
    def check(self) -> Landmarks:
        """The sum against those that check them."""
        return self._some(self.marks.check)

    @property
    def statistic(self) -> Statistic:
        """The sum of all samples, where it is known."""
        assert self._square is not None, "every sample is a landmark"
        return Statistic(self._square)

    @property
    def first_pass(self) -> LandmarkSums | TakeEnds:
        """What a first pass takes of features besides their scaling."""
        if len(self._sites()) == 1:
            return LandmarkSums(self.chosen.rows, self._directions)
        return self._take_ends

    @property
    def longest(self) -> float:
        return max(self.ask(longest, None), default=0.0)

    def known(self, kernel: AbstractKernel, W: LowRankSymmetric) -> BandwidthStats:
        """Distances among landmarks, and HSIC by their factor."""
        block = self.block
        among = Landmarks(block.inner, block.norms, np.arange(len(block.norms)))
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

    def round(
        self, kernel: AbstractKernel, sigma: float, rank: int, *, linear: bool
    ) -> SlicedRound:
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
        turning = np.searchsorted(marks.rows, turning_rows(self._m, self._seed))
        return SlicedRound(
            *(kernel, sigma, marks.rows, block.norms, marks.check, extensions),
            *((*sorted(bases),), turning, rows_of(block.W, turning)),
        )

    def step(self, function: SliceWork, state: Any) -> Sums:
        """Have all slices do something, and add up what they say.

        Features that have left, but of which they do not know that, go at once.
        """
        if self._leaving is not None:
            return self.settle(function, state)
        self._held, sums = self.data.stepped(self._here, InSlices(function), self._sites(), state)
        self._block = function(self.block, state, map)[0]
        return cast("Sums", sums)

    def say(self, function: SliceWork, state: Any) -> Sums:
        """Have all slices say something, and add that up; they stay as they are."""
        asked = InSlices(function, renews=False)
        _, sums = self.data.stepped(self._here, asked, self._sites(), state)
        return cast("Sums", sums)

    def sample(self, features: Index, then: SliceWork, asked: Any) -> Sums:
        """Slices get values of sampled features, and say something: what that adds up to."""
        sites = self._sites(self.data.jobs(features))
        state = Sampling(Values(np.float32), self.data.rows, self.marks.rows, asked)
        self._held, (self._block, said) = self.data.stepped(
            self._here, TakeSample(then), sites, state
        )
        self.sampled = features
        return cast("Sums", said)

    def ask(self, question: Callable[[Slice, Any], Any], state: Any) -> Iterator[Any]:
        """What all slices answer, in their order."""
        told = [question] * len(self._sites())
        return self.data.asked(self._here, answer, told, state)

    def gathered(self, question: Callable[[Slice, Any], Any], state: Any, make: Make) -> Any:
        """What is made of the answers of all slices: a part of the state of a pass."""
        told = [question] * len(self._sites())
        return self.data.runtime.gathered(self._here, answer, told, state, make)

    @property
    def _here(self) -> Held:
        """Values of the slices, where the reader's passes run: here once features have come."""
        self.settle()
        if self._held is None:
            self.clear()
            assert self._held is not None, "slices have begun"
        if self._runtime is not self.data.runtime:
            told = [itself] * len(self._sites())
            self._held = Held(list(self._runtime.asked(self._held, answer, told, None)))
            self._runtime = self.data.runtime
        return self._held

    @property
    def n_slices(self) -> int:
        """How many slices there are."""
        return len(self._sites())

    def _sites(self, jobs: Jobs = ()) -> list[Site]:
        """Slices, where all samples are landmarks a single one; with the jobs of each."""
        if len(self._cuts) == 1 or self.chosen.is_everyone:
            return [Site(tuple(jobs), slice(0, self._m))]
        return [Site(tuple(replace(job, samples=s) for job in jobs), s) for s in self._cuts]

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
        """The slice of the landmarks.

        While slices do not know of features that have left, it is without these all the same.
        """
        if self._block is None:
            self.clear()
            assert self._block is not None, "slices have begun"
        return self._block if self._leaving is None else self._without(self._leaving[0])

    def _without(self, features: Index) -> Slice:
        """The slice of the landmarks when features have left, by their values there."""
        assert self._ends is not None, "there are many slices"
        assert self._block is not None, "slices have begun"
        of, ends = self._ends
        mine = ends.some(positions(features, of))
        tile = Tile(mine.raw, self.data.source.missing_code, self.data.scaling.take(features))
        with single_blas_thread():
            X = tile.values(np.float64)
            sums = self._block.sums - np.column_stack([X, mine.sums]).T @ X
        norms = self._block.norms - np.vecdot(X.T, X.T)
        return replace(self._block, sums=sums, norms=norms, F={})

    @property
    def is_behind(self) -> bool:
        """Whether slices do not know yet of features that have left."""
        return self._leaving is not None

    def settle(self, then: SliceWork | None = None, asked: Any = None) -> Sums:
        """Tell slices of features that have left, and add up what they say of what they do then."""
        if self._leaving is None:
            return {}
        (features, left), self._leaving = self._leaving, None
        sums = self._renew(features, then=then, asked=asked)
        self.data.compact(left)
        return sums

    # -- features ------------------------------------------------------------------------------

    def start(self, features: Index, taken: Any) -> None:
        """Begin with `features`, those that vary; `taken` is what a first pass gave of all."""
        if self.chosen.is_everyone:
            self.restart(features)
        elif len(self._sites()) > 1:
            self._ends = features, Ends.join(taken).some(features)
            self._renew(features, anew=True)
            self.begin(features)
        else:
            self._renew(sums=taken, anew=True)
            self.begin(features)

    def clear(self) -> None:
        self._renew(anew=True)

    def add(self, features: Index) -> None:
        """Add features by their values, a part after the other."""
        for Z in self.data.joined(Values(), self.data.jobs(features)):
            self._renew(values=Z)

    def remove(self, features: Index) -> None:
        if self._square is not None:
            self._square -= self._all(features)
            self._renew(sums=self._of_square())
        elif self._ends is not None:
            self.settle()
            self._leaving = features, self.features
            return
        else:
            self._renew(features)
        self.data.compact(self.features)

    def restart(self, S: Index) -> None:
        if self._leaving is not None:  # slices forget the others anyway
            self.data.compact(S)
        self._square = self._ends = self._leaving = None
        if self.chosen.is_everyone:
            self._square = self._all(S)
            self._renew(sums=self._of_square(), anew=True)
        else:
            if len(self._sites()) > 1:
                taken = self.data.added(self._take_ends, self.data.jobs(S))
                self._ends = S, Ends.join(taken)
            self._renew(S, anew=True)
        self.begin(S)

    @property
    def _take_ends(self) -> TakeEnds:
        directions = self._directions
        if directions is None:
            directions = np.empty((self._m, 0), dtype=np.float32)
        return TakeEnds(self.chosen.rows, directions)

    def _renew(
        self,
        features: Index | None = None,
        *,
        sums: InnerProducts | None = None,
        values: Float | None = None,
        anew: bool = False,
        then: SliceWork | None = None,
        asked: Any = None,
    ) -> Sums:
        """Sums of slices change, see `Renewal`, by `features` that are read or what is given.

        Where they begin anew all else that slices know is forgotten. What they say of what they
        do `then` is added up.
        """
        summed = LandmarkSums(self.chosen.rows, self._directions)
        jobs: list[Job] = []
        if features is not None:
            tags = None
            if self._ends is not None:
                of, ends = self._ends
                summed = LandmarkSums(self.chosen.rows, ends=ends.some(positions(features, of)))
                tags = np.arange(features.size)
            jobs = grouped(self.data.jobs(features, tags=tags), WORTH_MANY)
        W = self._weights if anew else None
        told = Renewal(summed, self.data.rows, self.marks.rows, sums, values, W, asked)
        if anew:
            self.sampled, self._runtime = None, self.data.runtime
        held = None if anew else self._here
        sites, step = self._sites(jobs), RenewSums(then)
        self._held, (self._block, said) = self.data.stepped(held, step, sites, told)
        return cast("Sums", said)

    def _all(self, features: Index) -> Float:
        jobs = grouped(self.data.jobs(features), WORTH_SQUARES)
        return cast("Float", self.data.added(AllSums(), jobs))

    def _of_square(self) -> InnerProducts:
        """Inner products with the landmarks that slices know, and directions of W; norms."""
        known, rows = self._square, self.marks.rows
        assert known is not None, "every sample is a landmark"
        above = np.arange(self._m) >= rows[:, None]
        inner = np.where(above, known[rows], known[:, rows].T)
        F, norms = self._weights.F, np.diagonal(known).copy()
        products = F.T @ known + (known @ F).T - F.T * norms  # the lower triangle is 0
        return np.concatenate([inner, products]), norms

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
        self.settle()

    def _of_rows(self, n_rows: int) -> LandmarkSet:
        """Landmarks of which there are so many, check rows included."""
        n = first_number(self._m) // (1 if n_rows == self._m else 2)
        while n_rows < self._m and len(LandmarkSet.of(self._m, n, self._seed).rows) < n_rows:
            n *= 2
        return LandmarkSet.of(self._m, n, self._seed, everyone=n_rows == self._m)

    def _some(self, which: Index) -> Landmarks:
        parts = [*self.ask(rows_and_norms, which)]
        inner = np.concatenate([found for found, _ in parts], axis=1)
        return Landmarks(
            inner, np.concatenate([norms for _, norms in parts]), self.marks.rows[which]
        )


def sample_slices(m: int, source: AbstractSource) -> list[slice]:
    """Slices of m samples, as many in each, but for one: by how many there are.

    All are one slice where nobody can read some without the others.
    """
    n = max(1, m // SLICE)
    whole = source.stored_samples(np.arange(1)) >= source.n_samples and not source.in_memory
    edges = np.linspace(0, m, (1 if whole else n) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]
