"""A run: the eight steps from a source and labels to an order of the features.

Labels give L and L gives W; a pass over the source gives scaling and statistic; rounds of
Algorithm 1 follow, each kept by the checkpoint, until no feature is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from numbers import Real
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.checkpoint import Checkpoint
from dhsic.engines.memory import Promise, promise
from dhsic.errors import InputError
from dhsic.hsic import check_estimator, weights
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import check_bandwidth, resolve_kernel
from dhsic.kernels.labels import Labels, label_matrix
from dhsic.progress import Hook, Progress, check_progress
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.blas import single_blas_thread
from dhsic.scoring import SourceDependence
from dhsic.scoring.dependence import Choices
from dhsic.scoring.reader import COMPACT_BYTES, block_width
from dhsic.scoring.running import EPOCH, FEW
from dhsic.scoring.tasks import TILE
from dhsic.selection.bahsic import bahsic, begin
from dhsic.selection.onepass import one_pass
from dhsic.selection.policies import check_step, sizes
from dhsic.selection.state import SelectionState
from dhsic.sources.base import AbstractSource
from dhsic.sources.domain import warn_of_codes
from dhsic.sources.scaling import Scaling
from dhsic.versions import versions

APPROX = ("auto", "exact", "direct")

#: Values of features up to here, as scaled, have powers that are numbers.
LARGEST_PEAK = 1e15
#: Data all below this ask for a sigma whose powers are none.
SMALLEST_PEAK = 1e-4


@dataclass(frozen=True)
class Parameters:
    """What identifies a run besides its data; the same names as of the estimators."""

    step: float | int | None = 0.1
    kernel: str | AbstractKernel = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    estimator: str = "unbiased"
    approx: str = "auto"
    standardize: bool = True
    missing: str = "mean"
    dtype: Any = "float32"

    def check(self) -> Parameters:
        """Refuse what is unknown before any work; ``step=None`` ranks in one pass."""
        if self.step is not None:
            check_step(self.step)
        resolve_kernel(self.kernel)
        resolve_bandwidth(self.bandwidth)
        check_bandwidth(self.kernel, self.bandwidth)
        if self.approx not in APPROX:
            raise InputError(
                f"approx={self.approx!r} is unknown; pass 'auto' or 'exact' (the expansion, "
                "exact in its result) or 'direct' (the definition, slow)."
            )
        if self.missing not in ("mean", "error"):
            raise InputError(
                f"missing={self.missing!r} is unknown; pass 'mean' (fill in the mean of the "
                "feature) or 'error'."
            )
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise InputError(f"standardize={self.standardize!r}; pass True or False.")
        if str(self.dtype) not in ("float32", "float64"):
            raise InputError(f"dtype={self.dtype!r}; pass 'float32' or 'float64'.")
        return self

    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run."""
        kernel = resolve_kernel(self.kernel)
        return {
            "step": self.step,
            "kernel": kernel.name,
            **{f"kernel_{k}": v for k, v in kernel.parameters().items()},
            "bandwidth": repr(resolve_bandwidth(self.bandwidth)),
            "label_kernel": self.label_kernel,
            "estimator": self.estimator,
            "approx": self.approx,
            "standardize": bool(self.standardize),
            "missing": self.missing,
            "dtype": str(self.dtype),
        }


@dataclass(frozen=True)
class Outcome:
    """What a run found out; `dhsic.results.to_dataset` makes it presentable."""

    state: SelectionState
    scaling: Scaling
    labels: Labels
    parameters: Mapping[str, Any]
    source: AbstractSource
    n_samples: int
    promise: Promise
    runtime: str

    @property
    def order(self) -> Index:
        """All features, the least relevant first: S-dagger behind the constant features."""
        return np.concatenate([np.flatnonzero(self.scaling.constant), self.state.eliminated])


@dataclass
class Run:
    """One run, ready to go; `announce` hears the memory promise before the work begins."""

    source: AbstractSource
    y: Array
    parameters: Parameters
    runtime: AbstractRuntime
    covariates: Array | None = None
    rows: Index | None = None
    checkpoint: str | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    progress: str | bool | Hook = False
    memory: int | None = None
    announce: Callable[[Promise], object] | None = None

    def execute(self) -> Outcome:
        """Do it, from the start or from where the checkpoint left off."""
        self.parameters.check()
        check_progress(self.progress)
        check_memory(self.memory)
        m = self.source.n_samples if self.rows is None else len(self.rows)
        self._check_sizes(m)
        check_estimator(self.parameters.estimator, m)
        promised = self.promised_for(m)
        promised.check(self.memory)
        if self.announce is not None:
            self.announce(promised)
        warn_of_codes(self.source, self.rows)
        with single_blas_thread():
            labels = label_matrix(self.y, self.parameters.label_kernel)
            W = self._weights(labels, m)
            state, scaling = self._select(W)
        return Outcome(
            state,
            scaling,
            labels,
            self.parameters.identity(),
            self.source,
            m,
            promised,
            self.runtime.name,
        )

    def _check_sizes(self, m: int) -> None:
        if self.source.n_features == 0 or m == 0:
            raise InputError(
                f"The data have {m} samples and {self.source.n_features} features; there is "
                "nothing to select from."
            )
        if len(self.y) != m:
            hint = (
                " The number of features matches: the matrix may be transposed (sample_dim=)."
                if len(self.y) == self.source.n_features
                else ""
            )
            raise InputError(
                f"y has {len(self.y)} labels and the data have {m} samples; pass one label a "
                f"sample, in the order of the samples.{hint}"
            )

    def _weights(self, labels: Labels, m: int) -> Float:
        if len(labels.L) != m:
            raise InputError(
                f"The label matrix is {len(labels.L)} x {len(labels.L)} and there are {m} "
                "samples; pass one row a sample."
            )
        W = weights(labels.L, self.parameters.estimator, self.covariates)
        if float(np.abs(W).max()) * m * m <= 1e-9 * float(np.abs(labels.L).max()):
            raise InputError(
                "Nothing is left of the labels once their mean and the covariates are taken "
                "out; pass labels that vary, or fewer covariates."
            )
        return W

    def promised_for(self, m: int) -> Promise:
        """Memory that the run will need at most, for m samples."""
        kernel = resolve_kernel(self.parameters.kernel)
        itemsize = np.dtype(self.source.dtype).itemsize
        d = self.source.n_features
        widest = max(b.width for b in self.source.blocks(block_width(m, d, itemsize)))
        held = 0 if self.runtime.is_remote else min(m * d * itemsize, COMPACT_BYTES)
        return promise(
            n_samples=m,
            n_features=d,
            n_bases=kernel.exact_order or 1,
            block_bytes=widest * self.source.n_samples * itemsize,
            tile_bytes=8 * TILE * m * 8,
            n_threads=self.runtime.n_workers,
            survivor_bytes=held + held // EPOCH + FEW * m * 8,  # and those that leave
        )

    def _select(self, W: Float) -> tuple[SelectionState, Scaling]:
        parameters = self.parameters
        choices = Choices(
            resolve_kernel(parameters.kernel),
            resolve_bandwidth(parameters.bandwidth),
            W,
            bool(parameters.standardize),
            np.dtype(str(parameters.dtype)),
            parameters.approx == "direct",
        )
        dependence = SourceDependence(self.source, choices, self.runtime, rows=self.rows)
        if self.checkpoint is None:
            return self._rounds(dependence, None)
        with Checkpoint(self.checkpoint) as kept:
            return self._rounds(dependence, kept)

    def _rounds(
        self, dependence: SourceDependence, kept: Checkpoint | None
    ) -> tuple[SelectionState, Scaling]:
        previous = None if kept is None else kept.begin(self._identity())
        scaling = dependence.measure()
        self._check_measured(scaling)
        state = begin(np.flatnonzero(~scaling.constant)) if previous is None else previous
        if kept is not None and previous is None:
            kept.start(state)
        dependence.check_reach()
        dependence.resume(state)
        step = self.parameters.step
        ahead = [state.survivors.size] if step is None else sizes(step, state.survivors.size)
        progress = Progress(self.progress, sum(ahead))
        dependence.reporter = progress
        try:
            for state in _loop(dependence, state, step):  # noqa: B020  # the next from the last
                if kept is not None:
                    kept.save(state)
                progress.round_done(state)
        finally:
            progress.close()
        if kept is not None:
            kept.finish()
        return state, scaling

    def _check_measured(self, scaling: Scaling) -> None:
        n = int((scaling.n_missing > 0).sum())
        if self.parameters.missing == "error" and n:
            first = int(np.flatnonzero(scaling.n_missing)[0])
            raise InputError(
                f"{int(scaling.n_missing.sum())} values are missing in {n} features (first: "
                f"feature {first}) and missing='error'; fill them in, or pass missing='mean'."
            )
        self._check_range(scaling)
        if scaling.constant.all():
            raise InputError(
                f"All {scaling.constant.size} features are constant over the samples; there is "
                "nothing to rank. Check the orientation and the choice of samples."
            )

    def _check_range(self, scaling: Scaling) -> None:
        """Refuse features whose squares or products no number holds."""
        beyond = np.flatnonzero(~np.isfinite(scaling.std) | ~(scaling.peak < LARGEST_PEAK))
        if beyond.size:
            raise InputError(
                f"{beyond.size} features (first: feature {beyond[0]}, of mean "
                f"{scaling.mean[beyond[0]]:.3g}) hold values so large, or vary by so little, that "
                "squares leave the range of floating-point numbers. Rescale them, take logarithms"
                + ("." if self.parameters.standardize else ", or pass standardize=True.")
            )
        highest = float(scaling.peak.max())
        if resolve_kernel(self.parameters.kernel).has_bandwidth and 0 < highest < SMALLEST_PEAK:
            raise InputError(
                f"No feature is further than {highest:.3g} from its mean, which asks for a sigma "
                "beyond numbers. Pass standardize=True, or rescale the data."
            )

    def _identity(self) -> dict[str, Any]:
        digest = sha256()
        for array in (self.y, self.covariates, self.rows):
            digest.update(repr(None if array is None else np.asarray(array).tolist()).encode())
        return {
            "source": self.source.fingerprint(),
            "parameters": {**self.parameters.identity(), "labels": digest.hexdigest()},
            "versions": versions(),
            "job": dict(self.job),
        }


def check_memory(memory: object) -> None:
    """Refuse what is no number of bytes."""
    size = float(memory) if isinstance(memory, Real) else 0.0
    if memory is not None and (memory is True or not size > 0):
        raise InputError(
            f"memory={memory!r}; pass a number of bytes, such as 8 * 2**30, or None for what the "
            "machine has."
        )


def _loop(
    dependence: SourceDependence, state: SelectionState, step: float | int | None
) -> Iterator[SelectionState]:
    if step is None:
        if state.survivors.size:
            yield one_pass(dependence, state)
    else:
        yield from bahsic(dependence, state, step)
