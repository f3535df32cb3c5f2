"""Checks of class and group names: words for missing values, and spellings that differ in case.

A word such as "unknown" forms a class of samples that have nothing in common, and "M" and "m" form
two classes of one. Both change a ranking and nothing shows it, so they are refused unless the user
states that they are names. A code such as 99 among classes that are otherwise words is refused,
too. Words that are often real names ("none" as a treatment), and other numbers among words, give a
warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate
from dhsic.validation import is_numeral

#: Words that stand for a number among names without digits: a code, and any other number.
CODE_AMONG_WORDS, NUMBER_AMONG_WORDS = "code among words", "number among words"
#: Words, in lower case and with blanks for "_" and "-" between letters, for a missing value; they
#: are hardly ever names of classes.
NO_VALUE = frozenset(
    (
        *("missing", "unknown", "unk", "not available", "not done", "not known", "no data"),
        *("not determined", "not recorded", "not reported", "not tested", "not measured", "k.a."),
        *("not specified", "unspecified", "not assessed", "not evaluated", "not evaluable"),
        *("not examined", "not performed", "not collected", "not provided", "not given"),
        *("not stated", "not answered", "not ascertained", "not entered", "not disclosed"),
        *("none given", "none recorded", "no answer", "no result", "no value", "no information"),
        *("don't know", "dont know", "do not know", "restricted access", "undefined", "undef"),
        *("dk/ref", "dk/rf", "dk/na"),
        *("tbd", "tba", "tbc", "to be determined", "to be confirmed", "pending", "result pending"),
        *("results pending", "awaiting result", "awaiting results", "empty", "untested"),
        *("unbekannt", "keine angabe", "fehlt", "fehlend", "inconnu", "manquant"),
        *("non renseigné", "desconocido", "no disponible", "sconosciuto", "onbekend"),
        *("desconhecido", "n.d.", "n.a.", "n.k.", "n/d", "n/k", "n.d", "n.a", "na.", "n\\a"),
        *("-nan", "-nan(ind)", "1.#qnan", "-1.#ind", "1.#ind", "nat", "null", "\\n", "(blank)"),
        *("<nil>", "(nil)", "(none)", "<none>", "na_character_", "na_real_", "?", "??", "???"),
        *("-", "--", "---", "'-", "'--", "\u2013", "\u2014", "#", "##", "###", "***", "****"),
        *("#value!", "#div/0!", "#ref!", "#name?", "#num!", "#null!", "#calc!", "#spill!"),
        *("..", "...", "_", "__", CODE_AMONG_WORDS),
    )
)
#: Beginning of the terms of sequence archives for a missing value ("missing: not collected").
MISSING_TERM = "missing:"
#: Words that may also be names of classes: treatment "none", "ND" for people without diabetes.
MAY_BE_CLASS = frozenset(
    (
        *("none", "nil", "lost", "refused", "error", "failed", "invalid", "nd", "nk", "blank"),
        *("not applicable", "undetermined", "indeterminate", "inconclusive", "equivocal"),
        *("ambiguous", "unassigned", "unclassified", "withdrawn", "excluded", "declined"),
        *("prefer not to say", "prefer not to answer", "lost to follow up", "lost to followup"),
        *("qns", "xxx", "dk", NUMBER_AMONG_WORDS),
    )
)
#: Names of heterozygotes; and words for a missing value beside them, which are no class there.
HETEROZYGOTE = frozenset(("het", "hets", "hetero", "heterozygote", "heterozygous"))
NO_GENOTYPE = (NO_VALUE | MAY_BE_CLASS | {"fail", "no call", "nocall"}) - {"none", "nil"}
#: Numbers that surveys and programs write for a missing value (9, 88, 999, -666), as text.
CODE = re.compile(r"([789])\1*(\.0*)?|-(?!(1|9+)(\.0*)?$)\d+(\.0*)?")
#: Numbers that are no such words: codes of classes, which may stand beside names; and -9, -99, ...,
#: which are refused in any column (`dhsic.joins.text.codes_in`).
OTHER_CODES = re.compile(r"([12]|-9+)(\.0*)?")
#: Missing values of Stata and SAS with a reason, in lower case: .a, .b, ..., and ._ of SAS.
REASON = re.compile(r"\.[a-z_]")
#: The number before the name of a level, as in "9 = Missing" and "2: case".
NUMBERED = re.compile(r"^-?\d+\s*[=:.)]\s*(?=[^\W\d_])")
#: Characters that join words, as in "not_available".
JOINTS = re.compile(r"(?<=[^\W_])[_-]+(?=[^\W_])")
#: Characters that are stripped from both ends of a word before it is looked up.
AROUND = "()[]<>{} "
#: Other names beside which a word is itself a name (its opposite, another cell type), by the word;
#: and prefixes that negate a word.
OPPOSITES = {
    "-": ("+", "++", "+/-", "-/-"),
    "--": ("+", "++"),
    "missing": ("present",),
    "empty": ("full", "filled", "loaded", "occupied"),
    "pending": ("approved", "denied", "rejected", "active", "completed", "closed"),
    "***": ("*", "**", "ns"),
    "****": ("*", "**", "***", "ns"),
    "#": ("##", "*"),
    "nk": ("b", "t", "b cell", "b cells", "t cell", "t cells", "cd4", "cd8", "cd4 t", "cd8 t"),
}
NEGATIONS = ("not ", "un", "no ")
#: Minimum number of other names: with a single one, nothing could be learnt from its samples.
FEWEST_OTHERS = 2


def words_among(
    text: Array,
    words: Collection[str] = NO_VALUE,
    known: Collection[str] = (),
    fewest_others: int = FEWEST_OTHERS,
) -> dict[str, int]:
    """Count the names in `text` (m,) that are words for a missing value, by name; "" is excluded.

    A word counts as a real name if its opposite occurs too, if there are fewer than `fewest_others`
    other names, or if it is in `known`. A number counts as such a word only among names without
    digits: a code such as 99 belongs to `NO_VALUE`, and a single other number, unless it is 1 or 2,
    to `MAY_BE_CLASS`.

    >>> words_among(np.array(["a", "b", "Unknown", "a", "?"]))
    {'?': 1, 'Unknown': 1}
    >>> words_among(np.array(["+", "-", "+/-"])), words_among(np.array(["known", "unknown", "a"]))
    ({}, {})
    >>> words_among(np.array(["a", "b", "99"])), words_among(np.array(["a", "b", "8", "9", "10"]))
    ({'99': 1}, {})
    """
    names, counts = np.unique(text[text != ""].astype(str), return_counts=True)
    plain = [*map(_plain, names.tolist())]
    names_known = {*map(_plain, known)}
    words_of_names = _as_words(plain)
    n_others = sum(
        not _is_word(word, NO_VALUE) or name in names_known
        for name, word in zip(plain, words_of_names, strict=True)
    )
    if n_others < fewest_others:
        return {}
    return {
        str(name): int(n)
        for name, n, bare, word in zip(names, counts, plain, words_of_names, strict=True)
        if _is_word(word, words) and bare not in names_known and not _has_opposite(bare, plain)
    }


def _plain(name: str) -> str:
    """Normalise a name: lower case, and single blanks for blanks, "_" and "-" between letters.

    A number before the name, as in "9 = Missing", is omitted.

    >>> _plain("Not_Available"), _plain("9 = Missing"), _plain("1.5")
    ('not available', 'missing', '1.5')
    """
    return " ".join(JOINTS.sub(" ", NUMBERED.sub("", name.strip().casefold())).split())


def _as_words(plain: list[str]) -> list[str]:
    """Replace numbers among words by `CODE_AMONG_WORDS` or `NUMBER_AMONG_WORDS`.

    >>> _as_words(["a", "b", "99"]), _as_words(["a", "b1", "99"]), _as_words(["7", "8", "a"])
    (['a', 'b', 'code among words'], ['a', 'b1', '99'], ['7', '8', 'a'])
    """
    numbers = {name for name in plain if is_numeral(name) and any(map(str.isdigit, name))}
    others = [name for name in plain if name not in numbers and not _is_word(name, NO_VALUE)]
    are_codes = all(map(CODE.fullmatch, numbers))
    has_digits = any(map(str.isdigit, "".join(others)))
    are_few = are_codes or (len(numbers) == 1 and not any(map(OTHER_CODES.fullmatch, numbers)))
    if len(others) < FEWEST_OTHERS or has_digits or not are_few:
        return plain
    word = CODE_AMONG_WORDS if are_codes else NUMBER_AMONG_WORDS
    return [word if name in numbers else name for name in plain]


def _is_word(name: str, words: Collection[str]) -> bool:
    is_term = "missing" in words and (name.startswith(MISSING_TERM) or bool(REASON.fullmatch(name)))
    return is_term or name in words or name.strip(AROUND) in words


def _has_opposite(name: str, names: Collection[str]) -> bool:
    """Whether `names` contain the opposite of the word `name`."""
    bare = name.strip(AROUND)
    opposites = (*OPPOSITES.get(bare, ()), *(bare.removeprefix(n) for n in NEGATIONS))
    return any(opposite in names for opposite in opposites if opposite != bare)


def refuse_words(
    called: str,
    text: Array,
    remedy: Callable[[list[str]], str],
    known: Collection[str] = (),
    fewest_others: int = FEWEST_OTHERS,
    words: Collection[str] = NO_VALUE,
) -> None:
    """Refuse names of classes or groups, `text` (m,), that are `words` for a missing value.

    `remedy` returns the sentence that advises what to do about the words. Names in `known` are
    accepted, and all words beside fewer than `fewest_others` other names.
    """
    n_of = words_among(text, words, known, fewest_others)
    if n_of:
        listed = " or ".join(map(repr, n_of))
        means = "means" if len(n_of) == 1 else "mean"
        raise InputError(
            f"{sum(n_of.values()):,} of {text.size:,} values of {called} are {listed}, which "
            f"usually {means} a missing value. {remedy([*n_of])}"
        )


def words_told(
    called: str,
    text: Array,
    na: Callable[[list[str]], str] | None = None,
    known: Collection[str] = (),
) -> str:
    """Return a sentence on class names in `text` (m,) that may mean a missing value; "" if none do.

    `called` describes the values. `na` formats the option that declares words as missing; without
    it, the sentence suggests no option. Names in `known` are not reported.
    """
    n_of = words_among(text, MAY_BE_CLASS, known)
    if not n_of:
        return ""
    listed = abbreviate(f"{word!r} ({n:,})" for word, n in n_of.items())
    option = "" if na is None else f"; if it does, use {na([*n_of])} --drop-missing"
    return f"{listed} in {called} is used as a name, but may mean a missing value{option}"


def alike(text: Array) -> list[list[str]]:
    """Return groups of names that differ only in case or blanks; empty if all names form one group.

    >>> alike(np.array(["m", "M", "f"])), alike(np.array(["m", "M"]))
    ([['M', 'm']], [])
    """
    by_name: dict[str, set[str]] = {}
    for t in set(text.tolist()):
        by_name.setdefault(" ".join(t.casefold().split()), set()).add(t)
    several = [sorted(texts) for texts in by_name.values() if len(texts) > 1]
    return sorted(several) if len(by_name) > 1 else []


def refuse_alike(called: str, are: str, text: Array, remedy: str) -> None:
    """Refuse names of classes or groups, `text` (m,), that differ only in case or blanks.

    `called` and `are` begin the sentence ("Labels ... are classes"), and `remedy` ends it.
    """
    several = alike(text)
    if several:
        raise InputError(
            f"{called} are {are}, and some differ only in case or in spaces "
            f"({abbreviate((' and '.join(map(repr, texts)) for texts in several), 3)}). Spell them "
            f"the same way; {remedy}"
        )
