"""Pearson's correlation (JMLR 6.1).

Ridge regression of the labels on one feature (JMLR 6.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.criteria.base import AbstractCriterion, LabelReading
from dhsic.criteria.means import ratio
from dhsic.criteria.targets import NUMBERS, UNIT_NUMBERS
from dhsic.errors import InputError
from dhsic.validation import is_number


@dataclass(frozen=True)
class Pearson(AbstractCriterion):
    """Pearson's correlation R with the labels (JMLR eq. 21); score ``R^2``.

    Numbers, or two classes, which count as -1 and 1. For standardised features and labels and
    linear kernels ``tr K H L H = m^2 sum_j R_j^2`` (eq. 22, 23; the paper leaves out m^2).

    When to use it: dependence that is a straight line; the same ranking as the p-values of a
    regression on each feature alone.
    """

    name: ClassVar[str] = "pearson"
    labels: ClassVar[LabelReading] = UNIT_NUMBERS
    meaning: ClassVar[str] = "squared Pearson correlation with the labels"
    signed: ClassVar[str] = "Pearson correlation with the labels"

    def columns(self, state: Float, X: Float, n_levels: Array) -> Float:
        R = np.clip(ratio(X @ state, np.sqrt(np.vecdot(X, X))), -1.0, 1.0)
        return np.stack([R * R, R])


@dataclass(frozen=True)
class RidgeRegression(AbstractCriterion):
    """Part of y'y that ridge regression on the feature alone explains (JMLR eq. 29).

    With x and y of mean 0 and ``w = x'y / (x'x + penalty)``, ``J* = |y - x w|^2 + penalty w^2 = y'y
    - (x'y)^2 / (x'x + penalty)``; the score is ``1 - J* / y'y``, the statistic is w. In terms of
    the paper, ``tr Kbar L / y'y`` with ``Kbar = V (V'V + penalty I)^-1 V'``, V the feature, and
    ``L = y y'`` (the paper's w lacks a V'). Numbers, or two classes, which count as -1 and 1.

    When to use it: features in one unit, among which those that hardly vary (rare variants) should
    have to explain more; pass ``standardize=False`` then. Standardised features all have ``x'x =
    m``, and the ranking is that of `Pearson`.

    Parameters
    ----------
    penalty : float
        Lambda, at least 0, in units of ``x'x``.
    """

    name: ClassVar[str] = "ridge"
    labels: ClassVar[LabelReading] = NUMBERS
    meaning: ClassVar[str] = "part of y'y that ridge regression on the feature explains"
    signed: ClassVar[str] = "coefficient of ridge regression on the feature"
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.penalty) and self.penalty >= 0):
            raise InputError(
                f"penalty={self.penalty!r}; pass the ridge penalty, a finite number from 0, "
                "such as 1.0."
            )

    def columns(self, state: Float, X: Float, n_levels: Array) -> Float:
        inner, size = X @ state, np.vecdot(X, X) + self.penalty
        w = np.divide(inner, size, out=np.zeros_like(inner), where=size > 0)
        return np.stack([inner * w / (state @ state), w])
