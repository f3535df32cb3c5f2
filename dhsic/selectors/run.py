"""A run: what every method does around its own work, from the first check to the outcome.

From labels to weights, as a run needs them: W in full, or as a product of thin matrices.

Checks of what the first pass over the features found.
"""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.algorithms.state import SelectionState
from dhsic.errors import InputError
from dhsic.hsic import factored_weights, weights
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.labels import SELF, label_matrix
from dhsic.kernels.table import resolve_kernel
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.memory import Promise
from dhsic.passes.once import look_at
from dhsic.passes.reader import COMPACT_BYTES
from dhsic.progress import Hook
from dhsic.results import Order, Outcome
from dhsic.runtime.base import AbstractRuntime, WorkerMemory
from dhsic.runtime.blas import single_blas_thread
from dhsic.selectors.groups import Groups
from dhsic.selectors.workers import WorkerPromise
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind, recoded
from dhsic.storage.checkpoint import Checkpoint
from dhsic.versions import versions

if TYPE_CHECKING:
    from dhsic.selectors.base import Selector

logger = logging.getLogger("dhsic")

#: What to do where a code is none.
KEEPING = "If it is a value, pass missing_code=None."


class Unkept:
    """What is kept of a run without a checkpoint: nothing, by the methods of `Checkpoint`."""

    arrays: ClassVar[Mapping[str, Array]] = {}

    def check_data(self, checksums: Array) -> None: ...

    def start(self, state: SelectionState, checksums: Array | None = None) -> None: ...

    def save(self, state: SelectionState, arrays: Mapping[str, Array] | None = None) -> None: ...

    def finish(self) -> None: ...


Kept = Checkpoint | Unkept


@dataclass(frozen=True)
class AbstractRun(ABC):
    """One run, ready to go; `announce` hears the memory promise before the work begins.

    A method says how it does its work; `execute` composes that.
    """

    source: AbstractSource
    y: Array | None
    parameters: Selector
    runtime: AbstractRuntime
    covariates: Array | None = None
    rows: Index | None = None
    groups: Groups | None = None
    checkpoint: str | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    progress: str | bool | Hook = False
    memory: int | None = None
    announce: Callable[[AbstractRun, Promise], object] | None = None
    #: What the values of the data are, once they were looked at; and the data before that.
    values: ValueKind | None = None
    given: AbstractSource | None = None

    #: Whether the data may be their own labels.
    takes_self: ClassVar[bool] = False

    @abstractmethod
    def check_samples(self, m: int) -> None:
        """Refuse fewer samples than the method takes, and what is not for m of them."""

    @abstractmethod
    def labels(self) -> LabelMatrix | None:
        """The labels; None where the data are their own."""

    @abstractmethod
    def fitted(self, m: int) -> tuple[Promise, int | None]:
        """Memory that the run will need at most for m samples, and bytes of it for survivors.

        None are as many as are of use.
        """

    @abstractmethod
    def select(self, labels: LabelMatrix | None, budget: int | None) -> tuple[Order, Scaling]:
        """Do the work of the method, from the start or from where the checkpoint left off.

        `budget` is bytes of survivors in memory, here or on each worker, as of `fitted`.
        """

    @property
    @abstractmethod
    def smaller(self) -> str:
        """What makes m x m matrices smaller, for people."""

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
        return self.parameters.scales(self.values)

    def promise_for(self, m: int) -> Promise:
        """Memory that the run will need at most, for m samples."""
        return self.fitted(m)[0]

    def execute(self) -> Outcome:
        """Do it, from the start or from where the checkpoint left off."""
        self.parameters.check()
        m = self.n_samples
        self._check_sizes(m)
        if self._is_own and not self.takes_self:
            raise InputError(
                "label_kernel='self' takes the data for labels, which this method cannot; pass y "
                "and another label kernel, or take BAHSIC, FOHSIC or LinearHSIC."
            )
        self.check_samples(m)
        needed, budget = self.fitted(m)
        needed.check(self.memory, self.smaller)
        budget = self.room_on_workers(self.runtime.tightest(), budget)
        return self.looked()._executed(needed, budget)

    def _executed(self, needed: Promise, budget: int | None) -> Outcome:
        assert self.values is not None, "they were looked at"
        if self.announce is not None:
            self.announce(self, needed)
        m = self.n_samples
        with single_blas_thread():
            labels = self.labels()
            if labels is not None and labels.n_samples != m:
                raise InputError(
                    f"The label matrix is {labels.n_samples} x {labels.n_samples} and there are "
                    f"{m} samples; pass one row a sample."
                )
            order, scaling = self.select(labels, budget)
        return Outcome(
            order,
            scaling,
            SELF if labels is None else labels.description,
            0 if labels is None else labels.n_targets,
            {**self.parameters.identity(), "standardize": self.standardizes},
            self.source,
            self.values,
            m,
            needed,
            self.runtime.name,
        )

    def looked(self, runtime: AbstractRuntime | None = None, *, whole: bool = True) -> Self:
        """The run with what the values are, which says what is missing and what scale they have.

        Parameters
        ----------
        runtime : AbstractRuntime, optional
            Where they are looked at, that of the run by default.
        whole : bool
            At all values where a few look like dosages; else at those few alone.

        Raises
        ------
        DataError
            Few values besides 0, 1 and 2 that are no codes for missing ones.
        """
        if self.values is not None:
            return self
        kernel = getattr(self.parameters, "kernel", "linear")
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

    def room_on_workers(self, memory: WorkerMemory | None, budget: int | None) -> int | None:
        """Bytes for survivors: of `budget`, what the limit of workers leaves them there.

        Raises
        ------
        MemoryBudgetError
            Workers are too small; the message names what to change.
        """
        if memory is None or memory.limit is None:
            return budget
        needed = WorkerPromise.of(self, memory)
        needed.check(memory, self.smaller)
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
            "parameters": {**self.parameters.identity(), "labels": digest.hexdigest()},
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
        check_measured(
            scaling,
            missing=self.parameters.missing,
            standardize=self.standardizes,
            has_bandwidth=has_bandwidth,
        )

    @property
    def _is_own(self) -> bool:
        """Whether the data are to be their own labels."""
        return getattr(self.parameters, "label_kernel", None) == SELF

    def _labels_by_kernel(self) -> LabelMatrix | None:
        """Labels by the label kernel that was asked for."""
        if self._is_own:
            return None
        assert self.y is not None, "a method without labels says so"
        return label_matrix(self.y, self.parameters.label_kernel, self.covariates).centred

    def _check_sizes(self, m: int) -> None:
        if self.source.n_features == 0 or m == 0:
            raise InputError(
                f"The data have {m} samples and {self.source.n_features} features; there is "
                "nothing to select from."
            )
        if self.y is not None and len(self.y) != m:
            hint = (
                " The number of features matches: the matrix may be transposed (sample_dim=)."
                if len(self.y) == self.source.n_features
                else ""
            )
            raise InputError(
                f"y has {len(self.y)} labels and the data have {m} samples; pass one label a "
                f"sample, in the order of the samples.{hint}"
            )


def weights_of(
    labels: LabelMatrix | None, estimator: str, covariates: Array | None, m: int
) -> Float:
    """W, (m, m); zeros until the data, which are their own labels, have been read.

    Raises
    ------
    InputError
        Labels that are all alike once covariates are taken out.
    """
    if labels is None:
        return np.zeros((m, m))
    return weights_from(labels.L, estimator, covariates)


def weights_from(L: Float, estimator: str, covariates: Array | None) -> Float:
    """W, (m, m), of a label matrix; raises as `weights_of`."""
    W = weights(L, estimator, covariates)
    _check_left(float(np.abs(W).max()), float(np.abs(L).max()), len(L), estimator, covariates)
    return W


def factored_of(labels: LabelMatrix, estimator: str, covariates: Array | None) -> LowRankSymmetric:
    """W as a product of thin matrices; raises as `weights_of`."""
    L = labels.factor()
    W = factored_weights(L, estimator, covariates)
    largest = float((np.square(L.F) @ np.abs(L.weights)).max())
    _check_left(W.norm / L.n_samples, largest, L.n_samples, estimator, covariates)
    return W


def _check_left(
    largest_weight: float, largest_label: float, m: int, estimator: str, covariates: Array | None
) -> None:
    if largest_weight * m * m > 1e-9 * largest_label:
        return
    if covariates is None and estimator == "biased":
        raise InputError(
            "Nothing is left of the label matrix once its mean is taken out: rows of a given L "
            "that are all alike. Pass labels that vary, or a centred L."
        )
    if covariates is None:
        raise InputError(
            "Nothing is left of the labels once their mean is taken out: of a class of one sample "
            "the unbiased estimate makes nothing. Pass labels that more samples share, or "
            "estimator='biased'."
        )
    raise InputError(
        "Nothing is left of the labels once their mean and the covariates are taken out; pass "
        "labels that vary, or fewer covariates."
    )


#: Values of features up to here, as scaled, have powers that are numbers.
LARGEST_PEAK = 1e15
#: Data all below this ask for a sigma whose powers are none.
SMALLEST_PEAK = 1e-4


def check_measured(
    scaling: Scaling, *, missing: str, standardize: bool, has_bandwidth: bool
) -> None:
    """Refuse data that nothing can be ranked by.

    Parameters
    ----------
    missing : {"mean", "error"}
        What is to be done about missing values.
    standardize : bool
        Whether features are scaled to unit deviation.
    has_bandwidth : bool
        Whether the kernel on the data has a width.

    Raises
    ------
    InputError
        Missing values that are to be an error, values beyond numbers, or only constant features.
    """
    n = int((scaling.n_missing > 0).sum())
    if missing == "error" and n:
        first = int(np.flatnonzero(scaling.n_missing)[0])
        raise InputError(
            f"{int(scaling.n_missing.sum())} values are missing in {n} features (first: "
            f"feature {first}) and missing='error'; fill them in, or pass missing='mean'."
        )
    _check_range(scaling, standardize=standardize, has_bandwidth=has_bandwidth)
    if scaling.constant.all():
        raise InputError(
            f"All {scaling.constant.size} features are constant over the samples; there is "
            "nothing to rank. Check the orientation and the choice of samples."
        )


def _check_range(scaling: Scaling, *, standardize: bool, has_bandwidth: bool) -> None:
    """Refuse features whose squares or products no number holds."""
    beyond = np.flatnonzero(~np.isfinite(scaling.std) | ~(scaling.max_abs < LARGEST_PEAK))
    if beyond.size:
        raise InputError(
            f"{beyond.size} features (first: feature {beyond[0]}, of mean "
            f"{scaling.mean[beyond[0]]:.3g}) hold values so large, or vary by so little, that "
            "squares leave the range of floating-point numbers. Rescale them, take logarithms"
            + ("." if standardize else ", or pass standardize=True.")
        )
    highest = float(scaling.max_abs.max())
    if has_bandwidth and 0 < highest < SMALLEST_PEAK:
        raise InputError(
            f"No feature is further than {highest:.3g} from its mean, which asks for a sigma "
            "beyond numbers. Pass standardize=True, or rescale the data."
        )
