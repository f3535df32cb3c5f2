"""Marginal interactions as plain loops: the statistic, and its moments over all signs of residuals.

Lists and floats; nothing here is shared with the package.
"""

import math
from itertools import product

from naive_interactions import inner, left_of, standardised


def kernel(features):
    """Mean product of samples over features without the diagonal, as a list of rows."""
    m, d = len(features[0]), len(features)
    return [
        [sum(x[i] * x[k] for x in features) / d if i != k else 0.0 for k in range(m)]
        for i in range(m)
    ]


def without(K, x, d):
    """Kernel without feature x, off the diagonal."""
    m = len(x)
    return [[K[i][k] - x[i] * x[k] / d if i != k else 0.0 for k in range(m)] for i in range(m)]


def form(K, v):
    m = len(v)
    return math.fsum(K[i][k] * v[i] * v[k] for i in range(m) for k in range(m))


def moments(X, fixed, residuals, P, is_partner):
    """Statistic minus its mean, and its variance, of each feature for columns of residuals.

    X and residuals are lists of columns, `fixed` what is regressed out of features.
    """
    features = [left_of(standardised(column), fixed) for column in X]
    partners = [x for x, chosen in zip(features, is_partner, strict=True) if chosen]
    K, d = kernel(partners), len(partners)
    m = len(residuals[0])
    out = []
    for x, chosen in zip(features, is_partner, strict=True):
        own = without(K, x, d) if chosen else K
        square = left_of([a * a for a in x], [*fixed, x])
        columns = [x] + [square] * (inner(square, square) > 1e-6 * inner(x, x))
        rs = [left_of(r, columns) for r in residuals]
        W = [[a * b for a, b in zip(x, r, strict=True)] for r in rs]
        mean = math.fsum(K[i][k] * P[i][k] * x[i] * x[k] for i in range(m) for k in range(m))
        statistic = sum(form(own, w) for w in W) - len(W) * mean
        variance = 2 * math.fsum(
            (own[i][k] * sum(w[i] * w[k] for w in W)) ** 2 for i in range(m) for k in range(m)
        )
        out.append((statistic, variance))
    return out


def of_signs(K, w):
    """Second and third moments of ``sum_ik K_ik w_i w_k`` over all signs of the entries of w."""
    values = [
        form(K, [s * v for s, v in zip(signs, w, strict=True)])
        for signs in product((-1, 1), repeat=len(w))
    ]
    return tuple(math.fsum(v**order for v in values) / len(values) for order in (2, 3))
