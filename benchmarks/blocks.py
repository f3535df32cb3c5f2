"""Level and power of the test of single features if samples come in donors or batches.

    python blocks.py donors --draws 200 --features 100
    python blocks.py batches --draws 200
    python blocks.py power --draws 300

Level, donors: counts of cells with effects of donors, and labels of donors that are independent of
them. Level, batches: features and labels that both depend on the batch, and not on each other.
Power: one feature, beside a t-test of the means of donors, and the test with batches as covariate.
"""

import argparse

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind
from tables import markdown, number

import dhsic

#: Standard deviation of the effects of donors on the logarithm of the mean count.
DONOR_EFFECT = 0.5
#: Effect of batches on features, and range of the share of cases among batches.
BATCH_EFFECT, SHARES = 1.0, (0.15, 0.85)
#: Level at which powers are compared.
ALPHA = 0.001


def donors_of(rng, n_donors, n_cells, *, are_uneven):
    """Donor of each cell; with uneven numbers, from a twentieth to twice the mean."""
    sizes = np.full(n_donors, n_cells)
    if are_uneven:
        sizes = np.maximum((n_cells * np.geomspace(0.05, 2.5, n_donors)).astype(int), 2)
    return np.repeat(np.arange(n_donors), rng.permutation(sizes))


def counts_of(rng, donors, n):
    """Counts of n genes (m, n) that differ between donors."""
    means = rng.gamma(1.0, size=n)
    effects = np.exp(DONOR_EFFECT * rng.standard_normal((donors.max() + 1, n)))
    return rng.poisson(means * effects[donors]).astype(np.float32)


def label_of(rng, n_donors, kind):
    """Labels of donors, independent of all else: two classes, one of which may be rare; or ages."""
    if kind == "ages":
        return rng.normal(50, 15, n_donors)
    n_cases = n_donors // 2 if kind == "two classes" else max(2, n_donors // 5)
    return rng.permutation(np.arange(n_donors) < n_cases).astype(int)


def p_values(X, y, **blocks):
    return dhsic.test_features(X, y, runtime="threads", **blocks).p_values


def levels(p):
    """Shares of p-values up to 0.05 and 0.001, and the smallest."""
    p = np.concatenate(p)
    return [number((p <= 0.05).mean(), 4), number((p <= 0.001).mean(), 5)]


def level_of_donors(options):
    rows = []
    for n_donors in options.donors:
        for kind in ("two classes", "rare class", "ages"):
            for are_uneven in (False, True):
                rng, plain, whole = np.random.default_rng(options.seed), [], []
                for draw in range(options.draws):
                    donors = donors_of(rng, n_donors, options.cells, are_uneven=are_uneven)
                    y = label_of(rng, n_donors, kind)[donors]
                    X = counts_of(rng, donors, options.features)
                    X = X[:, np.ptp(X, axis=0) > 0]
                    whole.append(p_values(X, y, permute_whole=donors))
                    if draw < 20:
                        plain.append(p_values(X, y))
                sizes = "uneven" if are_uneven else "equal"
                rows.append([n_donors, kind, sizes, *levels(plain), *levels(whole)])
                print(*rows[-1], flush=True)
    heads = ("donors", "labels", "cells", "today .05", ".001", "permute_whole .05", ".001")
    print(markdown(heads, rows))


def batches_of(rng, design):
    """Batches of samples, and labels whose share of cases differs between batches."""
    if design == "pairs":
        batch = np.repeat(np.arange(100), 2)
        return batch, np.tile([0, 1], 100)
    sizes = [100] * 5 if design == "5 batches" else [200, 100, 50, 20, 10, 5, 2, 1]
    batch = np.repeat(np.arange(len(sizes)), sizes)
    shares = rng.permutation(np.linspace(*SHARES, len(sizes)))
    return batch, (rng.random(batch.size) < shares[batch]).astype(int)


def features_of(rng, batch, n, *, vary):
    """Features that differ between batches in their means and, if `vary`, in their spread."""
    shift = BATCH_EFFECT * rng.standard_normal((batch.max() + 1, n))
    spread = np.exp(rng.standard_normal((batch.max() + 1, n))) if vary else np.ones(1)
    noise = rng.standard_normal((batch.size, n))
    return shift[batch] + (spread[batch] if vary else spread) * noise


def level_of_batches(options):
    rows = []
    for design in ("5 batches", "8 uneven batches", "pairs"):
        for kind in ("two classes", "numbers"):
            for vary in (False, True):
                rng, found = np.random.default_rng(options.seed), ([], [], [])
                for _ in range(options.draws):
                    batch, y = batches_of(rng, design)
                    if kind == "numbers":
                        y = y + 0.5 * rng.standard_normal(y.size)
                    X = features_of(rng, batch, options.features, vary=vary)
                    names = pd.Series(batch).map("b{}".format).to_numpy()
                    C = pd.get_dummies(names, drop_first=True, dtype=float).to_numpy()
                    for values, how in zip(
                        found, ({}, {"covariates": C}, {"permute_within": names}), strict=True
                    ):
                        values.append(p_values(X, y, **how))
                spread = "differs" if vary else "equal"
                rows.append([design, kind, spread, *(each for p in found for each in levels(p))])
                print(*rows[-1], flush=True)
    heads = ("batches", "labels", "spread", "today .05", ".001", "covariate .05", ".001")
    print(markdown((*heads, "permute_within .05", ".001"), rows))


def cells_that_depend(rng, donors, y, kind):
    """One gene (m,): cases differ in mean, in spread, or in the share of cells that express it."""
    effect = 0.3 * rng.standard_normal(donors.max() + 1)
    case = y[donors]
    base = effect[donors] + 0.8 * case * (kind == "mean")
    if kind == "share of cells":
        base = base + 2.0 * (rng.random(donors.size) < 0.1 + 0.2 * case)
    spread = np.exp(0.35 * case) if kind == "spread" else 1.0
    return base + spread * rng.standard_normal(donors.size)


def power(options):
    rows = []
    for kind in ("mean", "share of cells", "spread"):
        for n_donors in (10, 20, 40):
            rng, found = np.random.default_rng(options.seed), []
            for _ in range(options.draws):
                donors = donors_of(rng, n_donors, 50, are_uneven=False)
                y = label_of(rng, n_donors, "two classes")
                x = cells_that_depend(rng, donors, y, kind)
                means = np.bincount(donors, x) / np.bincount(donors)
                t = ttest_ind(means[y == 1], means[y == 0]).pvalue
                found.append((t, p_values(x[:, None], y[donors], permute_whole=donors)[0]))
            shares = (np.array(found) <= (0.05 if n_donors < 20 else ALPHA)).mean(axis=0)
            level = "0.05" if n_donors < 20 else ALPHA
            rows.append([kind, n_donors, level, *(number(s, 2) for s in shares)])
            print(*rows[-1], flush=True)
    print(markdown(("cases differ in", "donors", "level", "t-test of means", "dhsic"), rows))
    rows = []
    for design in ("5 batches", "8 uneven batches", "pairs"):
        rng, found = np.random.default_rng(options.seed), []
        for _ in range(options.draws):
            batch, y = batches_of(rng, design)
            x = features_of(rng, batch, 1, vary=False) + 0.45 * y[:, None]
            C = pd.get_dummies(batch, drop_first=True, dtype=float).to_numpy()
            by_covariate = p_values(x, y, covariates=C)[0]
            found.append((by_covariate, p_values(x, y, permute_within=batch)[0]))
        rows.append([design, *(number(s, 2) for s in (np.array(found) <= ALPHA).mean(axis=0))])
        print(*rows[-1], flush=True)
    print(markdown(("batches", "batches as covariate", "permute_within"), rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("donors", "batches", "power"))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--donors", type=int, nargs="+", default=[6, 10, 20, 40])
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tasks = {"donors": level_of_donors, "batches": level_of_batches, "power": power}
    tasks[options.what](options)


if __name__ == "__main__":
    main()
