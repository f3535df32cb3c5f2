"""What a selection loop knows after a round: the state that is yielded, kept and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dhsic._typing import Float, Index


@dataclass(frozen=True, slots=True)
class SelectionState:
    """State of Algorithm 1 after a round; never changed, only replaced.

    Attributes
    ----------
    round : int
        Rounds done; 0 before the first.
    survivors : (|S|,) int64
        The features still in S, ascending.
    eliminated : (d - |S|,) int64
        S-dagger: the features in the order they left, the least relevant first.
    scores : (d - |S|,) float64
        Aligned with `eliminated`: by how much HSIC falls without the feature, in its round.
    removed_in : (d - |S|,) int64
        Aligned with `eliminated`: the round (from 1) in which the feature left.
    history : tuple of mappings
        One record per round, plain numbers and strings: ``n_features`` (|S| at its start),
        ``n_removed``, ``sigma``, ``hsic``, ``seconds``, ``bytes_read`` and what the engine adds.
    """

    round: int
    survivors: Index
    eliminated: Index
    scores: Float
    removed_in: Index
    history: tuple[Mapping[str, float | int | str], ...]
