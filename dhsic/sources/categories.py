"""Categorical features in tables of numbers: levels, codes of levels, and indicators.

A source with categories has one feature per column, as users see it. The values of a categorical
feature are codes: level k has the code ``k + 1/2``. Such codes are not whole numbers, so no check
mistakes them for genotypes or for codes of missing values. Methods on sets of features use
`IndicatorSource`, in which a categorical feature is a group of indicators, one per level. `pooled`
scales a group to the variance of a single feature, so that a column of 40 levels weighs as much as
a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource
from dhsic.sources.blocks import Block
from dhsic.sources.ids import abbreviate
from dhsic.sources.marked_numbers import LIMIT
from dhsic.sources.measured_text import measurements_of
from dhsic.sources.quantities import examples
from dhsic.sources.scaling import PRESENCE, Scale, Scaling
from dhsic.sources.text_features import LETTERS
from dhsic.sources.views import AbstractView
from dhsic.validation import is_numeral

#: Name of the feature coordinate that describes what a column contains.
KIND = "kind"
NUMBER = "number"
#: Maximum number of levels of a categorical feature, and minimum mean number of samples per level;
#: with at most `FEW` levels, `OF_FEW` samples per level are enough.
MOST, OF_A_LEVEL, FEW, OF_FEW = 50, 5, 5, 2
#: Pattern of the name of an indicator, such as ``colour_red``; minimum number of indicators of a
#: category, and maximum number of features among which they are looked for.
SEPARATED = re.compile(r"(.+)[_=:.][^_=:.]+")
FEWEST_ONE_HOT, MOST_NAMED = 3, 4096
#: Maximum number of columns that a message describes.
MOST_DESCRIBED = 3
#: Pattern of levels that begin with a number, perhaps after a sign or a currency, or with a month
#: before a number; of durations of ISO 8601, such as PT5M; and of genotypes of letters.
AMOUNT = re.compile(
    r"[^\w]{0,3}\d.*|[+-]?P(?=T?\d)(\d+([.,]\d+)?[YMWD])*(T(\d+([.,]\d+)?[HMS])+)?|"
    r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\W{0,2}\d.*|" + LETTERS,
    re.IGNORECASE | re.DOTALL,
)
#: Value of the first level.
FIRST = 0.5


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """Values (m,) of one column as numbers, NaN if missing.

    `levels` are the names of the levels of a categorical feature; for ordered categories the values
    are positions in their order, and `levels` is empty. `kind` describes the column to users.
    """

    values: Float
    levels: tuple[str, ...] = ()
    kind: str = NUMBER

    @property
    def are_amounts(self) -> bool:
        """Whether at least half of the levels look like amounts, dates, times or genotypes.

        A single value below or above a limit, such as <0.1, is enough. If all levels are numbers,
        the result is False, because pandas categories may be numbers.

        >>> [CodedColumn.of(of).are_amounts for of in (["1:30", "25:50"], ["May 2020", "late"])]
        [True, True]
        >>> [CodedColumn.of(of).are_amounts for of in (["a", "b2"], ["1", "2"], ["<0.1", "b", "c"])]
        [False, False, True]
        """
        n = sum(AMOUNT.fullmatch(level) is not None for level in self.levels)
        is_text = not all(map(is_numeral, self.levels))
        has_limit = any(map(LIMIT.fullmatch, self.levels))
        return is_text and bool(self.levels) and (2 * n >= len(self.levels) or has_limit)

    @staticmethod
    def of(texts: Sequence[str | None]) -> CodedColumn:
        """Code texts (m,) as levels; None is missing. Levels that are numbers are sorted by value.

        >>> CodedColumn.of(["b", "a", None, "b"]).values.tolist()
        [1.5, 0.5, nan, 1.5]
        """
        distinct = {text for text in texts if text is not None}
        are_numbers = all(map(is_numeral, distinct))
        levels = sorted(distinct, key=(lambda t: (float(t), t)) if are_numbers else None)
        code = {text: place + FIRST for place, text in enumerate(levels)}
        values = np.array([np.nan if text is None else code[text] for text in texts])
        return CodedColumn(values, tuple(levels), f"categories ({len(levels)})")


def check_levels(
    where: str,
    columns: Mapping[str, CodedColumn],
    named: Collection[str],
    rewritten: Callable[[Mapping[str, str]], str],
) -> None:
    """Refuse categorical columns whose levels look like names, free text, amounts or dates.

    `where` is the subject of the message: the table or frame. Columns in `named` were declared as
    categories by the caller, so their levels may be amounts. `rewritten` returns code that converts
    columns, given a pandas expression for each; see `WrittenColumn.rewritten`.
    """
    amounts = {
        name: column.levels
        for name, column in columns.items()
        if name not in named and column.are_amounts
    }
    if amounts:
        raise InputError(f"{where} has text {_about_amounts(amounts, rewritten)}")
    for name, column in columns.items():
        k, n = len(column.levels), int((~np.isnan(column.values)).sum())
        least = OF_FEW if k <= FEW else OF_A_LEVEL
        if k > MOST or k * least > max(n, 2 * OF_FEW):
            others = [other for other, of in columns.items() if _is_excessive(of)]
            raise InputError(
                f"{where} has text in column {name!r} with {k:,} different values "
                f"({abbreviate(map(repr, column.levels), 3)}) in {n:,} samples, so it looks like "
                f"names or free text. A categorical feature has at most {MOST} levels, and "
                f"{OF_A_LEVEL} samples per level on average. Exclude it: not_features={others!r}. "
                "Or merge rare levels."
            )


def _about_amounts(
    amounts: Mapping[str, tuple[str, ...]], rewritten: Callable[[Mapping[str, str]], str]
) -> str:
    """Return the rest of a message, after "has text", on columns with levels like amounts."""
    found = {name: known for name, of in amounts.items() if (known := measurements_of(of))}
    if found:
        shown = {name: abbreviate(map(repr, examples([*amounts[name]])), 3) for name in found}
        kinds = (
            f"{known.kind} in column {name!r} ({shown[name]})" for name, known in found.items()
        )
        units = dict.fromkeys(known.unit for known in found.values())
        notes = dict.fromkeys(known.note for known in found.values() if known.note)
        names = [*found]
        what = f"that means numbers: {abbreviate(kinds, MOST_DESCRIBED)}."
        code = rewritten({name: known.change for name, known in found.items()})
        how = " ".join([f"To write {'; '.join(units)}: {code}.", *notes])
    else:
        names = [next(iter(amounts))]
        what = (
            f"in column {names[0]!r} that looks like amounts, ranges, dates, times or genotypes "
            f"({abbreviate(map(repr, amounts[names[0]]), 3)})."
        )
        how = "Write it as numbers."
    it, is_no = (
        ("the column", "is not a feature") if len(names) == 1 else ("columns", "are no features")
    )
    return (
        f"{what} {how} If these are names of categories, pass categories={names!r}. If {it} "
        f"{is_no}, exclude {'it' if len(names) == 1 else 'them'}: not_features={names!r}."
    )


def _is_excessive(column: CodedColumn) -> bool:
    """Whether a column has too many levels, see `check_levels`."""
    k, n = len(column.levels), int((~np.isnan(column.values)).sum())
    return k > MOST or k * (OF_FEW if k <= FEW else OF_A_LEVEL) > max(n, 2 * OF_FEW)


def check_known(where: str, wanted: Iterable[str], known: Sequence[str]) -> None:
    """Refuse names in ``categories=`` that are not feature columns."""
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(
            f"categories={unknown!r} is not a feature column of {where}; its feature columns are "
            f"{abbreviate(map(repr, known), 8)}. Leave it out."
        )


class MixedSource(ArraySource):
    """Source of numbers and categories in memory, with one feature per column of a table."""

    layout: Any

    def __init__(
        self,
        columns: Mapping[str, CodedColumn],
        samples: Array | None,
        base: Names | None = None,
        *,
        missing_code: int | None = None,
    ) -> None:
        each = list(columns.values())
        kinds = np.array([column.kind for column in each], dtype=object)
        names = replace(
            base or Names(),
            features=np.array([*columns], dtype=object),
            samples=samples,
            coords={KIND: kinds},
        )
        X = np.array([column.values for column in each], dtype=np.float64).T
        super().__init__(X, missing_code=missing_code, names=names)
        self.levels = {j: column.levels for j, column in enumerate(each) if column.levels}
        self.layout = "mixed", tuple(self.levels.items())


def numbers_of(source: AbstractSource) -> Index:
    """Return the positions of the features that are numbers."""
    return np.setdiff1d(np.arange(source.n_features), [*source.levels])


def codes_at(source: AbstractSource, feature: int, rows: Index | None) -> Index:
    """Return each sample's level of a categorical feature, numbered from 0, (m,); -1 if missing."""
    (values,) = source.read_columns(Block(0, feature, feature + 1), np.zeros(1, np.int64), rows)
    return np.where(np.isnan(values), -1.0, values - FIRST).astype(np.int64)


def category_sentence(source: AbstractSource) -> str:
    """Return a sentence on the categorical features of a source; "" if there are none."""
    names = source.feature_names()
    if not source.levels or names is None:
        return ""
    listed = (f"{names[j]} ({len(of)} levels)" for j, of in source.levels.items())
    n = len(source.levels)
    return (
        f"{n:,} of {source.n_features:,} features {'is' if n == 1 else 'are'} categorical: "
        f"{abbreviate(listed, 5)}. Each is scored as one feature."
    )


def one_hot_sentence(source: AbstractSource) -> str:
    """Return a sentence on columns that are indicators of one category; "" if there are none.

    The names of such columns have the same prefix (``colour_red``, ``colour_blue``), their values
    are 0 and 1, and in each sample exactly one is 1. Only data in memory are inspected.
    """
    if not source.in_memory or source.n_features > MOST_NAMED:
        return ""
    names = source.feature_names()
    if names is None:
        return ""
    columns = dict[str, list[int]]()
    for j, name in enumerate(map(str, names)):
        if separated := SEPARATED.fullmatch(name):
            columns.setdefault(separated[1], []).append(j)
    one_hot = [
        f"{prefix!r} ({len(places)} columns)"
        for prefix, places in columns.items()
        if len(places) >= FEWEST_ONE_HOT and _are_one_hot(source, places)
    ]
    if not one_hot:
        return ""
    return (
        f"Columns with the prefix {abbreviate(one_hot, 3)} are indicators of one category and are "
        "scored as separate features. To score a category as one feature, pass its column of text."
    )


def _are_one_hot(source: AbstractSource, places: list[int]) -> bool:
    """Whether features are 0 or 1, and exactly one is 1 in each sample.

    Samples in which one of the features is missing are ignored.
    """
    total = np.zeros(source.n_samples)
    for j in places:
        (values,) = source.read_columns(Block(0, j, j + 1), np.zeros(1, np.int64))
        if not (np.isin(values, (0, 1)) | np.isnan(values)).all():
            return False
        total += values
    present = total[~np.isnan(total)]
    return bool(present.size and (present == 1.0).all())


class IndicatorSource(AbstractView):
    """Source in which each categorical feature of `base` is a group of indicators of its levels.

    A feature with two levels has only one indicator, 0 or 1. `columns` (d,) has the position in
    `base` of each feature of this source, in ascending order.
    """

    columns: Index

    def __init__(self, base: AbstractSource) -> None:
        super().__init__(base)
        places = [(j, k) for j in range(base.n_features) for k in _indicated(base.levels.get(j))]
        columns, codes = np.array(places, dtype=np.float64).T
        self.columns, self._codes = columns.astype(np.int64), codes
        self.n_features, self.levels, self.dtype = len(places), {}, np.dtype(np.float64)
        names, coords = base.feature_names(), base.feature_coords()
        self.names = Names(
            None if names is None else names[self.columns],
            base.names.samples,
            {name: values[self.columns] for name, values in coords.items()},
            sample_coords=base.names.sample_coords,
            levels=base.names.levels,
            dim=base.names.dim,
        )

    def base_block(self, block: Block) -> Block:
        first, last = self.columns[block.start], self.columns[block.stop - 1]
        return Block(block.index, int(first), int(last) + 1)

    def blocks(self, width: int) -> tuple[Block, ...]:
        stored = self.base.blocks(width)
        starts = np.searchsorted(self.columns, [block.start for block in stored])
        stops = np.searchsorted(self.columns, [block.stop for block in stored])
        return tuple(
            Block(i, int(a), int(b)) for i, (a, b) in enumerate(zip(starts, stops, strict=True))
        )

    def read_columns(self, block: Block, local: Index, rows: Index | None = None) -> Array:
        features, around = block.start + local, self.base_block(block)
        needed, place = np.unique(self.columns[features] - around.start, return_inverse=True)
        raw = self.base.read_columns(around, needed, rows)[place]
        codes = self._codes[features][:, None]
        values = np.where(np.isnan(codes) | np.isnan(raw), raw, raw == codes)
        return np.ascontiguousarray(values, dtype=np.float64)

    def imputed_features(self, block: Block, local: Index) -> None:
        """Return None: tables with categories have no dosages."""

    def of_features(self, values: Array) -> Array:
        selected: Array = self.base.of_features(values)[self.columns]
        return selected


def _indicated(levels: tuple[str, ...] | None) -> list[float]:
    """Return the codes of the levels that have an indicator; ``[NaN]`` for a numeric feature."""
    if levels is None:
        return [np.nan]
    n = len(levels)
    return [FIRST + k for k in range(1 if n == 2 else 0, n)]


def pooled(scaling: Scaling, columns: Index, standardize: Scale) -> Scaling:
    """Return a scaling that gives the indicators of a category together the weight of one feature.

    Parameters
    ----------
    scaling : Scaling
        Scaling of each number and each indicator as a feature by itself.
    columns : (d,)
        Column of each feature.
    standardize : Scale
        Scaling of the features. Indicators of a column with more than two levels are divided by
        the root of the sum of their variances; without scaling, they are divided by the root of 2,
        so that the squared distance between two levels is 1, as between 0 and 1. With scaling by
        presence, a column has less weight if more than half of the samples are in one level.
    """
    n = np.bincount(columns)[columns]
    variance = np.bincount(columns, np.square(scaling.std))[columns]
    scale = np.full(n.size, np.sqrt(0.5))
    if standardize:
        scale = np.divide(1.0, np.sqrt(variance), out=np.zeros(n.size), where=variance > 0)
    if standardize == PRESENCE:
        most = np.zeros(int(columns.max()) + 1)
        np.maximum.at(most, columns, scaling.mean)
        q = np.clip(1.0 - most[columns], 0.0, 1.0)  # not used for numeric features
        scale *= np.where(q < 0.5, np.sqrt(4.0 * q * (1.0 - q)), 1.0)
    is_group = (n > 1) & ~scaling.constant
    ratio = np.divide(scale, scaling.scale, out=np.ones(n.size), where=is_group)
    return replace(
        scaling,
        scale=np.where(is_group, scale, scaling.scale),
        max_abs=scaling.max_abs * ratio,
        fourth_moment=scaling.fourth_moment * ratio**4,
    )
