r"""A scan of all pairs of features: what is read, cut into tiles, permuted and kept.

How large the largest share is where there is nothing: a p-value of a share alone knows neither how
many pairs were looked at, nor how they hang together, nor how far labels and products are from
normal. Permutations do: samples of the labels, once all that is taken out of them is out, are
permuted, and the largest share of all pairs is noted. With p the smallest p-value of a permutation,
``x = -log(-log(1 - p))``; of n independent pairs, and p as they should be, x follows Gumbel's law
of location ``log n`` and scale 1 exactly. Linkage makes the location less, heavy tails of products
and labels make location and scale more; both are fitted.

The law says how many pairs of a permutation reach a share, ``rate = exp(-(x - location) / scale)``
(extremes come as a Poisson process), and that number grows with the number of pairs: so where some
pairs only were permuted, those of runs of features chosen at random, which keep their linkage, the
rate of all pairs is as many times larger as there are more of them. From it follow

- the family-wise p-value: ``1 - exp(-rate)``, the probability that any pair reaches the share;
- the false-discovery rate of the best k pairs: ``rate / k``, the pairs expected there over those
  found, made to rise along the list.

Both are of shares that were judged again (`dhsic.pairs.judge`), and deflated where all shares are
larger than permutations have them (`dhsic.pairs.inflation`).

What was found so far is kept so that any death loses few tiles, in a folder, or at a URL of an
object store, with one writer at a time::

    pairs.dhsic/
      zarr.json      identity of the scan: data, labels, parameters, versions
      null           smallest p-values of the permutations, and what else was counted there
      tiles/000000   the best pairs of the first `TILES` tiles, and so on
      lock           held by the process that writes

Each file ends with a digest; one that is damaged is made again, with all that come after it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from scipy.stats import gumbel_r

from dhsic._typing import Array, Float, Index
from dhsic.errors import CheckpointError
from dhsic.pairs.inflation import Inflation, every, medians_of
from dhsic.pairs.judge import JudgedPairs, judged, n_kept
from dhsic.pairs.products import FEW, LargestProducts, ProductScan
from dhsic.pairs.share import Labels, deflated
from dhsic.pairs.tiles import BestPairs, Largest, Scan, cross_jobs, run_width, runs_of, tile_jobs
from dhsic.passes.reader import Reader
from dhsic.runtime.base import Job
from dhsic.storage import store_at
from dhsic.storage.base import AbstractStore
from dhsic.storage.format import ROOT, Root, plain
from dhsic.storage.lock import lock_of

#: Pairs up to which tiles are gone through as a whole, as they are where a p-value above this is
#: looked for: the screen takes main effects for small beside what it looks for.
FEW_PAIRS, MOST_SCREENED = 1 << 23, 1e-4
#: Features up to which all of their pairs are permuted, and runs of them that are, of more.
MOST_PERMUTED, PERMUTED_RUNS = 2048, 16
#: Pairs that are expected to reach where there is nothing, at least, and for each that is wanted.
EXPECTED, EXPECTED_EACH = 50, 2
#: A fitted scale above this says that p-values are far from what normal labels would give.
HEAVY = 2.5
#: Deviation of x below which permutations are all alike.
SAME = 1e-6
#: Logarithm of the largest p-value, since that of 1 has no x.
SURE = -1e-12
#: Tiles whose findings are kept together.
TILES = 16
NULL, LOCK = "null", "lock"
DIGEST = sha256().digest_size


@dataclass(frozen=True, slots=True)
class Null:
    """Law of the largest x of n permutations, and how many times more pairs there are in all."""

    location: float
    scale: float
    times: float
    n: int = 0

    @classmethod
    def of(cls, log_p: Float, times: float) -> Null:
        """Law fitted by likelihood to the smallest p-values of permutations, as logarithms."""
        x = _x(log_p)
        if float(x.std()) < SAME:  # hardly a pair is tested
            return cls(float(x.mean()), 1.0, times, x.size)
        location, scale = gumbel_r.fit(x)
        return cls(float(location), float(scale), times, x.size)

    def rate(self, log_p: Float) -> Float:
        """Pairs expected to reach p-values where there is nothing.

        No fewer than of one pair, whose p-value it is; and where the law is far from that of normal
        labels, no fewer than permutations can tell, for beyond them it is not known to hold.
        """
        exponent = -(_x(log_p) - self.location) / self.scale
        found = self.times * np.exp(np.minimum(exponent, 700.0))
        least = np.exp(np.minimum(log_p, SURE))
        if self.scale > HEAVY:
            least = np.maximum(least, 1 / (self.n + 1))
        return np.asarray(np.maximum(found, -np.log1p(-least)))

    def family_wise(self, log_p: Float) -> Float:
        """Probability that any pair reaches p-values where there is nothing."""
        return np.asarray(-np.expm1(-self.rate(log_p)))

    def false_discovery(self, log_p: Float) -> Float:
        """False-discovery rates of the best 1, 2, ... pairs; p-values ascend."""
        rates = np.minimum(self.rate(log_p) / np.arange(1, len(log_p) + 1), 1.0)
        return np.asarray(np.minimum.accumulate(rates[::-1])[::-1])

    def log_p_at(self, alpha: float) -> float:
        """Logarithm of the p-value whose family-wise one is `alpha`."""
        x = self.location - self.scale * np.log(-np.log1p(-alpha) / self.times)
        rate = max(-np.expm1(-np.exp(-x)), np.finfo(float).tiny)  # 0 where x is large
        return float(min(np.log(rate), np.log(alpha)))


def _x(log_p: Float) -> Float:
    """``-log(-log(1 - p))``; of the smallest p that is ``-log p``."""
    log_p = np.minimum(log_p, SURE)
    return np.asarray(-np.log(-np.log1p(-np.exp(log_p))))


class Kept:
    """Findings of a scan by name, each some arrays; without a store nothing is kept."""

    def __init__(self, store: AbstractStore | None = None) -> None:
        self._store = store

    def get(self, name: str) -> Mapping[str, Array] | None:
        """Arrays of a name; None where there are none, or they are damaged."""
        found = None if self._store is None else self._store.get(name)
        if found is None or sha256(found.data[:-DIGEST]).digest() != found.data[-DIGEST:]:
            return None
        with np.load(io.BytesIO(found.data[:-DIGEST]), allow_pickle=False) as arrays:
            return dict(arrays)

    def put(self, name: str, **arrays: Any) -> None:
        """Keep arrays under a name."""
        if self._store is None:
            return
        data = io.BytesIO()
        np.savez(data, **arrays)
        self._store.write(name, data.getvalue() + sha256(data.getvalue()).digest())


@contextmanager
def kept_at(path: Any, identity: Mapping[str, Any]) -> Iterator[Kept]:
    """Yield what is kept at a path of the scan of that identity; a path of None keeps nothing.

    Raises
    ------
    CheckpointError
        The folder is something else, belongs to another scan, or has a writer.
    """
    if path is None:
        yield Kept()
        return
    store, about = store_at(path), plain(dict(identity))
    store.make()
    found = store.get(ROOT)
    if found is None and (others := sorted(store.names() - {LOCK})):
        raise CheckpointError(
            f"{store.path} holds other things ({', '.join(others[:3])}) and is not a checkpoint of "
            "a scan of pairs. Pass a new or an empty folder."
        )
    lock = lock_of(store, LOCK)
    lock.take()
    try:
        if found is None:
            store.replace(ROOT, Root(about, None).encode(), None)
        else:
            Root.of(found.data, store.path).compare(about, store.path)
        yield Kept(store)
    finally:
        lock.release()


@dataclass(frozen=True, eq=False)
class Scanned:
    """What a scan found.

    Attributes
    ----------
    judged : JudgedPairs
        The best pairs.
    labels : Labels
        What they were judged by.
    null : Null or None
        Law of the largest share where there is nothing; None where nothing was permuted.
    reach : float
        p-value down to which all pairs were looked for.
    n_pairs, n_permuted : int
        Pairs of features that vary, and those permuted.
    audited : (int, int) or None
        Of a screened scan, pairs of those permuted that reach, and how many of them the screen
        loses.
    inflation : Inflation or None
        How much larger shares are than those of permuted labels; None where that is not known.
    """

    judged: JudgedPairs
    labels: Labels
    null: Null | None
    reach: float
    n_pairs: int
    n_permuted: int
    audited: tuple[int, int] | None
    inflation: Inflation | None

    @property
    def corrected(self) -> float:
        """What the deviances of shares are divided by."""
        return 1.0 if self.inflation is None else self.inflation.corrected

    @property
    def log_p(self) -> Float:
        """Logarithms of the p-values of the pairs, of deflated shares, (n,)."""
        return self.labels.log_p(deflated(self.judged.found.shares, self.corrected))

    def threshold(self, alpha: float) -> float:
        """Share that is significant family-wise."""
        assert self.null is not None, "something was permuted"
        share = self.labels.share_at(float(np.exp(self.null.log_p_at(alpha))))
        return float(deflated(share, 1 / self.corrected))


def n_pairs_of(d: int, n_partners: int = 0) -> int:
    """Pairs of d features, and of these with others."""
    return d * (d - 1) // 2 + d * n_partners


def scan_pairs(
    reader: Reader,
    alive: Index,
    labels: Labels,
    kept: Kept,
    *,
    n: int,
    n_permutations: int,
    seed: int,
    n_permuted: int | None = None,
    partners: Index | None = None,
) -> Scanned:
    """Scan all pairs of features that vary, ascending, for the best n.

    Their reader has measured them. Pairs of `n_permuted` features are permuted, at most;
    `MOST_PERMUTED` by default. With `partners`, which are other features, their pairs with them
    are scanned too.
    """
    others = alive[:0] if partners is None else partners
    n_pairs = n_pairs_of(alive.size, others.size)
    p = looked_for(n_pairs, n)
    reach = labels.share_at(p) if p < 1 else 0.0
    null, n_tried, audited, inflation = None, 0, None, None
    screens = is_screened(n_pairs, n, labels.functions)
    if n_permutations and n_pairs:
        some = permuted_features(alive, seed, n_permuted or MOST_PERMUTED)
        n_tried = n_pairs_of(some.size)
        done = kept.get(NULL)
        if done is None:
            least = reach if screens and labels.functions == 1 else None
            done = _permuted(reader, some, labels, least, n_permutations, seed)
            kept.put(NULL, **done)
        null = Null.of(done["log_p"], n_pairs / n_tried)
        is_audited = screens and labels.functions == 1
        audited = (int(done["n_audited"]), int(done["n_lost"])) if is_audited else None
        inflation = Inflation.of(done["medians"])
    width = run_width(reader.n_samples, alive.size + others.size, labels.functions)
    jobs = _tiles(reader, alive, width)
    if others.size:
        runs = (_runs(reader, alive, alive.size), _runs(reader, others, width))
        jobs = cross_jobs(*runs)
    a_scan = Scan if labels.functions == 1 else ProductScan
    scanned = _found(reader, a_scan(labels, reach, n_kept(n), screens=screens), jobs, kept)
    best = judged(reader, scanned, labels, n, reach)
    return Scanned(best, labels, null, p, n_pairs, n_tried, audited, inflation)


def _found(reader: Reader, a_pass: Scan | ProductScan, jobs: list[Job], kept: Kept) -> BestPairs:
    """The best pairs of all tiles; of those whose findings are kept, from there."""
    found, n_kept = BestPairs.none(), 0
    while (part := kept.get(f"tiles/{n_kept:06d}")) is not None:
        found = found.with_(BestPairs.of(part), a_pass.n)
        n_kept += 1
    some, left = BestPairs.none(), jobs[n_kept * TILES :]
    for i, part in enumerate(reader.map(a_pass, left) if left else (), 1):
        some = some.with_(part, a_pass.n)
        if i % TILES == 0 or i == len(left):
            kept.put(f"tiles/{n_kept:06d}", **some.arrays())
            found, some, n_kept = found.with_(some, a_pass.n), BestPairs.none(), n_kept + 1
    return found


def looked_for(n_pairs: int, n: int) -> float:
    """The p-value down to which all pairs are looked for, where n of them are wanted."""
    return min(1.0, max(EXPECTED, EXPECTED_EACH * n) / max(1, n_pairs))


def is_screened(n_pairs: int, n: int, functions: int = 1) -> bool:
    """Whether tiles are screened, where n pairs are wanted."""
    if functions > 1:
        return n_pairs > FEW
    return n_pairs > FEW_PAIRS and looked_for(n_pairs, n) <= MOST_SCREENED


def permuted_features(alive: Index, seed: int, most: int) -> Index:
    """Features whose pairs are permuted: all, or runs of them from all over."""
    if alive.size <= most:
        return alive
    width = most // PERMUTED_RUNS
    rng = np.random.default_rng([seed, 1])
    starts = np.sort(rng.choice(alive.size // width, PERMUTED_RUNS, replace=False)) * width
    return np.concatenate([alive[a : a + width] for a in starts])


def _permuted(
    reader: Reader, features: Index, labels: Labels, reach: float | None, n: int, seed: int
) -> dict[str, Any]:
    """Smallest p-values of permutations, as logarithms, ``log_p``; `medians_of`; counts."""
    rng = np.random.default_rng([seed, 2])
    m = len(labels.U)
    orders = (rng.permutation(m) for _ in range(n))
    permuted = np.stack([labels.permuted(order).U.astype(np.float32) for order in orders])
    width = run_width(m, features.size, labels.functions)
    width = min(max(1, MOST_PERMUTED // PERMUTED_RUNS), width)
    some = every(n_pairs_of(features.size))
    a_pass: Largest | LargestProducts = Largest(labels, permuted, reach, some)
    if labels.functions > 1:
        a_pass = LargestProducts(labels, permuted, some)
    tried = list(reader.map(a_pass, _tiles(reader, features, width)))
    largest = np.max([each.largest for each in tried], axis=0)
    return {
        "log_p": labels.log_p(largest),
        "medians": medians_of(np.concatenate([each.some for each in tried], axis=1)),
        "n_audited": sum(each.n_reaching for each in tried),
        "n_lost": sum(each.n_lost for each in tried),
    }


def _tiles(reader: Reader, features: Index, width: int) -> list[Job]:
    return tile_jobs(_runs(reader, features, width))


def _runs(reader: Reader, features: Index, width: int) -> list[Job]:
    return runs_of(reader.jobs(features, tags=features), width)
