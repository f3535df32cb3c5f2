"""What commands say of the variants of a store: FILTER, and how many have several alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import zarr

from dhsic.cli.talk import counted
from dhsic.sources.base import AbstractSource
from dhsic.sources.groups import parent
from dhsic.sources.labels import member
from dhsic.sources.stores import open_store
from dhsic.sources.variants import ALLELES, FILTER, Filters, n_multiallelic


@dataclass(frozen=True, eq=False)
class Sites:
    """The variants of a store, those that a source leaves out too.

    Attributes
    ----------
    n_filtered : int
        Those left out.
    filters : Filters or None
        FILTER; None where the store keeps none.
    n_multiallelic : int or None
        Those of two alternative alleles or more; None where the store keeps no alleles.
    """

    n_filtered: int
    filters: Filters | None
    n_multiallelic: int | None

    @classmethod
    def of(cls, path: str, source: AbstractSource) -> Sites:
        """Look at the store that a source was opened from."""
        opened = open_store(path)
        group = parent(opened) if isinstance(opened, zarr.Array) else opened
        n_filtered = source.n_features_filtered
        if group is None:
            return cls(n_filtered, None, None)
        d = source.n_features + n_filtered
        has = {name for name in (FILTER, ALLELES) if _describes(group, name, d)}
        return cls(
            n_filtered,
            Filters.of(group, d, "fill") if FILTER in has else None,
            n_multiallelic(group) if ALLELES in has else None,
        )

    def plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "n_features_filtered": self.n_filtered,
            "filters": None if self.filters is None else self.filters.plain(),
            "n_multiallelic": self.n_multiallelic,
        }

    def facts(self) -> Iterator[tuple[str, str]]:
        """What there is to say, each with a label."""
        if self.filters is not None:
            out = f"; {self.n_filtered:,} left out" if self.n_filtered else ""
            yield "filter", f"{self.filters}{out}"
        if self.n_multiallelic is not None:
            yield "alleles", f"{counted(self.n_multiallelic, 'variant')} with several alternatives"

    def notes(self) -> Iterator[str]:
        """What is to be known before the variants are ranked."""
        if self.n_filtered:
            yield f"{counted(self.n_filtered, 'variant')} left out by FILTER: {self.filters}"
        elif self.filters is not None and self.filters.n_failed:
            yield (
                f"variants of any FILTER take part: {self.filters}; --pass-only leaves out all but "
                "PASS"
            )
        if self.n_multiallelic:
            yield (
                f"{counted(self.n_multiallelic, 'variant')} of the store with several alternative "
                "alleles, which a dosage counts together; bcftools norm -m- makes a variant of each"
            )


def _describes(group: zarr.Group, name: str, d: int) -> bool:
    """Whether an array of a group is along the d features; there may be variants besides them."""
    array = member(group, name)
    return array is not None and array.shape[0] == d
