"""Level and power of the test of single features on samples with weights.

    python weights.py level --samples 100 300 1000 --draws 100
    python weights.py power --samples 300 --draws 300

Level: features that are independent of the labels in a population, of which samples are drawn with
a probability that depends on nothing, on a covariate that features and labels follow, on the label,
or on both label and feature; weights are 1 / probability. Power: one feature, with and without
weights.
"""

import argparse

import numpy as np
from tables import markdown, number

import dhsic

#: Standard deviation of the logarithm of independent weights; and size of an effect.
SPREAD, EFFECT = 0.6, 0.25
#: Correlation of the first features with the covariate, and part of features that follow it.
ON_FEATURES, FOLLOWING = 0.6, 0.2
DESIGNS = ("independent", "covariate", "label", "label and features")
LEVELS = (0.05, 0.001)


def chances(design, c, y, X):
    """Probability of each member of the population to be drawn, up to a factor."""
    score = {"covariate": 1.2 * c, "label": y, "label and features": 0.7 * y + 0.5 * X[:, 0]}
    return 0.05 + 0.9 / (1 + np.exp(0.5 - score[design]))


def drawn(rng, m, design, n, *, genotypes, classes):
    """Features (m, n) that are independent of the labels in the population, labels, and weights."""
    size = m if design == "independent" else 6 * m
    c = rng.standard_normal(size)
    X = rng.standard_normal((size, n))
    follows = np.arange(n) < FOLLOWING * n
    if design == "covariate":
        X = np.where(follows, ON_FEATURES * c[:, None] + (1 - ON_FEATURES**2) ** 0.5 * X, X)
    if genotypes:
        X = (X > 0.2).astype(float) + (X > 1.2)
    y = rng.standard_normal(size)
    y = (y > 0.5).astype(float) if classes else y
    if design == "independent":
        return X, y, np.exp(SPREAD * rng.standard_normal(m))
    chance = chances(design, c, (y - y.mean()) / y.std(), X)
    rows = np.flatnonzero(rng.random(size) < chance)[:m]
    return X[rows], y[rows], 1 / chance[rows]


def level(options):
    rows = []
    for m in options.samples:
        for design in DESIGNS:
            for classes in (False, True):
                shares = []
                for genotypes in (False, True):
                    rng, p = np.random.default_rng(options.seed), []
                    for _ in range(options.draws):
                        kind = {"genotypes": genotypes, "classes": classes}
                        X, y, weights = drawn(rng, m, design, options.features, **kind)
                        found = dhsic.test_features(X, y, sample_weight=weights, runtime="threads")
                        p.append(found.p_values)
                    shares += [number(np.mean(np.array(p) < a), 4 + (a < 0.01)) for a in LEVELS]
                rows.append([f"{m:,}", design, "two classes" if classes else "real", *shares])
                print(*rows[-1], flush=True)
    columns = ["samples", "sampling depends on", "label", "normal .05", ".001", "genotypes .05"]
    print(markdown([*columns, ".001"], rows))


def power(options):
    rows = []
    for m in options.samples:
        for shape in ("line", "parabola"):
            rng, found = np.random.default_rng(options.seed), []
            for _ in range(options.draws):
                x = rng.standard_normal(m)
                effect = x if shape == "line" else (x * x - 1) / 2**0.5
                y = EFFECT * effect + rng.standard_normal(m)
                weights = np.exp(SPREAD * rng.standard_normal(m))
                n = round(float(weights.sum() ** 2 / (weights @ weights)))
                X = x[:, None]
                tests = [
                    dhsic.test_features(X, y, sample_weight=weights, runtime="threads"),
                    dhsic.test_features(X[:n], y[:n], runtime="threads"),
                    dhsic.test_features(X, y, runtime="threads"),
                ]
                found.append([test.p_values[0] < 0.001 for test in tests])
            rows.append([f"{m:,}", shape, *(number(share, 2) for share in np.mean(found, axis=0))])
    columns = ["samples", "effect", "with weights", "effective number, no weights", "no weights"]
    print(markdown(columns, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("level", "power"))
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    {"level": level, "power": power}[options.what](options)


if __name__ == "__main__":
    main()
