r"""Groups of features with a kernel matrix each, ranked by Algorithms 1 and 2.

Pathways, chromosomes, sensors, or kinds of data that share no columns (expression, sequence,
images): any kernel of any library, computed beforehand. ``K(S)`` is the sum or the product of the
``K_g``, g in S.

HSIC of a product of kernels, one factor for each group of features.

With ``K(S)`` the elementwise product of the ``K_g``, g in S (all ones where S is empty), HSIC
changes by ``<W, P o (1 - K_g)>`` without g, P being the product of the others, and by
``<W, K(S) o (K_g - 1)>`` with one more: differences, never values, so nothing cancels. A product
has no division either: kernels may hold zeros.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms.bahsic import Removal, bahsic
from dhsic.algorithms.fohsic import fohsic
from dhsic.algorithms.policies import check_step
from dhsic.algorithms.state import begin
from dhsic.engines.refine import largest, tie_width
from dhsic.errors import InputError
from dhsic.structured.ranking import Ranking, label_weights
from dhsic.validation import as_numbers

#: Rounding error of a sum, relative to the sum of the sizes of its terms.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class ProductDependence:
    """What Algorithms 1 and 2 ask about a product of kernels; by definition, in float64.

    Memory: ``3 + log2 |S|`` matrices besides the kernels; time ``|S| log2 |S|`` products of two
    matrices, elementwise, for a round backwards, and ``2 |S|`` forwards.

    Attributes
    ----------
    W : (m, m) float64
        Weights of the labels.
    kernels : sequence of (m, m) float64
        ``K_g``, symmetric.
    """

    W: Float
    kernels: Sequence[Float]

    def move_to(self, S: Index) -> None:
        """Every question is answered from the kernels."""

    def bandwidth(self, S: Index) -> float:
        """1: the kernels are there already."""
        return 1.0

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        r"""The n groups g with the largest HSIC(S \ {g}) (Algorithm 1, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            each = zip(S, self._without_each(S, self.W), strict=True)
            terms = np.array([_summed(others, 1.0 - self.kernels[g]) for g, others in each])
            hsic = float(np.vdot(self.W, self._product(S)))
        gains = terms[:, 0]
        return self._chosen(S, terms, -gains, n, _record(S, n, sigma, hsic))

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """The n groups g of S with the largest HSIC(S-dagger + {g}) (Algorithm 2, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            A = self.W * self._product(S_dagger)
            hsic = float(A.sum())
            terms = np.array([_summed(A, self.kernels[g] - 1.0) for g in S])
        return self._chosen(S, terms, terms[:, 0], n, _record(S, n, sigma, hsic))

    def _product(self, S: Index) -> Float:
        """``K(S)``, (m, m)."""
        K = np.ones_like(self.W)
        for g in S:
            K *= self.kernels[g]
        return K

    def _without_each(self, S: Index, outside: Float) -> Iterator[Float]:
        r"""``outside o K(S \ {g})`` for each g of S in turn, by halves: each times the other."""
        if S.size == 1:
            yield outside
            return
        halves = S[: S.size // 2], S[S.size // 2 :]
        for ours, theirs in (halves, halves[::-1]):
            yield from self._without_each(ours, outside * self._product(theirs))

    def _chosen(
        self, S: Index, terms: Float, scores: Float, n: int, record: Mapping[str, float]
    ) -> Removal:
        """The n largest gains, ties by index; `terms` (s, 2) are the gains and their sizes."""
        gains, sizes = terms.T
        if not np.isfinite(gains).all():
            raise InputError(
                f"The product of {len(self.kernels)} kernels overflows; scale each to ones on its "
                "diagonal, K / numpy.sqrt(numpy.outer(d, d)) with d = K.diagonal()."
            )
        # Kernels that imply each other, such as indicators of classes, all have gain 0: then
        # nothing but rounding errors would tell them apart.
        first = largest(gains, n, max(tie_width(gains), ROUNDING * float(sizes.max())))
        return Removal(S[first], scores[first], record)


def _summed(A: Float, change: Float) -> tuple[float, float]:
    """``<A, change>``, and the sum of the sizes of its terms."""
    change *= A
    return float(change.sum()), float(np.abs(change).sum())


def _record(S: Index, n: int, sigma: float, hsic: float) -> dict[str, float]:
    return {"n_features": S.size, "n_removed": n, "sigma": sigma, "hsic": hsic}


COMBINATIONS = ("sum", "product")
STRATEGIES = ("backward", "forward")


def rank_kernels(
    kernels: Sequence[Any],
    y: Any,
    *,
    names: Sequence[str] | None = None,
    combine: str = "sum",
    strategy: str = "backward",
    step: float | int = 1,
    label_kernel: str = "auto",
    estimator: str = "unbiased",
    covariates: Any = None,
) -> Ranking:
    r"""Groups of features, one precomputed kernel each, by dependence on y (JMLR 4.1, 4.2).

    A sum of kernels asks of each group what it tells alone: HSIC is ``sum_g <W, K_g>``, one pass
    ranks all groups, and forward and backward selection agree (JMLR 5.1.1). A product, as the
    Gaussian kernel of all features is one, asks what a group tells beside others: two groups that
    matter only together are found, backwards. Scale kernels alike before: divide each by its
    trace, or by its mean.

    Parameters
    ----------
    kernels : sequence of n (m, m) arrays
        ``K_g``, symmetric, for the same samples in the same order.
    y : (m,) or (m, t) array
        Labels; see `dhsic.kernels.labels.label_matrix`.
    names : sequence of n str, optional
        Of the groups; "0", "1", ... by default.
    combine : {"sum", "product"}
        How ``K(S)`` is made of the ``K_g``; elementwise.
    strategy : {"backward", "forward"}
        Algorithm 1 (BAHSIC) or 2 (FOHSIC); makes no difference to a sum.
    step : float or int
        Groups a round, a fraction of those left or a count; makes no difference to a sum.
    label_kernel : str
        Kernel on the labels.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Linear effects to project out of the labels.

    Returns
    -------
    Ranking
        Scores are ``<W, K_g>`` for a sum; for a product, by how much HSIC falls without the group
        (forward: rises with it), in the round in which it was decided on.

    Raises
    ------
    InputError
        Kernels, labels or parameters that do not fit, or that do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.datasets import binary_xor
    >>> data = binary_xor(100, n_noise=2)
    >>> kernels = [np.exp(-np.subtract.outer(x, x) ** 2) for x in data.X.T]
    >>> found = rank_kernels(kernels, data.y, names=["a", "b", "c", "d"], combine="product")
    >>> sorted(found.names[g] for g in found.order[:2])
    ['a', 'b']
    """
    _check_choice("combine", combine, COMBINATIONS)
    _check_choice("strategy", strategy, STRATEGIES)
    step = check_step(step)
    matrices = _checked(kernels)
    named = _names(names, len(matrices))
    W = label_weights(len(matrices[0]), y, label_kernel, estimator, covariates)
    if combine == "sum":
        return Ranking.of_scores(named, np.array([float(np.vdot(W, K)) for K in matrices]))
    return _of_product(ProductDependence(W, matrices), named, strategy, step)


def _of_product(
    dependence: ProductDependence, names: list[str], strategy: str, step: float | int
) -> Ranking:
    state = begin(np.arange(len(names)))
    rounds = (
        bahsic(dependence, state, step)
        if strategy == "backward"
        else fohsic(dependence, state, step, len(names))
    )
    (end,) = deque(rounds, maxlen=1)
    scores = np.empty(len(names))
    scores[end.eliminated] = end.scores
    order = end.eliminated[::-1] if strategy == "backward" else end.eliminated
    return Ranking.of_order(names, scores, order, end.history)


def _check_choice(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{what}={value!r} is unknown; pass {' or '.join(map(repr, known))}.")


def _checked(kernels: Sequence[Any]) -> list[Float]:
    """The matrices in float64; refuse what is no kernel of the same samples."""
    matrices = [as_numbers(K, f"kernel {g}") for g, K in enumerate(kernels)]
    if not matrices:
        raise InputError("There are 0 kernels; pass one (m, m) matrix a group of features.")
    shape = (len(matrices[0]), len(matrices[0]))
    for g, K in enumerate(matrices):
        if K.shape != shape:
            raise InputError(
                f"Kernel {g} has shape {K.shape} and the first one {len(matrices[0])} samples; "
                "pass matrices (m, m) of the same samples."
            )
        worst = float(np.abs(K - K.T).max(initial=0.0))
        if worst > 1e-8 * float(np.abs(K).max(initial=0.0)):
            raise InputError(
                f"Kernel {g} is not symmetric (largest difference {worst:.3g}); pass (K + K') / 2."
            )
    return matrices


def _names(names: Sequence[str] | None, n: int) -> list[str]:
    if names is None:
        return [str(g) for g in range(n)]
    named = list(names)
    if len(named) != n or len(set(named)) != n:
        raise InputError(
            f"There are {n} kernels and {len(named)} names, {len(set(named))} of them different; "
            "pass one name a kernel."
        )
    return named
