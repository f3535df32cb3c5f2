"""The moderated t and the B-statistic (Smyth 2004; JMLR 6.2), which borrow from all features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.labels import LabelParts
from dhsic.relatives.base import AbstractCriterion, Scores, check_part
from dhsic.relatives.moments import class_moments, ratio
from dhsic.relatives.odds import log_odds, spread_of_differences
from dhsic.relatives.prior import Prior, fitted
from dhsic.relatives.targets import Classes, two_classes

#: Degrees of freedom of a prior beyond which the variance counts as known, as in limma.
NORMAL = 1e6


@dataclass(frozen=True)
class ModeratedT(AbstractCriterion):
    """The moderated t-statistic (Smyth 2004; JMLR 6.2 and eq. 25); score: its magnitude.

    ``t_j = (x+ - x-) / (s_j sqrt(1/m+ + 1/m-))``, where ``s_j^2`` is the pooled variance within
    classes drawn towards that of all features, see `dhsic.relatives.prior`: what ``lmFit`` and
    ``eBayes`` of limma give for two groups. Two classes of at least two samples. Features are
    taken as they are: what one feature tells of the variance of another is lost once all are
    scaled to the same variance.

    When to use it: few samples and many features in one unit (log expression, methylation), where
    the variance of a feature alone is too uncertain to divide by.
    """

    name: ClassVar[str] = "moderated-t"
    meaning: ClassVar[str] = "magnitude of the moderated t-statistic"
    signed: ClassVar[str] = "moderated t-statistic, the last class less the first"
    standardize: ClassVar[bool] = False

    def read(self, y: Array) -> LabelParts:
        """Two classes with a variance within."""
        return two_classes(y, self.name, least=2)

    def prepare(self, labels: LabelParts) -> Classes:
        """Classes of the samples."""
        return Classes.of(labels)

    def columns(self, state: Classes, X: Float, n_levels: Array) -> Float:
        """Difference of means and pooled variance."""
        return _difference_and_variance(state, X)

    def finish(self, state: Classes, columns: Float) -> Scores:
        """``|t|`` and t by the prior from all features."""
        t, prior = _moderated(state, columns)
        return Scores(np.abs(t), t, _facts(prior))


@dataclass(frozen=True)
class LogOdds(AbstractCriterion):
    """The B-statistic: logarithm of the odds that a feature differs (Smyth 2004; JMLR 6.2).

    Increasing in the magnitude of the moderated t, so the ranking is that of `ModeratedT`;
    `statistic` is that t. See `dhsic.relatives.odds`.

    When to use it: as `ModeratedT`, where a score of 0 should mean even odds.

    Parameters
    ----------
    proportion : float
        Part of the features that is thought to differ, between 0 and 1; it moves all scores.
    """

    name: ClassVar[str] = "b"
    meaning: ClassVar[str] = "log odds that the feature differs between the classes"
    signed: ClassVar[str] = ModeratedT.signed
    standardize: ClassVar[bool] = False
    proportion: float = 0.01

    def __post_init__(self) -> None:
        check_part("proportion", self.proportion, "the part of the features that may differ")

    def read(self, y: Array) -> LabelParts:
        """Two classes with a variance within."""
        return two_classes(y, self.name, least=2)

    def prepare(self, labels: LabelParts) -> Classes:
        """Classes of the samples."""
        return Classes.of(labels)

    def columns(self, state: Classes, X: Float, n_levels: Array) -> Float:
        """Difference of means and pooled variance."""
        return _difference_and_variance(state, X)

    def finish(self, state: Classes, columns: Float) -> Scores:
        """B, and the moderated t."""
        t, prior = _moderated(state, columns)
        degrees = prior.total(_degrees(state), len(t))
        v = _unscaled(state)
        v0 = spread_of_differences(t, degrees, v, self.proportion, prior.variance)
        B = log_odds(t, np.inf if prior.degrees > NORMAL else degrees, v, v0, self.proportion)
        return Scores(B, t, {**_facts(prior), "prior_spread": v0}, key=np.abs(t))


def _difference_and_variance(classes: Classes, X: Float) -> Float:
    moments = class_moments(X, classes)
    return np.stack([moments.difference, moments.pooled])


def _moderated(classes: Classes, columns: Float) -> tuple[Float, Prior]:
    """Moderated t, (s,), and the prior."""
    difference, variances = columns
    degrees = _degrees(classes)
    prior = fitted(variances, degrees)
    error = np.sqrt(prior.moderated(variances, degrees) * _unscaled(classes))
    return ratio(difference, error), prior


def _degrees(classes: Classes) -> float:
    """Degrees of freedom of a pooled variance, m - 2."""
    return float(classes.sizes.sum() - len(classes.sizes))


def _unscaled(classes: Classes) -> float:
    """``1/m+ + 1/m-``: variance of a difference of means over that of the data."""
    return float((1 / classes.sizes).sum())


def _facts(prior: Prior) -> dict[str, float]:
    return {"prior_degrees": prior.degrees, "prior_variance": prior.variance}
