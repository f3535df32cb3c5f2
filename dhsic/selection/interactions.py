"""Main effects and pairs in one answer: features that act only together join the selection.

A selection judges a feature by what it tells among all others, and of a pair that tells nothing
alone that is next to nothing. So once it is made, pairs are scanned (`dhsic.pairs`) for what the
main effects of single features leave of the labels.

**By default** (``interactions="auto"``), where the marginal p-values of all features are known
(`dhsic.selection.marginal`), two scans are made:

- the products of all pairs of features, if that takes fewer than `MOST_FLOPS` operations;
- the products of several functions of ranks (`dhsic.pairs.products`) of all pairs among the
  features of the smallest marginal p-values, which finds pairs that act like a ring.

Main effects of features that are significant alone (family-wise) are taken out before, by several
functions of their ranks each. Each scan has half of the family-wise level.

**The order.** Features that are significant alone (family-wise, `STRICT`) keep their places. Other
features of a significant pair go in front of the first feature that has less evidence: evidence of
a feature is its marginal p-value times the number of features, that of a pair its p-value times the
number of pairs, doubled for two scans. Where marginal p-values are not known, the features of pairs
come behind those selected, and are selected too.

Of variants in linkage with two that act together every pair is significant, so a pair counts only
if it still is once better ones, with their products, are taken out of the labels too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Float, Index, Mask
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.kernels.labels import SELF
from dhsic.linalg.covariates import covariate_basis
from dhsic.pairs.products import FunctionRun, product_shares
from dhsic.pairs.scan import n_pairs_of
from dhsic.pairs.share import Labels, Side, label_columns, share_given_squares, shares_of_rows
from dhsic.pairs.test import Forecast, PairTest, basis
from dhsic.passes.reader import AbstractReader, Reader
from dhsic.results.schema import Order
from dhsic.selection.run import SelectionRun
from dhsic.sources.views import stored_positions
from dhsic.validation import seed_of

#: Multiplications and additions of the scans of ``"auto"``, a minute of a core, and of ``"best"``.
MOST_FLOPS, MOST_OF_BEST = 2.5e12, 4e12
#: Part of the samples that main effects taken out may be, and that their functions may be.
MOST_MAIN, MOST_FUNCTIONS = 4, 8
#: Functions of a feature whose main effect is taken out by ``"auto"``.
MAIN_FUNCTIONS = 4
#: Features whose pairs are scanned by several functions, how many functions of each, by dosages
#: and else, and samples for each product of functions.
AMONG, FUNCTIONS, FUNCTIONS_OF_DOSAGES, SAMPLES_EACH = 128, 4, 2, 12
#: Pairs that its table has, at most.
PAIRS_OF_FUNCTIONS = 20
#: Features whose pairs are permuted, and permutations, of ``"auto"``: by products, by functions.
PERMUTED, PERMUTED_OF_FUNCTIONS, PERMUTATIONS = 1024, 128, 50
#: Samples below which ``"auto"`` scans nothing.
FEWEST = 100
#: Family-wise level of features and of pairs, and that at which a feature keeps its place.
LEVEL, STRICT = 0.05, 1e-3
#: Column of marginal p-values in `Order.extra`, and the least that a logarithm is taken of.
P_MARGINAL, TINY = "p_marginal", 1e-300
#: Why a scan that is not asked for is not made.
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
        """Memory of the larger scan."""
        return max((each.bytes_beside for each in self.forecasts), default=0)

    @property
    def flops(self) -> float:
        """Multiplications and additions of all scans."""
        return sum(each.flops + each.permuted_flops for each in self.forecasts)

    @property
    def core_time(self) -> str:
        """Time of all scans on one core, in words."""
        return _core_time(self.flops)

    @property
    def is_optional(self) -> bool:
        """Whether the run does without where memory is short."""
        return self.kind == "auto"


def planned_scan(run: SelectionRun) -> PairScan | None:
    """Scans of pairs that a run makes; None without any.

    Raises
    ------
    InputError
        Pairs are asked for, and cannot be scanned.
    """
    selector = run.selector
    asked, y = selector.interactions, run.y
    if asked is None or (selector.scans_pairs and asked == "auto" and not _is_default(run)):
        return None
    if y is None or run.groups is not None or selector.label_kernel in (SELF, "precomputed"):
        raise InputError(
            f"interactions={asked!r} looks at pairs of single features for what they tell of "
            "labels; leave out groups, label_kernel='self' or 'precomputed', or interactions=."
        )
    t, q = (
        label_columns(y, selector.label_kernel).shape[1],
        1 + (0 if run.covariates is None else run.covariates[0].size),
    )
    m, threads = run.n_samples, run.runtime.n_here
    if asked != "auto":
        n = _n_candidates(run, t)
        columns = t, q + _n_main(run)
        return PairScan(asked, (_test(run).forecast(run.source, m, columns, threads, n),))
    columns, d = (t, q + m // MOST_FUNCTIONS), run.source.n_features
    forecasts = tuple(
        test.forecast(run.source, m, columns, threads, n, d)
        for test, n in zip(_tests(run), (d, min(d, AMONG)), strict=False)
    )
    scan = PairScan(asked, forecasts)
    return scan if scan.flops <= MOST_FLOPS else PairScan(asked, (), _too_many(d, scan.flops))


def _is_default(run: SelectionRun) -> bool:
    """Whether a run by the default method scans pairs, where it can in time."""
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
    """Time of one core for so many multiplications and additions, in words.

    >>> _core_time(1e12), _core_time(1e13), _core_time(1e15)
    ('24 seconds', '4 minutes', '7 hours')
    """
    minutes = flops / MOST_FLOPS
    if minutes < 1.5:
        seconds = round(60 * minutes)
        return "a second" if seconds < 2 else f"{seconds} seconds"
    return f"{minutes:,.0f} minutes" if minutes < 90 else f"{minutes / 60:,.0f} hours"


def _too_many(d: int, flops: float) -> str:
    """Sentence about a scan that is not made."""
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
    """The order of n features asked for with those of significant pairs, and the best pairs.

    `data` knows how features are scaled, `unscaled` reads them for scans. In `Order.extra`
    ``pair_with`` (d,) says who acts with whom, ``lead`` of the pairs which ones have placed their
    features.
    """
    if scan.skipped:
        return replace(order, told={**order.told, "pairs_not_scanned": scan.skipped}), None
    assert run.y is not None, "it was checked"
    given = Labelled(run.source, run.y, run.covariates, run.rows)
    best = order.features[::-1]
    p = order.extra[P_MARGINAL][0] if P_MARGINAL in order.extra else None
    if scan.kind == "auto":
        main, functions = _main_of(run, best, p), MAIN_FUNCTIONS
        try:
            found = _in_one_table(_scanned(run, given, (data, unscaled), main, best, p))
        except InputError as error:  # nothing is left of the labels, say: no scan was asked for
            why = f"not scanned: {error}"
            return replace(order, told={**order.told, "pairs_not_scanned": why}), None
    else:
        main, functions = np.sort(best[: _n_main(run)]), 0
        t = label_columns(run.y, run.selector.label_kernel).shape[1]
        candidates = best[: _n_candidates(run, t)]
        found = _test(run).of(given, run.runtime, main, np.sort(candidates), reader=unscaled)
    pairs = _pairs_of(run, found)
    Q = basis(data, run.covariates, main, functions)
    leads, _ = _leads(data, pairs, found, label_columns(run.y, run.selector.label_kernel), Q)
    strength = np.log(np.maximum(found["family_wise"].to_numpy(), TINY)) if leads.any() else leads
    d = run.source.n_features
    order = _placed(order, pairs[leads], np.asarray(strength)[leads], p, n, d)
    return order, found.assign(lead=("pairs", leads, {"description": LEAD}))


def _main_of(run: SelectionRun, best: Index, p: Float | None) -> Index:
    """Features whose main effects are taken out, ascending: those significant alone, if known."""
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
    """Tables of the scans of ``"auto"``: pairs of the first are taken out for the second."""
    assert run.y is not None, "it was checked"
    tests, (data, unscaled) = _tests(run), readers
    found = [tests[0].of(given, run.runtime, main, reader=unscaled)]
    if len(tests) > 1:
        by_p = best if p is None else best[np.argsort(p[best], kind="stable")]
        Q = basis(data, run.covariates, main, MAIN_FUNCTIONS)
        columns = label_columns(run.y, run.selector.label_kernel)
        pairs = _pairs_of(run, found[0])
        _, effects = _leads(data, pairs, found[0], columns, Q, tests[1].functions)
        among = np.sort(by_p[:AMONG])
        more = effects if effects.size else None
        options: dict[str, Any] = {"effects": more, "with_all": True, "reader": unscaled}
        found.append(tests[1].of(given, run.runtime, main, among, **options))
    return found


def _pairs_of(run: SelectionRun, found: xr.Dataset) -> Index:
    """Pairs by the places of their features among all, (n, 2)."""
    stored = np.column_stack([found["first"], found["second"]])
    return np.searchsorted(stored_positions(run.source), stored)


def _in_one_table(tables: list[xr.Dataset]) -> xr.Dataset:
    """One table: pairs of the first scan, and those that are significant in another, in front.

    Family-wise p-values are those of all scans together.
    """
    each = []
    for table in tables:
        column = np.full(table.sizes["pairs"], table.attrs["functions"])
        described = ("pairs", column, {"description": OF_FUNCTIONS})
        p = np.minimum(table["family_wise"].to_numpy() * len(tables), 1.0)
        together = ("pairs", p, table["family_wise"].attrs)
        each.append(table.assign(functions=described, family_wise=together))
    first, others = each[0], [table.isel(pairs=table["family_wise"] <= LEVEL) for table in each[1:]]
    more = {
        f"{name}_of_functions": table.attrs[name]
        for table in others
        for name in ("n_pairs", "threshold", "functions")
        if name in table.attrs
    }
    found = xr.concat([first, *others], "pairs", combine_attrs="override")
    ends = zip(found["first"].to_numpy().tolist(), found["second"].to_numpy().tolist(), strict=True)
    order = np.lexsort((found["p_value"].to_numpy(), found["family_wise"].to_numpy()))
    named, seen, kept = list(ends), set[tuple[int, int]](), list[int]()
    for i in order.tolist():
        if named[i] not in seen:
            seen.add(named[i])
            kept.append(i)
    found = found.isel(pairs=kept)
    return found.assign_attrs({**first.attrs, **more, "alpha": LEVEL})


def _placed(
    order: Order, pairs: Index, strength: Float, p: Float | None, n: int, n_features: int
) -> Order:
    """Order of n features asked for with the features of pairs in their places.

    Parameters
    ----------
    order : Order
        All features that vary, the least relevant first.
    pairs : (k, 2) int
        Pairs that act together, the strongest first.
    strength : (k,)
        Logarithm of the number of pairs as strong that are expected by chance.
    p : (d,) or None
        Marginal p-values. Features that are significant alone by `STRICT` neither move nor are
        overtaken: their main effects rank them.
    n, n_features : int
        Features asked for, and d.
    """
    best, size = order.features[::-1], order.features.size
    partner, position = (np.full(n_features, -1, dtype=np.int64) for _ in range(2))
    position[best] = np.arange(size)
    by_chance = np.full(size, np.inf)  # log of features as strong that are expected by chance
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
                ahead = place - 1 + (1 + i) / (2 + len(pairs))  # of the one at the place
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
    """Which pairs (n, 2) of those found are significant given all better ones, (n,).

    And the effects of those that are, (m, r), by as many functions of each feature.
    """
    leads, about = np.zeros(len(pairs), dtype=bool), found.attrs
    taken = [np.empty((len(columns), 0))]
    if "threshold" not in about:
        return leads, taken[0]
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
            taken.append(effects)
            Q = covariate_basis(np.column_stack([Q, effects]), m)
            if Q.shape[1] > m // 2:
                break
    return leads, np.concatenate(taken, axis=1)


def _level(columns: Float, Q: Float, functions: int, threshold: float) -> float:
    """Logarithm of the p-value of a share that is significant."""
    return float(Labels.of(columns, Q, functions=functions).log_p(threshold))


def _of_pair(x: Float, w: Float, labels: Labels, effects: int) -> tuple[float, Float]:
    """Share of a pair of features (1, m) each, and `_effects` of so many functions at least."""
    if labels.functions == 1:
        share, _ = shares_of_rows(Side.of(x, labels), Side.of(w, labels), labels)
        least = np.minimum(share[0], share_given_squares(x[0], w[0], labels))
        return float(least), _effects(x, w, effects)
    left, right = (FunctionRun.of_values(each, labels.functions) for each in (x, w))
    shares, _ = product_shares(left, right, np.zeros((1, 2), dtype=np.int64), labels)
    return float(np.nan_to_num(shares[0, 0])), _effects(x, w, max(effects, labels.functions))


def _effects(x: Float, w: Float, functions: int) -> Float:
    """What two features (1, m) do alone and together, (m, r), by as many functions of each."""
    found = [x, w, x * w]
    if functions > 1:
        F, G = (FunctionRun.of_values(each, functions).F for each in (x, w))
        found += [F[0], G[0], (F[0][:, None] * G[0]).reshape(-1, F.shape[2])]
    return np.concatenate(found, dtype=np.float64).T


def _test(run: SelectionRun, name: str = "pairs", **parameters: Any) -> PairTest:
    asked = run.selector
    kept = None if asked.checkpoint is None else f"{asked.checkpoint}.{name}"
    seed = seed_of(asked.random_state)
    promised = 1 << 62  # bytes: what it needs is part of what the run promised
    about: dict[str, Any] = {"missing": asked.missing, "checkpoint": kept, "memory": promised}
    about["label_kernel"] = asked.label_kernel
    return PairTest(seed=seed, **about, **parameters)


def _tests(run: SelectionRun) -> list[PairTest]:
    """Scans of ``"auto"``: of all pairs by products, and of some by products of functions."""
    asked: dict[str, Any] = {"n_permutations": PERMUTATIONS, "main_functions": MAIN_FUNCTIONS}
    asked |= {"alpha": LEVEL / 2, "warns": False}
    functions = FUNCTIONS
    if run.source.dosages or (run.values is not None and run.values.dosages):
        functions = FUNCTIONS_OF_DOSAGES
    while functions > 1 and SAMPLES_EACH * functions**2 > run.n_samples:
        functions //= 2
    if functions == 1:
        return [_test(run, **asked | {"alpha": LEVEL}, n_permuted=PERMUTED)]
    beside: dict[str, Any] = {"functions": functions, "n_permuted": PERMUTED_OF_FUNCTIONS}
    beside["n_pairs"] = PAIRS_OF_FUNCTIONS
    return [_test(run, **asked, n_permuted=PERMUTED), _test(run, "functions", **asked, **beside)]


def _n_main(run: SelectionRun) -> int:
    return min(run.n_wanted, run.n_samples // MOST_MAIN)


def _n_candidates(run: SelectionRun, t: int) -> int:
    """How many of the best features make the pairs that are scanned, of labels of t columns."""
    d = run.source.n_features
    if run.selector.interactions == "all":
        return d
    return min(d, int((MOST_OF_BEST / (run.n_samples * t)) ** 0.5))
