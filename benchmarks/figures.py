"""The figures of the papers: which methods find the relevant features, from how many samples.

    python benchmarks/figures.py jmlr            # Song et al. 2012, Figure 2
    python benchmarks/figures.py ccm             # Chen et al. 2017, Figure 1
    python benchmarks/figures.py real --data DIRECTORY      # there, Figure 2: ALLAML, warpPIE10P

Each prints its table and draws one PNG; needs the dependency group `bench`. Progress goes to
standard error.
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

import accuracy
import protocols
from curves import draw_accuracy, draw_ccm, draw_jmlr
from measuring import say

from dhsic.runtime.threads import usable_cores

FIGURES = Path(__file__).parent / "figures"
#: Figure: its protocol, what draws it.
SYNTHETIC = {"jmlr": (protocols.JMLR, draw_jmlr), "ccm": (protocols.CCM, draw_ccm)}
#: Where the files of real data are, if not said.
DATA = "DHSIC_DATA"
SETS = ("ALLAML", "warpPIE10P")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("figure", choices=[*SYNTHETIC, "real"])
    add("--quick", action="store_true", help="a few runs, to see whether all is well")
    add("--runs", type=int, help="data sets for each number of samples; repeats of the folds")
    add("--jobs", type=int, default=usable_cores(), help="processes")
    add("--out", type=Path, default=FIGURES, help="where the figure goes")
    add("--json", type=Path, metavar="FILE", help="write the results here too")
    add("--data", type=Path, help=f"folder of .npz files (X, y), else that of ${DATA}")
    add("--sets", nargs="+", default=SETS, metavar="NAME", help="files in it")
    add("--honest", action="store_true", help="rank inside every fold, not once on all samples")
    return parser, parser.parse_args()


def synthetic(options):
    """Records, table and file of a figure on data of our own."""
    protocol, draw = SYNTHETIC[options.figure]
    if options.quick:
        protocol = protocol.quick()
    if options.runs:
        protocol = replace(protocol, runs=options.runs)
    records = protocols.measure(protocol, options.jobs)
    return records, protocols.printed(protocol, records), draw(records, options.out)


def real(options, files):
    """Records, table and file of the figure on real data."""
    repeats = options.runs or (1 if options.quick else accuracy.N_REPEATS)
    records = accuracy.measure(
        files, repeats, options.jobs, honest=options.honest, quick=options.quick
    )
    return records, accuracy.printed(records), draw_accuracy(records, options.out)


def files_of(options, parser):
    """Paths of the sets; ends the program where there are none."""
    folder = options.data or os.environ.get(DATA)
    if not folder:
        parser.error(f"real data are not part of this repository: pass --data, or set {DATA}")
    files = [Path(folder) / f"{name}.npz" for name in options.sets]
    missing = [str(path) for path in files if not path.is_file()]
    if missing:
        parser.error(f"there is no {', '.join(missing)}: pass the folder of the files as --data")
    return files


def main():
    parser, options = arguments()
    files = files_of(options, parser) if options.figure == "real" else []
    options.out.mkdir(parents=True, exist_ok=True)
    records, text, drawn = real(options, files) if files else synthetic(options)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))
    say(f"wrote {drawn}")


if __name__ == "__main__":
    main()
