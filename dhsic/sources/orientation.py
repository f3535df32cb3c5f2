"""Which axis of a matrix holds the features.

Genomic Zarr is features-first, AnnData and NumPy practice samples-first, so the answer is never
taken from the position: names of dimensions decide, then what the caller says, then which axis
has as many elements as there are labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from dhsic.errors import InputError

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

Dims = Sequence[str | None] | None


def feature_axis(
    shape: tuple[int, ...],
    dims: Dims,
    sample_dim: str | int | None,
    n_samples: int | None,
    *,
    what: str,
    convention: int | None = None,
) -> int:
    """Return the axis of the features, 0 or 1, of the first two axes of an array.

    Parameters
    ----------
    shape, dims
        Shape and names of the axes; names may be missing.
    sample_dim : str or int, optional
        What the caller says: name or axis of the samples. Decides when given.
    n_samples : int, optional
        Length of y.
    what : str
        How messages call the array.
    convention : int, optional
        The axis of the features where names do not tell (1 for NumPy and dask).
    """
    named = _by_name(dims)
    if sample_dim is not None:
        axis = 1 - _sample_axis(sample_dim, shape, dims, what)
    elif named is not None:
        axis = named
    elif convention is not None:
        axis = convention
    else:
        axis = _by_length(shape, dims, n_samples, what)
    if n_samples is not None and shape[1 - axis] != n_samples:
        _refuse_length(shape, axis, n_samples, what)
    return axis


def _by_name(dims: Dims) -> int | None:
    if dims is None:
        return None
    first, second = ((str(name).lower() if name else "") for name in dims[:2])
    says_0 = first in FEATURE_DIMS or second in SAMPLE_DIMS
    says_1 = second in FEATURE_DIMS or first in SAMPLE_DIMS
    return None if says_0 == says_1 else int(says_1)


def _sample_axis(sample_dim: str | int, shape: tuple[int, ...], dims: Dims, what: str) -> int:
    if isinstance(sample_dim, int):
        if sample_dim in (0, 1, -1, -2):
            return sample_dim % 2
    elif dims is not None and sample_dim in tuple(dims[:2]):
        return tuple(dims).index(sample_dim)
    known = "no names" if dims is None else f"dimensions {tuple(dims)}"
    raise InputError(
        f"{what} with shape {shape} and {known} has no sample_dim={sample_dim!r}. Pass one of its "
        "dimensions, or 0 or 1."
    )


def _by_length(shape: tuple[int, ...], dims: Dims, n_samples: int | None, what: str) -> int:
    matches = [axis for axis in (0, 1) if shape[axis] == n_samples]
    if len(matches) == 1:
        return 1 - matches[0]
    known = f"dimensions {tuple(dims)}" if dims else "no dimension names"
    labels = "y is not known" if n_samples is None else f"y has {n_samples} labels"
    count = "both axes fit" if matches else "no axis can be told to be the samples"
    raise InputError(
        f"{what} has shape {shape} and {known}, and {labels}: {count}. Say which axis holds the "
        "samples: sample_dim=0 or sample_dim=1."
    )


def _refuse_length(shape: tuple[int, ...], axis: int, n_samples: int, what: str) -> NoReturn:
    turned = shape[axis] == n_samples
    remedy = (
        f"It looks turned: pass X.T, or say sample_dim={axis}."
        if turned
        else "Pass one label per sample."
    )
    raise InputError(
        f"{what} has shape {shape}, so {shape[1 - axis]} samples, and y has {n_samples} labels. "
        + remedy
    )
