"""Checks of labels and covariates on the command line: codes, names, numbers written as text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence

import numpy as np

from dhsic._typing import Array
from dhsic.cli.job import SelectJob
from dhsic.cli.label_notes import CASE_CONTROL
from dhsic.errors import InputError, warn
from dhsic.joins.covariates import taken_as_number
from dhsic.joins.label_description import plain_number
from dhsic.joins.labels import Labelled
from dhsic.joins.mixed_values import refuse_mixed_covariate, text_among_numbers
from dhsic.joins.slips import warn_of_slips
from dhsic.joins.text import (
    WRITTEN,
    codes_in,
    either,
    is_missing,
    is_within,
    likely_codes,
    written_by,
)
from dhsic.kernels.labels import CLASS_KERNELS, MIXED, MOST_CLASSES, REAL_KERNELS, auto_kernel
from dhsic.kernels.ordinal import ORDINAL
from dhsic.sources.frame_advice import numbers_in_python
from dhsic.sources.ids import abbreviate, did_you_mean, plain
from dhsic.sources.marked_numbers import (
    ABOUT_LIMITS,
    AT_LIMIT,
    FIRST_OF_PAIR,
    PAIR,
    begin_with_numbers,
    numbers_of,
)
from dhsic.sources.measured_text import MEASURED
from dhsic.sources.odd_fields import OddFields
from dhsic.sources.opening import is_table
from dhsic.sources.quantities import refuse_quantities
from dhsic.sources.rewriting import WrittenColumn
from dhsic.sources.sentinels import written
from dhsic.sources.text_features import ticks
from dhsic.validation import is_numeral

#: Columns (m,) by name.
Columns = Sequence[tuple[str, Array]]
#: Names of PLINK's phenotype and sex columns; columns without a header have these names, too.
OF_PLINK = re.compile(r"pheno(type)?\d*|sex")


def check_categories(
    job: SelectJob, covariates: Collection[str], features: Collection[str]
) -> None:
    """Reject `--category NAME` if NAME is neither a covariate nor a categorical feature."""
    for name in job.category:
        if name not in covariates and name not in features:
            raise InputError(
                f"--category {name} is not the name of a covariate; covariates: "
                f"{abbreviate(covariates) or 'none'}.{did_you_mean(name, covariates)} Also pass "
                "the column to --covariate or --covariates."
            )


def check_na(job: SelectJob, data: Labelled, names: Collection[str]) -> None:
    """Reject `--na NAME=TEXT` if NAME is not a label, covariate or feature."""
    scoped = [text.partition("=")[0] for text in job.na if "=" in text]
    features = data.source.feature_names() if scoped and is_table(job.path) else None
    known_names = {*names, *(() if features is None else features.tolist())}
    for name in scoped:
        if name not in known_names:
            raise InputError(
                f"--na {name}=... needs a column {name!r}, but no label, covariate or feature has "
                f"this name.{did_you_mean(name, known_names)} Correct the name, or leave it out."
            )


def number_note(name: str, values: Array) -> str:
    """Return a note if a covariate is used as a number but may be codes for groups; else ""."""
    return taken_as_number(name, values, f"pass --category {shlex.quote(name)}")


def refuse_coded(job: SelectJob, columns: Columns) -> None:
    """Reject values that look like PLINK's missing codes, unless the user allows them."""
    allowed = {float(text) for text in job.not_na if is_numeral(text)}
    coded: dict[str, tuple[int, dict[float, int], str]] = {}
    for name, values in columns:
        n_of, beside = codes_in(values, allowed), "far from all other values"
        zeros = 0 if 0 in allowed else _zeros(name, values)
        are_times = job.event is not None and name == job.target[0]
        for code, sentence in likely_codes(repr(name), values, are_times=are_times):
            if code not in allowed and code not in n_of:
                na = f"--na {shlex.quote(f'{name}={written(code)}')}"
                warn(f"{sentence} If they are missing, pass {na} --drop-missing.")
        if any(is_within(code, values) for code in n_of):
            beside = "and no other value repeats as often"
        if zeros and not n_of:
            n_of, beside = {0: zeros}, "next to 1 and 2"
        if not n_of:
            continue
        coded[name] = values.size, n_of, beside
    if not coded:
        return
    sentences = [
        f"{sum(n_of.values()):,} of {m:,} values of {name!r} are {either(n_of)}, {beside}; "
        f"{written_by(next(iter(n_of)))} this for missing values."
        for name, (m, n_of, beside) in coded.items()
    ]
    na = " ".join(dict.fromkeys(_na(name, code) for name, of in coded.items() for code in of[1]))
    codes = list(dict.fromkeys(code for _, n_of, _ in coded.values() for code in n_of))
    not_na = " ".join(f"--not-na {written(code)}" for code in codes)
    means, are = ("means", "is a value") if len(codes) == 1 else ("mean", "are values")
    raise InputError(
        f"{' '.join(sentences)} If {either(codes)} {means} missing, exclude those samples with "
        f"{na} --drop-missing; if {either(codes)} {are}, pass {not_na}."
    )


def _zeros(name: str, values: Array) -> int:
    """Count zeros that mean missing, as in PLINK's phenotype and sex columns; 0 for others.

    Only a column with the name of such a column is counted, if its other values are 1 and 2, or 2.
    """
    if values.dtype.kind not in "iuf" or not OF_PLINK.fullmatch(plain(name)):
        return 0
    present = set(np.unique(values[~is_missing(values)]).tolist())
    return int((values == 0).sum()) if {0, 2} <= present <= CASE_CONTROL else 0


def _na(name: str, code: float) -> str:
    """Return the option that declares `code` as missing in the column `name`.

    >>> _na("blood pressure", -9)
    "--na 'blood pressure=-9'"
    """
    return f"--na {shlex.quote(f'{name}={written(code)}')}"


def warn_of_label_slips(data: Labelled, labels: Columns) -> None:
    """Warn of labels that are probably typing errors: they lie extremely far from all others."""
    names = data.source.sample_names()
    ours = None if names is None else data.filtered.samples_of(names)
    for name, values in labels:

        def remedy(texts: list[str], name: str = name) -> str:
            na = " ".join(f"--na {shlex.quote(f'{name}={text}')}" for text in texts)
            return f"{na} --drop-missing"

        warn_of_slips(repr(name), values, ours, remedy)


def refuse_text(
    job: SelectJob,
    labels: Columns,
    covariates: Columns,
    places: Callable[[str], Callable[[int], str]],
) -> None:
    """Reject labels and covariates that are mostly numbers but contain some text.

    Called with the name of a column, `places` returns a function that maps the index of a sample to
    its place in a file, for messages.
    """
    for name, column in covariates:
        if column.dtype.kind == "O":
            refuse_mixed_covariate(name, column, places(name))
    for name, column in labels if job.labels_as == "auto" else ():
        if column.dtype.kind == "O" and name not in job.levels:
            _refuse_mixed(job, name, column, places(name))


def _refuse_mixed(job: SelectJob, name: str, values: Array, place: Callable[[int], str]) -> None:
    """Reject labels that are mostly numbers but contain some text, such as codes or typing errors.

    `place` maps the index of a sample to its place in a file, for messages.
    """
    odd = text_among_numbers(f"labels {name!r}", name, values, place)
    if not odd.are_few:
        return
    column = WrittenColumn(f"labels {name!r}", name, job.labels or job.data_name)
    raise InputError(
        f"{odd.n_present - odd.n_odd:,} labels of {name!r} are numbers, but {odd.n_odd:,} are not: "
        f"{odd.listed}. {_remedy_for(odd, column)} pass --label-kernel multiclass."
    )


def _remedy_for(odd: OddFields, column: WrittenColumn) -> str:
    """Return advice on text among the numbers of a column.

    The text ends with "if labels are classes,", and the caller completes this sentence.
    """
    markers = odd.limits or odd.markers
    na = " ".join(f"--na {shlex.quote(f'{column.name}={text}')}" for text in markers)
    if odd.limits:
        lowest = "lowest" if odd.limits[0][0] == "<" else "highest"
        return (
            f"{odd.limits[0]!r} means that a value is beyond a limit. Write numbers instead: "
            f"{column.rewritten(AT_LIMIT)} {ABOUT_LIMITS}. {na} --drop-missing would exclude those "
            f"samples, which have the {lowest} values. If labels are classes,"
        )
    if begin_with_numbers(odd.places):
        return (
            "The other labels have no unit or mark. Write all labels as numbers in the same unit, "
            "without its name. If labels are classes,"
        )
    remedy = f"If these are missing, pass {na} --drop-missing; else correct" if na else "Correct"
    return f"{remedy} them; or, if labels are classes,"


def refuse_marked(job: SelectJob, name: str, texts: Array) -> None:
    """Reject text labels (m,) if they are numbers with a unit, or if the kernel needs numbers."""
    kernel, distinct = job.labels_as, {*texts.tolist()} - {""}
    if kernel == ORDINAL and len(distinct) > 2:
        raise InputError(
            f"Labels of {name!r} are text ({abbreviate(map(repr, sorted(distinct)))}), and their "
            "order is unknown. List all levels from the lowest to the highest. For example, the "
            "alphabetical order is --order "
            f"{shlex.quote(','.join(sorted(distinct)[:MOST_CLASSES]))}"
        )
    takes_numbers = kernel in (*REAL_KERNELS, MIXED)
    if kernel not in CLASS_KERNELS:
        column = WrittenColumn(f"labels {name!r}", name, job.labels or job.data_name)
        refuse_quantities(column, texts, "class", "pass --label-kernel multiclass")
    _refuse_commas(job, name, texts)
    are_pairs = bool(distinct) and all(map(PAIR.fullmatch, distinct))
    change = FIRST_OF_PAIR if are_pairs else numbers_of(distinct)
    is_measured = kernel == "auto" and len(distinct) >= MEASURED
    if not takes_numbers and not (change and is_measured):
        return
    shown = abbreviate(map(repr, sorted(distinct)), 3)
    remedy = "If they are classes, leave this option out; otherwise write numbers"
    if change:
        which = "the first of the two numbers" if are_pairs else "only the numbers"
        column = WrittenColumn(f"labels {name!r}", name, job.labels or job.data_name)
        remedy = f"Write {which}: {column.rewritten(change)}"
    what = f", but --label-kernel {kernel} needs numbers" if takes_numbers else ""
    classes = "" if takes_numbers else " If they are classes, pass --label-kernel multiclass."
    raise InputError(f"Labels of {name!r} are text ({shown}){what}. {remedy}.{classes}")


def _refuse_commas(job: SelectJob, name: str, texts: Array) -> None:
    """Refuse text labels (m,) that are numbers, some of them with commas."""
    distinct = {*texts.tolist()} - {""}
    are_numbers = len(distinct) >= MEASURED and all(map(WRITTEN.fullmatch, distinct))
    if not are_numbers or job.labels_as in CLASS_KERNELS:
        return
    column = WrittenColumn(f"labels {name!r}", name, job.labels or job.data_name)
    odd = text_among_numbers(column.called, name, texts, lambda i: f"in row {i}")
    if changes := numbers_in_python([odd], distinct):
        raise InputError(
            f"Labels of {name!r} are numbers with commas ({abbreviate(sorted(odd.places), 3)}). "
            + " ".join(f"{said} {column.rewritten(change)}." for change, said in changes)
            + " If they are classes, pass --label-kernel multiclass."
        )


def about_single_values(job: SelectJob, columns: Columns) -> str:
    """Return advice on a column with one value, such as 1, and empty fields; else ""."""
    for name, values in columns:
        gone = is_missing(values)
        if gone.any() and len({*map(str, values[~gone].tolist())}) == 1:
            column = WrittenColumn(f"column {name!r}", name, job.labels or job.data_name)
            return (
                f" All other values of {name!r} are {plain_number(values[~gone][0])}. If an empty "
                f"field means no, write 0 there: {column.rewritten(ticks(job.na))}."
            )
    return ""


def refuse_names(name: str, values: Array, label_kernel: str) -> None:
    """Reject labels that are sample names: (nearly) every sample has a class of its own."""
    is_class = label_kernel != "auto" or auto_kernel(values) in CLASS_KERNELS
    column = values.astype(str) if values.dtype.kind == "O" else values
    n = len(np.unique(column))
    if is_class and column.size > 2 and (n == column.size or n > MOST_CLASSES):
        differ = f"All {n}" if n == column.size else f"{n} of {column.size}"
        how = (
            "If they are measurements, write only numbers: no units, stars, errors (\u00b1) or "
            "powers (x10^3), and all in one unit."
            if begin_with_numbers(t for t in map(str, column.tolist()) if t and not is_numeral(t))
            else "Pass labels shared by several samples, not sample names; write real numbers with "
            "decimal points."
        )
        raise InputError(
            f"{differ} labels of {name!r} are different ({column[0]}, {column[1]}, ...), so nearly "
            f"every sample would be its own class. {how}"
        )
