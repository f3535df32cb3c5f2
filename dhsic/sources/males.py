"""Males recognised by their calls on X, of which they have one copy.

Some programs write this copy as 0/0 or 1/1. Such samples have almost no heterozygous calls on X,
while females have many, so the two groups are clearly separated. In inbred samples, or with too few
variants, they are not, and no sample is treated as male.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import warn

#: Number of intervals of X in which heterozygous calls are counted; minimum and maximum number of
#: variants in each; and maximum number of calls.
PLACES, FEWEST, MOST, CALLS = 8, 16, 1024, 1 << 24
#: Share of X at each end that is skipped, because Y has this region too.
ENDS = 0.1
#: Minimum median number of heterozygous calls of females; maximum share of this median for a male,
#: and minimum share for a female.
OFTEN, SELDOM, APART = 12, 0.1, 0.3
#: Largest difference of an imputed dosage from a call, as in PLINK 2 (--hard-call-threshold).
HARD_CALL = 0.1


def places_on_x(features: Index, m: int) -> list[tuple[int, int]]:
    """Return intervals of features on X, (first, end) each, for m samples.

    `features` are the features on X.
    """
    n = len(features)
    first, end = int(ENDS * n), n - int(ENDS * n)
    width = max(FEWEST, min(MOST, CALLS // (m * PLACES)))
    if end - first <= PLACES * width:
        return [(int(features[first]), int(features[end - 1]) + 1)] if end > first else []
    starts = np.linspace(first, end - width, PLACES).astype(int)
    return [(int(features[a]), int(features[a + width - 1]) + 1) for a in starts]


def n_heterozygous(calls: Array) -> Float:
    """Number of heterozygous calls per sample, (m,), in calls (c, m, 2)."""
    is_whole = (calls >= 0).all(axis=-1)
    return np.asarray(((calls[..., 0] != calls[..., 1]) & is_whole).sum(axis=0, dtype=np.float64))


def n_near_one(dosages: Array) -> Float:
    """Number of heterozygous calls of each sample, (m,), in dosages (c, m) of an allele."""
    with np.errstate(invalid="ignore"):
        is_one = np.abs(dosages.astype(np.float64) - 1.0) <= HARD_CALL
    return np.asarray(is_one.sum(axis=0, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class CopiesOfX:
    """Males (m,) by the calls on X; `are_clear` is False where calls do not tell the copies."""

    males: Mask
    are_clear: bool


def males_by_calls(counts: Float, unknown: Mask | None = None) -> CopiesOfX:
    """Samples of so few heterozygous calls on X, `counts` (m,), that they are males.

    Only samples of `unknown` sex (m,) are taken for males (None: all). A warning gives their
    number.
    """
    often = float(np.median(counts[counts >= APART * counts.max()]))
    is_male = counts <= SELDOM * often
    others = counts[~is_male]
    nobody = np.zeros(len(counts), dtype=bool)
    if often < OFTEN or np.quantile(others, 0.02) < APART * often:
        return CopiesOfX(nobody, are_clear=False)
    is_male &= True if unknown is None else unknown
    if is_male.sum() < 2:
        return CopiesOfX(nobody, are_clear=True)
    warn(
        f"{int(is_male.sum()):,} of {len(counts):,} samples have almost no heterozygous calls on "
        "X, although others have many. They are treated as males, whose single copy is written "
        "as two. For them allele frequencies count one allele per call, and tests on X use only "
        "the dosage. If these samples are inbred instead, exclude X (chromosomes=).",
    )
    return CopiesOfX(is_male, are_clear=True)
