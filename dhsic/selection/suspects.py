"""Suspects: features at the top of a ranking that are probably not measurements.

A feature may be a copy of the labels: in other units, scaled, rounded, transformed, or as class
codes. Or it may be a name or running number of the samples; their order may be related to the
labels. Such features do harm only if they rank high. Therefore the best features of each run are
read again, at most `MOST_READ` in all, and a warning names the suspects. The best features, and all
features of small tables, are also checked for values in two units and for dates
(`dhsic.joins.units`). Genotypes are not checked, because they cannot contain any of these errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lgamma, log
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import warn
from dhsic.joins.targets import FEWEST_TOLD, tells_all_leaks
from dhsic.joins.units import about_dates, other_unit
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.kernels.risk_sets import is_censored
from dhsic.selection.run import SelectionRun
from dhsic.sources import AbstractSource
from dhsic.sources.columns import NAME
from dhsic.sources.ids import abbreviate, names_rows_by_name
from dhsic.sources.opening import is_table
from dhsic.sources.row_numbers import counting_columns, ordered_columns, restarting_counts
from dhsic.sources.scaling import missing_mask
from dhsic.sources.views import SubsetSource

#: Maximum number of features that are read: the best of every run, the second of every run, ...
MOST_READ = 32
#: Maximum number of features of a table, and of their values, all of which are checked for units.
MOST_FEATURES, MOST_VALUES = 500, 1 << 22
#: Minimum squared correlation with the labels at which a feature is the labels in other units; it
#: is below 1 because tables round values, sometimes to two decimals.
SAME = 1 - 2e-5
#: Minimum number of distinct values of labels and of a feature for a comparison of their orders.
FEWEST_ORDERED = 10
#: A feature is a class code if the probability that some feature separates all classes by chance is
#: below this.
CHANCE = 1e-3
#: Maximum share of the samples of the smallest class for which a copy of the classes differs.
MOST_ERRORS = 0.1
#: Classes are far apart in a score if the gaps between them are at least this times the range of
#: each class. No feature of microarrays, images and clinical tables has gaps at all; genes of the
#: sex chromosomes may have them in classes of the sexes, but not alone.
APART = 1.0
#: Minimum number of samples of each class; and features read per feature that may be reported as a
#: score (one may always be). If there are more scores, the classes simply differ that clearly.
OF_CLASS, PER_SCORE = 5, 16
#: Features read per feature that may be reported as a running number of the samples; if there are
#: more, the features are ranks.
PER_COUNT = 4


def warn_of_suspects(
    data: Any, source: AbstractSource, runs: Sequence[SelectionRun], results: Sequence[xr.Dataset]
) -> None:
    """Warn of highly ranked features that copy the labels, number the samples, or mix units.

    `source` was opened from `data`, and has the features of all runs. `results` has one result per
    run.
    """
    best, d = _best_of(results), source.n_features
    if source.dosages or not best.size or best[-1] >= d:
        return
    read = _Features.of(source, best, _names_of(results[0], best))
    is_held, of_units = source.in_memory or is_table(data), read
    if is_held and d <= MOST_FEATURES and d * source.n_samples <= MOST_VALUES:
        of_units = _Features.of(source, np.arange(d), _names_of(results[0], np.arange(d)))
    for at, sentence in _doubtful_values(of_units):
        warn(f"{sentence} {_remedy(data, of_units.option([at]))}")
    for which, sentence in (*_labels_again(data, source, runs, read), *_row_numbers(read)):
        warn(f"{sentence} {_remedy(data, read.option(which[:4]))}")


def _best_of(results: Sequence[xr.Dataset]) -> Index:
    """Positions of the best features of all runs, ascending; at most `MOST_READ`."""
    each = -(-MOST_READ // len(results))
    best = []
    for result in results[:MOST_READ]:
        ranks = result["rank"].to_numpy()
        varies = np.flatnonzero((ranks > 0) & (ranks <= each))
        best.append(varies[np.argsort(ranks[varies])])
    in_turn = [int(of[i]) for i in range(each) for of in best if i < of.size]
    return np.sort(np.array([*dict.fromkeys(in_turn)][:MOST_READ], dtype=np.int64))


def _names_of(result: xr.Dataset, at: Index) -> Array | None:
    """Names of the features at positions `at`; None if the result has no names."""
    if NAME not in result.coords:
        return None
    names = result.coords[NAME]
    return np.asarray(names[{names.dims[0]: at}])


@dataclass(frozen=True, eq=False)
class _Features:
    """Some features of a source, in memory.

    Attributes
    ----------
    at : (c,) int64
        Positions in the source, ascending.
    names : (c,) array of str or None
        Names, if the source has some.
    X : (m, c) float64
        Values of all samples, NaN where missing.
    n_features : int
        Number of features of the source.
    """

    at: Index
    names: Array | None
    X: Float
    n_features: int

    @classmethod
    def of(cls, source: AbstractSource, at: Index, names: Array | None) -> _Features:
        part = SubsetSource(source, at)
        X = np.empty((source.n_samples, at.size))
        for block in part.blocks(at.size):
            raw = part.read(block).T
            values, absent = raw.astype(np.float64), missing_mask(raw, source.missing_code)
            if absent is not None:
                values[absent] = np.nan
            X[:, block.start : block.stop] = values.T
        return cls(at, names, X, source.n_features)

    def called(self, i: int) -> str:
        """Description of feature i for messages."""
        return f"feature {self.at[i]}" if self.names is None else repr(str(self.names[i]))

    def subject(self, which: Sequence[int]) -> str:
        """Subject of a sentence about features; `which` are positions among the features here."""
        return f"{_capital(abbreviate(map(self.called, which), 3))}, among the best features,"

    def option(self, which: Sequence[int]) -> list[Any]:
        """Names of features for an option, or positions if there are no names.

        `which` are positions among the features of this object.
        """
        if self.names is None:
            return [int(self.at[i]) for i in which]
        return [str(self.names[i]) for i in which]


def _labels_again(
    data: Any, source: AbstractSource, runs: Sequence[SelectionRun], read: _Features
) -> Iterator[tuple[list[int], str]]:
    """Yield lists of features that copy or encode labels, each with a sentence.

    Features are positions in `read`.
    """
    are_told = tells_all_leaks(data, source)  # whether opening the data reported exact copies
    for run in runs:
        if run.y is None or run.selector.label_kernel == "precomputed":
            continue
        X = read.X if run.rows is None else read.X[run.rows]
        Y = run.y["time"] if is_censored(run.y) else run.y
        Y = Y[:, None] if Y.ndim == 1 else Y
        if len(Y) != len(X) or len(X) < FEWEST_TOLD:
            continue
        prefix = f"{run.name}: " if run.name else ""
        in_memory = are_told or hasattr(data, "iloc")
        for y in Y.T:
            units = [i for i, x in enumerate(X.T) if is_same_scale(x, y)]
            ordered = [i for i, x in enumerate(X.T) if i not in units and is_same_order(x, y)]
            codes = [i for i, x in enumerate(X.T) if is_code(x, y, read.n_features)]
            codes = [i for i in codes if i not in {*units, *ordered}]
            bins = [i for i, x in enumerate(X.T) if is_binned(x, y, read.n_features)]
            nearly = [i for i, x in enumerate(X.T) if is_nearly_code(x, y, read.n_features)]
            bins = [i for i in bins if i not in {*units, *ordered}]
            yield from ((which, prefix + said) for which, said in _nearly(read, bins, nearly))
            scores = [i for i, x in enumerate(X.T) if is_score(x, y, read.n_features)]
            scores = [i for i in scores if i not in {*units, *ordered, *nearly}]
            yield from ((which, prefix + said) for which, said in _scores(read, scores))
            if in_memory and run.y.ndim == 1:
                units = [i for i in units if not np.array_equal(X[:, i], y)]
            codes = [] if are_told and run.y.ndim == 1 else codes
            for which, sentence in _sentences(read, units, ordered, codes):
                yield which, prefix + sentence


def _sentences(
    read: _Features, units: list[int], ordered: list[int], codes: list[int]
) -> Iterator[tuple[list[int], str]]:
    """Yield each non-empty list of features with a sentence for a warning.

    The lists contain features that copy the labels in other units, in order, or as class codes.
    """
    if units:
        equals = "equals the labels" if len(units) == 1 else "equal the labels"
        yield units, f"{read.subject(units)} {equals}, perhaps in other units (|correlation| 1)."
    if ordered:
        has = "has" if len(ordered) == 1 else "have"
        sentence = (
            f"{read.subject(ordered)} {has} the same order as the labels for every pair of samples"
        )
        yield ordered, f"{sentence}, like labels that were rounded, ranked or transformed."
    if codes:
        has, them = ("has", "it encodes") if len(codes) == 1 else ("have", "they encode")
        sentence = f"{read.subject(codes)} {has} one distinct value for each class of the labels"
        yield codes, f"{sentence}, so {them} the labels."


def _nearly(read: _Features, bins: list[int], nearly: list[int]) -> Iterator[tuple[list[int], str]]:
    """Yield each non-empty list of features with a sentence for a warning.

    `bins` are features that divide numeric labels into groups by size. `nearly` are features that
    copy classes with a few errors.
    """
    if bins:
        divides = "divides" if len(bins) == 1 else "divide"
        sentence = f"{read.subject(bins)} {divides} the labels into groups of smaller and larger"
        yield (
            bins,
            f"{sentence} labels without exception, like a grouping of the labels.",
        )
    if nearly:
        has, copy = ("has", "a copy") if len(nearly) == 1 else ("have", "copies")
        sentence = f"{read.subject(nearly)} {has} one value for each class of the labels"
        yield nearly, f"{sentence} in nearly all samples, like {copy} of them with a few errors."


def _scores(read: _Features, scores: list[int]) -> Iterator[tuple[list[int], str]]:
    """Yield features that separate the classes by wide gaps, with a sentence for a warning.

    Nothing is yielded if many features do so.
    """
    if 0 < len(scores) <= max(1, read.at.size // PER_SCORE):
        separates, score = (
            ("separates", "a score or prediction that was")
            if len(scores) == 1
            else ("separate", "scores or predictions that were")
        )
        sentence = f"{read.subject(scores)} {separates} all classes of the labels by wide gaps"
        yield scores, f"{sentence}, like {score} computed from them."


def is_same_scale(x: Float, y: Array) -> bool:
    """Whether labels y (m,) are a linear function of a feature x, except for rounding errors.

    >>> months = np.array([3, 15, 8, 40, 27, 60, 33, 12, 51, 22, 9, 18.0])
    >>> is_same_scale(months, months / 12), is_same_scale(months, months**2)
    (True, False)
    """
    if y.dtype.kind not in "iuf":
        return False
    present = np.isfinite(x) & np.isfinite(y.astype(np.float64))
    if present.sum() < FEWEST_TOLD:
        return False
    a, b = x[present], y[present].astype(np.float64)
    a, b = a - a.mean(), b - b.mean()
    norm = (a @ a) * (b @ b)
    return bool(norm > 0 and len(np.unique(b)) > 2 and (a @ b) ** 2 >= SAME * norm)


def is_same_order(x: Float, y: Array) -> bool:
    """Whether a feature and labels (m,) order the samples in the same way, or exactly in reverse.

    Ties are ignored, so labels that were rounded, ranked or transformed have the same order.

    >>> months = np.array([3, 15, 8, 40, 27, 60, 33, 12, 51, 22, 9, 18.0])
    >>> is_same_order(np.log(months).round(2), months), is_same_order(months % 7, months)
    (True, False)
    """
    if y.dtype.kind not in "iuf":
        return False
    present = np.isfinite(x) & np.isfinite(y.astype(np.float64))
    if present.sum() < FEWEST_TOLD:
        return False
    a, b = x[present], y[present].astype(np.float64)
    if min(len(np.unique(a)), len(np.unique(b))) < FEWEST_ORDERED:
        return False
    return _never_falls(a, b) or _never_falls(-a, b)


def _never_falls(x: Float, y: Float) -> bool:
    """Whether x (m,) never decreases as y (m,) increases."""
    order = np.lexsort((x, y))
    x, y = x[order], y[order]
    starts = np.flatnonzero(np.diff(y, prepend=-np.inf))
    ends = np.append(starts[1:], y.size) - 1
    return bool((x[ends[:-1]] <= x[starts[1:]]).all())


def is_code(x: Float, y: Array, n_features: int) -> bool:
    """Whether a feature x (m,) has one distinct value per class of y (m,).

    A match does not count if one of `n_features` features may have it by chance.

    >>> y = np.array(["case", "control"] * 20)
    >>> is_code(np.where(y == "case", 5.0, 7.0), y, 100), is_code(np.arange(40.0), y, 100)
    (True, False)
    """
    present = np.isfinite(x)
    classes, codes, sizes = np.unique(
        y.astype(str) if y.dtype.kind not in "biuf" else y, return_inverse=True, return_counts=True
    )
    if present.sum() < FEWEST_TOLD or not 1 < classes.size <= MOST_CLASSES:
        return False
    pairs = np.unique(np.column_stack([codes[present], x[present]]), axis=0)
    if not len(pairs) == classes.size == len(np.unique(pairs[:, 1])):
        return False
    ways = lgamma(len(y) + 1) - sum(lgamma(n + 1) for n in sizes) - lgamma(classes.size + 1)
    return log(n_features) - ways < log(CHANCE)


def is_binned(x: Float, y: Array, n_features: int) -> bool:
    """Whether a feature x (m,) divides the numbers y (m,) into a few groups by size.

    A division does not count if one of `n_features` features may have it by chance.

    >>> y = np.arange(60.0) * 7 % 60
    >>> is_binned(y // 20, y, 1000), is_binned((y > 30) * 1.0, y, 1000), is_binned(y % 3, y, 1000)
    (True, True, False)
    """
    if y.dtype.kind not in "iuf":
        return False
    present = np.isfinite(x) & np.isfinite(y.astype(np.float64))
    if present.sum() < FEWEST_TOLD:
        return False
    a, b = x[present], y[present].astype(np.float64)
    sizes = np.unique(a, return_counts=True)[1]
    if not 1 < sizes.size < FEWEST_ORDERED or len(np.unique(b)) < FEWEST_ORDERED:
        return False
    if log(2 * n_features) - _log_ways(sizes) >= log(CHANCE):
        return False
    return _never_falls(b, a) or _never_falls(b, -a)


def is_nearly_code(x: Float, y: Array, n_features: int) -> bool:
    """Whether a feature x (m,) has one value per class of y (m,), except for a few samples.

    Agreement does not count if one of `n_features` features may have it by chance.

    >>> y = np.arange(60) % 2
    >>> x = np.where(np.isin(np.arange(60), [3, 8]), 1 - y, y) * 2.0
    >>> is_nearly_code(x, y, 1000), is_nearly_code(y * 2.0, y, 1000)
    (True, False)
    """
    present = np.isfinite(x)
    labels = y[present].astype(str) if y.dtype.kind not in "biuf" else y[present]
    classes, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    levels, values = np.unique(x[present], return_inverse=True)
    if present.sum() < FEWEST_TOLD or not 1 < classes.size == levels.size <= MOST_CLASSES:
        return False
    table = np.zeros((classes.size, levels.size))
    np.add.at(table, (codes, values), 1)
    best = table.argmax(axis=1)
    n_errors = int(table.sum() - table.max(axis=1).sum())
    if len(np.unique(best)) < classes.size or not 0 < n_errors <= MOST_ERRORS * sizes.min():
        return False
    n = int(present.sum())  # each set of exceptions is another chance
    exceptions = lgamma(n + 1) - lgamma(n_errors + 1) - lgamma(n - n_errors + 1)
    exceptions += n_errors * log(classes.size)
    return log(n_features) + exceptions - _log_ways(sizes) < log(CHANCE)


def is_score(x: Float, y: Array, n_features: int) -> bool:
    """Whether the classes of y (m,) are intervals of a feature x (m,), separated by wide gaps.

    A separation does not count if one of `n_features` features may have it by chance.

    >>> y = np.arange(40) % 2
    >>> noise = np.sin(np.arange(40.0))
    >>> is_score(5 * y + noise, y, 100), is_score(3 * y + noise, y, 100), is_score(1.0 * y, y, 100)
    (True, False, False)
    """
    present = np.isfinite(x)
    labels = y[present].astype(str) if y.dtype.kind not in "biuf" else y[present]
    classes, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if not 1 < classes.size <= MOST_CLASSES or sizes.min() < OF_CLASS or sizes.sum() < FEWEST_TOLD:
        return False
    grouped = np.split(x[present][np.argsort(codes, kind="stable")], np.cumsum(sizes)[:-1])
    low, high = np.sort([(values.min(), values.max()) for values in grouped], axis=0).T
    if np.unique(x[present]).size < FEWEST_ORDERED:  # such as genotypes
        return False
    largest = max(float(np.ptp(values)) for values in grouped)
    if not 0 < APART * largest <= (low[1:] - high[:-1]).min():
        return False
    ways = _log_ways(sizes) - lgamma(classes.size + 1)
    return log(n_features) - ways < log(CHANCE)


def _log_ways(sizes: Index) -> float:
    """Logarithm of the number of ways to assign samples to groups of these sizes."""
    return lgamma(float(sizes.sum()) + 1) - sum(lgamma(float(n) + 1) for n in sizes)


def _row_numbers(read: _Features) -> Iterator[tuple[list[int], str]]:
    """Yield the features that look like row numbers or dates, with a sentence for a warning."""
    most = max(1, read.at.size // PER_COUNT)
    shape = len(read.X), read.n_features
    counting = counting_columns(read.X.__getitem__, shape, most)
    ordered = ordered_columns(read.X, read.n_features, most)
    names = [] if read.names is None else [*map(str, read.names)]
    by_name = [i for i, name in enumerate(names) if names_rows_by_name(name)]
    again = restarting_counts(read.X)
    if which := sorted({*counting, *ordered, *again, *by_name}):
        called = _capital(abbreviate(map(read.called, which), 3))
        one = len(which) == 1
        verb, these = ("looks", "a feature") if one else ("look", "features")
        sentence = (
            f"{called}, among the best features, {verb} like row numbers or dates: by their name, "
            "or because values are consecutive numbers, or increase or decrease from each sample "
            "to the next.  "
        )
        yield which, f"{sentence}Such {these} may only encode the order of the samples."


def _doubtful_values(read: _Features) -> Iterator[tuple[int, str]]:
    """Yield each feature with values in two units, or dates as numbers, with a sentence."""
    for i, x in enumerate(read.X.T):
        unit, name = other_unit(x), "" if read.names is None else str(read.names[i])
        if said := unit.sentence if unit else about_dates(name, x):
            yield i, f"{_capital(read.called(i))} {said}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _remedy(data: Any, option: Sequence[Any]) -> str:
    """Advice on how to exclude features; `option` contains their names or positions."""
    one = "it was" if len(option) == 1 else "they were"
    is_array = isinstance(data, np.ndarray | list | tuple)
    how = (
        f"X = numpy.delete(X, {list(option)}, axis=1)"
        if is_array
        else f"not_features={list(option)!r}"
    )
    return f"If {one} not measured, exclude {'it' if len(option) == 1 else 'them'}: {how}."
