r"""Backward elimination using HSIC: Algorithm 1 of Song et al. 2012 (JMLR 13, section 4.1).

    Input: the full set of features S
    Output: an ordered set of features S-dagger
    1: S-dagger <- {}
    2: repeat
    3:     sigma <- Xi
    4:     I <- argmax_I  sum_{j in I} HSIC(sigma, S \ {j}),   I subset of S
    5:     S <- S \ I
    6:     S-dagger <- (S-dagger, I)
    7: until S is empty

The selected features are the last ones of S-dagger.

For the linear kernel one round is enough, because its HSIC is a sum over features (JMLR 5.1.1).

``HSIC(S) = <W, sum_j x_j x_j'> = sum_j x_j' W x_j``, so removing j reduces HSIC by
``x_j' W x_j`` in every round. One pass over the data ranks all features, and forward and backward
selection agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from dhsic._typing import Float, Index
from dhsic.algorithms import removed
from dhsic.algorithms.state import SelectionState


@dataclass(frozen=True, slots=True)
class Removal:
    r"""Result of line 4: the removed features I, in order of removal, with their scores.

    A score is the decrease of HSIC without the feature, ``HSIC(sigma, S) - HSIC(sigma, S \ {j})``.
    Engines compute its negative, the gain ``<W, K(S \ j) - K(S)>``; features with the largest gains
    are removed first.
    """

    features: Index
    scores: Float
    record: Mapping[str, float | int | str]


class Dependence(Protocol):
    """Interface to HSIC(sigma, S) for Algorithm 1."""

    def move_to(self, S: Index) -> None:
        """Begin a round with the surviving features S."""

    def bandwidth(self, S: Index) -> float:
        """Sigma for the surviving features S, by the bandwidth policy Xi."""

    def least_relevant(self, sigma: float, S: Index, n: int) -> Removal:
        r"""Find the n features j with the largest HSIC(sigma, S \ {j})."""


def bahsic(
    dependence: Dependence, state: SelectionState, step: float | int
) -> Iterator[SelectionState]:
    """Run Algorithm 1 from `state`, and yield the state after every round."""
    S = state.survivors  # 1: S_dagger, the removed features, is empty at the start
    while S.size:  # 2 and 7
        dependence.move_to(S)
        sigma = dependence.bandwidth(S)  # 3
        I = dependence.least_relevant(sigma, S, removed(step, S.size))  # noqa: E741  # 4
        state = state.after(I.features, I.scores, I.record)
        S = state.survivors  # 5: S \ I; 6: I is added to S_dagger, the removed features
        yield state


def one_pass(dependence: Dependence, state: SelectionState) -> SelectionState:
    """Rank all surviving features in one round: Algorithm 1 with ``I = S``; return the state."""
    return next(bahsic(dependence, state, max(1, state.survivors.size)), state)
