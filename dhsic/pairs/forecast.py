"""What a scan of pairs will take, from sizes alone: products, tiles, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic.errors import MemoryBudgetError
from dhsic.memory import SLACK_BYTES, VECTORS, available_bytes, human, resident_bytes
from dhsic.pairs.scan import n_pairs_of
from dhsic.pairs.tiles import STRIP_ENTRIES, run_width
from dhsic.passes.reader import COMPACT_BYTES

#: Copies of a run in float32 that a task holds of each side: as read, as it is standardised, X, and
#: lifted for the screen; P besides where more than the mean is taken out. And arrays of a strip.
COPIES, STRIPS = 4, 20


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a scan will take.

    Attributes
    ----------
    n_pairs, n_tiles : int
        Pairs of all features, and tasks that they are cut into.
    flops, permuted_flops : float
        Of matrix products in float32, for the scan and for its permutations.
    values : float
        Values that are read and standardised, each as often as tiles need it.
    task_bytes, kept_bytes : int
        Memory of a task, and of what is kept of the features while the scan lasts.
    n_tasks : int
        Tasks at once in this process.
    """

    n_pairs: int
    n_tiles: int
    flops: float
    permuted_flops: float
    values: float
    task_bytes: int
    kept_bytes: int
    n_tasks: int

    @classmethod
    def of(
        cls,
        m: int,
        d: int,
        *,
        columns: tuple[int, int],
        permuted: tuple[int, int],
        screens: bool,
        itemsize: int,
        n_tasks: int,
    ) -> Forecast:
        """Forecast for m samples and d features.

        Parameters
        ----------
        columns : (int, int)
            Columns of labels t, and of what is taken out of them q.
        permuted : (int, int)
            Pairs that are permuted, and how often.
        screens : bool
            Whether tiles are screened, see `dhsic.pairs.tiles`.
        itemsize : int
            Bytes of a stored value.
        n_tasks : int
            Tasks at once.
        """
        (t, q), (n_permuted, n_permutations) = columns, permuted
        n_pairs, width = n_pairs_of(d), run_width(m, d)
        n_runs, fit = -(-d // width), 4 + q
        run_bytes = (COPIES + (q > 1)) * 4 * m * width
        state = 4 * m * t * (n_permutations + 1) if n_permuted else 0
        return cls(
            n_pairs,
            n_runs * (n_runs + 1) // 2,
            2.0 * m * n_pairs * (t if screens else t + fit),
            2.0 * m * n_permuted * (t * (n_permutations + 1) + fit),
            float(m) * d * (n_runs + 1),
            2 * run_bytes + 4 * STRIPS * STRIP_ENTRIES + state,
            min(COMPACT_BYTES, m * d * itemsize) + 8 * VECTORS * d,
            n_tasks,
        )

    @property
    def peak_bytes(self) -> int:
        """Memory of this process at most."""
        return resident_bytes() + SLACK_BYTES + self.bytes_beside

    @property
    def bytes_beside(self) -> int:
        """Memory besides what the process holds before."""
        return self.kept_bytes + self.n_tasks * self.task_bytes

    def check(self, limit: Any) -> None:
        """Refuse what does not fit in `limit` bytes, by default in what is available."""
        allowed = available_bytes() + resident_bytes() if limit is None else int(limit)
        if self.peak_bytes > allowed:
            raise MemoryBudgetError(
                f"A scan of pairs needs {human(self.peak_bytes)} ({human(self.task_bytes)} for "
                f"each of {self.n_tasks} tasks at once), and there are {human(allowed)}; use fewer "
                "threads, or raise the limit (memory=)."
            )

    def seconds(self, flops_a_second: float, values_a_second: float, n: int) -> float:
        """Time on n threads, each of such rates."""
        products = (self.flops + self.permuted_flops) / flops_a_second
        at_once = min(n, self.n_tiles)
        return float(np.float64(products + self.values / values_a_second) / at_once)
