"""Dry run: execute the algorithm of a run without data, and count its passes over the data.

The sizes of the data determine the rounds, the blocks that each pass reads, the time at which a sum
over features restarts, and the copies of the surviving features. So the dry run executes the same
code as the run, but a pass returns a `PlaceholderArray`, and its cost is recorded as a `Step`.
Outcomes that depend on the data are assumed (`dhsic.plans.plan_assumptions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dhsic._typing import Array, Float, Index, Mask
from dhsic.kernels.statistic import AbstractSums
from dhsic.lowrank.slices import STRIP
from dhsic.passes import AbstractPass, AbstractSum, Cost, Measure
from dhsic.passes.landmarks import LandmarkSum
from dhsic.passes.reader import AbstractReader
from dhsic.passes.resident_values import ResidentValues, sites_of
from dhsic.passes.sliced import AbstractReadingStep
from dhsic.passes.survivors import Form, Location
from dhsic.runtime.base import AbstractRuntime, AbstractStep, Ask, Jobs, Sites, SiteValues
from dhsic.runtime.partition import n_values
from dhsic.sources import FINGERPRINT_CHUNKS, AbstractSource
from dhsic.sources.blocks import Block, even_blocks, group_chunks, regular_edges


@dataclass(frozen=True, slots=True)
class Step:
    """Cost of one pass over features, or of work between passes (with `n_features` 0).

    Work between passes runs in this process, not on workers.
    """

    n_features: int = 0
    n_jobs: int = 1
    n_values: int = 0  # values read, including those of eliminated features in the same blocks
    bytes_decoded: int = 0  # stored bytes
    values: float = 0.0  # values standardised
    float32: float = 0.0  # floating-point operations of matrix products
    float64: float = 0.0
    elements: float = 0.0  # matrix entries to which functions are applied
    state_bytes: int = 0  # bytes sent to every worker before the pass, at most
    sent_bytes: int = 0  # bytes expected to be sent
    sum_bytes: int = 0  # bytes of a job's partial sum, if it is large
    result_bytes: int = 0  # bytes of other results that this process receives, if they are large
    at_home: bool = False  # runs in this process although there is a cluster: few survivors
    times: int = 1  # number of similar rounds that this step stands for
    inside: int = 1  # number of parts of a job, or of local work, that threads can run in parallel


@dataclass(frozen=True, slots=True)
class Moved:
    """Copy of the surviving features to another location: their number, location, and bytes."""

    n_features: int
    place: Location
    n_bytes: int


class PlaceholderArray(NDArrayOperatorsMixin):
    """Placeholder for the result of a pass over `n` features; arithmetic on it returns itself.

    Its conversion to a NumPy array gives n zeros.
    """

    def __init__(self, n: int = 1) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __array__(self, *_: Any, **__: Any) -> Array:
        return np.zeros(self.n, dtype=np.int64)

    def max(self) -> float:
        """Largest value, 0."""
        return 0.0

    def copy(self) -> PlaceholderArray:
        """Return itself."""
        return self

    to_dense = copy  # method of a `Statistic`

    def __iter__(self) -> Iterator[PlaceholderArray]:
        return iter((self, self))  # inner products and norms

    def __array_ufunc__(self, *_: Any, **__: Any) -> PlaceholderArray:
        return self

    __array_function__ = __getitem__ = __array_ufunc__

    def __setitem__(self, _: Any, value: Any) -> None: ...

    @property
    def T(self) -> PlaceholderArray:
        """Return itself."""
        return self

    raw = sums = diagonal = T  # attributes of `dhsic.passes.statistic.Ends` and `Statistic`

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, 0)."""
        return self.n, 0


@dataclass(frozen=True, slots=True)
class AllVary:
    """Assumed scaling of features in a dry run: no feature is constant."""

    constant: Mask
    std: float = 1.0
    scale: float = 1.0

    @property
    def max_abs(self) -> Float:
        """Zeros, for which kernel series need the fewest terms."""
        return np.broadcast_to(0.0, self.constant.shape)

    fourth_moment = n_levels = max_abs

    def take(self, _: Any) -> AllVary:
        """Return itself for any subset of features."""
        return self


class CountedSource(AbstractSource):
    """Source that has sizes but no values.

    Each chunk has `chunk` features and `samples` samples (default: all samples).
    """

    def __init__(
        self,
        n_samples: int,
        n_features: int,
        dtype: Any,
        chunk: int,
        *,
        in_memory: bool,
        samples: int | None = None,
    ) -> None:
        self.n_samples, self.n_features, self.dtype = n_samples, n_features, dtype
        self.in_memory = in_memory
        self._chunk, self._samples = chunk, samples or n_samples

    def blocks(self, width: int) -> tuple[Block, ...]:
        if self.in_memory:
            return even_blocks(self.n_features, width)
        return group_chunks(regular_edges(self.n_features, self._chunk), width)

    def stored_samples(self, rows: Index) -> int:
        return min(self._samples, self.n_samples)

    def read(self, block: Block, rows: Index | None = None) -> Array:
        raise TypeError(f"Features {block.start}:{block.stop} of a plan have no values.")

    def fingerprint(self, n_chunks: int = FINGERPRINT_CHUNKS) -> str:
        raise TypeError("A plan has no data to fingerprint.")


@dataclass(eq=False)
class DryRun:
    """Record of a dry run: steps, rounds, bytes read, and moves of surviving features."""

    steps: list[Step] = field(default_factory=list)
    sizes: list[int] = field(
        default_factory=list
    )  # number of candidates at the start of every round
    bytes_read: list[int] = field(
        default_factory=list
    )  # stored bytes per round, as in the history of a run
    moves: list[Moved] = field(default_factory=list)  # copies of survivors
    _bytes_before: int = 0

    def drive(self, elements: float = 0.0, float64: float = 0.0) -> None:
        """Record work in this process: kernel matrix `elements`, `float64` flops on all threads."""
        self.steps.append(Step(elements=elements, float64=float64, at_home=True))

    def work(
        self,
        elements: float,
        total: LandmarkSum,
        read: Callable[[], object] | None = None,
        *,
        result_bytes: int = 0,
    ) -> None:
        """Record work on slices of samples, after a pass over features.

        `read` records this pass. But if the sum `total` still contains eliminated features, the
        pass that subtracts them is recorded instead.
        """
        n, at = total.n_slices, len(self.steps)
        inside = -(-total.data.n_samples // (n * STRIP))
        if total.is_behind:
            read = total.settle
        if read is not None:
            read()
        if n == 1:
            self.steps.append(Step(elements=elements, at_home=True, inside=inside))
            return
        if read is None:
            self.steps.append(Step(*(n, n), at_home=total.data.is_home, inside=inside))
        self.steps[at] = replace(self.steps[at], elements=elements, result_bytes=result_bytes)

    def rounds_done(self, sizes: Sequence[int], bytes_read: int, first: int = 0) -> None:
        """Record similar rounds; `sizes` are the numbers of candidates in each.

        All rounds have the same steps: the steps recorded from number `first` on. `bytes_read` is
        the total at the end of the first of these rounds.
        """
        if len(sizes) > 1:
            self.steps[first:] = [replace(p, times=len(sizes)) for p in self.steps[first:]]
        self.sizes += sizes
        self.bytes_read += [bytes_read - self._bytes_before] * len(sizes)
        self._bytes_before = bytes_read

    def total(self, of: Callable[[Step], Any]) -> Any:
        """Sum a quantity over all recorded steps of the run.

        The function `of` returns the quantity for one step.
        """
        return sum(of(step) * step.times for step in self.steps)


class CountingReader(AbstractReader):
    """Reader that records the reads of a run without executing them.

    It assumes that values of one byte can be packed into two bits.
    """

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

    def results(self, a_pass: AbstractPass, jobs: Jobs, *, divisible: bool) -> Iterator[Any]:
        result = self._counted(a_pass.cost(self.n_samples), jobs)
        yield (result, result) if isinstance(a_pass, Measure) else result  # scaling and sums

    def scores(self, a_pass: AbstractPass, jobs: Jobs, *, aloud: bool = False) -> Array:
        return np.broadcast_to(1.0, next(self.map_blocks(a_pass, jobs)).n)

    def summed(self, a_pass: AbstractSum, jobs: Jobs) -> Any:
        return next(self.results(a_pass, jobs, divisible=False))

    def keep_on_workers(self, a_pass: AbstractPass, features: Index) -> ResidentValues:
        jobs, cost = self.jobs(features), a_pass.cost(self.n_samples)
        self.bytes_read += self.bytes_of(jobs)
        sites, widths = sites_of(jobs)
        if len(sites) == 1:  # the result comes to this process
            self._counted(replace(cost, result=cost.columns * features.size, columns=0), jobs)
        else:
            self._counted(replace(cost, columns=0), jobs)
            inside = -(-len(jobs) // len(sites))
            last = self._dry.steps[-1]
            self._dry.steps[-1] = replace(last, n_jobs=len(sites), inside=inside)
        return CountedResidentValues(self, self._dry, features, widths, cost.columns)

    def _update(
        self, held: SiteValues | None, step: AbstractStep, sites: Sites, state: Any
    ) -> tuple[SiteValues, Any]:
        if sites[0].jobs:
            assert isinstance(step, AbstractReadingStep), f"{step} does not say what it reads"
            unsliced = [replace(job, samples=None) for job in sites[0].jobs]
            cost = step.pass_over(state).cost(self.n_samples)
            if len(sites) == 1:
                self._counted(cost, unsliced)
            else:
                n = sum(columns.local.size for job in unsliced for columns in job.payload)
                ends = n * len(state.landmarks) * np.dtype(self.source.dtype).itemsize
                stays = replace(cost, result=0, columns=0, state=ends)
                self._in_slices(stays, unsliced, len(sites))
        return SiteValues([None] * len(sites)), PlaceholderArray()

    def _in_slices(self, cost: Cost, jobs: Jobs, n: int) -> None:
        """Record a pass with one job for each of n slices of the samples.

        The results stay on the workers.
        """
        self._counted(cost, jobs)
        last = self._dry.steps[-1]
        self._dry.steps[-1] = replace(last, n_jobs=n, inside=len(jobs))

    def query(self, held: SiteValues, ask: Ask, told: Sequence[Any], state: Any) -> Iterator[Any]:
        return iter(())

    def _packs(self, features: Index) -> bool:
        return True

    def _keep(self, features: Index, form: Form, place: Location) -> bool:
        n, in_memory, is_home = features.size, place is not Location.SCRATCH, place is Location.HOME
        self._counted(Cost(values=form.n_samples), self.jobs(features))
        is_here = is_home or (self.is_home and place is Location.MEMORY)
        to = Location.HOME if is_here else place
        self._dry.moves.append(Moved(n, to, n * form.bytes_per_feature))
        chunk = 1 if in_memory else self._writing(features, form)[1]
        source = CountedSource(form.n_samples, n, form.dtype, chunk, in_memory=in_memory)
        self._move(source, features, home=is_home)
        return True

    def _counted(self, cost: Cost, jobs: Jobs) -> PlaceholderArray:
        """Record a pass with a cost per feature."""
        n = sum(columns.local.size for job in jobs for columns in job.payload)
        step = Step(
            n_features=n,
            n_jobs=len(jobs),
            n_values=n_values(self.source, jobs),
            bytes_decoded=self._decoded(self.bytes_of(jobs)),
            values=cost.values * n,
            float32=cost.float32 * n,
            float64=cost.float64 * n,
            state_bytes=cost.state,
            sent_bytes=cost.sent or cost.state,
            sum_bytes=cost.result,
            result_bytes=cost.columns * n,
            at_home=self.is_home,
        )
        self._dry.steps.append(step)
        return PlaceholderArray(n)

    def _decoded(self, n_bytes: int) -> int:
        """Return the number of stored bytes that are decoded to read `n_bytes` of values.

        After the surviving features were copied, the copy is read; nothing is decoded if it fits in
        memory.
        """
        moves = self._dry.moves
        if not n_bytes or self.held is None or not moves:
            return n_bytes
        last = moves[-1]
        if last.n_bytes <= self.room:
            return 0
        return round(n_bytes * last.n_bytes / (last.n_features * self.bytes_per_feature))


class CountedResidentValues(ResidentValues):
    """Dry-run version of numbers that workers keep, `n_bytes` per feature; records all queries."""

    def __init__(
        self, data: CountingReader, dry: DryRun, features: Index, widths: list[int], n_bytes: int
    ) -> None:
        super().__init__(data.runtime, SiteValues([None] * len(widths)), features, widths)
        self._dry, self._n_bytes = dry, n_bytes
        self._stays = not data.is_home and len(widths) > 1
        self._n_values = dry.steps[-1].n_values

    def keep(self, S: Index, runtime: AbstractRuntime) -> None:
        if 2 * S.size <= self.features.size:
            self._count(S)
            self.features = S
        if runtime is not self._runtime and self._stays:
            self._count(S, self._n_bytes * S.size)
            self._stays = False

    def query(self, S: Index, ask: Callable[[Array], Array]) -> Iterator[Array]:
        self._count(S, 8 * S.size)
        yield np.broadcast_to(1.0, S.size)

    def _count(self, S: Index, result_bytes: int = 0) -> None:
        """Record a query or update of the numbers kept for the features S.

        Each number counts like one value of the data.
        """
        step = Step(
            n_features=S.size,
            n_jobs=len(self._held),
            n_values=self._n_values,
            values=self._n_bytes / 4 * S.size,
            result_bytes=result_bytes,
            at_home=not self._stays,
        )
        self._dry.steps.append(step)


@dataclass(frozen=True)
class CountedSums(AbstractSums):
    """Dry-run version of sums over features; records their flops, on all local threads."""

    dry: DryRun
    n_samples: int

    def add(self, upper: Float, Z: Any) -> None:
        self.dry.drive(float64=float(self.n_samples) ** 2 * Z.n)

    def take_away(self, upper: Float, Z: Any, each: Callable[..., Iterable[Any]]) -> None:
        self.add(upper, Z)
