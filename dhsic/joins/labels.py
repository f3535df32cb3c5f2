"""Labels and covariates as users pass them, matched to the samples of the data.

Users pass arrays, frames with sample names, or names of variables (`dhsic.joins.variables`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array, Index
from dhsic.errors import InputError, warn
from dhsic.joins.blocks import BlockNames
from dhsic.joins.censoring import (
    Censoring,
    columns_of_labels,
    features_of_events,
    warn_of_events,
    with_censoring,
)
from dhsic.joins.covariates import covariates_of, design_of, warn_of_codes
from dhsic.joins.environment import Environment, named_columns
from dhsic.joins.filtered import Filtered
from dhsic.joins.filters import AbstractCounting, Filters
from dhsic.joins.frame_rows import (
    id_columns,
    join,
    names_are_given,
    names_of,
    names_to_match,
    values_of,
)
from dhsic.joins.group_order import check_group_order
from dhsic.joins.level_names import check_level_names
from dhsic.joins.mixed_values import check_mixed, check_names
from dhsic.joins.plink_ids import check_plink_ids, plink_ids
from dhsic.joins.reordering import opening_code
from dhsic.joins.sample_checks import warn_of_doubtful_samples
from dhsic.joins.sample_weights import (
    SAMPLE_WEIGHT,
    checked_weights,
    read_weights,
    unequal,
    without_zeros,
)
from dhsic.joins.shared_columns import check_shared_frames
from dhsic.joins.slips import warn_of_slips
from dhsic.joins.targets import (
    check_columns,
    names_said,
    refuse_held,
    refuse_records,
    split_frame,
    stacked,
)
from dhsic.joins.variables import has_variables, read_target, stored_levels
from dhsic.kernels.censored import described
from dhsic.kernels.labels import MOST_CLASSES
from dhsic.kernels.ordinal import as_levels, levels_of
from dhsic.kernels.risk_sets import CENSORED, is_censored
from dhsic.linalg.blocks import Blocks
from dhsic.sources import AbstractSource
from dhsic.sources.file_lists import expanded, is_several
from dhsic.sources.ids import NAMELESS, abbreviate, is_id, plain
from dhsic.sources.opening import (
    is_table,
    open_source,
)
from dhsic.sources.options import MissingChunks
from dhsic.sources.other_frames import in_pandas


@dataclass(frozen=True)
class Labelled:
    """Opened data, with one row of labels and covariates for each sample in use."""

    source: AbstractSource
    #: (m,) or (m, t); censored times are records (m,); None if the data are their own labels.
    y: Array | None
    covariates: Array | None  # (m, q)
    rows: Index | None = None  # (m,), positions of the samples in the data; None: all
    #: Number of excluded samples, by the reasons in `dhsic.results.schema.LEFT_OUT`.
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # sentences on the origin of the labels, and how rows were matched
    filtered: Filtered = field(default_factory=Filtered)  # samples and features filtered out
    environment: Environment | None = None  # columns with which features are paired
    blocks: Blocks | None = None  # blocks that restrict the permutations of labels
    #: (m,), positive weights of the samples; None if all are equal.
    sample_weight: Array | None = None

    @classmethod
    def of(
        cls,
        data: Any,
        target: Any,
        covariates: Any = None,
        *,
        counting: AbstractCounting | None = None,
        **options: Any,
    ) -> Labelled:
        """Open data with `open_source`, and match labels and covariates to the samples.

        For `options`, see `Inputs.of`.
        """
        inputs = Inputs.of(data, target, covariates, **options)
        source = open_source(inputs.data, n_samples=inputs.n_samples, **inputs.opening)
        return inputs.join(source, counting)


@dataclass(frozen=True)
class Inputs:
    """Data, labels and covariates as passed by the user.

    There are three steps. `Inputs.of` separates features from labels. The caller opens `data` with
    the options `opening` and `n_samples`. `join` matches labels and covariates to the samples.
    """

    passed: Any  # the data as passed, including label columns
    data: Any  # the features without label columns, for `open_source`
    target: Any
    covariates: Any
    what: str  # name of the labels in messages
    by_position: bool
    filters: Filters | Filtered | None
    opening: Mapping[str, Any]  # options of `open_source`
    censoring: Censoring | None = None  # columns of a target that has censored times
    environment: Any = None  # columns, or names of variables, with which features are paired
    blocks: BlockNames = field(default_factory=BlockNames)
    sample_weight: Any = None  # weights of samples, or the name of the variable that holds them

    @classmethod
    def of(
        cls,
        data: Any,
        target: Any,
        covariates: Any = None,
        *,
        what: str = "y",
        by_position: bool = False,
        filters: Filters | Filtered | None = None,
        not_features: Collection[str] = (),
        event: Any = None,
        entry: Any = None,
        environment: Any = None,
        permute_whole: Any = None,
        permute_within: Any = None,
        sample_weight: Any = None,
        **opening: Any,
    ) -> Inputs:
        """Separate features from labels, covariates and other columns.

        Parameters
        ----------
        target : str, list of str, array or None
            Labels, or the names of the variables of `data` that contain them. Columns of a frame or
            a table that are named here are not features. Messages call the labels `what`.
        by_position : bool
            Whether rows are in the order of the samples, regardless of their names.
        filters : Filters or Filtered, optional
            Samples and features to use. Labels have one row for each sample before filters, or
            have sample names.
        not_features : collection of str
            Other columns of a frame or a table that are not features.
        event, entry : str, array or None
            Events of censored times, and times of entry, as values or as names of columns, see
            `dhsic.joins.censoring.with_censoring`.
        environment : str, list of str, array or frame, optional
            Columns with which features are paired, passed like covariates.
        permute_whole, permute_within : str, array or None
            Blocks of samples between which, or within which, labels are exchanged, see
            `dhsic.linalg.blocks`.
        sample_weight : str, array or None
            Weights of the samples, or the variable of `data` that contains them.
        **opening
            Options of `dhsic.open_source`.
        """
        data, target, covariates = map(in_pandas, (expanded(data), target, covariates))
        passed, weights = data, in_pandas(sample_weight)
        if isinstance(weights, str) and (isinstance(data, pd.DataFrame) or is_table(data)):
            not_features = (*not_features, weights)
        target, censoring = with_censoring(target, in_pandas(event), in_pandas(entry), what)
        environment = in_pandas(environment)
        blocks = BlockNames.of(data, in_pandas(permute_whole), in_pandas(permute_within))
        not_features = blocks.not_features(not_features)
        if isinstance(data, pd.DataFrame):
            if names := names_said(environment):
                check_columns(data, names)
                environment, not_features = data[list(names)], (*not_features, *names)
            data, target, covariates = split_frame(data, target, covariates, not_features)
            weights = passed[weights] if isinstance(weights, str) else weights
        else:
            apart = (*not_features, *(_names_in(environment, data) if is_table(data) else ()))
            opening |= _columns_apart(data, target, covariates, apart)
        columns = data, target, covariates, what, by_position, filters, opening
        return cls(passed, *columns, censoring, environment, blocks, weights)

    @property
    def n_samples(self) -> int | None:
        """Number of samples according to the labels, used to find the sample axis of the data.

        It is None without labels, if they are matched by name, or if they are columns of a table.
        """
        several = is_several(self.data)
        if self._holds_labels and (not several or names_said(self.target)):
            return None
        labels = self.target if several else self._values[0]
        may_be_some = self.filters is not None and names_of(self.target) is not None
        is_matched = not self.by_position and (may_be_some or bool(id_columns(self.target)))
        return None if labels is None or is_matched else len(labels)

    @cached_property
    def _holds_labels(self) -> bool:
        """Whether the labels are columns of the table or files that contain the features."""
        return is_several(self.data) or ("not_features" in self.opening and is_table(self.data))

    @property
    def _target_in_code(self) -> str:
        """Python expression for the labels: `what`, or columns of the frame X passed as data."""
        if not isinstance(self.passed, pd.DataFrame) or self.passed is self.data:
            return self.what
        if isinstance(self.target, pd.DataFrame):
            return "X" if {*self.target.columns} <= {*self.passed.columns} else self.what
        name = getattr(self.target, "name", None)
        return f"X[{name!r}]" if name is not None and name in self.passed.columns else self.what

    @cached_property
    def _values(self) -> tuple[Array | None, Any]:
        """Labels as an array, and covariates, before they are matched to samples."""
        return self._read(self.data)

    def _read(self, data: Any) -> tuple[Array | None, Any]:
        """Return labels as an array, and covariates; if they are names, read them from `data`."""
        if self.censoring is None:
            check_mixed(self._target_in_code, self.target)
        check_mixed("covariates", self.covariates)
        fill = self.opening.get("missing_chunks", "error")
        covariates = _as_covariates(self.covariates, data, fill)
        if self.target is None:
            return None, covariates
        if self.censoring is not None:
            return censored_labels(self.target, data, self.censoring, fill), covariates
        return as_labels(self.target, data, fill), covariates

    def _warn_of_events(self, source: AbstractSource, labels: Array | None) -> None:
        """Warn if the labels look like times, and another column of the data like their events."""
        if labels is None or self.censoring is not None or labels.dtype.names:
            return
        target = self.target
        called = [getattr(target, "name", None)] if hasattr(target, "name") else []
        names = [*names_said(target), *getattr(target, "columns", called)]
        if len(names) != (1 if labels.ndim == 1 else labels.shape[1]):
            return
        columns = dict(zip(map(str, names), labels.reshape(len(labels), -1).T, strict=True))
        held = self.passed if isinstance(self.passed, pd.DataFrame) else source.sample_coords()
        others: dict[str, Callable[[], Array]]
        others = {str(name): partial(np.asarray, held[name]) for name in held}
        others |= features_of_events(source)
        warn_of_events(columns, others | {n: partial(np.asarray, of) for n, of in columns.items()})

    def join(
        self,
        source: AbstractSource,
        counting: AbstractCounting | None = None,
        *,
        compares_samples: bool = True,
    ) -> Labelled:
        """Match labels and covariates to the samples of a source, by name if both sides have names.

        `counting` computes the allele counts that filters need. With `compares_samples`, some
        features are read, to warn of samples that occur twice.
        """
        target, what = self.target, self.what
        data = source if self._holds_labels else self.data
        labels, covariates = self._read(source) if self._holds_labels else self._values
        source = hinted(source)
        self._warn_of_events(source, labels)
        check_level_names(source, self.passed, self.opening.get("categories"))
        self._check_order_by_columns(source, what)
        refuse_held(self.data, source, target, what)
        self._check_groups(source)
        names = source.sample_names()
        if not self.by_position and names is None and names_of(data) is None:
            _check_each_other(target, covariates, what)
        names = names_of(data) if hasattr(data, "iloc") else names
        fill = self.opening.get("missing_chunks", "error")
        weights: Array | None = None

        def without_weight(before: Filtered) -> Filtered:
            """Exclude samples of weight 0, and read the weights of the others."""
            nonlocal weights
            if self.sample_weight is None:
                return before
            rows, given = _Rows(self, data, names, before, source), self.sample_weight
            values = read_weights(given, source if self._holds_labels else data, fill)
            aligned = rows.aligned(given, SAMPLE_WEIGHT, values)
            assert aligned is not None, "there are weights"
            m = source.n_samples if before.samples is None else before.samples.size
            aligned = checked_weights(aligned, m, SAMPLE_WEIGHT)
            weights = aligned[aligned > 0]
            return without_zeros(before, aligned, source.n_samples)

        filtered = _filtered(self.filters, data, source, counting, fill, without_weight)
        source = filtered.features_of(source)
        rows = _Rows(self, data, names, filtered, source)
        weights = None if weights is None else unequal(weights, rows.notes)
        y, C = rows.aligned(target, what, labels), rows.aligned(covariates, "covariates")
        environment = self._environment(data, rows)
        n_used = source.n_samples if filtered.samples is None else filtered.samples.size
        blocks = self.blocks.joined(
            source if self._holds_labels else data, fill, rows.aligned, n_used
        )
        ours = None if names is None else filtered.samples_of(names)
        if y is not None and is_censored(y):
            rows.notes.append(described(y))
        for label_column in columns_of_labels(y):
            warn_of_slips(what, label_column, ours)
        for column in () if C is None else np.atleast_2d(np.asarray(C).T):
            warn_of_slips("covariates", column, ours)
        warn_of_doubtful_samples(
            self.passed,
            source,
            y,
            filtered.samples,
            [] if y is None or is_censored(y) else [(what, y)],
            (*names_said(self.target), *_names_in(self.covariates, self.passed)),
            self._without_classes,
            names=names,
            compares_values=compares_samples,
            has_blocks=blocks is not None,
        )
        notes = (*rows.notes, *([] if blocks is None else [blocks.described]))
        labelled = Labelled(source, y, C, filtered.samples, notes=notes, filtered=filtered)
        return replace(labelled, environment=environment, blocks=blocks, sample_weight=weights)

    def _environment(self, data: Any, rows: _Rows) -> Environment | None:
        """Read the environment from `data`, or as passed, and match it to the samples."""
        if self.environment is None:
            return None
        names = _names_in(self.environment, data)
        fill = self.opening.get("missing_chunks", "error")
        columns = [(name, read_target(data, name, fill)) for name in names]
        environment = Environment.of(columns or named_columns(self.environment))
        passed = environment.columns if names else self.environment
        aligned = rows.aligned(passed, "environment", environment.columns)
        return None if aligned is None else environment.take(aligned)

    def _without_classes(self, what: str, classes: list[str]) -> str:
        """Return Python code that excludes the samples of some classes of the labels."""
        name = getattr(self.target, "name", None)  # of a column that was taken from X
        if isinstance(self.passed, pd.DataFrame) and name is not None and name in self.passed:
            return f"X = X[~X[{name!r}].isin({classes!r})]"
        keep = f"keep = ~numpy.isin({what}, {classes!r})"
        return f"{keep}; X, {what} = X[keep], {what}[keep]"

    def _check_groups(self, source: AbstractSource) -> None:
        """Refuse variables of a store whose group has the samples in another order."""
        if self._holds_labels or not has_variables(self.data):
            return
        given = self.target, self.covariates, self.sample_weight
        for name in (name for each in given for name in names_said(each)):
            check_group_order(self.data, name, source)

    def _check_order_by_columns(self, source: AbstractSource, what: str) -> None:
        """Refuse frames of labels or covariates that are in another order than the data.

        The order is judged by columns that the frame shares with the data. Frames with sample
        names are not checked here if the data have sample names, too.
        """
        own = names_of(self.data) if hasattr(self.data, "iloc") else source.sample_names()
        has_names = names_are_given(own)
        both = (what, self.target), ("covariates", self.covariates)
        for called, given in (*both, (SAMPLE_WEIGHT, self.sample_weight)):
            is_by_name = id_columns(given) or (has_names and names_are_given(names_of(given)))
            if not (self.by_position or is_by_name):
                check_shared_frames(called, given, source, self.passed)


@dataclass
class _Rows:
    """Samples of opened data, to which rows of labels and covariates are matched."""

    inputs: Inputs
    data: Any  # the data without label columns, before they were opened
    names: Array | None  # (m,), names of all samples; None if the data have none
    filtered: Filtered
    source: AbstractSource
    notes: list[str] = field(default_factory=list)  # sentences on how rows were matched

    def aligned(self, labels: Any, what: str, values: Array | None = None) -> Array | None:
        """Return the rows of labels or covariates for the samples used, in their order.

        `what` is the name of `labels` in messages, and `values` are their values, if known.
        The result is None if `labels` is None.
        """
        if labels is None:
            return None
        names, filtered, by_position = self.names, self.filtered, self.inputs.by_position
        n_samples, count_rows = self.source.n_samples, False
        if self.source.row_numbers and id_columns(labels):
            columns = {str(name): np.asarray(labels[name]) for name in labels.columns}
            names, count_rows = names_to_match(self.source, columns)
        code = "X.index" if hasattr(self.data, "iloc") else None
        if code is None and hasattr(labels, "iloc"):
            code = f"{opening_code(self.inputs.passed, self.inputs.opening)}.sample_names()"
        values = covariates_of(labels) if values is None else values
        is_of_all = len(values) == n_samples and not id_columns(labels)
        ours = names if names is None or is_of_all else filtered.samples_of(names)
        order = join(
            ours, labels, what, by_position=by_position, names_code=code, count_rows=count_rows
        )
        if order is None:
            if is_of_all or by_position or ours is None or names_of(labels) is None:
                return _remaining_rows(values, what, filtered, n_samples)
            return values  # their names are those of the remaining samples, in the same order
        if ids := plink_ids(self.source):
            columns = {str(name): np.asarray(labels[name]) for name in id_columns(labels)}
            ids = {name: filtered.samples_of(each) for name, each in ids.items()}
            check_plink_ids(what, columns, order, ids)
        self.notes.append(f"{what}: {order.note}")
        return order.take(values)


def _filtered(
    filters: Filters | Filtered | None,
    data: Any,
    source: AbstractSource,
    counting: AbstractCounting | None,
    missing_chunks: MissingChunks,
    of_weights: Callable[[Filtered], Filtered],
) -> Filtered:
    """Apply filters to a source that was opened from `data`.

    `of_weights` excludes samples of weight 0; filters by feature values use the samples that
    remain.
    """
    if isinstance(filters, Filtered):
        return of_weights(filters)
    if filters is None:
        return of_weights(Filtered.of(source))
    assert counting is not None, "there are filters"
    filtered = filters.by_samples(filters.by_name(data, source, missing_chunks), source, counting)
    filtered = of_weights(filtered)
    return filters.by_values(filtered, source, filtered.samples, counting)


def _columns_apart(
    data: Any, target: Any, covariates: Any, not_features: Collection[str]
) -> dict[str, Any]:
    """Return the option `not_features` of `open_source`: columns that are not features.

    If the data are a table, these include the columns of labels and covariates. The result is {} if
    there are none.
    """
    is_array = isinstance(data, np.ndarray | list | tuple) and not is_several(data)
    if not_features and is_array:
        raise InputError(
            f"not_features={[*not_features]!r} lists feature names, but the features of an array "
            "have no names. Delete columns by their positions instead: X = numpy.delete(X, [3], "
            "axis=1)."
        )
    label_columns = (*names_said(target), *_names_in(covariates, data)) if is_table(data) else ()
    columns = tuple(dict.fromkeys((*label_columns, *not_features)))
    return {"not_features": columns} if columns else {}


def hinted(source: AbstractSource) -> AbstractSource:
    """Issue the `hint` of a source as a warning, if it has one; return the source unchanged."""
    if source.hint:
        warn(source.hint)
    return source


def _remaining_rows(values: Array, what: str, filtered: Filtered, m: int) -> Array:
    """Select the rows of the samples that remain after filters from rows (m,) of all samples."""
    if filtered.samples is not None and len(values) != m:
        raise InputError(
            f"{what} has {len(values)} rows, but the data have {m} samples, and "
            f"{filtered.samples.size} of them remain after the filters. Pass one row for each "
            "sample of the data, or rows that have sample names."
        )
    return filtered.samples_of(values)


def _check_each_other(target: Any, covariates: Any, what: str) -> None:
    """Refuse labels and covariates in different orders, if the data have no sample names."""
    first, second = names_of(target), names_of(covariates)
    if first is None or second is None or set(map(str, first)) != set(map(str, second)):
        return
    if not (first.astype(str) == second.astype(str)).all():
        raise InputError(
            f"The samples of the covariates are in a different order from those of {what}, and X "
            "has no sample names. Put both in the order of X, or pass by_position=True if the "
            "rows already match by position."
        )


def as_labels(y: Any, data: Any, missing_chunks: MissingChunks = "error") -> Array:
    """Return labels as an array: the values passed, or the variables of `data` that they name.

    Id columns of frames are dropped. Categories become text, even if they are numbers; ordered
    categories become levels of an ordinal label.
    """
    if getattr(y, "dtype", None) == CENSORED:
        return np.asarray(y)
    names = names_said(y) if isinstance(y, str) or has_variables(data) else ()
    if names:
        columns = [(name, read_target(data, name, missing_chunks)) for name in names]
        for name, values in columns:
            refuse_ids(name, values)
            _check_names_of(name, values)
        labels = stacked([(name, as_levels(v, stored_levels(data, name))) for name, v in columns])
    else:
        labels = values_of(of_categories(y), "y")
        refuse_records(labels, "y")
        refuse_ids(getattr(y, "name", None), labels)
    if labels.ndim == 2 and labels.shape[0] == 1 < labels.shape[1]:
        raise InputError(
            f"y has shape {labels.shape}: one row of {labels.shape[1]} values. Pass one row per "
            "sample: y.ravel(), or y.T."
        )
    labels = labels.astype(object) if labels.dtype.kind == "T" else labels
    if labels.dtype.kind == "O" and all(isinstance(value, str) for value in labels.flat):
        labels = labels.astype(str)  # text is a class name, even "0" or "1"
    labels = _in_one_type(labels)
    return np.strings.strip(labels) if labels.dtype.kind == "U" else labels


def _in_one_type(labels: Array) -> Array:
    """Convert numbers of type object to float64 if equal ones differ as text, such as 1 and 1.0."""
    is_number = (isinstance(v, Real) and not isinstance(v, bool) for v in labels.flat)
    if labels.dtype.kind != "O" or not all(is_number):
        return labels
    are_equal = len({*labels.flat}) < len({*map(str, labels.flat)})
    return labels.astype(np.float64) if are_equal else labels


def censored_labels(
    target: Any, data: Any, censoring: Censoring, missing_chunks: MissingChunks = "error"
) -> Array:
    """Return censored times (m,): from columns of a frame, or variables of the data by name."""
    if isinstance(target, pd.DataFrame):
        columns = {name: target[name].to_numpy() for name in censoring.names}
    else:
        columns = {name: read_target(data, name, missing_chunks) for name in censoring.names}
    return censoring.labels(columns)


def of_categories(y: Any) -> Any:
    """Convert pandas categories to text, or to levels if they are ordered; "" if missing.

    Other labels are returned unchanged.
    """
    if isinstance(y, pd.Categorical):
        return of_categories(pd.Series(y)).to_numpy()
    if not isinstance(y, pd.Series | pd.DataFrame):
        return y
    frame = y.to_frame() if y.ndim == 1 else y
    dtypes = frame.dtypes
    categorical = [i for i, dtype in enumerate(dtypes) if isinstance(dtype, pd.CategoricalDtype)]
    if not categorical:
        return y
    columns = [frame.iloc[:, i].astype(object) for i in range(frame.shape[1])]
    for i in categorical:
        categories = frame.iloc[:, i].cat
        levels = levels_of(categories.codes.to_numpy(), [*map(str, categories.categories)])
        texts = levels if categories.ordered else np.array([*map(str, levels)], dtype=object)
        columns[i] = pd.Series(texts, columns[i].index, dtype=object, name=columns[i].name)
    return columns[0] if y.ndim == 1 else pd.concat(columns, axis=1)


def _names_in(covariates: Any, data: Any) -> tuple[str, ...]:
    """Return the names of the variables of `data` that `covariates` refers to, if any."""
    if not has_variables(data):
        return ()
    names = [covariates] if isinstance(covariates, str) else covariates
    is_named = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_named else ()


def _as_covariates(covariates: Any, data: Any, missing_chunks: MissingChunks) -> Any:
    """Replace names of variables of `data` by their values (m, q); keep other covariates."""
    names = _names_in(covariates, data)
    columns = [(name, read_target(data, name, missing_chunks)) for name in names]
    for name, values in columns:
        _check_names_of(name, values)
    as_groups = "pass pandas.Series(dhsic.read_target(X, {name!r}), dtype='category')"
    warn_of_codes(columns, as_groups.format)
    return np.column_stack([design_of(*column) for column in columns]) if columns else covariates


def _check_names_of(name: str, values: Array) -> None:
    """Refuse words for missing values, and dates, in a text variable `name` with values (m,)."""
    if values.ndim == 1 and values.dtype.kind in "OUT":
        check_names(f"dhsic.read_target(X, {name!r})", values, are_apart=True)


def refuse_ids(name: Any, labels: Array) -> None:
    """Refuse labels that are ids: they have a name typical of ids, and nearly all values differ."""
    is_named = isinstance(name, str) and is_id(name) and plain(name) not in NAMELESS
    if not is_named or labels.ndim != 1:
        return
    n = len(set(labels.tolist()))
    is_measured = n > MOST_CLASSES and labels.dtype.kind in "iuf"  # too many values to be classes
    if 2 * n > len(labels) > 2 or is_measured:
        raise InputError(
            f"The labels are {name!r}, which looks like a column of sample ids: {n:,} of "
            f"{len(labels):,} values differ ({abbreviate(labels.tolist(), 3)}). Pass a measured "
            "trait instead. If these values are the trait, rename them so that the name does not "
            "look like ids."
        )
