"""Level and power of the test of single features on samples with weights.

    python weights.py level --samples 100 300 --draws 200 --features 40 --page ../docs/weights.md
    python weights.py power --samples 300 --draws 300 --page ../docs/weights.md

Level: features that are independent of the labels in a population, of which samples are drawn with
a probability that depends on nothing, on a covariate that features and labels follow, on the label,
or on both label and feature; weights are 1 / probability. Power: one feature, by the test with
weights, by weighted regression with the robust variance (as `svyglm` of R), and without weights.
The table of the page that has the same heads is replaced.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import t as student
from tables import markdown, number, replace_table

import dhsic

#: Standard deviation of the logarithm of independent weights; and sizes of effects.
SPREAD, EFFECTS = 0.6, {"line": 0.25, "parabola": 0.45}
#: Correlation of the first features with the covariate, and part of features that follow it.
ON_FEATURES, FOLLOWING = 0.6, 0.2
DESIGNS = ("nothing", "covariate", "label", "label and features")
LEVELS = (0.05, 0.001)


def chances(design, c, y, X):
    """Probability of each member of the population to be drawn, up to a factor."""
    score = {"covariate": 1.2 * c, "label": y, "label and features": 0.7 * y + 0.5 * X[:, 0]}
    return 0.05 + 0.9 / (1 + np.exp(0.5 - score[design]))


def drawn(rng, m, design, n, *, genotypes, classes):
    """Features (m, n) that are independent of the labels in the population, labels, and weights."""
    size = m if design == "nothing" else 6 * m
    c = rng.standard_normal(size)
    X = rng.standard_normal((size, n))
    follows = np.arange(n) < FOLLOWING * n
    if design == "covariate":
        X = np.where(follows, ON_FEATURES * c[:, None] + (1 - ON_FEATURES**2) ** 0.5 * X, X)
    if genotypes:
        X = (X > 0.2).astype(float) + (X > 1.2)
    y = rng.standard_normal(size)
    y = (y > 0.5).astype(float) if classes else y
    if design == "nothing":
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
    heads = ["samples", "weights depend on", "label", "normal .05", ".001", "genotypes .05"]
    tell([*heads, ".001"], rows, options.page)


def tell(heads, rows, page):
    """Print a table, and put it into the page, if there is one."""
    print(markdown(heads, rows))
    if page is not None:
        replace_table(page, heads, rows)


def regression_p(x, y, weights):
    """p-value of the slope of a weighted regression of y on x, with the robust variance."""
    x = x - np.average(x, weights=weights)
    residuals = y - np.average(y, weights=weights)
    slope = (weights * x) @ residuals / ((weights * x) @ x)
    scores = weights * x * (residuals - slope * x)
    z = slope * ((weights * x) @ x) / np.sqrt(scores @ scores)
    return 2 * student.sf(abs(z), len(x) - 2)


def power(options):
    rows = []
    for m in options.samples:
        for shape, size in EFFECTS.items():
            rng, found = np.random.default_rng(options.seed), []
            for _ in range(options.draws):
                x = rng.standard_normal(m)
                effect = x if shape == "line" else (x * x - 1) / 2**0.5
                y = size * effect + rng.standard_normal(m)
                weights = np.exp(SPREAD * rng.standard_normal(m))
                n = round(float(weights.sum() ** 2 / (weights @ weights)))
                X = x[:, None]
                tests = [
                    dhsic.test_features(X, y, sample_weight=weights, runtime="threads"),
                    dhsic.test_features(X[:n], y[:n], runtime="threads"),
                    dhsic.test_features(X, y, runtime="threads"),
                ]
                p = [test.p_values[0] for test in tests]
                found.append(np.array([p[0], regression_p(x, y, weights), *p[1:]]) < 0.001)
            rows.append([f"{m:,}", shape, *(number(share, 2) for share in np.mean(found, axis=0))])
    heads = ["samples", "effect", "with weights", "weighted regression"]
    tell([*heads, "effective number, no weights", "no weights"], rows, options.page)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("level", "power"))
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="page with a table of the same heads")
    options = parser.parse_args()
    {"level": level, "power": power}[options.what](options)


if __name__ == "__main__":
    main()
