"""Base class of all estimators: `fit`, and the interface that scikit-learn requires."""

from __future__ import annotations

import json
from typing import Any, Self

import numpy as np
from sklearn.utils import ClassifierTags

from dhsic.errors import InputError, warn
from dhsic.joins.filters import Filters
from dhsic.kernels.labels import SELF
from dhsic.methods.base import Selector
from dhsic.renamed import current_names
from dhsic.selection.execution import result_of
from dhsic.selection.progress import log_messages
from dhsic.selection.request import Request, check_opening
from dhsic.selectors.transformer import Transformer


class Estimator(Transformer, Selector):
    """Base class of all estimators: a method with the interface of scikit-learn."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        covariates: Any = None,
        feature_groups: Any = None,
        sample_dim: str | int | None = None,
        variable: str | None = None,
        missing_code: Any = "auto",
        pass_only: bool = False,
        filters: Filters | None = None,
        by_position: bool = False,
        event: Any = None,
        entry: Any = None,
        permute_whole: Any = None,
        permute_within: Any = None,
        sample_weight: Any = None,
        **opening: Any,
    ) -> Self:
        """Rank the features of X by the dependence of y on them.

        Parameters
        ----------
        X : (m, d) array or store
            NumPy array, pandas DataFrame (columns of text are categories), dask array,
            `xarray.DataArray` or `Dataset`, `zarr.Array`, or the path or URL of a plain Zarr array,
            of VCF Zarr or of AnnData; or several files with the same samples, as in
            `dhsic.open_source`.
        y : (m,) or (m, t) array, str or list of str
            Labels, one row per sample; (m, m) for ``label_kernel="precomputed"``; or the name of
            the variable of X that contains them (for AnnData, the column of `obs`; for a DataFrame
            or a table a column, which is then not a feature), or several names. If both y and X
            name their samples, the names must be in the same order; rows of a frame with id columns
            (FID, IID, sample, ...) are matched by these, which are not labels. Ordered categories
            are levels of an ordinal label, other categories and text are classes. With
            ``label_kernel="self"`` y is ignored and may be None: the data are their own labels, and
            the selected features are those that the other features depend on. Times to an event
            that may be censored: a structured array with a boolean field (the event was observed)
            and a number, as in scikit-survival; or times, with `event`.
        covariates : (m, q) array, str or list of str, optional
            Covariates, such as age, sex and principal components. Their linear effect is regressed
            out of the labels. Real labels are replaced by the residuals of a regression on the
            covariates. Names of samples, id columns and names of variables work as in `y`; text is
            treated as groups.
        feature_groups : (d,) array or str, optional
            Group of each feature (the gene of a variant), or the name of the variable of X that
            contains it. Groups are removed or added as a whole, and `n_features_to_select` counts
            groups. Only `BAHSIC` and `FOHSIC` support groups, and score them by the definition.
        sample_dim : str or int, optional
            Name or axis of the samples, if it cannot be inferred from X.
        variable : str, optional
            Variable of a dataset or group that holds the data.
        missing_code : int, sequence of int, None or "auto"
            Numbers that mean missing, as in `dhsic.open_source`.
        pass_only : bool
            Exclude variants with a FILTER other than PASS, as in `dhsic.open_source`.
        filters : dhsic.Filters, optional
            Filters of samples and features. `y` has one row per sample of X, or names the samples
            that remain.
        by_position : bool
            Match rows of `y` and `covariates` to X by their order, even if they have names.
        event : (m,) array or str, optional
            For times to an event in y: 1 or True if the event was observed, 0 or False if the time
            is censored. If y is a name, event is a name too; if y is a frame, event names one of
            its columns, and the other column has the times. NAME=VALUE names the value of an
            observed event, too: "status=2".
        entry : (m,) array or str, optional
            For times to an event: the time from which a sample was observed (left truncation), as
            `event`.
        permute_whole : (m,) array or str, optional
            Block of each sample, such as its donor, if samples of a block have the same label. For
            p-values, the labels of whole blocks are exchanged (`docs/donors.md`). An array, a
            series, or the name of a variable of X. Applies to ``p_marginal`` and ``q_marginal`` of
            `BAHSIC` and `FOHSIC`, and to `OnePass` with criterion "hsic"; the ranking of `BAHSIC`
            and `FOHSIC` does not depend on it.
        permute_within : (m,) array or str, optional
            Block of each sample, such as its batch or matched pair: labels are exchanged only
            within blocks. With both options, whole blocks are exchanged within larger blocks.
        sample_weight : (m,) array or str, optional
            Weights of the samples (survey weights, inverse probability weights), or the name of the
            variable of X that contains them. They are matched to X like covariates. Samples with
            weight 0 are excluded, and equal weights change nothing; other weights need `BAHSIC`,
            `FOHSIC`, `LinearHSIC`, or `OnePass` with ``criterion="hsic"`` (`docs/weights.md`).
        **opening
            Other options of `dhsic.open_source`: `missing_chunks`, `ploidy_policy`,
            `storage_options`, `not_features`, `na`, `categories`, `intersect_samples`.

        Returns
        -------
        self

        Raises
        ------
        InputError, DataError, CheckpointError, MemoryBudgetError
            See `dhsic.errors`; each message says what to do.
        """
        check_opening("fit", opening)
        if y is None and self.label_kernel != SELF:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target "
                "y is None. Pass one label per sample."
            )
        opening["categories"] = tuple(opening.get("categories") or ())
        self._opening = {
            "sample_dim": sample_dim,
            "variable": variable,
            "missing_code": missing_code,
            "pass_only": pass_only,
            **{name: value for name, value in opening.items() if name != "not_features"},
        }
        self._stored: dict[str, Any] = {}
        request = Request.of(
            self,
            X,
            y,
            covariates=covariates,
            feature_groups=feature_groups,
            by_position=by_position,
            filters=filters,
            event=event,
            entry=entry,
            permute_whole=permute_whole,
            permute_within=permute_within,
            sample_weight=sample_weight,
            not_features=opening.get("not_features", ()),
            **self._opening,
        )
        if not_features := request.opening["not_features"]:  # columns of a table
            self._opening["not_features"] = not_features
        self._filtered = request.filtered
        n, d = self.n_features_to_select, self.n_features_in_
        if request.feature_groups is not None:
            d = request.feature_groups.names.size
        if isinstance(n, (int, np.integer)) and n > d:
            warn(
                f"n_features_to_select={n} exceeds the number of features, {d}; all are selected.",
            )
        with log_messages(self.progress):
            self.result_ = result = result_of(request)
        self.ranking_ = result["rank"].to_numpy()
        self.support_ = result["selected"].to_numpy()
        self.scores_ = result["score"].to_numpy()
        if "stability" in result:
            self.stability_ = result["stability"].to_numpy()
        self.__dict__.pop("cv_results_", None)
        if "cv_results" in result.attrs:
            columns = json.loads(result.attrs["cv_results"])
            self.cv_results_ = {name: np.array(values) for name, values in columns.items()}
        self.n_features_ = int(self.support_.sum())
        self.n_iter_ = int(result.sizes.get("rounds", 0))
        return self

    def _validate_params(self) -> None:
        self.check()

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, as in scikit-learn; former names work with a warning."""
        current = current_names(parameters, self.get_params(deep=False))
        return super().set_params(**current)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.label_kernel != SELF
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        tags.input_tags.allow_nan = self.missing == "mean"
        tags.input_tags.sparse = True
        if self._takes_two:
            tags.classifier_tags = ClassifierTags(multi_class=False)
        if self.label_kernel == "precomputed":
            tags._skip_test = True  # the labels of scikit-learn's checks are not matrices
        return tags
