"""Labels and covariates of `dhsic select`, read from the store or from tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from dhsic._typing import Array, Index, Mask
from dhsic.cli.console import waiting
from dhsic.cli.job import SelectJob
from dhsic.cli.label_checks import (
    Columns,
    about_single_values,
    check_categories,
    check_na,
    number_note,
    refuse_coded,
    refuse_marked,
    refuse_names,
    refuse_text,
    warn_of_label_slips,
)
from dhsic.cli.label_levels import in_order
from dhsic.cli.label_values import READ_AS_MISSING, check_values
from dhsic.cli.options import split_columns
from dhsic.cli.shared_columns import check_shared_columns
from dhsic.errors import InputError, warn
from dhsic.joins.blocks import names_of_blocks
from dhsic.joins.censoring import Censoring, features_of_events, warn_of_events
from dhsic.joins.covariates import design
from dhsic.joins.environment import Environment
from dhsic.joins.frame_rows import names_to_match
from dhsic.joins.group_order import check_group_order
from dhsic.joins.labels import Labelled, hinted, refuse_ids
from dhsic.joins.level_names import check_level_names
from dhsic.joins.mass_spectra import about_descriptions
from dhsic.joins.plink_ids import check_plink_ids, plink_ids
from dhsic.joins.sample_checks import warn_of_doubtful_samples
from dhsic.joins.sample_weights import checked_weights, unequal
from dhsic.joins.table import RowOrder, Table
from dhsic.joins.targets import stacked
from dhsic.joins.text import (
    check_numbers,
    is_missing,
    levels_in_table,
    read_table,
    stands_for_none,
    stripped,
    typed,
    whole_numbers,
    written_twice,
)
from dhsic.joins.variables import labels_at, stored_levels
from dhsic.kernels.labels import (
    CLASS_KERNELS,
)
from dhsic.linalg.blocks import Blocks
from dhsic.passes.call_counts import counting_on
from dhsic.sources import AbstractSource
from dhsic.sources.dates import LETTER
from dhsic.sources.ids import abbreviate, did_you_mean, is_id, na_of
from dhsic.sources.opening import is_table, open_source
from dhsic.sources.quantities import refuse_quantities
from dhsic.sources.rewriting import WrittenColumn
from dhsic.sources.sentinels import written
from dhsic.validation import refuse_wide

#: Advice for tables that do not match the samples.
REMEDIES = (
    "name the column that contains them with --sample-column",
    "Exclude those samples with --drop-missing, add rows for them",
)
#: Columns of labels, covariates, blocks and weights, notes on their origin, and counts of rows.
Read = tuple[Columns, Columns, Columns, Columns, list[str], Mapping[str, int]]


def open_with_labels(
    job: SelectJob, before: Labelled | None = None, *, categories: tuple[str, ...] | None = None
) -> Labelled:
    """Open the data of a job, with labels and covariates.

    With --drop-missing, samples without a label or covariate are excluded. `before` may be the same
    data, opened before with other labels. `categories` is an option of `dhsic.open_source`.
    """
    table = None if job.labels is None else read_table(job.labels, remedies=REMEDIES)
    job = _with_stored_order(job)
    if before is not None:
        return _add_labels(job, before, *_columns(job, before, table))
    try:
        with waiting(job.path if isinstance(job.path, str) else ""):
            source = open_source(job.path, **job.opening, categories=categories)
    except InputError:  # the number of labels may show which axis has the samples
        n_labels = None if is_table(job.path) else _n_labels(job, table)
        if n_labels is None or not isinstance(job.path, str):  # samples of several files may differ
            raise
        source = open_source(job.path, n_samples=n_labels, **job.opening, categories=categories)
    check_level_names(source, job.path, categories)
    if table is not None and is_table(job.path):
        _refuse_leaks(job, source)
    counting = counting_on(job.runtime)
    filtered = job.filters.by_name(job.path, hinted(source), job.missing_chunks)
    filtered = job.filters.by_samples(filtered, source, counting)
    data = Labelled(filtered.features_of(source), None, None, filtered=filtered)
    labelled = _add_labels(job, data, *_columns(job, data, table))
    rows = filtered.samples if job.per_target else labelled.rows  # each target has its own samples
    filtered = job.filters.by_values(filtered, source, rows, counting)
    return replace(labelled, source=filtered.features_of(source), filtered=filtered)


def _with_stored_order(job: SelectJob) -> SelectJob:
    """Return the job with --order set for targets stored as ordered categories."""
    order = list(job.order)
    for name in job.target:
        if name in job.levels:
            continue
        if job.labels is not None:
            names = levels_in_table(job.labels, name)
        else:
            names = stored_levels(job.path, name)
        if names and not any("," in level for level in names):
            order.append(f"{name}={','.join(names)}")
    return replace(job, order=tuple(order))


def _refuse_leaks(job: SelectJob, source: AbstractSource) -> None:
    """Reject data in which a feature has the same name as the labels."""
    names = source.feature_names()
    leaking_names = set(job.label_columns).intersection(() if names is None else names)
    if leaking_names:
        name = min(leaking_names)
        raise InputError(
            f"{name!r} is also a column of {job.data_name}, and would be used as a feature that "
            f"equals the labels. Exclude it with --not-feature {shlex.quote(name)}."
        )


def _n_labels(job: SelectJob, table: Table | None) -> int | None:
    if table is not None:
        return table.n_rows
    if not job.target:
        return None
    try:
        return len(_stored(job, job.target[0]))
    except (OSError, InputError):
        return None


def _stored(job: SelectJob, name: str, source: AbstractSource | None = None) -> Array:
    """Read the variable `name` of the store, or the column `name` of the data if it is a table."""
    if source is not None and name in source.sample_coords():
        return source.sample_coords()[name]
    data = job.path if source is None or isinstance(job.path, str) else source
    return labels_at(data, name, job.missing_chunks, "a table of labels with --labels FILE")


def _columns(job: SelectJob, data: Labelled, table: Table | None) -> Read:
    """Read the columns of labels, covariates, blocks and weights.

    Columns (m,) have one row for each sample of `data` that passes the filters. Except for blocks,
    they are converted to numbers or text. The result also contains notes and counts of rows.
    """
    named = job.weight_column
    names = (*job.label_columns, *job.covariate, *job.block_columns, *named)
    places: dict[str, Callable[[int], str]] = {}
    notes, source, orders = list[str](), data.source, list[RowOrder]()
    specs = [split_columns(spec) for spec in job.covariates]
    beside = [(read_table(path, "COVAR", REMEDIES), chosen) for path, chosen in specs]
    _check_said(job, [*([] if table is None else [table]), *(one for one, _ in beside)])

    def stored(name: str) -> Array:
        values = _checked(_stored(job, name, source), name, source.n_samples)
        check_group_order(job.path, name, source)
        return data.filtered.samples_of(values)

    sample_places = _places(data)
    if table is None:
        values_by_name = {name: stored(name) for name in names}
    else:
        order = _order(job, data, table, names)
        places = {n: _lines(table, order) for n in names if n.removeprefix("#") in table.columns}
        values_by_name = {name: order.take(table.column(name)) for name in job.label_columns}
        # a column of the table, or a variable of the store
        for name in (*job.covariate, *job.block_columns, *named):
            is_here = name.removeprefix("#") in table.columns
            values_by_name[name] = order.take(table.column(name)) if is_here else stored(name)
        notes = _table_notes(table, order)
        orders.append(order)
    if job.target:
        where = "the store" if table is None else Path(table.what).name
        notes.insert(0, f"{', '.join(job.label_columns)} from {where}")
    blocks = [(name, values_by_name[name]) for name in job.block_columns]
    converted = (*job.label_columns, *job.covariate, *named)
    values_by_name = {name: values_by_name[name] for name in converted}
    written = _stored_columns(job, table, values_by_name)
    columns = {
        name: [_typed(job, name, one) for one in _each_column(values)]
        for name, values in values_by_name.items()
    }
    covariates = [(name, one) for name in job.covariate for one in columns[name]]
    owners = dict.fromkeys(job.covariate, "--covariate")
    for one, chosen in beside:
        order = _order(job, data, one, chosen)
        notes.append(f"{Path(one.what).name}: {'; '.join(_table_notes(one, order))}")
        orders.append(order)
        for name in chosen or _but_names(one, order):
            _refuse_second(name, one.what, owners)
            written.append((name, order.take(one.column(name)), one.what))
            covariates.append((name, _typed(job, name, written[-1][1])))
            places[name] = _lines(one, order)
    weights, weight_orders, weight_notes = _weights(job, data, columns)
    notes += weight_notes
    orders += weight_orders
    if covariates:
        notes.append(f"covariates {', '.join(dict(covariates))}")
    called = data.source.feature_names()
    categories = [] if called is None else [str(called[j]) for j in data.source.levels]
    check_categories(job, dict(covariates), categories)
    check_na(job, data, {*job.label_columns, *dict(covariates)})
    labels = [
        (name, in_order(name, one, job.levels))
        for name in job.label_columns
        for one in columns[name]
    ]
    _warn_of_events(job, labels, table, orders, data)
    _refuse_quantities(job, written)
    refuse_text(job, labels, covariates, lambda name: places.get(name, sample_places))
    notes += _checked_values(job, written)
    counts = {
        "n_rows_passed_over": sum(order.n_passed_over for order in orders),
        "n_rows_elsewhere": sum(order.n_elsewhere for order in orders),
    }
    return labels, covariates, blocks, weights, notes, counts


def _warn_of_events(
    job: SelectJob,
    labels: Columns,
    table: Table | None,
    orders: Sequence[RowOrder],
    data: Labelled,
) -> None:
    """Warn of labels that look like times to an event if --event was not passed.

    The first of the `orders` matches the rows of `table` to samples; see `warn_of_events`.
    """
    if job.event is not None:
        return
    others = features_of_events(data.source)
    others |= {name: partial(np.asarray, values) for name, values in labels}
    if table is not None:
        apart = (*job.label_columns, *job.covariate)
        unused = [name for name in table.columns if name not in apart]
        others |= {name: partial(_taken, table, orders[0], name) for name in unused}
    warn_of_events(dict(labels), others)


def _taken(table: Table, order: RowOrder, name: str) -> Array:
    """Return a column of a table in the order of the samples, (m,)."""
    return order.take(table.column(name))


def _weights(
    job: SelectJob, data: Labelled, columns: Mapping[str, list[Array]]
) -> tuple[Columns, list[RowOrder], list[str]]:
    """Read the weights of the samples, from `columns` or from the table of --weights.

    Return the weights, the row order of their table (if they are in one), and notes.
    """
    if job.weights is None or not job.has_weight_table:
        weights = [(name, one) for name in job.weight_column for one in columns[name]]
        return weights, [], [f"weights {name}" for name in job.weight_column]
    path, chosen = split_columns(job.weights)
    table = read_table(path, "WEIGHT", REMEDIES)
    order = _order(job, data, table, chosen)
    names = chosen or tuple(_but_names(table, order))
    if len(names) != 1:
        one = shlex.quote(f"{path}:{names[0]}")
        raise InputError(
            f"--weights {path} has {len(names)} columns ({abbreviate(map(repr, names))}). Name "
            f"one: --weights {one}."
        )
    column = _typed(job, names[0], order.take(table.column(names[0])))
    note = "; ".join([f"weights {names[0]}", *_table_notes(table, order)])
    return [(names[0], column)], [order], [f"{Path(path).name}: {note}"]


def _stored_columns(
    job: SelectJob, table: Table | None, values_by_name: Mapping[str, Array]
) -> list[tuple[str, Array, str]]:
    """Return name, stored values and path of each column of labels and covariates."""

    def path_of(name: str) -> str:
        is_here = table is not None and name.removeprefix("#") in table.columns
        return table.what if table is not None and is_here else job.data_name

    return [
        (name, column, path_of(name))
        for name, values in values_by_name.items()
        for column in _each_column(values)
    ]


def _refuse_quantities(job: SelectJob, written: list[tuple[str, Array, str]]) -> None:
    """Refuse covariates that are text with numbers, such as "5 mg", see `refuse_quantities`."""
    for name, values, path in written:
        if name not in (*job.category, *job.target) and values.dtype.kind in "OU":
            column = WrittenColumn(f"covariate {name!r}", name, path)
            text = np.array(["" if stands_for_none(t) else t for t in stripped(values)])
            refuse_quantities(column, text, "group", LETTER)


def _checked_values(job: SelectJob, written: list[tuple[str, Array, str]]) -> list[str]:
    """Check the values of each column, see `check_values`; return notes on them."""
    each = (
        check_values(job, name, values, _typed(job, name, values), path)
        for name, values, path in written
    )
    return [note for notes in each for note in notes]


def _lines(table: Table, order: RowOrder) -> Callable[[int], str]:
    """Return a function that maps the index of a sample to its line in a table, for messages."""
    return lambda i: table.place(int(order.rows[i]))


def _places(data: Labelled) -> Callable[[int], str]:
    """Return a function that maps the index of a sample to its name, for messages.

    The index refers to the samples that pass the filters.
    """
    names = data.source.sample_names()
    called = data.filtered.samples_of(np.arange(data.source.n_samples) if names is None else names)
    return lambda i: f"of sample {called[i]}"


def _refuse_second(name: str, path: str, owners: dict[str, str]) -> None:
    """Reject a covariate of the table at `path` if another table has one with the same `name`.

    `owners` maps names of covariates to their tables; the covariate is added to it.
    """
    bare = name.removeprefix("#")
    if bare in owners:
        where = owners[bare] if owners[bare].startswith("--") else f"a column of {owners[bare]}"
        raise InputError(
            f"Covariate {bare!r} is both a column of {path} and {where}. List the columns to use "
            f"from one of the tables: --covariates {shlex.quote(path)}:a,b."
        )
    owners[bare] = path


def _each_column(values: Array) -> list[Array]:
    """Split labels (m,), or coordinates (m, t), into a list of columns (m,)."""
    return [values] if values.ndim == 1 else list(values.T)


def _check_said(job: SelectJob, tables: list[Table]) -> None:
    """Reject --sample-column if there are several tables and none has this column."""
    key = job.sample_column
    if key is not None and len(tables) > 1 and not any(table.has_key(key) for table in tables):
        listed = "; ".join(
            f"{table.what} has {abbreviate(map(repr, table.columns))}" for table in tables
        )
        raise InputError(
            f"--sample-column {key}: no table has this column: {listed}. Pass a column that "
            "contains the sample names in at least one table."
        )


def _order(job: SelectJob, data: Labelled, table: Table, wanted: tuple[str, ...]) -> RowOrder:
    """Match the rows of a table to the samples that pass the filters.

    `wanted` are the columns that will be used.
    """
    m, key_column = data.source.n_samples, job.sample_column
    names, count_rows = names_to_match(data.source, table.columns, wanted, key_column)
    if not job.by_position and (names is None or count_rows):
        check_shared_columns(table, job.data_name, data.source, wanted)
    if job.by_position:
        order = table.in_order(m)
        n = 0 if names is None else table.n_elsewhere(names, wanted)
        order = replace(order, n_elsewhere=n)
        if n:
            warn(
                f"{n:,} of {m:,} rows of {table.what} have the names of samples at other positions "
                "in the data. They were matched by position because of --by-position. If the names "
                "are correct, the match and the ranking are wrong: leave out --by-position.",
            )
        elif is_table(job.path) and data.source.n_features == m:
            turned = "leave out --transpose" if job.transpose else "pass --transpose"
            warn(
                f"{job.data_name} has equal numbers of samples and features ({m:,}), so labels "
                "matched by position fit both its rows and its columns. Features are "
                f"{_first_features(data.source)}; if these are samples, {turned}."
            )
    else:
        n_tables = (job.labels is not None) + len(job.covariates) + job.has_weight_table
        is_here = n_tables < 2 or table.has_key(key_column or "")
        names = None if names is None else data.filtered.samples_of(names)
        try:
            order = table.by_name(
                names,
                m,
                wanted=tuple(name.removeprefix("#") for name in wanted),
                sample_column=key_column if is_here else None,
                drop_missing=job.drop_missing,
                count_rows=count_rows,
            )
        except InputError as error:
            _refuse_turned(job, data, table, error)
            raise
        if key_column is None:
            ids = plink_ids(data.source).items()
            ours = {name: data.filtered.samples_of(each) for name, each in ids}
            check_plink_ids(table.what, table.columns, order, ours, "pass --sample-column IID")
    is_by_name = bool(order.key)
    return order if is_by_name else replace(order, rows=data.filtered.samples_of(order.rows))


def _first_features(source: AbstractSource) -> str:
    """Return the names of the first features for a message."""
    names = source.feature_names()
    return "0, 1, ..." if names is None else abbreviate(map(str, names), 3)


def _refuse_turned(job: SelectJob, data: Labelled, table: Table, error: InputError) -> None:
    """Raise an error if the data are probably transposed: the labels are named like features.

    More precisely, a column of the table of labels contains feature names. `error` is the cause of
    the new error.
    """
    features = data.source.feature_names() if is_table(job.path) else None
    feature_names = set() if features is None else set(map(str, features))
    for name, values in table.columns.items():
        if feature_names and 2 * len(feature_names.intersection(map(str, values))) > len(
            feature_names
        ):
            turned = "leave out --transpose" if job.transpose else "pass --transpose"
            raise InputError(
                f"Column {name!r} of {table.what} contains names of columns of "
                f"{job.data_name}, which are used as features ({abbreviate(values, 3)}). If they "
                f"are samples, {turned}."
            ) from error


def _table_notes(table: Table, order: RowOrder) -> list[str]:
    return [note for note in (table.assumed, order.note) if note]


def _but_names(table: Table, order: RowOrder) -> list[str]:
    """Return the columns of a table that do not contain sample names; InputError if all do."""
    key = table.columns[order.key[0]] if len(order.key) == 1 else None
    names = [
        name
        for name, values in table.columns.items()
        if not (is_id(name) or (key is not None and (values == key).all()))
    ]
    if not names:
        raise InputError(
            f"{table.what} has only columns with sample names "
            f"({abbreviate(map(repr, table.columns))}); name the columns of covariates with "
            "--covariates FILE:a,b."
        )
    return names


def _typed(job: SelectJob, name: str, values: Array) -> Array:
    """Convert a column to numbers or text; raise an error if digits or classes would be lost."""
    column = typed(values, na_of(job.na, name), job.not_na)
    if values.dtype.kind in "iu" or column.dtype.kind == "f":
        refuse_wide(np.where(is_missing(column), 0, whole_numbers(values)), f"{name!r}")
    if name in job.category and column.dtype.kind in "iufb":
        there = ~is_missing(column)
        groups = np.full(column.shape, "", dtype=object)
        groups[there] = [written(value) for value in column[there].tolist()]
        return groups
    if name in job.levels:
        return column
    if name in job.target and column.dtype.kind in "OU":
        refuse_marked(job, name, np.where(is_missing(column), "", stripped(values)))
    if name in job.target and values.dtype.kind == "O":
        if job.labels_as == "auto":
            check_numbers(name, column, values)
        elif job.labels_as in CLASS_KERNELS and written_twice(stripped(values)):
            return np.where(is_missing(column), "", stripped(values))
    return column


def _checked(values: Array, name: str, m: int) -> Array:
    if values.shape[:1] != (m,) or values.ndim > 2:
        raise InputError(
            f"{name!r} has shape {values.shape}, but the data have {m} samples; pass a variable "
            "with one value per sample."
        )
    return values


def _named(data: Labelled, rows: Index) -> str:
    """Return the end of a sentence: the names of the samples `rows`, or "." without names."""
    names = data.source.sample_names()
    if names is None:
        return "."
    about = about_descriptions(names[rows])
    return f": {abbreviate(names[rows], 3)}.{' ' * bool(about)}{about}"


def _add_labels(
    job: SelectJob,
    data: Labelled,
    labels: Columns,
    covariates: Columns,
    blocks: Columns,
    weights: Columns,
    notes: list[str],
    n_rows: Mapping[str, int],
) -> Labelled:
    """Add labels, covariates, blocks and weights to the data; exclude samples without a value.

    Columns have one row per sample that passes the filters. Sentences are appended to `notes`.
    """
    without_order = [label for label in labels if label[0] not in job.levels]
    refuse_coded(job, (*without_order, *covariates))
    warn_of_label_slips(data, (*labels, *covariates))
    kept_rows = data.filtered.samples_of(np.arange(data.source.n_samples))
    m = kept_rows.size
    unlabelled, uncovered = _without_one(labels, m), _without_one(covariates, m)
    of_blocks = [(name, _typed(job, name, values)) for name, values in blocks]
    each = (*labels, *covariates, *of_blocks, *weights)
    incomplete = unlabelled | uncovered | _without_one((*of_blocks, *weights), m)
    n_incomplete = int(incomplete.sum())
    absent = {name: int(is_missing(values).sum()) for name, values in each}
    if n_incomplete and not job.drop_missing:
        counts = ", ".join(f"{name}: {count}" for name, count in absent.items() if count)
        read_as_missing = "".join(f" {note}." for note in notes if READ_AS_MISSING in note)
        raise InputError(
            f"{n_incomplete} of {m} samples have missing values ({counts})"
            f"{_named(data, kept_rows[incomplete])} Exclude them with --drop-missing, or fill the "
            f"values in.{read_as_missing}{about_single_values(job, each)}"
        )
    if n_incomplete == m:
        raise InputError(f"No sample has values for all of {', '.join(absent)}.")
    if n_incomplete:
        names = _named(data, kept_rows[incomplete]).removesuffix(".")
        notes.append(f"{n_incomplete:,} of {m:,} samples excluded for missing values{names}")
    keep, sample_weight = _weighted(job, weights, np.flatnonzero(~incomplete), notes)
    n_excluded = m - keep.size
    labels = [(name, values[keep]) for name, values in labels]
    for name, values in labels:
        if job.labels_as == "auto" or job.labels_as in CLASS_KERNELS:
            refuse_names(name, values, job.labels_as)
        refuse_ids(name, values)
    covariates = [(name, values[keep]) for name, values in covariates]
    notes += filter(None, (number_note(name, values) for name, values in covariates))
    columns = [design(name, values) for name, values in covariates]
    C = np.column_stack(columns) if columns else np.empty((keep.size, 0))
    y = _combined(job, labels)
    environment = _environment(job, dict(covariates))
    rows_of_blocks = _blocks(job, {name: values[keep] for name, values in blocks})
    notes += [] if rows_of_blocks is None else [rows_of_blocks.described]
    warn_of_doubtful_samples(
        job.path,
        data.source,
        y,
        kept_rows[keep],
        labels,
        tuple(name for name, _ in (*labels, *covariates)),
        _without_classes,
        names=data.source.sample_names(),
        has_blocks=bool(blocks),
    )
    return Labelled(
        data.source,
        y,
        C if C.shape[1] else None,
        kept_rows[keep] if m < data.source.n_samples or n_excluded else None,
        {
            "n_samples_left_out": n_incomplete,
            "n_samples_without_label": int(unlabelled.sum()),
            "n_samples_without_covariate": int(uncovered.sum()),
            **n_rows,
        },
        tuple(notes),
        data.filtered,
        environment,
        rows_of_blocks,
        sample_weight,
    )


def _environment(job: SelectJob, covariates: Mapping[str, Array]) -> Environment | None:
    """Return the covariates named by --with; None without this option."""
    for name in job.environment:
        if name not in covariates:
            raise InputError(
                f"dhsic pairs --with {name} needs a covariate of this name; covariates: "
                f"{abbreviate(covariates)}."
                f"{did_you_mean(name, covariates)} Also pass the column to --covariate."
            )
    columns = [(name, covariates[name]) for name in job.environment]
    return Environment.of(columns) if columns else None


def _blocks(job: SelectJob, columns: Mapping[str, Array]) -> Blocks | None:
    """Blocks of the samples used, from columns by name; None if the job names none."""
    options = {"permute_whole": job.permute_whole, "permute_within": job.permute_within}
    each = (
        None if name is None else names_of_blocks(option, columns[name])
        for option, name in options.items()
    )
    blocks = Blocks(*each)
    return blocks if blocks.options else None


def _weighted(
    job: SelectJob, weights: Columns, keep: Index, notes: list[str]
) -> tuple[Index, Array | None]:
    """Exclude samples with weight 0; return the indices of the others, and their weights.

    `keep` are the indices of all samples in use. The weights are None if all are equal. Sentences
    are appended to `notes`.
    """
    for name, values in weights:
        path = split_columns(job.weights)[0] if job.weights and job.has_weight_table else job.labels
        column = WrittenColumn(f"weights {name!r}", name, path or job.data_name)
        numbers = checked_weights(values[keep], keep.size, repr(name), "--weights", column)
        positive = numbers > 0
        if not positive.all():
            notes.append(f"{int((~positive).sum()):,} samples with weight 0 excluded")
        return keep[positive], unequal(numbers[positive], notes)
    return keep, None


def _combined(job: SelectJob, labels: Columns) -> Array | None:
    """Combine columns of labels (m,) into an array (m,) or (m, t); None if there are no labels."""
    if job.event is not None:
        return Censoring.of(job.target[0], job.event, job.entry).labels(dict(labels))
    return stacked(labels) if labels else None


def _without_classes(name: str, classes: list[str]) -> str:
    """Return the options that exclude the samples of some classes of a target."""
    na = " ".join(f"--na {shlex.quote(f'{name}={each}')}" for each in classes)
    return f"{na} --drop-missing"


def _without_one(columns: Columns, m: int) -> Mask:
    is_incomplete = np.zeros(m, dtype=bool)
    for _, values in columns:
        is_incomplete |= is_missing(values)
    return is_incomplete
