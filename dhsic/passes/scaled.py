"""Standardised features of a source, as a run of rounds reads them: the reader follows S.

What is read is counted, and who listens hears of features that were scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines import AbstractEngine
from dhsic.engines.question import FeatureStats
from dhsic.passes.execution import AbstractExecution, Execution
from dhsic.passes.reader import Reader
from dhsic.passes.task import AbstractPass, Score, Values
from dhsic.runtime.base import AbstractRuntime, Job
from dhsic.sources import AbstractSource
from dhsic.sources.scaling import Scaling


class Reporter(Protocol):
    """Hears of progress."""

    def scored(self, n_features: int) -> None:
        """So many more features have been scored in the first pass of a round."""


class ScaledReader:
    """Reads features that are scaled as a first pass over all of them found.

    Parameters
    ----------
    source, runtime, rows, memory, execution
        As of `Reader`.
    scaling : Scaling, optional
        Of all features, where a plan supposes what a first pass would find.

    Attributes
    ----------
    reader : Reader
        Of the features that are left, or more.
    reporter : Reporter or None
        Hears of scores.
    bytes_read : int
        Stored bytes that were read so far.
    """

    def __init__(
        self,
        source: AbstractSource,
        runtime: AbstractRuntime,
        rows: Index | None = None,
        memory: int | None = None,
        *,
        execution: AbstractExecution | None = None,
        scaling: Any = None,
    ) -> None:
        how = execution or Execution()
        self.reader = Reader(source, runtime, rows, memory=memory, execution=how)
        self.reporter: Reporter | None = None
        self._scaling: Scaling | None = scaling
        self.bytes_read = 0

    @property
    def scaling(self) -> Scaling:
        """Of all features of the source, after the first pass."""
        assert self._scaling is not None, "measure comes first"
        return self._scaling

    @property
    def alive(self) -> Index:
        """Features that vary."""
        return np.flatnonzero(~self.scaling.constant)

    @property
    def n_samples(self) -> int:
        """Number of samples m."""
        return self.reader.n_samples

    def sizes(self, features: Index) -> Float:
        """Mean squares of standardised features, (c,)."""
        known = self.scaling.take(features)
        return np.asarray((known.std * known.scale) ** 2)

    def facts(self, features: Index) -> FeatureStats:
        """What engines know of features."""
        known = self.scaling
        return FeatureStats(
            known.max_abs[features], known.fourth_moment[features], known.n_levels[features]
        )

    def measure(self, a_pass: AbstractPass, take: Callable[..., object] | None = None) -> Scaling:
        """Run the first pass, over all features: how they are scaled.

        Each of its results begins with that; `take` gets what else is in it, in order. What is
        read from now on is where the first pass has left it, and is compared with that.
        """
        self.reader, jobs, n_bytes = self.reader.first_pass()
        self.bytes_read += n_bytes
        parts = []
        for result in self.reader.map(a_pass, jobs):
            parts.append(result[0])
            if take is not None:
                take(*result[1:])
        if self._scaling is None:
            self._scaling = Scaling.join(parts)
            self.reader = self.reader.checked(self._scaling)
        return self._scaling

    def jobs(
        self,
        features: Index,
        *,
        scaled: bool = True,
        weighted: Scaling | None = None,
        tags: Index | None = None,
    ) -> list[Job]:
        """Jobs over features (ascending), counted as read; of another scaling where `weighted`."""
        scaling = self.scaling if scaled and weighted is None else weighted
        jobs = self.reader.jobs(features, scaling, tags)
        self.bytes_read += self.reader.bytes_of(jobs)
        return jobs

    def values(self, features: Index, dtype: Any = np.float64) -> Array:
        """Standardised values of features, (c, m)."""
        return np.concatenate(list(self.reader.joined(Values(dtype), self.jobs(features))))

    def gains(self, features: Index, engine: AbstractEngine, state: Any, *, aloud: bool) -> Array:
        """Gains of features by the engine; the reporter hears of them where `aloud`."""
        score = Score(engine, state, dtype_of(engine))
        return self.results(score, self.jobs(features), aloud=aloud)

    def results(self, a_pass: AbstractPass, jobs: Sequence[Job], *, aloud: bool) -> Array:
        """Results of a pass that scores, one after the other, (c,) or (c, 2)."""
        parts = []
        for part in self.reader.joined(a_pass, jobs):
            parts.append(part)
            if aloud:
                self.tell(len(part))
        return np.concatenate(parts)

    def tell(self, n_features: int) -> None:
        """Tell the reporter of features that were scored."""
        if self.reporter is not None:
            self.reporter.scored(n_features)

    def apart(self, **changes: Any) -> ScaledReader:
        """Another one, whose reader is changed and has read nothing yet."""
        other = copy(self)
        other.reader, other.bytes_read = replace(self.reader, **changes), 0
        return other

    def compact(self, S: Index) -> None:
        """Keep S apart once it is a small part of what is stored."""
        if S.size < self.reader.source.n_features:
            self.reader = self.reader.compacted(S)

    def close(self) -> None:
        """Let go of scratch."""
        self.reader.close()


def dtype_of(engine: AbstractEngine) -> str:
    """Precision that an engine works in: "float32" or "float64"."""
    return str(np.dtype(getattr(engine, "dtype", np.float64)))
