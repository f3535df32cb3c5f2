"""The same bits on threads, on one worker and on several, whatever leaves in a round."""

import shutil

import numpy as np
import pytest
from dask import config
from distributed import Client, LocalCluster
from numpy.testing import assert_array_equal
from stores import write_matrix
from thorough import one_in

import dhsic
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

pytestmark = pytest.mark.filterwarnings("ignore:.*max_iterations")

M, D = 60, 2700  # rounds that lose above 2,048 features, and above 128
#: What a run says of itself that is not the same on other machines.
OWN = ("seconds", "bytes", "memory")
RUNS = {
    "exact": {"solver": "exact", "step": 0.8},
    "lazy": {"step": 0.2},
    "exact polynomial": {"solver": "exact", "step": 0.8, "kernel": "polynomial"},
    "low rank": {"solver": "lowrank", "step": 0.8},
    "fohsic": {"method": "fohsic", "n_features_to_select": 4},
    "weighting": {"method": "weighting", "max_iterations": 4},
    "svm-rfe": {"method": "svm-rfe", "step": 0.8},
    "linear": {"method": "linear"},
    "dosages": {"solver": "exact", "step": 0.8},
    "dosages, low rank": {"solver": "lowrank", "step": 0.8},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((M, D)).astype(np.float32)
    X[rng.random((M, D)) < 0.02] = np.nan
    y = np.where(np.nan_to_num(X[:, 7]) + np.nan_to_num(X[:, 99]) > 0, 1, 0)
    folder = tmp_path_factory.mktemp("everywhere")
    write_matrix(folder / "x.zarr", X, chunks=(700, M))
    write_matrix(folder / "dosages.zarr", draw_dosages(rng), chunks=(700, M))
    return folder, y


def draw_dosages(rng):
    """Counts of alleles, int8, some missing (-1)."""
    g = rng.binomial(2, rng.uniform(0.1, 0.5, D), (M, D)).astype(np.int8)
    g[rng.random((M, D)) < 0.02] = -1
    return g


@pytest.fixture(scope="module")
def workers(request):
    with (
        config.set({"distributed.admin.low-level-log-length": 0}),
        LocalCluster(
            n_workers=request.param,
            threads_per_worker=1 + request.param % 2,
            processes=False,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def on_threads(data):
    return {name: selected(name, data) for name in RUNS}


def selected(name, data, **more):
    folder, y = data
    store, code = ("dosages.zarr", -1) if name.startswith("dosages") else ("x.zarr", None)
    source = dhsic.open_source(folder / store, n_samples=M, missing_code=code)
    asked = {"n_features_to_select": 10, "progress": False} | RUNS[name] | more
    return dhsic.select(source, y, **asked)


def cases():
    """Every run with survivors everywhere, each time on another number of workers."""
    for k in one_in(4, range(4)):
        for i, name in enumerate(RUNS):
            for j, survivors in enumerate(("come home", "stay away", "have no place")):
                yield (1, 2, 3, 5)[(i + j + k) % 4], name, survivors


@pytest.mark.parametrize(("workers", "name", "survivors"), list(cases()), indirect=["workers"])
def test_same_bits(name, data, workers, on_threads, survivors, monkeypatch, tmp_path):
    if survivors != "come home":
        monkeypatch.setattr("dhsic.passes.survivors.HOME_BYTES", 0)
    with DaskRuntime(workers, scratch=tmp_path) as runtime:
        runtime.workers_see_folder = survivors != "have no place"
        there = selected(name, data, runtime=runtime)
    here = on_threads[name]
    said = [v for v in here.variables if not any(word in str(v) for word in OWN)]
    assert {"rank", "score"} <= set(said)
    for variable in said:
        assert_array_equal(there[variable], here[variable], err_msg=str(variable))


# -- tiles: slices of the samples, and blocks of features --------------------------------------

SAMPLES, FEATURES = 240, 900
GRIDS = {"1x1": (1, 1), "1x4": (1, 4), "2x2": (2, 2), "4x1": (4, 1)}
TILED = {
    "dimension": {},
    "median": {"bandwidth": "median"},
    "polynomial": {"kernel": "polynomial"},
    "biased": {"statistic": "biased"},
}


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    """Genotypes of three populations, chunks of which hold some of the samples."""
    rng = np.random.default_rng(11)
    frequencies = rng.uniform(0.1, 0.9, FEATURES) + 0.2 * rng.standard_normal((3, FEATURES))
    g = rng.binomial(2, frequencies.clip(0.05, 0.95)[rng.integers(0, 3, SAMPLES)]).astype(np.int8)
    y = g[:, :5].sum(axis=1) + rng.standard_normal(SAMPLES) > 5
    g[rng.random(g.shape) < 0.02] = -1
    path = tmp_path_factory.mktemp("tiles") / "x.zarr"
    write_matrix(path, g, chunks=(100, SAMPLES // 4))
    return path, y


def tiled(tiles, grid, monkeypatch, **more):
    n_slices, n_blocks = GRIDS[grid]
    for name, value in {
        "landmarks.SLICE": SAMPLES // n_slices,
        "landmark_sampling.FIRST_LANDMARKS": 40,
        "landmark_sampling.FEWEST": 40,
        "landmark_sampling.MOST_CHECKS": 20,
        "landmark_sampling.FEWEST_CHECKS": 20,
        "landmarks.WORTH_MANY": FEATURES // (2 * n_blocks) if n_blocks > 1 else 10 * FEATURES,
        "jobs.WORTH_FEW": FEATURES // n_blocks,
    }.items():
        monkeypatch.setattr(f"dhsic.passes.{name}", value)
    monkeypatch.setattr("dhsic.passes.reader.COMPACT_BYTES", 0)
    path, y = tiles
    source = dhsic.open_source(path, n_samples=SAMPLES, missing_code=-1)
    asked = {"solver": "lowrank", "progress": False, "n_features_to_select": 10, "step": 0.3}
    asked |= more
    return dhsic.select(source, y, **asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", TILED)
@pytest.mark.parametrize("grid", list(GRIDS)[1:])
def test_tiles_make_no_difference_but_rounding(tiles, grid, name, monkeypatch):
    one = tiled(tiles, "1x1", monkeypatch, **TILED[name])["rank"].values
    many = [
        tiled(tiles, grid, monkeypatch, runtime=Threads(n), **TILED[name])["rank"].values
        for n in (1, 2, 4)
    ]

    for other in many[1:]:
        assert_array_equal(many[0], other)
    for n in (10, 100):
        assert ((one <= n) & (many[0] <= n)).sum() >= 0.95 * n


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("dimension", 1),
        ("median", 4),
        pytest.param("dimension", 4, marks=pytest.mark.slow),
        pytest.param("median", 1, marks=pytest.mark.slow),
    ],
)
def test_same_bits_on_tiles_where_a_run_goes_on(tiles, after, name, monkeypatch, tmp_path):
    """Slices learn of features that have left with what they do next: a run may end before."""

    def keep(record):
        if record["round"] == after:
            shutil.copytree(tmp_path / "run", tmp_path / "kept")

    more = TILED[name]
    whole = tiled(
        tiles, "2x2", monkeypatch, checkpoint=str(tmp_path / "run"), progress=keep, **more
    )
    again = tiled(tiles, "2x2", monkeypatch, checkpoint=str(tmp_path / "kept"), **more)
    for variable in set(whole.variables) - {"round_seconds", "round_bytes_read"}:
        assert_array_equal(again[variable], whole[variable], err_msg=str(variable))


@pytest.mark.parametrize("workers", [2], indirect=True)
@pytest.mark.parametrize(
    "grid", [pytest.param(grid, marks=[pytest.mark.slow] * (grid != "2x2")) for grid in GRIDS]
)
@pytest.mark.parametrize("survivors", ["come home", "stay away"])
def test_same_bits_on_tiles(tiles, workers, grid, survivors, monkeypatch, tmp_path):
    if survivors != "come home":
        monkeypatch.setattr("dhsic.passes.survivors.HOME_BYTES", 0)
    with DaskRuntime(workers, scratch=tmp_path) as runtime:
        there = tiled(tiles, grid, monkeypatch, runtime=runtime)
    here = tiled(tiles, grid, monkeypatch)
    for variable in here.variables:
        if not any(word in str(variable) for word in OWN):
            assert_array_equal(there[variable], here[variable], err_msg=str(variable))
