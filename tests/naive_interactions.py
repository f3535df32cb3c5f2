"""The share of a pair as it is defined, as plain loops: least squares by elimination, nothing else.

Lists and floats; nothing here is shared with the package.
"""

import math


def inner(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def left_of(z, columns):
    """What least squares on columns leaves of z; a column that others explain is passed over."""
    basis = []
    for column in columns:
        left = list(column)
        for _ in range(2):  # once more, for the digits
            for q in basis:
                by = inner(q, left)
                left = [a - by * b for a, b in zip(left, q, strict=True)]
        size = math.sqrt(inner(left, left))
        if size > 1e-8 * math.sqrt(inner(column, column)):
            basis.append([a / size for a in left])
    for _ in range(2):
        for q in basis:
            by = inner(q, z)
            z = [a - by * b for a, b in zip(z, q, strict=True)]
    return z


def standardised(column):
    """A feature of mean 0 and variance 1; missing values (NaN) are its mean."""
    there = [v for v in column if not math.isnan(v)]
    mean = math.fsum(there) / len(there)
    left = [0.0 if math.isnan(v) else v - mean for v in column]
    size = math.sqrt(inner(left, left) / len(left))
    return [v / size for v in left] if size > 0 else None


def shares(X, Y, covariates=(), least=0.5, linked=0.9):
    """Share of every pair (j, k) that is tested; X, Y and covariates are lists of columns."""
    m = len(Y[0])
    features = [standardised(column) for column in X]
    fixed = [[1.0] * m, *covariates]
    found = {}
    for j in range(len(X)):
        for k in range(j + 1, len(X)):
            if features[j] is None or features[k] is None:
                continue
            x, w = features[j], features[k]
            p, q = left_of(x, fixed), left_of(w, fixed)
            if inner(p, q) ** 2 > linked * inner(p, p) * inner(q, q):
                continue
            z = [a * b for a, b in zip(x, w, strict=True)]
            before = left_of(z, [*fixed, x, w])
            after = left_of(z, [*fixed, x, w, *Y])
            if inner(before, before) < least * m:
                continue
            found[j, k] = 1 - inner(after, after) / inner(before, before)
    return found
