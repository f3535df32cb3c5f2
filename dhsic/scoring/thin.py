"""HSIC(sigma, S) in linear time: what Algorithm 1 asks, answered by thin matrices.

Every round has a certificate (`dhsic.engines.certificate`) before a single feature is scored: a
seeded sample of features is held against rows where K is known. Where it says that too many of
the features that leave would be the wrong ones, K is needed: of all samples where an m x m matrix
can be had, and then features next to the cut are scored exactly; else against more landmarks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines.base import AbstractEngine, Facts, Question
from dhsic.engines.certificate import (
    CHANCE,
    EXACT,
    Certificate,
    certify,
    expected_swaps,
    nearest_to_cut,
    next_to_cut,
    residual_rows,
    row_errors,
)
from dhsic.engines.converged import Converged
from dhsic.engines.decide import largest, tie_width
from dhsic.engines.dense import Dense
from dhsic.engines.lowrank import LowRank, LowRankState
from dhsic.engines.thin import Rows, Thin, ThinState, is_steep, orders_for
from dhsic.errors import InputError
from dhsic.kernels.bandwidth import EQUAL, AbstractBandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.choosing import check_reach
from dhsic.kernels.gaussian import squared_distances
from dhsic.kernels.statistic import Statistic
from dhsic.lowrank.base import Factor, Landmarks
from dhsic.lowrank.rows import BaseRows
from dhsic.lowrank.spectral import Spectral
from dhsic.lowrank.weights import FactoredWeights
from dhsic.runtime.base import AbstractRuntime
from dhsic.scoring.dependence import Reporter, facts_of
from dhsic.scoring.landmarks import RunningLandmarks
from dhsic.scoring.reader import COMPACT_BYTES, Reader, grouped
from dhsic.scoring.tasks import Wanted, score_columns
from dhsic.scoring.thin_tasks import measure_thin, sample_columns, score_thin
from dhsic.selection.bahsic import Removal
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling

#: Directions that a factor may have, of which those are kept that predict other rows.
DIRECTIONS = 32
#: Residual on check rows, relative to the least, that fewer directions may have.
AS_GOOD = 1.01
#: Part of ``W o K`` that compression may lose.
COMPRESSION = 1e-4
#: Most landmarks, unless that is every sample.
MOST_LANDMARKS = 1024
#: Widths of the band next to the cut that is scored exactly, in deviations of the error.
BANDS = tuple(0.25 * step for step in range(1, 17))
#: The band is tried out at this part of the estimated error, on so many features at least, and then
#: drawn by the error seen.
PROBE, PROBED = 0.5, 256
#: Part of the tolerance that is left to features outside.
LEFT = 0.5
#: Part of the spread of gains that their series may neglect, and its highest order in float32.
EXACTLY, HIGHEST_ORDER = 1e-3, 6
#: Features of the sample, at most and at least, and its entries.
SAMPLE, FEWEST_SAMPLED, SAMPLE_ENTRIES = 4096, 64, 1 << 25


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


@dataclass(frozen=True)
class _KnownLandmarks:
    """`dhsic.kernels.bandwidth.Known` from landmarks."""

    landmarks: Landmarks
    value: Callable[[float], float]

    def pair_distances(self) -> Float:
        """Landmarks with all samples that come after them."""
        rows, norms = self.landmarks.rows, self.landmarks.norms
        assert rows is not None, "landmarks of a run are samples"
        D = squared_distances(self.landmarks.inner, norms[rows], norms)
        D[EQUAL * norms.max() >= D] = 0.0
        is_landmark = np.zeros(len(norms), dtype=bool)
        is_landmark[rows] = True
        counted = ~is_landmark | (np.arange(len(norms)) > rows[:, None])
        return np.asarray(D[counted])

    def hsic(self, sigma: float) -> float:
        """HSIC(sigma, S) by the factor."""
        return self.value(sigma)


class ThinDependence:
    """`dhsic.selection.bahsic.Dependence` in linear time, as long as it is good enough."""

    def __init__(
        self,
        source: AbstractSource,
        choices: ThinChoices,
        runtime: AbstractRuntime,
        *,
        rows: Index | None = None,
        reporter: Reporter | None = None,
        memory: int = COMPACT_BYTES,
    ) -> None:
        self.choices = choices
        self.reporter = reporter
        self._m = choices.weights.n_samples
        wanted = Wanted(
            rows=rows,
            n_samples=self._m,
            standardize=choices.standardize,
            centre=choices.kernel.has_bandwidth,
            dtype=np.float64 if choices.kernel.is_additive else np.float32,
        )
        self.reader = Reader(source, runtime, wanted, memory=memory)
        self.bytes_read = 0
        self.scaling: Scaling | None = None
        self._running: RunningLandmarks | None = None
        d = source.n_features
        self._lots = np.random.default_rng([choices.seed, d]).random(d, dtype=np.float32)
        self._sample: tuple[Index, Array] = np.empty(0, dtype=np.int64), np.empty((0, self._m))
        self._additive: tuple[Index, Float] | None = None
        self._W: Float | None = None
        self._question_of: Question | None = None
        self._started = time.perf_counter()

    @property
    def running(self) -> RunningLandmarks:
        """Statistic, after `measure`."""
        assert self._running is not None, "measure comes first"
        return self._running

    def measure(self) -> Scaling:
        """Pass over all features: their scaling and, with it, the statistic."""
        everything = np.arange(self.reader.source.n_features, dtype=np.int64)
        self.bytes_read += self.reader.bytes_of(self.reader.jobs(everything))
        self.reader = self.reader.compacted(everything)
        jobs = grouped(self.reader.jobs(everything))
        if self.reader.held is None:
            self.bytes_read += self.reader.bytes_of(jobs)
        running = RunningLandmarks(self.reader, self._m, self.choices.seed)
        scalings, sums = [], []
        for scaling, part in self.reader.map(measure_thin, jobs, landmarks=running.chosen.rows):
            scalings.append(scaling)
            sums.append(part)
        self.scaling = Scaling.join(scalings)
        alive = np.flatnonzero(~self.scaling.constant)
        running.start(alive, self.scaling, sums)
        self._running = running
        return self.scaling

    def close(self) -> None:
        """Let go of scratch."""
        self.reader.close()
        if self._running is not None:
            self._running.reader.close()

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
        self._question_of = None
        kernel = self.choices.kernel
        if kernel.is_additive:
            return 1.0
        self.running.at(S)
        if not kernel.has_bandwidth:
            return 1.0
        known = _KnownLandmarks(self.running.fit, self._hsic)
        return self.choices.bandwidth(known, S.size)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Line 4: the n features whose removal leaves the largest HSIC."""
        if self.choices.kernel.is_additive:
            return self._additive_removal(S, n)
        forms, certificate = self._settle(sigma, S, n)
        facts = self._facts(S)
        steep = is_steep(self.choices.kernel, sigma, facts, self._m)
        rows = Rows.of(self.choices.weights, self.running.check) if steep else None
        gains = self._score(ThinState(forms, rows), S)
        orders = orders_for(self.choices.kernel, sigma, facts, self._m)
        band = np.empty(0, dtype=np.int64)
        if n == S.size:
            certificate = EXACT
        elif self.running.chosen.is_everyone:
            gains, band, certificate = self._decide(gains, certificate, sigma, S, n)
        else:
            certificate = certificate.at_cut(gains, n, self._sizes(S))
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
        if not np.isfinite(gains).all():
            raise InputError(
                f"{int((~np.isfinite(gains)).sum())} of {S.size} scores are not finite at "
                f"sigma={sigma:.4g}: the kernel overflows on these data; scale them down, or "
                "pass standardize=True."
            )
        first = largest(gains, n, tie_width(gains))
        bytes_read = self.bytes_read + self.running.bytes_read
        self.bytes_read = self.running.bytes_read = 0
        facts = {
            "n_features": S.size,
            "n_removed": first.size,
            "sigma": float(sigma),
            "hsic": hsic,
            "seconds": time.perf_counter() - self._started,
            "bytes_read": bytes_read,
            **record,
        }
        return Removal(S[first], -gains[first], facts)

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
        if more > MOST_LANDMARKS:
            return False
        running.restart(S, more)
        return True

    def _decide(
        self, gains: Float, certificate: Certificate, sigma: float, S: Index, n: int
    ) -> tuple[Float, Index, Certificate]:
        """Exact gains for features that the error could move across the cut.

        The others are moved by the mean difference, which is no error of the order.
        """
        exact, sizes = gains.copy(), self._sizes(S)
        scored = np.zeros(S.size, dtype=bool)
        offset, deviation = np.zeros(S.size), certificate.deviation
        band = self._band(gains, n, PROBE * deviation * sizes)
        if band.any() and band.sum() < PROBED:  # too few to tell the error from
            band = nearest_to_cut(gains, n, PROBED)
        while band.any():
            which = np.flatnonzero(band)
            exact[which] = self._score_exactly(sigma, S[which])
            scored |= band
            off = (exact[scored] - gains[scored]) / sizes[scored]
            offset, deviation = float(off.mean()) * sizes, float(off.std())
            exact[~scored] = (gains + offset)[~scored]
            band = self._band(exact, n, deviation * sizes, scored) & ~scored
        swaps = expected_swaps(exact, n, deviation * sizes, sure=scored)
        left = Certificate(certificate.relative_error, swaps, deviation)
        return exact, np.flatnonzero(scored), left

    def _band(self, gains: Float, n: int, deviations: Float, sure: Mask | None = None) -> Mask:
        """Features next to the cut: as many as leave too few others for the tolerance to mind."""
        none = np.zeros(len(gains), dtype=bool)
        sure = band = none if sure is None else sure
        for width in BANDS:
            swaps = expected_swaps(gains, n, deviations, band)
            if swaps + CHANCE * np.sqrt(swaps / n) <= LEFT * self.choices.tolerance:
                break
            band = next_to_cut(gains, n, width * deviations) | sure
        return band

    def _score_exactly(self, sigma: float, features: Index) -> Float:
        """Gains by the exact engine in float32; by the definition where no series will do."""
        reader, kernel = self.running.reader, self.choices.kernel
        question = self._question(sigma)
        facts = self._facts(features)
        orders = orders_for(kernel, sigma, facts, self._m, EXACTLY)
        gains = np.empty(features.size)
        for order in np.unique(orders):
            which = np.flatnonzero(orders == order)
            engine: AbstractEngine = (
                Dense(int(order), "float32")
                if order <= HIGHEST_ORDER
                else Converged.for_features(question, facts.take(which))
            )
            jobs = reader.jobs(features[which], self.scaling)
            self.bytes_read += reader.bytes_of(jobs)
            dtype = np.float32 if order <= HIGHEST_ORDER else np.float64
            parts = reader.joined(
                score_columns,
                jobs,
                engine=engine,
                engine_state=engine.prepare(question),
                dtype=dtype,
            )
            gains[which] = np.concatenate(list(parts))
        return gains

    def _question(self, sigma: float) -> Question:
        """The round's, with K and W of all samples."""
        if self._question_of is None or self._question_of.sigma != sigma:
            weights, running = self.choices.weights, self.running
            if self._W is None:
                self._W = weights.rows(np.arange(self._m))
            statistic = Statistic(running.upper)
            self._question_of = Question(
                self.choices.kernel, sigma, self._W, statistic, running.reader.runtime.each
            )
        return self._question_of

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
        features, X = self._sampled(S)
        check = self.running.check
        assert check.rows is not None, "check rows are samples"
        residual = residual_rows(self.choices.weights, check, forms)
        errors = row_errors(forms, residual, check.rows, X)
        gains = Thin().score(ThinState(forms), X, self._facts(features))
        n_sampled = n * len(features) / S.size
        return certify(errors, gains, n_sampled, self._m, self._sizes(features))

    def _sampled(self, S: Index) -> tuple[Index, Array]:
        """Features of the sample that are in S, and their values (c, m).

        Every feature has a random number; in the sample are those below a threshold, which is
        doubled when half of the features are left. So the sample is a function of S alone.
        """
        d = len(self._lots)
        share = min(1.0, sample_size(self._m) / d * 2.0 ** np.floor(np.log2(d / S.size)))
        features = S[self._lots[S] < share]
        if features.size < min(S.size, FEWEST_SAMPLED):
            features = S[np.sort(np.argsort(self._lots[S], kind="stable")[:FEWEST_SAMPLED])]
        held, X = self._sample
        if not np.isin(features, held, assume_unique=True).all():
            reader = self.running.reader
            jobs = reader.jobs(features, self.scaling)
            self.bytes_read += reader.bytes_of(jobs)
            X = np.concatenate(list(reader.joined(sample_columns, jobs)))
        else:
            X = X[np.searchsorted(held, features)]
        self._sample = features, X
        return features, X

    def _score(self, state: ThinState, S: Index) -> Float:
        reader = self.running.reader
        jobs = reader.jobs(S, self.scaling)
        self.bytes_read += reader.bytes_of(jobs)
        parts = []
        for part in reader.joined(score_thin, jobs, engine_state=state):
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
        """``<W, K>`` by the factor."""
        kernel, weights = self.choices.kernel, self.choices.weights
        if kernel.has_bandwidth:  # the base of every such kernel is K itself
            forms = self._fit(sigma) if forms is None else forms
            return float(np.sum(forms.A[0].row_sums, dtype=np.float64) * forms.scale)
        K = self._factor(sigma, 0)
        diagonal = BaseRows(kernel, sigma, self.running.fit, 0).diagonal()
        return weights.inner(K.F, K.weights, diagonal)

    def _sizes(self, features: Index) -> Float:
        """Mean squares of standardised features, (c,)."""
        assert self.scaling is not None, "measure comes first"
        known = self.scaling.take(features)
        offset = (known.mean - known.shift) * known.scale
        return np.asarray(np.square(known.std * known.scale) + np.square(offset))

    def _facts(self, features: Index) -> Facts:
        assert self.scaling is not None, "measure comes first"
        return facts_of(self.scaling, features)


def sample_size(m: int) -> int:
    """Features that a certificate is made from, about: half to all of them."""
    return int(np.clip(SAMPLE_ENTRIES // m, FEWEST_SAMPLED, SAMPLE))


def predictive(factor: Factor, rows: BaseRows) -> Factor:
    """Its leading directions, as many as predict rows that it was not made from."""
    every = np.arange(rows.landmarks.n_landmarks)
    R = rows.part(every, slice(None))
    at = rows.rows
    R[every, at] = 0.0
    left = [float(np.vdot(R, R))]
    for f, weight in zip(factor.F.T, factor.weights, strict=True):
        own = weight * f[at] * f[at]
        R -= np.outer(weight * f[at], f)
        R[every, at] += own
        left.append(float(np.vdot(R, R)))
    kept = int(np.argmax(np.array(left) <= AS_GOOD * min(left)))
    return Factor(factor.F[:, :kept], factor.weights[:kept], factor.error)
