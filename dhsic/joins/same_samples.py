"""Samples that are there twice, under whatever names: rows with the same values.

Equal rows are ordinary where values are few: genotypes, presence, counts of cells that are mostly
0. Of features whose values nearly all differ, a row that equals another in twenty of them is its
copy. So some features are read, of the first block and, where rows agree there, of blocks all over
the data: never all of a large matrix.
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
from dhsic.sources.sparse import SparseSource
from dhsic.sources.stored_sparse import StoredSparse
from dhsic.sources.views import SubsetSource, whole_of

#: Features read at once; continuous ones among them from which on equal rows are copies; and how
#: many samples at most share the most frequent value of a continuous feature.
READ, FEWEST, SHARED = 64, 20, 0.1
#: Parts of the data that are compared where rows agree in the first; values up to which all are.
MOST_PARTS, MOST_VALUES = 8, 1 << 24
#: Samples below which a tenth of them says little, and pairs that a sentence names.
FEWEST_SAMPLES, MOST_NAMED = 10, 3
#: Samples by which it is told whether a feature is continuous.
LOOKED_AT = 2000


def warn_of_same_samples(
    source: AbstractSource, rows: Index | None, names: Array | None, *, skip: bool = False
) -> None:
    """Warn of samples (`rows` of a source, None for all) that have the values of another one.

    `names` are those of all samples (m,), if they have any. With `skip` nothing is read.
    """
    groups, n_compared = ([], 0) if skip else repeated_samples(source, rows)
    if not groups:
        return
    d = source.n_features
    at = np.arange(source.n_samples) if rows is None else rows
    if names is not None and source.read_as:  # tables of text tell of rows that have one name
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
    remedy = (
        "remove= takes their names"
        if names is not None
        else "delete the rows, counted from 0, and their labels"
    )
    warn(
        f"{n:,} {what} {are} in the data twice: {them} {values} of another one "
        f"({abbreviate(called, MOST_NAMED)}), and {'counts' if n == 1 else 'count'} twice. Leave "
        f"out all but one of each: {remedy}."
    )


def repeated_samples(source: AbstractSource, rows: Index | None) -> tuple[list[list[int]], int]:
    """Find samples with the same values, as positions in `rows`, and how many features agree.

    Returns
    -------
    Groups of two or more samples in order, and the number of features that were compared. No groups
    where too few features are continuous.
    """
    m, d = source.n_samples if rows is None else len(rows), source.n_features
    is_sparse = isinstance(whole_of(source), StoredSparse | SparseSource)  # mostly 0
    if is_sparse or source.dosages or m < FEWEST_SAMPLES or d < FEWEST:
        return [], 0
    first = _values(source, np.arange(min(d, READ)), rows)
    if _continuous(first).sum() < FEWEST:
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


def _values(source: AbstractSource, features: Index, rows: Index | None) -> Array:
    """Stored values (m, c) of some features, NaN where they are NaN."""
    part = SubsetSource(source, features)
    blocks: list[Block] = [*part.blocks(features.size)]
    return np.concatenate([part.read(block, rows) for block in blocks], axis=1)


def _continuous(values: Array) -> Array:
    """Which features (m, c) have values most of which differ, (c,)."""
    values = values[:: -(-len(values) // LOOKED_AT)]
    ordered, m = np.sort(values, axis=0), len(values)
    lag = max(1, int(SHARED * m))
    is_shared = (ordered[lag:] == ordered[:-lag]).any(axis=0)
    n_there = m - np.isnan(ordered).sum(axis=0) if ordered.dtype.kind == "f" else m
    return np.asarray(~is_shared & (n_there > m / 2))


def _codes(values: Array) -> Index:
    """Number of the distinct row that each row of (m, c) is, (m,)."""
    frame = pd.DataFrame(values)
    codes, _ = pd.factorize(pd.util.hash_pandas_object(frame, index=False))
    return np.asarray(codes, dtype=np.int64)


def _groups(codes: Index) -> list[list[int]]:
    """Rows of each code that two or more rows have."""
    order = np.argsort(codes, kind="stable")
    runs = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return sorted(run.tolist() for run in runs if run.size > 1)
