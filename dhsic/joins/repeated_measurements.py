"""Repeated measurements: several rows of one patient, animal or plate, with one label.

Such rows are not independent, and p-values that count each as a sample are far too small. They are
recognised in three ways. The names of rows are similar (`dhsic.joins.replicates`). Or a column
names the units: each of its values occurs in several rows, and they all have the same label. Or the
values form small groups of rows that are much closer to each other than to all other rows. Groups
with different labels inside come from a balanced design and are not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import lgamma, log
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Float, Index
from dhsic.errors import warn
from dhsic.joins.same_samples import first_values
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate
from dhsic.sources.opening import is_table

#: Names of columns of units: patient, donor_no, MouseID.
UNITS = re.compile(
    r"(patient|subject|participant|person|donor|individual|animal|mouse|rat|pig|dog|family|litter|"
    r"cage|plate|mrn|pid|twin|pair|sibship|household)([_ .-]?(id|no|nr|num|number|name|code))?",
    re.IGNORECASE,
)
#: Minimum number of units, minimum share of samples with another row of their unit, and maximum
#: mean number of rows per unit if the name of the column does not show that it contains units.
FEWEST_UNITS, MIN_SHARE, MOST_ROWS = 8, 0.8, 12
#: Minimum share of neighbouring units, in the order of their numbers, with different labels: fewer
#: changes if labels are a function of a measurement, such as age. And number of rows read first.
MIN_CHANGES, HEAD = 0.2, 64
#: Labels are constant within units by chance if the probability is above this.
CHANCE = 1e-6
#: Maximum number of values of a table on disk that are read again to search for units.
MOST_VALUES = 1 << 20
#: Number of rows that are compared with each other, and minimum ratio of the distances between
#: groups to those within groups; minimum number of groups per class.
COMPARED, MIN_RATIO, GROUPS_PER_CLASS = 1024, 1.5, 3
#: Maximum squared distance of rows that are equal, which `dhsic.joins.same_samples` reports.
EQUAL = 1e-9
#: Maximum number of names that the remedy lists, and number that the warning shows.
MOST_LISTED, SHOWN = 1000, 3


@dataclass(frozen=True, eq=False)
class Units:
    """Units, such as patients, with one label each; `codes` (m,) assign a unit to each sample."""

    codes: Index
    n: int
    column: str = ""  # name of the column that contains them; "" if rows are nearly equal
    is_feature: bool = False

    def first_rows(self) -> Index:
        """Index of the first row of each unit, (n,), ascending."""
        return np.sort(np.unique(self.codes, return_index=True)[1])


def warn_of_repeats(
    data: Any,
    source: AbstractSource,
    y: Array | None,
    rows: Index | None,
    names: Array | None,
    apart: tuple[str, ...] = (),
) -> None:
    """Warn if rows are repeated measurements of fewer units, such as patients.

    Parameters
    ----------
    data : Any
        Data as passed by the user.
    y : (m,) or (m, t)
        Labels of the samples in `rows` (None: all).
    names : (m,) array or None
        Names of the same samples.
    apart : tuple of str
        Columns of the data that are labels or covariates.
    """
    if y is None or source.dosages or y.ndim > 2 or y.shape[1:] >= y.shape[:1]:
        return  # also for a matrix of a kernel
    labels = pd.factorize(pd.util.hash_pandas_object(pd.DataFrame(y), index=False))[0]
    numbers = y.astype(np.float64) if y.ndim == 1 and y.dtype.kind in "iuf" else None
    units = next(_units_in_columns(data, source, labels, numbers, rows, apart), None)
    units = _units_by_value(source, labels, rows) if units is None else units
    if units is None:
        return
    first, m = units.first_rows(), len(labels)
    sizes = np.bincount(units.codes)
    if units.column:
        what = f"column {units.column!r} has {units.n:,} values in {m:,} rows"
    else:
        group = np.flatnonzero(units.codes == sizes.argmax())
        called = group if names is None else [repr(str(name)) for name in names[group]]
        what = (
            f"the rows form {units.n:,} groups, and rows of a group are much more similar to each "
            f"other than to all other rows ({abbreviate(called, SHOWN)})"
        )
    warn(
        f"{m:,} samples look like repeated measurements of {units.n:,} units: {what}, and the "
        "labels are the same in all rows of a unit. p-values assume independent samples, so they "
        "are far too small. Average the rows of each unit, or keep one row of each unit: "
        f"{_kept(first, rows, names)}.{_excluded(units)}{_exchanged(units)}"
    )


def _kept(first: Index, rows: Index | None, names: Array | None) -> str:
    """Return advice on how to keep only the samples `first`, which are indices into `rows`."""
    kept = [] if names is None else [str(name) for name in names[first[:MOST_LISTED]]]
    if kept and first.size <= MOST_LISTED and all(name.split() == [name] for name in kept):
        return f"filters=dhsic.Filters(keep={kept!r})"
    at = first if rows is None else rows[first]
    more = "" if first.size <= MOST_LISTED else ", ..."
    listed = ", ".join(map(str, at[:MOST_LISTED]))
    return f"pass only the rows [{listed}{more}] (counted from 0) of the data and labels"


def _exchanged(units: Units) -> str:
    """Return advice on passing the column of units to a test as blocks; "" without a column."""
    if not units.column or units.is_feature:
        return ""
    return f" Or, for tests of single features, pass permute_whole={units.column!r}."


def _excluded(units: Units) -> str:
    """Advise to exclude the column of units from the features, if it is one of them.

    Units, such as patients, have one label each. Returns an empty string otherwise.
    """
    if not units.is_feature:
        return ""
    return f" The column is also used as a feature; exclude it: not_features={[units.column]!r}."


def _units_in_columns(
    data: Any,
    source: AbstractSource,
    labels: Index,
    numbers: Float | None,
    rows: Index | None,
    apart: tuple[str, ...],
) -> Iterator[Units]:
    """Yield the table columns, features or not, that name units with one label each."""
    if not (is_table(data) or hasattr(data, "iloc")):
        return
    for name, values in source.sample_coords().items() if is_table(data) else ():
        if name not in apart and len(values) == source.n_samples:
            column = np.asarray(values if rows is None else values[rows])
            codes, distinct = pd.factorize(column.astype(str))
            if _are_units(codes, len(distinct), labels, 1, is_named=bool(UNITS.fullmatch(name))):
                yield Units(codes, len(distinct), name)
    for name, column in whole_columns(source, rows):
        distinct, codes = np.unique(column, return_inverse=True)
        is_named = UNITS.fullmatch(name) is not None
        if not _are_units(codes, distinct.size, labels, source.n_features, is_named=is_named):
            continue
        if is_named or _changes(codes, labels, numbers) >= MIN_CHANGES * distinct.size:
            yield Units(codes, distinct.size, name, is_feature=True)


def whole_columns(source: AbstractSource, rows: Index | None) -> Iterator[tuple[str, Float]]:
    """Yield name and values (m,) of the table features with whole numbers and no missing value."""
    m, d = source.n_samples if rows is None else len(rows), source.n_features
    names = source.feature_names()
    if names is None or not (source.in_memory or m * d <= MOST_VALUES):
        return
    for block in source.blocks(d):
        X = source.read(block, rows)
        head = X[:HEAD]
        with np.errstate(invalid="ignore"):
            are_whole = (head == np.floor(head)).all(axis=0)
        for i in np.flatnonzero(are_whole):
            column = X[:, i].astype(np.float64)
            if (column == np.floor(column)).all():
                yield str(names[block.start + i]), column


def _are_units(codes: Index, k: int, labels: Index, n_columns: int, *, is_named: bool) -> bool:
    """Whether the k groups `codes` (m,) are units: labels are constant within each, not by chance.

    The chance is estimated by counting arrangements of the labels. For C different labels, at most
    C ** k arrangements are constant within units; the number of all arrangements is a multinomial
    coefficient.

    >>> patients = np.repeat(np.arange(12), 4)
    >>> _are_units(patients, 12, patients % 2, 100, is_named=False)
    True
    """
    m, sizes = len(codes), np.bincount(codes, minlength=k)
    is_repeated = sizes[sizes > 1].sum() >= MIN_SHARE * m
    is_many = k >= FEWEST_UNITS and (is_named or MOST_ROWS * k >= m)
    if not (is_repeated and is_many and k < m):
        return False
    pairs = np.unique(codes.astype(np.int64) * (labels.max() + 1) + labels)
    counts = np.bincount(labels)
    if pairs.size > k or counts.size < 2:
        return False
    ways = lgamma(m + 1) - sum(lgamma(n + 1) for n in counts)
    return log(n_columns) + k * log(counts.size) - ways < log(CHANCE)


def _changes(codes: Index, labels: Index, numbers: Float | None) -> int:
    """Count the units with another label than the unit before, in the order of their codes.

    For numeric labels, count the turns from rising to falling or back.
    """
    _, first = np.unique(codes, return_index=True)
    if numbers is not None:
        steps = np.sign(np.diff(numbers[first]))
        steps = steps[steps != 0]
        return int((np.diff(steps) != 0).sum())
    return int((np.diff(labels[first]) != 0).sum())


def _units_by_value(source: AbstractSource, labels: Index, rows: Index | None) -> Units | None:
    """Return groups of nearly equal rows with one label each; None if rows form no such groups."""
    m = len(labels)
    if not 2 * FEWEST_UNITS <= m <= COMPARED or (values := first_values(source, rows)) is None:
        return None
    ranks = pd.DataFrame(values).rank().to_numpy() / m
    ranks = np.where(np.isnan(ranks), 0.5, ranks)
    codes = close_groups(ranks)
    k = 0 if codes is None else int(codes.max()) + 1
    if codes is None or not _are_units(codes, k, labels, 1, is_named=False):
        return None
    groups_of = np.unique(np.column_stack([labels, codes]), axis=0)[:, 0]
    n_classes = len(np.unique(labels))
    is_measured = 2 * n_classes > k  # labels are numbers, which differ between units
    is_one_each = not is_measured and np.bincount(groups_of).min() < GROUPS_PER_CLASS
    return None if is_one_each else Units(codes, k)


def close_groups(X: Float) -> Index | None:
    """Group rows of X (m, c) that are close to each other and far from others; return codes (m,).

    The distances of all pairs of rows are sorted. If the rows form small groups, a gap separates
    the distances within groups from the distances between groups. Without such a gap, the result
    is None.

    >>> X = np.repeat(np.random.default_rng(0).normal(size=(10, 20)), 2, axis=0)
    >>> close_groups(X + 0.01 * np.arange(20)[:, None]).tolist()[:6]
    [0, 0, 1, 1, 2, 2]
    >>> close_groups(np.random.default_rng(0).normal(size=(20, 20))) is None
    True
    """
    m = len(X)
    norms = (X * X).sum(axis=1)
    squares = np.maximum(norms[:, None] + norms[None, :] - 2 * X @ X.T, 0)
    pairs = np.sort(squares[np.triu_indices(m, 1)])
    fewest, most = int(MIN_SHARE * m / 2), min(m * MOST_ROWS // 2, pairs.size - 1)
    if fewest >= most or pairs[fewest - 1] <= EQUAL:
        return None
    ratios = pairs[fewest : most + 1] / pairs[fewest - 1 : most]
    at = int(ratios.argmax())
    if ratios[at] < MIN_RATIO**2:
        return None
    is_near = squares < pairs[fewest + at]
    np.fill_diagonal(is_near, val=True)
    _, codes = np.unique(is_near.argmax(axis=1), return_inverse=True)  # by the first member
    are_groups = np.array_equal(codes[:, None] == codes[None, :], is_near)
    return np.asarray(codes, dtype=np.int64) if are_groups else None
