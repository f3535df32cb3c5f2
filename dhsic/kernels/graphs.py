r"""Kernels on graphs: paths and walks that two graphs share (JMLR 5.1.4).

    ``k(x, x') = sum_a w_a #_a(x) #_a(x')``

over features a of labelled, undirected graphs, for example molecules (atoms and bonds), contact
maps, social or metabolic networks. A graph is a pair ``(adjacency, labels)``. The adjacency (n, n)
is a symmetric array or sparse matrix of 0 and 1. Labels (n,) are all text or all integers, or None,
which labels every node ``"*"``. In one call, either all graphs have labels or none of them has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import block_diag, coo_array, csr_array, hstack, issparse

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.kernels.counting import AbstractCountingKernel, check_lengths
from dhsic.validation import as_array

#: Maximum number of distances in memory at a time.
BLOCK = 2**22
#: Maximum count that float64 represents exactly.
LARGEST_COUNT = 2**53
#: Label of nodes without labels.
NO_LABEL = "*"


@dataclass(frozen=True)
class ShortestPaths(AbstractCountingKernel):
    """Shortest-path kernel: counts pairs of nodes by their labels and distance.

    A feature is ``(label, label, length)``, the smaller label first. Its count is the number of
    pairs of different nodes with these labels that are `length` edges apart. Unconnected pairs are
    not counted, and every weight is 1 (Borgwardt and Kriegel 2005, where labels and lengths must be
    equal). Use it if distances between kinds of nodes matter; cycles and multiple paths have no
    effect.

    It takes ``O(n (n + edges) log n)`` time for each graph with n nodes.

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> counts, names = ShortestPaths().counts([(path, ["C", "O", "C"]), (path, ["C", "C", "O"])])
    >>> names
    [('C', 'C', 1), ('C', 'C', 2), ('C', 'O', 1), ('C', 'O', 2)]
    >>> counts.toarray().tolist()
    [[0, 1, 2, 0], [1, 0, 1, 1]]
    """

    def counts(self, samples: Sequence[tuple[Any, Any]]) -> tuple[Any, list[Any]]:
        """Count each (label, label, length) in each graph.

        Raises an error if no graph has an edge.
        """
        adjacencies, codes, labels = _read(samples)
        q, longest = len(labels), max(A.shape[0] for A in adjacencies)
        paths = [_pairs(A, c, q, longest) for A, c in zip(adjacencies, codes, strict=True)]
        keys, columns = np.unique(np.concatenate([k for k, _ in paths]), return_inverse=True)
        if keys.size == 0:
            raise InputError(
                f"None of {len(paths)} graphs has an edge between two nodes, so there are no paths "
                "to count. Pass graphs with edges."
            )
        rows = np.repeat(np.arange(len(paths)), [k.size for k, _ in paths])
        n = np.concatenate([n for _, n in paths])
        counts = coo_array((n, (rows, columns)), shape=(len(paths), keys.size)).tocsr()
        pairs, lengths = np.divmod(keys, longest)
        first, second = np.divmod(pairs, q)
        triples = zip(first.tolist(), second.tolist(), lengths.tolist(), strict=True)
        return counts, [(labels[a], labels[b], length) for a, b, length in triples]

    def weights(self, names: Sequence[Any]) -> Float:
        return np.ones(len(names))


@dataclass(frozen=True)
class Walks(AbstractCountingKernel):
    """Random-walk kernel up to a length: counts sequences of labels along walks.

    A walk goes from a node to a neighbour, and so on, and may go back. Its feature is the tuple of
    labels along it, with weight ``w_a = decay**edges`` (Gaertner et al. 2003); a walk of 0 edges is
    a node. The reverse of a walk in an undirected graph is a walk too, so a sequence and its
    reverse have equal counts. The smaller of the two represents both, with twice the weight. K
    equals the kernel of directed sequences, the number of walks in the product graph. Use it for
    local structure, such as bonds between atoms. Short lengths (2 to 4) are most informative, long
    ones are redundant.

    The number of possible features is ``labels**(longest + 1)``. Only those that occur are stored,
    with about 24 bytes for every node and every sequence that ends in it.

    Parameters
    ----------
    longest : int
        Maximum number of edges of a walk, at least 1.
    decay : float
        Weight of a walk relative to a walk with one edge less; it must be positive.

    Examples
    --------
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> counts, names = Walks(2).counts([(path, ["C", "O", "C"])])
    >>> names
    [('C',), ('C', 'O'), ('C', 'O', 'C'), ('O',), ('O', 'C', 'O')]
    >>> counts.toarray().tolist()
    [[2, 2, 4, 1, 2]]
    """

    longest: int
    decay: float = 0.5

    def __post_init__(self) -> None:
        check_lengths("Walks", "longest", self.longest, self.decay)

    def counts(self, samples: Sequence[tuple[Any, Any]]) -> tuple[Any, list[Any]]:
        """Count the walks of each graph with each sequence of labels.

        A sequence and its reverse are counted together, under the smaller of the two. Raises an
        error if there are more walks than float64 can count exactly.
        """
        adjacencies, codes, labels = _read(samples)
        if not labels:
            raise InputError(
                f"None of {len(adjacencies)} graphs has a node, so there are no walks to count. "
                "Pass graphs with nodes."
            )
        tables, names = [], []
        for sequences, table in _walks(adjacencies, codes, len(labels), int(self.longest)):
            listed = sequences.tolist()
            canonical = [i for i, s in enumerate(listed) if s <= s[::-1]]
            tables.append(table[:, canonical])
            names += [tuple(labels[a] for a in listed[i]) for i in canonical]
        order = sorted(range(len(names)), key=names.__getitem__)
        counts = csr_array(hstack(tables, format="csr")[:, order])
        return counts.astype(np.int64), [names[a] for a in order]

    def weights(self, names: Sequence[Any]) -> Float:
        """Weights ``decay**edges``, (n,); doubled if a sequence also represents its reverse."""
        sides = np.array([1.0 if a == a[::-1] else 2.0 for a in names])
        return np.asarray(sides * np.power(float(self.decay), [len(a) - 1 for a in names]))


def _pairs(adjacency: Any, codes: Index, q: int, longest: int) -> tuple[Index, Index]:
    """Count the features (label, label, length) of all pairs of nodes of a graph.

    Returns the codes of the features and their counts. `codes` (n,) are the codes of the nodes'
    labels, from 0 to q - 1. `longest` limits the lengths.
    """
    from scipy.sparse.csgraph import dijkstra  # imported here because it loads slowly

    n = codes.size
    width = max(1, BLOCK // max(n, 1))
    keys = []
    for first in range(0, n, width):
        sources = np.arange(first, min(first + width, n))
        lengths = dijkstra(adjacency, indices=sources, unweighted=True)  # (width, n)
        u, v = np.nonzero(np.isfinite(lengths) & (np.arange(n) > sources[:, None]))
        a, b = codes[sources[u]], codes[v]
        length = lengths[u, v].astype(np.int64)
        keys.append((np.minimum(a, b) * q + np.maximum(a, b)) * longest + length)
    if not keys:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    distinct, counts = np.unique(np.concatenate(keys), return_counts=True)
    return distinct, counts.astype(np.int64)


def _walks(
    adjacencies: list[Any], codes: list[Index], q: int, longest: int
) -> Iterator[tuple[Index, Any]]:
    """Yield label sequences (n, edges + 1) and counts, csr (m, n), for walks of 0, 1, ... edges.

    All m graphs are merged into one, with consecutive nodes. The matrix `ending` (nodes, n) counts
    the walks that end in each node, by sequence; its product with the adjacency matrix extends
    them.
    """
    m = len(codes)
    A = csr_array(block_diag(adjacencies, format="csr", dtype=np.float64))
    label = np.concatenate(codes)
    nodes = np.arange(label.size)
    owner = np.repeat(np.arange(m), [c.size for c in codes])
    members = csr_array((np.ones(nodes.size), (owner, nodes)), shape=(m, nodes.size))
    ending = csr_array(np.ones((nodes.size, 1)))  # the empty walk, which every node extends
    sequences = np.empty((1, 0), dtype=np.int64)
    for edges in range(longest + 1):
        steps = (A @ ending if edges else ending).tocoo()
        keys, columns = np.unique(steps.col * np.int64(q) + label[steps.row], return_inverse=True)
        if keys.size == 0:  # no graph has an edge, so there are no longer walks
            return
        ending = csr_array((steps.data, (steps.row, columns)), shape=(nodes.size, keys.size))
        before, last = np.divmod(keys, q)
        sequences = np.column_stack([sequences[before], last])
        table = csr_array(members @ ending)
        most = float(table.data.max())
        if most >= LARGEST_COUNT:
            raise InputError(
                f"A sequence of labels has {most:.3g} walks of {edges} edges, more than 2**53, "
                f"which cannot be counted exactly; pass Walks(longest={edges - 1})."
            )
        yield sequences, table


def _read(graphs: Sequence[Any]) -> tuple[list[Any], list[Index], list[Any]]:
    """Check graphs; return adjacencies, csr (n, n), codes of node labels (n,), and all labels.

    Codes are positions in the list of all labels, which is sorted.
    """
    adjacencies: list[Any] = []
    graph_labels: list[list[Any] | None] = []
    for i, graph in enumerate(graphs):
        if not isinstance(graph, tuple) or len(graph) != 2:
            raise InputError(
                f"Graph {i} is a {type(graph).__name__}, not a pair; pass (adjacency, labels), or "
                "(adjacency, None) for nodes without labels."
            )
        adjacencies.append(_adjacency(i, graph[0]))
        graph_labels.append(
            None if graph[1] is None else _labels(i, graph[1], adjacencies[i].shape[0])
        )
    if not graph_labels:
        raise InputError("There are 0 graphs; pass one per sample, as (adjacency, labels).")
    _check_kinds(graph_labels)
    filled_labels = [
        [NO_LABEL] * A.shape[0] if labels is None else labels
        for labels, A in zip(graph_labels, adjacencies, strict=True)
    ]
    labels = sorted({label for each in filled_labels for label in each})
    place = {label: i for i, label in enumerate(labels)}
    codes = [np.array([place[label] for label in each], dtype=np.int64) for each in filled_labels]
    return adjacencies, codes, labels


def _adjacency(i: int, given: Any) -> Any:
    """Convert the adjacency matrix of graph i to csr (n, n); it must be symmetric, of 0 and 1."""
    matrix = given if issparse(given) else as_array(given, f"the adjacency of graph {i}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"The adjacency of graph {i} has shape {matrix.shape}; pass (n, n), one row per node."
        )
    A = csr_array(matrix if matrix.dtype.kind in "biuf" else np.full(matrix.shape, np.nan))
    if not np.isin(A.data, (0, 1)).all():
        raise InputError(
            f"The adjacency of graph {i} contains values other than 0 and 1; if every nonzero "
            "weight is an edge, pass (adjacency != 0)."
        )
    A = A.astype(np.float64)
    A.sum_duplicates()
    A.eliminate_zeros()
    odd = (A != A.T).nnz
    if odd:
        raise InputError(
            f"Graph {i} is directed: {odd} edges have no reverse. Pass an undirected graph, such "
            "as numpy.maximum(adjacency, adjacency.T)."
        )
    return A


def _labels(i: int, given: Any, n: int) -> list[Any]:
    """Labels of the n nodes of graph i, as Python values."""
    labels = as_array(given, f"the labels of graph {i}")
    if labels.shape != (n,):
        raise InputError(
            f"Graph {i} has {n} nodes, but labels of shape {labels.shape}; pass one label per node."
        )
    return list(labels.tolist())


def _check_kinds(named: list[list[Any] | None]) -> None:
    """Raise an error if only some graphs have labels, or if labels mix text and integers."""
    bare = [i for i, labels in enumerate(named) if labels is None]
    if 0 < len(bare) < len(named):
        raise InputError(
            f"{len(bare)} of {len(named)} graphs have no labels (first graph {bare[0]}); pass "
            "labels for all graphs, or for none."
        )
    kinds = {type(label) for labels in named if labels for label in labels}
    if kinds - {str} and kinds - {int}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(
            f"Labels of nodes have types {names}; pass only text, or only whole numbers."
        )
