"""The papers' tables and the comparisons with rivals, by one command.

    make reproduce DATA=FOLDER          # everything, within six hours on two cores
    make reproduce-quick DATA=FOLDER    # ten minutes
    cd benchmarks; python -m reproduce --data FOLDER --only classes --sets sonar colon
    cd benchmarks; python -m reproduce --only shapes --quick    # or one of its parts: shapes-noise

Needs the dependency group `bench`. Real data are read where they are; without them (--data, or
DHSIC_DATA) what can be drawn is. Results are filed in --cache: what was killed goes on where it
was. Writes report.md, results.csv, cells.csv and figures to --out.
"""

import argparse
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import kept
from measuring import say

from . import report
from .cache import Cache
from .experiments import DRAWN, EXPERIMENTS, planned
from .running import Run
from .sets import is_there
from .shape_parts import SHAPE_PARTS, shape_parts

#: Where the files of real data are, if not said.
DATA = "DHSIC_DATA"
OUT = Path(__file__).parents[1] / "out" / "reproduce"
#: Seconds of processor time that a method may take for a fold: in a quick run, and else.
LIMITS = {True: 15.0, False: 60.0}
HOURS = {True: 7.5 / 60, False: 5.75}


def arguments():
    parser = argparse.ArgumentParser(prog="reproduce", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="small sets and few runs")
    add("--data", type=Path, help=f"folder of real data, else that of ${DATA}")
    names = [*DRAWN, *EXPERIMENTS, "shapes", *SHAPE_PARTS]
    add("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    add("--sets", nargs="+", metavar="NAME", help="of the sets only these")
    add("--methods", nargs="+", metavar="NAME", help="of the methods only these")
    add("--repeats", type=int, help="how often folds are drawn, to tell methods apart more finely")
    add("--seeds", type=int, help="draws of each setting of the shapes")
    add("--cache", type=Path, default=OUT / "cache", help="where results are filed")
    add("--stale", action="store_true", help="take results of other versions where there are some")
    add("--out", type=Path, default=OUT, help="where tables and figures go")
    add("--jobs", type=int, default=2, help="processes")
    add("--limit", type=float, help="seconds of processor time that a method may take for a fold")
    add("--hours", type=float, help="after which nothing more is begun; 0 only reports")
    add("--measured", metavar="DATE", help="date to keep, where results are taken from the cache")
    kept.add_option(parser)
    options = parser.parse_args()
    options.data = options.data or (Path(os.environ[DATA]) if os.environ.get(DATA) else None)
    if options.data and not options.data.is_dir():
        parser.error(f"there is no folder {options.data}: pass the folder of real data as --data")
    return options


def chosen(options):
    """The experiments that are asked for, on sets that are there."""
    found = planned(quick=options.quick, has_data=options.data is not None)
    found = {name: one for name, one in found.items() if not options.only or name in options.only}
    drawn = {name: one for name, one in found.items() if name in DRAWN}
    others = {name: narrowed(one, options) for name, one in found.items() if name in EXPERIMENTS}
    absent = {
        name for one in others.values() for name in one.sets if not is_there(name, options.data)
    }
    if absent:
        say(f"left out, for their files are not in {options.data}: {', '.join(sorted(absent))}")
    others = {
        name: replace(one, sets=tuple(a_set for a_set in one.sets if a_set not in absent))
        for name, one in others.items()
    }
    shapes = shape_parts(
        options.only or (), options.methods, options.sets, options.seeds, quick=options.quick
    )
    return drawn | {name: one for name, one in others.items() if one.sets} | shapes


def narrowed(one, options):
    """An experiment on the sets, methods and folds that are asked for."""
    sets, methods = options.sets or one.sets, options.methods or one.all_methods
    return replace(
        one,
        folds=replace(one.folds, repeats=options.repeats or one.folds.repeats),
        sets=tuple(name for name in one.sets if name in sets),
        methods=tuple(name for name in one.methods if name in methods),
        on_all=tuple(entry for entry in one.on_all if entry[0] in methods),
    )


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # its processes end too
    # A process a cell, and a thread a process: as many cells at a time as there are cores.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if options.data is None:
        say(f"no --data and no {DATA}: real data are not part of this repository; drawing some")
    hours = HOURS[options.quick] if options.hours is None else options.hours
    until = time.monotonic() + 3600 * hours
    limit = options.limit or LIMITS[options.quick]
    cache = Cache(options.cache, stale=options.stale)
    run = Run(chosen(options), cache, options.data, limit)
    run.all(options.jobs, until)
    rows, stands = run.records()
    print(report.write(options, run.experiments, rows, stands, cache.versions))


if __name__ == "__main__":
    main()
