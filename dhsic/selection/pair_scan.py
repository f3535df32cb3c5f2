"""Plan of the scans of pairs within a selection: the pairs, the tests and the cost.

With ``interactions="auto"``, two scans are made if marginal p-values of all features are known
(`dhsic.selection.marginal`):

- products of all pairs of features, if this takes fewer than `MOST_FLOPS` operations;
- products of several functions of ranks (`dhsic.pairs.products`), for all pairs among the features
  with the smallest marginal p-values; this finds ring-shaped interactions.

Each scan uses half of the family-wise level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic.errors import InputError
from dhsic.kernels.labels import SELF
from dhsic.memory import MemoryEstimate
from dhsic.pairs.pair_set import PairSet
from dhsic.pairs.share import label_columns
from dhsic.pairs.test import Forecast, PairTest
from dhsic.selection.run import SelectionRun
from dhsic.validation import seed_of

#: Maximum number of floating-point operations of the scans of ``"auto"`` (one minute on one core),
#: and of ``"best"``.
MOST_FLOPS, MOST_OF_BEST = 2.5e12, 4e12
#: Minimum number of samples per main effect that ``"best"`` and ``"all"`` regress out, and per
#: function of a feature that ``"auto"`` regresses out.
MOST_MAIN, MOST_FUNCTIONS = 4, 8
#: Number of functions of each feature whose main effect ``"auto"`` regresses out.
MAIN_FUNCTIONS = 4
#: Scan of products of functions: number of features whose pairs are scanned; number of functions of
#: each feature, in general and for dosages; minimum number of samples per product of functions.
AMONG, FUNCTIONS, FUNCTIONS_OF_DOSAGES, SAMPLES_EACH = 128, 4, 2, 12
#: Maximum number of pairs in the table of that scan.
PAIRS_OF_FUNCTIONS = 20
#: Permutation tests of ``"auto"``: number of features whose pairs are tested with permuted labels,
#: for products and for products of functions; and number of permutations.
PERMUTED, PERMUTED_OF_FUNCTIONS, PERMUTATIONS = 1024, 128, 50
#: Minimum number of samples for the scans of ``"auto"``.
FEWEST = 100
#: Family-wise level of features and of pairs.
LEVEL = 0.05
#: Messages on why an optional scan is not made.
ALL_EXPLAINED = (
    "not scanned: the first features alone explain the labels, so pairs cannot add anything"
)
NO_MEMORY = "not scanned: the scan needs more memory than the limit (--memory)"


@dataclass(frozen=True)
class PairScan:
    """Plan of the scans of pairs of a run.

    Attributes
    ----------
    kind : str
        ``"auto"``, ``"best"`` or ``"all"``.
    forecasts : sequence of Forecast
        Time and memory of each scan; empty if nothing is scanned.
    skipped : str
        Reason why no pair is scanned, for messages; empty if pairs are scanned.
    """

    kind: str
    forecasts: tuple[Forecast, ...] = ()
    skipped: str = ""

    @property
    def bytes_beside(self) -> int:
        """Peak memory of the scan that needs the most memory, in bytes."""
        return max((forecast.bytes_beside for forecast in self.forecasts), default=0)

    @property
    def flops(self) -> float:
        """Floating-point operations of all scans."""
        return sum(forecast.flops + forecast.permuted_flops for forecast in self.forecasts)

    @property
    def core_time(self) -> str:
        """Time of all scans on one core, as text such as "4 minutes"."""
        return _core_time(self.flops)

    @property
    def is_optional(self) -> bool:
        """Whether the scan is skipped if memory is short."""
        return self.kind == "auto"


def scan_within(run: SelectionRun, estimate: MemoryEstimate) -> PairScan | None:
    """Plan the scans of pairs of a run, within its memory estimate.

    If the scans need more memory than the estimate allows for tasks, they are skipped. The result
    is None if the run has no scans.
    """
    scan = planned_scan(run)
    if scan is not None and scan.bytes_beside > estimate.tasks:
        return PairScan(scan.kind, (), NO_MEMORY)
    return scan


def planned_scan(run: SelectionRun) -> PairScan | None:
    """Plan the scans of pairs of a run; None if it has no scans.

    Raises
    ------
    InputError
        Pairs are requested, but cannot be scanned.
    """
    selector = run.selector
    kind, y = selector.interactions, run.y
    if kind is None or (selector.scans_pairs and kind == "auto" and not _is_default(run)):
        return None
    if y is None or run.groups is not None or selector.label_kernel in (SELF, "precomputed"):
        raise InputError(
            f"interactions={kind!r} tests pairs of single features against labels. It does not "
            "support groups, and label_kernel='self' or 'precomputed'. Leave out interactions=, "
            "or these options."
        )
    t = label_columns(y, selector.label_kernel).shape[1]
    q = 1 + (0 if run.covariates is None else run.covariates[0].size)
    m, threads = run.n_samples, run.runtime.n_here
    if kind != "auto":
        pairs = PairSet.of_all(np.arange(n_scanned(run, t)))
        columns = t, q + n_main_effects(run)
        return PairScan(kind, (pair_test(run).forecast(run.source, m, columns, threads, pairs),))
    columns, d = (t, q + m // MOST_FUNCTIONS), run.source.n_features
    features = np.arange(d)
    scanned = PairSet.of_all(features), PairSet.of_all(features[:AMONG], features[AMONG:])
    forecasts = tuple(
        test.forecast(run.source, m, columns, threads, pairs)
        for test, pairs in zip(default_tests(run), scanned, strict=False)
    )
    scan = PairScan(kind, forecasts)
    return scan if scan.flops <= MOST_FLOPS else PairScan(kind, (), _too_many(d, scan.flops))


def _is_default(run: SelectionRun) -> bool:
    """Whether ``interactions="auto"`` scans pairs in this run, provided that the scan is fast.

    The conditions are: the method re-ranks the best features jointly, there are enough samples,
    features have no groups, labels are not a kernel matrix, and shadows (`control`) are off.
    """
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
    """Time on one core for a number of floating-point operations, as text.

    >>> _core_time(1e12), _core_time(1e13), _core_time(1e15)
    ('24 seconds', '4 minutes', '7 hours')
    """
    minutes = flops / MOST_FLOPS
    if minutes < 1.5:
        seconds = round(60 * minutes)
        return "a second" if seconds < 2 else f"{seconds} seconds"
    return f"{minutes:,.0f} minutes" if minutes < 90 else f"{minutes / 60:,.0f} hours"


def _too_many(d: int, flops: float) -> str:
    """Return a message: a scan of the pairs of d features would take too long."""
    return (
        f"not scanned: the {d * (d - 1) // 2:,} pairs of {d:,} features would take about "
        f"{_core_time(flops)} on one core. To scan them, use dhsic pairs; to scan pairs of the "
        "best features, use --interactions best"
    )


def pair_test(run: SelectionRun, name: str = "pairs", **parameters: Any) -> PairTest:
    """Create the pair test of a scan, with the options of the run and further `parameters`.

    The checkpoint of the test is stored beside the checkpoint of the run, with the suffix `name`.
    """
    selector = run.selector
    checkpoint = None if selector.checkpoint is None else f"{selector.checkpoint}.{name}"
    seed = seed_of(selector.random_state)
    unlimited = 1 << 62  # bytes; the scan is already part of the run's memory estimate
    options: dict[str, Any] = {
        "missing": selector.missing,
        "checkpoint": checkpoint,
        "memory_limit": unlimited,
    }
    options["label_kernel"] = selector.label_kernel
    return PairTest(seed=seed, **options, **parameters)


def default_tests(run: SelectionRun) -> list[PairTest]:
    """Create the tests of ``interactions="auto"``: products, and products of functions of ranks.

    The first test scans all pairs, the second one pairs of the best features. With few samples
    there is only the first test.
    """
    options: dict[str, Any] = {"n_permutations": PERMUTATIONS, "main_functions": MAIN_FUNCTIONS}
    options |= {"alpha": LEVEL / 2, "warns": False}
    functions = FUNCTIONS
    if run.source.dosages or (run.values is not None and run.values.dosages):
        functions = FUNCTIONS_OF_DOSAGES
    while functions > 1 and SAMPLES_EACH * functions**2 > run.n_samples:
        functions //= 2
    if functions == 1:
        return [pair_test(run, **options | {"alpha": LEVEL}, n_permuted=PERMUTED)]
    of_functions: dict[str, Any] = {"functions": functions, "n_permuted": PERMUTED_OF_FUNCTIONS}
    of_functions["n_pairs"] = PAIRS_OF_FUNCTIONS
    return [
        pair_test(run, **options, n_permuted=PERMUTED),
        pair_test(run, "functions", **options, **of_functions),
    ]


def n_main_effects(run: SelectionRun) -> int:
    """Number of main effects of best features to regress out before pairs are tested.

    This applies to ``interactions="best"`` and ``"all"``.
    """
    return min(run.n_wanted, run.n_samples // MOST_MAIN)


def n_scanned(run: SelectionRun, t: int) -> int:
    """Number of best features to scan in pairs, for labels with t columns."""
    d = run.source.n_features
    if run.selector.interactions == "all":
        return d
    return min(d, int((MOST_OF_BEST / (run.n_samples * t)) ** 0.5))
