"""Technical replicates: several measurements of one sample, recognised by their names.

Repeated measurements are not independent, so p-values that count each as a sample are far too
small. Replicates are recognised by the ends of their names: ``P001_rep1``, ``P001_rep2``; or
``P001``, ``P001.1``, which programs write to make names unique. Biological replicates of a few
conditions (``treated_rep1``) are independent samples. To exclude them, a name counts only if it
contains a number before the end, and a warning needs many such names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dhsic._typing import Array
from dhsic.errors import warn
from dhsic.sources.ids import abbreviate

#: Ends of names: numbers of replicates, and numbers that programs append to make names unique.
REPETITION = (
    r"[ _.-](tech(nical)?[ _.-]?)?(rep|repl|replicate|tech|techrep|R|r|run|dup)[ _.-]?\d{1,2}$"
)
MADE_UNIQUE = r"\.\d{1,2}$"
#: Minimum number of samples with replicates; and the share of all names that must be exceeded by
#: the names of their replicates.
FEWEST, MIN_SHARE = 10, 0.5
#: Maximum number of samples: more are cells or molecules, which nobody names by hand.
MOST = 20_000
#: Number of names that the warning shows.
SHOWN = 3


def warn_of_replicates(names: Array | None) -> bool:
    """Warn if many `names` (m,) look like repeated measurements; return whether they do."""
    if names is None or len(names) > MOST:
        return False
    texts = [str(name) for name in names]
    for pattern in (REPETITION, MADE_UNIQUE):
        groups = repeated(texts, pattern)
        if groups:
            n = sum(map(len, groups))
            shown = abbreviate(map(repr, groups[0]), SHOWN)
            warn(
                f"{n:,} of {len(texts):,} samples look like repeated measurements of "
                f"{len(groups):,}, by their names ({shown}). p-values assume independent samples, "
                "and repetitions of one sample make them far too small. Average them, for instance "
                f"in pandas: X = X.groupby(X.index.str.replace(r'{pattern}', '', regex=True)).mean"
                "(). Or keep one of each: list their names for keep=."
            )
            return True
    return False


def repeated(names: Iterable[str], pattern: str) -> list[list[str]]:
    """Group names that are equal except for an end matching `pattern`; [] if they are too few.

    >>> names = [f"P{i}_rep{k}" for i in range(12) for k in (1, 2)]
    >>> len(repeated(names, REPETITION)), repeated(["wt_rep1", "wt_rep2", "ko_rep1"], REPETITION)
    (12, [])
    """
    end, by_base, m = re.compile(pattern), dict[str, list[str]](), 0
    for name in names:
        by_base.setdefault(end.sub("", name), []).append(name)
        m += 1
    groups = [
        group
        for base, group in by_base.items()
        if len(group) > 1 and _are_of_one_sample(base, group, pattern)
    ]
    n = sum(map(len, groups))
    return groups if len(groups) >= FEWEST and n > MIN_SHARE * m else []


def _are_of_one_sample(base: str, names: list[str], pattern: str) -> bool:
    """Whether names may be of one sample: their common beginning `base` contains a number.

    If a program made the names unique, one of them must be `base`, which it left unchanged.
    """
    made_unique = pattern == MADE_UNIQUE
    return any(map(str.isdigit, base)) and (not made_unique or base in names)
