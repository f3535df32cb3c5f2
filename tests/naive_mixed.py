"""Categories beside numbers, in plain loops: columns are lists of numbers, or of texts."""

import math

import naive


def vectors_of(column, *, scale=True):
    """One vector per sample: a number, or the indicators of the levels; None is missing."""
    present = [v for v in column if v is not None]
    m = len(column)
    if not isinstance(present[0], str):
        filled = [[math.nan if v is None else float(v)] for v in column]
        return naive.standardise(filled, scale=scale)
    levels = sorted(set(present))
    p = {level: present.count(level) / len(present) for level in levels}
    centred = [[0.0 if v is None else (v == level) - p[level] for level in levels] for v in column]
    variance = sum(x * x for row in centred for x in row) / m
    root = math.sqrt(variance) if scale else math.sqrt(2.0)
    return [[x / root for x in row] for row in centred]


def gram(columns, sigma):
    """Gaussian kernel of the vectors of all columns side by side."""
    m = len(columns[0])
    rows = [[x for column in columns for x in column[i]] for i in range(m)]
    return naive.gram(rows, "gaussian", sigma)


def backward(columns, L, statistic="unbiased"):
    """Algorithm 1 over columns, one per round: the least relevant first; sigma is 1 / (2 n)."""
    vectors = [vectors_of(column) for column in columns]
    S, order = list(range(len(columns))), []
    while S:
        sigma = 1.0 / (2.0 * len(S))

        def without(j, S=S, sigma=sigma):
            rest = [vectors[k] for k in S if k != j] or [[[0.0]] * len(L)]
            return naive.hsic(gram(rest, sigma), L, statistic)

        j = max(S, key=without)
        order.append(j)
        S = [k for k in S if k != j]
    return order


def chi_square(x, y):
    """Pearson's statistic of two lists of texts."""
    total, n = 0.0, len(x)
    for a in set(x):
        for b in set(y):
            expected = x.count(a) * y.count(b) / n
            observed = sum(1 for u, v in zip(x, y, strict=True) if (u, v) == (a, b))
            total += (observed - expected) ** 2 / expected
    return total


def ridge_losses(G, B, penalty, groups):
    """For each group of features: the decrease of tr B' (G + penalty I)^-1 B without it."""
    import numpy as np

    def explained(some):
        inner = np.array([[G[i][j] for j in some] for i in some])
        along = np.array([B[i] for i in some])
        return float(np.trace(along.T @ np.linalg.inv(inner + penalty * np.eye(len(some))) @ along))

    every = list(range(len(G)))
    names = sorted(set(groups))
    return [explained(every) - explained([i for i in every if groups[i] != name]) for name in names]
