"""Imputed dosages: masks of features with such dosages, and rounding for rank tests."""

from collections.abc import Sequence

import numpy as np

from dhsic._typing import Array, Float

#: Number of steps per allele to which dosages are rounded.
STEPS = 4


def rounded_dosages(raw: Array) -> Float:
    """Return dosages (c, m) rounded to the nearest quarter and then centred; 0 if missing.

    Dosages of imputed genotypes differ little from whole numbers, and the differences are mostly
    noise. In ranks, they would count as much as the difference between two genotypes.

    Parameters
    ----------
    raw : (c, m)
        Dosages, NaN if missing.
    """
    missing = np.isnan(raw)
    values: Float = np.rint(raw * np.float64(STEPS)) / STEPS
    values[missing] = 0.0
    n_present = np.maximum((~missing).sum(axis=1, keepdims=True), 1)
    values -= values.sum(axis=1, keepdims=True) / n_present
    values[missing] = 0.0
    return values


def join_masks(masks: Sequence[Array | None], sizes: Sequence[int]) -> Array | None:
    """Concatenate masks of imputed dosages, one mask per source.

    None in `masks` means that all values of a mask are False; `sizes` are the numbers of features
    of the sources. The result is None if all masks are None.
    """
    if all(mask is None for mask in masks):
        return None
    each = zip(masks, sizes, strict=True)
    return np.concatenate([np.zeros(n, dtype=bool) if mask is None else mask for mask, n in each])
