"""GWAS-SSF 1.0: the GWAS Catalog's format for summary statistics, a table and its metadata.

The first eight columns and their order are fixed, and every row must have a value in each of them.
So variants are omitted if they have no effect, no position on a human chromosome, or alleles with
letters other than A, C, G and T. Chromosomes are numbers: X is 23, Y is 24 and MT is 25. (In PLINK,
MT is 26.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Float, Mask
from dhsic.cli.out import write_table
from dhsic.errors import InputError
from dhsic.joins.places import chromosome_codes
from dhsic.sources import AbstractSource
from dhsic.sources.ids import abbreviate
from dhsic.sources.variants import ALT, CONTIG, IDS, POSITION, REF, chromosome_names
from dhsic.sources.views import described
from dhsic.storage.folder import replacing
from dhsic.storage.paths import as_path

#: Suffixes of tables in this format; and what is appended for the name of the metadata file.
SUFFIXES, META = (".ssf.tsv", ".ssf.tsv.gz"), "-meta.yaml"
FILE_TYPE = "GWAS-SSF v1.0"
#: Text for missing values in optional columns, and for facts that the user must add.
MISSING, NOT_REPORTED = "#NA", "NR"
#: Numbers of chromosomes; XY are the regions that X and Y share, by their positions on X.
AUTOSOMES = 22
NUMBERS = {str(i): i for i in range(1, AUTOSOMES + 1)} | {"X": 23, "XY": 23, "Y": 24, "MT": 25}
#: Sex chromosomes of other species.
NOT_HUMAN = ("Z", "W", "ZW")
#: Pattern of alleles, and of reference SNP ids.
LETTERS, RSID = "[ACGT]+", r"rs\d+"


@dataclass(frozen=True)
class Study:
    """Facts about a study for the metadata.

    Attributes
    ----------
    trait : str
        Name of the labels.
    n_samples : int
    n_cases : int or None
        None for real labels.
    covariates : tuple of str
    effect : str
        Meaning of the effect size.
    """

    trait: str
    n_samples: int
    n_cases: int | None
    covariates: tuple[str, ...]
    effect: str


def is_ssf(path: str) -> bool:
    """Whether a path has a suffix of GWAS-SSF, see `SUFFIXES`."""
    return path.lower().endswith(SUFFIXES)


def check_ssf(source: AbstractSource, path: str, *, force: bool) -> None:
    """Reject data that are not human variants, and an existing metadata file unless `force`."""
    advice = "For a table of any features, pass --effects effects.tsv."
    lacking = {CONTIG, POSITION, REF, ALT} - {*described(source)}
    if lacking:
        raise InputError(
            "GWAS-SSF needs the chromosome, position and alleles of each feature, but the data "
            f"have no {', '.join(sorted(lacking))}. {advice}"
        )
    placed = chromosome_codes(source)
    assert placed is not None, "the data have contigs"
    names = [str(name) for name in placed[1]]
    others = [n for n in names if n in NOT_HUMAN or (n.isdecimal() and int(n) > AUTOSOMES)]
    if others or not {*names} & {*NUMBERS}:
        raise InputError(
            "GWAS-SSF supports the human chromosomes 1 to 22, X, Y and MT, but the data have "
            f"{abbreviate(others or names)}. {advice}"
        )
    if as_path(path + META).exists() and not force:
        raise InputError(
            f"{path}{META} exists already. Choose another path for --effects, or overwrite it "
            "(--force)."
        )


def write_ssf(
    path: str, result: xr.Dataset, estimates: Float, study: Study, *, is_ref_known: bool
) -> list[str]:
    """Write the table and its metadata file; return sentences about the table.

    `estimates` (d, 5) are the columns of `dhsic.passes.effects`. `is_ref_known` states that
    ``variant_ref`` is the allele of the reference genome.
    """
    table = _table(result, estimates, is_ref_known=is_ref_known)
    masks = _lacking(table)
    is_whole = ~np.logical_or.reduce([*masks.values()])
    is_log = bool((table.loc[is_whole, "p_value"] == 0).any())
    table = table.drop(columns="p_value" if is_log else "neg_log_10_p_value")[is_whole]
    numbers = {"chromosome": "int64", "base_pair_location": "int64", "n": "int64"}
    write_table(table.astype(numbers), path, missing=MISSING)
    places = table[["chromosome", "base_pair_location"]].to_numpy()
    is_sorted = bool(np.array_equal(np.lexsort(places.T[::-1]), np.arange(len(places))))
    _write_meta(path, result, study, is_sorted=is_sorted)
    return [*_left_out(masks), *_notes(path, result, is_log=is_log, is_ref_known=is_ref_known)]


def _table(result: xr.Dataset, estimates: Float, *, is_ref_known: bool) -> pd.DataFrame:
    """Return the table of all variants, with p-values and their logarithms.

    Required values may still be missing; see `_lacking`.
    """
    contigs = pd.Series(result[CONTIG].to_numpy().astype(str))
    names = chromosome_names(contigs.unique())
    n, beta, error, p, minus_log10_p = estimates.T
    columns: dict[str, Any] = {
        "chromosome": contigs.map(names).map(NUMBERS),
        "base_pair_location": result[POSITION].to_numpy(),
        "effect_allele": _alleles(result[ALT].to_numpy()),
        "other_allele": _alleles(result[REF].to_numpy()),
        "beta": beta,
        "standard_error": error,
        "effect_allele_frequency": np.nan,
        "p_value": p,
        "neg_log_10_p_value": minus_log10_p,
    }
    if "allele_frequency" in result:
        columns["effect_allele_frequency"] = result["allele_frequency"].to_numpy()
    table = pd.DataFrame(columns)
    fields = ("chromosome", "base_pair_location", "other_allele", "effect_allele")
    if is_ref_known:
        parts = [table[name].astype("Int64" if i < 2 else str) for i, name in enumerate(fields)]
        table["variant_id"] = parts[0].astype(str).str.cat([s.astype(str) for s in parts[1:]], "_")
    if IDS in result.coords:
        ids = pd.Series(result[IDS].to_numpy().astype(str))
        table["rsid"] = ids.where(ids.str.fullmatch(RSID), MISSING)
    table["ref_allele"] = "OA" if is_ref_known else MISSING
    return table.assign(n=n, p_hsic=result["p"].to_numpy())


def _alleles(values: Array) -> pd.Series[str]:
    return pd.Series(values.astype(str)).str.upper()


def _lacking(table: pd.DataFrame) -> dict[str, Mask]:
    """Return masks (d,) of the variants without a required value, by reason; masks are disjoint."""
    both = [table[name].str.fullmatch(LETTERS) for name in ("effect_allele", "other_allele")]
    masks = {
        "on no chromosome from 1 to 22, X, Y or MT": table["chromosome"].isna(),
        "without a position": table["base_pair_location"] <= 0,
        "with alleles other than one sequence of A, C, G and T each": ~(both[0] & both[1]),
        "without an effect that can be estimated": table["beta"].isna(),
    }
    seen = np.zeros(len(table), dtype=bool)
    first: dict[str, Mask] = {}
    for reason, mask in masks.items():
        first[reason] = mask.to_numpy(bool) & ~seen
        seen |= first[reason]
    return first


def _left_out(masks: Mapping[str, Mask]) -> list[str]:
    """Return a list of one sentence about the omitted variants; empty if none was omitted."""
    n = {reason: int(mask.sum()) for reason, mask in masks.items() if mask.any()}
    if not n:
        return []
    each = ", ".join(f"{count:,} {reason}" for reason, count in n.items())
    return [
        f"Omitted, because GWAS-SSF requires these values: {sum(n.values()):,} variants ({each})"
    ]


def _notes(path: str, result: xr.Dataset, *, is_log: bool, is_ref_known: bool) -> list[str]:
    """Return sentences on missing columns, the form of p-values, and fields to fill in."""
    notes = []
    if is_log:
        notes.append(
            "Some p-values are too small for floating-point numbers, so the table has the column "
            "neg_log_10_p_value instead of p_value"
        )
    if not is_ref_known:
        notes.append(
            f"ref_allele is {MISSING}, because a .bim file does not specify the reference allele"
        )
    if "allele_frequency" not in result:
        notes.append(
            f"effect_allele_frequency is {MISSING}, because the values are not dosages of alleles; "
            "the GWAS Catalog requires it"
        )
    notes.append(
        f"Before you submit the table, replace {NOT_REPORTED} in {PurePath(path).name}{META}: "
        "genome assembly, ancestry and genotyping technology are not in the data"
    )
    return notes


def _write_meta(path: str, result: xr.Dataset, study: Study, *, is_sorted: bool) -> None:
    """Write the metadata file as YAML; values are written in JSON, which is valid YAML."""
    sample: dict[str, Any] = {
        "sample_ancestry_category": [NOT_REPORTED],
        "sample_size": study.n_samples,
        "case_control_study": study.n_cases is not None,
    }
    if study.n_cases is not None:
        sample |= {"case_count": study.n_cases, "control_count": study.n_samples - study.n_cases}
    meta = {
        "author_notes": study.effect,
        "trait_description": [study.trait],
        "genome_assembly": NOT_REPORTED,
        "coordinate_system": "1-based",
        "genotyping_technology": [NOT_REPORTED],
        "samples": [sample],
        "data_file_name": PurePath(path).name,
        "file_type": FILE_TYPE,
        "data_file_md5sum": hashlib.md5(Path(path).read_bytes(), usedforsecurity=False).hexdigest(),
        "analysis_software": f"dhsic {version('dhsic')}",
        "is_harmonised": False,
        "is_sorted": is_sorted,
    }
    if study.covariates:
        meta["adjusted_covariates"] = [*study.covariates]
    date = str(result.attrs["created"])[:10]
    lines = [f"date_metadata_last_modified: {date}"]
    lines += [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in meta.items()]
    with replacing(as_path(path + META)) as file:
        file.write(("\n".join(lines) + "\n").encode())
