"""A pass over a source for what its values are: dosages and codes for missing ones, or others."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Index
from dhsic.passes.reader import Reader
from dhsic.passes.tasks import Wanted, raw_columns
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources.base import AbstractSource
from dhsic.sources.values import Census, Values, total

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
) -> Values:
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
        As of `Values.of`.
    """
    known = Values.known(source)
    if known is not None:
        return known
    m = source.n_samples if rows is None else len(rows)
    reader = Reader(source, runtime, Wanted(rows, m, statistic=False))
    jobs = reader.jobs(np.arange(source.n_features, dtype=np.int64))
    some = sorted({*np.linspace(0, len(jobs) - 1, FEW_JOBS).astype(int).tolist()})
    tally = total(list(reader.joined(census_of, [jobs[i] for i in some])))
    if whole and not tally.is_ordinary:
        rest = [job for i, job in enumerate(jobs) if i not in some]
        tally = total([tally, *reader.joined(census_of, rest)])
    return Values.judged(source, tally, as_they_are=as_they_are)


def census_of(source: AbstractSource, job: Job, wanted: Wanted) -> Census:
    """Census of the values of the job."""
    return total(
        [
            Census.of(
                raw_columns(source, block, columns, wanted),
                source.missing_code,
                block.start + columns.local,
                wanted.rows,
            )
            for block, columns in zip(job.blocks, job.payload, strict=True)
        ]
    )
