"""A plan: what a run will take, as numbers, as text and as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dhsic.engines.memory import Promise
from dhsic.plans.expected import Expected
from dhsic.plans.html import as_html
from dhsic.plans.passes import Work, float32, float64
from dhsic.plans.rates import Rates
from dhsic.plans.stored import Stored
from dhsic.plans.text import as_text
from dhsic.runs.workers import WorkerPromise


@dataclass(frozen=True, repr=False)
class Plan:
    """What a run will take; `print` it, or look at it in a notebook.

    Attributes
    ----------
    method, description : str
        Name of the method, and the run in a few words.
    data : Stored
        The data and how they are stored.
    values : str
        What the values are, and what is done with them.
    runtime : str
        "threads" or "dask".
    n_workers : int
        Threads, or workers of one thread each.
    promise : Promise
        Peak memory of this process, as the run itself will promise it.
    worker : WorkerPromise or None
        Peak memory of a worker, where there is a cluster.
    work : Work or None
        All passes; None where the data decide how many steps the method takes.
    n_steps : int or None
        Most steps of such a method.
    rates : Rates
        What one thread does in a second.
    times : tuple of Expected
        On 1, 2, 10 and `n_workers` workers; empty where flops are not foreseen.
    assumed : tuple of str
        What the data or the machine decide, and was supposed.
    """

    method: str
    description: str
    data: Stored
    values: str
    runtime: str
    n_workers: int
    promise: Promise
    worker: WorkerPromise | None
    work: Work | None
    n_steps: int | None
    rates: Rates
    times: tuple[Expected, ...]
    assumed: tuple[str, ...]

    @property
    def n_rounds(self) -> int | None:
        """Rounds of the run, None where the data decide."""
        return None if self.work is None else len(self.work.sizes)

    @property
    def bytes_read(self) -> int | None:
        """Stored bytes of all rounds, as the history of the run will have them."""
        return None if self.work is None else sum(self.work.bytes_of_rounds())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "method": self.method,
            "description": self.description,
            "data": asdict(self.data),
            "values": self.values,
            "runtime": self.runtime,
            "n_workers": self.n_workers,
            "memory": {**asdict(self.promise), "total": self.promise.total},
            "worker_memory": None
            if self.worker is None
            else {**asdict(self.worker), "total": self.worker.total},
            "n_steps": self.n_steps,
            "rounds": None if self.work is None else _rounds(self.work),
            "work": None if self.work is None else _totals(self.work),
            "rates": self.rates.plain(),
            "times": [asdict(time) for time in self.times],
            "assumed": list(self.assumed),
        }

    def __str__(self) -> str:
        """For a terminal, lines of at most 100 characters."""
        return as_text(self)

    def __repr__(self) -> str:
        """A line; the passes alone would fill pages."""
        n, where = self.n_workers, "workers" if self.runtime == "dask" else "threads"
        rounds = "" if self.n_rounds is None else f"{self.n_rounds:,} rounds, "
        return (
            f"<Plan of {self.method}: {self.data.n_samples:,} samples x "
            f"{self.data.n_features:,} features, {rounds}{n} {where if n > 1 else where[:-1]}>"
        )

    def _repr_html_(self) -> str:
        return as_html(self)


def _rounds(work: Work) -> dict[str, Any]:
    return {
        "count": len(work.sizes),
        "n_features": list(work.sizes),
        "bytes_read": work.bytes_of_rounds(),
    }


def _totals(work: Work) -> dict[str, Any]:
    """Sums over the passes, without and with those that low rank may need."""

    def both(of: Any) -> list[float]:
        return [work.total(of), work.total(of, at_most=True)]

    flops: dict[str, Any] = {"float32": None, "float64": None}
    if work.is_timed:
        flops = {"float32": both(float32), "float64": both(float64)}
    return {
        "passes": work.n_passes,
        "bytes_read": both(lambda p: p.bytes_read),
        "bytes_decoded": both(lambda p: p.bytes_decoded),
        "flops": flops,
        "jobs": both(lambda p: 0 if p.what == "prepare" else p.n_jobs),
        "broadcast_bytes": work.state_bytes,
        "survivors": work.survivors,
    }
