"""Main effects and pairs in one answer: features that act only together join the selection.

A selection judges a feature by what it tells among all others, and of a pair that tells nothing
alone that is next to nothing. So once it is made, all pairs are looked at (`dhsic.pairs`) for what
the main effects of the selected features leave of the labels; features of pairs that are
significant, family-wise, come behind the selected ones, and are selected too. Of variants
in linkage with two that act together every pair is significant, so a pair counts only if it still
is once better ones, with their products, are taken out of the labels too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.kernels.labels import SELF
from dhsic.linalg.covariates import covariate_basis
from dhsic.outcome import Order
from dhsic.pairs.share import Labels, Side, label_columns, share_given_squares, shares_of_rows
from dhsic.pairs.test import Forecast, PairTest, basis
from dhsic.passes.reader import AbstractReader
from dhsic.sources.views import stored_positions
from dhsic.validation import seed_of

if TYPE_CHECKING:
    from dhsic.selectors.run import SelectionRun

#: Multiplications and additions that ``"auto"`` spends on a scan, a minute or two of a core.
MOST_FLOPS = 4e12
#: Part of the samples that main effects taken out may be.
MOST_MAIN = 4
LEAD = "whether it is significant, and still is once better pairs are taken out"
PARTNER = "position of the feature that it acts with, by the best pair of both; -1 where none"


def check_pairs(run: SelectionRun) -> Forecast | None:
    """What the scan of a run will take, None without one; refused where there can be none."""
    if run.selector.interactions is None:
        return None
    y, C = run.y, run.covariates
    if y is None or run.groups is not None or run.selector.label_kernel in (SELF, "precomputed"):
        raise InputError(
            f"interactions={run.selector.interactions!r} looks at pairs of single features for "
            "what they tell of labels; leave out groups, label_kernel='self' or 'precomputed', or "
            "interactions=."
        )
    columns = label_columns(y).shape[1], 1 + _n_main(run) + (0 if C is None else C[0].size)
    n = _n_candidates(run, columns[0])
    return _test(run).forecast(run.source, run.n_samples, columns, run.runtime.n_here, n)


def with_pairs(
    run: SelectionRun, order: Order, data: AbstractReader, n: int
) -> tuple[Order, xr.Dataset]:
    """The order with features of significant pairs behind the n selected, and the best pairs.

    `data` has read how features are scaled. In `Order.extra` ``pair_with`` (d,) says who acts with
    whom, ``lead`` of the pairs whose features are selected.
    """
    assert run.y is not None, "it was checked"
    best = order.features[::-1]
    candidates = best[: _n_candidates(run, label_columns(run.y).shape[1])]
    given = Labelled(run.source, run.y, run.covariates, run.rows)
    main = np.sort(best[: _n_main(run)])
    found = _test(run).of(given, run.runtime, main, np.sort(candidates))
    stored = np.column_stack([found["first"], found["second"]])
    pairs = np.searchsorted(stored_positions(run.source), stored)
    leads = np.zeros(len(pairs), dtype=bool)
    if "threshold" in found.attrs:
        n_real = int((found["share"] >= found.attrs["threshold"]).sum())
        Q = basis(data, run.covariates, main)
        leads[:n_real] = _leads(data, pairs[:n_real], run.y, Q, found.attrs["threshold"])
    pairs = pairs[leads]
    partner = np.full(run.source.n_features, -1, dtype=np.int64)
    for j, k in pairs[::-1]:  # the best last
        partner[j], partner[k] = k, j
    is_asked = np.arange(best.size) < n
    is_joining = np.isin(best, pairs) & ~is_asked
    worst_first = np.lexsort((-np.arange(best.size), is_joining, is_asked))
    worst_first = best.size - 1 - worst_first
    order = replace(order, n_joined=int(is_joining.sum()))
    order = order.at(worst_first, pair_with=(partner, PARTNER))
    return order, found.assign(lead=("pairs", leads, {"description": LEAD}))


def _leads(data: AbstractReader, pairs: Index, y: Array, Q: Float, threshold: float) -> Mask:
    """Pairs (n, 2), the best first, that are significant given all better ones of these, (n,).

    `threshold` is the share that is significant where the labels are left by Q.
    """
    found = np.zeros(len(pairs), dtype=bool)
    columns = label_columns(y)
    labels = Labels.of(columns, Q)
    most = labels.log_p(threshold)
    for i, two in enumerate(pairs):
        x, w = (each[None] / each.std() for each in data.values(np.sort(two)))
        share, _ = shares_of_rows(Side.of(x, labels), Side.of(w, labels), labels)
        least = np.minimum(share[0], share_given_squares(x[0], w[0], labels))
        found[i] = labels.log_p(least) <= most
        if found[i]:
            Q = covariate_basis(np.column_stack([Q, x[0], w[0], (x * w)[0]]), len(Q))
            if Q.shape[1] > len(Q) // 2:
                break
            labels = Labels.of(columns, Q)
    return found


def _test(run: SelectionRun) -> PairTest:
    asked = run.selector
    kept = None if asked.checkpoint is None else f"{asked.checkpoint}.pairs"
    seed = seed_of(asked.random_state)
    promised = 1 << 62  # bytes: what it needs is part of what the run promised
    return PairTest(seed=seed, missing=asked.missing, checkpoint=kept, memory=promised)


def _n_main(run: SelectionRun) -> int:
    return min(run.n_wanted, run.n_samples // MOST_MAIN)


def _n_candidates(run: SelectionRun, t: int) -> int:
    """How many of the best features make the pairs that are looked at, of labels of t columns."""
    d = run.source.n_features
    if run.selector.interactions == "all":
        return d
    return min(d, int((MOST_FLOPS / (run.n_samples * t)) ** 0.5))
