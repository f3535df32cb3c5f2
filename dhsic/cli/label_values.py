"""Checks of labels and covariates for values that may be misread, with errors or notes."""

from __future__ import annotations

import shlex
from collections import Counter

import numpy as np

from dhsic._typing import Array
from dhsic.cli.job import SelectJob
from dhsic.errors import InputError
from dhsic.joins.class_names import refuse_alike, refuse_words, words_told
from dhsic.joins.lookalikes import refuse_lookalikes
from dhsic.joins.spellings import refuse_spellings
from dhsic.joins.text import is_missing, stripped
from dhsic.joins.written_numbers import refuse_written
from dhsic.sources.dates import refuse_dates
from dhsic.sources.ids import abbreviate, na_of
from dhsic.sources.measured_text import refuse_measured
from dhsic.sources.rewriting import WrittenColumn

#: Minimum mean number of rows per present value for cells that may have been merged; and a pandas
#: expression that copies the values of a column {v} into the empty cells below them.
FEWEST_ROWS = 3
FILLED = "{v}.mask({v} == '').ffill()"
#: Phrase of notes on text that is read as missing, unless the user declares it as a name.
READ_AS_MISSING = "is read as missing"


def check_values(job: SelectJob, name: str, values: Array, column: Array, path: str) -> list[str]:
    """Check one column of labels or covariates.

    Returns notes on text that is treated as a name or as missing, but may mean something else.

    Parameters
    ----------
    values, column : (m,) array
        Values as stored, and after conversion by `dhsic.joins.text.typed`.
    path : str
        Path of the table that contains the column, or of the data.

    Raises
    ------
    InputError
        The values look like numbers, or like names of classes or groups, but probably are not. The
        message has a remedy for each interpretation.
    """
    is_label = name in job.target
    called = f"{'labels' if is_label else 'covariate'} {name!r}"
    written = WrittenColumn(called, name, path)
    are_classes = is_label and job.has_names(name)
    if column.dtype.kind == "f" and values.dtype.kind == "O" and not are_classes:
        refuse_written(written, stripped(values)[~is_missing(column)])
    if column.dtype.kind not in "OU":
        return []
    if not job.drop_missing:
        _refuse_merged(written, column)
    if not are_classes:
        advice = "pass --label-kernel multiclass" if is_label else "give them other names"
        refuse_lookalikes(written, column, advice)
        refuse_spellings(written, column, advice)
    group = "class" if is_label else "group"
    notes = [
        _check_words(job, name, column, called, group),
        _missing_words(job, name, values, column, called, group),
    ]
    if not are_classes:
        notes += [_check_measured(job, name, written, column)]
    if not is_label and values.dtype.kind == "O":
        several = "if they are different groups, give them names that differ in more than that."
        refuse_alike(f"Values of {called}", "names of groups", column[column != ""], several)
    return [*filter(None, notes)]


def _missing_words(
    job: SelectJob, name: str, values: Array, column: Array, called: str, group: str
) -> str:
    """Return a note on text such as NONE that is read as missing, but may be a name; else "".

    For `values` and `column` (m,), see `check_values`. `called` describes the column. `group` is
    "class" or "group", the kind of its names.
    """
    if values.dtype.kind not in "OUST":
        return ""
    text = stripped(values)
    words = text[(column == "") & ~np.isin(text, ["", ".", *na_of(job.na, name)])]
    if not words.size:
        return ""
    counts = Counter(words.tolist())
    listed = abbreviate(f"{word!r} ({n:,} of {column.size:,})" for word, n in counts.items())
    keep = " ".join(f"--not-na {shlex.quote(word)}" for word in counts)
    return f"{listed} in {called} {READ_AS_MISSING}; if it is the name of a {group}, pass {keep}"


def _check_measured(job: SelectJob, name: str, written: WrittenColumn, column: Array) -> str:
    """Refuse text (m,) that is dates or measurements; return a note on dates that name batches."""
    if name in job.target:
        remedy = "pass --label-kernel multiclass"
        note = refuse_dates(written, column, "class", remedy)
        refuse_measured(written, column, "class", remedy)
        return note
    note = refuse_dates(written, column, "group")
    if name not in job.category:  # declared to be groups
        refuse_measured(written, column, "group")
    return note


def _refuse_merged(written: WrittenColumn, column: Array) -> None:
    """Refuse names (m,) that stand only in the first row of each group, as in merged cells."""
    there = np.flatnonzero(~is_missing(column))
    names = column[there]
    are_blocks = bool((names[1:] != names[:-1]).all()) and FEWEST_ROWS * there.size <= column.size
    if there.size < 2 or there[0] != 0 or not are_blocks:
        return
    raise InputError(
        f"{column.size - there.size:,} of {column.size:,} values of {written.called} are missing, "
        f"and {abbreviate(map(repr, names), 3)} are above rows without a value, like the merged "
        "cells of a workbook. If each value also applies to the rows below it, copy it into them: "
        f"{written.rewritten(FILLED)}. If the values of those rows are missing, pass "
        "--drop-missing to exclude them."
    )


def _check_words(job: SelectJob, name: str, column: Array, called: str, group: str) -> str:
    """Reject names that mean "missing"; return a note on names that may mean "missing"."""

    def na(words: list[str]) -> str:
        return " ".join(f"--na {shlex.quote(f'{name}={word}')}" for word in words)

    def remedy(words: list[str]) -> str:
        not_na = " ".join(f"--not-na {shlex.quote(word)}" for word in words)
        meaning, it = ("it means", "it") if len(words) == 1 else ("they mean", "each")
        return (
            f"If {meaning} missing, exclude those samples with {na(words)} --drop-missing; if "
            f"{it} names a {group}, pass {not_na}."
        )

    values = (*job.not_na, *job.levels.get(name, ()))
    refuse_words(called, column, remedy, values)
    return words_told(called, column, na, values)
