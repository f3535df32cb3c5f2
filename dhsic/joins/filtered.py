"""Result of filters: positions of the remaining samples and features."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dhsic._typing import Array, Index
from dhsic.sources import AbstractSource
from dhsic.sources.views import SubsetSource

#: Filters of samples, which are applied before those of features.
OF_SAMPLES = ("keep", "remove", "keep_if", "mind", "sample_weight")


@dataclass(frozen=True, eq=False)
class Filtered:
    """Positions of the samples and features that remain after filters; None means all."""

    samples: Index | None = None  # (m',), ascending
    features: Index | None = None  # (d',), ascending, in the source as opened
    #: Number of samples or features that each filter removed, by the name of the filter.
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: AbstractSource) -> Filtered:
        """Result without filters: all samples and features of a source, as it was opened."""
        return cls(left_out=dict(source.left_out))

    def features_of(self, source: AbstractSource) -> AbstractSource:
        """Return the source restricted to the remaining features."""
        return source if self.features is None else SubsetSource(source, self.features)

    def samples_of(self, values: Array) -> Array:
        """Select the remaining samples from `values`, one row per sample."""
        return values if self.samples is None else values[self.samples]

    def attributes(self) -> dict[str, Any]:
        """Return attributes of a result: removed samples, and removals per filter as JSON."""
        n = sum(n for name, n in self.left_out.items() if name in OF_SAMPLES)
        return {"n_samples_filtered": n, "left_out": json.dumps(dict(self.left_out))}
