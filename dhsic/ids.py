"""What names samples: columns that hold ids by what they are called, and how ids are written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from dhsic._typing import Array

#: Columns of PLINK's files that say who a sample is; parents are other samples.
FAMILY, PARENTS = "fid", frozenset({"pat", "mat", "father", "mother"})
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

_NAMED = re.compile(rf"({THINGS})(id|ids|name|names|code|barcode)")


def plain(column: object) -> str:
    """Name of a column in lower case, letters and digits alone.

    >>> plain("#FID"), plain("Sample_ID")
    ('fid', 'sampleid')
    """
    name = str(column).strip().lower()
    return re.sub(r"[\W_]", "", name) or name


def is_id(column: object) -> bool:
    """Whether a column holds names of samples, or of parents, by what it is called.

    >>> [is_id(name) for name in ("#IID", "sample_id", "", "PAT", "age")]
    [True, True, True, True, False]
    """
    name = plain(column)
    return name in NAMES | NAMELESS | PARENTS or _NAMED.fullmatch(name) is not None


def as_text(values: Any) -> Array:
    """Ids as text without blanks around it; of several levels joined by "_", whole numbers as such.

    >>> as_text(np.array([1.0, 2.0])).tolist(), as_text(["a ", "b"]).tolist()
    (['1', '2'], ['a', 'b'])
    """
    written = (v.strip() if type(v) is str else _written(v) for v in values)
    return np.array([*written], dtype=object)


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return "_".join(map(_written, value))
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def names_rows(values: Array) -> bool:
    """Whether a column of text holds a name of its own in every row: words, not all numbers."""
    return len(values) > 2 and pd.Index(values).is_unique and not any(map(is_number, values))


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_count(names: Any) -> bool:
    """Whether names are whole numbers 0, 1, 2, ..., as pandas gives where nobody named anything."""
    return is_whole(names) and bool((np.asarray(names) == np.arange(len(names))).all())


def is_whole(names: Any) -> bool:
    """Whether names are whole numbers, and no text of them."""
    index = pd.Index(np.asarray(names), tupleize_cols=False)
    return bool(pd.api.types.is_integer_dtype(index.infer_objects()))


def counts_rows(values: Array) -> bool:
    """Whether text counts the rows that it stands in, from 0 or from 1."""
    return any(all(value == str(i) for i, value in enumerate(values, start)) for start in (0, 1))


def written_twice(values: Array) -> Array:
    """Ids as ``id_id``, which PLINK makes of samples without families."""
    return np.array([f"{value}_{value}" for value in values], dtype=object)


def written_once(values: Array) -> Array | None:
    """Ids that stand there as ``id_id``; None where one does not."""
    halves = [value[: len(value) // 2] for value in values]
    if all(value == f"{half}_{half}" for value, half in zip(values, halves, strict=True)):
        return np.array(halves, dtype=object)
    return None


def quoted(name: str) -> str:
    """A column for sentences; the first one may have no name."""
    return repr(name) if name else "without a name"


def some(items: Iterable[Any], most: int = 5) -> str:
    """First few of many, as text.

    >>> some(["a", "b", "c"], most=2)
    'a, b, ... (3 in all)'
    """
    shown = [str(item) for item in items]
    if len(shown) <= most:
        return ", ".join(shown)
    return ", ".join(shown[:most]) + f", ... ({len(shown):,} in all)"
