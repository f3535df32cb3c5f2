"""A pass over a source for what its values are: dosages and codes for missing ones, or others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dhsic._typing import Index
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.scoring.reader import Reader
from dhsic.scoring.tasks import Wanted, raw_columns
from dhsic.sources.base import AbstractSource
from dhsic.sources.values import Tally, Values, total

#: Values up to which a plan looks at all of them.
LOOKED_AT = 1 << 30
#: Jobs that are looked at first: where these are of another kind, so are the rest.
FEW_JOBS = 3


def look_at(
    source: AbstractSource,
    runtime: AbstractRuntime,
    rows: Index | None,
    *,
    features: Index | None = None,
    whole: bool = True,
) -> Values:
    """What the values of a source are.

    A few blocks are read; all of them where those look like dosages, unless the format says what
    values are.

    Parameters
    ----------
    rows : (m,) int64, optional
        Samples that take part, all by default.
    features : (s,) int64, optional
        Features that take part, ascending, all by default.
    whole : bool
        Whether more than a few blocks may be read.

    Raises
    ------
    DataError
        As of `Values.of`.
    """
    if source.dosages and source.keeps_codes:
        return Values(dosages=True, because="dosages")
    if np.dtype(source.dtype).kind == "b":
        return Values(dosages=True, because="nothing but 0 and 1")
    everything = np.arange(source.n_features, dtype=np.int64)
    m = source.n_samples if rows is None else len(rows)
    reader = Reader(source, runtime, Wanted(rows, m, statistic=False))
    jobs = reader.jobs(everything)
    some = sorted({*np.linspace(0, len(jobs) - 1, FEW_JOBS).astype(int).tolist()})
    tally = total(list(reader.joined(tally_of, [jobs[i] for i in some])))
    if whole and not tally.is_ordinary:
        seen = np.concatenate([_numbers(jobs[i]) for i in some])
        rest = np.setdiff1d(everything if features is None else features, seen)
        tally = total([tally, *reader.joined(tally_of, reader.jobs(rest))])
    found = Values.kept(tally) if source.keeps_codes else Values.of(tally)
    return replace(found, dosages=True, because="dosages") if source.dosages else found


def _numbers(job: Job) -> Index:
    """Features of a job, numbered as in the source."""
    pairs = zip(job.blocks, job.payload, strict=True)
    return np.concatenate([block.start + columns.local for block, columns in pairs])


def tally_of(source: AbstractSource, job: Job, wanted: Wanted) -> Tally:
    """Tally of the values of the job."""
    return total(
        [
            Tally.of(
                raw_columns(source, block, columns, wanted),
                source.missing_code,
                block.start + columns.local,
                wanted.rows,
            )
            for block, columns in zip(job.blocks, job.payload, strict=True)
        ]
    )
