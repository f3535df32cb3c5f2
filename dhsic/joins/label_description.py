"""A description of labels in one line: kind, values, and the label kernel that a run uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float
from dhsic.kernels.censored import described
from dhsic.kernels.labels import CLASS_KERNELS, MIXED, REAL_KERNELS, target_kernels
from dhsic.kernels.ordinal import ORDINAL, RANK
from dhsic.kernels.risk_sets import is_censored
from dhsic.sources.ids import abbreviate

#: Maximum number of classes or levels that are listed with their sizes.
MOST_TOLD = 20
#: Mean fourth power of standardised values above which tails are heavy: it is 3 for normal values
#: and 9 for exponential ones.
HEAVY = 10.0


@dataclass(frozen=True)
class LabelDescription:
    """Settings for describing labels, and the functions that describe them.

    Attributes
    ----------
    label_kernel : str or None
        Requested label kernel; None if the method has its own, which the text omits.
    in_columns : bool
        Whether labels are used as numeric columns, as in tests of pairs. Whole numbers that may be
        class codes are then used as numbers.
    by_ranks : bool
        Whether real labels are replaced by functions of their ranks, as in the test of single
        features.
    in_python : bool
        Whether the advice names a parameter in Python; otherwise, a command-line option.
    """

    label_kernel: str | None = "auto"
    in_columns: bool = False
    by_ranks: bool = False
    in_python: bool = False

    def of(self, y: Array | None) -> str:
        """Describe labels y (m,) or (m, t); None if the data are their own labels."""
        if y is None:
            return "none: the data are used as labels"
        if is_censored(y):
            return described(y)
        if self.label_kernel == "precomputed":
            return f"a precomputed label matrix of {len(y):,} samples"
        Y = y[:, None] if y.ndim == 1 else y
        kernels = target_kernels(Y, self.label_kernel or "auto")
        targets = [self._of(column, k) for column, k in zip(Y.T, kernels, strict=True)]
        if len(targets) > 1 and self.label_kernel is not None:
            is_one = self.in_columns or all(kernel in REAL_KERNELS for kernel in kernels)
            how = "all with one kernel" if is_one else "each with its own kernel, equally weighted"
            how = "as columns" if self.in_columns else how
            targets.append(f"{len(kernels)} targets jointly, {how}")
        return "; ".join(targets)

    def _of(self, column: Array, kernel: str) -> str:
        """Describe one target (m,) and its kernel."""
        suffix = f", kernel {kernel!r}"
        suffix = "" if self.label_kernel is None or self.in_columns else suffix
        is_chosen = self.label_kernel == "auto"
        if kernel in CLASS_KERNELS:
            return f"{self._classes(column)}{suffix}{self._if_ordered(column) * is_chosen}"
        values = column.astype(np.float64)
        bounds = f"from {values.min():.4g} to {values.max():.4g}"
        if kernel == ORDINAL:
            otherwise = f"; if they have no order, pass {self._passing('multiclass')}" * is_chosen
            return f"{_levels(column, values, bounds)}{suffix}{otherwise}"
        if kernel == MIXED:
            return self._mixed(values, bounds)
        ranks = ", by ranks" if kernel == RANK else ""
        if is_chosen and not (self.by_ranks or self.in_columns) and has_heavy_tails(values):
            suffix += f"; their heavy tails favour ranks: {self._passing(RANK)}"
        return f"{values.size:,} real values {bounds}{ranks}{suffix}"

    def _classes(self, column: Array) -> str:
        names, counts = np.unique(
            column.astype(str) if column.dtype.kind == "O" else column, return_counts=True
        )
        order = np.argsort(-counts, kind="stable")
        sizes = abbreviate((f"{plain_number(names[i])} ({counts[i]:,})" for i in order), MOST_TOLD)
        return f"{len(names)} {'class' if len(names) == 1 else 'classes'} {sizes}"

    def _if_ordered(self, column: Array) -> str:
        """Return advice for numeric classes (m,) that may be ordered levels; otherwise ""."""
        if column.dtype.kind not in "iuf" or len(np.unique(column)) < 3:
            return ""
        return f"; if they are ordered levels, pass {self._passing(ORDINAL)}"

    def _mixed(self, values: Float, bounds: str) -> str:
        """Describe whole numbers (m,) that may be class codes."""
        numbers = f"{values.size:,} whole numbers {bounds} ({len(np.unique(values))} different)"
        if self.in_columns:
            classes = self._passing("multiclass")
            return f"{numbers}, used as numbers; if they are classes, pass {classes}"
        if self.label_kernel is None:
            return numbers
        only = self._passing("gaussian", ORDINAL, "multiclass")
        return (
            f"{numbers}, used both as numbers and as classes; for only numbers, ordered levels or "
            f"classes, pass {only}"
        )

    def _passing(self, *kernels: str) -> str:
        """Return the argument that selects one of these label kernels, for messages."""
        names = [repr(kernel) if self.in_python else kernel for kernel in kernels]
        listed = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        return f"label_kernel={listed}" if self.in_python else f"--label-kernel {listed}"


def _levels(column: Array, values: Float, bounds: str) -> str:
    """Describe levels (m,) with their `values`, from the lowest to the highest."""
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    if len(first) > MOST_TOLD:
        return f"{values.size:,} values {bounds} ({len(first):,} ordered levels)"
    levels = zip(column[first].tolist(), counts.tolist(), strict=True)
    listed = " < ".join(f"{plain_number(level)} ({count:,})" for level, count in levels)
    return f"{len(first)} ordered levels {listed}"


def has_heavy_tails(values: Float) -> bool:
    """Whether values (m,) have heavy tails, such as incomes, counts, or values with an outlier.

    >>> has_heavy_tails(np.arange(9.0)), has_heavy_tails(np.append(np.arange(50.0), 1e4))
    (False, True)
    """
    largest = float(np.abs(values).max())
    if not 0 < largest < np.inf:
        return False
    scaled = values / largest
    squares = np.square(scaled - scaled.mean())
    return bool(np.mean(squares * squares) > HEAVY * np.mean(squares) ** 2)


def plain_number(name: object) -> str:
    """Convert a class or level to text; numbers lose trailing zeros."""
    return f"{name:g}" if type(name) in (float, np.float64) else str(name)
