"""A run of a method on data: `SelectionRun`, and what it asks of its method, `Method`.

Where features leave in groups the run knows them, as users name them, and says what an order of
groups means for the features.
"""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float, Index
from dhsic.algorithms import how_many
from dhsic.errors import InputError
from dhsic.hsic import checked_weights
from dhsic.kernels import resolve_kernel
from dhsic.kernels.labels import SELF, LabelMatrix, named_classes
from dhsic.memory import MemoryEstimate, WorkerMemory
from dhsic.passes.candidates import Membership
from dhsic.passes.once import Judge, look_at
from dhsic.passes.reader import COMPACT_BYTES, Reader
from dhsic.passes.survivors import HeldSource
from dhsic.results.schema import Order, versions
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import Threads
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import PRESENCE, Scale, Scaling
from dhsic.sources.values import KEEPING, ValueKind, recoded
from dhsic.sources.views import ShadowedSource

logger = logging.getLogger("dhsic")

#: What is done with features, for people.
SCALED: dict[Scale, str] = {
    True: "and scaled to unit deviation",
    False: "not scaled",
    PRESENCE: "and scaled to unit deviation, those that are mostly one value to less",
}
#: What a feature without a group is named, in lower case.
NAMELESS = {"", "nan", "none", "na", "."}


@dataclass(frozen=True, eq=False)
class Groups:
    """A group for each of d features."""

    codes: Index  # (d,), position of the name of its group
    names: Array  # (g,) str, in the order of their first features

    @staticmethod
    def of(given: Any, d: int) -> Groups:
        """Groups from one name a feature."""
        labels = np.asarray(given)
        if labels.shape != (d,):
            raise InputError(
                f"feature_groups have shape {labels.shape} and there are {d} features; pass one "
                "name a feature, in their order."
            )
        text = labels.astype(object).astype(str)  # text of any width is cast in two steps only
        missing = np.flatnonzero([name.strip().lower() in NAMELESS for name in text])
        if missing.size:
            raise InputError(
                f"{missing.size} features have no group (first: feature {missing[0]}); give each "
                "one, for instance its own name where it stands alone."
            )
        codes, names = pd.factorize(text)  # ties go by position, as among features
        if names.size == 1:
            raise InputError(
                f"All {d} features are in one group ({names[0]}): there is nothing to choose from."
            )
        return Groups(codes.astype(np.int64), names)

    def spread(self, order: Order, scaling: Scaling) -> Order:
        """Order of features from one of groups; those of a group by index, the first best."""
        membership = Membership(self.codes)
        membership.drop_constant(scaling)
        parts = [membership.features(np.array([group]))[::-1] for group in order.features]
        sizes = np.array([part.size for part in parts], dtype=np.int64)
        rank = np.zeros(self.codes.size, dtype=np.int64)
        features = np.concatenate(parts)
        rank[features] = np.repeat(np.arange(sizes.size, 0, -1), sizes)
        extra = {
            "group": (self.names[self.codes].astype(object), "group of the feature"),
            "group_rank": (rank, "rank of its group, 1 is the most relevant; 0 where constant"),
        }
        return replace(
            order,
            features=features,
            scores=np.repeat(order.scores, sizes),
            rounds=np.repeat(order.rounds, sizes),
            sizes=sizes,
            extra={**order.extra, **extra},
        )


def room(budget: int | None) -> int:
    """Bytes of features in memory, as of `SelectionRun.promised`."""
    return COMPACT_BYTES if budget is None else budget


@contextmanager
def named(name: str) -> Iterator[None]:
    """Begin sentences about what is wrong with the name of a run, where it has one."""
    try:
        yield
    except InputError as error:
        if not name or str(error).startswith(f"{name}: "):
            raise
        raise InputError(f"{name}: {error}") from error


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Samples that are held out, and what tests features on them."""

    rows: Index
    judge: Judge


class Method(ABC):
    """A ranking method with its parameters, as runs ask for it.

    `dhsic.selectors.base.Selector` is the base of all, and documents the parameters.
    """

    n_features_to_select: Any
    label_kernel: Any
    missing: str
    stability: int
    stability_threshold: float | None
    clump_r2: float | None
    holdout: Any
    interactions: str | None
    control: str | None
    fdr: float
    checkpoint: Any
    progress: Any
    random_state: Any
    runtime: Any
    n_jobs: int | None
    memory: int | None

    #: Whether ``interactions="auto"`` is the default, and means only where pairs can be scanned.
    scans_pairs: ClassVar[bool] = False
    #: Whether groups of features may be candidates.
    takes_groups: ClassVar[bool] = False
    #: Whether the data may be their own labels.
    takes_self: ClassVar[bool] = False
    #: Whether features are kept in memory from the first pass on, where they fit.
    keeps_features: ClassVar[bool] = False

    @abstractmethod
    def get_params(self, *, deep: bool) -> dict[str, Any]:
        """Parameters by name, as of scikit-learn."""

    @abstractmethod
    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, as of scikit-learn."""

    @abstractmethod
    def open_data(self, X: Any, sample_dim: str | int | None, **options: Any) -> AbstractSource:
        """Source of X; `options` are those of `dhsic.open_source`."""

    @abstractmethod
    def check(self) -> None:
        """Refuse parameters that cannot be; `InputError.parameter` is the one, where it is one."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run, the data aside."""

    @abstractmethod
    def described(self) -> str:
        """Description of the method for people, such as "BAHSIC with the gaussian kernel"."""

    @abstractmethod
    def scales(self, values: ValueKind) -> Scale:
        """How features are scaled, by what the values of the data are."""

    @abstractmethod
    def check_samples(self, run: SelectionRun) -> None:
        """Refuse fewer samples than the method takes, and labels that it cannot use."""

    @abstractmethod
    def labels(self, run: SelectionRun) -> LabelMatrix | None:
        """Label matrix of the label kernel; None where the data are their own labels."""

    @abstractmethod
    def fitted(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        """Peak-memory estimate, and bytes of it for the features in memory (None: unlimited)."""

    @abstractmethod
    def rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        """Order of the features, from the start or from where the checkpoint left off.

        `budget` is bytes of features in memory, here or on each worker, as of `fitted`.
        """

    @abstractmethod
    def smaller(self, run: SelectionRun) -> str:
        """Advice, for people, that makes m x m matrices smaller."""

    @property
    @abstractmethod
    def takes_numbers(self) -> bool:
        """Whether labels that are numbers are no classes, whatever they look like."""


@dataclass(frozen=True)
class SelectionRun:
    """One run, ready to go: the data, open, what is done with them, and where its tasks run.

    The method is the selector: `dhsic.selection.conductor` asks it for labels, for the memory that
    it needs and for an order of the features. `announce` is called with the memory estimate before
    the work begins.
    """

    selector: Method
    source: AbstractSource
    y: Array | None
    runtime: AbstractRuntime
    covariates: Array | None = None
    rows: Index | None = None
    groups: Groups | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""  # what sentences call it, where it is one of several
    announce: Callable[[SelectionRun, MemoryEstimate], object] | None = None
    #: What the values of the data are, once they were looked at; and the data before that.
    values: ValueKind | None = None
    given: AbstractSource | None = None
    #: All features, where they were loaded to look at their values.
    loaded: HeldSource | None = None
    #: What reads them, where they were loaded for this run and others.
    common: Reader | None = None
    #: Reader of features for what comes after the rounds.
    later: LaterReader | None = None
    #: Samples that take no part, on which what is selected is tested.
    held_out: HeldOut | None = None

    @property
    def n_samples(self) -> int:
        """Samples that take part, m."""
        return self.source.n_samples if self.rows is None else len(self.rows)

    @property
    def n_candidates(self) -> int:
        """What is ranked: features, or groups of them."""
        return self.source.n_features if self.groups is None else self.groups.names.size

    @property
    def standardizes(self) -> Scale:
        """How features are scaled; known once the values are."""
        assert self.values is not None, "a run looks at the values before its first pass"
        return self.selector.scales(self.values)

    def asking(self, **parameters: Any) -> Self:
        """The run with other parameters of its method."""
        return replace(self, selector=copy(self.selector).set_params(**parameters))

    def of_samples(self, some: Index) -> Self:
        """The run on some of its samples, by their positions among them.

        What are classes of all samples are classes of these.
        """
        is_matrix, y = self.selector.label_kernel == "precomputed", self.y
        if y is not None and not self.selector.takes_numbers:
            y = named_classes(y)
        return replace(
            self,
            y=y if y is None else y[np.ix_(some, some) if is_matrix else some],
            covariates=None if self.covariates is None else self.covariates[some],
            rows=some if self.rows is None else self.rows[some],
        )

    @property
    def n_wanted(self) -> int:
        """Candidates that it is to select."""
        return how_many(self.selector.n_features_to_select, self.n_candidates)

    def reader(self, budget: int | None) -> Reader:
        """Reader of its features, of which others may read too; `budget` as of `promised`."""
        if self.common is not None:
            return self.common.in_common(self.runtime)
        data = Reader(self.source, self.runtime, self.rows, budget)
        data.loaded = self.loaded
        return data

    def looked(
        self, runtime: AbstractRuntime | None = None, *, whole: bool = True, load: int | None = None
    ) -> Self:
        """The run with what the values are, which says what is missing and what scale they have.

        They are looked at on `runtime`, that of the run by default: all where a few look like
        dosages, or without `whole` those few alone. With `load` those that read features from
        memory have them there from here on, in so many bytes at most.
        """
        if self.values is not None:
            return self
        kernel = getattr(self.selector, "kernel", "linear")
        runtime = runtime or self.runtime
        seen, keeps = self.source, load is not None and self.selector.keeps_features
        if isinstance(seen, ShadowedSource):  # shadows have the same values
            seen, keeps = seen.base, False
        loading = Reader(self.source, runtime, self.rows, load) if keeps else None
        values = look_at(
            seen,
            runtime,
            self.rows,
            whole=whole,
            as_they_are=resolve_kernel(kernel).is_of_categories,
            loading=loading,
        )
        if values.codes and self.announce is None:  # which tells of them
            warnings.warn(f"X holds {values}. {KEEPING}", stacklevel=2)
        source = recoded(self.source, values)
        # Features were loaded as they are stored: with other codes, unless there is one.
        same = source.dtype.kind != "f" and set(values.codes) == {source.missing_code}
        loaded = None if loading is None or (values.codes and not same) else loading.loaded
        found = replace(self, source=source, values=values, given=self.source, loaded=loaded)
        if self.announce is None:  # which tells of them
            logger.info("%s", found.values_told())
        return found

    def values_told(self) -> str:
        """What the values are and what is done with them, for people; once they are known."""
        return f"{self.values}; features are centred, {SCALED[self.standardizes]}"

    def on_worker(
        self, memory: WorkerMemory | None = None, state_bytes: int | None = None
    ) -> MemoryEstimate:
        """Peak memory of a worker; what is broadcast is bounded where it is not known.

        `memory` is what it may have, by default all it asks for, and one thread.
        """
        memory, m = memory or WorkerMemory(), self.n_samples
        alone = replace(self, runtime=Threads(memory.n_threads)).asking(memory=1 << 62)
        stored = m * self.source.n_features * np.dtype(self.source.dtype).itemsize
        kept = min(COMPACT_BYTES, stored)
        return alone.selector.fitted(alone)[0].on_worker(memory.limit, m, kept, state_bytes)

    def room_on_workers(self, memory: WorkerMemory | None, budget: int | None) -> int | None:
        """Bytes for survivors: of `budget`, what the limit of workers leaves them there."""
        if memory is None or memory.limit is None:
            return budget
        needed = self.on_worker(memory)
        needed.check_worker(memory, self.selector.smaller(self))
        return min(COMPACT_BYTES if budget is None else budget, needed.survivors)

    def identity(self) -> dict[str, Any]:
        """What a run must share with the one that made a checkpoint, for `Checkpoint.begin`.

        What the values of the data decide is not part of it: the data are.
        """
        source = self.source if self.given is None else self.given
        digest = sha256()
        codes = None if self.groups is None else self.groups.codes
        for array in (self.y, self.covariates, self.rows, codes):
            digest.update(repr(None if array is None else np.asarray(array).tolist()).encode())
        return {
            "source": source.fingerprint(),
            "parameters": {**self.selector.identity(), "labels": digest.hexdigest()},
            "versions": versions(),
            "job": dict(self.job),
        }

    def weights(self, labels: LabelMatrix | None, estimator: str) -> Float:
        """W, (m, m); zeros until the data, which are their own labels, have been read."""
        if labels is None:
            return np.zeros((self.n_samples, self.n_samples))
        return checked_weights(labels.L, estimator, self.covariates)

    def check_sizes(self) -> None:
        """Refuse data without samples or features, and labels of another number of samples."""
        m, d = self.n_samples, self.source.n_features
        if d == 0 or m == 0:
            raise InputError(
                f"The data have {m} samples and {d} features; there is nothing to select from."
            )
        if m == 1:
            raise InputError(
                f"The data have 1 sample (n_samples=1) and {d} features, and a selection takes at "
                "least 2 samples; collect more."
            )
        if self.y is not None and len(self.y) != m:
            hint = (
                " The number of features matches: the matrix may be transposed (sample_dim=)."
                if len(self.y) == d
                else ""
            )
            raise InputError(
                f"y has {len(self.y)} labels and the data have {m} samples; pass one label a "
                f"sample, in the order of the samples.{hint}"
            )
        if self.selector.label_kernel == SELF and not self.selector.takes_self:
            raise InputError(
                "label_kernel='self' takes the data for labels, which this method cannot; pass y "
                "and another label kernel, or take BAHSIC, FOHSIC or LinearHSIC."
            )


class LaterReader:
    """Reader of features once the rounds of a run are over.

    The rounds have kept the last features alone, so features are read again. With `loads`, as for a
    scan of pairs, which looks at all of them several times, they are loaded once, where they fit in
    `budget` bytes.
    """

    def __init__(self, run: SelectionRun, budget: int | None, *, loads: bool) -> None:
        self._run, self._budget = replace(run, loaded=None), budget
        self._reader: Reader | None = None
        self._loads = loads

    def unscaled(self, scaling: Scaling) -> Reader:
        """Reader that compares what it reads with what was scaled so, and knows no scaling."""
        if self._reader is None:
            self._reader = data = self._run.reader(self._budget)
            data.compare(scaling)
            if self._loads:
                data.load()
        return self._reader.apart()

    def known(self, scaling: Scaling) -> Reader:
        """Reader of features that are scaled so."""
        data = self.unscaled(scaling)
        data.know(scaling)
        return data

    def close(self) -> None:
        """Remove scratch that features were loaded to."""
        if self._reader is not None:
            self._reader.close()
