"""Suspects: features at the top of a ranking that are no measurements.

A feature may be the labels again under another name: in other units, scaled, or as codes of the
classes. Or it may name or number the samples, in whose order there is something of the labels. Both
rank first where they do harm, so the best features of each run are read once more, at most
`MOST_READ` in all, and a warning names those that look so. Of genotypes none can be either.
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
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.selection.run import SelectionRun
from dhsic.sources import AbstractSource
from dhsic.sources.columns import NAME
from dhsic.sources.ids import abbreviate, names_rows_by_name
from dhsic.sources.row_numbers import counting_columns, rising_columns
from dhsic.sources.scaling import missing_mask
from dhsic.sources.views import SubsetSource

#: Features that are read, at most: the best of all runs in turn.
MOST_READ = 32
#: Squared correlation with the labels from which on a feature is these in other units: one less
#: what tables round away.
SAME = 1 - 2e-6
#: Probability that some feature tells all classes by chance, below which it is no chance.
CHANCE = 1e-3
#: Features read per one of them that counts samples; more of these are ranks.
PER_COUNT = 4


def warn_of_suspects(
    data: Any, source: AbstractSource, runs: Sequence[SelectionRun], results: Sequence[xr.Dataset]
) -> None:
    """Warn of features at the top of rankings that tell the labels, or number the samples.

    `source` was opened from `data`, and has the features of all runs.
    """
    if source.dosages:
        return
    best = _best_of(results)
    if not best.size or best[-1] >= source.n_features:
        return
    read = _Features.of(source, best, _names_of(results[0], best))
    for which, sentence in (*_labels_again(data, source, runs, read), *_row_numbers(read)):
        warn(f"{sentence} {_remedy(data, read.option(which[:4]))}")


def _best_of(results: Sequence[xr.Dataset]) -> Index:
    """Positions of the best features of all runs, ascending, at most `MOST_READ`."""
    each = -(-MOST_READ // len(results))
    best = []
    for result in results[:MOST_READ]:
        ranks = result["rank"].to_numpy()
        varies = np.flatnonzero((ranks > 0) & (ranks <= each))
        best.append(varies[np.argsort(ranks[varies])])
    in_turn = [int(of[i]) for i in range(each) for of in best if i < of.size]
    return np.sort(np.array([*dict.fromkeys(in_turn)][:MOST_READ], dtype=np.int64))


def _names_of(result: xr.Dataset, at: Index) -> Array | None:
    """Names of the features at some positions, which alone are read; None if there are none."""
    if NAME not in result.coords:
        return None
    names = result.coords[NAME]
    return np.asarray(names[{names.dims[0]: at}])


@dataclass(frozen=True, eq=False)
class _Features:
    """The best features of some runs, in memory.

    Attributes
    ----------
    at : (c,) int64
        Positions in the source, ascending.
    names : (c,) array of str or None
        Names, if the source has some.
    X : (m, c) float64
        Values of all samples, NaN where missing.
    n_features : int
        Features of the source.
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
        """Feature i for sentences."""
        return f"feature {self.at[i]}" if self.names is None else repr(str(self.names[i]))

    def option(self, which: Sequence[int]) -> list[Any]:
        """Names of features as an option says them; positions where they have none."""
        if self.names is None:
            return [int(self.at[i]) for i in which]
        return [str(self.names[i]) for i in which]


def _labels_again(
    data: Any, source: AbstractSource, runs: Sequence[SelectionRun], read: _Features
) -> Iterator[tuple[list[int], str]]:
    """Yield the features that tell the labels of a run, with a sentence on them."""
    are_told = tells_all_leaks(data, source)  # equal values are, when the data are opened
    for run in runs:
        if run.y is None or run.selector.label_kernel == "precomputed":
            continue
        X = read.X if run.rows is None else read.X[run.rows]
        Y = run.y[:, None] if run.y.ndim == 1 else run.y
        if len(Y) != len(X) or len(X) < FEWEST_TOLD:
            continue
        prefix = f"{run.name}: " if run.name else ""
        for y in Y.T:
            units = [i for i, x in enumerate(X.T) if is_same_scale(x, y)]
            codes = [
                i for i, x in enumerate(X.T) if i not in units and is_code(x, y, read.n_features)
            ]
            if (are_told or hasattr(data, "iloc")) and run.y.ndim == 1:
                units = [i for i in units if not np.array_equal(X[:, i], y)]
            codes = [] if are_told and run.y.ndim == 1 else codes
            if units:
                again = "is the labels" if len(units) == 1 else "are the labels each"
                called = _capital(abbreviate(map(read.called, units), 3))
                sentence = f"{called}, among the best features, {again} again, perhaps in other"
                yield units, f"{prefix}{sentence} units (|correlation| 1)."
            if codes:
                has, them = ("has", "it tells") if len(codes) == 1 else ("have", "they tell")
                called = _capital(abbreviate(map(read.called, codes), 3))
                sentence = f"{called}, among the best features, {has} a value of its own for each"
                yield codes, f"{prefix}{sentence} class of the labels, so {them} them."


def is_same_scale(x: Float, y: Array) -> bool:
    """Whether labels (m,) are a feature times a factor, plus an offset, but for rounding.

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


def is_code(x: Float, y: Array, n_features: int) -> bool:
    """Whether a feature has a value of its own for each class of labels (m,), hardly by chance.

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


def _row_numbers(read: _Features) -> Iterator[tuple[list[int], str]]:
    """Yield the features that name or number samples, with a sentence on them."""
    most = max(1, read.at.size // PER_COUNT)
    shape = len(read.X), read.n_features
    counting = counting_columns(read.X.__getitem__, shape, most)
    rising = [i for i, *_ in rising_columns(read.X.__getitem__, shape, most)]
    names = [] if read.names is None else [*map(str, read.names)]
    by_name = [i for i, name in enumerate(names) if names_rows_by_name(name)]
    if which := sorted({*counting, *rising, *by_name}):
        called = _capital(abbreviate(map(read.called, which), 3))
        one = len(which) == 1
        are, them = ("is", "a feature it") if one else ("are", "features they")
        sentence = (
            f"{called}, among the best features, {are} called like a number of rows, or {are} made "
            "of whole numbers that count the samples or rise from each to the next, as dates do. "
        )
        yield which, f"{sentence}As {them} may tell the order of the samples."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _remedy(data: Any, option: Sequence[Any]) -> str:
    """Sentence on how to leave features out."""
    one = "it was" if len(option) == 1 else "they were"
    is_array = isinstance(data, np.ndarray | list | tuple)
    how = (
        f"X = numpy.delete(X, {list(option)}, axis=1)"
        if is_array
        else f"not_features={list(option)!r}"
    )
    return f"If {one} not measured, leave {'it' if len(option) == 1 else 'them'} out: {how}."
