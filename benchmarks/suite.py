"""The benchmark suite: how close to the roofline, how it grows, and against its peers.

    python benchmarks/suite.py                                  # everything; sized for 15 minutes
    python benchmarks/suite.py --only peers --peer-sizes 500x1000
    python benchmarks/suite.py --only growth --solver exact lowrank --growth-size 1000x20000

Prints tables; writes results.json and plots to --out. Progress goes to standard error.
"""

import argparse
import contextlib
import json
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
from growth import growth_table, measure_growth
from measuring import say
from peers import measure_peers, peers_table
from plots import plot_growth, plot_peers, plot_roofline
from roofline import measure_roofline, roofline_table

import dhsic
from dhsic.runtime.cores import usable_cores

HERE = Path(__file__).parent
#: Section: what measures it, its table, its plots.
SECTIONS = {
    "roofline": (measure_roofline, roofline_table, plot_roofline),
    "growth": (measure_growth, growth_table, plot_growth),
    "peers": (lambda options, _: measure_peers(options), peers_table, plot_peers),
}


def shape(text):
    """Samples and features of text such as 500x5000."""
    m, d = text.lower().split("x")
    return int(m), int(d)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="sections")
    add("--out", type=Path, default=HERE / "out", help="where results.json and plots go")
    add("--scratch", type=Path, help="keep simulated stores here (default: a temporary folder)")
    add("--solver", nargs="+", default=["exact", "lowrank"], help="values of solver")
    add("--repeat", type=int, default=3, help="medians are of so many runs")
    add("--seed", type=int, default=0)
    add("--exact-size", type=shape, default=(1000, 20_000), help="roofline of products")
    add("--store-size", type=shape, default=(1000, 100_000), help="roofline of reads")
    add("--growth-size", type=shape, default=(500, 10_000), help="smallest d, twice smallest m")
    add("--ranks", nargs="+", type=int, default=[8, 16, 32, 64])
    add("--peer-sizes", nargs="+", type=shape, default=[(500, 5000), (1000, 10_000)])
    add("--timeout", type=float, default=60.0, help="seconds for one measurement")
    add("--memory-limit", type=float, default=8.0, help="GiB of address space of a peer")
    return parser.parse_args()


def machine():
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": usable_cores(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "dhsic": dhsic.__version__,
    }


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    facts = machine()
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    results = {"machine": facts}
    with contextlib.ExitStack() as stack:
        scratch = options.scratch or stack.enter_context(tempfile.TemporaryDirectory())
        for section in options.only:
            run, as_table, plot = SECTIONS[section]
            start = time.perf_counter()
            results[section] = run(options, scratch)
            print(f"\n{section} ({time.perf_counter() - start:.0f} s)\n", flush=True)
            print(as_table(results[section]), flush=True)
            # After every section, so that a run that is stopped leaves what it has.
            (options.out / "results.json").write_text(json.dumps(results, indent=1))
            for path in plot(results[section], options.out):
                say(f"wrote {path}")


if __name__ == "__main__":
    main()
