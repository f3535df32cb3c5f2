"""Chosen columns of a source, in memory."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.runs.measured import check_measured
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling, measure

#: Features, and size, of a block of data, at most, unless chunks are larger: what is read for a
#: single feature.
BLOCK_WIDTH, BLOCK_BYTES = 256, 64 * 2**20


def columns_of(
    source: AbstractSource,
    which: Index,
    rows: Index | None,
    missing: str,
    *,
    standardize: bool,
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
    standardize : bool
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
    order = np.argsort(which, kind="stable")
    ascending = which[order]
    known: list[Scaling] = []
    Z = np.empty((source.n_samples if rows is None else len(rows), len(which)), order="F")
    width = int(np.clip(BLOCK_BYTES // (8 * source.n_samples), 1, BLOCK_WIDTH))
    for block in source.blocks(width):
        first, last = np.searchsorted(ascending, [block.start, block.stop])
        if first < last:
            raw = source.read_columns(block, ascending[first:last] - block.start, rows)
            scaling, values = measure(raw, source.missing_code, standardize=standardize)
            known.append(scaling)
            Z[:, order[first:last]] = values.T
    whole = Scaling.join(known)
    check_measured(whole, missing=missing, standardize=standardize, has_bandwidth=has_bandwidth)
    constant = np.empty(len(which), dtype=bool)
    constant[order] = whole.constant
    return Z, constant
