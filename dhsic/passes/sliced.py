"""Operations on slices of the samples (`dhsic.lowrank.slices`), which workers store.

A step is an operation on all slices: it changes their sums, loads values of features, or only
computes something. Slices also prepare the engine state of a round, for features that cannot be
scored accurately from projections (`dhsic.passes.projection`). These features are read, and scored
by ``A = W o K`` along all its directions: each slice computes its part of the state (`state_of`),
and tasks concatenate the parts (`concatenate_states`), so that the client process never holds the
whole state. For sampled features, slices hold the values themselves, and compute their
contributions to sums over samples (`slice_contributions`).
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

#: Function of a slice and a state that returns the changed slice and sums; its third argument maps
#: a function over strips of samples in threads.
SliceWork = Callable[[Slice, Any, Each], tuple[Slice, Sums]]


@dataclass(frozen=True, slots=True)
class SliceStep(AbstractStep):
    """Operation that applies a function to every slice of the samples, without reading features.

    The result of `function` replaces the slice only if `renews`. Its sums are added up over the
    slices.
    """

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
    """Apply the function `question` to a slice of the samples and a state, on one BLAS thread."""
    with single_blas_thread():
        return question(known, state)


@dataclass(frozen=True, slots=True)
class Renewal:
    """Change of the sums that slices of the samples contain, in one of three ways.

    The sums are replaced by given `sums`; or products of joining features, whose `values` are
    given, are added; or products of the features that the step reads are subtracted. If slices are
    reset, they contain only the features that the step reads.
    """

    summed: LandmarkSums  # pass that sums over the features read
    rows: Index | None  # sample indices of the run; None for all samples
    landmarks: Index  # (b,), sample indices of the landmarks
    sums: InnerProducts | None = None  # new sums
    values: Float | None = None  # (c, m), standardised values of joining features
    W: LowRankSymmetric | None = None  # weights, if slices are reset
    asked: Any = None  # argument of the function that slices evaluate afterwards

    def of(self, value: Slice | None, total: InnerProducts | None, some: slice) -> InnerProducts:
        """Compute the new sums of a slice of the samples, which contains the samples `some`.

        `value` is the old slice, if any. `total` is the sum over the features read; it may be
        overwritten.
        """
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
    """Operation on slices of the samples that first reads features by a pass.

    The sum of the results of the pass changes the slices. Afterwards slices apply the function
    `then`, if it is given. The results of a slice are its landmarks, and the sums that `then`
    returns.
    """

    then: SliceWork | None = None

    @abstractmethod
    def pass_over(self, state: Any) -> AbstractPass:
        """Return the pass that reads the features; `state` are the parameters of the step."""

    def of(self, source: AbstractSource, job: Job, state: Any) -> Any:
        return run(source, job, (self.pass_over(state), state.rows))

    @abstractmethod
    def changed(self, value: Slice | None, total: Any, told: slice, state: Any) -> Slice:
        """Return the changed slice.

        `total` is the sum over the features read. `told` are the samples of the slice.
        """

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
    """Operation that changes the sums stored in slices of the samples (see `Renewal`)."""

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
    """Parameters of `TakeSample`, which loads values of features into slices of the samples."""

    values: Values
    rows: Index | None
    landmarks: Index
    asked: Any  # see `Renewal`


class TakeSample(AbstractReadingStep):
    """Operation that loads standardised values of sampled features into slices of the samples."""

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
    """Restrict a slice of the samples to those that are landmarks, with sample indices `rows`."""
    return known.part(np.flatnonzero(np.isin(known.samples, rows, assume_unique=True)))


def rows_and_norms(known: Slice, which: Index) -> tuple[Float, Float]:
    """Return some inner products that a slice stores, and the squared norms of its samples.

    `which` are the rows of the inner products.
    """
    return known.sums[which], known.norms


def longest(known: Slice, _: None) -> float:
    """Largest squared norm of any sample in a slice of the samples."""
    return float(known.norms.max())


def itself(known: Slice, _: None) -> Slice:
    """Return a slice of the samples unchanged, to fetch it from its worker."""
    return known


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """Low-rank matrices ``A = W o K`` of a round, from which slices compute the engine state.

    W are label weights, and K is the kernel matrix; slices contain some of the samples each.
    """

    held: HeldForms  # A of each base matrix
    norms: Mapping[int, float]  # ||A||_F of each base matrix
    with_rows: bool = False  # whether some features are scored by the definition on check rows

    @staticmethod
    def of(held: HeldForms, sizes: Iterable[Mapping[int, Float]]) -> Forms:
        """Create the low-rank matrices from `held` and the norm contributions of all slices.

        `sizes` are the results of `HeldForms.sizes`, one per slice of the samples.
        """
        every = [*sizes]
        total = {
            base: np.sum([slice_sizes[base] for slice_sizes in every], axis=0)
            for base in held.turned
        }
        return Forms(held, {base: held.norm(base, *size) for base, size in total.items()})

    @property
    def scale(self) -> float:
        """Divisor of the entries of the low-rank matrices A: their largest norm over m samples."""
        return max(self.norms.values(), default=0.0) / self.held.n_samples or 1.0


def sizes(known: Slice, asked: HeldForms) -> dict[int, Float]:
    """Contribution of a slice of the samples to the norms of the low-rank matrices A.

    The result is by number of the base matrix (term of the kernel's series), see `HeldForms.sizes`.
    """
    return asked.sizes(known)


def state_of(known: Slice, asked: Forms) -> RoundState:
    """Engine state of the round, restricted to the samples of a slice."""
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
    """Concatenate the engine states of all slices of the samples."""
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
    """Sampled features to score.

    `which` (c,) are their positions among the features that slices of the samples have loaded.
    `facts` are their statistics.
    """

    forms: Forms
    which: Index
    facts: FeatureStats


def slice_contributions(known: Slice, asked: Sampled) -> list[Part]:
    """Contribution of the samples of a slice to the gains (changes of HSIC) of sampled features."""
    return LowRank().contributions(state_of(known, asked.forms), known.X[asked.which], asked.facts)


def combine_contributions(block: Slice, asked: Sampled, parts: Iterable[list[Part]]) -> Float:
    """Sum the contributions of all slices of the samples to the gains of sampled features, (c,).

    The gain of a feature is the change of HSIC without it. `parts` are the contributions; `block`
    is the slice of the landmarks.
    """
    total: list[Part] = []
    for part in parts:
        total = [a.plus(b) for a, b in zip(total, part, strict=True)] if total else part
    return LowRank().combine_contributions(state_of(block, asked.forms), asked.facts, total)
