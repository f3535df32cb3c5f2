"""Reader of the features of a run: chooses blocks, jobs, and the location of survivors.

As features are removed, less of each block is needed. The surviving features (*survivors*) are
compacted: they are kept in memory if they fit a fixed budget, and rewritten to a temporary file
(*scratch*) otherwise. All passes together therefore decode only a small multiple of the data.
Low-rank rounds compact when half of the stored features have left. The exact engine compacts when
an epoch begins (`dhsic.passes.sums`), after seven in eight have left. On a cluster survivors go to
scratch, unless they are few. All features are stored in this way before the first round, if they
fit the budget (`AbstractReader.load`). So a run examines its values (`dhsic.passes.single_pass`),
loads them, measures them (the first pass), and then its rounds decode blocks from memory. Decisions
and jobs depend on data sizes and the source alone, never on where survivors are kept, so all runs
over the same data sum in the same order.

`AbstractReader` makes these decisions. `Reader` runs the passes; the reader of a plan counts them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines.scoring_problem import FeatureStats
from dhsic.errors import warn
from dhsic.memory import release_pages
from dhsic.namespace import slices
from dhsic.passes import AbstractPass, AbstractSum, Columns, Measure, Values, run, samples_of
from dhsic.passes.jobs import (
    JOBS_PER_THREAD,
    block_width,
    even_parts,
    grouped,
    positions,
    stored_parts,
    writing_jobs,
)
from dhsic.passes.resident_values import ConcatenateResults, ResidentValues, sites_of
from dhsic.passes.scratch import (
    AbstractScratch,
    ScratchSource,
    UnwritableError,
    Write,
    chunk_width,
    scratch_in,
)
from dhsic.passes.survivors import (
    Encode,
    Extremes,
    Form,
    Gather,
    Location,
    MemorySource,
    RecutSource,
    Span,
    belong_home,
    enclosing_span,
    fits,
    forms,
    imputed_among,
)
from dhsic.runtime.base import AbstractRuntime, AbstractStep, Ask, Job, Jobs, Sites, SiteValues
from dhsic.runtime.threads import Threads
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.categories import pooled
from dhsic.sources.feature_blocks import BlockScaling
from dhsic.sources.scaling import Scaling
from dhsic.sources.views import ChecksummedSource, ScaledSource

#: Maximum stored bytes of all features (packed if possible) at which they are loaded at the start,
#: into memory if the budget allows.
COMPACT_BYTES = 512 << 20
#: Minimum ratio of stored features to surviving features for compaction.
COMPACTING = 2
#: Number of features whose sizes are computed at a time.
AT_A_TIME = 1 << 17


class Reporter(Protocol):
    """Receiver of progress reports."""

    def scored(self, n_features: int) -> None:
        """Report that `n_features` more features have been scored."""


def worth_compacting(n_features: int, n_stored: int, n_bytes: int) -> bool:
    """Whether `n_features` of the `n_stored` features should be stored separately.

    All features are stored separately if their `n_bytes` are at most `COMPACT_BYTES`. A part of the
    features is stored separately if it is at most half of the stored ones. The decision uses only
    sizes, so resumed runs decide in the same way.
    """
    if n_features == n_stored:
        return n_bytes <= COMPACT_BYTES
    return COMPACTING * n_features <= n_stored


class AbstractReader(ABC):
    """Reader of features; they may be in the source, in memory or in scratch.

    Features are identified by their numbers in the whole source. `rows` (m,) are the indices of the
    samples of the run, in order (None: all samples). `memory` is the budget in bytes for surviving
    features in memory (default `COMPACT_BYTES`), for this process and for every worker of a
    cluster. Surviving features that exceed it go to scratch files; results are the same.
    """

    def __init__(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        rows: Index | None = None,
        memory: int | None = None,
    ) -> None:
        self.source, self.runtime, self.rows = source, runtime, rows
        #: All features, with names and declared codes, which copies in memory lack.
        self.original = source
        self.room = COMPACT_BYTES if memory is None else memory
        #: All features in memory, if they were loaded before the first pass (`Reader.load_here`).
        self.loaded: MemorySource | None = None
        #: Features that `source` contains, ascending, if features were stored separately; None if
        #: it contains all features.
        self.held: Index | None = None
        self.scratch: AbstractScratch | None = None  # storage of `source`, if it is scratch
        self.is_home = False  # whether survivors have moved from the cluster to this process
        self.reporter: Reporter | None = None  # receives progress reports
        self.bytes_read = 0  # stored bytes read by all passes
        #: Columns of the features, (d,), if some are indicators of categories, which are scaled
        #: together (`dhsic.sources.categories.pooled`).
        self.columns: Index | None = None
        #: Scaling of features by their matrices, if the source joins several.
        self.block_scaling: BlockScaling | None = None
        #: Weights of the samples, (m,), which sum to 1; None: all have the same weight.
        self.p: Float | None = None
        #: Factors (d,) that turn the scaling of the first pass into this one.
        self.block_factors: Float | None = None
        self._scaling: Scaling | None = None
        self._sent: ScaledSource | None = None
        self._is_alone = True  # whether no other reader uses the same source

    # -- how passes are run, and survivors kept ---------------------------------------------------

    @abstractmethod
    def results(self, a_pass: AbstractPass, jobs: Jobs, *, divisible: bool) -> Iterator[Any]:
        """Run a pass over jobs, and yield the results in order.

        The caller concatenates `divisible` results, so their jobs may be split or merged.
        """

    @abstractmethod
    def summed(self, a_pass: AbstractSum, jobs: Jobs) -> Any:
        """Run the pass over jobs, and return the sum of the results, added along a fixed tree."""

    @abstractmethod
    def keep_on_workers(self, a_pass: AbstractPass, features: Index) -> ResidentValues:
        """Run a pass over features, and keep the results on the workers."""

    @abstractmethod
    def _update(
        self, held: SiteValues | None, step: AbstractStep, sites: Sites, state: Any
    ) -> tuple[SiteValues, Any]:
        """Update the values stored on workers as in `update`, or record the cost of it."""

    def update(
        self, held: SiteValues | None, step: AbstractStep, sites: Sites, state: Any
    ) -> tuple[SiteValues, Any]:
        """Update the values that workers store, one per site; return the new values and a sum.

        A site is the owner of one value, for example a slice of the samples. The sum is over one
        term per site (see `AbstractRuntime.update`).
        """
        self.bytes_read += self.bytes_of([job for site in sites for job in site.jobs])
        return self._update(held, step, sites, state)

    def query(self, held: SiteValues, ask: Ask, told: Sequence[Any], state: Any) -> Iterator[Any]:
        """Yield the answers of the function `ask` for all values stored on workers.

        There is one value per site, for example per slice of the samples. See
        `AbstractRuntime.query`.
        """
        return self.runtime.query(held, ask, told, state)

    @abstractmethod
    def _packs(self, features: Index) -> bool:
        """Whether the values of features can be packed into two bits each.

        Checking this takes a pass.
        """

    @abstractmethod
    def _keep(self, features: Index, form: Form, place: Location) -> bool:
        """Store `features` in memory or scratch, depending on `place`, in the format `form`.

        Returns False if they cannot be packed. Raises UnwritableError if scratch is full.
        """

    # -- statistics of features --------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of samples m of the run."""
        return self.source.n_samples if self.rows is None else len(self.rows)

    @property
    def bytes_per_feature(self) -> int:
        """Stored bytes per feature, for the samples of the run."""
        return int(self.n_samples * np.dtype(self.source.dtype).itemsize)

    @property
    def scaling(self) -> Scaling:
        """Scaling of all features of the source, known after the first pass."""
        assert self._scaling is not None, "measure comes first"
        return self._scaling

    @property
    def is_measured(self) -> bool:
        """Whether the scaling of the features is known."""
        return self._scaling is not None

    @property
    def rescales(self) -> bool:
        """Whether scaling depends on more than a feature's values (weights, columns or blocks)."""
        has_weights = self.p is not None
        return has_weights or self.columns is not None or self.block_scaling is not None

    @property
    def is_balanced(self) -> bool:
        """Whether features are scaled so that all joined matrices (blocks) have the same weight."""
        return self.block_scaling is not None and self.block_scaling.balance

    @property
    def is_alive(self) -> Mask:
        """Mask of the features that vary, (d,)."""
        return ~self.scaling.constant

    @property
    def alive(self) -> Index:
        """Positions of the features that vary."""
        return np.flatnonzero(~self.scaling.constant)

    def sizes(self, features: Index) -> Float:
        """Mean squares of standardised features, (c,)."""
        scaling, out = self.scaling, np.empty(features.size)
        for part in slices(features.size, AT_A_TIME):
            out[part] = (scaling.std[features[part]] * scaling.scale[features[part]]) ** 2
        return out

    def facts(self, features: Index) -> FeatureStats:
        """Statistics of features that engines need."""
        scaling = self.scaling
        return FeatureStats(
            scaling.max_abs[features], scaling.fourth_moment[features], scaling.n_levels[features]
        )

    # -- passes -----------------------------------------------------------------------------------

    def jobs(
        self,
        features: Index,
        *,
        scaled: bool = True,
        weighted: Scaling | None = None,
        tags: Index | None = None,
    ) -> list[Job]:
        """Create jobs that read `features` (ascending); concatenated results are in the same order.

        If `scaled`, tasks use the known scaling of the source. `weighted`, a scaling of all
        features of the source, replaces it. `tags` (s,) are integers that tasks receive with the
        features.
        """
        is_known = scaled and weighted is None and self._scaling is not None
        at = self._places(features)
        parts = self._stored(at) if self.held is None else even_parts(at, self._width(at.size))
        out = []
        for block, part in parts:
            scaling = None if weighted is None else weighted.take(features[part])
            tag = None if tags is None else tags[part]
            columns = Columns(at[part] - block.start, scaling, tag, is_known)
            out.append(Job((block,), (columns,)))
        return out

    def check_scaling(self, missing: str, *, codes_checked: bool = False) -> None:
        """Reject unusable values, and warn of doubtful values, see `Scaling.check`."""
        self.scaling.check(
            missing,
            self.original,
            standardize=True,
            has_bandwidth=False,
            n_samples=self.n_samples,
            codes_checked=codes_checked,
        )

    @property
    def known_source(self) -> AbstractSource:
        """Source that tasks receive; it contains the scaling of its features if this is known."""
        scaling, source = self._scaling, self.source
        if scaling is None:
            return source
        if self._sent is None or self._sent.base is not source:
            positions_held = self.held
            if positions_held is not None and positions_held.size < scaling.std.size:
                scaling = scaling.take(positions_held)
            self._sent = ScaledSource(source, scaling)
        return self._sent

    def map(self, a_pass: AbstractPass, jobs: Jobs) -> Iterator[Any]:
        """Run a pass over jobs, and yield the results in order."""
        self.bytes_read += self.bytes_of(jobs)
        return self.results(a_pass, jobs, divisible=False)

    def map_blocks(self, a_pass: AbstractPass, jobs: Jobs) -> Iterator[Any]:
        """Run a pass that works block by block; yield results in order, for concatenation."""
        self.bytes_read += self.bytes_of(jobs)
        return self.results(a_pass, jobs, divisible=True)

    def sum_results(self, a_pass: AbstractSum, jobs: Jobs) -> Any:
        """Run the pass over jobs, and add the results."""
        self.bytes_read += self.bytes_of(jobs)
        return self.summed(a_pass, jobs)

    def scores(self, a_pass: AbstractPass, jobs: Jobs, *, aloud: bool = False) -> Array:
        """Run a pass, and concatenate its results; report progress if `aloud`."""
        parts = []
        for part in self.map_blocks(a_pass, jobs):
            parts.append(part)
            if aloud:
                self.tell(len(part))
        return np.concatenate(parts)

    def values(self, features: Index, dtype: Any = np.float64) -> Array:
        """Standardised values of features, (c, m)."""
        return np.concatenate(list(self.map_blocks(Values(dtype), self.jobs(features))))

    def measure(self, a_pass: AbstractSum, take: Callable[..., object] | None = None) -> Scaling:
        """Load all features if they fit, run the first pass, and return the scaling.

        The pass returns a list of scalings and other results. The function `take` receives the
        other results. Values that are read later are checked against the checksums of this pass.
        """
        every = np.arange(self.source.n_features, dtype=np.int64)
        self.bytes_read += self.bytes_of(self.jobs(every))
        self.load()
        jobs = self.jobs(every)
        is_large = a_pass.cost(self.n_samples).result > 0
        first_results = self.summed(a_pass, grouped(jobs) if is_large else jobs)
        release_pages()  # memory of decoded blocks
        if take is not None:
            take(*first_results[1:])
        if self._scaling is None:  # a plan assumes it
            scaling = Scaling.join(first_results[0])
            if self.columns is not None:
                assert isinstance(a_pass, Measure), "others score single features"
                scaling = pooled(scaling, self.columns, a_pass.standardize)
            if self.block_scaling is not None:
                scaling, self.block_factors = self.block_scaling.of(scaling)
            self.know(scaling)
        return self.scaling

    def know(self, scaling: Scaling) -> None:
        """Set the scaling of all features; later reads are checked against its checksums."""
        self._scaling = scaling
        self.compare(scaling)

    def compare(self, scaling: Scaling) -> None:
        """Check the values of later reads against the checksums in `scaling`."""
        if isinstance(self.source, RecutSource):
            self.source = self.source.checked(scaling.checksum, self.rows)
        elif self.held is None:  # else the values were copied by this process
            self.source = ChecksummedSource.over(self.source, scaling.checksum, self.rows)

    def tell(self, n_features: int) -> None:
        """Report progress: `n_features` more features have been scored."""
        if self.reporter is not None:
            self.reporter.scored(n_features)

    def bytes_of(self, jobs: Jobs) -> int:
        """Stored bytes that the jobs read; 0 if the source is in memory."""
        if self.source.in_memory:
            return 0
        values = 0
        for job in jobs:
            m = self.n_samples
            if job.samples is not None:
                m = self.source.stored_samples(samples_of(self.source, job.samples, self.rows))
            values += m * sum(self.source.stored_width(block) for block in job.blocks)
        return values * int(np.dtype(self.source.dtype).itemsize)

    def copy_unread(self, rows: Index | None = None) -> Self:
        """Create a copy of the reader that has read nothing.

        If `rows` are given, they replace the samples. The copy has no scratch, and its count of
        bytes read is 0.
        """
        other = copy(self)
        self._is_alone = other._is_alone = False
        other.bytes_read, other.scratch = 0, None
        other.rows = self.rows if rows is None else rows
        return other

    def in_common(self, runtime: AbstractRuntime) -> Self:
        """Create a reader for one of several runs that share the features loaded here."""
        other = self.copy_unread()
        other.bytes_read, self.bytes_read = self.bytes_read, 0
        if isinstance(self.source, MemorySource):
            self.source = other.source = self.source.in_common()
            other._is_alone = True
        other.runtime = Threads() if self.is_home else runtime
        return other

    def close(self) -> None:
        """Remove the scratch that this reader owns, and stop its threads."""
        if self.scratch is not None:
            self.scratch.close()
        if self.is_home:
            self.runtime.close()

    # -- where features are kept ------------------------------------------------------------------

    def load(self) -> None:
        """Store all features in memory or scratch before the first round, if they are small enough.

        The limit is `COMPACT_BYTES`.
        """
        every = np.arange(self.source.n_features, dtype=np.int64)
        if self.loaded is not None:
            self._move(self.loaded.marked(self.source.missing_code), every)
            self.loaded = None
        elif self.held is None:  # else they were loaded for several runs
            self._keep_apart(every)

    def load_for_all(self) -> None:
        """Load features for several runs (see `in_common`).

        The first of these runs counts the bytes read.
        """
        every = np.arange(self.source.n_features, dtype=np.int64)
        n_bytes = self.bytes_of(self.jobs(every))
        self.load()
        self.bytes_read = n_bytes if self.held is not None else 0

    def compact(self, S: Index) -> None:
        """Store the features S separately, if they are a small part of the stored features."""
        if S.size < self.source.n_features:
            self._keep_apart(S)

    def _keep_apart(self, features: Index) -> None:
        """Move `features` to memory or scratch, if that is worthwhile.

        The previous scratch is removed afterwards. If the disk is full, a warning is issued.
        """
        d, s = self.source.n_features, features.size
        for form in forms(self.n_samples, self.source.dtype):
            n_bytes = s * form.bytes_per_feature
            if not worth_compacting(s, d, n_bytes):
                continue
            if self.runtime.is_remote and self.source.in_memory:  # no copy; same jobs
                self.held = np.arange(d)
                return
            place = self._where(s, n_bytes)
            if place is Location.STORED:
                if not self._is_lazy and self._recut(features, form):
                    return
                continue
            try:
                if self._keep(features, form, place):
                    return
            except UnwritableError as error:
                warn(
                    f"The remaining features cannot be written to scratch ({error}). The run "
                    "continues without scratch, but more slowly. Free some disk space, or set "
                    "TMPDIR (on a cluster scratch= of its runtime) to a folder with more space.",
                )
                self._recut(features, form)
                return

    def _recut(self, features: Index, form: Form) -> bool:
        """Read `features` from their present store, in the jobs that separate storage would use.

        Sums are then computed in the same order. Returns False if the format `form` is packed but
        the features cannot be packed.
        """
        d, s = self.source.n_features, features.size
        # Features that would be stored separately even unpacked have the same jobs.
        matters = form.packed and not worth_compacting(s, d, s * self.bytes_per_feature)
        if matters and not self._packs(features):
            return False
        at, source = self._places(features), self.source
        if isinstance(source, RecutSource):
            self.source = source.take(at)
        else:
            imputed = imputed_among(source, at)
            self.source = RecutSource(source, at, self._width(d), imputed)
        self.held = features
        return True

    def _where(self, n_features: int, n_bytes: int) -> Location:
        """Choose where to store surviving features.

        There are `n_features` of them, with `n_bytes` bytes in total.
        """
        if not self.runtime.is_remote:
            if n_bytes <= self.room:
                return Location.MEMORY
        elif belong_home(self.n_samples, n_features, n_bytes, self.runtime.n_workers):
            return Location.HOME
        return Location.STORED if self._scratch_place is None else Location.SCRATCH

    @property
    def _scratch_place(self) -> Path | None:
        """Folder for scratch.

        It is None if scratch would not help, or if the workers share no folder.
        """
        return None if self.source.in_memory or self._is_lazy else self.runtime.shared_folder

    @property
    def _is_lazy(self) -> bool:
        """Whether the cluster computes the source itself, for example as a dask array."""
        return self.runtime.is_remote and self.source.pieces(()) is not None

    def _move(
        self,
        source: AbstractSource,
        features: Index,
        scratch: AbstractScratch | None = None,
        *,
        home: bool = False,
    ) -> None:
        """Read `features` from `source` from now on, and remove older scratch.

        If `home`, the features have moved from the cluster to this process. On a cluster the
        previous scratch is kept as long as a step may have to be repeated.
        """
        if not self.runtime.is_remote:
            self.close()
        self._sent = None
        self.source, self.held, self.rows, self.scratch = source, features, None, scratch
        if home:
            self.runtime, self.is_home = Threads(), True

    def _writing(self, features: Index, form: Form) -> tuple[list[Job], int]:
        """Create jobs that write features to scratch; return them and the features per chunk."""
        at = self._places(features)
        chunk = chunk_width(self._width(at.size), form)
        most = JOBS_PER_THREAD * self.runtime.n_workers
        return writing_jobs(list(self._stored(at)), at, chunk, most), chunk

    def _places(self, features: Index) -> Index:
        return features if self.held is None else positions(features, self.held)

    def _stored(self, at: Index) -> Iterator[tuple[Block, slice]]:
        return stored_parts(self.source.blocks(self._width(self.source.n_features)), at)

    def _width(self, d: int) -> int:
        return block_width(self.n_samples, d, np.dtype(self.source.dtype).itemsize)


class Reader(AbstractReader):
    """Reader that runs passes on its runtime; if a pass fails, its scratch is removed."""

    def results(self, a_pass: AbstractPass, jobs: Jobs, *, divisible: bool) -> Iterator[Any]:
        method = self.runtime.map_blocks if divisible else self.runtime.map
        with self._ending():
            yield from method(run, self.known_source, jobs, (a_pass, self.rows))

    def summed(self, a_pass: AbstractSum, jobs: Jobs) -> Any:
        state = a_pass, self.rows
        with self._ending():
            total = self.runtime.sum_results(run, self.known_source, jobs, state, a_pass.add)
        return a_pass.convert_total(total, self.n_samples)

    def keep_on_workers(self, a_pass: AbstractPass, features: Index) -> ResidentValues:
        jobs = self.jobs(features)
        self.bytes_read += self.bytes_of(jobs)
        (sites, widths), state = sites_of(jobs), (a_pass, self.rows)
        with self._ending():
            values, _ = self.runtime.update(
                None, ConcatenateResults(), self.known_source, sites, state
            )
        return ResidentValues(self.runtime, values, features, widths)

    def _update(
        self, held: SiteValues | None, step: AbstractStep, sites: Sites, state: Any
    ) -> tuple[SiteValues, Any]:
        with self._ending():
            return self.runtime.update(held, step, self.known_source, sites, state)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Context in which scratch is removed if a pass fails."""
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException:
            self.close()
            raise

    def load_here(self) -> bool:
        """Load all features into memory if they fit `COMPACT_BYTES` and the budget.

        Returns whether they were loaded.
        """
        every = np.arange(self.source.n_features, dtype=np.int64)
        if self.runtime.is_remote or self.source.in_memory:
            return False
        for form in forms(self.n_samples, self.source.dtype):
            n_bytes = every.size * form.bytes_per_feature
            belongs_here = self._where(every.size, n_bytes) is Location.MEMORY
            if not (worth_compacting(every.size, every.size, n_bytes) and belongs_here):
                continue
            if self._keep(every, form, Location.MEMORY):
                assert isinstance(self.source, MemorySource), "that is how memory is kept"
                self.loaded = self.source
                return True
        return False

    def _packs(self, features: Index) -> bool:
        jobs = self.jobs(features, scaled=False)
        return fits(enclosing_span(self.results(Extremes(), jobs, divisible=False)))

    def _keep(self, features: Index, form: Form, place: Location) -> bool:
        source_before = self.source
        is_here = self._is_alone and self.rows is None
        if (
            isinstance(source_before, MemorySource)
            and is_here
            and source_before.form.packed == form.packed
        ):
            self._move(source_before.only(self._places(features)), features)
            return True
        if place is Location.SCRATCH:
            return self._in_scratch(features, form)
        gather = self._at_home if place is Location.HOME else self._in_memory
        values, found_form = gather(self.jobs(features, scaled=False), features.size, form)
        if found_form is not None:
            imputed = imputed_among(self.source, self._places(features))
            source = MemorySource(values, found_form, self.source.missing_code, imputed)
            self._move(source, features, home=place is Location.HOME)
        return found_form is not None

    def _in_memory(self, jobs: list[Job], n: int, form: Form) -> tuple[Array, Form | None]:
        """Read n features into memory, with local threads.

        Returns the values and their storage format; it is None if the values cannot be packed.
        """
        packed = np.empty((n, form.length), dtype=form.kept_dtype)
        starts = np.cumsum([0, *(job.payload[0].local.size for job in jobs)])

        def fill(place: tuple[int, Job]) -> Span:
            start, job = place
            part, span = form.encode(run(self.source, job, (Gather(), self.rows)))
            packed[start : start + len(part)] = part
            return span

        return packed, form.covering(self.runtime.each(fill, zip(starts, jobs, strict=False)))

    def _at_home(self, jobs: list[Job], _: int, form: Form) -> tuple[Array, Form | None]:
        """Read and pack features on the cluster.

        Returns the stored values in this process, and their storage format.
        """
        encoded = self.results(Encode(form), jobs, divisible=True)
        parts, spans = zip(*encoded, strict=True)
        return np.concatenate(parts), form.covering(spans)

    def _in_scratch(self, features: Index, form: Form) -> bool:
        place, source = self._scratch_place, self.source
        assert place is not None, "scratch has a place"
        jobs, chunk = self._writing(features, form)
        scratch = scratch_in(place, shared=self.runtime.is_remote)
        try:
            state = Write(scratch, chunk, form), self.rows
            found_form = form.covering(self.runtime.map(run, source, jobs, state))
        except BaseException:
            scratch.close()
            raise
        if found_form is None:
            scratch.close()
            return False
        imputed = imputed_among(source, self._places(features))
        scratch_source = ScratchSource(
            scratch, features.size, chunk, found_form, source.missing_code, self.room, imputed
        )
        self._move(scratch_source, features, scratch)
        return True
