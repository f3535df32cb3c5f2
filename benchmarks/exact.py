"""The exact engine against what it cannot avoid and against the definition.

(a) The time of a whole run (all features ranked), by ``solver="exact"`` and as it decides by
    itself, over the time of the bare matrix products that the orders chosen by the exact one need:
    plain ``numpy.matmul`` of the same shapes and precisions, BLAS free to use every core, in the
    same process. Processor time besides, of all threads.
(b) One round of the definition, vectorised per feature (m x m exponentials each, on as many
    threads as the engine), over the first round of the engine.

    python benchmarks/exact.py                    # 1,000 x 20,000 normal data, binary labels
    python benchmarks/exact.py --mouse DIRECTORY  # and the mouse genotypes, mouse_hs1940.npz

Medians of --repeat runs, after one that is not counted; each repetition times runs and bare
products one after the other, so that a busy machine slows all.
"""

import argparse
import json
import platform
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import dhsic
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix
from dhsic.results.views import rounds_of_engines
from dhsic.runtime.cores import usable_cores

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


def clocked(function):
    """Seconds, processor seconds and what the function returned."""
    busy = time.process_time()
    seconds, value = timed(function)
    return seconds, time.process_time() - busy, value


def fit(X, y, label_kernel, solver):
    model = dhsic.BAHSIC(
        50,
        step=0.1,
        label_kernel=label_kernel,
        solver=solver,
        rerank=False,
        progress=False,
        runtime="threads",
    )
    return model.fit(X, y)


def passes(result):
    """(rows, dtype) of every product of the run, from its history."""
    products = zip(
        result["round_engine"].values,
        rounds_of_engines(result)["products_float64"],
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
    """Time of the products alone, and their processor time."""
    A = {t: np.random.default_rng(1).standard_normal((m, m)).astype(t) for t in ("f4", "f8")}
    X = {t: np.random.default_rng(2).standard_normal((ROWS, m)).astype(t) for t in ("f4", "f8")}
    out = {t: np.empty((ROWS, m), dtype=t) for t in ("f4", "f8")}
    total, busy = 0.0, 0.0
    for rows, dtype in shapes:
        key = "f4" if dtype == "float32" else "f8"
        for done in range(0, rows, ROWS):
            n = min(rows - done, ROWS)
            product = partial(np.matmul, X[key][:n], A[key], out=out[key][:n])
            seconds, processor, _ = clocked(product)
            total, busy = total + seconds, busy + processor
    return total, busy


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
    found = []
    fit(X, y, label_kernel, "exact")
    for _ in range(repeat):
        total, busy, model = clocked(lambda: fit(X, y, label_kernel, "exact"))
        bare, bare_busy = bare_products(m, list(passes(model.result_)))
        auto, auto_busy, _ = clocked(lambda: fit(X, y, label_kernel, "auto"))
        first = float(model.result_["round_seconds"][0])
        definition = definition_round(X, y, label_kernel, n_timed)
        found.append(
            {
                "exact_s": total,
                "auto_s": auto,
                "bare_products_s": bare,
                "exact_over_bare": total / bare,
                "auto_over_bare": auto / bare,
                "exact_processor_s": busy,
                "auto_processor_s": auto_busy,
                "bare_processor_s": bare_busy,
                "exact_over_bare_processor": busy / bare_busy,
                "auto_over_bare_processor": auto_busy / bare_busy,
                "first_round_s": first,
                "definition_round_s": definition,
                "definition_over_engine": definition / first,
            }
        )
    medians = {key: float(np.median([one[key] for one in found])) for key in found[0]}
    rounds = int(model.result_.sizes["rounds"])
    return {"data": name, "samples": m, "features": d, "rounds": rounds, **medians}


#: What is printed of a row: the columns of the table, without and with processor time.
LINES = (
    ("by solver='exact', s", "exact_s", "exact_processor_s"),
    ("by itself, s", "auto_s", "auto_processor_s"),
    ("bare products, s", "bare_products_s", "bare_processor_s"),
    ("exact / bare", "exact_over_bare", "exact_over_bare_processor"),
    ("auto / bare", "auto_over_bare", "auto_over_bare_processor"),
)


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
        print(f"  {'':28}{'wall':>8} {'processor':>10}")
        for words, wall, processor in LINES:
            print(f"  {words:28}{row[wall]:8.2f} {row[processor]:10.2f}")
        print(f"  {'first round, s':28}{row['first_round_s']:8.2f}")
        print(f"  {'a round by definition, s':28}{row['definition_round_s']:8.1f}")
        print(f"  {'definition / engine':28}{row['definition_over_engine']:8.0f}")


if __name__ == "__main__":
    main()
