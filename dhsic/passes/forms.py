"""Forms of a round for features that are scored by their values, from slices of the samples.

Features that no numbers will do for (`dhsic.passes.projection`) are read, and scored by
``A = W o K`` along all its directions. A slice of the samples makes what the engine takes of them,
`state_of`; tasks put all of it together, `whole`, and so it does not come to who asks. Of sampled
features slices have the values: they take their part of sums over samples themselves, `begun`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.lowrank import LowRank, Part, SampledRows
from dhsic.engines.question import FeatureStats, RoundState
from dhsic.linalg.quadratic import LowRankQuadratic
from dhsic.lowrank.directions import HeldForms
from dhsic.lowrank.slices import Slice


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """What slices are told of a round.

    Attributes
    ----------
    held : HeldForms
        A of each base.
    norms : dict
        ``||A||_F`` of each.
    with_rows : bool
        Whether some features need the definition: on check rows.
    """

    held: HeldForms
    norms: Mapping[int, float]
    with_rows: bool = False

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
