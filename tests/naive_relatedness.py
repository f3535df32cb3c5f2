"""Relationship of samples as it is defined, as plain loops.

Lists and floats; nothing here is shared with the package.
"""

import math


def scaled(column, ploidy):
    """A feature as it counts, missing values (NaN) its mean; None where it does not vary.

    Counts of one of `ploidy` alleles by ``sqrt(ploidy p (1 - p))``, others (None) by the deviation.
    """
    there = [v for v in column if not math.isnan(v)]
    if len(set(there)) < 2:
        return None
    mean = math.fsum(there) / len(there)
    left = [0.0 if math.isnan(v) else v - mean for v in column]
    size = math.sqrt(math.fsum(v * v for v in left) / len(left))
    if ploidy is not None:
        p = mean / ploidy
        size = math.sqrt(ploidy * p * (1 - p))
    return [v / size for v in left]


def relationship(X, ploidy=None):
    """Relationship of every two samples, m lists of m, over the features that vary (columns X)."""
    features = [z for column in X if (z := scaled(column, ploidy)) is not None]
    m = len(X[0])
    return [
        [math.fsum(z[i] * z[k] for z in features) / len(features) for k in range(m)]
        for i in range(m)
    ]


def predicted(K, y, penalty):
    """Each sample from all others by ridge regression with a mean: solved once a sample.

    K are inner products, m lists of m, and the mean of y is fitted to the others too.
    """
    m = len(y)
    found = []
    for i in range(m):
        others = [k for k in range(m) if k != i]
        A = [[K[a][b] + penalty * (a == b) for b in others] + [1.0] for a in others]
        A.append([1.0] * len(others) + [0.0])
        weights = solved(A, [y[a] for a in others] + [0.0])
        along = [K[i][a] for a in others] + [1.0]
        found.append(math.fsum(w * k for w, k in zip(weights, along, strict=True)))
    return found


def solved(A, b):
    """Solution of a linear system, by elimination with pivots."""
    n, rows = len(b), [[*row, value] for row, value in zip(A, b, strict=True)]
    for j in range(n):
        best = max(range(j, n), key=lambda i: abs(rows[i][j]))
        rows[j], rows[best] = rows[best], rows[j]
        for i in range(n):
            if i != j:
                by = rows[i][j] / rows[j][j]
                rows[i] = [a - by * c for a, c in zip(rows[i], rows[j], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]
