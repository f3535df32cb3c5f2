r"""HSIC(sigma, S) of the features in a source: what Algorithm 1 asks, answered by engines.

Recursive feature elimination with support vectors, as Algorithm 1 sees it (JMLR 6.8).

A support vector machine solves, for labels y in {-1, +1},

    ``maximise  1' alpha - 1/2 alpha' (K o y y') alpha,   0 <= alpha_i <= C,   y' alpha = 0``,

and features are removed without which ``1/2 alpha' (K o y y') alpha`` decreases least (eq. 31,
where the paper writes the nu form). That is ``<W, K>`` with ``W = beta beta' / 2`` and
``beta = alpha o y``: HSIC with a conformal kernel. So each round solves the machine for the
surviving features, which sets W, and the engines do the rest. With more classes there is a machine
for each against all others, and W is their sum.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from dhsic._typing import Array, Float, Index
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import SelectionState
from dhsic.engines.base import AbstractEngine, FeatureStats, Question
from dhsic.engines.final import definition_of, final_engine
from dhsic.engines.refine import (
    engine_named,
    first_engine,
    largest,
    next_engine,
    tie_width,
    undecided,
)
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import AbstractBandwidth, DistanceStats, Grid
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic, zero_upper
from dhsic.kernels.table import check_reach
from dhsic.passes.reader import Reader
from dhsic.passes.removal import check_gains, check_shared, removal_of
from dhsic.passes.sums import RunningStatistic, survivors_after_rounds
from dhsic.passes.task import Measure, Score
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling


class Reporter(Protocol):
    """Hears of progress."""

    def scored(self, n_features: int) -> None:
        """So many more features have been scored in the first pass of a round."""


@dataclass(frozen=True)
class Choices:
    """What does not change during a run.

    Attributes
    ----------
    kernel, bandwidth
        Kernel on the data and the policy for its width.
    W : (m, m) float64
        Weights of the estimator.
    standardize : bool
        Features to unit standard deviation.
    dtype : float32 or float64
        Of the products.
    by_definition : bool
        Score with the direct engine alone.
    """

    kernel: AbstractKernel
    bandwidth: AbstractBandwidth
    W: Float
    standardize: bool = True
    dtype: Any = np.float32
    by_definition: bool = False


class SourceDependence:
    """`dhsic.algorithms.bahsic.Dependence` over a source."""

    def __init__(
        self,
        source: AbstractSource,
        choices: Choices,
        runtime: AbstractRuntime,
        *,
        rows: Index | None = None,
        reporter: Reporter | None = None,
        memory: int | None = None,
    ) -> None:
        self.choices = choices
        self.reporter = reporter
        self._sums = choices.kernel.sums
        self._reader = Reader(source, runtime, rows, memory=memory)
        self.scaling: Scaling | None = None
        self.bytes_read = 0
        self._running: RunningStatistic | None = None
        self._additive: tuple[Index, Float] | None = None
        self._advice: str | None = None
        self._started = time.perf_counter()

    @staticmethod
    def from_survivors(
        choices: Choices, reader: Reader, scaling: Scaling, S: Index
    ) -> SourceDependence:
        """In the middle of a run: S is left, and the scaling of all features is known."""
        reader = reader.compacted(S)
        out = SourceDependence(reader.source, choices, reader.runtime)
        out._reader, out.scaling = reader, scaling
        out._running = RunningStatistic(reader, scaling, S, zero_upper(reader.n_samples), out._sums)
        out._running.begin(S)
        return out

    def measure(self) -> Scaling:
        """Pass over all features: their scaling and, with it, the statistic."""
        self._reader, jobs, n_bytes = self._reader.first_pass()
        self.bytes_read += n_bytes
        parts = []
        upper = zero_upper(len(self.choices.W))
        summed = None if self.choices.kernel.is_additive else self._sums
        for scaling, partial in self._reader.map(Measure(self.choices.standardize, summed), jobs):
            parts.append(scaling)
            if partial is not None:
                upper += partial
        self.scaling = Scaling.join(parts)
        self._reader = self._reader.checked(self.scaling)
        alive = np.flatnonzero(~self.scaling.constant)
        self._running = RunningStatistic(self._reader, self.scaling, alive, upper, self._sums)
        return self.scaling

    @property
    def candidates(self) -> Index:
        """What may be removed: features that vary."""
        return np.flatnonzero(~self._known()[1].constant)

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Take the data for their own labels, after `measure`: W of K over all features."""
        running, _ = self._known()
        kernel, statistic, S = self.choices.kernel, running.statistic, running.features
        if kernel.is_additive:  # whose first pass sums nothing
            running.begin(S)
            statistic = running.statistic
        L = own_labels(kernel, self.choices.bandwidth, statistic, S.size)
        self.choices = replace(self.choices, W=weigh(L))

    def close(self) -> None:
        """Let go of scratch."""
        self._reader.close()
        if self._running is not None:
            self._running.reader.close()

    def check_reach(self) -> None:
        """Refuse data that the kernel overflows on, after `measure`."""
        kernel = self.choices.kernel
        if kernel.of_inner_products and not kernel.is_additive:  # others are bounded
            longest = float(self._known()[0].statistic.diagonal.max())
            check_reach(kernel, longest)

    def resume(self, state: SelectionState) -> None:
        """Go to where `state` left off, after `measure`."""
        self.replay(state, survivors_after_rounds(state))

    def replay(self, state: SelectionState, survivors: Sequence[Index]) -> None:
        """Repeat what was done for `survivors`, S after each of the rounds since the start."""
        if self.choices.kernel.is_additive or state.round == 0:
            return
        self._advice = str(state.history[-1]["advice"])
        self._known()[0].replay(survivors)

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma for S; the statistic moves on to S."""
        self._started = time.perf_counter()
        kernel = self.choices.kernel
        if kernel.is_additive:
            return 1.0
        statistic = self._known()[0].at(S)
        if not kernel.has_bandwidth:
            return 1.0
        return self.choices.bandwidth(DistanceStats(kernel, self.choices.W, statistic), S.size)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Line 4: the n features whose removal leaves the largest HSIC."""
        running, _ = self._known()
        question = Question(
            self.choices.kernel,
            sigma,
            self.choices.W,
            running.statistic,
            running.reader.runtime.each,
        )
        gains, record = self._gains(question, S, n)
        hsic = -float(gains.sum()) if self.choices.kernel.is_additive else question.hsic
        check_gains(self.choices.kernel, sigma, hsic, gains)
        first = largest(gains, n, tie_width(gains))
        if not self.choices.kernel.is_additive:
            self._advice = record["advice"] = self._advise(question, S, gains, first, n)
        bytes_read = self.bytes_read + running.bytes_read + int(record.pop("bytes", 0))
        self.bytes_read = running.bytes_read = 0
        return removal_of(
            S,
            first,
            gains,
            sigma=sigma,
            hsic=hsic,
            started=self._started,
            bytes_read=bytes_read,
            record=record,
        )

    def _gains(self, question: Question, S: Index, n: int) -> tuple[Float, dict[str, Any]]:
        """Gains of S, good enough to place the n largest, and a record of what it took."""
        if self.choices.kernel.is_additive:
            return self._additive_gains(question, S)
        running, scaling = self._known()
        climb = Climb(question, S, n, running.reader, scaling, self.reporter)
        return climb.run(self._first(question, S), self.choices.dtype)

    def _known(self) -> tuple[RunningStatistic, Scaling]:
        if self._running is None or self.scaling is None:
            self.measure()
        assert self._running is not None and self.scaling is not None, "measure sets both"  # noqa: PT018
        return self._running, self.scaling

    def _first(self, question: Question, S: Index) -> AbstractEngine:
        """Engine for the first pass: as the last round advised, which a resumed run knows too."""
        if self.choices.by_definition:
            return definition_of(self.choices.kernel)
        facts = facts_of(self._known()[1], S)
        if self._advice is None:
            return first_engine(question, facts, self.choices.dtype)
        return engine_named(self._advice, question, facts)

    def _advise(self, question: Question, S: Index, gains: Float, gone: Index, n: int) -> str:
        """Engine for the first pass of the next round, from the gains of this one."""
        if self.choices.by_definition or gone.size == S.size:
            return ""
        stay = np.ones(S.size, dtype=bool)
        stay[gone] = False
        left = np.flatnonzero(stay)
        facts = facts_of(self._known()[1], S[left])
        errors, everyone = np.zeros(left.size), np.arange(left.size)
        dtype = self.choices.dtype
        return next_engine(question, facts, gains[left], errors, everyone, n, dtype).name

    def _additive_gains(self, question: Question, S: Index) -> tuple[Float, dict[str, Any]]:
        """Gains that do not depend on S: scored once, then looked up."""
        record: dict[str, Any] = {"engine": "as in round 1"}
        if self._additive is None:
            running, scaling = self._known()
            everyone = running.features
            climb = Climb(question, everyone, everyone.size, running.reader, scaling, None)
            facts = facts_of(scaling, everyone)
            by_definition = self.choices.by_definition
            engine = (
                definition_of(question.kernel) if by_definition else final_engine(question, facts)
            )
            gains, record = climb.run(engine, np.float64)
            check_shared(question, gains)
            self._additive = everyone, gains
        everyone, gains = self._additive
        if self.reporter is not None:
            self.reporter.scored(S.size)
        return gains[np.searchsorted(everyone, S)], record


def own_labels(
    kernel: AbstractKernel, bandwidth: AbstractBandwidth, statistic: Statistic, d: int
) -> Float:
    """K over all d features at the sigma of the policy, (m, m)."""
    sigma = 1.0
    if kernel.has_bandwidth:
        if isinstance(bandwidth, Grid):
            raise InputError(
                "A grid of bandwidths is searched for the largest HSIC with the labels, and "
                "label_kernel='self' has labels that follow the bandwidth; pass one."
            )
        sigma = bandwidth(DistanceStats(kernel, None, statistic), d)
    norms = statistic.diagonal
    return kernel.gram(statistic.whole(), norms, norms, sigma)


@dataclass
class Climb:
    """One round's way up the ladder: all features first, then those still undecided."""

    question: Question
    S: Index
    n: int
    reader: Reader
    scaling: Scaling
    reporter: Reporter | None

    def run(self, first: AbstractEngine, dtype: Any) -> tuple[Float, dict[str, Any]]:
        """Gains of S, good enough to place the n largest, and a record of what it took."""
        d = self.S.size
        facts = facts_of(self.scaling, self.S)
        gains, errors = np.zeros(d), np.zeros(d)
        settled = np.zeros(d, dtype=bool)
        open_, engine = np.arange(d), first
        log = _Log()
        while open_.size:
            some = facts.take(open_)
            new = self._score(engine, open_, log)
            error = log.caution * engine.error(self.question, some, new)
            log.compare(new - gains[open_], errors[open_])
            # What no number holds at this order and precision is for a dearer engine.
            final = engine.is_final
            lost = np.zeros_like(settled[open_]) if final else ~np.isfinite(new)
            gains[open_] = np.where(lost, 0.0, new)
            errors[open_] = np.where(lost, np.inf, error)
            settled[open_] = final
            errors[settled] = tie_width(gains) / 2
            log.add(engine, open_.size, engine.products(self.question, some))
            open_ = np.flatnonzero(undecided(gains, errors, self.n) & ~settled)
            if open_.size:
                engine = next_engine(
                    self.question, facts, gains, errors, open_, self.n, dtype, log.caution
                )
        return gains, log.record()

    def _score(self, engine: AbstractEngine, open_: Index, log: _Log) -> Float:
        jobs = self.reader.jobs(self.S[open_], self.scaling)
        log.bytes += self.reader.bytes_of(jobs)
        parts = []
        score = Score(engine, engine.prepare(self.question), dtype_of(engine))
        for part in self.reader.joined(score, jobs):
            parts.append(part)
            if not log.passes and self.reporter is not None:
                self.reporter.scored(len(part))
        return np.concatenate(parts)


@dataclass
class _Log:
    """What a round's passes took, and how well the error bounds held."""

    passes: list[str] = field(default_factory=list)
    products: dict[str, int] = field(default_factory=lambda: {"float32": 0, "float64": 0})
    bytes: int = 0
    used: float = 0.0
    caution: float = 1.0

    def compare(self, difference: Float, errors: Float) -> None:
        """Hold a second score against the bound of the first; be wary if it was too small."""
        if self.passes:
            self.used = max(self.used, _share(difference, errors))
            self.caution = max(self.caution, 2 * self.used if self.used > 1 else 1.0)

    def add(self, engine: AbstractEngine, n: int, products: int) -> None:
        """Write down a pass over n features."""
        self.passes.append(f"{engine.name}: {n}")
        self.products[dtype_of(engine)] += products

    def record(self) -> dict[str, Any]:
        """For the history of rounds."""
        return {
            "engine": ", ".join(self.passes),
            "products_float32": self.products["float32"],
            "products_float64": self.products["float64"],
            "error_bound_used": self.used,
            "bytes": self.bytes,
        }


def facts_of(scaling: Scaling, features: Index) -> FeatureStats:
    """Facts of some features."""
    return FeatureStats(
        scaling.peak[features], scaling.fourth[features], scaling.n_levels[features]
    )


def dtype_of(engine: AbstractEngine) -> str:
    """Precision that an engine works in: "float32" or "float64"."""
    return str(np.dtype(getattr(engine, "dtype", np.float64)))


def _share(difference: Float, errors: Float) -> float:
    """Largest part of its error bound that a score turned out to be off."""
    known = np.isfinite(errors) & (errors > 0)
    return float((np.abs(difference[known]) / errors[known]).max(initial=0.0))


#: Where libsvm stops: violation of the optimality conditions.
TOLERANCE = 1e-3
#: Steps of two multipliers each that it gets.
MOST_STEPS = 2_000_000


class RecursiveDependence(SourceDependence):
    """`dhsic.algorithms.bahsic.Dependence` whose W comes from a machine, anew in every round.

    Parameters
    ----------
    source, choices, runtime, rows, memory
        As of `SourceDependence`; the W of `choices` is not used.
    classes : (m,) integers
        Class of each sample.
    penalty : float
        C.
    """

    def __init__(
        self,
        source: AbstractSource,
        choices: Choices,
        runtime: AbstractRuntime,
        classes: Array,
        penalty: float,
        *,
        rows: Index | None = None,
        memory: int | None = None,
    ) -> None:
        super().__init__(source, choices, runtime, rows=rows, memory=memory)
        self._classes = classes
        self._penalty = penalty

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma for S, and alpha, which is a parameter of the conformal kernel too."""
        sigma = super().bandwidth(S)
        running, _ = self._known()
        K = self._gram(running.statistic, sigma)
        self.choices = replace(self.choices, W=machine_weights(K, self._classes, self._penalty))
        return sigma

    def _gram(self, statistic: Statistic, sigma: float) -> Float:
        G, norms = statistic.whole(), statistic.diagonal
        return self.choices.kernel.gram(G, norms, norms, sigma)


def machine_weights(K: Float, classes: Array, penalty: float) -> Float:
    """``W = sum_c beta_c beta_c' / 2`` over the classes c, (m, m).

    Parameters
    ----------
    K : (m, m) float64
        Kernel matrix of the surviving features.
    classes : (m,) integers
        From 0; two classes take one machine.
    penalty : float
        C.
    """
    names = np.unique(classes)
    W = np.zeros_like(K)
    for name in names[1:] if len(names) == 2 else names:  # one side is enough
        beta = _dual(K, classes == name, penalty)
        W += np.multiply.outer(beta, beta)
    return W / 2


def _dual(K: Float, positive: Array, penalty: float) -> Float:
    """``alpha o y``, (m,)."""
    machine = SVC(
        C=penalty, kernel="precomputed", tol=TOLERANCE, cache_size=500, max_iter=MOST_STEPS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below
        machine.fit(K, positive)
    if machine.fit_status_:
        raise InputError(
            f"The support vector machine does not converge in {MOST_STEPS:,} steps with "
            f"C={penalty:g}: pass standardize=True, or a smaller penalty."
        )
    beta = np.zeros(len(K))
    beta[machine.support_] = machine.dual_coef_[0]
    return beta
