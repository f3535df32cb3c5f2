"""`dhsic test` as a whole command against one that reads and decodes every chunk, in turn.

    dhsic simulate genotypes.vcz --samples 2000 --variants 1000000 --trait quantitative --seed 1
    python bare_reads.py genotypes.vcz

Both with the imports that they need, on two threads; POSIX alone, which counts what a child took.
"""

import argparse
import os
import subprocess
import sys
import time
from statistics import median

from tables import markdown, number

BARE = """
import sys
from concurrent.futures import ThreadPoolExecutor
import zarr
array = zarr.open_group(sys.argv[1], mode="r")["call_genotype"]
n = array.chunks[0]
with ThreadPoolExecutor(2) as pool:
    sum(pool.map(lambda start: array[start : start + n].shape[0], range(0, array.shape[0], n)))
"""


def taken(command):
    """Seconds of the clock and of the processor that a command takes, and its peak in GB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    clock = time.perf_counter() - start
    return clock, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", help="VCF Zarr")
    parser.add_argument("--target", default="sample_trait")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    bare = [sys.executable, "-c", BARE, options.store]
    test = [sys.executable, "-m", "dhsic", "test", options.store, "--target", options.target]
    found = [(taken(bare), taken([*test, "--threads", "2"])) for _ in range(options.repeat)]
    heads = ("", "bare", "dhsic test", "over bare")
    rows = []
    for k, name in enumerate(("clock, s", "processor, s", "peak, GB")):
        one, other = (median(pair[i][k] for pair in found) for i in range(2))
        rows.append([name, number(one, 2), number(other, 2), number(other / one, 2)])
    print(markdown(heads, rows))


if __name__ == "__main__":
    main()
