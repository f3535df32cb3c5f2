"""Steps of slices of the samples: their sums change, they get values of features, or work.

See `dhsic.lowrank.slices` for what they are, and `dhsic.runtime.held` for where.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.linalg.quadratic import Each
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.slices import Slice, Sums, add_sums, joined, rows_of
from dhsic.passes import AbstractSizedPass, Values, run
from dhsic.passes.statistic import InnerProducts, LandmarkSums, add_inner
from dhsic.runtime.base import Job
from dhsic.runtime.held import AbstractStep
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource

#: What a slice does for a state, with threads that share out its strips.
Work = Callable[[Slice, Any, Each], tuple[Slice, Sums]]


@dataclass(frozen=True, slots=True)
class InSlices(AbstractStep):
    """What slices do without reading anything; unless it `renews` them they say something alone."""

    function: Work
    renews: bool = True

    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        raise TypeError("Slices are asked, nothing is read.")

    def add(self, left: Any, right: Any) -> Any:
        raise TypeError("Slices are asked, nothing is read.")

    def finish(
        self, value: Slice, total: Any, told: Any, state: Any, each: Each
    ) -> tuple[Slice, Sums]:
        with single_blas_thread():
            return self.function(value, state, each)

    def join(self, left: Sums, right: Sums) -> Sums:
        return add_sums(left, right)


def answer(known: Slice, question: Callable[[Slice, Any], Any], state: Any) -> Any:
    """What a slice says to a question."""
    with single_blas_thread():
        return question(known, state)


@dataclass(frozen=True, slots=True)
class Renewal:
    """How sums of slices change: to what is known, or by features that join.

    Otherwise features that were read leave; where slices begin anew they are all there are.

    Attributes
    ----------
    summed, rows : LandmarkSums and (m,) int64 or None
        Pass over features, and samples that take part.
    landmarks : (b,) int64
        Samples that are landmarks to slices.
    sums : tuple or None
        Inner products (b + q, m) and norms (m,) that are known.
    values : (c, m) array or None
        Features that join.
    W : LowRankSymmetric or None
        Where slices begin anew.
    asked : object
        What slices are told of what they do then.
    """

    summed: LandmarkSums
    rows: Index | None
    landmarks: Index
    sums: InnerProducts | None = None
    values: Float | None = None
    W: LowRankSymmetric | None = None
    asked: Any = None

    def of(self, value: Slice | None, total: InnerProducts | None, some: slice) -> InnerProducts:
        """New sums of some samples; `total` is of what was read, and may be written in."""
        n, s = self.summed.n_rows, some.stop - some.start
        if self.sums is not None:
            return self.sums[0][:, some], self.sums[1][some]
        if value is None:
            return total or (np.zeros((n, s)), np.zeros(s))
        sums, norms = value.sums, value.norms
        if total is None:
            Z = self.values
            assert Z is not None, "slices change by something"
            part = Z[:, some]
            return sums + Z[:, self.landmarks].T @ part, norms + np.vecdot(part.T, part.T)
        np.subtract(sums, total[0], out=total[0])
        return total[0], np.subtract(norms, total[1], out=total[1])


@dataclass(frozen=True, slots=True)
class AbstractReading(AbstractStep):
    """A step that reads features: by the results of a pass, added up, slices change.

    Then they do something, if there is something to do. The part of a slice are those of its
    samples that are landmarks, and what it says.
    """

    then: Work | None = None

    @abstractmethod
    def pass_over(self, state: Any) -> AbstractSizedPass:
        """The pass."""

    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        return run(source, job, (self.pass_over(state), state.rows))

    @abstractmethod
    def changed(self, value: Slice | None, total: Any, told: slice, state: Any) -> Slice:
        """The slice as it is now."""

    def finish(
        self, value: Slice | None, total: Any, told: slice, state: Any, each: Each
    ) -> tuple[Slice, tuple[Slice, Sums]]:
        with single_blas_thread():
            new, said = self.changed(value, total, told, state), Sums()
            if self.then is not None:
                new, said = self.then(new, state.asked, each)
            return new, (of_landmarks(new, state.landmarks), said)

    def join(self, left: tuple[Slice, Sums], right: tuple[Slice, Sums]) -> tuple[Slice, Sums]:
        return joined([left[0], right[0]]), add_sums(left[1], right[1])


class RenewSums(AbstractReading):
    """Sums of slices change, see `Renewal`."""

    def pass_over(self, state: Renewal) -> AbstractSizedPass:
        return state.summed

    def add(self, left: InnerProducts, right: InnerProducts) -> InnerProducts:
        return add_inner(left, right)

    def changed(self, value: Slice | None, total: Any, told: slice, state: Renewal) -> Slice:
        sums, norms = state.of(value, total, told)
        if value is not None:
            return replace(value, sums=sums, norms=norms, F={})
        assert state.W is not None, "slices that begin know W"
        return Slice(np.arange(told.start, told.stop), sums, norms, rows_of(state.W, told))


@dataclass(frozen=True, slots=True)
class Sampling:
    """How slices get values of features: by a pass, over samples of which some are landmarks.

    `asked` is what they are told of what they do then.
    """

    values: Values
    rows: Index | None
    landmarks: Index
    asked: Any


class TakeSample(AbstractReading):
    """Slices get values of features."""

    def pass_over(self, state: Sampling) -> AbstractSizedPass:
        return state.values

    def of(self, source: AbstractSource, job: Job, state: Sampling) -> list[Array]:
        return [AbstractReading.of(self, source, job, state)]

    def add(self, left: list[Array], right: list[Array]) -> list[Array]:
        return left + right

    def changed(
        self, value: Slice | None, total: list[Array], told: slice, state: Sampling
    ) -> Slice:
        assert value is not None, "slices have begun"
        return replace(value, X=np.concatenate(total))


def of_landmarks(known: Slice, rows: Index) -> Slice:
    """Those of the samples that are landmarks."""
    return known.part(np.flatnonzero(np.isin(known.samples, rows, assume_unique=True)))


def rows_and_norms(known: Slice, which: Index) -> tuple[Float, Float]:
    """Some rows of its sums, and norms."""
    return known.sums[which], known.norms


def longest(known: Slice, _: None) -> float:
    """Largest squared norm."""
    return float(known.norms.max())


def itself(known: Slice, _: None) -> Slice:
    """The slice."""
    return known
