"""The linear kernel in one pass: how features are scaled, and what each of them gains.

Under ``K = sum_j x_j x_j'`` removing feature j gains ``-x_j' W x_j``, whatever else is left (JMLR
5.1.1), and W is known before anything is read. It is of low rank with a diagonal of its own, so the
gain is a sum over a few products of the feature and one of its square (`dhsic.linalg.quadratic`):
those of all runs are taken together (`dhsic.linalg.directions`), in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dhsic._typing import Array, Float
from dhsic.accelerator import wanted_device
from dhsic.linalg.directions import PANEL, Directions
from dhsic.linalg.quadratic import LowRankQuadratic
from dhsic.namespace import at_a_time, namespace_of
from dhsic.passes import AbstractSum, Cost, Tile, cut, placed
from dhsic.passes.shared import AbstractShared
from dhsic.passes.statistic import MEASURING, height_of, lowrank_tile, scaled
from dhsic.sources.scaling import Scaling

#: Entries of features that are standardised at a time, so that they and their squares stay in the
#: cache.
ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True)
class MeasureLinear(AbstractShared, AbstractSum):
    """Scaling of features and their gains, (c,) each, both in parts; W is the form, in float64."""

    form: LowRankQuadratic
    standardize: bool = True
    device: str | None = field(default_factory=wanted_device)

    @property
    def shares(self) -> tuple[bool, str | None]:
        return self.standardize, self.device

    @classmethod
    def together(
        cls, passes: Sequence[MeasureLinear], blocks: Iterable[Tile], m: int
    ) -> list[tuple[list[Scaling], list[Float]]]:
        first, forms = passes[0], [each.form for each in passes]
        along, moved = placed(first.device, Directions.of([form.Y.T for form in forms]))
        own, _ = placed(first.device, Directions.of([form.correction[:, None] for form in forms]))
        parts: list[Scaling] = []
        gains: list[list[Float]] = [[] for _ in passes]
        for tile in cut(blocks, height_of(first.device, m)):
            codes = tile.codes
            if codes is not None and moved is not None:
                codes = codes.on(moved)
            scaling = scaled(tile, codes, m, standardize=first.standardize)
            parts.append(scaling)
            U, V = _products(replace(tile, scaling=scaling), along, own, moved)
            both = zip(along.places, own.places, strict=True)
            for form, (place, diagonal), some in zip(forms, both, gains, strict=True):
                some.append(-(np.square(U[:, place]) @ form.theta + V[:, diagonal][:, 0]))
        return [([Scaling.join(parts)], some) for some in gains]

    def add(self, left: Any, right: Any) -> tuple[list[Scaling], list[Float]]:
        return left[0] + right[0], left[1] + right[1]

    def cost(self, m: int) -> Cost:
        n = -(-len(self.form.theta) // PANEL) + 1
        return Cost(
            float64=2.0 * PANEL * n * m,
            values=MEASURING * m,
            columns=8,
            state=8 * (len(self.form.theta) + 1) * m,
            tile=lowrank_tile(m),
        )


def _products(tile: Tile, along: Directions, own: Directions, moved: Any) -> tuple[Float, Float]:
    """Those of features with directions, (c, k), and of their squares with diagonals, (c, n)."""
    U, V = [], []
    with np.errstate(over="ignore", invalid="ignore"):  # such features are refused
        for part in tile.cut(max(1, at_a_time(own.panels[0], ENTRIES) // tile.raw.shape[1])):
            X: Array = part.values(np.float64, moved)
            U.append(along.times(X))
            V.append(own.times(namespace_of(X).square(X)))
    return np.concatenate(U), np.concatenate(V)
