"""The weighted test of a feature as it is defined: ranks, functions, HSIC and variances, in loops.

Nothing here is shared with the package. Weights are positive; `p` are weights that sum to 1.
"""

import math
from itertools import accumulate
from statistics import NormalDist

WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
SHARES = (0.7, 0.1, 0.07, 0.065, 0.065)
LEVEL_WIDTHS, LEVEL_SHARES = (1.0, 1 / 8), (0.75, 0.25)
LABEL_WIDTHS, LABEL_SHARES = (1.0, 1 / 8), (0.9, 0.1)


def probabilities(weights):
    """Weights divided by their sum."""
    return [w / math.fsum(weights) for w in weights]


def ranks(x, p):
    """Weight of all smaller values, and half of the weight of equal ones."""
    return [
        math.fsum(q for v, q in zip(x, p, strict=True) if v < value)
        + math.fsum(q for v, q in zip(x, p, strict=True) if v == value) / 2
        for value in x
    ]


def inner(f, g, p):
    """Weighted mean of a product."""
    return math.fsum(a * b * q for a, b, q in zip(f, g, p, strict=True))


def residual(f, basis, p):
    """What is left of f after a weighted regression on orthonormal functions."""
    for _ in range(2):
        for b in basis:
            part = inner(f, b, p)
            f = [a - part * c for a, c in zip(f, b, strict=True)]
    return f


def unit(f, p):
    """The function scaled to weighted mean square 1."""
    size = math.sqrt(inner(f, f, p))
    return [a / size for a in f]


def basis_of(covariates, p):
    """Orthonormal functions that span 1 and the covariates, (q,) per sample."""
    columns = [[1.0] * len(p)]
    if covariates is not None:
        columns += [list(column) for column in zip(*covariates, strict=True)]
    basis = []
    for column in columns:
        basis.append(unit(residual(column, basis, p), p))
    return basis


def of_ranks(u, n):
    """Normal score of a rank, and cosines with 2 to n half waves."""
    normal = NormalDist()
    waves = ([math.sqrt(2) * math.cos(math.pi * r * v) for v in u] for r in range(2, n + 1))
    return [[normal.inv_cdf(v) for v in u], *waves]


def feature_functions(x, p, basis):
    """Functions of a feature: of its ranks, or of its two or three values."""
    n_levels = len(set(x))
    if n_levels > 3:
        rows = [residual(row, basis, p) for row in of_ranks(ranks(x, p), 12)]
        first = unit(rows[0], p)
        return [first, *(_without(row, first, p) for row in rows[1:])]
    mean = inner(x, [1.0] * len(x), p)
    rows = [[v - mean for v in x], [(v - mean) ** 2 for v in x]][: n_levels - 1]
    out = []
    for row in rows:
        out.append(unit(residual(row, [*basis, *out], p), p))
    return out


def _without(f, first, p):
    part = inner(f, first, p)
    return [a - part * b for a, b in zip(f, first, strict=True)]


def label_functions(y, p, basis):
    """Orthonormal functions of a real label, of the ranks of its residuals."""
    if len(basis) > 1:
        y = residual(y, basis, p)
    out = []
    for row in of_ranks(ranks(y, p), 5):
        out.append(unit(residual(row, [*basis, *out], p), p))
    return out


def class_functions(y, p, basis):
    """Orthonormal functions of classes, without covariates."""
    out = []
    for name in sorted(set(y))[:-1]:
        row = [float(v == name) for v in y]
        out.append(unit(residual(row, [*basis, *out], p), p))
    return out


def width_weights(h, n):
    """Weights of the functions for a Gaussian kernel on ranks of width h."""
    return [math.exp(-((math.pi * h) ** 2) * (r * r - 1) / 2) for r in range(1, n + 1)]


def hsic(x, y, weights, covariates=None, *, classes=False):
    """HSIC at all widths, summed with their shares."""
    p = probabilities(weights)
    basis = basis_of(covariates, p)
    phi = feature_functions(x, p, basis)
    b = (class_functions if classes else label_functions)(y, p, basis)
    many = len(set(x)) > 3
    widths, shares = (WIDTHS, SHARES) if many else (LEVEL_WIDTHS, LEVEL_SHARES)
    if len(phi) == 1:
        widths, shares = (1.0,), (1.0,)
    if classes:
        mus, of_labels = [[1.0] * len(b)], (1.0,)
    else:
        mus, of_labels = [width_weights(h, len(b)) for h in LABEL_WIDTHS], LABEL_SHARES
    total = 0.0
    for mu, of_label in zip(mus, of_labels, strict=True):
        norm = math.sqrt(math.fsum(m * m for m in mu))
        for h, share in zip(widths, shares, strict=True):
            for row, weight in zip(phi, width_weights(h, len(phi)), strict=True):
                for column, m in zip(b, mu, strict=True):
                    total += of_label * share * weight * m / norm * inner(row, column, p) ** 2
    return total


def signed_moments(Z, d):
    """Mean, standard deviation and skewness of sum_c d_c (sum_i e_i Z_ci)^2 over all signs e."""
    n, values = len(Z[0]), []
    for number in range(2**n):
        signs = [1 if number >> i & 1 else -1 for i in range(n)]
        sums = [math.fsum(e * z for e, z in zip(signs, row, strict=True)) for row in Z]
        values.append(math.fsum(w * s * s for w, s in zip(d, sums, strict=True)))
    mean = math.fsum(values) / len(values)
    second = math.fsum((v - mean) ** 2 for v in values) / len(values)
    third = math.fsum((v - mean) ** 3 for v in values) / len(values)
    return mean, math.sqrt(second), third / second**1.5


# Selections: HSIC of several features, Algorithm 1 ------------------------------------


def scaled(x, p):
    """Feature with weighted mean 0 and weighted deviation 1; None becomes 0."""
    present = math.fsum(q for v, q in zip(x, p, strict=True) if v is not None)
    mean = math.fsum(v * q for v, q in zip(x, p, strict=True) if v is not None) / present
    centred = [0.0 if v is None else v - mean for v in x]
    return unit(centred, p)


def label_kernel(y, p):
    """Kernel on classes (text or booleans), with weighted sizes, or Gaussian kernel on numbers."""
    if isinstance(y[0], float):
        pairs = sorted(
            ((a - b) ** 2, q * r)
            for a, q in zip(y, p, strict=True)
            for b, r in zip(y, p, strict=True)
        )
        below = accumulate(weight for _, weight in pairs)
        k = next(k for k, weight in enumerate(below) if weight >= 0.5)
        width = 2 * pairs[k][0]  # the median of two independent draws
        return [[math.exp(-((a - b) ** 2) / width) for b in y] for a in y]
    sizes = {c: math.fsum(q for v, q in zip(y, p, strict=True) if v == c) for c in set(y)}
    if len(sizes) == 2:
        first = min(sizes)
        return [
            [(1 if (a == first) == (b == first) else -1) / sizes[a] / sizes[b] for b in y]
            for a in y
        ]
    return [[(a == b) / sizes[a] for b in y] for a in y]


def hsic_of(columns, L, p, sigma):
    """HSIC of the weighted distribution, for scaled columns and a Gaussian or linear kernel."""
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(p)
    if sigma is None:
        K = [[math.fsum(a * b for a, b in zip(x, z, strict=True)) for z in rows] for x in rows]
    else:
        K = [[math.exp(-sigma * math.dist(x, z) ** 2) for z in rows] for x in rows]
    m = range(len(p))
    means = [math.fsum(p[j] * L[i][j] for j in m) for i in m]
    mean = math.fsum(p[i] * means[i] for i in m)
    return math.fsum(
        p[i] * p[j] * K[i][j] * (L[i][j] - means[i] - means[j] + mean) for i in m for j in m
    )


def bahsic(X, y, weights, *, is_linear=False):
    """Features by Algorithm 1, one per round, the best first, and scores, in the order of X."""
    p = probabilities(weights)
    L, columns = label_kernel(y, p), [scaled(x, p) for x in zip(*X, strict=True)]
    left, scores, order = list(range(len(columns))), [0.0] * len(columns), []
    while left:
        sigma = None if is_linear else 1 / (2 * len(left))
        whole = hsic_of([columns[j] for j in left], L, p, sigma)
        falls = {
            j: whole - hsic_of([columns[k] for k in left if k != j], L, p, sigma) for j in left
        }
        worst = min(left, key=falls.get)
        scores[worst] = falls[worst]
        left.remove(worst)
        order.insert(0, worst)
    return order, scores


def fohsic_first(X, y, weights):
    """The feature that FOHSIC adds first: the largest HSIC by itself."""
    p = probabilities(weights)
    L, columns = label_kernel(y, p), [scaled(x, p) for x in zip(*X, strict=True)]
    values = [hsic_of([x], L, p, 0.5) for x in columns]
    return values.index(max(values))
