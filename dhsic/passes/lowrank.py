"""HSIC(sigma, S) in linear time: what Algorithm 1 asks, answered by thin matrices.

Every round has a certificate (`dhsic.engines.certificate`) before a single feature is scored: a
seeded sample of features is held against rows where K is known. Where it says that too many of
the features that leave would be the wrong ones, K is needed: of all samples where an m x m matrix
can be had, and then features next to the cut are scored exactly; else against more landmarks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.bahsic import Removal
from dhsic.engines.base import FeatureStats, Question
from dhsic.engines.certificate import EXACT, Certificate, certify, residual_rows, row_errors
from dhsic.engines.compact import LONGEST, Rows, Thin, ThinState, orders_for
from dhsic.engines.lowrank import LowRank, LowRankState
from dhsic.engines.refine import largest, tie_width
from dhsic.hsic import FactoredWeights
from dhsic.kernels.bandwidth import AbstractBandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic
from dhsic.kernels.table import check_reach
from dhsic.lowrank.base import Factor, Landmarks
from dhsic.lowrank.landmarks import BaseRows, KnownLandmarks
from dhsic.lowrank.residuals import predictive
from dhsic.lowrank.spectral import Spectral
from dhsic.memory import release_pages
from dhsic.passes.dependence import Reporter, facts_of
from dhsic.passes.landmarks import Chosen, RunningLandmarks, most_number
from dhsic.passes.lowrank_passes import MeasureLandmarks, ScoreLowRank
from dhsic.passes.reader import Reader
from dhsic.passes.removal import Sample, check_gains, removal_of
from dhsic.passes.threshold import Cut, sizes_of
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling

#: Directions that a factor may have, of which those are kept that predict other rows.
DIRECTIONS = 32
#: Part of ``W o K`` that compression may lose.
COMPRESSION = 1e-4


@dataclass(frozen=True)
class ThinChoices:
    """What does not change during a run.

    Attributes
    ----------
    kernel, bandwidth
        Kernel on the data and the policy for its width.
    weights : FactoredWeights
        W, of low rank.
    standardize : bool
        Features to unit standard deviation.
    tolerance : float
        Part of the features leaving in a round that may be wrong ones.
    may_square : bool
        Whether m x m matrices may be made.
    seed : int
        Of landmarks, directions and the sample.
    """

    kernel: AbstractKernel
    bandwidth: AbstractBandwidth
    weights: FactoredWeights
    standardize: bool = True
    tolerance: float = 0.02
    may_square: bool = True
    seed: int = 0


class ThinDependence:
    """`dhsic.algorithms.bahsic.Dependence` in linear time, as long as it is good enough."""

    def __init__(
        self,
        source: AbstractSource,
        choices: ThinChoices,
        runtime: AbstractRuntime,
        *,
        rows: Index | None = None,
        reporter: Reporter | None = None,
        memory: int | None = None,
    ) -> None:
        self.choices = choices
        self.reporter = reporter
        self._m = choices.weights.n_samples
        self.reader = Reader(source, runtime, rows, memory=memory)
        self.bytes_read = 0
        self.scaling: Scaling | None = None
        self._are_codes = False
        self._running: RunningLandmarks | None = None
        self._sample = Sample(source.n_features, self._m, choices.seed)
        self._additive: tuple[Index, Float] | None = None
        self._W: Float | None = None
        self._asked: Question | None = None
        self._started = time.perf_counter()

    @property
    def running(self) -> RunningLandmarks:
        """Statistic, after `measure`."""
        assert self._running is not None, "measure comes first"
        return self._running

    def measure(self) -> Scaling:
        """Pass over all features: their scaling and, with it, the statistic."""
        self.reader, jobs, n_bytes = self.reader.first_pass()
        self.bytes_read += n_bytes
        running = RunningLandmarks(self.reader, self._m, self.choices.seed)
        scalings, sums = [], []
        self._are_codes = self.choices.kernel.is_product
        first = MeasureLandmarks(running.chosen.rows, self.choices.standardize)
        for scaling, part, are_codes in self.reader.map(first, jobs):
            scalings.append(scaling)
            sums.append(part)
            self._are_codes &= are_codes
        self.scaling = Scaling.join(scalings)
        self.reader = running.reader = self.reader.checked(self.scaling)
        alive = np.flatnonzero(~self.scaling.constant)
        running.start(alive, self.scaling, sums)
        self._running = running
        return self.scaling

    def close(self) -> None:
        """Let go of scratch."""
        self.reader.close()
        if self._running is not None:
            self._running.reader.close()

    def let_go(self) -> None:
        """Forget all but the scaling and the reader: no round in low rank follows."""
        self._running = RunningLandmarks(self.running.reader, self._m, self.choices.seed)
        self._sample = Sample(0, self._m, self.choices.seed)
        self._W = self._asked = None
        release_pages()

    def check_reach(self) -> None:
        """Refuse data that the kernel overflows on, after `measure`."""
        if not self.choices.kernel.is_additive:
            check_reach(self.choices.kernel, float(self.running.norms.max()))

    def replay(self, survivors: Sequence[Index], history: Sequence[Mapping[str, Any]]) -> None:
        """Repeat what an uninterrupted run did in the rounds that are done: the same bits.

        Parameters
        ----------
        survivors : sequence of int64 arrays
            S at the start of every round.
        history : sequence of mappings
            Records of these rounds.
        """
        if survivors and not self.choices.kernel.is_additive:
            self.running.replay(survivors, [int(record["landmarks"]) for record in history])

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma for S; the statistic moves on to S."""
        self._started = time.perf_counter()
        self._asked = None
        kernel = self.choices.kernel
        if kernel.is_additive:
            return 1.0
        self.running.at(S)
        if not kernel.has_bandwidth:
            return 1.0
        known = KnownLandmarks(self.running.fit, self._hsic)
        return self.choices.bandwidth(known, S.size)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Line 4: the n features whose removal leaves the largest HSIC."""
        if self.choices.kernel.is_additive:
            return self._additive_removal(S, n)
        forms, certificate = self._settle(sigma, S, n)
        orders = orders_for(self.choices.kernel, sigma, self._facts(S), self._m)
        steep = bool((orders > LONGEST).any())
        rows = Rows.of(self.choices.weights, self.running.check) if steep else None
        gains = self._score(ThinState(forms, rows), S)
        band = np.empty(0, dtype=np.int64)
        if n == S.size:
            certificate = EXACT
        elif self.running.chosen.is_everyone:
            question, tolerance = self._question(sigma), self.choices.tolerance
            cut = Cut(question, self.running.reader, self._known, tolerance, S, n)
            gains, band, certificate = cut.settle(gains, certificate)
            self.bytes_read += cut.bytes_read
        else:
            certificate = certificate.at_cut(gains, n, sizes_of(self._known, S))
        exactly = f", exact: {band.size}" if band.size else ""
        record = {
            "engine": f"low rank {forms.rank}: {S.size}{exactly}",
            "landmarks": len(self.running.chosen.rows),
            "rank": forms.rank,
            "order": int(orders.max()),
            "relative_error": certificate.relative_error,
            "cut_error": certificate.cut_error,
            "advice": "low rank",
        }
        return self._removal(S, n, gains, sigma, self._hsic(sigma, forms), record)

    def _removal(
        self, S: Index, n: int, gains: Float, sigma: float, hsic: float, record: Mapping[str, Any]
    ) -> Removal:
        check_gains(self.choices.kernel, sigma, hsic, gains)
        first = largest(gains, n, tie_width(gains))
        bytes_read = self.bytes_read + self.running.bytes_read + self._sample.bytes_read
        self.bytes_read = self.running.bytes_read = self._sample.bytes_read = 0
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

    def _settle(self, sigma: float, S: Index, n: int) -> tuple[LowRankState, Certificate]:
        """A fit within the tolerance, or the best there is, and its certificate."""
        while True:
            forms = self._fit(sigma)
            certificate = self._certify(forms, S, n)
            if certificate.cut_error <= self.choices.tolerance or not self._raise(S):
                return forms, certificate

    def _raise(self, S: Index) -> bool:
        """More landmarks, all if possible; False where there are no more."""
        running = self.running
        if running.chosen.is_everyone:
            return False
        if self.choices.may_square:
            running.restart(S, running.n_landmarks, everyone=True)
            return True
        more = 2 * running.n_landmarks
        if more > most_number(self._m) or Chosen.of(self._m, more, self.choices.seed).is_everyone:
            return False
        running.restart(S, more)
        return True

    def _question(self, sigma: float) -> Question:
        """The round's, with K and W of all samples."""
        if self._asked is None or self._asked.sigma != sigma:
            weights, running = self.choices.weights, self.running
            if self._W is None:
                self._W = weights.rows(np.arange(self._m))
            statistic = Statistic(running.upper)
            self._asked = Question(
                self.choices.kernel, sigma, self._W, statistic, running.reader.runtime.each
            )
        return self._asked

    def _fit(self, sigma: float) -> LowRankState:
        """Factors of the bases of the expansion, and W with them."""
        kernel, running = self.choices.kernel, self.running
        engine = LowRank(kernel.exact_order or 1, tolerance=COMPRESSION)
        bases = {term.base for term in kernel.expansion(engine.order, sigma).terms}
        factors = {base: self._factor(sigma, base) for base in sorted(bases)}
        return engine.prepare(self.choices.weights, factors, running.fit, kernel, sigma)

    def _factor(self, sigma: float, base: int) -> Factor:
        kernel, running = self.choices.kernel, self.running
        seed = self.choices.seed
        factor = Spectral(DIRECTIONS).factor(kernel, sigma, running.fit, base=base, seed=seed)
        return predictive(factor, BaseRows(kernel, sigma, running.check, base))

    def _certify(self, forms: LowRankState, S: Index, n: int) -> Certificate:
        """Certificate from the sample of features that are left."""
        if n >= S.size:
            return EXACT
        features, X = self._sample.of(S, self.running.reader, self.scaling)
        check = self.running.check
        assert check.rows is not None, "check rows are samples"
        residual = residual_rows(self.choices.weights, check, forms)
        errors = row_errors(forms, residual, check.rows, X)
        gains = Thin().score(ThinState(forms), X, self._facts(features))
        n_sampled = n * len(features) / S.size
        return certify(errors, gains, n_sampled, self._m, sizes_of(self._known, features))

    def _score(self, state: ThinState, S: Index) -> Float:
        reader = self.running.reader
        jobs = reader.jobs(S, None if self._are_codes else self.scaling)
        self.bytes_read += reader.bytes_of(jobs)
        parts = []
        dtype = np.float64 if self.choices.kernel.is_additive else np.float32
        for part in reader.joined(ScoreLowRank(state, dtype, self.choices.standardize), jobs):
            parts.append(part)
            if self.reporter is not None:
                self.reporter.scored(len(part))
        return np.concatenate(parts)

    def _additive_removal(self, S: Index, n: int) -> Removal:
        """The linear kernel: A is W, exactly, and gains do not depend on S."""
        record = {"engine": "low rank: as in round 1", "relative_error": 0.0, "cut_error": 0.0}
        if self._additive is None:
            everyone, m = self.running.features, self._m
            nothing = Landmarks(np.zeros((1, m)), np.zeros(m), np.zeros(1, dtype=np.int64))
            ones = Factor(np.ones((m, 1)), np.ones(1), 0.0)
            engine = LowRank(1, np.float64, tolerance=0.0)
            base = self.choices.kernel.expansion(1, 1.0).terms[0].base
            forms = engine.prepare(
                self.choices.weights, {base: ones}, nothing, self.choices.kernel, 1.0
            )
            self._additive = everyone, self._score(ThinState(forms), everyone)
            record["engine"] = f"low rank {forms.rank}"
        features, gains = self._additive
        some = gains[np.searchsorted(features, S)]
        return self._removal(S, n, some, 1.0, -float(some.sum()), record)

    def _hsic(self, sigma: float, forms: LowRankState | None = None) -> float:
        """``<W, K>``: by the factor, unless K is known."""
        if self.running.chosen.is_everyone:
            return self._question(sigma).hsic
        kernel, weights = self.choices.kernel, self.choices.weights
        if kernel.has_bandwidth:  # the base of every such kernel is K itself
            forms = self._fit(sigma) if forms is None else forms
            return float(np.sum(forms.A[0].row_sums, dtype=np.float64) * forms.scale)
        K = self._factor(sigma, 0)
        diagonal = BaseRows(kernel, sigma, self.running.fit, 0).diagonal()
        return weights.inner(K.F, K.weights, diagonal)

    @property
    def _known(self) -> Scaling:
        """Scaling of all features, after `measure`."""
        assert self.scaling is not None, "measure comes first"
        return self.scaling

    def _facts(self, features: Index) -> FeatureStats:
        return facts_of(self._known, features)
