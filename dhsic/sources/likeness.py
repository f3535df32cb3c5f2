"""Comparison of sample names in a table and in the data that differ only in spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

#: Pattern of blanks and invisible characters.
_BLANKS = r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+"
#: Spelling difference: names differ only in these.
BLANKS = "spaces and invisible characters"
#: Spelling differences between programs, each with a function that normalises a name.
_WAYS: dict[str, Callable[[str], str]] = {
    BLANKS: lambda name: re.sub(_BLANKS, "", name),
    "upper and lower case": str.casefold,
    "leading zeros": lambda name: re.sub(r"(?<!\d)0+(?=\d)", "", name),
    "'.0', which spreadsheets append to numbers": lambda name: re.sub(r"\.0+$", "", name),
    "punctuation such as '.', '-' and '_'": lambda name: re.sub(r"[\W_]+", ".", name),
    "an 'X' at the front, which R adds to numbers": lambda name: re.sub(r"^X(?=[\d.])", "", name),
    "an 'X' at the front and '.' for punctuation, which R writes": lambda name: re.sub(
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
#: Maximum number of names that are searched for in longer names, and minimum length of such names.
MOST_COMPARED, SHORTEST_PART = 100, 3
#: Pattern of a long number in the short form of spreadsheets.
_SCIENTIFIC = re.compile(r"\d(\.\d+)?[Ee]\+?\d+")
#: Spelling difference: one side prefixes names with the family id.
_FAMILY = "the part before '_', such as a FID"
#: Spelling difference: names of one side are longer, such as the ids of samples or aliquots, which
#: begin with the id of a patient. Separators between the parts of such names.
_LONGER, _MARKS = "parts at the end", "-_.:|/"


def difference(names: Iterable[str], ours: Iterable[str]) -> tuple[str, int]:
    """Return a sentence on how the spelling of `names` differs from `ours`, and a count.

    `names` are from a table, and `ours` are from the data. The count is the number of `names` that
    are in `ours` after the change of spelling. The result is ("", 0) if no change makes any two
    names equal.

    >>> difference(["007", "008"], ["7", "8"])[0]
    "They differ only in leading zeros: for example, '007' is '7' in the data."
    >>> difference(["a", "b"], ["c", "d"])
    ('', 0)
    >>> difference(["AC", "GT"], ["AC-1", "GT-1"])[0]
    "They differ only in parts at the end: for example, 'AC' is 'AC-1' in the data."
    >>> difference(["P-1", "P-2"], ["P-1-A", "P-1-B", "P-2-A"])[0]
    "'P-1' is a part of several names in the data ('P-1-A' and 'P-1-B'), so full names are needed."
    """
    strangers, known = list(dict.fromkeys(names)), set(ours)
    strangers = [name for name in strangers if name not in known]
    if rounded := _rounded(strangers, known):
        return rounded

    pairs = _matches(strangers, known)
    way = max(pairs, key=lambda way: len(pairs[way]))
    if not pairs[way]:
        return "", 0
    theirs, our = pairs[way][0]
    if way in (_FAMILY, _LONGER) and (several := _ambiguous([one for one, _ in pairs[way]], known)):
        theirs, full = next(iter(several.items()))
        listed = " and ".join(map(repr, full[:2])) + ", ..." * (len(full) > 2)
        several_names = f"{theirs!r} is a part of several names in the data ({listed})"
        return f"{several_names}, so full names are needed.", len(pairs[way])
    sentence = f"They differ only in {way}: for example, {theirs!r} is {our!r} in the data."
    return sentence, len(pairs[way])


def containment(names: Iterable[str], ours: Iterable[str]) -> str:
    """Return a sentence if names of a table are parts of names of the data, or vice versa; else "".

    At least half of the first `MOST_COMPARED` names of one side must be parts of names of the other
    side.

    >>> containment(["LAB017", "LAB018"], ["LAB017XY", "LAB018XZ"])[:52]
    "'LAB017' is a part of 'LAB017XY', so rows may be in "
    >>> containment(["a1", "b2"], ["a11", "b22"])
    ''
    """
    sides = list(dict.fromkeys(names)), list(dict.fromkeys(ours))
    for shorter, longer in (sides, sides[::-1]):
        tried, joined = shorter[:MOST_COMPARED], "\n".join(longer)
        parts = [name for name in tried if len(name) >= SHORTEST_PART and name in joined]
        if parts and 2 * len(parts) >= len(tried):
            full = next(name for name in longer if parts[0] in name)
            return f"{parts[0]!r} is a part of {full!r}, so rows may be in another order."
    return ""


def _matches(strangers: list[str], known: set[str]) -> dict[str, list[tuple[str, str]]]:
    """Return, for each kind of change, the pairs of names that it makes equal.

    Pairs are (stranger, known name); strangers are names of a table that are not in the data.
    """

    def matched(change: Callable[[str], str]) -> list[tuple[str, str]]:
        by_changed = {change(name): name for name in known}
        return [(name, by_changed[c]) for name in strangers if (c := change(name)) in by_changed]

    pairs = {way: matched(change) for way, change in _WAYS.items()}
    pairs[_FAMILY] = _but_for_family(strangers, known)
    for mark, n in (*_parts_of(strangers), *_parts_of(known)):
        cut = matched(_beginning(mark, n))
        pairs[_LONGER] = max(pairs.get(_LONGER, []), cut, key=len)
    for mark, _ in _parts_of(known):
        first = _beginning(mark, 1)
        if len({name.removeprefix(first(name)) for name in known}) == 1:  # such as "-1" of cells
            pairs[_LONGER] = max(pairs.get(_LONGER, []), matched(first), key=len)
    if not any(pairs.values()):
        pairs["several details of spelling"] = matched(_changed_in_all_ways)
    return pairs


def _rounded(strangers: list[str], known: Iterable[str]) -> tuple[str, int] | None:
    """Return the result of `difference` if a spreadsheet shortened long numbers; otherwise None.

    >>> _rounded(["1.63E+05"], ["163000"])[0][:60]
    "'1.63E+05' is a long number that a spreadsheet shortened, so"
    """
    rounded = [name for name in strangers if _SCIENTIFIC.fullmatch(name)]
    if 2 * len(rounded) < max(1, len(strangers)) or not any(map(str.isdecimal, known)):
        return None
    sentence = (
        f"{rounded[0]!r} is a long number that a spreadsheet shortened, so digits may be lost. "
        "Export the names again, as text."
    )
    return sentence, len(rounded)


#: Changes of a name s, by their Python expressions.
_CHANGES: dict[str, Callable[[str], str]] = {
    "s.lstrip('0')": lambda s: s.lstrip("0"),
    "re.sub(r'(?<!\\d)0+(?=\\d)', '', s)": lambda s: re.sub(r"(?<!\d)0+(?=\d)", "", s),
    "re.sub(r'\\.0+$', '', s)": lambda s: re.sub(r"\.0+$", "", s),
    "s + '.0'": lambda s: s + ".0",
    "s.upper()": lambda s: s.upper(),
    "s.lower()": lambda s: s.lower(),
    "s.title()": lambda s: s.title(),
    "re.sub(r'\\s+', '', s)": lambda s: re.sub(r"\s+", "", s),
    "re.sub(r'[\\W_]+', '.', s)": lambda s: re.sub(r"[\W_]+", ".", s),
    "re.sub(r'[\\W_]+', '-', s)": lambda s: re.sub(r"[\W_]+", "-", s),
    "re.sub(r'[\\W_]+', '_', s)": lambda s: re.sub(r"[\W_]+", "_", s),
    "re.sub(r'[\\W_]+', ' ', s)": lambda s: re.sub(r"[\W_]+", " ", s),
    "'X' + s": lambda s: "X" + s,
    "re.sub('^X', '', s)": lambda s: re.sub("^X", "", s),
    "'X' + re.sub(r'[\\W_]+', '.', s)": lambda s: "X" + re.sub(r"[\W_]+", ".", s),
    "s.rpartition('/')[2].partition('.')[0]": lambda s: s.rpartition("/")[2].partition(".")[0],
    "s.partition('_')[2]": lambda s: s.partition("_")[2],
    "s.rpartition('_')[2]": lambda s: s.rpartition("_")[2],
    "s.partition('-')[0]": lambda s: s.partition("-")[0],
}


#: Changes that remove the FID from FID_IID, by their Python expressions of a name n.
_WITHOUT_FAMILY: dict[str, Callable[[str], str]] = {
    "n.partition('_')[2]": lambda n: n.partition("_")[2],
    "n.rpartition('_')[2]": lambda n: n.rpartition("_")[2],
}
#: Maximum number of names of the data that are searched for a prefix and a suffix around a name of
#: the table.
MOST_TRIED = 3


def _parts_of(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each separator that splits all names into the same number of parts, and this number."""
    for mark in _MARKS:
        counts = {name.count(mark) + 1 for name in names}
        if len(counts) == 1 and (n := counts.pop()) > 1:
            yield mark, n


def _beginning(mark: str, n: int) -> Callable[[str], str]:
    """Return a function that keeps the first n parts of a name, separated by `mark`."""
    return lambda s: mark.join(s.split(mark)[:n])


def _cut(
    variable: str, names: Iterable[str], longer: Collection[str]
) -> dict[str, Callable[[str], str]]:
    """Return functions that cut names in `longer` to the common length of all `names`.

    The functions keep the first or the last characters. The keys are Python expressions of
    `variable`. A function is returned only if it makes at least half of the names equal.
    """
    short = {*names}
    lengths = {len(name) for name in short}
    n = lengths.pop() if len(lengths) == 1 else 0
    cuts: dict[str, Callable[[str], str]] = {
        f"{variable}[:{n}]": lambda s: s[:n],
        f"{variable}[-{n}:]": lambda s: s[-n:],
    }
    least = min(len(short), len({*longer})) / 2
    return {
        key: cut for key, cut in cuts.items() if n and len(short & {*map(cut, longer)}) >= least
    }


def lengthening(names: Iterable[str], ours: Iterable[str]) -> tuple[str, int]:
    """Return Python code of a dictionary from shortened to full names of the data, and a count.

    The count is the number of `names` of a table that are equal to a shortened name.

    `ours` are the full names of the data; in the code, {samples} stands for them. They are
    shortened to a number of parts or characters, or to the part after a FID. The shortened names
    must be distinct, and the table must contain more of them than of the full names. Otherwise the
    result is ("", 0).

    >>> lengthening(["P-1", "P-2"], ["P-1-01A", "P-2-11B"])
    ("{{'-'.join(n.split('-')[:2]): n for n in {samples}}}", 2)
    >>> lengthening(["P1", "P2"], ["F1_P1", "F1_P2"])
    ("{{n.partition('_')[2]: n for n in {samples}}}", 2)
    >>> lengthening(["P-1", "P-2"], ["P-1-01A", "P-1-11B"])
    ('', 0)
    """
    theirs, known = set(names), set(ours)
    changes = {
        f"{mark!r}.join(n.split({mark!r})[:{n}])": _beginning(mark, n)
        for mark, n in _parts_of(theirs)
    }
    changes |= _WITHOUT_FAMILY | _cut("n", theirs, known)
    for change, shortened in changes.items():
        short = [*map(shortened, known)]
        n = len(theirs.intersection(short))
        if len(set(short)) == len(short) and n > len(theirs & known):
            return f"{{{{{change}: n for n in {{samples}}}}}}", n
    return "", 0


def _with_blanks(names: Iterable[str], known: Iterable[str]) -> tuple[str, int]:
    """Return Python code of a dictionary from names without blanks to full names, and a count.

    `known` are the names of the data. The count is the number of `names` of a table that are equal
    to a name of the data if blanks are removed. The result is ("", 0) if two names of the table, or
    two of the data, differ only in blanks.
    """
    change = _WAYS[BLANKS]
    theirs, ours = ([*map(change, dict.fromkeys(side))] for side in (names, known))
    if any(len({*side}) < len(side) for side in (theirs, ours)):
        return "", 0
    return f"{{{{re.sub(r'{_BLANKS}', '', n): n for n in {{samples}}}}}}", len({*theirs} & {*ours})


def _ambiguous(names: Iterable[str], known: Iterable[str]) -> dict[str, list[str]]:
    """Map each name that is part of several `known` names to the list of these names.

    A part is the beginning of a known name up to a separator, or the text after a FID.

    >>> _ambiguous(["1", "P1"], ["F1_1", "F2_1", "P1-01A"])
    {'1': ['F1_1', 'F2_1']}
    """
    theirs, full = set(names), dict[str, list[str]]()
    for name in sorted(known):
        parts = {name.partition("_")[2], *(name[:at] for at, c in enumerate(name) if c in _MARKS)}
        for part in parts & theirs:
            full.setdefault(part, []).append(name)
    return {part: several for part, several in full.items() if len(several) > 1}


def _between(before: str, after: str) -> Callable[[str], str]:
    """Return a function that adds a prefix and a suffix to a name."""
    return lambda s: f"{before}{s}{after}"


def renaming(names: Iterable[str], ours: Iterable[str]) -> tuple[str, int]:
    r"""Return a Python expression of s that converts a name of a table to a name of the data.

    `ours` are the names of the data. The second result is the number of converted names among them.

    The expression is "" if none gives more matches than the unchanged names, or if converted names
    are repeated.

    >>> renaming(["007", "008"], ["7", "8"]), renaming(["7", "8"], ["007", "008"])
    (("s.lstrip('0')", 2), ('s.zfill(3)', 2))
    >>> renaming(["P7", "P8"], ["P007", "P018", "P008"])
    ("re.sub(r'\\d+', lambda d: d[0].zfill(3), s, count=1)", 2)
    >>> renaming(["a", "b"], ["c", "d"])
    ('', 0)
    """
    theirs, known = list(dict.fromkeys(names)), set(ours)
    changes, lengths = dict(_CHANGES), {len(name) for name in known}
    if len(lengths) == 1:
        (width,) = lengths
        changes[f"s.zfill({width})"] = lambda s: s.zfill(width)
    digits = {len(run) for name in known for run in re.findall(r"\d+", name)[:1]}
    if len(digits) == 1:
        (n_digits,) = digits
        change = rf"re.sub(r'\d+', lambda d: d[0].zfill({n_digits}), s, count=1)"
        changes[change] = partial(re.sub, r"\d+", lambda d: d[0].zfill(n_digits), count=1)
    for mark, n in _parts_of(known):
        changes[f"{mark!r}.join(s.split({mark!r})[:{n}])"] = _beginning(mark, n)
    if theirs and not _ambiguous(theirs, known):
        longer = sorted((name for name in known if theirs[0] in name), key=lambda s: (len(s), s))
        for before, _, after in (name.partition(theirs[0]) for name in longer[:MOST_TRIED]):
            around = " + ".join(filter(None, (before and repr(before), "s", after and repr(after))))
            changes[around] = added = _between(before, after)
            if 2 * len(known.intersection(map(added, theirs))) < min(len(theirs), len(known)):
                del changes[around]  # an affix that few names have
    changes |= _cut("s", known, theirs)

    def n_matched(change: Callable[[str], str]) -> int:
        matched = [name for name in map(change, theirs) if name in known]
        return len(matched) if len(set(matched)) == len(matched) else 0

    counts = {expression: n_matched(change) for expression, change in changes.items()}
    best = max(counts, key=lambda expression: counts[expression])
    return (best, counts[best]) if counts[best] > len(known & set(theirs)) else ("", 0)


def _but_for_family(strangers: list[str], known: set[str]) -> list[tuple[str, str]]:
    """Return pairs (stranger, known name) in which one name is FID_IID and the other IID."""
    without = {name.partition("_")[2]: name for name in known if "_" in name}
    pairs = [(name, without[name]) for name in strangers if name in without]
    bare = ((name, name.partition("_")[2]) for name in strangers)
    return pairs or [(name, own) for name, own in bare if own in known]


def _changed_in_all_ways(name: str) -> str:
    for change in reversed(_WAYS.values()):
        name = change(name)
    return name


def renaming_expression(names: Iterable[str], ours: Iterable[str], data: str) -> tuple[str, str]:
    """Return a Python expression that converts a name s, and the statements that it needs.

    The expression converts `names` of a table to `ours`, the names of the data. `data` is a Python
    expression for the data. Both results are "" if no rule makes the names equal.
    """
    names, ours = list(names), list(ours)
    change, n_changed = renaming(names, ours)
    lookups = {
        "names.get(s, s)": lengthening(names, ours),
        f"names.get(re.sub(r'{_BLANKS}', '', s), s)": _with_blanks(names, ours),
    }
    lookup = max(lookups, key=lambda expression: lookups[expression][1])
    full_names, n_found = lookups[lookup]
    if n_found <= max(n_changed, len({*names} & {*ours})):
        return change, ""
    samples = f"dhsic.open_source({data}).sample_names()"
    return lookup, f"import dhsic; names = {full_names.format(samples=samples)}; "
