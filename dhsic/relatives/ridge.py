"""Ridge regression of the labels on one feature (JMLR 6.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.errors import InputError
from dhsic.given import is_number
from dhsic.kernels.labels import LabelParts
from dhsic.relatives.base import AbstractCriterion, Scores, as_they_are
from dhsic.relatives.targets import centred, numbers


@dataclass(frozen=True)
class Ridge(AbstractCriterion):
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
    meaning: ClassVar[str] = "part of y'y that ridge regression on the feature explains"
    signed: ClassVar[str] = "coefficient of ridge regression on the feature"
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.penalty) and self.penalty >= 0):
            raise InputError(
                f"penalty={self.penalty!r}; pass the ridge penalty, a finite number from 0, "
                "such as 1.0."
            )

    def read(self, y: Array) -> LabelParts:
        """Numbers, or two classes."""
        return numbers(y, self.name)

    def prepare(self, labels: LabelParts) -> Float:
        """Labels of mean 0, (m,)."""
        return centred(labels)

    def columns(self, state: Float, X: Float, n_levels: Array) -> Float:
        """Part explained, and w."""
        inner, size = X @ state, np.vecdot(X, X) + self.penalty
        w = np.divide(inner, size, out=np.zeros_like(inner), where=size > 0)
        return np.stack([inner * w / (state @ state), w])

    def finish(self, state: Float, columns: Float) -> Scores:
        """They are done."""
        return as_they_are(columns)
