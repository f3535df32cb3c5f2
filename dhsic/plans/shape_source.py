"""Source of genotypes that has sizes but no data, for planning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs import Blosc

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.plans.dry_run import CountedSource
from dhsic.sources.blocks import Block

#: Variants and samples per chunk, as in VCF Zarr; ploidy; frequency of non-reference alleles.
VARIANTS, SAMPLES, PLOIDY, FREQUENCY = 1000, 10_000, 2, 0.2


class Sizes(CountedSource):
    """Genotypes with given numbers of samples and variants, in the layout of a VCF Zarr store.

    Every read decodes the same chunk in memory. Decoding takes as long as with a store, but the
    time of a disk or network is not included.

    Parameters
    ----------
    n_samples, n_features : int
        Numbers of samples and variants.

    Examples
    --------
    >>> source = Sizes(2000, 1_000_000)
    >>> source.read(source.blocks(1000)[0]).shape
    (2000, 1000)
    """

    missing_code = -1
    dosages = keeps_codes = True
    ploidy = PLOIDY

    def __init__(self, n_samples: Any, n_features: Any) -> None:
        for name, n, least in (("n_samples", n_samples, 2), ("n_features", n_features, 1)):
            if isinstance(n, bool) or not isinstance(n, int) or n < least:
                raise InputError(f"{name}={n!r}; pass a whole number, at least {least}.")
        dtype = np.dtype(np.int8)
        super().__init__(n_samples, n_features, dtype, VARIANTS, in_memory=False, samples=SAMPLES)
        shape = VARIANTS, min(n_samples, SAMPLES), PLOIDY
        self.chunk_bytes = int(np.prod(shape))
        calls = np.random.default_rng(0).random(shape, dtype=np.float32) < FREQUENCY
        self._packed = Blosc("zstd", 7, Blosc.BITSHUFFLE).encode(calls.astype(np.int8))

    def read(self, block: Block, rows: Index | None = None) -> Array:
        n = self.n_samples if rows is None else rows.size
        values = np.empty((block.width, n), dtype=np.int8)
        flat = values.reshape(-1)
        for start in range(0, flat.size, self.chunk_bytes // PLOIDY):
            calls = np.frombuffer(Blosc().decode(self._packed), dtype=np.int8)
            part = flat[start : start + calls.size // PLOIDY]
            ours, theirs = calls.reshape(-1, PLOIDY)[: part.size].T
            np.add(ours, theirs, out=part)
        return values.T
