"""Scoring on the device that the environment names: the ranking of the cores, or a sentence.

array-api-strict stands for the device: it has the standard and no more, and its arrays do not mix
with those of NumPy or of its other devices.
"""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from stores import write_matrix

import dhsic
from dhsic.accelerator import DEVICE, Accelerator
from dhsic.errors import CheckpointError, InputError
from dhsic.kernels import Laplace
from dhsic.runtime.dask import DaskRuntime

DEVICE1 = "array_api_strict:device1"
RUNS = {
    "exact": {"solver": "exact"},
    "exact, biased": {"solver": "exact", "statistic": "biased"},
    "polynomial": {"kernel": "polynomial", "solver": "exact"},
    "laplace": {"kernel": Laplace(), "solver": "exact"},
    "by definition": {"kernel": "gaussian", "solver": "exact", "step": 0.5},
    "low rank": {"solver": "lowrank"},
    "fohsic": {"method": "fohsic", "solver": "exact", "step": 1},
    "fohsic, low rank": {"method": "fohsic", "solver": "lowrank", "step": 1},
    "ridge": {"kernel": "ridge", "solver": "exact", "step": 0.5},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((40, 110)).astype(np.float32)
    X[:, :20] *= np.exp(rng.standard_normal((40, 20)))  # some for which no series is short
    path = tmp_path_factory.mktemp("accelerator") / "x.zarr"
    write_matrix(path, X, chunks=(50, 40))
    return str(path), (X[:, 30] + X[:, 31] > 0).astype(int)


@pytest.fixture(scope="module")
def genotypes(tmp_path_factory):
    rng = np.random.default_rng(9)
    X = rng.choice(np.array([-1, 0, 1, 2], "i1"), p=[0.02, 0.3, 0.4, 0.28], size=(60, 400))
    path = tmp_path_factory.mktemp("accelerator") / "g.zarr"
    write_matrix(path, X, chunks=(60, 100))
    return str(path), (X[:, 30] + X[:, 31] > 1).astype(int)


@pytest.fixture
def seen(monkeypatch):
    """What was scored on the device: the type and the place of arrays."""
    seen = []
    array = Accelerator.array

    def told(self, X):
        there = array(self, X)
        seen.append(str(there.device))
        return there

    monkeypatch.setattr(Accelerator, "array", told)
    return seen


def selected(data, **how):
    options = {"n_features_to_select": 5, "progress": False, "step": 0.6, **how}
    return dhsic.select(*data, **options)


@pytest.mark.parametrize("name", RUNS)
def test_same_ranking_on_a_device(name, data, client, tmp_path, monkeypatch, seen):
    here = selected(data, **RUNS[name])
    assert not seen
    monkeypatch.setenv(DEVICE, DEVICE1)
    there = selected(data, **RUNS[name])
    assert seen[1:]
    assert all("device1" in place for place in seen)
    assert_array_equal(there["rank"], here["rank"])
    assert_allclose(there["score"], here["score"], rtol=1e-4, atol=1e-12)
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        afar = selected(data, runtime=runtime, **RUNS[name])
    assert_array_equal(afar["rank"], there["rank"])
    assert_array_equal(afar["score"], there["score"])


@pytest.mark.parametrize("device", [DEVICE1, "torch:cpu"])
@pytest.mark.parametrize("solver", ["exact", "lowrank"])
def test_same_ranking_of_genotypes(solver, device, genotypes, monkeypatch, seen):
    if device.startswith("torch"):
        pytest.importorskip("torch")
    asked = {"solver": solver, "step": 0.3, "missing_code": -1}
    here = selected(genotypes, **asked)
    assert not seen
    monkeypatch.setenv(DEVICE, device)
    there = selected(genotypes, **asked)
    assert seen
    assert_array_equal(there["rank"], here["rank"])
    assert_allclose(there["score"], here["score"], rtol=1e-4, atol=1e-12)


def test_same_ranking_by_torch(data, monkeypatch, seen):
    pytest.importorskip("torch")
    here = selected(data)
    monkeypatch.setenv(DEVICE, "torch:cpu")
    assert_array_equal(selected(data)["rank"], here["rank"])
    assert "cpu" in seen


def test_the_result_says_the_device(data, monkeypatch):
    assert "device" not in json.loads(selected(data).attrs["versions"])
    monkeypatch.setenv(DEVICE, DEVICE1)
    assert json.loads(selected(data).attrs["versions"])["device"] == DEVICE1


def test_a_checkpoint_stays_on_its_device(data, tmp_path, monkeypatch):
    monkeypatch.setenv(DEVICE, DEVICE1)
    selected(data, checkpoint=tmp_path / "run.dhsic")
    monkeypatch.delenv(DEVICE)
    with pytest.raises(CheckpointError, match="device"):
        selected(data, checkpoint=tmp_path / "run.dhsic")


def test_a_run_that_is_left_to_the_cluster_takes_its_device_along(
    data, client, tmp_path, monkeypatch
):
    monkeypatch.setenv(DEVICE, DEVICE1)
    store, y = data
    asked = {"n_features_to_select": 5, "step": 0.6, "client": client}
    with dhsic.submit(store, y, checkpoint=tmp_path / "run.dhsic", **asked) as run:
        monkeypatch.delenv(DEVICE)
        result = run.result(120)
    assert json.loads(result.attrs["versions"])["device"] == DEVICE1
    assert_array_equal(result["rank"], selected(data)["rank"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("array_api_strict:device9", "ValueError"),
        ("two words", "does not name an array library"),
    ],
)
def test_no_such_device(name, said, data, monkeypatch):
    monkeypatch.setenv(DEVICE, name)
    with pytest.raises(
        InputError, match=rf"DHSIC_DEVICE='{name}'.*{said}.*(unset it|unset the var)"
    ):
        selected(data)
