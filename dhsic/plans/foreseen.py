"""A cluster that is not there yet, as far as a plan is concerned with it."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from dhsic.errors import InputError
from dhsic.runtime.base import AbstractRuntime, Job, Task
from dhsic.sources.base import AbstractSource


class Foreseen(AbstractRuntime):
    """So many workers of one thread each, which share a folder; nothing runs on them."""

    name = "dask"
    is_remote = True

    def __init__(self, n_workers: Any) -> None:
        if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
            raise InputError(f"n_workers={n_workers!r}; pass how many workers, 1 or more.")
        self.n_workers = n_workers

    @property
    def shared_folder(self) -> Path:
        """Any folder: workers are supposed to share one."""
        return Path(tempfile.gettempdir())

    def results(
        self,
        task: Task,
        source: AbstractSource,
        jobs: Sequence[Job],
        state: Any,
        *,
        divisible: bool,
    ) -> Generator[Any]:
        """Refuse: a plan runs nothing."""
        raise TypeError(f"A plan runs nothing, and was given {len(jobs)} jobs.")
