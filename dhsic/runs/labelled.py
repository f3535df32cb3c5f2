"""From labels to weights, as a run needs them: W in full, or as a product of thin matrices."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.kernels.label_factors import factor_of
from dhsic.kernels.labels import LabelParts
from dhsic.lowrank.weights import FactoredWeights, factored_weights


def weights_of(
    labels: LabelParts | None, estimator: str, covariates: Array | None, m: int
) -> Float:
    """W, (m, m); zeros until the data, which are their own labels, have been read.

    Raises
    ------
    InputError
        Labels that are all alike once covariates are taken out.
    """
    if labels is None:
        return np.zeros((m, m))
    everyone = slice(0, labels.n_samples)
    return weights_from(np.asarray(labels.tile(everyone, everyone)), estimator, covariates)


def weights_from(L: Float, estimator: str, covariates: Array | None) -> Float:
    """W, (m, m), of a label matrix; raises as `weights_of`."""
    W = weights(L, estimator, covariates)
    _check_left(float(np.abs(W).max()), float(np.abs(L).max()), len(L), estimator, covariates)
    return W


def factored_of(labels: LabelParts, estimator: str, covariates: Array | None) -> FactoredWeights:
    """W as a product of thin matrices; raises as `weights_of`."""
    factor = factor_of(labels)
    W = factored_weights(factor, estimator, covariates)
    largest = float((np.square(factor.B) @ np.abs(factor.weights)).max())
    _check_left(W.norm / len(factor.B), largest, len(factor.B), estimator, covariates)
    return W


def _check_left(
    largest_weight: float, largest_label: float, m: int, estimator: str, covariates: Array | None
) -> None:
    if largest_weight * m * m > 1e-9 * largest_label:
        return
    if covariates is None and estimator == "biased":
        raise InputError(
            "Nothing is left of the label matrix once its mean is taken out: rows of a given L "
            "that are all alike. Pass labels that vary, or a centred L."
        )
    if covariates is None:
        raise InputError(
            "Nothing is left of the labels once their mean is taken out: of a class of one sample "
            "the unbiased estimate makes nothing. Pass labels that more samples share, or "
            "estimator='biased'."
        )
    raise InputError(
        "Nothing is left of the labels once their mean and the covariates are taken out; pass "
        "labels that vary, or fewer covariates."
    )
