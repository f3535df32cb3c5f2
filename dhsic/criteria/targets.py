"""Labels as the relatives take them: two classes, classes, or numbers; one target."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from dhsic._typing import Array, Float
from dhsic.criteria.base import LabelReading
from dhsic.errors import InputError
from dhsic.kernels.label_kernels import ClassTarget, LabelMatrix, RealTargets
from dhsic.kernels.labels import CLASS_KERNELS, auto_kernel, label_matrix
from dhsic.validation import as_array


@dataclass(frozen=True, slots=True)
class Classes:
    """Which sample is of which class.

    Attributes
    ----------
    codes : (m,) integers
        Class of each sample, by the ascending order of the names; of two, 1 is the positive one.
    sizes : (n,) float64
        Samples of each class, m_y.
    """

    codes: Array
    sizes: Float

    @staticmethod
    def of(labels: LabelMatrix) -> Classes:
        """Classes of labels that `two_classes` or `any_classes` read."""
        target = labels.parts[0]
        assert isinstance(target, ClassTarget), "these read classes"
        return Classes(target.codes, np.bincount(target.codes).astype(np.float64))

    @property
    def indicators(self) -> Float:
        """1 where a sample (row) is of a class (column), (m, n)."""
        return np.asarray(self.codes[:, None] == np.arange(len(self.sizes)), dtype=np.float64)


def two_classes(y: Array, criterion: str, least: int = 1) -> LabelMatrix:
    """Two classes with the label kernel of eq. 17.

    Parameters
    ----------
    y : (m,) array
        Names or numbers of classes.
    criterion : str
        Whose labels they are, for messages.
    least : int
        Samples that each class must have.

    Raises
    ------
    InputError
        Another number of classes, too few samples of one, or what `label_matrix` refuses.
    """
    labels = any_classes(y, criterion)
    sizes = Classes.of(labels).sizes
    if len(sizes) != 2:
        raise InputError(
            f"{criterion!r} compares two classes and y has {len(sizes)}; pass labels of two, or "
            "take 'shrunken-centroid' or 'qmi' for more, 'pearson' or 'qmi' for numbers."
        )
    if sizes.min() < least:
        raise InputError(
            f"{criterion!r} needs {least} samples of each class and y has {int(sizes[0])} and "
            f"{int(sizes[1])}; pass more samples, or take 'centroid'."
        )
    return label_matrix(single_target(y, criterion), "balanced")


def any_classes(y: Array, criterion: str) -> LabelMatrix:
    """Two classes or more with the label kernel ``psi(y) = e_y / m_y`` of JMLR 6.5.

    Raises
    ------
    InputError
        Numbers that are no classes, one class, or what `label_matrix` refuses.
    """
    column = single_target(y, criterion)
    n = len(set(column.tolist()))
    if n > 2 and (n == len(column) or auto_kernel(column) not in CLASS_KERNELS):
        raise InputError(
            f"{criterion!r} takes classes and y has {n} different values in {len(column)} samples; "
            "pass classes that samples share, or take 'pearson' or 'qmi' for numbers."
        )
    codes = Classes.of(label_matrix(column, "multiclass"))
    target = ClassTarget(codes.codes, None, codes.sizes**-2.0, "centroids")
    return LabelMatrix((target,), len(codes.codes), 1)


def numbers(y: Array, criterion: str) -> LabelMatrix:
    """Numbers with the linear label kernel; two classes that are names count as -1 and 1.

    Raises
    ------
    InputError
        Names of more classes, constant labels, or what `label_matrix` refuses.
    """
    column = single_target(y, criterion)
    if holds_numbers(column):
        return label_matrix(column, "linear")
    n = len(set(column.tolist()))
    if n > 2:  # two names are -1 and 1
        raise InputError(
            f"{criterion!r} takes numbers, or two classes, and y holds {n} names; pass numbers, or "
            "take 'shrunken-centroid' or 'qmi' for classes."
        )
    codes = Classes.of(two_classes(column, criterion)).codes
    return LabelMatrix((RealTargets(2.0 * codes[:, None] - 1.0, None),), len(codes), 1)


def centred(labels: LabelMatrix) -> Float:
    """Numbers without their mean, (m,)."""
    target = labels.parts[0]
    assert isinstance(target, RealTargets), "`numbers` reads numbers"
    y = target.values[:, 0]
    return np.asarray(y - y.mean())


def scaled(y: Float) -> Float:
    """Numbers to norm 1, (m,)."""
    return np.asarray(y / np.linalg.norm(y))


def holds_numbers(column: Array) -> bool:
    """Whether labels are numbers, and not truth values or names."""
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    return all(isinstance(v, Real) and not isinstance(v, (bool, np.bool_)) for v in column)


def single_target(y: Array, criterion: str) -> Array:
    """The labels, (m,).

    Raises
    ------
    InputError
        Several targets.
    """
    column = as_array(y, "y")
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(
            f"{criterion!r} takes one target and y has shape {column.shape}; pass one label a "
            "sample, and run it once for each target."
        )
    return column


#: Labels by what a criterion takes and keeps of them; those of numbers are of mean 0, or of norm 1
#: besides.
TWO_CLASSES = LabelReading(lambda y, criterion: two_classes(y, criterion.name), Classes.of)
TWO_OF_TWO = LabelReading(lambda y, criterion: two_classes(y, criterion.name, least=2), Classes.of)
CLASSES = LabelReading(lambda y, criterion: any_classes(y, criterion.name), Classes.of)
NUMBERS = LabelReading(lambda y, criterion: numbers(y, criterion.name), centred)
UNIT_NUMBERS = LabelReading(NUMBERS.read, lambda labels: scaled(centred(labels)))
