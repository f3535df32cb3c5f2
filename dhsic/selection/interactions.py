"""Interaction scans after a selection: pairs of features that act only together join it.

A selection judges each feature by what it adds to all others, so it ranks a feature low that acts
only together with a partner. After the selection, pairs are scanned (`dhsic.pairs`) for the part of
the labels that main effects of single features leave unexplained.

**By default** (``interactions="auto"``) two scans are made if marginal p-values of all features are
known (`dhsic.selection.marginal`):

- the products of all pairs of features, if that takes fewer than `MOST_FLOPS` operations;
- products of several functions of ranks (`dhsic.pairs.products`), for all pairs among the features
  of smallest marginal p-value; this finds ring-shaped interactions.

Main effects of features that are significant alone (family-wise) are regressed out first, by
several functions of their ranks each. Each scan has half of the family-wise level.

**The order.** Features that are significant alone (family-wise, `STRICT`) keep their places. Other
features of a significant pair are placed before the first feature with weaker evidence. The
evidence of a feature is its marginal p-value times the number of features; that of a pair is its
p-value times the number of pairs, doubled because there are two scans. If marginal p-values are not
known, the features of pairs follow the selected ones, and are selected too.

If two variants act together, every pair of variants in linkage with them is significant. A pair
therefore counts only if it is still significant after better pairs, with their products, are
regressed out of the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb, isqrt
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from dhsic._typing import Float, Index, Mask
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.kernels.labels import SELF
from dhsic.linalg.covariates import covariate_basis
from dhsic.memory import MemoryEstimate
from dhsic.pairs.products import FunctionRun, product_shares
from dhsic.pairs.scan import n_pairs_of
from dhsic.pairs.share import Labels, Side, label_columns, share_given_squares, shares_of_rows
from dhsic.pairs.test import Forecast, PairTest, basis
from dhsic.passes.reader import AbstractReader, Reader
from dhsic.results.schema import Order
from dhsic.results.views import carried_over, inflation_sentence, pairs_of
from dhsic.selection.run import SelectionRun
from dhsic.selection.stage import RankedRun, Stage, StageCost
from dhsic.sources.views import stored_positions
from dhsic.validation import one_of, seed_of

#: Floating-point operations allowed for the scans of ``"auto"`` (one core-minute) and ``"best"``.
MOST_FLOPS, MOST_OF_BEST = 2.5e12, 4e12
#: Samples per main effect that is regressed out, at least; and samples per function of them.
MOST_MAIN, MOST_FUNCTIONS = 4, 8
#: Functions of each feature whose main effect ``"auto"`` regresses out.
MAIN_FUNCTIONS = 4
#: Features whose pairs are scanned by several functions; functions of each feature, in general and
#: for dosages; and samples required per product of functions.
AMONG, FUNCTIONS, FUNCTIONS_OF_DOSAGES, SAMPLES_EACH = 128, 4, 2, 12
#: Pairs in the table of that scan, at most.
PAIRS_OF_FUNCTIONS = 20
#: Features whose pairs are permuted in ``"auto"``, by products and by functions; and permutations.
PERMUTED, PERMUTED_OF_FUNCTIONS, PERMUTATIONS = 1024, 128, 50
#: Samples below which ``"auto"`` makes no scan.
FEWEST = 100
#: Family-wise level of features and of pairs; and the level at which a feature keeps its place.
LEVEL, STRICT = 0.05, 1e-3
#: Column of marginal p-values in `Order.extra`; and the floor of values before a logarithm.
P_MARGINAL, TINY = "p_marginal", 1e-300
#: Pairs that are listed, at most, and the columns of their features.
MOST_LISTED, ENDS = 5, ("first", "second")
#: Reason given if an optional scan is not made.
NO_MEMORY = "not scanned: the scan does not fit in the memory allowed (--memory)"
LEAD = "whether it is significant, and still is once better pairs are taken out"
PARTNER = "position of the feature that it acts with, by the best pair of both; -1 where none"
OF_FUNCTIONS = "functions of each feature whose products are tested"


@dataclass(frozen=True)
class PairScan:
    """Scans of pairs that a run makes.

    Attributes
    ----------
    kind : str
        ``"auto"``, ``"best"`` or ``"all"``.
    forecasts : sequence of Forecast
        Time and memory of each scan; empty where there is none.
    skipped : str
        Why no pair is scanned, for people; empty where pairs are scanned.
    """

    kind: str
    forecasts: tuple[Forecast, ...] = ()
    skipped: str = ""

    @property
    def bytes_beside(self) -> int:
        """Peak memory of the larger scan, in bytes."""
        return max((each.bytes_beside for each in self.forecasts), default=0)

    @property
    def flops(self) -> float:
        """Floating-point operations of all scans."""
        return sum(each.flops + each.permuted_flops for each in self.forecasts)

    @property
    def core_time(self) -> str:
        """Time of all scans on one core, in words."""
        return _core_time(self.flops)

    @property
    def is_optional(self) -> bool:
        """Whether the scan is skipped if memory is short."""
        return self.kind == "auto"


class Interactions(Stage):
    """Scan pairs of features after the ranking, and place the features of significant ones."""

    name = "interactions"
    constraints: ClassVar = {
        "interactions": one_of(
            (None, "auto", "best", "all"),
            "'auto', 'best' or 'all', to look at pairs too, or None.",
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
                f"a scan of {n:,} pairs follows, which takes about {scan.core_time} of one core; "
                "the times here leave it out"
            )
        return StageCost(scan.bytes_beside, is_optional=scan.is_optional, note=note)

    def rereads(self, run: SelectionRun, promise: MemoryEstimate) -> bool:
        scan = _scan_within(run, promise)
        return scan is not None and not scan.skipped

    def ranked(self, run: SelectionRun, ranking: RankedRun) -> RankedRun:
        scan = _scan_within(run, ranking.promise)
        if scan is None:
            return ranking
        features, scaling = ranking.features, ranking.scaling
        data, unscaled = features.with_scaling(scaling), features.unscaled(scaling)
        order, pairs = with_pairs(run, scan, ranking.order, data, unscaled, run.n_wanted)
        return replace(ranking, order=order, pairs=pairs)

    @classmethod
    def sentences(cls, result: xr.Dataset) -> Iterator[str]:
        """Report significant pairs, and the features selected because of them."""
        table, about = pairs_of(result), result.attrs
        if "pairs_not_scanned" in about:
            yield f"Pairs: {about['pairs_not_scanned']}."
        if table is None or "family_wise" not in table:
            return
        n = int((table["family_wise"] <= table.attrs["alpha"]).sum())
        real = table.isel(pairs=table["lead"].to_numpy())
        ends = [real[f"{end}_feature" if f"{end}_feature" in real else end] for end in ENDS]
        pairs = [f"{a} with {b}" for a, b in zip(*(each.to_numpy() for each in ends), strict=True)]
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
            f"{table.attrs['alpha']:g}), {len(pairs):,} of them given better ones, for which "
            f"{about['n_joined']:,} features joined the selection{': ' * bool(pairs)}{listed}"
            f"{carried_over(table.attrs)}."
        )
        if "inflation" in table.attrs:
            yield inflation_sentence(table.attrs)


def _default_scan(found: xr.Dataset, n: int, varying: int, named: str) -> str:
    """Sentence about the scans of pairs that a selection makes by default."""
    about = found.attrs
    more = ""
    if "n_pairs_of_functions" in about:
        more = (
            f", and {about['n_pairs_of_functions']:,} pairs with one of the best features by "
            f"{about['functions_of_functions']} functions of each"
        )
    count = f"{n:,} are significant" if n != 1 else "1 is significant"
    leads = int(found["lead"].sum())
    lead_note = f"; given better pairs, {leads:,}: {named}" if leads else ""
    return (
        f"Pairs: all {about['n_pairs']:,} pairs of {varying:,} features were scanned for joint "
        f"effects{more}; {count} (family-wise, {about['alpha']:g}){lead_note}."
    )


def _scan_within(run: SelectionRun, promise: MemoryEstimate) -> PairScan | None:
    """Scan of pairs, marked as skipped if it does not fit in memory; None without a scan."""
    scan = planned_scan(run)
    if scan is not None and scan.bytes_beside > promise.tasks:
        return PairScan(scan.kind, (), NO_MEMORY)
    return scan


def planned_scan(run: SelectionRun) -> PairScan | None:
    """Plan the scans of pairs of a run; None if it makes none.

    Raises
    ------
    InputError
        Pairs are requested and cannot be scanned.
    """
    selector = run.selector
    kind, y = selector.interactions, run.y
    if kind is None or (selector.scans_pairs and kind == "auto" and not _is_default(run)):
        return None
    if y is None or run.groups is not None or selector.label_kernel in (SELF, "precomputed"):
        raise InputError(
            f"interactions={kind!r} looks at pairs of single features for what they tell of "
            "labels; leave out groups, label_kernel='self' or 'precomputed', or interactions=."
        )
    t, q = (
        label_columns(y, selector.label_kernel).shape[1],
        1 + (0 if run.covariates is None else run.covariates[0].size),
    )
    m, threads = run.n_samples, run.runtime.n_here
    if kind != "auto":
        n = _n_candidates(run, t)
        columns = t, q + _n_main(run)
        return PairScan(kind, (_test(run).forecast(run.source, m, columns, threads, n),))
    columns, d = (t, q + m // MOST_FUNCTIONS), run.source.n_features
    forecasts = tuple(
        test.forecast(run.source, m, columns, threads, n, d)
        for test, n in zip(_tests(run), (d, min(d, AMONG)), strict=False)
    )
    scan = PairScan(kind, forecasts)
    return scan if scan.flops <= MOST_FLOPS else PairScan(kind, (), _too_many(d, scan.flops))


def _is_default(run: SelectionRun) -> bool:
    """Whether a run of the default method scans pairs, if that takes little enough time."""
    selector = run.selector
    ranks_again = getattr(selector, "again_from", lambda _: 0)(run) > 0
    is_plain = run.groups is None and selector.label_kernel not in (SELF, "precomputed")
    return bool(
        ranks_again
        and is_plain
        and run.y is not None
        and selector.control is None
        and run.n_samples >= FEWEST
    )


def _core_time(flops: float) -> str:
    """Time on one core for a number of floating-point operations, in words.

    >>> _core_time(1e12), _core_time(1e13), _core_time(1e15)
    ('24 seconds', '4 minutes', '7 hours')
    """
    minutes = flops / MOST_FLOPS
    if minutes < 1.5:
        seconds = round(60 * minutes)
        return "a second" if seconds < 2 else f"{seconds} seconds"
    return f"{minutes:,.0f} minutes" if minutes < 90 else f"{minutes / 60:,.0f} hours"


def _too_many(d: int, flops: float) -> str:
    """Message that a scan would take too long."""
    return (
        f"not scanned: the {n_pairs_of(d):,} pairs of {d:,} features would take about "
        f"{_core_time(flops)} of one core. dhsic pairs scans them, --interactions best scans pairs "
        "of the best features"
    )


def with_pairs(
    run: SelectionRun,
    scan: PairScan,
    order: Order,
    data: AbstractReader,
    unscaled: Reader,
    n: int,
) -> tuple[Order, xr.Dataset | None]:
    """Return the order with the features of significant pairs placed, and the table of best pairs.

    n features are requested. `data` knows how features are scaled; `unscaled` reads them for scans.
    `Order.extra` gets ``pair_with`` (d,), the partner of each feature; the table gets ``lead``,
    which marks the pairs that placed their features.
    """
    if scan.skipped:
        return replace(order, told={**order.told, "pairs_not_scanned": scan.skipped}), None
    assert run.y is not None, "it was checked"
    labelled = Labelled(run.source, run.y, run.covariates, run.rows)
    best = order.features[::-1]
    p = order.extra[P_MARGINAL][0] if P_MARGINAL in order.extra else None
    if scan.kind == "auto":
        main, functions = _main_of(run, best, p), MAIN_FUNCTIONS
        try:
            table = _in_one_table(_scanned(run, labelled, (data, unscaled), main, best, p))
        except InputError as error:  # such as labels fully explained
            why = f"not scanned: {error}"
            return replace(order, told={**order.told, "pairs_not_scanned": why}), None
    else:
        main, functions = np.sort(best[: _n_main(run)]), 0
        t = label_columns(run.y, run.selector.label_kernel).shape[1]
        candidates = best[: _n_candidates(run, t)]
        table = _test(run).of(labelled, run.runtime, main, np.sort(candidates), reader=unscaled)
    pairs = _pairs_of(run, table)
    Q = basis(data, run.covariates, main, functions)
    leads, _ = _leads(data, pairs, table, label_columns(run.y, run.selector.label_kernel), Q)
    strength = np.log(np.maximum(table["family_wise"].to_numpy(), TINY)) if leads.any() else leads
    d = run.source.n_features
    order = _placed(order, pairs[leads], np.asarray(strength)[leads], p, n, d)
    return order, table.assign(lead=("pairs", leads, {"description": LEAD}))


def _main_of(run: SelectionRun, best: Index, p: Float | None) -> Index:
    """Features whose main effects are regressed out, ascending: the significant ones, if known."""
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
    """Tables of the scans of ``"auto"``; the second regresses out pairs of the first."""
    assert run.y is not None, "it was checked"
    tests, (data, unscaled) = _tests(run), readers
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

    Family-wise p-values become those of all scans together.
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
    """Move the features of significant pairs to their places in the order.

    Parameters
    ----------
    order : Order
        All features that vary, the least relevant first.
    pairs : (k, 2) int
        Interacting pairs, the strongest first.
    strength : (k,)
        Logarithm of the number of pairs of that strength expected by chance.
    p : (d,) or None
        Marginal p-values. Features that are significant alone by `STRICT` neither move nor are
        overtaken, because their main effects rank them.
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
                ahead = place - 1 + (1 + i) / (2 + len(pairs))  # of the feature at that place
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
    """Mask of the pairs (n, 2) that are significant given all better ones, (n,), and their effects.

    The effects (m, r) are the regressors of these pairs, by `functions` functions of each feature.
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
    """Logarithm of the p-value that corresponds to a threshold on shares of explained labels."""
    return float(Labels.of(columns, Q, functions=functions).log_p(threshold))


def _of_pair(x: Float, w: Float, labels: Labels, effects: int) -> tuple[float, Float]:
    """Explained share of a pair of features, (1, m) each, and its `_effects`."""
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


def _test(run: SelectionRun, name: str = "pairs", **parameters: Any) -> PairTest:
    selector = run.selector
    checkpoint = None if selector.checkpoint is None else f"{selector.checkpoint}.{name}"
    seed = seed_of(selector.random_state)
    promised = 1 << 62  # bytes; the scan is already part of the run's memory estimate
    about: dict[str, Any] = {
        "missing": selector.missing,
        "checkpoint": checkpoint,
        "memory": promised,
    }
    about["label_kernel"] = selector.label_kernel
    return PairTest(seed=seed, **about, **parameters)


def _tests(run: SelectionRun) -> list[PairTest]:
    """Tests of ``"auto"``: all pairs by products, and the best ones by products of functions."""
    options: dict[str, Any] = {"n_permutations": PERMUTATIONS, "main_functions": MAIN_FUNCTIONS}
    options |= {"alpha": LEVEL / 2, "warns": False}
    functions = FUNCTIONS
    if run.source.dosages or (run.values is not None and run.values.dosages):
        functions = FUNCTIONS_OF_DOSAGES
    while functions > 1 and SAMPLES_EACH * functions**2 > run.n_samples:
        functions //= 2
    if functions == 1:
        return [_test(run, **options | {"alpha": LEVEL}, n_permuted=PERMUTED)]
    beside: dict[str, Any] = {"functions": functions, "n_permuted": PERMUTED_OF_FUNCTIONS}
    beside["n_pairs"] = PAIRS_OF_FUNCTIONS
    return [
        _test(run, **options, n_permuted=PERMUTED),
        _test(run, "functions", **options, **beside),
    ]


def _n_main(run: SelectionRun) -> int:
    return min(run.n_wanted, run.n_samples // MOST_MAIN)


def _n_candidates(run: SelectionRun, t: int) -> int:
    """Number of best features whose pairs are scanned, for labels of t columns."""
    d = run.source.n_features
    if run.selector.interactions == "all":
        return d
    return min(d, int((MOST_OF_BEST / (run.n_samples * t)) ** 0.5))
