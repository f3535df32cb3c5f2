"""What slices of the samples do (`dhsic.lowrank.slices`), where they are (`dhsic.runtime.base`).

In steps their sums change, they get values of features, or work. And they make forms of a round
for features that are scored by their values, as no numbers will do (`dhsic.passes.projection`).
Those are read, and scored by ``A = W o K`` along all its directions: a slice makes what the engine
takes of them, `state_of`; tasks put all of it together, `whole`, and so it does not come to who
asks. Of sampled features slices have the values: they take their part of sums over samples
themselves, `begun`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.lowrank import LowRank, Part, SampledRows
from dhsic.engines.question import FeatureStats, RoundState
from dhsic.linalg.quadratic import Each, LowRankQuadratic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.directions import HeldForms
from dhsic.lowrank.slices import Slice, Sums, add_sums, joined, rows_of
from dhsic.passes import AbstractPass, Values, run
from dhsic.passes.statistic import InnerProducts, LandmarkSums, add_inner
from dhsic.runtime.base import AbstractStep, Job
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource

#: What a slice does for a state, with threads that share out its strips.
SliceWork = Callable[[Slice, Any, Each], tuple[Slice, Sums]]


@dataclass(frozen=True, slots=True)
class InSlices(AbstractStep):
    """What slices do without reading anything; unless it `renews` them they say something alone."""

    function: SliceWork
    renews: bool = True

    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
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
    """

    summed: LandmarkSums  # pass over features,
    rows: Index | None  # and samples that take part
    landmarks: Index  # (b,), samples that are landmarks to slices
    sums: InnerProducts | None = None  # that are known
    values: Float | None = None  # (c, m), of features that join
    W: LowRankSymmetric | None = None  # where slices begin anew
    asked: Any = None  # what slices are told of what they do then

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

    then: SliceWork | None = None

    @abstractmethod
    def pass_over(self, state: Any) -> AbstractPass:
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

    def pass_over(self, state: Renewal) -> AbstractPass:
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
    """How slices get values of features: by a pass, over samples of which some are landmarks."""

    values: Values
    rows: Index | None
    landmarks: Index
    asked: Any  # as of `Renewal`


class TakeSample(AbstractReading):
    """Slices get values of features."""

    def pass_over(self, state: Sampling) -> AbstractPass:
        return state.values

    def of(self, source: AbstractSource, job: Job, state: Sampling) -> list[Array]:
        return [AbstractReading.of(self, source, job, state)]

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


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """What slices are told of a round."""

    held: HeldForms  # A of each base
    norms: Mapping[int, float]  # ||A||_F of each
    with_rows: bool = False  # whether some features need the definition: on check rows

    @staticmethod
    def of(held: HeldForms, sizes: Iterable[Mapping[int, Float]]) -> Forms:
        """With the norms, by what all slices say, `HeldForms.sizes`."""
        every = [*sizes]
        total = {base: np.sum([found[base] for found in every], axis=0) for base in held.turned}
        return Forms(held, {base: held.norm(base, *size) for base, size in total.items()})

    @property
    def scale(self) -> float:
        """Of the state: as large as the largest of them."""
        return max(self.norms.values(), default=0.0) / self.held.n_samples or 1.0


def sizes(known: Slice, asked: HeldForms) -> dict[int, Float]:
    """As of `HeldForms`."""
    return asked.sizes(known)


def state_of(known: Slice, asked: Forms) -> RoundState:
    """State of the round for the samples of a slice."""
    scale, of_round = asked.scale, asked.held.along.fitted.asked
    A = asked.held.of(known)
    return RoundState(
        of_round.kernel,
        float(of_round.sigma),
        asked.held.n_samples,
        {base: of.form(scale, np.float32) for base, of in A.items()},
        {base: of.row_sums / scale for base, of in A.items()},
        asked.norms,
        scale,
        _check_rows(known, asked) if asked.with_rows else None,
    )


def _check_rows(known: Slice, asked: Forms) -> SampledRows:
    along = asked.held.along
    of_round = along.fitted.asked
    W = along.weights @ known.W.F.T
    itself = of_round.itself(of_round.check, known)
    W[itself] = known.W.diagonal[itself[1]]
    inner = known.inner[of_round.check]
    return SampledRows(of_round.rows[of_round.check], inner, W, known.norms)


def whole(parts: Sequence[RoundState]) -> RoundState:
    """State of all samples, one slice after the other."""
    first = parts[0]

    def form(base: int) -> LowRankQuadratic:
        mine = [part.A[base] for part in parts]
        Y = np.concatenate([of.Y for of in mine], axis=1)
        return LowRankQuadratic(Y, mine[0].theta, np.concatenate([of.correction for of in mine]))

    row_sums = {base: np.concatenate([part.row_sums[base] for part in parts]) for base in first.A}
    rows = None
    if first.definition is not None:
        mine = [part.definition for part in parts]
        inner, W = (
            np.concatenate([getattr(of, name) for of in mine], axis=1) for name in ("inner", "W")
        )
        rows = SampledRows(mine[0].which, inner, W, np.concatenate([of.norms for of in mine]))
    A = {base: form(base) for base in first.A}
    return replace(first, A=A, row_sums=row_sums, definition=rows)


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Features `which` of those whose values slices have, (c,), to be scored."""

    forms: Forms
    which: Index
    facts: FeatureStats


def begun(known: Slice, asked: Sampled) -> list[Part]:
    """What a slice adds to the gains of sampled features."""
    return LowRank().begun(state_of(known, asked.forms), known.X[asked.which], asked.facts)


def ended(block: Slice, asked: Sampled, parts: Iterable[list[Part]]) -> Float:
    """Gains of sampled features, from the parts of all slices; `block` is that of the landmarks."""
    total: list[Part] = []
    for part in parts:
        total = [a.plus(b) for a, b in zip(total, part, strict=True)] if total else part
    return LowRank().ended(state_of(block, asked.forms), asked.facts, total)
