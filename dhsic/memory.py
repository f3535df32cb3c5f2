"""Memory estimates: peak memory of a run, computed from its sizes before the work begins."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dhsic.errors import MemoryBudgetError

#: Number of (m, m) float64 matrices of the exact engine at its peak: L, W, G, and a full copy of G
#: for scoring by definition. And number per base of the expansion: A, and half of A in float64 and
#: in float32.
SQUARES, SQUARES_PER_BASE = 4, 1.75
#: Number of float64 arrays per feature: the scaling (8), scores, order and temporaries of sorting,
#: copies of checksums for a checkpoint, and more columns of the result (4).
VECTORS = 24
#: Number of copies of a block while it is decoded and processed.
COPIES = 5
#: Reserve for the allocator, buffers of BLAS, and modules that libraries load on first use.
SLACK_BYTES = 96 << 20
#: Bytes that survivors leave of the limit, because modules are imported after the estimate.
GROWTH = 64 << 20
#: Memory of a Dask worker process with dhsic loaded; and number of states that it keeps: of this
#: round and of the last one.
PROCESS_BYTES, STATES = 240 << 20, 2
#: Maximum number of (m, m) matrices in a state: W and G, for scoring by definition. And a state has
#: at most 1 / OF_LOW_RANK of the bytes of the driver's low-rank matrices.
SQUARES_SENT, OF_LOW_RANK = 2, 8


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """Memory limit of a worker in bytes (None: unlimited), and its number of threads.

    `said_by` is the origin of the limit, for messages.
    """

    limit: int | None = None
    n_threads: int = 1
    said_by: str = ""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Peak memory of a run, in the client process or in a worker, in bytes by purpose."""

    process: int  # memory of the process before the run
    squares: int = 0  # (m, m) matrices of the driver
    tasks: int = 0  # blocks, tiles and partial sums of running tasks
    survivors: int = 0  # survivors kept in memory
    vectors: int = 0  # arrays with an entry per feature
    landmarks: int = 0  # low-rank matrices, and the feature sample that certifies them
    states: int = 0  # states sent to a worker, of this round and the last one
    blocks: int = 0  # the part of `tasks` that depends on the width of blocks

    @property
    def total(self) -> int:
        """Total peak memory."""
        caches = self.survivors + self.vectors + self.landmarks + self.states
        return self.process + SLACK_BYTES + self.squares + self.tasks + caches

    def __str__(self) -> str:
        parts = {
            "m x m matrices": self.squares,
            "landmarks": self.landmarks,
            "running tasks": self.tasks,
            "broadcast states": self.states,
            "survivors": self.survivors,
            "features": self.vectors,
            "the process": self.process + SLACK_BYTES,
        }
        by_purpose = ", ".join(f"{human(size)} for {what}" for what, size in parts.items() if size)
        return f"at most {human(self.total)} ({by_purpose})"

    def of_runs(self, n: int, beside: int = 0) -> MemoryEstimate:
        """Return the estimate for n such runs at once, which share the surviving features.

        `beside` bytes are added for other data in memory at the same time.
        """
        return replace(
            self,
            squares=n * self.squares,
            tasks=n * self.tasks,
            survivors=self.survivors + beside,
            vectors=n * self.vectors,
            landmarks=n * self.landmarks,
        )

    def on_worker(
        self, limit: int | None, m: int, survivors: int, state_bytes: int | None
    ) -> MemoryEstimate:
        """Return the estimate for a worker with the same number of threads as this process.

        The worker keeps up to `survivors` bytes of surviving features, as far as the limit allows.
        `state_bytes` is the size of the state of a round. If it is None, the matrices of this
        process give an upper bound.
        """
        if state_bytes is None:
            squares = SQUARES_SENT * 8 * m * m if self.squares else 0
            state_bytes = max(squares, self.landmarks // OF_LOW_RANK)
        states = STATES * state_bytes
        needed = MemoryEstimate(PROCESS_BYTES, tasks=self.tasks, states=states, blocks=self.blocks)
        survivor_budget = (
            survivors if limit is None else max(0, min(survivors, limit - needed.total))
        )
        return replace(needed, survivors=survivor_budget if self.survivors else 0)

    def allowed(self, limit: int | None) -> int:
        """Memory that the process may use: `limit`, or by default the available memory."""
        return available_bytes() + self.process if limit is None else limit

    def check(self, limit: int | None, smaller: str = "use fewer samples") -> None:
        """Raise an error if the run does not fit in this process.

        For `limit`, see `allowed`. The error message contains `smaller`, the advice on how to
        reduce (m, m) matrices.
        """
        allowed = self.allowed(limit)
        if self.total <= allowed:
            return
        squares, half = self.squares + self.tasks, (self.total - self.process) / 2
        remedy = f"{smaller}, or fewer threads" if squares > self.survivors else "use fewer threads"
        advice = ""
        if self.blocks > half:
            advice = (
                " Most of it holds a few blocks per thread: rewrite the store with narrower chunks "
                "(see dhsic inspect), or use fewer threads."
            )
        elif squares - self.blocks > half:
            advice = f" Most of it holds m x m matrices: {smaller}."
        raise MemoryBudgetError(
            f"The peak memory of this run is {self}, but the limit is {human(allowed)}; {remedy}, "
            f"or raise the limit (memory_limit=).{advice}"
        )

    def check_worker(self, memory: WorkerMemory, smaller: str) -> None:
        """Raise an error if the run does not fit in a worker; for `smaller` see `check`."""
        if memory.limit is None or self.total <= memory.limit:
            return
        process, squares = self.process + SLACK_BYTES, self.states + self.tasks - self.blocks
        n = memory.n_threads
        give = f"give workers fewer threads, or {human(self.total)}" if n > 1 else ""
        if self.blocks >= max(squares, process):
            narrower = "rewrite the store with narrower chunks (see dhsic inspect)"
            remedy = f"{narrower}, or {give or 'give workers more memory'}"
        elif squares >= process:
            remedy = f"{smaller}, or {give or 'give workers more memory'}"
        else:
            remedy = f"give workers {human(self.total)}"
        raise MemoryBudgetError(
            f"A worker with {f'{n} threads' if n > 1 else 'one thread'} needs {self}, but its "
            f"limit is {human(memory.limit)} ({memory.said_by}); {remedy}."
        )


def square_bytes(m: int, n_bases: int) -> int:
    """Return the bytes of the (m, m) matrices of an exact run; the kernel has `n_bases` bases."""
    return int(8 * m * m * (SQUARES + SQUARES_PER_BASE * n_bases))


def task_bytes(
    n_threads: int, block: int, tile: int, result: int = 0, n_results: int = 1
) -> dict[str, int]:
    """Return the fields `tasks` and `blocks` of a `MemoryEstimate` for `n_threads` tasks at once.

    All sizes are in bytes. Each task has `COPIES` copies of a block of `block` bytes, and `tile`
    further bytes. A tree adds `n_results` results of `result` bytes, and keeps one per level.
    """
    blocks = n_threads * COPIES * block
    results = min(n_results, n_threads + 2 + n_results.bit_length())
    return {"tasks": blocks + n_threads * tile + results * result, "blocks": blocks}


def fit_budget(
    promised: Callable[[int], MemoryEstimate], most: int, room: int, limit: int | None
) -> tuple[MemoryEstimate, int | None]:
    """Fit the budget for surviving features into memory; return the estimate and the budget.

    The budget is in bytes; it is None, unlimited, if `most` bytes fit. `promised` returns the
    estimate for a budget, and the features need at most `room` bytes. Features that exceed the
    budget are written to scratch files; the result is the same. For `limit`, see
    `MemoryEstimate.allowed`.
    """
    needed = promised(most)
    excess = needed.total - needed.allowed(limit)
    if excess <= 0:
        return needed, None
    budget = max(0, min(most, room) - excess - GROWTH)
    return promised(budget), budget


def resident_bytes() -> int:
    """Return the current resident memory of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return int(_this_process().rss)
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Return the peak resident memory of this process so far.

    It is read from /proc if possible, because `getrusage` includes the parent process.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # no /proc
    try:
        import resource
    except ImportError:  # Windows
        return int(_this_process().peak_wset)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) * (1 if sys.platform == "darwin" else 1024)


def _this_process() -> Any:
    import psutil

    return psutil.Process().memory_info()


def release_pages() -> None:
    """Return freed memory to the system; glibc would keep arrays of up to 32 MiB for reuse."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)


def available_bytes() -> int:
    """Return the memory in bytes that this process can still allocate.

    It is the minimum of what the machine, the container and the limit of the process allow.
    """
    return max(0, min([_machine(), *_containers(), *_limits()]))


def _machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux
    import psutil

    return int(psutil.virtual_memory().available)


def _limits() -> list[int]:
    """Return a list with the bytes left in the limited address space; empty without a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return [] if limit == resource.RLIM_INFINITY else [limit - _virtual_bytes()]


def _containers() -> list[int]:
    """Return a list with the bytes left under each limit of control groups (versions 2 and 1)."""
    out = []
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        root = Path("/sys/fs/cgroup")
        try:
            out.append(int((root / limit).read_text()) - int((root / used).read_text()))
        except (OSError, ValueError):  # not mounted, or "max"
            continue
    return out


def _virtual_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resident_bytes()


def human(n: float) -> str:
    """Format a number of bytes, in powers of ten.

    >>> human(1_234_000_000)
    '1.2 GB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n < 999.5:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
