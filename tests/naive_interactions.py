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


def share_of(z, fixed, Y):
    """Part of what `fixed` leaves of z that Y explains; 0 where it leaves nothing."""
    before = left_of(z, fixed)
    after = left_of(z, [*fixed, *Y])
    size = inner(before, before)
    return 1 - inner(after, after) / size if size > 1e-6 * len(z) else 0.0


def shares(X, Y, covariates=(), least=0.5, linked=0.9, squares=True):
    """Share of every pair (j, k) that is tested; X, Y and covariates are lists of columns.

    With `squares` that of the product given the squares of both features and where one of them is
    missing, if it is less.
    """
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
            if (inner(x, w) / m) ** 2 > linked:
                continue
            if inner(p, q) ** 2 > max(linked, 0.99) * inner(p, p) * inner(q, q):
                continue
            z = [a * b for a, b in zip(x, w, strict=True)]
            before = left_of(z, [*fixed, x, w])
            if inner(before, before) < least * m:
                continue
            found[j, k] = share_of(z, [*fixed, x, w], Y)
            if squares:
                own = [[a * a for a in each] for each in (x, w)]
                gaps = [float(a != a or b != b) for a, b in zip(X[j], X[k], strict=True)]
                own += [gaps] * any(gaps)
                found[j, k] = min(found[j, k], share_of(z, [*fixed, x, w, *own], Y))
    return found


def effects(X, hsic, sigma, degree=None, offset=1.0):
    """HSIC of all, of each main effect (j,) and pair (j, k); X is a list of features.

    `hsic` is of a kernel matrix; the kernel is the centred Gaussian product, or a polynomial, whose
    terms are what sets of features have beyond their subsets.
    """
    m, p = len(X[0]), len(X)
    if degree is None:
        parts = [_centred([[math.exp(-sigma * (a - b) ** 2) for b in x] for a in x]) for x in X]
        entries = {u: _entries(m, lambda i, k, u=u: math.prod(parts[j][i][k] for j in u))
                   for u in _sets(p)}  # fmt: skip
        whole = _entries(m, lambda i, k: math.prod(1 + part[i][k] for part in parts))
        return hsic(whole), {u: hsic(K) for u, K in entries.items()}

    def power(u):
        return hsic(
            _entries(m, lambda i, k: (sum(X[j][i] * X[j][k] for j in u) + offset) ** degree)
        )

    found = {(j,): power((j,)) for j in range(p)}
    for u in _sets(p):
        if len(u) == 2:
            found[u] = power(u) - found[u[0],] - found[u[1],]
    return power(range(p)), found


def _sets(p):
    """Sets of one and two of p."""
    return [(j,) for j in range(p)] + [(j, k) for j in range(p) for k in range(j + 1, p)]


def _entries(m, value):
    return [[value(i, k) for k in range(m)] for i in range(m)]


def _centred(K):
    """K less the means of its rows and columns."""
    m = len(K)
    means = [math.fsum(row) / m for row in K]
    mean = math.fsum(means) / m
    return [[K[i][k] - means[i] - means[k] + mean for k in range(m)] for i in range(m)]


def environment_shares(X, Y, environments, covariates=(), least=0.5, linked=0.9):
    """Share of each feature j with each environment k; all arguments are lists of columns.

    All environments, their squares and the covariates are regressed out, and the square of the
    feature as well if the share is then smaller.
    """
    m = len(Y[0])
    E = [standardised(column) for column in environments]
    fixed = [[1.0] * m, *covariates, *E, *([v * v for v in e] for e in E)]
    found = {}
    for j, column in enumerate(X):
        x = standardised(column)
        gaps = [float(v != v) for v in column]
        for k, e in enumerate(E):
            z = [a * b for a, b in zip(x, e, strict=True)]
            before = left_of(z, [*fixed, x])
            if (inner(x, e) / m) ** 2 > linked or inner(before, before) < least * m:
                continue
            own = [[v * v for v in x], *([gaps] if any(gaps) else [])]
            found[j, k] = min(share_of(z, [*fixed, x], Y), share_of(z, [*fixed, x, *own], Y))
    return found
