"""A run on sizes: its readers, sums and algorithm, with passes that are counted and not run.

Which rounds there are, when a sum over features starts anew, which blocks a pass reads, in which
jobs, when survivors are kept apart and where: the code of the run decides that by sizes alone, so
it is asked itself. What a pass would give is `Unread`; what it would take is a `Step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dhsic._typing import Array, Float, Index, Mask
from dhsic.kernels.statistic import AbstractSums
from dhsic.passes import (
    AbstractPass,
    AbstractSizedPass,
    AbstractSum,
    Cost,
    Measure,
    Score,
    ScoreLowRank,
    Tile,
)
from dhsic.passes.reader import AbstractReader
from dhsic.passes.survivors import Form, Location
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources import AbstractSource, Block, even_blocks, group_chunks, regular_edges


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over features; of no features, what this process does between passes.

    Attributes
    ----------
    n_features, n_jobs : int
        Features that it is over, and jobs that it is cut into, at most.
    bytes_decoded : int
        Stored bytes that are read and decoded.
    values : float
        Values that are made ready.
    float32, float64 : float
        Flops of matrix products.
    elements : float
        Entries of matrices that functions are taken of, in this process.
    state_bytes, sent_bytes : int
        What every worker is sent before it: at most, and as it turns out.
    result_bytes : int
        What this process gets back, of all jobs together, where that is large.
    at_home : bool
        Done in this process though there is a cluster: survivors are few.
    times : int
        How often: rounds that are alike are gone through once.
    """

    n_features: int = 0
    n_jobs: int = 1
    bytes_decoded: int = 0
    values: float = 0.0
    float32: float = 0.0
    float64: float = 0.0
    elements: float = 0.0
    state_bytes: int = 0
    sent_bytes: int = 0
    result_bytes: int = 0
    at_home: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True)
class Move:
    """Survivors that are kept apart: how many, where, and in how many bytes."""

    n_features: int
    place: Location
    n_bytes: int


class Unread(NDArrayOperatorsMixin):
    """What a pass over `n` features would give, and whatever is computed from that.

    Where n numbers are needed they are 0.
    """

    def __init__(self, n: int = 1) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __array__(self, *_: Any, **__: Any) -> Array:
        return np.zeros(self.n, dtype=np.int64)

    def max(self) -> float:
        """Largest of the numbers."""
        return 0.0

    def whole(self) -> Unread:
        """As of a `Statistic`."""
        return self

    @property
    def diagonal(self) -> Unread:
        """As of a `Statistic`."""
        return self

    def __iter__(self) -> Iterator[Unread]:
        return iter((self, self))  # inner products and norms

    def __array_ufunc__(self, *_: Any, **__: Any) -> Unread:
        return self

    def __array_function__(self, *_: Any) -> Unread:
        return self

    def __getitem__(self, _: Any) -> Unread:
        return self

    def __setitem__(self, _: Any, value: Any) -> None: ...

    @property
    def T(self) -> Unread:
        """Itself."""
        return self


@dataclass(frozen=True, slots=True)
class AllVary:
    """In place of the scaling of features, which the first pass would find: none is constant."""

    constant: Mask
    std: float = 1.0
    scale: float = 1.0

    @property
    def max_abs(self) -> Float:
        """Small: no series is long."""
        return np.broadcast_to(0.0, self.constant.shape)

    fourth_moment = n_levels = max_abs

    def take(self, _: Any) -> AllVary:
        """Of some of the features."""
        return self


@dataclass(frozen=True, slots=True)
class Assumed(AbstractSizedPass):
    """A pass that the data decide on, with what it takes as a rule."""

    expected: Cost

    def over(self, blocks: Iterator[Tile], m: int) -> Any:
        raise TypeError("A plan runs nothing.")

    def cost(self, m: int) -> Cost:
        return self.expected


class CountedSource(AbstractSource):
    """Sizes of features that are kept somewhere, on disk in chunks of so many."""

    def __init__(
        self, n_samples: int, n_features: int, dtype: Any, chunk: int, *, in_memory: bool
    ) -> None:
        self.n_samples, self.n_features, self.dtype = n_samples, n_features, dtype
        self.in_memory = in_memory
        self._chunk = chunk

    def blocks(self, width: int) -> tuple[Block, ...]:
        if self.in_memory:
            return even_blocks(self.n_features, width)
        return group_chunks(regular_edges(self.n_features, self._chunk), width)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        raise TypeError(f"Features {block.start}:{block.stop} of a plan have no values.")

    def fingerprint(self) -> str:
        raise TypeError("A plan has no data to fingerprint.")


@dataclass(eq=False)
class DryRun:
    """What a run would do, written down by its reader and by who drives it.

    Attributes
    ----------
    steps : list of Step
        In their order.
    sizes, bytes_read : list of int
        Candidates at the start of every round, and stored bytes that its history would tell of.
    moves : list of Move
        Where survivors went.
    """

    steps: list[Step] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    bytes_read: list[int] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    _bytes_before: int = 0

    def drive(self, elements: float = 0.0, float64: float = 0.0) -> None:
        """What this process does itself; `float64` flops on all its threads."""
        self.steps.append(Step(elements=elements, float64=float64, at_home=True))

    def rounds_done(self, sizes: Sequence[int], bytes_read: int, first: int = 0) -> None:
        """Rounds over so many candidates are done, all alike: each takes the steps from `first` on.

        So many bytes were read in one of them, with those before.
        """
        if len(sizes) > 1:
            self.steps[first:] = [replace(p, times=len(sizes)) for p in self.steps[first:]]
        self.sizes += sizes
        self.bytes_read += [bytes_read - self._bytes_before] * len(sizes)
        self._bytes_before = bytes_read

    def total(self, of: Callable[[Step], Any]) -> Any:
        """Sum over the steps."""
        return sum(of(step) * step.times for step in self.steps)


class CountingReader(AbstractReader):
    """Writes down what would be read; values of one byte are supposed to pack in two bits."""

    def __init__(
        self,
        dry: DryRun,
        source: AbstractSource,
        runtime: AbstractRuntime,
        rows: Index | None = None,
        memory: int | None = None,
    ) -> None:
        super().__init__(source, runtime, rows, memory)
        supposed: Any = AllVary(np.zeros(source.n_features, dtype=bool))
        self._scaling, self._dry = supposed, dry

    def _results(
        self, a_pass: AbstractPass, jobs: Sequence[Job], *, divisible: bool
    ) -> Iterator[Any]:
        found = self._counted(a_pass, jobs)
        if isinstance(a_pass, Measure):
            yield found, found  # scaling and sums
        elif isinstance(a_pass, Score | ScoreLowRank):
            yield np.ones(found.n)
        else:
            yield found

    def added(self, a_pass: AbstractSum, jobs: Sequence[Job]) -> Any:
        return next(self.map(a_pass, jobs))

    def _packs(self, features: Index) -> bool:
        return True

    def _keep(self, features: Index, form: Form, place: Location) -> bool:
        n, in_memory, is_home = features.size, place is not Location.SCRATCH, place is Location.HOME
        self._counted(Assumed(Cost(values=form.n_samples)), self.jobs(features))
        is_here = is_home or (self.is_home and place is Location.MEMORY)
        to = Location.HOME if is_here else place
        self._dry.moves.append(Move(n, to, n * form.bytes_per_feature))
        chunk = 1 if in_memory else self._writing(features, form)[1]
        source = CountedSource(form.n_samples, n, form.dtype, chunk, in_memory=in_memory)
        self._move(source, features, home=is_home)
        return True

    def _counted(self, a_pass: AbstractPass, jobs: Sequence[Job]) -> Unread:
        """Write down a pass."""
        assert isinstance(a_pass, AbstractSizedPass), f"{a_pass} does not say what it takes"
        cost = a_pass.cost(self.n_samples)
        n = sum(columns.local.size for job in jobs for columns in job.payload)
        step = Step(
            n_features=n,
            n_jobs=len(jobs),
            bytes_decoded=self._decoded(self.bytes_of(jobs)),
            values=cost.values * n,
            float32=cost.float32 * n,
            float64=cost.float64 * n,
            state_bytes=cost.state,
            sent_bytes=cost.sent or cost.state,
            result_bytes=cost.result * len(jobs) + cost.columns * n,
            at_home=self.is_home,
        )
        self._dry.steps.append(step)
        return Unread(n)

    def _decoded(self, n_bytes: int) -> int:
        """Bytes decoded where `n_bytes` of values are read: of scratch as it is kept, at most.

        As much of scratch as there is room for stays in the memory of those that read it.
        """
        moves = self._dry.moves
        if not n_bytes or self.held is None or not moves:
            return n_bytes
        last = moves[-1]
        if last.n_bytes <= self.room:
            return 0
        return round(n_bytes * last.n_bytes / (last.n_features * self.bytes_per_feature))


@dataclass(frozen=True)
class CountedSums(AbstractSums):
    """Sums that this process would change by features themselves: flops on all its threads."""

    dry: DryRun
    n_samples: int

    def add(self, upper: Float, Z: Any) -> None:
        self.dry.drive(float64=float(self.n_samples) ** 2 * Z.n)

    def take_away(self, upper: Float, Z: Any, each: Callable[..., Iterable[Any]]) -> None:
        self.add(upper, Z)
