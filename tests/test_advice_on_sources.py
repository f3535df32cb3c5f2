"""Advice in messages about files, stores and arrays: it is followed, and the run goes on."""

import decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr
from advice import Advice, follow
from stores import draw_genotypes, write, write_plink, write_vcz
from test_h5ad import Cells as StandIn
from test_h5ad import cells, write_h5ad

import dhsic

M, D = 20, 6
RNG = np.random.default_rng(4)
X = RNG.standard_normal((M, D))
Y = np.arange(M) % 2
NAMES = [f"s{i}" for i in range(M)]
FRAME = pd.DataFrame(X, NAMES, [f"g{j}" for j in range(D)])
CALLS = np.random.default_rng(0).integers(0, 3, (M, D)).astype("i1")


def select(data, target=Y, **options):
    """Select two features."""
    options = {"n_features_to_select": 2, "interactions": None, "progress": False} | options
    return dhsic.select(data, target, **options)


# -- axes and variables ---------------------------------------------------------------------------


def axes_of_one_name(folder):
    del folder
    with pytest.warns(UserWarning, match="[Dd]uplicate dimension names"):
        data = xr.DataArray(RNG.normal(size=(M, M)), dims=("cells", "cells"))
    pattern = r"Rename them: (?P<code>xarray\.DataArray\(.*\))\.$"
    yield Advice(select, {"data": data}, pattern, "data")


def axis_that_is_absent(folder):
    del folder
    data = xr.DataArray(X, dims=("who", "what"))
    arguments = {"data": data, "sample_dim": "whom"}
    of_names = r"dimensions \((?P<value>'\w+'), .* Pass one of its dimensions"
    of_numbers = r"one of its dimensions, or (?P<value>\d) or 1"
    yield Advice(select, arguments, of_names, "sample_dim")
    yield Advice(select, arguments, of_numbers, "sample_dim")


def axis_of_data_with_known_axes(folder):
    path = write_plink(folder / "x", CALLS)
    for data in (path, FRAME):
        yield Advice(select, {"data": data, "sample_dim": 1}, r"Leave out (?P<leave>sample_dim)=")
    turned = r"Leave out (?P<leave>sample_dim)=, and pass (?P<code>X\.T) if the rows are features"
    yield Advice(select, {"data": FRAME.T, "sample_dim": 1}, turned, "data")


def variables_of_a_store(folder):
    data = xr.Dataset({"rna": (("sample", "gene"), X), "atac": (("sample", "peak"), X)})
    data.to_zarr(folder / "x.zarr", consolidated=False)
    for arguments in ({}, {"variable": "protein"}):
        for given in (data, folder / "x.zarr"):
            pattern = r"Its variables are: (?P<text>\w+) .* matrix as variable="
            yield Advice(select, {"data": given} | arguments, pattern, "variable")


def variable_of_one_matrix(folder):
    bed = write_plink(folder / "x", CALLS)
    FRAME.to_csv(folder / "x.csv")
    for data in (FRAME, X, bed, folder / "x.csv"):
        yield Advice(select, {"data": data, "variable": "x"}, r"Leave out (?P<leave>variable)=")


def options_of_open_data(folder):
    data = xr.Dataset({"rna": (("a", "b"), X), "atac": (("a", "b"), X)})
    data.to_zarr(folder / "x.zarr", consolidated=False)
    options = {"sample_dim": "a", "variable": "rna"}
    is_open = {"data": dhsic.open_source(folder / "x.zarr", **options)}
    pattern = r"already open; pass sample_dim=, variable= and pass_only= when you open it"
    again = dhsic.open_source(folder / "x.zarr", **options)
    once = {"name": "data", "value": again, "completed": lambda arguments: {"data": again}}
    yield Advice(select, is_open | options, pattern, **once)


def calls_with_several_numbers(folder):
    group = write_vcz(folder / "x.vcz", draw_genotypes(D, M))
    write(group, "call_AD", RNG.random((D, M, 3)), ("variants", "samples", "alleles"))
    arguments = {"data": folder / "x.vcz", "variable": "call_AD"}
    pattern = r"Choose (?P<name>variable)=(?P<value>'\w+')"
    yield Advice(select, arguments, pattern)


def haploid_calls_in_memory(folder):
    del folder
    calls = draw_genotypes(D, M)
    data = xr.DataArray(calls, dims=("variants", "samples", "ploidy"), name="call_genotype")
    arguments = {"data": data, "ploidy_policy": "error"}
    yield Advice(select, arguments, r"Pass (?P<name>ploidy_policy)=(?P<value>'\w+')")
    yield Advice(select, arguments, r"Pass (?P<name>ploidy_policy)='scale' or (?P<value>'\w+')")


# -- formats --------------------------------------------------------------------------------------


def select_opened(path, **options):
    """Select from a variable of a store, opened by xarray with some options."""
    return select(xr.open_zarr(path, consolidated=False, **options)["x"])


def zeros_that_xarray_masks(folder):
    root = zarr.open_group(folder / "x.zarr", mode="w", zarr_format=2)
    write(root, "x", CALLS.T, ("variants", "samples"), fill_value=0)
    pattern = r"Open it again with (?P<name>mask_and_scale)=(?P<value>False)"
    yield Advice(select_opened, {"path": folder / "x.zarr"}, pattern)
    masked = xr.open_zarr(folder / "x.zarr", consolidated=False)["x"]
    yield Advice(select, {"data": masked}, "or pass its path", "data", folder / "x.zarr/x")


class Raw:
    """`raw` of an AnnData object: it has no `obs`."""

    def __init__(self, adata):
        self.X, self.var, self.obs_names = np.abs(adata.X), adata.var, adata.obs_names


Raw.__module__ = "anndata._core.raw"


def select_genes(adata, **options):
    """Select two genes that explain the clusters."""
    options = {"n": 2, "interactions": None, "progress": False} | options
    return dhsic.select_genes(adata, "leiden", inplace=False, **options)


def select_cells(data, **options):
    """Select two genes that explain the clusters."""
    return select(data, "leiden", **options)


def matrices_of_anndata(folder):
    adata = cells()
    if isinstance(adata, StandIn):
        adata.raw = Raw(adata)
    else:
        adata.raw = adata
    raw = r"Pass adata and (?P<name>variable)=(?P<value>'\S+')"
    whole = {"data": adata}
    yield Advice(select_cells, {"data": adata.raw}, raw, completed=lambda a: a | whole)
    layer = r"\((?P<name>layer)=(?P<value>'\S+') in select_genes"
    whole_of_genes = {"adata": adata}
    genes = {"adata": adata.raw}
    yield Advice(select_genes, genes, layer, completed=lambda a: a | whole_of_genes)
    listed = r"its matrices are .*(?P<text>layers/\w+)[,.] .*as variable="
    for data in (adata, write_h5ad(folder / "x.h5ad")):
        arguments = {"data": data, "variable": "layers/nope"}
        yield Advice(select_cells, arguments, listed, "variable")


def write_counts(group, **features):
    """Write counts as Cell Ranger does: by cells, with names of features."""
    columns = sp.csc_matrix(CALLS.T.astype("i4"))
    for name in ("data", "indices", "indptr"):
        group[name] = getattr(columns, name)
    group["shape"], group["barcodes"] = np.array(columns.shape), np.array(NAMES, "S")
    for name, values in features.items():
        group[name.replace("_of_", "/")] = np.array(values, "S")


def counts_of_cell_ranger(folder):
    h5py = pytest.importorskip("h5py")
    ids = [f"ENSG{j}" for j in range(D)]
    with h5py.File(folder / "genomes.h5", "w") as file:
        for genome in ("hg19", "mm10"):
            write_counts(file.create_group(genome), genes=ids, gene_names=ids)
    pattern = r"genomes: (?P<text>\w+), .* of them as variable="
    yield Advice(select, {"data": folder / "genomes.h5"}, pattern, "variable")
    kinds = ["Gene Expression"] * (D - 1) + ["Antibody Capture"]
    with h5py.File(folder / "counts.h5", "w") as file:
        group = file.create_group("matrix")
        about = {"id": ids, "name": ids, "feature_type": kinds, "genome": ["hg19"] * D}
        write_counts(group, **{f"features_of_{name}": of for name, of in about.items()})
    arguments = {"data": folder / "counts.h5", "variable": "CRISPR"}
    yield Advice(select, arguments, r"its types are (?P<value>'[^']+')", "variable")
    yield Advice(select, arguments, r"or leave out (?P<leave>variable)=")


def wide_numbers_of_parquet(folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    wide = pa.array([decimal.Decimal(2**53 + i + 1) for i in range(M)], pa.decimal128(38, 0))
    table = pa.Table.from_pandas(FRAME, preserve_index=False).append_column("person", wide)
    pq.write_table(table, folder / "x.parquet")
    pattern = r"exclude it \((?P<name>not_features)=\)"
    yield Advice(select, {"data": folder / "x.parquet"}, pattern, value=["person"])


def features_that_are_absent(folder):
    del folder
    arguments = {"data": xr.DataArray(X, dims=("sample", "gene")), "not_features": ["77"]}
    pattern = r"(?P<leave>not_features)=.* is not a feature of X: .* Leave it out"
    yield Advice(select, arguments, pattern)


def variants_without_filter(folder):
    arguments = {"data": folder / "x.vcz", "pass_only": True}
    group = write_vcz(folder / "x.vcz", draw_genotypes(D, M))
    yield Advice(select, arguments, r"not known .* Leave out (?P<leave>pass_only)=True")
    write(group, "variant_filter", np.array([[False, True]] * D), ("variants", "filters"))
    write(group, "filter_id", np.array(["PASS", "q10"], object), ("filters",))
    yield Advice(select, arguments, r"None of the .* Leave out (?P<leave>pass_only)=True")


def path_that_exists(folder):
    result = select(FRAME)
    for path in (folder / "x.zarr", folder / "x.tsv"):
        dhsic.save(result, path)
        arguments = {"result": result, "path": path}
        pattern = r"or overwrite it \((?P<name>overwrite)=(?P<value>True)\)"
        yield Advice(dhsic.save, arguments, pattern)


# -- missing values and scales --------------------------------------------------------------------


def markers_of_an_array(folder):
    np.save(folder / "x.npy", np.where(X > 1.5, -9, X))
    arguments = {"X": folder / "x.npy", "na": ["-9"]}
    yield Advice(dhsic.open_source, arguments, r"Leave out (?P<leave>na)=")
    pattern = r"to declare missing numbers, use (?P<name>missing_code)="
    yield Advice(dhsic.open_source, arguments, pattern, value=-9, instead_of="na")


def codes_of_scaled_numbers(folder):
    data = xr.Dataset({"x": (("sample", "gene"), X)})
    encoding = {"x": {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -32768}}
    data.to_zarr(folder / "x.zarr", consolidated=False, encoding=encoding)
    arguments = {"data": folder / "x.zarr", "missing_code": -9}
    yield Advice(select, arguments, r"Leave out (?P<leave>missing_code)")


def codes_beside_genotypes(folder):
    del folder
    calls = np.random.default_rng(0).integers(0, 3, (40, 20)).astype(float)
    calls[np.random.default_rng(1).random(calls.shape) < 0.1] = -9
    mixed = np.column_stack([calls, np.random.default_rng(2).integers(-20, 30, (40, 20))])
    arguments = {"data": mixed, "target": np.arange(40) % 2}
    pattern = r"in all features, pass (?P<name>missing_code)=(?P<value>-9)"
    yield Advice(select, arguments, pattern)
    yield Advice(select, arguments, r"in all features, pass (?P<name>missing_code)=(?P<value>None)")


def codes_of_answers(folder):
    rng = np.random.default_rng(0)
    answers = rng.integers(1, 6, (150, 8)).astype(float)
    answers[rng.random(answers.shape) < 0.1] = 9
    table = pd.DataFrame(np.hstack([rng.normal(50, 10, (150, 20)).round(1), answers]))
    table.add_prefix("q").to_csv(folder / "x.csv", index=False)
    arguments = {"data": folder / "x.csv", "target": rng.standard_normal(150)}
    pattern = r"by column: (?P<code>dhsic\.open_source\(X, na=\['q20=9'\]\))"
    every = [f"q{j}=9" for j in range(20, 28)]
    declared = {"data": dhsic.open_source(folder / "x.csv", na=every)}
    yield Advice(select, arguments, pattern, "data", completed=lambda a: a | declared)
    yield Advice(select, arguments, r"are missing, pass (?P<name>missing_code)=(?P<value>\d)")
    yield Advice(select, arguments, r"real values, pass (?P<name>missing_code)=(?P<value>None)")


def values_of_extreme_size(folder):
    del folder
    pattern = r"(?P<name>standardize)=(?P<value>True)"
    for data in (X * 1e-42, X * 1e25):
        arguments = {"data": data, "standardize": False}
        yield Advice(select, arguments, pattern)


CASES = (
    *(axes_of_one_name, axis_that_is_absent, axis_of_data_with_known_axes, variables_of_a_store),
    *(variable_of_one_matrix, options_of_open_data, calls_with_several_numbers),
    *(haploid_calls_in_memory, zeros_that_xarray_masks, matrices_of_anndata, counts_of_cell_ranger),
    *(wide_numbers_of_parquet, features_that_are_absent, variants_without_filter),
    *(path_that_exists, markers_of_an_array, codes_of_scaled_numbers, codes_beside_genotypes),
    *(codes_of_answers, values_of_extreme_size),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.filterwarnings("default")
def test_advice_leads_on(case, tmp_path):
    for advice in case(tmp_path):
        follow(advice)
