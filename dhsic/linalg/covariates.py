"""Covariates (age, sex, principal components): what they explain linearly is taken out."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.validation import as_numbers

#: Standard deviation of a column, relative to its largest value, below which it is constant: it has
#: rounding errors alone, as the mean in a basis of other covariates has.
ROUNDING = 1e-12


def covariate_basis(covariates: Array | None, m: int) -> Float:
    """Orthonormal basis Q of ``[1, C]``, (m, q + 1) or fewer columns where C is dependent.

    `covariates` are C, (m, q) or (m,); refused are other than m rows, what is no number, and so
    many columns that nothing is left.
    """
    if covariates is None:
        return np.full((m, 1), m**-0.5)
    C = as_numbers(covariates, "covariates")
    C = C[:, None] if C.ndim == 1 else C
    if C.ndim != 2 or len(C) != m:
        raise InputError(
            f"covariates have shape {np.shape(covariates)} and there are {m} samples; pass one "
            "row a sample."
        )
    spread = C.std(axis=0)
    varies = spread > ROUNDING * np.abs(C).max(axis=0, initial=0.0)
    C = (C - C.mean(axis=0)) / np.where(varies, spread, 1.0)
    Q, singular, _ = np.linalg.svd(np.column_stack([np.ones(m), C]), full_matrices=False)
    Q = Q[:, singular > 1e-10 * singular[0]]
    if Q.shape[1] >= m - 1:
        raise InputError(
            f"{Q.shape[1] - 1} independent covariates leave nothing of {m} samples; pass fewer."
        )
    return np.asarray(Q)


def orthonormal_columns(F: Float, Q: Float, least: float) -> tuple[Float, list[int]]:
    """Orthonormal basis of the columns of F by Gram-Schmidt, orthogonal to Q; columns that count.

    Parameters
    ----------
    F : (m, k)
        Columns, taken in their order.
    Q : (m, p)
        Orthonormal columns, for instance of ``[1, C]``.
    least : float
        Part of the length of a column that must be left once Q and earlier columns are taken out;
        a column with less is dropped.

    Returns
    -------
    B : (m, r)
        Orthonormal columns, r of at most k.
    columns : list of int
        Positions in F of the r columns.
    """
    basis: list[Float] = []
    columns: list[int] = []
    for number, column in enumerate(F.T):
        left, length = column, np.linalg.norm(column)
        for _ in range(2):  # the second time for the digits of what is left
            left = left - Q @ (Q.T @ left)
            for b in basis:
                left = left - b * (b @ left)
        norm = np.linalg.norm(left)
        if norm > least * length:
            basis.append(left / norm)
            columns.append(number)
    return np.column_stack(basis) if basis else np.empty((len(F), 0)), columns


def residuals(B: Float, covariates: Array | None) -> Float:
    """``R B``, (m, k), what a linear regression of its columns on ``[1, C]`` leaves."""
    if covariates is None:
        return np.asarray(B - B.mean(axis=0))
    Q = covariate_basis(covariates, len(B))
    B = B - Q @ (Q.T @ B)
    return np.asarray(B - Q @ (Q.T @ B))  # once more, for the digits of what is left


def regained(Q: Float) -> float:
    """By how much permuted residuals count for less than residuals do, ``(m - 1) / (m - 1 - q)``.

    Labels have lost q of their m - 1 directions to covariates; permuted and projected again, as
    Freedman and Lane (1983) have it, they lose them once more, which makes HSIC so much smaller.
    Without covariates, where Q is ``1 / sqrt(m)`` alone, 1.
    """
    m, n_columns = Q.shape
    return float((m - 1) / (m - n_columns))


def nothing_left() -> InputError:
    """What is said of labels that covariates explain, or that are all alike."""
    return InputError(
        "Nothing is left of the labels once their mean and the covariates are taken out; pass "
        "labels that vary, or fewer covariates."
    )
