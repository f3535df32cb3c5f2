"""Level and power of the test of single features against censored times.

    python survival.py level --draws 200 --features 200
    python survival.py power --draws 300

Level: features that are independent of the time, while censoring is independent, or follows a
covariate that the features follow too. Power: one feature, beside the score test of a Cox model.
"""

import argparse

import numpy as np
from scipy.stats import chi2
from tables import markdown, number

import dhsic

CENSORED = (0.2, 0.5, 0.8)
#: Effect of the covariate on the logarithm of the hazard and of the time of censoring, and on
#: features.
ON_TIME, ON_CENSORING, ON_FEATURES = 0.7, 1.0, 0.6
#: Distinct times of heavy ties, and the level at which powers are compared.
TIED, ALPHA = 8, 0.001


def censoring_times(rng, times, share, scale):
    """Exponential times of censoring, of means proportional to `scale`, for a share of censored."""
    drawn = rng.exponential(size=times.size) * scale
    low, high = 1e-6, 1e6
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if (drawn * middle < times).mean() > share else (low, middle)
    return drawn * low


def records(times, censoring):
    """Structured array of events and times."""
    y = np.empty(times.size, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = times <= censoring, np.minimum(times, censoring)
    return y


def labels_of(rng, m, share, design):
    """Censored times, the covariate that features follow, and the covariates that are passed."""
    c = rng.standard_normal(m)
    follows = design in ("covariate, passed", "covariate, unknown")
    times = rng.exponential(size=m) * np.exp(-ON_TIME * c * (design == "covariate, passed"))
    scale = np.exp(ON_CENSORING * c) if follows else 1.0
    y = records(times, censoring_times(rng, times, share, scale))
    if design == "heavy ties":
        edges = np.quantile(y["time"], np.arange(1, TIED + 1) / TIED)
        y["time"] = edges[np.searchsorted(edges, y["time"])]
    return y, c if follows else 0.0 * c, c[:, None] if design == "covariate, passed" else None


def features_of(rng, c, n, *, are_genotypes):
    """Null features (m, n) that follow the covariate: normal values, or genotypes."""
    if not are_genotypes:
        own = rng.standard_normal((c.size, n))
        return ON_FEATURES * c[:, None] + (1 - ON_FEATURES**2) ** 0.5 * own
    frequency = 1 / (1 + np.exp(1 - 0.8 * c))
    return rng.binomial(2, frequency[:, None], (c.size, n)).astype(np.float32)


def level(options):
    rows = []
    for m in options.samples:
        for design in ("independent", "covariate, passed", "covariate, unknown", "heavy ties"):
            for share in CENSORED:
                rng, p = np.random.default_rng(options.seed), {False: [], True: []}
                for _ in range(options.draws):
                    y, c, C = labels_of(rng, m, share, design)
                    for kind, values in p.items():
                        X = features_of(rng, c, options.features, are_genotypes=kind)
                        found = dhsic.test_features(X, y, covariates=C, runtime="threads")
                        values.append(found.p_values)
                shares = [np.mean(np.array(p[k]) < a) for k in (False, True) for a in (0.05, 0.001)]
                own = [number(s, 4 + i % 2) for i, s in enumerate(shares)]
                rows.append([f"{m:,}", design, f"{share:.0%}", *own])
                print(*rows[-1], flush=True)
    heads = ("samples", "censoring", "censored", "normal .05", ".001", "genotypes .05", ".001")
    print(markdown(heads, rows))


def hazard_changes(rng, x, kind):
    """Times (m,) whose hazard depends on x (m,) always, or before or after a time, or crosses."""
    drawn = rng.exponential(size=x.size)
    if kind == "proportional":
        return drawn * np.exp(-0.25 * x)
    turn = 0.15 if kind == "early" else 0.7
    early = np.exp({"crossing": 0.6, "early": 0.8, "late": 0.0}[kind] * x)
    late = np.exp({"crossing": -0.6, "early": 0.0, "late": 0.8}[kind] * x)
    return np.where(drawn < early * turn, drawn / early, turn + (drawn - early * turn) / late)


def cox_p(y, x):
    """P-value of the score test of a Cox model with the feature x alone."""
    numerator = variance = 0.0
    for i in np.flatnonzero(y["event"]):
        there = x[y["time"] >= y["time"][i]]
        numerator += x[i] - there.mean()
        variance += there.var()
    return chi2.sf(numerator**2 / variance, 1)


def power(options):
    rows = []
    for kind in ("proportional", "crossing", "early", "late"):
        for share in (0.2, 0.5):
            rng, found = np.random.default_rng(options.seed), []
            for _ in range(options.draws):
                x = rng.standard_normal(options.samples[0])
                times = hazard_changes(rng, x, kind)
                y = records(times, censoring_times(rng, times, share, 1.0))
                own = dhsic.test_features(x[:, None], y, runtime="threads").p_values[0]
                found.append((cox_p(y, x), own))
            shares = (np.array(found) < ALPHA).mean(axis=0)
            rows.append([kind, f"{share:.0%}", *(number(s, 2) for s in shares)])
            print(*rows[-1], flush=True)
    print(markdown(("hazards", "censored", "Cox score test", "dhsic test"), rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("level", "power"))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    {"level": level, "power": power}[options.what](options)


if __name__ == "__main__":
    main()
