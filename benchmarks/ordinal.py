"""Power for ordinal labels, and selections with labels of heavy tails.

    python ordinal.py power --draws 150
    python ordinal.py selection --draws 20

Power: one feature and levels of a grade, beside the score test of a proportional-odds model.
Selection: three of 200 features explain the labels; the part of them among the first three, with
the label kernels "auto" and "rank", after elimination alone and after re-ranking.
"""

import argparse
import warnings

import numpy as np
from scipy.stats import chi2, rankdata
from tables import markdown, number

import dhsic

#: Shares of the samples in each level, from the lowest to the highest.
LEVELS = {
    "3, equal": (1 / 3, 1 / 3, 1 / 3),
    "5, equal": (0.2,) * 5,
    "5, most in the lowest": (0.7, 0.15, 0.08, 0.05, 0.02),
}
ALPHA = 0.001
#: Effects on the latent value that is divided into levels: of the location, or of other shapes.
EFFECTS = ("no effect", "trend", "only the highest level", "middle against both ends", "spread")


def latent(rng, x, effect):
    """Latent values (m,) that depend on x (m,)."""
    noise = rng.logistic(size=x.size)
    if effect == "trend":
        return 0.4 * x + noise
    if effect == "only the highest level":
        return noise + np.where(x > 1.0, rng.choice([0.0, 4.0], x.size), 0.0)
    if effect == "middle against both ends":
        return 0.7 * (x * x - 1.0) + noise
    return noise * np.exp(0.35 * x) if effect == "spread" else noise


def proportional_odds(y, x):
    """P-value of the score test of a proportional-odds model with the feature x alone."""
    score = rankdata(y) - (len(y) + 1) / 2
    x = x - x.mean()
    statistic = (score @ x) ** 2 * (len(y) - 1) / ((score @ score) * (x @ x))
    return chi2.sf(statistic, 1)


def power(options):
    kernels = ("ordinal", "multiclass")
    rows = []
    for levels, shares in LEVELS.items():
        edges = np.cumsum(shares)[:-1]
        for effect in EFFECTS:
            rng, found = np.random.default_rng(options.seed), []
            for _ in range(options.draws):
                x = rng.standard_normal(options.samples)
                z = latent(rng, x, effect)
                y = np.searchsorted(np.quantile(z, edges), z)
                p = [proportional_odds(y, x)]
                for kernel in kernels:
                    one = dhsic.test_features(x[:, None], y, label_kernel=kernel, runtime="threads")
                    p.append(one.p_values[0])
                found.append(p)
            level = 0.05 if effect == "no effect" else ALPHA
            parts = (np.array(found) < level).mean(axis=0)
            rows.append([levels, effect, *(number(part, 2) for part in parts)])
            print(*rows[-1], flush=True)
    print(markdown(("levels", "effect", "proportional odds", *kernels), rows))


def labels_of(rng, z, kind):
    """Labels (m,) that follow z (m,), with noise of the same size."""
    own = z + rng.standard_normal(z.size)
    if kind == "normal":
        return own
    if kind.startswith("log-normal"):
        return np.exp(float(kind.split()[1]) * own)
    if kind == "Cauchy":
        return z + rng.standard_cauchy(z.size)
    if kind == "one outlier":
        return np.append(own[:-1], 1e4)
    return rng.poisson(np.exp(4.0 + 2.0 * own)).astype(float)  # counts


def selection(options):
    kinds = ("normal", "log-normal 1", "log-normal 2", "Cauchy", "one outlier", "counts")
    relevant, rows = [5, 17, 60], []
    for kind in kinds:
        found = []
        for draw in range(options.draws):
            rng = np.random.default_rng((options.seed, draw))
            X = rng.standard_normal((options.samples, 200))
            y = labels_of(rng, X[:, relevant].sum(axis=1) * 0.35, kind)
            parts = []
            for rerank in (False, True):
                for kernel in ("auto", "rank"):
                    how = {"rerank": rerank and "auto", "label_kernel": kernel}
                    first = dhsic.select(X, y, n_features_to_select=3, progress=False, **how)
                    parts.append((first["rank"].to_numpy()[relevant] <= 3).mean())
            found.append(parts)
        rows.append([kind, *(number(part, 2) for part in np.mean(found, axis=0))])
        print(*rows[-1], flush=True)
    heads = ("labels", "eliminated: auto", "rank", "re-ranked: auto", "rank")
    print(markdown(heads, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("power", "selection"))
    parser.add_argument("--draws", type=int, default=150)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    {"power": power, "selection": selection}[options.what](options)


if __name__ == "__main__":
    main()
