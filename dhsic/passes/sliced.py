"""Steps and questions of slices of the samples (`dhsic.lowrank.slices`) on a runtime.

In steps the sums of slices change, slices load values of features, or they compute. Slices also
prepare the engine state of a round, for features that no projection suffices for
(`dhsic.passes.projection`). These are read, and scored by ``A = W o K`` along all its directions:
each slice makes its part of the state (`state_of`), and tasks concatenate the parts
(`concatenate_states`), so that the client process never holds it. For sampled features slices have
the values themselves, and compute their contributions to sums over samples (`slice_contributions`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.engines.lowrank import LowRank, Part, SampledRows
from dhsic.engines.scoring_problem import FeatureStats, RoundState
from dhsic.linalg.quadratic import Each, LowRankQuadratic
from dhsic.linalg.symmetric import LowRankSymmetric
from dhsic.lowrank.directions import HeldForms
from dhsic.lowrank.slices import Slice, Sums, add_sums, concatenate_slices, rows_of
from dhsic.passes import AbstractPass, Values, run
from dhsic.passes.statistic import InnerProducts, LandmarkSums, add_inner
from dhsic.runtime.base import AbstractStep, Job
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources import AbstractSource

#: Function of a slice and a state that returns the renewed slice and sums; the third argument maps
#: a function over strips in threads.
SliceWork = Callable[[Slice, Any, Each], tuple[Slice, Sums]]


@dataclass(frozen=True, slots=True)
class SliceStep(AbstractStep):
    """A step in which slices compute without reading; they change only if it `renews` them."""

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
    """Evaluate a function of a slice."""
    with single_blas_thread():
        return question(known, state)


@dataclass(frozen=True, slots=True)
class Renewal:
    """Change of the sums of slices: to given sums, by joining features, or by features read.

    Features read are subtracted, or, if slices start anew, are the only ones.
    """

    summed: LandmarkSums  # pass over features
    rows: Index | None  # samples of the run
    landmarks: Index  # (b,), samples that are landmarks of slices
    sums: InnerProducts | None = None  # new sums, if they are given
    values: Float | None = None  # (c, m), values of joining features
    W: LowRankSymmetric | None = None  # weights, if slices start anew
    asked: Any = None  # argument of the function that slices evaluate afterwards

    def of(self, value: Slice | None, total: InnerProducts | None, some: slice) -> InnerProducts:
        """Compute new sums of some samples; `total`, the sum of features read, may be reused."""
        n, s = self.summed.n_rows, some.stop - some.start
        if self.sums is not None:
            return self.sums[0][:, some], self.sums[1][some]
        if value is None:
            return total or (np.zeros((n, s)), np.zeros(s))
        sums, norms = value.sums, value.norms
        if total is None:
            Z = self.values
            assert Z is not None, "slices change by something"
            values_here = Z[:, some]
            return sums + Z[:, self.landmarks].T @ values_here, norms + np.vecdot(
                values_here.T, values_here.T
            )
        np.subtract(sums, total[0], out=total[0])
        return total[0], np.subtract(norms, total[1], out=total[1])


@dataclass(frozen=True, slots=True)
class AbstractReadingStep(AbstractStep):
    """A step that reads features: the added results of a pass change slices.

    Afterwards slices evaluate the function `then`, if any. The part that a slice returns are its
    landmarks, and the function's result.
    """

    then: SliceWork | None = None

    @abstractmethod
    def pass_over(self, state: Any) -> AbstractPass:
        """Pass over the features."""

    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        return run(source, job, (self.pass_over(state), state.rows))

    @abstractmethod
    def changed(self, value: Slice | None, total: Any, told: slice, state: Any) -> Slice:
        """Return the changed slice."""

    def finish(
        self, value: Slice | None, total: Any, told: slice, state: Any, each: Each
    ) -> tuple[Slice, tuple[Slice, Sums]]:
        with single_blas_thread():
            new, sums = self.changed(value, total, told, state), Sums()
            if self.then is not None:
                new, sums = self.then(new, state.asked, each)
            return new, (of_landmarks(new, state.landmarks), sums)

    def join(self, left: tuple[Slice, Sums], right: tuple[Slice, Sums]) -> tuple[Slice, Sums]:
        return concatenate_slices([left[0], right[0]]), add_sums(left[1], right[1])


class RenewSums(AbstractReadingStep):
    """Change the sums of slices (see `Renewal`)."""

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
    """Parameters for loading values of features into slices: pass, samples, landmarks."""

    values: Values
    rows: Index | None
    landmarks: Index
    asked: Any  # see `Renewal`


class TakeSample(AbstractReadingStep):
    """Load values of features into slices."""

    def pass_over(self, state: Sampling) -> AbstractPass:
        return state.values

    def of(self, source: AbstractSource, job: Job, state: Sampling) -> list[Array]:
        return [AbstractReadingStep.of(self, source, job, state)]

    def changed(
        self, value: Slice | None, total: list[Array], told: slice, state: Sampling
    ) -> Slice:
        assert value is not None, "slices have begun"
        return replace(value, X=np.concatenate(total))


def of_landmarks(known: Slice, rows: Index) -> Slice:
    """Restrict a slice to samples that are landmarks."""
    return known.part(np.flatnonzero(np.isin(known.samples, rows, assume_unique=True)))


def rows_and_norms(known: Slice, which: Index) -> tuple[Float, Float]:
    """Some rows of the sums of a slice, and its norms."""
    return known.sums[which], known.norms


def longest(known: Slice, _: None) -> float:
    """Largest squared norm of a sample."""
    return float(known.norms.max())


def itself(known: Slice, _: None) -> Slice:
    """Return the slice."""
    return known


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """Parameters of a round for slices."""

    held: HeldForms  # A of each base
    norms: Mapping[int, float]  # ||A||_F of each base
    with_rows: bool = False  # whether some features need the definition, on check rows

    @staticmethod
    def of(held: HeldForms, sizes: Iterable[Mapping[int, Float]]) -> Forms:
        """Create the parameters, with norms from the `HeldForms.sizes` of all slices."""
        every = [*sizes]
        total = {
            base: np.sum([slice_sizes[base] for slice_sizes in every], axis=0)
            for base in held.turned
        }
        return Forms(held, {base: held.norm(base, *size) for base, size in total.items()})

    @property
    def scale(self) -> float:
        """Scale of the state, by its largest norm."""
        return max(self.norms.values(), default=0.0) / self.held.n_samples or 1.0


def sizes(known: Slice, asked: HeldForms) -> dict[int, Float]:
    """Evaluate `HeldForms.sizes` of a slice."""
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


def concatenate_states(parts: Sequence[RoundState]) -> RoundState:
    """Concatenate the states of all slices."""
    first = parts[0]

    def form(base: int) -> LowRankQuadratic:
        base_forms = [part.A[base] for part in parts]
        Y = np.concatenate([of.Y for of in base_forms], axis=1)
        return LowRankQuadratic(
            Y, base_forms[0].theta, np.concatenate([of.correction for of in base_forms])
        )

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
    """Features to be scored: positions `which`, (c,), among those whose values slices hold."""

    forms: Forms
    which: Index
    facts: FeatureStats


def slice_contributions(known: Slice, asked: Sampled) -> list[Part]:
    """Contribution of a slice to the gains of sampled features."""
    return LowRank().contributions(state_of(known, asked.forms), known.X[asked.which], asked.facts)


def combine_contributions(block: Slice, asked: Sampled, parts: Iterable[list[Part]]) -> Float:
    """Gains of sampled features, from the parts of all slices; `block` is the landmark slice."""
    total: list[Part] = []
    for part in parts:
        total = [a.plus(b) for a, b in zip(total, part, strict=True)] if total else part
    return LowRank().combine_contributions(state_of(block, asked.forms), asked.facts, total)
