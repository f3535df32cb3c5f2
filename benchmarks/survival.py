"""Level and power of the test of single features against censored times.

    python survival.py level --draws 200 --features 200
    python survival.py level --draws 200 --samples 100 --test cox
    python survival.py power --draws 300

Level: features that are independent of the time, while censoring is independent, or follows a
covariate that the features follow too, by `dhsic test` or by the score test of a Cox model. Power:
one feature, by both.
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


def share_below(p_values, alpha):
    """Share of p-values (draws, n) below alpha, and its standard error over draws."""
    shares = (np.array(p_values) < alpha).mean(axis=1)
    digits = 4 if alpha > 0.01 else 5
    error = shares.std(ddof=1) / len(shares) ** 0.5
    return f"{number(shares.mean(), digits)} ± {number(error, digits)}"


def level(options):
    rows = []
    for m in options.samples:
        for design in ("independent", "covariate, passed", "covariate, unknown", "heavy ties"):
            for share in CENSORED:
                rng, p = np.random.default_rng(options.seed), {False: [], True: []}
                for _ in range(options.draws):
                    y, c, C = labels_of(rng, m, share, design)
                    X = [features_of(rng, c, options.features, are_genotypes=kind) for kind in p]
                    found = TESTS[options.test](np.hstack(X), y, C)
                    for values, of_kind in zip(p.values(), np.split(found, 2), strict=True):
                        values.append(of_kind)
                own = [share_below(p[k], a) for k in (False, True) for a in (0.05, 0.001)]
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


def own_p(X, y, C=None):
    """p-values of `dhsic test`."""
    return dhsic.test_features(X, y, covariates=C, runtime="threads").p_values


def cox_p(X, y, C=None):
    """p-values of the score tests of Cox models with each feature, (n,), and covariates C."""
    X, C = X.astype(float), np.empty((len(X), 0)) if C is None else C
    numerator, variance, with_C, information = _cox_sums(X, y, C, _cox_coefficients(y, C))
    if C.size:
        variance = variance - (with_C * np.linalg.solve(information, with_C)).sum(axis=0)
    return chi2.sf(numerator**2 / np.maximum(variance, 1e-12), 1)


def _cox_coefficients(y, C):
    """Coefficients of a Cox model with the covariates alone, by Newton's method."""
    beta = np.zeros(C.shape[1])
    for _ in range(15 if C.size else 0):
        gradient, _, _, information = _cox_sums(C, y, C, beta)
        beta = beta + np.linalg.solve(information, gradient)
    return beta


def _cox_sums(X, y, C, beta):
    """Scores and variances of X, covariances with C and information on C, with tied events."""
    numerator, variance = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    with_C, information = np.zeros((C.shape[1], X.shape[1])), np.zeros((C.shape[1],) * 2)
    relative = np.exp(C @ beta)
    for time in np.unique(y["time"][y["event"]]):
        there, died = y["time"] >= time, (y["time"] == time) & y["event"]
        n, deaths = there.sum(), died.sum()
        weights = relative[there] / relative[there].sum()
        Z, K = X[there] - weights @ X[there], C[there] - weights @ C[there]
        numerator += X[died].sum(axis=0) - deaths * (weights @ X[there])
        times = deaths * (n - deaths) / max(n - 1, 1)
        variance += times * (weights @ Z**2)
        with_C += times * (K.T * weights) @ Z
        information += times * (K.T * weights) @ K
    return numerator, variance, with_C, information


#: Tests whose level is measured.
TESTS = {"dhsic": own_p, "cox": cox_p}


def power(options):
    rows = []
    for kind in ("proportional", "crossing", "early", "late"):
        for share in (0.2, 0.5):
            rng, found = np.random.default_rng(options.seed), []
            for _ in range(options.draws):
                x = rng.standard_normal(options.samples[0])
                times = hazard_changes(rng, x, kind)
                y = records(times, censoring_times(rng, times, share, 1.0))
                found.append((cox_p(x[:, None], y)[0], own_p(x[:, None], y)[0]))
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
    parser.add_argument("--test", choices=TESTS, default="dhsic")
    options = parser.parse_args()
    {"level": level, "power": power}[options.what](options)


if __name__ == "__main__":
    main()
