"""Order of the features after a scan of pairs: features of significant pairs are moved up.

First, the main effects of features that are individually significant (family-wise) are regressed
out, using several functions of the ranks of each.

**Order of features.** Features that are individually significant (family-wise level `STRICT`) keep
their ranks. Other features of a significant pair move before the first feature with weaker
evidence. The evidence for a feature is its marginal p-value times the number of features; the
evidence for a pair is its p-value times the number of pairs, doubled because there are two scans.
If marginal p-values are not known, the features of pairs follow the selected ones, and are selected
too.

If two variants act together, every pair of variants in linkage with them is significant. A pair is
therefore used only if it is still significant after all better pairs (both features and their
product) are regressed out of the labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Float, Index, Mask
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.linalg.covariates import NOTHING_LEFT, covariate_basis
from dhsic.pairs.products import FunctionRun, product_shares
from dhsic.pairs.share import Labels, Side, label_columns, share_given_squares, shares_of_rows
from dhsic.pairs.test import basis
from dhsic.passes.reader import AbstractReader, Reader
from dhsic.results.schema import Order
from dhsic.selection.pair_scan import (
    ALL_EXPLAINED,
    AMONG,
    LEVEL,
    MAIN_FUNCTIONS,
    MOST_FUNCTIONS,
    PairScan,
    default_tests,
    n_main_effects,
    n_scanned,
    pair_test,
)
from dhsic.selection.run import SelectionRun
from dhsic.sources.views import stored_positions

#: Family-wise level at which a feature keeps its rank.
STRICT = 1e-3
#: Column of marginal p-values in `Order.extra`; and lower bound of values before a logarithm.
P_MARGINAL, TINY = "p_marginal", 1e-300
LEAD = "whether the pair is significant, also after the effects of better pairs are regressed out"
PARTNER = "position of its partner in its best significant pair; -1 if there is none"
OF_FUNCTIONS = "functions of each feature whose products are tested"


def with_pairs(
    run: SelectionRun,
    scan: PairScan,
    order: Order,
    data: AbstractReader,
    unscaled: Reader,
    n: int,
) -> tuple[Order, xr.Dataset | None]:
    """Scan pairs; return the order with features of significant pairs moved, and the pair table.

    n is the number of requested features. `data` is a reader that knows the scaling of features;
    `unscaled` reads them without scaling, for the scans. `Order.extra` gets ``pair_with`` (d,), the
    partner of each feature. The table gets a column ``lead``, which marks the significant pairs
    whose features were moved.
    """
    if scan.skipped:
        return replace(
            order, attributes={**order.attributes, "pairs_not_scanned": scan.skipped}
        ), None
    assert run.y is not None, "it was checked"
    labelled = Labelled(run.source, run.y, run.covariates, run.rows)
    best = order.features[::-1]
    p = order.extra[P_MARGINAL][0] if P_MARGINAL in order.extra else None
    if scan.kind == "auto":
        main, functions = _main_of(run, best, p), MAIN_FUNCTIONS
        try:
            table = _in_one_table(_scanned(run, labelled, (data, unscaled), main, best, p))
        except InputError as error:  # such as labels fully explained
            is_explained = run.covariates is None and str(error) == NOTHING_LEFT
            why = ALL_EXPLAINED if is_explained else f"not scanned: {str(error).removesuffix('.')}"
            return replace(order, attributes={**order.attributes, "pairs_not_scanned": why}), None
    else:
        main, functions = np.sort(best[: n_main_effects(run)]), 0
        t = label_columns(run.y, run.selector.label_kernel).shape[1]
        candidates = best[: n_scanned(run, t)]
        table = pair_test(run).of(labelled, run.runtime, main, np.sort(candidates), reader=unscaled)
    pairs = _pairs_of(run, table)
    Q = basis(data, run.covariates, main, functions)
    leads, _ = _leads(data, pairs, table, label_columns(run.y, run.selector.label_kernel), Q)
    strength = np.log(np.maximum(table["family_wise"].to_numpy(), TINY)) if leads.any() else leads
    d = run.source.n_features
    order = _placed(order, pairs[leads], np.asarray(strength)[leads], p, n, d)
    return order, table.assign(lead=("pairs", leads, {"description": LEAD}))


def _main_of(run: SelectionRun, best: Index, p: Float | None) -> Index:
    """Features whose main effects are regressed out, ascending.

    These are the individually significant ones if p-values `p` are known, else the best ones.
    """
    most = max(1, run.n_samples // MOST_FUNCTIONS // (1 + MAIN_FUNCTIONS))
    if p is None:
        return np.sort(best[: min(run.n_wanted, most)])
    by_p = best[np.argsort(p[best], kind="stable")]
    return np.sort(by_p[p[by_p] * best.size <= LEVEL][:most])


def _scanned(
    run: SelectionRun,
    given: Labelled,
    readers: tuple[AbstractReader, Reader],
    main: Index,
    best: Index,
    p: Float | None,
) -> list[xr.Dataset]:
    """Tables of the scans of ``"auto"``.

    Significant pairs of the first scan are regressed out in the second scan.
    """
    assert run.y is not None, "it was checked"
    tests, (data, unscaled) = default_tests(run), readers
    tables = [tests[0].of(given, run.runtime, main, reader=unscaled)]
    if len(tests) > 1:
        by_p = best if p is None else best[np.argsort(p[best], kind="stable")]
        Q = basis(data, run.covariates, main, MAIN_FUNCTIONS)
        columns = label_columns(run.y, run.selector.label_kernel)
        pairs = _pairs_of(run, tables[0])
        _, effects = _leads(data, pairs, tables[0], columns, Q, tests[1].functions)
        among = np.sort(by_p[:AMONG])
        more = effects if effects.size else None
        options: dict[str, Any] = {"effects": more, "with_all": True, "reader": unscaled}
        tables.append(tests[1].of(given, run.runtime, main, among, **options))
    return tables


def _pairs_of(run: SelectionRun, found: xr.Dataset) -> Index:
    """Positions of the features of each pair in the source, (n, 2)."""
    stored = np.column_stack([found["first"], found["second"]])
    return np.searchsorted(stored_positions(run.source), stored)


def _in_one_table(tables: list[xr.Dataset]) -> xr.Dataset:
    """Merge tables: all pairs of the first scan, and the significant pairs of the others.

    Family-wise p-values are adjusted to hold for all scans together.
    """
    each = []
    for table in tables:
        column = np.full(table.sizes["pairs"], table.attrs["functions"])
        described = ("pairs", column, {"description": OF_FUNCTIONS})
        p = np.minimum(table["family_wise"].to_numpy() * len(tables), 1.0)
        together = ("pairs", p, table["family_wise"].attrs)
        each.append(table.assign(functions=described, family_wise=together))
    first, significant = (
        each[0],
        [table.isel(pairs=table["family_wise"] <= LEVEL) for table in each[1:]],
    )
    more = {
        f"{name}_of_functions": table.attrs[name]
        for table in significant
        for name in ("n_pairs", "threshold", "functions")
        if name in table.attrs
    }
    joint = xr.concat([first, *significant], "pairs", combine_attrs="override")
    ends = zip(joint["first"].to_numpy().tolist(), joint["second"].to_numpy().tolist(), strict=True)
    order = np.lexsort((joint["p_value"].to_numpy(), joint["family_wise"].to_numpy()))
    pairs, listed, rows = list(ends), set[tuple[int, int]](), list[int]()
    for i in order.tolist():
        if pairs[i] not in listed:
            listed.add(pairs[i])
            rows.append(i)
    joint = joint.isel(pairs=rows)
    return joint.assign_attrs({**first.attrs, **more, "alpha": LEVEL})


def _placed(
    order: Order, pairs: Index, strength: Float, p: Float | None, n: int, n_features: int
) -> Order:
    """Move the features of significant pairs up in the order, see the module docstring.

    Parameters
    ----------
    order : Order
        All features that vary, the least relevant first.
    pairs : (k, 2) int
        Interacting pairs, the strongest first.
    strength : (k,)
        Logarithm of the number of pairs with so small a p-value that are expected by chance.
    p : (d,) or None
        Marginal p-values. Features that are individually significant at level `STRICT` do not move
        and are not overtaken, because their main effects determine their ranks.
    n, n_features : int
        Number of features requested, and d.
    """
    best, size = order.features[::-1], order.features.size
    partner, position = (np.full(n_features, -1, dtype=np.int64) for _ in range(2))
    position[best] = np.arange(size)
    by_chance = np.full(size, np.inf)  # log of the number expected by chance
    if p is not None:
        by_chance = np.log(np.maximum(np.nan_to_num(p[best], nan=np.inf) * size, TINY))
    acts_alone = by_chance <= np.log(STRICT)
    places, may_be_overtaken = np.arange(float(size)), ~acts_alone & ~np.isin(best, pairs)
    is_placed = np.zeros(size, dtype=bool)
    for i, ((j, k), of_pair) in enumerate(zip(pairs.tolist(), strength.tolist(), strict=True)):
        weaker = np.flatnonzero(may_be_overtaken & (by_chance > of_pair))
        place = weaker[0] if weaker.size and p is not None else n
        for feature, other in ((j, k), (k, j)):
            at = position[feature]
            if partner[feature] < 0 and not acts_alone[at]:
                ahead = place - 1 + (1 + i) / (2 + len(pairs))  # just before that feature
                places[at] = min(at, ahead)
                is_placed[at] = True
            partner[feature] = other if partner[feature] < 0 else partner[feature]
    listed = np.lexsort((np.arange(size), places))
    is_late = is_placed[listed] & (np.arange(size) >= n)
    is_wanted = np.arange(size) < n
    listed = listed[np.lexsort((np.arange(size), np.where(is_wanted, 0, np.where(is_late, 1, 2))))]
    order = replace(order, n_joined=int(is_late.sum()))
    return order.at(size - 1 - listed[::-1], pair_with=(partner, PARTNER))


def _leads(
    data: AbstractReader,
    pairs: Index,
    found: xr.Dataset,
    columns: Float,
    Q: Float,
    functions: int = 1,
) -> tuple[Mask, Float]:
    """Mask (n,) of the pairs that are significant given all better pairs, and their regressors.

    `pairs` is (n, 2). The regressors (m, r) of these pairs are `functions` functions of each
    feature, and products.
    """
    leads, about = np.zeros(len(pairs), dtype=bool), found.attrs
    regressors = [np.empty((len(columns), 0))]
    if "threshold" not in about:
        return leads, regressors[0]
    m = len(columns)
    several = int(about.get("functions_of_functions", 1))
    shapes = several if several > 1 else functions
    levels = {1: _level(columns, Q, 1, about["threshold"])}
    if "threshold_of_functions" in about:
        levels[several] = _level(columns, Q, several, about["threshold_of_functions"])
    kinds = found["functions"].to_numpy() if "functions" in found else np.ones(len(pairs), int)
    for i in np.flatnonzero(found["family_wise"].to_numpy() <= about["alpha"]):
        kind = int(kinds[i])
        labels = Labels.of(columns, Q, functions=kind)
        x, w = (each[None] / each.std() for each in data.values(np.sort(pairs[i])))
        share, effects = _of_pair(x, w, labels, shapes)
        leads[i] = labels.log_p(share) <= levels[kind]
        if leads[i]:
            regressors.append(effects)
            Q = covariate_basis(np.column_stack([Q, effects]), m)
            if Q.shape[1] > m // 2:
                break
    return leads, np.concatenate(regressors, axis=1)


def _level(columns: Float, Q: Float, functions: int, threshold: float) -> float:
    """Log p-value of a pair whose share of explained labels is `threshold`."""
    return float(Labels.of(columns, Q, functions=functions).log_p(threshold))


def _of_pair(x: Float, w: Float, labels: Labels, effects: int) -> tuple[float, Float]:
    """Share of the labels that a pair of features, (1, m) each, explains, and its `_effects`."""
    if labels.functions == 1:
        share, _ = shares_of_rows(Side.of(x, labels), Side.of(w, labels), labels)
        least = np.minimum(share[0], share_given_squares(x[0], w[0], labels))
        return float(least), _effects(x, w, effects)
    left, right = (FunctionRun.of_values(each, labels.functions) for each in (x, w))
    shares, _ = product_shares(left, right, np.zeros((1, 2), dtype=np.int64), labels)
    return float(np.nan_to_num(shares[0, 0])), _effects(x, w, max(effects, labels.functions))


def _effects(x: Float, w: Float, functions: int) -> Float:
    """Regressors of a pair of features, (m, r): functions of each and their products."""
    rows = [x, w, x * w]
    if functions > 1:
        F, G = (FunctionRun.of_values(each, functions).F for each in (x, w))
        rows += [F[0], G[0], (F[0][:, None] * G[0]).reshape(-1, F.shape[2])]
    return np.concatenate(rows, dtype=np.float64).T
