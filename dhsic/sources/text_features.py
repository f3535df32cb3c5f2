"""Features that are written as text: genotype calls, categories and check boxes.

Calls such as ``0/1`` are read as dosages. Other text raises an error. Its message contains pandas
code that converts the text and keeps missing values missing.
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
#: Words of a missing genotype among genotypes of letters, in upper case.
NO_CALL_WORDS = frozenset(
    ("FAIL", "FAILED", "UNDETERMINED", "NO CALL", "NO_CALL", "NO-CALL", "NOCALL", "INVALID")
)
#: Texts of a missing genotype among genotypes of letters, in upper case.
NO_CALLS = (
    frozenset(f"{allele}{mark}{allele}" for allele in ("-", "N", "0", ".") for mark in ("", *"/| "))
    | {"NC"}
    | NO_CALL_WORDS
)
#: Pattern of a genotype of letters, such as AG, A/G, "A G", AB or DI (deletion and insertion).
LETTERS = "[ACGTacgt][/| ]?[ACGTacgt]|[ABab][/| ]?[ABab]|[DdIi][/| ]?[DdIi]"
#: Alleles of heterozygotes by their IUPAC codes. A homozygote is one letter, and N is missing.
HETEROZYGOTES = {"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"}
BASES = frozenset("ACGT")
#: Pandas expressions of the dosages of text {v}: genotypes of letters, of alleles counted from 1,
#: and calls of alleles counted from 0. Other text becomes missing.
OF_LETTERS = (
    "{v}.where({v}.str.fullmatch('" + LETTERS + "')).str.upper()"
    ".pipe(lambda a: a.str.count(max(''.join(a.dropna()).replace('|', ''), default='A')))"
)
OF_ALLELES = (
    "{v}.where({v}.str.fullmatch('[1-4][/|]?[1-4]'))"
    ".pipe(lambda a: a.str.count(max(''.join(a.dropna()).replace('|', ''), default='2')))"
)
OF_CALLS = "{v}.str.count('[1-3]').where({v}.str.fullmatch('[0-3][/|][0-3]'))"
#: The same for genotypes of IUPAC codes.
OF_CODES = (
    "{v}.map(dict(A='AA', C='CC', G='GG', T='TT', "
    + ", ".join(f"{code}={alleles!r}" for code, alleles in HETEROZYGOTES.items())
    + ")).pipe(lambda a: a.str.count(max(''.join(a.dropna()), default='A')))"
)
#: Sentence on the allele that `OF_LETTERS` counts.
ABOUT_LETTERS = (
    "Genotypes of letters are written as the number of copies of the allele that is last in the "
    "alphabet (G of A and G)."
)
#: Sentence on the allele that `OF_CODES` counts.
ABOUT_CODES = (
    "Genotypes of IUPAC codes, such as R for A and G, are written as the number of copies of the "
    "allele that is last in the alphabet; N is missing."
)
#: Sentence on the allele that `OF_ALLELES` counts.
ABOUT_ALLELES = (
    "0 means a missing allele here, as in PLINK, because alleles are counted from 1. Genotypes are "
    "written as the number of copies of the allele with the higher number (2 of 1 and 2)."
)
#: Sentence on the alleles that `OF_CALLS` counts.
ABOUT_CALLS = "Calls such as 0/1 are written as the number of alleles other than 0."
#: Genotypes of two alleles from 1 to 4 as numbers, and 0 for missing; homozygotes alone are two.
TWO_DIGITS = frozenset({0.0, *(10.0 * a + b for a, b in product(range(1, 5), repeat=2))})
MOST_OF_ONE = 2
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
    """Return a pandas expression that converts genotypes {v} to dosages, or "" for other texts.

    >>> dosages_of(["AA", "AG", "--"]) == OF_LETTERS, dosages_of(["0/1", "./."]) == OF_CALLS
    (True, True)
    >>> dosages_of(["AA", "red"]), dosages_of(["--"]), dosages_of(["5/5", "4/5"])
    ('', '', '')
    """
    distinct = {text.strip() for text in texts}
    letters = {text for text in distinct if re.fullmatch(LETTERS, text)}
    if letters and all(text.upper() in NO_CALLS for text in distinct - letters):
        return OF_LETTERS
    if are_codes(distinct):
        return OF_CODES
    return of_calls(distinct) if distinct - {"./.", ".|."} and distinct <= {*CALLS} else ""


def are_codes(texts: Iterable[str]) -> bool:
    """Whether texts are IUPAC codes of the genotypes of a variant with two alleles.

    There must be a code for heterozygotes (such as R for A and G) and a code for homozygotes.

    >>> are_codes(["A", "R", "G", "N"]), are_codes(["A", "G", "N"]), are_codes(["A", "M", "T"])
    (True, False, False)
    """
    codes = {text for text in texts if text != "N" and text.upper() not in NO_CALLS}
    alleles = {allele for code in codes for allele in HETEROZYGOTES.get(code, code)}
    return (
        bool(codes & BASES and codes - BASES) and alleles <= BASES and len(alleles) == MOST_OF_ONE
    )


def are_bases(texts: Iterable[str]) -> bool:
    """Whether all texts are single bases (A, C, G, T) or missing genotypes.

    If other columns have IUPAC codes, single bases are homozygotes.

    >>> are_bases(["A", "N"]), are_bases(["A", "B"])
    (True, False)
    """
    return all(text in BASES or text == "N" or text.upper() in NO_CALLS for text in texts)


def about_words(texts: Iterable[str]) -> str:
    """Return a sentence on words that mean a missing genotype, such as fail; "" for none.

    >>> about_words(["AA", "fail"]), about_words(["AA", "--"])
    ("'fail' means a missing genotype here.", '')
    """
    words = sorted({text for text in texts if text.upper() in NO_CALL_WORDS})
    means = "means" if len(words) == 1 else "mean"
    return f"{' and '.join(map(repr, words))} {means} a missing genotype here." if words else ""


def of_calls(calls: Iterable[str]) -> str:
    """Return a pandas expression that converts calls {v} to dosages, given all `calls` that occur.

    Alleles are counted from 1, and 0/0 is missing, if alleles 2 or 3 occur but no call combines
    allele 0 with another allele.

    >>> of_calls(["0/0", "0/1", "1/2"]) == OF_CALLS, of_calls(["0/0", "1/1", "1/2"]) == OF_ALLELES
    (True, True)
    """
    alleles = [set(call) - set("/|.") for call in calls]
    has_reference = any("0" in both and len(both) > 1 for both in alleles)
    has_others = any(both & {"2", "3"} for both in alleles)
    return OF_ALLELES if has_others and not has_reference else OF_CALLS


def about_dosages(change: str) -> str:
    """Return a sentence on the allele that the expression `change` counts."""
    sentences = {OF_LETTERS: ABOUT_LETTERS, OF_CODES: ABOUT_CODES, OF_ALLELES: ABOUT_ALLELES}
    return sentences.get(change, ABOUT_CALLS)


def are_two_digits(X: Array) -> bool:
    """Whether all values (m, d) are genotypes such as 11, 12 and 22, with 0 for missing.

    >>> are_two_digits(np.array([[11, 12], [0, 22]])), are_two_digits(np.array([[11, 12]]))
    (True, False)
    """
    distinct: set[float] = set()
    for part in (X[:HEAD], X):  # the first rows decide most tables
        distinct = {*np.unique(part[~np.isnan(part)]).tolist()}
        if not distinct <= TWO_DIGITS:
            return False
    return len(distinct - {0.0}) > MOST_OF_ONE and any(value % 11 for value in distinct)


def if_all_are_letters(na: Sequence[str]) -> str:
    """Return a pandas expression that converts a column {v} of letter genotypes to dosages.

    If any text is not a genotype of letters, the expression returns {v}.
    """
    are_genotypes = (
        f"({{v}}.str.fullmatch('{LETTERS}') | {{v}}.str.upper().isin({sorted(NO_CALLS)!r}) | "
        f"{missing_among(na)}).all()"
    )
    return f"({OF_LETTERS} if {are_genotypes} else {{v}})"


def missing_among(na: Sequence[str]) -> str:
    """Return a pandas expression that is true where text {v} is empty or means a missing value."""
    listed = f"{{v}}.str.lower().isin({sorted(NA)!r})"
    return f"({listed} | {{v}}.isin({[*na]!r}))" if na else listed


def ticks(na: Sequence[str]) -> str:
    """Return a pandas expression that converts check boxes {v}: text to 1, empty fields to 0.

    Text that means a missing value (in `na`, or NA and the like) becomes missing.
    """
    return f"{{v}}.ne('').astype(int).mask({missing_among(na)} & {{v}}.ne(''))"


def about_ticks(names: Sequence[str]) -> str:
    """Return a sentence on columns of check boxes, which `ticks` converts; "" for none."""
    if not names:
        return ""
    return (
        f"Empty fields of {abbreviate(map(repr, names), 3)} are written as 0, as for check boxes. "
        f"If they mean unknown, exclude {'this column' if len(names) == 1 else 'these columns'}."
    )


def check_boxes(X: Array) -> list[int]:
    """Return the positions of features of X (m, d) that contain only 1 and missing values.

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
    """Return a sentence on features that contain only 1 and missing values.

    `remedy` is code that writes 0 for missing values.
    """
    one = len(names) == 1
    return (
        f"{len(names):,} feature{'' if one else 's'} ({abbreviate(map(repr, names), 3)}) "
        f"{'contains' if one else 'contain'} only 1 and missing values, so "
        f"{'it is' if one else 'they are'} constant and cannot be ranked. If a missing value "
        f"means no, as in an empty check box, write 0: {remedy}"
    )
