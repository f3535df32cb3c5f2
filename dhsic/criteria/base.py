"""A criterion judges each feature alone: prepared once from labels, applied to blocks of features.

Most criteria know the score of a feature from the feature: `columns` are the score and, where it
has a sign, the statistic. Those that borrow strength from all features (the moderated t) hand out
other columns, and `finish` once all are there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.kernels.label_kernels import LabelMatrix

#: Scores closer than this, relative to the larger of two neighbours, are ties.
TIE = 1e-10


@dataclass(frozen=True, slots=True)
class CriterionScores:
    """What a criterion says of s features.

    Attributes
    ----------
    score : (s,) float64
        Larger is more relevant; infinite where a feature separates classes without a spread.
    statistic : (s,) float64 or None
        The same with its sign, where there is one.
    facts : mapping
        What was learnt from all features together, plain numbers.
    key : (s,) float64, optional
        What features are ordered by, where the score is a function of it that loses digits.
    """

    score: Float
    statistic: Float | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    key: Float | None = None

    @property
    def order_by(self) -> Float:
        """What features are ordered by, (s,)."""
        return self.score if self.key is None else self.key


@dataclass(frozen=True, slots=True)
class LabelReading:
    """Labels that a criterion takes: how they are read, and what is kept of them."""

    read: Callable[[Array, Any], LabelMatrix]
    prepare: Callable[[LabelMatrix], Any]


class AbstractCriterion(ABC):
    """A criterion; concrete ones are frozen dataclasses whose fields are its parameters.

    Attributes
    ----------
    name : str
        As users write it.
    meaning, signed : str
        What the score is, and what the statistic is; no statistic where `signed` is empty.
    standardize : bool
        Whether it is meant for standardised features.
    has_bandwidth : bool
        Whether a kernel on the data has a width.
    labels : LabelReading
        What labels it takes, and what it keeps of them.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    signed: ClassVar[str] = ""
    standardize: ClassVar[bool] = True
    has_bandwidth: ClassVar[bool] = False
    labels: ClassVar[LabelReading]

    def read(self, y: Array) -> LabelMatrix:
        """Read labels: the label kernel by which the criterion is an HSIC.

        Raises
        ------
        InputError
            Labels that it does not take.
        """
        return self.labels.read(y, self)

    def prepare(self, labels: LabelMatrix) -> Any:
        """What `columns` needs to know of the labels: small, plain, sent to every worker."""
        return self.labels.prepare(labels)

    @abstractmethod
    def columns(self, state: Any, X: Float, n_levels: Array) -> Float:
        """A few numbers per feature, (k, c).

        Parameters
        ----------
        state : object
            From `prepare`.
        X : (c, m) float64
            Features as rows, missing values filled in; of mean 0.
        n_levels : (c,) int array
            Distinct values of each, 0 for many.
        """

    def finish(self, state: Any, columns: Float) -> CriterionScores:
        """Scores from the columns of all features that vary, (k, s): as these have them."""
        return CriterionScores(columns[0], columns[1] if len(columns) > 1 else None)

    def parameters(self) -> dict[str, Any]:
        """What identifies the criterion besides its name, plain values."""
        mine: Any = self  # a dataclass; the base, without fields, is none
        return {f.name: getattr(self, f.name) for f in fields(mine)}


def check_part(name: str, value: Any, what: str) -> None:
    """Refuse what is no number between 0 and 1.

    Raises
    ------
    InputError
        Anything else, 0 and 1 included.
    """
    if isinstance(value, bool) or not (isinstance(value, Real) and 0 < float(value) < 1):
        raise InputError(f"{name}={value!r}; pass {what}, a number between 0 and 1.")


def worst_first(scores: Float) -> Index:
    """Positions by ascending score, (s,); ties by position.

    Ties are told relative to the scores themselves: a t-statistic may be 1e9 for one feature and
    1 for all others.
    """
    by_score = np.argsort(scores, kind="stable")
    ascending = scores[by_score]
    apart = ~np.isclose(ascending[:-1], ascending[1:], rtol=TIE, atol=0.0)
    group = np.concatenate([[0], np.cumsum(apart)])[: scores.size]
    return by_score[np.lexsort((by_score, group))].astype(np.int64)
