r"""Sequential floating selection: Algorithm 2, with steps of Algorithm 1 after every addition.

    Input: the full set of features S
    Output: an ordered set of features S-dagger
    1: S-dagger <- {}
    2: repeat
    3:     sigma <- Xi
    4:     i <- argmax_i HSIC(sigma, S-dagger + {i}),   i in S
    5:     S <- S \ {i},  S-dagger <- (S-dagger, i)
    6:     while HSIC(S-dagger \ {j}) for the best j exceeds that of every set of that size so far:
    7:         S-dagger <- S-dagger \ {j},  S <- S + {j}
    8: until S-dagger has as many features as are wanted; then S-dagger <- (S-dagger, S)

Pudil, Novovicova and Kittler: Floating search methods in feature selection. Pattern Recognition
Letters 15 (1994). Sets of one size are compared at the sigma of the policy Xi for each of them.
What was just added never leaves at once, and every step back reaches a value that no set of that
size had, so the loop ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from dhsic._typing import Index
from dhsic.algorithms.fohsic import ForwardDependence
from dhsic.algorithms.state import RETURNED, SelectionState

#: Key of a record under which values are kept, "size:value" with blanks between.
VALUES = "values"
#: Values closer than this, over their size, are equal.
TIE = 1e-10
#: Sets of fewer features are not left backwards: there is nothing to choose between.
LEAST = 3


class FloatingDependence(ForwardDependence, Protocol):
    """What the algorithm asks about HSIC."""

    def value(self, T: Index) -> float:
        """HSIC(Xi, T)."""

    def least_missed(self, T: Index) -> tuple[int, float]:
        r"""The feature j of T with the largest HSIC(Xi, T \ {j}), and that."""


def floating(
    dependence: FloatingDependence, state: SelectionState, n_wanted: int
) -> Iterator[SelectionState]:
    """Run the algorithm from `state`, yielding the state after every round."""
    while state.survivors.size:  # 2
        S, S_dagger = state.survivors, state.eliminated
        dependence.move_to(S_dagger)
        sigma = dependence.bandwidth(S_dagger)  # 3
        if S_dagger.size >= n_wanted:  # 8
            rest = dependence.most_relevant(sigma, S_dagger, S, S.size)
            yield (state := state.after(rest.features, rest.scores, rest.record))
            continue
        i = dependence.most_relevant(sigma, S_dagger, S, 1)  # 4
        back, values = _backwards(
            dependence, np.concatenate([S_dagger, i.features]), best(state.history)
        )
        record = {
            **i.record,
            RETURNED: ",".join(map(str, back)),
            VALUES: " ".join(f"{size}:{value!r}" for size, value in values.items()),
        }
        yield (state := state.after(i.features, i.scores, record))  # 5 and 7


def _backwards(
    dependence: FloatingDependence, T: Index, known: dict[int, float]
) -> tuple[list[int], dict[int, float]]:
    """Features that leave T again, whose last one was just added; values of the sets reached."""
    newest = int(T[-1])
    back: list[int] = []
    values = {T.size: dependence.value(T)}
    while T.size >= LEAST:
        j, value = dependence.least_missed(T)
        if j == newest or value <= _least(known.get(T.size - 1)):  # 6
            break
        T = T[j != T]  # 7
        back.append(j)
        values[T.size] = value
    return back, values


def _least(value: float | None) -> float:
    """What a set must exceed: rounding is no improvement."""
    return -np.inf if value is None else value + TIE * abs(value)


def best(history: tuple[Mapping[str, float | int | str], ...]) -> dict[int, float]:
    """Largest value so far of a set of each size."""
    out: dict[int, float] = {}
    for record in history:
        for entry in str(record.get(VALUES, "")).split():
            size, value = entry.split(":")
            out[int(size)] = max(float(value), out.get(int(size), -np.inf))
    return out
