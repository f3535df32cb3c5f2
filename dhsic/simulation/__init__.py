"""Simulated genotypes as a VCF Zarr store of any size, written block by block.

The content of the store depends only on the arguments, and not on the chunks or on the number of
threads. `haplotypes` simulates genotypes, `truth` simulates the trait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import zarr

from dhsic._typing import Array, Index
from dhsic.errors import InputError
from dhsic.runtime.cores import usable_cores
from dhsic.runtime.threads import Threads
from dhsic.simulation.haplotypes import SEGMENT, Cohort, Haplotypes, generator
from dhsic.simulation.truth import Planted, TraitPlan, Truth, plant, truth_path
from dhsic.sources.zarr import chunk_width, create_array, write_array, written_aside

Trait = Literal["binary", "quantitative"]
Layout = Literal["vcz", "plain"]
MAX_THREADS = 8
ALLELES = np.array([(r, a) for r in "ACGT" for a in "ACGT" if r != a], dtype=object)  # (12, 2)
SLAB = 65536  # chunk size of the arrays that have one element per variant


def simulate_genotypes(
    path: str | Path,
    *,
    n_samples: int,
    n_variants: int,
    n_causal: int = 10,
    n_pairs: int = 2,
    n_populations: int = 3,
    missing: float = 0.005,
    heritability: float = 0.8,
    stratification: float = 0.0,
    trait: Trait = "binary",
    seed: int = 0,
    chunk_variants: int | None = None,
    zarr_format: Literal[2, 3] = 3,
    layout: Layout = "vcz",
    contigs: int = 5,
    overwrite: bool = False,
    on_block: Callable[[int], object] | None = None,
) -> Truth:
    """Simulate genotypes with linkage, population structure and a trait as a Zarr store.

    The store is written under a temporary name and renamed when it is complete. The causal variants
    are written to a table next to it, ``<store stem>.truth.tsv``.

    Parameters
    ----------
    path : path
        Path of the store; must not exist, unless `overwrite`.
    n_samples, n_variants : int
        Size of the data. Memory is bounded by a few chunks for any number of variants.
    n_causal, n_pairs : int
        Number of common variants with an additive effect, and number of pairs of variants that act
        only through their product. Every variant or pair explains the same fraction of the trait's
        variance.
    n_populations : int
        Number of populations of the samples; Fst is about 0.05.
    missing : float
        Fraction of calls that are missing.
    heritability : float
        Fraction of the variance of the liability that the causal variants explain.
    stratification : float
        Standard deviation of the population means of the liability, in units of the standard
        deviation of the rest of the liability.
    trait : {"binary", "quantitative"}
        ``"binary"``: ``sample_trait`` is 1 if the liability is above its median, else 0.
        ``"quantitative"``: it is the liability.
    seed : int
        Random seed; the same arguments give the same store.
    chunk_variants : int, optional
        Variants per chunk; by default a power of two such that a chunk has 4 to 16 MiB. All samples
        are in one chunk.
    zarr_format : {2, 3}
    layout : {"vcz", "plain"}
        ``"vcz"``: ``call_genotype`` (variants, samples, ploidy) as in VCF Zarr. ``"plain"``: one
        matrix ``dosage`` (variants, samples), in which -1 means missing.
    contigs : int
        Maximum number of contigs, which consist of whole segments of 512 variants.
    overwrite : bool
        Replace an existing Zarr store.
    on_block : callable, optional
        Called with the number of variants just written.

    Returns
    -------
    Truth
        The causal variants.

    Raises
    ------
    InputError
        The arguments are invalid, or the path exists.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     truth = simulate_genotypes(f"{folder}/g.vcz", n_samples=50, n_variants=600)
    >>> truth.frame()["kind"].value_counts().to_dict()
    {'additive': 10, 'pair': 4}
    """
    _check_choices(trait, layout, zarr_format, contigs, chunk_variants)
    plan = TraitPlan(n_causal, n_pairs, heritability, stratification)
    plan.check_room(n_variants)
    path, cohort = Path(path), Cohort(n_samples, n_populations, missing, seed)
    ploidy = 2 if layout == "vcz" else 1
    width = chunk_variants or chunk_width(n_variants, n_samples * ploidy)
    with written_aside(path, overwrite=overwrite) as aside:
        group = zarr.create_group(aside, zarr_format=zarr_format)
        settings = {
            "seed": seed,
            "n_populations": n_populations,
            "missing": missing,
            **asdict(plan),
        }
        settings["trait"] = trait
        written_by = f"dhsic-{version('dhsic')}"
        group.attrs.update(source=written_by, vcf_zarr_version="0.4", simulation=settings)
        places = _place(n_variants, contigs, seed)
        planted = plant(cohort, n_variants, plan)
        _write_samples(group, cohort, planted, trait)
        _write_variants(group, places, seed)
        _write_calls(group, cohort, n_variants, width, layout, on_block)
        truth = _truth(places, planted, plan)
        truth.write(truth_path(path))
    return truth


@dataclass(frozen=True, slots=True)
class Places:
    """Contig number and position of every variant; positions ascend within a contig."""

    contig: Array  # (d,)
    position: Array  # (d,)
    contig_names: Array  # (contigs,)

    def names(self, which: slice | Index) -> Array:
        """Names of the variants `which`, in the form ``contig:position``."""
        pairs = zip(self.contig_names[self.contig[which]], self.position[which], strict=True)
        return np.array([f"{contig}:{position}" for contig, position in pairs], dtype=object)


def _place(n_variants: int, contigs: int, seed: int) -> Places:
    """Assign a contig and a position to each variant.

    Contigs consist of whole segments (see `haplotypes`), so linkage never spans contigs.
    """
    n_segments = -(-n_variants // SEGMENT)
    n_contigs = min(contigs, n_segments)
    edges = np.linspace(0, n_segments, n_contigs + 1).astype(int) * SEGMENT
    contig = np.repeat(np.arange(n_contigs, dtype=np.int16), np.diff(edges))[:n_variants]
    # Variants are 1 to 2000 bases apart, or less if positions would not fit in 31 bits.
    gap = min(2000, (2**31 - 1) // int(np.diff(edges).max()))
    position = generator(seed, 4).integers(1, gap + 1, size=n_variants, dtype=np.int32)
    for start, stop in pairwise(edges):
        np.cumsum(position[start:stop], out=position[start:stop])
    names = np.array([str(i + 1) for i in range(n_contigs)], dtype=object)
    return Places(contig, position, names)


def _write_samples(group: zarr.Group, cohort: Cohort, planted: Planted, trait: Trait) -> None:
    digits = len(str(cohort.n_samples - 1))
    names = [f"sample_{i:0{digits}d}" for i in range(cohort.n_samples)]
    liability = planted.liability
    binary = (liability > np.median(liability)).astype(np.int8)
    write_array(group, "sample_id", np.array(names, dtype=object), ("samples",))
    write_array(group, "sample_population", cohort.population, ("samples",))
    write_array(group, "sample_trait", binary if trait == "binary" else liability, ("samples",))


def _write_variants(group: zarr.Group, places: Places, seed: int) -> None:
    write_array(group, "contig_id", places.contig_names, ("contigs",))
    write_array(group, "variant_contig", places.contig, ("variants",), SLAB)
    write_array(group, "variant_position", places.position, ("variants",), SLAB)
    # Names are written in slabs: ten million names as Python objects would need a gigabyte.
    d = len(places.contig)
    chunk, dims = min(d, SLAB), ("variants", "alleles")
    names = create_array(group, "variant_id", shape=(d,), dtype=str, chunks=(chunk,), dims=dims[:1])
    alleles = create_array(
        group, "variant_allele", shape=(d, 2), dtype=str, chunks=(chunk, 2), dims=dims
    )
    for start in range(0, d, SLAB):
        slab = slice(start, min(start + SLAB, d))
        rng = generator(seed, 5, start // SLAB)
        names[slab] = places.names(slab)
        alleles[slab] = ALLELES[rng.integers(len(ALLELES), size=SLAB)[: slab.stop - start]]


def _write_calls(
    group: zarr.Group,
    cohort: Cohort,
    n_variants: int,
    width: int,
    layout: Layout,
    on_block: Callable[[int], object] | None,
) -> None:
    """Simulate genotypes, and write them in chunks of `width` variants on a few threads."""
    n_axes, name = (3, "call_genotype") if layout == "vcz" else (2, "dosage")
    array = create_array(
        group,
        name,
        shape=(n_variants, cohort.n_samples, 2)[:n_axes],
        dtype="i1",
        chunks=(width, cohort.n_samples, 2)[:n_axes],
        dims=("variants", "samples", "ploidy")[:n_axes],
    )

    # A task writes a range of variants of at least one segment; otherwise, with narrower chunks,
    # the same segment would be simulated several times.
    stretch = width * max(1, SEGMENT // width)

    def write(start: int) -> int:
        stop, haplotypes = min(start + stretch, n_variants), Haplotypes(cohort)
        draw = haplotypes.genotypes if layout == "vcz" else haplotypes.dosage
        for a in range(start, stop, width):
            b = min(a + width, stop)
            array[a:b] = draw(a, b)
        return stop - start

    with Threads(min(MAX_THREADS, usable_cores())) as threads:
        for n_written in threads.each(write, range(0, n_variants, stretch)):
            if on_block is not None:
                on_block(n_written)


def _truth(places: Places, planted: Planted, plan: TraitPlan) -> Truth:
    site = planted.site
    kind = ["additive"] * plan.n_causal + ["pair"] * (2 * plan.n_pairs)
    return Truth(
        variant_index=site,
        variant_id=places.names(site),
        contig=places.contig_names[places.contig[site]],
        position=places.position[site].astype(np.int64),
        kind=np.array(kind, dtype=object),
        effect=planted.effect,
        partner=planted.partner,
    )


def _check_choices(
    trait: str, layout: str, zarr_format: int, contigs: int, chunk_variants: int | None
) -> None:
    choices: list[tuple[str, object, tuple[object, object]]] = [
        ("trait", trait, ("binary", "quantitative")),
        ("layout", layout, ("vcz", "plain")),
        ("zarr_format", zarr_format, (2, 3)),
    ]
    for name, value, allowed in choices:
        if value not in allowed:
            raise InputError(f"{name}={value!r} is unknown; pass {allowed[0]!r} or {allowed[1]!r}.")
    if not 1 <= contigs <= 32767:
        raise InputError(f"contigs={contigs} is out of range; pass 1 to 32767.")
    if chunk_variants is not None and chunk_variants < 1:
        raise InputError(
            f"chunk_variants={chunk_variants} is too small; pass 1 or more, or None for the "
            "default."
        )
