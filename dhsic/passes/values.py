"""A pass over a source for what its values are: dosages and codes for missing ones, or others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dhsic._typing import Index
from dhsic.passes.reader import Reader
from dhsic.passes.task import AbstractPass, Tile
from dhsic.runtime.base import AbstractRuntime
from dhsic.sources.base import AbstractSource
from dhsic.sources.values import Census, ValueKind, total

#: Values up to which a plan looks at all of them.
LOOKED_AT = 1 << 30
#: Jobs that are looked at first: where these are of another kind, so are the rest.
FEW_JOBS = 3


def look_at(
    source: AbstractSource,
    runtime: AbstractRuntime,
    rows: Index | None,
    *,
    whole: bool = True,
    as_they_are: bool = False,
) -> ValueKind:
    """What the values of a source are.

    A few blocks are read; all of them where those look like dosages, unless the format says what
    values are.

    Parameters
    ----------
    rows : (m,) int64, optional
        Samples that take part, all by default.
    whole : bool
        Whether more than a few blocks may be read.
    as_they_are : bool
        Whether every number counts as it is, whatever the source says.

    Raises
    ------
    DataError
        As of `ValueKind.of`.
    """
    known = ValueKind.known(source)
    if known is not None:
        return known
    reader, census = Reader(source, runtime, rows), TakeCensus(rows)
    every = np.arange(source.n_features, dtype=np.int64)
    jobs = reader.jobs(every, tags=every)
    some = sorted({*np.linspace(0, len(jobs) - 1, FEW_JOBS).astype(int).tolist()})
    tally = total(list(reader.joined(census, [jobs[i] for i in some])))
    if whole and not tally.is_ordinary:
        rest = [job for i, job in enumerate(jobs) if i not in some]
        tally = total([tally, *reader.joined(census, rest)])
    return ValueKind.judged(source, tally, as_they_are=as_they_are)


@dataclass(frozen=True, slots=True)
class TakeCensus(AbstractPass):
    """Census of the values; tags are the numbers of the features, `rows` those of the samples."""

    rows: Index | None

    def over(self, blocks: Iterator[Tile], m: int) -> Census:
        return total([Census.of(b.raw, b.missing_code, b.tags, self.rows) for b in blocks])
