"""Technical replicates: samples whose names differ by the number of a repetition.

Measurements of one sample are no independent samples: p-values of three of each are far too small.
Names alone tell: ``P001_rep1``, ``P001_rep2``; and ``P001``, ``P001.1``, as programs make names
unique. Repetitions of a few conditions (``treated_rep1``) are samples of their own, so there must
be many names, with a number in each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dhsic._typing import Array
from dhsic.errors import warn
from dhsic.sources.ids import abbreviate

#: Ends of names that number repetitions, and those that programs write to make names unique.
REPETITION = (
    r"[ _.-](tech(nical)?[ _.-]?)?(rep|repl|replicate|tech|techrep|R|r|run|dup)[ _.-]?\d{1,2}$"
)
MADE_UNIQUE = r"\.\d{1,2}$"
#: Samples that are measured again, at least, and the share of all names that number repetitions.
FEWEST, MOST_SHARE = 10, 0.5
#: Samples beyond which they are cells or single molecules, which nobody names by hand.
MOST = 20_000
#: Names that a sentence shows.
SHOWN = 3


def warn_of_replicates(names: Array | None) -> None:
    """Warn of samples whose `names` (m,) say that they are measurements of fewer ones."""
    if names is None or len(names) > MOST:
        return
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
            return


def repeated(names: Iterable[str], pattern: str) -> list[list[str]]:
    """Names that are equal but for their ends, by groups; none if they are few.

    >>> names = [f"P{i}_rep{k}" for i in range(12) for k in (1, 2)]
    >>> len(repeated(names, REPETITION)), repeated(["wt_rep1", "wt_rep2", "ko_rep1"], REPETITION)
    (12, [])
    """
    end, groups, m = re.compile(pattern), dict[str, list[str]](), 0
    for name in names:
        groups.setdefault(end.sub("", name), []).append(name)
        m += 1
    several = [of for base, of in groups.items() if len(of) > 1 and _is_id(base, of, pattern)]
    n = sum(map(len, several))
    return several if len(several) >= FEWEST and n > MOST_SHARE * m else []


def _is_id(base: str, names: list[str], pattern: str) -> bool:
    """Whether names that have one begin may be of one sample: it holds a number.

    A program that makes names unique leaves the first as it is.
    """
    made_unique = pattern == MADE_UNIQUE
    return any(map(str.isdigit, base)) and (not made_unique or base in names)
