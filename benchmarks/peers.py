"""dhsic and the selectors that pip installs, on the same data, each in a process of its own."""

import statistics
import tempfile

import numpy as np
from contenders import PACKAGES, entries
from data import LABELS, planted
from measuring import Limits, measure, say, version_of
from tables import mebibytes, remark, seconds, size, table

N_SELECT = 10
REPEAT_WITHIN_S = 5.0  # a work that takes longer is done once a label


def measure_peers(options):
    """Every contender at every size: {"versions": ..., "rows": ...}."""
    rows = []
    for m, d in options.peer_sizes:
        with tempfile.TemporaryDirectory() as folder:
            X, labels, truth = planted(m, d, options.seed)
            np.save(f"{folder}/X.npy", X)
            for name, y in labels.items():
                np.save(f"{folder}/{name}.npy", y)
            del X
            for name, arguments in entries(options.solver):
                say(f"peers {size(m, d)}: {name}")
                row = measure_contender(folder, arguments, truth, options)
                rows.append({"contender": name, "samples": m, "features": d, **row})
    return {"versions": {name: version_of(name) for name in PACKAGES}, "rows": rows}


def measure_contender(folder, arguments, truth, options):
    """Both labels; a contender that does not get through the first does not try the second."""
    limits = Limits(options.timeout, int(options.memory_limit * 2**30))
    times, cpu, peak, found = [], [], 0, {}
    for label in LABELS:
        last = measure(
            "contenders:job",
            {"folder": folder, "label": label, "k": N_SELECT, **arguments},
            limits=limits,
            repeat=options.repeat,
            budget_s=REPEAT_WITHIN_S,
        )
        peak = max(peak, last.peak_bytes)
        if not last.ok:
            say(f"    {last.status}: {last.reason}")
            break
        times += last.seconds
        cpu += last.cpu_seconds
        found[label] = len(set(last.answer) & set(truth[label]))
    return {
        "status": last.status,
        "reason": last.reason,
        "seconds": times,
        "median_s": statistics.median(times) if times else None,
        "median_cpu_s": statistics.median(cpu) if cpu else None,
        "peak_bytes": peak,
        "found": found,
        "planted": {label: len(features) for label, features in truth.items()},
    }


def peers_table(results):
    heads = ("contender", "data", "time", "processor", "runs", "peak memory", *LABELS, "remark")
    rows = [
        (
            row["contender"],
            size(row["samples"], row["features"]),
            seconds(row["median_s"]),
            seconds(row["median_cpu_s"]),
            len(row["seconds"]),
            mebibytes(row["peak_bytes"]),
            *(_score(row, label) for label in LABELS),
            remark(row["status"], row["reason"]),
        )
        for row in results["rows"]
    ]
    known = ", ".join(f"{k} {v}" for k, v in results["versions"].items() if v)
    return table(heads, rows) + f"\n{known}; planted features among the {N_SELECT} selected."


def _score(row, label):
    if label not in row["found"]:
        return "-"
    return f"{row['found'][label]} of {row['planted'][label]}"
