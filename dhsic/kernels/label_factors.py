r"""The label matrix as a product of thin ones: ``L = B diag(weights) B'``, never (m, m).

Two classes have rank 1 (JMLR eq. 16 and 17), n classes rank n (eq. 18 and 19), the linear kernel
on t targets rank t: exact. The Gaussian kernel on labels (eq. 20) has full rank in theory and a
handful of directions in fact, since values on a line lie close together: incomplete Cholesky
decomposition with pivoting (JMLR 2.6.2) finds 20 to 30 at a relative error of 1e-10, in O(m r)
memory. Kernels and widths are those of `dhsic.kernels.labels`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.kernels.labels import (
    ClassTarget,
    GivenMatrix,
    LabelPart,
    LabelParts,
    label_distances,
    label_parts,
)

#: A given matrix of up to so many samples is decomposed.
MOST_DECOMPOSED = 5000
#: Directions that a factor may have.
MOST_DIRECTIONS = 2000
#: Mean of the diagonal that may be missing.
TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True)
class LabelFactor:
    """``L ~ B diag(weights) B'``.

    Attributes
    ----------
    B : (m, g) float64
        Directions.
    weights : (g,) float64
        Their weights; negative only where a given L is indefinite.
    exact : bool
        Whether nothing but rounding is missing.
    error : float
        Part of L that is missing: of its trace, for a given L of the sum of its eigenvalues'
        sizes. No entry of a Gaussian L is off by more than m times as much.
    name : str
        Which kernels on which targets.
    """

    B: Float
    weights: Float
    exact: bool
    error: float
    name: str


def label_factor(
    y: Array,
    label_kernel: str = "auto",
    *,
    tolerance: float = TOLERANCE,
    max_rank: int = MOST_DIRECTIONS,
) -> LabelFactor:
    """Factor of the label matrix that `dhsic.kernels.labels.label_matrix` writes out.

    Parameters
    ----------
    y : (m,) or (m, t) array
        Labels; (m, m) for ``label_kernel="precomputed"``.
    label_kernel : str
        As of `label_matrix`.
    tolerance : float
        Part of the trace of a Gaussian L that may be missing.
    max_rank : int
        Most directions of a Gaussian L; where they do not reach the tolerance, `error` says so.

    Returns
    -------
    LabelFactor
        B, its weights and what is missing.

    Raises
    ------
    InputError
        As of `label_matrix`; a given L of more than 5,000 samples; more than 2,000 classes.
    """
    return factor_of(label_parts(y, label_kernel), tolerance=tolerance, max_rank=max_rank)


def factor_of(
    labels: LabelParts, *, tolerance: float = TOLERANCE, max_rank: int = MOST_DIRECTIONS
) -> LabelFactor:
    """Factor of labels that have been read; parameters and errors as of `label_factor`."""
    found = [_factor(part, tolerance, max_rank) for part in labels.parts]
    missing = sum(part.missing for part in found)
    whole = missing + sum(part.size for part in found)
    return LabelFactor(
        np.column_stack([part.B for part in found]),
        np.concatenate([part.weights for part in found]),
        all(part.exact for part in found),
        missing / whole if whole else 0.0,
        labels.description,
    )


@dataclass(frozen=True, slots=True)
class _PartFactor:
    """Factor of one part; `missing` and its `size` in the same unit."""

    B: Float
    weights: Float
    exact: bool = True
    missing: float = 0.0

    @property
    def size(self) -> float:
        return float(np.einsum("ij,ij,j->", self.B, self.B, np.abs(self.weights)))


def _factor(part: LabelPart, tolerance: float, max_rank: int) -> _PartFactor:
    if isinstance(part, ClassTarget):
        return _class_factor(part)
    if isinstance(part, GivenMatrix):
        return _spectrum(part.L)
    if part.sigma is None:
        return _PartFactor(part.values, np.ones(part.values.shape[1]))
    return _cholesky(part.values, part.sigma, tolerance, max_rank)


def _class_factor(target: ClassTarget) -> _PartFactor:
    """Eq. 16 to 19: the row of its class for every sample."""
    n = len(target.weights)
    if n > MOST_DIRECTIONS:
        raise InputError(
            f"The labels have {n} classes, and methods of low rank take up to {MOST_DIRECTIONS}; "
            "pass method='blockwise' or 'exact', or fewer classes."
        )
    if target.maps is not None:
        return _PartFactor(target.maps[target.codes], target.weights)
    B = np.zeros((len(target.codes), n))
    B[np.arange(len(B)), target.codes] = 1.0
    return _PartFactor(B, target.weights)


def _spectrum(L: Float) -> _PartFactor:
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
    return _PartFactor(vectors[:, kept], values[kept], missing=float(sizes[~kept].sum()))


def _cholesky(values: Float, sigma: float, tolerance: float, max_rank: int) -> _PartFactor:
    """Incomplete Cholesky decomposition of a Gaussian L; the worst sample is the next pivot."""
    m = len(values)
    G = np.empty((min(16, m), m))  # rows are directions
    residual = np.ones(m)  # diagonal of what is missing
    rank = 0
    while rank < min(m, max_rank) and residual.sum() > tolerance * m:
        pivot = int(np.argmax(residual))
        if rank == len(G):
            G = np.concatenate([G, np.empty_like(G)])
        column = np.exp(-sigma * label_distances(values, values[pivot : pivot + 1])[:, 0])
        column -= G[:rank, pivot] @ G[:rank]
        column /= np.sqrt(residual[pivot])
        G[rank] = column
        column *= column
        residual -= column
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
        rank += 1
    B = np.ascontiguousarray(G[:rank].T)
    return _PartFactor(B, np.ones(rank), exact=False, missing=float(residual.sum()))
