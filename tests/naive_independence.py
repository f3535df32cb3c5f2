"""Tests of independence as plain loops: permutations one by one, and what covariates explain."""

from itertools import permutations

from naive import hsic


def residual(L, covariates):
    """``R L R``, R the projection onto the complement of ``[1, covariates]``, column by column."""
    m = len(L)
    basis = _orthonormal([[1.0] * m, *(list(column) for column in zip(*covariates, strict=True))])
    return _transposed(_without(basis, _transposed(_without(basis, L))))


def _orthonormal(vectors):
    """Gram and Schmidt."""
    basis = []
    for vector in vectors:
        for _ in range(2):
            vector = _minus(basis, vector)  # noqa: PLW2901
        norm = sum(v * v for v in vector) ** 0.5
        basis.append([v / norm for v in vector])
    return basis


def _minus(basis, vector):
    for q in basis:
        along = sum(a * b for a, b in zip(q, vector, strict=True))
        vector = [v - along * a for v, a in zip(vector, q, strict=True)]
    return vector


def _without(basis, L):
    """``R L``."""
    return _transposed([_minus(basis, column) for column in _transposed(L)])


def _transposed(A):
    return [list(row) for row in zip(*A, strict=True)]


def permuted(L, p):
    """``L[p, p]``."""
    return [[L[i][j] for j in p] for i in p]


def statistic(K, L, p, estimator, covariates=None):
    """HSIC of K and of the labels with their samples permuted.

    With covariates the residuals are permuted, and what covariates explain is taken out again.
    """
    if covariates is None:
        return hsic(K, permuted(L, p), estimator)
    residuals = permuted(residual(L, covariates), p)
    return hsic(K, residual(residuals, covariates), estimator)


def p_value(K, L, drawn, estimator, covariates=None, tie=1e-9):
    """``(1 + #{permuted >= observed}) / (1 + n)``, those equal but for rounding being equal."""
    observed = statistic(K, L, range(len(K)), estimator, covariates)
    values = [statistic(K, L, p, estimator, covariates) for p in drawn]
    if covariates is not None:  # what is permuted has lost degrees of freedom
        m, q = len(K), len(covariates[0])
        values = [value * (m - 1) / (m - 1 - q) for value in values]
    near = tie * max(abs(v) for v in [observed, *values])
    return (1 + sum(1 for v in values if v >= observed - near)) / (1 + len(values))


def moments(K, L, estimator, covariates=None):
    """Mean, variance and third central moment over every permutation there is."""
    everyone = permutations(range(len(K)))
    values = [statistic(K, L, p, estimator, covariates) for p in everyone]
    mean = sum(values) / len(values)
    return mean, *(sum((v - mean) ** q for v in values) / len(values) for q in (2, 3))
