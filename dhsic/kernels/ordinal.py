r"""Ordinal labels: levels with an order but without distances, and rank scores of any labels.

The kernels ``ordinal`` and ``rank`` are Gaussian kernels on the normal scores of the labels, ``a(r)
= Phi^-1((r - 1/2) / m)`` for the rank r. Tied labels have the mean of the scores of their ranks.
The scores depend only on the order of the labels, so logarithms, outliers or heavy tails do not
change them. The first eigenfunction of the kernel is a monotone trend; further eigenfunctions have
other shapes.

If levels have names, an ordinal label is an array of `Level`. These are numbers that print as their
names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from dhsic._typing import Array, Float
from dhsic.linalg.rank_basis import rank_functions
from dhsic.linalg.weighted_samples import weighted_ranks

#: Names of the label kernels on rank scores: of levels, each target by itself; and of numbers.
ORDINAL, RANK = "ordinal", "rank"
SCORE_KERNELS = (ORDINAL, RANK)


class Level(float):
    """Level of an ordinal label: its position among the levels, and its name.

    >>> level = Level(1, "medium")
    >>> level > 0, str(level), f"{level:g}"
    (True, 'medium', '1')
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, position: float, name: str) -> Level:
        level = super().__new__(cls, position)
        level.name = name
        return level

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Level({float(self):g}, {self.name!r})"

    def __reduce__(self) -> tuple[type[Level], tuple[float, str]]:
        return Level, (float(self), self.name)


def levels_of(codes: Array, names: Sequence[str]) -> Array:
    """Ordinal labels (m,) from the positions of their levels in `names`; "" for position -1.

    >>> levels_of(np.array([1, -1, 0]), ["low", "high"]).tolist()
    [Level(1, 'high'), '', Level(0, 'low')]
    """
    levels = np.empty(len(names) + 1, dtype=object)
    levels[:-1] = [Level(position, name) for position, name in enumerate(names)]
    levels[-1] = ""
    return levels[codes]


def as_levels(values: Array, names: Sequence[str]) -> Array:
    """Ordinal labels (m,) from text; "" if missing.

    The values are returned unchanged if levels have no names.
    """
    if not names:
        return values
    positions = {name: position for position, name in enumerate(names)}
    return levels_of(np.array([positions.get(str(value), -1) for value in values]), names)


def names_of_levels(column: Array) -> list[str]:
    """Names of the levels of ordinal labels (m,) by position; "" for levels without a sample.

    >>> names_of_levels(levels_of(np.array([2, 0]), ["low", "medium", "high"]))
    ['low', '', 'high']
    """
    names = {int(level): str(level) for level in column.tolist()}
    return [names.get(position, "") for position in range(max(names) + 1)]


def is_ordinal(column: Array) -> bool:
    """Whether labels (m,) are levels with names, see `Level`."""
    return (
        column.dtype.kind == "O"
        and column.size > 0
        and all(isinstance(value, Level) for value in column)
    )


def rank_scores(values: Float, p: Float | None = None) -> Float:
    """Normal scores of the ranks of values (m,); ties have the mean of the scores of their ranks.

    With sample weights p (m,) that sum to 1, weighted mid-ranks are used.

    >>> rank_scores(np.array([3.0, 100.0, 3.0, 1.0])).round(2).tolist()
    [0.0, 1.36, 0.0, -1.36]
    """
    if p is not None:
        return np.asarray(ndtri(weighted_ranks(values, p)[0]))
    return np.asarray(rank_functions(values, 1)[0])
