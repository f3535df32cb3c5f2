"""Names of features and samples that have several levels in pandas."""

import re

import numpy as np
import pandas as pd
import pytest

import dhsic
from dhsic.errors import InputError

M = 60
RNG = np.random.default_rng(4)
G = RNG.normal(size=(M, 8))
BMI = G[:, 3] + 0.3 * RNG.normal(size=M)
FEATURES = [f"g{i}" for i in range(8)]
#: Levels of the names of samples.
INDEXES = {
    "text": pd.MultiIndex.from_product(
        [[f"P{i:02d}" for i in range(30)], ["v1", "v2"]], names=["patient", "visit"]
    ),
    "numbers": pd.MultiIndex.from_product([range(30), [1, 2]], names=["patient", "visit"]),
    "three levels": pd.MultiIndex.from_product(
        [[f"P{i}" for i in range(15)], ["a", "b"], [1, 2]], names=["id", "tissue", "visit"]
    ),
    "without names": pd.MultiIndex.from_product([["a", "b"], range(30)]),
}


@pytest.mark.parametrize(
    "columns",
    [
        pd.MultiIndex.from_product([["rna", "protein"], ["a", "b", "c", "d"]]),
        pd.MultiIndex.from_product([[1, 2], ["a", "b"], [3, 4]]),
    ],
)
def test_columns_of_several_levels_are_refused_with_code_that_joins_them(columns):
    X = pd.DataFrame(G, columns=columns)
    with pytest.raises(InputError, match="levels of names") as error:
        dhsic.select(X, BMI, n_features_to_select=2, progress=False)
    exec(re.search(r"Join the levels: (.*)\.$", str(error.value))[1], {"X": X})
    found = dhsic.select(X, BMI, n_features_to_select=2, progress=False)
    assert found["feature"].values[3] == "_".join(map(str, columns[3]))
    assert found["rank"].values[3] == 1


@pytest.mark.parametrize("kind", INDEXES)
def test_levels_of_an_index_in_a_file_are_joined_as_in_a_frame(kind, tmp_path):
    X, path = pd.DataFrame(G, columns=FEATURES, index=INDEXES[kind]), tmp_path / "x.parquet"
    X.to_parquet(path)
    names = ["_".join(map(str, name)) for name in INDEXES[kind]]
    assert dhsic.open_source(path).sample_names().tolist() == names
    y = pd.Series(BMI, index=names)
    found = dhsic.select(path, y, n_features_to_select=2, progress=False)
    assert found["rank"].values[3] == 1
    with pytest.raises(InputError, match="in a different order"):
        dhsic.select(path, y[::-1], n_features_to_select=2, progress=False)


def test_a_level_that_is_unique_remains_the_name(tmp_path):
    index = pd.MultiIndex.from_arrays(
        [["a", "b"] * (M // 2), [f"P{i}" for i in range(M)]], names=["site", "id"]
    )
    pd.DataFrame(G, columns=FEATURES, index=index).to_parquet(tmp_path / "x.parquet")
    names = dhsic.open_source(tmp_path / "x.parquet").sample_names()
    assert names.tolist() == [f"P{i}" for i in range(M)]
