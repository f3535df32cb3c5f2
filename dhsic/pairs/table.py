"""Table of pairs: positions and names of their features, and their statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import warn
from dhsic.pairs.inflation import MUCH, Inflation
from dhsic.pairs.scan import HEAVY, Null, ScanResult
from dhsic.sources import AbstractSource
from dhsic.sources.variants import CONTIG, NOWHERE, POSITION, chromosome_name
from dhsic.sources.views import stored_positions

#: Descriptions of the columns.
DESCRIPTIONS = {
    "first": "position in the data of the first feature of the pair",
    "second": "position of the second feature",
    "first_feature": "name of the first feature",
    "second_feature": "name of the second feature",
    "share": "fraction of the labels' variance that the product explains in addition to main "
    "effects; if smaller, the fraction in addition to main effects and squares of both features",
    "share_before": "fraction of the labels' variance that the product explains in addition to "
    "main effects",
    "p_value": "probability of at least such a share for this single pair, if no pair acts jointly",
    "beta": "coefficient of the product of both features",
    "se": "standard error of beta",
    "family_wise": "probability that any pair has at least such a share if no pair acts jointly "
    "(family-wise p-value)",
    "false_discovery": "false discovery rate: expected number of pairs with at least such a share "
    "by chance, divided by the observed number",
    "linkage": "squared correlation of the two features",
}
#: Descriptions that are different if features are paired with environments.
OF_ENVIRONMENTS = {
    "first": "position of the feature in the data",
    "first_feature": "name of the feature",
    "environment": "environment that the feature acts together with",
    "linkage": "squared correlation of feature and environment",
}
#: Descriptions of the columns of variants.
PLACES = {
    "first_contig": "chromosome of the first variant",
    "first_position": "position of the first variant on its chromosome",
    "second_contig": "chromosome of the second variant",
    "second_position": "position of the second variant on its chromosome",
    "distance": "distance in base pairs; -1 if chromosomes are different or unknown",
}


def table_of(
    scanned: ScanResult,
    source: AbstractSource,
    about: Mapping[str, Any],
    effects: tuple[Float, str] | None = None,
    main_inflation: float | None = None,
    environments: Sequence[str] | None = None,
    *,
    warns: bool = True,
) -> xr.Dataset:
    """Build the table of pairs; with `warns`, warn of doubtful p-values.

    `about` contains further attributes. `effects` are coefficients and standard errors (n, 2) of
    the products, and a description of them. `main_inflation` is the inflation of single features.
    If features were paired with columns that are not features, `environments` are their names.
    """
    best, log_p, null = scanned.judged.found, scanned.log_p, scanned.null
    before = scanned.judged.before
    columns = {"share": best.shares, "share_before": before, "p_value": np.exp(log_p)}
    descriptions = dict(DESCRIPTIONS)
    if effects is not None:
        values, descriptions["beta"] = effects
        columns |= {"beta": values[:, 0], "se": values[:, 1]}
    attributes = dict(about) | {
        "n_pairs": scanned.n_pairs,
        "n_reaching": best.n_reaching,
        "n_judged": best.n_judged,
        "n_certain": scanned.judged.n_certain,
        "reach": scanned.reach,
        "functions": scanned.labels.functions,
        "label_columns": scanned.labels.U.shape[1],
        "degrees_of_freedom": scanned.labels.degrees[1],
    }
    if null is not None:
        columns["family_wise"] = null.family_wise(log_p)
        columns["false_discovery"] = null.false_discovery(log_p)
        attributes |= {
            "threshold": (threshold := scanned.threshold(about["alpha"])),
            "n_significant": scanned.n_significant(about["alpha"]),
            "is_counted": int(threshold >= scanned.judged.floor),
            "n_pairs_permuted": scanned.n_permuted,
            "null_location": null.location,
            "null_scale": null.scale,
        }
        if scanned.audited is not None:
            attributes["n_audited"], attributes["n_lost"] = scanned.audited
        if scanned.inflation is not None:
            attributes["inflation"] = scanned.inflation.times
            attributes["inflation_p_value"] = scanned.inflation.p
            attributes["corrected_by"] = scanned.corrected
        for sentence in _doubts(null, scanned.inflation, main_inflation) if warns else ():
            warn(sentence)
    columns["linkage"] = best.linked
    first, second = best.pairs.T
    if environments is None:
        table = pair_table(source, "pairs", first, second, columns, descriptions)
        return table.assign_attrs(attributes)
    paired = np.array(environments, dtype=object)[second - source.n_features].astype(str)
    columns = {"environment": paired, **columns}
    descriptions |= OF_ENVIRONMENTS
    table = pair_table(source, "pairs", first, np.full_like(second, -1), columns, descriptions)
    unused = [name for name in table if str(name).startswith("second")]
    return table.drop_vars([*unused, "distance"], errors="ignore").assign_attrs(attributes)


def _doubts(null: Null, inflation: Inflation | None, main_inflation: float | None) -> Iterator[str]:
    """Yield warnings about doubtful p-values."""
    if null.scale > HEAVY:
        yield (
            "The largest shares of permuted labels are much larger than for normally distributed "
            f"labels (scale {null.scale:.1f} instead of 1), because they depend on a few samples. "
            "Family-wise p-values take this into account: they have less power, and are at least "
            f"1/{null.n + 1:,}, the smallest value that the permutations resolve. Check the labels "
            "for typing errors; use ranks or logarithms, or exclude rare features."
        )
    if inflation is not None and inflation.is_real:
        yield (
            f"Shares of all pairs are {inflation.times:.2f} times as large as with permuted "
            "labels; 95% of the permutations have a smaller factor. Samples may be related, or "
            "come from several populations. p-values were corrected by this factor. For more "
            "power, regress out main effects of a selection (selection=) and principal components "
            "(covariates=)."
        )
    elif main_inflation is not None and main_inflation > MUCH:
        yield (
            "Single features are associated with the labels far more than by chance (lambda "
            f"{main_inflation:.1f}). Either many features act, or the labels depend on "
            "populations or batches. In the second case, features that differ between populations "
            "or batches may seem to act jointly. To check, pass principal components as "
            "covariates=, see dhsic.pca."
        )


def pair_table(
    source: AbstractSource,
    dim: str,
    first: Index,
    second: Index,
    columns: Mapping[str, Array],
    descriptions: Mapping[str, str],
) -> xr.Dataset:
    """Build a table of pairs along `dim`: positions, names and other columns.

    If the second feature is -1, the row is a single feature.
    """
    stored, names, alone = stored_positions(source), source.feature_names(), second < 0
    variables: dict[str, Array] = {
        "first": stored[first],
        "second": np.where(alone, -1, stored[second]),
    }
    if names is not None:
        seconds = np.where(alone, "", names[second]) if alone.any() else names[second]
        variables |= {"first_feature": names[first], "second_feature": seconds}
    described = {**PLACES, **descriptions}
    variables |= _places(source, first, second) | dict(columns)
    return xr.Dataset(
        {
            name: (dim, values, {"description": described[name]})
            for name, values in variables.items()
        }
    )


def _places(source: AbstractSource, first: Index, second: Index) -> dict[str, Array]:
    """Columns with the genomic positions of both variants, by name; empty if unknown."""
    alone, both = second < 0, (first, np.maximum(second, 0))
    contigs, positions = ([_read(source, name, at) for at in both] for name in (CONTIG, POSITION))
    if contigs[0] is None or positions[0] is None:
        return {}
    names = [np.array([*map(chromosome_name, of)], dtype=object) for of in contigs]
    same = (names[0] == names[1]) & ~np.isin(names[0], NOWHERE)
    return {
        "first_contig": contigs[0],
        "first_position": positions[0],
        "second_contig": np.where(alone, "", contigs[1]),
        "second_position": np.where(alone, -1, positions[1]),
        "distance": np.where(same & ~alone, np.abs(positions[1] - positions[0]), -1),
    }


def _read(source: AbstractSource, name: str, at: Index) -> Any:
    """Read the column `name` for the features at positions `at`.

    Contigs are returned as text. The result is None if there is no such column.
    """
    columns = source.feature_columns()
    if columns is None:
        coordinate = source.feature_coords().get(name)
        values = None if coordinate is None else np.asarray(coordinate)[at]
    else:
        values = columns[name].at(at) if name in columns else None
    if values is None:
        return None
    return values.astype(str if name == CONTIG else np.int64)
