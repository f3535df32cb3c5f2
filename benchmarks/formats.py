"""Processor time of `dhsic test` on BGEN, .pgen and VCF, beside Zarr with the same dosages.

    python formats.py                      # BGEN
    python formats.py --calls              # .pgen and .vcf.gz
    python formats.py --prefix x --labels y.tsv    # x.bed, x.pgen and x.zarr, which exist

For BGEN and VCF the bound is 1.3 times the sum of two times: bare reading of all dosages by the
packages bgen and cyvcf2, and the same test of Zarr. For .pgen it is 1.2 times the test of
Zarr. Files are simulated: probabilities of 8 bits that vary as imputed ones do, or calls.
"""

import argparse
import gzip
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
BARE_VCF = """import sys, cyvcf2
for variant in cyvcf2.VCF(sys.argv[1], gts012=True):
    variant.gt_types
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


def write_calls(path, m, d, seed=0):
    """Write simulated calls as .pgen with its tables, and as .vcf.gz."""
    import pgenlib

    rng, texts = np.random.default_rng(seed), np.array(["0/0", "0/1", "1/1"], dtype=object)
    names = [f"s{i}" for i in range(m)]
    heads = "##fileformat=VCFv4.2\n##contig=<ID=1>\n"
    heads += '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n'
    columns = "#CHROM\tPOS\tID\tREF\tALT"
    with (
        gzip.open(path.with_suffix(".vcf.gz"), "wt", compresslevel=6) as vcf,
        pgenlib.PgenWriter(bytes(path.with_suffix(".pgen")), m, d, nonref_flags=False) as pgen,
        path.with_suffix(".pvar").open("w") as pvar,
    ):
        vcf.write(f"{heads}{columns}\tQUAL\tFILTER\tINFO\tFORMAT\t" + "\t".join(names) + "\n")
        pvar.write(f"{columns}\n")
        for j in range(d):
            calls = rng.binomial(2, rng.uniform(0.02, 0.5), m).astype(np.int8)
            place = f"1\t{10 * j + 5}\tv{j}\tA\tG"
            vcf.write(f"{place}\t.\t.\t.\tGT\t" + "\t".join(texts[calls]) + "\n")
            pvar.write(f"{place}\n")
            pgen.append_biallelic(calls)
    path.with_suffix(".psam").write_text("#IID\n" + "".join(f"{name}\n" for name in names))


def processor_seconds(*arguments):
    """Run a command in a process with one thread; return its processor time."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    before = os.times()
    subprocess.run([*map(str, arguments)], check=True, capture_output=True, env=environment)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def commands_of(folder, m, d, *, calls):
    """Write the files; return the commands to measure, by what they do."""
    dhsic = (sys.executable, "-W", "ignore", "-m", "dhsic")
    zarr, labels = folder / "x.zarr", folder / "y.tsv"
    y = np.random.default_rng(1).standard_normal(m)
    labels.write_text("IID\ty\n" + "".join(f"s{i}\t{v:.5f}\n" for i, v in enumerate(y)))
    test = ("--labels", labels, "--target", "y", "--threads", 1)
    first = folder / ("x.pgen" if calls else "x.bgen")
    (write_calls if calls else write_bgen)(first, m, d)
    subprocess.run([*dhsic, "convert", first, zarr], check=True, capture_output=True)
    bare, path = (BARE_VCF, folder / "x.vcf.gz") if calls else (BARE, first)
    files = {".pgen": first, ".vcf.gz": path} if calls else {"BGEN": first}
    return {
        "start": (*dhsic, "--version"),
        "bare reading": (sys.executable, "-c", bare, path),
        "Zarr": (*dhsic, "test", zarr, *test),
        **{name: (*dhsic, "test", file, *test) for name, file in files.items()},
    }


def commands_on(prefix, labels):
    """Return the commands to measure on existing files of the same calls, by format."""
    test = (sys.executable, "-W", "ignore", "-m", "dhsic", "test")
    options = ("--labels", labels, "--target", "y", "--threads", 1)
    files = {"Zarr": f"{prefix}.zarr", ".bed": f"{prefix}.bed", ".pgen": f"{prefix}.pgen"}
    return {name: (*test, path, *options) for name, path in files.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--variants", type=int, default=40_000)
    parser.add_argument("--calls", action="store_true", help="calls instead of dosages")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prefix", help="measure PREFIX.zarr, PREFIX.bed and PREFIX.pgen")
    parser.add_argument("--labels", help="table with the column y, for --prefix")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = options.samples, options.variants
        if options.prefix is None:
            commands = commands_of(Path(folder), *size, calls=options.calls)
        else:
            commands = commands_on(options.prefix, options.labels)
        runs = [
            {name: processor_seconds(*c) for name, c in commands.items()}
            for _ in range(options.repeats)
        ]
    seconds = {name: float(np.median([run[name] for run in runs])) for name in commands}
    for name, value in seconds.items():
        print(f"{name:24} {value:7.2f} s")
    zarr = seconds["Zarr"]
    both = zarr + seconds.get("bare reading", 0.0)
    for name, bound in {"BGEN": both, ".vcf.gz": both, ".pgen": zarr, ".bed": zarr}.items():
        if name in seconds:
            what = "Zarr" if bound == zarr else "Zarr and bare reading"
            print(f"{name + ' over ' + what:24} {seconds[name] / bound:7.2f}")


if __name__ == "__main__":
    main()
