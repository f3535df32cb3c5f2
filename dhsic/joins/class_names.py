"""Names of classes and of groups that are none: words for a missing value, and two spellings.

A word such as "unknown" makes a class of samples that have nothing in common, and "M" beside "m"
makes two of one. Both change a ranking without a sign of it, so they are refused unless somebody
says that they are names. Words that often are names ("none" of a treatment) are told instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate

#: Words, in lower case, for a value that is not there; hardly a name of a class.
NO_VALUE = frozenset(
    (
        *("missing", "unknown", "unk", "not available", "not done", "not known", "no data"),
        *("not determined", "not recorded", "not reported", "not tested", "not measured", "k.a."),
        *("not specified", "unspecified", "unbekannt", "keine angabe", "inconnu"),
        *("desconocido", "sconosciuto", "onbekend", "n.d.", "n.a.", "n.k.", "n/d", "n/k", "n.d"),
        *("n.a", "na.", "n\\a", "-nan", "?", "??", "???", "-", "--", "---", "\u2013", "\u2014"),
        *("#value!", "#div/0!", "#ref!", "#name?", "#num!", "#null!", "..", "...", "_"),
    )
)
#: Words that are names of classes, too: treatment "none", "ND" for people without diabetes.
MAY_BE_CLASS = frozenset(
    (
        *("none", "nil", "lost", "refused", "error", "failed", "invalid", "nd", "nk", "blank"),
        *("not applicable", "undetermined"),
    )
)
#: Signs around a word that change nothing.
AROUND = "()[]<>{} "
#: Names beside which a word is their opposite, by the word; and what words begin with.
OPPOSITES = {"-": ("+", "++", "+/-", "-/-"), "--": ("+", "++"), "missing": ("present",)}
NEGATIONS = ("not ", "un", "no ")
#: Names beside a word, at least: of the samples of a single other one nothing could be learnt.
FEWEST_OTHERS = 2


def words_among(
    text: Array, words: Collection[str] = NO_VALUE, known: Collection[str] = ()
) -> dict[str, int]:
    """Count names (m,) that are words for a missing value, by name; "" is none.

    A word beside its opposite, beside a single other name, or `known` to be a name is one.

    >>> words_among(np.array(["a", "b", "Unknown", "a", "?"]))
    {'?': 1, 'Unknown': 1}
    >>> words_among(np.array(["+", "-", "+/-"])), words_among(np.array(["known", "unknown", "a"]))
    ({}, {})
    """
    names, counts = np.unique(text[text != ""].astype(str), return_counts=True)
    plain = [" ".join(name.casefold().split()) for name in names.tolist()]
    names_known = {" ".join(name.casefold().split()) for name in known}
    n_others = sum(not _is_word(name, NO_VALUE) or name in names_known for name in plain)
    if n_others < FEWEST_OTHERS:
        return {}
    return {
        str(name): int(n)
        for name, bare, n in zip(names, plain, counts, strict=True)
        if _is_word(bare, words) and bare not in names_known and not _has_opposite(bare, plain)
    }


def _is_word(name: str, words: Collection[str]) -> bool:
    return name in words or name.strip(AROUND) in words


def _has_opposite(name: str, names: Collection[str]) -> bool:
    """Whether names hold what a word denies."""
    bare = name.strip(AROUND)
    opposites = (*OPPOSITES.get(bare, ()), *(bare.removeprefix(n) for n in NEGATIONS))
    return any(opposite in names for opposite in opposites if opposite != bare)


def refuse_words(
    called: str, text: Array, remedy: Callable[[list[str]], str], known: Collection[str] = ()
) -> None:
    """Refuse names of classes or groups (m,) that are words for a missing value.

    `remedy` makes a sentence of what to do about the words; those `known` to be names are taken.
    """
    n_of = words_among(text, known=known)
    if n_of:
        listed = " or ".join(map(repr, n_of))
        stands = "stands" if len(n_of) == 1 else "stand"
        raise InputError(
            f"{sum(n_of.values()):,} of {text.size:,} values of {called} are {listed}, which "
            f"{stands} for missing ones. {remedy([*n_of])}"
        )


def words_told(
    called: str,
    text: Array,
    na: Callable[[list[str]], str] | None = None,
    known: Collection[str] = (),
) -> str:
    """Sentence on names (m,) that may stand for missing values, with the option `na`; or ""."""
    n_of = words_among(text, MAY_BE_CLASS, known)
    if not n_of:
        return ""
    listed = abbreviate(f"{word!r} ({n:,})" for word, n in n_of.items())
    option = "" if na is None else f"; if it does: {na([*n_of])} --drop-missing"
    return f"{listed} of {called} is a name, and may stand for missing values{option}"


def alike(text: Array) -> list[list[str]]:
    """Names that are the same but for upper and lower case or blanks within; none if all are.

    >>> alike(np.array(["m", "M", "f"])), alike(np.array(["m", "M"]))
    ([['M', 'm']], [])
    """
    by_name: dict[str, set[str]] = {}
    for t in set(text.tolist()):
        by_name.setdefault(" ".join(t.casefold().split()), set()).add(t)
    several = [sorted(texts) for texts in by_name.values() if len(texts) > 1]
    return sorted(several) if len(by_name) > 1 else []


def refuse_alike(called: str, are: str, text: Array, remedy: str) -> None:
    """Refuse names of classes or groups (m,) that are the same but for case or blanks."""
    several = alike(text)
    if several:
        raise InputError(
            f"{called} are {are}, and some are the same but for upper and lower case "
            f"or blanks ({abbreviate((' and '.join(map(repr, texts)) for texts in several), 3)}). "
            f"Write them alike; {remedy}"
        )
