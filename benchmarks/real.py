"""Which features are real: p-values of noise, and false discoveries of stability, by simulation.

    python benchmarks/real.py noise --features 1000000      # QQ of p-values of genotypes
    python benchmarks/real.py stability --runs 200

`noise`: genotypes that have nothing to do with the labels, half of them rare, 0.5% of calls
missing: the part of p-values at or below a level over the level, and its standard error.
`stability`: 100 features, 5 of them real; those that 90% of the halves select though they are not,
on average, beside the bounds of the result.
"""

import argparse
import warnings

import numpy as np
from tables import table

import dhsic
from dhsic.criteria.independence import Independence
from dhsic.passes import Tile
from dhsic.passes.once import Judge

LEVELS = (0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001)
SIZES = (100, 500, 2000)
AT_ONCE = 5000
CARRIERS = ((2, 17), (17, None))


def noise(n_features, m, kind, n_covariates, seed=1):
    """p-values of noise, and how many samples carry each variant."""
    rng = np.random.default_rng(seed)
    y, C = rng.standard_normal(m), None
    if n_covariates:
        C = rng.standard_normal((m, n_covariates))
    criterion = Independence(bandwidth="median")
    labels = criterion.read((y > 0.3).astype(int) if kind == "two classes" else y, C)
    judge = Judge(standardize=True, criterion=criterion, prepared=criterion.prepare(labels, C))
    p, carriers = [], []
    for start in range(0, n_features, AT_ONCE):
        rare = start // AT_ONCE % 2
        part = rng.uniform(1 / m, 20 / m, AT_ONCE) if rare else rng.uniform(0.01, 0.5, AT_ONCE)
        raw = rng.binomial(2, part[:, None], (AT_ONCE, m)).astype(np.int8)
        raw[rng.random(raw.shape) < 0.005] = -1
        p.append(10.0 ** -judge.over(iter([Tile(raw, -1)]), m)[1][0])
        counts = np.stack([(raw == code).sum(axis=1) for code in range(3)])
        carriers.append(counts.sum(axis=0) - counts.max(axis=0))
    return np.concatenate(p), np.concatenate(carriers)


def show_noise(options):
    rows = []
    for m in options.samples:
        for kind, q in (("real", 0), ("two classes", 0), ("real", 5)):
            p, carriers = noise(options.features, m, kind, q, options.seed)
            for least, most in CARRIERS:
                some = p[(carriers >= least) & (carriers < (most or m)) & np.isfinite(p)]
                cells = [
                    f"{(some <= a).mean() / a:.3f} ± {(1 / a / some.size) ** 0.5:.3f}"
                    for a in LEVELS
                ]
                of = f"{least} to {most - 1}" if most else f"{least} and more"
                rows.append((f"{m:,}", kind, str(q), of, f"{some.size:,}", *cells))
                print(rows[-1], flush=True)
    head = ("samples", "labels", "covariates", "carriers", "variants", *(f"{a:g}" for a in LEVELS))
    print(table(head, rows))


def show_stability(options):
    rows = []
    for q, threshold in ((5, 0.9), (10, 0.9), (10, 0.75), (10, 0.6)):
        wrong, found = [], []
        for run in range(options.runs):
            rng = np.random.default_rng([options.seed, run])
            X = rng.standard_normal((200, 100))
            y = X[:, :5].sum(axis=1) + 2.0 * rng.standard_normal(200)
            model = dhsic.OnePass(
                q,
                criterion="pearson",
                stability=100,
                stability_threshold=threshold,
                random_state=run,
                progress=False,
                runtime="threads",
            ).fit(X, y)
            stable = model.result_["stable"].to_numpy()
            wrong.append(stable[5:].sum())
            found.append(stable[:5].sum())
        about = model.result_.attrs
        error = np.std(wrong) / np.sqrt(len(wrong))
        rows.append(
            (
                str(q),
                str(threshold),
                f"{np.mean(found):.2f} of 5",
                f"{np.mean(wrong):.3f} ± {error:.3f}",
                f"{about['expected_false_concave']:.3f}",
                f"{about['expected_false']:.3f}",
            )
        )
        print(rows[-1], flush=True)
    head = ("selected", "threshold", "real ones", "false ones", "bound, r-concave", "bound, any")
    print(table(head, rows))


WHAT = {"noise": show_noise, "stability": show_stability}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, nargs="+", default=SIZES)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    WHAT[options.what](options)


if __name__ == "__main__":
    main()
