"""Zarr stores for tests, written by plain zarr calls."""

import numpy as np
import zarr

GENOTYPE_DIMS = ("variants", "samples", "ploidy")


def write(group, name, values, dims, **options):
    """Write an array with named dimensions in the group's format; empty chunks too."""
    dtype = str if values.dtype.kind in "OU" else values.dtype
    options = {"chunks": values.shape, "config": {"write_empty_chunks": True}} | options
    if group.metadata.zarr_format == 2:
        options |= {"attributes": {"_ARRAY_DIMENSIONS": list(dims)}} if dims else {}
    else:
        options["dimension_names"] = dims
    array = group.create_array(name, shape=values.shape, dtype=dtype, **options)
    array[...] = values
    return array


def write_matrix(path, X, *, zarr_format=3, features_first=True, dims=None, store=None, **options):
    """Write X (m, d) as the array at the root of `path`."""
    values = X.T if features_first else X
    options = {"config": {"write_empty_chunks": True}} | options
    if dims and zarr_format == 2:
        options["attributes"] = {"_ARRAY_DIMENSIONS": list(dims)}
    elif dims:
        options["dimension_names"] = dims
    array = zarr.create_array(
        store or path,
        shape=values.shape,
        dtype=X.dtype,
        zarr_format=zarr_format,
        overwrite=store is None,
        **options,
    )
    array[...] = values
    return array


def write_vcz(path, genotypes, *, zarr_format=3, n_alleles=3, ids=None, **options):
    """Write genotypes (variants, samples, ploidy) with the arrays VCF Zarr has."""
    d, m, _ = genotypes.shape
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    write(group, "call_genotype", genotypes, GENOTYPE_DIMS, **options)
    write(group, "call_genotype_mask", genotypes < 0, GENOTYPE_DIMS)
    write(group, "contig_id", np.array(["1", "X"], object), ("contigs",))
    write(group, "variant_contig", (np.arange(d) >= d // 2).astype("i1"), ("variants",))
    write(group, "variant_position", (np.arange(d) * 10 + 5).astype("i4"), ("variants",))
    alleles = np.array([["A", "T", "C"][:n_alleles]] * d, object)
    write(group, "variant_allele", alleles, ("variants", "alleles"))
    ids = [f"rs{i}" for i in range(d)] if ids is None else ids
    write(group, "variant_id", np.array(ids, object), ("variants",))
    write(group, "sample_id", np.array([f"s{i}" for i in range(m)], object), ("samples",))
    return group


def draw_genotypes(d, m, ploidy=2, seed=0):
    """Draw allele indices 0 to 2, some missing, and the second half of variants half haploid."""
    rng = np.random.default_rng(seed)
    genotypes = rng.choice(np.array([0, 0, 0, 1, 2, -1], "i1"), size=(d, m, ploidy))
    if ploidy > 1:
        genotypes[d // 2 :, ::2, 1:] = -2
    return genotypes


def dosage(genotypes):
    """The definition, call by call: (m, d), NaN where missing."""
    d, m, _ = genotypes.shape
    out = np.zeros((m, d))
    for j in range(d):
        for i in range(m):
            alleles = [a for a in genotypes[j, i] if a != -2]
            unknown = -1 in alleles or not alleles
            out[i, j] = np.nan if unknown else sum(a > 0 for a in alleles)
    return out


def draw_matrix(m=11, d=23, dtype="f4", seed=0):
    """Draw a matrix with missing values where its dtype has them."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1 if dtype == "i1" else 0, 3, (m, d)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        X[rng.random((m, d)) < 0.1] = np.nan
    return X


def changed(X):
    """A copy with the first value changed."""
    out = X.copy()
    out.flat[0] = out.flat[0] == 0
    return out
