"""Recognition of males by their calls on chromosome X, of which they have one copy.

Some programs write the single copy as a diploid call, 0/0 or 1/1. Males then have almost no
heterozygous calls on X, while females have many, so the two groups are clearly separated. If they
are not, as in inbred samples or with too few variants, no sample is treated as male.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhsic._typing import Array, Float, Index, Mask
from dhsic.errors import warn

#: Number of intervals of X in which heterozygous calls are counted; minimum and maximum number of
#: variants in each; and maximum number of calls in all intervals.
PLACES, FEWEST, MOST, CALLS = 8, 16, 1024, 1 << 24
#: Share of the variants at each end of X that is skipped: Y has these regions, too
#: (pseudoautosomal regions), so males have two copies.
ENDS = 0.1
#: Minimum median number of heterozygous calls of females; maximum number for a male, and minimum
#: number for a female, as shares of this median.
OFTEN, SELDOM, APART = 12, 0.1, 0.3
#: Largest difference of an imputed dosage from a call, as in PLINK 2 (--hard-call-threshold).
HARD_CALL = 0.1


def places_on_x(features: Index, m: int) -> list[tuple[int, int]]:
    """Choose the ranges of features on X in which heterozygous calls of m samples are counted.

    `features` are the ascending positions of the features on X in the source. Each range is a pair
    (start, stop) of positions, without `stop` itself.
    """
    n = len(features)
    first, end = int(ENDS * n), n - int(ENDS * n)
    width = max(FEWEST, min(MOST, CALLS // (m * PLACES)))
    if end - first <= PLACES * width:
        return [(int(features[first]), int(features[end - 1]) + 1)] if end > first else []
    starts = np.linspace(first, end - width, PLACES).astype(int)
    return [(int(features[a]), int(features[a + width - 1]) + 1) for a in starts]


def n_heterozygous(calls: Array) -> Float:
    """Count the heterozygous calls of each sample, (m,); calls are pairs of alleles (c, m, 2)."""
    is_whole = (calls >= 0).all(axis=-1)
    return np.asarray(((calls[..., 0] != calls[..., 1]) & is_whole).sum(axis=0, dtype=np.float64))


def n_near_one(dosages: Array) -> Float:
    """Count each sample's dosages near 1, which mean heterozygous calls: (c, m) to (m,)."""
    with np.errstate(invalid="ignore"):
        is_near_one = np.abs(dosages.astype(np.float64) - 1.0) <= HARD_CALL
    return np.asarray(is_near_one.sum(axis=0, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class CopiesOfX:
    """Mask of the males that were recognised by their calls on X."""

    males: Mask  # (m,)
    are_clear: bool  # False if the numbers of heterozygous calls do not separate two groups


def males_by_calls(counts: Float, unknown: Mask | None = None) -> CopiesOfX:
    """Recognise males by their few heterozygous calls on X, and warn of their number.

    Parameters
    ----------
    counts : (m,)
        Number of heterozygous calls of each sample.
    unknown : (m,) bool, optional
        Samples whose sex is unknown; only these can be males. By default all samples.
    """
    female_median = float(np.median(counts[counts >= APART * counts.max()]))
    is_male = counts <= SELDOM * female_median
    female_counts = counts[~is_male]
    no_males = np.zeros(len(counts), dtype=bool)
    if female_median < OFTEN or np.quantile(female_counts, 0.02) < APART * female_median:
        return CopiesOfX(no_males, are_clear=False)
    is_male &= True if unknown is None else unknown
    if is_male.sum() < 2:
        return CopiesOfX(no_males, are_clear=True)
    warn(
        f"{int(is_male.sum()):,} of {len(counts):,} samples have almost no heterozygous calls on "
        "X, although others have many. They are treated as males whose single copy of X is "
        "written as two. Allele frequencies therefore count one allele per call of a male, and "
        "tests on X use only the dosage. If these samples are inbred instead, exclude X "
        "(chromosomes=).",
    )
    return CopiesOfX(is_male, are_clear=True)
