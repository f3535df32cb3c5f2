"""Labels as a test of independence takes them: ``C = R L R``, thin where that can be."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.covariates import covariate_basis
from dhsic.errors import InputError
from dhsic.independence.forms import AbstractForm
from dhsic.independence.full import Full
from dhsic.independence.thin import Thin
from dhsic.kernels.label_factors import factor_of
from dhsic.kernels.labels import ClassTarget, LabelPart, LabelParts
from dhsic.kernels.real_labels import RealTargets

#: Part of its trace that a thin label matrix may leave out: rounding.
COMPLETE = 1e-13
#: Directions up to which products with them are faster than to look up permuted entries.
MOST = 64
#: Part of the labels that is nothing.
NOTHING = 1e-12


def basis_of(covariates: Array | None, m: int) -> Float:
    """Orthonormal basis Q of ``[1, covariates]``, (m, q); errors as of `covariate_basis`."""
    return np.full((m, 1), m**-0.5) if covariates is None else covariate_basis(covariates, m)


def thin_labels(labels: LabelParts) -> Thin | None:
    """L where it has up to 64 directions, as classes and real values have; else None.

    A given L is not searched for directions: that takes longer than the test.
    """
    if not all(_may_be_thin(part) for part in labels.parts):
        return None
    L = factor_of(labels, tolerance=COMPLETE, max_rank=MOST)
    if L.error > COMPLETE or L.B.shape[1] > MOST:
        return None
    return Thin(L.B, L.weights, np.zeros(labels.n_samples))


def _may_be_thin(part: LabelPart) -> bool:
    few = isinstance(part, ClassTarget) and len(part.weights) <= MOST
    return few or isinstance(part, RealTargets)


def full_labels(labels: LabelParts) -> Full:
    """L written out."""
    everyone = slice(0, labels.n_samples)
    return Full(np.asarray(labels.tile(everyone, everyone)))


def residual(L: AbstractForm, Q: Float) -> AbstractForm:
    """``C = R L R``; Q is that of `basis_of`.

    Raises
    ------
    InputError
        Nothing is left of the labels.
    """
    C = L.projected(Q)
    if np.abs(C.diagonal).max() <= NOTHING * np.abs(L.diagonal).max():
        raise InputError(
            "Nothing is left of the labels once their mean and the covariates are taken out; "
            "pass labels that vary, or fewer covariates."
        )
    return C
