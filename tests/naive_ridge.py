"""Elimination by ridge regression and leaving one sample out, as plain definitions (JMLR 6.6).

Nothing here is shared with the package: every set of features and every sample left out is solved
anew.
"""

import math

import numpy as np


def explained(X, U, penalty):
    """``tr Kbar L``, ``Kbar = K (K + penalty I)^-1``, ``K = X X'``, ``L = U U'``."""
    K = X @ X.T
    return float(np.trace(K @ np.linalg.inv(K + penalty * np.eye(len(K))) @ U @ U.T))


def ridge_order(X, U, penalty, step=0.1):
    """Features, the least relevant first, and what was lost with each."""
    m, left = len(X), list(range(X.shape[1]))
    order, falls = [], []
    while left:
        size = penalty * float(np.square(X[:, left]).sum()) / m
        for _ in range(max(1, math.floor(step * len(left)))):
            whole = explained(X[:, left], U, size)
            lost = [
                whole - explained(X[:, [k for k in left if k != j]], U, size)
                if len(left) > 1
                else whole
                for j in left
            ]
            worst = int(np.argmin(lost))
            order.append(left.pop(worst))
            falls.append(lost[worst])
    return order, falls


def left_out_errors(X, U, penalties):
    """Squared errors at left-out samples under the penalty whose sum is least, of mean 1."""
    m, n = X.shape
    K = np.array(
        [
            [math.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * n)) for z in X]
            for x in X
        ]
    )
    H = np.eye(m) - 1 / m
    unit = float(np.trace(H @ K @ H)) / m
    best = None
    for p in penalties:
        errors = []
        for i in range(m):
            rest = [k for k in range(m) if k != i]
            A = np.zeros((m, m))  # of the coefficients and the mean, which no penalty is for
            A[:-1, :-1] = K[np.ix_(rest, rest)] + p * unit * np.eye(m - 1)
            A[-1, :-1] = A[:-1, -1] = 1
            found = np.linalg.solve(A, np.vstack([U[rest], np.zeros((1, U.shape[1]))]))
            errors.append(float(np.square(U[i] - K[i, rest] @ found[:-1] - found[-1]).sum()))
        if best is None or sum(errors) < sum(best):
            best = errors
    return np.array(best) * m / np.square(U).sum()
