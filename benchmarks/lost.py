"""Whether features lost to low rank are as many as the run expects, and what a turn is a sign of.

    python benchmarks/lost.py --data FOLDER --cache FOLDER [--only golub ...] [--draws 5] [--turns]

Every draw of labels (`agreement.py`) is run exactly, and in low rank with several settings: those
of the run and cruder ones that no tolerance mends. Counted are the features of the last 100 and
1,000 that the exact run has and low rank lost, beside what the run says of itself. With `--turns`
exact runs are repeated without a sample instead: `kept` is the part of the last 100 that came back.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from agreement import DATA, labels, left_out
from measuring import say
from tables import markdown

import dhsic
from dhsic.passes import engineplan, landmark_sampling, lowrank

LAST = (100, 1000)
#: Directions, landmarks, features from which on a run is exact, tolerance.
SETTINGS = {
    "as it is": (32, 192, 1024, 0.01),
    "crude": (12, 64, 1024, 1.0),
    "cruder": (6, 32, 1024, 1.0),
    "as it is, low rank to the end": (32, 192, 80, 0.01),
    "crude, low rank to the end": (12, 64, 80, 1.0),
}
N_LEFT_OUT, UNSTABLE = 4, 0.75


def last(result, n):
    """Features of the n best."""
    return np.flatnonzero(result["rank"].to_numpy() <= n)


def run(X, y, solver, n=LAST[0], **options):
    """Result of a run for n features; -1 is missing where data are codes."""
    code = -1 if X.dtype.itemsize == 1 else None
    how = {"solver": solver, "missing_code": code, "progress": False, **options}
    return dhsic.select(X, y, n_features_to_select=n, **how)


def in_low_rank(X, y, setting, n):
    """Result of a run in low rank with a setting, for n features."""
    lowrank.DIRECTIONS, landmark_sampling.FIRST_LANDMARKS, engineplan.ALWAYS_EXACT, tolerance = (
        setting
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(X, y, "lowrank", n, max_expected_loss=tolerance)


def lost_in(X, y, exact):
    """(setting, n, lost, expected, most) of every setting."""
    for name, setting in SETTINGS.items():
        for n in LAST:
            result = in_low_rank(X, y, setting, n)
            lost = np.setdiff1d(last(exact, n), last(result, n)).size
            yield name, n, lost, result.attrs["expected_lost"], result.attrs["most_lost"]


def table_of(found):
    """Rows: means over draws, and how many were covered."""
    for setting in SETTINGS:
        for n in LAST:
            some = np.array([row[2:] for row in found if row[:2] == (setting, n)])
            lost, expected, most = some.mean(axis=0)
            covered = f"{np.sum(some[:, 0] <= some[:, 2])} of {len(some)}"
            yield setting, f"{n:,}", f"{lost:.1f}", f"{expected:.1f}", f"{most:.1f}", covered


def kept(X, y, draw):
    """Mean part of the last features that came back without a sample, and the turn told."""
    exact, n = run(X, y, "exact"), LAST[0]
    parts = []
    for sample in left_out(len(X), draw, N_LEFT_OUT):
        others = np.arange(len(X)) != sample
        parts.append(np.intersect1d(last(run(X[others], y[others], "exact"), n), last(exact, n)))
    return float(np.mean([part.size / n for part in parts])), exact.attrs["turn_rank"]


def show_turns(found):
    """How many runs that were unstable, and others, a turn was told of."""
    for name, unstable in (("unstable", True), ("others", False)):
        told = [turn > 0 for part, turn in found if (part < UNSTABLE) == unstable]
        print(f"{name}: a turn was told of {sum(told)} of {len(told)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the .npz files")
    parser.add_argument("--cache", type=Path, required=True, help="folder of simulated genotypes")
    parser.add_argument("--only", nargs="+", choices=[data.name for data in DATA])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    found = []
    for data in DATA:
        if options.only and data.name not in options.only:
            continue
        X, y = data.load(options.data, options.cache)
        for draw in range(options.draws):
            of_draw = labels(X, y, draw)
            if options.turns:
                found.append(kept(X, of_draw, draw))
            else:
                found += lost_in(X, of_draw, run(X, of_draw, "exact"))
            say(f"{data.name}, draw {draw}: {found[-1]}")
    if options.turns:
        show_turns(found)
    else:
        print(markdown(["setting", "of", "lost", "expected", "most", "covered"], table_of(found)))


if __name__ == "__main__":
    main()
