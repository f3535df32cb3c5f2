"""Passes of a run written down one after the other, through a reader that reads nothing.

A reader that reads nothing: the same decisions by the same sizes, counted.

Which blocks a pass reads, when survivors are kept apart and where, `dhsic.passes.reader` decides
by sizes alone. `CountingReader` is that reader with sources of sizes only behind it, so a plan
cannot differ from the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.passes.packing import Form
from dhsic.passes.reader import Reader, grouped, n_partials
from dhsic.passes.scratch import chunk_width
from dhsic.plans.work import Pass
from dhsic.runtime.threads import Threads
from dhsic.selectors.run import AbstractRun
from dhsic.sources.base import AbstractSource, Block, group_chunks, regular_edges


class CountedSource(AbstractSource):
    """Sizes of survivors that are kept somewhere.

    Parameters
    ----------
    n_samples, n_features, dtype
        As of the survivors.
    chunk : int
        Features of a chunk; 1 in memory.
    """

    def __init__(
        self, n_samples: int, n_features: int, dtype: Any, chunk: int, *, in_memory: bool
    ) -> None:
        self.n_samples, self.n_features, self.dtype = n_samples, n_features, dtype
        self.in_memory = in_memory
        self._chunk = chunk

    def blocks(self, width: int) -> tuple[Block, ...]:
        """Cut the features as a source of survivors does."""
        if not self.in_memory:
            return group_chunks(regular_edges(self.n_features, self._chunk), width)
        edges = regular_edges(self.n_features, width)
        return tuple(Block(i, int(a), int(b)) for i, (a, b) in enumerate(pairwise(edges)))

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
    place: str
    n_bytes: int
    bytes_decoded: int


@dataclass(frozen=True)
class CountingReader(Reader):
    """The reader of a run, as far as sizes go; `moves` is what was kept apart so far."""

    moves: list[Move] = field(default_factory=list)

    def n_jobs(self, n_features: int, features: Index | None) -> int:
        """Jobs of a pass; those over survivors in memory follow from their number."""
        if features is not None:
            return len(self.jobs(features))
        return max(1, -(-n_features // self._width(n_features)))

    def decoded_of(self, n_bytes: int) -> int:
        """Bytes decoded where `n_bytes` of values are read: of scratch as it is kept, at most.

        As much of scratch as there is room for stays in the memory of those that read it.
        """
        if self.held is None or not self.moves:
            return n_bytes
        last = self.moves[-1]
        if last.n_bytes <= self._room:
            return 0
        return round(n_bytes * last.n_bytes / (last.n_features * self.bytes_per_feature))

    def _held(self, features: Index, form: Form) -> Reader:
        return self._counted(features, form, "memory", in_memory=True)

    def _brought_home(self, features: Index, form: Form) -> Reader:
        moved = self._counted(features, form, "memory of this process", in_memory=True)
        return replace(moved, runtime=Threads(), is_home=True)

    def _written(self, features: Index, form: Form) -> Reader | None:
        if self._place() is None:
            return self._recut(features, form)
        return self._counted(features, form, "scratch", in_memory=False)

    def _packs(self, features: Index) -> bool:
        """Supposed, as wherever a form is tried."""
        return True

    def _counted(self, features: Index, form: Form, place: str, *, in_memory: bool) -> Reader:
        n = features.size
        decoded = self.bytes_of(self.jobs(features))
        self.moves.append(Move(n, place, n * form.bytes_per_feature, decoded))
        chunk = 1 if in_memory else chunk_width(self._width(n), form)
        source = CountedSource(form.n_samples, n, form.dtype, chunk, in_memory=in_memory)
        return replace(self, source=source, held=features, rows=None)


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
        self._n = n
        self._features = np.arange(self._leaves_at.size)
        self.d = self._leaves_at.size

    def left(self, n: int) -> Index:
        """Features while n candidates are left, fewer than at the last call; ascending."""
        stays = self._leaves_at[self._features] >= self._n - n
        self._features = self._features[stays]
        return self._features

    def n_features(self, n: int) -> int:
        """About how many features n candidates have."""
        return round(self.d * n / self._n)


def spread(features: Index, share: float) -> Index:
    """Some of the features, evenly spread over them; at least one."""
    n = max(1, round(share * features.size))
    return features[np.linspace(0, features.size - 1, n).astype(np.int64)]


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
        reader = CountingReader(run.source, run.runtime, run.rows, memory=memory)
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
