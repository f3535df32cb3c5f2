"""State of one run (`SelectionRun`), interface of ranking methods (`Method`), feature groups.

If features are eliminated in groups, `Groups` converts an order of groups into an order of
features.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float, Index
from dhsic.algorithms import how_many
from dhsic.errors import InputError, warn
from dhsic.hsic import checked_weights
from dhsic.joins.label_description import LabelDescription
from dhsic.kernels import resolve_kernel
from dhsic.kernels.labels import SELF, LabelMatrix, named_classes
from dhsic.linalg.blocks import Blocks
from dhsic.memory import MemoryEstimate, WorkerMemory
from dhsic.passes.candidates import Membership
from dhsic.passes.reader import COMPACT_BYTES, Reader
from dhsic.passes.single_pass import look_at
from dhsic.passes.survivors import MemorySource
from dhsic.results.schema import Order, Outcome, versions
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import Threads
from dhsic.sources import AbstractSource
from dhsic.sources.categories import (
    IndicatorSource,
    category_sentence,
    numbers_of,
    one_hot_sentence,
)
from dhsic.sources.feature_blocks import BlockScaling, FeatureBlocks, FloatBlocks
from dhsic.sources.ids import abbreviate
from dhsic.sources.scaling import PRESENCE, Scale, Scaling
from dhsic.sources.values import KEEPING, BlockKinds, ValueKind, recoded
from dhsic.sources.views import ShadowedSource

logger = logging.getLogger("dhsic")

#: Scaling of features, for messages.
SCALED: dict[Scale, str] = {
    True: "and scaled to unit deviation",
    False: "not scaled",
    PRESENCE: "and scaled to unit standard deviation (less if most samples have the same value)",
}
#: Group names that mean that a feature has no group, in lower case.
NAMELESS = {"", "nan", "none", "na", "."}


@dataclass(frozen=True, eq=False)
class Groups:
    """Assignment of d features to g named groups."""

    codes: Index  # (d,), position of the name of its group
    names: Array  # (g,) str, in the order of their first features
    #: Whether a group is one column of a table: a number, or the indicators of a category.
    are_columns: bool = False

    @staticmethod
    def of_columns(source: IndicatorSource) -> Groups:
        """Build one group per column of the table that the indicators were made from."""
        names = source.base.feature_names()
        n = source.base.n_features
        named = np.arange(n).astype(str) if names is None else names
        if n == 1:
            raise InputError(f"The data have one feature ({named[0]}); there is no choice.")
        return Groups(source.columns, named, are_columns=True)

    @staticmethod
    def of(given: Any, d: int) -> Groups:
        """Build groups from one name per feature."""
        labels = np.asarray(given)
        if labels.shape != (d,):
            raise InputError(
                f"feature_groups have shape {labels.shape}, but there are {d} features; pass one "
                "group name per feature, in the order of the features."
            )
        text = labels.astype(object).astype(str)  # NumPy needs two steps for variable-width text
        missing = np.flatnonzero([name.strip().lower() in NAMELESS for name in text])
        if missing.size:
            raise InputError(
                f"{missing.size} features have no group (first: feature {missing[0]}). Give every "
                "feature a group; for a feature without a group, for example its own name."
            )
        codes, names = pd.factorize(text)  # in order of appearance, which resolves ties
        if names.size == 1:
            raise InputError(
                f"All {d} features are in one group ({names[0]}): there is nothing to choose from."
            )
        return Groups(codes.astype(np.int64), names)

    def expand_order(self, order: Order, scaling: Scaling) -> Order:
        """Convert an order of groups into an order of features.

        Within a group, features are ordered by their position in the data.
        """
        membership = Membership(self.codes)
        columns = {
            name: (values[self.codes] if len(values) < self.codes.size else values, meaning)
            for name, (values, meaning) in order.extra.items()
        }
        membership.drop_constant(scaling)
        parts = [membership.features(np.array([group]))[::-1] for group in order.features]
        sizes = np.array([part.size for part in parts], dtype=np.int64)
        rank = np.zeros(self.codes.size, dtype=np.int64)
        features = np.concatenate(parts)
        rank[features] = np.repeat(np.arange(sizes.size, 0, -1), sizes)
        extra = {
            "group": (self.names[self.codes].astype(object), "group of the feature"),
            "group_rank": (rank, "rank of its group, 1 is the most relevant; 0 if constant"),
        }
        return replace(
            order,
            features=features,
            scores=np.repeat(order.scores, sizes),
            rounds=np.repeat(order.rounds, sizes),
            sizes=sizes,
            extra={**columns, **extra},
        )

    def of_table(self, outcome: Outcome, table: AbstractSource) -> Outcome:
        """Return the outcome with one feature per column of `table` instead of indicators."""
        constant = outcome.scaling.constant
        order = outcome.order
        by_column = np.lexsort((constant, self.codes))  # a member that varies comes first
        first = by_column[np.searchsorted(self.codes[by_column], np.arange(self.names.size))]
        _, places = np.unique(self.codes[order.features], return_index=True)
        places = np.sort(places)  # the first member of each column, worst column first
        extra = {
            name: (values[first], meaning)
            for name, (values, meaning) in order.extra.items()
            if name not in ("group", "group_rank")
        }
        scaling = outcome.scaling.take(first)
        mean = np.where(np.isin(np.arange(first.size), [*table.levels]), np.nan, scaling.mean)
        return replace(
            outcome,
            order=replace(
                order,
                features=self.codes[order.features[places]],
                scores=order.scores[places],
                rounds=order.rounds[places],
                sizes=None,
                extra=extra,
            ),
            scaling=replace(scaling, mean=mean),
            source=table,
        )


def cache_budget(budget: int | None) -> int:
    """Size of the feature cache in bytes; a default if `budget` is None."""
    return COMPACT_BYTES if budget is None else budget


class Method(ABC):
    """Interface of a ranking method with its parameters.

    `dhsic.selectors.base.Selector` is the base of all methods and documents the parameters.
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
    stages: Any
    fdr: float
    checkpoint: Any
    progress: Any
    random_state: Any
    runtime: Any
    n_jobs: int | None
    memory_limit: int | None

    #: Whether ``interactions="auto"`` is the default; then pairs are scanned only if feasible.
    scans_pairs: ClassVar[bool] = False
    #: Whether candidates may be groups of features.
    takes_groups: ClassVar[bool] = False
    #: Whether the data may serve as their own labels.
    takes_self: ClassVar[bool] = False
    #: Whether features are kept in memory after the first pass, if they fit.
    keeps_features: ClassVar[bool] = False

    @abstractmethod
    def get_params(self, *, deep: bool) -> dict[str, Any]:
        """Parameters by name, as in scikit-learn."""

    @abstractmethod
    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, as in scikit-learn."""

    @abstractmethod
    def open_data(self, X: Any, sample_dim: str | int | None, **options: Any) -> AbstractSource:
        """Open X as a source; `options` are the options of `dhsic.open_source`."""

    @abstractmethod
    def check(self) -> None:
        """Reject invalid parameters; `InputError.parameter` names a single invalid parameter."""

    @abstractmethod
    def check_weights(self) -> None:
        """Reject sample weights if the parameters of the method do not support them."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain values that identify the run.

        Runs on the same data have the same results if these values are equal.
        """

    @abstractmethod
    def described(self) -> str:
        """Description of the method in messages, such as "BAHSIC with the gaussian kernel"."""

    @abstractmethod
    def scales(self, values: ValueKind) -> Scale:
        """Scaling of features for values of a given kind."""

    @abstractmethod
    def check_samples(self, run: SelectionRun) -> None:
        """Reject too few samples, and labels that the method cannot use."""

    @abstractmethod
    def check_blocks(self, options: str) -> None:
        """Reject blocks of samples (`options`) if the method has no p-values for them."""

    @abstractmethod
    def labels(self, run: SelectionRun) -> LabelMatrix | None:
        """Label matrix of the label kernel; None if the data are their own labels."""

    @abstractmethod
    def memory_estimate(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        """Memory estimate, and the size of the feature cache in bytes (None: unlimited)."""

    @abstractmethod
    def rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        """Rank the features, from the start or from the last round in the checkpoint.

        `budget` is the size of the feature cache in bytes, in this process or on each worker, see
        `memory_estimate`.
        """

    @abstractmethod
    def smaller(self, run: SelectionRun) -> str:
        """Advice for error messages on how to reduce the memory of (m, m) matrices."""

    def label_description(self, *, in_python: bool) -> LabelDescription:
        """Description of the labels for messages and results; `in_python` selects Python terms."""
        return LabelDescription(self.label_kernel, in_python=in_python)

    @property
    @abstractmethod
    def takes_numbers(self) -> bool:
        """Whether numeric labels are never classes."""


@dataclass(frozen=True)
class SelectionRun:
    """One run, ready to execute: method, open data, labels, and the runtime of its tasks.

    `selector` is the method: `dhsic.selection.conductor` calls it to get the label matrix, the
    memory estimate and an order of the features. `announce` is called with the run and its memory
    estimate before the work begins.
    """

    selector: Method
    source: AbstractSource
    y: Array | None
    runtime: AbstractRuntime
    covariates: Array | None = None
    sample_weight: Array | None = None
    rows: Index | None = None
    groups: Groups | None = None
    #: Table whose columns are the features; None if `source` has no indicators of categories.
    table: AbstractSource | None = None
    blocks: Blocks | None = None  # blocks that restrict the permutations of labels
    job: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""  # used in messages if there are several runs
    announce: Callable[[SelectionRun, MemoryEstimate], object] | None = None
    #: Kind of the values; None until they are inspected.
    values: ValueKind | None = None
    #: Blocks of the features, if the source joins several matrices.
    feature_blocks: FeatureBlocks | None = None
    #: Original source, if the inspection replaced `source`.
    given: AbstractSource | None = None
    #: Features in memory, if they were loaded while their values were inspected.
    loaded: MemorySource | None = None
    #: Reader of features that were loaded for this run and others.
    common: Reader | None = None
    #: Reader of features for the steps after the rounds.
    later: LaterReader | None = None
    #: Values that stages keep for use after the ranking, by the name of the stage.
    stage_state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Number of samples used, m."""
        return self.source.n_samples if self.rows is None else len(self.rows)

    @property
    def n_candidates(self) -> int:
        """Number of candidates, which are features or groups of features."""
        return self.source.n_features if self.groups is None else self.groups.names.size

    @property
    def standardizes(self) -> Scale:
        """Scaling of features; the values must have been inspected."""
        assert self.values is not None, "feature values are inspected before the first pass"
        return self.selector.scales(self.values)

    def with_state(self, name: str, value: object) -> Self:
        """Return a copy of the run that keeps `value` for the stage `name`, see `stage_state`."""
        return replace(self, stage_state={**self.stage_state, name: value})

    def asking(self, **parameters: Any) -> Self:
        """Return a copy of the run with changed parameters of its method."""
        return replace(self, selector=copy(self.selector).set_params(**parameters))

    def of_samples(self, some: Index) -> Self:
        """Return the run on a subset of its samples.

        `some` are positions among its samples. Labels that are classes in all samples stay classes
        in the subset.
        """
        is_matrix, y = self.selector.label_kernel == "precomputed", self.y
        if y is not None and not self.selector.takes_numbers:
            y = named_classes(y)
        return replace(
            self,
            y=y if y is None else y[np.ix_(some, some) if is_matrix else some],
            covariates=None if self.covariates is None else self.covariates[some],
            sample_weight=None if self.sample_weight is None else self.sample_weight[some],
            rows=some if self.rows is None else self.rows[some],
            blocks=None if self.blocks is None else self.blocks.of_samples(some),
        )

    def part(self, some: Index, place: str) -> Self:
        """Return the run on the samples at positions `some`, for `Stage.parts`.

        If features were loaded for all samples, the new run reads the loaded features. Its
        checkpoint path is the path of the whole run with the suffix `place`.
        """
        beside = self.selector.checkpoint
        rows, source = self.rows, self.source
        if self.common is not None and self.common.source.in_memory:
            rows, source = None, self.common.source
        checkpoint = beside and f"{beside}.{place}"
        return replace(
            self.of_samples(some).asking(checkpoint=checkpoint, progress=False),
            source=source,
            rows=some if rows is None else rows[some],
            announce=None,
            given=self.given or (self.source if source is not self.source else None),
            loaded=None,
            common=None,
        )

    @property
    def passed_source(self) -> AbstractSource:
        """Source as passed by the user; each column of a table is one feature."""
        return self.source if self.table is None else self.table

    @property
    def has_feature_groups(self) -> bool:
        """Whether the caller passed feature groups.

        The indicators of a category do not count as a group.
        """
        return self.groups is not None and not self.groups.are_columns

    @property
    def n_wanted(self) -> int:
        """Number of candidates to select."""
        return how_many(self.selector.n_features_to_select, self.n_candidates)

    @property
    def p(self) -> Float | None:
        """Sample weights (m,), which sum to 1.

        The result is None if all samples have the same weight.
        """
        weights = self.sample_weight
        return None if weights is None else weights / weights.sum()

    def reader(self, budget: int | None) -> Reader:
        """Reader of the run's features.

        If several runs share a reader, it is a copy of that reader. Otherwise a new reader is
        created, which keeps at most `budget` bytes of features in memory (None: unlimited).
        """
        if self.common is not None:
            data = self.common.in_common(self.runtime)
            data.block_scaling, data.p = self.block_scaling, self.p
            return data
        data = Reader(self.source, self.runtime, self.rows, budget)
        data.loaded = self.loaded
        data.block_scaling, data.p = self.block_scaling, self.p
        if self.groups is not None and self.groups.are_columns:
            data.columns = self.groups.codes
        return data

    def with_value_kind(
        self, runtime: AbstractRuntime | None = None, *, whole: bool = True, load: int | None = None
    ) -> Self:
        """Inspect the feature values; return the run with their kind (missing codes and scale).

        The inspection uses `runtime`, by default the runtime of the run. It reads a sample of the
        values. If these look like dosages and `whole` is True, it reads all values. With `load`, it
        also loads the features into at most `load` bytes, if the method keeps features in memory.
        """
        if self.values is not None:
            return self
        kernel = getattr(self.selector, "kernel", "linear")
        runtime = runtime or self.runtime
        inspected, keeps = self.source, load is not None and self.selector.keeps_features
        if self.table is not None or inspected.levels:
            return self._with_kind_of_numbers(runtime, whole=whole)
        if isinstance(inspected, ShadowedSource):  # shadow features have the same values
            inspected, keeps = inspected.base, False
        keeps = keeps and self.feature_blocks is None
        loading = Reader(self.source, runtime, self.rows, load) if keeps else None
        values = look_at(
            inspected,
            runtime,
            self.rows,
            whole=whole,
            as_they_are=resolve_kernel(kernel).is_of_categories,
            loading=loading,
        )
        if values.codes and self.announce is None:  # `announce` reports them otherwise
            warn(f"X holds {values}. {KEEPING}")
        source = recoded(self.source, values)
        # Features were loaded as stored, so loaded ones are usable only with a single missing code.
        same = source.dtype.kind != "f" and set(values.codes) == {source.missing_code}
        loaded = None if loading is None or (values.codes and not same) else loading.loaded
        result = replace(self, source=source, values=values, given=self.source, loaded=loaded)
        if result.block_scaling is not None and np.dtype(source.dtype).kind != "f":
            result = replace(result, source=FloatBlocks(source, {}))
        if self.announce is None:  # `announce` reports them otherwise
            logger.info("%s", result.values_told())
        return result

    @property
    def block_scaling(self) -> BlockScaling | None:
        """Scaling of features by blocks (matrices); None if they are scaled as one matrix."""
        blocks, balance = self.feature_blocks, bool(getattr(self.selector, "balance", False))
        if blocks is None or not isinstance(self.values, BlockKinds):
            return None
        is_auto = isinstance(getattr(self.selector, "standardize", True), str)
        has_dosages = np.array([kind.dosages for kind in self.values.kinds])
        is_unscaled = has_dosages & (is_auto and self.standardizes == PRESENCE)
        if has_dosages.all():  # they are unscaled anyway
            is_unscaled = np.zeros_like(is_unscaled)
        if not (balance or is_unscaled.any()):
            return None
        return BlockScaling(blocks.codes, is_unscaled, balance)

    def _with_kind_of_numbers(self, runtime: AbstractRuntime, *, whole: bool) -> Self:
        """Inspect only the numeric columns of a table with categories, see `with_value_kind`."""
        table = self.source if self.table is None else self.table
        numbers = numbers_of(table)
        values = ValueKind(dosages=False, because="categories")
        if numbers.size:
            values = look_at(table, runtime, self.rows, numbers, whole=whole)
        if values.codes and self.announce is None:
            warn(f"X holds {values}. {KEEPING}")
        table, source = recoded(table, values), recoded(self.source, values)
        categories = category_sentence(table).rstrip(".")
        values = replace(values, because=f"{values.because}; {categories}")
        result = replace(
            self,
            source=source,
            table=None if self.table is None else table,
            values=values,
            given=self.source,
        )
        if self.announce is None:
            logger.info("%s", result.values_told())
        return result

    def values_told(self) -> str:
        """Description of the feature values and their scaling, for messages.

        The values must have been inspected, see `with_value_kind`.
        """
        described = f"{self.values}; features are centred, {SCALED[self.standardizes]}"
        scaling = self.block_scaling
        if scaling is not None and self.feature_blocks is not None:
            names = self.feature_blocks.names
            unscaled = [names[number] for number in np.flatnonzero(scaling.is_unscaled)]
            described += f"; not scaled: {abbreviate(unscaled)}" if unscaled else ""
            described += "; weighted so that every matrix has the same share" * scaling.balance
        one_hot = one_hot_sentence(self.passed_source)
        return f"{described}. {one_hot}" if one_hot else described

    def on_worker(
        self, memory: WorkerMemory | None = None, state_bytes: int | None = None
    ) -> MemoryEstimate:
        """Memory estimate of one worker.

        `memory` holds the limit and the threads of the worker; by default no limit and one thread.
        `state_bytes` is the size of the broadcast state; if None, an upper bound is used.
        """
        memory, m = memory or WorkerMemory(), self.n_samples
        alone = replace(self, runtime=Threads(memory.n_threads)).asking(memory_limit=1 << 62)
        stored = m * self.source.n_features * np.dtype(self.source.dtype).itemsize
        stored_copy = min(COMPACT_BYTES, stored)
        return alone.selector.memory_estimate(alone)[0].on_worker(
            memory.limit, m, stored_copy, state_bytes
        )

    def room_on_workers(self, memory: WorkerMemory | None, budget: int | None) -> int | None:
        """Size of the feature cache on each worker, in bytes; None if it is unlimited.

        The size is at most `budget`. It is also at most the memory that tasks leave free on a
        worker with the limit of `memory`.
        """
        if memory is None or memory.limit is None:
            return budget
        needed = self.on_worker(memory)
        needed.check_worker(memory, self.selector.smaller(self))
        return min(COMPACT_BYTES if budget is None else budget, needed.survivors)

    def identity(self) -> dict[str, Any]:
        """Identity of the run; it must match the identity in a checkpoint, see `Checkpoint.begin`.

        Settings that depend only on the values of the data are omitted, because the identity
        already includes the data.
        """
        source = self.source if self.given is None else self.given
        digest = sha256()
        codes = None if self.groups is None else self.groups.codes
        blocks = () if self.blocks is None else self.blocks.parts
        for array in (self.y, self.covariates, self.rows, codes, *blocks):
            digest.update(repr(None if array is None else np.asarray(array).tolist()).encode())
        if self.sample_weight is not None:
            digest.update(repr(self.sample_weight.tolist()).encode())
        return {
            "source": source.fingerprint(),
            "parameters": {**self.selector.identity(), "labels": digest.hexdigest()},
            "versions": versions(),
            "job": dict(self.job),
        }

    def weights(self, labels: LabelMatrix | None, statistic: str) -> Float:
        """Label weights W (m, m) for the HSIC `statistic`, "biased" or "unbiased".

        If the data are their own labels, the weights are zeros, because no data have been read.
        """
        if labels is None:
            return np.zeros((self.n_samples, self.n_samples))
        return checked_weights(labels.L, statistic, self.covariates, self.p)

    def check_sizes(self) -> None:
        """Reject data with no features or fewer than 2 samples, and labels of the wrong length."""
        m, d = self.n_samples, self.source.n_features
        if d == 0 or m == 0:
            raise InputError(
                f"The data have {m} samples and {d} features; there is nothing to select from."
            )
        if m == 1:
            raise InputError(
                f"The data have 1 sample (n_samples=1) and {d} features, but a selection needs at "
                "least 2 samples; collect more."
            )
        if self.y is not None and len(self.y) != m:
            hint = (
                " The number of features matches: the matrix may be transposed (sample_dim=)."
                if len(self.y) == d
                else ""
            )
            raise InputError(
                f"y has {len(self.y)} labels, but the data have {m} samples; pass one label per "
                f"sample, in the order of the samples.{hint}"
            )
        if self.selector.label_kernel == SELF and not self.selector.takes_self:
            raise InputError(
                "This method does not support label_kernel='self'. Pass y and another label "
                "kernel, or use BAHSIC, FOHSIC or LinearHSIC."
            )


class LaterReader:
    """Reader of features after the rounds of a run.

    The rounds keep only the last surviving features in memory, so features must be read again. With
    `loads`, they are loaded into memory once if they fit in `budget` bytes. This helps scans of
    pairs, which read all features several times.
    """

    def __init__(self, run: SelectionRun, budget: int | None, *, loads: bool) -> None:
        self._run, self._budget = replace(run, loaded=None), budget
        self._reader: Reader | None = None
        self._loads = loads

    def unscaled(self, scaling: Scaling) -> Reader:
        """Return a reader without scaling.

        It checks the data against the checksums of `scaling`.
        """
        if self._reader is None:
            self._reader = data = self._run.reader(self._budget)
            data.compare(scaling)
            if self._loads:
                data.load()
        return self._reader.copy_unread()

    def with_scaling(self, scaling: Scaling) -> Reader:
        """Return a reader of features that are scaled by `scaling`, see `unscaled`."""
        data = self.unscaled(scaling)
        data.know(scaling)
        return data

    def close(self) -> None:
        """Remove temporary files of loaded features."""
        if self._reader is not None:
            self._reader.close()
