"""Fields that spreadsheets write: text as formulas (``="0012"``), and typographic minus signs.

The value of such a formula is the text between its quotes. In a CSV file the whole formula is often
in quotes, and the quotes in it are then doubled. Lines are rewritten before they are split into
fields, because the text may contain the separator.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from dhsic.sources.compression import SUFFIXES, decompressed

#: Pattern of a formula, without or with quotes around it, from the start to the end of a field.
_FORMULA = re.compile(
    r'(?:^|(?<=[\t,;| ]))(?:="([^"]*)"|"=""((?:[^"]|"""")*)""")(?=[\t,;| \r\n]|$)'
)
#: Pattern of a minus sign (U+2212) or dash (U+2013) that begins a number in a field.
_MINUS = re.compile(r"(?:^|(?<=[\t,;| \"]))[\u2212\u2013](?=[.]?\d)")
#: Commands of sed that replace formulas by quoted text.
_SED = r's/(^|[\t,;| ])"=""([^"]*)"""/\1"\2"/g; s/(^|[\t,;| ])="([^"]*)"/\1"\2"/g'


def as_plain(line: str) -> str:
    """Replace formulas in a line by their text in quotes, and typographic minus signs by a hyphen.

    >>> as_plain('="0012",="a, b",1.5'), as_plain("a\u2013b,\u22121.5,3\u20134")
    ('"0012","a, b",1.5', 'a\u2013b,-1.5,3\u20134')
    """
    if "\u2212" in line or "\u2013" in line:
        line = _MINUS.sub("-", line)
    if '"' not in line or "=" not in line:  # searches for one character are fast
        return line
    return _FORMULA.sub(_quoted_text, line)


def _quoted_text(formula: re.Match[str]) -> str:
    """Return the text of a matched formula as a quoted field; quotes in the text are doubled."""
    bare, quoted = formula.groups()
    text = bare if quoted is None else quoted.replace('""""', '""')
    return f'"{text}"'


def formula_advice(path: str, lines: Iterable[str]) -> str:
    """Return advice to write formulas as plain text before running the command in a message.

    Such commands use pandas, which would keep the = and the quotes in these fields. The result is
    "" if the `lines` of the table contain no formulas.
    """
    formula = next(filter(None, map(_FORMULA.search, lines)), None)
    if formula is None:
        return ""
    advice = f" Before this command, write fields such as {formula[0]} as plain text"
    if "://" in path or path.lower().endswith(SUFFIXES):
        return f"{advice}, without = and quotes."
    return f"{advice}: sed -E {shlex.quote(_SED)} {shlex.quote(path)} > PLAIN, and pass PLAIN."


def minus_signs(path: str) -> str:
    """Return Python code that replaces typographic minus signs in a pandas table t of text.

    Commands in messages need this code, because pandas does not read typographic minus signs. The
    result is "" if the table at `path` has none, or if it is at a URL.
    """
    if "://" in path:
        return ""
    with Path(path).open("rb") as raw:
        lines = (line for line in decompressed(raw, path) if b"\xe2" in line)
        if not any(_MINUS.search(line.decode("utf-8", "replace")) for line in lines):
            return ""
    return (
        "import re; "
        r"t = t.map(lambda v: re.sub('^ *[\u2212\u2013](?=[.]?[0-9])', '-', v)); "
    )
