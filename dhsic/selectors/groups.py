"""Groups of features, as users name them, and what an order of groups says of the features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.passes.groups import Membership
from dhsic.results import Order

#: What a feature without a group is named, in lower case.
NAMELESS = {"", "nan", "none", "na", "."}


@dataclass(frozen=True, eq=False)
class Groups:
    """A group for each of d features.

    Attributes
    ----------
    codes : (d,) int64
        Group of each feature: position of its name.
    names : (g,) str
        Names, in the order of their first features.
    """

    codes: Index
    names: Array

    @staticmethod
    def of(given: Any, d: int) -> Groups:
        """Groups from one name a feature."""
        labels = np.asarray(given)
        if labels.shape != (d,):
            raise InputError(
                f"groups have shape {labels.shape} and there are {d} features; pass one name a "
                "feature, in their order."
            )
        text = labels.astype(object).astype(str)  # text of any width is cast in two steps only
        missing = np.flatnonzero([name.strip().lower() in NAMELESS for name in text])
        if missing.size:
            raise InputError(
                f"{missing.size} features have no group (first: feature {missing[0]}); give each "
                "one, for instance its own name where it stands alone."
            )
        codes, names = pd.factorize(text)  # ties go by position, as among features
        if names.size == 1:
            raise InputError(
                f"All {d} features are in one group ({names[0]}): there is nothing to choose from."
            )
        return Groups(codes.astype(np.int64), names)

    @property
    def n(self) -> int:
        """Number of groups."""
        return int(self.names.size)

    def spread(self, order: Order, membership: Membership) -> Order:
        """Order of features from one of groups; those of a group by index, the first best."""
        parts = [membership.features(np.array([group]))[::-1] for group in order.features]
        sizes = np.array([part.size for part in parts], dtype=np.int64)
        rank = np.zeros(self.codes.size, dtype=np.int64)
        features = np.concatenate(parts)
        rank[features] = np.repeat(np.arange(sizes.size, 0, -1), sizes)
        extra = {
            "group": (self.names[self.codes].astype(object), "group of the feature"),
            "group_rank": (rank, "rank of its group, 1 is the most relevant; 0 where constant"),
        }
        return replace(
            order,
            features=features,
            scores=np.repeat(order.scores, sizes),
            rounds=np.repeat(order.rounds, sizes),
            sizes=sizes,
            extra={**order.extra, **extra},
        )
