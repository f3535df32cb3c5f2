"""Interactions stage: pairs of features that act only together are added to a selection.

A selection scores each feature by its contribution given all others, so a feature that acts only
together with a partner gets a low rank. After the selection, pairs of features are tested
(`dhsic.pairs`) for an effect on the residual labels, from which the main effects of single features
are removed. `dhsic.selection.pair_scan` plans the scans, and `dhsic.selection.pair_order` executes
them and changes the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import comb, isqrt
from typing import ClassVar

import xarray as xr

from dhsic.memory import MemoryEstimate
from dhsic.results.views import carried_over, inflation_sentence, pairs_of
from dhsic.selection.pair_order import with_pairs
from dhsic.selection.pair_scan import planned_scan, scan_within
from dhsic.selection.run import SelectionRun
from dhsic.selection.stage import RankedRun, Stage, StageCost
from dhsic.validation import one_of

#: Maximum number of pairs listed in a report, and the columns of their features.
MOST_LISTED, ENDS = 5, ("first", "second")


class Interactions(Stage):
    """Scan pairs of features after the ranking; features of significant pairs are moved up."""

    name = "interactions"
    constraints: ClassVar = {
        "interactions": one_of(
            (None, "auto", "best", "all"),
            "'auto', 'best' or 'all' to scan pairs, or None.",
        )
    }
    parameters = ("interactions",)
    off: ClassVar = {"interactions": None}

    def cost(self, run: SelectionRun) -> StageCost:
        scan = planned_scan(run)
        if scan is None:
            return StageCost()
        if scan.skipped:
            note = f"pairs are {scan.skipped}"
        else:
            n = sum(each.n_pairs for each in scan.forecasts)
            note = (
                f"a scan of {n:,} pairs follows, which takes about {scan.core_time} on one core; "
                "these times do not include it"
            )
        return StageCost(scan.bytes_beside, is_optional=scan.is_optional, note=note)

    def rereads(self, run: SelectionRun, promise: MemoryEstimate) -> bool:
        scan = scan_within(run, promise)
        return scan is not None and not scan.skipped

    def ranked(self, run: SelectionRun, ranking: RankedRun) -> RankedRun:
        scan = scan_within(run, ranking.promise)
        if scan is None:
            return ranking
        features, scaling = ranking.features, ranking.scaling
        data, unscaled = features.with_scaling(scaling), features.unscaled(scaling)
        order, pairs = with_pairs(run, scan, ranking.order, data, unscaled, run.n_wanted)
        return replace(ranking, order=order, pairs=pairs)

    @classmethod
    def sentences(cls, result: xr.Dataset) -> Iterator[str]:
        """Report significant pairs, and features that were selected because of these pairs."""
        table, about = pairs_of(result), result.attrs
        if "pairs_not_scanned" in about:
            yield f"Pairs: {about['pairs_not_scanned']}."
        if table is None or "family_wise" not in table:
            return
        n = int((table["family_wise"] <= table.attrs["alpha"]).sum())
        real = table.isel(pairs=table["lead"].to_numpy())
        ends = [real[f"{end}_feature" if f"{end}_feature" in real else end] for end in ENDS]
        pairs = [f"{a} and {b}" for a, b in zip(*(each.to_numpy() for each in ends), strict=True)]
        listed = ", ".join(pairs[:MOST_LISTED]) + ", ..." * (len(pairs) > MOST_LISTED)
        varying = table.attrs["n_features"] - table.attrs["n_constant"]
        if "functions" in table:
            yield _default_scan(table, n, varying, listed)
            return
        n_pairs = table.attrs["n_pairs"]
        is_subset = n_pairs < comb(varying, 2)
        best = f" of the best {isqrt(2 * n_pairs) + 1:,} features" if is_subset else ""
        yield (
            f"{n:,} of {n_pairs:,} pairs{best} are significant (family-wise, "
            f"{table.attrs['alpha']:g}); {len(pairs):,} of these are not explained by better "
            f"pairs{': ' * bool(pairs)}{listed}. They added {about['n_joined']:,} features to the "
            f"selection{carried_over(table.attrs)}."
        )
        if "inflation" in table.attrs:
            yield inflation_sentence(table.attrs)


def _default_scan(found: xr.Dataset, n: int, varying: int, named: str) -> str:
    """Sentence about the default scans of pairs of a selection."""
    about = found.attrs
    more = ""
    if "n_pairs_of_functions" in about:
        more = (
            f", and {about['n_pairs_of_functions']:,} pairs that include one of the best features "
            "also for effects other than a product (such as a ring)"
        )
    count = f"{n:,} are significant" if n != 1 else "1 is significant"
    leads = int(found["lead"].sum())
    own = "it is" if n == 1 else f"{leads:,} of them are"
    lead_note = f"; {own} not explained by better pairs: {named}" if leads else ""
    return (
        f"Pairs: all {about['n_pairs']:,} pairs of {varying:,} features were scanned for joint "
        f"effects{more}; {count} (family-wise, {about['alpha']:g}){lead_note}."
    )
