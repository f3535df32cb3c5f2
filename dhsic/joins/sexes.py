"""Sexes of samples, for features on chromosomes that not all samples have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.errors import warn
from dhsic.joins.places import chromosome_codes
from dhsic.sources import AbstractSource
from dhsic.sources.plink import AbstractPlinkSource
from dhsic.sources.values import Alleles
from dhsic.sources.vcz import CallSource
from dhsic.sources.views import SubsetSource, whole_of

#: Chromosome that only males have.
OF_MALES = "Y"


def on_y(source: AbstractSource) -> Mask | None:
    """Features on Y, (d,); None if there are none, or no chromosomes are known."""
    placed = chromosome_codes(source)
    if placed is None:
        return None
    mask = (placed[1] == OF_MALES)[placed[0]]
    return mask if mask.any() else None


def males_of(source: AbstractSource) -> Mask | None:
    """Samples that are male, (m,), of all samples; None if the sex of no sample is known.

    Sexes are SEX of .fam and .psam, or told by the haploid calls of VCF Zarr on X.
    """
    whole = whole_of(source)
    if isinstance(whole, AbstractPlinkSource):
        is_known = whole.males.any() or whole.females.any()
        return whole.males if is_known else None
    if isinstance(whole, CallSource) and whole.calls.males.any():
        return whole.calls.males
    return None


def missing_rates(
    n_missing: Index,
    source: AbstractSource,
    rows: Index | None,
    count: Callable[[AbstractSource, Index | None], Alleles],
) -> Float:
    """Missing rate of each feature in the samples `rows`, (d,); on Y in males, as PLINK counts.

    Features on Y have the rate 0, with a warning, if sexes are not known.

    Parameters
    ----------
    n_missing : (d,)
        Missing values of the features of `source` in `rows` (None: all samples).
    count : callable
        Counts alleles and missing values of all features of a source in some samples.
    """
    rates = n_missing / (source.n_samples if rows is None else rows.size)
    mask = on_y(source) if n_missing.any() else None
    if mask is None:
        return np.asarray(rates)
    at, males = np.flatnonzero(mask), males_of(source)
    n_lacking = int((rates[at] > 0).sum())
    rates[at] = 0.0
    if males is None and n_lacking:
        warn(
            f"max_missing= does not count {n_lacking:,} features on Y that lack values, as the "
            "sexes of the samples are not known: they stay. Sexes are those of .fam and .psam, or "
            "told by the haploid calls of VCF Zarr on X; chromosomes= leaves Y out.",
        )
    if males is None or not n_lacking:
        return np.asarray(rates)
    counted = np.flatnonzero(males) if rows is None else rows[males[rows]]
    if counted.size:
        rates[at] = count(SubsetSource(source, at), counted).n_missing / counted.size
    return np.asarray(rates)
