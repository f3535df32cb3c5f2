"""The scan of all pairs: its time over its bare products, what it finds, and how often it errs.

    python benchmarks/pairs.py width [--size 2000x100000] [--every 16]
    python benchmarks/pairs.py planted [--size 1000x20000] [--draws 10]
    python benchmarks/pairs.py null [--size 200x3000] [--draws 200] [--permuted 2048]
    python benchmarks/pairs.py null [--size 200x200] --joint [--effects 5]
    python benchmarks/pairs.py loops [--size 1000x10000]

- width: processor time of the scan's tiles, every so-many-th of them, over that of the bare
  products ``X diag(y) X'`` of the same tiles in float32, one BLAS call each, in turn on one thread;
  and of what is done once, the look at the values and the permutations.
- planted: genotypes of ``dhsic simulate`` with ten additive variants and two pairs, each of which
  explains 6% of the trait; main effects of 50 selected variants are taken out. A pair counts as
  found where one of two variants in linkage with its own (r2 of 0.2) is significant family-wise;
  unlinked are significant ones of which a variant is in no linkage (r2 below 0.02) with any such.
- null: genotypes in linkage, and normal labels that have nothing to do with them: runs with a pair
  of a family-wise p-value at or below 0.01, 0.05, 0.1 and 0.2. With `--joint` pairs are those of
  a selection of 20 with ``interactions="best"``, which takes out main effects that it chose on the
  same labels; with `--effects` so many variants add to them, 6% each. With `--permuted` pairs of
  so many features are permuted, and the law is carried over, as it is of more than 2,048.
- loops: the same pairs by a loop over features in float64, all pairs of each, and the shares of the
  best ones by the plain loops of the tests.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from data import genotypes
from scipy.stats import binomtest
from tables import table

import dhsic
from dhsic.interactions import find_pairs, pairs_of
from dhsic.linalg.covariates import covariate_basis
from dhsic.pairs import scan
from dhsic.pairs.rescore import n_kept
from dhsic.pairs.share import Labels, label_columns
from dhsic.pairs.test import measured
from dhsic.pairs.tiles import Scan, run_width
from dhsic.runtime.threads import Threads
from dhsic.simulation import simulate_genotypes
from dhsic.simulation.truth import read_truth, truth_path
from dhsic.sources.blocks import Block

LINKED = 0.2  # squared correlation from which on a variant stands for another
UNLINKED = 0.02  # below which it has nothing to do with it
N_ADDITIVE, N_PAIRS, EXPLAINED = 10, 2, 0.06
N_SELECTED, N_FOUND, N_JOINT = 50, 100, 20


def dosages(m, d, seed=0):
    """Unlinked genotypes (m, d) int8 of minor allele frequencies from 0.05 to 0.5, and a trait."""
    rng = np.random.default_rng(seed)
    X = rng.binomial(2, rng.uniform(0.05, 0.5, d), (m, d)).astype(np.int8)
    return X, rng.standard_normal(m)


def timed(work):
    """What work returns, and its processor and wall time in seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    return found, np.array([time.process_time() - cpu, time.perf_counter() - wall])


def width(m, d, every):
    """Rows: what is done, its processor and wall time, and times its bare products."""
    X, y = dosages(m, d)
    with Threads(1) as runtime:
        labels = Labels.of(label_columns(y), covariate_basis(None, m))
        reader, looking = timed(lambda: measured(dhsic.open_source(X), runtime, None, "mean"))
        n_pairs = scan.n_pairs_of(reader.alive.size)
        reach = labels.share_at(scan.looked_for(n_pairs, N_FOUND))
        screens = scan.is_screened(n_pairs, N_FOUND)
        a_pass = Scan(labels, reach, n_kept(N_FOUND), screens=screens)
        jobs = scan._tiles(reader, reader.alive, run_width(m, d))
        rng = np.random.default_rng(0)
        A, B = rng.standard_normal((2, run_width(m, d), m), dtype=np.float32)
        u, bare, tiles = y.astype(np.float32), np.zeros(2), np.zeros(2)
        some = jobs[::every]
        for job in some:
            sizes = np.bincount(np.concatenate([c.tags % 2 for c in job.payload]), minlength=2)
            left, right = A[: sizes[0]], B[: sizes[1] or sizes[0]]
            bare += timed(lambda left=left, right=right: (left * u) @ right.T)[1]
            tiles += timed(lambda job=job: list(reader.map(a_pass, [job])))[1]
        chosen = scan.permuted_features(reader.alive, 0)
        least = reach if screens else None
        _, permuting = timed(lambda: scan._permuted(reader, chosen, labels, least, 100, 0))
    scale = len(jobs) / len(some)
    whole = {
        f"bare products, {len(some)} of {len(jobs)} tiles": bare * scale,
        "the scan of them": tiles * scale,
        "look at the values": looking,
        "100 permutations": permuting,
        "all but the products": tiles * scale + looking + permuting,
    }
    for name, took in whole.items():
        yield name, *(f"{t:.0f} s" for t in took), *(f"{r:.2f}" for r in took / (bare * scale))


def planted(m, d, draws, method, n_permutations):
    """Rows: a draw, pairs found of those planted, others that are significant, seconds."""
    n_all = 0
    for seed in range(draws):
        with tempfile.TemporaryDirectory() as folder:
            path, sizes = str(Path(folder) / "g.vcz"), {"n_samples": m, "n_variants": d}
            heritability = EXPLAINED * (N_ADDITIVE + N_PAIRS)
            planting = {"n_causal": N_ADDITIVE, "n_pairs": N_PAIRS, "heritability": heritability}
            simulate_genotypes(path, **sizes, **planting, trait="quantitative", seed=seed)
            truth = read_truth(str(truth_path(path)))
            asked = {"n_features_to_select": N_SELECTED, "progress": False, "method": method}
            selection = dhsic.select(path, "sample_trait", **asked)
            asked = {"selection": selection, "n_permutations": n_permutations}
            found, took = timed(lambda p=path, a=asked: find_pairs(p, "sample_trait", **a))
            real = found.isel(pairs=found["family_wise"].to_numpy() <= 0.05)
            pairs = np.column_stack([real["first"], real["second"]])
            wanted = {tuple(sorted(two)) for two in zip(truth.variant_index, truth.partner,
                                                        strict=True) if two[1] >= 0}  # fmt: skip
            r2 = _squared(path, np.unique(np.concatenate([pairs.ravel(), *map(list, wanted)])))
        n = sum(any(_stands(r2, two, pair, LINKED) for pair in pairs) for two in wanted)
        n_all += n == len(wanted)
        others, unlinked = (
            sum(not any(_stands(r2, two, pair, least) for two in wanted) for pair in pairs)
            for least in (LINKED, UNLINKED)
        )
        print(f"    {seed}: {n} of {len(wanted)}", file=sys.stderr, flush=True)
        seconds = (f"{t:.0f} s" for t in took)
        yield seed, f"{n} of {len(wanted)}", others, unlinked, *seconds
    yield "all pairs found in", f"{n_all} of {draws}", "", "", "", ""


def _squared(path, features):
    """Squared correlation of any two of some features, as a function."""
    calls = zarr.open_group(path)["call_genotype"].oindex[features]
    X = np.where((calls < 0).any(axis=2), np.nan, calls.sum(axis=2))
    R = np.corrcoef(np.nan_to_num(X - np.nanmean(X, axis=1, keepdims=True)))
    place = {int(j): i for i, j in enumerate(features)}
    return lambda j, k: R[place[j], place[k]] ** 2


def _stands(r2, wanted, pair, least):
    """Whether a pair stands for a planted one, each variant for another of it."""
    (a, b), (j, k) = map(tuple, (wanted, pair))
    return any(min(r2(a, x), r2(b, y)) >= least for x, y in ((j, k), (k, j)))


def null(m, d, draws, joint, n_effects, most_permuted):
    """Rows: a level, and the part of the runs that err at it, with its exact 95% interval."""
    if most_permuted:
        scan.MOST_PERMUTED, scan.PERMUTED_RUNS = most_permuted, max(1, most_permuted // 32)
    best = []
    with tempfile.TemporaryDirectory() as folder:
        path = genotypes(folder, m, d)
        X = dhsic.open_source(str(path), variable="dosage")
        for seed in range(draws):
            rng = np.random.default_rng([1, seed])
            y = rng.standard_normal(m) + _additive(X, rng, n_effects)
            if joint:
                asked = {"interactions": "best", "random_state": seed, "progress": False}
                result = dhsic.select(X, y, n_features_to_select=N_JOINT, **asked)
                found = pairs_of(result)
            else:
                found = find_pairs(X, y, n_pairs=1, random_state=seed)
            best.append(float(found["family_wise"][0]))
            if seed % 10 == 9:
                print(f"    {seed + 1} of {draws}", file=sys.stderr, flush=True)
    for level in (0.01, 0.05, 0.1, 0.2):
        n = sum(p <= level for p in best)
        low, high = binomtest(n, draws).proportion_ci()
        yield level, f"{n / draws:.3f}", f"{low:.3f} to {high:.3f}"


def _additive(source, rng, n):
    """Effects of n variants, each of which explains 6% beside noise of variance 1."""
    if not n:
        return 0.0
    at = np.sort(rng.choice(source.n_features, n, replace=False))
    Z = np.stack([source.read(Block(0, j, j + 1))[:, 0] for j in at.tolist()]).astype(float)
    Z = np.where(Z < 0, np.nan, Z)
    Z = np.nan_to_num((Z - np.nanmean(Z, axis=1)[:, None]) / np.nanstd(Z, axis=1)[:, None])
    return (EXPLAINED / (1 - n * EXPLAINED)) ** 0.5 * (rng.choice([-1, 1], n) @ Z)


def loops(m, d):
    """Rows: whether the best pairs are those of a loop over features, and of plain loops."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from naive_interactions import shares

    X, y = dosages(m, d)
    y = y + 0.25 * (X[:, 3] - X[:, 3].mean()) * (X[:, 8] - X[:, 8].mean())
    found, took = timed(lambda: find_pairs(X, y, n_permutations=0))
    (expected, theirs), took_loops = timed(lambda: _best_by_loop(X, y))
    pairs = np.column_stack([found["first"], found["second"]])
    same = np.array_equal(pairs, expected)
    yield "the same pairs, in order", f"{same}"
    yield "largest relative difference", f"{np.abs(found['share'] / theirs - 1).max():.1e}"
    plain = [shares(X[:, two].T.astype(float).tolist(), [y.tolist()])[0, 1] for two in pairs]
    yield "from plain loops", f"{np.abs(found['share'] / plain - 1).max():.1e}"
    yield "scan, processor time", f"{took[0]:.0f} s"
    yield "loop over features in float64", f"{took_loops[0]:.0f} s"


def _best_by_loop(X, y, least=0.5, linked=0.9, at_once=50):
    """The best pairs (n, 2) and their shares: some features with all others at a time."""
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).T
    d, m = Z.shape
    u = y - y.mean()
    u /= np.linalg.norm(u)
    squares, c = Z**2, Z @ u
    best, n = np.empty((0, 3)), n_kept(N_FOUND)
    for start in range(0, d, at_once):
        x, w = Z[start : start + at_once], Z[start:]
        j, k = slice(start, start + at_once), slice(start, None)
        g, t = x @ w.T, (x * u) @ w.T
        b_j, b_k = squares[j] @ w.T, x @ squares[k].T
        v = squares[j] @ squares[k].T - g * g / m
        det = np.where(g * g <= linked * m * m, m * m - g * g, np.nan)
        beta_j, beta_k = (m * b_j - g * b_k) / det, (m * b_k - g * b_j) / det
        left = v - b_j * beta_j - b_k * beta_k
        by, of = c[j, None], c[k]
        explained = m * (by**2 - 2 * (g / m) * by * of + of**2) / det
        share = (t - by * beta_j - of * beta_k) ** 2 / left / (1 - explained)
        later = np.arange(len(x))[:, None] < np.arange(len(w))
        share = np.where(later & (left >= least * m), np.nan_to_num(share), 0.0)
        rows = np.argwhere(share > (best[-1, 2] if len(best) == n else 0.0))
        found = np.column_stack([rows + start, share[*rows.T]])
        best = np.concatenate([best, found])
        best = best[np.lexsort((best[:, 1], best[:, 0], -best[:, 2]))][:n]
    pairs = best[:, :2].astype(int)
    best[:, 2] = [
        min(s, _given_squares(*Z[two], u)) for two, s in zip(pairs, best[:, 2], strict=True)
    ]
    best = best[np.lexsort((best[:, 1], best[:, 0], -best[:, 2]))][:N_FOUND]
    return best[:, :2].astype(int), best[:, 2]


def _given_squares(x, w, u):
    """Share of the product of two features where their squares are taken out too."""
    own = np.column_stack([np.ones_like(x), x, w, x * x, w * w])
    left = np.column_stack([x * w, u])
    z, y = (left - own @ np.linalg.lstsq(own, left)[0]).T
    return (z @ y) ** 2 / (z @ z) / (y @ y)


HEADS = {
    "width": ("", "processor", "wall", "over bare: processor", "wall"),
    "planted": ("draw", "pairs", "others", "unlinked", "processor", "wall"),
    "null": ("level", "runs that err", "95% interval"),
    "loops": ("", ""),
}
SIZES = {"width": "2000x100000", "planted": "1000x20000", "null": "200x3000", "loops": "1000x10000"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(HEADS))
    parser.add_argument("--size")
    parser.add_argument("--every", type=int, default=16)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--method", default="bahsic", help="what selects the main effects")
    parser.add_argument("--joint", action="store_true", help="null: of interactions='best'")
    parser.add_argument("--effects", type=int, default=0, help="null: variants with an effect")
    parser.add_argument("--permuted", type=int, help="null: features up to which all are permuted")
    parser.add_argument("--permutations", type=int, default=100)
    given = parser.parse_args()
    m, d = map(int, (given.size or SIZES[given.what]).split("x"))
    rows = {
        "width": lambda: width(m, d, given.every),
        "planted": lambda: planted(m, d, given.draws or 10, given.method, given.permutations),
        "null": lambda: null(m, d, given.draws or 200, given.joint, given.effects, given.permuted),
        "loops": lambda: loops(m, d),
    }[given.what]()
    print(f"{m:,} samples x {d:,} features")
    print(table(HEADS[given.what], list(rows)))


if __name__ == "__main__":
    main()
