"""Members of the family: against what they cannot avoid, and what each of them sees.

    python benchmarks/family.py forward    # FOHSIC of 50 from 1,000 x 20,000 over its bare products
    python benchmarks/family.py xor        # BAHSIC, polynomial of degree 2: a pair among 20,000
    python benchmarks/family.py shapes     # one feature among many, by the shape of its effect

*forward*: the time of `dhsic.FOHSIC` over that of the plain ``numpy.matmul`` products that its
terms need (as the history counts them: one column of ``A f`` a term and feature, in its precision),
BLAS free to use every core, in the same process; the median of --repeat runs, each timed next to
its products. *xor*: the sign of the product of two of 20,000 normal features is the label; where
the two come in the ranking, time, and the peak memory of the process. *shapes*: one normal feature
explains half of the labels, by a line or not; its rank, the median of ten draws.
"""

import argparse
import json
import time

import numpy as np
from exact import bare_products
from measuring import MIB

import dhsic
from dhsic.memory import peak_bytes
from dhsic.results.views import rounds_of_engines

#: What the labels are of one feature, before they are scaled and noise of the same size is added.
SHAPES = {
    "line": lambda x: x,
    "step": np.sign,
    "wave": lambda x: np.sin(3 * x),
    "square": np.square,
    "magnitude": np.abs,
}
SIZES = ((200, 100), (400, 1_000))
_QUIET = {"progress": False, "runtime": "threads"}
RANKED_BY = {
    "default": lambda: dhsic.BAHSIC(5, **_QUIET),
    "Algorithm 1": lambda: dhsic.BAHSIC(5, rerank=False, **_QUIET),
    "laplace-l1": lambda: dhsic.BAHSIC(5, kernel="laplace-l1", rerank=False, **_QUIET),
    "hsic": lambda: dhsic.OnePass(5, criterion="hsic", **_QUIET),
    "pearson": lambda: dhsic.OnePass(5, criterion="pearson", **_QUIET),
}


def normal(m, d):
    return np.random.default_rng(0).standard_normal((m, d), dtype=np.float32)


def forward(options):
    m, d = options.samples, options.features
    X = normal(m, d)
    y = (X[:, :20].sum(axis=1) + X[:, 20] ** 2 > 1).astype(int)
    runs = []
    for _ in range(options.repeat):
        start = time.perf_counter()
        result = dhsic.FOHSIC(50, progress=False, runtime="threads").fit(X, y).result_
        seconds = time.perf_counter() - start
        counted = rounds_of_engines(result)
        products = {t: int(sum(counted[f"products_{t}"])) for t in ("float32", "float64")}
        floor, _ = bare_products(m, [(n, dtype) for dtype, n in products.items()])
        runs.append((seconds / floor, seconds, floor, products))
    ratio, seconds, floor, products = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    found = int(result["selected"].to_numpy()[:21].sum())
    return {
        "samples x features": f"{m:,} x {d:,}",
        "run": f"{seconds:.1f} s",
        "bare products": f"{floor:.1f} s",
        "run / bare": f"{ratio:.2f}",
        "columns float32": f"{products['float32']:,}",
        "columns float64": f"{products['float64']:,}",
        "planted found": f"{found} of 21",
    }


def xor(options):
    m, d = options.samples, options.features
    X = normal(m, d)
    y = (X[:, 3] * X[:, 7] > 0).astype(int)
    start = time.perf_counter()
    model = dhsic.BAHSIC(2, kernel="polynomial", progress=False, runtime="threads").fit(X, y)
    return {
        "samples x features": f"{m:,} x {d:,}",
        "run": f"{time.perf_counter() - start:.1f} s",
        "ranks of the pair": f"{model.ranking_[3]} and {model.ranking_[7]}",
        "peak memory": f"{peak_bytes() / MIB:,.0f} MiB",
        "promised": f"{model.result_.attrs['promised_bytes'] / MIB:,.0f} MiB",
    }


def shapes(options):
    return {
        f"{name}, {m:,} x {d:,}": ", ".join(
            f"{by} {np.median([*ranks_of_first(make, m, d, f, options.repeat)]):,.0f}"
            for by, make in RANKED_BY.items()
        )
        for m, d in SIZES
        for name, f in SHAPES.items()
    }


def ranks_of_first(make, m, d, f, draws):
    """Ranks of feature 0, of which the labels are made."""
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((m, d))
        effect = f(X[:, 0])
        y = effect / effect.std() + rng.standard_normal(m)
        yield make().fit(X, y).ranking_[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["forward", "xor", "shapes"])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--features", type=int, default=20000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = {"forward": forward, "xor": xor, "shapes": shapes}[options.what](options)
    if options.json:
        print(json.dumps(table))
    else:
        for name, value in table.items():
            print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
