r"""Forward selection using HSIC: Algorithm 2 of Song et al. 2012 (JMLR 13, section 4.2).

    Input: the full set of features S
    Output: an ordered set of features S-dagger
    1: S-dagger <- {}
    2: repeat
    3:     sigma <- Xi
    4:     I <- argmax_I  sum_{j in I} HSIC(sigma, S-dagger + {j}),   I subset of S
    5:     S <- S \ I
    6:     S-dagger <- (S-dagger, I)
    7: until S is empty

The selected features are the first ones of S-dagger. When the requested number is reached, the
order of the other features only completes the ranking, so the last round uses ``I = S``.

Sequential floating selection (`floating`) adds one feature per round. After every addition it steps
back, and removes features as in Algorithm 1:

    6:     while HSIC(S-dagger \ {j}) for the best j exceeds HSIC of all sets of that size so far:
               S-dagger <- S-dagger \ {j},  S <- S + {j}
    7: until S-dagger has the requested number of features; then S-dagger <- (S-dagger, S)

Pudil, Novovicova and Kittler: Floating search methods in feature selection. Pattern Recognition
Letters 15 (1994). Sets of equal size are compared, each at its own sigma by the policy Xi. The
feature just added is not removed in the same round, and every step back reaches a new largest value
for sets of this size, so the loop ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from dhsic._typing import Index
from dhsic.algorithms import removed
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.state import RETURNED, SelectionState

#: Key of a record for the values of sets, as "size:value", separated by spaces.
VALUES = "values"
#: Relative difference up to which values are equal.
TIE = 1e-10
#: Minimum size of a set for a step back; smaller sets leave no choice.
LEAST = 3


class ForwardDependence(Protocol):
    """Interface to HSIC(sigma, S-dagger) for Algorithm 2."""

    def move_to(self, S_dagger: Index) -> None:
        """Begin a round in which the features S-dagger are chosen."""

    def bandwidth(self, S_dagger: Index) -> float:
        """Sigma for S-dagger and one more feature, by the bandwidth policy Xi."""

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """Find the n features j of S with the largest HSIC(sigma, S-dagger + {j}), best first."""


class FloatingDependence(ForwardDependence, Protocol):
    """Interface for floating selection: HSIC of complete feature sets, and steps back."""

    def value(self, T: Index) -> float:
        """HSIC of the features T; the policy Xi chooses sigma."""

    def least_missed(self, T: Index) -> tuple[int, float]:
        """Find the feature of T whose removal leaves the largest HSIC.

        Returns the feature j and the HSIC without it.
        """


def fohsic(
    dependence: ForwardDependence, state: SelectionState, step: float | int, n_wanted: int
) -> Iterator[SelectionState]:
    """Run Algorithm 2 from `state`, and yield the state after every round."""
    S, S_dagger = state.survivors, state.eliminated  # 1
    while S.size:  # 2 and 7
        dependence.move_to(S_dagger)
        sigma = dependence.bandwidth(S_dagger)  # 3
        n = added(step, S.size, n_wanted - S_dagger.size)
        I = dependence.most_relevant(sigma, S_dagger, S, n)  # noqa: E741  # 4
        state = state.after(I.features, I.scores, I.record)
        S = state.survivors  # 5: S \ I
        S_dagger = state.eliminated  # 6: (S_dagger, I)
        yield state


def added(step: float | int, n: int, n_missing: int) -> int:
    """Number of features that a round adds, out of n that are not chosen yet.

    `n_missing` is the number of features still needed. If the round reaches this number, it adds
    all n, because the other features only complete the ranking.
    """
    n_added = removed(step, n)
    return n if n_added >= n_missing else n_added


def floating(
    dependence: FloatingDependence, state: SelectionState, n_wanted: int
) -> Iterator[SelectionState]:
    """Run floating selection from `state`, and yield the state after every round."""
    while state.survivors.size:  # 2
        S, S_dagger = state.survivors, state.eliminated
        dependence.move_to(S_dagger)
        sigma = dependence.bandwidth(S_dagger)  # 3
        if S_dagger.size >= n_wanted:  # 7
            remaining = dependence.most_relevant(sigma, S_dagger, S, S.size)
            yield (state := state.after(remaining.features, remaining.scores, remaining.record))
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
        yield (state := state.after(i.features, i.scores, record))  # 5 and 6


def _backwards(
    dependence: FloatingDependence, T: Index, known: dict[int, float]
) -> tuple[list[int], dict[int, float]]:
    """Step back from the chosen features T, by removing features.

    Returns the removed features, and HSIC values of sets. The last feature of T is never removed.
    `known` contains the largest value so far for each size of sets. The returned values, also by
    size, are for T and for the new sets.
    """
    newest = int(T[-1])
    back: list[int] = []
    values = {T.size: dependence.value(T)}
    while T.size >= LEAST:
        j, value = dependence.least_missed(T)
        most = known.get(T.size - 1)
        no_more = most is not None and value <= most + TIE * abs(most)  # up to rounding
        if j == newest or no_more:
            break
        T = T[j != T]
        back.append(j)
        values[T.size] = value
    return back, values


def best(history: tuple[Mapping[str, float | int | str], ...]) -> dict[int, float]:
    """Largest HSIC so far for each size of sets."""
    out: dict[int, float] = {}
    for record in history:
        for entry in str(record.get(VALUES, "")).split():
            size, value = entry.split(":")
            out[int(size)] = max(float(value), out.get(int(size), -np.inf))
    return out
