"""A plan: what a run will take, as numbers, as text and as a table.

What a plan says of the data: sizes, chunks, blocks.

A plan as a table for notebooks; its colours are those of the page, light or dark.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from math import ceil
from operator import attrgetter
from typing import Any

import numpy as np

from dhsic.memory import MemoryEstimate
from dhsic.passes.reader import block_width
from dhsic.plans.rounds import Work
from dhsic.plans.text import as_text, rows, times
from dhsic.plans.time import Expected, Rates
from dhsic.sources.base import AbstractSource
from dhsic.sources.views import whole_of

#: Of this table alone. Lines take the colour of the text, thinned.
STYLE = """
.dhsic-plan { color: inherit; background: transparent; font-size: 0.95em; max-width: 56em; }
.dhsic-plan caption { text-align: left; font-weight: 600; padding: 0 0 0.4em; color: inherit; }
.dhsic-plan table { border-collapse: collapse; background: transparent; color: inherit; margin: 0; }
.dhsic-plan th, .dhsic-plan td { text-align: left; vertical-align: top; padding: 0.25em 0.9em
  0.25em 0; background: transparent; color: inherit; border: 0; white-space: normal; }
.dhsic-plan th { font-weight: 600; white-space: nowrap; }
.dhsic-plan tr { background: transparent; }
.dhsic-plan tbody + tbody { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent);
}
.dhsic-plan .number { font-variant-numeric: tabular-nums; }
.dhsic-plan tbody + tbody tr:first-child > * { padding-top: 0.5em; }
.dhsic-plan details { margin-top: 0.5em; }
.dhsic-plan summary { cursor: pointer; opacity: 0.8; }
.dhsic-plan ul { margin: 0.3em 0 0; padding-left: 1.2em; }
"""


def as_html(plan: Plan) -> str:
    """Table of the rows, the expected times under it, what was assumed folded away."""
    body = "".join(_row(label, told) for label, told in rows(plan))
    timed = "".join(_row(time, f"on {where}", number=True) for time, where in times(plan))
    timed = f"<tbody>{timed}</tbody>" if timed else ""
    assumed = "".join(f"<li>{escape(told)}</li>" for told in plan.assumed)
    return (
        f'<div class="dhsic-plan"><style>{STYLE}</style><table>'
        f"<caption>Plan of a run: {escape(plan.description)}</caption>"
        f"<tbody>{body}</tbody>{timed}</table>"
        f"<details><summary>What was assumed</summary><ul>{assumed}</ul></details></div>"
    )


def _row(label: str, told: str, *, number: bool = False) -> str:
    kind = ' class="number"' if number else ""
    return f'<tr><th scope="row"{kind}>{escape(label)}</th><td>{escape(told)}</td></tr>'


@dataclass(frozen=True, slots=True)
class Stored:
    """The data of a run.

    Attributes
    ----------
    n_samples, n_features : int
        Samples that take part, and features.
    dtype : str
        Of the values as they are read.
    n_bytes : int
        Values as they are read.
    stored_bytes : int or None
        What the store takes, compressed; None where there is none.
    chunk : tuple of int or None
        Features and samples of a chunk (or shard).
    n_chunks : int or None
        How many there are.
    n_blocks, block_features, block_bytes : int
        Blocks of a pass over everything: how many, and the widest.
    """

    n_samples: int
    n_features: int
    dtype: str
    n_bytes: int
    stored_bytes: int | None
    chunk: tuple[int, int] | None
    n_chunks: int | None
    n_blocks: int
    block_features: int
    block_bytes: int

    @staticmethod
    def of(source: AbstractSource, m: int) -> Stored:
        """Look at a source; reads metadata alone."""
        d, itemsize = source.n_features, np.dtype(source.dtype).itemsize
        blocks = source.blocks(block_width(m, d, itemsize))
        widest = max(source.stored_width(block) for block in blocks)
        store = whole_of(source)
        data = store.chunked
        chunk, stored = None, None
        if data is not None:
            axis = data.feature_axis
            chunk = int(data.grid[axis]), int(data.grid[1 - axis])
            array = data.opened()
            stored = int(array.nbytes_stored())
        return Stored(
            n_samples=m,
            n_features=d,
            dtype=np.dtype(source.dtype).name,
            n_bytes=m * d * itemsize,
            stored_bytes=stored,
            chunk=chunk,
            n_chunks=None
            if chunk is None
            else ceil(store.n_features / chunk[0]) * ceil(source.n_samples / chunk[1]),
            n_blocks=len(blocks),
            block_features=widest,
            block_bytes=widest * source.n_samples * itemsize,
        )


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
    promise : MemoryEstimate
        Peak memory of this process, as the run itself will promise it.
    worker : MemoryEstimate or None
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
    promise: MemoryEstimate
    worker: MemoryEstimate | None
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
        return None if self.work is None else self.work.bytes_read[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        work = self.work
        rounds = None
        if work is not None:
            rounds = {
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


def _totals(work: Work) -> dict[str, Any]:
    """Sums over the steps, where low rank meets its tolerance and where it does not."""
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
