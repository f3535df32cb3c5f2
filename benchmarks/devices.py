"""A scoring pass on this machine's cores and on its accelerator: the same engines, the same data.

A block of standard-normal features is scored by the exact engine (Dense, orders 1 and 2) and by
the low-rank one (R directions). On the cores: NumPy, tiles of the width that runs use, threads
with one BLAS thread each. On a GPU, where CuPy or torch is installed and finds one: the whole
block at once, once with the block there already, once with the way from memory to the GPU and of
the gains back.

    python benchmarks/devices.py                # 2,000 samples, blocks of 4,096 features
    python benchmarks/devices.py --torch-cpu    # torch on the cores too: the same lines, no GPU

GF/s counts the products alone: m (m + panel) of each quadratic form of the exact engine, 2 m R of
each of the low-rank one. Differences are those from NumPy, over the largest gain.
"""

import argparse
import json
import platform
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from exact import normal_data
from measuring import say
from tables import size, table

from dhsic.engines.dense import Dense
from dhsic.engines.lowrank import LowRank
from dhsic.engines.scoring_problem import FeatureStats, LowRankScoringProblem, ScoringProblem
from dhsic.hsic import factored_weights, weights
from dhsic.kernels import Gaussian
from dhsic.kernels.labels import label_matrix
from dhsic.kernels.statistic import Statistic
from dhsic.lowrank import Spectral
from dhsic.lowrank.base import landmark_statistic, uniform_rows
from dhsic.namespace import to_namespace
from dhsic.passes import TILE
from dhsic.runtime.threads import single_blas_thread

N_LANDMARKS = 300
NO_DEVICE = "no GPU that CuPy or torch finds: the rows of the cores alone"


def accelerators(*, torch_cpu):
    """(label, namespace, device) of what there is besides NumPy; a package may find no GPU."""
    found = []
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount():
            name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
            found.append((f"CuPy, {name}", cupy, cupy.cuda.Device(0)))
    except Exception as error:  # not installed, no driver, a driver too old: each says it its way
        say(f"CuPy: {error}")
    try:
        import torch
    except ImportError as error:
        say(f"torch: {error}")
        return found
    if torch.cuda.is_available():
        found.append((f"torch, {torch.cuda.get_device_name(0)}", torch, torch.device("cuda:0")))
    if torch_cpu:
        found.append((f"torch, {torch.get_num_threads()} cores", torch, torch.device("cpu")))
    return found


def prepared(X, y, orders, ranks):
    """(label, engine, state, products per feature in flops) of every pass; X is (m, d)."""
    m, d = X.shape
    kernel, sigma = Gaussian(), 1 / (2 * d)
    wide = X.astype(np.float64)
    question = ScoringProblem(
        kernel, sigma, weights(label_matrix(y).L), Statistic.of(wide @ wide.T)
    )
    for order in orders:
        engine = Dense(order)
        state = engine.prepare(question)
        flops = 2 * sum(part.size for _, _, part in state.A[0].columns())
        yield f"exact, order {order}", engine, state, flops * kernel.expansion(order, sigma).n_forms
    landmarks = landmark_statistic(wide, uniform_rows(m, min(N_LANDMARKS, m), seed=0))
    thin = factored_weights(label_matrix(y).factor())
    for R in ranks:
        engine = LowRank(1)
        factor = Spectral(min(R, m)).factor(kernel, sigma, landmarks)
        question = LowRankScoringProblem(kernel, sigma, thin, {0: factor}.__getitem__, rank=R)
        state = engine.prepare(question)
        directions = len(state.A[0].theta)
        forms = kernel.expansion(1, sigma).n_forms
        yield f"low rank, R = {directions}", engine, state, 2 * m * directions * forms


def on_cores(engine, state, rows, facts, n_threads):
    """A pass of NumPy, as a function without arguments."""
    tiles = [slice(a, a + TILE) for a in range(0, len(rows), TILE)]

    def score(tile):
        return engine.score(state, rows[tile], facts.take(tile))

    def once():
        with ThreadPoolExecutor(n_threads) as pool, single_blas_thread():
            return np.concatenate(list(pool.map(score, tiles)))

    return once


def on_device(engine, state, rows, facts, xp, device):
    """Passes with the block on the device, and with its way there."""
    there = state.on(xp, device)
    block = to_namespace(rows, xp, device)

    def resident():
        return engine.score(there, block, facts)  # gains are NumPy's: it waits for the device

    def with_transfer():
        return engine.score(there, to_namespace(rows, xp, device), facts)

    return resident, with_transfer


def timed(once, repeat):
    """(median of seconds, gains); the first pass, which compiles and allocates, does not count."""
    gains = once()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), gains


def measure(options, devices):
    """Rows of all passes."""
    X, y = normal_data(options.samples, options.features)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = np.ascontiguousarray(X.T)
    peak, fourth = np.abs(rows).max(axis=1), (rows.astype(np.float64) ** 4).mean(axis=1)
    facts = FeatureStats(peak, fourth, np.zeros(len(rows), dtype=np.uint8))
    found = []
    for label, engine, state, flops in prepared(X, y, options.orders, options.ranks):
        say(label)

        def row(where, once, label=label, flops=flops):
            seconds, gains = timed(once, options.repeat)
            found.append(
                {
                    "pass": label,
                    "where": where,
                    "seconds": seconds,
                    "features_per_s": len(rows) / seconds,
                    "gflops": flops * len(rows) / seconds / 1e9,
                }
            )
            return gains

        cores = f"NumPy, {options.threads} threads"
        expected = row(cores, on_cores(engine, state, rows, facts, options.threads))
        for name, xp, device in devices:
            resident, with_transfer = on_device(engine, state, rows, facts, xp, device)
            for where, once in ((name, resident), (f"{name}, with transfer", with_transfer)):
                difference = np.abs(row(where, once) - expected).max() / np.abs(expected).max()
                found[-1]["largest_difference"] = float(difference)
    return found


def cells(row):
    difference = row.get("largest_difference")
    return (
        row["pass"],
        row["where"],
        f"{row['features_per_s']:,.0f}",
        f"{row['gflops']:,.1f}",
        "-" if difference is None else f"{difference:.1e}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--orders", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--torch-cpu", action="store_true", help="torch on the cores as well")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    devices = accelerators(torch_cpu=options.torch_cpu)
    rows = measure(options, devices)
    remark = "" if devices else NO_DEVICE
    if options.json:
        facts = {"machine": platform.machine(), "remark": remark, "rows": rows}
        print(json.dumps(facts | {"samples": options.samples, "features": options.features}))
        return
    print(f"\n{size(options.samples, options.features)} float32")
    print(table(("pass", "where", "features/s", "GF/s", "difference"), map(cells, rows)))
    if remark:
        print(remark)


if __name__ == "__main__":
    main()
