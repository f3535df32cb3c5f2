"""The ranking of named features, however their kernels are combined.

Labels of samples that are no rows of a matrix: their weights W.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhsic._typing import Float, Index
from dhsic.engines.refine import largest, tie_width
from dhsic.errors import InputError
from dhsic.hsic import weights
from dhsic.kernels.labels import label_matrix


@dataclass(frozen=True, eq=False)
class Ranking:
    """Features, the best of which has rank 1.

    Attributes
    ----------
    names : tuple of n
        The features: substrings, tuples of labels, or names of groups.
    scores : (n,) float64
        What HSIC loses without the feature (forward: gains by it), in the round that decided on
        it; of `Ranking.of_scores` comparable throughout, else within a round.
    ranking : (n,) int64
        A permutation of 1..n; 1 is the best.
    order : (n,) int64
        Positions in `names`, the best first: ``ranking[order] == 1..n``.
    rounds : tuple of mappings
        One record a round, plain numbers: ``n_features`` at its start and ``hsic`` of all of them,
        and what the algorithm adds.
    """

    names: tuple[Any, ...]
    scores: Float
    ranking: Index
    order: Index
    rounds: tuple[Mapping[str, float | int | str], ...]

    @classmethod
    def of_scores(cls, names: Sequence[Any], scores: Float) -> Ranking:
        """Of features whose scores (n,) add up to HSIC: one pass, ties by position."""
        order = largest(scores, scores.size, tie_width(scores))
        record = {"n_features": scores.size, "hsic": float(scores.sum())}
        return cls.of_order(names, scores, order, (record,))

    @classmethod
    def of_order(
        cls,
        names: Sequence[Any],
        scores: Float,
        order: Index,
        rounds: tuple[Mapping[str, float | int | str], ...],
    ) -> Ranking:
        """Of features in the order that an algorithm put them into, the best first."""
        ranking = np.empty(order.size, dtype=np.int64)
        ranking[order] = np.arange(1, order.size + 1)
        return cls(tuple(names), scores, ranking, order, rounds)


def label_weights(m: int, y: Any, label_kernel: str, estimator: str, covariates: Any) -> Float:
    """W (m, m) of the labels of m samples; see `label_matrix` and `dhsic.hsic.weights`."""
    L = label_matrix(y, label_kernel).L
    if len(L) != m:
        raise InputError(f"There are {m} samples and y has {len(L)}; pass one label a sample.")
    return weights(L, estimator, covariates)
