"""Backward elimination, for users: Algorithm 1, and the linear kernel's one pass, end to end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from dhsic.algorithms.bahsic import bahsic, one_pass
from dhsic.algorithms.policies import sizes
from dhsic.algorithms.state import SelectionState
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.labels import SELF
from dhsic.memory import MemoryEstimate
from dhsic.passes.dependence import AbstractScorer, ExactScorer, SourceDependence
from dhsic.passes.lowrank import LowRankScorer
from dhsic.passes.planning import EnginePlan
from dhsic.results import Order
from dhsic.selectors.rounds import KernelSelector
from dhsic.selectors.run import SelectionRun


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
            yield from self.algorithm(dependence, state, self.step)
        elif state.survivors.size:
            yield one_pass(dependence, state)

    def _order(self, state: SelectionState) -> Order:
        placed = state.eliminated, state.scores, state.removed_in, state.history
        return Order(*placed, meaning=self._meaning)

    def _warn(self, state: SelectionState) -> None:
        """Warn where low rank was not as good as asked for."""
        errors = [float(record.get("cut_error", 0.0)) for record in state.history]
        above = sum(error > self.tolerance for error in errors)
        if above:
            warnings.warn(
                f"In {above} of {len(errors)} rounds more of the features that left are likely "
                f"the wrong ones than tolerance={self.tolerance:g} allows, by estimate up to "
                f"{max(errors):.2g} (round_cut_error in the result): with so many samples low "
                "rank can do no better. Pass a higher tolerance=, or approx='exact' where the "
                "memory is there.",
                stacklevel=2,
            )


@dataclass(eq=False, repr=False, kw_only=True)
class BAHSIC(AbstractElimination):
    r"""Backward elimination with HSIC (Song et al. 2012, JMLR 13, Algorithm 1).

    Starting from all features, each round removes those without which the rest depends most on
    the labels, until none is left; the last to leave is the best.

    Parameters
    ----------
    n_features_to_select : int, float or None
        How many to select: a count, a fraction of all, or half of them (None). It only cuts the
        ranking, which always covers all features.
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
        (``"auto"``: exact where a round takes seconds and samples are no more than 6,000, with
        kernels and labels that low rank knows); or by the definition (``"direct"``). Low rank
        comes with a certificate in every round, see `tolerance`; ``round_engine`` in the result
        says which it was. The choice goes by sizes alone, and is the same on every machine.
    tolerance : float
        Part of the features leaving in a round that low rank may get wrong. Where its estimated
        error is larger, more of the kernel matrix is computed; the history has the estimate
        (``round_cut_error``). Has no effect on exact rounds.
    standardize : "auto" or bool
        Scale features to unit standard deviation; they are centred in any case. ``"auto"`` leaves
        dosages (data of nothing but 0, 1, 2 and missing values) as they are, where rare variants
        would drown the others, and scales everything else. The result says which.
    missing : {"mean", "error"}
        Missing values become the mean of their feature, or are refused.
    stability : int
        How many random halves of the samples to select from besides: what part of them selects a
        feature says how far it can be trusted. Each takes as long as a run over half the samples.
    checkpoint : path or URL, optional
        Keep the state here after every round; a run that finds it goes on from there. The folder
        that it is in is made where it is not there, if the one above is. A URL of an object
        store, such as ``s3://bucket/run.dhsic``, needs ``dhsic[cloud]``, and keys in the
        environment.
    dtype : {"float32", "float64"}
        Precision of the large matrix products; what stays undecided is computed in float64 anyway.
    progress : "auto", bool or callable
        Progress bar, or a function called with a mapping after every round.
    random_state : int
        Seed of random draws: landmarks and samples of low rank; exact rounds make none.
    runtime : {"auto", "threads", "dask"} or runtime object
        Where tasks run; ``"auto"`` takes the active Dask client if there is one.
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
        if self.label_kernel == SELF and self.approx == "lowrank":
            raise InputError(
                "approx='lowrank' takes labels of few directions, and label_kernel='self' has as "
                "many as samples; leave it out."
            )

    def _labels(self, run: SelectionRun) -> LabelMatrix | None:
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
        scorer: AbstractScorer
        if plan.is_low_rank:
            scorer = LowRankScorer(
                choices,
                data,
                self._factored(run, labels),
                float(self.tolerance),
                may_square=plan.may_square,
                seed=self._seed,
                exact=lambda: run.weights(labels),
                eager=plan.eager,
            )
        else:
            scorer = ExactScorer(choices, data, candidates, run.weights(labels))
        return SourceDependence(choices, data, candidates, scorer)

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
    tolerance: float = field(default=0.02, init=False)
    dtype: str = field(default="float32", init=False)
