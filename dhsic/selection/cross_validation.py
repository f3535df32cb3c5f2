"""Cross-validation of the number of features.

In each fold, features are ranked without the held-out samples of the fold. For every number n, an
estimator is fitted to the best n features of that ranking. Therefore only one ranking per fold is
needed, and all rankings share one reading of the data (`dhsic.selection.batch`). If the features
were chosen on all samples, the scores would be too optimistic (Ambroise and McLachlan, 2002).

By default, the chosen number is the smallest one with a mean score within one standard error of the
best score (Breiman et al., 1984).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.algorithms import how_many
from dhsic.errors import InputError
from dhsic.kernels.labels import CLASS_KERNELS, MIXED, SELF, target_kernels
from dhsic.kernels.ordinal import SCORE_KERNELS, is_ordinal, rank_scores
from dhsic.kernels.risk_sets import is_censored
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.selection.conductor import promised
from dhsic.selection.request import Request
from dhsic.selection.run import SelectionRun
from dhsic.selection.stages import left_out_of_parts
from dhsic.sources import AbstractSource
from dhsic.sources.lazy import lazy_matrix
from dhsic.sources.sparse import check_room
from dhsic.sources.views import RecodedSource, SubsetSource
from dhsic.validation import is_count, one_of

#: Largest number of features scored by default; numbers grow by factors of sqrt(2) up to it.
MOST = 1024
#: Number of landmark samples of the Nystroem approximation in the default estimator.
LANDMARKS = 300
#: Default number of folds.
N_FOLDS = 5
#: Number of copies of the feature matrix in memory while an estimator is fitted (an estimate).
COPIES = 4
ONE_ERROR, BEST = "one-standard-error", "best"
RULES = one_of(
    (ONE_ERROR, BEST),
    "'one-standard-error' (the smallest number with a score within one standard error of the "
    "best) or 'best'.",
)

#: Function that returns the results of requests, see `dhsic.selection.execution.results_of`.
Rank = Callable[..., list[xr.Dataset]]


@dataclass(frozen=True, eq=False)
class Validation:
    """Cross-validation that chooses the number of features.

    The parameters are the same as in `BAHSICCV`.
    """

    estimator: Any = None
    n_features: Sequence[int | float] | None = None
    cv: Any = None
    scoring: Any = None
    rule: str = ONE_ERROR
    n_jobs: int | None = None
    groups: Any = None

    @staticmethod
    def of(n_features_to_select: Any) -> Validation | None:
        """Return the validation that `n_features_to_select` requests.

        "auto" requests the default validation. A `Validation` is returned unchanged. The result is
        None for a number.
        """
        if isinstance(n_features_to_select, Validation):
            return n_features_to_select
        is_auto = isinstance(n_features_to_select, str) and n_features_to_select == "auto"
        return Validation() if is_auto else None

    def scores(
        self, request: Request, run: SelectionRun, runtime: AbstractRuntime, rank: Rank
    ) -> Scores:
        """Score every number of features on the held-out samples of every fold.

        `rank` returns the results of the requests for the rankings of all folds.
        """
        if run.n_candidates == 1:
            raise InputError(
                "Cross-validation cannot choose the number of features, because there is only "
                "one (n_features=1); pass more features, or use BAHSIC."
            )
        sizes, m = self._sizes(max(run.n_candidates, 1)), run.n_samples
        run = run.asking(n_features_to_select=int(sizes[-1]))
        promised(run, runtime.tightest())  # errors that do not depend on folds
        y = _labels(run)
        run.selector.labels(run)
        y = self._estimator_labels(y, run.selector.label_kernel)
        folds = [*self._folds(run, y)]
        requests = [
            _ranking(request, run, i, train, sizes[-1]) for i, (train, _) in enumerate(folds)
        ]
        names = [f"Fold {i} of {len(folds)}" for i in range(1, len(folds) + 1)]
        results = rank(requests, runtime, names=names)
        least = min(train.size for train, _ in folds)
        model = self._model(y, least, run.selector.label_kernel)
        n = max(_best(run, result, sizes)[1][-1] for result in results)
        n_bytes = COPIES * 8 * m * n * (self.n_jobs or 1)
        check_room(n_bytes, f"To score {n:,} features", "pass fewer, n_features=[...]")
        return Scores(sizes, np.array(self._fold_scores(run, y, model, folds, results, sizes)))

    def _fold_scores(
        self,
        run: SelectionRun,
        y: Array,
        model: Any,
        folds: Sequence[tuple[Index, Index]],
        results: Sequence[xr.Dataset],
        sizes: Index,
    ) -> list[list[float]]:
        from joblib import Parallel, delayed  # type: ignore[import-untyped]  # no stubs
        from sklearn.metrics import check_scoring, make_scorer, r2_score

        scorer, C = check_scoring(model, self.scoring), run.covariates
        if is_censored(y) and self.estimator is not None:
            y = records_of(y)
        if y.ndim == 2 and self.estimator is None and self.scoring is None:
            scorer = make_scorer(r2_score, multioutput="variance_weighted")
        elif self.estimator is None and self.scoring is None and _are_scores(run):
            scorer = make_scorer(rank_correlation)
        C = np.empty((run.n_samples, 0)) if C is None else C
        scores: list[list[float]] = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(_scored)(
                model, scorer, _values(run, result, sizes, train), C, y, train, test, n
            )
            for (train, test), result in zip(folds, results, strict=True)
            for n in [_best(run, result, sizes)[1]]
        )
        return scores

    def _sizes(self, d: int) -> Index:
        """Numbers of features (or groups) to score, (s,), ascending."""
        if self.n_features is None:
            octaves = 2.0 ** (np.arange(2 * np.log2(MOST) + 1) / 2)
            return np.unique(np.minimum(np.rint(octaves), d).astype(np.int64))
        sizes = [*self.n_features]
        beyond = [n for n in sizes if isinstance(n, int) and n > d]
        if beyond or not sizes:
            raise InputError(
                f"n_features={sizes}, but there are {d} features; pass the numbers of features to "
                f"score, from 1 to {d}."
            )
        return np.unique([how_many(n, d) for n in sizes])

    def _folds(self, run: SelectionRun, y: Array) -> Iterator[tuple[Index, Index]]:
        """Yield the positions of the training samples and of the held-out samples of each fold."""
        from sklearn.base import is_classifier
        from sklearn.model_selection import KFold, check_cv

        y = y["time"] if is_censored(y) else y
        classes, cv = _are_classes(y, run.selector.label_kernel), self.cv
        if self.estimator is not None:
            classes = is_classifier(self.estimator)
        elif (cv is None or is_count(cv)) and (
            (y.ndim == 2 and _labels(run).ndim == 1) or _are_scores(run)
        ):
            cv = KFold(cv or N_FOLDS, shuffle=True, random_state=0)  # classes may be sorted
        groups = self.groups if self.groups is None else np.asarray(self.groups)
        if groups is not None and run.rows is not None and len(groups) == run.source.n_samples:
            groups = groups[run.rows]  # other samples were filtered out or held out
        X = np.zeros((run.n_samples, 1))
        try:
            yield from check_cv(cv, y, classifier=classes).split(X, y, groups)
        except ValueError as error:
            if self.cv is None:
                raise InputError(
                    f"Cross-validation uses five folds by default, but {error} Use fewer folds "
                    "(cv=2 of BAHSICCV), or pass a number of features, n_features_to_select=."
                ) from error
            raise InputError(f"cv={self.cv!r}: {error}") from error

    def _estimator_labels(self, y: Array, label_kernel: str) -> Array:
        """Convert the labels to the form that the estimator predicts.

        For the default estimator, labels with several columns become numbers, classes one-hot.
        Whole numbers that may be class codes become both a number and one-hot columns. Ordinal
        labels become rank scores; an estimator of the user gets the positions of their levels.
        """
        if is_censored(y):
            return y
        if self.estimator is not None:
            return y.astype(np.int64) if y.ndim == 1 and is_ordinal(y) else y
        if y.ndim == 1:
            if _kernel_of(y, label_kernel) in SCORE_KERNELS:
                return rank_scores(y.astype(np.float64))
            if _kernel_of(y, label_kernel) != MIXED:
                return y
            y = np.column_stack([y.astype(np.float64), y])
            label_kernels = ["gaussian", "multiclass"]
        else:
            label_kernels = [_kernel_of(column, label_kernel) for column in y.T]
        from sklearn.preprocessing import OneHotEncoder, scale

        names = OneHotEncoder(sparse_output=False)  # one-hot also for classes that are numbers
        return np.column_stack(
            [
                names.fit_transform(column.astype(str)[:, None])
                if kernel in CLASS_KERNELS
                else scale(_numbers(column, kernel))
                for column, kernel in zip(y.T, label_kernels, strict=True)
            ]
        )

    def _model(self, y: Array, m: int, label_kernel: str) -> Any:
        """Unfitted estimator; by default ridge regression on Gaussian Nystroem features.

        `m` is the smallest number of training samples, an upper bound on the number of landmarks.
        """
        if self.estimator is not None:
            return self.estimator
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import RidgeClassifierCV, RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if is_censored(y):
            from dhsic.selection.risk_model import RiskModel  # loads scikit-learn

            return RiskModel(Nystroem(n_components=min(LANDMARKS, m), random_state=0))
        ridge = RidgeClassifierCV if _are_classes(y, label_kernel) else RidgeCV
        landmarks = Nystroem(n_components=min(LANDMARKS, m), random_state=0)
        return make_pipeline(StandardScaler(), landmarks, ridge(np.logspace(-4, 4, 9)))


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores on held-out samples: one row per fold, one column per number of features."""

    n_features: Index  # (s,), ascending
    scores: Float  # (k, s)

    def __post_init__(self) -> None:
        lost = np.argwhere(~np.isfinite(self.scores))
        if len(lost):
            fold, at = lost[0]
            raise InputError(
                f"The score of {self.n_features[at]} features in fold {fold + 1} is "
                f"{self.scores[fold, at]}; pass another scoring=, or larger folds."
            )

    def chosen(self, rule: str) -> int:
        """Number of features that `rule` chooses: the one with the best mean score.

        The one-standard-error rule chooses the smallest number of features with a mean score within
        one standard error of the best.
        """
        mean, k = self.scores.mean(axis=0), len(self.scores)
        best = int(np.argmax(mean))
        error = self.scores[:, best].std(ddof=1) / np.sqrt(k) if rule == ONE_ERROR and k > 1 else 0
        return int(self.n_features[np.flatnonzero(mean >= mean[best] - error)[0]])

    def results(self) -> dict[str, Array]:
        """Scores as columns (s,) by name, as in scikit-learn's ``cv_results_``."""
        k = len(self.scores)
        error = self.scores.std(axis=0, ddof=1) / np.sqrt(k) if k > 1 else 0.0 * self.scores[0]
        return {
            "n_features": self.n_features,
            **{f"split{i}_test_score": scores for i, scores in enumerate(self.scores)},
            "mean_test_score": self.scores.mean(axis=0),
            "std_test_score": self.scores.std(axis=0),
            "std_error": error,
        }


def records_of(y: Array) -> Array:
    """Convert censored times (m,) to scikit-survival's records with fields `event` and `time`."""
    records = np.empty(len(y), dtype=[("event", np.bool_), ("time", np.float64)])
    records["event"], records["time"] = y["event"], y["time"]
    return records


def _labels(run: SelectionRun) -> Array:
    """Return the labels as an array that an estimator can predict."""
    if run.y is None or run.selector.label_kernel in (SELF, "precomputed"):
        raise InputError(
            f"With label_kernel={run.selector.label_kernel!r} there are no labels to predict, so "
            "cross-validation cannot choose the number of features; pass a number as "
            "n_features_to_select=."
        )
    return run.y.astype(object) if run.y.dtype.kind == "T" else run.y


def _are_scores(run: SelectionRun) -> bool:
    """Whether the labels are a single target with a label kernel on rank scores."""
    y = _labels(run)
    return y.ndim == 1 and _kernel_of(y, run.selector.label_kernel) in SCORE_KERNELS


def _numbers(column: Array, kernel: str) -> Float:
    """Convert a target to numbers (m,): to rank scores if its label kernel uses them."""
    values = column.astype(np.float64)
    return rank_scores(values) if kernel in SCORE_KERNELS else values


def rank_correlation(y: Array, predicted: Array) -> float:
    """Spearman's rank correlation of labels and predictions (m,); 0 if either is constant."""
    from scipy.stats import rankdata  # imported here because it loads slowly

    ranks = [rankdata(values) - (len(y) + 1) / 2 for values in (y, predicted)]
    norms = [float(np.linalg.norm(each)) for each in ranks]
    return float(ranks[0] @ ranks[1]) / (norms[0] * norms[1]) if all(norms) else 0.0


def _are_classes(y: Array, label_kernel: str) -> bool:
    return y.ndim == 1 and _kernel_of(y, label_kernel) in CLASS_KERNELS


def _kernel_of(column: Array, label_kernel: str) -> str:
    """Name of the label kernel of a target (m,), which "auto" derives from its values."""
    return target_kernels(column[:, None], label_kernel)[0]


def _ranking(request: Request, run: SelectionRun, i: int, train: Index, n: int) -> Request:
    """Create the request for the ranking of fold i.

    It selects n features on the samples `train`.
    """
    place = run.selector.checkpoint
    selector = copy(run.selector).set_params(
        n_features_to_select=int(n),
        checkpoint=place and f"{place}.folds/{i:03d}",
        progress=False,
        **left_out_of_parts(run.selector),
    )
    part = run.of_samples(train)
    return replace(
        request,
        selector=selector,
        source=run.passed_source,
        y=part.y,
        covariates=part.covariates,
        rows=part.rows,
    )


def _best(run: SelectionRun, result: xr.Dataset, sizes: Index) -> tuple[Index, Index]:
    """Features of the best candidates, best first, and numbers of features by `sizes`.

    The second array (s,) counts the features of the best n candidates, for each n in `sizes` (s,).
    Candidates are features, groups, or columns of a table; a categorical column has several
    features in the run.
    """
    order = np.argsort(result["rank"].to_numpy())
    if run.table is not None:
        assert run.groups is not None, "the groups are the columns of the table"
        parts = [np.flatnonzero(run.groups.codes == j) for j in order[: sizes[-1]]]
        return np.concatenate(parts), np.cumsum([part.size for part in parts])[sizes - 1]
    if "group_rank" not in result:
        return order[: sizes[-1]], sizes
    ranks = result["group_rank"].to_numpy()
    counts = np.array([int(((ranks > 0) & (ranks <= n)).sum()) for n in sizes])
    return order[: counts[-1]], counts


def _values(run: SelectionRun, result: xr.Dataset, sizes: Index, train: Index) -> Float:
    """Values (m, n) of the best features for all samples, best feature first.

    Missing values are replaced by the mean of the training samples.
    """
    best, _ = _best(run, result, sizes)
    codes = result.attrs.get("missing_codes", ())
    source: AbstractSource = RecodedSource(run.source, codes) if len(codes) else run.source
    X = lazy_matrix(SubsetSource(source, np.sort(best))).data.compute(scheduler="synchronous")
    X = X if run.rows is None else X[run.rows]
    X = np.asarray(X[:, np.argsort(np.argsort(best))], dtype=np.float64)
    missing = np.isnan(X)
    if missing.any():
        there = np.maximum((~missing[train]).sum(axis=0), 1)
        X[missing] = 0.0
        X += missing * (X[train].sum(axis=0) / there)
    return X


def _scored(
    model: Any, scorer: Any, X: Float, C: Float, y: Array, train: Index, test: Index, counts: Index
) -> list[float]:
    """Scores on held-out samples, one for each n in `counts`.

    Each model is fitted to the covariates C and the first n features.
    """
    from sklearn.base import clone

    scores = []
    with single_blas_thread():
        for n in counts:
            Z = np.hstack([C, X[:, :n]])
            fitted = clone(model).fit(Z[train], y[train])
            scores.append(float(scorer(fitted, Z[test], y[test])))
    return scores
