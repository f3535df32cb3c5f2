"""Labels in another group of a store than the matrix, with samples in another order."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import run

import dhsic
from dhsic.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
M, D = 80, 12


def study(path, order, names=None):
    """Store with a matrix in `rna`, and labels and a covariate in `clinical`, in an `order`."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((M, D))
    ids = np.array([f"S{i:03d}" for i in range(M)], dtype=object)
    genes = [f"g{j}" for j in range(D)]
    counts = xr.DataArray(X, {"sample": ids, "gene": genes}, ("sample", "gene"), name="counts")
    counts.to_dataset().to_zarr(path, group="rna", consolidated=False)
    bmi = X[order, 3] + 0.3 * rng.standard_normal(M)
    coords = {"sample": ids[order] if names is None else names}
    clinical = {"bmi": ("sample", bmi), "age": ("sample", rng.normal(50, 9, M))}
    xr.Dataset(clinical, coords).to_zarr(path, group="clinical", mode="a", consolidated=False)
    return str(path)


ARGUMENTS = "--variable", "rna/counts", "--target", "clinical/bmi", "-n", 1


@pytest.mark.parametrize("names", [None, np.array([f"Q{i}" for i in range(M)], dtype=object)])
def test_another_order_is_refused_and_the_command_writes_a_table(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    order = np.random.default_rng(1).permutation(M)
    path = study(tmp_path / "m.zarr", order, names)
    said = " ".join(run("test", path, *ARGUMENTS, code=2).stderr.split())
    assert "named by 'clinical/sample'" in said
    with pytest.raises(InputError, match="each would belong to another sample"):
        dhsic.select(path, "clinical/bmi", variable="rna/counts")
    command = re.search(r'python (-c ".*?"), then', said)[1]
    subprocess.run([sys.executable, *shlex.split(command)], check=True)
    table = "--variable", "rna/counts", "--labels", "labels.csv", "--target", "bmi", "-n", 1
    if names is not None:
        assert "sample names" in run("test", path, *table, code=2).stderr
        return
    assert "g3 " in run("test", path, *table).stdout
    X = dhsic.open_source(path, variable="rna/counts")
    y = eval(re.search(r"In Python, pass (.*) with X", said)[1], {"pandas": pd, "X": X})
    assert dhsic.test_features(X, y).p_values.argmin() == 3


def test_covariates_and_weights_of_another_order_are_refused(tmp_path):
    path = study(tmp_path / "m.zarr", np.arange(M)[::-1])
    y = np.random.default_rng(2).standard_normal(M)
    for given in ({"covariates": "clinical/age"}, {"sample_weight": "clinical/age"}):
        with pytest.raises(InputError, match="'clinical/age' are named by 'clinical/sample'"):
            dhsic.select(path, y, variable="rna/counts", **given)


def test_the_same_order_in_two_groups_is_right(tmp_path):
    path = study(tmp_path / "m.zarr", np.arange(M))
    assert "g3 " in run("test", path, *ARGUMENTS).stdout
