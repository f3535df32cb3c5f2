"""Forward selection from end to end: rounds of Algorithm 2 until enough features are chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dhsic.checkpoint import Checkpoint
from dhsic.engines.memory import Promise
from dhsic.errors import InputError
from dhsic.hsic import check_estimator
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import check_bandwidth, resolve_kernel
from dhsic.kernels.labels import LabelParts
from dhsic.parameters import AbstractParameters, check_dtype, check_flag, check_missing
from dhsic.progress import Progress
from dhsic.runs.base import AbstractRun
from dhsic.runs.labelled import weights_of
from dhsic.runs.measured import check_measured
from dhsic.runs.outcome import Order
from dhsic.scoring.dependence import Choices
from dhsic.scoring.forward import SourceForward
from dhsic.scoring.planning import Plan, fitted
from dhsic.selection.floating import floating
from dhsic.selection.fohsic import added, fohsic
from dhsic.selection.policies import check_step, how_many
from dhsic.selection.state import SelectionState, begin
from dhsic.sources.scaling import Scaling

APPROX = ("auto", "exact", "direct")
STRATEGIES = ("forward", "floating")


@dataclass(frozen=True)
class ForwardParameters(AbstractParameters):
    """Of forward selection."""

    method: ClassVar[str] = "fohsic"
    n_features_to_select: int | float | None = 50
    step: float | int = 1
    strategy: str = "forward"
    kernel: str | AbstractKernel = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    estimator: str = "unbiased"
    approx: str = "auto"
    standardize: bool = True
    missing: str = "mean"
    dtype: Any = "float32"

    def check(self) -> ForwardParameters:
        """Refuse what is unknown before any work."""
        how_many(self.n_features_to_select, 1)
        check_step(self.step)
        resolve_kernel(self.kernel)
        resolve_bandwidth(self.bandwidth)
        check_bandwidth(self.kernel, self.bandwidth)
        if self.strategy not in STRATEGIES:
            raise InputError(
                f"strategy={self.strategy!r} is unknown; pass one of {', '.join(STRATEGIES)}."
            )
        if self.strategy == "floating" and self.step != 1:
            raise InputError(
                f"step={self.step!r} and strategy='floating', which adds one feature a round; "
                "leave step out, or pass strategy='forward'."
            )
        if self.approx not in APPROX:
            raise InputError(
                f"approx={self.approx!r} is unknown to forward selection; pass 'auto' or 'exact' "
                "(an expansion, exact in its result), or 'direct' (the definition, slow)."
            )
        check_missing(self.missing)
        check_flag("standardize", self.standardize)
        check_dtype(self.dtype)
        return self

    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run."""
        kernel = resolve_kernel(self.kernel)
        return {
            "method": self.method,
            "n_features_to_select": self.n_features_to_select,
            "step": self.step,
            "strategy": self.strategy,
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

    def __str__(self) -> str:
        """In a few words."""
        name = resolve_kernel(self.kernel).name
        floating = "floating " if self.strategy == "floating" else ""
        return (
            f"{floating}FOHSIC with the {name} kernel, {self.estimator} HSIC, step {self.step:g},"
        )


@dataclass
class Forward(AbstractRun):
    """A run of Algorithm 2."""

    parameters: ForwardParameters
    _budget: int | None = field(default=None, init=False)

    def check_samples(self, m: int) -> None:
        """As many as the estimator takes."""
        check_estimator(self.parameters.estimator, m)

    def promise_for(self, m: int) -> Promise:
        """As of elimination by the exact engine."""
        kernel = resolve_kernel(self.parameters.kernel)
        plan = Plan(begins_thin=False, eager=False, may_square=True)
        needed, self._budget = fitted(plan, self.source, self.runtime, kernel, m, self.memory)
        if self.parameters.strategy == "forward":
            return needed
        chosen = how_many(self.parameters.n_features_to_select, self.source.n_features)
        return replace(needed, survivors=needed.survivors + 2 * 8 * m * chosen)

    def select(self, labels: LabelParts | None) -> tuple[Order, Scaling]:
        """All rounds."""
        assert labels is not None, "y was given"
        asked = self.parameters
        choices = Choices(
            resolve_kernel(asked.kernel),
            resolve_bandwidth(asked.bandwidth),
            weights_of(labels, asked.estimator, self.covariates),
            bool(asked.standardize),
            np.dtype(str(asked.dtype)),
            asked.approx == "direct",
        )
        dependence = SourceForward(
            self.source, choices, self.runtime, rows=self.rows, memory=self._budget
        )
        try:
            if self.checkpoint is None:
                return self._rounds(dependence, None)
            with Checkpoint(self.checkpoint) as kept:
                return self._rounds(dependence, kept)
        finally:
            dependence.close()

    def _loop(
        self, dependence: SourceForward, state: SelectionState, n_wanted: int
    ) -> Iterator[SelectionState]:
        if self.parameters.strategy == "floating":
            return floating(dependence, state, n_wanted)
        return fohsic(dependence, state, self.parameters.step, n_wanted)

    def _rounds(self, dependence: SourceForward, kept: Checkpoint | None) -> tuple[Order, Scaling]:
        previous = None if kept is None else kept.begin(self.identity())
        scaling = dependence.measure()
        asked = self.parameters
        check_measured(
            scaling,
            missing=asked.missing,
            standardize=bool(asked.standardize),
            has_bandwidth=resolve_kernel(asked.kernel).has_bandwidth,
        )
        state = begin(np.flatnonzero(~scaling.constant)) if previous is None else previous
        if kept is not None and previous is None:
            kept.start(state)
        dependence.resume(state)
        n_wanted = how_many(asked.n_features_to_select, scaling.constant.size)
        ahead = _ahead(asked.step, state.survivors.size, n_wanted - state.eliminated.size)
        progress = Progress(self.progress, sum(ahead))
        dependence.reporter = progress
        try:
            for state in self._loop(dependence, state, n_wanted):  # noqa: B020
                if kept is not None:
                    kept.save(state)
                progress.round_done(state)
        finally:
            progress.close()
        if kept is not None:
            kept.finish()
        worst_first = slice(None, None, -1)
        return (
            Order(
                state.eliminated[worst_first],
                state.scores[worst_first],
                state.removed_in[worst_first],
                state.history,
                placed="added",
            ),
            scaling,
        )


def _ahead(step: float | int, n: int, n_missing: int) -> list[int]:
    """Candidates of every round that is left."""
    out = []
    while n > 0:
        out.append(n)
        taken = added(step, n, n_missing)
        n, n_missing = n - taken, n_missing - taken
    return out
