"""State of a selection loop after a round, which can be saved and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index

#: Key of a record for the features that returned to S, separated by commas.
RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class SelectionState:
    """Immutable state of Algorithm 1 or 2 after a round."""

    round: int  # number of completed rounds
    survivors: Index  # (|S|,), the features still in S, ascending
    #: S-dagger: the features in the order in which they left S. In Algorithm 1 the least relevant
    #: is first, in Algorithm 2 the most relevant.
    eliminated: Index  # (d - |S|,), like the next two fields
    scores: Float  # decrease of HSIC without the feature, or increase with it, in its round
    removed_in: Index  # round (from 1) in which the feature left S
    #: One record of plain numbers and strings per round: ``n_features`` (|S| at its start),
    #: ``n_removed``, ``sigma``, ``hsic``, ``seconds``, ``bytes_read`` and entries of the engine.
    history: tuple[Mapping[str, float | int | str], ...]

    def after(
        self, features: Index, scores: Float, record: Mapping[str, float | int | str]
    ) -> SelectionState:
        """Return the state after one more round, which removes `features` from S, in this order.

        Features that the record lists as returned move from S-dagger back to S.
        """
        back = returned(record)
        keeps: Any = slice(None)
        S = self.survivors
        if back.size:
            keeps = ~np.isin(self.eliminated, back)
            S = np.sort(np.concatenate([S, back]))
        number = self.round + 1
        stays = np.full(S.size, features.size < S.size)
        if stays.any():
            stays[np.searchsorted(S, features)] = False
        return SelectionState(
            round=number,
            survivors=S[stays],
            eliminated=np.concatenate([self.eliminated[keeps], features]),
            scores=np.concatenate([self.scores[keeps], scores]),
            removed_in=np.concatenate([self.removed_in[keeps], np.full(features.size, number)]),
            history=(*self.history, record),
        )


def returned(record: Mapping[str, float | int | str]) -> Index:
    """Features that returned to S in a round, from its record."""
    names = str(record.get(RETURNED, ""))
    return np.array([int(name) for name in names.split(",") if name], dtype=np.int64)


def begin(features: Index) -> SelectionState:
    """Return the state before the first round: S contains all `features`, S-dagger is empty."""
    none = np.empty(0, dtype=np.int64)
    ascends = bool((features[1:] > features[:-1]).all())
    return SelectionState(
        0, features if ascends else np.sort(features), none, np.empty(0), none, ()
    )
