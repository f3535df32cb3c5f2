"""Regions of a genome from a file: PLINK's ranges (``bed1``) count from 1, BED counts from 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

import numpy as np

from dhsic._typing import Index, Mask
from dhsic.errors import InputError, warn
from dhsic.joins.places import chromosome_codes
from dhsic.sources import AbstractSource
from dhsic.sources.delimited import Delimited
from dhsic.sources.ids import abbreviate
from dhsic.sources.variants import POSITION, chromosome_name, plink_numbers
from dhsic.sources.views import described

#: First words of lines of BED that are not regions.
OF_BROWSERS = ("track", "browser")
#: Number of required fields of a region: chromosome, start, end. Other fields may follow.
FIELDS = 3


@dataclass(frozen=True)
class Regions:
    """Regions (n,): chromosome, and start and end position, counted from 1 and both included."""

    chromosomes: list[str]
    starts: Index
    ends: Index

    @classmethod
    def of(cls, given: Any, name: str, first: int | None) -> Regions:
        """Create regions from a file, or from a sequence of (chromosome, start, end).

        Parameters
        ----------
        given : path or sequence of tuples
            The file, or the regions.
        name : str
            Name of the parameter, for messages.
        first : {0, 1} or None
            Number of the first base of a chromosome. None means 0 for files ``.bed`` and
            ``.bed.gz``, where regions exclude their end, and 1 for others.

        Raises
        ------
        InputError
            A line is not a region.
        """
        is_file = isinstance(given, str | PathLike)
        if first is None:
            suffixes = PurePath(fspath(given)).suffixes if is_file else []
            first = 0 if ".bed" in [suffix.lower() for suffix in suffixes[-2:]] else 1
        regions = [*_parsed(_lines(fspath(given)) if is_file else _rows(given, name), first)]
        if not regions:
            raise InputError(
                f"{name}= contains no regions. Pass lines with chromosome, start and end."
            )
        chromosomes, starts, ends = zip(*regions, strict=True)
        # BED counts from 0 and excludes the end, so its end is the last base if counted from 1.
        return cls(list(chromosomes), np.array(starts) + (1 - first), np.array(ends))

    def holding(self, source: AbstractSource, name: str) -> Mask:
        """Return the mask (d,) of the features of a source that lie in a region.

        Raises
        ------
        InputError
            No feature lies in any region, or the data have no positions of features.
        """
        placed, columns = chromosome_codes(source), described(source)
        if placed is None or POSITION not in columns:
            raise InputError(
                f"The data do not specify the chromosomes and positions of features, so {name}= "
                "cannot find any. Select features by name instead (extract=, exclude=)."
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
        """Warn of regions without features; InputError if no region has a feature.

        `n_held` (n,) are the numbers of features per region, and `names` the chromosomes of the
        data.
        """
        empty = np.flatnonzero(n_held == 0)
        listed = [f"{self.chromosomes[i]}:{self.starts[i]}-{self.ends[i]}" for i in empty]
        if empty.size == n_held.size:
            raise InputError(
                f"{name}= lists {n_held.size:,} regions, but no feature of the data lies in any "
                f"of them ({abbreviate(listed)}). The data have the chromosomes "
                f"{abbreviate(names, 30)}. Check that both use the same genome build, or do not "
                f"use {name}=."
            )
        if empty.size:
            warn(
                f"{name}= lists {n_held.size:,} regions. Without a feature of the data: "
                f"{empty.size:,} of them ({abbreviate(listed)}).",
            )


def _lines(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield a description, for messages, and the fields of each line that is not a comment."""
    text = Delimited(path, is_list=True)
    for number, fields in enumerate(text.lists(), 1):
        if fields[0].startswith("#") or fields[0] in OF_BROWSERS:
            continue
        if number == 1 and len(fields) >= FIELDS and fields[1].isalpha():  # a header
            continue
        yield f"Line {' '.join(fields[:5])!r} of {path}", fields


def _rows(given: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield a description, for messages, and the fields of each region in memory."""
    for row in given:
        fields = [row] if isinstance(row, str) or np.ndim(row) == 0 else [*row]
        yield f"Region {row!r} of {name}=", [str(field) for field in fields]


def _parsed(lines: Iterable[tuple[str, list[str]]], first: int) -> Iterator[tuple[str, int, int]]:
    """Yield chromosome, start and end of each line; a line is its description and its fields.

    `first` is the number of the first base of a chromosome, 0 or 1.
    """
    for subject, fields in lines:
        numbers = [field.replace(",", "") for field in fields[1:FIELDS]]
        if len(numbers) < FIELDS - 1 or not all(number.isdecimal() for number in numbers):
            raise InputError(
                f"{subject} is not a region. Write three columns: chromosome, start and end. For "
                "whole chromosomes, and intervals such as 6:25-34, use chromosomes=."
            )
        start, end = map(int, numbers)
        if start < first:
            raise InputError(
                f"{subject} has a position of 0, but positions are counted from 1 here. If they "
                "are counted from 0, as in BED, pass regions_start=0."
            )
        if end < start:
            raise InputError(f"{subject} ends before it starts. Correct this line.")
        yield fields[0], start, end
