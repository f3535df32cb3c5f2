"""Forward selection, for users.

Forward selection from end to end: rounds of Algorithm 2 until enough features are chosen.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dhsic.algorithms.floating import floating
from dhsic.algorithms.fohsic import added, fohsic
from dhsic.algorithms.policies import how_many
from dhsic.algorithms.state import SelectionState
from dhsic.engines.compact import PRODUCTS
from dhsic.errors import InputError
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.label_kernels import LabelMatrix
from dhsic.kernels.labels import SELF
from dhsic.kernels.ridge import AbstractMatrixFunction
from dhsic.kernels.table import resolve_kernel
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.memory import Promise
from dhsic.passes.forward import SourceForward
from dhsic.passes.lowrank import MOST_SAMPLES
from dhsic.passes.planning import EnginePlan, memory_of
from dhsic.results import Order
from dhsic.selectors.rounds import AbstractRounds, KernelSelector
from dhsic.selectors.run import factored_of

#: Part of the choices, on average over rounds, that low rank may likely get wrong unsaid.
DOUBTFUL = 0.1
#: Square matrices that compressing A of low rank takes.
SQUARES = 6


@dataclass(frozen=True)
class Forward(AbstractRounds[SourceForward]):
    """A run of Algorithm 2."""

    parameters: FOHSIC

    def check_samples(self, m: int) -> None:
        self._check_rounds(m)
        if self.groups is not None and self.parameters.strategy != "forward":
            raise InputError(
                f"strategy={self.parameters.strategy!r} takes single features back, and groups "
                "were given; leave it out."
            )

    def labels(self) -> LabelMatrix | None:
        return self._labels_by_kernel()

    @property
    def smaller(self) -> str:
        return "use fewer samples"

    def fitted(self, m: int) -> tuple[Promise, int | None]:
        kernel = resolve_kernel(self.parameters.kernel)
        plan = EnginePlan(
            begins_thin=self._is_thin(m), eager=False, may_square=not self._is_thin(m)
        )
        needed, budget = memory_of(plan, self.source, self.runtime, kernel, m, self.memory)
        if self._is_thin(m):
            landmarks = needed.landmarks + SQUARES * 8 * PRODUCTS**2
            return replace(needed, landmarks=landmarks), budget
        if self.parameters.strategy == "forward":
            return self.with_groups(needed, m), budget
        survivors = needed.survivors + 2 * 8 * m * self._n_wanted
        return replace(needed, survivors=survivors), budget

    @property
    def _n_wanted(self) -> int:
        return how_many(self.parameters.n_features_to_select, self.n_candidates)

    def _is_thin(self, m: int) -> bool:
        """Low rank where it is asked for, or where m x m matrices would be too large."""
        asked = self.parameters
        kernel = resolve_kernel(asked.kernel)
        able = (
            kernel.low_rank
            and kernel.is_product
            and asked.strategy == "forward"
            and asked.label_kernel not in (SELF, "precomputed")
            and self.groups is None
        )
        return asked.approx == "lowrank" or (asked.approx == "auto" and able and m > MOST_SAMPLES)

    def dependence(self, labels: LabelMatrix | None, budget: int | None) -> SourceForward:
        """HSIC(sigma, S-dagger + {j}), from the whole kernel matrix or in low rank."""
        W = self._factored(labels) if self._is_thin(self.n_samples) else self.weights(labels)
        seed = self.parameters._seed
        return SourceForward(self.choices(), self.data(budget), self.candidates(), W, seed)

    def _factored(self, labels: LabelMatrix | None) -> LowRankSymmetric:
        assert labels is not None, "low rank has labels"
        return factored_of(labels, self.parameters.estimator, self.covariates)

    def ahead(self, state: SelectionState) -> list[int]:
        n, n_missing = state.survivors.size, self._n_wanted - state.eliminated.size
        out = []
        while n > 0:
            out.append(n)
            taken = added(self.parameters.step, n, n_missing)
            n, n_missing = n - taken, n_missing - taken
        return out

    def rounds(self, dependence: SourceForward, state: SelectionState) -> Iterator[SelectionState]:
        """Algorithm 2, or its floating form."""
        if self.parameters.strategy == "floating":
            return floating(dependence, state, self._n_wanted)
        return fohsic(dependence, state, self.parameters.step, self._n_wanted)

    def order(self, state: SelectionState) -> Order:
        """The order of joining, turned."""
        worst_first = slice(None, None, -1)
        return Order(
            state.eliminated[worst_first],
            state.scores[worst_first],
            state.removed_in[worst_first],
            state.history,
            placed="added",
        )

    def tell(self, state: SelectionState) -> None:
        """Warn where low rank was not sure of its choices."""
        errors = [float(record.get("cut_error", 0.0)) for record in state.history[:-1]]
        if errors and sum(errors) > DOUBTFUL * len(errors):
            warnings.warn(
                "Low rank likely chose another feature than the definition in "
                f"{np.mean(errors):.0%} of the rounds, by estimate (round_cut_error in the "
                "result). Pass approx='exact' where the memory is there.",
                stacklevel=2,
            )


@dataclass(eq=False, repr=False, kw_only=True)
class FOHSIC(KernelSelector):
    r"""Forward selection with HSIC (Song et al. 2012, JMLR 13, Algorithm 2).

    Starting from none, each round adds the features with which those chosen so far depend most
    on the labels. Cheaper than `BAHSIC` for a few features of many, and blind to features that
    say something only together (XOR): the first of them has nothing to show. Take it where
    features are expected to say something alone, and redundant ones are to be left out.

    Parameters
    ----------
    n_features_to_select : int, float or None
        How many to select: a count, a fraction of all, or half of them (None). The round that
        reaches it ranks all that is left by the same scores.
    step : int or float
        Added per round: a count, or a fraction of the features not chosen yet (the paper's gamma).
    strategy : {"forward", "floating"}
        Algorithm 2; or, after every addition, features chosen before leave again as long as what
        is left has a larger HSIC than any set of that size had (sequential floating selection,
        Pudil, Novovicova, Kittler 1994), one feature a round.
    kernel, label_kernel, estimator, standardize, missing, dtype
        As of `BAHSIC`.
    stability, checkpoint, progress, runtime, memory
        As of `BAHSIC`.
    bandwidth : "dimension", "median", float or sequence of floats
        As of `BAHSIC`, for one feature more than are chosen: ``1/(2(|S|+1))``. With none chosen
        the median is that of a normal feature, and a grid is searched for the largest HSIC of a
        single feature.
    approx : {"auto", "exact", "lowrank", "direct"}
        How candidates are scored: by an expansion, exact in its result; in linear time, with K of
        the features chosen in low rank (gaussian kernel); or by the definition. ``"auto"`` is exact
        up to 6,000 samples and low rank above; ``round_cut_error`` in the result estimates how
        likely each choice is another than by definition.
    random_state : int
        Seed of the landmarks of low rank.

    Attributes
    ----------
    ranking_ : (d,) int
        1 is the best; a permutation of 1..d.
    support_ : (d,) bool
        The selected features.
    scores_ : (d,) float
        By how much HSIC rose with the feature, in the round it joined; NaN where constant.
    result_ : xarray.Dataset
        All of this with the history of rounds; see `dhsic.results`.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> y = X[:, 3] ** 2 + X[:, 7]
    >>> dhsic.FOHSIC(2).fit(X, y).get_support(indices=True).tolist()
    [3, 7]
    """

    _run = Forward
    _method = "fohsic"
    _draws = True
    takes_groups = True

    step: float | int = 1
    strategy: str = "forward"
    tolerance: float = field(default=0.02, init=False)

    def _check_rounds(self) -> None:
        kernel = resolve_kernel(self.kernel)
        if kernel.scored_by == "matrix" and not AbstractMatrixFunction.of(kernel).updates:
            raise InputError(
                f"The {kernel.name} kernel is not to be had in forward selection, where every "
                "candidate would take a system of its own; take dhsic.kernels.Ridge(), or BAHSIC."
            )
        if self.strategy == "floating":
            self._check_floating(kernel)
        if self.approx == "lowrank":
            self._check_low_rank(kernel)

    def _check_floating(self, kernel: AbstractKernel) -> None:
        if not kernel.of_inner_products:
            raise InputError(
                f"strategy='floating' and the {kernel.name} kernel: sets are compared by kernels "
                "of inner products; take another kernel, or strategy='forward'."
            )
        if self.step != 1:
            raise InputError(
                f"step={self.step!r} and strategy='floating', which adds one feature a round; "
                "leave step out, or pass strategy='forward'."
            )

    def _check_low_rank(self, kernel: AbstractKernel) -> None:
        if not (kernel.low_rank and kernel.is_product):
            raise InputError(
                f"approx='lowrank' and the {kernel.name} kernel: forward selection in low rank "
                "takes the gaussian one; leave approx out."
            )
        if self.strategy != "forward" or self.label_kernel == SELF:
            raise InputError(
                "approx='lowrank' goes with strategy='forward' and labels of their own; leave it "
                "out."
            )

    def _besides(self) -> dict[str, Any]:
        return {"n_features_to_select": self.n_features_to_select, "strategy": self.strategy}

    def described(self) -> str:
        name = resolve_kernel(self.kernel).name
        floating = "floating " if self.strategy == "floating" else ""
        return (
            f"{floating}FOHSIC with the {name} kernel, {self.estimator} HSIC, step {self.step:g},"
        )
