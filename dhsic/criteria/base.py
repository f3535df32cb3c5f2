"""Criteria score each feature by itself: prepared once from labels, applied to feature blocks.

Most criteria compute the score of a feature from this feature alone. Their `columns` are the score
and, if it has a sign, the statistic. Criteria that share information between features (the
moderated t) return other columns, and compute the scores in `finish` from the columns of all
features.

Labels have one target: two classes, several classes, or numbers (see `LabelReading`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
from dhsic.kernels.risk_sets import is_censored
from dhsic.linalg.residual_covariance import AbstractProductVariance
from dhsic.validation import as_array, is_number

#: Maximum relative difference between neighbouring scores at which they are ties.
TIE = 1e-10


@dataclass(frozen=True, slots=True)
class CriterionScores:
    """Results of a criterion for s features, (s,) each.

    Features with larger scores are more relevant. A score is infinite if the values are constant
    within each class and differ between classes. The statistic is the score with a sign. `facts`
    are quantities estimated from all features. If the score is a function of `key` and has lost
    digits, features are ordered by `key`.
    """

    score: Float
    statistic: Float | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    key: Float | None = None
    #: Further results for each feature, by name: values, (s,), and their description.
    others: Mapping[str, tuple[Array, str]] = field(default_factory=dict)

    @property
    def order_by(self) -> Float:
        return self.score if self.key is None else self.key

    def extra_results(self, criterion: AbstractCriterion) -> Mapping[str, tuple[Array, str]]:
        """Results per feature in addition to the score: values and a description, by name."""
        if self.statistic is None:
            return self.others
        return {"statistic": (self.statistic, criterion.signed), **self.others}


@dataclass(frozen=True, slots=True)
class LabelReading:
    """Pair of functions that process the labels for a criterion.

    `read` converts labels to a `LabelMatrix`, and `prepare` computes the state, which every task
    needs to score features.
    """

    read: Callable[[Array, Any], LabelMatrix]
    prepare: Callable[[LabelMatrix], Any]
    of_two: bool = False  # whether exactly two classes are required
    of_numbers: bool = False  # whether labels are read as numbers even if they look like classes


class AbstractCriterion(ABC):
    """Criterion that scores each feature by itself.

    Subclasses are frozen dataclasses whose fields are the parameters.
    """

    #: Name for users.
    name: ClassVar[str]
    #: Descriptions of the score and of the statistic; empty if there is no statistic.
    meaning: ClassVar[str]
    signed: ClassVar[str] = ""
    #: Whether features are standardised by default.
    standardize: ClassVar[bool] = True
    #: Whether it uses a kernel with a width on the features.
    has_bandwidth: ClassVar[bool] = False
    #: Whether `columns` takes about as long as standardising X; if not, plans estimate no time.
    is_timed: ClassVar[bool] = True
    #: Whether covariates can be regressed out; and whether genotype codes are used as stored.
    takes_covariates: ClassVar[bool] = False
    takes_codes: ClassVar[bool] = False
    #: Whether it has further results besides score and statistic.
    tells_more: ClassVar[bool] = False
    #: How labels are read and prepared.
    labels: ClassVar[LabelReading]

    @property
    def leaves_missing_out(self) -> bool:
        """Whether samples with a missing value are excluded; if not, the mean is imputed."""
        return False

    @property
    def goes_by_ranks(self) -> bool:
        """Whether only the ranks of the values of a feature are used."""
        return False

    def read(self, y: Array, covariates: Array | None = None) -> LabelMatrix:
        """Read labels as a `LabelMatrix` with the kernel for which the criterion is an HSIC."""
        return self.labels.read(y, self)

    def prepare(self, labels: LabelMatrix, covariates: Array | None = None) -> Any:
        """Compute from the labels what `columns` needs to score features (the state).

        The state is picklable, and is sent to all workers.
        """
        return self.labels.prepare(labels)

    def covariances(self, state: Any) -> Sequence[AbstractProductVariance]:
        """Variances of products of features with the labels, under independence.

        They exist for residual labels of related samples and for censored times; otherwise the
        result is empty.
        """
        return ()

    @abstractmethod
    def directions(self, state: Any) -> Float:
        """Label directions: k vectors (m, k) by which the values of a feature are multiplied."""

    @abstractmethod
    def columns(self, state: Any, features: Features, place: slice) -> Float:
        """Compute k numbers for each of the c features of a tile, (k, c).

        Scores are computed from these numbers. `place` is the range of columns of
        `features.directions` that are the directions of `state`.
        """

    def tile_bytes(self, c: int, m: int) -> int:
        """Memory that `columns` needs for features (c, m), besides four such arrays, in bytes."""
        return 0

    def label_bytes(self, m: int) -> int:
        """Memory for the labels of m samples and for `prepare`, besides a few vectors, in bytes."""
        return 0

    def finish(self, state: Any, columns: Float) -> CriterionScores:
        """Compute scores from the columns (k, s) of all varying features."""
        return CriterionScores(columns[0], columns[1] if len(columns) > 1 else None)

    def parameters(self) -> dict[str, Any]:
        """Parameters that identify the criterion, in addition to its name, as plain values."""
        mine: Any = self  # a dataclass, unlike the base class
        return {f.name: getattr(self, f.name) for f in fields(mine)}


def worst_first(scores: Float) -> Index:
    """Positions in ascending order of score, (s,); ties are in the order of positions.

    The tolerance for ties is relative to each score, because scores may be very different: a
    t-statistic may be 1e9 for one feature and 1 for all others.
    """
    by_score = np.argsort(scores, kind="stable").astype(np.int64)
    ascending = scores[by_score]
    equal = np.isclose(ascending[:-1], ascending[1:], rtol=TIE, atol=0.0)
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))[: scores.size]
    group = np.append(0, np.cumsum(~equal))[tied]
    by_score[tied] = by_score[tied][np.lexsort((by_score[tied], group))]
    return by_score


def check_part(name: str, value: Any, what: str) -> None:
    """Raise an error unless the value is a number between 0 and 1."""
    if not (is_number(value) and 0 < float(value) < 1):
        raise InputError(f"{name}={value!r}; pass {what}, a number between 0 and 1.")


@dataclass(frozen=True, slots=True)
class Classes:
    """Class number of each sample, and class sizes."""

    #: Class number of each sample, (m,); classes are sorted by name, and of two, 1 is the positive.
    codes: Array
    sizes: Float  # (n,), number of samples m_y of each class

    @staticmethod
    def of(labels: LabelMatrix) -> Classes:
        """Create the classes from labels that were read by `two_classes` or `any_classes`."""
        target = labels.parts[0]
        assert isinstance(target, ClassTarget), "these read classes"
        return Classes(target.codes, np.bincount(target.codes).astype(np.float64))

    @property
    def indicators(self) -> Float:
        """Class indicators, (m, n): 1 if a sample (row) belongs to a class (column)."""
        return np.asarray(self.codes[:, None] == np.arange(len(self.sizes)), dtype=np.float64)


def two_classes(y: Array, criterion: AbstractCriterion, least: int = 1) -> LabelMatrix:
    """Read labels as two classes with the label kernel of JMLR eq. 17.

    Raises an error if a class has fewer than `least` samples.
    """
    labels = any_classes(y, criterion)
    sizes = Classes.of(labels).sizes
    if len(sizes) != 2:
        raise InputError(
            f"{criterion.name!r} compares two classes, but y has {len(sizes)}; pass labels with "
            "two classes, or use 'shrunken-centroid' or 'qmi' for more classes, 'pearson' or 'qmi' "
            "for numbers."
        )
    if sizes.min() < least:
        raise InputError(
            f"{criterion.name!r} needs {least} samples of each class, but y has {int(sizes[0])} "
            f"and {int(sizes[1])}; pass more samples, or use 'centroid'."
        )
    return label_matrix(single_target(y, criterion), "balanced")


def any_classes(y: Array, criterion: AbstractCriterion) -> LabelMatrix:
    """Read labels as two or more classes, with the kernel of Song et al.

    2012, section 6.5. Class y, with m_y samples, is represented by the unit vector e_y divided by
    m_y.
    """
    column = single_target(y, criterion)
    if is_censored(column):
        raise InputError(
            f"{criterion.name!r} needs classes, but y has times to an event; use 'hsic', 'ridge', "
            "'pearson' or 'kta'."
        )
    n = len(set(column.tolist()))
    if n > 2 and (n == len(column) or not may_be_classes(column)):
        raise InputError(
            f"{criterion.name!r} needs classes, but y has {n} different values in {len(column)} "
            "samples; pass classes with several samples each, or use 'pearson' or 'qmi' for "
            "numbers."
        )
    codes = Classes.of(label_matrix(column, "multiclass")).codes
    return LabelMatrix((ClassTarget.of(codes, "centroids"),), len(codes), 1)


def numbers(y: Array, criterion: AbstractCriterion) -> LabelMatrix:
    """Read labels as numbers with the linear kernel.

    Two class names become -1 and 1. Censored times become log-rank scores.
    """
    column = single_target(y, criterion)
    if is_censored(column) or _holds_numbers(column):
        return label_matrix(column, "linear")
    n = len(set(column.tolist()))
    if n > 2:  # two names become -1 and 1
        raise InputError(
            f"{criterion.name!r} needs numbers, or two classes, but y has {n} classes; pass "
            "numbers, or use 'shrunken-centroid' or 'qmi' for classes."
        )
    codes = Classes.of(two_classes(column, criterion)).codes
    return LabelMatrix((RealTargets(2.0 * codes[:, None] - 1.0, None),), len(codes), 1)


def _holds_numbers(column: Array) -> bool:
    """Whether labels are numbers, not booleans or names."""
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    return all(isinstance(v, Real) and not isinstance(v, (bool, np.bool_)) for v in column)


def single_target(y: Array, criterion: AbstractCriterion) -> Array:
    """Return labels (m,) with one target; raises an error if there are several targets."""
    column = as_array(y, "y")
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(
            f"{criterion.name!r} needs one target, but y has shape {column.shape}; pass one label "
            "per sample, and run it once for each target."
        )
    return column


def centred(labels: LabelMatrix) -> Float:
    """Numeric labels minus their mean, (m,)."""
    target = labels.parts[0]
    assert isinstance(target, RealTargets), "`numbers` reads numbers"
    y = target.values[:, 0]
    return np.asarray(y - y.mean())


def _of_norm_one(labels: LabelMatrix) -> Float:
    y = centred(labels)
    return np.asarray(y / np.linalg.norm(y))


#: Ways to read and prepare labels. Numbers are centred; in one way they are also scaled to norm 1.
TWO_CLASSES = LabelReading(two_classes, Classes.of, of_two=True)
TWO_OF_TWO = LabelReading(partial(two_classes, least=2), Classes.of, of_two=True)
CLASSES = LabelReading(any_classes, Classes.of)
NUMBERS = LabelReading(numbers, centred, of_numbers=True)
UNIT_NUMBERS = LabelReading(numbers, _of_norm_one, of_numbers=True)
