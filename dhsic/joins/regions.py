"""Regions of a genome in a file: PLINK's ranges (``bed1``), which count from 1, and BED, from 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

import numpy as np

from dhsic._typing import Index, Mask
from dhsic.errors import InputError, warn
from dhsic.joins.places import chromosome_codes, described
from dhsic.sources import AbstractSource
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import abbreviate
from dhsic.sources.variants import POSITION, chromosome_name, plink_numbers

#: Lines of BED that are no regions begin so.
OF_BROWSERS = ("track", "browser")
#: Fields of a region: chromosome, start, end; a name and others may follow.
FIELDS = 3


@dataclass(frozen=True)
class Regions:
    """Regions as chromosomes, and positions (n,) from 1; both ends belong to a region."""

    chromosomes: list[str]
    starts: Index
    ends: Index

    @classmethod
    def of(cls, given: Any, name: str, first: int | None) -> Regions:
        """Regions of a file, or of a sequence of (chromosome, start, end).

        Parameters
        ----------
        given : path or sequence of tuples
            Where they are.
        name : str
            The parameter, for sentences.
        first : {0, 1} or None
            The number of the first base of a chromosome. None: 0 in a file ``.bed`` or ``.bed.gz``,
            as BED has it, whose ends do not belong to a region; else 1.

        Raises
        ------
        InputError
            A line is no region.
        """
        is_file = isinstance(given, str | PathLike)
        if first is None:
            suffixes = PurePath(fspath(given)).suffixes if is_file else []
            first = 0 if ".bed" in [suffix.lower() for suffix in suffixes[-2:]] else 1
        regions = [*_parsed(_lines(fspath(given)) if is_file else _rows(given, name), first)]
        if not regions:
            raise InputError(f"{name}= has no regions; pass lines of chromosome, start and end.")
        chromosomes, starts, ends = zip(*regions, strict=True)
        # BED counts from 0 and leaves the end out: its end is the last base, counted from 1.
        return cls(list(chromosomes), np.array(starts) + (1 - first), np.array(ends))

    def holding(self, source: AbstractSource, name: str) -> Mask:
        """Which features (d,) of a source lie in a region.

        Raises
        ------
        InputError
            No feature lies in any, or the data do not say where they lie.
        """
        placed, columns = chromosome_codes(source), described(source)
        if placed is None or POSITION not in columns:
            raise InputError(
                f"The data do not say on which chromosome and where features lie, so {name}= finds "
                "none; take them by name (extract=, exclude=)."
            )
        codes, names = placed
        positions = columns[POSITION].read(slice(0, source.n_features))
        alias = plink_numbers(names)
        bare = [chromosome_name(said) for said in self.chromosomes]
        of_region = np.array([alias.get(each, each) for each in bare], dtype=object)
        mask = np.zeros(source.n_features, dtype=bool)
        n_held = np.zeros(len(bare), dtype=np.int64)
        for code, chromosome in enumerate(names):
            regions = np.flatnonzero(of_region == chromosome)
            if not regions.size:
                continue
            here = np.flatnonzero(codes == code)
            here = here[np.argsort(positions[here], kind="stable")]
            first = np.searchsorted(positions[here], self.starts[regions], "left")
            after = np.searchsorted(positions[here], self.ends[regions], "right")
            n_held[regions] = np.maximum(after - first, 0)
            for i, j in zip(first.tolist(), after.tolist(), strict=True):
                mask[here[i:j]] = True
        self._tell(name, n_held, names)
        return mask

    def _tell(self, name: str, n_held: Index, names: Iterable[str]) -> None:
        """Warn of regions without a feature; refuse where no region has one."""
        empty = np.flatnonzero(n_held == 0)
        listed = [f"{self.chromosomes[i]}:{self.starts[i]}-{self.ends[i]}" for i in empty]
        if empty.size == n_held.size:
            raise InputError(
                f"{name}= lists {n_held.size:,} regions, and no feature of the data lies in any "
                f"({abbreviate(listed)}). The data have the chromosomes {abbreviate(names, 30)}. "
                "Check that both are of the same genome build, or leave it out."
            )
        if empty.size:
            warn(
                f"{name}= lists {n_held.size:,} regions, {empty.size:,} of which hold no feature "
                f"of the data ({abbreviate(listed)}).",
            )


def _lines(path: str) -> Iterator[tuple[str, list[str]]]:
    """Fields of the lines of a file that are not comments, each with what a sentence calls it."""
    text = Delimited(path, is_list=True)
    for number, fields in enumerate(text.lists(), 1):
        if fields[0].startswith("#") or fields[0] in OF_BROWSERS:
            continue
        if number == 1 and len(fields) >= FIELDS and fields[1].isalpha():  # names of columns
            continue
        yield f"{path} has a line {' '.join(fields[:5])!r}, which is", fields


def _rows(given: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Fields of regions in memory."""
    for row in given:
        fields = [row] if isinstance(row, str) or np.ndim(row) == 0 else [*row]
        yield f"{name}= has {row!r}, which is", [str(field) for field in fields]


def _parsed(lines: Iterable[tuple[str, list[str]]], first: int) -> Iterator[tuple[str, int, int]]:
    """Chromosome, start and end of each line."""
    for subject, fields in lines:
        numbers = [field.replace(",", "") for field in fields[1:FIELDS]]
        if len(numbers) < FIELDS - 1 or not all(number.isdecimal() for number in numbers):
            raise InputError(
                f"{subject} no region: pass the chromosome, the start and the end of each, three "
                "columns; chromosomes= takes whole chromosomes, and places such as 6:25-34."
            )
        start, end = map(int, numbers)
        if start < first:
            raise InputError(
                f"{subject} no region of positions that count from 1. If they count from 0, as in "
                "BED, pass regions_start=0."
            )
        if end < start:
            raise InputError(f"{subject} a region whose end lies before its start. Mend that line.")
        yield fields[0], start, end
