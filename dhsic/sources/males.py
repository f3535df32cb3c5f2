"""Males told by their calls on X, of which they have one copy.

Some programs write that copy as 0/0 or 1/1. Such samples have hardly a heterozygous call on X,
where females have many, so the two groups are far apart. In samples that are inbred, or of too few
variants, they are not, and nobody is taken for a male.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import warn

#: Places on X at which heterozygous calls are counted, variants at each, and calls in all.
PLACES, FEWEST, MOST, CALLS = 8, 16, 1024, 1 << 24
#: Part of X at both ends that is left out, because Y has it too.
ENDS = 0.1
#: Heterozygous calls that females have at least in the median; parts of the median up to which a
#: sample is a male, and from which on it is a female.
OFTEN, SELDOM, APART = 12, 0.1, 0.3


def places_on_x(features: Index, m: int) -> list[tuple[int, int]]:
    """First feature and end of stretches of X, whose features are given, for m samples."""
    n = len(features)
    first, end = int(ENDS * n), n - int(ENDS * n)
    width = max(FEWEST, min(MOST, CALLS // (m * PLACES)))
    if end - first <= PLACES * width:
        return [(int(features[first]), int(features[end - 1]) + 1)] if end > first else []
    starts = np.linspace(first, end - width, PLACES).astype(int)
    return [(int(features[a]), int(features[a + width - 1]) + 1) for a in starts]


def n_heterozygous(calls: Array) -> Float:
    """Number of heterozygous calls of each sample, (m,), in calls (c, m, 2)."""
    is_whole = (calls >= 0).all(axis=-1)
    return np.asarray(((calls[..., 0] != calls[..., 1]) & is_whole).sum(axis=0, dtype=np.float64))


def hardly_heterozygous(counts: Float) -> Mask:
    """Samples (m,) of so few heterozygous calls on X, `counts` (m,), that they are males.

    A warning says how many there are.
    """
    often = float(np.median(counts[counts >= APART * counts.max()]))
    is_male = counts <= SELDOM * often
    others = counts[~is_male]
    if often < OFTEN or is_male.sum() < 2 or np.quantile(others, 0.02) < APART * often:
        return np.zeros(len(counts), dtype=bool)
    warn(
        f"{int(is_male.sum()):,} of {len(counts):,} samples have no heterozygous calls on X where "
        "others have many: they are taken for males, whose one copy is written as two. Their calls "
        "are one allele in frequencies, and tests on X look at the dosage alone. If they are "
        "inbred instead, leave X out (chromosomes=).",
    )
    return is_male
