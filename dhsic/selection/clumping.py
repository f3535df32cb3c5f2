"""Clumping: features that are redundant with a better feature move behind the other features.

Variants in linkage disequilibrium, or genes of one module, are highly correlated. Beside the best
one, the others add little. As in PLINK's ``--clump``, features are visited from the best to the
worst. A feature is kept unless its squared correlation with a kept feature exceeds a threshold,
until the requested number of features is kept. All other features follow in their former order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.passes.inner import inner_products
from dhsic.passes.reader import AbstractReader
from dhsic.results.schema import Order
from dhsic.selection.rerank import bytes_read_again
from dhsic.selection.run import SelectionRun
from dhsic.selection.stage import RankedRun, Stage, StageCost
from dhsic.validation import is_number, such

#: Number of candidates compared in one batch; and maximum number of kept features, whose matrix of
#: correlations is held in memory.
AT_ONCE, MOST = 512, 4096

CLUMPED_BY = "position of a better feature that is too similar to this feature; -1 if there is none"


class Clumping(Stage):
    """Move features that are too similar to a better feature behind the selected ones."""

    name = "clumping"
    constraints: ClassVar = {
        "clump_r2": such(
            lambda r2: r2 is None or (is_number(r2) and 0 < r2 < 1),
            "the largest squared correlation allowed between selected features, a number between "
            "0 and 1 such as 0.2; or None.",
        ),
    }
    parameters = ("clump_r2",)

    def check(self, run: SelectionRun) -> None:
        """Reject groups of features, and more features than a correlation matrix supports."""
        if run.groups is not None:
            raise InputError(
                "clump_r2= does not support groups of features. Leave clump_r2= out, or the groups."
            )
        if run.n_wanted > MOST:
            raise InputError(
                f"clump_r2= supports at most {MOST:,} selected features, and n_features_to_select "
                f"is {run.n_wanted:,}. Select fewer features, or leave clump_r2= out."
            )

    def cost(self, run: SelectionRun) -> StageCost:
        n = min(run.n_wanted + AT_ONCE, run.source.n_features)
        return StageCost(bytes_read_again(n, run.n_samples, run.source) + 8 * n * n)

    def ranked(self, run: SelectionRun, ranking: RankedRun) -> RankedRun:
        r2 = run.selector.clump_r2
        assert r2 is not None, "it was asked for"
        data = ranking.features.with_scaling(ranking.scaling)
        return replace(ranking, order=clumped(ranking.order, data, run.n_wanted, r2))

    @classmethod
    def sentences(cls, result: xr.Dataset) -> Iterator[str]:
        """Report how many features were clumped, and how many redundant ones are still selected."""
        n_clumped, r2 = (result.attrs.get(name) for name in ("n_clumped", "clump_r2"))
        if n_clumped is None:
            return
        features = "feature" if n_clumped == 1 else "features"
        yield (
            f"{n_clumped:,} redundant {features} moved behind the selected ones: the squared "
            f"correlation with a better feature (column clumped_by) is above {r2:g}."
        )
        n = int(result.attrs["n_selected"]) - int(result.attrs.get("n_joined", 0))
        best = result["selected"].to_numpy() & (result["rank"].to_numpy() <= n)
        n_behind = int((best & (result["clumped_by"].to_numpy() >= 0)).sum())
        if n_behind:
            yield (
                f"{n_behind:,} of the {n:,} selected features are redundant: the data have only "
                f"{n - n_behind:,} features that are not redundant. Select fewer (-n), or allow a "
                "larger squared correlation (--clump-r2)."
            )


def clumped(order: Order, data: AbstractReader, n: int, most: float) -> Order:
    """Reorder features so that the best n have squared correlations of at most `most`.

    `data` is a reader that knows the scaling of features. `Order.extra` gets ``clumped_by`` (d,):
    for each skipped feature, the position of the best kept feature that it correlates with.
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
    """Return up to n kept features, best first, and a map of skipped to kept features.

    `best` contains all candidates, best first. `squared` is a function that returns the matrix of
    squared correlations of features in ascending order. If the squared correlation of two features
    is above `most`, the worse one is skipped, and is mapped to the better one.
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
