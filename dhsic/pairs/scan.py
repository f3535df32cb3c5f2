r"""Scan of all pairs of features: tiles, permutations, significance, and a checkpoint.

The p-value of a share ignores the number of pairs, their dependence, and non-normal labels and
products. Permutations account for these: the residual labels are permuted, and the largest share of
all pairs is recorded. Let p be the smallest p-value of a permutation and ``x = -log(-log(1 - p))``.
For n independent pairs with exact p-values, x follows Gumbel's law with location ``log n`` and
scale 1. Linkage reduces the location; heavy tails of products and labels increase location and
scale; both are fitted.

The law gives the expected number of pairs of a permutation that reach a share, ``rate = exp(-(x -
location) / scale)`` (extremes form a Poisson process). The rate is proportional to the number of
pairs. If permutations used only pairs within random ranges of neighbouring features, which
preserves linkage, the rate is scaled up to all pairs. The rate determines

- the family-wise p-value ``1 - exp(-rate)``: the probability that any null pair reaches the share;
- the false-discovery rate ``rate / k`` of the best k pairs: the expected number of false pairs
  divided by the number of reported pairs, made monotone along the list.

Both use the final shares (`dhsic.pairs.rescore`). These are deflated if all shares are larger than
with permuted labels (`dhsic.pairs.inflation`).

Partial results are saved so that an interruption loses few tiles, in a folder or at a URL of an
object store, with one writer at a time::

    pairs.dhsic/
      zarr.json      identity of the scan: data, labels, parameters, versions
      null           results of permutations: smallest p-values, medians, counts
      tiles/000000   best pairs of the first `TILES` tiles, and so on
      lock           lock of the process that writes

Each file ends with a digest; a damaged file is recomputed, with all later ones.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dhsic._typing import Array, Float
from dhsic.errors import CheckpointError
from dhsic.pairs.inflation import Inflation, every, medians_of
from dhsic.pairs.pair_set import PairSet
from dhsic.pairs.products import FEW, LargestProducts, ProductScan
from dhsic.pairs.rescore import RescoredPairs, n_kept, rescore_pairs
from dhsic.pairs.share import Labels, deflated
from dhsic.pairs.tiles import BestPairs, Largest, Scan, permuted_columns
from dhsic.passes import Tile
from dhsic.passes.reader import Reader
from dhsic.runtime.base import Job
from dhsic.storage import store_at
from dhsic.storage.base import AbstractStore
from dhsic.storage.format import ROOT, Root, plain
from dhsic.storage.lock import lock_of

#: Maximum number of pairs for which all pairs are tested, without a screen; and largest target
#: p-value for a screen, which requires main effects that are small compared with the target share.
FEW_PAIRS, MOST_SCREENED = 1 << 23, 1e-4
#: Maximum number of features for which all pairs are tested with permuted labels. With more
#: features, only pairs within random runs of features are; second, the number of these runs. Other
#: sets of pairs are sampled so that about as many pairs are tested.
MOST_PERMUTED, PERMUTED_RUNS = 1024, 16
#: Expected number of null pairs that reach the target p-value: minimum, and per requested pair.
EXPECTED, EXPECTED_EACH = 50, 2
#: Fitted scale above which p-values differ much from those for normal labels.
HEAVY = 2.5
#: Standard deviation of x below which all permutations count as equal.
SAME = 1e-6
#: Logarithm of the largest p-value that is used: x is infinite for p = 1.
SURE = -1e-12
#: Tiles whose results are saved in one file.
TILES = 16
NULL, LOCK = "null", "lock"
DIGEST = sha256().digest_size


def _gumbel_scale(x: Float) -> float:
    """Scale of a Gumbel distribution, fitted to x (n,) by maximum likelihood.

    As in ``scipy.stats.gumbel_r.fit``, it is the mean of x minus the mean with weights ``exp(-x /
    scale)``.
    """
    from scipy.optimize import brentq  # imported here because it loads slowly; scipy.stats is worse

    def excess(scale: float) -> float:
        exponents = -x / scale
        return float(x.mean() - np.average(x, weights=np.exp(exponents - exponents.max())) - scale)

    low, high = 0.5, 2.0
    while np.sign(excess(low)) == np.sign(excess(high)):
        low, high = low / 2, 2 * high
    return float(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))


@dataclass(frozen=True, slots=True)
class Null:
    """Gumbel distribution fitted to the largest x of each permutation.

    The module docstring defines x. `times` is the number of all pairs divided by the number of
    permuted pairs; n is the number of permutations.
    """

    location: float
    scale: float
    times: float
    n: int = 0

    @classmethod
    def of(cls, log_p: Float, times: float) -> Null:
        """Fit the distribution to the log smallest p-values of the permutations, (n,)."""
        x = _x(log_p)
        if float(x.std()) < SAME:  # hardly any pair is tested
            return cls(float(x.mean()), 1.0, times, x.size)
        scale = _gumbel_scale(x)
        location = -scale * (logsumexp(-x / scale) - np.log(x.size))
        return cls(float(location), scale, times, x.size)

    def rate(self, log_p: Float) -> Float:
        """Expected number of null pairs that reach each p-value.

        It is at least the rate of a single pair with this p-value. The law may not hold beyond the
        range of the permutations. If it differs much from the law for normal labels, the rate is
        therefore also at least the smallest rate that the permutations can estimate.
        """
        exponent = -(_x(log_p) - self.location) / self.scale
        expected = self.times * np.exp(np.minimum(exponent, 700.0))
        least = np.exp(np.minimum(log_p, SURE))
        if self.scale > HEAVY:
            least = np.maximum(least, 1 / (self.n + 1))
        return np.asarray(np.maximum(expected, -np.log1p(-least)))

    def family_wise(self, log_p: Float) -> Float:
        """Probability that any null pair reaches each p-value."""
        return np.asarray(-np.expm1(-self.rate(log_p)))

    def false_discovery(self, log_p: Float) -> Float:
        """False-discovery rates of the best 1, 2, ... pairs; `log_p` is ascending."""
        rates = np.minimum(self.rate(log_p) / np.arange(1, len(log_p) + 1), 1.0)
        return np.asarray(np.minimum.accumulate(rates[::-1])[::-1])

    def log_p_at(self, alpha: float) -> float:
        """Logarithm of the p-value of a pair at which the family-wise p-value is `alpha`."""
        x = self.location - self.scale * np.log(-np.log1p(-alpha) / self.times)
        rate = max(-np.expm1(-np.exp(-x)), np.finfo(float).tiny)  # 0 where x is large
        return float(min(np.log(rate), np.log(alpha)))


def _x(log_p: Float) -> Float:
    """Transform log p-values to ``-log(-log(1 - p))``, about ``-log p`` for small p."""
    log_p = np.minimum(log_p, SURE)
    return np.asarray(-np.log(-np.log1p(-np.exp(log_p))))


class SavedResults:
    """Store for the results of a scan: arrays by name.

    Without a store, nothing is saved.
    """

    def __init__(self, store: AbstractStore | None = None) -> None:
        self._store = store

    def get(self, name: str) -> Mapping[str, Array] | None:
        """Return the arrays saved under a name; None if missing or damaged."""
        entry = None if self._store is None else self._store.get(name)
        if entry is None or sha256(entry.data[:-DIGEST]).digest() != entry.data[-DIGEST:]:
            return None
        with np.load(io.BytesIO(entry.data[:-DIGEST]), allow_pickle=False) as arrays:
            return dict(arrays)

    def put(self, name: str, **arrays: Any) -> None:
        """Save arrays under a name."""
        if self._store is None:
            return
        data = io.BytesIO()
        np.savez(data, **arrays)
        self._store.write(name, data.getvalue() + sha256(data.getvalue()).digest())


@contextmanager
def kept_at(path: Any, identity: Mapping[str, Any]) -> Iterator[SavedResults]:
    """Yield the saved results of a scan at a path; with None as path, nothing is saved.

    `identity` identifies the scan.

    Raises
    ------
    CheckpointError
        The folder is not a checkpoint of a scan, belongs to another scan, or has a writer.
    """
    if path is None:
        yield SavedResults()
        return
    store, about = store_at(path), plain(dict(identity))
    store.make()
    root = store.get(ROOT)
    if root is None and (names := sorted(store.names() - {LOCK})):
        raise CheckpointError(
            f"{store.path} contains other files ({', '.join(names[:3])}) and is not a checkpoint "
            "of a scan of pairs. Pass a new or an empty folder."
        )
    lock = lock_of(store, LOCK)
    lock.take()
    try:
        if root is None:
            store.replace(ROOT, Root(about, None).encode(), None)
        else:
            Root.of(root.data, store.path).compare(about, store.path)
        yield SavedResults(store)
    finally:
        lock.release()


@dataclass(frozen=True, eq=False)
class ScanResult:
    """Result of a scan.

    Attributes
    ----------
    judged : RescoredPairs
        Best pairs with final shares (see `dhsic.pairs.rescore`).
    labels : Labels
        Labels that the pairs were tested against.
    null : Null or None
        Law of the largest share under the null hypothesis; None without permutations.
    reach : float
        Target p-value of the scan: all pairs with smaller p-values were found.
    n_pairs, n_permuted : int
        Number of pairs of features that vary, and number of permuted pairs.
    audited : (int, int) or None
        For a screened scan: number of permuted pairs that reach the target share, and number of
        these that the screen misses.
    inflation : Inflation or None
        Inflation of shares relative to permuted labels; None if not measured.
    """

    judged: RescoredPairs
    labels: Labels
    null: Null | None
    reach: float
    n_pairs: int
    n_permuted: int
    audited: tuple[int, int] | None
    inflation: Inflation | None

    @property
    def corrected(self) -> float:
        """Factor by which the deviances of shares are divided."""
        return 1.0 if self.inflation is None else self.inflation.corrected

    @property
    def log_p(self) -> Float:
        """Log p-values of the pairs, from deflated shares, (n,)."""
        return self.labels.log_p(deflated(self.judged.found.shares, self.corrected))

    def threshold(self, alpha: float) -> float:
        """Smallest share of variance that is significant at a family-wise level."""
        assert self.null is not None, "something was permuted"
        share = self.labels.share_at(float(np.exp(self.null.log_p_at(alpha))))
        return float(deflated(share, 1 / self.corrected))

    def n_significant(self, alpha: float) -> int:
        """Number of pairs that are significant at a family-wise level; 0 without permutations."""
        if self.null is None:
            return 0
        return int((self.judged.shares >= self.threshold(alpha)).sum())


def scan_pairs(
    reader: Reader,
    pairs: PairSet,
    labels: Labels,
    kept: SavedResults,
    *,
    n: int,
    n_permutations: int,
    seed: int,
    n_permuted: int | None = None,
    beside: Tile | None = None,
) -> ScanResult:
    """Scan a set of pairs of features that vary, and return the best n pairs.

    The scaling of the features in `reader` must have been measured. Permutations use about the same
    number of pairs as there are among `n_permuted` features (default `MOST_PERMUTED`). `beside` are
    the columns of `pairs` that are not features, see `dhsic.pairs.tiles.columns_beside`; features
    then have one function.
    """
    n_pairs = pairs.n_pairs
    p = looked_for(n_pairs, n)
    reach = labels.share_at(p) if p < 1 else 0.0
    null, n_tried, audited, inflation = None, 0, None, None
    screens = is_screened(n_pairs, n, labels.functions)
    if n_permutations and n_pairs:
        whole = pairs.whole or pairs
        permuted = whole.sampled(seed, n_permuted or MOST_PERMUTED, PERMUTED_RUNS)
        n_tried = permuted.n_pairs
        done = kept.get(NULL)
        if done is None:
            least = reach if screens and labels.functions == 1 else None
            done = _permuted(reader, permuted, labels, least, n_permutations, seed, beside)
            kept.put(NULL, **done)
        null = Null.of(done["log_p"], whole.n_pairs / n_tried)
        is_audited = screens and labels.functions == 1
        audited = (int(done["n_audited"]), int(done["n_lost"])) if is_audited else None
        inflation = Inflation.of(done["medians"])
    a_pass: Scan | ProductScan = Scan(labels, reach, n_kept(n), screens=screens, beside=beside)
    if labels.functions > 1:
        a_pass = ProductScan(labels, reach, n_kept(n), screens=screens)
    scanned = _best_of_tiles(reader, a_pass, pairs.jobs(reader, labels.functions), kept)
    best = rescore_pairs(reader, scanned, labels, n, reach, beside)
    return ScanResult(best, labels, null, p, n_pairs, n_tried, audited, inflation)


def _best_of_tiles(
    reader: Reader, a_pass: Scan | ProductScan, jobs: list[Job], kept: SavedResults
) -> BestPairs:
    """Best pairs of all tiles; saved tiles are loaded instead of scanned."""
    best, n_kept = BestPairs.none(), 0
    while (part := kept.get(f"tiles/{n_kept:06d}")) is not None:
        best = best.with_(BestPairs.of(part), a_pass.n)
        n_kept += 1
    unsaved, jobs_left = BestPairs.none(), jobs[n_kept * TILES :]
    for i, part in enumerate(reader.map(a_pass, jobs_left) if jobs_left else (), 1):
        unsaved = unsaved.with_(part, a_pass.n)
        if i % TILES == 0 or i == len(jobs_left):
            kept.put(f"tiles/{n_kept:06d}", **unsaved.arrays())
            best, unsaved, n_kept = best.with_(unsaved, a_pass.n), BestPairs.none(), n_kept + 1
    return best


def looked_for(n_pairs: int, n: int) -> float:
    """Target p-value of a scan for the best n of `n_pairs` pairs.

    Pairs with larger p-values may be missed.
    """
    return min(1.0, max(EXPECTED, EXPECTED_EACH * n) / max(1, n_pairs))


def is_screened(n_pairs: int, n: int, functions: int = 1) -> bool:
    """Whether a scan for the best n of `n_pairs` pairs tests only pairs that pass a screen."""
    if functions > 1:
        return n_pairs > FEW
    return n_pairs > FEW_PAIRS and looked_for(n_pairs, n) <= MOST_SCREENED


def _permuted(
    reader: Reader,
    pairs: PairSet,
    labels: Labels,
    reach: float | None,
    n: int,
    seed: int,
    beside: Tile | None,
) -> dict[str, Any]:
    """Test pairs with n permutations of the labels.

    Returns log smallest p-values (``log_p``), ``medians`` of shares, and counts of the audit of the
    screen: permuted pairs that reach the target share, and those that the screen misses.
    """
    rng = np.random.default_rng([seed, 2])
    m = len(labels.U)
    orders = (rng.permutation(m) for _ in range(n))
    permuted = np.stack([labels.permuted(order).U.astype(np.float32) for order in orders])
    step = every(pairs.n_pairs)
    a_pass: Largest | LargestProducts
    if labels.functions > 1:
        a_pass = LargestProducts(labels, permuted, step)
    else:
        a_pass = Largest(labels, permuted_columns(labels, permuted), reach, step, beside)
    narrowest = max(1, MOST_PERMUTED // PERMUTED_RUNS)
    tried = list(reader.map(a_pass, pairs.jobs(reader, labels.functions, narrowest)))
    largest = np.max([each.largest for each in tried], axis=0)
    return {
        "log_p": labels.log_p(largest),
        "medians": medians_of(np.concatenate([each.some for each in tried], axis=1)),
        "n_audited": sum(each.n_reaching for each in tried),
        "n_lost": sum(each.n_lost for each in tried),
    }
