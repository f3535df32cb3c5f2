"""Names of samples that are the same but for the way they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

#: Ways of writing that differ from program to program, and the name without what differs.
_WAYS: dict[str, Callable[[str], str]] = {
    "blanks and characters that are not seen": lambda name: re.sub(
        "[\\s\u00ad\u200b-\u200f\u2060\ufeff]+", "", name
    ),
    "upper and lower case": str.casefold,
    "leading zeros": lambda name: re.sub(r"(?<!\d)0+(?=\d)", "", name),
    "'.0', which spreadsheets add to numbers": lambda name: re.sub(r"\.0+$", "", name),
    "signs such as '.', '-' and '_'": lambda name: re.sub(r"[\W_]+", ".", name),
    "an 'X' at the front, which R adds to numbers": lambda name: re.sub(r"^X(?=[\d.])", "", name),
    "an 'X' at the front and signs as '.', as R writes names": lambda name: re.sub(
        r"[\W_]+", ".", re.sub(r"^X(?=[\d._])", "", name)
    ),
    "'chr' at the front": lambda name: re.sub("^chr", "", name, flags=re.IGNORECASE),
    "the alleles at the end": lambda name: re.sub(r"([:_/][ACGTN*]+){1,2}$", "", name),
    "the folder and the suffix of a file": lambda name: re.sub(
        r"(\.(bam|sam|cram|cel|idat|sorted|txt|csv|tsv|gz|fastq|fq|counts?))+$",
        "",
        re.sub(r"^.*[/\\]", "", name),
        flags=re.IGNORECASE,
    ),
}
#: A way of writing in which one side names the family too.
_FAMILY = "the FID before '_'"


def difference(names: Iterable[str], ours: Iterable[str]) -> tuple[str, int]:
    """Return a sentence on how `names` of a table differ from those of the data, and how many do.

    The sentence is "" and the count 0 where no way of writing makes any two of them the same.

    >>> difference(["007", "008"], ["7", "8"])[0]
    "They are the same but for leading zeros: '007' there is '7' in the data."
    >>> difference(["a", "b"], ["c", "d"])
    ('', 0)
    """
    strangers, known = list(dict.fromkeys(names)), set(ours)
    strangers = [name for name in strangers if name not in known]

    def matched(change: Callable[[str], str]) -> list[tuple[str, str]]:
        by_changed = {change(name): name for name in known}
        return [(name, by_changed[c]) for name in strangers if (c := change(name)) in by_changed]

    pairs = {way: matched(change) for way, change in _WAYS.items()}
    pairs[_FAMILY] = _but_for_family(strangers, known)
    way = max(pairs, key=lambda way: len(pairs[way]))
    if not pairs[way]:
        pairs["the ways in which they are written"] = matched(_changed_in_all_ways)
        way = "the ways in which they are written"
    if not pairs[way]:
        return "", 0
    theirs, our = pairs[way][0]
    sentence = f"They are the same but for {way}: {theirs!r} there is {our!r} in the data."
    return sentence, len(pairs[way])


def _but_for_family(strangers: list[str], known: set[str]) -> list[tuple[str, str]]:
    """Names that one side has with a family before them, FID_IID, and the other without."""
    without = {name.partition("_")[2]: name for name in known if "_" in name}
    pairs = [(name, without[name]) for name in strangers if name in without]
    bare = ((name, name.partition("_")[2]) for name in strangers)
    return pairs or [(name, own) for name, own in bare if own in known]


def _changed_in_all_ways(name: str) -> str:
    for change in reversed(_WAYS.values()):
        name = change(name)
    return name
