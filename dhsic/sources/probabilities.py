"""Dosages from genotype probabilities, as stored in BGEN and VCF (GP)."""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement
from struct import unpack_from

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.sources.sexes import DIPLOID

#: Unit of the probabilities of BGEN 1.1, of which there are three for each sample.
OLD_UNIT, OLD_COUNT = 32768, 3
#: Bit of the ploidy byte of a sample in BGEN that means a missing call, and bits of the ploidy.
IS_MISSING, PLOIDY = 0x80, 0x3F
#: Bytes of a BGEN record before the ploidies of its samples.
BEFORE = 8
#: Maximum number of bits of a probability; and maximum number for which weighted sums of
#: probabilities are exact in single precision.
MOST_BITS, SINGLE = 32, 16


@cache
def reference_copies(ploidy: int, n_alleles: int) -> Array:
    """Count the first allele in each possible genotype, in VCF's and BGEN's genotype order.

    >>> reference_copies(2, 2).tolist(), reference_copies(2, 3).tolist()
    ([2.0, 1.0, 0.0], [2.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    """
    genotypes = combinations_with_replacement(range(n_alleles), ploidy)
    ordered = sorted(genotypes, key=lambda alleles: alleles[::-1])
    return np.array([alleles.count(0) for alleles in ordered], dtype=np.float64)


@cache
def _weights(ploidy: int, n_alleles: int, is_phased: bool) -> Array:  # noqa: FBT001  # a flag of BGEN
    """Count the first allele in the genotype of each probability that BGEN stores for a sample.

    BGEN omits the last probability of each sample (or haplotype, if phased). It belongs to a
    genotype without the first allele, so dosages do not need it.
    """
    if is_phased:
        return np.tile(np.eye(1, n_alleles - 1)[0], ploidy)
    return reference_copies(ploidy, n_alleles)[:-1]


def old_dosages(records: Array) -> Float:
    """Decode c records of BGEN 1.1 to dosages of the second allele, (c, m) float32.

    A call is missing (NaN) if its probabilities are all 0.
    """
    p = records.view("<u2").reshape(len(records), -1, OLD_COUNT).astype(np.float32)
    with np.errstate(invalid="ignore"):
        dosages: Float = (p[..., 1] + 2 * p[..., 2]) / p.sum(axis=-1)
    return dosages


class Records:
    """Variant records of BGEN 1.2 or 1.3 with the same length and layout.

    Parameters
    ----------
    records : (c, bytes) uint8
        Decompressed records. Their fields: numbers of samples and alleles, minimum and maximum
        ploidy, ploidy of each sample, whether phased, bits per probability, and probabilities.
    n_samples : int
        Number of samples of the file.
    """

    def __init__(self, records: Array, n_samples: int) -> None:
        head, end = records[0, :BEFORE].tobytes(), BEFORE + n_samples
        self.n_samples, self.n_alleles = unpack_from("<IH", head) if len(head) == BEFORE else (0, 0)
        if self.n_samples != n_samples or records.shape[1] < end + 2:
            raise ValueError(f"has {self.n_samples:,} samples instead of {n_samples:,}")
        self.is_phased, self.bits = (int(k) for k in records[0, end : end + 2])
        self.calls, self.data = records[:, BEFORE:end], records[:, end + 2 :]
        if not (self.n_alleles >= DIPLOID and self.is_phased <= 1 and 1 <= self.bits <= MOST_BITS):
            raise ValueError(
                f"says that it has {self.n_alleles} alleles and {self.bits} bits per probability"
            )

    @property
    def ploidies(self) -> Array:
        """Number of alleles of each call, (c, m)."""
        return self.calls & PLOIDY

    def dosages(self) -> Float:
        """Decode the records to dosages (c, m) of all alleles but the first; NaN if missing.

        Calls have at most two alleles. Dosages of haploid calls also range from 0 to 2.

        Raises
        ------
        ValueError
            A record is not valid. The message is a predicate, such as "has too few bytes", to which
            the caller adds the subject.
        """
        ploidies = self.ploidies
        if (ploidies == DIPLOID).all():
            dosages = self._of_diploids()
        else:
            dosages = np.stack([self._of_mixed(row) for row in range(len(self.calls))])
        dosages[(self.calls & IS_MISSING != 0) | (ploidies == 0)] = np.nan
        return dosages.astype(np.float32, copy=False)

    def _of_diploids(self) -> Float:
        weights = _weights(DIPLOID, self.n_alleles, bool(self.is_phased))
        values = self._values(slice(None), self.n_samples * weights.size)
        values = values.reshape(len(values), self.n_samples, -1)
        copies = np.zeros(values.shape[:2], values.dtype)
        for k in np.flatnonzero(weights).tolist():
            copies += float(weights[k]) * values[..., k]
        return self._from_copies(DIPLOID, copies)

    def _of_mixed(self, row: int) -> Float:
        """Decode one record with haploid and diploid calls to dosages (m,) from 0 to 2."""
        ploidies = self.ploidies[row]
        each = [_weights(z, self.n_alleles, bool(self.is_phased)) for z in range(1, DIPLOID + 1)]
        widths = np.array([0, *(weights.size for weights in each)])[ploidies]
        starts = np.cumsum(widths) - widths
        values = self._values(slice(row, row + 1), int(widths.sum()))[0]
        dosages = np.zeros(ploidies.size)
        for z, weights in enumerate(each, start=1):
            samples = np.flatnonzero(ploidies == z)
            at: Index = starts[samples, None] + np.arange(weights.size)
            dosages[samples] = self._from_copies(z, values[at] @ weights) * (DIPLOID / z)
        return dosages

    def _from_copies(self, ploidy: int, copies: Array) -> Float:
        """Convert expected copies of the first allele to dosages of the other alleles.

        `copies` are the expected copies times ``2**bits - 1``.
        """
        unit = copies.dtype.type(2**self.bits - 1)
        dosages: Float = (ploidy * unit - copies) / unit
        if dosages.min(initial=0) < 0:  # probabilities rounded upwards exceed 1 by their unit
            if dosages.min() < -DIPLOID / float(unit):
                raise ValueError("has probabilities with a sum above 1,")
            np.maximum(dosages, 0, out=dosages)
        return dosages

    def _values(self, rows: slice, n: int) -> Array:
        """Decode n probabilities of each record to (records, n), times ``2**bits - 1``."""
        data, bits = self.data[rows], self.bits
        if data.shape[1] < -(-n * bits // 8):
            raise ValueError("has too few bytes for its probabilities")
        kind = np.float32 if bits <= SINGLE else np.float64
        if bits in (8, 16, 32):
            data = np.ascontiguousarray(data[:, : n * bits // 8])
            return data.view(f"<u{bits // 8}").astype(kind)
        ones = np.unpackbits(data, axis=1, bitorder="little", count=n * bits)
        ones = ones.reshape(len(data), n, bits).astype(kind)
        return ones @ np.exp2(np.arange(bits, dtype=kind))
