"""What was found, along the features of data whose names, dimensions and dtypes are kept."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from test_h5ad import GENES, OBS, M, X, cells

import dhsic
from dhsic.errors import InputError
from dhsic.selection.multi_output import parts

LEIDEN = OBS["leiden"].to_numpy()
PLACES = np.arange(len(GENES), dtype="i2") * 10
GRID = xr.DataArray(
    X,
    dims=("cell", "gene"),
    coords={"gene": GENES, "start": ("gene", PLACES), "depth": ("cell", np.arange(M))},
    name="counts",
)
QUIET = {"n_features_to_select": 3, "progress": False}


@pytest.fixture(scope="module")
def result():
    return dhsic.select(pd.DataFrame(X, columns=GENES), LEIDEN, **QUIET)


def test_a_result_has_the_dimension_and_coordinates_of_its_data(result, tmp_path):
    found = dhsic.select(GRID, LEIDEN, **QUIET)
    assert found["rank"].dims == ("gene",)
    assert found["start"].dtype == np.int16
    np.testing.assert_array_equal(found["start"], PLACES)
    assert "depth" not in found.coords
    assert found["rank"].sel(gene="g1") == result["rank"][GENES.index("g1")]
    dhsic.save(found, tmp_path / "r.zarr")
    again = dhsic.load(tmp_path / "r.zarr")
    assert again["rank"].dims == ("gene",)
    np.testing.assert_array_equal(again["start"], PLACES)
    assert again["start"].dtype == np.int16
    for name, each in (("mine", found), ("frame", result)):
        dhsic.save(each, tmp_path / f"{name}.tsv")
    tables = [pd.read_csv(tmp_path / f"{name}.tsv", sep="\t") for name in ("mine", "frame")]
    pd.testing.assert_frame_equal(tables[0][tables[1].columns], tables[1])
    best = dhsic.selected_features(found)
    same = dhsic.selected_features(result)["feature"]
    assert best["gene"].values.tolist() == same.values.tolist()


@pytest.mark.parametrize("dim", ["rounds", "rank", "feature", "targets"])
def test_a_dimension_of_another_meaning_is_not_taken_over(dim):
    grid = GRID.drop_vars(["gene", "start"]).rename(gene=dim)
    assert dhsic.select(grid, LEIDEN, **QUIET)["rank"].dims == ("features",)


def test_levels_of_an_index_travel(result):
    index = pd.MultiIndex.from_arrays([PLACES // 30, PLACES], names=["chromosome", "place"])
    grid = GRID.drop_vars(["gene", "start"]).assign_coords(
        xr.Coordinates.from_pandas_multiindex(index, "gene")
    )
    found = dhsic.select(grid, LEIDEN, **QUIET)
    np.testing.assert_array_equal(found["rank"], result["rank"])
    dhsic.merge(grid, found)


def assert_along(found, result, take=slice(None)):
    for name in ("rank", "score", "selected"):
        values = np.asarray(found[f"hsic_{name}"])
        np.testing.assert_array_equal(values, result[name].to_numpy()[take])
        assert values.dtype == result[name].dtype


def test_every_kind_of_data_takes_them(result, tmp_path):
    merged = dhsic.merge(GRID, result)
    assert_along(merged, result)
    assert merged.identical(GRID.assign_coords({k: merged[k] for k in merged.coords}))
    assert merged["hsic_rank"].dims == ("gene",)
    both = dhsic.merge(GRID.to_dataset(), result, key_added="mine")
    assert {"mine_rank", "mine_score", "mine_selected"} == {*both.data_vars} - {"counts"}
    frame = dhsic.merge(pd.DataFrame(X, columns=GENES), result)
    assert_along(frame, result)
    assert frame.index.tolist() == GENES
    adata = cells()
    assert dhsic.merge(adata, result) is None
    assert_along(adata.var, result)
    named = GRID.to_dataset().assign_coords(gene=np.array(GENES, dtype=object))
    named.to_zarr(tmp_path / "x.zarr", zarr_format=2)
    dhsic.merge(tmp_path / "x.zarr", result, sample_dim="cell")
    with xr.open_zarr(tmp_path / "x.zarr") as opened:
        assert_along(opened, result)
        assert opened["hsic_rank"].dims == ("gene",)
    with pytest.raises(InputError, match=r"hsic_score, hsic_selected already exist in .*x.zarr"):
        dhsic.merge(tmp_path / "x.zarr", result, sample_dim="cell")
    group = zarr.open_group(tmp_path / "x.zarr", use_consolidated=False)
    dhsic.merge(group, result, sample_dim="cell", overwrite=True)
    again = dhsic.merge(merged, result, overwrite=True)
    assert again.identical(merged)
    with pytest.raises(InputError, match="already exist in the data"):
        dhsic.merge(merged, result)


def test_features_are_matched_by_name(result):
    turned = np.arange(len(GENES))[::-1]
    assert_along(dhsic.merge(GRID.isel(gene=turned), result), result, turned)
    some = dhsic.select(GRID.isel(gene=[1, 4, 6]), LEIDEN, n_features_to_select=1, progress=False)
    more = dhsic.merge(GRID, some)
    np.testing.assert_array_equal(more["hsic_rank"][[1, 4, 6]], some["rank"])
    assert (np.delete(more["hsic_rank"].values, [1, 4, 6]) == 0).all()
    assert not more["hsic_selected"][0]
    with pytest.raises(InputError, match=r"6 of 9 features of the result are not in the data"):
        dhsic.merge(GRID.isel(gene=[1, 4, 6]), result)
    with pytest.raises(InputError, match="has 9 features, but the data have 5"):
        dhsic.merge(X[:, :5], result)
    with pytest.raises(InputError, match="ndarray is not a Zarr group"):
        dhsic.merge(X, result)


def test_what_filters_left_out_has_no_rank(tmp_path):
    listed = tmp_path / "genes.txt"
    listed.write_text("g1\ng4\ng6\n")
    found = dhsic.select(GRID, LEIDEN, filters=dhsic.Filters(extract=listed), **QUIET)
    merged = dhsic.merge(GRID, found)
    assert sorted(merged["hsic_rank"].values) == [0] * 6 + [1, 2, 3]
    assert (merged["hsic_rank"].values[[1, 4, 6]] > 0).all()


def test_genes_in_the_manner_of_scanpy(result):
    adata = cells()
    columns = dhsic.select_genes(adata, "leiden", n=3, inplace=False, progress=False)
    assert columns.index.tolist() == GENES
    assert_along(columns, result)
    adata.uns = {}
    assert dhsic.select_genes(adata, "leiden", layer="counts", n=3, progress=False) is None
    found = dhsic.select(adata, "leiden", variable="layers/counts", **QUIET)
    assert_along(adata.var, found)
    told = adata.uns["hsic"]
    assert told["params"] == {"key": "leiden", "layer": "counts", "method": "bahsic", "n": 3}
    np.testing.assert_array_equal(told["rounds"]["round_hsic"], found["round_hsic"])
    assert told["attributes"]["target"] == "leiden"
    assert json.loads(told["attributes"]["asked"])["variable"] == "layers/counts"
    among = {"control": "shadow", "n": None, "progress": False}
    columns = dhsic.select_genes(adata, "leiden", layer="X", inplace=False, **among)
    assert columns["hsic_fdr"].between(0, 1).all()
    with pytest.raises(InputError, match="uses layer= for the matrix: pass layer='layers/counts'"):
        dhsic.select_genes(adata, "leiden", variable="layers/counts")
    with pytest.raises(InputError, match="needs an AnnData object, not a ndarray"):
        dhsic.select_genes(X, "leiden")


@pytest.mark.slow
def test_each_class_is_ranked_against_the_rest(tmp_path):
    options = {"rerank": False, **QUIET}
    found = dhsic.select(GRID, LEIDEN, per_class=True, **options)
    names = sorted({*LEIDEN})
    assert found["rank"].dims == ("classes", "gene")
    assert found["classes"].values.tolist() == names
    for name, part in parts(found):
        alone = dhsic.select(GRID, name == LEIDEN, **options)
        for variable in ("rank", "score", "selected", "round_hsic"):
            np.testing.assert_array_equal(part[variable], alone[variable])
    dhsic.save(found, tmp_path / "r.tsv")
    columns = pd.read_csv(tmp_path / "r.tsv", sep="\t").columns
    assert {f"rank_{name}" for name in names} <= {*columns}


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.linspace(0, 1, M), "y contains real values"),
        (np.where(np.arange(M) < 3, None, LEIDEN), "3 of .* labels are missing"),
        (np.stack([LEIDEN, LEIDEN], axis=1), "one target with classes"),
        (np.repeat("a", M), "so nothing can depend on them"),
    ],
)
def test_labels_of_no_classes_are_refused(y, said):
    with pytest.raises(InputError, match=said):
        dhsic.select(X, y, per_class=True, **QUIET)
