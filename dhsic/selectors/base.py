"""What all selectors share: reading X, running, and what scikit-learn expects of them.

A method is one class, its selector. Users make it from parameters and call `fit`; `Request` takes
it along with the data, and `SelectionRun`, which is what every method does around its own work,
asks it for that work: `check_samples`, `fitted` (to the memory there is), `labels`, `rank`.
"""

from __future__ import annotations

import json
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from inspect import Signature, get_annotations, signature
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import ClassifierTags

from dhsic.algorithms import how_many
from dhsic.errors import InputError
from dhsic.joins.filters import Filters
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import resolve_bandwidth
from dhsic.kernels.labels import CLASS_KERNELS, SELF, LabelMatrix, label_matrix
from dhsic.memory import MemoryEstimate
from dhsic.results.schema import Order
from dhsic.selection.cross_validation import Validation
from dhsic.selection.execution import result_of
from dhsic.selection.holdout import check_holdout
from dhsic.selection.progress import check_progress, told
from dhsic.selection.request import Request, check_opening
from dhsic.selection.run import Method, SelectionRun
from dhsic.selectors.transformer import Transformer
from dhsic.sources.scaling import PRESENCE, Scale, Scaling
from dhsic.sources.values import ValueKind
from dhsic.validation import (
    BYTES,
    HALVES,
    SCALING,
    THRESHOLD,
    Constraint,
    by,
    is_count,
    is_number,
    one_of,
    seed_of,
    such,
)

#: What may be asked for: "auto", or a `Scale`.
Standardize = bool | str


class MethodFirst:
    """Signature of a selector as help shows it: what its method takes, then what all take."""

    def __get__(self, _: object, selector: type[Selector]) -> Signature:
        given = dict(signature(selector.__init__).parameters)
        declared = [name for cls in selector.__mro__ for name in get_annotations(cls)]
        first = [name for name, p in given.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        names = dict.fromkeys((*first[1:], *(name for name in declared if name in given)))
        return Signature([given[name] for name in names])


@dataclass(eq=False, repr=False, kw_only=True)
class Selector(Transformer, Method):
    """What all selectors share: reading X, running, and the fitted attributes.

    A method declares its parameters as fields, which make its ``__init__``; a field with
    ``init=False`` is one that its run reads and users cannot choose. What parameters may be,
    `_parameter_constraints` says; what several of them may not be together, the method.
    """

    __signature__: ClassVar[Any] = MethodFirst()
    #: Name of the method in what identifies a run.
    _method: ClassVar[str]
    #: What parameters may be, one by one.
    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_features_to_select": by(lambda n: Validation.of(n) or how_many(n, 1)),
        "missing": one_of(
            ("mean", "error"), "'mean' (fill in the mean of the feature) or 'error'."
        ),
        "standardize": SCALING,
        "random_state": by(seed_of),
        "stability": HALVES,
        "clump_r2": such(
            lambda r2: r2 is None or (is_number(r2) and 0 < r2 < 1),
            "the squared correlation above which a feature goes behind a better one, a number "
            "between 0 and 1 such as 0.2; or None.",
        ),
        "interactions": one_of(
            (None, "auto", "best", "all"),
            "'auto', 'best' or 'all', to look at pairs too, or None.",
        ),
        "stability_threshold": THRESHOLD,
        "holdout": check_holdout,
        "control": one_of((None, "shadow"), "'shadow', or None."),
        "fdr": such(
            lambda rate: is_number(rate) and 0 < rate < 1,
            "the part of the features discovered that may be false, such as 0.1.",
        ),
        "progress": by(check_progress),
        "verbose": such(
            lambda level: isinstance(level, bool) or is_count(level, 0),
            "0 for silence, 1 for a line a round, 2 for more.",
        ),
        "n_jobs": such(
            lambda n: (
                n is None or (not isinstance(n, bool) and isinstance(n, Integral) and int(n) != 0)
            ),
            "how many threads, -1 for all cores, or None.",
        ),
        "memory": BYTES,
    }
    #: Parameters that change nothing of what a run finds, but how much of it is selected.
    _aside: ClassVar[Set[str]]
    #: Parameters that have no effect unless another one has some value, (that one, the value).
    _idle_unless: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    #: Whether `random_state` is the seed of draws besides those of halves of the samples.
    _draws: ClassVar[bool] = False
    #: Whether ``interactions="auto"`` is the default, and means only where pairs can be scanned.
    scans_pairs: ClassVar[bool] = False
    #: Whether a round judges every feature alone.
    _alone: ClassVar[bool] = False
    #: Whether groups of features may be candidates.
    takes_groups: ClassVar[bool] = False
    #: Whether the data may be their own labels.
    takes_self: ClassVar[bool] = False
    #: Whether features are kept in memory from the first pass on, where they fit.
    keeps_features: ClassVar[bool] = False

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
    checkpoint: str | Path | None = None
    progress: Any = "auto"
    verbose: int | bool = 0
    random_state: Any = 0
    runtime: Any = "auto"
    n_jobs: int | None = None
    memory: int | None = None

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
        **opening: Any,
    ) -> Self:
        """Rank the features of X by the dependence of y on them.

        Parameters
        ----------
        X : (m, d) array or store
            NumPy array, pandas DataFrame, dask array, `xarray.DataArray` or `Dataset`,
            `zarr.Array`, or the path or URL of a plain Zarr array, of VCF Zarr or of AnnData.
        y : (m,) or (m, t) array, str or list of str
            Labels, one row a sample; (m, m) for ``label_kernel="precomputed"``; or the name of
            the variable of X that holds them (of AnnData, the column of `obs`; of a DataFrame or a
            table a column, which is then no feature), or several. Where y and X both
            name their samples, the names must be in one order; rows of a frame with columns of ids
            (FID, IID, sample, ...) are matched by these, which are no labels. With
            ``label_kernel="self"`` it is not looked at and may be None: the data are their own
            labels, and features are selected that the others depend on.
        covariates : (m, q) array, str or list of str, optional
            Age, sex, principal components: what they explain linearly is taken out of the labels.
            Real labels are replaced by the residuals of a regression on them. Names of samples,
            and columns of ids, are as of `y`; so are names of variables, text being groups.
        feature_groups : (d,) array or str, optional
            Group of each feature (the gene of a variant), or the name of the variable of X that
            holds it: groups are removed or added as a whole, and `n_features_to_select` counts
            them. `BAHSIC` and `FOHSIC` take them, and score them by definition.
        sample_dim : str or int, optional
            Name or axis of the samples where X does not tell.
        variable : str, optional
            Which variable of a dataset or group holds the data.
        missing_code : int, sequence of int, None or "auto"
            Numbers that mean missing, as of `dhsic.open_source`.
        pass_only : bool
            Leave out variants whose FILTER is not PASS, as of `dhsic.open_source`.
        filters : dhsic.Filters, optional
            Which other samples and features are left out. `y` has a row for each sample of X, or
            names those that are left.
        by_position : bool
            Rows of `y` and `covariates` are in the order of X, whatever they are called.
        **opening
            Other options of `dhsic.open_source`: `missing_chunks`, `ploidy_policy`,
            `storage_options`, `not_features`.

        Returns
        -------
        self

        Raises
        ------
        InputError, DataError, CheckpointError, MemoryBudgetError
            See `dhsic.errors`; each says what to do.
        """
        check_opening("fit", opening)
        if y is None and self.label_kernel != SELF:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target "
                "y is None. Pass one label a sample."
            )
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
            opened_by=self.open_data,
            filters=filters,
            not_features=opening.get("not_features", ()),
            **self._opening,
        )
        if apart := request.opening["not_features"]:  # columns of a table
            self._opening["not_features"] = apart
        self._filtered = request.filtered
        n, d = self.n_features_to_select, self.n_features_in_
        if request.feature_groups is not None:
            d = request.feature_groups.names.size
        if isinstance(n, (int, np.integer)) and n > d:
            warnings.warn(
                f"n_features_to_select={n} exceeds the {d} features there are; all are selected.",
                stacklevel=2,
            )
        with told(self.verbose):
            self.result_ = result = result_of(request)
        self.ranking_ = result["rank"].to_numpy()
        self.support_ = result["selected"].to_numpy()
        self.scores_ = result["score"].to_numpy()
        if "stability" in result:
            self.stability_ = result["stability"].to_numpy()
        self.__dict__.pop("cv_results_", None)
        if "cv_results" in result.attrs:
            kept = json.loads(result.attrs["cv_results"])
            self.cv_results_ = {name: np.array(values) for name, values in kept.items()}
        self.n_features_ = int(self.support_.sum())
        self.n_iter_ = int(result.sizes.get("rounds", 0))
        return self

    def check(self) -> None:
        """Refuse parameters that cannot be; `InputError.parameter` is the one, where it is one."""
        for name, value in self.get_params(deep=False).items():
            try:
                if name in self._parameter_constraints:
                    self._parameter_constraints[name](name, value)
            except InputError as error:
                error.parameter = name
                raise
        if self.stability_threshold is not None and (not self.stability or self.stability % 2):
            raise InputError(
                f"stability_threshold={self.stability_threshold!r} is about complementary pairs of "
                f"halves, and stability={self.stability!r}; pass an even number, such as 100."
            )
        beside = ("stability", "clump_r2", "interactions") if self.control is not None else ()
        if self.control is not None and Validation.of(self.n_features_to_select) is not None:
            raise InputError(
                f"control={self.control!r} selects what is discovered, and n_features_to_select="
                "'auto' another number; pass a number at most, or None."
            )
        is_default = self.scans_pairs and self.interactions == "auto"
        set_ = [name for name in beside if getattr(self, name)]
        for other in (f"{n}=" for n in set_ if n != "interactions" or not is_default):
            raise InputError(
                f"control={self.control!r} says by shadows which features are real, and {other} "
                "knows nothing of shadows; leave one of them out."
            )
        self._check_together()

    def _validate_params(self) -> None:
        self.check()

    def _check_together(self) -> None:
        """Refuse parameters that do not go together; each is what it may be."""

    def identity(self) -> dict[str, Any]:
        """Plain values that two runs must share to be the same run, the data aside."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in self._aside}
        told = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
        for name, (other, value) in self._idle_unless.items():
            if getattr(self, other) != value:
                told[name] = None
        if "kernel" in told:
            kernel = resolve_kernel(told["kernel"])
            told |= {"kernel": kernel.name, "dtype": str(told["dtype"])}
            told |= {f"kernel_{name}": value for name, value in kernel.parameters().items()}
        told["bandwidth"] = repr(resolve_bandwidth(told["bandwidth"]))
        return {"method": self._method, **told, "seed": self._seed}

    @abstractmethod
    def described(self) -> str:
        """What is done, for people, such as "BAHSIC with the gaussian kernel"."""

    def scales(self, values: ValueKind) -> Scale:
        """How features are scaled, by what the values of the data are."""
        return scales(self.standardize, values, alone=self._alone)

    def check_samples(self, run: SelectionRun) -> None:
        """Refuse fewer samples than the method takes, and what is not for as many."""

    def labels(self, run: SelectionRun) -> LabelMatrix | None:
        """The labels by the label kernel that was asked for; None where the data are their own."""
        if self.label_kernel == SELF:
            return None
        assert run.y is not None, "a method without labels says so"
        return label_matrix(run.y, self.label_kernel, run.covariates).centred

    @abstractmethod
    def fitted(self, run: SelectionRun) -> tuple[MemoryEstimate, int | None]:
        """Memory needed at most, and bytes of it for survivors, None for as many as are of use."""

    @abstractmethod
    def rank(
        self, run: SelectionRun, labels: LabelMatrix | None, budget: int | None
    ) -> tuple[Order, Scaling]:
        """Order that the method finds, from the start or from where the checkpoint left off.

        `budget` is bytes of survivors in memory, here or on each worker, as of `fitted`.
        """

    def smaller(self, run: SelectionRun) -> str:
        """What makes m x m matrices smaller, for people."""
        return "use fewer samples"

    @property
    def takes_numbers(self) -> bool:
        """Whether labels that are numbers are no classes, whatever they look like."""
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
            tags._skip_test = True  # labels of the checks are no matrices
        return tags


# Of all that selectors share, only what is done with the values counts.
Selector._aside = {of.name for of in fields(Selector)} - {"standardize", "missing"}


def scales(asked: Standardize, values: ValueKind, *, alone: bool = False) -> Scale:
    """How features are scaled: as asked, or as suits the data.

    To unit deviation, a variant that three people carry weighs as much as a common one, and its few
    large values drown the rest in a kernel of all features. So dosages keep their scale, and what
    else is mostly one value is scaled by `PRESENCE`, unless every feature is judged `alone`.
    """
    if not isinstance(asked, str):
        return bool(asked)
    if asked == PRESENCE:
        return PRESENCE
    return alone or (PRESENCE if not values.dosages else False)
