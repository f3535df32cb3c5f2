"""What a run will do and need, from its sizes alone: which engines, and how much memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic.engines.final import FAMILIES
from dhsic.kernels import check_approx
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import MOST_DECOMPOSED
from dhsic.linalg.quadratic import PANEL, form_flops
from dhsic.memory import (
    VECTORS,
    MemoryEstimate,
    fitted,
    resident_bytes,
    square_bytes,
    task_bytes,
)
from dhsic.passes.execution import HOME_BYTES
from dhsic.passes.landmarks import LandmarkSums, check_number, first_number, most_number
from dhsic.passes.lowrank import ALWAYS_EXACT, CHEAP, MOST_SAMPLES, flops_of_round, sample_size
from dhsic.passes.reader import COMPACT_BYTES, COMPACTING, block_bytes
from dhsic.passes.sums import FEW_LEAVING, SQUARE_EPOCH
from dhsic.passes.task import TILES, Cost, Sum, exact_tile
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources import AbstractSource

#: Matrices of low rank, b x m in float64 (statistic, kernel rows, factors), and copies of the
#: sample of its certificate in float32.
LOW_RANK, SAMPLES = 4, 4


@dataclass(frozen=True)
class EnginePlan:
    """Engines of a run.

    Attributes
    ----------
    is_low_rank : bool
        Low rank at first.
    eager : bool
        Exact as soon as that is cheap.
    may_square : bool
        Whether m x m matrices may be made.
    """

    is_low_rank: bool
    eager: bool
    may_square: bool

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
        return EnginePlan(low_rank, approx == "auto", not low_rank or m <= MOST_SAMPLES)

    def n_landmarks(self, m: int) -> int:
        """Most landmarks in low rank, check rows included, before it is all samples."""
        n = first_number(m)
        while 2 * n <= most_number(m) and not self.may_square:
            n *= 2
        return min(m, n + check_number(m)) if self.is_low_rank else 0

    def costs(self, kernel: AbstractKernel, m: int) -> list[Cost]:
        """Of passes that a run may come to."""
        exact = [Sum(kernel.sums).cost(m), exact_scoring(kernel, m)] if self.may_square else []
        rows = np.arange(self.n_landmarks(m))
        return [*exact, LandmarkSums(rows).cost(m)] if rows.size else exact


def exact_scoring(
    kernel: AbstractKernel, m: int, products: float = 1.0, dtype: str = "float32"
) -> Cost:
    """Of a pass by the exact engine with so many products of a feature.

    A triangle is sent for each base of an expansion that has an order of its own.
    """
    family = FAMILIES[kernel.scored_by]
    triangle, flops = m * (m + PANEL) // 2 + m, form_flops(m) * products
    return Cost(
        float32=flops if dtype == "float32" else 0.0,
        float64=flops if dtype == "float64" else 0.0,
        values=m,
        state=(kernel.exact_order or 1) * np.dtype(dtype).itemsize * triangle,
        tile=max(exact_tile(m, family.tiles or TILES), 8 * family.squares * m * m),
    )


def memory_of(
    plan: EnginePlan,
    source: AbstractSource,
    runtime: AbstractRuntime,
    kernel: AbstractKernel,
    m: int,
    limit: int | None,
) -> tuple[MemoryEstimate, int | None]:
    """Memory that a run will need at most, and how much of it survivors get if that is less."""
    stored = m * source.n_features * np.dtype(source.dtype).itemsize

    costs, n_landmarks = plan.costs(kernel, m), plan.n_landmarks(m)
    tile, result = max(cost.tile for cost in costs), max(cost.result for cost in costs)
    sampled = sample_size(m) * m if n_landmarks else 0
    tasks = task_bytes(runtime.n_here, block_bytes(source, m), tile, result)

    bases = FAMILIES[kernel.scored_by].bases or kernel.exact_order or 1

    def promised(budget: int) -> MemoryEstimate:
        held = min(stored, HOME_BYTES if runtime.is_remote else budget)
        # Survivors are copied when so few are left; those that leave are in memory besides.
        copied = held // (COMPACTING if plan.is_low_rank else SQUARE_EPOCH)
        return MemoryEstimate(
            process=resident_bytes(),
            squares=square_bytes(m, bases) if plan.may_square else 0,
            survivors=held + copied + FEW_LEAVING * m * 8,
            vectors=VECTORS * 8 * source.n_features,
            landmarks=LOW_RANK * 8 * n_landmarks * m + SAMPLES * 4 * sampled,
            **tasks,
        )

    return fitted(promised, COMPACT_BYTES, stored, limit)
