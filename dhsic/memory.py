"""Memory is promised before the work: the peak of a run, computed from its sizes alone."""

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

#: m x m float64 matrices of the exact engine at its peak: L, W, G, and all of G for the definition;
#: per base of the expansion A, and half of it in float64 and in float32.
SQUARES, SQUARES_PER_BASE = 4, 1.75
#: float64 arrays per feature: the scaling (8), scores, order and what sorting them takes, copies of
#: their checksums on the way to a checkpoint, and more columns of the result (4).
VECTORS = 24
#: Copies of a block while it is decoded and folded.
COPIES = 5
#: Room for the allocator, buffers of BLAS and what libraries load on first use.
SLACK_BYTES = 96 << 20
#: What a worker process of Dask holds with dhsic loaded; and states that it keeps, this round's and
#: the last one's.
PROCESS_BYTES, STATES = 240 << 20, 2
#: m x m matrices of a state at its largest: W and G, for the definition. And part of the driver's
#: matrices of low rank that a state may be.
SQUARES_SENT, OF_LOW_RANK = 2, 8


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """What a worker may have: bytes (None: as many as it likes), and tasks at once.

    `said_by` tells where the limit comes from.
    """

    limit: int | None = None
    n_threads: int = 1
    said_by: str = ""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Peak memory of a run, in the process that asks for it or in a worker, bytes by purpose."""

    process: int  # what the process holds before the run
    squares: int = 0  # m x m matrices of the driver
    tasks: int = 0  # blocks, tiles and partial sums of the tasks in flight
    survivors: int = 0  # those kept in memory
    vectors: int = 0  # per-feature arrays
    landmarks: int = 0  # matrices of low rank, and the sample that certifies them
    states: int = 0  # what a worker is sent, of this round and the last
    blocks: int = 0  # of `tasks`, what follows from how wide a block is

    @property
    def total(self) -> int:
        """Sum of all."""
        kept = self.survivors + self.vectors + self.landmarks + self.states
        return self.process + SLACK_BYTES + self.squares + self.tasks + kept

    def __str__(self) -> str:
        parts = {
            "m x m matrices": self.squares,
            "landmarks": self.landmarks,
            "tasks in flight": self.tasks,
            "what is broadcast": self.states,
            "survivors": self.survivors,
            "features": self.vectors,
            "the process": self.process + SLACK_BYTES,
        }
        told = ", ".join(f"{human(size)} for {what}" for what, size in parts.items() if size)
        return f"at most {human(self.total)} ({told})"

    def of_runs(self, n: int, beside: int = 0) -> MemoryEstimate:
        """Estimate for n such runs at once, which read survivors in one place; and more beside."""
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
        """Estimate for a worker that has as many threads as this process.

        It keeps so many bytes of `survivors` where the limit leaves them. What is broadcast is
        bounded by what the driver holds, where it is not known.
        """
        if state_bytes is None:
            squares = SQUARES_SENT * 8 * m * m if self.squares else 0
            state_bytes = max(squares, self.landmarks // OF_LOW_RANK)
        states = STATES * state_bytes
        needed = MemoryEstimate(PROCESS_BYTES, tasks=self.tasks, states=states, blocks=self.blocks)
        room = survivors if limit is None else max(0, min(survivors, limit - needed.total))
        return replace(needed, survivors=room if self.survivors else 0)

    def allowed(self, limit: int | None) -> int:
        """Bytes that the process may have: `limit`, or what is available."""
        return available_bytes() + self.process if limit is None else limit

    def check(self, limit: int | None, smaller: str = "use fewer samples") -> None:
        """Refuse what does not fit this process.

        `limit` is as of `allowed`; `smaller` says what makes m x m matrices smaller.
        """
        allowed = self.allowed(limit)
        if self.total <= allowed:
            return
        squares, half = self.squares + self.tasks, (self.total - self.process) / 2
        remedy = f"{smaller}, or fewer threads" if squares > self.survivors else "use fewer threads"
        advice = ""
        if self.blocks > half:
            advice = (
                " Most of it is for blocks, a few a thread: write the store again with narrower "
                "chunks (dhsic inspect says how), or use fewer threads."
            )
        elif squares - self.blocks > half:
            advice = f" Most of it is for m x m matrices: {smaller}."
        raise MemoryBudgetError(
            f"This run needs peak memory {self}, and there are {human(allowed)}; {remedy}, or "
            f"raise the limit (memory=).{advice}"
        )

    def check_worker(self, memory: WorkerMemory, smaller: str) -> None:
        """Refuse what does not fit a worker."""
        if memory.limit is None or self.total <= memory.limit:
            return
        process, squares = self.process + SLACK_BYTES, self.states + self.tasks - self.blocks
        n = memory.n_threads
        give = f"give workers fewer threads, or {human(self.total)}" if n > 1 else ""
        if self.blocks >= max(squares, process):
            narrower = "write the store again with narrower chunks (dhsic inspect says how)"
            remedy = f"{narrower}, or {give or 'give workers more'}"
        elif squares >= process:
            remedy = f"{smaller}, or {give or 'give workers more'}"
        else:
            remedy = f"give workers {human(self.total)}"
        raise MemoryBudgetError(
            f"A worker of {f'{n} threads' if n > 1 else 'one thread'} needs {self}, and there are "
            f"{human(memory.limit)} ({memory.said_by}); {remedy}."
        )


def square_bytes(m: int, n_bases: int) -> int:
    """Bytes of the (m, m) matrices of a driver whose kernel has so many bases."""
    return int(8 * m * m * (SQUARES + SQUARES_PER_BASE * n_bases))


def task_bytes(
    n_threads: int, block: int, tile: int, result: int = 0, n_results: int = 1
) -> dict[str, int]:
    """`tasks` and `blocks` of an estimate, by bytes of a block, which a task holds `COPIES` times.

    A `tile` is what it holds besides; `n_results` results are added up along a tree, which keeps
    one of each level.
    """
    blocks = n_threads * COPIES * block
    results = min(n_results, n_threads + 2 + n_results.bit_length())
    return {"tasks": blocks + n_threads * tile + results * result, "blocks": blocks}


def fitted(
    promised: Callable[[int], MemoryEstimate], most: int, room: int, limit: int | None
) -> tuple[MemoryEstimate, int | None]:
    """Memory that a run will need at most, and how much of it survivors get if that is less.

    They get what the limit leaves them; those that do not fit go to scratch, with the same result.
    Without a limit they are given `most` bytes, and they can need as many as `room`.
    """
    needed = promised(most)
    excess = needed.total - needed.allowed(limit)
    if excess <= 0:
        return needed, None
    budget = max(0, min(most, room) - excess)
    return promised(budget), budget


def resident_bytes() -> int:
    """Resident memory of this process now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return int(_this_process().rss)
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Largest resident memory of this process so far.

    From /proc where there is one: what `getrusage` says includes the process that started it.
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
    """Give back what is free: glibc keeps arrays of up to 32 MiB for later ones, of other sizes."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)


def available_bytes() -> int:
    """Memory that this process may still get: the least of machine, container and limit."""
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
    """What a limit on addresses leaves, where there is one."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return [] if limit == resource.RLIM_INFINITY else [limit - _virtual_bytes()]


def _containers() -> list[int]:
    """What control groups (version 2 and 1) leave."""
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
    """Bytes for people, in powers of ten.

    >>> human(1_234_000_000)
    '1.2 GB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n < 999.5:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
