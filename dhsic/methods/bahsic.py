"""Methods BAHSIC and LinearHSIC.

BAHSIC is backward elimination by Algorithm 1. LinearHSIC ranks by the linear kernel in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from dhsic.algorithms import how_many, removed
from dhsic.engines.expected_loss import ExpectedLoss
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF, LabelMatrix
from dhsic.methods.kernel import AbstractElimination
from dhsic.passes.dependence import SourceDependence
from dhsic.passes.engineplan import EnginePlan
from dhsic.passes.lowrank import LowRankScorer
from dhsic.passes.score_reuse import ScoreReuse
from dhsic.passes.scorer import AbstractScorer, ExactScorer
from dhsic.passes.sums import SquareSum
from dhsic.selection.run import SelectionRun


@dataclass(eq=False, repr=False, kw_only=True)
class BAHSIC(AbstractElimination):
    """Backward elimination by Algorithm 1, with the parameters of `dhsic.BAHSIC`."""

    _method = "bahsic"
    _draws = True
    scans_pairs = True
    takes_groups = True

    interactions: str | None = "auto"
    balance: bool = False

    def check_samples(self, run: SelectionRun) -> None:
        self._check_statistic(run)
        if self.balance:
            self._check_balance(run)
        if self._always_again and (run.has_feature_groups or self.label_kernel == SELF):
            raise InputError(
                "rerank=True re-ranks single features by how well they explain labels, so it "
                "cannot be used with groups or label_kernel='self'; leave it out."
            )
        if self.label_kernel == SELF and self.solver == "lowrank":
            raise InputError(
                "solver='lowrank' needs a label matrix of low rank, which label_kernel='self' "
                "does not have; leave it out."
            )

    def _check_balance(self, run: SelectionRun) -> None:
        """Reject ``balance=True`` for data of a single matrix, or without the joint re-ranking."""
        if run.feature_blocks is None:
            raise InputError(
                "balance=True gives several matrices the same weight, but the features of X are "
                "one matrix. Pass several matrices, in Python as a dict by name; or leave balance "
                "out."
            )
        if not self.again_from(run):
            raise InputError(
                "balance=True needs the joint re-ranking (rerank), which compares the features of "
                "all matrices on one scale. It is not available with rerank=False, feature_groups, "
                "precomputed labels, label_kernel='self', or kernels without a width. Leave these "
                "out, or leave balance out."
            )

    def engines(self, run: SelectionRun, solver: str) -> EnginePlan:
        if run.groups is not None or self.label_kernel == SELF:
            return EnginePlan(is_low_rank=False, eager=False, may_square=True)
        d = run.source.n_features
        return EnginePlan.of(solver, self._kernel, run.n_samples, d, self.label_kernel)

    def _dependence(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> SourceDependence:
        choices, data, candidates = self._parts(run, budget)
        plan = self.engines(run, self.solver)
        survival = self._expected_loss(run, plan)
        lazy = (
            ScoreReuse(survival) if plan.is_lazy and survival and self.max_expected_loss else None
        )

        def exact() -> ExactScorer:
            total, W = SquareSum(data, choices.kernel.sums), run.weights(labels, self.statistic)
            low_rank = plan.is_low_rank
            return ExactScorer(choices, total, candidates, W, takes_over=low_rank, lazy=lazy)

        scorer: AbstractScorer
        if plan.is_low_rank:
            scorer = LowRankScorer(
                choices,
                data,
                self._factored(run, labels),
                survival,
                may_square=plan.may_square,
                seed=self._seed,
                exact=exact,
                eager=plan.eager,
            )
        else:
            scorer = exact()
        return SourceDependence(choices, data, candidates, scorer, survival, lazy, self._seed)

    def _expected_loss(self, run: SelectionRun, plan: EnginePlan) -> ExpectedLoss | None:
        """Expected loss of approximate rounds; None if all rounds are exact."""
        if not (plan.is_low_rank or plan.is_lazy) or self._kernel.is_additive or self.step is None:
            return None
        n = how_many(self.n_features_to_select, run.n_candidates)
        leaving, exact_from = partial(removed, self.step), plan.exact_from(run.n_samples)
        return ExpectedLoss(n, float(self.max_expected_loss), leaving, exact_from)

    def _check_rounds(self, kernel: AbstractKernel) -> None: ...

    def described(self) -> str:
        if self.step is None:
            return f"{self._kernel.name} kernel in one pass, {self.statistic} HSIC"
        kernel = self._kernel.name
        return f"BAHSIC with the {kernel} kernel, {self.statistic} HSIC, step {self.step:g}"


@dataclass(eq=False, repr=False, kw_only=True)
class LinearHSIC(BAHSIC):
    """Ranking by HSIC with the linear kernel in one pass; parameters as in `dhsic.LinearHSIC`."""

    _draws = False
    scans_pairs = False
    _alone = True
    takes_groups = False

    interactions: str | None = None
    step: None = field(default=None, init=False)
    kernel: str = field(default="linear", init=False)
    bandwidth: str = field(default="dimension", init=False)
    solver: str = field(default="auto", init=False)
    max_expected_loss: float = field(default=0.01, init=False)
    rerank: bool = field(default=False, init=False)
    balance: bool = field(default=False, init=False)
    dtype: str = field(default="float32", init=False)
