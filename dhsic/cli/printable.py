"""Text from data made fit for a terminal, which takes some of it for commands.

Names in a store may hold anything: escapes that colour, move or retitle, line breaks that forge a
line of output, marks that turn the direction of reading. Results and JSON keep names as they are.
"""

from __future__ import annotations

import unicodedata

#: Categories of Unicode that are not shown: control, format, line and paragraph breaks, halves of
#: pairs, and what has no meaning yet or only between friends.
UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Cn", "Co"})
#: Of these, what writing needs: joiners within words of Persian, Hindi and others.
JOINERS = "\u200c\u200d"


def printable(text: object, keep: str = "") -> str:
    r"""Text in which what a terminal would not show is written as an escape.

    Parameters
    ----------
    text : object
        Its `str` is taken.
    keep : str
        Characters that stay: a line break, in text of several lines.

    Examples
    --------
    >>> printable("rs1\x1b[31m, naïve")
    'rs1\\x1b[31m, naïve'
    """
    whole = str(text)
    if whole.isascii() and whole.isprintable():
        return whole
    shown = (c if c in keep or c in JOINERS or _is_seen(c) else _escaped(c) for c in whole)
    return "".join(shown)


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in UNSEEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
