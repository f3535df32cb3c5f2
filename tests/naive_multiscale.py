"""The test at several widths as it is defined: plain loops over samples, functions and widths.

Nothing here is shared with the package.
"""

import math
from itertools import permutations
from statistics import NormalDist

WIDTHS = [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
DISTANCE_WIDTH = 1 / 16


def basis(m, n_functions):
    """Functions of the ranks 1..m: the normal score and cosines, orthonormal in this order."""
    u = [(r + 0.5) / m for r in range(m)]
    rows = []
    for r in range(1, max(1, min(n_functions, m // 2)) + 1):
        if r == 1:
            row = [NormalDist().inv_cdf(v) for v in u]
        else:
            row = [math.cos(math.pi * r * v) for v in u]
        for _ in range(2):
            mean = math.fsum(row) / m
            row = [v - mean for v in row]
            for other in rows:
                along = math.fsum(a * b for a, b in zip(row, other, strict=True)) / m
                row = [a - along * b for a, b in zip(row, other, strict=True)]
        size = math.sqrt(math.fsum(v * v for v in row) / m)
        rows.append([v / size for v in row])
    return rows


def functions_of_ranks(x, n_functions):
    """Functions of the ranks of x at its samples; tied samples share the mean of theirs."""
    m = len(x)
    order = sorted(range(m), key=lambda i: x[i])
    place = {i: r for r, i in enumerate(order)}
    out = []
    for row in basis(m, n_functions):
        values = []
        for i in range(m):
            tied = [row[place[j]] for j in range(m) if x[j] == x[i]]
            values.append(math.fsum(tied) / len(tied))
        out.append(values)
    return out


def weight(h, r):
    """Eigenvalue of a reflected Gaussian kernel of width h over that of its first function."""
    return math.exp(-((math.pi * h) ** 2) * (r * r - 1) / 2)


def distance_weight(h, r):
    """Eigenvalue of the same kernel on distances from the middle rank, over that of the first."""
    return math.exp(-((math.pi * h) ** 2) * ((r / 2) ** 2 - 1) / 2) if r % 2 == 0 else 0.0


def kernel(functions, h, weight=weight):
    """Kernel matrix over m at the width h."""
    m = len(functions[0])
    return [
        [
            math.fsum(
                weight(h, r + 1) * functions[r][i] * functions[r][j] for r in range(len(functions))
            )
            / m
            for j in range(m)
        ]
        for i in range(m)
    ]


def statistic(A, C):
    """``<A, C>``."""
    m = len(A)
    return math.fsum(A[i][j] * C[i][j] for i in range(m) for j in range(m))


def moments(A, C):
    """Mean, deviation and skewness of ``<A, P C P'>`` over all m! permutations."""
    m = len(A)
    values = [
        statistic(A, [[C[p[i]][p[j]] for j in range(m)] for i in range(m)])
        for p in permutations(range(m))
    ]
    mean = math.fsum(values) / len(values)
    second = math.fsum((v - mean) ** 2 for v in values) / len(values)
    third = math.fsum((v - mean) ** 3 for v in values) / len(values)
    return mean, math.sqrt(second), third / second**1.5


def combined(p_values, shares):
    """Half-Cauchy combination of p-values."""
    total = math.fsum(
        share / math.tan(math.pi * p / 2) for p, share in zip(p_values, shares, strict=True)
    )
    return 2 / math.pi * math.atan(1 / total)


def exact_trend(table):
    """Probability that the number of alleles in the cases is as far from its mean, or further.

    `table` has the numbers of controls and of cases (rows) with 0, 1 and 2 alleles.
    """
    totals = [a + b for a, b in zip(*table, strict=True)]
    n, k = sum(totals), sum(table[1])
    mean = k * (totals[1] + 2 * totals[2]) / n
    far = abs(table[1][1] + 2 * table[1][2] - mean)
    ways = 0
    for one in range(min(k, totals[1]) + 1):
        for two in range(min(k - one, totals[2]) + 1):
            if abs(one + 2 * two - mean) >= far - 1e-9:
                none = math.comb(totals[0], k - one - two)
                ways += math.comb(totals[1], one) * math.comb(totals[2], two) * none
    return ways / math.comb(n, k)
