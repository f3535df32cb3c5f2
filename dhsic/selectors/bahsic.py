"""Backward elimination: Algorithm 1, and the linear kernel's one pass, from end to end.

What it shares with forward selection stands first: labels give W, a pass gives scaling, and rounds
follow, each of which is kept; which rounds, a subclass says.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dhsic.algorithms import check_step, how_many, removed, sizes
from dhsic.algorithms.bahsic import bahsic, one_pass
from dhsic.algorithms.state import SelectionState
from dhsic.engines.survival import Survival, lost_of
from dhsic.errors import InputError
from dhsic.hsic import check_estimator, checked_factored_weights, checked_weights
from dhsic.kernels import check_approx, check_bandwidth, resolve_kernel
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF, LabelMatrix
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.memory import MemoryEstimate, resident_bytes
from dhsic.passes.candidates import (
    OPEN_GROUPS,
    AbstractCandidates,
    Membership,
    Singles,
)
from dhsic.passes.dependence import AbstractRoundDependence, SourceDependence
from dhsic.passes.engineplan import MOST_SAMPLES, EnginePlan
from dhsic.passes.lazy import Lazy
from dhsic.passes.lowrank import LowRankScorer
from dhsic.passes.reader import AbstractReader
from dhsic.passes.scorer import AbstractScorer, Choices, ExactScorer
from dhsic.passes.sums import SquareSum
from dhsic.results import Order
from dhsic.selectors.base import Selector, scales
from dhsic.selectors.ridge import (
    Reranking,
    bytes_again,
    bytes_read_again,
    most_again,
    ranked_again,
)
from dhsic.selectors.run import SelectionRun
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind
from dhsic.storage.format import FIRST_SCORES
from dhsic.validation import SCALING, by, is_number, one_of, such

APPROX = ("auto", "exact", "lowrank", "direct")

#: Features lost that are worth a warning, in those that the tolerance allows: both are estimates.
MISSED = 1.5

#: What scores of the first round are.
FIRST_MEANING = "score in the first round, of all features alike, unlike those of later rounds"

D = TypeVar("D", bound=AbstractRoundDependence)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelSelector(Selector, Generic[D]):
    """What selectors that score sets of features by a kernel share: Algorithm 1 or 2."""

    #: Whether a round judges every feature alone.
    _alone: ClassVar[bool] = False
    _parameter_constraints: ClassVar = {
        **Selector._parameter_constraints,
        "step": by(check_step),
        "kernel": by(resolve_kernel),
        "bandwidth": by(resolve_bandwidth),
        "approx": one_of(
            APPROX,
            "'auto', 'exact' (the expansion, exact in its result), 'lowrank' (in linear time) or "
            "'direct' (the definition, slow).",
        ),
        "given_others": SCALING,
        "dtype": such(
            lambda dtype: str(dtype) in ("float32", "float64"), "'float32' or 'float64'."
        ),
        "tolerance": such(
            lambda part: is_number(part) and 0 <= part <= 1,
            "the part of the features asked for that low rank may lose, a number from 0 to 1, such "
            "as 0.01.",
        ),
    }
    takes_self: ClassVar[bool] = True
    keeps_features: ClassVar[bool] = True

    step: float | int | None = 0.1
    kernel: Any = "gaussian"
    bandwidth: Any = "dimension"
    label_kernel: str = "auto"
    estimator: str = "unbiased"
    approx: str = "auto"
    tolerance: float = 0.01
    given_others: bool | str = "auto"
    dtype: Any = "float32"

    @abstractmethod
    def engines(self, run: SelectionRun, approx: str) -> EnginePlan:
        """Engines of a run where `approx` is asked for."""

    @abstractmethod
    def _dependence(self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None) -> D:
        """HSIC(sigma, S), by the engines that the parameters ask for; `budget` as of `rank`."""

    @abstractmethod
    def _ahead(self, run: SelectionRun, state: SelectionState) -> list[int]:
        """Candidates of every round that is left."""

    @abstractmethod
    def rounds(
        self, run: SelectionRun, dependence: D, state: SelectionState
    ) -> Iterator[SelectionState]:
        """State after every round that is left."""

    @abstractmethod
    def _order(self, state: SelectionState) -> Order:
        """Order of the candidates."""

    @property
    def _always_again(self) -> bool:
        """Whether the last features are ranked again whatever the labels tell."""
        return not isinstance(self.given_others, str) and bool(self.given_others)

    def again_from(self, run: SelectionRun) -> int:
        """Features left, at most, that are ranked again by ridge regression; 0 for none."""
        if isinstance(self.given_others, str):
            given = self.label_kernel in (SELF, "precomputed") or run.groups is not None
            if given or self.step is None or not self._kernel.has_bandwidth:
                return 0
        return most_again(run.n_samples) if self.given_others else 0

    def _again(
        self, run: SelectionRun, data: AbstractReader, labels: LabelMatrix | None, state: Any
    ) -> Reranking | None:
        """What ranks the last features again, once they are few enough; None where none are."""
        most = self.again_from(run)
        if state.survivors.size > most or labels is None:
            return None
        features = ranked_again(state, most)
        if features.size < 2:
            return None
        W, of_y = (
            checked_factored_weights(each.factor(), "biased", run.covariates)
            for each in (labels, labels.linear)
        )
        found = Reranking.of(data, features, W, of_y, self._seed, always=self._always_again)
        # Dosages keep their scale for kernels of all features alone.
        return found.scaled() if isinstance(self.standardize, str) else found

    @abstractmethod
    def _warn(self, state: SelectionState, run: SelectionRun) -> None:
        """Warn of what the rounds showed."""

    @abstractmethod
    def _check_rounds(self, kernel: AbstractKernel) -> None:
        """Refuse what the rounds of the method cannot be asked for."""

    def _check_together(self) -> None:
        check_bandwidth(self.kernel, self.bandwidth)
        check_approx(self._kernel, self.approx)
        self._check_rounds(self._kernel)

    def identity(self) -> dict[str, Any]:
        return self._identified()

    def scales(self, values: ValueKind) -> bool:
        return scales(self.standardize, values, alone=self._alone)

    def smaller(self, run: SelectionRun) -> str:
        is_low_rank, may_be = (self.engines(run, a).is_low_rank for a in (self.approx, "auto"))
        more = " or approx='lowrank'" if may_be and not is_low_rank else ""
        return f"use fewer samples{more if run.n_samples > MOST_SAMPLES else ''}"

    def rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        dependence = self._dependence(run, labels, budget)
        with closing(dependence), run.journal() as journal:
            scaling = dependence.measure()
            journal.check(scaling, has_bandwidth=self._kernel.has_bandwidth)
            if self.label_kernel == SELF:
                dependence.weigh_itself(
                    lambda L: checked_weights(L, self.estimator, run.covariates)
                )
            state = journal.begin(dependence.candidates, scaling)
            dependence.check_overflow()
            again = self._again(run, dependence.data, labels, state)  # before more is let go
            dependence.resume(state, journal.arrays)
            dependence.data.reporter = journal.progress
            journal.progress.expect(sum(self._ahead(run, state)))
            for state in self.rounds(run, dependence, state):  # noqa: B020  # the next from the last
                kept = dict(dependence.kept())
                if state.round == 1 and dependence.first_scores is not None:
                    kept[FIRST_SCORES] = dependence.first_scores
                journal.note(state, kept)
                again = again or self._again(run, dependence.data, labels, state)
            journal.finish()
        self._warn(state, run)
        order = self._order(state)
        if again is not None:
            order = again.ranked(order, scaling.constant)
        order = order if run.groups is None else run.groups.spread(order, scaling)
        first = journal.arrays.get(FIRST_SCORES, dependence.first_scores)
        if first is None:  # the checkpoint is of a dhsic that kept none
            return order, scaling
        scores = np.full(run.n_candidates, np.nan)
        scores[dependence.candidates] = first
        scores = scores if run.groups is None else scores[run.groups.codes]
        column = np.where(scaling.constant, np.nan, scores), FIRST_MEANING
        return replace(order, extra={**order.extra, "score_first_round": column}), scaling

    @property
    def _kernel(self) -> AbstractKernel:
        return resolve_kernel(self.kernel)

    def _check_estimator(self, run: SelectionRun) -> None:
        """Refuse fewer samples than the estimator takes, and what groups are not for."""
        check_estimator(self.estimator, run.n_samples)
        if run.groups is None:
            return
        if self._kernel.scored_by == "matrix":
            raise InputError(
                f"The {self._kernel.name} kernel and groups: its matrix is no function of the "
                "parts that groups are. Take another kernel, or leave the groups out."
            )
        if self.approx == "lowrank":
            raise InputError(
                "approx='lowrank' scores single features, and groups were given; leave it out."
            )

    def _fitted(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        """Memory as of `fitted`, with the statistics of the groups that are under way."""
        m, plan = run.n_samples, self.engines(run, self.approx)
        n, limit = min(self.again_from(run), run.source.n_features), self.memory
        again = bytes_again(n, m)
        if n:
            limit = MemoryEstimate(resident_bytes()).allowed(limit) - again
        needed, budget = plan.memory(run.source, run.runtime, self._kernel, m, limit)
        n_open = 0 if run.groups is None else (OPEN_GROUPS + 4) * run.runtime.n_here
        tasks = max(needed.tasks + n_open * 8 * m * m, bytes_read_again(n, m, run.source))
        return replace(needed, tasks=tasks, vectors=needed.vectors + again), budget

    def _parts(
        self, run: SelectionRun, budget: int | None
    ) -> tuple[Choices, AbstractReader, AbstractCandidates]:
        """What does not change during a run, what reads the features, and what is ranked."""
        choices = Choices(
            self._kernel,
            resolve_bandwidth(self.bandwidth),
            run.standardizes,
            np.dtype(str(self.dtype)),
            self.approx == "direct",
        )
        data = run.reader(budget)
        return choices, data, Singles() if run.groups is None else Membership(run.groups.codes)

    def _factored(self, run: SelectionRun, labels: LabelMatrix | None) -> LowRankSymmetric:
        """W of low rank."""
        assert labels is not None, "data that are their own labels are scored exactly"
        return checked_factored_weights(labels.factor(), self.estimator, run.covariates)


@dataclass(eq=False, repr=False, kw_only=True)
class AbstractElimination(KernelSelector[SourceDependence]):
    """A selector by Algorithm 1: rounds until no feature is left."""

    #: What scores are, where not falls of HSIC.
    _meaning: ClassVar[str] = ""
    #: Which features leave in which round.
    algorithm: ClassVar[Callable[..., Iterator[SelectionState]]] = staticmethod(bahsic)

    def fitted(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        return self._fitted(run)

    def _ahead(self, run: SelectionRun, state: SelectionState) -> list[int]:
        n = state.survivors.size
        return [n] if self.step is None else sizes(self.step, n)

    def rounds(
        self, run: SelectionRun, dependence: SourceDependence, state: SelectionState
    ) -> Iterator[SelectionState]:
        """The algorithm, or all features at once."""
        if self.step is not None:
            return self.algorithm(dependence, state, self.step)
        return iter([one_pass(dependence, state)] if state.survivors.size else [])

    def _order(self, state: SelectionState) -> Order:
        placed = state.eliminated, state.scores, state.removed_in, state.history
        return Order(*placed, meaning=self._meaning)

    def _warn(self, state: SelectionState, run: SelectionRun) -> None:
        """Warn where approximate rounds lost more than they may."""
        n = how_many(self.n_features_to_select, run.n_candidates)
        lost = lost_of(state.history, n)
        if lost <= MISSED * self.tolerance * n:
            return
        many = run.n_samples > MOST_SAMPLES
        why = "low rank can do no better with so many samples" if many else "not as foreseen"
        warnings.warn(
            f"Approximate rounds may have cost {lost:.2g} of the {n} features asked for, by "
            f"estimate (expected_lost in the result), and tolerance={self.tolerance:g} allows "
            f"{self.tolerance * n:.2g}: {why}. Pass a higher tolerance=, or approx='exact' where "
            "the memory is there.",
            stacklevel=2,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class BAHSIC(AbstractElimination):
    r"""Backward elimination with HSIC (Song et al. 2012, JMLR 13, Algorithm 1).

    Starting from all features, each round removes those without which the rest depends most on
    the labels, until none is left; the last to leave is the best.

    Parameters
    ----------
    n_features_to_select : int, float, "auto" or None
        How many to select: a count, a fraction of all, half of them (None), or as many as
        cross-validation chooses, see `BAHSICCV` (``"auto"``). It only cuts the ranking, which
        always covers all features.
    step : float or int
        Removed per round: a fraction of the features left, or a count.
    kernel : {"gaussian", "linear", "polynomial", "laplace", "laplace-l1", "rational", \
            "inverse-distance", "ridge", "delta"} or kernel object
        Kernel on the data; ``"polynomial"`` is ``(<x, x'> + 1)^2``.
    bandwidth : "dimension", "median", float or sequence of floats
        Sigma of ``exp(-sigma ||x - x'||^2)``: ``1/(2|S|)`` for |S| features left, the median
        rule, a fixed number, or the one of a grid that maximises HSIC (JMLR 4.1). Kernels that
        have no width refuse any but the default.
    label_kernel : {"auto", "binary", "balanced", "multiclass", "one-vs-rest", "linear", \
            "gaussian", "self"} or "precomputed"
        Kernel on the labels: for classes, for real values, or by what they are (``"auto"``). See
        `dhsic.kernels.labels.label_matrix`.
    estimator : {"unbiased", "biased"}
        HSIC without bias (JMLR eq. 5) or with it (eq. 4).
    approx : {"auto", "exact", "lowrank", "direct"}
        How candidates are scored: by the kernel's expansion, exact in its result (``"exact"``);
        in linear time, by low-rank factors (``"lowrank"``); the one or the other by their cost
        (``"auto"``: by the expansion where a round takes seconds and samples are no more than
        6,000, with kernels and labels that low rank knows; while more than 1,024 features are
        left, rounds with the Gaussian kernel may keep scores of earlier ones, moved to first
        order, and score exactly next to the cut); or by the definition (``"direct"``). Low rank
        and scores that are kept come with an estimate of what they cost, see `tolerance`;
        ``round_engine`` in the result says which it was. The choice goes by sizes alone, and is
        the same on every machine.
    tolerance : float
        Part of the features asked for that low rank, or scores that are kept, may lose: 0.01 is
        one of a hundred, 0 keeps no scores. A feature
        that leaves by mistake costs nothing where it would have left soon anyway, so early rounds
        may be rough; where more would be lost by estimate, more of the kernel matrix is computed.
        The result has the estimate, ``expected_lost``, which is no bound (see `dhsic.results`).
        Has no effect on exact rounds.
    standardize : "auto" or bool
        Scale features to unit standard deviation; they are centred in any case. ``"auto"`` leaves
        dosages (data of nothing but 0, 1, 2 and missing values) as they are, where rare variants
        would drown the others, and scales everything else. The result says which.
    given_others : "auto" or bool
        Rank the last 2,048 features (fewer of many samples) again by ridge regression, each given
        the others (JMLR 6.6 with one feature leaving at a time, see `dhsic.algorithms.ridge`): of
        features that say the same few stay in front, and as many predict better. Ridge
        regression sees straight lines, so ``"auto"`` keeps the order of HSIC where its first
        features explain labels that are left out clearly better, as where only pairs tell
        anything. The result says which. False: the order of Algorithm 1 as it stands in the paper.
    missing : {"mean", "error"}
        Missing values become the mean of their feature, or are refused.
    stability : int
        How many random halves of the samples to select from besides: what part of them selects a
        feature says how far it can be trusted. Each takes as long as a run over half the samples.
    clump_r2 : float, optional
        Of features whose squared correlation is above this, the best alone stays in front, see
        `dhsic.selectors.clumping`: 0.2 for variants in linkage.
    interactions : {"auto", "all"}, optional
        Look at pairs of features too, for what the main effects of those selected leave of the
        labels, see `dhsic.pairs`: features of significant pairs (family-wise, 0.05) join the
        selection, more than were asked for, and the result has the pairs. ``"all"`` looks at all
        pairs; ``"auto"`` at those of the best features where all are more than a minute or two of
        a core: 63,000 features of 1,000 samples.
    stability_threshold : float
        Part of the halves, above 0.5, from which on a feature counts as stable. Halves are
        complementary pairs then, and the result bounds how many features are stable falsely: in
        expectation ``expected_false``, and ``expected_false_concave``, which is less, where the
        part of halves has an r-concave distribution (Shah and Samworth, 2013).
    holdout : float or (m,) array, optional
        Select on the other samples, and test on these, which take no part in it, what was selected:
        columns ``p`` and ``q`` of the result, see `dhsic.selectors.holdout`. A part of the samples,
        drawn at random (of every class as large a part), such as 0.3; or a mask of them, such as
        whole families or batches, of those that take part or of all.
    control : {"shadow"}, optional
        Select among the features and permuted copies of them, and of those asked for only what is
        discovered at the rate `fdr`: see `dhsic.selectors.shadows` for what that promises, and the
        columns ``fdr`` and ``shadows_above`` of the result. There are ``1 / fdr + 1`` copies, and
        it takes so many times as long.
    fdr : float
        Part of the features discovered that may be false, with `control`.
    checkpoint : path or URL, optional
        Keep the state here after every round; a run that finds it goes on from there. The folder
        that it is in is made where it is not there, if the one above is. A URL of an object
        store, such as ``s3://bucket/run.dhsic``, needs ``dhsic[cloud]``, and keys in the
        environment.
    dtype : {"float32", "float64"}
        Precision of the large matrix products; what stays undecided is computed in float64 anyway.
    progress : "auto", bool or callable
        Progress bar, or a function called with a mapping after every round.
    verbose : int
        1 tells of every round in a line on standard error, 2 of more; both as the log of `dhsic`.
    random_state : int
        Seed of random draws: landmarks and samples of low rank; exact rounds make none.
    runtime : {"auto", "threads", "dask"} or runtime object
        Where tasks run; ``"auto"`` takes the active Dask client if there is one.
    n_jobs : int, optional
        Threads of a run in this process, -1 for all cores. By default all cores as well, but 1
        inside a worker of joblib (``n_jobs=`` of `GridSearchCV`), which has one of its own. The
        result is the same with any number.
    memory : int, optional
        Most bytes the run may promise to need; what the machine has by default.

    Attributes
    ----------
    ranking_ : (d,) int
        1 is the best; a permutation of 1..d.
    support_ : (d,) bool
        The selected features.
    scores_ : (d,) float
        By how much HSIC falls without the feature, in the round it left; NaN where constant.
        Comparable within a round.
    stability_ : (d,) float
        Part of the halves that select the feature; only with `stability`.
    result_ : xarray.Dataset
        All of this with the history of rounds; see `dhsic.results`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 30))
    >>> y = (X[:, 3] * X[:, 7] > 0).astype(int)   # neither feature tells anything alone
    >>> model = dhsic.BAHSIC(n_features_to_select=2, kernel="polynomial").fit(X, y)
    >>> model.get_support(indices=True).tolist()
    [3, 7]
    """

    _method = "bahsic"
    _draws = True
    takes_groups = True

    def check_samples(self, run: SelectionRun) -> None:
        self._check_estimator(run)
        if self._always_again and (run.groups is not None or self.label_kernel == SELF):
            raise InputError(
                "given_others=True ranks single features again by how they explain labels, and "
                "there are groups, or label_kernel='self'; leave it out."
            )
        if self.label_kernel == SELF and self.approx == "lowrank":
            raise InputError(
                "approx='lowrank' takes labels of few directions, and label_kernel='self' has as "
                "many as samples; leave it out."
            )

    def labels(self, run: SelectionRun) -> LabelMatrix | None:
        return run.labels_by_kernel()

    def engines(self, run: SelectionRun, approx: str) -> EnginePlan:
        if run.groups is not None or self.label_kernel == SELF:
            return EnginePlan(is_low_rank=False, eager=False, may_square=True)
        d = run.source.n_features
        return EnginePlan.of(approx, self._kernel, run.n_samples, d, self.label_kernel)

    def _dependence(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> SourceDependence:
        choices, data, candidates = self._parts(run, budget)
        plan = self.engines(run, self.approx)
        survival = self._survival(run, plan)
        lazy = Lazy(survival) if plan.is_lazy and survival and self.tolerance else None

        def exact() -> ExactScorer:
            total, W = SquareSum(data, choices.kernel.sums), run.weights(labels)
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

    def _survival(self, run: SelectionRun, plan: EnginePlan) -> Survival | None:
        """What approximate rounds lose; None where there are none."""
        if not (plan.is_low_rank or plan.is_lazy) or self._kernel.is_additive or self.step is None:
            return None
        n = how_many(self.n_features_to_select, run.n_candidates)
        leaving, exact_from = partial(removed, self.step), plan.exact_from(run.n_samples)
        return Survival(n, float(self.tolerance), leaving, exact_from)

    def _check_rounds(self, kernel: AbstractKernel) -> None: ...

    def described(self) -> str:
        if self.step is None:
            return f"{self._kernel.name} kernel in one pass, {self.estimator} HSIC"
        kernel = self._kernel.name
        return f"BAHSIC with the {kernel} kernel, {self.estimator} HSIC, step {self.step:g}"


@dataclass(eq=False, repr=False, kw_only=True)
class LinearHSIC(BAHSIC):
    """Ranking by the linear kernel's HSIC, one pass over the data (JMLR 5.1.1).

    ``score_j = x_j' W x_j``: backward and forward selection with the linear kernel agree and
    need no loop. Parameters as of `BAHSIC`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((100, 20))
    >>> dhsic.LinearHSIC(1).fit(X, X[:, 4] > 0).get_support(indices=True).tolist()
    [4]
    """

    _draws = False
    _alone = True
    takes_groups = False

    step: None = field(default=None, init=False)
    kernel: str = field(default="linear", init=False)
    bandwidth: str = field(default="dimension", init=False)
    approx: str = field(default="auto", init=False)
    tolerance: float = field(default=0.01, init=False)
    given_others: bool = field(default=False, init=False)
    dtype: str = field(default="float32", init=False)
