r"""HSIC(sigma, S-dagger + {j}) of the features in a source: what Algorithm 2 asks.

The sum over the features chosen is of all samples, or in low rank against landmarks; candidates
are features or groups of them.
"""

from __future__ import annotations

import time
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
from dhsic.kernels import check_overflow
from dhsic.kernels.bandwidth import DistanceStats, Grid, Median
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.passes import Measure
from dhsic.passes.candidates import AbstractCandidates
from dhsic.passes.dependence import (
    AbstractRoundDependence,
    Choices,
    LastingGains,
    lasting_gains,
    own_labels,
)
from dhsic.passes.landmarks import LandmarkSum
from dhsic.passes.sums import AbstractFeatureSum, SquareSum
from dhsic.sources.scaling import Scaling

#: Median squared distance of two values of a normal feature, over its variance.
NORMAL_MEDIAN = 0.9099
#: Landmarks that K of the features chosen is factored from.
JOINING_LANDMARKS = 256
#: Features that the certificate of low rank looks at: next to the threshold, and others.
NEAREST, OTHERS = 32, 32


class SourceForward(AbstractRoundDependence):
    """`dhsic.algorithms.fohsic.ForwardDependence` over a source.

    Parameters
    ----------
    total : SquareSum or LandmarkSum
        The sum over the features chosen, over none yet.
    W : (m, m) float64, or LowRankSymmetric
        Weights of the estimator; with landmarks factors of them.
    """

    def __init__(
        self,
        choices: Choices,
        total: AbstractFeatureSum,
        candidates: AbstractCandidates,
        W: Float | LowRankSymmetric,
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

    def gains(
        self, engines: AbstractEngines, S: Index, n: int, *, aloud: bool = True
    ) -> tuple[Float, dict[str, Any]]:
        """Gains of S, good enough to place the n largest, and a record of what it took."""
        if self._lasts:
            score = partial(lasting_gains, engines, self.data)
            losses, record = self._lasting.of(S, self.candidates, score)
            return -losses, record  # what removal would cost
        gains, record = self._candidates.gains(engines, self.data, S, n, self._first, aloud=aloud)
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
        variance = 1.0 if self.choices.standardize else float(np.mean(scaling.std[alive] ** 2))
        return 1.0 / (2.0 * NORMAL_MEDIAN * variance * self._candidates.mean_size)

    def _best_alone(self, sigma: float) -> float:
        """Largest HSIC of one candidate: what a grid is searched by before any is chosen."""
        gains, _ = self.gains(self._engines(sigma), self.candidates, 1, aloud=False)
        return float(gains.max())
