"""Published formats of text tables, recognised by their column names.

PLINK writes dosages as ``.raw`` (one row per sample) and ``.traw`` (one row per variant). GCT, GEO
series and featureCounts have one row per gene. The format determines the axis of the samples, and
the columns that contain neither names nor values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile

import numpy as np
import xarray as xr

from dhsic._typing import Array
from dhsic.errors import DataError
from dhsic.sources.delimited import Delimited
from dhsic.sources.headers import GCT, GEO
from dhsic.sources.ids import PARENTS, names_an_index, plain
from dhsic.sources.variants import ALLELES, CONTIG, CONTIGS, IDS, POSITION, Variants

#: Columns before the genotypes in .raw; and those of them that are measurements of samples.
PEDIGREE = frozenset({"fid", "iid", "sid", "sex", "phenotype", "pheno", "pheno1", *PARENTS})
PHENOTYPES = frozenset({"sex", "phenotype", "pheno", "pheno1"})
#: Columns before the samples in .traw and in featureCounts; one of .traw may be absent.
TRAW = ("CHR", "SNP", "(C)M", "POS", "COUNTED", "ALT")
GENETIC_DISTANCE = "(C)M"
FEATURE_COUNTS = ("Geneid", "Chr", "Start", "End", "Strand", "Length")
#: Description of the allele that .traw and .raw count.
COUNTED_IN_TRAW = "COUNTED of the table (variant_alt)"
COUNTED_IN_RAW = "the allele after the last '_' of the variant name"

_ALLELE_AT_END = re.compile(r".+_(\w+|<.+>|\*)(\(/.*\))?")


@dataclass(frozen=True)
class TableFormat:
    """Format of a table with one row per feature, in particular of its first columns.

    Attributes
    ----------
    name : str
        Name of the format, for messages.
    names : str
        Column with the names of the features.
    about : tuple of str
        Columns with annotations of the features, which are not samples.
    coords : mapping
        For each column that becomes a coordinate of the features, the name of the coordinate.
    n_rows_apart : int
        Number of rows, above the features, that describe samples.
    """

    name: str
    names: str
    about: tuple[str, ...]
    coords: Mapping[str, str] = field(default_factory=dict)
    n_rows_apart: int = 0

    @property
    def is_traw(self) -> bool:
        """Whether the format is .traw of PLINK."""
        return self.name == ".traw of PLINK"


def format_of(text: Delimited) -> TableFormat | None:
    """Recognise a published format with one row per feature; None for other tables."""
    names, top = text.names, text.top
    if not names:
        return None
    if top.format_name == GCT and top.sizes:
        about = tuple(names[1 : max(1, len(names) - top.sizes[1])])
        coords = {"Description": "description"} if "Description" in about else {}
        n_rows_apart = top.sizes[3] if len(top.sizes) > 3 else 0
        return TableFormat(GCT, names[0], about, coords, n_rows_apart)
    if top.format_name == GEO:
        return TableFormat(GEO, names[0], tuple(n for n in names[1:2] if n == "IDENTIFIER"))
    of_variants = [*takewhile(TRAW.__contains__, names)]
    if {*of_variants} >= {*TRAW} - {GENETIC_DISTANCE}:
        return TableFormat(".traw of PLINK", "SNP", tuple(n for n in of_variants if n != "SNP"))
    if tuple(names[: len(FEATURE_COUNTS)]) == FEATURE_COUNTS:
        return TableFormat("featureCounts", names[0], FEATURE_COUNTS[1:])
    return None


def phenotypes_of_plink(names: Sequence[str]) -> list[str]:
    """Return the columns with sex and phenotype in a PLINK .raw table; [] for other tables.

    A .raw table begins with IID, followed by parents or a phenotype. Another program may have added
    an index before IID.

    >>> phenotypes_of_plink(["FID", "IID", "PAT", "MAT", "SEX", "PHENOTYPE", "rs1_A"])
    ['SEX', 'PHENOTYPE']
    >>> phenotypes_of_plink(["IID", "SEX", "AGE"])
    []
    >>> phenotypes_of_plink(["", "FID", "IID", "PAT", "MAT", "SEX", "PHENOTYPE", "rs1_A"])
    ['SEX', 'PHENOTYPE']
    """
    names = [*dropwhile(names_an_index, names)]
    n = next((i for i, name in enumerate(names) if plain(name) not in PEDIGREE), len(names))
    called = [plain(name) for name in names[:n]]
    is_pedigree = "iid" in called and bool({*called} & ({*PARENTS, *PHENOTYPES} - {"sex"}))
    return [name for name in names[:n] if is_pedigree and plain(name) in PHENOTYPES]


def heterozygotes_in(names: Sequence[str]) -> list[str]:
    """Return the columns of a .raw table that mark heterozygotes (plink --recode AD).

    >>> heterozygotes_in(["rs1_A", "rs1_HET", "rs2_G"])
    ['rs1_HET']
    """
    variants = {name.rpartition("_")[0] for name in names if not name.endswith("_HET")}
    return [n for n in names if n.endswith("_HET") and n.removesuffix("_HET") in variants]


def counts_alleles(names: Sequence[str]) -> bool:
    """Whether all variant names end in the counted allele, as in a .raw table."""
    return all(map(_ALLELE_AT_END.fullmatch, names))


def variants_of_traw(path: str, held: Mapping[str, Array]) -> Variants:
    """Create the variants of a .traw table from its columns, which are given by name.

    Raises
    ------
    DataError
        A position is not a whole number.
    """
    try:
        positions = held["POS"].astype(np.int64)
    except ValueError as error:
        raise DataError(
            f"{path} contains a position in POS that is not a whole number ({error}). Correct it."
        ) from error
    contigs, index = np.unique(held["CHR"].astype(str), return_inverse=True)
    alleles = np.column_stack([held["ALT"], held["COUNTED"]]).astype(object)
    dataset = xr.Dataset({
        CONTIG: ("variants", index),
        CONTIGS: ("contigs", contigs.astype(object)),
        POSITION: ("variants", positions),
        ALLELES: (("variants", "alleles"), alleles),
        IDS: ("variants", held["SNP"]),
    })  # fmt: skip
    return Variants(dataset)


def samples_of_traw(names: Array) -> Array:
    """Return the sample names of a .traw table: FID_IID, or IID if all FIDs are "0"."""
    if all(name.startswith("0_") for name in names):
        return np.array([name[2:] for name in names], dtype=object)
    return names
