"""Memory is promised before the work: the peak of a run, computed from its sizes alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhsic.errors import MemoryBudgetError

#: m x m float64 matrices of the exact engine at its peak: L, W, G, and all of G for the definition;
#: per base of the expansion A, and half of it in float64 and in float32.
SQUARES, SQUARES_PER_BASE = 4, 1.75
#: b x m float64 matrices of low rank (statistic, kernel rows, factors), and samples in float32.
THIN, SAMPLES = 4, 4
#: float64 arrays per feature: the scaling (8), scores, order and what sorting them takes, copies of
#: their checksums on the way to a checkpoint, and more columns of the result (4).
VECTORS = 31
#: Copies of a block while it is decoded and folded.
COPIES = 5
#: Room for the allocator, buffers of BLAS and what libraries load on first use.
SLACK_BYTES = 96 << 20


@dataclass(frozen=True, slots=True)
class Promise:
    """Peak memory of a run in this process, bytes by purpose.

    Attributes
    ----------
    process : int
        What the process holds before the run.
    squares : int
        m x m matrices of the driver.
    tasks : int
        Blocks, tiles and partial statistics of the tasks in flight.
    survivors : int
        Survivors kept in memory.
    vectors : int
        Per-feature arrays.
    landmarks : int
        Thin matrices and the sample of a run in low rank.
    """

    process: int
    squares: int
    tasks: int
    survivors: int
    vectors: int
    landmarks: int = 0

    @property
    def total(self) -> int:
        """Sum of all."""
        parts = (self.process, self.squares, self.tasks, self.survivors, self.vectors)
        return sum(parts) + self.landmarks + SLACK_BYTES

    def __str__(self) -> str:
        thin = f"{human(self.landmarks)} for landmarks, " if self.landmarks else ""
        return (
            f"peak memory at most {human(self.total)} ({human(self.squares)} for m x m matrices, "
            f"{thin}"
            f"{human(self.tasks)} for tasks in flight, {human(self.survivors)} for survivors, "
            f"{human(self.vectors)} for features, "
            f"{human(self.process + SLACK_BYTES)} for the process)"
        )

    def allowed(self, limit: int | None) -> int:
        """Bytes that the process may have: `limit`, or what is available."""
        return available_bytes() + self.process if limit is None else limit

    def check(self, limit: int | None, smaller: str = "use fewer samples") -> None:
        """Refuse what does not fit.

        Parameters
        ----------
        limit : int or None
            Bytes that the process may have; None for what is available.
        smaller : str
            What makes m x m matrices smaller, for people.

        Raises
        ------
        MemoryBudgetError
            The promise exceeds `limit`, or without one what this process may still get.
        """
        allowed = self.allowed(limit)
        if self.total > allowed:
            remedy = (
                f"{smaller}, or fewer threads"
                if self.squares + self.tasks > self.survivors
                else "use fewer threads"
            )
            raise MemoryBudgetError(
                f"This run needs {self}, and there are {human(allowed)}; {remedy}, or raise the "
                "limit (memory=)."
            )


def promise(
    *,
    n_samples: int,
    n_features: int,
    n_bases: int,
    squares: bool,
    landmarks: int,
    sample_entries: int,
    block_bytes: int,
    tile_bytes: int,
    n_threads: int,
    survivor_bytes: int,
) -> Promise:
    """Peak of a run, from its sizes.

    Parameters
    ----------
    n_samples, n_features
        m and d.
    n_bases
        Base matrices of the kernel's expansion.
    squares
        Whether m x m matrices are made.
    landmarks
        Most landmarks b of a run in low rank, 0 without.
    sample_entries
        Values that its certificate is made from.
    block_bytes
        Stored bytes of one block, which is held `COPIES` times meanwhile.
    tile_bytes
        Temporaries of one tile.
    n_threads
        Tasks at once.
    survivor_bytes
        Budget for survivors, or the whole matrix if it is less.
    """
    m = n_samples
    square, thin = m * m * 8, landmarks * m * 8
    matrices = square * (SQUARES + SQUARES_PER_BASE * n_bases) if squares else 0
    partial = max(square if squares else 0, thin)
    working = n_threads * (COPIES * block_bytes + tile_bytes)
    return Promise(
        process=resident_bytes(),
        squares=int(matrices),
        tasks=working + (n_threads + 2) * partial,
        survivors=survivor_bytes,
        vectors=VECTORS * 8 * n_features,
        landmarks=THIN * thin + SAMPLES * 4 * sample_entries if landmarks else 0,
    )


def fitted(
    promised: Callable[[int], Promise], most: int, room: int, limit: int | None
) -> tuple[Promise, int | None]:
    """Memory that a run will need at most, and how much of it survivors get if that is less.

    They get what the limit leaves them; those that do not fit go to scratch, with the same result.

    Parameters
    ----------
    promised : callable
        Promise with so many bytes for survivors.
    most, room : int
        Bytes that survivors are given where there is no limit, and that they can need.
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
