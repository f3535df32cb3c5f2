r"""Ranking of features that are not columns of a matrix: groups with kernels, substrings, graphs.

Groups may be pathways, chromosomes, sensors, or kinds of data that share no columns (expression,
sequence, images). Each group has a precomputed kernel matrix ``K_g``, from any library. ``K(S)`` is
the sum or the elementwise product of the ``K_g``, g in S, and Algorithms 1 and 2 rank the groups.
For a product (all ones if S is empty) removing g changes HSIC by ``<W, P o (1 - K_g)>``, where P is
the product of all other kernels in S. Adding g changes it by ``<W, K(S) o (K_g - 1)>``. These
differences are computed directly, so there is no cancellation. Nothing is divided by a kernel, so
kernels may contain zeros.

Substructures of strings and graphs are ranked in one pass (JMLR 5.1.4). A counting kernel is
additive, ``K = sum_a w_a c_a c_a'`` with the counts ``c_a`` (m,) of substructure a, so ``HSIC =
sum_a w_a c_a' W c_a``. Each term is the decrease of HSIC if a is removed. It does not depend on
other substructures, so forward and backward selection agree (as JMLR 5.1.1 states for the linear
kernel). The time is ``O(m)`` for every sample that contains a substructure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.algorithms import check_step
from dhsic.algorithms.bahsic import Removal, bahsic
from dhsic.algorithms.fohsic import fohsic
from dhsic.algorithms.state import begin
from dhsic.engines.refine import largest, tie_width
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.joins.frame_rows import in_order, values_of
from dhsic.joins.labels import of_categories
from dhsic.kernels.counting import (
    AbstractCountingKernel,
    Spectrum,
    WeightedSubstrings,
    quadratic_forms,
)
from dhsic.kernels.graphs import ShortestPaths, Walks
from dhsic.kernels.labels import label_matrix
from dhsic.renamed import takes_former_names
from dhsic.sources.other_frames import in_pandas
from dhsic.validation import as_numbers, check_symmetric

__all__ = ["Ranking", "rank_kernels", "rank_subgraphs", "rank_substrings"]

#: Rounding error of a sum, relative to the sum of the absolute values of its terms.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranking of features; the best one has rank 1.

    Attributes
    ----------
    names : tuple of n
        The features: substrings, tuples of labels, or names of groups.
    scores : (n,) float64
        Decrease of HSIC if the feature is removed (forward: increase if it is added), in the round
        that ranked it. Scores of different rounds are comparable only for a sum of kernels.
    ranking : (n,) int64
        Rank of each feature, from 1 (the best) to n.
    order : (n,) int64
        Indices into `names`, the best feature first: ``ranking[order] == 1..n``.
    rounds : tuple of mappings
        One record of plain numbers per round: ``n_features`` at its start, the ``hsic`` of all
        these features, and further entries of the algorithm.
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
        """Create a ranking; `order` contains the indices of the features, the best first.

        By default, features are ordered by score, and ties by index. By default, there is one
        round, and its HSIC is the sum of the scores.
        """
        if order is None:
            order = largest(scores, scores.size, tie_width(scores))
            rounds = ({"n_features": scores.size, "hsic": float(scores.sum())},)
        ranking = np.empty(order.size, dtype=np.int64)
        ranking[order] = np.arange(1, order.size + 1)
        return cls(tuple(names), scores, ranking, order, rounds)


@takes_former_names
def rank_kernels(
    kernels: Sequence[Any],
    y: Any,
    *,
    names: Sequence[str] | None = None,
    combine: str = "sum",
    strategy: str = "backward",
    step: float | int = 1,
    label_kernel: str = "auto",
    statistic: str = "unbiased",
    covariates: Any = None,
) -> Ranking:
    r"""Rank groups of features, one precomputed kernel each, by dependence on y (JMLR 4.1, 4.2).

    For a sum of kernels, each group is scored by itself: HSIC is ``sum_g <W, K_g>``, one pass ranks
    all groups, and forward and backward selection agree (JMLR 5.1.1). For a product, like the
    Gaussian kernel of all features, a group is scored in combination with others. Backward
    selection then finds groups that matter only together. Scale the kernels first: for example,
    divide each by its trace or by its mean.

    Parameters
    ----------
    kernels : sequence of n (m, m) arrays
        Symmetric kernel matrices ``K_g`` of the same samples, in the same order.
    y : (m,) or (m, t) array
        Labels; see `dhsic.kernels.labels.label_matrix`.
    names : sequence of n str, optional
        Names of the groups; "0", "1", ... by default.
    combine : {"sum", "product"}
        Elementwise operation that combines the kernels ``K_g`` into ``K(S)``.
    strategy : {"backward", "forward"}
        Algorithm 1 (BAHSIC) or 2 (FOHSIC); it makes no difference for a sum.
    step : float or int
        Number of groups per round, or their fraction of the remaining groups; it makes no
        difference for a sum.
    label_kernel, statistic, covariates
        See `rank_substrings`.

    Returns
    -------
    Ranking
        Scores are ``<W, K_g>`` for a sum. For a product, they are the decrease of HSIC if the group
        is removed (forward: the increase if it is added), in the round that ranked it.

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
            f"There are {n} kernels, but {len(titles)} names, {len(set(titles))} of them distinct; "
            "pass one distinct name per kernel."
        )
    W = _label_weights(len(matrices[0]), y, label_kernel, statistic, covariates)
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
    """Convert the matrices to float64; raise an error unless they are kernels of equal size."""
    matrices = [as_numbers(K, f"kernel {g}") for g, K in enumerate(kernels)]
    if not matrices:
        raise InputError("There are 0 kernels; pass one (m, m) matrix per group of features.")
    shape = (len(matrices[0]), len(matrices[0]))
    for g, K in enumerate(matrices):
        if K.shape != shape:
            raise InputError(
                f"Kernel {g} has shape {K.shape}, but the first one has {len(matrices[0])} "
                "samples; pass matrices (m, m) of the same samples."
            )
        check_symmetric(K, f"Kernel {g}", "K")
    return matrices


@dataclass(frozen=True, eq=False)
class ProductDependence:
    """HSIC between labels and a product of kernels, for Algorithms 1 and 2; exact, in float64.

    Memory: ``3 + log2 |S|`` matrices besides the kernels. Time: ``|S| log2 |S|`` elementwise
    products of two matrices for a backward round, and ``2 |S|`` for a forward round.
    """

    W: Float
    kernels: Sequence[Float]

    def move_to(self, S: Index) -> None:
        """Do nothing: values are computed from the kernels."""

    def bandwidth(self, S: Index) -> float:
        """Return 1: the kernels are precomputed."""
        return 1.0

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        r"""Find the n groups g with the largest HSIC(S \ {g}) (Algorithm 1, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            each = zip(S, self._without_each(S, self.W), strict=True)
            terms = np.array([_summed(others, 1.0 - self.kernels[g]) for g, others in each])
            hsic = float(np.vdot(self.W, self._product(S)))
        return self._chosen(S, terms, -terms[:, 0], n, sigma, hsic)

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """Find the n groups g of S with the largest HSIC(S-dagger + {g}) (Algorithm 2, line 4)."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            A = self.W * self._product(S_dagger)
            hsic = float(A.sum())
            terms = np.array([_summed(A, self.kernels[g] - 1.0) for g in S])
        return self._chosen(S, terms, terms[:, 0], n, sigma, hsic)

    def _product(self, S: Index) -> Float:
        """Product of the kernels in S, ``K(S)``, (m, m)."""
        K = np.ones_like(self.W)
        for g in S:
            K *= self.kernels[g]
        return K

    def _without_each(self, S: Index, outside: Float) -> Iterator[Float]:
        r"""Yield ``outside o K(S \ {g})``, (m, m), for each g of S in turn; `outside` is (m, m)."""
        if S.size == 1:
            yield outside
            return
        halves = S[: S.size // 2], S[S.size // 2 :]
        for ours, theirs in (halves, halves[::-1]):
            yield from self._without_each(ours, outside * self._product(theirs))

    def _chosen(
        self, S: Index, terms: Float, scores: Float, n: int, sigma: float, hsic: float
    ) -> Removal:
        """Select the groups with the n largest gains; ties are in the order of indices.

        `terms` (s, 2) are gains, and the sums of the absolute values of their terms. `scores` (s,),
        `sigma` and `hsic` are returned with the removal.
        """
        gains, sizes = terms.T
        if not np.isfinite(gains).all():
            raise InputError(
                f"The product of {len(self.kernels)} kernels overflows. Scale each to a diagonal "
                "of ones: K / numpy.sqrt(numpy.outer(d, d)) with d = K.diagonal()."
            )
        # Kernels that determine each other, such as class indicators, all have gain 0; without this
        # width, rounding errors would determine their order.
        first = largest(gains, n, max(tie_width(gains), ROUNDING * float(sizes.max())))
        record = {"n_features": S.size, "n_removed": n, "sigma": sigma, "hsic": hsic}
        return Removal(S[first], scores[first], record)


def _summed(A: Float, change: Float) -> tuple[float, float]:
    """Inner product ``<A, change>``, and the sum of the absolute values of its terms.

    `change` (m, m) is overwritten.
    """
    change *= A
    return float(change.sum()), float(np.abs(change).sum())


@takes_former_names
def rank_substrings(
    kernel: Spectrum | WeightedSubstrings,
    strings: Sequence[str],
    y: Any,
    *,
    label_kernel: str = "auto",
    statistic: str = "unbiased",
    covariates: Any = None,
    by_position: bool = False,
) -> Ranking:
    """Rank substrings by the dependence of the labels on their counts (JMLR 5.1.4).

    Use it to find motifs, for example k-mers that distinguish bound from unbound sequences, or
    phrases that are related to a rating. Counts are not scaled, so frequent substrings have more
    weight. Each substring is scored by itself, so a part of a relevant substring ranks next to it
    if the part occurs nowhere else.

    Parameters
    ----------
    kernel : Spectrum or WeightedSubstrings
        Kernel that defines which substrings are counted, and their weights.
    strings : sequence of m str
        One string per sample.
    y : (m,) or (m, t) array
        Labels; see `dhsic.kernels.labels.label_matrix`.
    label_kernel : str
        Kernel on the labels; see `dhsic.kernels.labels.label_matrix`.
    statistic : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Covariates whose linear effects are projected out of the labels.
    by_position : bool
        Match rows of `y` and `covariates` to the samples by position instead of by name.

    Returns
    -------
    Ranking
        The names are the substrings, sorted, and the scores ``w_a c_a' W c_a``; ties are ordered by
        name.

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
    options = label_kernel, statistic, covariates
    return _rank_counts(kernel, strings, "strings", y, *options, by_position=by_position)


@takes_former_names
def rank_subgraphs(
    kernel: ShortestPaths | Walks,
    graphs: Sequence[tuple[Any, Any]],
    y: Any,
    *,
    label_kernel: str = "auto",
    statistic: str = "unbiased",
    covariates: Any = None,
    by_position: bool = False,
) -> Ranking:
    """Rank paths or walks of labelled graphs by the dependence of the labels y on their counts.

    Use it to relate structure to activity: to find atoms at certain distances, or chains of atoms,
    that distinguish active molecules from others.

    Parameters
    ----------
    kernel : ShortestPaths or Walks
        Kernel that defines which features are counted, and their weights.
    graphs : sequence of m pairs (adjacency, labels)
        See `dhsic.kernels.graphs`.
    y, label_kernel, statistic, covariates, by_position
        See `rank_substrings`.

    Returns
    -------
    Ranking
        The names are the features, sorted tuples; otherwise as in `rank_substrings`.

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
    options = label_kernel, statistic, covariates
    return _rank_counts(kernel, graphs, "graphs", y, *options, by_position=by_position)


def _rank_counts(
    kernel: AbstractCountingKernel,
    samples: Any,
    what: str,
    y: Any,
    label_kernel: str,
    statistic: str,
    covariates: Any,
    *,
    by_position: bool,
) -> Ranking:
    def ordered(given: Any, name: str, values: Array | None = None) -> Any:
        code = f"{what}.index"
        return in_order(samples, given, name, values, names_code=code, by_position=by_position)

    y = ordered(y, "y", values_of(of_categories(in_pandas(y)), "y"))
    C = None if covariates is None else ordered(covariates, "covariates")
    counts, names = kernel.counts(samples)
    W = _label_weights(counts.shape[0], y, label_kernel, statistic, C)
    return Ranking.of(names, kernel.weights(names) * quadratic_forms(W, counts))


def _label_weights(m: int, y: Any, label_kernel: str, statistic: str, covariates: Any) -> Float:
    """Weights W, (m, m), from the labels of m samples."""
    L = label_matrix(values_of(of_categories(in_pandas(y)), "y"), label_kernel).L
    if len(L) != m:
        raise InputError(f"There are {m} samples, but y has {len(L)}; pass one label per sample.")
    return weights(L, statistic, covariates)
