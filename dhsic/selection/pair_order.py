"""Order of the features after a scan of pairs: features of significant pairs are moved up.

Before the scan, the main effects of individually significant features (family-wise) are regressed
out of the labels, with several functions of the ranks of each feature.

**Order of features.** Features that are individually significant (family-wise level `STRICT`) keep
their ranks. Other features of a significant pair move before the first feature with weaker
evidence. The evidence for a feature is its marginal p-value times the number of features. The
evidence for a pair is its p-value times the number of pairs, doubled because there are two scans.
If marginal p-values are unknown, the features of pairs are placed after the selected features, and
are selected too.

**Lead pairs.** If two variants act together, every pair of variants in linkage with them is
significant. So a pair moves its features only if it is still significant after all better pairs
(both features and their product) are regressed out of the labels.
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
#: Name of the column of marginal p-values in `Order.extra`; and lower bound for values before their
#: logarithm is taken.
P_MARGINAL, TINY = "p_marginal", 1e-300
#: Descriptions of columns of the result and of the table of pairs.
LEAD = "whether the pair is still significant after the effects of better pairs are regressed out"
PARTNER = "position of the partner of the feature in its best significant pair; -1 if there is none"
OF_FUNCTIONS = "number of functions per feature; products of these functions are tested"


def with_pairs(
    run: SelectionRun,
    scan: PairScan,
    order: Order,
    data: AbstractReader,
    unscaled: Reader,
    n: int,
) -> tuple[Order, xr.Dataset | None]:
    """Scan pairs, and move features of significant pairs up; return order and pair table.

    `Order.extra` of the new order gets a column ``pair_with`` (d,), the partner of each feature.
    The table gets a column ``lead``; it marks the significant pairs that moved their features. The
    table is None if no pair is scanned.

    Parameters
    ----------
    data : AbstractReader
        Reader that knows the scaling of features.
    unscaled : Reader
        Reader of features without scaling, for the scans.
    n : int
        Number of requested features.
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
        main, functions = _main_effects(run, best, p), MAIN_FUNCTIONS
        try:
            table = _in_one_table(_scanned(run, labelled, (data, unscaled), main, best, p))
        except InputError as error:  # such as labels fully explained
            is_explained = run.covariates is None and str(error) == NOTHING_LEFT
            why = ALL_EXPLAINED if is_explained else f"not scanned: {str(error).removesuffix('.')}"
            return replace(order, attributes={**order.attributes, "pairs_not_scanned": why}), None
    else:
        main, functions = np.sort(best[: n_main_effects(run)]), 0
        t = _columns(run).shape[1]
        candidates = best[: n_scanned(run, t)]
        table = pair_test(run).of(labelled, run.runtime, main, np.sort(candidates), reader=unscaled)
    pairs = _pairs_of(run, table)
    Q = basis(data, run.covariates, main, functions)
    leads, _ = _leads(data, pairs, table, _columns(run), Q)
    strength = np.log(np.maximum(table["family_wise"].to_numpy(), TINY)) if leads.any() else leads
    d = run.source.n_features
    order = _placed(order, pairs[leads], np.asarray(strength)[leads], p, n, d)
    return order, table.assign(lead=("pairs", leads, {"description": LEAD}))


def _columns(run: SelectionRun) -> Float:
    """Columns of the labels of a run, (m, t)."""
    assert run.y is not None, "it was checked"
    return label_columns(run.y, run.selector.label_kernel, run.covariates)


def _main_effects(run: SelectionRun, best: Index, p: Float | None) -> Index:
    """Select features to regress out their main effects; return positions, ascending.

    These are the individually significant features, or the best features if p-values `p` (d,) are
    unknown. `best` are all features that vary, the best first.
    """
    most = max(1, run.n_samples // MOST_FUNCTIONS // (1 + MAIN_FUNCTIONS))
    if p is None:
        return np.sort(best[: min(run.n_wanted, most)])
    by_p = best[np.argsort(p[best], kind="stable")]
    return np.sort(by_p[p[by_p] * best.size <= LEVEL][:most])


def _scanned(
    run: SelectionRun,
    labelled: Labelled,
    readers: tuple[AbstractReader, Reader],
    main: Index,
    best: Index,
    p: Float | None,
) -> list[xr.Dataset]:
    """Execute the scans of ``interactions="auto"``; return one table of pairs per scan.

    Significant pairs of the first scan are regressed out of the labels in the second scan.
    `readers` are `data` and `unscaled` of `with_pairs`, `main` the features whose main effects are
    regressed out, `best` all features that vary, best first, and `p` (d,) marginal p-values.
    """
    assert run.y is not None, "it was checked"
    tests, (data, unscaled) = default_tests(run), readers
    tables = [tests[0].of(labelled, run.runtime, main, reader=unscaled)]
    if len(tests) > 1:
        by_p = best if p is None else best[np.argsort(p[best], kind="stable")]
        Q = basis(data, run.covariates, main, MAIN_FUNCTIONS)
        columns = _columns(run)
        pairs = _pairs_of(run, tables[0])
        _, effects = _leads(data, pairs, tables[0], columns, Q, tests[1].functions)
        among = np.sort(by_p[:AMONG])
        options: dict[str, Any] = {"with_all": True, "reader": unscaled}
        options["effects"] = effects if effects.size else None
        tables.append(tests[1].of(labelled, run.runtime, main, among, **options))
    return tables


def _pairs_of(run: SelectionRun, table: xr.Dataset) -> Index:
    """Positions of both features of each pair of a table, (n, 2).

    They are positions among the features of the run.
    """
    stored = np.column_stack([table["first"], table["second"]])
    return np.searchsorted(stored_positions(run.source), stored)


def _in_one_table(tables: list[xr.Dataset]) -> xr.Dataset:
    """Merge the tables of scans: all pairs of the first one, significant pairs of the others.

    A pair that occurs in several tables is listed once, with its smallest family-wise p-value.
    These p-values are adjusted to hold for all scans together.
    """
    adjusted_tables = []
    for table in tables:
        column = np.full(table.sizes["pairs"], table.attrs["functions"])
        functions = ("pairs", column, {"description": OF_FUNCTIONS})
        p = np.minimum(table["family_wise"].to_numpy() * len(tables), 1.0)
        adjusted = ("pairs", p, table["family_wise"].attrs)
        adjusted_tables.append(table.assign(functions=functions, family_wise=adjusted))
    first, *others = adjusted_tables
    significant = [table.isel(pairs=table["family_wise"] <= LEVEL) for table in others]
    attributes = {
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
    return joint.assign_attrs({**first.attrs, **attributes, "alpha": LEVEL})


def _placed(
    order: Order, pairs: Index, strength: Float, p: Float | None, n: int, n_features: int
) -> Order:
    """Move the features of lead pairs up in the order, by the rules in the module docstring.

    Parameters
    ----------
    order : Order
        All features that vary, the least relevant first.
    pairs : (k, 2) int
        Positions of the features of each lead pair, the strongest pair first.
    strength : (k,)
        Log family-wise p-value of each pair: the logarithm of (about) the number of pairs with a
        smaller p-value that are expected by chance.
    p : (d,) or None
        Marginal p-values. Features that are individually significant at level `STRICT` do not move
        and are not overtaken, because their main effects determine their ranks.
    n, n_features : int
        Number of requested features, and the number of all features, d.
    """
    best, size = order.features[::-1], order.features.size
    partner, position = (np.full(n_features, -1, dtype=np.int64) for _ in range(2))
    position[best] = np.arange(size)
    by_chance = np.full(size, np.inf)  # log of the number of features expected by chance
    if p is not None:
        by_chance = np.log(np.maximum(np.nan_to_num(p[best], nan=np.inf) * size, TINY))
    acts_alone = by_chance <= np.log(STRICT)
    places, may_be_overtaken = np.arange(float(size)), ~acts_alone & ~np.isin(best, pairs)
    is_placed = np.zeros(size, dtype=bool)
    for i, ((j, k), pair_by_chance) in enumerate(
        zip(pairs.tolist(), strength.tolist(), strict=True)
    ):
        weaker = np.flatnonzero(may_be_overtaken & (by_chance > pair_by_chance))
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
    table: xr.Dataset,
    columns: Float,
    Q: Float,
    functions: int = 1,
) -> tuple[Mask, Float]:
    """Find the lead pairs, which stay significant after all better pairs are regressed out.

    Parameters
    ----------
    pairs : (n, 2)
        Positions of the features of each pair of `table`, the best pair first.
    columns : (m, t)
        Columns of the labels.
    Q : (m, q)
        Orthonormal basis of covariates and main effects, which are regressed out before.
    functions : int
        Number of functions of each feature among the regressors.

    Returns
    -------
    leads : (n,) bool
        Mask of the lead pairs.
    regressors : (m, r)
        Functions of both features of each lead pair, and their products.
    """
    leads, attributes = np.zeros(len(pairs), dtype=bool), table.attrs
    regressors = [np.empty((len(columns), 0))]
    if "threshold" not in attributes:
        return leads, regressors[0]
    m = len(columns)
    n_functions = int(attributes.get("functions_of_functions", 1))  # of the scan of functions
    n_regressors = n_functions if n_functions > 1 else functions
    levels = {1: _level(columns, Q, 1, attributes["threshold"])}
    if "threshold_of_functions" in attributes:
        threshold = attributes["threshold_of_functions"]
        levels[n_functions] = _level(columns, Q, n_functions, threshold)
    n_of_pairs = table["functions"].to_numpy() if "functions" in table else np.ones(len(pairs), int)
    for i in np.flatnonzero(table["family_wise"].to_numpy() <= attributes["alpha"]):
        n_of_pair = int(n_of_pairs[i])
        labels = Labels.of(columns, Q, functions=n_of_pair)
        x, w = (values[None] / values.std() for values in data.values(np.sort(pairs[i])))
        share, effects = _of_pair(x, w, labels, n_regressors)
        leads[i] = labels.log_p(share) <= levels[n_of_pair]
        if leads[i]:
            regressors.append(effects)
            Q = covariate_basis(np.column_stack([Q, effects]), m)
            if Q.shape[1] > m // 2:
                break
    return leads, np.concatenate(regressors, axis=1)


def _level(columns: Float, Q: Float, functions: int, threshold: float) -> float:
    """Log p-value of a pair that explains the share `threshold` of the labels.

    The share is defined in `dhsic.pairs.share`. `columns` (m, t) are label columns. Q (m, q) is the
    basis that is regressed out of them.
    """
    return float(Labels.of(columns, Q, functions=functions).log_p(threshold))


def _of_pair(x: Float, w: Float, labels: Labels, effects: int) -> tuple[float, Float]:
    """Compute the share of the labels that a pair of features explains; also its regressors.

    x and w are the features, (1, m) each. The share is defined in `dhsic.pairs.share`. `effects` is
    the number of functions of each feature among the regressors, see `_regressors`.
    """
    if labels.functions == 1:
        share, _ = shares_of_rows(Side.of(x, labels), Side.of(w, labels), labels)
        least = np.minimum(share[0], share_given_squares(x[0], w[0], labels))
        return float(least), _regressors(x, w, effects)
    left, right = (FunctionRun.of_values(values, labels.functions) for values in (x, w))
    shares, _ = product_shares(left, right, np.zeros((1, 2), dtype=np.int64), labels)
    n = max(effects, labels.functions)
    return float(np.nan_to_num(shares[0, 0])), _regressors(x, w, n)


def _regressors(x: Float, w: Float, functions: int) -> Float:
    """Regressors (m, r) of a pair: functions of each feature, and products of these functions."""
    rows = [x, w, x * w]
    if functions > 1:
        F, G = (FunctionRun.of_values(values, functions).F for values in (x, w))
        rows += [F[0], G[0], (F[0][:, None] * G[0]).reshape(-1, F.shape[2])]
    return np.concatenate(rows, dtype=np.float64).T
