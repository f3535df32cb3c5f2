"""Selected features beside the planted variants of a simulation.

Linkage makes neighbours nearly exchangeable: a planted variant is also found when a variant next
to it is selected in its place. "Near" is within 20 kb on the same contig; simulated variants lie
1 kb apart on average and their r2 has fallen to 0.04 at that distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from dhsic._typing import Array, Index, Mask
from dhsic.cli.printable import printable
from dhsic.errors import InputError
from dhsic.sources.subset import STORED
from dhsic.sources.truth import Truth

NEAR_BASES = 20_000


@dataclass(frozen=True)
class Comparison:
    """How the selected features lie to the planted variants.

    Attributes
    ----------
    markers : (k,) object array
        For every selected feature, the best first: "additive" or "pair" when it is planted,
        "near additive" or "near pair" when it lies near one, else "".
    exact, near : (p,) bool
        For every planted variant: selected itself; else, whether a neighbour is.
    kinds : (p,) object array
        "additive" or "pair".
    """

    markers: Array
    exact: Mask
    near: Mask
    kinds: Array

    def sentence(self) -> str:
        """Two lines for people."""
        exact, near = int(self.exact.sum()), int(self.near.sum())
        kinds = ", ".join(
            f"{printable(kind)} {int((self.exact | self.near)[self.kinds == kind].sum())} of "
            f"{int((self.kinds == kind).sum())}"
            for kind in dict.fromkeys(self.kinds)
        )
        return (
            f"recovered {exact + near} of {len(self.exact)} planted variants ({exact} exactly, "
            f"{near} by a neighbour in linkage)\n"
            f"{kinds}; near: within {NEAR_BASES // 1000} kb of a planted variant"
        )

    def plain(self) -> dict[str, object]:
        """Values for JSON."""
        return {
            "planted": len(self.exact),
            "recovered": int((self.exact | self.near).sum()),
            "exactly": int(self.exact.sum()),
            "by_neighbour": int(self.near.sum()),
            "near_bases": NEAR_BASES,
        }


def compare(result: xr.Dataset, truth: Truth) -> Comparison:
    """Hold the selected features of a result against the truth."""
    stored = stored_features(result)
    d = stored.size + int(result.attrs.get("n_features_filtered", 0))
    if truth.variant_index.size and int(truth.variant_index.max()) >= d:
        raise InputError(
            f"The truth names variant {int(truth.variant_index.max())} and the data have {d} "
            "features; pass the truth of this store."
        )
    order = np.argsort(result["rank"].to_numpy(), kind="stable")
    best = order[: int(result["selected"].sum())]
    same = stored[best][:, None] == truth.variant_index[None, :]  # (k, p)
    close = _close(result, best, truth) & ~same.any(axis=1)[:, None]
    markers = np.full(best.size, "", dtype=object)
    for i in range(best.size):
        for prefix, found in (("", same[i]), ("near ", close[i])):
            if found.any():
                markers[i] = prefix + str(truth.kind[int(np.argmax(found))])
                break
    exact = same.any(axis=0)
    return Comparison(markers, exact, close.any(axis=0) & ~exact, truth.kind)


def stored_features(result: xr.Dataset) -> Index:
    """Positions of the features in the store, (d,): some of them may not have taken part."""
    if STORED in result.coords:
        return np.asarray(result[STORED].to_numpy(), dtype=np.int64)
    return np.arange(result.sizes["features"])


def _close(result: xr.Dataset, features: Index, truth: Truth) -> Mask:
    """Whether a feature lies near a planted variant, (k, p)."""
    if not {"variant_contig", "variant_position"} <= set(result.coords):
        return np.zeros((features.size, truth.variant_index.size), dtype=bool)
    contig = result["variant_contig"].to_numpy()
    position = result["variant_position"].to_numpy().astype(np.int64)
    stored = stored_features(result)
    is_there = np.isin(truth.variant_index, stored)
    at = np.searchsorted(stored, truth.variant_index[is_there])
    if not (position[at] == truth.position[is_there]).all():
        raise InputError("The truth names other positions than the data; pass that of this store.")
    same_contig = contig[features][:, None] == truth.contig[None, :]
    distance = np.abs(position[features][:, None] - truth.position[None, :])
    return np.asarray(same_contig & (distance <= NEAR_BASES))
