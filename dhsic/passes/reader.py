"""What reads the features of a run while they leave: which blocks, in which jobs, from where.

As features leave, less and less of a block is needed, and the survivors are compacted: kept in
memory where they fit a fixed budget, else rewritten to scratch, so that all passes together decode
a small multiple of one. Low rank does so once half of what is stored has left; the exact engine
asks for it when an epoch begins (`dhsic.passes.sums`), once seven in eight have. On a cluster they
go to scratch in either case, unless they are few. All features are loaded in the same way before
the first round (`AbstractReader.load`) where they fit: a run looks at its values
(`dhsic.passes.once`), loads, measures (the first pass), and goes through rounds, whose blocks are
then decoded from memory. Whether, and the cut into jobs, depends on sizes and the source alone,
never on where survivors are kept, so every run over the same data sums in the same order.

`AbstractReader` decides all that. `Reader` runs the passes; that of a plan counts them.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.question import FeatureStats
from dhsic.memory import release_pages
from dhsic.namespace import slices
from dhsic.passes import AbstractPass, AbstractSum, Columns, Values, run, samples_of
from dhsic.passes.jobs import (
    JOBS_PER_THREAD,
    block_width,
    even_parts,
    grouped,
    positions,
    stored_parts,
    writing_jobs,
)
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
    HeldSource,
    Location,
    RecutSource,
    Span,
    around,
    belong_home,
    fits,
    forms,
)
from dhsic.passes.taken import Take, Taken, sites_of
from dhsic.runtime.base import AbstractRuntime, AbstractStep, Ask, Held, Job, Jobs, Sites
from dhsic.runtime.threads import Threads
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.scaling import Scaling
from dhsic.sources.views import ChecksummedSource, ScaledSource

#: Bytes of survivors, as they are kept (packed, if they can be), up to which all features are kept
#: apart from the start: in memory where there is so much.
COMPACT_BYTES = 512 << 20
#: Survivors are kept apart where that is asked for and what is stored is this many times as much.
COMPACTING = 2
#: Features whose sizes are taken at a time.
AT_A_TIME = 1 << 17


class Reporter(Protocol):
    """Hears of progress."""

    def scored(self, n_features: int) -> None:
        """Hear that so many more features are scored in the first pass of a round."""


def worth_compacting(n_features: int, n_stored: int, n_bytes: int) -> bool:
    """Whether features are to be kept apart, in `n_bytes`, from what they are read from.

    All of them are where they fit in memory, some where they are few; by sizes alone, so that a
    resumed run decides as the one before.
    """
    if n_features == n_stored:
        return n_bytes <= COMPACT_BYTES
    return COMPACTING * n_features <= n_stored


class AbstractReader(ABC):
    """Reads features of a source, numbered as in the whole of it, from where they are kept.

    Those of the samples `rows` (m,), in this order, or of all. `memory` are bytes of survivors that
    are kept in memory here, `COMPACT_BYTES` by default; more go to scratch, which changes nothing
    else. Every worker of a cluster keeps as much of it.
    """

    def __init__(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        rows: Index | None = None,
        memory: int | None = None,
    ) -> None:
        self.source, self.runtime, self.rows = source, runtime, rows
        self.room = COMPACT_BYTES if memory is None else memory
        #: All features, where they were read into memory before (`Reader.load_here`).
        self.loaded: HeldSource | None = None
        #: Features that `source` holds, ascending, once some were kept apart; None for all.
        self.held: Index | None = None
        self.scratch: AbstractScratch | None = None  # where `source` lies, if that is scratch
        self.is_home = False  # whether survivors of a cluster have come to this process
        self.reporter: Reporter | None = None  # hears of scores
        self.bytes_read = 0  # stored bytes, by passes so far
        self._scaling: Scaling | None = None
        self._sent: ScaledSource | None = None
        self._is_alone = True  # no other reader has the same source

    # -- how passes are run, and survivors kept ---------------------------------------------------

    @abstractmethod
    def results(self, a_pass: AbstractPass, jobs: Jobs, *, divisible: bool) -> Iterator[Any]:
        """Results of the pass over the jobs, in order.

        Where they are `divisible` they are put one after the other, whatever each of them is over.
        """

    @abstractmethod
    def summed(self, a_pass: AbstractSum, jobs: Jobs) -> Any:
        """Results of the pass over some jobs, added up along a tree that is always the same."""

    @abstractmethod
    def taken(self, a_pass: AbstractPass, features: Index) -> Taken:
        """Results of a pass over features, which stay where they are taken."""

    @abstractmethod
    def _stepped(
        self, held: Held | None, step: AbstractStep, sites: Sites, state: Any
    ) -> tuple[Held, Any]:
        """As of a runtime, for jobs of this reader."""

    def stepped(
        self, held: Held | None, step: AbstractStep, sites: Sites, state: Any
    ) -> tuple[Held, Any]:
        """New values of all sites, and the sum of their parts, as of its runtime."""
        self.bytes_read += self.bytes_of([job for site in sites for job in site.jobs])
        return self._stepped(held, step, sites, state)

    def asked(self, held: Held, ask: Ask, told: Sequence[Any], state: Any) -> Iterator[Any]:
        """As of its runtime."""
        return self.runtime.asked(held, ask, told, state)

    @abstractmethod
    def _packs(self, features: Index) -> bool:
        """Whether the values of features can be packed; it takes a pass."""

    @abstractmethod
    def _keep(self, features: Index, form: Form, place: Location) -> bool:
        """Keep `features` there (not in the store) in this form; False where they do not pack.

        UnwritableError says that scratch takes no more.
        """

    # -- what is known of features ----------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Samples that take part, m."""
        return self.source.n_samples if self.rows is None else len(self.rows)

    @property
    def bytes_per_feature(self) -> int:
        """Stored bytes of one feature."""
        return int(self.n_samples * np.dtype(self.source.dtype).itemsize)

    @property
    def scaling(self) -> Scaling:
        """Scaling of all features of the source, after the first pass."""
        assert self._scaling is not None, "measure comes first"
        return self._scaling

    @property
    def is_measured(self) -> bool:
        """Whether their scaling is known."""
        return self._scaling is not None

    @property
    def alive(self) -> Index:
        """Features that vary."""
        return np.flatnonzero(~self.scaling.constant)

    def sizes(self, features: Index) -> Float:
        """Mean squares of standardised features, (c,)."""
        known, out = self.scaling, np.empty(features.size)
        for some in slices(features.size, AT_A_TIME):
            out[some] = (known.std[features[some]] * known.scale[features[some]]) ** 2
        return out

    def facts(self, features: Index) -> FeatureStats:
        """What engines know of features."""
        known = self.scaling
        return FeatureStats(
            known.max_abs[features], known.fourth_moment[features], known.n_levels[features]
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
        """Jobs whose results, joined, are in the order of `features` (ascending).

        What is known of their scaling goes with the source if they are to be `scaled`, or another
        one with them where `weighted` is given (of all features of the source), and `tags` (s,).
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

    @property
    def known_source(self) -> AbstractSource:
        """The source as tasks get it: with the scaling of its features, once that is known."""
        scaling, source = self._scaling, self.source
        if scaling is None:
            return source
        if self._sent is None or self._sent.base is not source:
            held = self.held
            if held is not None and held.size < scaling.std.size:
                scaling = scaling.take(held)
            self._sent = ScaledSource(source, scaling)
        return self._sent

    def map(self, a_pass: AbstractPass, jobs: Jobs) -> Iterator[Any]:
        """Results of the pass over the jobs, in order."""
        self.bytes_read += self.bytes_of(jobs)
        return self.results(a_pass, jobs, divisible=False)

    def joined(self, a_pass: AbstractPass, jobs: Jobs) -> Iterator[Any]:
        """Results of a pass that works block by block, in order: to be put one after the other."""
        self.bytes_read += self.bytes_of(jobs)
        return self.results(a_pass, jobs, divisible=True)

    def added(self, a_pass: AbstractSum, jobs: Jobs) -> Any:
        """Results of the pass over some jobs, added up."""
        self.bytes_read += self.bytes_of(jobs)
        return self.summed(a_pass, jobs)

    def scores(self, a_pass: AbstractPass, jobs: Jobs, *, aloud: bool = False) -> Array:
        """Results of a pass, one after the other; the reporter hears of them where `aloud`."""
        parts = []
        for part in self.joined(a_pass, jobs):
            parts.append(part)
            if aloud:
                self.tell(len(part))
        return np.concatenate(parts)

    def values(self, features: Index, dtype: Any = np.float64) -> Array:
        """Standardised values of features, (c, m)."""
        return np.concatenate(list(self.joined(Values(dtype), self.jobs(features))))

    def measure(self, a_pass: AbstractSum, take: Callable[..., object] | None = None) -> Scaling:
        """Load all features where they fit, and run the first pass over them: how they are scaled.

        Its result begins with that, in parts; `take` gets what else is in it. What is read from
        now on is where the first pass has left it, and is compared with that.
        """
        every = np.arange(self.source.n_features, dtype=np.int64)
        self.bytes_read += self.bytes_of(self.jobs(every))
        self.load()
        jobs = self.jobs(every)
        is_large = a_pass.cost(self.n_samples).result > 0
        found = self.summed(a_pass, grouped(jobs) if is_large else jobs)
        release_pages()  # of what blocks were decoded to
        if take is not None:
            take(*found[1:])
        if self._scaling is None:  # of a plan it is supposed
            self.know(Scaling.join(found[0]))
        return self.scaling

    def know(self, scaling: Scaling) -> None:
        """Take features for scaled so, and what is read from now on for what was scaled then."""
        self._scaling = scaling
        self.compare(scaling)

    def compare(self, scaling: Scaling) -> None:
        """Compare what is read from now on with what was scaled so."""
        if isinstance(self.source, RecutSource):
            self.source = self.source.checked(scaling.checksum, self.rows)
        elif self.held is None:  # else this process has seen to it, or it is in memory
            self.source = ChecksummedSource.over(self.source, scaling.checksum, self.rows)

    def tell(self, n_features: int) -> None:
        """Tell the reporter of features that were scored."""
        if self.reporter is not None:
            self.reporter.scored(n_features)

    def bytes_of(self, jobs: Jobs) -> int:
        """Stored bytes that the jobs read, 0 from memory."""
        if self.source.in_memory:
            return 0
        values = 0
        for job in jobs:
            m = self.n_samples
            if job.samples is not None:
                m = self.source.stored_samples(samples_of(self.source, job.samples, self.rows))
            values += m * sum(self.source.stored_width(block) for block in job.blocks)
        return values * int(np.dtype(self.source.dtype).itemsize)

    def apart(self, rows: Index | None = None) -> Self:
        """Reader of the same, or of other samples; it has read nothing yet and owns no scratch."""
        other = copy(self)
        self._is_alone = other._is_alone = False
        other.bytes_read, other.scratch = 0, None
        other.rows = self.rows if rows is None else rows
        return other

    def in_common(self, runtime: AbstractRuntime) -> Self:
        """Reader for one of several runs, of what this one has loaded for all of them."""
        other = self.apart()
        other.bytes_read, self.bytes_read = self.bytes_read, 0
        if isinstance(self.source, HeldSource):
            self.source = other.source = self.source.in_common()
            other._is_alone = True
        other.runtime = Threads() if self.is_home else runtime
        return other

    def close(self) -> None:
        """Remove the scratch that is read from, if there is one, and end threads of its own."""
        if self.scratch is not None:
            self.scratch.close()
        if self.is_home:
            self.runtime.close()

    # -- where features are kept ------------------------------------------------------------------

    def load(self) -> None:
        """Keep all features apart, before any has left, if they fit `COMPACT_BYTES`."""
        every = np.arange(self.source.n_features, dtype=np.int64)
        if self.loaded is not None:
            self._move(self.loaded.marked(self.source.missing_code), every)
            self.loaded = None
        elif self.held is None:  # else it was done for several runs
            self._keep_apart(every)

    def load_for_all(self) -> None:
        """Load them for several runs (`in_common`), the first of which counts what was read."""
        every = np.arange(self.source.n_features, dtype=np.int64)
        n_bytes = self.bytes_of(self.jobs(every))
        self.load()
        self.bytes_read = n_bytes if self.held is not None else 0

    def compact(self, S: Index) -> None:
        """Keep S apart once it is a small part of what is stored."""
        if S.size < self.source.n_features:
            self._keep_apart(S)

    def _keep_apart(self, features: Index) -> None:
        """Read `features` from memory or scratch, or as before where nothing is gained.

        The scratch so far is removed once the features are elsewhere. A disk that is full is told
        of in a warning.
        """
        d, s = self.source.n_features, features.size
        for form in forms(self.n_samples, self.source.dtype):
            n_bytes = s * form.bytes_per_feature
            if not worth_compacting(s, d, n_bytes):
                continue
            if self.runtime.is_remote and self.source.in_memory:  # it is at hand: cut alike
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
                warnings.warn(
                    f"Survivors cannot be written to scratch ({error}), so the run goes on with "
                    "what it read so far, which is slower. Make room there, or set TMPDIR to a "
                    "place with more (on a cluster, scratch= of its runtime).",
                    stacklevel=2,
                )
                self._recut(features, form)
                return

    def _recut(self, features: Index, form: Form) -> bool:
        """Read `features` from the store in the jobs that would read them in this form elsewhere.

        False where they do not pack.
        """
        d, s = self.source.n_features, features.size
        # Where they are kept as they are, if not packed, the cut is the same.
        matters = form.packed and not worth_compacting(s, d, s * self.bytes_per_feature)
        if matters and not self._packs(features):
            return False
        at, source = self._places(features), self.source
        if isinstance(source, RecutSource):
            self.source = source.some(at)
        else:
            self.source = RecutSource(source, at, self._width(d))
        self.held = features
        return True

    def _where(self, n_features: int, n_bytes: int) -> Location:
        """Location where so many survivors belong, which take so many bytes."""
        if not self.runtime.is_remote:
            if n_bytes <= self.room:
                return Location.MEMORY
        elif belong_home(self.n_samples, n_features, n_bytes, self.runtime.n_workers):
            return Location.HOME
        return Location.STORED if self._scratch_place is None else Location.SCRATCH

    @property
    def _scratch_place(self) -> Path | None:
        """Folder for scratch; None where it would gain nothing, or workers see another one."""
        return None if self.source.in_memory or self._is_lazy else self.runtime.shared_folder

    @property
    def _is_lazy(self) -> bool:
        """Whether the source is itself computed on the cluster."""
        return self.runtime.is_remote and self.source.pieces(()) is not None

    def _move(
        self,
        source: AbstractSource,
        features: Index,
        scratch: AbstractScratch | None = None,
        *,
        home: bool = False,
    ) -> None:
        """Features are kept in `source` now, here where `home`; scratch so far is removed.

        Of a cluster once no step may need it again.
        """
        if not self.runtime.is_remote:
            self.close()
        self._sent = None
        self.source, self.held, self.rows, self.scratch = source, features, None, scratch
        if home:
            self.runtime, self.is_home = Threads(), True

    def _writing(self, features: Index, form: Form) -> tuple[list[Job], int]:
        """Jobs that write features to scratch, and the chunk they write it in."""
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
    """Reads through its runtime; a failure ends its scratch too."""

    def results(self, a_pass: AbstractPass, jobs: Jobs, *, divisible: bool) -> Iterator[Any]:
        way = self.runtime.joined if divisible else self.runtime.map
        with self._ending():
            yield from way(run, self.known_source, jobs, (a_pass, self.rows))

    def summed(self, a_pass: AbstractSum, jobs: Jobs) -> Any:
        asked = a_pass, self.rows
        with self._ending():
            found = self.runtime.added(run, self.known_source, jobs, asked, a_pass.add)
        return a_pass.whole(found, self.n_samples)

    def taken(self, a_pass: AbstractPass, features: Index) -> Taken:
        jobs = self.jobs(features)
        self.bytes_read += self.bytes_of(jobs)
        (sites, widths), asked = sites_of(jobs), (a_pass, self.rows)
        with self._ending():
            held, _ = self.runtime.stepped(None, Take(), self.known_source, sites, asked)
        return Taken(self.runtime, held, features, widths)

    def _stepped(
        self, held: Held | None, step: AbstractStep, sites: Sites, state: Any
    ) -> tuple[Held, Any]:
        with self._ending():
            return self.runtime.stepped(held, step, self.known_source, sites, state)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Remove scratch where a pass fails."""
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException:
            self.close()
            raise

    def load_here(self) -> bool:
        """Keep all features in memory, as `load` does, if that is where; they are `loaded` then."""
        every = np.arange(self.source.n_features, dtype=np.int64)
        if self.runtime.is_remote or self.source.in_memory:
            return False
        for form in forms(self.n_samples, self.source.dtype):
            n_bytes = every.size * form.bytes_per_feature
            belongs_here = self._where(every.size, n_bytes) is Location.MEMORY
            if not (worth_compacting(every.size, every.size, n_bytes) and belongs_here):
                continue
            if self._keep(every, form, Location.MEMORY):
                assert isinstance(self.source, HeldSource), "that is how memory is kept"
                self.loaded = self.source
                return True
        return False

    def _packs(self, features: Index) -> bool:
        jobs = self.jobs(features, scaled=False)
        return fits(around(self.results(Extremes(), jobs, divisible=False)))

    def _keep(self, features: Index, form: Form, place: Location) -> bool:
        held = self.source
        is_here = self._is_alone and self.rows is None
        if isinstance(held, HeldSource) and is_here and held.form.packed == form.packed:
            self._move(held.only(self._places(features)), features)
            return True
        if place is Location.SCRATCH:
            return self._in_scratch(features, form)
        gather = self._at_home if place is Location.HOME else self._in_memory
        kept, found = gather(self.jobs(features, scaled=False), features.size, form)
        if found is not None:
            source = HeldSource(kept, found, self.source.missing_code)
            self._move(source, features, home=place is Location.HOME)
        return found is not None

    def _in_memory(self, jobs: list[Job], n: int, form: Form) -> tuple[Array, Form | None]:
        """What is kept of n features, and in which form, once threads here have read them."""
        kept = np.empty((n, form.length), dtype=form.kept_dtype)
        starts = np.cumsum([0, *(job.payload[0].local.size for job in jobs)])

        def fill(place: tuple[int, Job]) -> Span:
            start, job = place
            part, span = form.encode(run(self.source, job, (Gather(), self.rows)))
            kept[start : start + len(part)] = part
            return span

        return kept, form.covering(self.runtime.each(fill, zip(starts, jobs, strict=False)))

    def _at_home(self, jobs: list[Job], _: int, form: Form) -> tuple[Array, Form | None]:
        """What is kept, and in which form, once a cluster has read and packed them."""
        found = self.results(Encode(form), jobs, divisible=True)
        parts, spans = zip(*found, strict=True)
        return np.concatenate(parts), form.covering(spans)

    def _in_scratch(self, features: Index, form: Form) -> bool:
        place, source = self._scratch_place, self.source
        assert place is not None, "scratch has a place"
        jobs, chunk = self._writing(features, form)
        scratch = scratch_in(place, shared=self.runtime.is_remote)
        try:
            asked = Write(scratch, chunk, form), self.rows
            found = form.covering(self.runtime.map(run, source, jobs, asked))
        except BaseException:
            scratch.close()
            raise
        if found is None:
            scratch.close()
            return False
        kept = ScratchSource(scratch, features.size, chunk, found, source.missing_code, self.room)
        self._move(kept, features, scratch)
        return True
