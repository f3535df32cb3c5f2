"""Genes in space and cells in time: targets that are coordinates in obsm, or a pseudotime."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from commands import run, told
from stores import write_anndata, write_frame

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.sources import stored_sparse

h5py = pytest.importorskip("h5py")
from test_h5ad import put, put_frame  # noqa: E402

QUICK = ("--threads", 2, "--no-progress")
N_PATTERNS = 30


# -- data -----------------------------------------------------------------------------------------


def pattern(kind, xy, rng):
    """Factor of the mean of a gene at each spot, from 1 to 3."""
    angle = rng.uniform(0, 2 * np.pi)
    along = xy @ [np.cos(angle), np.sin(angle)]
    if kind == "hotspot":
        centre, radius = rng.uniform(0.2, 0.8, 2), rng.uniform(0.15, 0.25)
        return 1 + 2 * (np.hypot(*(xy - centre).T) < radius)
    if kind == "stripes":
        return 1 + 2 * (np.sin(2 * np.pi * rng.uniform(1, 2) * along + rng.uniform(0, 6)) > 0)
    return 1 + 2 * (along - along.min()) / np.ptp(along)


def tissue(seed, m=2000, d=300):
    """Counts (m, d), the first 30 of which have a pattern in space, and coordinates (m, 2)."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 1, (m, 2))
    mean = np.tile(rng.gamma(2, 0.5, d).clip(0.3), (m, 1))
    for j in range(N_PATTERNS):
        mean[:, j] *= pattern(("hotspot", "stripes", "gradient")[j % 3], xy, rng)
    return rng.poisson(mean).astype("f4"), xy


def write_h5ad(path, matrix, obs, **obsm):
    """A file as anndata writes it; arrays, sparse matrices and dataframes in obsm."""
    m, d = matrix.shape
    cells = [f"c{i}" for i in range(m)]
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        put(file, "X", matrix)
        put_frame(file, "obs", cells, obs)
        put_frame(file, "var", [f"g{j}" for j in range(d)], pd.DataFrame())
        folder = file.create_group("obsm")
        for name, values in obsm.items():
            if hasattr(values, "columns"):
                put_frame(folder, name, cells, values)
            else:
                put(folder, name, values)
    return path


def write_zarr(path, matrix, obs, **obsm):
    arrays = {name: v for name, v in obsm.items() if not hasattr(v, "columns")}
    columns = {name: (values.to_numpy(), "array") for name, values in obs.items()}
    group = write_anndata(path, matrix, obs=columns, obsm=arrays)
    for name, frame in obsm.items():
        if name not in arrays:
            held = {str(key): (values.to_numpy(), "array") for key, values in frame.items()}
            write_frame(group["obsm"], name, [f"c{i}" for i in range(len(frame))], held)
    return path


M, D = 300, 8
RNG = np.random.default_rng(0)
XY = RNG.uniform(0, 100, (M, 2))
TIME = RNG.uniform(0, 1, M)
TYPE = np.where(XY[:, 0] > 50, "B", "A")
MEAN = np.ones((M, D))
MEAN[:, 0] += 3 * (np.hypot(*(XY - 50).T) < 20)
MEAN[:, 1] += 3 * (TYPE == "B")
MEAN[:, 2] += 3 * np.exp(-(((TIME - 0.5) / 0.15) ** 2))
COUNTS = RNG.poisson(MEAN).astype("f4")
LATE = np.where(np.arange(M) < 9, np.inf, TIME)
OBS = pd.DataFrame(
    {
        "cell_type": pd.Categorical(TYPE),
        "time": TIME,
        "gap": np.where(np.arange(M) < 7, np.nan, TIME),
        "dpt": LATE,
        "both": TIME,
    }
)
FRAME = pd.DataFrame(XY, columns=["x", "y"])
OBSM = {
    "spatial": XY,
    "X_umap": XY[::-1].astype("f4"),
    "volume": np.column_stack([XY, RNG.uniform(0, 9, M)]),
    "flat": np.column_stack([XY, np.full(M, 7.0)]),
    "grid": RNG.integers(0, 12, (M, 2)),
    "frame": FRAME,
    "holes": np.where(np.arange(M)[:, None] < 5, np.nan, XY),
    "endless": np.where(np.arange(M)[:, None] == 3, np.inf, XY),
    "point": np.zeros((M, 2)),
    "both": XY,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    text = pd.DataFrame({"n": np.array(["q"] * M, dtype=object)})
    folder = tmp_path_factory.mktemp("cells")
    return write_h5ad(folder / "a.h5ad", COUNTS, OBS, **OBSM, text=text)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    return write_zarr(folder / "a.zarr", COUNTS, OBS.drop(columns="cell_type"), **OBSM)


def p_values(data, y, **options):
    return dhsic.test_features(data, y, **options).p_values


# -- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_draws", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_genes_with_a_pattern_in_space_are_found(n_draws):
    """2,000 spots, 300 genes of counts, 30 of them with a threefold mean somewhere."""
    n_found, n_false = np.zeros(n_draws), np.zeros(n_draws)
    for seed in range(n_draws):
        counts, xy = tissue(seed)
        found = dhsic.test_features(counts, xy).adjusted <= 0.05
        n_found[seed], n_false[seed] = found[:N_PATTERNS].sum(), found[N_PATTERNS:].sum()
    assert n_found.mean() >= 29
    assert n_false.mean() <= 3


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix])
def test_sparse_on_disk_has_the_bits_of_dense_in_memory(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(stored_sparse, "HELD_BYTES", 0)
    monkeypatch.setattr(stored_sparse, "ENTRIES", 10_000)
    counts, xy = tissue(0, m=700, d=90)
    path = write_h5ad(tmp_path / "a.h5ad", kind(counts), pd.DataFrame({"n": xy[:, 0]}), spatial=xy)
    assert isinstance(dhsic.open_source(path), stored_sparse.StoredSparse)
    expected = p_values(counts, xy)
    np.testing.assert_array_equal(p_values(path, "obsm/spatial"), expected)
    out = tmp_path / "out.tsv"
    run("test", path, "--target", "obsm/spatial", *QUICK, "--out", out)
    table = pd.read_csv(out, sep="\t").sort_values("index")
    np.testing.assert_allclose(table["p"], expected, rtol=1e-12)
    one_pass = dhsic.OnePass(3, criterion="hsic", progress=False).fit(path, "obsm/spatial")
    np.testing.assert_array_equal(10.0**-one_pass.scores_, expected)


def test_cell_type_as_covariate_removes_genes_that_follow_it_alone(path):
    """Gene 0 has a hotspot, gene 1 follows the cell type, which covers one half of the tissue."""
    plain = p_values(path, "obsm/spatial")
    given_type = p_values(path, "obsm/spatial", covariates="cell_type")
    assert plain[0] < 1e-6
    assert plain[1] < 1e-6
    assert given_type[0] < 1e-4
    assert given_type[1] > 0.01
    options = ("--target", "spatial", "--covariate", "cell_type", "--json")
    q = {found["name"]: found["q"] for found in dhsic_json("test", path, *options)["selected"]}
    assert q["g0"] < 1e-3
    assert q["g1"] > 0.05


def dhsic_json(*args):
    return json.loads(run(*args, *QUICK).stdout)


def test_genes_that_rise_and_fall_along_a_pseudotime_are_found(path):
    found = dhsic.test_features(path, "time", covariates="cell_type")
    assert np.flatnonzero(found.adjusted <= 0.05).tolist() == [2]


# -- names and forms of coordinates ---------------------------------------------------------------


def test_coordinates_go_by_their_name_with_folder_or_without(path, store):
    expected = p_values(COUNTS, XY)
    for data in (path, store):
        for name in ("obsm/spatial", "spatial", "frame", "obsm/frame"):
            np.testing.assert_array_equal(p_values(data, name), expected)
        np.testing.assert_array_equal(dhsic.read_target(data, "X_umap"), OBSM["X_umap"])
        assert dhsic.read_target(data, "volume").shape == (M, 3)
        np.testing.assert_array_equal(dhsic.read_target(data, "both"), TIME)  # obs comes first
        np.testing.assert_array_equal(dhsic.read_target(data, "obsm/both"), XY)


def test_names_that_are_nearly_right_are_guessed(path):
    for name, meant in (("umap", "obsm/X_umap"), ("obsm/spatail", "obsm/spatial")):
        with pytest.raises(InputError, match=rf"obsm has .*Did you mean '{meant}'\?"):
            dhsic.read_target(path, name)
    message = told(run("test", path, "--target", "spatail", *QUICK, code=2))
    assert "Did you mean 'obsm/spatial'?" in message


def test_a_grid_is_measured(path, store):
    """Whole numbers that many spots share would be classes."""
    for data in (path, store):
        np.testing.assert_array_equal(dhsic.read_target(data, "grid"), OBSM["grid"] + 0.5)


def test_a_flat_dimension_is_left_out(path):
    with pytest.warns(UserWarning, match="same coordinate in column 2 of 'obsm/flat'"):
        found = dhsic.read_target(path, "flat")
    np.testing.assert_array_equal(found, XY)
    with pytest.raises(InputError, match="All samples have the same coordinates in 'obsm/point'"):
        dhsic.read_target(path, "point")


def test_coordinates_are_covariates_too(path):
    expected = p_values(COUNTS, TIME, covariates=XY)
    np.testing.assert_array_equal(p_values(path, "time", covariates="obsm/spatial"), expected)
    facts = dhsic_json("test", path, "--target", "time", "--covariate", "obsm/spatial", "--json")
    assert facts["selected"][0]["name"] == "g2"


def test_what_is_no_coordinate_is_refused(path, store):
    with pytest.raises(
        InputError, match=r"obsm/text has text in 'n', but a matrix must contain numbers"
    ):
        dhsic.read_target(path, "text")
    for data in (path, store):
        with pytest.raises(DataError, match=r"'obsm/endless' cannot be read: .* sample 3 is inf"):
            dhsic.read_target(data, "endless")
    message = told(run("test", path, "--target", "spatial", "--per-class", *QUICK, code=2))
    assert "--per-class needs one target with classes" in message


@pytest.mark.parametrize("missing", ["gap", "holes"])
def test_cells_without_a_place_or_time_are_left_out(path, missing):
    message = told(run("test", path, "--target", missing, *QUICK, code=2))
    n = 7 if missing == "gap" else 5
    assert f"{n} of 300 samples have missing values ({missing}: {n}" in message
    facts = dhsic_json("test", path, "--target", missing, "--drop-missing", "--json")
    assert facts["n_samples"] == M - n
    with pytest.raises(InputError, match=f"{n} of 300 labels are missing or not finite"):
        p_values(path, missing)


def test_infinite_pseudotime_has_a_sentence(path):
    with pytest.raises(InputError, match=r"9 of 300 labels are not finite.* scanpy's dpt .* root"):
        p_values(path, "dpt")
    message = told(run("test", path, "--target", "dpt", *QUICK, code=2))
    assert "--na inf --drop-missing" in message
    options = ("--target", "dpt", "--na", "inf", "--drop-missing", "--json")
    assert dhsic_json("test", path, *options)["n_samples"] == M - 9


# -- every door -----------------------------------------------------------------------------------


def test_inspect_lists_coordinates(path, store):
    for data in (path, store):
        told_of = dhsic_json_of_inspect(data)
        assert told_of["targets"]["obsm/spatial"].startswith("coordinates of 2 dimensions, 0.6")
        assert told_of["targets"]["obsm/volume"].startswith("coordinates of 3 dimensions")
        assert told_of["targets"]["obsm/holes"].endswith("; 5 missing")
        assert told_of["matrices"]["obsm/frame"] == "dataframe with columns x, y"
        assert "obsm/point" not in told_of["targets"]


def dhsic_json_of_inspect(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(run("inspect", data, "--json").stdout)


def test_a_dataframe_in_obsm_is_a_matrix(path, store):
    for data in (path, store):
        source = dhsic.open_source(data, variable="obsm/frame")
        assert source.feature_names().tolist() == ["x", "y"]
        found = dhsic.select(
            data, "time", variable="obsm/frame", n_features_to_select=1, progress=False
        )
        assert sorted(found["rank"].to_numpy().tolist()) == [1, 2]


def test_select_and_plan_take_coordinates(path):
    found = dhsic.select(path, "spatial", method="hsic", n_features_to_select=2, progress=False)
    best = np.flatnonzero(found["rank"].to_numpy() <= 2)
    assert best.tolist() == [0, 1]
    assert dhsic.plan(path, "spatial") is not None
    run("plan", path, "--target", "obsm/spatial")
    several = ("--target", "obsm/spatial", "--target", "time", "--per-target", "--json")
    facts = dhsic_json("test", path, *several)
    assert {"obsm/spatial", "time"} <= set(str(facts).replace("'", " ").split())


def test_an_object_of_anndata_has_coordinates():
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(sp.csr_matrix(COUNTS), OBS.set_axis([f"c{i}" for i in range(M)]))
    adata.obsm["spatial"], adata.obsm["a/b"] = XY, XY
    adata.obsm["frame"] = FRAME.set_axis(adata.obs_names)
    expected = p_values(COUNTS, XY)
    for name in ("obsm/spatial", "spatial", "obsm/a/b", "frame"):
        np.testing.assert_array_equal(p_values(adata, name), expected)
    assert dhsic.open_source(adata, variable="frame").feature_names().tolist() == ["x", "y"]


def test_a_column_of_a_dataframe_in_obsm_is_a_target(tmp_path):
    numbers = write_zarr(tmp_path / "a.zarr", COUNTS, OBS[["time"]], meta=FRAME)
    np.testing.assert_array_equal(dhsic.read_target(numbers, "obsm/meta/y"), XY[:, 1])
    slides = np.where(XY[:, 0] > 50, "left", "right").astype(object)
    path = write_h5ad(tmp_path / "a.h5ad", COUNTS, OBS, meta=FRAME.assign(slide=slides))
    np.testing.assert_array_equal(dhsic.read_target(path, "obsm/meta/x"), XY[:, 0])
    np.testing.assert_array_equal(dhsic.read_target(path, "meta/slide"), slides)
    with pytest.raises(
        InputError, match=r"text in 'slide'.*choose one column: 'obsm/meta/x', 'obsm/m"
    ):
        dhsic.read_target(path, "obsm/meta")
    with pytest.raises(InputError, match="has no column 'z'; its columns are x, y, slide"):
        dhsic.read_target(path, "obsm/meta/z")
