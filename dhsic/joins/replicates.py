"""Technical replicates: several measurements of one sample, recognised by their names.

Repeated measurements are not independent, so p-values that count each as a sample are far too
small. Replicates have equal names, or names that differ only at the end: ``P001_rep1`` and
``P001_rep2``, or ``P001`` and ``P001.1``, which programs write to make names unique. Biological
replicates of a few conditions (``treated_rep1``) are independent samples. To exclude them, a name
counts only if it contains a number before the end, and a warning needs many such names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import warn
from dhsic.joins.repeated_measurements import whole_columns
from dhsic.joins.variables import column_of, has_columns
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate
from dhsic.validation import is_numeral

#: Ends of names: numbers of replicates, and numbers that programs append to make names unique.
REPETITION = (
    r"[ _.-](tech(nical)?[ _.-]?)?(rep|repl|replicate|tech|techrep|R|r|run|dup)[ _.-]?\d{1,2}$"
)
MADE_UNIQUE = r"\.\d{1,2}$"
#: Minimum number of samples with replicates; and the share of all names that must be exceeded by
#: the names of their replicates.
FEWEST, MIN_SHARE = 10, 0.5
#: Maximum number of samples: more are cells or molecules, which nobody names by hand.
MOST = 20_000
#: Number of names that the warning shows, and of columns of whole numbers that are read.
SHOWN, MOST_COLUMNS = 3, 1000
#: Pandas expressions for the values of several samples; of text, the first one.
MEAN = "mean()"
MEAN_OR_FIRST = "agg(lambda v: v.mean() if pandas.api.types.is_numeric_dtype(v) else v.iloc[0])"


def warn_of_replicates(
    names: Array | None,
    data: Any = None,
    source: AbstractSource | None = None,
    rows: Index | None = None,
    apart: tuple[str, ...] = (),
) -> bool:
    """Warn if many `names` (m,) look like repeated measurements; return whether they do.

    `names` belong to the samples `rows` (None: all) of `source`, which was opened from `data`.
    Columns of `data` in `apart` are labels or covariates.
    """
    if names is None or len(names) > MOST:
        return False
    texts = [str(name) for name in names]
    for pattern in (REPETITION, MADE_UNIQUE):
        groups = repeated(texts, pattern)
        if groups:
            n = sum(map(len, groups))
            shown = abbreviate(map(repr, groups[0]), SHOWN)
            columns = {} if source is None else dict(_columns(data, source, rows))
            others = [(name, values) for name, values in columns.items() if name not in apart]
            is_listed = len({*texts}) == len(texts)
            warn(
                f"{n:,} of {len(texts):,} samples look like repeated measurements of "
                f"{len(groups):,}, by their names ({shown}). p-values assume independent samples, "
                "so they are far too small. Average the measurements of each sample, for instance "
                "in pandas, where the sample names are the index of X: "
                f"{_averaging(groups, pattern, data, columns.values())}. Or keep one of "
                f"each{': list their names for keep=.' if is_listed else _by(texts, others)}"
            )
            return True
    return False


def _averaging(groups: list[list[str]], pattern: str, data: Any, columns: Iterable[Array]) -> str:
    """Return pandas code that averages the samples of each group of names in `groups`."""
    are_equal = all(len({*group}) == 1 for group in groups)
    base = f"X.index.astype(str).str.replace(r'{pattern}', '', regex=True)"
    dtypes = data.dtypes if isinstance(data, pd.DataFrame) else ()
    has_text = not all(map(pd.api.types.is_numeric_dtype, dtypes)) or any(
        any(map(_is_text, values.tolist())) for values in columns
    )
    key = "level=0" if are_equal else base
    return f"X = X.groupby({key}).{MEAN_OR_FIRST if has_text else MEAN}"


def _by(names: list[str], columns: Iterable[tuple[str, Array]]) -> str:
    """Return the end of the advice on how to keep one of several samples with equal names.

    A column can be used if its values differ among all samples of the same name. The advice keeps
    the samples with the most frequent value of this column.
    """
    for name, values in columns:
        pairs = pd.DataFrame({"name": names, "value": values})
        counts = Counter(values.tolist())
        value, n = counts.most_common(1)[0]
        is_plain = not re.search("[\"'`\\\\\\n]", f"{name}{value}")
        if pairs.duplicated().any() or n < MIN_SHARE * len({*names}) or not is_plain:
            continue
        variable = name if name.isidentifier() else f"`{name}`"
        wanted = f'"{value}"' if any(map(_is_text, counts)) else repr(float(value))
        return (
            f", by column {name!r}, which tells them apart: "
            f"filters=dhsic.Filters(keep_if='{variable} == {wanted.removesuffix('.0')}')."
        )
    return (
        ". A list of names cannot distinguish samples with equal names. This code keeps the first "
        "of each name; do the same with the labels: X = X[~X.index.duplicated()]."
    )


def _is_text(value: Any) -> bool:
    """Whether a value is text other than a number."""
    return isinstance(value, str) and not is_numeral(value)


def _columns(data: Any, source: AbstractSource, rows: Index | None) -> Iterator[tuple[str, Array]]:
    """Yield name and values (m,) of columns that may distinguish samples with equal names.

    These are text, whole numbers, and columns of a table or frame that are not features.
    """
    if not has_columns(data):
        return
    for name, values in source.sample_coords().items():
        if len(values) == source.n_samples:
            yield name, values if rows is None else values[rows]
    names = source.feature_names()
    for name in () if names is None else names[[*source.levels]]:
        column = column_of(data, source, str(name))
        if column is not None:
            yield str(name), column if rows is None else column[rows]
    yield from islice(whole_columns(source, rows), MOST_COLUMNS)


def repeated(names: Iterable[str], pattern: str) -> list[list[str]]:
    """Group names that differ only in an end that matches `pattern`; [] if they are too few.

    >>> names = [f"P{i}_rep{k}" for i in range(12) for k in (1, 2)]
    >>> len(repeated(names, REPETITION)), repeated(["wt_rep1", "wt_rep2", "ko_rep1"], REPETITION)
    (12, [])
    """
    end, by_base, m = re.compile(pattern), dict[str, list[str]](), 0
    for name in names:
        by_base.setdefault(end.sub("", name), []).append(name)
        m += 1
    groups = [
        group
        for base, group in by_base.items()
        if len(group) > 1 and _are_of_one_sample(base, group, pattern)
    ]
    n = sum(map(len, groups))
    return groups if len(groups) >= FEWEST and n > MIN_SHARE * m else []


def _are_of_one_sample(base: str, names: list[str], pattern: str) -> bool:
    """Whether names may belong to one sample: their common beginning `base` contains a number.

    If `pattern` is the end that programs add to make names unique, one name must equal `base`.
    """
    made_unique = pattern == MADE_UNIQUE
    return any(map(str.isdigit, base)) and (not made_unique or base in names)
