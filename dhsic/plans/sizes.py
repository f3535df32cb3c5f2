"""Sizes of data that nobody has yet: a source of genotypes that are nowhere, for a plan of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs import Blosc

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.plans.dry import CountedSource
from dhsic.sources.blocks import Block

#: Variants and samples of a chunk, as VCF Zarr has them, copies of a chromosome, and the part of
#: alleles that are not the reference.
VARIANTS, SAMPLES, PLOIDY, FREQUENCY = 1000, 10_000, 2, 0.2


class Sizes(CountedSource):
    """Genotypes of so many samples and variants, as a VCF Zarr store would have them.

    What is read is one chunk, decoded again and again from memory: the time of decoding is that of
    a store, without that of a disk or a network.

    Parameters
    ----------
    n_samples, n_features : int
        How many there are to be.

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
                raise InputError(f"{name}={n!r}; pass how many there are to be, {least} or more.")
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
            some = flat[start : start + calls.size // PLOIDY]
            ours, theirs = calls.reshape(-1, PLOIDY)[: some.size].T
            np.add(ours, theirs, out=some)
        return values.T
