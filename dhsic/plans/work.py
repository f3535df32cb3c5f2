"""The work of a run as a list of steps, written down through a reader that reads nothing.

Which blocks a pass reads, when survivors are kept apart and where, `dhsic.passes.reader` decides
by sizes alone. A plan asks that reader, with sources of sizes only behind it, so what it reads
cannot differ from the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.passes.packing import Form
from dhsic.passes.reader import (
    AbstractKeeper,
    Location,
    Reader,
    block_width,
    grouped,
    n_partials,
)
from dhsic.runtime.threads import Threads
from dhsic.selectors.run import SelectionRun
from dhsic.sources.base import AbstractSource, Block, even_blocks, group_chunks, regular_edges


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over features, or what this process does between passes.

    Attributes
    ----------
    round : int
        Round that it belongs to, from 1.
    what : str
        "measure", "keep", "statistic", "sample", "score" or "prepare" (which is no pass: it is
        done in this process).
    n_features, n_jobs : int
        Features that it is over, and jobs that it is cut into, at most.
    bytes_read : int
        Stored bytes, as the history of the run counts them (not those read to keep survivors).
    bytes_decoded : int
        Stored bytes that are read and decoded in truth.
    values : float
        Values that are made ready, samples times features.
    float32, float64 : float
        Flops of matrix products.
    elements : float
        Entries of matrices that functions are taken of, in this process.
    state_bytes : int
        What every worker is sent before it, at most.
    sent_bytes : int
        The same as it turns out, where that is less; else 0.
    result_bytes : int
        What this process gets back and adds up, of all jobs together, where that is large.
    at_home : bool
        Done in this process though there is a cluster: survivors are few.
    is_open : bool
        Done only where low rank turns out to miss its tolerance.
    """

    round: int
    what: str
    n_features: int = 0
    n_jobs: int = 1
    bytes_read: int = 0
    bytes_decoded: int = 0
    values: float = 0.0
    float32: float = 0.0
    float64: float = 0.0
    elements: float = 0.0
    state_bytes: int = 0
    sent_bytes: int = 0
    result_bytes: int = 0
    at_home: bool = False
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """All steps of a run.

    Attributes
    ----------
    passes : tuple of Step
        In their order.
    sizes : tuple of int
        Candidates at the start of every round.
    survivors : str
        Where features are kept on the way.
    assumed : tuple of str
        What the data decide, and was supposed.
    is_timed : bool
        Whether flops are foreseen: not for kernels and criteria without a series.
    """

    passes: tuple[Step, ...]
    sizes: tuple[int, ...]
    survivors: str
    assumed: tuple[str, ...]
    is_timed: bool = True

    def both(self, of: Callable[[Step], Any]) -> list[Any]:
        """Sums over the steps, without and with those that may not be needed."""
        return [sum(of(p) for p in self.passes if most or not p.is_open) for most in (False, True)]

    def bytes_of_rounds(self) -> list[int]:
        """Stored bytes of every round, as the history will have them."""
        out = [0] * len(self.sizes)
        for p in self.passes:
            if not p.is_open:
                out[p.round - 1] += p.bytes_read
        return out

    @property
    def n_passes(self) -> int:
        """Passes over features, those that may not be needed left out."""
        return sum(p.what != "prepare" and not p.is_open for p in self.passes)

    @property
    def state_bytes(self) -> int:
        """Most bytes that are sent to every worker at once."""
        return max((p.state_bytes for p in self.passes), default=0)


class CountedSource(AbstractSource):
    """Sizes of survivors that are kept somewhere, on disk in chunks of so many features."""

    def __init__(
        self, n_samples: int, n_features: int, dtype: Any, chunk: int, *, in_memory: bool
    ) -> None:
        self.n_samples, self.n_features, self.dtype = n_samples, n_features, dtype
        self.in_memory = in_memory
        self._chunk = chunk

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Cut the features as a source of survivors does."""
        if self.in_memory:
            return even_blocks(self.n_features, width)
        return group_chunks(regular_edges(self.n_features, self._chunk), width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        """Refuse: there are sizes only."""
        raise TypeError(f"Features {block.start}:{block.stop} of a plan have no values.")

    def fingerprint(self) -> str:
        """Refuse: there are sizes only."""
        raise TypeError("A plan has no data to fingerprint.")


@dataclass(frozen=True, slots=True)
class Move:
    """Survivors that are kept apart: how many, where, in how many bytes, read from how many."""

    n_features: int
    place: Location
    n_bytes: int
    bytes_decoded: int


@dataclass(frozen=True, slots=True)
class CountingKeeper(AbstractKeeper):
    """Writes down what would be kept, in `moves`; values of one byte are supposed to pack."""

    moves: list[Move] = field(default_factory=list)

    def keep(self, reader: Reader, features: Index, form: Form, place: Location) -> Reader:
        if place is Location.STORED:
            return reader.recut(features)
        n, in_memory = features.size, place is not Location.SCRATCH
        decoded = reader.bytes_of(reader.jobs(features))
        self.moves.append(Move(n, place, n * form.bytes_per_feature, decoded))
        chunk = 1 if in_memory else reader.writing(features, form)[1]
        source = CountedSource(form.n_samples, n, form.dtype, chunk, in_memory=in_memory)
        is_home = place is Location.HOME
        runtime = Threads() if is_home else reader.runtime
        return reader.moved(source, features, runtime=runtime, is_home=is_home or reader.is_home)


class Scattered:
    """Survivors that lie at random, as those of a run do to the eye of its reader.

    Parameters
    ----------
    n : int
        Candidates.
    codes : (d,) int64, optional
        Candidate of each feature, where those are groups.
    """

    def __init__(self, n: int, codes: Index | None = None) -> None:
        leaves_at = np.random.default_rng(0).permutation(n)
        self._leaves_at = leaves_at if codes is None else leaves_at[codes]
        self.n = n
        self._features = np.arange(self._leaves_at.size)
        self.d = self._leaves_at.size

    def left(self, n: int) -> Index:
        """Features while n candidates are left, fewer than at the last call; ascending."""
        stays = self._leaves_at[self._features] >= self.n - n
        self._features = self._features[stays]
        return self._features


@dataclass
class Tally:
    """Steps so far, where features are kept now, and how many candidates `n` are left.

    Attributes
    ----------
    m : int
        Samples.
    number : int
        The round, from 1.
    n_moves : int
        Moves that are written down.
    """

    reader: Reader
    keeper: CountingKeeper
    scattered: Scattered
    m: int
    n: int
    number: int = 1
    passes: list[Step] = field(default_factory=list)
    n_moves: int = 0

    @staticmethod
    def of(run: SelectionRun, budget: int | None) -> Tally:
        """Nothing done yet; `budget` is bytes of survivors, as of `Selector.fitted`."""
        codes, keeper = None if run.groups is None else run.groups.codes, CountingKeeper()
        reader = Reader(run.source, run.runtime, run.rows, memory=budget, keeper=keeper)
        n = run.n_candidates
        return Tally(reader, keeper, Scattered(n, codes), run.n_samples, n)

    @property
    def n_features(self) -> int:
        """Features that are left, about."""
        return round(self.scattered.d * self.n / self.scattered.n)

    def measure(self, **work: Any) -> None:
        """The first pass, over everything."""
        self.reader, jobs, n_bytes = self.reader.first_pass()
        decoded = self._kept() or self.reader.bytes_of(jobs)
        self._add("measure", self.n_features, len(jobs), n_bytes, bytes_decoded=decoded, **work)

    def compact(self, *, thinned: bool = False) -> None:
        """Survivors are kept apart if that is worth it."""
        features = self._features()
        if features is None:
            return
        reader = self.reader
        self.reader = reader.thinned(features) if thinned else reader.compacted(features)
        decoded = self._kept()
        if decoded:
            n_jobs = len(self.reader.jobs(features))
            self._add("keep", features.size, n_jobs, 0, bytes_decoded=decoded)

    def over(self, what: str, share: float = 1.0, *, sums: bool = False, **work: Any) -> None:
        """A pass over this part of the features left; `sums`: its results are summed.

        `each` among `work` are the bytes that come back from each job.
        """
        n = max(1, round(share * self.n_features))
        features = self._features()
        if features is None:
            n_jobs, n_bytes = -(-n // self._width(n)), 0
            n_jobs = min(n_jobs, n_partials(n)) if sums else n_jobs
        else:  # some of them, evenly spread
            n_some = max(1, round(min(share, 1.0) * features.size))
            places = np.linspace(0, features.size - 1, n_some).astype(np.int64)
            jobs = self.reader.jobs(features[places])
            n_bytes = self.reader.bytes_of(jobs)
            n_jobs = len(grouped(jobs) if sums else jobs)
        self._add(what, n, n_jobs, n_bytes, bytes_decoded=self._decoded_of(n_bytes), **work)

    def prepare(
        self, elements: float = 0.0, *, float64: float = 0.0, is_open: bool = False
    ) -> None:
        """What this process does itself; `float64` flops on all its threads."""
        self.passes.append(
            Step(
                self.number,
                "prepare",
                elements=elements,
                float64=float64,
                at_home=True,
                is_open=is_open,
            )
        )

    def _features(self) -> Index | None:
        """Which are left; None from memory, where their number says all."""
        if self.reader.held is not None and self.reader.source.in_memory:
            return None
        return self.scattered.left(self.n)

    def _width(self, n: int) -> int:
        return block_width(self.m, n, np.dtype(self.reader.source.dtype).itemsize)

    def _decoded_of(self, n_bytes: int) -> int:
        """Bytes decoded where `n_bytes` of values are read: of scratch as it is kept, at most.

        As much of scratch as there is room for stays in the memory of those that read it.
        """
        if self.reader.held is None or not self.keeper.moves:
            return n_bytes
        last = self.keeper.moves[-1]
        if last.n_bytes <= self.reader.room:
            return 0
        return round(n_bytes * last.n_bytes / (last.n_features * self.reader.bytes_per_feature))

    def _kept(self) -> int:
        """Bytes decoded to keep what was kept just now."""
        new = self.keeper.moves[self.n_moves :]
        self.n_moves += len(new)
        return sum(move.bytes_decoded for move in new)

    def _add(
        self, what: str, n: int, n_jobs: int, n_bytes: int, *, each: int = 0, **work: Any
    ) -> None:
        if each:
            work["result_bytes"] = n_jobs * each
        work = {"values": float(self.m) * n} | work
        at_home = self.reader.is_home
        self.passes.append(
            Step(self.number, what, n, n_jobs, bytes_read=n_bytes, at_home=at_home, **work)
        )
