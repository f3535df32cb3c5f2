"""Sexes of samples, for features on chromosomes that only some samples have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dhsic._typing import Float, Index, Mask
from dhsic.errors import warn
from dhsic.joins.places import chromosome_codes
from dhsic.sources import AbstractSource
from dhsic.sources.joined import parts_of
from dhsic.sources.sexes import DIPLOID
from dhsic.sources.values import Alleles
from dhsic.sources.vcz import CallSource
from dhsic.sources.views import SubsetSource, stored_positions, whole_of

#: Chromosomes with at most one copy, and chromosomes whose copy number depends on the sex.
ONE_COPY, BY_SEX = ("Y", "MT", "W"), ("X", "Z")
#: Chromosome that only males have; and chromosome of which males have one copy, females two.
OF_MALES, OF_BOTH = "Y", "X"
#: Sources of the sexes, for sentences.
KNOWN_BY = "Sexes are read from .fam and .psam files, or inferred from the calls on X."


def on_y(source: AbstractSource) -> Mask | None:
    """Mask of the features on Y, (d,); None if there are none, or chromosomes are unknown."""
    return _on(source, (OF_MALES,))


def of_one_copy(source: AbstractSource) -> Mask | None:
    """Mask of the features on Y, MT and W, (d,); None if there are none, or chromosomes unknown."""
    return _on(source, ONE_COPY)


def _on(source: AbstractSource, chromosomes: tuple[str, ...]) -> Mask | None:
    """Mask of the features on some chromosomes, (d,); None if there are none."""
    placed = chromosome_codes(source)
    if placed is None:
        return None
    mask: Mask = np.isin(placed[1], chromosomes)[placed[0]]
    return mask if mask.any() else None


def males_of(source: AbstractSource) -> Mask | None:
    """Mask of the males among all samples, (m,); None if the sex of every sample is unknown.

    Sexes are read from SEX of .fam and .psam files, or inferred from the calls on X.
    """
    sexes = source.sexes()
    return sexes.males if sexes is not None and sexes.are_known else None


def features_on_x(source: AbstractSource) -> Index:
    """Indices of the features on X, if a source contains dosages; empty for other sources."""
    if source.on_x is None:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.isin(stored_positions(source), source.on_x.positions))


def full_dosages(source: AbstractSource) -> Float:
    """Dosage of a homozygous A1 call (or haploid A1 call), for each feature, (d,).

    It is the ploidy of the data, or 1 for features with haploid calls if these are not doubled.
    """
    if parts := parts_of(source):
        stored = np.concatenate([full_dosages(part.source) for part in parts])
        return source.of_features(stored)
    full = np.full(source.n_features, float(source.ploidy or DIPLOID))
    whole = whole_of(source)
    if not isinstance(whole, CallSource) or whole.calls.policy != "count":
        return full
    stored = stored_positions(source)
    once = np.isin(stored, whole.calls.haploid_only_features)
    return np.where(once, 1.0, full)


def missing_rates(
    n_missing: Index,
    source: AbstractSource,
    rows: Index | None,
    count: Callable[[AbstractSource, Index | None], Alleles],
) -> Float:
    """Missing rate of each feature in the samples `rows`, (d,).

    On Y, only males are counted, as in PLINK. If sexes are unknown, features on Y get the rate 0,
    with a warning.

    Parameters
    ----------
    n_missing : (d,)
        Number of missing values of each feature of `source` in `rows` (None: all samples).
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
            f"max_missing= was not applied to {n_lacking:,} features on Y with missing values, "
            f"because the sexes of the samples are unknown. These features are kept. {KNOWN_BY} To "
            "exclude Y, use chromosomes=.",
        )
    if males is None or not n_lacking:
        return np.asarray(rates)
    counted = np.flatnonzero(males) if rows is None else rows[males[rows]]
    if counted.size:
        rates[at] = count(SubsetSource(source, at), counted).n_missing / counted.size
    return np.asarray(rates)
