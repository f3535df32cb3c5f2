"""Several runs over one reading of the data, over one run.

    python benchmarks/many.py --scratch DIRECTORY                               # 2,000 x 250,000
    python benchmarks/many.py --scratch DIRECTORY --features 20000 --layout plain --method pearson

One run for the trait of a store of simulated genotypes (reused where it is there), then ten traits
(`per_target=True`), ten bandwidths (`select_many`) and twenty halves (`stability=20`), each in a
process of its own: processor time and wall time over those of the one. Traits are that of the
store with the classes of a fifth of the samples drawn anew; bandwidths lie between a tenth of the
default and ten times as much. A trait is run alone besides, and must have come out bit for bit.
"""

import argparse
import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from data import genotypes, matrix_of
from measuring import MIB, measure, say
from tables import size

import dhsic

WORKS = ("one", "traits", "bandwidths", "stability")
REDRAWN = 0.2


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--samples", type=int, default=2000)
    add("--features", type=int, default=250_000)
    add("--scratch", type=Path, required=True, help="where stores are kept")
    add("--layout", choices=["plain", "vcz"], default="vcz", help="dosages, or call_genotype")
    add("--seed", type=int, default=7)
    add("--method", default="bahsic")
    add("--only", nargs="*", default=WORKS[1:], choices=WORKS[1:], help="what is done besides one")
    add("--runs", type=int, default=10, help="traits, and bandwidths")
    add("--halves", type=int, default=20)
    add("--json", type=Path, metavar="FILE", help="write the results here too")
    return parser.parse_args()


def traits(store, n):
    """Labels of so many traits, by name; the first is that of the store."""
    first = np.asarray(dhsic.read_target(store, "sample_trait"))
    rng = np.random.default_rng(0)
    found = {"0": first}
    for number in range(1, n):
        anew = rng.random(first.size) < REDRAWN
        found[str(number)] = np.where(anew, rng.permutation(first), first)
    return found


@contextmanager
def job(store, method, work, n):
    """One run, or many; what the last of them ranks, for comparison."""
    labels = traits(store, n + 1)
    options = {
        "method": method,
        "n_features_to_select": 100,
        "variable": matrix_of(store),
        "progress": False,
        "runtime": "threads",
    }
    d = dhsic.open_source(store, variable=matrix_of(store)).n_features
    sigmas = np.geomspace(0.05, 5.0, max(n, 2)) / d

    def done():
        if work == "traits":
            labels.popitem()
            found = dhsic.select(store, labels, per_target=True, **options)
            return found["rank"].isel(targets=-1)
        if work == "bandwidths":
            settings = [{"bandwidth": float(sigma)} for sigma in sigmas]
            return dhsic.select_many(store, labels["0"], settings, **options)["rank"][-1]
        if work == "stability":
            return dhsic.select(store, labels["0"], stability=n, **options)["rank"]
        return dhsic.select(store, labels[str(n)] if n else labels["0"], **options)["rank"]

    yield lambda: {"rank": int(done().to_numpy() @ np.arange(1, d + 1) % (1 << 61))}


def main():
    options = arguments()
    store = genotypes(
        options.scratch, options.samples, options.features, seed=options.seed, layout=options.layout
    )
    counts = {"traits": options.runs, "bandwidths": options.runs, "stability": options.halves}
    rows = {}
    asked = [("one", 0), *((work, counts[work]) for work in options.only)]
    if "traits" in options.only:
        asked.append(("last trait alone", options.runs - 1))
    for work, n in asked:
        say(f"{work}: {n}" if n else work)
        kind = work if work in WORKS else "one"
        arguments_of = {"store": str(store), "method": options.method, "work": kind, "n": n}
        rows[work] = measure("many:job", arguments_of).facts()
    one = rows["one"]
    print(f"\n{options.method}, {size(options.samples, options.features)}, {options.layout}")
    print(
        f"{'':20s}{'processor s':>12s}{'over one':>10s}{'wall s':>10s}{'over one':>10s}  peak MiB"
    )
    for work, row in rows.items():
        cpu, wall = (row[name] / one[name] for name in ("median_cpu_s", "median_s"))
        print(
            f"{work:20s}{row['median_cpu_s']:12.1f}{cpu:12.2f}{row['median_s']:12.1f}{wall:12.2f}"
            f"{row['peak_bytes'] / MIB:12,.0f}"
        )
    if "traits" in rows:
        same = rows["traits"]["answer"] == rows["last trait alone"]["answer"]
        print("the last trait is ranked " + ("as alone" if same else "OTHERWISE than alone"))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
