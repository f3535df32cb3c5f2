"""HSIC(sigma, S) in linear time: rounds scored by low-rank matrices.

The error of every round is estimated (`dhsic.engines.certificate`) before features are scored: for
a random sample of features, low-rank gains are compared with exact ones on rows where K is known.
If the expected loss from wrong removals exceeds the limit of the run
(`dhsic.engines.expected_loss`), more of K is needed. If an (m, m) matrix fits in memory, K is
computed for all samples, and features next to the threshold are scored exactly. Otherwise the
number of landmarks grows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.engines.certificate import EXACT, Certificate, certify
from dhsic.engines.expected_loss import ExpectedLoss
from dhsic.engines.kernel_drift import with_diagonal
from dhsic.engines.lowrank import LONGEST_LOW_RANK, NEGLECTED, orders_for
from dhsic.engines.refine import History, in_low_rank
from dhsic.engines.scoring_problem import RoundState, ScoringProblem
from dhsic.kernels.bandwidth import BandwidthStats
from dhsic.kernels.base import PowerSeries
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.base import LandmarkStats
from dhsic.lowrank.directions import (
    Along,
    HeldForms,
    Lead,
    Weighed,
    core_along,
    gram,
    lead,
    lead_and_weigh,
    leading,
    orthonormal,
    projected_on,
    row_errors,
    weigh,
)
from dhsic.lowrank.slices import FittedRound, Slice, Sums, factor, fit_directions, value
from dhsic.memory import release_pages
from dhsic.namespace import slices
from dhsic.passes import Measure
from dhsic.passes.candidates import Gains, Threshold
from dhsic.passes.engineplan import exact_takes_over
from dhsic.passes.inner import measured_linear
from dhsic.passes.jobs import positions
from dhsic.passes.landmark_sampling import Sample
from dhsic.passes.landmarks import MANY_FEATURES, LandmarkSum
from dhsic.passes.projection import (
    ANEW,
    LEADING,
    MULTIPLIED,
    ROUNDED,
    Project,
    Projection,
    enough,
    highest_order,
    stacked,
)
from dhsic.passes.reader import AbstractReader
from dhsic.passes.resident_values import ResidentValues
from dhsic.passes.score import ScoreLowRank
from dhsic.passes.scorer import NO_ERROR, AbstractScorer, Choices, ExactScorer, LastingGains
from dhsic.passes.sliced import (
    Forms,
    Sampled,
    SliceWork,
    combine_contributions,
    concatenate_states,
    sizes,
    slice_contributions,
    state_of,
)
from dhsic.passes.statistic import MeasureLandmarks
from dhsic.sources.scaling import Scaling

#: Maximum number of directions of a factor; directions that do not improve the prediction of check
#: rows are dropped.
DIRECTIONS = 32
#: Fractions of features for which the power series must be accurate enough: at an order below the
#: highest, and at the highest. The values of the other features are read.
NEARLY_ALL, MOST = 0.98, 0.5
#: Fraction of ``W o K`` that compression may lose.
COMPRESSION = 1e-4
#: Number of features for which the accuracy of the series is checked at a time.
JUDGED = 1 << 17


class AbstractLowRankScorer(AbstractScorer):
    """Scorer in linear time by low-rank matrices, used as long as it is accurate enough.

    Subclasses compute the directions of a round. The subclass for plans uses placeholders.
    """

    def __init__(
        self,
        choices: Choices,
        data: AbstractReader,
        weights: LowRankSymmetric,
        survival: ExpectedLoss | None = None,  # tracks and limits the expected number of losses
        *,
        may_square: bool = True,  # whether (m, m) matrices may be made
        seed: int = 0,  # determines landmarks, directions and the sample
        # Creates the exact scorer when it is needed; None if all rounds are in low rank:
        exact: Callable[[], ExactScorer] | None = None,
        eager: bool = False,  # whether exact rounds begin as soon as they are cheap
    ) -> None:
        along = None if choices.kernel.is_additive else weights  # additive kernels need none
        self.sum: LandmarkSum = LandmarkSum(data, seed, weights=along)
        self.sample = Sample(data, seed)
        self._choices, self._data, self._weights = choices, data, weights
        self._expected_loss = survival or ExpectedLoss()
        self._may_square, self._exact, self._eager = may_square, exact, eager
        self._lasting = LastingGains(data, "low rank: as in round 1")
        self._for_good: Gains = np.empty(0), {}
        self._question: ScoringProblem | None = None
        self._W: Float | None = None
        self._are_codes = False
        self._projected = 0  # number of features when last projected; 0 if they were not
        self._said: Sums | None = None  # sums that slices returned in the last fit

    def measure(self) -> Scaling:
        if self._choices.kernel.is_additive:
            scaling, self._for_good = measured_linear(
                self._data, self._weights, standardize=self._choices.standardize
            )
            if self._data.block_factors is not None:  # gains are quadratic in the features
                gains, record = self._for_good
                self._for_good = gains * self._data.block_factors**2, record
            self.sum.begin(self._data.alive)
            return scaling
        if self._data.rescales:  # their scaling is known after the pass
            scaling = self._data.measure(Measure(self._choices.standardize, p=self._data.p))
            self.sum.restart(self._data.alive)
            return scaling
        first = MeasureLandmarks(self.sum.first_pass, self._choices.standardize)
        first_results: list[Any] = []
        scaling = self._data.measure(first, lambda *rest: first_results.extend(rest))
        sums, are_codes = first_results
        self._are_codes = self._choices.kernel.is_product and bool(are_codes)
        self.sum.start(self._data.alive, sums)
        return scaling

    def resume(self, survivors: Sequence[Index], history: History) -> AbstractScorer:
        by_rank = [in_low_rank(record) for record in history]
        n = by_rank.index(False) if False in by_rank else len(history)
        if n and not self._choices.kernel.is_additive:
            self._replay(survivors[:n], history[:n])
        if n == len(history):
            return self
        return self._exactly(survivors[n]).resume(survivors[n:], history[n:])

    def begin(self, S: Index) -> AbstractScorer:
        self._question = None
        now = exact_takes_over(self._data.n_samples, S.size, eager=self._eager)
        if now and self._may_square and self._exact is not None:
            return self._exactly(S).begin(S)
        if not self._choices.kernel.is_additive:
            self.sum.move_to(S)
            if self.sum.are_few and S.size < MANY_FEATURES:
                self.sum.grow(S, to_everyone=False)
        return self

    def gains(self, sigma: float, S: Index, n: int) -> tuple[Float, float, dict[str, Any]]:
        if self._choices.kernel.is_additive:
            gains, record = self._lasting.of(S, self.sum.features, self._score_for_good)
            return gains, -float(gains.sum()), record | NO_ERROR
        state, certificate = self._fit_within(sigma, S, n)
        gains, order = self._scored(state, S)
        exactly = ""
        if n == S.size:
            certificate = EXACT
        else:
            gains, n_exact, certificate = self._placed(sigma, gains, certificate, S, n)
            exactly = f", exact: {n_exact}" if n_exact else ""
        self._expected_loss.lose(certificate, n)
        record = {
            "engine": f"low rank {state.rank}: {S.size}{exactly}",
            "landmarks": len(self.sum.chosen.rows),
            "rank": state.rank,
            "order": order,
            "projected": self._projected,
            "relative_error": certificate.relative_error,
            "cut_error": certificate.expected_swap_rate,
        }
        return gains, self._hsic(sigma, state), record

    def advise(self, sigma: float, left: Index, gains: Float, n: int) -> str:
        return "low rank"

    def form_rows(self, sigma: float, rows: Index) -> Array:
        if self._said is None:  # the run was resumed
            self._fit(sigma)
        results = self._said
        assert results is not None, "a fit says"
        return with_diagonal(results["2 A"].columns, rows, results["diag A"], results["A 1"])

    def _score_for_good(self, features: Index) -> Gains:
        gains, record = self._for_good
        return gains[features], record

    def _exactly(self, S: Index) -> ExactScorer:
        """Create the exact scorer, which continues with the features S; free low-rank state."""
        assert self._exact is not None, "the plan of this run includes exact rounds"
        del self.sum, self.sample
        self._W = self._question = None
        release_pages()
        self._data.compact(S)
        scorer = self._exact()
        scorer.sum.restart(S)
        return scorer

    def _fit_within(self, sigma: float, S: Index, n: int) -> tuple[Any, Certificate]:
        """Fit a round with an expected loss within the limit.

        If no fit is accurate enough, the most accurate one is used. Returns the state of the round
        and its certificate.
        """
        while True:
            fit = self._fit(sigma)
            for anew in (False, True):
                state = self._along(fit, S, anew=anew)
                certificate = self._certify(state, S, n)
                if self._expected_loss.allows(certificate, S.size, n):
                    return state, certificate
                if self._projected in (0, S.size):  # a new projection would not be better
                    break
            if not self.sum.grow(S, to_everyone=self._may_square):
                return state, certificate
            if self._projected == S.size:  # the next fit needs a new projection
                self._projected = 0

    def _by_values(self, state: RoundState, S: Index, *, aloud: bool) -> Float:
        """Compute the gains of the features S in a pass over their values.

        The gain of a feature is the change of HSIC without it.
        """
        jobs = self._data.jobs(S, scaled=not self._are_codes)
        score = ScoreLowRank(state, self._choices.standardize)
        return self._data.scores(score, jobs, aloud=aloud)

    def _sampled(self, S: Index) -> tuple[Index, bool]:
        """Return the sampled features among S, and whether their values are loaded.

        Slices of the samples hold the values.
        """
        features, sampled = self.sample.of(S), self.sum.sampled
        has = sampled is not None and np.isin(features, sampled, assume_unique=True).all()
        return features, bool(has)

    @abstractmethod
    def _replay(self, survivors: Sequence[Index], history: History) -> None:
        """Repeat the completed low-rank rounds of a resumed run."""

    @abstractmethod
    def _fit(self, sigma: float) -> Any:
        """Compute low-rank factors of the kernel matrix of a round at width sigma.

        If the kernel's series has several matrices (base matrices), all are factored.
        """

    @abstractmethod
    def _along(self, found: Any, S: Index, *, anew: bool) -> Any:
        """Compute the state of the round from its fit `found`.

        If projections are used (`dhsic.passes.projection`), features are projected on the leading
        directions of A, the label weights times the kernel matrix. They are projected if `anew`.
        They are also projected if they have not been before, if a higher order is needed, or if
        half of the projected features have been removed.
        """

    @abstractmethod
    def _scored(self, state: Any, S: Index) -> tuple[Float, int]:
        """Compute the gains of the features S, (s,), and the highest order of the power series.

        The gain of a feature is the change of HSIC without it.
        """

    @abstractmethod
    def _certify(self, state: Any, S: Index, n: int) -> Certificate:
        """Estimate the errors of a round's scores on sampled features.

        The round removes n of the features S.
        """

    @abstractmethod
    def _placed(
        self, sigma: float, gains: Float, certificate: Certificate, S: Index, n: int
    ) -> tuple[Float, int, Certificate]:
        """Correct the gains near the threshold between removed and surviving features.

        n is the number of features to remove. It is smaller than the number of features. Returns
        the gains, the number of exact gains, and the certificate of all gains.
        """

    @abstractmethod
    def _hsic(self, sigma: float, state: Any = None) -> float:
        """HSIC, ``<W, K>``, from the low-rank label weights W and kernel matrix K."""


class LowRankScorer(AbstractLowRankScorer):
    """Scorer in linear time, by low-rank factors of the kernel matrix.

    The rows of the factors are divided into slices of the samples.
    """

    _projection: Projection | None = None
    _numbers: ResidentValues | None = None
    _asked_of: tuple[Weighed, tuple[Float, Mask, int]] | None = None
    _forms_of: tuple[Weighed, Forms] | None = None

    def bandwidth_stats(self) -> BandwidthStats:
        return LandmarkStats(lambda: self.sum.fit, self._hsic)

    def _scoring_problem(self, sigma: float) -> ScoringProblem:
        """Exact scoring problem of the round: kernel matrix and label weights for all samples."""
        if self._question is None or self._question.sigma != sigma:
            if self._W is None:
                self._W = self._weights.rows(np.arange(self._data.n_samples))
            kernel, each = self._choices.kernel, self._data.runtime.each
            self._question = ScoringProblem(kernel, sigma, self._W, self.sum.statistic, each)
        return self._question

    def _fit(self, sigma: float) -> tuple[FittedRound, Sums]:
        kernel, m = self._choices.kernel, self._data.n_samples
        is_known = self.sum.chosen.is_everyone and self._may_square
        linear = kernel.has_bandwidth and not is_known
        request = self.sum.round(kernel, sigma, DIRECTIONS, linear=linear)
        self._said = sums = self.sum.step(factor, request)
        fit = fit_directions(request, self.sum.block, sums, m)
        if kernel.has_bandwidth and is_known:
            fit = replace(fit, row_sums=self._scoring_problem(sigma).weighted(0).row_sums)
        return fit, sums

    def _along(self, found: tuple[FittedRound, Sums], S: Index, *, anew: bool) -> Weighed:
        order, projection = self._order(found[0].asked.sigma, S), self._projection
        if not order:
            self._projected, self._projection = 0, None
            return self._weighed(*self._lead(found[0], S))
        if not (self._projected and projection and self.sum.block.P) or projection.order < order:
            anew = True
        if anew or ANEW * S.size <= self._projected:
            return self._project(found[0], S, order)
        assert projection is not None, "features are projected by now"
        self._keep(S)
        core = {base: core_along(*found, self._weights, base) for base in found[0].asked.bases}
        of_differences = self._series(found[0]).of_differences
        along = self._looking_at(S, Along(found[0], core, of_differences), self.sum.block)
        return self._weighed(along, self._run_in_slices(S, along, weigh, self.sum.say))

    def _series(self, found: FittedRound) -> PowerSeries:
        """Power series of the kernel in a feature, used for scores from stored projections.

        It has only its first term if features are not projected.
        """
        order = 1 if self._projection is None else self._projection.order
        return found.asked.kernel.power_series(order, found.asked.sigma)

    def _lead(
        self, found: FittedRound, S: Index, most: int | None = None, multiplied: int = 0
    ) -> tuple[Along, Sums]:
        """Compute the leading eigenvectors of ``A = W o K``, and store them in the slices.

        W are label weights, and K is the kernel matrix; slices contain some of the samples each. At
        most `most` eigenvectors replace the directions of the fit `found`. S are the features of
        the round. `multiplied` is the number of leading directions whose pairwise products
        approximate the coefficients of even powers in later rounds. Returns A along these
        directions, and the sums over all slices.
        """
        sums = self.sum.say(gram, found)
        mix, T = leading(found, sums, self._weights, COMPRESSION, most)
        core = {base: np.diag(values) for base, values in T.items()}
        request = Lead(Along(found, core, self._series(found).of_differences), mix, multiplied)
        along = self._looking_at(S, request.along, lead(self.sum.block, request)[0])
        return along, self._run_in_slices(
            S, replace(request, along=along), lead_and_weigh, self.sum.step
        )

    def _project(self, found: FittedRound, S: Index, order: int) -> Weighed:
        """Project the features S on the leading directions of A, for a power series up to `order`.

        A is the elementwise product of label weights and kernel matrix. `found` is the fit of the
        round. Returns the state of the round in these directions.
        """
        self._projection = self._numbers = None  # frees memory before the new ones are computed
        along, sums = self._lead(found, S, LEADING, MULTIPLIED)
        basis = {base: orthonormal(sums[base]) for base in along.core}
        widths = {base: len(core) for base, core in along.core.items()}
        projection = Projection(found.asked.kernel, order, basis, widths)
        directions = self.sum.gather(projected_on, basis, stacked)
        self._numbers = self._data.keep_on_workers(Project(projection.numbers(directions)), S)
        release_pages()  # memory of decoded blocks
        self._projection, self._projected = projection, S.size
        return self._weighed(along, sums)

    def _looking_at(self, S: Index, along: Along, block: Slice) -> Along:
        """Return the low-rank form `along` with positions of sampled features, and the check rows.

        The sampled features are those of S. Check rows are landmarks that no factor uses, to
        estimate errors.
        """
        features, is_there = self._sampled(S)
        sampled = self.sum.sampled if is_there else features
        assert sampled is not None, "slices have the sample"
        return replace(along.from_checks(block), sampled=positions(features, sampled))

    def _run_in_slices(
        self, S: Index, asked: Any, function: SliceWork, tell: Callable[..., Sums]
    ) -> Sums:
        """Run a function in all slices of the samples, after loading the sampled features of S.

        They are loaded only if necessary. `asked` is the argument of `function`. `tell` runs the
        function if all features are loaded already.
        """
        features, is_there = self._sampled(S)
        return tell(function, asked) if is_there else self.sum.sample(features, function, asked)

    def _weighed(self, along: Along, sums: Sums) -> Weighed:
        """Create the state of the round from A in its directions and the sums of all slices.

        A is the elementwise product of label weights and kernel matrix; a slice is some of the
        samples.
        """
        even: dict[int, Float] = {}
        lost: dict[int, Float] = {}
        if self._projection is not None:
            check_rows = self.sum.block.part(along.fitted.asked.check)
            for base, T in self._projection.basis.items():
                even[base] = T.T @ sums["B'f", base]
                if along.of_differences:
                    f = along.functional(base, check_rows)
                    lost[base] = f - check_rows.B[base] @ (T @ even[base])
        return Weighed(along, sums, even, lost)

    def _forms(self, state: Weighed) -> Forms:
        """Low-rank matrices by which slices of the samples score features from their values.

        They are cached for the current state.
        """
        if self._forms_of is None or self._forms_of[0] is not state:
            basis = {} if self._projection is None else self._projection.basis
            m = self._data.n_samples
            forms = HeldForms.of_round(state.along, basis, state.even, m)
            self._forms_of = state, Forms.of(forms, self.sum.ask(sizes, forms))
        return self._forms_of[1]

    def _order(self, sigma: float, S: Index) -> int:
        """Lowest order of the power series that is accurate enough for nearly all features of S.

        At the highest order the accuracy must suffice for only half of the features (see
        `NEARLY_ALL`, `MOST`). The result is 0 if no order is accurate enough.
        """
        kernel = self._choices.kernel
        highest = highest_order(kernel, S.size, self._data.scaling.std.size)
        for order in range(kernel.exact_order or 1, highest + 1):
            part = np.mean(self._enough(order, sigma, S))
            if part >= (MOST if order == highest else NEARLY_ALL):
                return order
        return 0

    def _enough(self, order: int, sigma: float, S: Index) -> Mask:
        """Mask of the features of S for which the power series up to `order` is accurate enough."""
        kernel, data = self._choices.kernel, self._data
        statistics = (data.facts(S[part]) for part in slices(S.size, JUDGED))
        m = data.n_samples
        return np.concatenate([enough(kernel, order, sigma, f, m, NEGLECTED) for f in statistics])

    def _scored(self, state: Weighed, S: Index) -> tuple[Float, int]:
        gains, does, order = self._by_numbers(state, S)
        self._data.tell(int(does.sum()))
        if not does.all():
            gains[~does], order = self._by_series(state, S[~does])
        return gains, order

    def _by_numbers(self, state: Weighed, S: Index) -> tuple[Float, Mask, int]:
        """Compute the gains of the features S from their stored projections.

        The gain of a feature is the change of HSIC without it. Returns gains, a mask of the
        accurate gains, and the order of the power series. Results are cached, because both the
        certificate and the round use them.
        """
        if self._asked_of is not None and self._asked_of[0] is state:
            return self._asked_of[1]
        self._asked_of = state, self._ask_numbers(state, S)
        return self._asked_of[1]

    def _ask_numbers(self, state: Weighed, S: Index) -> tuple[Float, Mask, int]:
        projection, gains = self._projection, np.empty(S.size)
        if projection is None:
            return gains, np.zeros(S.size, dtype=bool), 0
        does = self._enough(projection.order, state.sigma, S)
        assert self._numbers is not None, "features are projected by now"
        score = projection.scorer(self._series(state.along.fitted), state.along.core, state.even)
        gains[does] = np.concatenate([*self._numbers.query(S[does], score)])
        return gains, does, projection.order

    def _keep(self, S: Index) -> None:
        """Keep the projections of the features S; others may be dropped."""
        assert self._numbers is not None, "features are projected by now"
        self._numbers.keep(S, self._data.runtime)

    def _by_series(self, state: Weighed, S: Index) -> tuple[Float, int]:
        """Compute the gains of the features S from their values.

        The gain of a feature is the change of HSIC without it. Each feature is scored by a power
        series of the order that it needs. Returns the gains and the highest order used.
        """
        kernel, m, facts = self._choices.kernel, self._data.n_samples, self._data.facts(S)
        order = int(orders_for(kernel, state.sigma, facts, m).max())
        request = replace(self._forms(state), with_rows=order > LONGEST_LOW_RANK)
        return self._by_values(
            self.sum.gather(state_of, request, concatenate_states), S, aloud=True
        ), order

    def _certify(self, state: Weighed, S: Index, n: int) -> Certificate:
        if n >= S.size:
            return EXACT
        assert self.sum.sampled is not None, "slices have the sample"
        features = self.sum.sampled[state.along.sampled]
        errors = row_errors(state.along, self.sum.block, state.sums, state.lost)
        every, does, order = self._by_numbers(state, S)
        sampled = positions(features, S)
        gains, does = every[sampled], does[sampled]
        if not does.all():
            remaining, which = features[~does], state.along.sampled[~does]
            request = Sampled(self._forms(state), which, self._data.facts(remaining))
            gains[~does] = combine_contributions(
                self.sum.block, request, self.sum.ask(slice_contributions, request)
            )
        n_sampled = n * len(features) / S.size
        sizes = self._data.sizes(features)
        rounded = ROUNDED if order else 0.0
        return certify(errors, gains, n_sampled, self._data.n_samples, sizes, rounded)

    def _placed(
        self, sigma: float, gains: Float, certificate: Certificate, S: Index, n: int
    ) -> tuple[Float, int, Certificate]:
        if not self.sum.chosen.is_everyone:
            return gains, 0, certificate.at_threshold(gains, n, self._data.sizes(S))
        tolerance = self._expected_loss.rate(certificate, S.size, n)
        threshold = Threshold(self._scoring_problem(sigma), self._data, tolerance, S, n)
        gains, band, certificate = threshold.corrected(gains, certificate)
        return gains, band.size, certificate

    def _hsic(self, sigma: float, state: Weighed | None = None) -> float:
        if self.sum.chosen.is_everyone:
            return self._scoring_problem(sigma).hsic
        if state is None:
            return float(sum(self.sum.ask(value, self._fit(sigma)[0])))
        return float(state.sums["hsic"])

    def _replay(self, survivors: Sequence[Index], history: History) -> None:
        n_rows = [int(record["landmarks"]) for record in history]
        last = int(history[-1]["projected"])
        if last:
            at = 1 + next(i for i, S in enumerate(survivors) if S.size == last)
            self.sum.replay_rounds(survivors[:at], n_rows[:at])
            sigma = float(history[at - 1]["sigma"])
            S = survivors[at - 1]
            self._project(self._fit(sigma)[0], S, self._order(sigma, S))
            survivors, n_rows = survivors[at:], n_rows[at:]
            self._keep(survivors[-1] if survivors else S)
        self.sum.replay_rounds(survivors, n_rows)
        self._said = None
