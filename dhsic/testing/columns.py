"""Chosen columns of a source, in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.parameters import check_standardize, scales
from dhsic.runs.base import KEEPING
from dhsic.runs.measured import check_measured
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling, measure
from dhsic.sources.values import Census, RecodedSource, Values, recoded, total

#: Features, and size, of a block of data, at most, unless chunks are larger: what is read for a
#: single feature.
BLOCK_WIDTH, BLOCK_BYTES = 256, 64 * 2**20


def columns_of(
    source: AbstractSource,
    which: Index,
    rows: Index | None,
    missing: str,
    *,
    standardize: bool | str,
    has_bandwidth: bool,
) -> tuple[Float, Array]:
    """Features, scaled over the samples that are taken, and which of them do not vary.

    Parameters
    ----------
    source : AbstractSource
        The data.
    which : (n,) int64
        Features, in any order.
    rows : (m,) int64 or None
        Samples, all by default.
    missing : {"mean", "error"}
        Missing values become the mean of their feature, or are refused.
    standardize : "auto" or bool
        To unit deviation; to zero mean in any case.
    has_bandwidth : bool
        Whether the kernel on the data has a width.

    Returns
    -------
    (m, n) float64, (n,) bool
        In the order of `which`.

    Raises
    ------
    InputError
        Values are missing or not finite, or no feature varies.
    DataError
        A chunk is missing or damaged.
    """
    if missing not in ("mean", "error"):
        raise InputError(f"missing={missing!r} is unknown; pass 'mean' or 'error'.")
    check_standardize(standardize)
    order = np.argsort(which, kind="stable")
    parts = list(_parts(source, which[order], rows))
    values = _values_of(source, parts, rows)
    if values.codes:
        warnings.warn(f"X holds {values}. {KEEPING}", stacklevel=3)
    read = recoded(source, values)
    known: list[Scaling] = []
    Z = np.empty((source.n_samples if rows is None else len(rows), len(which)), order="F")
    scaled = scales(standardize, values)
    at = 0
    for _, raw in parts:
        coded = read.recode(raw) if isinstance(read, RecodedSource) else raw
        scaling, block = measure(coded, read.missing_code, standardize=scaled)
        known.append(scaling)
        Z[:, order[at : at + len(raw)]] = block.T
        at += len(raw)
    whole = Scaling.join(known)
    check_measured(whole, missing=missing, standardize=scaled, has_bandwidth=has_bandwidth)
    constant = np.empty(len(which), dtype=bool)
    constant[order] = whole.constant
    return Z, constant


def _parts(
    source: AbstractSource, features: Index, rows: Index | None
) -> Iterator[tuple[Index, Array]]:
    """Features, ascending, and their stored values (c, m), some at a time."""
    width = int(np.clip(BLOCK_BYTES // (8 * source.n_samples), 1, BLOCK_WIDTH))
    for block in source.blocks(width):
        first, last = np.searchsorted(features, [block.start, block.stop])
        if first < last:
            some = features[first:last]
            yield some, source.read_columns(block, some - block.start, rows)


def _values_of(
    source: AbstractSource, parts: list[tuple[Index, Array]], rows: Index | None
) -> Values:
    """What the values of some features are."""
    known = Values.known(source)
    if known is not None:
        return known
    tallies = [Census.of(raw, source.missing_code, features, rows) for features, raw in parts]
    return Values.judged(source, total(tallies))
