"""Names of id columns, and rules that distinguish ids from values.

`dhsic.joins.keys` decides which id columns identify the rows of a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from dhsic.validation import is_numeral

#: Names of columns of PLINK files that contain the ids of parents, not of the sample.
PARENTS = frozenset({"pat", "mat", "father", "mother"})
#: Names of columns that contain sample names, in lower case and without punctuation.
NAMES = frozenset(
    (
        *("fid", "iid", "sid", "id", "ids", "eid", "feid", "id1", "id2", "rownames"),
        *("fidiid", "famid", "familyid"),
        *("sample", "samples", "individual", "individuals", "name", "names", "barcode", "barcodes"),
    )
)
#: First words of names of id columns, as in ``sample_id`` and ``SubjectName``.
THINGS = (
    "sample|samples|subject|participant|patient|individual|indiv|person|donor|specimen|cell|"
    "animal|line|strain|accession|member|record"
)
#: Names of columns that programs write for an index; row counts in them are not ids.
NAMELESS = frozenset({"", "index", "level0", "unnamed0"})
#: Names that mark a column of sample names even if it is not the first column.
KEYS = frozenset(
    ("fid", "iid", "id", "ids", "eid", "feid", "rownames", "barcode", "barcodes", "fidiid", "famid")
)
#: Texts for a missing value, in lower case; upper case is equivalent.
NA = frozenset({"", ".", "na", "nan", "n/a", "#n/a", "<na>", "null"})
#: Numeric values of booleans, by their text in lower case; upper case is equivalent.
BOOLEANS = {"false": 0.0, "true": 1.0}

_NAMED = re.compile(rf"({THINGS})(id|ids|name|names|code|barcode)")
#: Pattern of the names of columns that pandas makes of an index when it writes and reads a table.
_INDEX = re.compile(r"Unnamed: 0(\.\d+)*|level_\d+|row_?(names?|id|number)", re.IGNORECASE)


def plain(column: object) -> str:
    """Normalise the name of a column to lower case and to letters and digits only.

    >>> plain("#FID"), plain("Sample_ID")
    ('fid', 'sampleid')
    """
    name = str(column).strip().lower()
    return re.sub(r"[\W_]", "", name) or name


def is_value(text: str) -> bool:
    """Whether a field is a number, a boolean, or a text for a missing value.

    >>> [is_value(text) for text in ("1e-3", "TRUE", "NA", "", "case")]
    [True, True, True, True, False]
    """
    lower = text.strip().lower()
    return is_numeral(text) or lower in NA or lower in BOOLEANS


def na_of(na: Iterable[str], name: str) -> tuple[str, ...]:
    """Return the texts that mean missing in the column `name`; ``name=text`` becomes ``text``.

    >>> na_of(["?", "bmi=0"], "bmi"), na_of(["?", "bmi=0"], "age")
    (('?', '0'), ('?', 'bmi=0'))
    """
    return tuple(text.removeprefix(f"{name}=") for text in na)


def is_id(column: object) -> bool:
    """Whether the name of a column is typical of sample names, or of parents.

    >>> [is_id(name) for name in ("#IID", "sample_id", "", "PAT", "age")]
    [True, True, True, True, False]
    """
    name = plain(column)
    return name in NAMES | NAMELESS | PARENTS or _NAMED.fullmatch(name) is not None


def names_rows_by_name(column: str) -> bool:
    """Whether the name of a column shows that it contains ids, although it is not the first.

    This is stricter than `is_id`, because genes may be called ID1, and measurements index or name.

    >>> [names_rows_by_name(n) for n in ("patient_id", "PatientID", "IID", "Unnamed: 0.1")]
    [True, True, True, True]
    >>> [names_rows_by_name(name) for name in ("ID1", "index", "name", "Unnamed: 7")]
    [False, False, False, False]
    """
    name = plain(column)
    return name in KEYS or _NAMED.fullmatch(name) is not None or bool(_INDEX.fullmatch(column))


def names_an_index(name: str) -> bool:
    """Whether a column has a name that programs give to the index of a frame.

    >>> names_an_index(""), names_an_index("Unnamed: 0"), names_an_index("IID")
    (True, True, False)
    """
    return plain(name) in NAMELESS or bool(_INDEX.fullmatch(name))


def is_index(name: str, values: Iterable[str]) -> bool:
    """Whether a column is an index that pandas wrote: it has such a name and counts the rows."""
    texts = list(values)
    counts = (all(value == str(i) for i, value in enumerate(texts, start)) for start in (0, 1))
    return (plain(name) in NAMELESS or bool(_INDEX.fullmatch(name))) and any(counts)


def abbreviate(items: Iterable[object], most: int = 5) -> str:
    """Join the first items as text, with the total number if there are more.

    >>> abbreviate(["a", "b", "c"], most=2)
    'a, b, ... (3 in all)'
    """
    shown = [str(item) for item in items]
    more = f", ... ({len(shown):,} in all)" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the most similar known name; "" if none is similar.

    >>> did_you_mean("sampl_trait", ["sample_trait", "sample_sex"])
    " Did you mean 'sample_trait'?"
    """
    listed = list(known)
    likely = get_close_matches(name, listed, n=1) or [other for other in listed if name in other]
    return f" Did you mean {likely[0]!r}?" if len(likely) == 1 else ""
