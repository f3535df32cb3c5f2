"""A criterion judges each feature alone: prepared once from labels, applied to blocks of features.

Most criteria know the score of a feature from the feature: `columns` are the score and, where it
has a sign, the statistic. Those that borrow strength from all features (the moderated t) hand out
other columns, and `finish` once all are there.

Labels are of one target: two classes, classes, or numbers. A `LabelReading` says which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.criteria.features import Features
from dhsic.errors import InputError
from dhsic.kernels.label_parts import ClassTarget, RealTargets
from dhsic.kernels.labels import LabelMatrix, label_matrix, may_be_classes
from dhsic.validation import as_array, is_number

#: Scores closer than this, relative to the larger of two neighbours, are ties.
TIE = 1e-10


@dataclass(frozen=True, slots=True)
class CriterionScores:
    """What a criterion says of s features, (s,) each.

    Larger scores are more relevant; infinite where a feature separates classes without a spread.
    The statistic is the same with its sign, `facts` what was learnt from all features together.
    Where the score loses digits as a function of it, features are ordered by `key`.
    """

    score: Float
    statistic: Float | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    key: Float | None = None
    #: More to tell of each feature, by name: values, (s,), and what they are.
    others: Mapping[str, tuple[Array, str]] = field(default_factory=dict)

    @property
    def order_by(self) -> Float:
        return self.score if self.key is None else self.key

    def told(self, criterion: AbstractCriterion) -> Mapping[str, tuple[Array, str]]:
        """What is told of features besides the score: values and what they are."""
        if self.statistic is None:
            return self.others
        return {"statistic": (self.statistic, criterion.signed), **self.others}


@dataclass(frozen=True, slots=True)
class LabelReading:
    """Labels that a criterion takes: how they are read for it, and what is kept of them."""

    read: Callable[[Array, Any], LabelMatrix]
    prepare: Callable[[LabelMatrix], Any]
    of_two: bool = False  # classes, and no more
    of_numbers: bool = False  # also where they look like classes


class AbstractCriterion(ABC):
    """A criterion; concrete ones are frozen dataclasses whose fields are its parameters."""

    #: As users write it.
    name: ClassVar[str]
    #: What the score is, and what the statistic is; no statistic where that is empty.
    meaning: ClassVar[str]
    signed: ClassVar[str] = ""
    #: Whether it is meant for standardised features.
    standardize: ClassVar[bool] = True
    #: Whether a kernel on the data has a width.
    has_bandwidth: ClassVar[bool] = False
    #: Whether `columns` takes about the time of standardising X; else a plan foretells none.
    is_timed: ClassVar[bool] = True
    #: Whether covariates may be taken out, and whether genotypes are judged as they are stored.
    takes_covariates: ClassVar[bool] = False
    takes_codes: ClassVar[bool] = False
    #: Whether it tells more of a feature than its score and statistic.
    tells_more: ClassVar[bool] = False
    #: What labels it takes, and what it keeps of them.
    labels: ClassVar[LabelReading]

    @property
    def leaves_missing_out(self) -> bool:
        """Whether missing samples take no part in a feature; else their value is its mean."""
        return False

    @property
    def goes_by_ranks(self) -> bool:
        """Whether features count by the order of their values, whatever their scale."""
        return False

    def read(self, y: Array, covariates: Array | None = None) -> LabelMatrix:
        """Read labels: the label kernel by which the criterion is an HSIC."""
        return self.labels.read(y, self)

    def prepare(self, labels: LabelMatrix, covariates: Array | None = None) -> Any:
        """What `columns` needs to know of the labels: small, plain, sent to every worker."""
        return self.labels.prepare(labels)

    @abstractmethod
    def directions(self, state: Any) -> Float:
        """What features are multiplied with, (m, k), of the state that `prepare` made."""

    @abstractmethod
    def columns(self, state: Any, features: Features, place: slice) -> Float:
        """A few numbers per feature, (k, c); its directions are at a place among those of all."""

    def tile_bytes(self, c: int, m: int) -> int:
        """Bytes that `columns` of features (c, m) takes at once, besides four arrays like them."""
        return 0

    def label_bytes(self, m: int) -> int:
        """Bytes that m labels and `prepare` take, besides a few vectors."""
        return 0

    def finish(self, state: Any, columns: Float) -> CriterionScores:
        """Scores from the columns of all features that vary, (k, s): as these have them."""
        return CriterionScores(columns[0], columns[1] if len(columns) > 1 else None)

    def parameters(self) -> dict[str, Any]:
        """What identifies the criterion besides its name, plain values."""
        mine: Any = self  # a dataclass; the base, without fields, is none
        return {f.name: getattr(self, f.name) for f in fields(mine)}


def worst_first(scores: Float) -> Index:
    """Positions by ascending score, (s,); ties by position.

    Ties are told relative to the scores themselves: a t-statistic may be 1e9 for one feature and
    1 for all others.
    """
    by_score = np.argsort(scores, kind="stable").astype(np.int64)
    ascending = scores[by_score]
    equal = np.isclose(ascending[:-1], ascending[1:], rtol=TIE, atol=0.0)
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))[: scores.size]
    group = np.append(0, np.cumsum(~equal))[tied]
    by_score[tied] = by_score[tied][np.lexsort((by_score[tied], group))]
    return by_score


def check_part(name: str, value: Any, what: str) -> None:
    """Refuse what is no number between 0 and 1."""
    if not (is_number(value) and 0 < float(value) < 1):
        raise InputError(f"{name}={value!r}; pass {what}, a number between 0 and 1.")


@dataclass(frozen=True, slots=True)
class Classes:
    """Which sample is of which class."""

    #: Class of each sample, by the ascending order of the names; of two, 1 is the positive one.
    codes: Array
    sizes: Float  # (n,), samples of each class, m_y

    @staticmethod
    def of(labels: LabelMatrix) -> Classes:
        """Classes of labels that `two_classes` or `any_classes` has read."""
        target = labels.parts[0]
        assert isinstance(target, ClassTarget), "these read classes"
        return Classes(target.codes, np.bincount(target.codes).astype(np.float64))

    @property
    def indicators(self) -> Float:
        """1 where a sample (row) is of a class (column), (m, n)."""
        return np.asarray(self.codes[:, None] == np.arange(len(self.sizes)), dtype=np.float64)


def two_classes(y: Array, criterion: AbstractCriterion, least: int = 1) -> LabelMatrix:
    """Two classes, of so many samples each, with the label kernel of eq. 17."""
    labels = any_classes(y, criterion)
    sizes = Classes.of(labels).sizes
    if len(sizes) != 2:
        raise InputError(
            f"{criterion.name!r} compares two classes and y has {len(sizes)}; pass labels of two, "
            "or take 'shrunken-centroid' or 'qmi' for more, 'pearson' or 'qmi' for numbers."
        )
    if sizes.min() < least:
        raise InputError(
            f"{criterion.name!r} needs {least} samples of each class and y has {int(sizes[0])} and "
            f"{int(sizes[1])}; pass more samples, or take 'centroid'."
        )
    return label_matrix(single_target(y, criterion), "balanced")


def any_classes(y: Array, criterion: AbstractCriterion) -> LabelMatrix:
    """Two classes or more with the label kernel ``psi(y) = e_y / m_y`` of JMLR 6.5."""
    column = single_target(y, criterion)
    n = len(set(column.tolist()))
    if n > 2 and (n == len(column) or not may_be_classes(column)):
        raise InputError(
            f"{criterion.name!r} takes classes and y has {n} different values in {len(column)} "
            "samples; pass classes that samples share, or take 'pearson' or 'qmi' for numbers."
        )
    codes = Classes.of(label_matrix(column, "multiclass")).codes
    return LabelMatrix((ClassTarget.of(codes, "centroids"),), len(codes), 1)


def numbers(y: Array, criterion: AbstractCriterion) -> LabelMatrix:
    """Numbers with the linear label kernel; two classes that are names count as -1 and 1."""
    column = single_target(y, criterion)
    if _holds_numbers(column):
        return label_matrix(column, "linear")
    n = len(set(column.tolist()))
    if n > 2:  # two names are -1 and 1
        raise InputError(
            f"{criterion.name!r} takes numbers, or two classes, and y holds {n} names; pass "
            "numbers, or take 'shrunken-centroid' or 'qmi' for classes."
        )
    codes = Classes.of(two_classes(column, criterion)).codes
    return LabelMatrix((RealTargets(2.0 * codes[:, None] - 1.0, None),), len(codes), 1)


def _holds_numbers(column: Array) -> bool:
    """Whether labels are numbers, and not truth values or names."""
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    return all(isinstance(v, Real) and not isinstance(v, (bool, np.bool_)) for v in column)


def single_target(y: Array, criterion: AbstractCriterion) -> Array:
    """The labels, (m,); several targets are refused."""
    column = as_array(y, "y")
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(
            f"{criterion.name!r} takes one target and y has shape {column.shape}; pass one label a "
            "sample, and run it once for each target."
        )
    return column


def centred(labels: LabelMatrix) -> Float:
    """Numbers without their mean, (m,)."""
    target = labels.parts[0]
    assert isinstance(target, RealTargets), "`numbers` reads numbers"
    y = target.values[:, 0]
    return np.asarray(y - y.mean())


def _of_norm_one(labels: LabelMatrix) -> Float:
    y = centred(labels)
    return np.asarray(y / np.linalg.norm(y))


#: Labels by what a criterion takes and keeps of them; those of numbers are of mean 0, or of norm 1
#: besides.
TWO_CLASSES = LabelReading(two_classes, Classes.of, of_two=True)
TWO_OF_TWO = LabelReading(partial(two_classes, least=2), Classes.of, of_two=True)
CLASSES = LabelReading(any_classes, Classes.of)
NUMBERS = LabelReading(numbers, centred, of_numbers=True)
UNIT_NUMBERS = LabelReading(numbers, _of_norm_one, of_numbers=True)
