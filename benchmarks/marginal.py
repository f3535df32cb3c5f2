"""Marginal interactions: level without interactions, power with them, and processor time.

    python benchmarks/marginal.py level [--size 500x2000] [--draws 100] [--only NAME ...]
    python benchmarks/marginal.py power [--size 1000x500] [--draws 50]
    python benchmarks/marginal.py time [--size 2000x100000]

- level: share of p-values at or below 0.05, 0.01 and 0.001, divided by this level, in parentheses
  the standard error over draws. Each draw has new labels, every fifth one new genotypes.
- power: draws in which a hub (a variant that interacts with several others) or a single pair is
  significant family-wise (0.05): by its marginal interactions (Bonferroni), by the scan of all
  pairs, and by the scan of pairs of the 20 best marginal features (`screen=20`).
- time: processor time of marginal interactions and of `dhsic test`, on the same int8 genotypes.
"""

import argparse
import sys
import time
import warnings

import numpy as np
from tables import table

import dhsic
from dhsic.runtime.threads import Threads

LEVELS = (0.05, 0.01, 0.001)
#: Explained share of the labels' variance: by all pairs of a hub, and by a single pair.
HUB, PAIR = 0.2, 0.06


def genotypes(rng, m, d, low=0.05, high=0.5, sibs=1):
    """Dosages (m, d) int8 of unlinked variants, of unrelated samples or families of siblings."""
    frequency = rng.uniform(low, high, d)
    if sibs == 1:
        return rng.binomial(2, frequency, (m, d)).astype(np.int8)
    parents = rng.binomial(1, frequency, (-(-m // sibs), 2, 2, d)).astype(np.int8)
    family = np.repeat(np.arange(len(parents)), sibs)[:m]
    of_parent = [
        np.where(rng.random((m, d)) < 0.5, parents[family, i, 0], parents[family, i, 1])
        for i in (0, 1)
    ]
    return of_parent[0] + of_parent[1]


def scaled(x):
    """Columns with mean 0 and variance 1."""
    return (x - x.mean(axis=0)) / x.std(axis=0)


def scenario(name, rng, X):
    """Labels (m,) and covariates of a draw without interactions."""
    m, noise, C = len(X), rng.standard_normal(len(X)), None
    if name == "covariates":
        C = rng.standard_normal((m, 5))
        C[:, 0] += scaled(X[:, 0])
        noise += C.sum(axis=1)
    elif name in ("siblings", "pairs of siblings"):
        polygenic = scaled(scaled(X) @ rng.standard_normal(X.shape[1]))
        noise = (noise + polygenic) / np.sqrt(2)
    elif name == "main effects":
        noise += 0.5 * scaled(X[:, :5]).sum(axis=1)
    elif name == "spread":
        noise *= np.exp(0.3 * scaled(X[:, 0]))
    elif name == "skewed":
        noise = rng.exponential(size=m)
    elif name == "two classes":
        noise = np.where(noise > 0.8, "case", "control")
    elif name == "three classes":
        noise = np.array(["a", "b", "c"])[np.digitize(noise, [-0.5, 0.5])]
    return noise, C


SCENARIOS = {
    "unrelated": {},
    "covariates": {},
    "main effects": {},
    "pairs of siblings": {"sibs": 2},
    "siblings": {"sibs": 4},
    "rare": {"low": 0.02, "high": 0.05},
    "spread": {},
    "skewed": {},
    "two classes": {},
    "three classes": {},
}


def level(m, d, draws, only):
    """Rows: scenario, and relative level at each of `LEVELS`."""
    for name in only or SCENARIOS:
        rng, rates = np.random.default_rng(0), []
        for draw in range(draws):
            if draw % 5 == 0:
                X = genotypes(rng, m, d, **SCENARIOS[name])
                X = X[:, X.std(axis=0) > 0]
            y, C = scenario(name, rng, X)
            found = dhsic.marginal_interactions(X, y, covariates=C, random_state=draw)
            p = found["p_value"].to_numpy()
            rates.append([np.mean(p <= at) / at for at in LEVELS])
        mean, error = np.mean(rates, axis=0), np.std(rates, axis=0) / np.sqrt(draws)
        yield name, *(f"{a:.2f} ({b:.2f})" for a, b in zip(mean, error, strict=True))


def power(m, d, draws):
    """Rows: what was planted, and draws in which each test finds it."""
    for n in (10, 30, 50, 1):
        found = np.zeros(3, dtype=int)
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            X = genotypes(rng, m, d, low=0.2)
            Z = scaled(X)
            joint = scaled(Z[:, 0] * (Z[:, 1 : 1 + n] @ rng.choice([-1, 1], n)))
            h = PAIR if n == 1 else HUB
            y = np.sqrt(h) * joint + np.sqrt(1 - h) * rng.standard_normal(m)
            marginal = dhsic.marginal_interactions(X, y).to_dataframe().set_index("feature")
            found[0] += marginal["p_value"][0] <= 0.05 / d
            for place, options in ((1, {}), (2, {"screen": 20})):
                pairs = dhsic.find_pairs(X, y, n_pairs=20, **options).to_dataframe()
                true = (pairs["first"] == 0) & (pairs["second"] <= n)
                found[place] += bool((pairs["family_wise"][true] <= 0.05).any())
        yield f"{n} partners, {h / n:.1%} each" if n > 1 else f"one pair, {h:.0%}", *found


def timed(m, d):
    """Rows: test, processor time in seconds."""
    rng = np.random.default_rng(0)
    X, y = genotypes(rng, m, d), rng.standard_normal(m)
    with Threads(1) as runtime:
        for name, test in (
            ("dhsic test", dhsic.test_features),
            ("marginal interactions", dhsic.marginal_interactions),
        ):
            begin = time.process_time()
            test(X, y, runtime=runtime)
            yield name, f"{time.process_time() - begin:.1f} s"


def shown(rows):
    """The same rows; each is printed on stderr when it is known."""
    for row in rows:
        print(*row, sep="  ", file=sys.stderr, flush=True)
        yield row


def main():
    """Parse the arguments and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("level", "power", "time"))
    parser.add_argument("--size")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--only", nargs="*")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    size = {"level": "500x2000", "power": "1000x500", "time": "2000x100000"}[asked.what]
    m, d = map(int, (asked.size or size).split("x"))
    if asked.what == "level":
        heads, rows = ("labels", *map(str, LEVELS)), level(m, d, asked.draws or 100, asked.only)
    elif asked.what == "power":
        heads = "planted", "marginal", "all pairs", "screen=20"
        rows = power(m, d, asked.draws or 50)
    else:
        heads, rows = ("test", "processor time"), timed(m, d)
    print(table(heads, shown(rows)))


if __name__ == "__main__":
    main()
