"""Transformer interface of a fitted selector, including the opening of data."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dhsic._typing import Array, Index, Mask
from dhsic.errors import InputError
from dhsic.joins.filtered import Filtered
from dhsic.memory import release_pages
from dhsic.sources import AbstractSource, Names
from dhsic.sources.arrays import ArraySource, check_in_memory, check_turned
from dhsic.sources.columns import NAME
from dhsic.sources.file_lists import is_several
from dhsic.sources.h5ad import is_anndata
from dhsic.sources.lazy import check_features, lazy_matrix, spread_features, take_features
from dhsic.sources.mixed_tables import may_be_mixed, take_columns
from dhsic.sources.opening import open_source
from dhsic.sources.sparse import is_sparse
from dhsic.sources.views import RecodedSource, SubsetSource


class Transformer(SelectorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Scikit-learn transformer that opens data with the options of `fit` and selects features."""

    result_: xr.Dataset
    support_: Mask  # mask of the selected features, among the features used
    n_features_in_: int
    _filtered: Filtered
    #: Options with which data were opened at fit, and the sample axis found by the labels.
    _opening: dict[str, Any]
    _stored: dict[str, Any]

    @cached_property
    def feature_names_in_(self) -> Array:
        """Names of the features of X in `fit`, if they have names; they are read on first use."""
        result = vars(self).get("result_")
        if result is None or NAME not in result.coords:
            raise AttributeError(f"This {type(self).__name__} has no feature names.")
        names = np.full(
            self.n_features_in_, "", dtype=object
        )  # empty for features that were filtered out
        names[self._used_features] = result[NAME].to_numpy()
        return names

    def open_data(self, X: Any, sample_dim: str | int | None, **options: Any) -> AbstractSource:
        """Open X as a source; `options` are the options of `dhsic.open_source`."""
        plain = sample_dim is None and not options["pass_only"] and not may_be_mixed(X, options)
        code = options["missing_code"]
        if plain and isinstance(code, str) and code == "auto" and _is_array_like(X):
            matrix = self._validated(X, options["variable"])
            if options["n_samples"] is not None:
                check_turned(matrix.shape, options["n_samples"])
            names = Names(features=vars(self).get("feature_names_in_"))
            return ArraySource(matrix, names=names)
        source = open_source(X, sample_dim=sample_dim, **options)
        if (
            sample_dim is None and source.chunked is not None
        ):  # the labels may have determined the axis
            self._stored = {"sample_dim": 1 - source.chunked.feature_axis}
        self.n_features_in_ = source.n_features
        self.__dict__.pop("feature_names_in_", None)  # the result of this fit provides new ones
        source.check_names()
        release_pages()
        return source

    def _validated(self, X: Any, variable: str | None = None, *, reset: bool = True) -> Array:
        """Convert X to an array, validated by scikit-learn, with clear errors if this fails.

        Without `reset`, X must have the number and names of the features of `fit`.
        """
        check_in_memory(X, variable)
        try:
            return np.asarray(validate_data(self, X, ensure_all_finite=False, reset=reset))
        except ValueError as error:
            if str(error).startswith("The feature names"):
                raise InputError(
                    f"{error}Pass the columns of fit in their order: X[selector.feature_names_in_]."
                ) from error
            raise InputError(
                f"X cannot be read: {str(error).splitlines()[0].rstrip('.:')}. Pass a matrix of "
                "numbers, with samples as rows."
            ) from error

    @property
    def _used_features(self) -> Index:
        """Positions of the features used, after filters, among the features of X in `fit`."""
        kept_features = self._filtered.features
        return np.arange(self.n_features_in_) if kept_features is None else kept_features

    def _get_support_mask(self) -> Mask:
        """Mask of the selected features of X, (d,); `support_` covers only the features used."""
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self._used_features] = self.support_
        return mask

    def transform(self, X: Any) -> Any:
        """Return the selected features of X in their original order, samples first.

        Lazy data stay lazy.

        Parameters
        ----------
        X : array, dataset, path or URL
            Data with the features of fit: the same number and, if named, the same names.

        Returns
        -------
        (m, k) array
            The same type as X: an array, a lazy dask array, a DataArray, a sparse matrix, AnnData.
            For a path, URL, Dataset or Zarr array or group, a lazy DataArray with all samples,
            opened with the options of `fit`, in which missing values are NaN. Values of the other
            types are unchanged, including missing codes.
        """
        check_is_fitted(self)
        if may_be_mixed(X, self._opening) and hasattr(self, "feature_names_in_"):
            return X.iloc[:, take_columns(X, self.feature_names_in_, self._get_support_mask())]
        if _is_array_like(X):
            self._validated(X, reset=False)
            return super().transform(X)
        chosen, d = np.flatnonzero(self._get_support_mask()), self.n_features_in_
        names = getattr(self, "feature_names_in_", None)
        lazily = isinstance(X, (str, Path, xr.Dataset, AbstractSource, zarr.Array, zarr.Group))
        if not (lazily or is_several(X)):
            is_turned = self._opening["sample_dim"] in (1, -1)
            return take_features(X, chosen, d, names, turned=is_turned)
        turned = {} if isinstance(X, xr.Dataset | AbstractSource) else self._stored
        source = open_source(X, **self._opening | turned)
        if source.n_features != d:
            raise InputError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting {d} "
                "features as input; pass data with the features of fit."
            )
        codes = self.result_.attrs.get("missing_codes", ())
        source = SubsetSource(RecodedSource(source, codes) if len(codes) else source, chosen)
        here = source.feature_names()
        if names is not None and here is not None:
            check_features(here, names[chosen], chosen)
        return lazy_matrix(source)

    def inverse_transform(self, X: Any) -> Any:
        """Put selected features back at their positions among all features; other features are 0.

        Parameters
        ----------
        X : (m, k) array
            Selected features, as returned by `transform`: a NumPy, dask or sparse matrix, or a
            DataArray.

        Returns
        -------
        (m, d) array
            Sparse if X is sparse, lazy if X is lazy.
        """
        return spread_features(X, self._get_support_mask())


def _is_array_like(X: Any) -> bool:
    """Whether X is validated by scikit-learn, which would load lazy data into memory."""
    lazy = (str, Path, xr.DataArray, xr.Dataset, AbstractSource)
    module = type(X).__module__.split(".")[0]
    is_lazy = isinstance(X, lazy) or module in ("dask", "zarr")
    return not (is_lazy or is_sparse(X) or is_anndata(X) or is_several(X))
