"""Simulated genotypes with linkage and population structure, for any range of variants.

Each population has `FOUNDERS` founder haplotypes. The alleles along a founder come from a Gaussian
AR(1) process; a threshold determines the allele frequency of each variant. So neighbouring variants
are linked, and linkage decays with distance. Allele frequencies of the populations drift from a
common ancestor (Balding and Nichols 1995). A haplotype of a sample copies one founder of its
population over some distance, then another (Li and Stephens 2003).

Variants are simulated in segments of 512, each with its own seed, and copied from founders in
tracts of 32. So the genotypes of a variant depend only on the seed and its index, and not on the
blocks in which variants are written. Linkage ends at the end of a segment, as at a strong
recombination hotspot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dhsic._typing import Array
from dhsic.errors import InputError

SEGMENT = 512
TRACT = 32  # variants per tract, a divisor of SEGMENT; copied founders change only between tracts
FOUNDERS = 200  # per population
FST = 0.05
LINKAGE = 0.97  # AR(1) coefficient: r2 of 0.20, 0.09, 0.04, 0.01 at 1, 10, 20, 50 variants
SWITCH = 0.1  # probability that the next tract is copied from another founder
RAREST = 0.02  # minimum ancestral allele frequency; frequencies are log-uniform up to 1/2

Calls = NDArray[np.int8]


def generator(seed: int, *key: int) -> np.random.Generator:
    """Return the random generator for the part of the simulation that `key` identifies."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


@dataclass(frozen=True, slots=True)
class Cohort:
    """Simulated samples (m): their populations, and the fraction `missing` of their calls."""

    n_samples: int
    n_populations: int
    missing: float
    seed: int
    population: Calls = field(init=False, repr=False)  # (m,)

    def __post_init__(self) -> None:
        if self.n_samples < 10:
            raise InputError(f"n_samples={self.n_samples} is too few; pass 10 or more.")
        if not 1 <= self.n_populations <= min(100, self.n_samples):
            raise InputError(
                f"n_populations={self.n_populations} for {self.n_samples} samples; pass 1 to "
                "100, and at most the number of samples."
            )
        if not 0 <= self.missing < 1:
            raise InputError(f"missing={self.missing}; pass a fraction, 0 <= missing < 1.")
        if self.seed < 0:
            raise InputError(f"seed={self.seed} is negative; pass 0 or more.")
        members = np.arange(self.n_samples) % self.n_populations
        shuffled = generator(self.seed, 0).permutation(members).astype(np.int8)
        object.__setattr__(self, "population", shuffled)


class Haplotypes:
    """Simulator of the genotypes of a cohort.

    The last segment is cached, so variants should be requested in order, by one thread per object.
    """

    def __init__(self, cohort: Cohort) -> None:
        self.cohort = cohort
        self._last = -1
        self._founders, self._copied = np.empty((0, 0), np.int8), np.empty((0, 0), np.int16)

    def genotypes(self, start: int, stop: int, *, complete: bool = False) -> Calls:
        """Alleles (c, m, 2) of the variants from start to stop: 0 or 1; -1 if missing.

        With `complete`, no calls are missing.
        """
        first, last = start // TRACT, -(-stop // TRACT)
        calls = np.empty(((last - first) * TRACT, 2 * self.cohort.n_samples), np.int8)
        for tract in range(first, last):
            rows = calls[(tract - first) * TRACT :][:TRACT]
            segment, inside = divmod(tract, SEGMENT // TRACT)
            if segment != self._last:
                self._founders, self._copied = _draw_segment(self.cohort, segment)
                self._last = segment
            founders, copied = self._founders[inside * TRACT :][:TRACT], self._copied[inside]
            # mode="clip" skips bounds checks; all indices are in range by construction.
            np.take(founders, copied.astype(np.intp), 1, out=rows, mode="clip")
            if not complete:
                _lose_calls(self.cohort, tract, rows)
        selected = calls[start - first * TRACT : stop - first * TRACT]
        return selected.reshape(stop - start, self.cohort.n_samples, 2)

    def dosage(self, start: int, stop: int, *, complete: bool = False) -> Calls:
        """Dosages (c, m) of the variants from start to stop: 0, 1 or 2; -1 if missing.

        With `complete`, no calls are missing.
        """
        calls = self.genotypes(start, stop, complete=complete)
        # Either both alleles are missing or none, so the sum is -2 if a call is missing.
        total: Calls = calls[..., 0] + calls[..., 1]
        return np.maximum(total, -1, out=total)


def _draw_segment(cohort: Cohort, index: int) -> tuple[Calls, NDArray[np.int16]]:
    """Simulate a segment: alleles of the founders, and the founder that each haplotype copies.

    The alleles of founders are 0 or 1, (SEGMENT, populations * FOUNDERS). The index of the copied
    founder in each tract is (SEGMENT / TRACT, 2m), for two haplotypes of each of m samples.
    """
    rng = generator(cohort.seed, 1, index)
    frequencies = _drifted_frequencies(rng, cohort.n_populations)  # (SEGMENT, populations)
    threshold = np.repeat(ndtri(frequencies), FOUNDERS, axis=1)
    founders = (_linked_normals(rng, threshold.shape[1]) < threshold).view(np.int8)
    return founders, _mosaics(rng, cohort.population)


def _drifted_frequencies(rng: np.random.Generator, n_populations: int) -> Array:
    ancestral = np.exp(rng.uniform(np.log(RAREST), np.log(0.5), size=(SEGMENT, 1)))
    concentration = (1 - FST) / FST
    return rng.beta(
        ancestral * concentration, (1 - ancestral) * concentration, size=(SEGMENT, n_populations)
    )


def _linked_normals(rng: np.random.Generator, n_haplotypes: int) -> Array:
    z = rng.standard_normal((SEGMENT, n_haplotypes), dtype=np.float32)
    z[1:] *= np.float32(np.sqrt(1 - LINKAGE**2))
    for row in range(1, SEGMENT):
        z[row] += np.float32(LINKAGE) * z[row - 1]
    return z


def _mosaics(rng: np.random.Generator, population: Calls) -> NDArray[np.int16]:
    shape = (SEGMENT // TRACT, 2 * len(population))
    copied = rng.integers(FOUNDERS, size=shape, dtype=np.int16)
    stay = rng.random(shape, dtype=np.float32) >= SWITCH
    for tract in range(1, len(copied)):
        np.copyto(copied[tract], copied[tract - 1], where=stay[tract])
    copied += np.repeat(population, 2).astype(np.int16) * np.int16(FOUNDERS)
    return copied


def _lose_calls(cohort: Cohort, tract: int, rows: Calls) -> None:
    rng = generator(cohort.seed, 2, tract)
    pairs = rows.reshape(-1, 2)
    n_lost = rng.binomial(len(pairs), cohort.missing)
    pairs[rng.integers(len(pairs), size=n_lost)] = -1
