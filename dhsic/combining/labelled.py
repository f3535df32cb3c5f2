"""Labels of samples that are no rows of a matrix: their weights W."""

from __future__ import annotations

from typing import Any

from dhsic._typing import Float
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix


def label_weights(m: int, y: Any, label_kernel: str, estimator: str, covariates: Any) -> Float:
    """W (m, m) of the labels of m samples.

    Parameters
    ----------
    m : int
        Number of samples.
    y, label_kernel
        See `dhsic.kernels.labels.label_matrix`.
    estimator, covariates
        See `dhsic.hsic.weights`.

    Raises
    ------
    InputError
        Of those two, and where y has other than m samples.
    """
    L = label_matrix(y, label_kernel).L
    if len(L) != m:
        raise InputError(f"There are {m} samples and y has {len(L)}; pass one label a sample.")
    return weights(L, estimator, covariates)
