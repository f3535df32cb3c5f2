"""Labels and covariates of the samples that a test is made on."""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.given import as_array
from dhsic.kernels.labels import LabelParts, label_parts


def labels_of(
    labels: Array, label_kernel: str, rows: Index | None, covariates: Array | None
) -> LabelParts:
    """Labels of some samples, of all for None; of a given L its rows and columns.

    `covariates` are of the samples taken.
    """
    if rows is not None:
        is_matrix = label_kernel == "precomputed" and labels.ndim > 1
        labels = labels[np.ix_(rows, rows)] if is_matrix else labels[rows]
    return label_parts(labels, label_kernel, covariates).centred


def covariates_of(covariates: Any, m: int, rows: Index | None) -> Array | None:
    """Covariates of some samples, of all for None.

    Raises
    ------
    InputError
        They are not those of m samples.
    """
    if covariates is None:
        return None
    C = as_array(covariates, "covariates")
    if len(C) != m:
        raise InputError(
            f"covariates have shape {C.shape} and there are {m} samples; pass one row a sample."
        )
    return C if rows is None else C[rows]
