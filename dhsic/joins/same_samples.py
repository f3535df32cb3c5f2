"""Samples that occur twice, whatever their names: rows with the same values.

Equal rows are common if features have few distinct values: genotypes, presence, or counts that are
mostly 0. In a continuous feature nearly all values differ, so two rows that agree in twenty such
features are copies. Only some features are compared: the first block and, if rows agree there,
blocks spread over the data. A large matrix is never read completely.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import warn
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block
from dhsic.sources.ids import abbreviate
from dhsic.sources.joined import parts_of
from dhsic.sources.sparse import SparseSource
from dhsic.sources.stored_sparse import StoredSparse
from dhsic.sources.views import SubsetSource, whole_of

#: Number of features read at once; minimum number of continuous ones among them, so that equal rows
#: are copies; and maximum share of samples with the same value of a continuous feature.
READ, FEWEST, SHARED = 64, 20, 0.1
#: Number of parts of the data that are compared if rows agree in the first block; and maximum
#: number of values of data that are compared completely.
MOST_PARTS, MOST_VALUES = 8, 1 << 24
#: Minimum number of samples for the comparison; maximum number of groups that a warning lists, and
#: of copies that its remedy lists.
FEWEST_SAMPLES, MOST_NAMED, MOST_LISTED = 10, 20, 200
#: Maximum number of samples from which it is determined whether a feature is continuous.
LOOKED_AT = 2000


def warn_of_same_samples(
    source: AbstractSource, rows: Index | None, names: Array | None, *, skip: bool = False
) -> None:
    """Warn of samples that have the same values as another one.

    `rows` are the compared samples of the source (None: all). `names` (m,) are the names of all
    samples, or None. With `skip`, nothing is read.
    """
    groups, n_compared = ([], 0) if skip else repeated_samples(source, rows)
    if not groups:
        return
    d = source.n_features
    at = np.arange(source.n_samples) if rows is None else rows
    if names is not None and source.read_as:  # text tables warn of repeated names
        groups = [group for group in groups if len({names[at[i]] for i in group}) == len(group)]
        if not groups:
            return
    called = [
        " = ".join(repr(str(names[at[i]])) if names is not None else str(at[i]) for i in group)
        for group in groups
    ]
    n = sum(len(group) - 1 for group in groups)
    are, them = ("is", "it has") if n == 1 else ("are", "they have")
    values = "all values" if n_compared == d else f"the values of {n_compared:,} of {d:,} features"
    what = "sample" if n == 1 else "samples"
    counted = " (counted from 0)" if names is None else ""
    remedy = f"delete their rows{counted} and their labels"
    copies = [] if names is None else [str(names[at[i]]) for group in groups for i in group[1:]]
    if copies and all(name.split() == [name] for name in copies):
        remedy = f"filters=dhsic.Filters(remove={copies[:MOST_LISTED]!r})"
        if n > MOST_LISTED:
            remedy += f" removes {MOST_LISTED} of them; the next run lists the others"
    warn(
        f"{n:,} {what} {are} in the data twice: {them} {values} of another sample "
        f"({abbreviate(called, MOST_NAMED)}), and so {'counts' if n == 1 else 'count'} twice. "
        f"Remove all but one of each group: {remedy}."
    )


def repeated_samples(source: AbstractSource, rows: Index | None) -> tuple[list[list[int]], int]:
    """Find samples with the same values, as indices into `rows`.

    Returns
    -------
    Groups of two or more samples, and the number of compared features. There are no groups if too
    few features are continuous.
    """
    m, d = source.n_samples if rows is None else len(rows), source.n_features
    if m < FEWEST_SAMPLES or (first := first_values(source, rows)) is None:
        return [], 0
    codes = _codes(first)
    if not _groups(codes):
        return [], 0
    parts = np.unique(np.linspace(0, d, MOST_PARTS + 1).astype(int))
    n_compared, is_small = first.shape[1], m * d <= MOST_VALUES
    for start, stop in pairwise(parts.tolist()):
        if not _groups(codes):
            return [], 0
        at = np.arange(max(start, READ), stop)
        at = at if is_small else at[:READ]
        if at.size:
            codes = _codes(np.column_stack([codes, _values(source, at, rows)]))
            n_compared += at.size
    return _groups(codes), n_compared


def first_values(source: AbstractSource, rows: Index | None) -> Array | None:
    """Stored values (m, c) of the first features; None if too few of them are continuous."""
    wholes = [whole_of(part.source) for part in parts_of(source)] or [whole_of(source)]
    is_sparse = any(isinstance(one, StoredSparse | SparseSource) for one in wholes)  # mostly 0
    if is_sparse or source.dosages or source.n_features < FEWEST:
        return None
    first = _values(source, np.arange(min(source.n_features, READ)), rows)
    return first if _continuous(first).sum() >= FEWEST else None


def _values(source: AbstractSource, features: Index, rows: Index | None) -> Array:
    """Stored values (m, c) of some features; NaN if missing."""
    part = SubsetSource(source, features)
    blocks: list[Block] = [*part.blocks(features.size)]
    return np.concatenate([part.read(block, rows) for block in blocks], axis=1)


def _continuous(values: Array) -> Array:
    """Mask (c,) of the features in `values` (m, c) that are continuous: most values differ."""
    values = values[:: -(-len(values) // LOOKED_AT)]
    ordered, m = np.sort(values, axis=0), len(values)
    lag = max(1, int(SHARED * m))
    is_shared = (ordered[lag:] == ordered[:-lag]).any(axis=0)
    n_there = m - np.isnan(ordered).sum(axis=0) if ordered.dtype.kind == "f" else m
    return np.asarray(~is_shared & (n_there > m / 2))


def _codes(values: Array) -> Index:
    """Codes (m,) of the rows of values (m, c); equal rows have equal codes."""
    frame = pd.DataFrame(values)
    codes, _ = pd.factorize(pd.util.hash_pandas_object(frame, index=False))
    return np.asarray(codes, dtype=np.int64)


def _groups(codes: Index) -> list[list[int]]:
    """Return the groups of rows that have the same code."""
    order = np.argsort(codes, kind="stable")
    runs = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return sorted(run.tolist() for run in runs if run.size > 1)
