r"""Tests of independence: the distribution of HSIC if X and Y are independent.

If the label matrix is centred, HSIC is an inner product. With ``C = R L R``, R the projection onto
the orthogonal complement of ``[1, covariates]``, and ``Kt`` = K without its diagonal,

    ``HSIC = <C, A>``,  biased (JMLR eq. 4): ``A = K / (m-1)^2``,
    unbiased (JMLR eq. 5): ``A = (Kt + Diag(g)) / (m (m-3))``,
    ``g = 2 Kt 1 / (m-2) - 1' Kt 1 / ((m-1)(m-2))``.

So the estimators differ in the diagonal of A. A permutation of the labels permutes rows and columns
of C. There are three methods for the null distribution of ``<C, A>``:

- `permutation`: ``<P C P', R A R>``; with covariates, the residuals of the labels are permuted and
  projected again (Freedman and Lane, 1983);
- `gamma`: a gamma distribution with the first three moments of all m! permutations;
- `normal`: the distribution of HSIC_1 under *dependence* (JMLR Theorem 5).

Kernel matrices of labels, and of data with few features, have a rank of about 20 to 40; others are
dense (`dhsic.linalg.symmetric`). If both matrices have low rank (r and g), a permutation costs
O(m r g), no (m, m) matrix is computed, and hundreds of permutations are one matrix product.

`test_features` tests features of a source one by one. To test all features, it runs one pass of the
criterion `dhsic.criteria.independence`. Features requested by name or position are held in memory,
standardised, and also tested together as one set.
"""

# ruff: noqa: PT028  # `test_features` is not a pytest test, and its parameters have defaults

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic import notebook
from dhsic._typing import Array, Float, Index
from dhsic.criteria.base import AbstractCriterion
from dhsic.criteria.blocks import BlockIndependence, BlockState
from dhsic.criteria.features import Features
from dhsic.criteria.independence import (
    FEWEST_PRESENT,
    MULTISCALE,
    Independence,
    adjusted_p_values,
)
from dhsic.criteria.multiscale import SHAPES, Multiscale
from dhsic.errors import InputError
from dhsic.independence.estimate import HsicSpec
from dhsic.independence.missing import complete_samples
from dhsic.independence.test import METHODS, HsicTest, TestResult, hsic_test
from dhsic.joins.filters import Filters
from dhsic.joins.labels import Labelled
from dhsic.joins.text import check_coded
from dhsic.kernels import resolve_kernel
from dhsic.kernels.bandwidth import Grid
from dhsic.kernels.base import AbstractKernel
from dhsic.kernels.gaussian import Gaussian
from dhsic.kernels.labels import label_matrix
from dhsic.linalg.directions import Directions
from dhsic.linalg.residual_covariance import variance_ratios
from dhsic.methods.base import Standardize, scales
from dhsic.passes import AbstractPass, Tile
from dhsic.passes.call_counts import counting_on
from dhsic.passes.single_pass import looked_at
from dhsic.renamed import takes_former_names
from dhsic.results.views import LEVEL, of_tests
from dhsic.runtime import running
from dhsic.runtime.threads import Threads
from dhsic.selection.execution import result_of
from dhsic.selection.request import Request, check_opening, given_as
from dhsic.sources import AbstractSource
from dhsic.sources.categories import KIND, NUMBER
from dhsic.sources.columns import NAME
from dhsic.sources.ids import abbreviate, did_you_mean
from dhsic.sources.scaling import Scale, Scaling, missing_mask
from dhsic.sources.views import AbstractView, SubsetSource
from dhsic.validation import SCALING, as_array

#: Maximum number of features that are printed; these have the smallest p-values.
SHOWN = 20

__all__ = ["METHODS", "FeatureTests", "TestResult", "hsic_test", "test_features"]


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTests:
    """Results of the tests of single features, and of all of them together.

    Attributes
    ----------
    features : (n,) int64
        Positions of the features in X.
    names : (n,) array of str or None
        Names of the features, if X has names.
    statistics, p_values : (n,) float64
        HSIC of every single feature, and its p-value.
    sigmas : (n,) float64
        Sigma of the kernel on the feature; NaN if several widths were used.
    adjusted : (n,) float64
        p-values adjusted by Benjamini and Hochberg. Among features at or below 0.05, at most about
        5% are false discoveries.
    together : TestResult or None
        Test of the requested features as one set; None if all features were tested in one pass,
        or if missing values depend on the labels and too few samples have all values.
    widths, shapes : (n,) array or None
        Width of the kernel on ranks at which the dependence is strongest, as a fraction of their
        range (1: a straight line), and its shape: ``"linear"``, ``"monotone"`` or ``"turning"``.
        None if one width was used.
    result_ : xarray.Dataset or None
        The tests of all features as a selection result, in which features with an adjusted p-value
        of at most 0.05 are selected. `dhsic.save`, `dhsic.report` and `dhsic.plot.genome` accept
        it. None if only some features were tested.
    labels : str
        The labels in one line, with the label kernel.
    kinds : (n,) array of str or None
        Content of each column, if there are categories: ``"number"`` or ``"categories (4)"``.
    """

    features: Index
    names: Array | None
    statistics: Float
    p_values: Float
    adjusted: Float
    sigmas: Float
    together: TestResult | None
    result_: xr.Dataset | None = None
    widths: Float | None = None
    shapes: Array | None = None
    labels: str = ""
    kinds: Array | None = None

    def __str__(self) -> str:
        called = self.features if self.names is None else self.names
        n_more = max(0, len(called) - SHOWN)
        order = np.argsort(self.p_values, kind="stable")[:SHOWN] if n_more else slice(None)
        names = [str(name) for name in np.asarray(called)[order]]
        width = max(7, *map(len, names))
        shapes = np.full(len(called), "") if self.shapes is None else self.shapes
        if self.kinds is not None:  # in the column of shapes, which categories do not have
            shapes = np.where(shapes == "", np.where(self.kinds == NUMBER, "", self.kinds), shapes)
        last = "" if self.shapes is None else "  shape"
        lines = [f"{'feature':<{width}}  {'HSIC':>10}  {'p':>9}  {'adjusted':>9}{last}"]
        of = (values[order] for values in (self.statistics, self.p_values, self.adjusted, shapes))
        lines += [
            f"{name:<{width}}  {h:10.4g}  {p:9.3g}  {q:9.3g}  {shape}".rstrip()
            for name, h, p, q, shape in zip(names, *of, strict=True)
        ]
        if n_more:
            lines.append(f"... and {n_more:,} more with larger p; to_dataframe() has all")
        if self.together is not None:
            lines.append(f"together: {self.together}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """HTML table of the features with the smallest p-values."""
        best = self.to_dataframe().sort_values("p_values", kind="stable").head(SHOWN).reset_index()
        columns = {"statistics": "HSIC", "p_values": "p", "adjusted": "p adjusted"}
        columns |= {} if self.shapes is None else {"shape": "shape"}
        renamed = best.rename(columns=columns)
        shown = {name: renamed[name].tolist() for name in ("feature", "name", *columns.values())
                 if name in renamed}  # fmt: skip
        n = int((self.adjusted <= LEVEL).sum())
        title = (
            f"{len(self.features):,} features tested, {n:,} with an adjusted p of at most {LEVEL}"
        )
        together = "" if self.together is None else str(self.together)
        return notebook.page(notebook.table(shown, title), notebook.facts({"together": together}))

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table with one row per feature, indexed by its position in X."""
        columns = {} if self.names is None else {"name": self.names}
        columns |= {} if self.kinds is None else {KIND: self.kinds}
        values = {name: getattr(self, name) for name in ("statistics", "p_values", "adjusted")}
        index = pd.Index(self.features, name="feature")
        how: dict[str, Array | None] = {"sigma": self.sigmas}
        if self.widths is not None:
            how = {"width": self.widths, "shape": self.shapes}
        return pd.DataFrame({**columns, **values, **how}, index=index)


@takes_former_names
def test_features(
    X: Any,
    Y: Any,
    features: Any = None,
    *,
    rows: Any = None,
    standardize: Standardize = "auto",
    missing: str = "mean",
    kernel: str | AbstractKernel = "gaussian",
    label_kernel: str = "auto",
    bandwidth: object = "multiscale",
    statistic: str = "unbiased",
    covariates: Any = None,
    method: str = "auto",
    n_permutations: int = 1000,
    random_state: int = 0,
    checkpoint: Any = None,
    memory_limit: int | None = None,
    runtime: Any = "auto",
    sample_dim: str | int | None = None,
    variable: str | None = None,
    missing_code: Any = "auto",
    filters: Filters | None = None,
    by_position: bool = False,
    event: Any = None,
    entry: Any = None,
    permute_whole: Any = None,
    permute_within: Any = None,
    sample_weight: Any = None,
    loco: bool = False,
    **opening: Any,
) -> FeatureTests:
    """Test for each feature whether it is independent of Y: all in one pass, or some features.

    p-values of features that were selected on the same samples are too small. Select features on
    some samples, and test them on the other samples, `rows`.

    Parameters
    ----------
    X : (m, d) array or store
        Any input of `dhsic.open_source`; from a store only the requested features are read.
    Y : (m,) or (m, t) array, or str
        Labels of all samples, or the name of the variable of X that contains them: for AnnData a
        column of obs, or coordinates such as "obsm/spatial". Times to an event with `event`, or as
        a structured array, see `BAHSIC.fit`.
    features : (n,) array, optional
        Indices or names of features, or a mask (d,) such as ``model.support_``. These features
        are held in memory, (m, n) float64, and also tested as one set. By default, all features are
        tested in one pass, which needs memory for a few numbers per feature.
    rows : (m',) array, optional
        Indices of the samples to test on, or a mask (m,); all by default.
    standardize : "auto" or bool
        Scale features over the tested samples, see `BAHSIC`; they are centred in any case.
    missing : {"mean", "error"}
        ``"mean"``: samples in which a feature is missing are excluded from the test of this
        feature. In the test of the set of requested features, missing values are replaced by the
        mean of the feature; if missing values depend on the labels, the set is tested only on the
        samples that have all values, with a warning. ``"error"``: missing values raise an error.
    kernel, label_kernel, statistic, covariates, n_permutations, random_state
        See `hsic_test`; covariates have one row for every sample of X. All features are tested with
        the same permutations.
    bandwidth : "multiscale", "median", "dimension", float or sequence of floats
        ``"multiscale"``: ranks of the feature at six widths, from a straight line to a ripple,
        combined into one p-value (`dhsic.criteria.multiscale`); about 50 microseconds per feature
        with 1,000 samples. Other values use one kernel on the values, see `hsic_test`; this takes
        milliseconds for a feature with many values. With ``"multiscale"`` the set of requested
        features is tested with the median width.
    method : {"auto", "permutation", "gamma", "normal"}
        See `hsic_test`. ``"auto"`` is ``"gamma"`` (moments of all permutations in closed form) for
        several widths and for all features with the Gaussian kernel, and ``"permutation"`` for
        other tests, which takes a second per feature. ``"permutation"`` and ``"normal"`` use the
        median width in place of several widths.
    checkpoint, memory_limit, runtime
        See `BAHSIC`; they apply to a pass over all features.
    sample_dim, variable, missing_code
        See `dhsic.open_source`.
    filters : Filters, optional
        Filters for samples and features of X, by name, position, frequency and so on, see
        `dhsic.select`. The tests use the samples in `rows` that pass the filters. Frequencies are
        computed from all samples that pass.
    by_position : bool
        Match rows of `Y` and `covariates` to rows of X by position instead of by name.
    event, entry : (m,) array or str, optional
        Events and entries of censored times, see `BAHSIC.fit`.
    permute_whole, permute_within : (m,) array or str, optional
        Blocks of samples, such as donors or batches. Permutations exchange the labels of whole
        blocks, or exchange labels only within blocks, see `BAHSIC.fit` and `docs/donors.md`. They
        need ``bandwidth="multiscale"``. Requested `features` are then tested one by one, and not as
        a set.
    sample_weight : (m,) array or str, optional
        One weight per sample, see `BAHSIC.fit`. HSIC is computed for the weighted distribution, and
        p-values use a robust variance (`docs/weights.md`). Requires a test of all features with the
        default kernels, ``bandwidth="multiscale"`` and one target.
    **opening
        Other options of `dhsic.open_source`, see `dhsic.select`.
    loco : bool
        For tests of all features: test each chromosome against the residuals of the labels after
        ridge regression on all other chromosomes. This removes effects of relatedness and
        population structure. The test accounts for the covariance of these residuals.

    Returns
    -------
    FeatureTests
        Results of each feature, and the test of the set if `features` were requested. A constant
        feature has p-value 1 and no width (NaN).

    Raises
    ------
    InputError
        Like `hsic_test`; or if X does not have the features or rows, or filters exclude them.
    DataError
        If a chunk of a store is missing or damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from dhsic.independence import test_features
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> found = test_features(X, X[:, 1] ** 2, n_permutations=199)
    >>> np.flatnonzero(found.adjusted < 0.05)
    array([1])
    """
    where = {"sample_dim": sample_dim, "variable": variable, "missing_code": missing_code}
    check_opening("test_features", opening)
    opening["categories"] = tuple(opening.get("categories") or ())
    if not isinstance(filters, Filters | None):
        raise InputError(f"filters={filters!r}; pass dhsic.Filters(keep=..., maf=..., ...)")
    how: Any = {"what": "Y", "by_position": by_position, "filters": filters, **where, **opening}
    how |= {"counting": counting_on(partial(running, runtime)), "event": event, "entry": entry}
    how |= {"permute_whole": permute_whole, "permute_within": permute_within}
    how |= {"sample_weight": sample_weight}
    given = _some_rows(Labelled.of(X, Y, covariates, **how), rows, label_kernel)
    source, C, sample_rows = given.source, given.covariates, given.rows
    labels = as_array(given.y, "y")
    check_coded(X, Y=labels, covariates=C)
    is_multiscale = isinstance(bandwidth, str) and bandwidth == MULTISCALE
    is_multiscale &= method in ("auto", "gamma") and resolve_kernel(kernel) == Gaussian()
    if isinstance(bandwidth, str) and bandwidth == MULTISCALE:
        bandwidth = "median"
    spec = HsicSpec.of(labels, C, kernel, label_kernel, bandwidth, statistic)
    which, called = _features_left(features, given)
    if source.levels and not (features is None and is_multiscale and not loco):
        raise _categories_refused(source)
    from dhsic.selectors.onepass import OnePass  # imported here because it loads slowly

    selector = OnePass(
        None,
        criterion="hsic",
        bandwidth=MULTISCALE if is_multiscale else "median",
        label_kernel=label_kernel,
        statistic=statistic,
        standardize=standardize,
        missing=missing,
        loco=loco,
        checkpoint=checkpoint if features is None else None,
        memory_limit=memory_limit,
        runtime=runtime,
        progress=False,
    )
    is_of_all = features is None and method in ("auto", "gamma")
    _check_samples(given, is_of_all=is_of_all, is_multiscale=is_multiscale)
    input_names = given_as(X, Y, covariates, sample_weight)
    is_streamed = spec.kernel == Gaussian() and not isinstance(spec.policy, Grid)
    if is_of_all and is_streamed:
        selector = selector if is_multiscale else selector.set_params(bandwidth=bandwidth)
        dataset = result_of(Request.labelled(selector, X, given, attributes=input_names, **where))
        return _of_all(dataset, called)
    if loco:
        raise InputError(
            "loco=True needs a test of all features with method='gamma' and kernel='gaussian'; "
            "leave features= out. Or leave loco= out, and pass principal components as covariates "
            "(dhsic.pca)."
        )
    if given.blocks is not None:
        blocked = BlockIndependence(given.blocks, label_kernel)
        Z, constant, absent = standardised(
            source, which, sample_rows, missing, standardize, spec.kernel, by_ranks=True
        )
        names = _names_of(source, which)
        alone = _at_several_widths(blocked, Z, absent, constant, labels, C)
        return FeatureTests(called, names, **alone, together=None)
    method = "permutation" if method == "auto" else method
    test = HsicTest(spec, method, n_permutations, random_state)
    Z, constant, absent = standardised(
        source, which, sample_rows, missing, standardize, spec.kernel, by_ranks=is_multiscale
    )
    names = _names_of(source, which)
    labels_told = selector.label_description(in_python=True).of(labels)
    together = _of_set(test, Z, absent, (labels, label_kernel), called if names is None else names)
    if is_multiscale:
        criterion = Independence(label_kernel=label_kernel, statistic=statistic)
        alone = _at_several_widths(criterion, Z, absent, constant, labels, C)
        return FeatureTests(called, names, **alone, together=together, labels=labels_told)
    nothing = TestResult(0.0, 1.0, method, len(Z), 0, 0.0, 0.0, np.nan)
    each = [
        nothing if still else _of_present(test, Z[:, [k]], absent[:, k], (labels, label_kernel))
        for k, still in enumerate(constant)
    ]
    p_values = np.array([one.p_value for one in each])
    return FeatureTests(
        called,
        names,
        np.array([one.statistic for one in each]),
        p_values,
        adjusted_p_values(p_values),
        np.array([one.sigma for one in each]),
        together,
        labels=labels_told,
    )


def _categories_refused(source: AbstractSource) -> InputError:
    """Create the error that data with categories allow only the default test of all features."""
    names = source.feature_names()
    columns = [str(j) if names is None else str(names[j]) for j in source.levels]
    return InputError(
        f"Categories ({abbreviate(map(repr, columns), 5)}) are supported by the test of all "
        "features, with the default bandwidth, method and kernel. Leave these arguments, loco= and "
        "features= out; to test some features, pass filters=dhsic.Filters(extract=names). Or "
        f"exclude the columns: not_features={columns!r}."
    )


def _names_of(source: AbstractSource, which: Index) -> Array | None:
    """Return the names of some features; None if the source has no names."""
    names = source.feature_names()
    return None if names is None else np.asarray(names)[which]


def _some_rows(given: Labelled, rows: Any, label_kernel: str) -> Labelled:
    """Restrict data, labels and covariates to the samples in `rows` that pass the filters."""
    passing, labels, C = given.rows, as_array(given.y, "y"), given.covariates
    m = given.source.n_samples if passing is None else passing.size
    if C is not None and len(C) != m:
        raise InputError(
            f"covariates have shape {C.shape}, but there are {m} samples; pass one row per sample."
        )
    is_matrix = label_kernel == "precomputed" and labels.ndim > 1
    if is_matrix and passing is not None:
        labels = labels[:, passing]
    if rows is None:
        return replace(given, y=labels)
    selected = positions_of(as_array(rows, "rows"), given.source.n_samples, "rows", "samples")
    at = selected
    if passing is not None:
        selected = selected[np.isin(selected, passing)]
        at = np.searchsorted(passing, selected)
    if not selected.size:
        raise InputError(
            "filters= excludes all samples of rows=; pass other rows, or leave one of the two out."
        )
    labels = labels[np.ix_(at, at)] if is_matrix else labels[at]
    blocks = None if given.blocks is None else given.blocks.of_samples(at)
    weights = None if given.sample_weight is None else given.sample_weight[at]
    C = None if C is None else C[at]
    given = replace(given, y=labels, covariates=C, rows=selected)
    return replace(given, blocks=blocks, sample_weight=weights)


def _check_samples(given: Labelled, *, is_of_all: bool, is_multiscale: bool) -> None:
    """Reject weights and blocks of samples for tests that do not support them."""
    if given.sample_weight is not None and not (is_of_all and is_multiscale):
        raise InputError(
            "sample_weight needs a test of all features with bandwidth='multiscale', "
            "method='gamma' and kernel='gaussian'. Leave these arguments and features= out; to "
            "test some features, pass filters=dhsic.Filters(extract=names). Or leave out "
            "sample_weight."
        )
    if given.blocks is not None and not is_multiscale:
        raise InputError(
            f"{given.blocks.options} needs the test at several widths; pass "
            "bandwidth='multiscale', method='auto' and kernel='gaussian'."
        )


def _features_left(features: Any, given: Labelled) -> tuple[Index, Index]:
    """Return the indices of the requested features after filters, and their indices in X.

    If `features` is None, all features that pass the filters are used.
    """
    passing = given.filtered.features
    if passing is None:
        which = features_at(features, given.source)
        return which, which
    if features is None:
        return np.arange(passing.size), passing
    assert isinstance(given.source, AbstractView), "filters left some features"
    called = features_at(features, given.source.base)
    if n_lacking := int((~np.isin(called, passing)).sum()):
        raise InputError(
            f"filters= excludes {n_lacking:,} of the {called.size:,} features of features=; pass "
            "features that it keeps, or other filters."
        )
    return np.searchsorted(passing, called), called


def _of_set(
    test: HsicTest, Z: Float, absent: Array, labels: tuple[Array, str], names: Array
) -> TestResult | None:
    """Test the features Z (m, n) as one set; None if too few samples have all values.

    `absent` (m, n) marks missing values. If missing values depend on the labels, only samples
    without missing values are used; otherwise, all samples. For `labels`, see `_of_present`.
    """
    complete = complete_samples(test.C, absent, names, FEWEST_PRESENT + test.Q.shape[1])
    if complete is None:
        return test.of(Z)
    if not complete.any() or not np.ptp(Z[complete], axis=0).any():
        return None
    return _of_present(test, Z, ~complete, labels)


def _of_present(test: HsicTest, X: Float, absent: Array, labels: tuple[Array, str]) -> TestResult:
    """Test features X (m, n) on the samples that are not `absent` (m,).

    `labels` contains the labels of all samples, and the name of the label kernel. If too few
    samples are present, or all have the same label, nothing is tested and the p-value is 1.
    """
    if not absent.any():
        return test.of(X)
    present, (y, kernel), spec = np.flatnonzero(~absent), labels, test.spec
    is_matrix = kernel == "precomputed" and y.ndim > 1
    y = y[np.ix_(present, present)] if is_matrix else y[present]
    C = None if spec.covariates is None else np.asarray(spec.covariates)[present]
    nothing = TestResult(0.0, 1.0, test.method, present.size, 0, 0.0, 0.0, np.nan)
    is_one = not is_matrix and bool((y == y[0]).all()) if present.size else True
    if is_one or present.size < FEWEST_PRESENT + test.Q.shape[1]:
        return nothing
    L = label_matrix(y, kernel, C).centred
    return replace(test, spec=replace(spec, labels=L, covariates=C)).of(X[present])


def _at_several_widths(
    criterion: AbstractCriterion,
    Z: Float,
    absent: Array,
    constant: Array,
    y: Array,
    C: Array | None,
) -> dict[str, Any]:
    """Compute fields of `FeatureTests` for features Z (m, n); `absent` marks missing values."""
    state = criterion.prepare(criterion.read(y, C), C)
    directions = Directions.of([criterion.directions(state)])
    alive = np.flatnonzero(~constant)
    X = np.ascontiguousarray(Z.T[alive])
    none = np.zeros(alive.size, dtype=np.uint8)
    missing = absent.T[alive] if absent.any() else None
    features = Features(X, none, directions, missing=missing)
    if covariances := criterion.covariances(state):
        ratios = variance_ratios(covariances, X, missing)
        features = replace(features, variance_ratios=ratios)
    columns = criterion.columns(state, features, directions.places[0])
    score, hsic, width = np.zeros((3, constant.size))
    width[:] = np.nan
    score[alive], hsic[alive], width[alive] = columns[:3]
    p = 10.0**-score
    q = adjusted_p_values(p)
    tests = {"statistics": hsic, "p_values": p, "adjusted": q}
    if not isinstance(state, Multiscale | BlockState):
        return {**tests, "sigmas": width}
    shape = np.full(constant.size, "", dtype=object)
    shape[alive] = SHAPES[columns[3].astype(np.int64)]
    return {**tests, "sigmas": np.full(constant.size, np.nan), "widths": width, "shapes": shape}


def _of_all(found: xr.Dataset, features: Index) -> FeatureTests:
    """Convert the result of a pass over all features; `features` are their indices in X."""
    still = found["constant"].to_numpy()

    def of(name: str, otherwise: float) -> Float:
        if name not in found:
            return np.full(still.size, np.nan)
        return np.where(still, otherwise, found[name].to_numpy())

    values = of("hsic", 0.0), of("p", 1.0), of("q", 1.0), of("sigma", np.nan)
    names = found[NAME].to_numpy() if NAME in found.coords else None
    how = {name: found[name[:-1]].to_numpy() for name in ("widths", "shapes") if name[:-1] in found}
    about, kinds = str(found.attrs["labels"]), found[KIND].to_numpy() if KIND in found else None
    return FeatureTests(
        features, names, *values, None, of_tests(found), labels=about, kinds=kinds, **how
    )


test_features.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it as a test


@dataclass(frozen=True, slots=True)
class Standardise(AbstractPass):
    """Pass that returns the scaling of features, their standardised values, and missing mask."""

    standardize: Scale
    by_ranks: bool = False  # whether the order of the values must be kept (`Tile.in_order`)

    def over(self, blocks: Iterator[Tile], m: int) -> tuple[Scaling, Float, Array]:
        scalings, values, masks = [], [], []
        for block in blocks:
            scaling, Z = block.measured(standardize=self.standardize)
            mask = missing_mask(block.raw, block.missing_code)
            scalings.append(scaling)
            values.append(block.in_order(Z, mask, scaling) if self.by_ranks else Z)
            masks.append(np.zeros(Z.shape, dtype=bool) if mask is None else mask)
        return Scaling.join(scalings), np.concatenate(values), np.concatenate(masks)


def standardised(
    source: AbstractSource,
    which: Index,
    rows: Index | None,
    missing: str,
    standardize: Standardize,
    kernel: AbstractKernel,
    *,
    by_ranks: bool = False,
) -> tuple[Float, Array, Array]:
    """Read features (m, n), scaled over the samples.

    Also return the masks of constant features (n,) and of missing values (m, n). With `by_ranks`,
    distinct values stay distinct after scaling, so ranks do not change.
    """
    if missing not in ("mean", "error"):
        raise InputError(f"missing={missing!r} is unknown; pass 'mean' or 'error'.")
    SCALING("standardize", standardize)
    order = np.argsort(which, kind="stable")
    features = which[order]
    with Threads() as runtime:
        reader, values = looked_at(source, runtime, rows, features)
        scaled = scales(standardize, values)
        a_pass = Standardise(scaled, by_ranks)
        Z, at, scalings = np.empty((reader.n_samples, len(which)), order="F"), 0, []
        absent = np.zeros(Z.shape, dtype=bool)
        for scaling, block, mask in reader.map_blocks(a_pass, reader.jobs(features)):
            Z[:, order[at : at + len(block)]] = block.T
            absent[:, order[at : at + len(block)]] = mask.T
            scalings.append(scaling)
            at += len(block)
    scaling_all = Scaling.join(scalings)
    subset = SubsetSource(source, features)
    scaling_all.check(
        missing,
        subset,
        standardize=scaled,
        has_bandwidth=kernel.has_bandwidth,
        n_samples=reader.n_samples,
    )
    constant = np.empty(len(which), dtype=bool)
    constant[order] = scaling_all.constant
    return Z, constant, absent


def features_at(given: Any, source: AbstractSource) -> Index:
    """Return the indices of the requested features, in the order requested; by default of all."""
    if given is None:
        return np.arange(source.n_features)
    ids = as_array(given, "features")
    if ids.dtype.kind not in "OSUT":
        return positions_of(ids, source.n_features, "features", "features")
    names = source.feature_names()
    if names is None:
        raise InputError(
            f"features= contains names ({str(ids.flat[0])!r}, ...), but X has no feature names; "
            "pass positions."
        )
    place = {str(name): j for j, name in enumerate(names)}
    unknown = [str(name) for name in ids.ravel() if str(name) not in place]
    if unknown:
        raise InputError(
            f"{len(unknown)} of the features are not in X (first: {unknown[0]!r})."
            f"{did_you_mean(unknown[0], place)} Pass names of features of X, or positions."
        )
    if len(place) < len(names):
        texts, counts = np.unique(names.astype(str), return_counts=True)
        twice = sorted({str(name) for name in ids.ravel()}.intersection(texts[counts > 1]))
        if twice:
            raise InputError(
                f"{len(twice)} of the feature names occur more than once in X "
                f"({abbreviate(twice, 3)}); pass positions instead."
            )
    positions = np.array([place[str(name)] for name in ids.ravel()])
    return positions_of(positions, len(names), "features", "features")


def positions_of(asked: Array, n: int, what: str, things: str = "features") -> Index:
    """Convert indices or a mask to indices; raise an error for duplicates."""
    if asked.dtype.kind == "b" and asked.shape == (n,):
        asked = np.flatnonzero(asked)
    if asked.ndim != 1 or asked.size == 0 or asked.dtype.kind not in "iu":
        raise InputError(
            f"{what} have shape {asked.shape} and dtype {asked.dtype}; pass positions from 0 to "
            f"{n - 1}, at least one, or a boolean mask of length {n}."
        )
    if asked.min() < 0 or asked.max() >= n:
        raise InputError(
            f"{what} range from {asked.min()} to {asked.max()}, but X has {n} {things}; pass "
            f"positions from 0 to {n - 1}."
        )
    if len(np.unique(asked)) < len(asked):
        raise InputError(
            f"{len(asked) - len(np.unique(asked))} of the {len(asked)} {what} are "
            "repeated; pass each once."
        )
    return asked.astype(np.int64)
