"""Phenotypes in .fam and .psam, by the rules of PLINK, which say what of them is missing."""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.joins.text import PLINK_MISSING, is_missing, read_table, typed
from dhsic.sources.ids import plain

#: Codes of missing ones, of controls or males, of cases or females.
MISSING, CONTROL, CASE = 0, 1, 2
#: Another word for the column of .fam, in lower case.
WORDS = {"phenotype": "pheno"}


def phenotype(path: str, name: str) -> Array:
    """Values of a column of .fam or .psam, (m,): numbers with NaN where missing, or text with "".

    -9 is missing; beside 1 and 2 alone 0 is so too, as sex and cases are coded.

    Raises
    ------
    InputError
        There is no such column, it has no value, or it holds 0 and 1: PLINK takes 0 for missing
        then too, and whoever wrote it may not have.
    """
    table = read_table(path)
    called = {plain(column): column for column in table.columns}
    word = plain(name)
    known = name if name in table.columns else called.get(WORDS.get(word, word), name)
    column = typed(table.column(known), na=(str(PLINK_MISSING),))
    where = f"{known} of {path}"
    if column.dtype.kind == "f":
        found = set(np.unique(column[~is_missing(column)]).tolist())
        if found == {MISSING, CONTROL}:
            raise InputError(
                f"{where} is 0 and 1. PLINK takes 0 for missing and 1 for a control, unless it is "
                "told --1. If 0 are controls, pass labels as a table or array: --labels "
                f"{path} --target {known}; else mend the file."
            )
        if found <= {MISSING, CONTROL, CASE} and known.upper() in ("PHENO", "SEX"):
            column[column == MISSING] = np.nan
    if is_missing(column).all():
        raise InputError(
            f"{where} is missing for all samples (-9 or 0). Pass labels as a table or array, for "
            "instance --labels FILE --target NAME."
        )
    return column
