"""Pearson's correlation (JMLR 6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.labels import LabelParts
from dhsic.relatives.base import AbstractCriterion, Scores, as_they_are
from dhsic.relatives.moments import ratio
from dhsic.relatives.targets import centred, numbers


@dataclass(frozen=True)
class Pearson(AbstractCriterion):
    """Pearson's correlation R with the labels (JMLR eq. 21); score ``R^2``.

    Numbers, or two classes, which count as -1 and 1. For standardised features and labels and
    linear kernels ``tr K H L H = m^2 sum_j R_j^2`` (eq. 22, 23; the paper leaves out m^2).

    When to use it: dependence that is a straight line; the same ranking as the p-values of a
    regression on each feature alone.
    """

    name: ClassVar[str] = "pearson"
    meaning: ClassVar[str] = "squared Pearson correlation with the labels"
    signed: ClassVar[str] = "Pearson correlation with the labels"

    def read(self, y: Array) -> LabelParts:
        """Numbers, or two classes."""
        return numbers(y, self.name)

    def prepare(self, labels: LabelParts) -> Float:
        """Labels of mean 0 and norm 1, (m,)."""
        y = centred(labels)
        return np.asarray(y / np.linalg.norm(y))

    def columns(self, state: Float, X: Float, n_levels: Array) -> Float:
        """R^2 and R."""
        R = np.clip(ratio(X @ state, np.sqrt(np.vecdot(X, X))), -1.0, 1.0)
        return np.stack([R * R, R])

    def finish(self, state: Float, columns: Float) -> Scores:
        """They are done."""
        return as_they_are(columns)
