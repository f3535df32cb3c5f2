"""HSIC between the labels and sets of features of a source, for both selection algorithms.

Algorithm 1 (backward) removes features j from S and needs HSIC(sigma, S without j), from
`SourceDependence`; its rounds are scored by a strategy (`dhsic.passes.scorer`). Algorithm 2
(forward) adds features j to the chosen ones, S-dagger, and needs HSIC(sigma, S-dagger + {j}), from
`SourceForward`; the sum over the chosen features contains all pairs of samples, or, in low rank,
all pairs of a sample and a landmark. Candidates are features or groups of features.
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
from dhsic.engines.expected_loss import ExpectedLoss
from dhsic.engines.kernel_drift import turn
from dhsic.engines.refine import (
    AbstractEngines,
    AdditionEngines,
    EngineChoice,
    RemovalEngines,
    largest,
    tie_width,
)
from dhsic.engines.scoring_problem import LowRankScoringProblem
from dhsic.errors import InputError
from dhsic.kernels import check_overflow
from dhsic.kernels.bandwidth import DistanceStats, Grid, Median
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.statistic import Statistic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.passes import Measure
from dhsic.passes.candidates import AbstractCandidates, Gains, Scoring
from dhsic.passes.landmark_sampling import turning_rows
from dhsic.passes.landmarks import LandmarkSum
from dhsic.passes.reader import AbstractReader
from dhsic.passes.score_reuse import ScoreReuse
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

#: Median squared distance between two values of a normal feature, divided by its variance.
NORMAL_MEDIAN = 0.9099
#: Number of landmarks that factor K of the chosen features.
JOINING_LANDMARKS = 256
#: Features that certify low rank in forward selection: nearest to the threshold, and others.
NEAREST, OTHERS = 32, 32


class AbstractRoundDependence(ABC):
    """HSIC between the labels and the features of a source, for a selection algorithm.

    `candidates` are the features, or groups, that the algorithm removes or adds.
    """

    def __init__(
        self, choices: Choices, data: AbstractReader, candidates: AbstractCandidates
    ) -> None:
        self.choices = choices
        self.data = data
        self._candidates = candidates
        self._sigma = 1.0
        self._started, self._read = time.perf_counter(), 0
        #: Scores of all candidates in the first round; None in a resumed run.
        self.first_scores: Float | None = None

    @abstractmethod
    def measure(self) -> Scaling:
        """Run the first pass over all features, and return their scaling."""

    @abstractmethod
    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        """Use the data as their own labels (unsupervised selection); called after `measure`.

        `weigh` computes the label weights W (m, m) from the kernel matrix K (m, m) of all features.
        """

    @abstractmethod
    def check_overflow(self) -> None:
        """Raise an error if the kernel overflows on the data; called after `measure`."""

    @abstractmethod
    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        """Restore the run to `state` and its saved `arrays`.

        It must be called after `measure`.
        """

    def resume_arrays(self) -> Mapping[str, Array]:
        """Arrays that a resumed run needs in addition to its state."""
        return {}

    @property
    def candidates(self) -> Index:
        """Candidates for selection: the features that vary, or groups of them."""
        return self._candidates.every

    def bandwidth(self, S: Index) -> float:
        """Return sigma (line 3 of the algorithm) for S; `move_to` has computed it."""
        del S
        return self._sigma

    def close(self) -> None:
        """Release scratch files."""
        self.data.close()

    def _largest(self, sigma: float, hsic: float, gains: Float, n: int) -> tuple[Index, Index]:
        """Positions of the n features with the largest gains, the largest first, and of the others.

        The gain of a feature is the change of HSIC without (or with) it.
        """
        check_gains(self.choices.kernel, sigma, hsic, gains)
        first = largest(gains, n, tie_width(gains))
        return first, np.delete(np.arange(gains.size), first)

    def _took(self, sigma: float, hsic: float) -> dict[str, Any]:
        """Last entries of a round's record: sigma, HSIC, run time in seconds, and bytes read."""
        before, self._read = self._read, self.data.bytes_read
        return {
            "sigma": float(sigma),
            "hsic": float(hsic),
            "seconds": time.perf_counter() - self._started,
            "bytes_read": self._read - before,
        }


class SourceDependence(AbstractRoundDependence):
    """HSIC for backward elimination (`dhsic.algorithms.bahsic.Dependence`), from a source."""

    def __init__(
        self,
        choices: Choices,
        data: AbstractReader,
        candidates: AbstractCandidates,
        scorer: AbstractScorer,  # scores the first round
        survival: ExpectedLoss | None = None,  # tracks expected losses; None if rounds are exact
        lazy: ScoreReuse | None = None,  # reuses scores between exact rounds
        seed: int = 0,  # draws the kernel rows that measure its drift
    ) -> None:
        super().__init__(choices, data, candidates)
        self.scorer = scorer
        self._expected_loss, self._score_reuse = survival, lazy
        self._rows = turning_rows(data.n_samples, seed)
        self._form: Array | None = None  # rows of B in the last round

    def measure(self) -> Scaling:
        scaling = self.scorer.measure()
        self._candidates.drop_constant(scaling)
        return scaling

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        assert isinstance(self.scorer, ExactScorer), (
            "data that are their own labels are scored exactly"
        )
        self.scorer.weigh_itself(weigh)

    def check_overflow(self) -> None:
        kernel = self.choices.kernel
        if kernel.of_inner_products and not kernel.is_additive:  # other kernels are bounded
            check_overflow(kernel, self.scorer.sum.longest)

    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        survivors = [self._candidates.features(S) for S in survivors_of(state)]
        if self._score_reuse is not None:
            self._score_reuse.restore(arrays)
        self.scorer = self.scorer.resume(survivors, state.history)
        if self._expected_loss is not None:
            self._expected_loss.restore(arrays, state.survivors.size)
        if state.round:
            self._form = self._rows_of_form(float(state.history[-1]["sigma"]))

    def resume_arrays(self) -> Mapping[str, Array]:
        arrays = {} if self._expected_loss is None else self._expected_loss.arrays()
        return arrays if self._score_reuse is None else arrays | self._score_reuse.arrays()

    def move_to(self, S: Index) -> None:
        """Begin a round with the candidates S: update the statistic, then sigma."""
        self._started = time.perf_counter()
        features = self._candidates.features(S)
        self.scorer = self.scorer.begin(features)
        if self.choices.kernel.has_bandwidth:
            n: float = self._candidates.dimension(S)
            if self.data.is_balanced:  # a feature counts as much as its mean square
                n = float(self.data.sizes(features).sum())
            self._sigma = self.choices.bandwidth(self.scorer.bandwidth_stats(), n)

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        """Find the n candidates whose removal gives the largest HSIC (line 4 of Algorithm 1)."""
        gains, hsic, record = self.scorer.gains(sigma, S, n)
        first, remaining = self._largest(sigma, hsic, gains, n)
        if S.size == self.candidates.size:
            self.first_scores = -gains
        if not self.choices.kernel.is_additive:
            record["advice"] = self.scorer.advise(sigma, S[remaining], gains[remaining], n)
        if self._expected_loss is not None:
            record |= self._expected_loss.follow(gains, first)
        record |= self._turned(sigma)
        sizes = {"n_features": S.size, "n_removed": first.size}
        return Removal(S[first], -gains[first], sizes | self._took(sigma, hsic) | record)

    def _turned(self, sigma: float) -> dict[str, float]:
        """Measure the drift of the kernel since the last round, for the round's record."""
        before, self._form = self._form, self._rows_of_form(sigma)
        if self._form is None:
            return {}
        return {"turn": 0.0 if before is None else turn(self._form, before)}

    def _rows_of_form(self, sigma: float) -> Array | None:
        """Compute sampled rows of B, the matrix of the quadratic form that approximates scores.

        To first order, ``x' B x`` is the change of HSIC without the feature x (see
        `dhsic.engines.kernel_drift`). The result is None if the kernel is additive and never
        drifts, or if rows are unavailable.
        """
        if self.choices.kernel.is_additive:
            return None
        return self.scorer.form_rows(sigma, self._rows)


class SourceForward(AbstractRoundDependence):
    """HSIC for forward selection (`dhsic.algorithms.fohsic.ForwardDependence`), from a source."""

    def __init__(
        self,
        choices: Choices,
        total: AbstractFeatureSum,  # sum over the chosen features, empty at first
        candidates: AbstractCandidates,
        W: Float | LowRankSymmetric,  # weights of the estimator; factored if `total` has landmarks
    ) -> None:
        super().__init__(choices, total.data, candidates)
        self._W: Any = W
        self._sum = total
        self._inside = np.empty(0, dtype=np.int64)  # features in `_sum`, in order of joining
        self._lasting = LastingGains(total.data, "as in round 1")
        self._kept: dict[int, Float] = {}
        self._first: EngineChoice | None = None

    def measure(self) -> Scaling:
        scaling = self.data.measure(Measure(self.choices.standardize, p=self.data.p))
        self._candidates.drop_constant(scaling)
        return scaling

    def weigh_itself(self, weigh: Callable[[Float], Float]) -> None:
        of_all = SquareSum(self.data, self.choices.kernel.sums)
        of_all.restart(self.data.alive)
        self._W = weigh(own_labels(self.choices, of_all))

    def check_overflow(self) -> None:
        """Do nothing: each round checks the kernel for overflow when features join."""

    def resume(self, state: SelectionState, arrays: Mapping[str, Array]) -> None:
        if state.round:
            self._first = EngineChoice.read(state.history[-1])
            self.follow(state.eliminated, state.removed_in)

    def move_to(self, S_dagger: Index) -> None:
        """Begin a round with the chosen features S-dagger: update the statistic, then sigma."""
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
            n = self._candidates.dimension(S_dagger) + self._candidates.mean_dimension
            self._sigma = policy(self._sum.bandwidth_stats(kernel, self._W), n)

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """Find the n candidates whose addition gives the largest HSIC (line 4 of Algorithm 2)."""
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
        """HSIC between the labels and the feature set T, for floating forward selection."""
        Z = self._values(T)
        return self._hsic_of(Z.T @ Z, T.size)

    def least_missed(self, T: Index) -> tuple[int, float]:
        """Find the feature of T whose removal leaves the largest HSIC.

        Returns the feature j and the HSIC without it.
        """
        Z = self._values(T)
        G = Z.T @ Z  # (m, m)
        values = np.array([self._hsic_of(G - np.multiply.outer(z, z), T.size - 1) for z in Z])
        j = int(largest(values, 1, tie_width(values))[0])
        return int(T[j]), float(values[j])

    def _hsic_of(self, G: Float, n_features: int) -> float:
        """HSIC of `n_features` features, from the sum G (m, m) over them, such as inner products.

        The bandwidth policy chooses sigma.
        """
        kernel = self.choices.kernel
        stats = DistanceStats(kernel, self._W, Statistic.of(G))
        sigma = self.choices.bandwidth(stats, n_features) if kernel.has_bandwidth else 1.0
        return stats.values([sigma])[0]

    def _values(self, T: Index) -> Float:
        """Standardised values of the features T, (t, m) float64, cached between rounds."""
        self._kept = {j: self._kept[j] for j in T.tolist() if j in self._kept}
        new = np.sort([j for j in T if int(j) not in self._kept]).astype(np.int64)
        if new.size:
            self._kept |= zip(new.tolist(), self.data.values(new), strict=True)
        return np.stack([self._kept[int(j)] for j in T])

    def gains(self, engines: AbstractEngines, S: Index, n: int, *, aloud: bool = True) -> Gains:
        """Compute the gains of the candidates S, accurate enough to rank the n largest.

        The gain of a candidate is the change of HSIC if it is added. Also returns a record of the
        work. Progress is reported if `aloud`.
        """
        if self._lasts:
            score = partial(lasting_gains, engines, self.data)
            losses, record = self._lasting.of(S, self.candidates, score)
            return -losses, record  # minus the gain of removal
        scoring = Scoring(engines, self.data, n, self._first, aloud)
        gains, record = self._candidates.gains(S, scoring)
        record.pop("error_bound_used", None)  # the last engine measures its own error
        if isinstance(engines.question, LowRankScoringProblem):
            record |= self._certificate(engines.question, S, gains, n)
        return gains, record

    def _certificate(
        self, question: LowRankScoringProblem, S: Index, gains: Float, n: int
    ) -> dict[str, Any]:
        """Estimate the error of a round's low-rank gains; return entries of the round's record.

        The error is measured by direct evaluation of HSIC, for features near the threshold and some
        others.
        """
        nearest = nearest_to_threshold(gains, n, NEAREST)
        every = np.linspace(0, gains.size - 1, min(OTHERS, gains.size)).astype(np.int64)
        sampled = np.union1d(np.flatnonzero(nearest), every)
        assert isinstance(self._sum, LandmarkSum), (
            "low-rank scoring problems are computed from landmarks"
        )
        fit, check = self._sum.fit, self._sum.check
        errors = joining_row_errors(question, check, self.data.values(S[sampled]))
        n_sampled = n * sampled.size / gains.size if n == gains.size else n
        certificate = certify(
            errors, gains[sampled], n_sampled, question.n_samples, np.ones(sampled.size)
        )
        rank = question.factor(0).rank
        return {
            "engine": f"low rank {rank}: {S.size}",
            "landmarks": fit.n_landmarks + check.n_landmarks,
            "rank": rank,
            "relative_error": certificate.relative_error,
            "cut_error": min(certificate.expected_swap_rate, 1.0),
        }

    def follow(self, S_dagger: Index, rounds: Index | None = None) -> None:
        """Update the statistic to the chosen features S-dagger, in the order in which they joined.

        If features have left since the last call, the sum is recomputed. A resumed run then gets
        identical bits. `rounds` are the rounds in which features joined. If it is None, new
        features join together, or one by one when the sum is recomputed.
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
            if self.choices.kernel.of_inner_products:  # other kernels are bounded
                check_overflow(self.choices.kernel, self._sum.longest)
        self._inside = S_dagger

    @property
    def _lasts(self) -> bool:
        """Whether scores of candidates are the same in all rounds, as under additive kernels."""
        return self.choices.kernel.is_additive and self._candidates.has_engines

    def _engines(self, sigma: float) -> AbstractEngines:
        choices = self.choices
        question: Any = self._sum.question(choices.kernel, sigma, self._W)
        if self._lasts:
            return RemovalEngines(question, np.float64, choices.by_definition)
        mean = self._mean_square
        return AdditionEngines(question, choices.dtype, choices.by_definition, mean)

    def _advise(self, engines: AbstractEngines, left: Index, gains: Float, n: int) -> str:
        """Choose the first engine of the next round; return its name.

        The name is stored for resumed runs.
        """
        if not self._candidates.has_engines or self.choices.kernel.is_additive:
            return ""
        self._first = engines.advice(self.data.facts(left), gains, n)
        return self._first.name

    @cached_property
    def _mean_square(self) -> float:
        """Mean square of the scaled values, averaged over features."""
        return float(np.mean(self.data.sizes(self.data.alive)))

    def _before_the_first(self) -> float:
        """Sigma by the median rule, before any feature is chosen.

        Features are assumed to be normal. Their variance is the mean variance in the data.
        """
        alive, scaling = self.data.alive, self.data.scaling
        unit = self.choices.standardize is True
        scaled = scaling.std[alive] * scaling.scale[alive]
        variance, n = 1.0 if unit else float(np.mean(scaled**2)), self._candidates.mean_size
        if unit:
            n = self._candidates.mean_dimension
        return 1.0 / (2.0 * NORMAL_MEDIAN * variance * n)

    def _best_alone(self, sigma: float) -> float:
        """Largest HSIC of a single candidate at sigma, for the grid search of the first round."""
        gains, _ = self.gains(self._engines(sigma), self.candidates, 1, aloud=False)
        return float(gains.max())


def check_gains(kernel: AbstractKernel, sigma: float, hsic: float, gains: Float) -> None:
    """Raise InputError if any gain is not finite, or if all gains are 0.

    Gains are the changes of HSIC without (or with) each feature. All gains are 0 if sigma does not
    suit the data, so that the kernel matrix is constant or the identity.
    """
    lost = int((~np.isfinite(gains)).sum())
    if lost:
        raise InputError(
            f"{lost} of {gains.size} scores are not finite, because the kernel overflows at "
            f"sigma={sigma:.4g}. Scale the data down, or pass standardize=True."
        )
    if kernel.has_bandwidth and gains.size > 1 and hsic == 0 and not gains.any():
        raise InputError(
            f"HSIC and all {gains.size} scores are 0: at sigma={sigma:.4g} the kernel values of "
            "all pairs of samples are nearly 0, or nearly 1. Pass bandwidth='median', or "
            "standardize=True."
        )
