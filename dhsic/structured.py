r"""Features that are not columns: groups with a kernel each, substrings, and parts of graphs.

Groups, such as pathways, chromosomes, sensors, or kinds of data that share no columns (expression,
sequence, images), have a precomputed kernel matrix each, from any library. ``K(S)`` is the sum or
the elementwise product of the ``K_g``, g in S, and Algorithms 1 and 2 rank the groups. For a
product (all ones if S is empty) removing g changes HSIC by ``<W, P o (1 - K_g)>``, P being the
product of the others, and adding g by ``<W, K(S) o (K_g - 1)>``. These are differences, not values,
so nothing cancels. There is no division either: kernels may contain zeros.

Substructures of strings and graphs are ranked in one pass (JMLR 5.1.4). A counting kernel is
additive, ``K = sum_a w_a c_a c_a'`` with the counts ``c_a`` (m,) of substructure a, hence
``HSIC = sum_a w_a c_a' W c_a``: each term is what HSIC loses without a, independent of the others,
and forward and backward selection agree (as JMLR 5.1.1 says of the linear kernel). Time is ``O(m)``
for every sample that contains a substructure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.algorithms import check_step
from dhsic.algorithms.bahsic import Removal, bahsic
from dhsic.algorithms.fohsic import fohsic
from dhsic.algorithms.state import begin
from dhsic.engines.refine import largest, tie_width
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.joins.table import in_order
from dhsic.kernels.counting import (
    AbstractCountingKernel,
    Spectrum,
    WeightedSubstrings,
    quadratic_forms,
)
from dhsic.kernels.graphs import ShortestPaths, Walks
from dhsic.kernels.labels import label_matrix
from dhsic.validation import as_numbers, check_symmetric

__all__ = ["Ranking", "rank_kernels", "rank_subgraphs", "rank_substrings"]

#: Rounding error of a sum, relative to the sum of the sizes of its terms.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranking of features; the best one has rank 1.

    Attributes
    ----------
    names : tuple of n
        The features: substrings, tuples of labels, or names of groups.
    scores : (n,) float64
        Decrease of HSIC without the feature (forward: increase with it), in the round that ranked
        it; comparable between rounds for a sum of kernels, else only within a round.
    ranking : (n,) int64
        A permutation of 1..n; 1 is the best.
    order : (n,) int64
        Positions in `names`, the best first: ``ranking[order] == 1..n``.
    rounds : tuple of mappings
        One record per round, plain numbers: ``n_features`` at its start, ``hsic`` of all of them,
        and facts that the algorithm adds.
    """

    names: tuple[Any, ...]
    scores: Float
    ranking: Index
    order: Index
    rounds: tuple[Mapping[str, float | int | str], ...]

    @classmethod
    def of(
        cls, names: Sequence[Any], scores: Float, order: Index | None = None, rounds: Any = ()
    ) -> Ranking:
        """Create a ranking from features in the order of an algorithm, the best first.

        By default there is one round, whose scores add up to HSIC; ties are ordered by position.
        """
        if order is None:
            order = largest(scores, scores.size, tie_width(scores))
            rounds = ({"n_features": scores.size, "hsic": float(scores.sum())},)
        ranking = np.empty(order.size, dtype=np.int64)
        ranking[order] = np.arange(1, order.size + 1)
        return cls(tuple(names), scores, ranking, order, rounds)


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
    r"""Rank groups of features, one precomputed kernel each, by dependence on y (JMLR 4.1, 4.2).

    For a sum of kernels each group is scored by itself: HSIC is ``sum_g <W, K_g>``, one pass ranks
    all groups, and forward and backward selection agree (JMLR 5.1.1). For a product, like the
    Gaussian kernel of all features, a group is scored in combination with others: backward
    selection finds two groups that matter only together. Scale kernels alike before: divide each by
    its trace, or by its mean.

    Parameters
    ----------
    kernels : sequence of n (m, m) arrays
        ``K_g``, symmetric, for the same samples in the same order.
    y : (m,) or (m, t) array
        Labels; see `dhsic.kernels.labels.label_matrix`.
    names : sequence of n str, optional
        Names of the groups; "0", "1", ... by default.
    combine : {"sum", "product"}
        How ``K(S)`` is made of the ``K_g``; elementwise.
    strategy : {"backward", "forward"}
        Algorithm 1 (BAHSIC) or 2 (FOHSIC); makes no difference for a sum.
    step : float or int
        Groups per round, a fraction of those left or a count; makes no difference for a sum.
    label_kernel, estimator, covariates
        See `rank_substrings`.

    Returns
    -------
    Ranking
        Scores are ``<W, K_g>`` for a sum; for a product, the decrease of HSIC without the group
        (forward: the increase with it), in the round that ranked it.

    Raises
    ------
    InputError
        If kernels, labels or parameters are invalid, or do not match each other.

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
    if combine not in ("sum", "product"):
        raise InputError(f"combine={combine!r} is unknown; pass 'sum' or 'product'.")
    if strategy not in ("backward", "forward"):
        raise InputError(f"strategy={strategy!r} is unknown; pass 'backward' or 'forward'.")
    step = check_step(step)
    matrices = _checked(kernels)
    n = len(matrices)
    titles = [str(g) for g in range(n)] if names is None else list(names)
    if len(titles) != n or len(set(titles)) != n:
        raise InputError(
            f"There are {n} kernels and {len(titles)} names, {len(set(titles))} of them different; "
            "pass one name a kernel."
        )
    W = _label_weights(len(matrices[0]), y, label_kernel, estimator, covariates)
    if combine == "sum":
        return Ranking.of(titles, np.array([float(np.vdot(W, K)) for K in matrices]))
    dependence, state = ProductDependence(W, matrices), begin(np.arange(n))
    is_backward = strategy == "backward"
    rounds = bahsic(dependence, state, step) if is_backward else fohsic(dependence, state, step, n)
    (end,) = deque(rounds, maxlen=1)
    scores = np.empty(n)
    scores[end.eliminated] = end.scores
    order = end.eliminated[::-1] if is_backward else end.eliminated
    return Ranking.of(titles, scores, order, end.history)


def _checked(kernels: Sequence[Any]) -> list[Float]:
    """Convert the matrices to float64; raises an error unless they are kernels of equal shape."""
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
        check_symmetric(K, f"Kernel {g}", "K")
    return matrices


@dataclass(frozen=True, eq=False)
class ProductDependence:
    """Dependence of labels and a product of kernels, for Algorithms 1 and 2; exact, in float64.

    Memory: ``3 + log2 |S|`` matrices besides the kernels. Time: ``|S| log2 |S|`` elementwise
    products of two matrices for a round backward, and ``2 |S|`` forward.
    """

    W: Float
    kernels: Sequence[Float]

    def move_to(self, S: Index) -> None:
        """Do nothing: values are computed from the kernels."""

    def bandwidth(self, S: Index) -> float:
        """Return 1: the kernels are precomputed."""
        return 1.0

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        r"""The n groups g with the largest HSIC(S \ {g}) (Algorithm 1, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            each = zip(S, self._without_each(S, self.W), strict=True)
            terms = np.array([_summed(others, 1.0 - self.kernels[g]) for g, others in each])
            hsic = float(np.vdot(self.W, self._product(S)))
        return self._chosen(S, terms, -terms[:, 0], n, sigma, hsic)

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """The n groups g of S with the largest HSIC(S-dagger + {g}) (Algorithm 2, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            A = self.W * self._product(S_dagger)
            hsic = float(A.sum())
            terms = np.array([_summed(A, self.kernels[g] - 1.0) for g in S])
        return self._chosen(S, terms, terms[:, 0], n, sigma, hsic)

    def _product(self, S: Index) -> Float:
        """``K(S)``, (m, m)."""
        K = np.ones_like(self.W)
        for g in S:
            K *= self.kernels[g]
        return K

    def _without_each(self, S: Index, outside: Float) -> Iterator[Float]:
        r"""``outside o K(S \ {g})`` for each g of S in turn, by recursive halving."""
        if S.size == 1:
            yield outside
            return
        halves = S[: S.size // 2], S[S.size // 2 :]
        for ours, theirs in (halves, halves[::-1]):
            yield from self._without_each(ours, outside * self._product(theirs))

    def _chosen(
        self, S: Index, terms: Float, scores: Float, n: int, sigma: float, hsic: float
    ) -> Removal:
        """Select the n largest gains, ties by index; `terms` (s, 2) are gains and magnitudes."""
        gains, sizes = terms.T
        if not np.isfinite(gains).all():
            raise InputError(
                f"The product of {len(self.kernels)} kernels overflows; scale each to ones on its "
                "diagonal, K / numpy.sqrt(numpy.outer(d, d)) with d = K.diagonal()."
            )
        # Kernels that imply each other, such as class indicators, all have gain 0; without this
        # width rounding errors would decide between them.
        first = largest(gains, n, max(tie_width(gains), ROUNDING * float(sizes.max())))
        record = {"n_features": S.size, "n_removed": n, "sigma": sigma, "hsic": hsic}
        return Removal(S[first], scores[first], record)


def _summed(A: Float, change: Float) -> tuple[float, float]:
    """``<A, change>``, and the sum of the magnitudes of its terms."""
    change *= A
    return float(change.sum()), float(np.abs(change).sum())


def rank_substrings(
    kernel: Spectrum | WeightedSubstrings,
    strings: Sequence[str],
    y: Any,
    *,
    label_kernel: str = "auto",
    estimator: str = "unbiased",
    covariates: Any = None,
    by_position: bool = False,
) -> Ranking:
    """Rank substrings by the dependence of the labels on their counts (JMLR 5.1.4).

    For motifs: which k-mers distinguish bound from unbound sequences, which phrases go with a
    rating. Counts are not scaled, so frequent substrings have more weight. Each substring is scored
    by itself, so parts of a relevant substring that occur nowhere else rank next to it.

    Parameters
    ----------
    kernel : Spectrum or WeightedSubstrings
        Kernel that defines which substrings are counted, and their weights.
    strings : sequence of m str
        One string per sample.
    y : (m,) or (m, t) array
        Labels; see `dhsic.kernels.labels.label_matrix`.
    label_kernel : str
        Kernel on the labels; see the same function.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Covariates whose linear effects are projected out of the labels.
    by_position : bool
        Match rows of `y` and `covariates` to the samples by position instead of by name.

    Returns
    -------
    Ranking
        With the substrings, sorted, as names, and ``w_a c_a' W c_a`` as scores; ties by name.

    Raises
    ------
    InputError
        If strings, labels or parameters are invalid, or do not match each other.

    Examples
    --------
    >>> strings = ["AATATT", "TTATAA", "ATTTAA", "AAGCTT", "TGCATA", "AAGCTA"]
    >>> found = rank_substrings(Spectrum(2), strings, ["no", "no", "no", "yes", "yes", "yes"])
    >>> found.names[found.order[0]]
    'GC'
    """
    options = label_kernel, estimator, covariates
    return _rank_counts(kernel, strings, "strings", y, *options, by_position=by_position)


def rank_subgraphs(
    kernel: ShortestPaths | Walks,
    graphs: Sequence[tuple[Any, Any]],
    y: Any,
    *,
    label_kernel: str = "auto",
    estimator: str = "unbiased",
    covariates: Any = None,
    by_position: bool = False,
) -> Ranking:
    """Rank paths or walks of labelled graphs by the dependence of the labels y on their counts.

    For structure and activity: which atoms at which distance, or which chains of atoms, distinguish
    active molecules from others.

    Parameters
    ----------
    kernel : ShortestPaths or Walks
        Kernel that defines which features are counted, and their weights.
    graphs : sequence of m pairs (adjacency, labels)
        See `dhsic.kernels.graphs`.
    y, label_kernel, estimator, covariates, by_position
        See `rank_substrings`.

    Returns
    -------
    Ranking
        With the features, sorted tuples, as names; otherwise like `rank_substrings`.

    Raises
    ------
    InputError
        If graphs, labels or parameters are invalid, or do not match each other.

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> graphs = [(path, [a, "C", b]) for a, b in ("CC", "CC", "CO", "NC", "CC", "NO")]
    >>> found = rank_subgraphs(ShortestPaths(), graphs, [0, 0, 1, 1, 0, 1])
    >>> found.names[found.order[0]]
    ('C', 'C', 1)
    """
    options = label_kernel, estimator, covariates
    return _rank_counts(kernel, graphs, "graphs", y, *options, by_position=by_position)


def _rank_counts(
    kernel: AbstractCountingKernel,
    samples: Any,
    what: str,
    y: Any,
    label_kernel: str,
    estimator: str,
    covariates: Any,
    *,
    by_position: bool,
) -> Ranking:
    def ordered(given: Any, name: str) -> Any:
        remedy = f"{name}.loc[{what}.index]"
        return in_order(samples, given, name, remedy=remedy, by_position=by_position)

    y, C = ordered(y, "y"), None if covariates is None else ordered(covariates, "covariates")
    counts, names = kernel.counts(samples)
    W = _label_weights(counts.shape[0], y, label_kernel, estimator, C)
    return Ranking.of(names, kernel.weights(names) * quadratic_forms(W, counts))


def _label_weights(m: int, y: Any, label_kernel: str, estimator: str, covariates: Any) -> Float:
    """W, (m, m), of the labels of m samples."""
    L = label_matrix(y, label_kernel).L
    if len(L) != m:
        raise InputError(f"There are {m} samples and y has {len(L)}; pass one label a sample.")
    return weights(L, estimator, covariates)
