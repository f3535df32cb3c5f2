"""Paths and walks are counted as plain enumeration counts them."""

import math

import naive
import naive_structures as plain
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from refusals import assert_refused

from dhsic.errors import InputError
from dhsic.kernels import graphs as module
from dhsic.kernels.graphs import ShortestPaths, Walks
from dhsic.structured import rank_subgraphs


@st.composite
def graphs(draw, n_graphs=(1, 4), nodes=(1, 5)):
    """Undirected graphs, dense or sparse, some with loops or in parts, labels text or numbers."""
    labels = draw(st.sampled_from(["CNO", [3, -1, 20]]))
    out = []
    for _ in range(draw(st.integers(*n_graphs))):
        n = draw(st.integers(*nodes))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        A = np.triu(rng.random((n, n)) < draw(st.sampled_from([0.2, 0.5, 0.9])))
        A = (A | A.T).astype(draw(st.sampled_from([bool, np.int8, np.float64])))
        named = [labels[i] for i in rng.integers(0, 3, n)]
        form = draw(st.sampled_from([np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix]))
        out.append((form(A), named))
    return out


def as_lists(graph):
    A, labels = graph
    return (A.toarray() if scipy.sparse.issparse(A) else A).tolist(), labels


def table(found, names):
    return [[counts.get(a, 0) for a in names] for counts in found]


@pytest.mark.parametrize("block", [2**22, 3])
@given(given_graphs=graphs())
def test_shortest_paths_are_those_of_all_pairs(block, given_graphs):
    found = [plain.shortest_paths(*as_lists(graph)) for graph in given_graphs]
    if not any(found):
        with pytest.raises(InputError, match="has an edge"):
            ShortestPaths().counts(given_graphs)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        counts, names = ShortestPaths().counts(given_graphs)

    assert names == sorted({a for counts in found for a in counts})
    assert_array_equal(counts.toarray(), table(found, names))


@given(graphs(), st.integers(1, 3))
def test_walks_are_those_of_enumeration(given_graphs, longest):
    found = [plain.walks(*as_lists(graph), longest) for graph in given_graphs]
    all_names = {a for counts in found for a in counts}

    counts, names = Walks(longest).counts(given_graphs)

    assert names == sorted(a for a in all_names if a <= a[::-1])
    assert_array_equal(counts.toarray(), table(found, names))


@given(graphs(), st.integers(1, 4), st.sampled_from([0.25, 0.7, 1.0]))
def test_gram_of_walks_is_that_of_the_product_graph(given_graphs, longest, decay):
    lists = [as_lists(graph) for graph in given_graphs]

    K = Walks(longest, decay).gram(given_graphs)

    expected = [[plain.common_walks(a, b, longest, decay) for b in lists] for a in lists]
    assert_allclose(K, expected, rtol=1e-12)
    assert_array_equal(K, K.T)


@given(graphs())
def test_gram_of_shortest_paths_is_the_definition(given_graphs):
    found = [plain.shortest_paths(*as_lists(graph)) for graph in given_graphs]
    names = sorted({a for counts in found for a in counts})
    if names:
        K = ShortestPaths().gram(given_graphs)

        assert_allclose(K, plain.additive_gram(table(found, names), [1.0] * len(names)))


def test_nodes_can_be_numbered_in_any_order(rng):
    A = np.triu(rng.random((9, 9)) < 0.4, 1)
    A = (A | A.T).astype(int)
    labels = rng.choice(list("CNO"), 9)
    order = rng.permutation(9)

    for kernel in (ShortestPaths(), Walks(3)):
        counts, _ = kernel.counts([(A, labels), (A[np.ix_(order, order)], labels[order])])

        assert_array_equal(counts.toarray()[0], counts.toarray()[1])


def test_graphs_without_labels_are_told_apart_by_their_shape():
    ring, path = np.zeros((5, 5), int), np.zeros((5, 5), int)
    for i in range(5):
        ring[i, (i + 1) % 5] = ring[(i + 1) % 5, i] = 1
    path[:4, 1:] += np.eye(4, dtype=int)
    path += path.T

    counts, names = ShortestPaths().counts([(ring, None), (path, None)])

    assert names == [("*", "*", length) for length in (1, 2, 3, 4)]
    assert counts.toarray().tolist() == [[5, 5, 0, 0], [4, 3, 2, 1]]


def test_an_empty_graph_counts_nothing():
    edge = ([[0, 1], [1, 0]], ["a", "b"])
    empty = (np.zeros((0, 0)), [])

    for kernel in (ShortestPaths(), Walks(2)):
        assert kernel.counts([empty, edge])[0].toarray()[0].sum() == 0


@given(data=st.data())
def test_scores_are_the_part_of_hsic_that_each_feature_has(data):
    samples = data.draw(graphs(n_graphs=(6, 8), nodes=(3, 4)))
    samples[0] = ([[0, 1], [1, 0]], samples[0][1][:2])  # one edge at least
    kernel = data.draw(st.sampled_from([ShortestPaths(), Walks(2, 0.3)]))
    statistic = data.draw(st.sampled_from(["unbiased", "biased"]))
    y = [i % 2 for i in range(len(samples))]
    L = naive.label_gram(y, "balanced")

    found = rank_subgraphs(kernel, samples, y, statistic=statistic)

    counts = kernel.counts(samples)[0].toarray()
    expected = [
        naive.hsic(plain.additive_gram(column[:, None].tolist(), [w]), L, statistic)
        for column, w in zip(counts.T, kernel.weights(found.names), strict=True)
    ]
    assert_allclose(found.scores, expected, rtol=1e-9, atol=1e-12)
    assert math.isclose(
        found.rounds[0]["hsic"],
        naive.hsic(kernel.gram(samples).tolist(), L, statistic),
        rel_tol=1e-9,
        abs_tol=1e-12,
    )


def test_a_planted_bond_is_found(rng):
    """Rings with one oxygen; a nitrogen is bound to it in active ones, next but one in others."""
    samples = []
    y = np.arange(60) % 2
    ring = np.roll(np.eye(8, dtype=int), 1, axis=1)
    for active in y:
        atoms = rng.choice(["C", "C", "C", "N"], 8)
        atoms[[0, 1, 2, 6, 7]] = ["O", "N", "C", "C", "C"] if active else ["O", "C", "N", "C", "C"]
        samples.append((ring | ring.T, atoms))

    paths, walks = (rank_subgraphs(kernel, samples, y) for kernel in (ShortestPaths(), Walks(1)))

    assert {("C", "O", 1), ("N", "O", 1)} <= {paths.names[a] for a in paths.order[:4]}
    assert {walks.names[a] for a in walks.order[:2]} == {("C", "O"), ("N", "O")}


EDGE = [[0, 1], [1, 0]]
REFUSED = {
    "no pair": (lambda: Walks(1).counts([EDGE]), "Graph 0", "list", "(adjacency, labels)"),
    "none": (lambda: Walks(1).counts([]), "0 graphs", "pass one per sample"),
    "not square": (lambda: Walks(1).counts([([[0, 1]], None)]), "graph 0", "(1, 2)", "(n, n)"),
    "one axis": (lambda: Walks(1).counts([([0, 1], None)]), "graph 0", "(2,)", "(n, n)"),
    "weights": (lambda: Walks(1).counts([([[0, 2], [2, 0]], None)]), "graph 0", "adjacency != 0"),
    "NaN": (lambda: Walks(1).counts([([[0, np.nan], [0, 0]], None)]), "graph 0", "0 and 1"),
    "text": (lambda: Walks(1).counts([([["a"]], None)]), "graph 0", "0 and 1"),
    "directed": (lambda: Walks(1).counts([([[0, 1], [0, 0]], None)]), "directed", "undirected"),
    "labels": (lambda: Walks(1).counts([(EDGE, ["a"])]), "2 nodes", "(1,)", "one label per node"),
    "some without": (
        lambda: Walks(1).counts([(EDGE, ["a", "b"]), (EDGE, None)]),
        *("1 of 2 graphs", "first graph 1", "for none"),
    ),
    "kinds": (
        lambda: Walks(1).counts([(EDGE, ["a", "b"]), (EDGE, [1, 2])]),
        *("int, str", "only text"),
    ),
    "real labels": (lambda: Walks(1).counts([(EDGE, [0.5, 1.0])]), "float", "whole numbers"),
    "no edges": (lambda: ShortestPaths().counts([(np.zeros((2, 2)), None)]), "None of 1", "edges"),
    "no nodes": (lambda: Walks(1).counts([(np.zeros((0, 0)), None)]), "None of 1", "nodes"),
    "too many": (
        lambda: Walks(60).counts([(np.ones((3, 3)), None)]),
        *("33 edges", "2**53", "Walks(longest=32)"),
    ),
    "longest": (lambda: Walks(0), "longest=0", ">= 1"),
    "decay": (lambda: Walks(2, 0.0), "decay=0.0", "positive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(case, tmp_path):
    call, *words = REFUSED[case]
    assert_refused(call, InputError, words, tmp_path)
