"""Features that are written as text: genotype calls, categories and check boxes.

Calls such as ``0/1`` are read as dosages. Other text is refused, with pandas code that converts it
and keeps missing values missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from dhsic._typing import Array
from dhsic.sources.ids import NA, abbreviate, is_value

#: Dosages of diploid calls by their text: the number of alternative alleles, NaN if one is missing.
#: Higher numbers of alleles are more likely fractions or scores.
CALLS = {
    f"{a}{mark}{b}": float("nan") if "." in (a, b) else float(a != "0") + (b != "0")
    for a, mark, b in product(".0123", "/|", ".0123")
}
#: Description of the allele that these dosages count.
COUNTED_IN_CALLS = "all alleles but 0 in calls such as 0/1"
#: Texts of a missing genotype among genotypes of letters, in upper case.
NO_CALLS = frozenset(
    f"{allele}{mark}{allele}" for allele in ("-", "N", "0", ".") for mark in ("", "/", "|")
)
#: Pattern of a genotype of letters, such as AG, A/G or DI (deletion and insertion).
LETTERS = "[ACGTacgt][/|]?[ACGTacgt]|[DdIi][/|]?[DdIi]"
#: Pandas expressions of the dosages of text {v}: genotypes of letters, and calls of numbers. Other
#: text becomes missing.
OF_LETTERS = (
    "{v}.where({v}.str.fullmatch('" + LETTERS + "')).str.upper()"
    ".pipe(lambda a: a.str.count(max(''.join(a.dropna()).replace('|', ''), default='A')))"
)
OF_CALLS = "{v}.str.count('[1-3]').where({v}.str.fullmatch('[0-3][/|][0-3]'))"
#: Sentence on the allele that `OF_LETTERS` counts.
ABOUT_LETTERS = (
    "Genotypes of letters are written as the number of copies of the allele that is last in the "
    "alphabet (G of A and G)."
)
#: Sentence on the alleles that `OF_CALLS` counts.
ABOUT_CALLS = "Calls such as 0/1 are written as the number of alleles other than 0."
#: Check boxes: minimum share of missing values, and minimum number of ones.
FEWEST_MISSING, FEWEST_ONES = 0.1, 2
#: Number of first samples that settle most features.
HEAD = 64


def is_field(text: str) -> bool:
    """Whether a field of a feature can be read as a number.

    >>> [is_field(text) for text in ("1.5", "0/1", ".|.", "", "A/G", "120/80")]
    [True, True, True, True, False, False]
    """
    return is_value(text) or text.strip() in CALLS


def dosages_of(texts: Iterable[str]) -> str:
    """Return a pandas expression of the dosages of genotypes {v}; "" if the texts are others.

    >>> dosages_of(["AA", "AG", "--"]) == OF_LETTERS, dosages_of(["0/1", "./."]) == OF_CALLS
    (True, True)
    >>> dosages_of(["AA", "red"]), dosages_of(["--"]), dosages_of(["5/5", "4/5"])
    ('', '', '')
    """
    distinct = {text.strip() for text in texts}
    letters = {text for text in distinct if re.fullmatch(LETTERS, text)}
    if letters and all(text.upper() in NO_CALLS for text in distinct - letters):
        return OF_LETTERS
    return OF_CALLS if distinct - {"./.", ".|."} and distinct <= {*CALLS} else ""


def if_all_are_letters(na: Sequence[str]) -> str:
    """Return an expression like `OF_LETTERS` that leaves text {v} with other values unchanged."""
    are_genotypes = (
        f"({{v}}.str.fullmatch('{LETTERS}') | {{v}}.str.upper().isin({sorted(NO_CALLS)!r}) | "
        f"{missing_among(na)}).all()"
    )
    return f"({OF_LETTERS} if {are_genotypes} else {{v}})"


def missing_among(na: Sequence[str]) -> str:
    """Return a pandas expression that is true where text {v} means a missing value, or is empty."""
    listed = f"{{v}}.str.lower().isin({sorted(NA)!r})"
    return f"({listed} | {{v}}.isin({[*na]!r}))" if na else listed


def ticks(na: Sequence[str]) -> str:
    """Return a pandas expression of check boxes: 1 for text {v}, 0 if it is empty.

    Other texts for missing values stay missing.
    """
    return f"{{v}}.ne('').astype(int).mask({missing_among(na)} & {{v}}.ne(''))"


def about_ticks(names: Sequence[str]) -> str:
    """Return a sentence on columns that `ticks` rewrites; "" for none."""
    if not names:
        return ""
    return (
        f"Empty fields of {abbreviate(map(repr, names), 3)} are written as 0, as for check boxes; "
        f"if they mean unknown, exclude {'this column' if len(names) == 1 else 'these columns'}."
    )


def check_boxes(X: Array) -> list[int]:
    """Return the positions of features of X (m, d) whose values are 1 or missing.

    >>> check_boxes(np.array([[1, 1, 0], [np.nan, 1, np.nan], [1, 1, 1]]))
    [0]
    """
    if X.dtype.kind != "f":
        return []
    at = np.flatnonzero((np.isnan(X[:HEAD]) | (X[:HEAD] == 1)).all(axis=0))
    n_ones = (X[:, at] == 1).sum(axis=0)
    n_missing = np.isnan(X[:, at]).sum(axis=0)
    are_boxes = (n_ones + n_missing == len(X)) & (n_ones >= FEWEST_ONES)
    are_boxes &= n_missing >= max(1, FEWEST_MISSING * len(X))
    positions: list[int] = at[are_boxes].tolist()
    return positions


def about_boxes(names: Sequence[str], remedy: str) -> str:
    """Return a sentence on features whose values are 1 or missing; `remedy` writes 0."""
    one = len(names) == 1
    return (
        f"{len(names):,} feature{'' if one else 's'} ({abbreviate(map(repr, names), 3)}) "
        f"{'has' if one else 'have'} no value but 1, and missing values, so "
        f"{'it is' if one else 'they are'} constant and cannot be ranked. If a missing value there "
        f"means no, as in a check box that is not ticked, write 0: {remedy}"
    )
