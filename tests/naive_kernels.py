"""More kernels on data, and Algorithm 1 with any of them, as plain loops; see tests/naive.py.

A kernel here is ``gram(X, sigma, S)``: the matrix of the samples X, in a round whose features are
those of the samples S (which only ridge kernels look at, for their lambda).
"""

import math

import naive
import numpy as np


def squared_distance(x, z):
    return sum((a - b) ** 2 for a, b in zip(x, z, strict=True))


def laplace(x, z, sigma):
    """JMLR 5.1.3, ``exp(-xi)``."""
    return math.exp(-math.sqrt(2 * sigma * squared_distance(x, z)))


def laplace_l1(x, z, sigma):
    return math.exp(-sigma * sum(abs(a - b) for a, b in zip(x, z, strict=True)))


def rational(x, z, sigma, alpha=1.0):
    return (1 + sigma * squared_distance(x, z) / alpha) ** -alpha


def inverse_distance(x, z, sigma, eps=0.1):
    return eps / (math.sqrt(2 * sigma * squared_distance(x, z)) + eps)


def delta(x, z, sigma):
    return float(sum(a == b for a, b in zip(x, z, strict=True)))


def entrywise(value):
    """Gram matrix of a kernel of two samples."""

    def gram(X, sigma, S):
        return [[value(x, z, sigma) for z in X] for x in X]

    return gram


def ridge(value, penalty=1.0):
    """JMLR 6.6: ``K (K + lambda I)^-1``, lambda over the mean of the diagonal of K of the round."""

    def gram(X, sigma, S):
        size = penalty * sum(value(x, x, sigma) for x in S) / len(S)
        K = entrywise(value)(X, sigma, S)
        M = [[K[i][j] + (size if i == j else 0.0) for j in range(len(K))] for i in range(len(K))]
        return naive._solve(M, K)  # K and M^-1 commute

    return gram


GRAMS = {
    "laplace": entrywise(laplace),
    "laplace-l1": entrywise(laplace_l1),
    "rational": entrywise(rational),
    "inverse-distance": entrywise(inverse_distance),
    "delta": entrywise(delta),
    "ridge": ridge(naive.linear),
    "kernel-ridge": ridge(naive.gaussian, 0.5),
}


def choose_sigma(bandwidth, X, L, name, statistic):
    """Line 3; the median is of distances for the kernel of these, else of their squares."""
    m = len(X)
    if bandwidth == "median" and name == "laplace-l1":
        distances = [
            sum(abs(a - b) for a, b in zip(X[i], X[j], strict=True))
            for i in range(m)
            for j in range(i + 1, m)
        ]
        return 1.0 / (2.0 * naive._median_or_positive(distances))
    if isinstance(bandwidth, list):
        values = [naive.hsic(GRAMS[name](X, s, X), L, statistic) for s in sorted(bandwidth)]
        return sorted(bandwidth)[values.index(max(values))]
    return naive.choose_sigma(bandwidth, X, L, None, statistic)


def gains_of(X, L, name, sigma, statistic):
    """``HSIC(S without j) - HSIC(S)`` for every feature j of the samples X."""
    gram = GRAMS[name]
    whole = naive.hsic(gram(X, sigma, X), L, statistic)
    gains = []
    for j in range(len(X[0])):
        rest = naive.columns(X, [k for k in range(len(X[0])) if k != j])
        gains.append(naive.hsic(gram(rest, sigma, X), L, statistic) - whole)
    return gains


def bahsic(X, L, name, bandwidth="dimension", statistic="unbiased", step=0.1):
    """Algorithm 1, as `naive.bahsic`."""
    S = list(range(len(X[0])))
    S_dagger = []  # 1
    while S:  # 2 and 7
        XS = naive.columns(X, S)
        sigma = choose_sigma(bandwidth, XS, L, name, statistic)  # 3
        gains = gains_of(XS, L, name, sigma, statistic)
        n = max(1, math.floor(step * len(S))) if isinstance(step, float) else min(step, len(S))
        chosen = [S[p] for p in naive.largest(gains, n)]  # 4
        S = [j for j in S if j not in chosen]  # 5
        S_dagger += chosen  # 6
    return S_dagger


PROFILES = {
    "laplace": lambda z: np.exp(-np.sqrt(2 * z)),
    "rational": lambda z: 1 / (1 + z),
    "inverse-distance": lambda z: 0.1 / (np.sqrt(2 * z) + 0.1),
    "laplace-l1": lambda z: np.exp(-z),
}


def bahsic_in_arrays(X, L, name, statistic="unbiased", step=0.1):
    """`bahsic` with sigma = 1/(2|S|) for hundreds of features: NumPy inside the loops."""
    value = {"biased": naive._biased_array, "unbiased": naive._unbiased_array}[statistic]
    power = 1 if name == "laplace-l1" else 2
    apart = [np.abs(np.subtract.outer(x, x)) ** power for x in X.T]
    S = list(range(X.shape[1]))
    S_dagger = []
    while S:
        sigma = 1.0 / (2.0 * len(S))
        D = np.sum([apart[j] for j in S], axis=0)
        whole = value(PROFILES[name](sigma * D), L)
        gains = []
        for j in S:
            rest = np.maximum(D - apart[j], 0.0)
            rest[rest < 1e-12 * D.max()] = 0.0
            gains.append(value(PROFILES[name](sigma * rest), L) - whole)
        chosen = [S[p] for p in naive.largest(gains, max(1, math.floor(step * len(S))))]
        S = [j for j in S if j not in chosen]
        S_dagger += chosen
    return S_dagger
