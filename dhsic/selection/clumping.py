"""Clumping: of features that say the same as a better one, the better one alone stays in front.

Variants in linkage, genes of one module: their squared correlation is high, and beside the best of
them the others tell little. As PLINK's ``--clump`` does with p-values: down the ranking, a feature
is kept unless its squared correlation with one that is kept already is above a threshold; until as
many are kept as are asked for. Those that were passed over come next, in the order they had.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.passes.inner import inner_products
from dhsic.passes.reader import AbstractReader
from dhsic.results.schema import Order

#: Features whose correlations are looked at together, besides those that are kept; and kept ones
#: at most, whose correlations with each other are a matrix.
AT_ONCE, MOST = 512, 4096

CLUMPED_BY = "position of the better feature that it is too much like, -1 where there is none"


def check_clumping(n: int, *, has_groups: bool) -> None:
    """Refuse to clump groups, or for more features than their correlations have room for."""
    if has_groups:
        raise InputError("clump_r2= clumps single features, and groups were given; leave one out.")
    if n > MOST:
        raise InputError(
            f"clump_r2= compares every feature with those kept, and n_features_to_select asks for "
            f"{n:,}; it may keep {MOST:,} at most. Ask for fewer features, or leave it out."
        )


def clumped(order: Order, data: AbstractReader, n: int, most: float) -> Order:
    """The order with n features in front whose squared correlations are `most` at most.

    `data` has read how features are scaled. In `Order.extra` ``clumped_by`` (d,) says which better
    feature each of those passed over is too much like: of several the best.
    """
    best = order.features[::-1]
    kept, by = clump(best, lambda some: squared_correlations(inner_products(data, some)), n, most)
    stands = np.full(data.source.n_features, -1, dtype=np.int64)
    stands[list(by)] = list(by.values())
    is_kept = np.isin(best, kept)
    places = np.concatenate([np.flatnonzero(is_kept), np.flatnonzero(~is_kept)])
    worst_first = best.size - 1 - places[::-1]
    told = {"clump_r2": most, "n_clumped": len(by)}
    return order.at(worst_first, told, clumped_by=(stands, CLUMPED_BY))


def clump(
    best: Index, squared: Callable[[Index], Float], n: int, most: float
) -> tuple[Index, dict[int, int]]:
    """Features kept, the best first, and those passed over, each with one that is kept.

    `squared` gives the squared correlations of features (ascending).
    """
    kept: list[int] = []
    by: dict[int, int] = {}
    for start in range(0, best.size, AT_ONCE):
        batch = best[start : start + AT_ONCE]
        some = np.sort(np.concatenate([np.array(kept, dtype=batch.dtype), batch]))
        r2 = squared(some)
        for j in batch:
            if len(kept) == n:
                break
            alike = r2[np.searchsorted(some, j), np.searchsorted(some, kept)] > most
            if alike.any():
                by[int(j)] = kept[int(np.argmax(alike))]
            else:
                kept.append(int(j))
        if len(kept) == n:
            break
    return np.array(kept, dtype=best.dtype), by


def squared_correlations(inner: Float) -> Float:
    """Squared correlations, (n, n), from inner products of centred features."""
    lengths = np.diagonal(inner)
    found: Array = inner**2 / (lengths * lengths[:, None])
    return found
