"""The same bits on threads, on one worker and on several, whatever leaves in a round."""

import numpy as np
import pytest
from dask import config
from distributed import Client, LocalCluster
from numpy.testing import assert_array_equal
from stores import write_matrix
from thorough import one_in

import dhsic
from dhsic.runtime.dask import DaskRuntime

pytestmark = pytest.mark.filterwarnings("ignore:.*max_iterations")

M, D = 60, 2700  # rounds that lose above 2,048 features, and above 128
#: What a run says of itself that is not the same on other machines.
OWN = ("seconds", "bytes", "memory")
RUNS = {
    "exact": {"approx": "exact", "step": 0.8},
    "lazy": {"step": 0.2},
    "exact polynomial": {"approx": "exact", "step": 0.8, "kernel": "polynomial"},
    "low rank": {"approx": "lowrank", "step": 0.8},
    "fohsic": {"method": "fohsic", "n_features_to_select": 4},
    "weighting": {"method": "weighting", "max_iterations": 4},
    "svm-rfe": {"method": "svm-rfe", "step": 0.8},
    "linear": {"method": "linear"},
    "dosages": {"approx": "exact", "step": 0.8},
    "dosages, low rank": {"approx": "lowrank", "step": 0.8},
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
