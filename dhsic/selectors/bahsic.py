"""Backward elimination: Algorithm 1, and the linear kernel's one pass, from end to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from dhsic.algorithms import how_many, removed
from dhsic.engines.survival import Survival
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.labels import SELF, LabelMatrix
from dhsic.passes.dependence import SourceDependence
from dhsic.passes.engineplan import EnginePlan
from dhsic.passes.lazy import Lazy
from dhsic.passes.lowrank import LowRankScorer
from dhsic.passes.scorer import AbstractScorer, ExactScorer
from dhsic.passes.sums import SquareSum
from dhsic.selection.run import SelectionRun
from dhsic.selectors.kernel import AbstractElimination


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
            "gaussian", "mixed", "self"} or "precomputed"
        Kernel on the labels: for classes, for real values, for whole numbers that may be either
        (``"mixed"``), or by what they are (``"auto"``). See
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
    standardize : "auto", "presence" or bool
        Scale features to unit standard deviation; they are centred in any case. ``"auto"`` leaves
        dosages (data of nothing but 0, 1, 2 and missing values) as they are, where rare variants
        would drown the others, and scales everything else by ``"presence"``: to unit deviation,
        but features of which more than half of the samples share one value, such as 0, and q differ
        from it, to ``sqrt(4 q (1 - q))``, so that rare words, counts and categories drown nothing
        either. The result says which.
    given_others : "auto" or bool
        Re-rank the last 2,048 features (fewer for many samples) jointly by ridge regression (JMLR
        6.6 with one feature leaving at a time, see `dhsic.algorithms.ridge`): redundant features
        move back, and the first few predict better. Ridge regression sees straight lines, so
        ``"auto"`` keeps the HSIC ranking where its first features explain held-out labels clearly
        better, as where only pairs of features act. ``"auto"`` also tests every feature alone, in
        any shape (columns ``p_marginal`` and ``q_marginal`` of the result), and puts those in
        front that the ranking had missed, such as a parabola or a wave, see
        `dhsic.selection.shapes`. The result says which ranking was taken. False: the order of
        Algorithm 1 as it stands in the paper.
    missing : {"mean", "error"}
        Missing values become the mean of their feature, or are refused.
    stability : int
        How many random halves of the samples to select from besides: what part of them selects a
        feature says how far it can be trusted. Each takes as long as a run over half the samples.
    clump_r2 : float, optional
        Of features whose squared correlation is above this, the best alone stays in front, see
        `dhsic.selection.clumping`: 0.2 for variants in linkage.
    interactions : {"auto", "best", "all"}, optional
        Scan pairs of features too, for what main effects leave of the labels (`dhsic.pairs`).
        Features of significant pairs (family-wise, 0.05) are placed in front of all features that
        have less evidence of their own, and are selected even beyond the number asked for; the
        result has the pairs. ``"auto"``: all pairs if the scan takes less than about a minute of
        one core (76,000 features of 400 samples, 46,000 of 1,000), and pairs of the 256 best
        features by several functions of each, which finds pairs that act like a ring; main effects
        of significant features are taken out in any shape. The choice goes by sizes alone. Nothing
        is scanned with groups, given labels, ``given_others=False``, kernels other than those of a
        width, `control`, or fewer than 50 samples. ``"best"``: pairs of the best features, at most
        two minutes of one core, with main effects of the features selected as straight lines.
        ``"all"``: the same for all pairs, however long it takes. None: no scan. Where many features
        are scanned, the level of significance is carried over from pairs of some of them.
    stability_threshold : float
        Part of the halves, above 0.5, from which on a feature counts as stable. Halves are
        complementary pairs then, and the result bounds how many features are stable falsely: in
        expectation ``expected_false``, and ``expected_false_concave``, which is less, where the
        part of halves has an r-concave distribution (Shah and Samworth, 2013).
    holdout : float or (m,) array, optional
        Select on the other samples, and test on these, which take no part in it, what was selected:
        columns ``p`` and ``q`` of the result, see `dhsic.selection.holdout`. A part of the samples,
        drawn at random (of every class as large a part), such as 0.3; or a mask of them, such as
        whole families or batches, of those that take part or of all.
    control : {"shadow"}, optional
        Select among the features and permuted copies of them, and of those asked for only what is
        discovered at the rate `fdr`: see `dhsic.selection.shadows` for what that promises, and the
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
    scans_pairs = True
    takes_groups = True

    interactions: str | None = "auto"

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
            total, W = SquareSum(data, choices.kernel.sums), run.weights(labels, self.estimator)
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
    scans_pairs = False
    _alone = True
    takes_groups = False

    interactions: str | None = None
    step: None = field(default=None, init=False)
    kernel: str = field(default="linear", init=False)
    bandwidth: str = field(default="dimension", init=False)
    approx: str = field(default="auto", init=False)
    tolerance: float = field(default=0.01, init=False)
    given_others: bool = field(default=False, init=False)
    dtype: str = field(default="float32", init=False)
