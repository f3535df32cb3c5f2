"""A scan of all pairs of features: what is read, cut into tiles, permuted and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.pairs.kept import NULL, TILES, Kept, tiles_name
from dhsic.pairs.null import Null
from dhsic.pairs.share import Labels
from dhsic.pairs.tiles import (
    BestPairs,
    Largest,
    Scan,
    run_width,
    runs_of,
    tile_jobs,
)
from dhsic.passes.reader import Reader
from dhsic.runtime.base import Job

#: Pairs up to which tiles are gone through as a whole, as they are where a p-value above this is
#: looked for: the screen takes main effects for small beside what it looks for.
FEW_PAIRS, MOST_SCREENED = 1 << 23, 1e-4
#: Features up to which all of their pairs are permuted, and runs of them that are, of more.
MOST_PERMUTED, PERMUTED_RUNS = 2048, 16
#: Pairs that are expected to reach where there is nothing, at least, and for each that is wanted.
EXPECTED, EXPECTED_EACH = 50, 2


@dataclass(frozen=True, eq=False)
class Scanned:
    """What a scan found.

    Attributes
    ----------
    found : BestPairs
        The best pairs.
    log_p : (n,) float64
        Logarithms of their p-values.
    null : Null or None
        Law of the largest share where there is nothing; None where nothing was permuted.
    reach : float
        p-value down to which all pairs were looked for.
    n_pairs, n_permuted : int
        Pairs of features that vary, and those permuted.
    audited : (int, int) or None
        Of a screened scan, pairs of those permuted that reach, and how many of them the screen
        loses.
    """

    found: BestPairs
    log_p: Float
    null: Null | None
    reach: float
    n_pairs: int
    n_permuted: int
    audited: tuple[int, int] | None


def n_pairs_of(d: int) -> int:
    """Pairs of d features."""
    return d * (d - 1) // 2


def scan_pairs(
    reader: Reader,
    alive: Index,
    labels: Labels,
    kept: Kept,
    *,
    n: int,
    n_permutations: int,
    seed: int,
) -> Scanned:
    """Scan all pairs of features that vary, ascending, for the best n.

    Their reader has measured them.
    """
    n_pairs = n_pairs_of(alive.size)
    p = looked_for(n_pairs, n)
    reach = labels.share_at(p) if p < 1 else 0.0
    null, n_permuted, audited = None, 0, None
    screens = is_screened(n_pairs, n)
    if n_permutations and n_pairs:
        some = permuted_features(alive, seed)
        n_permuted = n_pairs_of(some.size)
        done = kept.get(NULL)
        if done is None:
            least = reach if screens else np.inf
            done = _permuted(reader, some, labels, least, n_permutations, seed)
            kept.put(NULL, **done)
        null = Null.of(done["log_p"], n_pairs / n_permuted)
        audited = (int(done["n_audited"]), int(done["n_lost"])) if screens else None
    jobs = _tiles(reader, alive, run_width(reader.n_samples, alive.size))
    found = _found(reader, Scan(labels, reach, n, screens=screens), jobs, kept)
    return Scanned(found, labels.log_p(found.shares), null, p, n_pairs, n_permuted, audited)


def _found(reader: Reader, a_pass: Scan, jobs: list[Job], kept: Kept) -> BestPairs:
    """The best pairs of all tiles; of those whose findings are kept, from there."""
    found, n_kept = BestPairs.none(), 0
    while (part := kept.get(tiles_name(n_kept))) is not None:
        found = found.with_(BestPairs.of(part), a_pass.n)
        n_kept += 1
    some, left = BestPairs.none(), jobs[n_kept * TILES :]
    for i, part in enumerate(reader.map(a_pass, left) if left else (), 1):
        some = some.with_(part, a_pass.n)
        if i % TILES == 0 or i == len(left):
            kept.put(tiles_name(n_kept), **some.arrays())
            found, some, n_kept = found.with_(some, a_pass.n), BestPairs.none(), n_kept + 1
    return found


def looked_for(n_pairs: int, n: int) -> float:
    """The p-value down to which all pairs are looked for, where n of them are wanted."""
    return min(1.0, max(EXPECTED, EXPECTED_EACH * n) / max(1, n_pairs))


def is_screened(n_pairs: int, n: int) -> bool:
    """Whether tiles are screened, where n pairs are wanted."""
    return n_pairs > FEW_PAIRS and looked_for(n_pairs, n) <= MOST_SCREENED


def permuted_features(alive: Index, seed: int) -> Index:
    """Features whose pairs are permuted: all, or runs of them from all over."""
    if alive.size <= MOST_PERMUTED:
        return alive
    width = MOST_PERMUTED // PERMUTED_RUNS
    rng = np.random.default_rng([seed, 1])
    starts = np.sort(rng.choice(alive.size // width, PERMUTED_RUNS, replace=False)) * width
    return np.concatenate([alive[a : a + width] for a in starts])


def _permuted(
    reader: Reader, features: Index, labels: Labels, reach: float, n: int, seed: int
) -> dict[str, Any]:
    """Smallest p-values of permutations, as logarithms, ``log_p``; counts as of `Largest`."""
    rng = np.random.default_rng([seed, 2])
    m = len(labels.U)
    orders = (rng.permutation(m) for _ in range(n))
    permuted = np.stack([labels.permuted(order).U.astype(np.float32) for order in orders])
    width = min(MOST_PERMUTED // PERMUTED_RUNS, run_width(m, features.size))
    jobs = _tiles(reader, features, width)
    largest, n_reaching, n_lost = np.zeros(n), 0, 0
    for part, reaching, lost in reader.map(Largest(labels, permuted, reach), jobs):
        largest = np.maximum(largest, part)
        n_reaching, n_lost = n_reaching + reaching, n_lost + lost
    return {"log_p": labels.log_p(largest), "n_audited": n_reaching, "n_lost": n_lost}


def _tiles(reader: Reader, features: Index, width: int) -> list[Job]:
    return tile_jobs(runs_of(reader.jobs(features, tags=features), width))
