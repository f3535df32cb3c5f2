"""The linear kernel needs no loop: its HSIC is a sum over features (JMLR 5.1.1).

``HSIC(S) = <W, sum_j x_j x_j'> = sum_j x_j' W x_j``, so removing j costs ``x_j' W x_j`` in every
round alike; one pass over the data ranks all features, and forward and backward selection agree.
"""

from __future__ import annotations

from dhsic.selection.bahsic import Dependence, bahsic
from dhsic.selection.state import SelectionState


def one_pass(dependence: Dependence, state: SelectionState) -> SelectionState:
    """Rank all surviving features at once: Algorithm 1 with ``I = S``."""
    return next(bahsic(dependence, state, max(1, state.survivors.size)), state)
