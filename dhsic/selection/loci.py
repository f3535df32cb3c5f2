"""Loci of a genome-wide test: significant variants, clumped by linkage with a lead variant.

As in PLINK's ``--clump``, variants are visited by ascending p-value. A variant that is in linkage
with a nearby lead variant belongs to the locus of that lead; otherwise it is the lead of a new
locus. `dhsic.selection.clumping` compares the variants, one chromosome at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import xarray as xr

from dhsic._typing import Array, Float, Index
from dhsic.errors import InputError
from dhsic.joins.labels import Labelled
from dhsic.passes import Measure
from dhsic.passes.inner import inner_products
from dhsic.passes.reader import Reader
from dhsic.passes.single_pass import look_at
from dhsic.results.nearest_genes import DISTANCE, GENE
from dhsic.results.tables import variant_ids
from dhsic.runtime.base import AbstractRuntime
from dhsic.runtime.threads import single_blas_thread
from dhsic.selection.clumping import MOST, clump, squared_correlations
from dhsic.sources import AbstractSource
from dhsic.sources.values import recoded
from dhsic.sources.variants import CONTIG, POSITION
from dhsic.sources.views import SubsetSource, described
from dhsic.validation import is_number

#: Name of the result variable: number of the locus of each variant, 1 for the best; 0 if in none.
LOCUS = "locus"
LONG_NAME = "number of the locus, from 1 for the smallest p-value; 0 for variants outside of loci"


@dataclass(frozen=True)
class LociRequest:
    """Thresholds that define loci.

    Attributes
    ----------
    p : float
        Largest p-value of a variant in a locus.
    r2 : float
        Squared correlation above which a variant belongs to the locus of a lead.
    kb : float
        Largest distance from the lead, in kilobases.
    """

    p: float = 5e-8
    r2: float = 0.1
    kb: float = 250.0

    def check(self, source: AbstractSource) -> None:
        """Reject thresholds out of range, and data without genomic positions."""
        for name, value, most in (("--loci-p", self.p, 1), ("--loci-r2", self.r2, 1)):
            if not (is_number(value) and 0 < value < most):
                raise InputError(f"{name} is {value!r}; pass a number between 0 and {most}.")
        if not (is_number(self.kb) and self.kb > 0):
            raise InputError(f"--loci-kb is {self.kb!r}; pass a distance in kilobases such as 250.")
        if not {CONTIG, POSITION} <= set(described(source)):
            raise InputError(
                "--loci needs the chromosome and position of each feature, but the data do not "
                "contain these. Leave --loci out."
            )

    def of(self, result: xr.Dataset, given: Labelled, runtime: AbstractRuntime) -> xr.Dataset:
        """Add the locus of each variant to the results of a test.

        The variants with p-values of at most `p` are read from the source of `given`.
        """
        p = result["p"].to_numpy()
        best_first = np.argsort(result["rank"].to_numpy(), kind="stable")
        best = best_first[p[best_first] <= self.p]
        leads = np.arange(p.size)
        if best.size:
            with single_blas_thread():
                self._clump(best, leads, result, given, runtime)
        of_best: Array = leads[best]
        numbers = pd.factorize(of_best)[0] + 1
        locus = np.zeros(p.size, dtype=np.int64)
        locus[best] = numbers
        about = {"loci_p": self.p, "loci_r2": self.r2, "loci_kb": float(self.kb)}
        variable = (result["rank"].dims[-1], locus, {"long_name": LONG_NAME})
        return result.assign({LOCUS: variable}).assign_attrs(about)

    def _clump(
        self,
        best: Index,
        leads: Index,
        result: xr.Dataset,
        given: Labelled,
        runtime: AbstractRuntime,
    ) -> None:
        """Write the lead variant of each variant in `best` (n,), best first, into `leads` (d,)."""
        variants = np.sort(best)
        values = look_at(given.source, runtime, given.rows)
        source = recoded(SubsetSource(given.source, variants), values)
        reader = Reader(source, runtime, given.rows)
        reader.measure(Measure(standardize=True))
        contigs = result[CONTIG].to_numpy()[variants].astype(str)
        positions = result[POSITION].to_numpy()[variants].astype(np.int64)
        places = np.searchsorted(variants, best)  # best first
        for name in np.unique(contigs):
            here = places[contigs[places] == name]
            linkage = partial(self._linkage, reader, positions)
            lead_places, lead_of = clump(here, linkage, MOST + 1, self.r2)
            if lead_places.size > MOST:
                raise InputError(
                    f"More than {MOST:,} loci on chromosome {name} have p <= {self.p:g}, which is "
                    "too many; pass a smaller --loci-p."
                )
            for place, lead in lead_of.items():
                leads[variants[place]] = variants[lead]

    def _linkage(self, reader: Reader, positions: Index, at: Index) -> Float:
        """Squared correlations (n, n) of the variants `at` (n,); 0 if farther apart than `kb`."""
        r2 = squared_correlations(inner_products(reader, at))
        r2[np.abs(positions[at][:, None] - positions[at]) > 1000 * self.kb] = 0.0
        return r2


def loci_table(result: xr.Dataset) -> pd.DataFrame:
    """Table of the loci of a result, one row per locus, the best locus first.

    Columns: ``locus``; ``lead`` and its ``contig``, ``position``, ``p`` and ``q``; ``start`` and
    ``end``, the first and last position of the locus; ``n_variants``, its number of variants; and,
    if the result has them, ``gene`` and ``gene_distance`` of the lead.
    """
    locus = result[LOCUS].to_numpy()
    best_first = np.argsort(result["rank"].to_numpy(), kind="stable")
    members = best_first[locus[best_first] > 0]
    frame = pd.DataFrame({
        "locus": locus[members],
        "lead": variant_ids(result)[members],
        "contig": result[CONTIG].to_numpy()[members],
        "position": result[POSITION].to_numpy()[members],
        "p": result["p"].to_numpy()[members],
        "q": result["q"].to_numpy()[members],
        **{n: result[n].to_numpy()[members] for n in (GENE, DISTANCE) if n in result},
    })  # fmt: skip
    each = frame.groupby("locus", sort=True)
    leads = each.first()
    positions = each["position"]
    table: pd.DataFrame = leads.assign(
        start=positions.min(), end=positions.max(), n_variants=each.size()
    ).reset_index()
    genes = {n: table.pop(n) for n in (GENE, DISTANCE) if n in table}  # the last columns
    return table.assign(**genes)
