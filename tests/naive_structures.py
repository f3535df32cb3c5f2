"""Substrings, paths, walks and products of kernels, as plain loops.

Beside `naive`: nothing here is shared with the package either.
"""

import math
from itertools import pairwise, product

import naive

# -- strings (JMLR 5.1.4) -----------------------------------------------------------------------


def occurrences(a, x):
    """``#_a(x)``: places of x where the substring a begins."""
    return sum(1 for i in range(len(x)) if x[i : i + len(a)] == a)


def substrings(strings, lengths):
    """All substrings of these lengths, sorted."""
    return sorted({x[i : i + k] for x in strings for k in lengths for i in range(len(x) - k + 1)})


# -- graphs (JMLR 5.1.4) ------------------------------------------------------------------------


def distances(adjacency):
    """Edges between nodes, by Floyd and Warshall; infinite where there is no path."""
    n = len(adjacency)
    D = [
        [0 if u == v else (1 if adjacency[u][v] else math.inf) for v in range(n)] for u in range(n)
    ]
    for w, u, v in product(range(n), repeat=3):
        D[u][v] = min(D[u][v], D[u][w] + D[w][v])
    return D


def shortest_paths(adjacency, labels):
    """Number of pairs of nodes by (label, label, length)."""
    D = distances(adjacency)
    found = {}
    for u in range(len(labels)):
        for v in range(u):
            if D[u][v] < math.inf:
                a, b = sorted((labels[u], labels[v]))
                found[a, b, D[u][v]] = found.get((a, b, D[u][v]), 0) + 1
    return found


def walks(adjacency, labels, longest):
    """Number of walks of up to `longest` edges by the labels that they meet, in that direction."""
    n = len(labels)
    found = {}
    for edges in range(longest + 1):
        for nodes in product(range(n), repeat=edges + 1):
            if all(adjacency[u][v] for u, v in pairwise(nodes)):
                met = tuple(labels[u] for u in nodes)
                found[met] = found.get(met, 0) + 1
    return found


def common_walks(first, second, longest, decay):
    """Kernel of walks by the product graph: ``sum_n decay^n 1' A^n 1`` (Gaertner et al. 2003)."""
    (A, a), (B, b) = first, second
    nodes = [(u, v) for u in range(len(a)) for v in range(len(b)) if a[u] == b[v]]
    ending = dict.fromkeys(nodes, 1)
    value = 0.0
    for edges in range(longest + 1):
        value += decay**edges * sum(ending.values())
        ending = {
            (u, v): sum(ending[s, t] for s, t in nodes if A[s][u] and B[t][v]) for u, v in nodes
        }
    return value


# -- sums of features and products of kernels ---------------------------------------------------


def additive_gram(counts, weights):
    """``K = sum_a w_a c_a c_a'``; counts is a list of samples."""
    return [
        [sum(w * p * q for w, p, q in zip(weights, x, z, strict=True)) for z in counts]
        for x in counts
    ]


def product_of(kernels, S, m):
    """Elementwise product of the kernels in S; ones where S is empty."""
    return [[math.prod(kernels[g][i][j] for g in S) for j in range(m)] for i in range(m)]


def backward_product(kernels, L, statistic, step):
    """Algorithm 1 on K(S), the product: S-dagger, the least relevant first."""
    m = len(L)
    S, S_dagger = list(range(len(kernels))), []
    while S:
        whole = naive.hsic(product_of(kernels, S, m), L, statistic)
        gains = []
        for g in S:
            rest = [h for h in S if h != g]
            gains.append(naive.hsic(product_of(kernels, rest, m), L, statistic) - whole)
        chosen = [S[p] for p in largest(gains, _taken(step, len(S)), whole)]
        S = [g for g in S if g not in chosen]
        S_dagger += chosen
    return S_dagger


def forward_product(kernels, L, statistic, step):
    """Algorithm 2 on K(S), the product: S-dagger, the most relevant first."""
    m = len(L)
    S, S_dagger = list(range(len(kernels))), []
    while S:
        before = naive.hsic(product_of(kernels, S_dagger, m), L, statistic)
        gains = []
        for g in S:
            with_g = product_of(kernels, [*S_dagger, g], m)
            gains.append(naive.hsic(with_g, L, statistic) - before)
        chosen = [S[p] for p in largest(gains, _taken(step, len(S)), before)]
        S = [g for g in S if g not in chosen]
        S_dagger += chosen
    return S_dagger


def largest(gains, n, value):
    """Of differences from `value` that may all be 0 but for rounding errors."""
    size = max(1.0, abs(value), *map(abs, gains))
    return naive.largest([g if abs(g) > 1e-13 * size else 0.0 for g in gains], n)


def _taken(step, n):
    return max(1, math.floor(step * n)) if isinstance(step, float) else min(step, n)
