"""Processor time of writing the table of a million variants, as `dhsic test --out` writes it.

Run ``python benchmarks/writing.py [ROWS] [SUFFIX ...]``; suffixes are .tsv, .tsv.gz and .parquet.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr
from tables import markdown, mebibytes, seconds

import dhsic

SUFFIXES = (".tsv", ".tsv.gz", ".parquet")


def tested(d):
    """Result of `dhsic test` for d variants, with all its columns."""
    rng = np.random.default_rng(0)
    p = rng.random(d) ** 2
    contig, position = np.sort(rng.integers(1, 23, d)), np.sort(rng.integers(1, 2 * 10**8, d))
    alleles = rng.integers(0, 4, (2, d))
    names = np.array([f"{c}:{at}" for c, at in zip(contig, position, strict=True)], dtype=object)
    ranks = np.empty(d, dtype=np.int64)
    ranks[np.argsort(p, kind="stable")] = np.arange(1, d + 1)
    floats = {
        "score": -np.log10(p),
        "allele_frequency": rng.integers(0, 4000, d) / 4000,
        "p": p,
        "q": np.minimum(1.0, p * 3),
        "hsic": 1e-3 * rng.standard_normal(d),
        "width": rng.choice([0.5, 1.0, 2.0], d),
    }
    columns = {
        "rank": ranks,
        "selected": p < 1e-6,
        "n_missing": rng.integers(0, 20, d),
        "constant": np.zeros(d, dtype=bool),
        "round_scored": np.ones(d, dtype=np.int64),
        "shape": rng.choice(np.array(["linear", "turning"], dtype=object), d),
        **floats,
    }
    coords = {
        "feature": names,
        "variant_contig": contig.astype(str).astype(object),
        "variant_position": position,
        "variant_id": names,
        "variant_ref": np.array([*"ACGT"], dtype=object)[alleles[0]],
        "variant_alt": np.array([*"ACGT"], dtype=object)[alleles[1]],
    }
    return xr.Dataset(
        {name: ("features", values) for name, values in columns.items()},
        {name: ("features", values) for name, values in coords.items()},
        {"n_samples": 2000},
    )


def main(d, suffixes):
    result, lines = tested(d), []
    with tempfile.TemporaryDirectory() as folder:
        for suffix in suffixes:  # loads the libraries
            dhsic.save(result.isel(features=slice(10)), Path(folder) / f"few{suffix}")
        for suffix in suffixes:
            path = Path(folder) / f"table{suffix}"
            begun = time.process_time()
            dhsic.save(result, path)
            spent = time.process_time() - begun
            lines.append([f"`{suffix}`", seconds(spent), mebibytes(path.stat().st_size)])
    print(markdown([f"{d:,} variants", "processor time", "size"], lines))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1_000_000, sys.argv[2:] or SUFFIXES)
