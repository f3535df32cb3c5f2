"""Zarr stores for tests, written by plain zarr calls."""

import numpy as np
import scipy.sparse
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


def dosage(genotypes, policy="scale"):
    """The definition, call by call: (m, d), NaN where missing; fewer copies count as all do."""
    d, m, ploidy = genotypes.shape
    out = np.zeros((m, d))
    for j in range(d):
        for i in range(m):
            alleles = [a for a in genotypes[j, i] if a != -2]
            unknown = -1 in alleles or not alleles
            count = sum(a > 0 for a in alleles)
            if policy == "scale" and alleles:
                count = round(count * ploidy / len(alleles))
            out[i, j] = np.nan if unknown else count
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


# -- AnnData, as anndata 0.12 and 0.13 write it ---------------------------------------------------


def encoded(group, name, values, encoding):
    """Write an index or a column in an encoding; None, NaN and "" are missing where it can."""
    if encoding in ("array", "string-array"):
        dtype = str if encoding == "string-array" else np.asarray(values).dtype
        array = group.create_array(name, shape=(len(values),), dtype=dtype)
        array[...] = np.asarray(values, dtype=object if dtype is str else None)
        array.attrs.update({"encoding-type": encoding, "encoding-version": "0.2.0"})
        return
    version = "0.2.0" if encoding == "categorical" else "0.1.0"
    part = group.create_group(
        name, attributes={"encoding-type": encoding, "encoding-version": version}
    )
    missing = np.array([v is None or v != v for v in values])
    present = [v for v in values if v is not None and v == v]
    if encoding == "categorical":
        part.attrs["ordered"] = bool(getattr(values, "ordered", False))
        names, codes = np.unique(present, return_inverse=True)
        if part.attrs["ordered"]:
            names, codes = np.array(values.categories, dtype=str), values.codes[values.codes >= 0]
        codes_of_all = np.full(len(values), -1, "i1" if len(names) < 128 else "i2")
        codes_of_all[~missing] = codes
        encoded(part, "codes", codes_of_all, "array")
        encoded(part, "categories", names, "string-array" if names.dtype.kind == "U" else "array")
    else:
        kind = "string-array" if encoding == "nullable-string-array" else "array"
        filler = "" if kind == "string-array" else type(present[0])(1)
        filled = [filler if gone else v for v, gone in zip(values, missing, strict=True)]
        encoded(part, "values", filled, kind)
        encoded(part, "mask", missing, "array")  # all False, its chunk is left out


def write_frame(group, name, names, columns=None, *, index="_index", encoding="string-array"):
    """Write `obs` or `var`: names of rows, and columns as (values, encoding)."""
    columns = columns or {}
    about = {"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": index}
    frame = group.create_group(name, attributes=about | {"column-order": list(columns)})
    encoded(frame, index, names, encoding)
    for column, (values, of) in columns.items():
        encoded(frame, column, values, of)


def write_anndata(path, X, *, zarr_format=3, obs=None, var=None, layers=None, obsm=None, **index):
    """Write AnnData with cells c0, c1, ... and genes g0, g1, ..."""
    about = {"encoding-type": "anndata", "encoding-version": "0.1.0"}
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format, attributes=about)
    array = {"attributes": {"encoding-type": "array", "encoding-version": "0.2.0"}}
    chunks = (max(len(X) // 2, 1), max(X.shape[1] // 3, 1))
    group.create_array("X", data=X, chunks=chunks, **array)
    write_frame(group, "obs", [f"c{i}" for i in range(len(X))], obs, **index)
    write_frame(group, "var", [f"g{j}" for j in range(X.shape[1])], var, **index)
    for folder, held in (("layers", layers or {}), ("obsm", obsm or {})):
        part = group.create_group(folder, attributes={"encoding-type": "dict"})
        for name, values in held.items():
            part.create_array(name, data=values, **array)
    group.create_array("raw", shape=(), dtype=bool, attributes={"encoding-type": "null"})
    return group


def write_sparse(group, name, X, encoding="csr_matrix"):
    """Write a matrix as AnnData does a sparse one, a group."""
    matrix = getattr(scipy.sparse, encoding)(X)
    about = {"encoding-type": encoding, "encoding-version": "0.1.0", "shape": list(X.shape)}
    part = group.create_group(name, attributes=about)
    for field in ("data", "indices", "indptr"):
        part.create_array(field, data=getattr(matrix, field))


# -- PLINK ----------------------------------------------------------------------------------------


def write_plink(prefix, X, *, phenotype=None, families=None, samples=None, ids=None, places=None):
    """Write dosages of A1 (m, d), -1 where missing, as .bed, .bim and .fam, call by call."""
    m, d = X.shape
    code = {2: 0b00, -1: 0b01, 1: 0b10, 0: 0b11}
    packed = bytearray(b"\x6c\x1b\x01")
    for j in range(d):
        for first in range(0, m, 4):
            calls = [code[int(v)] for v in X[first : first + 4, j]]
            packed.append(sum(call << 2 * k for k, call in enumerate(calls)))
    prefix.with_suffix(".bed").write_bytes(packed)
    ids = [f"rs{j}" for j in range(d)] if ids is None else ids
    places = range(5, 10 * d, 10) if places is None else places
    variants = zip(ids, places, strict=True)
    lines = [f"{1 + (2 * j >= d)}\t{v}\t0\t{at}\tG\tA\n" for j, (v, at) in enumerate(variants)]
    prefix.with_suffix(".bim").write_text("".join(lines))
    samples = [f"s{i}" for i in range(m)] if samples is None else samples
    families = samples if families is None else families
    phenotype = ["-9"] * m if phenotype is None else phenotype
    rows = zip(families, samples, phenotype, strict=True)
    lines = [f"{f} {s} 0 0 {i * 2 % 5 % 3} {v}\n" for i, (f, s, v) in enumerate(rows)]
    prefix.with_suffix(".fam").write_text("".join(lines))
    return prefix.with_suffix(".bed")
