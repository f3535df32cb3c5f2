"""Ranks of planted features of three matrices of different widths, with and without balance.

    python benchmarks/omics.py [--samples 300] [--sizes 20000 400000 100] [--effect 0.5]

Expression is lognormal, methylation has beta values, and genotypes are dosages; the labels depend
on one feature of each, by the same effect in standard deviations of the noise.
"""

import argparse
import time

import numpy as np
from measuring import say

import dhsic

PLANTED = (5, 17, 3)


def matrices(m, sizes, effect, seed):
    """Draw the three matrices by name, and labels."""
    rng = np.random.default_rng(seed)
    rna = np.exp(rng.standard_normal((m, sizes[0]), dtype=np.float32))
    meth = rng.random((m, sizes[1]), dtype=np.float32)
    snp = rng.binomial(2, rng.uniform(0.1, 0.5, sizes[2]), (m, sizes[2])).astype(np.int8)
    data = {"rna": rna, "meth": meth, "snp": snp}
    signals = [X[:, j].astype(float) for X, j in zip(data.values(), PLANTED, strict=True)]
    y = rng.standard_normal(m)
    y += effect * sum((x - x.mean()) / x.std() for x in signals)
    return data, y


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--sizes", type=int, nargs=3, default=(20_000, 400_000, 100))
    parser.add_argument("--effect", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data, y = matrices(args.samples, args.sizes, args.effect, args.seed)
    for balance in (False, True):
        started = time.perf_counter()
        result = dhsic.select(data, y, balance=balance, interactions=None, progress=False)
        blocks, ranks = result["block"].to_numpy(), result["rank"].to_numpy()
        places = zip(data, PLANTED, strict=True)
        told = ", ".join(f"{name} {ranks[blocks == name][j]:,}" for name, j in places)
        seconds = time.perf_counter() - started
        say(f"balance={balance}: ranks of the planted features {told} ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
