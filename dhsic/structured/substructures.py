r"""Substructures of strings and graphs, ranked in one go (JMLR 5.1.4).

A kernel that counts is additive, ``K = sum_a w_a c_a c_a'`` with the counts ``c_a`` (m,) of
substructure a, hence ``HSIC = sum_a w_a c_a' W c_a``: every summand is what HSIC loses without a,
whatever else is left, and forward and backward selection agree (as JMLR 5.1.1 says of the linear
kernel). Time ``O(m)`` for every sample that a substructure is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dhsic.joins.frames import in_order
from dhsic.kernels.counting import AbstractCountingKernel, quadratic_forms
from dhsic.kernels.graphs import ShortestPaths, Walks
from dhsic.kernels.strings import Spectrum, WeightedSubstrings
from dhsic.structured.ranking import Ranking, label_weights


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
    """Substrings by how much the labels depend on their number (JMLR 5.1.4).

    For motifs: which k-mers tell bound from unbound sequences, which phrases go with a rating.
    Counts are taken as they are, so frequent substrings weigh more. Each is judged alone: the parts
    of a telling substring that occur nowhere else rank beside it.

    Parameters
    ----------
    kernel : Spectrum or WeightedSubstrings
        What is counted and how it is weighted.
    strings : sequence of m str
        A sample each.
    y : (m,) or (m, t) array
        Labels; see `dhsic.kernels.labels.label_matrix`.
    label_kernel : str
        Kernel on the labels, likewise.
    estimator : {"unbiased", "biased"}
        JMLR eq. 5 or eq. 4.
    covariates : (m, q) array, optional
        Linear effects to project out of the labels.
    by_position : bool
        Rows of `y` and `covariates` are in the order of the samples, whatever they are called.

    Returns
    -------
    Ranking
        With the substrings, sorted, as names, and ``w_a c_a' W c_a`` as scores; ties by name.

    Raises
    ------
    InputError
        Strings, labels or parameters that do not fit, or that do not fit each other.

    Examples
    --------
    >>> strings = ["AATATT", "TTATAA", "ATTTAA", "AAGCTT", "TGCATA", "AAGCTA"]
    >>> found = rank_substrings(Spectrum(2), strings, ["no", "no", "no", "yes", "yes", "yes"])
    >>> found.names[found.order[0]]
    'GC'
    """
    y = _in_order(strings, y, "y", "strings", by_position=by_position)
    C = _in_order(strings, covariates, "covariates", "strings", by_position=by_position)
    return _ranked(kernel, strings, y, label_kernel, estimator, C)


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
    """Paths or walks of labelled graphs by how much the labels y depend on their number.

    For structure and activity: which atoms at which distance, which chains of atoms, tell active
    molecules from others.

    Parameters
    ----------
    kernel : ShortestPaths or Walks
        What is counted and how it is weighted.
    graphs : sequence of m pairs (adjacency, labels)
        See `dhsic.kernels.graphs`.
    y, label_kernel, estimator, covariates, by_position
        As of `rank_substrings`.

    Returns
    -------
    Ranking
        With the features, tuples, sorted, as names; else as of `rank_substrings`.

    Raises
    ------
    InputError
        Graphs, labels or parameters that do not fit, or that do not fit each other.

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> graphs = [(path, [a, "C", b]) for a, b in ("CC", "CC", "CO", "NC", "CC", "NO")]
    >>> found = rank_subgraphs(ShortestPaths(), graphs, [0, 0, 1, 1, 0, 1])
    >>> found.names[found.order[0]]
    ('C', 'C', 1)
    """
    y = _in_order(graphs, y, "y", "graphs", by_position=by_position)
    C = _in_order(graphs, covariates, "covariates", "graphs", by_position=by_position)
    return _ranked(kernel, graphs, y, label_kernel, estimator, C)


def _in_order(samples: Any, given: Any, name: str, what: str, *, by_position: bool) -> Any:
    """Labels or covariates in the order of the samples, None where there are none."""
    if given is None:
        return None
    remedy = f"{name}.loc[{what}.index]"
    return in_order(samples, given, name, remedy=remedy, by_position=by_position)


def _ranked(
    kernel: AbstractCountingKernel,
    samples: Any,
    y: Any,
    label_kernel: str,
    estimator: str,
    covariates: Any,
) -> Ranking:
    counts, names = kernel.counts(samples)
    W = label_weights(counts.shape[0], y, label_kernel, estimator, covariates)
    return Ranking.of_scores(names, kernel.weights(names) * quadratic_forms(W, counts))
