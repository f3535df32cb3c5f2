"""Names of classes and groups that are probably one name in several spellings.

"yes" beside "y", "stage_I" beside "stage I" or "case." beside "case" split one class into two.
Other modules refuse names that differ only in case (`dhsic.joins.class_names`), and names that look
the same (`dhsic.joins.lookalikes`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate
from dhsic.sources.rewriting import WrittenColumn

#: Spellings of one name, in lower case; they are one name if several of them occur.
SYNONYMS = (
    *(("yes", "y"), ("no", "n"), ("true", "t"), ("false", "f"), ("positive", "pos"), ("ja", "j")),
    *(("negative", "neg"), ("male", "males", "m"), ("female", "females", "f", "w"), ("nein", "n")),
    *(("case", "cases"), ("control", "controls", "ctrl", "ctrls", "ctl"), ("normal", "normals")),
    *(("tumor", "tumour", "tumors", "tumours"), ("wildtype", "wt"), ("mutant", "mutated", "mut")),
    *(("treated", "treatment", "trt"), ("responder", "responders"), ("patient", "patients", "pat")),
)
#: Pairs of names for the same two classes, which are one pair if no other names occur.
PAIRS = (
    *(("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("positive", "negative")),
    *(("pos", "neg"), ("+", "-"), ("present", "absent"), ("case", "control"), ("ja", "nein")),
    *(("oui", "non"), ("affected", "unaffected"), ("1", "0"), ("1.0", "0.0"), ("2", "1")),
)
#: Order in which spellings are preferred; letters, digits and signs are last.
_ORDER = [name for group in (*PAIRS, *SYNONYMS) for name in group if len(name) > 1]
#: Words of times before a hyphen that may be a minus sign, as in "day-1".
_TIMES = r"(?:day|week|month|year|hour|time|visit|cycle|lag)"


def spelling(name: str) -> str:
    """Normalise a name: lower case, uniform separators of words, and no punctuation at the end.

    A hyphen between words is removed. Before a number it may be a minus sign, so it is kept: T-1 is
    not T1.

    >>> [spelling(name) for name in ("Stage_II", "stage-II.", "non-smoker", "nonsmoker")]
    ['stageii', 'stageii', 'nonsmoker', 'nonsmoker']
    >>> [spelling(name) for name in ("ER -", "ER-", "ER +", "a-1", "a1", "a 1", "grade-1", "day-1")]
    ['er-', 'er-', 'er+', 'a-1', 'a1', 'a 1', 'grade 1', 'day-1']
    """
    text = re.sub(r"[\s_]+", " ", name.casefold()).strip().rstrip(".,;: ")
    text = re.sub(r"\s*([/,;:&|()+])\s*", r"\1", text)
    text = re.sub(r"\s+(?=-+$)", "", text)
    text = re.sub(r"(?<=\w)-(?=[^\W\d_])", " ", text)
    text = re.sub(rf"(?<![^\W\d_])(?!{_TIMES})([^\W\d_]{{3,}})-(?=\d)", r"\1 ", text)
    return re.sub(r"(?<=[^\W\d_]{2}) (?=[^\W\d_]{2})", "", text)


def _one_names(spellings: Collection[str]) -> dict[str, str]:
    """Map each spelling to its preferred name, by `SYNONYMS` and `PAIRS`.

    >>> _one_names(["yes", "no", "y"]), _one_names(["m", "f"])
    ({'yes': 'yes', 'no': 'no', 'y': 'yes'}, {'m': 'm', 'f': 'f'})
    >>> _one_names(["yes", "no", "1", "0"]), _one_names(["+", "-", "0"])
    ({'yes': 'yes', 'no': 'no', '1': 'yes', '0': 'no'}, {'+': '+', '-': '-', '0': '0'})
    >>> _one_names(["case", "control", "2", "1"])
    {'case': 'case', 'control': 'control', '2': 'case', '1': 'control'}
    >>> _one_names(["0", "1", "2"])
    {'0': '0', '1': '1', '2': '2'}
    """
    one = {name: name for name in spellings}
    for group in SYNONYMS:
        if group[0] in one:
            one |= {name: group[0] for name in group if name in one}
    present = {*one.values()}
    complete = [pair for pair in PAIRS if present.issuperset(pair)]
    are_apart = len(present) == 2 * len(complete)  # 0, 1 and 2 are three classes
    if len(complete) > 1 and are_apart and present == {name for pair in complete for name in pair}:
        to_first = {name: complete[0][at] for pair in complete for at, name in enumerate(pair)}
        one = {name: to_first[first] for name, first in one.items()}
    return one


def several_spellings(names: Mapping[str, int]) -> list[list[str]]:
    """Return groups of names that are probably one name, the preferred spelling first.

    Groups that differ only in case or blanks are omitted. If all names form one group, the result
    is empty. `names` maps each name to its number of samples.

    >>> several_spellings(Counter(["yes", "n", "y", "no", "no"]))
    [['yes', 'y'], ['no', 'n']]
    >>> several_spellings(Counter(["ER+", "ER-", "ER", "er+"]))
    []
    """
    one = _one_names({*map(spelling, names)})
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(one[spelling(name)], []).append(name)
    if len(groups) < 2:
        return []

    def preference(name: str) -> tuple[bool, bool, int, int, str]:
        short = spelling(name)
        at = _ORDER.index(short) if short in _ORDER else 0
        return len(short) == 1, name.rstrip(".,;:") != name, at, -names[name], name

    several = (sorted(group, key=preference) for group in groups.values())
    return [group for group in several if len({" ".join(n.casefold().split()) for n in group}) > 1]


def refuse_spellings(written: WrittenColumn, text: Array, otherwise: str) -> None:
    """Refuse several spellings of one name among `text` (m,); "" is no name.

    `written` is the column with the names, and `otherwise` the advice if they are different names.
    """
    groups = several_spellings(Counter(text[text != ""].tolist()))
    if not groups:
        return
    pairs = ", ".join(f"{n!a}: {group[0]!a}" for group in groups for n in group[1:])
    shown = abbreviate((" and ".join(map(repr, group)) for group in groups), 3)
    raise InputError(
        f"Some values of {written.called} are probably one name in several spellings: {shown}. "
        f"They would be different classes or groups. Write them the same way: "
        f"{written.rewritten(f'{{v}}.replace({{{{{pairs}}}}})')}. If they are different names, "
        f"{otherwise}."
    )
