"""Sums over features for all pairs of a landmark and a sample.

They are updated as features leave or join, like the sums in `dhsic.passes.sums`, but in O(b m) time
for b landmarks. Removed features are subtracted. The sum is recomputed when few features are left,
or when more landmarks are needed. Some landmarks, the *check rows*, are not used in the factors, so
the errors estimated on them are unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, cast

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.scoring_problem import LowRankScoringProblem
from dhsic.kernels.bandwidth import BandwidthStats
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.dot import Linear
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import BaseRows, Landmarks, LandmarkStats
from dhsic.lowrank.factorizers import Cholesky, Extension, Spectral
from dhsic.lowrank.slices import LINEAR, Slice, SlicedRound, Sums, rows_of
from dhsic.passes import Tile, Values
from dhsic.passes.jobs import WORTH_MANY, grouped, positions
from dhsic.passes.landmark_sampling import LandmarkSet, first_number, most_number, turning_rows
from dhsic.passes.reader import AbstractReader
from dhsic.passes.sliced import (
    Renewal,
    RenewSums,
    Sampling,
    SliceStep,
    SliceWork,
    TakeSample,
    answer,
    itself,
    longest,
    rows_and_norms,
)
from dhsic.passes.statistic import AllSums, Ends, InnerProducts, LandmarkSums, TakeEnds
from dhsic.passes.sums import AbstractFeatureSum
from dhsic.runtime.base import Job, Jobs, Make, Site, SiteValues
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource

#: With this number of features or more, half the landmarks and check rows are used: errors among
#: these features do not affect the final selection.
MANY_FEATURES = 1 << 17
#: Minimum number of features of a job that returns an (m, m) triangle: sending it then takes 5% of
#: the time of the job.
WORTH_SQUARES = 16384
#: Fraction of the trace of K that its factor may miss in forward selection, if there are enough
#: landmarks.
MISSING = 1e-7
#: Fraction of ``W o K`` that compression may lose in forward selection, and maximum number of
#: directions after it.
LOST, MOST = 1e-6, 512
#: Maximum product of the ranks of W and K before ``W o K`` is compressed.
PRODUCTS = 1536
#: Minimum number of samples per slice, if there are several slices.
SLICE = 16384


class LandmarkSum(AbstractFeatureSum):
    """Sums over features of inner products of b landmarks with m samples, and of squared norms.

    If every sample is a landmark, the inner products of all samples, (m, m), are known too. The
    samples are divided into slices (`dhsic.lowrank.slices`). Each slice keeps its part of the sum,
    and results that the next round reuses.
    """

    epoch = 32

    def __init__(
        self,
        data: AbstractReader,
        seed: int,
        n: int | None = None,
        weights: LowRankSymmetric | None = None,
    ) -> None:
        """Create a sum for `n` landmarks (default: the initial number).

        `seed` determines the landmarks. If the directions of the matrix W are needed, `weights` is
        W.
        """
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
        self._held: SiteValues | None = None
        self._block: Slice | None = None
        self._square: Float | None = None  # statistic of all samples, if known
        self._ends: tuple[Index, Ends] | None = None  # values at landmarks, for several slices
        #: Removed features that slices have not subtracted yet, and the remaining features then.
        self._leaving: tuple[Index, Index] | None = None
        self.sampled: Index | None = None  # features whose values slices hold

    @property
    def fit(self) -> Landmarks:
        """Inner products of the landmarks from which the kernel matrix is factored."""
        return self._landmarks_at(self.marks.fit)

    @property
    def check(self) -> Landmarks:
        """Inner products of the check rows (landmarks that are used only to estimate errors)."""
        return self._landmarks_at(self.marks.check)

    @property
    def statistic(self) -> Statistic:
        """Inner products of all pairs of samples, (m, m).

        They are only known if every sample is a landmark.
        """
        assert self._square is not None, "every sample is a landmark"
        return Statistic(self._square)

    @property
    def first_pass(self) -> LandmarkSums | TakeEnds:
        """Pass that is run together with the first pass, which measures the scaling."""
        if len(self._sites()) == 1:
            return LandmarkSums(self.chosen.rows, self._directions)
        return self._take_ends

    @property
    def longest(self) -> float:
        return max(self.ask(longest, None), default=0.0)

    def bandwidth_stats(self, kernel: AbstractKernel, W: LowRankSymmetric) -> BandwidthStats:
        """Distances among landmarks, and HSIC by sigma, which bandwidth policies use."""
        block = self.block
        among = Landmarks(block.inner, block.norms, np.arange(len(block.norms)))
        return LandmarkStats(lambda: among, lambda sigma: self.question(kernel, sigma, W).hsic)

    def question(
        self, kernel: AbstractKernel, sigma: float, W: LowRankSymmetric
    ) -> LowRankScoringProblem:
        """Scoring problem of a round of forward selection, with a low-rank kernel matrix.

        The matrix is factored by Cholesky. W are the label weights.
        """
        factorizer = Cholesky(rank=max(1, PRODUCTS // max(1, W.rank)), rtol=MISSING)
        fit = self.fit
        factor = cache(lambda base: factorizer.factor(kernel, sigma, fit, base=base))
        return LowRankScoringProblem(kernel, sigma, W, factor, rank=MOST, tolerance=LOST)

    # -- in slices -----------------------------------------------------------------------------

    def round(
        self, kernel: AbstractKernel, sigma: float, rank: int, *, linear: bool
    ) -> SlicedRound:
        """Create the description of a round, with at most `rank` directions per low-rank matrix.

        There is one matrix per term of the kernel's series (base matrix). If `linear`, the matrix
        of inner products gets directions too.
        """
        block, fit = self.block, self.marks.fit
        subset = Landmarks(block.inner[fit], block.norms, fit)

        def extension(kernel: AbstractKernel, base: int | None) -> Extension:
            rows = BaseRows(kernel, sigma, subset, base)
            factors, _ = Spectral(rank).extension(rows, self._m, self._seed)
            return replace(factors, used=fit[factors.used])

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
        """Apply a function to all slices of the samples, and store the slices it returns.

        The function also returns sums, and `step` returns their total over the slices. Features
        removed since the last call are subtracted at the same time.
        """
        if self._leaving is not None:
            return self.settle(function, state)
        self._held, sums = self.data.update(self._here, SliceStep(function), self._sites(), state)
        self._block = function(self.block, state, map)[0]
        return cast("Sums", sums)

    def say(self, function: SliceWork, state: Any) -> Sums:
        """Apply a function to all slices of the samples without changing them; return its total.

        The total is over the sums that the function returns.
        """
        work = SliceStep(function, renews=False)
        _, sums = self.data.update(self._here, work, self._sites(), state)
        return cast("Sums", sums)

    def sample(self, features: Index, then: SliceWork, asked: Any) -> Sums:
        """Load values of sampled features into slices of the samples, then apply a function.

        `then` is the function, and `asked` is its argument. Returns the total of its sums over the
        slices.
        """
        sites = self._sites(self.data.jobs(features))
        state = Sampling(Values(np.float32), self.data.rows, self.marks.rows, asked)
        self._held, (self._block, sums) = self.data.update(
            self._here, TakeSample(then), sites, state
        )
        self.sampled = features
        return cast("Sums", sums)

    def ask(self, question: Callable[[Slice, Any], Any], state: Any) -> Iterator[Any]:
        """Evaluate a function on every slice of the samples, and yield the results in order."""
        functions = [question] * len(self._sites())
        return self.data.query(self._here, answer, functions, state)

    def gather(self, question: Callable[[Slice, Any], Any], state: Any, make: Make) -> Any:
        """Evaluate a function on every slice of the samples; `make` combines the results."""
        functions = [question] * len(self._sites())
        return self.data.runtime.gather(self._here, answer, functions, state, make)

    @property
    def _here(self) -> SiteValues:
        """Return the stored slices of the samples on the current runtime, after pending removals.

        Slices move to this process if the features have moved there.
        """
        self.settle()
        if self._held is None:
            self.clear()
            assert self._held is not None, "slices have begun"
        if self._runtime is not self.data.runtime:
            functions = [itself] * len(self._sites())
            self._held = SiteValues(list(self._runtime.query(self._held, answer, functions, None)))
            self._runtime = self.data.runtime
        return self._held

    @property
    def n_slices(self) -> int:
        """Number of slices (groups of neighbouring samples whose arrays one worker stores)."""
        return len(self._sites())

    def _sites(self, jobs: Jobs = ()) -> list[Site]:
        """Return the owners of the stored values: one site per slice of the samples.

        Each site has the `jobs`, restricted to its samples (see `dhsic.runtime.base`). There is a
        single slice if all samples are landmarks.
        """
        if len(self._cuts) == 1 or self.chosen.is_everyone:
            return [Site(tuple(jobs), slice(0, self._m))]
        return [Site(tuple(replace(job, samples=s) for job in jobs), s) for s in self._cuts]

    @property
    def marks(self) -> LandmarkSet:
        """Landmarks that slices of the samples use: for low-rank factors, and to check errors."""
        chosen = self.chosen
        if not chosen.is_everyone:
            return chosen
        rows = np.union1d(chosen.fit, chosen.check)
        fit, check = np.searchsorted(rows, chosen.fit), np.searchsorted(rows, chosen.check)
        return LandmarkSet(rows, fit, check, self._m)

    @property
    def block(self) -> Slice:
        """Slice that contains only the landmarks and stays in this process.

        Pending removals of features are subtracted from it, even if the slices are not updated yet.
        """
        if self._block is None:
            self.clear()
            assert self._block is not None, "slices have begun"
        return self._block if self._leaving is None else self._without(self._leaving[0])

    def _without(self, features: Index) -> Slice:
        """Slice that contains only the landmarks, after removal of `features`."""
        assert self._ends is not None, "there are many slices"
        assert self._block is not None, "slices have begun"
        of, ends = self._ends
        landmark_ends = ends.take(positions(features, of))
        tile = Tile(
            landmark_ends.raw, self.data.source.missing_code, self.data.scaling.take(features)
        )
        with single_blas_thread():
            X = tile.values(np.float64)
            sums = self._block.sums - np.column_stack([X, landmark_ends.sums]).T @ X
        norms = self._block.norms - np.vecdot(X.T, X.T)
        return replace(self._block, sums=sums, norms=norms, F={})

    @property
    def is_behind(self) -> bool:
        """Whether the slices of the samples still have to subtract some removed features."""
        return self._leaving is not None

    def settle(self, then: SliceWork | None = None, asked: Any = None) -> Sums:
        """Subtract removed features in all slices of the samples, then apply a function.

        `then` is the function, and `asked` is its argument. Returns the total of its sums over the
        slices.
        """
        if self._leaving is None:
            return {}
        (features, remaining), self._leaving = self._leaving, None
        sums = self._renew(features, then=then, asked=asked)
        self.data.compact(remaining)
        return sums

    # -- features ------------------------------------------------------------------------------

    def start(self, features: Index, taken: Any) -> None:
        """Initialise with all features that vary; `taken` is the result of `first_pass`."""
        if self.chosen.is_everyone:
            self.restart(features)
        elif len(self._sites()) > 1:
            self._ends = features, Ends.join(taken).take(features)
            self._renew(features, anew=True)
            self.begin(features)
        else:
            self._renew(sums=taken, anew=True)
            self.begin(features)

    def clear(self) -> None:
        self._renew(anew=True)

    def add(self, features: Index) -> None:
        """Add features to the sum, reading their values one block at a time."""
        for Z in self.data.map_blocks(Values(), self.data.jobs(features)):
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
        if self._leaving is not None:  # slices are reset anyway
            self.data.compact(S)
        self._square = self._ends = self._leaving = None
        if self.chosen.is_everyone:
            self._square = self._all(S)
            self._renew(sums=self._of_square(), anew=True)
        else:
            if len(self._sites()) > 1:
                ends = self.data.sum_results(self._take_ends, self.data.jobs(S))
                self._ends = S, Ends.join(ends)
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
        """Change the sums in slices by `features`, or by given sums or values (see `Renewal`).

        The `features` are read and subtracted. If `anew`, slices are reset first and contain only
        `features`. Afterwards slices apply `then` to the argument `asked`. Returns the sums of
        `then`, added over slices.
        """
        summed = LandmarkSums(self.chosen.rows, self._directions)
        jobs: list[Job] = []
        if features is not None:
            tags = None
            if self._ends is not None:
                of, ends = self._ends
                summed = LandmarkSums(self.chosen.rows, ends=ends.take(positions(features, of)))
                tags = np.arange(features.size)
            jobs = grouped(self.data.jobs(features, tags=tags), WORTH_MANY)
        W = self._weights if anew else None
        renewal = Renewal(summed, self.data.rows, self.marks.rows, sums, values, W, asked)
        if anew:
            self.sampled, self._runtime = None, self.data.runtime
        previous = None if anew else self._here
        sites, step = self._sites(jobs), RenewSums(then)
        self._held, (self._block, results) = self.data.update(previous, step, sites, renewal)
        return cast("Sums", results)

    def _all(self, features: Index) -> Float:
        jobs = grouped(self.data.jobs(features), WORTH_SQUARES)
        return cast("Float", self.data.sum_results(AllSums(), jobs))

    def _of_square(self) -> InnerProducts:
        """Compute the sums for the landmarks from the inner products of all samples, (m, m).

        Returns three arrays: the inner products of all samples with the landmarks, their products
        with the directions of the low-rank label weights W, and squared norms.
        """
        square, rows = self._square, self.marks.rows
        assert square is not None, "every sample is a landmark"
        above = np.arange(self._m) >= rows[:, None]
        inner = np.where(above, square[rows], square[:, rows].T)
        F, norms = self._weights.F, np.diagonal(square).copy()
        products = F.T @ square + (square @ F).T - F.T * norms  # the lower triangle is 0
        return np.concatenate([inner, products]), norms

    def grow(self, S: Index, *, to_everyone: bool) -> bool:
        """Recompute the sum over S with twice the landmarks, or with all samples (`to_everyone`).

        Returns False if the number of landmarks cannot grow. If the initial number was halved (see
        `MANY_FEATURES`), it is first set to the full initial number, even with `to_everyone`.
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
        """Whether the initial number of landmarks was halved (see `MANY_FEATURES`)."""
        return len(self.chosen.fit) < first_number(self._m) and not self.chosen.is_everyone

    def replay_rounds(self, survivors: Sequence[Index], n_rows: Sequence[int]) -> None:
        """Repeat completed rounds (see `replay`); `n_rows` is the number of landmarks per round."""
        grown = []
        for number, n in enumerate(n_rows):
            if n != len(self.chosen.rows):
                self.chosen = self._of_rows(n)
                grown.append(number)
        self.replay(survivors, grown)
        self.settle()

    def _of_rows(self, n_rows: int) -> LandmarkSet:
        """Create the landmark set that has `n_rows` landmarks, including check rows."""
        n = first_number(self._m) // (1 if n_rows == self._m else 2)
        while n_rows < self._m and len(LandmarkSet.of(self._m, n, self._seed).rows) < n_rows:
            n *= 2
        return LandmarkSet.of(self._m, n, self._seed, everyone=n_rows == self._m)

    def _landmarks_at(self, which: Index) -> Landmarks:
        parts = [*self.ask(rows_and_norms, which)]
        inner = np.concatenate([part for part, _ in parts], axis=1)
        return Landmarks(
            inner, np.concatenate([norms for _, norms in parts]), self.marks.rows[which]
        )


def sample_slices(m: int, source: AbstractSource) -> list[slice]:
    """Split m samples into slices (ranges) of nearly equal size, at least `SLICE` samples each.

    There is one slice if the source cannot read some of the samples alone.
    """
    n = max(1, m // SLICE)
    is_indivisible = (
        source.stored_samples(np.arange(1)) >= source.n_samples and not source.in_memory
    )
    edges = np.linspace(0, m, (1 if is_indivisible else n) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]
