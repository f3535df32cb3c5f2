"""What a run found out, whatever its method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.memory import Promise
from dhsic.sources.base import AbstractSource
from dhsic.sources.scaling import Scaling
from dhsic.sources.values import ValueKind


@dataclass(frozen=True)
class Order:
    """An order of the features that vary, and how it came about.

    Attributes
    ----------
    features : (s,) int64
        The least relevant first.
    scores : (s,) float64
        Aligned with `features`; what a score means, the method says.
    rounds : (s,) int64
        Aligned with `features`: the round (from 1) that gave each its place.
    history : tuple of mappings
        One record per round, plain numbers and strings.
    placed : {"removed", "added", "weighted", "scored"}
        What a round does with features.
    meaning : str
        What scores are, where that follows neither from `placed` nor from HSIC.
    sizes : (g,) int64, optional
        Features of each candidate, the least relevant first, where candidates are groups.
    extra : mapping
        More columns for the result, name to (values of all d features, what they are).
    """

    features: Index
    scores: Float
    rounds: Index
    history: tuple[Mapping[str, Any], ...]
    placed: str = "removed"
    meaning: str = ""
    sizes: Index | None = None
    extra: Mapping[str, tuple[Array, str]] = field(default_factory=dict)

    def n_features(self, n_candidates: int) -> int:
        """Features of the n most relevant candidates."""
        if self.sizes is None:
            return n_candidates
        return int(self.sizes[::-1][:n_candidates].sum())


@dataclass(frozen=True)
class Outcome:
    """What a run found out; `dhsic.results.to_dataset` makes it presentable."""

    order: Order
    scaling: Scaling
    label_kernel: str
    n_targets: int
    parameters: Mapping[str, Any]
    source: AbstractSource
    values: ValueKind
    n_samples: int
    promise: Promise
    runtime: str

    @property
    def worst_first(self) -> Index:
        """All features, the least relevant first, and before them those that are constant."""
        return np.concatenate([np.flatnonzero(self.scaling.constant), self.order.features])

    @property
    def n_rounds(self) -> int:
        """Rounds done."""
        return len(self.order.history)
