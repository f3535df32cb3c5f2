"""Names of id columns, and rules that tell ids from values.

`dhsic.joins.keys` says which of them names the rows of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from dhsic.validation import is_numeral

#: Columns of PLINK's files that name parents, who are other samples.
PARENTS = frozenset({"pat", "mat", "father", "mother"})
#: Columns that name samples by what they are called, in lower case and without signs.
NAMES = frozenset(
    (
        *("fid", "iid", "sid", "id", "ids", "eid", "feid", "id1", "id2", "rownames"),
        *("fidiid", "famid", "familyid"),
        *("sample", "samples", "individual", "individuals", "name", "names", "barcode", "barcodes"),
    )
)
#: Things whose ids and names samples have, as in ``sample_id`` and ``SubjectName``.
THINGS = (
    "sample|samples|subject|participant|patient|individual|indiv|person|donor|specimen|cell|"
    "animal|line|strain|accession|member|record"
)
#: Columns that a program wrote because a table had an index: a count says nothing there.
NAMELESS = frozenset({"", "index", "level0", "unnamed0"})
#: Columns that name samples wherever they stand.
KEYS = frozenset(
    ("fid", "iid", "id", "ids", "eid", "feid", "rownames", "barcode", "barcodes", "fidiid", "famid")
)
#: What stands for a missing value in text, in any case.
NA = frozenset({"", ".", "na", "nan", "n/a", "#n/a", "<na>", "null"})
#: Text of booleans, in any case, and their numbers.
BOOLEANS = {"false": 0.0, "true": 1.0}

_NAMED = re.compile(rf"({THINGS})(id|ids|name|names|code|barcode)")
#: The index of a table that pandas wrote and read again, once or several times.
_INDEX = re.compile(r"Unnamed: 0(\.\d+)*|level_\d+|row_?(names?|id|number)", re.IGNORECASE)


def plain(column: object) -> str:
    """Name of a column in lower case, letters and digits alone.

    >>> plain("#FID"), plain("Sample_ID")
    ('fid', 'sampleid')
    """
    name = str(column).strip().lower()
    return re.sub(r"[\W_]", "", name) or name


def is_value(text: str) -> bool:
    """Whether a field is a number or a boolean, or says that one is missing.

    >>> [is_value(text) for text in ("1e-3", "TRUE", "NA", "", "case")]
    [True, True, True, True, False]
    """
    lower = text.strip().lower()
    return is_numeral(text) or lower in NA or lower in BOOLEANS


def na_of(na: Iterable[str], name: str) -> tuple[str, ...]:
    """Text that stands for missing values in a column: that of all, and what ``name=text`` says.

    >>> na_of(["?", "bmi=0"], "bmi"), na_of(["?", "bmi=0"], "age")
    (('?', '0'), ('?', 'bmi=0'))
    """
    return tuple(text.removeprefix(f"{name}=") for text in na)


def is_id(column: object) -> bool:
    """Whether a column holds names of samples, or of parents, by what it is called.

    >>> [is_id(name) for name in ("#IID", "sample_id", "", "PAT", "age")]
    [True, True, True, True, False]
    """
    name = plain(column)
    return name in NAMES | NAMELESS | PARENTS or _NAMED.fullmatch(name) is not None


def names_rows_by_name(column: str) -> bool:
    """Whether a column beside the first one names rows by what it is called, and is no feature.

    Stricter than `is_id`: genes are called ID1, and measurements may be called index or name.

    >>> [names_rows_by_name(n) for n in ("patient_id", "PatientID", "IID", "Unnamed: 0.1")]
    [True, True, True, True]
    >>> [names_rows_by_name(name) for name in ("ID1", "index", "name", "Unnamed: 7")]
    [False, False, False, False]
    """
    name = plain(column)
    return name in KEYS or _NAMED.fullmatch(name) is not None or bool(_INDEX.fullmatch(column))


def is_index(name: str, values: Iterable[str]) -> bool:
    """Whether a column is nameless and counts rows, from 0 or 1, as programs write an index."""
    texts = list(values)
    counts = (all(value == str(i) for i, value in enumerate(texts, start)) for start in (0, 1))
    return (plain(name) in NAMELESS or bool(_INDEX.fullmatch(name))) and any(counts)


def abbreviate(items: Iterable[object], most: int = 5) -> str:
    """First few of many, as text.

    >>> abbreviate(["a", "b", "c"], most=2)
    'a, b, ... (3 in all)'
    """
    shown = [str(item) for item in items]
    more = f", ... ({len(shown):,} in all)" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names what was meant, with a space before it; nothing if unlikely.

    >>> did_you_mean("sampl_trait", ["sample_trait", "sample_sex"])
    " Did you mean 'sample_trait'?"
    """
    listed = list(known)
    likely = get_close_matches(name, listed, n=1) or [other for other in listed if name in other]
    return f" Did you mean {likely[0]!r}?" if len(likely) == 1 else ""
