"""Positions of features and of samples, from positions, names or a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.given import as_array
from dhsic.sources.base import AbstractSource
from dhsic.sources.target import did_you_mean


def features_at(given: Any, source: AbstractSource) -> Index:
    """Positions of the features asked for, in the order asked for; of all by default.

    Raises
    ------
    InputError
        Names or positions that the source does not have, or that are there twice; none.
    """
    d = source.n_features
    if given is None:
        return np.arange(d)
    asked = as_array(given, "features")
    if asked.dtype.kind in "OSUT":
        return _named(asked, source)
    return _positions(asked, d, "features", "features")


def rows_at(given: Any, m: int) -> Index | None:
    """Positions of the samples to test on, None for all m of them; errors as of `features_at`."""
    return None if given is None else _positions(as_array(given, "rows"), m, "rows", "samples")


def _named(asked: Array, source: AbstractSource) -> Index:
    names = source.feature_names()
    if names is None:
        raise InputError(
            f"features are names ({str(asked.flat[0])!r}, ...), and X names none; pass positions."
        )
    place = {str(name): j for j, name in enumerate(names)}
    unknown = [str(name) for name in asked.ravel() if str(name) not in place]
    if unknown:
        raise InputError(
            f"{len(unknown)} of the features are none of X (first: {unknown[0]!r})."
            f"{did_you_mean(unknown[0], place)} Pass names that X has, or positions."
        )
    found = np.array([place[str(name)] for name in asked.ravel()])
    return _positions(found, len(place), "features", "features")


def _positions(asked: Array, n: int, what: str, things: str) -> Index:
    """Positions from positions or a mask; each once."""
    if asked.dtype.kind == "b" and asked.shape == (n,):
        asked = np.flatnonzero(asked)
    if asked.ndim != 1 or asked.size == 0 or asked.dtype.kind not in "iu":
        raise InputError(
            f"{what} have shape {asked.shape} and dtype {asked.dtype}; pass positions from 0 to "
            f"{n - 1}, at least one, or a mask of {n}."
        )
    if asked.min() < 0 or asked.max() >= n:
        raise InputError(
            f"{what} hold {asked.min()} to {asked.max()}, and X has {n} {things}; pass positions "
            f"from 0 to {n - 1}."
        )
    if len(np.unique(asked)) < len(asked):
        raise InputError(
            f"{len(asked) - len(np.unique(asked))} of the {len(asked)} {what} are "
            "there more than once; pass each once."
        )
    return asked.astype(np.int64)
