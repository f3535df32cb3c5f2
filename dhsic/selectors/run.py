"""A run: what every method does around its own work, from the first check to the outcome.

Where features leave in groups the run knows them, as users name them, and says what an order of
groups means for the features.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float, Index
from dhsic.algorithms.state import SelectionState
from dhsic.errors import InputError
from dhsic.hsic import checked_weights
from dhsic.kernels import resolve_kernel
from dhsic.kernels.labels import SELF, LabelMatrix, label_matrix
from dhsic.memory import MemoryEstimate, WorkerMemory
from dhsic.passes.candidates import Membership
from dhsic.passes.once import look_at
from dhsic.passes.reader import COMPACT_BYTES
from dhsic.progress import Hook
from dhsic.results import Order, Outcome
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import Threads, single_blas_thread
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import KEEPING, ValueKind, recoded
from dhsic.storage.checkpoint import Checkpoint
from dhsic.versions import versions

if TYPE_CHECKING:
    from dhsic.selectors.base import Selector

#: What a feature without a group is named, in lower case.
NAMELESS = {"", "nan", "none", "na", "."}


@dataclass(frozen=True, eq=False)
class Groups:
    """A group for each of d features.

    Attributes
    ----------
    codes : (d,) int64
        Group of each feature: position of its name.
    names : (g,) str
        Names, in the order of their first features.
    """

    codes: Index
    names: Array

    @staticmethod
    def of(given: Any, d: int) -> Groups:
        """Groups from one name a feature."""
        labels = np.asarray(given)
        if labels.shape != (d,):
            raise InputError(
                f"groups have shape {labels.shape} and there are {d} features; pass one name a "
                "feature, in their order."
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

    @property
    def n(self) -> int:
        """Number of groups."""
        return int(self.names.size)

    def spread(self, order: Order, membership: Membership) -> Order:
        """Order of features from one of groups; those of a group by index, the first best."""
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


logger = logging.getLogger("dhsic")


class Unkept:
    """What is kept of a run without a checkpoint: nothing, by the methods of `Checkpoint`."""

    arrays: ClassVar[Mapping[str, Array]] = {}

    def check_data(self, checksums: Array) -> None: ...

    def start(self, state: SelectionState, checksums: Array | None = None) -> None: ...

    def save(self, state: SelectionState, arrays: Mapping[str, Array] | None = None) -> None: ...

    def finish(self) -> None: ...


Kept = Checkpoint | Unkept


@dataclass(frozen=True)
class SelectionRun:
    """One run, ready to go: the data, open, what is done with them, and where its tasks run.

    The method is the selector: `execute` asks it for labels, for the memory that it needs and for
    an order of the features. `announce` hears the memory promise before the work begins.
    """

    source: AbstractSource
    y: Array | None
    selector: Selector
    runtime: AbstractRuntime
    covariates: Array | None = None
    rows: Index | None = None
    groups: Groups | None = None
    checkpoint: str | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    progress: str | bool | Hook = False
    memory: int | None = None
    announce: Callable[[SelectionRun, MemoryEstimate], object] | None = None
    #: What the values of the data are, once they were looked at; and the data before that.
    values: ValueKind | None = None
    given: AbstractSource | None = None

    @property
    def n_samples(self) -> int:
        """Samples that take part, m."""
        return self.source.n_samples if self.rows is None else len(self.rows)

    @property
    def n_candidates(self) -> int:
        """What is ranked: features, or groups of them."""
        return self.source.n_features if self.groups is None else self.groups.n

    @property
    def standardizes(self) -> bool:
        """Whether features are scaled to unit deviation; known once the values are."""
        assert self.values is not None, "a run looks at the values before its first pass"
        return self.selector.scales(self.values)

    def execute(self) -> Outcome:
        """Outcome of the run, done from the start or from where the checkpoint left off."""
        selector = self.selector
        selector.check()
        self._check_sizes()
        if self._is_own and not selector.takes_self:
            raise InputError(
                "label_kernel='self' takes the data for labels, which this method cannot; pass y "
                "and another label kernel, or take BAHSIC, FOHSIC or LinearHSIC."
            )
        selector.check_samples(self)
        needed, budget = selector.fitted(self)
        needed.check(self.memory, selector.smaller(self))
        budget = self.room_on_workers(self.runtime.tightest(), budget)
        return self.looked()._executed(needed, budget)

    def _executed(self, needed: MemoryEstimate, budget: int | None) -> Outcome:
        assert self.values is not None, "they were looked at"
        if self.announce is not None:
            self.announce(self, needed)
        m, selector = self.n_samples, self.selector
        with single_blas_thread():
            labels = selector._labels(self)
            if labels is not None and labels.n_samples != m:
                raise InputError(
                    f"The label matrix is {labels.n_samples} x {labels.n_samples} and there are "
                    f"{m} samples; pass one row a sample."
                )
            order, scaling = selector._rank(self, labels, budget)
        return Outcome(
            order,
            scaling,
            SELF if labels is None else labels.description,
            0 if labels is None else labels.n_targets,
            {**selector.identity(), "standardize": self.standardizes},
            self.source,
            self.values,
            m,
            needed,
            self.runtime.name,
        )

    def looked(self, runtime: AbstractRuntime | None = None, *, whole: bool = True) -> Self:
        """The run with what the values are, which says what is missing and what scale they have.

        They are looked at on `runtime`, that of the run by default: all where a few look like
        dosages, or without `whole` those few alone.
        """
        if self.values is not None:
            return self
        kernel = getattr(self.selector, "kernel", "linear")
        values = look_at(
            self.source,
            runtime or self.runtime,
            self.rows,
            whole=whole,
            as_they_are=resolve_kernel(kernel).is_of_categories,
        )
        if values.codes and self.announce is None:  # which tells of them
            warnings.warn(f"X holds {values}. {KEEPING}", stacklevel=2)
        found = replace(self, source=recoded(self.source, values), values=values, given=self.source)
        logger.info("%s", found.values_told())
        return found

    def values_told(self) -> str:
        """What the values are and what is done with them, for people; once they are known."""
        done = "and scaled to unit deviation" if self.standardizes else "not scaled"
        return f"{self.values}; features are centred, {done}"

    def on_worker(
        self, memory: WorkerMemory | None = None, state_bytes: int | None = None
    ) -> MemoryEstimate:
        """Peak memory of a worker; what is broadcast is bounded where it is not known.

        Parameters
        ----------
        memory : WorkerMemory, optional
            What the worker may have, by default all it asks for, and one thread.
        """
        memory, m = memory or WorkerMemory(), self.n_samples
        alone = replace(self, runtime=Threads(memory.n_threads), memory=1 << 62)
        stored = m * self.source.n_features * np.dtype(self.source.dtype).itemsize
        kept = min(COMPACT_BYTES, stored)
        return self.selector.fitted(alone)[0].on_worker(memory.limit, m, kept, state_bytes)

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

    @contextmanager
    def kept(self) -> Iterator[tuple[Kept, SelectionState | None]]:
        """Yield what keeps the rounds of the run, and the state that was kept before."""
        if self.checkpoint is None:
            yield Unkept(), None
            return
        with Checkpoint(self.checkpoint) as kept:
            yield kept, kept.begin(self.identity())

    def check_found(self, kept: Kept, scaling: Scaling, *, has_bandwidth: bool) -> None:
        """Refuse data of which other rounds are kept, or that nothing can be ranked by."""
        kept.check_data(scaling.checksum)
        scaling.check(
            self.selector.missing, standardize=self.standardizes, has_bandwidth=has_bandwidth
        )

    def labels_by_kernel(self) -> LabelMatrix | None:
        """Labels by the label kernel that was asked for; None where the data are their own."""
        if self._is_own:
            return None
        assert self.y is not None, "a method without labels says so"
        return label_matrix(self.y, self.selector.label_kernel, self.covariates).centred

    def weights(self, labels: LabelMatrix | None) -> Float:
        """W, (m, m); zeros until the data, which are their own labels, have been read."""
        if labels is None:
            return np.zeros((self.n_samples, self.n_samples))
        return checked_weights(labels.L, self.selector.estimator, self.covariates)

    @property
    def _is_own(self) -> bool:
        """Whether the data are to be their own labels."""
        return bool(self.selector.label_kernel == SELF)

    def _check_sizes(self) -> None:
        m, d = self.n_samples, self.source.n_features
        if d == 0 or m == 0:
            raise InputError(
                f"The data have {m} samples and {d} features; there is nothing to select from."
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
