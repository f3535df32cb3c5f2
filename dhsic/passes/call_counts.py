"""Counts for filters before a run: alleles, genotypes and missing calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from dhsic._typing import Index
from dhsic.joins.filters import AbstractCounting
from dhsic.passes import AbstractPass, Tile
from dhsic.passes.reader import Reader
from dhsic.passes.single_pass import TakeCensus, float64_height, look_at_few
from dhsic.runtime.base import AbstractRuntime, Jobs
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import missing_mask
from dhsic.sources.values import CODES, Alleles, Census, ValueKind


@dataclass(frozen=True, slots=True)
class CountAlleles(AbstractPass):
    """Pass that counts the alleles of each feature.

    If `looks`, it also takes a `Census` of the values; if `genotypes`, it also counts the values
    equal to 0, 1 and 2. `rows` are the sample indices of the run (None: all samples).
    """

    rows: Index | None
    looks: bool
    genotypes: bool = False

    def over(self, blocks: Iterator[Tile], m: int) -> Alleles:
        census, parts = TakeCensus(self.rows), []
        for block in blocks:
            for tile in block.split(float64_height(m)):
                tile_census = census.over(iter([tile]), m) if self.looks else Census()
                counted = {"genotypes": self.genotypes}
                parts.append(Alleles.of(tile.raw, tile.missing_code, tile_census, **counted))
        return Alleles.join(parts)


@dataclass(frozen=True, slots=True)
class MissingCalls:
    """Missing calls per sample, and a census of the values.

    `n_missing` (m,) is the number of missing values of each sample. Some numbers (`CODES`) may
    stand for missing values; `coded` (codes, m) counts the values equal to each of them.
    """

    n_missing: Index
    coded: Index
    census: Census

    def __add__(self, other: MissingCalls) -> MissingCalls:
        return MissingCalls(
            self.n_missing + other.n_missing,
            self.coded + other.coded,
            self.census + other.census,
        )


@dataclass(frozen=True, slots=True)
class CountMissingCalls(AbstractPass):
    """Pass that counts missing values per sample; if `looks`, it also takes a `Census`."""

    rows: Index | None
    looks: bool

    def over(self, blocks: Iterator[Tile], m: int) -> MissingCalls:
        census, none = TakeCensus(self.rows), np.zeros(m, dtype=np.int64)
        total = MissingCalls(none, np.zeros((len(CODES), m), dtype=np.int64), Census())
        for block in blocks:
            for tile in block.split(float64_height(m)):
                mask = missing_mask(tile.raw, tile.missing_code)
                coded = np.stack([(tile.raw == code).sum(axis=0) for code in CODES])
                if mask is not None:
                    coded -= np.stack([((tile.raw == c) & mask).sum(axis=0) for c in CODES])
                lacking = none if mask is None else mask.sum(axis=0)
                tile_census = census.over(iter([tile]), m) if self.looks else Census()
                total += MissingCalls(lacking, coded, tile_census)
        return total


@dataclass(frozen=True, slots=True)
class CountingOn(AbstractCounting):
    """Counter of alleles and missing calls; `made` creates the runtime of each count."""

    made: Callable[[], AbstractContextManager[AbstractRuntime]]

    def alleles(
        self, source: AbstractSource, rows: Index | None, *, genotypes: bool = False
    ) -> Alleles:
        with self.made() as runtime:
            reader, jobs, census, looks = _looked_at_few(source, runtime, rows)
            a_pass = CountAlleles(rows, looks, genotypes)
            alleles = Alleles.join([*reader.map_blocks(a_pass, jobs)])
            return (alleles if looks else replace(alleles, census=census)).judged(source)

    def missing_calls(self, source: AbstractSource, rows: Index | None) -> Index:
        with self.made() as runtime:
            reader, jobs, census, looks = _looked_at_few(source, runtime, rows)
            counts = reduce(add, reader.map_blocks(CountMissingCalls(rows, looks), jobs))
        if ValueKind.declared(source) is not None:
            return np.asarray(counts.n_missing)
        codes = ValueKind.judged(source, counts.census if looks else census).codes
        return np.asarray(counts.n_missing + counts.coded[np.isin(CODES, [*codes])].sum(axis=0))


def _looked_at_few(
    source: AbstractSource, runtime: AbstractRuntime, rows: Index | None
) -> tuple[Reader, Jobs, Census, bool]:
    """Take the census of a few jobs, unless the format declares the kind of its values.

    Returns a reader, its jobs, the census, and whether all values must be examined.
    """
    every = np.arange(source.n_features, dtype=np.int64)
    reader, census, looks = Reader(source, runtime, rows), Census(), False
    jobs = reader.jobs(every, tags=every)
    if ValueKind.declared(source) is None:  # same rule as `look_at`
        census, _ = look_at_few(reader, TakeCensus(rows), jobs)
        looks = not census.is_ordinary
    return reader, jobs, census, looks


def counting_on(made: Callable[[], AbstractContextManager[AbstractRuntime]]) -> CountingOn:
    """Create a counter of alleles and missing calls; `made` creates the runtime of each count."""
    return CountingOn(made)
