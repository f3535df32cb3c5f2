"""Level and power of the tests of independence, by simulation; and what a test costs.

    python benchmarks/independence.py                      # 300 data sets of 50 and of 100 samples
    python benchmarks/independence.py --samples 200 --simulations 1000

Printed is the part of data sets in which independence is rejected, at 5% and at 1%. In the rows
"independent" and "confounded, C taken out" there is nothing to find, so that it should be the
level; in the others there is. The standard error of a part p of n simulations is
sqrt(p (1 - p) / n): 1.3% at 5% of 300.
"""

import argparse
import json
import time

import numpy as np
from tables import seconds, table

from dhsic.independence import METHODS, hsic_test

LEVELS = (0.05, 0.01)


def independent(rng, m):
    """Two normal columns and exponential labels."""
    return {"X": rng.standard_normal((m, 2)), "Y": rng.exponential(size=m)}


def three_classes(rng, m):
    """Ten features and classes that have nothing to do with them."""
    return {"X": rng.standard_normal((m, 10)), "Y": np.arange(m) % 3}


def linear(rng, m):
    """A correlation of 0.3."""
    x, noise = rng.standard_normal((2, m))
    return {"X": x, "Y": 0.3 * x + np.sqrt(1 - 0.3**2) * noise}


def square(rng, m):
    """No correlation: a parabola under as much noise as signal."""
    x = rng.uniform(-1, 1, m)
    return {"X": x, "Y": x**2 + 0.3 * rng.standard_normal(m)}


def circle(rng, m):
    """Every function of x alone is uncorrelated with y."""
    angle = rng.uniform(0, 2 * np.pi, m)
    x, y = np.cos(angle), np.sin(angle)
    return {"X": x + 0.2 * rng.standard_normal(m), "Y": y + 0.2 * rng.standard_normal(m)}


def class_of_a_product(rng, m):
    """Two classes by the sign of the product of two features among four."""
    X = rng.standard_normal((m, 4))
    return {"X": X, "Y": X[:, 0] * X[:, 1] > 0}


def confounded(rng, m):
    """X and Y follow C."""
    C, x, y = rng.standard_normal((3, m))
    return {"X": C + x, "Y": C + y, "label_kernel": "linear"}


def confounder_out(rng, m):
    """X and Y follow C, which is taken out."""
    C, x, y = rng.standard_normal((3, m))
    return {"X": C + x, "Y": C + y, "covariates": C, "label_kernel": "linear"}


WORLDS = {
    "independent": independent,
    "independent, 3 classes": three_classes,
    "confounded, C taken out": confounder_out,
    "confounded": confounded,
    "correlation 0.3": linear,
    "parabola": square,
    "circle": circle,
    "sign of a product": class_of_a_product,
}


def simulate(world, m, options):
    """p-values by every method, (simulations, methods), and seconds a test."""
    p_values = np.empty((options.simulations, len(METHODS)))
    spent = np.zeros(len(METHODS))
    for i in range(options.simulations):
        data = WORLDS[world](np.random.default_rng([i, m]), m)
        for k, method in enumerate(METHODS):
            start = time.perf_counter()
            test = hsic_test(
                **data, method=method, n_permutations=options.permutations, random_state=i
            )
            spent[k] += time.perf_counter() - start
            p_values[i, k] = test.p_value
    return p_values, spent / options.simulations


def measured(options):
    """A record for every world, number of samples and method."""
    for world in WORLDS:
        for m in options.samples:
            p_values, spent = simulate(world, m, options)
            for k, method in enumerate(METHODS):
                yield {
                    "world": world,
                    "samples": m,
                    "method": method,
                    "rejected": {str(a): float((p_values[:, k] <= a).mean()) for a in LEVELS},
                    "seconds": float(spent[k]),
                }


def printed(records):
    """One row for every world and number of samples."""
    heads = ["", "samples"]
    heads += [f"{method} {level:.0%}" for method in METHODS for level in LEVELS]
    rows = {}
    for record in records:
        row = rows.setdefault((record["world"], record["samples"]), [])
        row += [f"{part:.1%}" for part in record["rejected"].values()]
    costs = {method: [] for method in METHODS}
    for record in records:
        costs[record["method"]].append(record["seconds"])
    cost = ", ".join(f"{method} {seconds(np.mean(times))}" for method, times in costs.items())
    return f"{table(heads, [[*key, *row] for key, row in rows.items()])}\n\na test: {cost}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--simulations", type=int, default=300)
    parser.add_argument("--permutations", type=int, default=499)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    records = list(measured(options))
    print(json.dumps(records) if options.json else printed(records))


if __name__ == "__main__":
    main()
