"""Names of features and samples, read when they are asked for.

A matrix has names in the coordinates of its dimensions, or in the array beside it that is called
after what it names (``gene_id``), where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dhsic._typing import Array, Index

#: What dimensions of samples and of features are called.
# fmt: off
SAMPLE_DIMS = frozenset((
    "samples", "sample", "sample_id", "obs", "n_obs", "observations", "observation", "cells",
    "cell", "individuals", "individual", "subjects", "subject",
))
FEATURE_DIMS = frozenset((
    "variants", "variant", "features", "feature", "var", "vars", "n_vars", "genes", "gene", "snps",
    "snp", "sites", "site", "probes", "loci", "markers",
))
# fmt: on

#: Shape of an array, its dimensions (None where they have no names) and the kind of its dtype.
Described = tuple[tuple[int, ...], tuple[str | None, ...] | None, str]
#: Coordinate of features that are some of a store's: their positions there.
STORED = "stored_feature"


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Names of features (d,) and samples (m,), and coordinates of features, where known.

    Each is an array, or a function that reads it.

    Attributes
    ----------
    key : function or None
        Gives what a fingerprint takes for the names; the names themselves by default.
    """

    features: Array | Callable[[], Array | None] | None = None
    samples: Array | Callable[[], Array | None] | None = None
    coords: Mapping[str, Array] | Callable[[], Mapping[str, Array]] = field(default_factory=dict)
    key: Callable[[], tuple[Array | None, ...]] | None = None

    def feature_names(self) -> Array | None:
        """Names of the features, or None."""
        return self.features() if callable(self.features) else self.features

    def sample_names(self) -> Array | None:
        """Names of the samples, or None."""
        return self.samples() if callable(self.samples) else self.samples

    def feature_coords(self) -> Mapping[str, Array]:
        """Coordinates of the features, each (d,)."""
        return self.coords() if callable(self.coords) else self.coords

    def identity(self) -> tuple[Array | None, ...]:
        """What a fingerprint takes for the names."""
        return (self.feature_names(), self.sample_names()) if self.key is None else self.key()

    def of_some(self, features: Index, d: int) -> Names:
        """Names where some of d features are taken, with their positions as a coordinate."""
        return Names(
            partial(_some_names, self, features),
            self.samples,
            partial(_some_coords, self, features, d),
        )


def _some_names(names: Names, features: Index) -> Array | None:
    known = names.feature_names()
    return None if known is None else known[features]


def _some_coords(names: Names, features: Index, d: int) -> dict[str, Array]:
    known = {STORED: np.arange(d), **names.feature_coords()}
    return {name: values[features] for name, values in known.items()}


def text(values: Array) -> Array:
    """Return names of any dtype (bytes, text of any width, numbers) as an object array of str."""
    if values.dtype.kind == "S":
        values = np.char.decode(values)
    elif values.dtype.kind in "biuf":
        values = values.astype(str)
    return np.asarray(values, dtype=object)


def naming_array(
    arrays: Mapping[str, Described], length: int, dim: str | None, *, of_features: bool
) -> str | None:
    """Find the array that names an axis by what it is called, or None where that is ambiguous.

    Parameters
    ----------
    arrays : mapping
        Arrays beside the matrix, described.
    length : int
        Elements of the axis.
    dim : str or None
        Name of its dimension.
    of_features : bool
        Whether it is the axis of the features, else that of the samples.

    Examples
    --------
    >>> beside = {"gene_id": ((9,), None, "T"), "gene_length": ((9,), None, "i")}
    >>> naming_array(beside, 9, None, of_features=True)
    'gene_id'
    """
    things = FEATURE_DIMS if of_features else SAMPLE_DIMS
    found = [
        name
        for name, (shape, dims, kind) in arrays.items()
        if shape == (length,)
        and kind in "OSUTiu"
        and (dims is None or dim is None or dims[0] == dim)
        and _says_names(name, things)
    ]
    ids = [name for name in found if _stem_and_end(name)[1] == "id"]
    chosen = ids or found
    return chosen[0] if len(chosen) == 1 else None


def _says_names(name: str, things: Set[str]) -> bool:
    stem, end = _stem_and_end(name)
    return name.lower() in things or (end in ("id", "name") and stem in things)


def _stem_and_end(name: str) -> tuple[str, str]:
    stem, _, end = name.lower().removesuffix("s").rpartition("_")
    return stem, end
