r"""Final shares of the best pairs of a scan, with the squares of both features regressed out.

The product of two features in linkage resembles the square of one of them. If a single variant has
a dominance effect, or a single feature has a quadratic effect, then pairs of features in linkage
with it have large shares although they do not interact. A scan of all pairs cannot regress out two
squares for each pair. This module does so for the best pairs, with `share_given_squares`. The
number of these pairs (`n_kept`) is larger than requested. The final share of a pair is the smaller
one of both shares. An indicator of missing values is regressed out with the squares.

This preserves the family-wise error: no null pair gets a larger share than in the scan, and
permutations calibrate the largest share of the scan. No pair outside the kept pairs has a larger
share than the smallest kept share, so pairs above it are certainly the best (`n_certain`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.namespace import slices
from dhsic.pairs.share import Labels, share_given_squares
from dhsic.pairs.tiles import BestPairs
from dhsic.passes import AbstractPass, Tile
from dhsic.passes.reader import Reader
from dhsic.sources.scaling import missing_mask

#: Number of pairs that a scan keeps per requested pair, and minimum number.
KEPT_EACH, LEAST_KEPT = 10, 1000
#: Maximum number of bytes of feature values read at a time.
VALUE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class RescoredPairs:
    """Best pairs by final share.

    `found` are the pairs with their final shares, and `before` are their shares in the scan. The
    first `n_certain` pairs are certainly the best. `shares` are the final shares of all pairs kept
    by the scan; no other pair has a share above `floor`.
    """

    found: BestPairs
    before: Float
    n_certain: int
    shares: Float
    floor: float


def n_kept(n: int) -> int:
    """Number of pairs that a scan keeps if n are requested."""
    return max(LEAST_KEPT, KEPT_EACH * n)


def rescore_pairs(
    reader: Reader,
    scanned: BestPairs,
    labels: Labels,
    n: int,
    reach: float,
    beside: Tile | None = None,
) -> RescoredPairs:
    """Compute final shares of all kept pairs, and return the best n.

    `beside` are columns that are not features, see `dhsic.pairs.tiles.columns_beside`.
    """
    shares = scanned.shares
    if labels.functions == 1:  # several functions already include the square
        shares = np.minimum(shares, _given_squares(reader, scanned, labels, beside))
    is_full = len(shares) >= n_kept(n)
    floor = max(reach, float(scanned.shares.min())) if is_full else reach
    every = replace(scanned, shares=shares)
    order = every.order()[:n]
    best = every.take(order)
    n_certain = int((best.shares >= floor).sum())
    return RescoredPairs(best, scanned.shares[order], n_certain, shares, floor)


@dataclass(frozen=True, slots=True)
class MissingMasks(AbstractPass):
    """Pass that returns the mask of missing values of features, (c, m) bool."""

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        each = [(block, missing_mask(block.raw, block.missing_code)) for block in blocks]
        none = [np.zeros(b.raw.shape, dtype=bool) if mask is None else mask for b, mask in each]
        return np.concatenate(none)


def missing_masks(reader: Reader, features: Index) -> dict[int, Array]:
    """Masks (m,) of missing values, by feature; only for `features` that have missing values."""
    at = np.flatnonzero(reader.scaling.n_missing[features] > 0)
    if not at.size:
        return {}
    masks = np.concatenate([*reader.map_blocks(MissingMasks(), reader.jobs(features[at]))])
    return dict(zip(at.tolist(), masks, strict=True))


def _given_squares(
    reader: Reader, scanned: BestPairs, labels: Labels, beside: Tile | None
) -> Float:
    """Shares (n,) of the scanned pairs after squares are regressed out.

    Values are read in batches.
    """
    shares = np.empty(len(scanned.pairs))
    for i, x, w, gaps in values_of_pairs(reader, scanned.pairs, beside):
        shares[i] = share_given_squares(x, w, labels, gaps)
    return shares


def values_of_pairs(
    reader: Reader, pairs: Index, beside: Tile | None = None
) -> Iterator[tuple[int, Float, Float, Mask | None]]:
    """Yield pairs in reading order, with the standardised values of both features.

    If `beside` is given, the second members of all pairs are its columns, which have no missing
    values.

    Yields
    ------
    i : int
        Row of the pair.
    x, w : (m,)
        Standardised values of the first and second feature, 0 where missing.
    gaps : (m,) bool or None
        Mask of the samples in which either value is missing; None if no value is.
    """
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    columns = None if beside is None else beside.values(np.float64)
    for batch in slices(len(pairs), max(1, VALUE_BYTES // (2 * 8 * reader.n_samples))):
        rows = order[batch]
        members = pairs[rows] if columns is None else pairs[rows, :1]
        features, at = np.unique(members, return_inverse=True)
        X = reader.values(features)
        gaps = missing_masks(reader, features)
        for i, places in zip(rows.tolist(), at.reshape(members.shape), strict=True):
            missing = [gaps[place] for place in places if place in gaps]
            x, w = X[places[0]], X[places[-1]]
            if beside is not None and columns is not None:
                w = columns[pairs[i, 1] - beside.tags[0] // 2]
            yield i, x, w, np.logical_or.reduce(missing) if missing else None
