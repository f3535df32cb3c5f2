"""Checks of the level names of categorical features.

A word such as "unknown" would be a level of its own, and "M" and "m" would be two levels instead of
one. Both change a ranking, and nothing shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from os import PathLike, fspath
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError, warn
from dhsic.joins.class_names import HETEROZYGOTE, NO_GENOTYPE, NO_VALUE, refuse_words, words_told
from dhsic.joins.lookalikes import looks, refuse_lookalikes
from dhsic.joins.spellings import refuse_spellings
from dhsic.sources import AbstractSource
from dhsic.sources.categories import codes_at
from dhsic.sources.ids import abbreviate
from dhsic.sources.rewriting import WrittenColumn

#: Minimum number of other levels beside which a word for a missing value is refused.
FEWEST_OTHERS = 1


def check_level_names(source: AbstractSource, data: Any, named: Collection[str] | None) -> None:
    """Refuse levels that mean a missing value, and several spellings of one level.

    Parameters
    ----------
    source : AbstractSource
        The opened data.
    data : Any
        The data as passed, for advice.
    named : collection of str or None
        Columns that the caller declared to be categories. In these, words for a missing value are
        accepted as names.
    """
    if not source.levels:
        return
    names = source.feature_names()
    assert names is not None, "columns of tables have names"
    for j in source.levels:
        _check_column(source, data, j, str(names[j]), is_named=str(names[j]) in (named or ()))


def _check_column(source: AbstractSource, data: Any, j: int, name: str, *, is_named: bool) -> None:
    """Refuse invalid names of the levels of feature j, see `check_level_names`."""
    levels = np.array(["", *source.levels[j]], dtype=object)
    text: Array = levels[codes_at(source, j, None) + 1]
    called, is_file = f"column {name!r}", isinstance(data, str | PathLike)
    are_genotypes = any(level.casefold() in HETEROZYGOTE for level in source.levels[j])
    if not is_named:

        def remedy(words: list[str]) -> str:
            means, are = (
                ("it means", "it is the name")
                if len(words) == 1
                else ("they mean", "they are names")
            )
            scope = "" if are_genotypes else f"{name}="  # such words occur in most features
            missing = (
                f"pass na={[f'{scope}{word}' for word in words]!r}"
                if is_file
                else f"write X[{name!r}] = X[{name!r}].mask(X[{name!r}].astype(str).str.strip()"
                f".isin({words!r}))"
            )
            return (
                f"If {means} missing, {missing}. If {are} of a category, pass "
                f"categories={[name]!r}."
            )

        refused = NO_GENOTYPE if are_genotypes else NO_VALUE
        refuse_words(called, text, remedy, fewest_others=FEWEST_OTHERS, words=refused)
        if sentence := words_told(called, text):
            warn(f"{sentence}.")
    written = (
        WrittenColumn(called, name, fspath(data))
        if is_file
        else WrittenColumn(called, name, values=f"X[{name!r}]")
    )
    refuse_lookalikes(written, text, "give them other names")
    refuse_spellings(written, text, "give them other names")
    _refuse_cases(called, text)


def _refuse_cases(called: str, text: Array) -> None:
    """Refuse levels, `text` (m,), that differ only in upper and lower case, or in spaces."""
    spellings: dict[str, Counter[str]] = {}
    for level in text[text != ""].tolist():
        spellings.setdefault(looks(level).casefold(), Counter())[level] += 1
    several = [sorted(of) for of in spellings.values() if len(of) > 1]
    if several:
        shown = abbreviate((" and ".join(map(repr, levels)) for levels in several), 3)
        raise InputError(
            f"Some values of {called} differ only in upper and lower case or in spaces ({shown}), "
            "and would be different categories. Spell them the same way. If they are different "
            "categories, give them names that differ in more than that."
        )
