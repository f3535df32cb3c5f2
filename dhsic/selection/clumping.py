"""Clumping: move features that are redundant with a better one behind the features that are not.

Variants in linkage disequilibrium or genes of one module are highly correlated, and add little to
the best of them. As PLINK's ``--clump`` does with p-values, the ranking is walked from the top: a
feature is kept unless its squared correlation with a feature already kept exceeds a threshold,
until the requested number is kept. The features that were skipped follow in their former order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.passes.inner import inner_products
from dhsic.passes.reader import AbstractReader
from dhsic.results.schema import Order

#: Candidates compared in one batch; and the largest number of features kept, whose correlations
#: with each other are held as a matrix.
AT_ONCE, MOST = 512, 4096

CLUMPED_BY = "position of the better feature that it is too much like, -1 where there is none"


def check_clumping(n: int, *, has_groups: bool) -> None:
    """Reject clumping of groups, and of more features than a correlation matrix can hold."""
    if has_groups:
        raise InputError("clump_r2= clumps single features, and groups were given; leave one out.")
    if n > MOST:
        raise InputError(
            f"clump_r2= compares every feature with those kept, and n_features_to_select asks for "
            f"{n:,}; it may keep {MOST:,} at most. Ask for fewer features, or leave it out."
        )


def clumped(order: Order, data: AbstractReader, n: int, most: float) -> Order:
    """Return an order whose first n features have squared correlations of at most `most`.

    `data` knows how features are scaled. `Order.extra` gets ``clumped_by`` (d,): for each skipped
    feature the position of the better feature that it correlates with; of several, the best.
    """
    best = order.features[::-1]
    leads, by = clump(best, lambda some: squared_correlations(inner_products(data, some)), n, most)
    stands = np.full(data.source.n_features, -1, dtype=np.int64)
    stands[list(by)] = list(by.values())
    is_kept = np.isin(best, leads)
    places = np.concatenate([np.flatnonzero(is_kept), np.flatnonzero(~is_kept)])
    worst_first = best.size - 1 - places[::-1]
    attributes = {"clump_r2": most, "n_clumped": len(by)}
    return order.at(worst_first, attributes, clumped_by=(stands, CLUMPED_BY))


def clump(
    best: Index, squared: Callable[[Index], Float], n: int, most: float
) -> tuple[Index, dict[int, int]]:
    """Return the features kept, best first, and a dict from each skipped feature to a kept one.

    `squared` returns the squared correlations (n, n) of n features, given in ascending order.
    """
    leads: list[int] = []
    by: dict[int, int] = {}
    for start in range(0, best.size, AT_ONCE):
        batch = best[start : start + AT_ONCE]
        features = np.sort(np.concatenate([np.array(leads, dtype=batch.dtype), batch]))
        r2 = squared(features)
        for j in batch:
            if len(leads) == n:
                break
            alike = r2[np.searchsorted(features, j), np.searchsorted(features, leads)] > most
            if alike.any():
                by[int(j)] = leads[int(np.argmax(alike))]
            else:
                leads.append(int(j))
        if len(leads) == n:
            break
    return np.array(leads, dtype=best.dtype), by


def squared_correlations(inner: Float) -> Float:
    """Squared correlations, (n, n), from inner products of centred features."""
    lengths = np.diagonal(inner)
    r2: Array = inner**2 / (lengths * lengths[:, None])
    return r2
