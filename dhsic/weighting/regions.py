"""Where weights may lie: sets that a point is projected onto, exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from dhsic._typing import Float
from dhsic.weighting.projection import project_budget


class AbstractRegion(ABC):
    """A closed convex set of points."""

    @abstractmethod
    def project(self, point: Float) -> Float:
        """Nearest point of the set, a new array."""


@dataclass(frozen=True)
class Box(AbstractRegion):
    """Entries from 0 to `upper` (CCM eq. 18; JMLR eq. 32, where there is no upper bound)."""

    upper: float = 1.0

    def project(self, point: Float) -> Float:
        """Clip."""
        return point.clip(0.0, self.upper)


@dataclass(frozen=True)
class Budget(AbstractRegion):
    """Entries from 0 to 1 with a sum of at most `total` (CCM eq. 17)."""

    total: float

    def project(self, point: Float) -> Float:
        """Clip; where the sum is too large, all move down together before."""
        return project_budget(point, self.total)
