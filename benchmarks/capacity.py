"""How long a selection takes on a cluster that is not at hand: a model, its rates, its checks.

    python benchmarks/capacity.py measure --scratch DIRECTORY --json RATES      # a minute
    python benchmarks/capacity.py predict --scratch DIRECTORY [--rates RATES]   # 500,000 x 800,000
    python benchmarks/capacity.py check --scratch DIRECTORY [--rates RATES]     # 1, 2 and 4 workers
    python benchmarks/capacity.py simulate --simulated 20 100 400
    python benchmarks/capacity.py count --scratch DIRECTORY --simulated 16 64   # tasks, messages

The model is that of `dhsic.plan` (`dhsic/plans/time.py`): every pass of the run as it would cut
it into jobs, at the rates of one thread, and what the cluster takes beside. Rates of threads and of
the cluster are measured here, on a scheduler and workers in processes of their own; those of a
network are assumed, and said. `check` runs the selection on a few workers of one thread, which may
be more than cores: it takes the rates that as many processes have at once.
"""

import argparse
import json
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import zarr
from cluster import Cluster
from data import genotypes, matrix_of
from measuring import Limits, measure, say
from overheads import counted, measured, simulated
from selecting import how_scored
from tables import seconds, size, table

import dhsic
from dhsic.plans import PlannedRuntime
from dhsic.plans.dry_run import CountedSource
from dhsic.plans.report import duration
from dhsic.plans.rounds import work_of
from dhsic.plans.time import Overheads, Rates, Setting
from dhsic.runtime.cores import usable_cores
from dhsic.selection.run import SelectionRun

#: Features of the store that rates of reading are measured on.
SOME = 512
UNLIMITED = 1 << 62
FAR = 0.25  # a prediction that is further off does not count
COUNTED = Rates(1.0, 1.0, 1.0, 1.0, 1.0)  # no rate matters to what is counted


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("what", choices=["measure", "predict", "check", "simulate", "count"])
    add("--scratch", type=Path, required=True, help="where stores are kept")
    add("--samples", type=int, default=500_000)
    add("--features", type=int, default=800_000)
    add("--chunk", type=int, default=1000, help="samples of a chunk, as bio2zarr writes them")
    add("--select", type=int, default=100, help="features to select")
    add("--step", type=float, default=0.1)
    add("--workers", type=int, nargs="+", default=[10, 100, 1000], help="worker processes")
    add("--threads", type=int, default=16, help="threads of each")
    add("--network", type=float, default=1.25e9, help="bytes a second that reach a worker")
    add("--storage", type=float, default=10e9, help="bytes a second that reach all of them")
    add("--check-size", type=int, nargs=2, default=[20_000, 50_000], metavar=("M", "D"))
    add("--processes", type=int, nargs="+", default=[1, 2, 4], help="workers of `check`")
    add("--count-size", type=int, nargs=2, default=[500, 20_000], metavar=("M", "D"))
    add("--slices", type=int, default=1, help="of the samples, in `count`")
    add("--tolerances", type=float, nargs="+", default=[1.0], help="of the runs of `check`")
    add("--timeout", type=float, help="seconds for one selection of the check")
    add("--simulated", type=int, nargs="+", default=[20, 100, 400], help="workers of `simulate`")
    add("--nap", type=float, default=2.0, help="seconds of a task of theirs")
    add("--rates", type=Path, metavar="FILE", help="rates that `measure` wrote, here or elsewhere")
    add("--json", type=Path, metavar="FILE", help="write the results here too")
    return parser.parse_args()


# ---- rates ----------------------------------------------------------------------------------


def known_rates(options, m):
    """Rates of a thread with m samples, and of the cluster: of a file, or measured now."""
    if options.rates:
        told = json.loads(options.rates.read_text())
        return Rates.of(told["rates"]), Overheads(**_finite(told["overheads"]))
    store = genotypes(options.scratch, m, SOME)
    source = dhsic.open_source(store, variable=matrix_of(store))
    say("rates of a thread")
    rates = Rates.measured(source, m)
    say("rates of a cluster")
    with folder(options) as place, Cluster(place, 2) as cluster:
        return rates, measured(cluster)


def rates_at_once(options, m, n):
    """Rates of each of n processes that work at the same time: they share cores and memory."""
    store = genotypes(options.scratch, m, SOME)
    say(f"rates of {n} at once")
    apart = multiprocessing.get_context("spawn")
    begin = apart.Barrier(n)
    with ProcessPoolExecutor(n, apart, initializer=_begin_together, initargs=(begin,)) as pool:
        found = [asdict(rates) for rates in pool.map(_rates_of_one, [str(store)] * n, [m] * n)]
    return Rates(**{name: np.mean([one[name] for one in found]) for name in found[0]})


def _begin_together(barrier):
    _rates_of_one.begin = barrier.wait


def _rates_of_one(store, m):
    source = dhsic.open_source(store, variable=matrix_of(store))
    _rates_of_one.begin()  # so that no process gets two calls
    return Rates.measured(source, m)


@contextmanager
def folder(options):
    """An empty folder, while it is needed."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        yield Path(name)


def _finite(told):
    return {name: float("inf") if value is None else value for name, value in told.items()}


def _plain(overheads):
    return {k: v if np.isfinite(v) else None for k, v in asdict(overheads).items()}


def show_rates(rates, costs):
    print("\nRates of one thread, measured")
    print(f"  quadratic forms       {rates.float32 / 1e9:8.1f} Gflop/s in float32")
    print(f"                        {rates.float64 / 1e9:8.1f} Gflop/s in float64")
    print(f"  reading and decoding  {rates.decode / 1e6:8.0f} MB/s of values")
    print(f"  standardising         {rates.values / 1e6:8.0f} million values/s")
    print(f"  functions, driver     {rates.elements / 1e6:8.0f} million entries/s")
    print("Rates of a cluster, measured")
    print(f"  scheduler             {costs.job * 1e3:8.2f} ms of processor a task")
    print(f"  driver                {costs.client * 1e3:8.2f} ms of processor a task")
    print(f"  a pass of one task    {costs.start * 1e3:8.1f} ms")
    print(f"  state, written        {costs.written / 1e6:8.0f} MB/s")
    print(f"  state, read           {costs.network / 1e6:8.0f} MB/s, on this machine")
    print(f"  results, added up     {costs.results / 1e6:8.0f} MB/s")


# ---- the model ------------------------------------------------------------------------------


def work_for(source, y, asked, n_threads):
    """(work, promise of the driver) of a selection on a cluster of so many threads."""
    run = SelectionRun(
        dhsic.BAHSIC(**asked, memory_limit=UNLIMITED), source, y, PlannedRuntime(n_threads)
    )
    promise, budget = run.selector.memory_estimate(run)
    return work_of(run, budget), promise


def predicted(work, there, here=None):
    """Seconds by what takes them: where low rank meets its tolerance, and where it does not.

    `here` is where what this process does itself has other rates than workers.
    """

    def terms(step):
        is_here = here is not None and (step.at_home or not step.n_features)
        return (here if is_here else there).terms(step)

    return tuple(work.both(terms))


def predict(options):
    m, d = options.samples, options.features
    rates, costs = known_rates(options, m)
    there = replace(costs, network=min(costs.network, options.network), storage=options.storage)
    show_rates(rates, costs)
    show_assumptions(options, there)
    rows = [_on(options, rates, there, m, d, n) for n in options.workers]
    show_times(options, rows)
    return {"rates": rates.plain(), "overheads": _plain(there), "rows": rows}


def _on(options, rates, costs, m, d, n_workers):
    say(f"{size(m, d)} on {n_workers:,} workers")
    store = genotypes(options.scratch, m, SOME)
    chunk = zarr.open_group(store, mode="r")[matrix_of(store)].chunks[0]
    source = CountedSource(m, d, np.int8, chunk, in_memory=False, samples=options.chunk)
    asked = {"n_features_to_select": options.select, "step": options.step, "standardize": False}
    n_threads = n_workers * options.threads
    work, promise = work_for(source, np.arange(m) % 2, asked, n_threads)
    setting = Setting(rates, n_threads, n_workers, costs, n_here=options.threads)
    least, most = predicted(work, setting)
    return {
        "workers": n_workers,
        "rounds": len(work.sizes),
        "passes": work.n_passes,
        "terms": asdict(least),
        "seconds": least.total,
        "at_most": most.total,
        "tasks": work.least.total(lambda p: _tasks(setting, p)),
        "state_bytes": work.state_bytes,
        "driver_bytes": promise.total,
    }


def _tasks(setting, step):
    """Tasks of a pass on the cluster, those that add up what others leave among them."""
    if not step.n_features or step.at_home:
        return 0
    return len(setting.shares(step)) + sum(setting.joins(step))


def show_assumptions(options, costs):
    print("\nAssumptions")
    print(f"""\
  - workers have {options.threads} threads, each as fast as one here; so has the driver
  - the store is read as fast by all of them together as their threads decode
  - a state reaches a worker at {costs.network / 1e6:,.0f} MB/s, all of them together at
    {costs.storage / 1e6:,.0f} MB/s
  - tasks of a pass take equally long; no worker is lost
  - low rank meets its tolerance with the landmarks that it begins with (the first time of each
    row), or takes as many as it may (the second)""")


def show_times(options, rows):
    names = list(rows[0]["terms"])
    cells = [
        (
            f"{row['workers']:,}",
            f"{duration(row['seconds'])} to {duration(row['at_most'])}",
            *(duration(row["terms"][name]) for name in names),
            bound(row),
        )
        for row in rows
    ]
    first = rows[0]
    asked = f"{options.select} of {size(options.samples, options.features)}, step {options.step:g}"
    print(f"\n{asked}: {first['rounds']} rounds, {first['passes']} passes (model)\n")
    print(table(("workers", "expected", *names, "bound by"), cells))
    print(
        f"a state has up to {first['state_bytes'] / 1e6:,.0f} MB; the driver is promised "
        f"{first['driver_bytes'] / 1e9:.1f} GB"
    )


def bound(row):
    """The term that takes most."""
    name = max(row["terms"], key=row["terms"].get)
    return f"{name} ({row['terms'][name] / row['seconds']:.0%})"


# ---- checks ---------------------------------------------------------------------------------


def check(options):
    """Selections on workers of one thread each, beside what was predicted.

    Tolerance 1 is met by the landmarks that a run begins with; with others as many are taken as
    there may be. Workers have the rates of as many processes at once; the process that asks, which
    works while they wait, those of as many threads as there are cores.
    """
    m, d = options.check_size
    rates, costs = known_rates(options, m)
    show_rates(rates, costs)
    store = genotypes(options.scratch, m, d)
    source = dhsic.open_source(store, variable=matrix_of(store))
    y = dhsic.read_target(store, "sample_trait")
    asked = {"n_features_to_select": options.select, "step": options.step, "standardize": False}
    rows, cores = [], usable_cores()
    at_once = {n: rates_at_once(options, m, n) for n in sorted({*options.processes, cores})}
    for tolerance, n_workers in product(options.tolerances, options.processes):
        scored = how_scored("lowrank", max_expected_loss=tolerance)
        work, _ = work_for(source, y, asked | scored, n_workers)
        there = Setting(at_once[n_workers], n_workers, n_workers, costs, n_here=cores)
        foreseen = predicted(work, there, replace(there, rates=at_once[cores]))[tolerance < 1]
        say(f"{size(m, d)} on {n_workers} workers: {duration(foreseen.total)} expected")
        job = {"store": str(store), "scored": scored, "n_select": options.select}
        run = measure(
            "selecting:job",
            job | {"step": options.step, "n_workers": n_workers},
            limits=Limits(options.timeout),
        )
        rows.append({"tolerance": tolerance, "workers": n_workers, "run": run.facts()})
        rows[-1] |= {"terms": asdict(foreseen), "predicted_s": foreseen.total}
    show_check(size(m, d), rows)
    told = {"rates": rates.plain(), "overheads": _plain(costs), "rows": rows}
    return told | {"at_once": {n: found.plain() for n, found in at_once.items()}}


def show_check(of, rows):
    cells = []
    for row in rows:
        run, told = row["run"], row["predicted_s"]
        which = (f"{row['tolerance']:g}", row["workers"])
        if run["status"] != "ok":
            cells.append((*which, seconds(told), run["status"], "-", run["reason"][:60]))
            continue
        ratio = told / run["median_s"]
        word = "within" if abs(ratio - 1) <= FAR else "OUTSIDE"
        cells.append((*which, seconds(told), seconds(run["median_s"]), f"{ratio:.2f}", word))
    heads = ("tolerance", "workers", "predicted", "observed", "predicted / observed", f"{FAR:.0%}")
    print(f"\n{of}, low rank\n")
    print(table(heads, cells))


def simulate(options):
    rows = []
    for n in options.simulated:
        say(f"{n} simulated workers")
        with folder(options) as place, Cluster(place, n, simulated=True) as cluster:
            rows.append(simulated(cluster, n, options.nap))
    cells = [
        (
            row["workers"],
            f"{row['idle']:.1%}",
            f"{row['scheduler_s'] * 1e3:.2f} ms",
            f"{row['client_s'] * 1e3:.2f} ms",
            f"{row['jobs']} of {row['seconds']:g} s",
            f"{row['efficiency']:.0%}",
        )
        for row in rows
    ]
    heads = ("simulated workers", "scheduler, idle", "scheduler a job", "driver a job", "jobs")
    print("\n" + table((*heads, "efficiency"), cells))
    return {"rows": rows}


def count(options):
    """A run on many workers of one process, and what the model says it asks of them."""
    m, d = options.count_size
    store, rows = genotypes(options.scratch, m, d), {}
    for n in options.simulated:
        say(f"{size(m, d)} on {n} workers")
        with folder(options) as place, Cluster(place, n, simulated=True) as cluster:
            rows[n] = counted(cluster, n, store, COUNTED, options.slices, step=options.step)
        cut = "one slice" if options.slices == 1 else f"{options.slices} slices"
        print(f"\n{size(m, d)} in {cut}, low rank, {n} workers of one thread\n")
        print(table(("", "counted", "model"), rows[n]))
    return {"rows": rows}


def measure_rates(options):
    rates, costs = known_rates(options, options.samples)
    show_rates(rates, costs)
    return {"rates": rates.plain(), "overheads": _plain(costs)}


WAYS = {
    "measure": measure_rates,
    "predict": predict,
    "check": check,
    "simulate": simulate,
    "count": count,
}


def main():
    options = arguments()
    options.scratch.mkdir(parents=True, exist_ok=True)
    results = WAYS[options.what](options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
