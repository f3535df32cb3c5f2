"""`dhsic test --effects`: additive effects of variants, as programs for association studies read.

Columns are those that METAL, LDSC (munge_sumstats), FUMA and LocusZoom know by name; BETA is for
one more copy of A1, the alternative allele, as in ``plink2 --glm``.
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
from dhsic.kernels.labels import MIXED, REAL_KERNELS, auto_kernel
from dhsic.passes.effects import AdditiveEffects
from dhsic.passes.once import looked_at
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.sources.columns import NAME
from dhsic.sources.variants import ALT, CONTIG, IDS, POSITION, REF
from dhsic.validation import is_number

#: Labels that are controls; of other two classes that is the first one in order.
CONTROLS = frozenset(("control", "controls", "ctrl", "ctl", "healthy", "unaffected", "no", "false"))
#: Columns that describe a variant, by what results call them.
DESCRIBED = {"CHROM": CONTIG, "POS": POSITION, "ID": IDS, "REF": REF, "ALT": ALT}


def response_of(y: Array | None) -> tuple[Float, str]:
    """Labels (m,) as a regression takes them, and which class is 1; "" of real labels.

    Raises
    ------
    InputError
        There are several targets, or other than two classes.
    """
    labels = None if y is None else np.asarray(y)
    if labels is None or (labels.ndim > 1 and labels.shape[1] > 1):
        raise InputError("--effects is for one target at a time; pass one --target.")
    labels = labels.ravel()
    if auto_kernel(labels) in (*REAL_KERNELS, MIXED):
        return labels.astype(np.float64), ""
    names, codes = np.unique(labels, return_inverse=True)
    if names.size != 2:
        raise InputError(
            f"--effects is for real labels or two classes, and there are {names.size} classes; "
            "leave it out, or test each class against the rest with labels of your own."
        )
    case = 0 if str(names[1]).strip().lower() in CONTROLS else 1
    name = names[case]
    return (codes == case).astype(np.float64), f"{name:g}" if is_number(name) else str(name)


def write_effects(
    given: Labelled, result: xr.Dataset, runtime: AbstractRuntime, path: str
) -> list[str]:
    """Compute additive effects in a pass and write them; returns sentences that explain them."""
    y, case = response_of(given.y)
    asked = AdditiveEffects.of(y, given.covariates, is_logistic=bool(case))
    with single_blas_thread():
        reader, _ = looked_at(given.source, runtime, given.rows)
        jobs = reader.jobs(np.arange(given.source.n_features, dtype=np.int64))
        n, beta, error, p = np.concatenate([*reader.joined(asked, jobs)]).T
    table = pd.DataFrame(described_by(result))
    if "ALT" in table:
        table["A1"], table["A2"] = table["ALT"], table["REF"]
    if "allele_frequency" in result:
        table["A1_FREQ"] = result["allele_frequency"].to_numpy()
    table["N"], table["BETA"], table["SE"] = n.astype(np.int64), beta, error
    if case:
        table["OR"], table["LOG(OR)_SE"] = np.exp(beta), error
    table["P"] = p
    table["P_HSIC"] = result["p"].to_numpy()
    write_table(table, path)
    what = "change of the label"
    if case:
        what = f"logarithm of the odds ratio of {case} (logistic regression)"
    lost = int(np.isnan(beta).sum())
    told = [f"BETA is the {what} for one more copy of A1, SE its standard error, P its p-value"]
    if lost:
        told.append(f"{lost:,} features have no effect that can be estimated: empty fields")
    return told


def described_by(result: xr.Dataset) -> dict[str, Any]:
    """Place, id and alleles of each feature, those that a result knows."""
    found = {name: result[of].to_numpy() for name, of in DESCRIBED.items() if of in result.coords}
    named = NAME in result.coords
    names = result[NAME].to_numpy() if named else np.arange(result["p"].size).astype(str)
    if "ID" not in found:
        return {**{k: v for k, v in found.items() if k in ("CHROM", "POS")}, "ID": names, **found}
    found["ID"] = np.where(np.isin(found["ID"].astype(str), (".", "")), names, found["ID"])
    return found
