"""Base classes of selectors that score sets of features by a kernel, forward and backward.

The label weights W (m, m) are computed from the labels, and a pass over the data determines the
scaling of the features. Then the rounds follow, which a subclass defines. Each round is saved in
the checkpoint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dhsic.algorithms import check_step, how_many, sizes
from dhsic.algorithms.bahsic import bahsic, one_pass
from dhsic.algorithms.state import SelectionState
from dhsic.engines.expected_loss import lost_of
from dhsic.errors import InputError, warn
from dhsic.hsic import check_statistic, checked_factored_weights, checked_weights
from dhsic.kernels import check_bandwidth, check_solver, resolve_kernel
from dhsic.kernels.bandwidth import Median, resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF, LabelMatrix
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.memory import MemoryEstimate, resident_bytes, task_bytes
from dhsic.methods.base import Selector
from dhsic.passes.candidates import OPEN_GROUPS, AbstractCandidates, Membership, Singles
from dhsic.passes.dependence import AbstractRoundDependence, SourceDependence
from dhsic.passes.engineplan import MOST_SAMPLES, EnginePlan
from dhsic.passes.jobs import block_bytes
from dhsic.passes.reader import AbstractReader
from dhsic.passes.scorer import Choices
from dhsic.results.schema import Order
from dhsic.selection.cross_validation import Validation
from dhsic.selection.marginal import (
    MANY_SAMPLES,
    MOST_TESTED,
    WITH_WEIGHTS,
    MarginalTest,
    marginal_bytes,
    marginal_judge,
    marginal_test,
)
from dhsic.selection.progress import recording
from dhsic.selection.rerank import (
    Reranking,
    RerankingTarget,
    bytes_again,
    bytes_read_again,
    compared_samples,
    most_again,
    ranked_again,
)
from dhsic.selection.run import SelectionRun
from dhsic.selection.shapes import front_bytes, with_shapes
from dhsic.sources.scaling import Scaling
from dhsic.storage.format import FIRST_SCORES
from dhsic.validation import SCALING, by, is_number, one_of, such

SOLVERS = ("auto", "exact", "lowrank", "direct")

#: Remedies for parameters that do not support sample weights and that cannot just be left out.
REMEDIES = {
    "label_kernel": "Pass labels and another label kernel, or leave out the weights.",
    "n_features_to_select": "Pass a number of features, or leave out the weights.",
}

#: Ratio of the expected loss to the allowed loss (`max_expected_loss`) above which a run warns.
MISSED = 1.5

#: Description of the scores of the first round.
FIRST_MEANING = "score in the first round; unlike later scores, comparable between all features"

D = TypeVar("D", bound=AbstractRoundDependence)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelSelector(Selector, Generic[D]):
    """Base class of selectors that score sets of features by a kernel, by Algorithm 1 or 2."""

    _parameter_constraints: ClassVar = {
        **Selector._parameter_constraints,
        "step": by(check_step),
        "kernel": by(resolve_kernel),
        "bandwidth": by(resolve_bandwidth),
        "solver": one_of(
            SOLVERS,
            "'auto', 'exact' (an expansion, with exact results), 'lowrank' (linear time) or "
            "'direct' (by the definition, slow).",
        ),
        "rerank": SCALING,
        "dtype": such(
            lambda dtype: str(dtype) in ("float32", "float64"), "'float32' or 'float64'."
        ),
        "max_expected_loss": such(
            lambda part: is_number(part) and 0 <= part <= 1,
            "the fraction of the selected features that low rank may lose, from 0 to 1, such as "
            "0.01.",
        ),
    }
    takes_self: ClassVar[bool] = True
    keeps_features: ClassVar[bool] = True

    step: float | int | None = 0.1
    kernel: Any = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    statistic: str = "unbiased"
    solver: str = "auto"
    max_expected_loss: float = 0.01
    balance: bool = field(default=False, init=False)
    rerank: bool | str = "auto"
    dtype: Any = "float32"

    def check_blocks(self, options: str) -> None:
        """Accept blocks of samples, because the marginal test of every feature supports them."""

    def check_weights(self) -> None:
        """Reject sample weights if the parameters of the method do not support them."""
        if self._kernel.scored_by == "matrix":
            super().check_weights()
        refused: dict[str, bool] = {
            "rerank": self._always_again,
            "bandwidth": isinstance(resolve_bandwidth(self.bandwidth), Median),
            "label_kernel": self.label_kernel == SELF,
            "interactions": self.interactions not in (None, "auto"),
            **{
                name: getattr(self, name) is not None for name in ("holdout", "control", "clump_r2")
            },
            "n_features_to_select": Validation.of(self.n_features_to_select) is not None,
        }
        for name in (name for name, is_refused in refused.items() if is_refused):
            remedy = REMEDIES.get(name, f"Leave out {name}=, or the weights.")
            raise InputError(
                f"{name}={getattr(self, name)!r} does not support sample_weight (CLI: --weights). "
                f"{remedy}"
            )

    @abstractmethod
    def engines(self, run: SelectionRun, solver: str) -> EnginePlan:
        """Scoring engines of a run for a value of `solver`."""

    @abstractmethod
    def _dependence(self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None) -> D:
        """Create the object that computes HSIC of a set of features; `budget` is as in `rank`."""

    @abstractmethod
    def _ahead(self, run: SelectionRun, state: SelectionState) -> list[int]:
        """Number of candidates that are scored in each remaining round."""

    @abstractmethod
    def rounds(
        self, run: SelectionRun, dependence: D, state: SelectionState
    ) -> Iterator[SelectionState]:
        """Yield the state after every remaining round."""

    @abstractmethod
    def _order(self, state: SelectionState) -> Order:
        """Order of the candidates after the last round."""

    @property
    def _always_again(self) -> bool:
        """Whether ``rerank=True``: the ridge order is used even if it explains the labels worse."""
        return not isinstance(self.rerank, str) and bool(self.rerank)

    def again_from(self, run: SelectionRun) -> int:
        """Maximum number of candidates that ridge regression re-ranks; 0 without re-ranking."""
        if run.sample_weight is not None:
            return 0
        if isinstance(self.rerank, str):
            is_excluded = self.label_kernel in (SELF, "precomputed") or run.has_feature_groups
            if is_excluded or self.step is None or not self._kernel.has_bandwidth:
                return 0
        if not self.rerank:
            return 0
        most = most_again(run.n_samples)  # features
        return most if run.table is None else most * run.n_candidates // run.source.n_features

    def tests_features(self, run: SelectionRun) -> bool:
        """Whether every feature is also tested alone, so that missed features move to the front."""
        is_wanted = not self._always_again and self.again_from(run) > 0
        return is_wanted and run.n_samples <= MOST_TESTED

    def _target(
        self, run: SelectionRun, data: AbstractReader, labels: LabelMatrix | None
    ) -> RerankingTarget | None:
        """Labels for the joint re-ranking of the last features; None without re-ranking.

        It is decided before elimination whether the labels are classes or numbers.
        """
        if not self.again_from(run) or labels is None or data.alive.size < 2:
            return None
        return RerankingTarget.of(data, labels, run.covariates, self._seed)

    def _again(
        self,
        run: SelectionRun,
        data: AbstractReader,
        state: Any,
        target: RerankingTarget | None,
    ) -> Reranking | None:
        """Inputs of the joint re-ranking; None until few enough features remain.

        They are read only once.
        """
        most = self.again_from(run)
        if state.survivors.size > most or target is None:
            return None
        candidates = ranked_again(state, most)
        if candidates.size < 2:
            return None
        features, members = candidates, None
        if run.groups is not None:
            features = np.flatnonzero(np.isin(run.groups.codes, candidates) & data.is_alive)
            members = run.groups.codes[features]
        W = checked_factored_weights(target.labels.factor(), "biased", run.covariates)
        _, of_y, noise = target
        always = self._always_again or self.balance
        inputs = Reranking.of(data, features, W, of_y, self._seed, noise=noise, always=always)
        if members is not None:
            return replace(inputs, members=members)
        # Dosages are unscaled, and blocks weighted, only in kernels of all features.
        is_left = isinstance(self.standardize, str) and not run.standardizes
        return inputs.scaled() if is_left or run.block_scaling is not None else inputs

    def _marginal(
        self, run: SelectionRun, data: AbstractReader, target: object | None
    ) -> MarginalTest | str | None:
        """Test every feature alone before any is eliminated.

        Returns the test, or a message if the test is not possible. The result is None if the method
        does not request the test.
        """
        if run.sample_weight is not None and isinstance(self.rerank, str):
            return WITH_WEIGHTS
        if target is None or self._always_again:
            return None
        if not self.tests_features(run):
            return MANY_SAMPLES
        return marginal_test(run, data)

    @abstractmethod
    def _warn(self, state: SelectionState, run: SelectionRun) -> None:
        """Warn if the rounds were not accurate enough, according to their records."""

    @abstractmethod
    def _check_rounds(self, kernel: AbstractKernel) -> None:
        """Reject parameters that are not supported in the rounds of the method."""

    def _check_together(self) -> None:
        check_bandwidth(self.kernel, self.bandwidth)
        check_solver(self._kernel, self.solver)
        self._check_rounds(self._kernel)

    def smaller(self, run: SelectionRun) -> str:
        is_low_rank, may_be = (self.engines(run, a).is_low_rank for a in (self.solver, "auto"))
        more = " or solver='lowrank'" if may_be and not is_low_rank else ""
        return f"use fewer samples{more if run.n_samples > MOST_SAMPLES else ''}"

    def rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        dependence = self._dependence(run, labels, budget)
        with closing(dependence), recording(run) as recorder:
            scaling = dependence.measure()
            recorder.check(scaling, has_bandwidth=self._kernel.has_bandwidth)
            if self.label_kernel == SELF:
                dependence.weigh_itself(
                    lambda L: checked_weights(L, self.statistic, run.covariates)
                )
            state = recorder.begin(dependence.candidates, scaling)
            dependence.check_overflow()
            target = self._target(run, dependence.data, labels)
            marginal = self._marginal(run, dependence.data, target)
            again = self._again(run, dependence.data, state, target)  # before more are eliminated
            dependence.resume(state, recorder.arrays)
            dependence.data.reporter = recorder.progress
            recorder.progress.expect(sum(self._ahead(run, state)))
            for state in self.rounds(run, dependence, state):  # noqa: B020  # the next from the last
                arrays = dict(dependence.resume_arrays())
                if state.round == 1 and dependence.first_scores is not None:
                    arrays[FIRST_SCORES] = dependence.first_scores
                recorder.note(state, arrays)
                again = again or self._again(run, dependence.data, state, target)
            recorder.finish()
        self._warn(state, run)
        order = self._order(state)
        if again is not None:
            is_candidate = np.zeros(run.n_candidates, dtype=bool)
            is_candidate[dependence.candidates] = True
            order = again.ranked(order, ~is_candidate)
            if isinstance(marginal, MarginalTest) and run.blocks is None and run.table is None:
                assert run.later is not None, (
                    "a reader for later passes exists once features are ranked"
                )
                samples, data = (
                    compared_samples(run.n_samples, self._seed),
                    run.later.with_scaling(scaling),
                )
                order = with_shapes(order, marginal, again, data, samples)
        if marginal is not None:
            order = _with_marginal(order, marginal)
        order = order if run.groups is None else run.groups.expand_order(order, scaling)
        first = recorder.arrays.get(FIRST_SCORES, dependence.first_scores)
        if first is None:  # checkpoint of an older dhsic version
            return order, scaling
        scores = np.full(run.n_candidates, np.nan)
        scores[dependence.candidates] = first
        scores = scores if run.groups is None else scores[run.groups.codes]
        column = np.where(scaling.constant, np.nan, scores), FIRST_MEANING
        return replace(order, extra={**order.extra, "score_first_round": column}), scaling

    @property
    def _kernel(self) -> AbstractKernel:
        return resolve_kernel(self.kernel)

    def _check_statistic(self, run: SelectionRun) -> None:
        """Reject too few samples for the estimator, and options that do not support groups."""
        check_statistic(self.statistic, run.n_samples)
        if run.groups is None:
            return
        if self._kernel.scored_by == "matrix":
            raise InputError(
                f"The {self._kernel.name} kernel does not support groups, because its matrix "
                "cannot be computed from the groups. Pass another kernel, or no groups."
            )
        if self.solver == "lowrank":
            raise InputError(
                "solver='lowrank' scores single features, so it does not support groups. Leave "
                "solver= out, or the groups."
            )

    def memory_estimate(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        m, plan, d = run.n_samples, self.engines(run, self.solver), run.source.n_features
        n = -(-min(self.again_from(run), run.n_candidates) * d // run.n_candidates)  # features
        again = bytes_again(n, m) + (marginal_bytes(run) if self.tests_features(run) else 0)
        # statistics of groups in progress
        n_open = 0 if run.groups is None else (OPEN_GROUPS + 4) * run.runtime.n_here
        of_groups = 8 * m * m * n_open
        tasks = bytes_read_again(n, m, run.source)
        if self.tests_features(run):
            tile = marginal_judge(run).cost(m).tile
            tested = task_bytes(run.runtime.n_here, block_bytes(run.source, m), tile)["tasks"]
            tasks = max(tasks, tested, front_bytes(d, m))

        def fitted(reserved: int) -> tuple[MemoryEstimate, int | None]:
            """Estimate the memory of the rounds, and the size of the feature cache.

            `reserved` bytes of the memory limit are left for other steps.
            """
            limit = MemoryEstimate(resident_bytes()).allowed(self.memory_limit) - reserved
            return plan.memory(run.source, run.runtime, self._kernel, m, limit)

        of_rounds = fitted(again)[0].tasks  # independent of what is reserved
        tasks = max(tasks, of_rounds + of_groups)
        needed, budget = fitted(again + tasks - of_rounds)
        return replace(needed, tasks=tasks, vectors=needed.vectors + again), budget

    def _parts(
        self, run: SelectionRun, budget: int | None
    ) -> tuple[Choices, AbstractReader, AbstractCandidates]:
        """Settings that all rounds of a run share, a reader of its features, and its candidates."""
        choices = Choices(
            self._kernel,
            resolve_bandwidth(self.bandwidth),
            run.standardizes,
            np.dtype(str(self.dtype)),
            self.solver == "direct",
        )
        data = run.reader(budget)
        if run.groups is None:
            return choices, data, Singles()
        return choices, data, Membership(run.groups.codes, as_one=run.groups.are_columns)

    def _factored(self, run: SelectionRun, labels: LabelMatrix | None) -> LowRankSymmetric:
        assert labels is not None, "data that are their own labels are scored exactly"
        return checked_factored_weights(labels.factor(), self.statistic, run.covariates, run.p)


def _with_marginal(order: Order, marginal: MarginalTest | str) -> Order:
    """Add the columns of the marginal test, or the reason why there is no test, to the order."""
    if isinstance(marginal, str):
        return order.at(slice(None), {"marginal_test_skipped": marginal})
    columns = marginal.columns()
    return order.at(slice(None), None, **columns)


@dataclass(eq=False, repr=False, kw_only=True)
class AbstractElimination(KernelSelector[SourceDependence]):
    """Base class of selectors by Algorithm 1; their rounds end when no feature is left."""

    #: Description of the scores, if they are not decreases of HSIC.
    _meaning: ClassVar[str] = ""
    #: Algorithm that decides which features are removed in which round.
    algorithm: ClassVar[Callable[..., Iterator[SelectionState]]] = staticmethod(bahsic)

    def _ahead(self, run: SelectionRun, state: SelectionState) -> list[int]:
        n = state.survivors.size
        return [n] if self.step is None else sizes(self.step, n)

    def rounds(
        self, run: SelectionRun, dependence: SourceDependence, state: SelectionState
    ) -> Iterator[SelectionState]:
        if self.step is not None:
            return self.algorithm(dependence, state, self.step)
        return iter([one_pass(dependence, state)] if state.survivors.size else [])

    def _order(self, state: SelectionState) -> Order:
        placed = state.eliminated, state.scores, state.removed_in, state.history
        return Order(*placed, meaning=self._meaning)

    def _warn(self, state: SelectionState, run: SelectionRun) -> None:
        n = how_many(self.n_features_to_select, run.n_candidates)
        lost = lost_of(state.history, n)
        if lost <= MISSED * self.max_expected_loss * n:
            return
        many = run.n_samples > MOST_SAMPLES
        why = (
            "the rank cannot be increased with this many samples"
            if many
            else "the error was larger than predicted"
        )
        warn(
            f"Approximate rounds are expected to have lost {lost:.2g} of the {n} best features "
            f"(expected_lost in the result); max_expected_loss={self.max_expected_loss:g} allows "
            f"{self.max_expected_loss * n:.2g}. Reason: {why}. Pass a larger max_expected_loss=, "
            "or solver='exact' if there is enough memory.",
        )
