"""Cores and threads that this process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of cores this process may use, by CPU affinity and container limits."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    try:
        allowed, period = quota.read_text().split()
        cores = min(cores, int(allowed) // int(period))
    except (OSError, ValueError):  # no control group, or "max": no quota
        pass
    return max(cores, 1)


def threads_of(n_jobs: int | None) -> int | None:
    """Return the number of threads for `n_jobs`; None means all cores.

    Without `n_jobs`, this is 1 in a worker of joblib and None elsewhere.

    >>> threads_of(3), threads_of(-1) == usable_cores()
    (3, True)
    """
    if n_jobs is not None:
        return int(n_jobs) if n_jobs > 0 else max(1, usable_cores() + 1 + int(n_jobs))
    return 1 if in_joblib() else None


def in_joblib() -> bool:
    """Whether this code runs in a thread or a process that joblib started."""
    joblib = sys.modules.get("joblib.parallel")  # if not imported, this is not a joblib worker
    return joblib is not None and bool(joblib.get_active_backend()[0].nesting_level)
