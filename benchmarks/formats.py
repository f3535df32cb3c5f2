"""Processor time of `dhsic test` on BGEN, VCF and BCF, beside Zarr with the same dosages.

For BGEN the bound is 1.3 times the sum of two times: reading all dosages by the package bgen, and
the same test of Zarr. Files are simulated: probabilities of 8 bits that vary as imputed ones do.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

BARE = """import sys, bgen
for variant in bgen.BgenReader(sys.argv[1], delay_parsing=True):
    variant.alt_dosage
"""


def write_bgen(path, m, d, seed=0):
    """Write simulated probabilities (8 bits, zlib), most of them close to 0 or 1."""
    import bgen

    rng = np.random.default_rng(seed)
    with bgen.BgenWriter(path, m, samples=[f"s{i}" for i in range(m)]) as out:
        for j in range(d):
            calls = rng.binomial(2, rng.uniform(0.02, 0.5), m)
            spread = rng.exponential(0.02, (m, 1))
            P = np.eye(3)[calls] * (1 - spread) + spread * rng.dirichlet((1, 1, 1), m)
            P /= P.sum(axis=1, keepdims=True)
            out.add_variant(f"v{j}", f"v{j}", "1", 10 * j + 5, ["A", "G"], P, bit_depth=8)


def processor_seconds(*arguments):
    """Run a command in a process with one thread; return its processor time."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    before = os.times()
    subprocess.run([*map(str, arguments)], check=True, capture_output=True, env=environment)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def measured(folder, m, d, repeats):
    """Return the median processor times of reading, and of a test of each format."""
    dhsic = (sys.executable, "-W", "ignore", "-m", "dhsic")
    bgen, zarr, labels = folder / "x.bgen", folder / "x.zarr", folder / "y.tsv"
    write_bgen(bgen, m, d)
    y = np.random.default_rng(1).standard_normal(m)
    labels.write_text("IID\ty\n" + "".join(f"s{i}\t{v:.5f}\n" for i, v in enumerate(y)))
    subprocess.run([*dhsic, "convert", bgen, zarr], check=True, capture_output=True)
    test = ("--labels", labels, "--target", "y", "--threads", 1)
    commands = {
        "start": (*dhsic, "--version"),
        "package bgen, reading": (sys.executable, "-c", BARE, bgen),
        "Zarr, float32": (*dhsic, "test", zarr, *test),
        "BGEN": (*dhsic, "test", bgen, *test),
    }
    times = [{name: processor_seconds(*c) for name, c in commands.items()} for _ in range(repeats)]
    return {name: float(np.median([each[name] for each in times])) for name in commands}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--variants", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds = measured(Path(folder), options.samples, options.variants, options.repeats)
    for name, value in seconds.items():
        print(f"{name:24} {value:7.2f} s")
    bound = seconds["package bgen, reading"] + seconds["Zarr, float32"]
    print(f"{'BGEN over both':24} {seconds['BGEN'] / bound:7.2f}")


if __name__ == "__main__":
    main()
