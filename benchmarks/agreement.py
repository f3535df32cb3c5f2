"""Low rank against exact, round by round, on data in .npz files (X, y).

    python benchmarks/agreement.py FILE.npz [FILE.npz ...]

Every round both engines get the same survivors, those of the exact run; printed is the part of
the features removed that both remove, the least over rounds and its mean, next to the error that
low rank estimated for itself. Then two whole runs: how many of the last 50 they share.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from tables import table

import dhsic
from dhsic.hsic import factored_weights
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.labels import label_matrix
from dhsic.passes.candidates import Singles
from dhsic.passes.dependence import Choices, SourceDependence
from dhsic.passes.lowrank import ALWAYS_EXACT, LowRankScorer
from dhsic.passes.reader import Reader
from dhsic.runtime.threads import Threads, single_blas_thread
from dhsic.sources.arrays import ArraySource

N_LAST = 50


def load(path):
    """X (m, d) and y (m,) of a file, samples without label left out."""
    with np.load(path, allow_pickle=False) as data:
        X, y = data["X"], data["y"]
        real = str(data["task"]) == "regression"
    labelled = np.isfinite(y.astype(np.float64)) if real else np.ones(len(y), dtype=bool)
    return X[labelled], y[labelled]


def by_round(X, y, tolerance, runtime):
    """(|S|, agreement, estimated error) of every round of the exact run."""
    how = {"standardize": True, "progress": False, "runtime": runtime}
    exact = dhsic.BAHSIC(N_LAST, approx="exact", **how).fit(X, y)
    removed_in = exact.result_["round_removed"].to_numpy()
    choices = Choices(resolve_kernel("gaussian"), resolve_bandwidth("dimension"))
    weights = factored_weights(label_matrix(y).factor())
    data = Reader(ArraySource(X), runtime)
    scorer = LowRankScorer(choices, data, weights, tolerance)
    thin = SourceDependence(choices, data, Singles(), scorer)
    rows = []
    with single_blas_thread():
        scaling = thin.measure()
        S = np.flatnonzero(~scaling.constant)
        for number in range(1, removed_in.max() + 1):
            if S.size <= ALWAYS_EXACT:  # from here a run in low rank goes on exactly
                break
            gone = np.flatnonzero(removed_in == number)
            thin.move_to(S)
            found = thin.least_relevant(thin.bandwidth(S), S, gone.size)
            shared = np.intersect1d(found.features, gone).size / gone.size
            rows.append((S.size, shared, found.record["cut_error"], found.record["engine"]))
            S = np.setdiff1d(S, gone, assume_unique=True)
    return exact, rows


def compare(path, tolerance, runtime):
    X, y = load(path)
    exact, rows = by_round(X, y, tolerance, runtime)
    model = dhsic.BAHSIC(
        N_LAST, approx="lowrank", tolerance=tolerance, progress=False, runtime=runtime
    ).fit(X, y)
    agreement = np.array([row[1] for row in rows])
    return {
        "data": Path(path).stem,
        "samples": len(X),
        "features": X.shape[1],
        "rounds": len(rows),
        "least_agreement": float(agreement.min()),
        "mean_agreement": float(agreement.mean()),
        "largest_estimate": float(max(row[2] for row in rows)),
        "last_shared": int((exact.support_ & model.support_).sum()),
        "by_round": rows,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    options = parser.parse_args()
    with Threads() as runtime:
        results = [compare(path, options.tolerance, runtime) for path in options.files]
    heads = ("data", "samples", "features", "rounds", "least", "mean", "estimate", "last 50")
    cells = [
        (
            r["data"],
            f"{r['samples']:,}",
            f"{r['features']:,}",
            str(r["rounds"]),
            f"{r['least_agreement']:.4f}",
            f"{r['mean_agreement']:.4f}",
            f"{r['largest_estimate']:.4f}",
            f"{r['last_shared']} of {N_LAST}",
        )
        for r in results
    ]
    print(table(heads, cells))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
