"""Which engines score a run: decided by its sizes, so that it is the same on all machines.

Exact or low rank, round by round: the cheaper one that is good enough. A round by the exact engine
costs ``2 m^2 |S|`` flops, and its statistic as many as half a round; in low rank both are nearly
free. So a wide matrix begins in low rank, and the exact engine takes over where it has become
cheap. From there on scores may be kept from round to round (`dhsic.passes.lazy`), and with a few
features left nothing is approximated any more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic.engines.final import FAMILIES
from dhsic.kernels import check_approx
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_parts import MOST_DECOMPOSED
from dhsic.memory import VECTORS, MemoryEstimate, fitted, resident_bytes, square_bytes, task_bytes
from dhsic.passes import Cost, Sum
from dhsic.passes.drawn import check_number, first_number, most_number, sample_size
from dhsic.passes.jobs import block_bytes, n_partials
from dhsic.passes.landmarks import WORTH_SQUARES, sample_slices
from dhsic.passes.lazy import SQUARES as LAZY_SQUARES
from dhsic.passes.lazy import fewest, may_be_lazy
from dhsic.passes.projection import bytes_held
from dhsic.passes.reader import COMPACT_BYTES, COMPACTING
from dhsic.passes.score import scoring_cost
from dhsic.passes.statistic import AllSums, LandmarkSums
from dhsic.passes.sums import FEW_LEAVING, SquareSum
from dhsic.passes.survivors import HOME_BYTES
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources import AbstractSource

#: Flops of a round by the exact engine: up to here it is always taken, seconds at most.
CHEAP = 5e10
#: m x m matrices in the middle of a run: up to so many samples.
MOST_SAMPLES = 6000
#: Up to so many features left K has many directions, one wrong one counts, and exact is cheap.
ALWAYS_EXACT = 1024
#: float64 numbers of a sample that the process which asks has where slices are on workers: labels,
#: rows of W, and those of the kernel that tell turns. And where there is no folder in which workers
#: leave directions for each other, so that these come here.
OF_SAMPLE, WITH_DIRECTIONS = 64, 192
#: Matrices of low rank, b x m in float64 (statistic, kernel rows, factors), and copies of the
#: sample of its certificate in float32.
LOW_RANK, SAMPLES = 4, 4


def flops_of_round(m: int, n_features: int) -> float:
    """Flops of a round by the exact engine, its share of the statistic included."""
    return 2.3 * m * m * n_features


def exact_takes_over(m: int, n_features: int, *, eager: bool) -> bool:
    """Whether a round of so many features is for the exact engine, where that may be used."""
    cheap = flops_of_round(m, n_features) <= CHEAP
    return n_features <= ALWAYS_EXACT or (eager and cheap)


@dataclass(frozen=True)
class EnginePlan:
    """Engines of a run."""

    is_low_rank: bool  # at first
    eager: bool  # exact as soon as that is cheap
    may_square: bool  # whether m x m matrices may be made
    is_lazy: bool = False  # whether rounds of the exact engine may keep gains of others

    @staticmethod
    def of(
        approx: str, kernel: AbstractKernel, m: int, d: int, label_kernel: str = "auto"
    ) -> EnginePlan:
        """Plan of a run with m samples and d features.

        ``approx="auto"`` begins in low rank where a round by the exact engine is not cheap (for a
        kernel that takes one round, ten of them), and wherever m x m matrices would be too large;
        never with labels that cannot be factored or a kernel that low rank does not know. It goes
        by the sizes alone and not by the memory that is there: a run is the same on all machines.
        """
        check_approx(kernel, approx)
        rounds = 0.1 if kernel.is_additive else 1.0
        wide = rounds * flops_of_round(m, d) > CHEAP and d > ALWAYS_EXACT
        able = kernel.low_rank and (label_kernel != "precomputed" or m <= MOST_DECOMPOSED)
        low_rank = approx == "lowrank" or (approx == "auto" and able and (wide or m > MOST_SAMPLES))
        eager, may_square = approx == "auto", not low_rank or m <= MOST_SAMPLES
        is_lazy = eager and may_square and d > ALWAYS_EXACT and may_be_lazy(kernel)
        return EnginePlan(low_rank, eager, may_square, is_lazy)

    def exact_from(self, m: int) -> int:
        """So many features left are scored exactly, and fewer, after others; or 0."""
        if self.is_lazy and not self.is_low_rank:
            return fewest(m)
        cheap = int(CHEAP / flops_of_round(m, 1)) if self.eager and not self.is_lazy else 0
        return max(ALWAYS_EXACT, cheap) if self.may_square else 0

    def n_landmarks(self, m: int) -> int:
        """Most landmarks in low rank, check rows included, before it is all samples."""
        n = first_number(m)
        while 2 * n <= most_number(m) and not self.may_square:
            n *= 2
        return min(m, n + check_number(m)) if self.is_low_rank else 0

    def _takes_over(self, m: int, d: int) -> int:
        """Features left, at most, that the exact engine begins with."""
        cheap = int(CHEAP / flops_of_round(m, 1)) if self.eager else 0
        return min(d, max(ALWAYS_EXACT, cheap)) if self.is_low_rank else d

    def costs(self, kernel: AbstractKernel, m: int, d: int) -> list[tuple[Cost, int]]:
        """Costs of passes that a run may come to, and how many results each adds up."""
        found = []
        if self.may_square:
            few = n_partials(self._takes_over(m, d))
            found += [(Sum(kernel.sums).cost(m), few), (scoring_cost(kernel, m), 1)]
        rows = np.arange(self.n_landmarks(m))
        if rows.size:
            found.append((LandmarkSums(rows).cost(m), n_partials(d)))
        if rows.size and self.may_square:
            found.append((AllSums().cost(m), n_partials(d, WORTH_SQUARES)))
        return found

    def _squares(self, m: int, n_bases: int) -> int:
        """Bytes of m x m matrices."""
        if not self.may_square:
            return 0
        return square_bytes(m, n_bases) + 4 * LAZY_SQUARES * m * m * self.is_lazy

    def _of_slices(
        self, source: AbstractSource, runtime: AbstractRuntime, m: int
    ) -> MemoryEstimate:
        """Memory of who asks where slices of the samples are on workers, and stay there."""
        numbers = WITH_DIRECTIONS if runtime.shared_folder is None else OF_SAMPLE
        d, itemsize = source.n_features, np.dtype(source.dtype).itemsize
        ends = itemsize * self.n_landmarks(m) * d  # what slices are told of features
        landmarks = 8 * numbers * m + ends
        return MemoryEstimate(resident_bytes(), vectors=VECTORS * 8 * d, landmarks=landmarks)

    def memory(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        kernel: AbstractKernel,
        m: int,
        limit: int | None,
    ) -> tuple[MemoryEstimate, int | None]:
        """Memory of a run at most, and how much of it survivors get if that is less."""
        d, n_landmarks = source.n_features, self.n_landmarks(m)
        stored = m * d * np.dtype(source.dtype).itemsize
        sampled = sample_size(m) * m if n_landmarks else 0
        n_bases = FAMILIES[kernel.scored_by].bases or kernel.exact_order or 1
        block, n_here = block_bytes(source, m), runtime.n_here
        passes = [
            task_bytes(n_here, block, cost.tile, cost.result, n_results)
            for cost, n_results in self.costs(kernel, m, d)
        ]
        tasks = max(passes, key=lambda found: found["tasks"])
        if n_landmarks and runtime.is_remote and len(sample_slices(m, source)) > 1:
            return self._of_slices(source, runtime, m), None

        def promised(budget: int) -> MemoryEstimate:
            held = min(stored, HOME_BYTES if runtime.is_remote else budget)
            # Here survivors move up where they are; those that leave are in memory besides.
            apart = COMPACTING if self.is_low_rank else SquareSum.epoch
            copied = held // apart if runtime.is_remote else 0
            projects = self.is_low_rank and not kernel.is_additive
            numbers = bytes_held(kernel, d) if projects else 0
            return MemoryEstimate(
                process=resident_bytes(),
                squares=self._squares(m, n_bases),
                survivors=held + copied + FEW_LEAVING * m * 8,
                vectors=VECTORS * 8 * d + numbers,
                landmarks=LOW_RANK * 8 * n_landmarks * m + SAMPLES * 4 * sampled,
                **tasks,
            )

        return fitted(promised, COMPACT_BYTES, stored, limit)
