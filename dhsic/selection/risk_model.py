"""Default estimator of cross-validation for censored times, scored by concordance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from dhsic._typing import Array, Float
from dhsic.kernels.censored import log_rank_scores
from dhsic.kernels.risk_sets import concordance


class RiskModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Ridge regression of log-rank scores on functions of the features.

    Parameters
    ----------
    functions : transformer
        Functions of standardised features, such as landmarks of a Gaussian kernel.
    """

    def __init__(self, functions: Any) -> None:
        self.functions = functions

    def fit(self, X: Float, y: Array) -> Self:
        """Fit the model to features X (m, n) and censored times y (m,), of dtype `CENSORED`."""
        from sklearn.base import clone
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        steps = StandardScaler(), clone(self.functions), RidgeCV(np.logspace(-4, 4, 9))
        self.model_ = make_pipeline(*steps).fit(X, log_rank_scores(y)[:, 0])
        return self

    def predict(self, X: Float) -> Float:
        """Predict risks (m,) of samples from features X (m, n); larger means earlier events."""
        return np.asarray(self.model_.predict(X))

    def score(self, X: Float, y: Array) -> float:
        """Harrell's concordance of censored times y (m,) and risks predicted from X (m, n)."""
        return concordance(y, self.predict(X))
