"""Plots of results: what was selected, how sure that is, and what it hangs on.

Each function takes the `ax` to draw on, makes one where there is none, and returns it. All stay
readable in grey and with a million features. They need matplotlib: ``pip install dhsic[plot]``.
"""

from dhsic.plot.features import against_target, pairs, shares, stability
from dhsic.plot.genome import genome, qq
from dhsic.plot.rounds import accuracy, expected_lost, path

__all__ = [
    "accuracy",
    "against_target",
    "expected_lost",
    "genome",
    "pairs",
    "path",
    "qq",
    "shares",
    "stability",
]
