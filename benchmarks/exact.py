"""The exact engine against what it cannot avoid and against the definition.

(a) The time of a whole run (all features ranked) over the time of the bare matrix products that
    its chosen orders need: plain ``numpy.matmul`` of the same shapes and precisions, BLAS free
    to use every core, in the same process.
(b) One round of the definition, vectorised per feature (m x m exponentials each, on as many
    threads as the engine), over the first round of the engine.

    python benchmarks/exact.py                    # 1,000 x 20,000 normal data, binary labels
    python benchmarks/exact.py --mouse DIRECTORY  # and the mouse genotypes, mouse_hs1940.npz

Medians of --repeat runs; each repetition times run and bare products one after the other, so
that a busy machine slows both.
"""

import argparse
import json
import platform
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import dhsic
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix
from dhsic.runtime.threads import usable_cores

PASS = re.compile(r"order (\d+) (float\d+): (\d+)")
#: Rows of a bare product at a time: large enough for full speed, small enough for memory.
ROWS = 8192


def normal_data(m, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d), dtype=np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(m) > 0).astype(int)
    return X, y


def mouse_data(directory):
    with np.load(Path(directory) / "mouse_hs1940.npz", allow_pickle=False) as file:
        X, y = file["X"], file["pheno"][:, 0]
    known = np.isfinite(y)
    return X[known].astype(np.float32), y[known]


def timed(function):
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def fit(X, y, label_kernel):
    model = dhsic.BAHSIC(50, step=0.1, label_kernel=label_kernel, progress=False, runtime="threads")
    return model.fit(X, y)


def passes(result):
    """(rows, dtype) of every product of the run, from its history."""
    products = zip(
        result["round_engine"].values,
        result["round_products_float64"].values,
        strict=True,
    )
    for engine, double in products:
        left = int(double)
        for order, dtype, n in PASS.findall(engine):
            rows = int(order) * int(n)
            yield rows, dtype
            left -= rows if dtype == "float64" else 0
        if left:  # passes to convergence, of several orders
            yield left, "float64"


def bare_products(m, shapes):
    """Time of the products alone."""
    A = {t: np.random.default_rng(1).standard_normal((m, m)).astype(t) for t in ("f4", "f8")}
    X = {t: np.random.default_rng(2).standard_normal((ROWS, m)).astype(t) for t in ("f4", "f8")}
    out = {t: np.empty((ROWS, m), dtype=t) for t in ("f4", "f8")}
    total = 0.0
    for rows, dtype in shapes:
        key = "f4" if dtype == "float32" else "f8"
        for done in range(0, rows, ROWS):
            n = min(rows - done, ROWS)
            start = time.perf_counter()
            np.matmul(X[key][:n], A[key], out=out[key][:n])
            total += time.perf_counter() - start
    return total


def definition_round(X, y, label_kernel, n_timed):
    """Seconds that one round of the definition takes, from `n_timed` features."""
    d = X.shape[1]
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float64)
    W = weights(label_matrix(y, label_kernel).L)
    norms = (Z * Z).sum(axis=1)
    D = norms[:, None] + norms[None, :] - 2 * Z @ Z.T
    sigma = 1 / (2 * d)

    def one(j):
        delta = np.subtract.outer(Z[:, j], Z[:, j])
        return float(np.vdot(W, np.exp(-sigma * (D - delta * delta))))

    features = np.linspace(0, d - 1, n_timed).astype(int)
    with ThreadPoolExecutor(usable_cores()) as pool, threadpool_limits(1):
        seconds, _ = timed(lambda: list(pool.map(one, features)))
    return seconds * d / n_timed


def measure(name, X, y, label_kernel, repeat, n_timed):
    X = np.ascontiguousarray(X[:, X.std(axis=0) > 0])
    m, d = X.shape
    totals, bares, rounds, definitions = [], [], [], []
    for _ in range(repeat):
        total, model = timed(lambda: fit(X, y, label_kernel))
        totals.append(total)
        bares.append(bare_products(m, list(passes(model.result_))))
        rounds.append(float(model.result_["round_seconds"][0]))
        definitions.append(definition_round(X, y, label_kernel, n_timed))
    ratios = np.array(totals) / np.array(bares)
    speedups = np.array(definitions) / np.array(rounds)
    return {
        "data": name,
        "samples": m,
        "features": d,
        "rounds": int(model.result_.sizes["rounds"]),
        "run_s": float(np.median(totals)),
        "bare_products_s": float(np.median(bares)),
        "run_over_bare": float(np.median(ratios)),
        "first_round_s": float(np.median(rounds)),
        "definition_round_s": float(np.median(definitions)),
        "definition_over_engine": float(np.median(speedups)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--features", type=int, default=20_000)
    parser.add_argument("--mouse", metavar="DIRECTORY", help="where mouse_hs1940.npz is")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--timed", type=int, default=40, help="features timed by definition")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    X, y = normal_data(options.samples, options.features)
    rows = [measure("normal, binary", X, y, "auto", options.repeat, options.timed)]
    if options.mouse:
        X, y = mouse_data(options.mouse)
        rows.append(measure("mouse, real", X, y, "gaussian", options.repeat, options.timed))
    if options.json:
        print(json.dumps({"machine": platform.machine(), "cores": usable_cores(), "rows": rows}))
        return
    for row in rows:
        print(f"\n{row['data']}: {row['samples']} x {row['features']}, {row['rounds']} rounds")
        print(f"  whole run                  {row['run_s']:8.2f} s")
        print(f"  bare matrix products       {row['bare_products_s']:8.2f} s")
        print(f"  run / bare                 {row['run_over_bare']:8.2f}")
        print(f"  first round                {row['first_round_s']:8.2f} s")
        print(f"  one round, by definition   {row['definition_round_s']:8.1f} s")
        print(f"  definition / engine        {row['definition_over_engine']:8.0f}")


if __name__ == "__main__":
    main()
