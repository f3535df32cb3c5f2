"""Values of labels and covariates that are read as what they are not: refused, or told."""

from __future__ import annotations

import shlex

from dhsic._typing import Array
from dhsic.cli.job import SelectJob
from dhsic.joins.class_names import refuse_alike, refuse_words, words_told
from dhsic.joins.dates import refuse_dates
from dhsic.joins.rewriting import WrittenColumn
from dhsic.joins.text import is_missing, stripped
from dhsic.joins.written_numbers import refuse_written
from dhsic.kernels.labels import CLASS_KERNELS


def check_values(job: SelectJob, name: str, values: Array, column: Array, path: str) -> list[str]:
    """Check one column of labels or covariates; return sentences on what was taken for names.

    Parameters
    ----------
    values, column : (m,) array
        Values as they are stored, and typed (`dhsic.joins.text.typed`).
    path : str
        The table that holds them, or the data.

    Raises
    ------
    InputError
        Numbers, or names of classes and groups, are no such; with a remedy for each reading.
    """
    is_label = name in job.target
    called = f"{'labels' if is_label else 'covariate'} {name!r}"
    written = WrittenColumn(called, name, path)
    are_classes = is_label and job.labels_as in CLASS_KERNELS
    if column.dtype.kind == "f" and values.dtype.kind == "O" and not are_classes:
        refuse_written(written, stripped(values)[~is_missing(column)])
    if column.dtype.kind not in "OU":
        return []
    notes = [_check_words(job, name, column, called, "class" if is_label else "group")]
    if is_label and not are_classes:
        notes += [refuse_dates(written, column, "class", "say so: --label-kernel multiclass")]
    elif not is_label:
        notes += [refuse_dates(written, column, "group")]
    if not is_label and values.dtype.kind == "O":
        several = "if they are several groups, give these names that differ in more."
        refuse_alike(f"Values of {called}", "names of groups", column[column != ""], several)
    return [*filter(None, notes)]


def _check_words(job: SelectJob, name: str, column: Array, called: str, group: str) -> str:
    """Refuse names that are words for a missing value; return a sentence on those that may be."""

    def na(words: list[str]) -> str:
        return " ".join(f"--na {shlex.quote(f'{name}={word}')}" for word in words)

    def remedy(words: list[str]) -> str:
        not_na = " ".join(f"--not-na {shlex.quote(word)}" for word in words)
        it = f"it names a {group}" if len(words) == 1 else "they are names"
        return (
            f"Leave those samples out with {na(words)} --drop-missing; if {it}, {not_na} says so."
        )

    refuse_words(called, column, remedy, job.not_na)
    return words_told(called, column, na, job.not_na)
