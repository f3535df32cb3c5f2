"""`open_source`: whatever a user holds, as a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import zarr

from dhsic.errors import InputError
from dhsic.sources.base import AbstractSource
from dhsic.sources.dosage import PloidyPolicy
from dhsic.sources.groups import open_array, open_group, parent
from dhsic.sources.inmemory import open_in_memory
from dhsic.sources.request import Request
from dhsic.sources.stores import open_store
from dhsic.sources.values import RecodedSource
from dhsic.sources.variants import passing
from dhsic.sources.watched import MissingChunks
from dhsic.sources.zarr import ZarrSource


def open_source(
    X: Any,
    *,
    variable: str | None = None,
    sample_dim: str | int | None = None,
    n_samples: int | None = None,
    missing_code: int | Sequence[int] | str | None = "auto",
    missing_chunks: MissingChunks = "error",
    ploidy_policy: PloidyPolicy = "count",
    pass_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> AbstractSource:
    """Open data as a source of samples x features.

    Parameters
    ----------
    X : array, dataset, group, path or URL
        NumPy or dask array (samples, features), pandas DataFrame, xarray DataArray or Dataset,
        zarr Array or Group, AbstractSource, or the path or URL of a Zarr array or group (a
        folder, a ``.zip`` file, an object store), VCF Zarr and AnnData included.
    variable : str, optional
        Which variable of a Dataset or group. By default ``call_genotype``, else
        ``call_dosage``, else the only one with two dimensions; of AnnData ``X``, or another
        matrix such as ``layers/counts``.
    sample_dim : str or int, optional
        Dimension, or axis, of the samples. Needed only where neither the names of the dimensions
        nor `n_samples` tell.
    n_samples : int, optional
        Length of y, which X must have as many samples as.
    missing_code : int, sequence of int, None or "auto"
        Numbers that mean missing. ``"auto"``: -1 in VCF Zarr; what a Zarr or xarray array
        declares (attribute ``missing_value`` or ``_FillValue``, or fill value -1 of int8); and in
        data of 0, 1 and 2 the numbers -1, -9 and -127, any other lone value being refused. What is
        said takes the place of all that; None: every number counts as it is. In floats NaN is
        missing, always.
    missing_chunks : {"error", "fill"}
        Whether chunks that a Zarr array lacks are an error or fill values.
    ploidy_policy : {"count", "scale", "error"}
        What a genotype of lower ploidy counts: its own alleles, as many as others have, an error.
    pass_only : bool
        Leave out variants of VCF Zarr whose FILTER is not PASS, as ``bcftools view -f PASS`` does:
        those with another one, and those with none, ".", to which filters were not applied.
    storage_options : mapping, optional
        Options of fsspec for a URL.

    Returns
    -------
    AbstractSource

    Raises
    ------
    InputError
        X cannot be read as a matrix of samples x features, or it cannot be told how.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.arange(6.0).reshape(2, 3), n_samples=2)
    >>> source.n_samples, source.n_features
    (2, 3)
    """
    several = _codes_of(missing_code)
    said: Any = None if several else missing_code
    request = Request(variable, sample_dim, n_samples, said, missing_chunks, ploidy_policy)
    if isinstance(X, AbstractSource):
        request.check_length(X.n_samples, "X")
        if pass_only or sample_dim is not None or variable is not None:
            raise InputError(
                "X is open already: say sample_dim=, variable= and pass_only= where it is opened."
            )
        return X
    if isinstance(X, str | PathLike):
        X = open_store(fspath(X), storage_options)
    source = _opened(X, request)
    source.keeps_codes |= not isinstance(missing_code, str)  # said: nothing is guessed
    if source.dtype.kind == "f" and source.missing_code is not None:
        several = (*several, source.missing_code)
    if several:
        source = RecodedSource(source, several)
    if not pass_only:
        return source
    return passing(source, parent(X) if isinstance(X, zarr.Array) else X, missing_chunks)


def _codes_of(missing_code: Any) -> tuple[int, ...]:
    """Codes where there are several, none elsewhere."""
    if missing_code is None or isinstance(missing_code, str | int | np.integer):
        is_known = missing_code in (None, "auto") or not isinstance(missing_code, str | bool)
        codes: tuple[Any, ...] = ()
    else:
        codes = tuple(missing_code) if isinstance(missing_code, Iterable) else ()
        is_known = bool(codes) and all(isinstance(code, int | np.integer) for code in codes)
    if not is_known:
        raise InputError(
            f"missing_code={missing_code!r}; pass 'auto', a whole number, several of them, or None "
            "where every number counts."
        )
    return codes


def _opened(X: Any, request: Request) -> AbstractSource:
    if isinstance(X, zarr.Array):
        return open_array(X, request)
    if isinstance(X, zarr.Group):
        source = open_group(X, request)
        return source.named_by(X) if isinstance(source, ZarrSource) else source
    return open_in_memory(X, request)
