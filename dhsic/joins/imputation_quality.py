"""Imputation quality of dosages: the R2 of MaCH and minimac, as in PLINK 2's --mach-r2-filter.

It is the variance of the dosages, divided by 2p(1-p), the variance of genotypes with the allele
frequency p in Hardy-Weinberg equilibrium: about 1 for genotypes that are known, 0 for dosages
without information.
"""

from __future__ import annotations

import numpy as np

from dhsic._typing import Float, Index
from dhsic.errors import InputError
from dhsic.joins.places import chromosome_codes
from dhsic.joins.sexes import ONE_COPY
from dhsic.sources import AbstractSource
from dhsic.sources.sexes import DIPLOID, dosages_of
from dhsic.sources.values import Alleles
from dhsic.sources.views import SubsetSource

#: Number of features per block when features on X are read again.
BLOCK_FEATURES = 1024


def imputation_quality(
    alleles: Alleles, source: AbstractSource, rows: Index | None, said: str
) -> Float:
    """Compute the imputation quality of all features, (d,): 0 if a feature is constant.

    Features on Y and MT have infinite quality, because their calls are haploid.

    Parameters
    ----------
    alleles : Alleles
        Sums over the samples `rows`.
    said : str
        The filter, for messages.

    Raises
    ------
    InputError
        The values are not dosages.
    """
    m = source.n_samples if rows is None else rows.size
    if alleles.squares is None:
        raise InputError(
            f"{said} filters imputed dosages by their quality, but X contains whole numbers "
            f"({np.dtype(source.dtype)}), which are not imputed dosages. Do not use this filter, "
            "or open the dosages of the data (variable=)."
        )
    alleles.minor_frequency(source, m, said)  # refuses values that count no alleles
    ploidy = source.ploidy or DIPLOID
    quality = _quality(m - alleles.n_missing, alleles.total, alleles.squares, ploidy)
    _set_of_females(quality, source, rows)
    place = chromosome_codes(source)
    if place is not None:
        codes, names = place
        quality[np.isin(names, ONE_COPY)[codes]] = np.inf
    return quality


def _quality(n: Index, total: Float, squares: Float, ploidy: int) -> Float:
    """Compute the ratio of observed to expected variance, (c,), from sums over n dosages.

    The ratio is 0 where it is undefined.
    """
    mean = total / np.maximum(n, 1)
    expected = mean * (1 - mean / ploidy)
    variance = squares / np.maximum(n, 1) - mean**2
    is_defined = (n > 0) & (expected > 0)
    return np.divide(variance, expected, out=np.zeros(len(mean)), where=is_defined)


def _set_of_females(quality: Float, source: AbstractSource, rows: Index | None) -> None:
    """Set the quality of features on X to that in females: dosages of males vary twice as much."""
    features, sexes = source.haploid_features(), source.sexes()
    if not features.size or sexes is None:
        return
    samples = np.arange(source.n_samples) if rows is None else rows
    females = samples[sexes.females[samples]]
    here = SubsetSource(source, features)
    for block in here.blocks(BLOCK_FEATURES) if females.size else ():
        raw, missing = dosages_of(here, block, np.arange(block.width), females)
        sums = (~missing).sum(axis=1), raw.sum(axis=1), (raw**2).sum(axis=1)
        quality[features[block.start : block.stop]] = _quality(*sums, DIPLOID)
