"""Covariates such as age, sex and principal components: removal of their linear effects."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.validation import as_numbers

#: Standard deviation of a column, relative to its largest value, below which the column counts as
#: constant, because of rounding errors.
ROUNDING = 1e-12
#: Labels that are constant or fully explained by covariates.
NOTHING_LEFT = (
    "Nothing is left of the labels after their mean and the covariates are removed: the labels "
    "are constant, or the covariates determine them. Pass labels that vary, or leave out the "
    "covariate that determines them."
)


def covariate_basis(covariates: Array | None, m: int) -> Float:
    """Compute an orthonormal basis Q (m, q + 1) of the columns of ``[1, C]``.

    `covariates` is C, (m, q) or (m,), or None without covariates. Q has fewer columns if columns of
    C are linearly dependent.

    Raises
    ------
    InputError
        `covariates` does not have m rows, its values are not numbers, or its columns leave no
        degrees of freedom.
    """
    if covariates is None:
        return np.full((m, 1), m**-0.5)
    C = as_numbers(covariates, "covariates")
    C = C[:, None] if C.ndim == 1 else C
    if C.ndim != 2 or len(C) != m:
        raise InputError(
            f"covariates have shape {np.shape(covariates)} and there are {m} samples; pass one "
            "row per sample."
        )
    deviations = C.std(axis=0)
    varies = deviations > ROUNDING * np.abs(C).max(axis=0, initial=0.0)
    C = (C - C.mean(axis=0)) / np.where(varies, deviations, 1.0)
    Q, singular, _ = np.linalg.svd(np.column_stack([np.ones(m), C]), full_matrices=False)
    Q = Q[:, singular > 1e-10 * singular[0]]
    if Q.shape[1] >= m - 1:
        raise InputError(
            f"{Q.shape[1] - 1} independent covariates leave no degrees of freedom for {m} samples; "
            "pass fewer."
        )
    return np.asarray(Q)


def orthonormal_columns(F: Float, Q: Float, least: float) -> tuple[Float, list[int]]:
    """Orthonormalise the columns of F by Gram-Schmidt, and make them orthogonal to Q.

    Parameters
    ----------
    F : (m, k)
        Columns, which are processed from left to right.
    Q : (m, p)
        Orthonormal columns, for instance a basis of ``[1, C]``.
    least : float
        Minimum norm of the residual of a column after projection on Q and earlier columns, relative
        to the norm of the column. Columns with a smaller residual are dropped as dependent.

    Returns
    -------
    B : (m, r)
        Orthonormal columns; r is at most k.
    columns : list of int
        Positions of the r columns in F.
    """
    basis: list[Float] = []
    columns: list[int] = []
    for number, column in enumerate(F.T):
        residual, length = column, np.linalg.norm(column)
        for _ in range(2):  # the second time corrects rounding errors
            residual = residual - Q @ (Q.T @ residual)
            for b in basis:
                residual = residual - b * (b @ residual)
        norm = np.linalg.norm(residual)
        if norm > least * length:
            basis.append(residual / norm)
            columns.append(number)
    return np.column_stack(basis) if basis else np.empty((len(F), 0)), columns


def residuals(B: Float, covariates: Array | None) -> Float:
    """Compute the residuals of a linear regression of the columns of B (m, k) on ``[1, C]``.

    C contains the covariates. The residuals are (m, k).
    """
    if covariates is None:
        return np.asarray(B - B.mean(axis=0))
    Q = covariate_basis(covariates, len(B))
    B = B - Q @ (Q.T @ B)
    return np.asarray(B - Q @ (Q.T @ B))  # the second projection corrects rounding errors


def project_out(Q: Float, B: Float) -> Float:
    """Project the orthonormal columns Q (m, q) out of the columns of B (m, k)."""
    return np.asarray(B - Q @ (Q.T @ B))


def regained(Q: Float) -> float:
    """Return the correction factor ``(m - 1) / (m - 1 - q)`` for HSIC of permuted residuals.

    Q (m, q + 1) is an orthonormal basis of the mean and q covariates. Residuals of labels have
    ``m - 1 - q`` degrees of freedom. If they are permuted and projected again (Freedman and Lane,
    1983), they lose another part of their variance to the covariates, and HSIC becomes smaller by
    this factor. Without covariates the factor is 1.
    """
    m, n_columns = Q.shape
    return float((m - 1) / (m - n_columns))


def nothing_left() -> InputError:
    """Create the error for labels that are constant or fully explained by covariates."""
    return InputError(NOTHING_LEFT)
