"""Plan: forecast of a run as numbers, as terminal text and as a notebook table.

The table takes its colours from the page, light or dark.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from html import escape
from math import ceil
from operator import attrgetter
from typing import Any

import numpy as np

from dhsic.memory import MemoryEstimate, human
from dhsic.notebook import page, row
from dhsic.passes.jobs import block_width
from dhsic.plans.rounds import Work
from dhsic.plans.time import Expected, Rates
from dhsic.sources import AbstractSource
from dhsic.sources.views import whole_of


@dataclass(frozen=True, slots=True)
class Stored:
    """Data of a run, and how they are stored."""

    n_samples: int  # samples used
    n_features: int
    dtype: str  # dtype of the values read
    n_bytes: int
    stored_bytes: int | None  # compressed bytes in the store; None without a store
    chunk: tuple[int, int] | None  # features and samples of a chunk (or shard)
    n_chunks: int | None
    n_blocks: int  # number of blocks in a full pass
    block_features: int  # features of the widest block
    block_bytes: int  # bytes of the widest block

    @staticmethod
    def of(source: AbstractSource, m: int) -> Stored:
        """Describe a source with m samples in use; read metadata only."""
        d, itemsize = source.n_features, np.dtype(source.dtype).itemsize
        blocks = source.blocks(block_width(m, d, itemsize))
        widest = max(source.stored_width(block) for block in blocks)
        store = whole_of(source)
        data, chunk, n_chunks, stored = store.chunked, None, None, None
        if data is not None:
            axis = data.feature_axis
            chunk = int(data.grid[axis]), int(data.grid[1 - axis])
            n_chunks = ceil(store.n_features / chunk[0]) * ceil(source.n_samples / chunk[1])
            stored = int(data.opened().nbytes_stored())
        return Stored(
            n_samples=m,
            n_features=d,
            dtype=np.dtype(source.dtype).name,
            n_bytes=m * d * itemsize,
            stored_bytes=stored,
            chunk=chunk,
            n_chunks=n_chunks,
            n_blocks=len(blocks),
            block_features=widest,
            block_bytes=widest * source.n_samples * itemsize,
        )


@dataclass(frozen=True, repr=False)
class Plan:
    """Forecast of a run; `print` it, or display it in a notebook.

    Attributes
    ----------
    method, description : str
        Name of the method, and a short description of the run.
    data : Stored
        Data, and how they are stored.
    values : str
        Kind of the values, and their scaling.
    runtime : str
        "threads" or "dask".
    n_workers : int
        Number of threads, or of workers of a cluster.
    worker_threads : int
        Threads of each worker; 1 without a cluster.
    promise : MemoryEstimate
        Memory estimate of this process; the run computes the same estimate.
    worker : MemoryEstimate or None
        Memory estimate of a worker; None without a cluster.
    work : Work or None
        All passes over the data; None if the number of steps depends on the data.
    n_steps : int or None
        Maximum number of steps, if their number depends on the data.
    rates : Rates
        Work of one thread per second.
    times : tuple of Expected
        Times on 1, 2, 10 and `n_workers` workers; empty if flops are unknown.
    assumed : tuple of str
        Assumptions about the data and the machine.
    """

    method: str
    description: str
    data: Stored
    values: str
    runtime: str
    n_workers: int
    worker_threads: int
    promise: MemoryEstimate
    worker: MemoryEstimate | None
    work: Work | None
    n_steps: int | None
    rates: Rates
    times: tuple[Expected, ...]
    assumed: tuple[str, ...]

    @property
    def n_rounds(self) -> int | None:
        """Number of rounds; None if it depends on the data."""
        return None if self.work is None else len(self.work.sizes)

    @property
    def bytes_read(self) -> int | None:
        """Stored bytes read in all rounds, as in the history of the run."""
        return None if self.work is None else self.work.bytes_read[0]

    def to_dict(self) -> dict[str, Any]:
        """Dictionary of plain values, for JSON."""
        work = self.work
        rounds = work and {
            "count": len(work.sizes),
            "n_features": work.sizes,
            "bytes_read": work.least.bytes_read,
        }
        return {
            "method": self.method,
            "description": self.description,
            "data": asdict(self.data),
            "values": self.values,
            "runtime": self.runtime,
            "n_workers": self.n_workers,
            "worker_threads": self.worker_threads,
            "memory": {**asdict(self.promise), "total": self.promise.total},
            "worker_memory": self.worker and {**asdict(self.worker), "total": self.worker.total},
            "n_steps": self.n_steps,
            "rounds": rounds,
            "work": work and _totals(work),
            "rates": self.rates.plain(),
            "times": [asdict(time) for time in self.times],
            "assumed": list(self.assumed),
        }

    def __str__(self) -> str:
        """Text for a terminal, with lines of at most `WIDTH` characters."""
        lines = [f"Plan of a run: {self.description}"]
        for label, told in rows(self):
            lines += _wrapped(label, told)
        if self.times:
            lines += ["", f"{'':<{LABELS}}{'expected time':<28}on"]
            lines += [f"{'':<{LABELS}}{time:<28}{where}" for time, where in times(self)]
        lines.append("")
        for number, told in enumerate(self.assumed):
            lines += _wrapped("assumed" if number == 0 else "", f"- {told}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """One line, because a list of all passes would fill pages."""
        n, where = self.n_workers, "workers" if self.runtime == "dask" else "threads"
        rounds = "" if self.n_rounds is None else f"{self.n_rounds:,} rounds, "
        return (
            f"<Plan of {self.method}: {self.data.n_samples:,} samples x "
            f"{self.data.n_features:,} features, {rounds}{n} {where if n > 1 else where[:-1]}>"
        )

    def _repr_html_(self) -> str:
        """HTML table of the plan and expected times, followed by a folded list of assumptions."""
        body = "".join(row(label, told) for label, told in rows(self))
        timed = "".join(row(time, f"on {where}", number=True) for time, where in times(self))
        timed = f"<tbody>{timed}</tbody>" if timed else ""
        assumed = "".join(f"<li>{escape(told)}</li>" for told in self.assumed)
        return page(
            f"<table><caption>Plan of a run: {escape(self.description)}</caption>",
            f"<tbody>{body}</tbody>{timed}</table>",
            f"<details><summary>Assumptions</summary><ul>{assumed}</ul></details>",
        )


def _totals(work: Work) -> dict[str, Any]:
    """Return totals over the steps, in pairs: with sufficient and with insufficient low rank."""
    flops = {
        name: work.both(attrgetter(name)) if work.is_timed else None
        for name in ("float32", "float64")
    }
    return {
        "passes": work.n_passes,
        "bytes_read": work.bytes_read,
        "bytes_decoded": work.both(lambda p: p.bytes_decoded),
        "flops": flops,
        "jobs": work.both(lambda p: p.n_jobs if p.n_features else 0),
        "broadcast_bytes": work.state_bytes,
        "survivors": work.survivors,
    }


#: Width of a line, and of the column of labels, in characters.
WIDTH, LABELS = 100, 12
#: More workers are marked as no faster if their time relative to fewer workers is above this.
NO_FASTER = 0.95


def rows(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of the table that shows a plan, each with a label and a text."""
    out = [("data", _data(plan.data)), ("values", plan.values), ("blocks", _blocks(plan.data))]
    out.append(("rounds", _rounds(plan)))
    if plan.work is not None:
        out += [("reading", _reading(plan.work)), ("computing", _computing(plan.work))]
        out.append(("survivors", plan.work.survivors))
    out.append(("memory", f"this process: peak memory {plan.promise}"))
    if plan.worker is not None:
        each = f" with {plan.worker_threads} threads" if plan.worker_threads > 1 else ""
        out.append(("", f"each worker{each}: {plan.worker}"))
        if plan.work is not None:
            out.append(("broadcast", f"up to {human(plan.work.state_bytes)} per worker and round"))
    out.append(("rates", _rates(plan)))
    return out


def times(plan: Plan) -> list[tuple[str, str]]:
    """Rows of expected times: the time, and the number of workers or threads, as text."""
    out: list[tuple[str, str]] = []
    best: dict[bool, Expected] = {}  # best time on a cluster (key True) and on threads (False)
    for time in plan.times:
        plural = "s" if time.n_workers > 1 else ""
        noun = f"worker{plural} of a cluster" if time.on_cluster else f"thread{plural}"
        each = f", {time.worker_threads} threads each" if time.worker_threads > 1 else ""
        where = f"{time.n_workers:,} {noun}{each}"
        fastest, here = best.get(time.on_cluster), best.get(False)
        if fastest is not None and time.seconds > NO_FASTER * fastest.seconds:
            where += f", not faster than {fastest.n_workers:,}"
        elif time.on_cluster and here is not None and time.seconds > here.seconds:
            where += ", slower than here: tasks and results go over the network"
        elif fastest is None or time.seconds < fastest.seconds:
            best[time.on_cluster] = time
        expected = duration(time.seconds)
        if time.at_most > 1.05 * time.seconds:
            expected += f" to {duration(time.at_most)}"
        out.append((expected, where))
    return out


def duration(seconds: float) -> str:
    """Format a duration with about two digits.

    >>> [duration(s) for s in (0.123, 12.3, 400, 9000)]
    ['0.1 s', '12 s', '7 min', '2.5 h']
    """
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _data(data: Stored) -> str:
    text = (
        f"{data.n_samples:,} samples x {data.n_features:,} features, {data.dtype}, "
        f"{human(data.n_bytes)}"
    )
    if data.stored_bytes is not None:
        text += f" ({human(data.stored_bytes)} as stored)"
    return text


def _blocks(data: Stored) -> str:
    text = (
        f"{data.n_blocks:,} of up to {data.block_features:,} features ({human(data.block_bytes)})"
    )
    if data.chunk is not None:
        text += f"; chunks of {data.chunk[0]:,} features x {data.chunk[1]:,} samples"
    return text


def _rounds(plan: Plan) -> str:
    if plan.work is None:
        most = f", at most {plan.n_steps:,}" if plan.n_steps else ""
        return f"steps until convergence{most}; their number depends on the data"
    n = len(plan.work.sizes)
    return f"{n:,} round{'s' if n != 1 else ''}, {plan.work.n_passes:,} passes over features"


def _reading(work: Work) -> str:
    least, most = work.bytes_read
    text = f"{human(least)} of values, as counted in the history of the run"
    return text if most == least else f"{text}, at most {human(most)}"


def _computing(work: Work) -> str:
    if not work.is_timed:
        return "cannot be estimated"
    parts = []
    for name in ("float32", "float64"):
        least, most = work.both(attrgetter(name))
        if most:
            span = flops(least) if most == least else f"{flops(least)} to {flops(most)}"
            parts.append(f"{span} in {name}")
    return ", ".join(parts) or "negligible compared with reading"


def flops(n: float) -> str:
    """Format a number of floating-point operations.

    >>> flops(2.5e12)
    '2.5 Tflop'
    """
    for unit in ("", "k", "M", "G", "T", "P"):
        if n < 999.5:
            return f"{n:.2g} {unit}flop" if n < 99.5 else f"{n:.0f} {unit}flop"
        n /= 1000
    return f"{n:.2g} Eflop"


def _rates(plan: Plan) -> str:
    rates = plan.rates
    read = "" if math.isinf(rates.decode) else f", {human(rates.decode)}/s read and decoded"
    return (
        f"one thread: {rates.float32 / 1e9:.0f} Gflop/s in float32, {rates.float64 / 1e9:.0f} in "
        f"float64{read}, {rates.values / 1e6:.0f} million values/s"
    )


def _wrapped(label: str, told: str) -> list[str]:
    hanging = "  " if told.startswith("- ") else ""
    return textwrap.wrap(
        told,
        WIDTH,
        initial_indent=f"{label:<{LABELS}}",
        subsequent_indent=" " * LABELS + hanging,
        break_on_hyphens=False,
    )
