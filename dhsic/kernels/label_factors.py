r"""The label matrix as a product of thin ones: ``L = B diag(weights) B'``, never (m, m).

Two classes have rank 1 (JMLR eq. 16 and 17), n classes rank n (eq. 18 and 19), the linear kernel
on t targets rank t: exact. The Gaussian kernel on labels (eq. 20) has full rank in theory and a
handful of directions in fact, since values on a line lie close together: incomplete Cholesky
decomposition with pivoting (JMLR 2.6.2) finds 20 to 30 at a relative error of 1e-10, in O(m r)
memory. Kernels and widths are those of `dhsic.kernels.labels`.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.kernels.labels import (
    ClassTarget,
    GivenMatrix,
    LabelPart,
    LabelParts,
    RealTargets,
    label_distances,
)
from dhsic.linalg.pivoted_cholesky import pivoted_cholesky
from dhsic.linalg.symmetric import LowRankSymmetric

#: A given matrix of up to so many samples is decomposed.
MOST_DECOMPOSED = 5000
#: Directions that a factor may have.
MOST_DIRECTIONS = 2000
#: Mean of the diagonal that may be missing.
TOLERANCE = 1e-10


def factor_of(
    labels: LabelParts, *, tolerance: float = TOLERANCE, max_rank: int = MOST_DIRECTIONS
) -> LowRankSymmetric:
    """Factor of the label matrix that `dhsic.kernels.labels.label_matrix` writes out.

    Parameters
    ----------
    labels : LabelParts
        The labels, read.
    tolerance : float
        Part of the trace of a Gaussian L that may be missing.
    max_rank : int
        Most directions of a Gaussian L; where they do not reach the tolerance, `error` says so.

    Returns
    -------
    LowRankSymmetric
        Weights are negative only where a given L is indefinite. The error is the part of the
        trace that is missing, of a given L of the sum of its eigenvalues' sizes; no entry of a
        Gaussian L is off by more than m times as much.

    Raises
    ------
    InputError
        A given L of more than 5,000 samples; more than 2,000 classes.
    """
    found = [_factor(part, tolerance, max_rank) for part in labels.parts]
    missing = sum(left for _, _, left in found)
    size = sum(float(np.einsum("ij,ij,j->", B, B, np.abs(w))) for B, w, _ in found)
    error = missing / (missing + size) if missing + size else 0.0
    B, weights = (
        np.column_stack([B for B, _, _ in found]),
        np.concatenate([w for _, w, _ in found]),
    )
    return LowRankSymmetric.of(B, weights, error)


def factor_of_few(
    labels: LabelParts, *, tolerance: float, max_rank: int
) -> LowRankSymmetric | None:
    """Factor of labels that so few directions make; None where there are more.

    Classes and real values may have few. A given L is not searched: that takes long.
    """
    for part in labels.parts:
        few = isinstance(part, ClassTarget) and len(part.weights) <= max_rank
        if not (few or isinstance(part, RealTargets)):
            return None
    L = factor_of(labels, tolerance=tolerance, max_rank=max_rank)
    return None if L.error > tolerance or L.rank > max_rank else L


#: Directions (m, g) of a part, their weights (g,) and what is missing, in units of its trace.
PartFactor = tuple[Float, Float, float]


def _factor(part: LabelPart, tolerance: float, max_rank: int) -> PartFactor:
    if isinstance(part, ClassTarget):
        return _class_factor(part)
    if isinstance(part, GivenMatrix):
        return _spectrum(part.L)
    if part.sigma is None:
        return part.values, np.ones(part.values.shape[1]), 0.0
    return _cholesky(part.values, part.sigma, tolerance, max_rank)


def _class_factor(target: ClassTarget) -> PartFactor:
    """Eq. 16 to 19: the row of its class for every sample."""
    n = len(target.weights)
    if n > MOST_DIRECTIONS:
        raise InputError(
            f"The labels have {n} classes, and methods of low rank take up to {MOST_DIRECTIONS}; "
            "pass method='blockwise' or 'exact', or fewer classes."
        )
    maps = np.eye(n) if target.maps is None else target.maps
    return maps[target.codes], target.weights, 0.0


def _spectrum(L: Float) -> PartFactor:
    """Eigenvectors of a given L whose eigenvalues are more than rounding."""
    m = len(L)
    if m > MOST_DECOMPOSED:
        raise InputError(
            f"A precomputed L of {m} samples takes too long to decompose (up to "
            f"{MOST_DECOMPOSED}); pass the labels and a label_kernel, or method='exact'."
        )
    values, vectors = np.linalg.eigh((L + L.T) / 2)
    sizes = np.abs(values)
    kept = sizes > 1e-14 * max(float(sizes.max()), 1e-300)
    return vectors[:, kept], values[kept], float(sizes[~kept].sum())


def _cholesky(values: Float, sigma: float, tolerance: float, max_rank: int) -> PartFactor:
    """Of a Gaussian L; the worst sample is the next pivot."""

    def row(p: int) -> Float:
        return np.exp(-sigma * label_distances(values, values[p : p + 1])[:, 0])

    m = len(values)
    G, _, missing = pivoted_cholesky(row, np.ones(m), rank=min(m, max_rank), tolerance=tolerance)
    return np.ascontiguousarray(G.T), np.ones(len(G)), float(missing.sum())
