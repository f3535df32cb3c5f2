"""HSIC(sigma, S-dagger + {j}) of the features in a source: what Algorithm 2 asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import SelectionState
from dhsic.engines.base import AbstractEngine, Question
from dhsic.engines.compact import ThinQuestion
from dhsic.engines.final import definition_of, final_engine
from dhsic.engines.refine import largest, tie_width
from dhsic.kernels.bandwidth import DistanceStats, Grid, Median
from dhsic.kernels.statistic import Statistic, zero_upper
from dhsic.kernels.table import check_reach
from dhsic.passes.ascent import Ascent
from dhsic.passes.dependence import Choices, Climb, Reporter, facts_of, own_labels
from dhsic.passes.reader import Reader, grouped
from dhsic.passes.removal import check_gains, check_shared
from dhsic.passes.sums import AbstractChosen, SquareChosen, ThinChosen
from dhsic.passes.task import Measure, Sum, Values
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling

#: Median squared distance of two values of a normal feature, over its variance.
NORMAL_MEDIAN = 0.9099


class SourceForward:
    """`dhsic.algorithms.fohsic.ForwardDependence` over a source."""

    def __init__(
        self,
        source: AbstractSource,
        choices: Choices,
        runtime: AbstractRuntime,
        *,
        rows: Index | None = None,
        memory: int | None = None,
        thin: ThinChosen | None = None,
    ) -> None:
        self.choices = choices
        self._sums = choices.kernel.sums
        self._chosen: AbstractChosen = thin or SquareChosen(choices.W, self._sums)
        self.reporter: Reporter | None = None
        self.scaling: Scaling | None = None
        self._reader = Reader(source, runtime, rows, memory=memory)
        self._inside = np.empty(0, dtype=np.int64)  # what `_chosen` is the statistic of
        self._additive: tuple[Index, Float] | None = None
        self._kept: dict[int, Float] = {}
        self._advice = ""
        self._bytes_read = 0
        self._started = time.perf_counter()

    def measure(self) -> Scaling:
        """Pass over all features: their scaling."""
        self._reader, jobs, n_bytes = self._reader.first_pass()
        self._bytes_read += n_bytes
        measured = self._reader.map(Measure(self.choices.standardize), jobs)
        self.scaling = Scaling.join([scaling for scaling, _ in measured])
        self._reader = self._reader.checked(self.scaling)
        return self.scaling

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Take the data for their own labels, after `measure`: W of K over all features."""
        S = np.flatnonzero(~self._scaling.constant)
        upper = zero_upper(self._chosen.n_samples)
        jobs = grouped(self._reader.jobs(S, self._scaling))
        self._bytes_read += self._reader.bytes_of(jobs)
        for part in self._reader.map(Sum(self._sums), jobs):
            upper += part
        L = own_labels(self.choices.kernel, self.choices.bandwidth, Statistic(upper), S.size)
        W = weigh(L)
        self.choices = replace(self.choices, W=W)
        self._chosen = SquareChosen(W, self._sums)

    def close(self) -> None:
        """Let go of scratch."""
        self._reader.close()

    def check_reach(self) -> None:
        """Nothing is chosen yet: every feature that joins is checked then."""

    def resume(self, state: SelectionState) -> None:
        """Go to where `state` left off, after `measure`."""
        if not state.round:
            return
        self._advice = str(state.history[-1]["advice"])
        self._move_to(state.eliminated, state.removed_in)

    def bandwidth(self, S_dagger: Index) -> float:
        """Line 3: sigma for one feature more than S-dagger."""
        self._started = time.perf_counter()
        self._move_to(S_dagger)
        kernel, policy = self.choices.kernel, self.choices.bandwidth
        if not kernel.has_bandwidth:
            return 1.0
        if not S_dagger.size and isinstance(policy, Median):
            return self._before_the_first()
        if not S_dagger.size and isinstance(policy, Grid):
            return max(policy.sigmas, key=self._best_alone)
        return policy(
            self._chosen.known(kernel), self._features(S_dagger).size + self._width_of_one
        )

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """Line 4: the n features whose joining leaves the largest HSIC."""
        question = self._question(sigma)
        hsic = question.hsic if S_dagger.size else 0.0
        gains, record = self._gains(question, S, n)
        check_gains(self.choices.kernel, sigma, hsic, gains)
        first = largest(gains, n, tie_width(gains))
        stay = np.delete(np.arange(S.size), first)
        self._advice = record["advice"] = self._advise(question, S[stay], gains[stay], n)
        facts = {
            "n_features": S.size,
            "n_selected": S_dagger.size,
            "n_added": first.size,
            "sigma": float(sigma),
            "hsic": float(hsic),
            "seconds": time.perf_counter() - self._started,
            "bytes_read": self._bytes_read + int(record.pop("bytes")),
        }
        self._bytes_read = 0
        return Removal(S[first], gains[first], facts | record)

    @property
    def candidates(self) -> Index:
        """What may be chosen: all features that vary."""
        return np.flatnonzero(~self._scaling.constant)

    @property
    def _width_of_one(self) -> float:
        """Features of a candidate."""
        return 1.0

    def _features(self, candidates: Index) -> Index:
        """Features of candidates: each is one."""
        return candidates

    def _gains(
        self, question: Question | ThinQuestion, S: Index, n: int
    ) -> tuple[Float, dict[str, Any]]:
        """Gains of S, good enough to place the n largest, and a record of what it took."""
        if not self.choices.kernel.is_additive:
            return self._ascent(question, S, n).run(self._advice)
        assert isinstance(question, Question), "low rank is for kernels that are not additive"
        return self._additive_gains(question, S)

    def _additive_gains(self, question: Question, S: Index) -> tuple[Float, dict[str, Any]]:
        """Gains that do not depend on what is chosen: what removal would cost, scored once."""
        record: dict[str, Any] = {"engine": "as in round 1", "bytes": 0}
        if self._additive is None:
            everyone = self.candidates
            scaling = self._scaling
            climb = Climb(question, everyone, everyone.size, self._reader, scaling, None)
            losses, record = climb.run(self._last(question, everyone), np.float64)
            check_shared(question, losses)
            self._additive = everyone, -losses
        everyone, gains = self._additive
        if self.reporter is not None:
            self.reporter.scored(S.size)
        return gains[np.searchsorted(everyone, S)], record

    def _last(self, question: Question, features: Index) -> AbstractEngine:
        if self.choices.by_definition:
            return definition_of(question.kernel)
        return final_engine(question, facts_of(self._scaling, features))

    def value(self, T: Index) -> float:
        """HSIC(Xi, T), for floating selection."""
        Z = self._values(T)
        return self._hsic_of(Z.T @ Z, T.size)

    def least_missed(self, T: Index) -> tuple[int, float]:
        r"""The feature j of T with the largest HSIC(Xi, T \ {j}), and that."""
        Z = self._values(T)
        G = Z.T @ Z  # (m, m)
        values = np.array([self._hsic_of(G - np.multiply.outer(z, z), T.size - 1) for z in Z])
        j = int(largest(values, 1, tie_width(values))[0])
        return int(T[j]), float(values[j])

    def _hsic_of(self, G: Float, n_features: int) -> float:
        """``<W, K>`` at the sigma of the policy."""
        kernel = self.choices.kernel
        known = DistanceStats(kernel, self.choices.W, Statistic.of(G))
        sigma = self.choices.bandwidth(known, n_features) if kernel.has_bandwidth else 1.0
        return known.hsic(sigma)

    def _values(self, T: Index) -> Float:
        """Standardised features, (t, m) float64, kept from round to round."""
        self._kept = {j: self._kept[j] for j in T.tolist() if j in self._kept}
        new = np.sort([j for j in T if int(j) not in self._kept]).astype(np.int64)
        if new.size:
            jobs = self._reader.jobs(new, self._scaling)
            self._bytes_read += self._reader.bytes_of(jobs)
            parts = self._reader.joined(Values(), jobs)
            self._kept |= zip(new.tolist(), np.concatenate(list(parts)), strict=True)
        return np.stack([self._kept[int(j)] for j in T])

    def _move_to(self, S_dagger: Index, rounds: Index | None = None) -> None:
        """Bring the statistic to S-dagger, in the order in which features joined.

        Where some left again it is summed anew, so that a resumed run gets the same bits; without
        `rounds`, in which each of them joined, they joined one by one, or all new ones together.
        """
        n = self._inside.size
        if not np.array_equal(self._inside, S_dagger[:n]):
            self._chosen.clear()
            self._inside = S_dagger[:0]
            rounds = np.arange(S_dagger.size)
        elif rounds is None:
            rounds = np.zeros(S_dagger.size, dtype=np.int64)
        new, when = S_dagger[self._inside.size :], rounds[self._inside.size :]
        for number in np.unique(when):
            self._include(new[when == number])
        self._inside = S_dagger

    def _include(self, joined: Index) -> None:
        """Add features that joined together to the statistic."""
        features = np.sort(self._features(joined))
        jobs = self._reader.jobs(features, self._scaling)
        self._bytes_read += self._reader.bytes_of(jobs)
        self._chosen.add(self._reader, jobs, features.size)
        if self.choices.kernel.of_inner_products:  # others are bounded
            check_reach(self.choices.kernel, self._chosen.longest)

    @property
    def _scaling(self) -> Scaling:
        if self.scaling is None:
            self.measure()
        assert self.scaling is not None, "measure sets it"
        return self.scaling

    def _question(self, sigma: float) -> Question | ThinQuestion:
        return self._chosen.question(self.choices.kernel, sigma, self._reader.runtime.each)

    def _ascent(self, question: Question | ThinQuestion, S: Index, n: int) -> Ascent:
        single = self.choices.dtype == np.float32
        definition = self.choices.by_definition
        return Ascent(
            question, S, n, self._reader, self._scaling, self.reporter, single, definition
        )

    def _advise(self, question: Question | ThinQuestion, left: Index, gains: Float, n: int) -> str:
        """Engine for the first pass of the next round, which a resumed run must know too."""
        if not left.size or self.choices.kernel.is_additive:
            return ""
        return self._ascent(question, left, n).advice(gains)

    def _before_the_first(self) -> float:
        """The median rule with nothing chosen: for a normal feature of the mean variance."""
        scaling = self._scaling
        alive = ~scaling.constant
        variance = 1.0 if self.choices.standardize else float(np.mean(scaling.std[alive] ** 2))
        return 1.0 / (2.0 * NORMAL_MEDIAN * variance * self._width_of_one)

    def _best_alone(self, sigma: float) -> float:
        """Largest HSIC of one candidate: what a grid is searched by before any is chosen."""
        heard, self.reporter = self.reporter, None  # a trial is no round
        gains, _ = self._gains(self._question(sigma), self.candidates, 1)
        self.reporter = heard
        return float(gains.max())
