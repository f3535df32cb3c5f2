"""The headline: a selection from a million genotypes, against reading them ten times.

    python benchmarks/million.py --scratch DIRECTORY                    # 2,000 x 1,000,000
    python benchmarks/million.py --scratch DIRECTORY --grow --dask 2x1 1x2

Genotypes are simulated block by block into DIRECTORY and reused when they are there. In one
run: bare passes (every chunk read and decoded, two threads, nothing else; median of three, the
first of which may find the store on disk and the others in the page cache), then the selection
in a child process with its peak memory. Ten passes are what a step of 0.1 asks for.
"""

import argparse
import json
from pathlib import Path

import kept
import numpy as np
from data import genotypes
from exact import timed
from growth import exponent
from measuring import MIB, Limits, measure, say
from roofline import bare_pass
from selecting import how_scored
from tables import mebibytes, seconds, size, table

from dhsic.simulation.truth import read_truth, truth_path

PASSES = 10
N_BARE = 3


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--samples", type=int, default=2000)
    add("--features", type=int, default=1_000_000)
    add("--scratch", type=Path, required=True, help="where stores are kept")
    add("--solver", default="auto")
    add("--max-expected-loss", type=float, help="of the low-rank engine; its own by default")
    add("--select", type=int, default=100, help="features to select")
    add("--step", type=float, default=0.1)
    add("--layout", choices=["plain", "vcz"], default="plain", help="dosages, or call_genotype")
    add("--seed", type=int, default=7)
    add("--grow", action="store_true", help="also at d/8, d/4, d/2, with the fitted exponent")
    add(
        "--grow-samples",
        action="store_true",
        help="also with 4 and 16 times the samples, with the fitted exponent",
    )
    add(
        "--dask",
        nargs="*",
        default=[],
        metavar="NxT",
        help="also on a cluster of N worker processes of T threads each; several may follow",
    )
    add("--timeout", type=float, help="seconds for one selection")
    add("--json", type=Path, metavar="FILE", help="write the results here too")
    kept.add_option(parser)
    return parser.parse_args()


def measure_size(options, m, d):
    """Bare passes and selection at m samples and d features, and on a cluster where asked."""
    store = genotypes(options.scratch, m, d, seed=options.seed, layout=options.layout)
    bare = []
    for i in range(N_BARE):
        say(f"{size(m, d)}: bare pass {i + 1} of {N_BARE}")
        bare.append(timed(lambda: bare_pass(store))[0])
    row = {"samples": m, "features": d, "bare_s": bare, "bare_median_s": float(np.median(bare))}
    row["threads"] = _selection(options, store, (m, d), (0, 0))
    row["dask"] = {
        of: _selection(options, store, (m, d), tuple(map(int, of.split("x"))))
        for of in options.dask
    }
    return row


def _selection(options, store, shape, cluster):
    n_workers, threads = cluster
    say(f"{size(*shape)}: select, " + ("cluster" if n_workers else "threads"))
    scored = how_scored(options.solver, options.max_expected_loss)
    job = {"store": str(store), "scored": scored, "n_select": options.select}
    measured = measure(
        "selecting:job",
        job | {"step": options.step, "n_workers": n_workers, "threads": threads},
        limits=Limits(options.timeout),
    )
    facts = measured.facts()
    if measured.ok:
        facts["planted"] = _recovered(store, measured.answer["selected"])
    return facts


def _recovered(store, selected):
    """Planted variants among the selected, by kind: {kind: [found, planted]}."""
    frame = read_truth(truth_path(store)).frame()
    found = frame["variant_index"].isin(selected)
    return {kind: [int(found[of.index].sum()), len(of)] for kind, of in frame.groupby("kind")}


def show(row):
    run = row["threads"]
    print(f"\n{size(row['samples'], row['features'])}")
    bare = ", ".join(f"{s:.2f}" for s in row["bare_s"])
    print(f"  bare pass                {row['bare_median_s']:10.2f} s   (median of {bare})")
    if run["status"] != "ok":
        print(f"  selection                {run['status']}: {run['reason']}")
        return
    told = run["answer"]
    promised, peak = told["promised_bytes"] / MIB, run["peak_bytes"] / MIB
    ratio = run["median_s"] / (PASSES * row["bare_median_s"])
    print(f"  selection                {run['median_s']:10.2f} s   {told['engine']}")
    print(f"  processor time           {run['median_cpu_s']:10.2f} s")
    print(f"  selection / {PASSES} bare      {ratio:10.2f}")
    print(f"  rounds, passes asked for {told['rounds']:10d}     {told['passes']:.1f}")
    print(f"  largest error of a cut   {told['largest_cut_error']:10.2%}")
    print(f"  features lost, expected  {told['expected_lost']:10.2f}")
    stored = row["samples"] * row["features"]
    print(f"  bytes read over stored   {told['bytes_read'] / stored:10.2f}")
    print(f"  peak memory              {peak:10,.0f} MiB of {promised:,.0f} promised")
    for kind, (found, planted) in run["planted"].items():
        print(f"  planted, {kind:16s}{found:10d} of {planted}")
    for of, cluster in row["dask"].items():
        _show_cluster(of, cluster, run)


def _show_cluster(of, cluster, threads):
    """`of` so many processes of so many threads, as NxT."""
    if cluster["status"] != "ok":
        print(f"  on {of} of a cluster      {cluster['status']}: {cluster['reason']}")
        return
    same = cluster["answer"]["selected"] == threads["answer"]["selected"]
    ratio = cluster["median_s"] / threads["median_s"]
    print(f"  on processes x threads   {cluster['median_s']:10.2f} s   {of}")
    print(f"  cluster / threads        {ratio:10.2f}     {'same' if same else 'ANOTHER'} selection")
    print(f"  peak of all processes    {cluster['peak_bytes'] / MIB:10,.0f} MiB")
    driver = cluster["answer"]["driver_peak_bytes"]
    print(f"  peak of the driver       {driver / MIB:10,.0f} MiB")


def show_growth(rows, along):
    good = [row for row in rows if row["threads"]["status"] == "ok"]
    d = [row[along] for row in good]
    time = exponent(d, [row["threads"]["median_s"] for row in good])
    memory = exponent(d, [row["threads"]["rise_bytes"] for row in good])
    cells = [
        (
            f"{row[along]:,}",
            seconds(row["threads"]["median_s"]),
            seconds(row["bare_median_s"]),
            mebibytes(row["threads"]["peak_bytes"]),
        )
        for row in good
    ]
    print("\n" + table((along, "selection", "bare pass", "peak memory"), cells))
    if time is not None and memory is not None:
        letter = along[0].replace("s", "m").replace("f", "d")
        print(f"time grows as {letter}^{time:.2f}, memory of the run as {letter}^{memory:.2f}")
    return {"time_exponent": time, "memory_exponent": memory}


def main():
    options = arguments()
    m, d = options.samples, options.features
    wider = [(m, d // k) for k in ((8, 4, 2) if options.grow else ())]
    longer = [(m * k, d) for k in ((4, 16) if options.grow_samples else ())]
    rows = []
    for shape in (*wider, (m, d), *longer):
        rows.append(measure_size(options, *shape))
        show(rows[-1])
    results = {"rows": rows}
    if options.grow:
        results["in_features"] = show_growth(rows[: len(wider) + 1], "features")
    if options.grow_samples:
        results["in_samples"] = show_growth(rows[len(wider) :], "samples")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    kept.keep(options, [summary(row) for row in rows], ("dhsic", "numpy", "zarr"))


def summary(row):
    """Sizes, times, memory and planted variants of a row, for the kept results."""
    run = row["threads"]
    planted = np.sum([*run["planted"].values()], axis=0)
    return {
        "samples": row["samples"],
        "features": row["features"],
        "bare_seconds": round(row["bare_median_s"], 2),
        "clock_seconds": round(run["median_s"], 2),
        "seconds": round(run["median_cpu_s"], 2),
        "peak_mib": round(run["peak_bytes"] / MIB),
        "found": int(planted[0]),
        "planted": int(planted[1]),
    }


if __name__ == "__main__":
    main()
