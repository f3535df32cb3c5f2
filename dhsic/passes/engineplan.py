"""Choice of the engines of a run, from data sizes alone; it is the same on all machines.

Each round is exact or in low rank: whichever is cheaper and accurate enough. An exact round costs
``2 m^2 |S|`` flops for m samples and |S| features, plus half as many for its statistic; low rank
costs almost nothing. So a run with many features begins in low rank, and the exact engine takes
over once it is cheap. From then on scores may be reused between rounds
(`dhsic.passes.score_reuse`). The last rounds, with few features, are not approximated at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic.engines.exact_scoring import FAMILIES
from dhsic.kernels import check_solver
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_parts import MOST_DECOMPOSED
from dhsic.memory import (
    VECTORS,
    MemoryEstimate,
    fit_budget,
    resident_bytes,
    square_bytes,
    task_bytes,
)
from dhsic.passes import Cost, Sum
from dhsic.passes.jobs import block_bytes, n_partials
from dhsic.passes.landmark_sampling import check_number, first_number, most_number, sample_size
from dhsic.passes.landmarks import WORTH_SQUARES, sample_slices
from dhsic.passes.projection import bytes_held
from dhsic.passes.reader import COMPACT_BYTES, COMPACTING
from dhsic.passes.score import scoring_cost
from dhsic.passes.score_reuse import SQUARES as LAZY_SQUARES
from dhsic.passes.score_reuse import fewest, may_be_lazy
from dhsic.passes.statistic import AllSums, LandmarkSums
from dhsic.passes.sums import FEW_LEAVING, SquareSum
from dhsic.passes.survivors import HOME_BYTES
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources import AbstractSource

#: Maximum flops of an exact round, a few seconds, at which rounds are always exact.
CHEAP = 5e10
#: Maximum number of samples for which (m, m) matrices are made in the middle of a run.
MOST_SAMPLES = 6000
#: Maximum number of features at which rounds are always exact: K has many directions, each error
#: matters, and exact scores are cheap.
ALWAYS_EXACT = 1024
#: float64 numbers per sample in the client process while slices are on workers: labels, rows of W,
#: and kernel rows that measure drift. The second number applies if there is no shared folder
#: through which workers exchange directions, so that they pass through the client.
OF_SAMPLE, WITH_DIRECTIONS = 64, 192
#: Number of (b, m) float64 matrices of a low-rank round with b landmarks (statistic, kernel rows,
#: factors), and of float32 copies of the feature sample that certifies rounds.
LOW_RANK, SAMPLES = 4, 4


def flops_of_round(m: int, n_features: int) -> float:
    """Floating-point operations of an exact round over m samples and `n_features` features.

    They include the updates of the inner products of samples.
    """
    return 2.3 * m * m * n_features


def exact_takes_over(m: int, n_features: int, *, eager: bool) -> bool:
    """Whether a round with `n_features` should be exact, if exact rounds are allowed.

    With `eager`, rounds are exact as soon as this is cheap.
    """
    cheap = flops_of_round(m, n_features) <= CHEAP
    return n_features <= ALWAYS_EXACT or (eager and cheap)


@dataclass(frozen=True)
class EnginePlan:
    """Plan of a run: the rounds that are exact, and the rounds that use low rank."""

    is_low_rank: bool  # whether the first round is in low rank
    eager: bool  # whether rounds become exact as soon as that is cheap
    may_square: bool  # whether (m, m) matrices may be made
    is_lazy: bool = False  # whether exact rounds may reuse gains of earlier ones

    @staticmethod
    def of(
        solver: str, kernel: AbstractKernel, m: int, d: int, label_kernel: str = "auto"
    ) -> EnginePlan:
        """Plan the engines of a run with m samples and d features.

        ``solver="auto"`` begins in low rank if an exact round is expensive, or if (m, m) matrices
        would be too large. An additive kernel needs only one round; it begins in low rank if ten
        rounds would be expensive. Low rank is never used with labels that cannot be factored, or
        with kernels that do not support it. The choice depends on sizes and not on the memory of
        the machine, so that results are the same everywhere.
        """
        check_solver(kernel, solver)
        rounds = 0.1 if kernel.is_additive else 1.0
        wide = rounds * flops_of_round(m, d) > CHEAP and d > ALWAYS_EXACT
        able = kernel.low_rank and (label_kernel != "precomputed" or m <= MOST_DECOMPOSED)
        low_rank = solver == "lowrank" or (solver == "auto" and able and (wide or m > MOST_SAMPLES))
        eager, may_square = solver == "auto", not low_rank or m <= MOST_SAMPLES
        is_lazy = eager and may_square and d > ALWAYS_EXACT and may_be_lazy(kernel)
        return EnginePlan(low_rank, eager, may_square, is_lazy)

    def exact_from(self, m: int) -> int:
        """Number of features up to which rounds are exact after approximate rounds.

        It is 0 if no round becomes exact.
        """
        if self.is_lazy and not self.is_low_rank:
            return fewest(m)
        cheap = int(CHEAP / flops_of_round(m, 1)) if self.eager and not self.is_lazy else 0
        return max(ALWAYS_EXACT, cheap) if self.may_square else 0

    def n_landmarks(self, m: int) -> int:
        """Maximum number of landmarks for m samples; 0 if all rounds are exact.

        The number includes landmarks that are used only to check errors (check rows). It does not
        apply if all samples become landmarks.
        """
        n = first_number(m)
        while 2 * n <= most_number(m) and not self.may_square:
            n *= 2
        return min(m, n + check_number(m)) if self.is_low_rank else 0

    def _takes_over(self, m: int, d: int) -> int:
        """Largest number of features at which the exact engine takes over."""
        cheap = int(CHEAP / flops_of_round(m, 1)) if self.eager else 0
        return min(d, max(ALWAYS_EXACT, cheap)) if self.is_low_rank else d

    def costs(self, kernel: AbstractKernel, m: int, d: int) -> list[tuple[Cost, int]]:
        """Costs of the passes that a run may need, each with the number of results to add up."""
        pass_costs = []
        if self.may_square:
            few = n_partials(self._takes_over(m, d))
            pass_costs += [(Sum(kernel.sums).cost(m), few), (scoring_cost(kernel, m), 1)]
        rows = np.arange(self.n_landmarks(m))
        if rows.size:
            pass_costs.append((LandmarkSums(rows).cost(m), n_partials(d)))
        if rows.size and self.may_square:
            pass_costs.append((AllSums().cost(m), n_partials(d, WORTH_SQUARES)))
        return pass_costs

    def _squares(self, m: int, n_bases: int) -> int:
        """Bytes of the (m, m) matrices of a run.

        The series of the kernel has `n_bases` terms with such a matrix.
        """
        if not self.may_square:
            return 0
        return square_bytes(m, n_bases) + 4 * LAZY_SQUARES * m * m * self.is_lazy

    def _of_slices(
        self, source: AbstractSource, runtime: AbstractRuntime, m: int
    ) -> MemoryEstimate:
        """Estimate the memory of the client process if workers store the arrays over samples.

        Each worker stores slices: arrays over some of the samples.
        """
        numbers = WITH_DIRECTIONS if runtime.shared_folder is None else OF_SAMPLE
        d, itemsize = source.n_features, np.dtype(source.dtype).itemsize
        ends = itemsize * self.n_landmarks(m) * d  # feature values at landmarks, sent to slices
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
        """Estimate the peak memory of a run, and the memory budget of surviving features.

        The budget is in bytes. It is None if the run stays within `limit` bytes without a smaller
        budget.
        """
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
            survivor_bytes = min(stored, HOME_BYTES if runtime.is_remote else budget)
            # Survivors move within one array; features removed since then are held in addition.
            copy_ratio = COMPACTING if self.is_low_rank else SquareSum.epoch
            copied = survivor_bytes // copy_ratio if runtime.is_remote else 0
            projects = self.is_low_rank and not kernel.is_additive
            numbers = bytes_held(kernel, d) if projects else 0
            return MemoryEstimate(
                process=resident_bytes(),
                squares=self._squares(m, n_bases),
                survivors=survivor_bytes + copied + FEW_LEAVING * m * 8,
                vectors=VECTORS * 8 * d + numbers,
                landmarks=LOW_RANK * 8 * n_landmarks * m + SAMPLES * 4 * sampled,
                **tasks,
            )

        return fit_budget(promised, COMPACT_BYTES, stored, limit)
