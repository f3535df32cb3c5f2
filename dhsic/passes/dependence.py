r"""HSIC(sigma, S) of the features in a source: what both algorithms ask.

Algorithm 1 asks for HSIC(sigma, S without j), `SourceDependence`; what scores a round is a strategy
(`dhsic.passes.scorer`). Algorithm 2 asks for HSIC(sigma, S-dagger + {j}), `SourceForward`; the sum
over the features chosen is of all samples, or in low rank against landmarks. Candidates are
features or groups of them.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import SelectionState
from dhsic.engines.certificate import certify, joining_row_errors, nearest_to_threshold
from dhsic.engines.question import LowRankQuestion
from dhsic.engines.refine import (
    AbstractEngines,
    AdditionEngines,
    EngineChoice,
    RemovalEngines,
    largest,
    tie_width,
)
from dhsic.engines.survival import Survival
from dhsic.engines.turns import turn
from dhsic.errors import InputError
from dhsic.kernels import check_overflow
from dhsic.kernels.bandwidth import DistanceStats, Grid, Median
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.passes import Measure
from dhsic.passes.candidates import AbstractCandidates, Gains, Scoring
from dhsic.passes.drawn import turning_rows
from dhsic.passes.landmarks import LandmarkSum
from dhsic.passes.lazy import Lazy
from dhsic.passes.reader import AbstractReader
from dhsic.passes.scorer import (
    AbstractScorer,
    Choices,
    ExactScorer,
    LastingGains,
    lasting_gains,
    own_labels,
)
from dhsic.passes.sums import AbstractFeatureSum, SquareSum, survivors_of
from dhsic.sources.scaling import Scaling

#: Median squared distance of two values of a normal feature, over its variance.
NORMAL_MEDIAN = 0.9099
#: Landmarks that K of the features chosen is factored from.
JOINING_LANDMARKS = 256
#: Features that the certificate of low rank looks at: next to the threshold, and others.
NEAREST, OTHERS = 32, 32


class AbstractRoundDependence(ABC):
    """What both algorithms ask about features of a source; `candidates` are removed or added."""

    def __init__(
        self, choices: Choices, data: AbstractReader, candidates: AbstractCandidates
    ) -> None:
        self.choices = choices
        self.data = data
        self._candidates = candidates
        self._sigma = 1.0
        self._started, self._read = time.perf_counter(), 0
        #: Scores of all candidates in the first round; None of a run that was gone on with.
        self.first_scores: Float | None = None

    @abstractmethod
    def measure(self) -> Scaling:
        """Pass over all features: their scaling."""

    @abstractmethod
    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Take the data for their own labels, after `measure`: W of K over all features."""

    @abstractmethod
    def check_overflow(self) -> None:
        """Refuse data that the kernel overflows on, after `measure`."""

    @abstractmethod
    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        """Go to where `state` left off, after `measure`; `arrays` were kept with it."""

    def kept(self) -> Mapping[str, Array]:
        """Arrays that a resumed run needs besides its state."""
        return {}

    @property
    def candidates(self) -> Index:
        """What may be removed or chosen: features that vary, or their groups."""
        return self._candidates.every

    def bandwidth(self, S: Index) -> float:
        """Line 3: sigma, as `move_to` has found it for S."""
        del S
        return self._sigma

    def close(self) -> None:
        """Let go of scratch."""
        self.data.close()

    def _largest(self, sigma: float, hsic: float, gains: Float, n: int) -> tuple[Index, Index]:
        """Positions of the n largest gains, the largest first, and of the others."""
        check_gains(self.choices.kernel, sigma, hsic, gains)
        first = largest(gains, n, tie_width(gains))
        return first, np.delete(np.arange(gains.size), first)

    def _took(self, sigma: float, hsic: float) -> dict[str, Any]:
        """What every record of a round ends its own facts with; the next one counts anew."""
        before, self._read = self._read, self.data.bytes_read
        return {
            "sigma": float(sigma),
            "hsic": float(hsic),
            "seconds": time.perf_counter() - self._started,
            "bytes_read": self._read - before,
        }


class SourceDependence(AbstractRoundDependence):
    """`dhsic.algorithms.bahsic.Dependence` over a source."""

    def __init__(
        self,
        choices: Choices,
        data: AbstractReader,
        candidates: AbstractCandidates,
        scorer: AbstractScorer,  # of the first round
        survival: Survival | None = None,  # follows what is lost, None where that is nothing
        lazy: Lazy | None = None,  # what exact rounds keep
        seed: int = 0,  # draws the rows of the kernel on which its turns are told
    ) -> None:
        super().__init__(choices, data, candidates)
        self.scorer = scorer
        self._survival, self._lazy = survival, lazy
        self._rows = turning_rows(data.n_samples, seed)
        self._form: Array | None = None  # rows of B in the last round

    def measure(self) -> Scaling:
        scaling = self.scorer.measure()
        self._candidates.drop_constant(scaling)
        return scaling

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        assert isinstance(self.scorer, ExactScorer), "labels of full rank have no factor"
        self.scorer.weigh_itself(weigh)

    def check_overflow(self) -> None:
        kernel = self.choices.kernel
        if kernel.of_inner_products and not kernel.is_additive:  # others are bounded
            check_overflow(kernel, self.scorer.sum.longest)

    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        survivors = [self._candidates.features(S) for S in survivors_of(state)]
        if self._lazy is not None:
            self._lazy.restore(arrays)
        self.scorer = self.scorer.resume(survivors, state.history)
        if self._survival is not None:
            self._survival.restore(arrays, state.survivors.size)
        if state.round:
            self._form = self._rows_of_form(float(state.history[-1]["sigma"]))

    def kept(self) -> Mapping[str, Array]:
        kept = {} if self._survival is None else self._survival.arrays()
        return kept if self._lazy is None else kept | self._lazy.arrays()

    def move_to(self, S: Index) -> None:
        """Begin a round with the candidates S: the statistic follows, and sigma with it."""
        self._started = time.perf_counter()
        features = self._candidates.features(S)
        self.scorer = self.scorer.begin(features)
        if self.choices.kernel.has_bandwidth:
            self._sigma = self.choices.bandwidth(self.scorer.known(), features.size)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Line 4: the n candidates whose removal leaves the largest HSIC."""
        gains, hsic, record = self.scorer.gains(sigma, S, n)
        first, left = self._largest(sigma, hsic, gains, n)
        if S.size == self.candidates.size:
            self.first_scores = -gains
        if not self.choices.kernel.is_additive:
            record["advice"] = self.scorer.advise(sigma, S[left], gains[left], n)
        if self._survival is not None:
            record |= self._survival.follow(gains, first)
        record |= self._turned(sigma)
        sizes = {"n_features": S.size, "n_removed": first.size}
        return Removal(S[first], -gains[first], sizes | self._took(sigma, hsic) | record)

    def _turned(self, sigma: float) -> dict[str, float]:
        """By how much the kernel turned since the last round, for its record."""
        before, self._form = self._form, self._rows_of_form(sigma)
        if self._form is None:
            return {}
        return {"turn": 0.0 if before is None else turn(self._form, before)}

    def _rows_of_form(self, sigma: float) -> Array | None:
        """Rows of B; None where it never turns, or is not known row by row."""
        if self.choices.kernel.is_additive:
            return None
        return self.scorer.form_rows(sigma, self._rows)


class SourceForward(AbstractRoundDependence):
    """`dhsic.algorithms.fohsic.ForwardDependence` over a source."""

    def __init__(
        self,
        choices: Choices,
        total: AbstractFeatureSum,  # over the features chosen, over none yet
        candidates: AbstractCandidates,
        W: Float | LowRankSymmetric,  # weights of the estimator; with landmarks factors of them
    ) -> None:
        super().__init__(choices, total.data, candidates)
        self._W: Any = W
        self._sum = total
        self._inside = np.empty(0, dtype=np.int64)  # what `_sum` is over, as they joined
        self._lasting = LastingGains(total.data, "as in round 1")
        self._kept: dict[int, Float] = {}
        self._first: EngineChoice | None = None

    def measure(self) -> Scaling:
        scaling = self.data.measure(Measure(self.choices.standardize))
        self._candidates.drop_constant(scaling)
        return scaling

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        of_all = SquareSum(self.data, self.choices.kernel.sums)
        of_all.restart(self.data.alive)
        self._W = weigh(own_labels(self.choices, of_all))

    def check_overflow(self) -> None:
        """Nothing is chosen yet: every feature that joins is checked then."""

    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        if state.round:
            self._first = EngineChoice.read(state.history[-1])
            self.follow(state.eliminated, state.removed_in)

    def move_to(self, S_dagger: Index) -> None:
        """Begin a round with S-dagger chosen: the statistic follows, and sigma with it."""
        self._started = time.perf_counter()
        self.follow(S_dagger)
        kernel, policy = self.choices.kernel, self.choices.bandwidth
        if not kernel.has_bandwidth:
            return
        if not S_dagger.size and isinstance(policy, Median):
            self._sigma = self._before_the_first()
        elif not S_dagger.size and isinstance(policy, Grid):
            self._sigma = max(policy.sigmas, key=self._best_alone)
        else:
            n = self._candidates.features(S_dagger).size + self._candidates.mean_size
            self._sigma = policy(self._sum.known(kernel, self._W), n)

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """Line 4: the n candidates whose joining leaves the largest HSIC."""
        engines = self._engines(sigma)
        hsic = engines.question.hsic if S_dagger.size else 0.0
        gains, record = self.gains(engines, S, n)
        first, stay = self._largest(sigma, hsic, gains, n)
        if S.size == self.candidates.size:
            self.first_scores = gains
        record["advice"] = self._advise(engines, S[stay], gains[stay], n)
        sizes = {"n_features": S.size, "n_selected": S_dagger.size, "n_added": first.size}
        return Removal(S[first], gains[first], sizes | self._took(sigma, hsic) | record)

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
        known = DistanceStats(kernel, self._W, Statistic.of(G))
        sigma = self.choices.bandwidth(known, n_features) if kernel.has_bandwidth else 1.0
        return known.values([sigma])[0]

    def _values(self, T: Index) -> Float:
        """Standardised features, (t, m) float64, kept from round to round."""
        self._kept = {j: self._kept[j] for j in T.tolist() if j in self._kept}
        new = np.sort([j for j in T if int(j) not in self._kept]).astype(np.int64)
        if new.size:
            self._kept |= zip(new.tolist(), self.data.values(new), strict=True)
        return np.stack([self._kept[int(j)] for j in T])

    def gains(self, engines: AbstractEngines, S: Index, n: int, *, aloud: bool = True) -> Gains:
        """Gains of S, good enough to place the n largest, and a record of what it took."""
        if self._lasts:
            score = partial(lasting_gains, engines, self.data)
            losses, record = self._lasting.of(S, self.candidates, score)
            return -losses, record  # what removal would cost
        asked = Scoring(engines, self.data, n, self._first, aloud)
        gains, record = self._candidates.gains(S, asked)
        record.pop("error_bound_used", None)  # of one before the last, which measures its own
        if isinstance(engines.question, LowRankQuestion):
            record |= self._certificate(engines.question, S, gains, n)
        return gains, record

    def _certificate(
        self, question: LowRankQuestion, S: Index, gains: Float, n: int
    ) -> dict[str, Any]:
        """How far low rank is from the definition, on features next to the threshold and others."""
        nearest = nearest_to_threshold(gains, n, NEAREST)
        every = np.linspace(0, gains.size - 1, min(OTHERS, gains.size)).astype(np.int64)
        some = np.union1d(np.flatnonzero(nearest), every)
        assert isinstance(self._sum, LandmarkSum), "questions of low rank are of landmarks"
        fit, check = self._sum.fit, self._sum.check
        errors = joining_row_errors(question, check, self.data.values(S[some]))
        n_sampled = n * some.size / gains.size if n == gains.size else n
        found = certify(errors, gains[some], n_sampled, question.n_samples, np.ones(some.size))
        rank = question.factor(0).rank
        return {
            "engine": f"low rank {rank}: {S.size}",
            "landmarks": fit.n_landmarks + check.n_landmarks,
            "rank": rank,
            "relative_error": found.relative_error,
            "cut_error": min(found.expected_swap_rate, 1.0),
        }

    def follow(self, S_dagger: Index, rounds: Index | None = None) -> None:
        """Bring the statistic to S-dagger, in the order in which features joined.

        Where some left again it is summed anew, so that a resumed run gets the same bits; without
        `rounds`, in which each of them joined, they joined one by one, or all new ones together.
        """
        n = self._inside.size
        if not np.array_equal(self._inside, S_dagger[:n]):
            self._sum.clear()
            self._inside = S_dagger[:0]
            rounds = np.arange(S_dagger.size)
        elif rounds is None:
            rounds = np.zeros(S_dagger.size, dtype=np.int64)
        new, when = S_dagger[self._inside.size :], rounds[self._inside.size :]
        for number in np.unique(when):
            self._sum.add(np.sort(self._candidates.features(new[when == number])))
            if self.choices.kernel.of_inner_products:  # others are bounded
                check_overflow(self.choices.kernel, self._sum.longest)
        self._inside = S_dagger

    @property
    def _lasts(self) -> bool:
        """Whether gains are the same in all rounds."""
        return self.choices.kernel.is_additive and self._candidates.has_engines

    def _engines(self, sigma: float) -> AbstractEngines:
        choices = self.choices
        question: Any = self._sum.question(choices.kernel, sigma, self._W)
        if self._lasts:
            return RemovalEngines(question, np.float64, choices.by_definition)
        mean = self._mean_square
        return AdditionEngines(question, choices.dtype, choices.by_definition, mean)

    def _advise(self, engines: AbstractEngines, left: Index, gains: Float, n: int) -> str:
        """Choose what scores the next round first; in words, which a resumed run reads."""
        if not self._candidates.has_engines or self.choices.kernel.is_additive:
            return ""
        self._first = engines.advice(self.data.facts(left), gains, n)
        return self._first.name

    @cached_property
    def _mean_square(self) -> float:
        """Mean over features of their mean squares, as scaled."""
        return float(np.mean(self.data.sizes(self.data.alive)))

    def _before_the_first(self) -> float:
        """The median rule with nothing chosen: for a normal feature of the mean variance."""
        alive, scaling = self.data.alive, self.data.scaling
        unit = self.choices.standardize is True
        scaled = scaling.std[alive] * scaling.scale[alive]
        variance = 1.0 if unit else float(np.mean(scaled**2))
        return 1.0 / (2.0 * NORMAL_MEDIAN * variance * self._candidates.mean_size)

    def _best_alone(self, sigma: float) -> float:
        """Largest HSIC of one candidate: what a grid is searched by before any is chosen."""
        gains, _ = self.gains(self._engines(sigma), self.candidates, 1, aloud=False)
        return float(gains.max())


def check_gains(kernel: AbstractKernel, sigma: float, hsic: float, gains: Float) -> None:
    """Refuse gains that are no numbers, or of a kernel matrix that is the identity or constant."""
    lost = int((~np.isfinite(gains)).sum())
    if lost:
        raise InputError(
            f"{lost} of {gains.size} scores are not finite at sigma={sigma:.4g}: the kernel "
            "overflows on these data; scale them down, or pass standardize=True."
        )
    if kernel.has_bandwidth and gains.size > 1 and hsic == 0 and not gains.any():
        raise InputError(
            f"HSIC and all {gains.size} scores are 0: at sigma={sigma:.4g} no two samples are "
            "alike to the kernel, or all are. Pass bandwidth='median', or standardize=True."
        )
