"""The objectives over weights, as plain loops: what `dhsic.weighting` is compared with.

Nothing here is shared with the package. Formulas are those of Chen et al. 2017 (CCM) and of
appendix A of Song et al. 2012 (JMLR 13); the number of each stands beside it. Lists and floats.
Matrices of targets have a row a sample.
"""

import math

# -- matrices -----------------------------------------------------------------------------------


def product(A, B):
    return [
        [sum(a * b for a, b in zip(row, col, strict=True)) for col in zip(*B, strict=True)]
        for row in A
    ]


def solve(A, B):
    """A^-1 B by Gaussian elimination; A symmetric and positive definite."""
    n = len(A)
    rows = [list(A[i]) + list(B[i]) for i in range(n)]
    for i in range(n):
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    for i in reversed(range(n)):
        rows[i] = [a / rows[i][i] for a in rows[i]]
        for k in range(i):
            factor = rows[k][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[n:] for row in rows]


def inner(A, B):
    return sum(a * b for r, s in zip(A, B, strict=True) for a, b in zip(r, s, strict=True))


def plus_ridge(G, ridge):
    return [[g + (ridge if i == j else 0.0) for j, g in enumerate(row)] for i, row in enumerate(G)]


# -- kernel matrices of weighted features (CCM 4) -----------------------------------------------


def gram(X, w, sigma):
    """K_w: the Gaussian kernel on w o x."""
    return [
        [
            math.exp(-sigma * sum((u * (a - b)) ** 2 for u, a, b in zip(w, x, z, strict=True)))
            for z in X
        ]
        for x in X
    ]


def centre(K):
    """G = H K H."""
    m = len(K)
    H = [[(1.0 if i == j else 0.0) - 1.0 / m for j in range(m)] for i in range(m)]
    return product(product(H, K), H)


def fourier_gram(X, w, sigma, directions, phases):
    """K_w ~ U U' with U_ik = sqrt(2 / D) cos(p_k + sqrt(2 sigma) <omega_k, w o x_i>)."""
    D = len(phases)
    U = [
        [
            math.sqrt(2.0 / D)
            * math.cos(
                p
                + math.sqrt(2.0 * sigma)
                * sum(o * u * a for o, u, a in zip(omega, w, x, strict=True))
            )
            for omega, p in zip(directions, phases, strict=True)
        ]
        for x in X
    ]
    return [[sum(a * b for a, b in zip(r, s, strict=True)) for s in U] for r in U]


# -- targets (CCM eq. 8 and 9) ------------------------------------------------------------------


def class_targets(y):
    """A column for each class, 1 where the sample is of it, less the mean of the column."""
    classes = sorted(set(y))
    share = {c: sum(1 for v in y if v == c) / len(y) for c in classes}
    return [[(1.0 if v == c else 0.0) - share[c] for c in classes] for v in y]


def real_targets(y):
    """Values less their mean, in units of their deviation."""
    mean = sum(y) / len(y)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in y) / len(y))
    return [[(v - mean) / deviation] for v in y]


# -- objectives (CCM 5) -------------------------------------------------------------------------


def conditional_trace(K, Y, epsilon):
    """Eq. 14 and 17 (13 for several columns): tr Y' (G + n eps I)^-1 Y."""
    M = plus_ridge(centre(K), len(Y) * epsilon)
    return inner(Y, solve(M, Y))


def soft_price(w, price, budget):
    """What eq. 18 adds."""
    return price * (sum(w) - budget)


def relation(K, Y, epsilon, alpha, strictness):
    """Eq. 19 at a given alpha."""
    M = plus_ridge(centre(K), len(Y) * epsilon)
    fitted = product(M, alpha)
    R = [[a - b for a, b in zip(r, s, strict=True)] for r, s in zip(fitted, Y, strict=True)]
    return inner(alpha, Y) + strictness * inner(R, R)


def best_alpha(K, Y, epsilon, strictness):
    """Where the derivative of eq. 19 by alpha is 0: Y + 2 lambda_2 M (M alpha - Y) = 0."""
    M = plus_ridge(centre(K), len(Y) * epsilon)
    target = product(M, Y)
    right = [
        [t - v / (2.0 * strictness) for t, v in zip(r, s, strict=True)]
        for r, s in zip(target, Y, strict=True)
    ]
    return solve(product(M, M), right)


def conditional_gradient(X, w, sigma, Y, epsilon):
    """d/dw of eq. 14 by the chain rule, sample by sample: -<Z, H dK H Z>."""
    K = gram(X, w, sigma)
    m = len(X)
    Z = solve(plus_ridge(centre(K), m * epsilon), Y)
    means = [sum(column) / m for column in zip(*Z, strict=True)]
    HZ = [[z - mean for z, mean in zip(row, means, strict=True)] for row in Z]
    out = []
    for j in range(len(w)):
        total = 0.0
        for i in range(m):
            for k in range(m):
                dK = -2.0 * sigma * w[j] * (X[i][j] - X[k][j]) ** 2 * K[i][k]
                total -= dK * sum(a * b for a, b in zip(HZ[i], HZ[k], strict=True))
        out.append(total)
    return out


# -- feature weighting (JMLR eq. 32 and 33) -----------------------------------------------------


def weighting(X, w, sigma, W, penalty, steepness):
    """<W, K_w> - lambda 1' (1 - exp(-alpha w))."""
    return inner(W, gram(X, w, sigma)) - penalty * sum(1.0 - math.exp(-steepness * u) for u in w)


def parts(X, w, sigma, W, penalty, steepness):
    """Its parts g and h with g - h, all terms with positive coefficients being in g."""
    K = gram(X, w, sigma)
    entries = [(a, k) for r, s in zip(W, K, strict=True) for a, k in zip(r, s, strict=True)]
    g = sum(a * k for a, k in entries if a > 0) + penalty * sum(
        math.exp(-steepness * u) - 1.0 for u in w
    )
    return g, sum(-a * k for a, k in entries if a < 0)


# -- anything -----------------------------------------------------------------------------------


def slope(function, x, j, h=1e-5):
    """Derivative by x_j, by differences of order four."""

    def at(step):
        return function([v + (step if k == j else 0.0) for k, v in enumerate(x)])

    return (8.0 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12.0 * h)
