r"""The best pairs of a scan judged again: once the squares of their own features are out.

Of two features in linkage the product is in part the square of one, so where a single variant acts
by dominance, or a single feature by its square, pairs of what is in linkage with it have large
shares, and nothing acts together. A scan of all pairs cannot take two squares more out of each; of
the best ones, more than were asked for (`n_kept`), that is done here (`share_given_squares`), and
the smaller of both shares is what the pair has. Whether a value of either is missing is taken out
with them.

That keeps the family-wise error: where there is nothing no pair has more than its share in the
scan, whose largest one is what permutations tell. And no pair that the scan has not kept has more
than the least of those it has kept, so those above that are the best there are (`n_certain`).
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

#: Pairs that a scan keeps for each that is wanted, and at least.
KEPT_EACH, LEAST_KEPT = 10, 1000
#: Bytes of values that are read at a time.
VALUE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPairs:
    """The best pairs by their final shares, those of the scan, and how many are certain.

    `shares` are the final ones of all pairs that the scan has kept; no other pair has more than
    `floor`.
    """

    found: BestPairs
    before: Float
    n_certain: int
    shares: Float
    floor: float


def n_kept(n: int) -> int:
    """How many pairs a scan keeps where n are wanted."""
    return max(LEAST_KEPT, KEPT_EACH * n)


def judged(reader: Reader, scanned: BestPairs, labels: Labels, n: int, reach: float) -> JudgedPairs:
    """The best n of all pairs that a scan has kept, of those that reach."""
    shares = scanned.shares
    if labels.functions == 1:  # several functions of a feature have its square
        shares = np.minimum(shares, _given_squares(reader, scanned, labels))
    is_full = len(shares) >= n_kept(n)
    floor = max(reach, float(scanned.shares.min())) if is_full else reach
    every = replace(scanned, shares=shares)
    order = every.order()[:n]
    found = every.take(order)
    n_certain = int((found.shares >= floor).sum())
    return JudgedPairs(found, scanned.shares[order], n_certain, shares, floor)


@dataclass(frozen=True, slots=True)
class Gaps(AbstractPass):
    """Where values of the features are missing, (c, m) bool."""

    def over(self, blocks: Iterator[Tile], m: int) -> Array:
        each = [(block, missing_mask(block.raw, block.missing_code)) for block in blocks]
        none = [np.zeros(b.raw.shape, dtype=bool) if mask is None else mask for b, mask in each]
        return np.concatenate(none)


def _gaps(reader: Reader, features: Index) -> dict[int, Array]:
    """Missing values (m,) of those of the features (c,) that have some, by their place."""
    at = np.flatnonzero(reader.scaling.n_missing[features] > 0)
    if not at.size:
        return {}
    masks = np.concatenate([*reader.joined(Gaps(), reader.jobs(features[at]))])
    return dict(zip(at.tolist(), masks, strict=True))


def _given_squares(reader: Reader, scanned: BestPairs, labels: Labels) -> Float:
    """Shares (n,) given squares, from values that are read for some pairs at a time."""
    found = np.empty(len(scanned.pairs))
    for i, x, w, gaps in values_of_pairs(reader, scanned.pairs):
        found[i] = share_given_squares(x, w, labels, gaps)
    return found


def values_of_pairs(
    reader: Reader, pairs: Index
) -> Iterator[tuple[int, Float, Float, Mask | None]]:
    """Pairs (n, 2) in the order in which they are read, with the values of both features.

    Yields
    ------
    i : int
        Row of the pair.
    x, w : (m,)
        Standardised values of the first and second feature, 0 where missing.
    gaps : (m,) bool or None
        Samples in which either is missing; None without any.
    """
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    for some in slices(len(pairs), max(1, VALUE_BYTES // (2 * 8 * reader.n_samples))):
        features, at = np.unique(pairs[order[some]], return_inverse=True)
        X = reader.values(features)
        gaps = _gaps(reader, features)
        for i, (j, k) in zip(order[some].tolist(), at.reshape(-1, 2), strict=True):
            both = [gaps[at] for at in (j, k) if at in gaps]
            yield i, X[j], X[k], np.logical_or.reduce(both) if both else None
