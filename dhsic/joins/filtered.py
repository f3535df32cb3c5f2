"""What filters left of data, as positions: whoever goes on needs neither names nor files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dhsic._typing import Array, Index
from dhsic.sources import AbstractSource
from dhsic.sources.views import SubsetSource

#: Filters of samples, which come before those of features.
OF_SAMPLES = ("keep", "remove", "keep_if", "mind")


@dataclass(frozen=True, eq=False)
class Filtered:
    """Positions of the samples and features that filters left, None for all of them."""

    samples: Index | None = None  # (m',), ascending
    features: Index | None = None  # (d',), ascending, of the source as it was opened
    #: How many samples and features each filter left out of those before, by its name.
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: AbstractSource) -> Filtered:
        """All of a source, which was opened without features that do not pass."""
        n = source.n_features_filtered
        return cls(left_out={"pass_only": n} if n else {})

    def features_of(self, source: AbstractSource) -> AbstractSource:
        """The source with the features that are left."""
        return source if self.features is None else SubsetSource(source, self.features)

    def samples_of(self, values: Array) -> Array:
        """Of values of all samples, those of the samples that are left."""
        return values if self.samples is None else values[self.samples]

    def attributes(self) -> dict[str, Any]:
        """What a result says of it: samples left out, and in JSON what each filter left out."""
        n = sum(n for name, n in self.left_out.items() if name in OF_SAMPLES)
        return {"n_samples_filtered": n, "left_out": json.dumps(dict(self.left_out))}
