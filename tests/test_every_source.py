"""The same matrix from every source and in every layout: the same ranking, bit for bit.

Scores are the same too where values are as exact: those of doubles are computed in doubles, and
differ from those of calls and of single precision in the last places.
"""

from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr
from stores import write, write_anndata, write_matrix, write_plink, write_sparse, write_vcz

import dhsic

M, D = 45, 70
RNG = np.random.default_rng(11)
CALLS = RNG.binomial(2, RNG.uniform(0.2, 0.6, D), (M, D)).astype("i1")
CALLS[RNG.random((M, D)) < 0.03] = -1
Y = (CALLS[:, 5] + CALLS[:, 40] + RNG.normal(size=M) > 2).astype(int)
DOSES = np.where(CALLS == -1, np.nan, CALLS.astype(float))
SAMPLES, FEATURES = [f"s{i}" for i in range(M)], [f"rs{j}" for j in range(D)]
CODED = {"n_samples": M, "missing_code": -1}


def zarr_in(chunks, **options):
    """An array of Zarr in such chunks (of features, of samples)."""

    def make(folder):
        write_matrix(folder / "x.zarr", CALLS, chunks=chunks, **options)
        return folder / "x.zarr", CODED

    return make


def samples_first(folder):
    write_matrix(folder / "x.zarr", CALLS, features_first=False, chunks=(1, D))
    return folder / "x.zarr", CODED


def zipped(folder):
    with zarr.storage.ZipStore(folder / "x.zip", mode="w") as store:
        write_matrix(None, CALLS, store=store, chunks=(9, M))
    return folder / "x.zip", CODED


def converted(folder):
    table, _ = csv(folder)
    dhsic.convert(table, folder / "out.zarr")
    return folder / "out.zarr", {}


def frame():
    return pd.DataFrame(DOSES, SAMPLES, FEATURES)


def csv(folder):
    frame().to_csv(folder / "x.csv", index_label="sample")
    return folder / "x.csv", {}


def genes_by_samples(folder):
    frame().T.to_csv(folder / "x.tsv.gz", sep="\t", index_label="gene", na_rep="NA")
    return folder / "x.tsv.gz", {"sample_dim": 1}


def parquet(folder):
    pytest.importorskip("pyarrow")
    frame().to_parquet(folder / "x.parquet", row_group_size=7)
    return folder / "x.parquet", {}


def polars(folder):
    return pytest.importorskip("polars").DataFrame(dict(zip(FEATURES, DOSES.T, strict=True))), {}


def npy(order):
    def make(folder):
        np.save(folder / "x.npy", np.array(CALLS, order=order))
        return folder / "x.npy", {"missing_code": -1}

    return make


def npz(folder):
    np.savez_compressed(folder / "x.npz", X=CALLS)
    return folder / "x.npz", {"missing_code": -1}


def vcf_zarr(zarr_format):
    def make(folder):
        calls = np.stack([CALLS.T > 0, CALLS.T > 1], axis=2).astype("i1")
        calls[CALLS.T == -1] = -1
        options = {"zarr_format": zarr_format, "chunks": (8, 20, 2)}
        write_vcz(folder / "x.vcz", calls, n_alleles=2, **options)
        return folder / "x.vcz", {}

    return make


def dosages_of_vcf(folder):
    group = zarr.open_group(folder / "x.vcz", mode="w")
    write(group, "call_dosage", DOSES.T.astype("f4"), ("variants", "samples"), chunks=(6, 45))
    return folder / "x.vcz", {}


def bed(folder):
    return write_plink(folder / "x", CALLS), {}


def pgen(folder):
    pytest.importorskip("pgenlib")
    from test_plink import write_pgen

    return write_pgen(folder / "x", CALLS), {}


def bgen(folder):
    pytest.importorskip("bgen")
    from test_bgen import of_calls, write_bgen

    return write_bgen(folder / "x.bgen", of_calls(CALLS)), {}


def vcf(folder):
    pytest.importorskip("cyvcf2")
    from test_vcf import rows_of, write_vcf

    return write_vcf(folder / "x.vcf.gz", rows_of(CALLS), M), {}


def h5ad(kind):
    def make(folder):
        h5py = pytest.importorskip("h5py")
        from test_h5ad import put, put_frame

        with h5py.File(folder / "x.h5ad", "w") as file:
            file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
            put(file, "X", kind(DOSES))
            put_frame(file, "obs", SAMPLES, pd.DataFrame())
            put_frame(file, "var", FEATURES, pd.DataFrame())
        return folder / "x.h5ad", {}

    return make


def anndata_zarr(encoding):
    def make(folder):
        group = write_anndata(folder / "x.zarr", DOSES)
        if encoding != "dense":
            del group["X"]
            write_sparse(group, "X", DOSES, encoding)
        return folder / "x.zarr", {}

    return make


def bucket(folder, s3):
    write_matrix(folder / "x.zarr", CALLS, chunks=(11, M))
    for path in (folder / "x.zarr").rglob("*"):
        if path.is_file():
            s3.set(f"{folder.name}/{path.relative_to(folder)}", path.read_bytes())
    return f"s3://bucket/{folder.name}/x.zarr", CODED


#: As `docs/inputs.md` lists them.
SOURCES = {
    "NumPy, int8": lambda _: (CALLS, {"missing_code": -1}),
    "NumPy, float64": lambda _: (DOSES, {}),
    "NumPy, float32, Fortran": lambda _: (np.asfortranarray(DOSES.astype("f4")), {}),
    "pandas": lambda _: (frame(), {}),
    "polars": polars,
    "dask": lambda _: (da.from_array(CALLS, chunks=(13, 17)), {"missing_code": -1}),
    "xarray": lambda _: (xr.DataArray(CALLS.T, dims=("variants", "samples")), {"missing_code": -1}),
    "Zarr 3": zarr_in((16, M)),
    "Zarr 2": zarr_in((16, M), zarr_format=2),
    "Zarr 3, sharded": zarr_in((8, M), shards=(32, M)),
    "Zarr, one chunk per feature": zarr_in((1, M)),
    "Zarr, one chunk per sample": samples_first,
    "Zarr, one chunk": zarr_in((D, M)),
    "Zarr, uneven chunks in both dimensions": zarr_in((9, 7)),
    "Zarr, zipped": zipped,
    "Zarr, in a bucket": bucket,
    "VCF Zarr 2": vcf_zarr(2),
    "VCF Zarr 3": vcf_zarr(3),
    "VCF Zarr, dosages": dosages_of_vcf,
    "PLINK .bed": bed,
    "PLINK .pgen": pgen,
    "BGEN": bgen,
    "VCF": vcf,
    "AnnData .h5ad, dense": h5ad(np.asarray),
    "AnnData .h5ad, CSR": h5ad(sp.csr_matrix),
    "AnnData .h5ad, CSC": h5ad(sp.csc_matrix),
    "AnnData Zarr, dense": anndata_zarr("dense"),
    "AnnData Zarr, CSR": anndata_zarr("csr_matrix"),
    "scipy, CSR": lambda _: (sp.csr_array(DOSES), {}),
    "CSV": csv,
    "CSV, converted": converted,
    "TSV, genes x samples, compressed": genes_by_samples,
    "Parquet": parquet,
    ".npy": npy("C"),
    ".npy, Fortran": npy("F"),
    ".npz": npz,
}


def ranked(data, **options):
    source = dhsic.open_source(data, **options)
    found = dhsic.select(source, Y, n_features_to_select=10, progress=False)
    return found["rank"].to_numpy().tolist(), found["score"].to_numpy().tolist(), source.dtype


@pytest.fixture(scope="module")
def expected():
    return {of.dtype: ranked(of, missing_code=-1)[:2] for of in (CALLS, DOSES)}


@pytest.mark.parametrize("name", SOURCES)
def test_the_ranking_is_that_of_the_matrix(name, expected, tmp_path, request):
    make = SOURCES[name]
    more = (request.getfixturevalue("s3"),) if make is bucket else ()
    data, options = make(tmp_path, *more)
    rank, score, dtype = ranked(data, **options)
    assert all(rank == known for known, _ in expected.values())
    assert score == expected[DOSES.dtype if dtype == DOSES.dtype else CALLS.dtype][1]


def test_the_documentation_lists_them():
    page = (Path(__file__).parents[1] / "docs" / "inputs.md").read_text()
    table = page.partition("## The same ranking from every source\n")[2]
    listed = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")]
    assert listed[1:] == [*SOURCES]
