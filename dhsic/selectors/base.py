"""Base class of all selectors: reading X, running, and the scikit-learn interface.

A method is one class, its selector. Users create it with parameters and call `fit`. `Request`
combines it with the data; `SelectionRun`, which does the steps that all methods share, calls its
`check_samples`, `memory_estimate`, `labels` and `rank`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from inspect import Signature, get_annotations, signature
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import ClassifierTags

from dhsic.algorithms import how_many
from dhsic.errors import InputError, warn
from dhsic.joins.filters import Filters
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.labels import CLASS_KERNELS, SELF, LabelMatrix, label_matrix
from dhsic.renamed import RenamingMeta, current_names, first_name
from dhsic.selection.cross_validation import Validation
from dhsic.selection.execution import result_of
from dhsic.selection.progress import check_progress, log_messages
from dhsic.selection.request import Request, check_opening
from dhsic.selection.run import Method, SelectionRun
from dhsic.selection.stages import STAGES, passed_stages
from dhsic.selectors.transformer import Transformer
from dhsic.sources.scaling import PRESENCE, Scale
from dhsic.sources.values import ValueKind
from dhsic.validation import (
    BYTES,
    SCALING,
    Constraint,
    by,
    one_of,
    seed_of,
    such,
)

#: Type of `standardize`: "auto", or a `Scale`.
Standardize = bool | str


class MethodFirst:
    """Descriptor of a selector's signature: parameters of its method first, shared ones last."""

    def __get__(self, _: object, selector: type[Selector]) -> Signature:
        parameters = dict(signature(selector.__init__).parameters)
        declared = [name for cls in selector.__mro__ for name in get_annotations(cls)]
        first = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        names = dict.fromkeys((*first[1:], *(name for name in declared if name in parameters)))
        return Signature([parameters[name] for name in names])


@dataclass(eq=False, repr=False, kw_only=True)
class Selector(Transformer, Method, metaclass=RenamingMeta):
    """Base class of all selectors: reading X, running, and the fitted attributes.

    A method declares its parameters as dataclass fields, which make its ``__init__``; a field with
    ``init=False`` is fixed. `_parameter_constraints` validates single parameters; `_check_together`
    rejects combinations.
    """

    __signature__: ClassVar[Any] = MethodFirst()
    #: Name of the method in the identity of a run.
    _method: ClassVar[str]
    #: Validator of each parameter.
    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_features_to_select": by(lambda n: Validation.of(n) or how_many(n, 1)),
        "missing": one_of(
            ("mean", "error"), "'mean' (fill in the mean of the feature) or 'error'."
        ),
        "standardize": SCALING,
        "random_state": by(seed_of),
        "stages": by(passed_stages),
        **{name: of for stage in STAGES.values() for name, of in stage.constraints.items()},
        "progress": by(check_progress),
        "n_jobs": such(
            lambda n: (
                n is None or (not isinstance(n, bool) and isinstance(n, Integral) and int(n) != 0)
            ),
            "a number of threads, -1 for all cores, or None.",
        ),
        "memory_limit": BYTES,
    }
    #: Parameters that change how many features are selected or how a run executes, not its ranking.
    _aside: ClassVar[Set[str]]
    #: Parameters without effect unless another parameter has a value: (other parameter, value).
    _idle_unless: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    #: Whether `random_state` seeds draws of the method, besides the halves of the samples.
    _draws: ClassVar[bool] = False
    #: Whether a round judges every feature alone.
    _alone: ClassVar[bool] = False

    n_features_to_select: int | float | str | None = field(default=50, kw_only=False)
    standardize: bool | str = "auto"
    missing: str = "mean"
    stability: int = 0
    stability_threshold: float | None = None
    clump_r2: float | None = None
    holdout: Any = None
    interactions: str | None = None
    control: str | None = None
    fdr: float = 0.1
    stages: Any = ()
    checkpoint: str | Path | None = None
    progress: Any = "auto"
    random_state: Any = 0
    runtime: Any = "auto"
    n_jobs: int | None = None
    memory_limit: int | None = None

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
            the variable of X that holds them (for AnnData, the column of `obs`; for a DataFrame or
            a table a column, which is then not a feature), or several names. If both y and X name
            their samples, the names must be in the same order; rows of a frame with id columns
            (FID, IID, sample, ...) are matched by these, which are not labels. Ordered categories
            are levels of an ordinal label, other categories and text are classes. With
            ``label_kernel="self"`` y is ignored and may be None: the data are their own labels, and
            features are selected on which the other features depend. Times to an event that may be
            censored: a structured array with a boolean field (the event was observed) and a
            number, as in scikit-survival; or times, with `event`.
        covariates : (m, q) array, str or list of str, optional
            Age, sex, principal components: their linear effect is regressed out of the labels. Real
            labels are replaced by the residuals of a regression on them. Names of samples, id
            columns and names of variables work as in `y`; text is treated as groups.
        feature_groups : (d,) array or str, optional
            Group of each feature (the gene of a variant), or the name of the variable of X that
            holds it: groups are removed or added as a whole, and `n_features_to_select` counts
            groups. Only `BAHSIC` and `FOHSIC` support groups, and score them by the definition.
        sample_dim : str or int, optional
            Name or axis of the samples, if it cannot be inferred from X.
        variable : str, optional
            Variable of a dataset or group that holds the data.
        missing_code : int, sequence of int, None or "auto"
            Numbers that mean missing, as in `dhsic.open_source`.
        pass_only : bool
            Exclude variants whose FILTER is not PASS, as in `dhsic.open_source`.
        filters : dhsic.Filters, optional
            Filters of samples and features. `y` has one row per sample of X, or names the samples
            that remain.
        by_position : bool
            Match rows of `y` and `covariates` to X by their order, whatever their names.
        event : (m,) array or str, optional
            For times to an event in y: 1 or True if the event was observed, 0 or False if the time
            is censored. If y is a name, event is a name too; if y is a frame, event names one of
            its columns, and the other column has the times.
        entry : (m,) array or str, optional
            For times to an event: the time from which a sample was observed (left truncation), as
            `event`.
        permute_whole : (m,) array or str, optional
            Block of each sample, such as its donor, if samples of a block have the same label:
            p-values are those of exchanging the labels of whole blocks (`docs/donors.md`). An
            array, a series, or the name of a variable of X. Applies to ``p_marginal`` and
            ``q_marginal`` of `BAHSIC` and `FOHSIC`, and to `OnePass` with criterion "hsic"; the
            ranking of `BAHSIC` and `FOHSIC` does not depend on it.
        permute_within : (m,) array or str, optional
            Block of each sample, such as its batch or matched pair: labels are exchanged only
            within blocks. With both, whole blocks are exchanged within larger ones.
        sample_weight : (m,) array or str, optional
            Weights of the samples (survey weights, inverse probability weights), or the name of the
            variable of X that holds them, matched to X as covariates are. Samples with weight 0 are
            excluded, and equal weights change nothing; other weights need `BAHSIC`, `FOHSIC`,
            `LinearHSIC`, or `OnePass` with ``criterion="hsic"`` (`docs/weights.md`).
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

    def check(self) -> None:
        """Reject invalid parameters; `InputError.parameter` names the parameter, if it is one."""
        for name, value in self.get_params(deep=False).items():
            try:
                if name in self._parameter_constraints:
                    self._parameter_constraints[name](name, value)
            except InputError as error:
                error.parameter = name
                raise
        for stage in STAGES.values():
            stage.check_parameters(self)
        if self.control is not None and Validation.of(self.n_features_to_select) is not None:
            raise InputError(
                f"control={self.control!r} and n_features_to_select='auto' both choose the number "
                "of features. Pass a maximum number as n_features_to_select, or None."
            )
        self._check_together()

    def _validate_params(self) -> None:
        self.check()

    def check_weights(self) -> None:
        """Reject weights of samples, which few methods support."""
        raise InputError(
            f"sample_weight (CLI: --weights) is not supported by {self.described()}. To select "
            "features with weights, use BAHSIC or FOHSIC; to test single features, OnePass with "
            "criterion='hsic', dhsic.test_features, or dhsic test. To give two classes of "
            "different sizes the same weight, leave the weights out, and pass "
            "label_kernel='balanced'."
        )

    def _check_together(self) -> None:
        """Reject combinations of parameters that are valid one by one."""

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, as in scikit-learn; former names work with a warning."""
        current = current_names(parameters, self.get_params(deep=False))
        return super().set_params(**current)  # type: ignore[safe-super]  # scikit-learn's

    def identity(self) -> dict[str, Any]:
        """Plain values that two runs on the same data must share to be the same run.

        Parameters have the names that they had first, so that checkpoints remain readable.
        """
        parameters = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in self._aside
        }
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in parameters.items()}
        if not plain.get("balance"):  # checkpoints of older versions lack it
            plain.pop("balance", None)
        for name, (other, value) in self._idle_unless.items():
            if getattr(self, other) != value:
                plain[name] = None
        if "kernel" in plain:
            kernel = resolve_kernel(plain["kernel"])
            plain |= {"kernel": kernel.name, "dtype": str(plain["dtype"])}
            plain |= {f"kernel_{name}": value for name, value in kernel.parameters().items()}
        plain["bandwidth"] = repr(resolve_bandwidth(plain["bandwidth"]))
        plain = {first_name(name): value for name, value in plain.items()}
        return {"method": self._method, **plain, "seed": self._seed}

    def scales(self, values: ValueKind) -> Scale:
        """Scaling of features for a kind of values."""
        return scales(self.standardize, values, alone=self._alone)

    def check_samples(self, run: SelectionRun) -> None:
        """Reject too few samples for the method, and options that do not suit their number."""

    def check_blocks(self, options: str) -> None:
        """Reject blocks of samples (`options`) if the method has no p-values for them."""
        raise InputError(
            f"{type(self).__name__} has no p-values, so {options} does not apply to it; leave it "
            "out, use BAHSIC or FOHSIC, or call dhsic.test_features (CLI: dhsic test)."
        )

    def labels(self, run: SelectionRun) -> LabelMatrix | None:
        """Label matrix of the label kernel; None if the data are their own labels."""
        if self.label_kernel == SELF:
            return None
        assert run.y is not None, "a method without labels says so"
        return label_matrix(run.y, self.label_kernel, run.covariates, run.p).centred

    def smaller(self, run: SelectionRun) -> str:
        """Advice for messages: how to make m x m matrices smaller."""
        return "use fewer samples"

    @property
    def takes_numbers(self) -> bool:
        """Whether numeric labels are never classes."""
        return self.label_kernel not in ("auto", *CLASS_KERNELS)

    @property
    def _takes_two(self) -> bool:
        return self.label_kernel in ("binary", "balanced")

    @property
    def _seed(self) -> int:
        return seed_of(self.random_state) if self._draws else 0

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


# Of the shared parameters only those that change feature values affect the ranking.
Selector._aside = {of.name for of in fields(Selector)} - {"standardize", "missing"}


def scales(asked: Standardize, values: ValueKind, *, alone: bool = False) -> Scale:
    """Scaling of features: as requested, or by the kind of values.

    At unit standard deviation, a variant with three carriers weighs as much as a common one, and
    its few large values dominate a kernel of all features. Dosages therefore keep their scale, and
    other features with mostly one value are scaled by `PRESENCE`, unless every feature is judged
    `alone`.
    """
    if not isinstance(asked, str):
        return bool(asked)
    if asked == PRESENCE:
        return PRESENCE
    return alone or (PRESENCE if not values.dosages else False)
