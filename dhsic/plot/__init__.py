"""Plots of results: the selected features, their reliability, and the rounds.

Each function draws on the axes `ax`, by default on new axes, and returns the axes. All plots are
readable in greyscale and with a million features. They need matplotlib: ``pip install
dhsic[plot]``.
"""

from dhsic.plot.features import against_target, pairs, shares, stability
from dhsic.plot.genome import genome, qq
from dhsic.plot.region import region
from dhsic.plot.rounds import accuracy, expected_lost, path
from dhsic.plot.survival import survival

__all__ = [
    "accuracy",
    "against_target",
    "expected_lost",
    "genome",
    "pairs",
    "path",
    "qq",
    "region",
    "shares",
    "stability",
    "survival",
]
