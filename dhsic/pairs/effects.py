r"""Effect of a pair: the coefficient of its product in a regression with both main effects.

The model is ``labels ~ 1 + covariates + x_j + x_k + x_j x_k``. Values are not standardised in this
model; dosages are coded additively, as the number of copies of the counted allele. The model is
fitted by ordinary least squares for real labels and by logistic regression for two classes
(`dhsic.passes.effects`), on the samples that have both values. Main effects of a selection are not
included, so the model depends only on the two features.

Features are read as standardised values, ``z = (x - mean) scale``. The mean and the scale change
only the main effects and the intercept, except that the coefficient of the product is multiplied by
``1 / (scale_j scale_k)``.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.linalg.covariates import covariate_basis, orthonormal_columns
from dhsic.pairs.rescore import values_of_pairs
from dhsic.passes import Tile
from dhsic.passes.effects import AdditiveEffects, regression_labels, response_told
from dhsic.passes.reader import Reader

#: Relative norm of the residual of a covariate given others, below which it is dropped.
ROUNDING = 1e-8
#: Minimum number of samples for a regression, in addition to one for each covariate.
FEWEST = 5


def product_effects(
    reader: Reader,
    pairs: Index,
    y: Array,
    covariates: Array | None,
    label_kernel: str,
    beside: Tile | None = None,
) -> tuple[Float, str] | None:
    """Compute coefficients and standard errors (n, 2) of the products of pairs (n, 2).

    Also returns a description. If `beside` is passed, the second members of pairs are its columns,
    and all of them are covariates of the regression, see `dhsic.pairs.tiles.columns_beside`.
    Coefficients are NaN if the regression has no solution, because the pair separates the classes
    or explains the product. Returns None for several targets or more than two classes.
    """
    if y.ndim > 1 and y.shape[1] > 1:
        return None
    response = regression_labels(y.ravel(), label_kernel)
    if response is None:
        return None
    labels, case = response
    C = np.empty((len(labels), 0)) if covariates is None else np.asarray(covariates, float)
    C = C.reshape(len(labels), -1)
    if beside is not None:
        both, constant = (
            np.column_stack([C, beside.values(np.float64).T]),
            covariate_basis(None, len(C)),
        )
        C, _ = orthonormal_columns(both, constant, ROUNDING)
    effects = np.full((len(pairs), 2), np.nan)
    for i, x, w, gaps in values_of_pairs(reader, pairs, beside):
        here = np.ones(len(x), dtype=bool) if gaps is None else ~gaps
        if here.sum() < C.shape[1] + FEWEST:
            continue
        main = np.column_stack([C, x, *([w] if beside is None else [])])[here]
        fit = AdditiveEffects.of(labels[here], main, is_logistic=bool(case))
        effects[i] = fit.of_tile(Tile((x * w)[None, here], None))[0, 1:3]
    scale = reader.scaling.scale
    if beside is not None:
        scale = np.append(scale, beside.scaling.scale)
    effects *= (scale[pairs[:, 0]] * scale[pairs[:, 1]])[:, None]
    members = "feature and environment" if beside is not None else "both features"
    what = f"change in the {response_told(y.ravel(), label_kernel)}"
    what = f"log odds ratio of {case}" if case else what
    model = "logistic" if case else "linear"
    return effects, (
        f"{what} per unit of the product of {members} ({model} regression with covariates and "
        "both main effects)"
    )
