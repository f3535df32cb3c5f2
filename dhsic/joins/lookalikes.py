"""Names of classes and groups that look the same, but are written with different characters.

A zero-width space, a no-break space, a Cyrillic letter in a Latin word, a long dash or an accent
that is a character of its own splits one class into two, and nothing shows it.
"""

from __future__ import annotations

import unicodedata
from collections import Counter

from dhsic._typing import Array
from dhsic.errors import InputError
from dhsic.sources.ids import abbreviate
from dhsic.sources.rewriting import WrittenColumn

#: Cyrillic and Greek letters, dashes and quotes, and the ASCII characters that look the same.
_LOOKS = str.maketrans(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423"
    "\u0425\u0430\u0441\u0435\u0456\u0458\u043e\u0440\u0455\u0443\u0445\u04bb\u0501\u051b"
    "\u051d\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5"
    "\u03a7\u03bf"
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2018\u2019\u02bc\u00b4`\u201c\u201d",
    "ABESIJKMHOPCTYXaceijopsyxhdqwABEZHIKMNOPTYXo-------'''''\"\"",
)
#: Kinds of characters that look like others: full width, ligatures, spaces of other widths.
_COMPATIBLE = ("<wide>", "<narrow>", "<compat>", "<noBreak>")
#: Categories of characters that are not visible: format characters and control characters.
_INVISIBLE = ("Cf", "Cc")


def looks(name: str) -> str:
    r"""Replace the characters of a name by ordinary ones that look the same.

    >>> looks("ca\u200bse"), looks("\u0441ase"), looks("20\u201330 m\u00b2")
    ('case', 'case', '20-30 m²')
    """
    composed = unicodedata.normalize("NFC", name).translate(_LOOKS)
    visible = (c for c in composed if c.isspace() or unicodedata.category(c) not in _INVISIBLE)
    return " ".join("".join(map(_compatible, visible)).split())


def _compatible(character: str) -> str:
    """Return the ordinary form of a character that looks like others."""
    is_other = unicodedata.decomposition(character).startswith(_COMPATIBLE)
    return unicodedata.normalize("NFKC", character) if is_other else character


def lookalikes(names: Counter[str]) -> list[list[str]]:
    r"""Return groups of names that look the same, the most frequent name of each group first.

    >>> lookalikes(Counter(["case", "case", "\u0441ase", "control"])) == [
    ...     ["case", "\u0441ase"]
    ... ]
    True
    """
    if all(map(str.isascii, names)):
        return []
    groups: dict[str, list[str]] = {}
    for name, _ in sorted(names.items(), key=lambda pair: (-pair[1], pair[0])):
        groups.setdefault(looks(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def refuse_lookalikes(written: WrittenColumn, text: Array, otherwise: str) -> None:
    """Refuse names (m,) that look the same; "" is no name.

    `written` is the column with the names, and `otherwise` the advice if they are different names.
    """
    groups = lookalikes(Counter(text[text != ""].tolist()))
    if not groups:
        return
    spellings = {ascii(other): ascii(group[0]) for group in groups for other in group[1:]}
    pairs = ", ".join(f"{other}: {first}" for other, first in spellings.items())
    shown = abbreviate((_described(group) for group in groups), 3)
    raise InputError(
        f"Some values of {written.called} look the same, but are different names, because they "
        f"have different characters: {shown}. Write them the same way: "
        f"{written.rewritten(f'{{v}}.replace({{{{{pairs}}}}})')}. If they are different names, "
        f"{otherwise}."
    )


def _described(group: list[str]) -> str:
    """Describe names that look the same by the characters in which they differ."""
    common = set.intersection(*map(set, group))
    odd = sorted({c for name in group for c in name if c not in common and not c.isascii()})
    listed = abbreviate((f"U+{ord(c):04X} {unicodedata.name(c, '').lower()}" for c in odd), 4)
    return f"{' and '.join(map(ascii, group))} ({listed.strip()})"
