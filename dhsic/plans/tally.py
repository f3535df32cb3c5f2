"""Passes of a run written down one after the other, through a reader that reads nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dhsic._typing import Index
from dhsic.plans.counting import CountingReader, Scattered, spread
from dhsic.plans.passes import Pass
from dhsic.runs.base import AbstractRun
from dhsic.scoring.reader import grouped, n_partials
from dhsic.scoring.tasks import Wanted


@dataclass
class Tally:
    """Passes so far, where features are kept now, and which are left.

    Attributes
    ----------
    number : int
        The round, from 1.
    n : int
        Candidates that are left.
    n_moves : int
        Moves of the reader that are written down.
    """

    reader: CountingReader
    scattered: Scattered
    m: int
    number: int = 1
    n: int = 0
    passes: list[Pass] = field(default_factory=list)
    n_moves: int = 0

    @staticmethod
    def of(run: AbstractRun, n: int, codes: Index | None, memory: int | None) -> Tally:
        """Nothing done yet, n candidates left; `memory` as of `Reader`."""
        wanted = Wanted(rows=run.rows, n_samples=run.n_samples)
        reader = CountingReader(run.source, run.runtime, wanted, memory=memory)
        return Tally(reader, Scattered(n, codes), run.n_samples, n=n)

    @property
    def n_features(self) -> int:
        """Features that are left."""
        return self.scattered.n_features(self.n)

    def features(self) -> Index | None:
        """Which are left; None from memory, where their number says all."""
        if self.reader.held is not None and self.reader.source.in_memory:
            return None
        return self.scattered.left(self.n)

    def measure(self, **work: Any) -> None:
        """The first pass, over everything."""
        reader, jobs, n_bytes = self.reader.first_pass()
        self.reader = as_counting(reader)
        decoded = self._kept()
        if not decoded:
            decoded = self.reader.bytes_of(jobs)
        self._add("measure", self.n_features, len(jobs), n_bytes, bytes_decoded=decoded, **work)

    def compact(self, *, thinned: bool = False) -> None:
        """Survivors are kept apart if that is worth it."""
        features = self.features()
        if features is None:
            return
        reader = self.reader.thinned(features) if thinned else self.reader.compacted(features)
        self.reader = as_counting(reader)
        decoded = self._kept()
        if decoded:
            n, jobs = features.size, len(self.reader.jobs(features))
            self._add("keep", n, jobs, 0, bytes_decoded=decoded)

    def over(self, what: str, share: float = 1.0, *, sums: bool = False, **work: Any) -> None:
        """A pass over this part of the features left; `sums`: its results are summed.

        `each` among `work` are the bytes that come back from each job.
        """
        n = max(1, round(share * self.n_features))
        left = self.features()
        features = None if left is None else spread(left, min(share, 1.0))
        if features is None:
            n_jobs, n_bytes = self.reader.n_jobs(n, None), 0
            n_jobs = min(n_jobs, n_partials(n)) if sums else n_jobs
        else:
            jobs = self.reader.jobs(features)
            n_bytes = self.reader.bytes_of(jobs)
            n_jobs = len(grouped(jobs) if sums else jobs)
        decoded = self.reader.decoded_of(n_bytes)
        self._add(what, n, n_jobs, n_bytes, bytes_decoded=decoded, **work)

    def prepare(
        self, elements: float = 0.0, *, float64: float = 0.0, is_open: bool = False
    ) -> None:
        """What this process does itself; `float64` flops on all its threads."""
        self.passes.append(
            Pass(
                self.number,
                "prepare",
                elements=elements,
                float64=float64,
                at_home=True,
                is_open=is_open,
            )
        )

    def _kept(self) -> int:
        """Bytes decoded to keep what was kept just now."""
        new = self.reader.moves[self.n_moves :]
        self.n_moves += len(new)
        return sum(move.bytes_decoded for move in new)

    def _add(
        self, what: str, n: int, n_jobs: int, n_bytes: int, *, each: int = 0, **work: Any
    ) -> None:
        at_home = self.reader.is_home
        if each:
            work["result_bytes"] = n_jobs * each
        self.passes.append(
            Pass(
                self.number,
                what,
                n_features=n,
                n_jobs=n_jobs,
                bytes_read=n_bytes,
                at_home=at_home,
                **{"values": float(self.m) * n} | work,
            )
        )


def as_counting(reader: Any) -> CountingReader:
    """The reader, which is one that counts since it was made by one."""
    assert isinstance(reader, CountingReader), "a reader makes readers of its kind"
    return reader
