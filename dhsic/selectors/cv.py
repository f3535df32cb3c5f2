"""BAHSICCV: a selector that chooses the number of features by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from dhsic._typing import Array, Mask
from dhsic.methods.base import MethodFirst, Selector
from dhsic.renamed import RenamingMeta
from dhsic.selection.cross_validation import ONE_ERROR, RULES, Validation
from dhsic.selectors.bahsic import BAHSIC


@dataclass(eq=False, repr=False, kw_only=True)
class BAHSICCV(SelectorMixin, BaseEstimator, metaclass=RenamingMeta):  # type: ignore[misc]  # scikit-learn is untyped
    """Selector that chooses the number of features by cross-validation.

    In each fold, features are ranked once, without the held-out samples. For every number n,
    `estimator` is fitted to the best n features and scored on the held-out samples. Finally,
    features are ranked on all samples.

    Parameters
    ----------
    estimator : estimator, optional
        Estimator that predicts from the features; by default ridge regression with the Gaussian
        kernel on scaled features, for classes or numbers, in time linear in the samples.
    selector : selector, optional
        Selector that ranks; ``BAHSIC()`` by default. Its `n_features_to_select` is ignored.
    n_features : sequence of int or float, optional
        Numbers of features to score, or fractions of all; by default half-octaves, 1, 2, 3, 4, 6,
        8, 11, ... up to 1,024. With `feature_groups` these are numbers of groups.
    cv : int, splitter or iterable, optional
        As in `sklearn.model_selection.cross_val_score`; five folds by default, stratified for
        classes.
    scoring : str or callable, optional
        As in `cross_val_score`; by default the score of the estimator, accuracy or R squared;
        for ordinal labels and ``label_kernel="rank"`` Spearman's rank correlation.
    rule : {"one-standard-error", "best"}
        The smallest number of features with a mean score within one standard error of the best
        score; or the number with the best score.
    n_jobs : int, optional
        Threads of rankings and fits; as in `BAHSIC` and `cross_val_score`.
    progress : optional
        As in `BAHSIC`; None leaves it to `selector`.

    Attributes
    ----------
    cv_results_ : dict of (s,) arrays
        ``n_features``, ``mean_test_score``, ``std_test_score``, ``std_error`` (of the mean over the
        k folds: the standard deviation with k - 1, over the root of k), ``split0_test_score``, ...
    n_features_ : int
        Number of features (or groups) chosen.
    selector_ : selector
        Selector fitted to all samples with that number.
    support_, ranking_, scores_, result_
        Those of `selector_`, as in `BAHSIC`.

    Notes
    -----
    Covariates are regressed out of the labels of each ranking. `estimator` gets the covariates as
    its first columns, before the features, so its score shows the additional contribution of the
    features.

    Examples
    --------
    >>> import numpy as np, dhsic
    >>> X = np.random.default_rng(0).standard_normal((200, 20))
    >>> model = dhsic.BAHSICCV().fit(X, np.sign(X[:, 3] + X[:, 7]))
    >>> model.n_features_, model.get_support(indices=True).tolist()
    (2, [3, 7])
    """

    __signature__: ClassVar[Any] = MethodFirst()
    _parameter_constraints: ClassVar = {"rule": RULES}

    estimator: Any = field(default=None, kw_only=False)
    selector: Any = None
    n_features: Sequence[int | float] | None = None
    cv: Any = None
    scoring: Any = None
    rule: str = ONE_ERROR
    n_jobs: int | None = None
    progress: Any = None

    def fit(
        self, X: Any, y: Any = None, *, groups: Any = None, covariates: Any = None, **options: Any
    ) -> Self:
        """Choose the number of features, and select them on all samples.

        Parameters
        ----------
        X, y, covariates
            As in `BAHSIC.fit`.
        groups : (m,) array, optional
            Groups of samples for `cv`, such as families, which are not split between folds.
        **options
            As in `BAHSIC.fit`: ``feature_groups=``, ``variable=``, ``filters=``, ...

        Returns
        -------
        self

        Raises
        ------
        InputError, DataError, MemoryBudgetError
            As in `BAHSIC.fit`; also if folds are impossible, or scores are not finite.
        """
        RULES("rule", self.rule)
        names = ("estimator", "n_features", "cv", "scoring", "rule", "n_jobs")
        validation = Validation(groups=groups, **{name: getattr(self, name) for name in names})
        selector = clone(self._ranker)
        own = {"n_jobs": self.n_jobs, "progress": self.progress}
        own = {name: value for name, value in own.items() if value is not None}
        selector.set_params(n_features_to_select=validation, **own)
        self.selector_ = selector.fit(X, y, covariates=covariates, **options)
        self.cv_results_ = selector.cv_results_
        self.n_features_ = int(selector.result_.attrs["cv_chosen"])
        selector.set_params(n_features_to_select=self.n_features_)
        self.support_, self.ranking_ = selector.support_, selector.ranking_
        self.scores_, self.result_ = selector.scores_, selector.result_
        self.n_features_in_ = selector.n_features_in_
        return self

    @property
    def feature_names_in_(self) -> Array:
        """Names of the features of X in `fit`, if they have names."""
        return np.asarray(self.selector_.feature_names_in_)

    @property
    def _ranker(self) -> Selector:
        return BAHSIC(progress=False) if self.selector is None else self.selector

    def _get_support_mask(self) -> Mask:
        check_is_fitted(self)
        return np.asarray(self.selector_.get_support())

    def transform(self, X: Any) -> Any:
        """Select features of X, as in `BAHSIC.transform`."""
        check_is_fitted(self)
        return self.selector_.transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Put selected features back at their positions, as in `BAHSIC.inverse_transform`."""
        check_is_fitted(self)
        return self.selector_.inverse_transform(X)

    def __sklearn_tags__(self) -> Any:
        tags, of_selector = super().__sklearn_tags__(), get_tags(self._ranker)
        tags.target_tags, tags.input_tags = of_selector.target_tags, of_selector.input_tags
        tags.classifier_tags = of_selector.classifier_tags
        return tags
