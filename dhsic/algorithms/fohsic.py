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

The features wanted are the first ones of S-dagger. Once there are as many as are wanted, the order
of the rest serves no more than to complete the ranking: the round that reaches that number takes
``I = S``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dhsic._typing import Index
from dhsic.algorithms.bahsic import Removal
from dhsic.algorithms.policies import removed
from dhsic.algorithms.state import SelectionState


class ForwardDependence(Protocol):
    """HSIC(sigma, S-dagger) as far as the algorithm asks about it."""

    def move_to(self, S_dagger: Index) -> None:
        """Begin a round with S-dagger chosen, of which the questions are that follow."""

    def bandwidth(self, S_dagger: Index) -> float:
        """Sigma for one feature more than S-dagger: the policy Xi."""

    def most_relevant(self, sigma: float, S_dagger: Index, S: Index, n: int) -> Removal:
        """The n features j of S with the largest HSIC(sigma, S-dagger + {j}), the best first."""


def fohsic(
    dependence: ForwardDependence, state: SelectionState, step: float | int, n_wanted: int
) -> Iterator[SelectionState]:
    """Run Algorithm 2 from `state`, yielding the state after every round."""
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
    """How many of n features a round takes: all, if `n_missing` wanted ones are among them."""
    taken = removed(step, n)
    return n if taken >= n_missing else taken
