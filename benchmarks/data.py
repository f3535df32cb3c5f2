"""The data that benchmarks run on: planted features among noise, and genotypes in Zarr stores."""

import time
from pathlib import Path

import numpy as np
from measuring import SIGN_OF_LIFE_S, say

from dhsic.simulation import simulate_genotypes

#: Features with an effect of their own in the label "additive".
N_ADDITIVE = 4
LABELS = ("additive", "pair")


def planted(m, d, seed):
    """Standard-normal X (m, d) float32 and two binary labels, with the features behind each.

    "additive": whether the sum of four features and some noise is above its median.
    "pair": the sign of the product of two others; neither tells anything alone.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d), dtype=np.float32)
    chosen = rng.permutation(d)[: N_ADDITIVE + 2]
    alone, pair = chosen[:N_ADDITIVE], chosen[N_ADDITIVE:]
    liability = X[:, alone].sum(axis=1) + rng.standard_normal(m)
    y = {
        "additive": (liability > np.median(liability)).astype(int),
        "pair": (X[:, pair[0]] * X[:, pair[1]] > 0).astype(int),
    }
    return X, y, {"additive": alone.tolist(), "pair": pair.tolist()}


def genotypes(folder, m, d, *, seed=7, layout="plain"):
    """Path of a store of simulated genotypes in `folder`; made the first time, then reused.

    A store is written aside and renamed when it is whole, so one that is there is complete.
    """
    path = Path(folder) / f"genotypes-{m}x{d}-{layout}-seed{seed}.zarr"
    if path.exists():
        say(f"reuse {path.name}")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    done, told = 0, time.monotonic()

    def on_block(n):
        nonlocal done, told
        done += n
        if time.monotonic() - told > SIGN_OF_LIFE_S:
            told = time.monotonic()
            say(f"    {done / d:.0%}")

    say(f"simulate {path.name}")
    simulate_genotypes(path, n_samples=m, n_variants=d, seed=seed, layout=layout, on_block=on_block)
    return path


def matrix_of(path):
    """Name of the matrix in a store of `genotypes`."""
    return "call_genotype" if "-vcz-" in Path(path).name else "dosage"
