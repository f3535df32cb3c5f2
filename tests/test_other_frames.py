"""Frames of polars, pyarrow and dask: read by name, with advice that works for them."""

import re

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dhsic
from dhsic.independence import test_features as features_tested

M, D = 60, 4
RNG = np.random.default_rng(3)
VALUES = RNG.normal(size=(M, D))
Y = VALUES[:, 1] + 0.2 * RNG.normal(size=M)
IDS = [f"s{i}" for i in range(M)]
ORDER = RNG.permutation(M)
X = pd.DataFrame(VALUES, pd.Index(IDS, name="id"), [f"g{j}" for j in range(D)])
MAKERS = {"polars": pl.DataFrame, "pyarrow": pa.table}
NAMES = {"pandas": pd, "polars": pl}


@pytest.mark.parametrize("package", MAKERS)
@pytest.mark.parametrize("ids", [IDS, [*range(100, 100 + M)]], ids=["text", "numbers"])
def test_ids_of_a_frame_order_its_rows(package, ids):
    x = X.set_axis(pd.Index(ids, name="id"))
    y = MAKERS[package]({"id": [ids[i] for i in ORDER], "y": Y[ORDER]})
    tested = features_tested(x, y)
    np.testing.assert_array_equal(tested.p_values, features_tested(VALUES, Y).p_values)
    again = features_tested(x, Y, covariates=MAKERS[package]({"id": ids, "c": VALUES[:, 0]}))
    np.testing.assert_array_equal(
        again.p_values, features_tested(VALUES, Y, covariates=VALUES[:, 0]).p_values
    )


@pytest.mark.parametrize("package", MAKERS)
def test_a_column_of_names_becomes_the_index_by_the_advice(package):
    frame = MAKERS[package]({"id": IDS, **{name: X[name].to_numpy() for name in X.columns}})
    with pytest.raises(dhsic.InputError, match="contains sample names") as error:
        features_tested(frame, Y)
    said = re.search(
        r"index: X = (.*?)\. This code is for pandas: begin with X = (.*)\.$", str(error.value)
    )
    known = {"pandas": pd, "X": frame}
    known["X"] = eval(said[2], known)
    tested = features_tested(eval(said[1], known), Y)
    np.testing.assert_array_equal(tested.p_values, features_tested(X, Y).p_values)
    assert tested.names.tolist() == [*X.columns]


@pytest.mark.parametrize("package", MAKERS)
def test_text_of_a_frame_becomes_numbers_by_the_advice(package):
    y = MAKERS[package]({"y": [f"{value:.3f} kg" for value in Y]})
    with pytest.raises(dhsic.InputError, match="numbers with a unit") as error:
        features_tested(X, y)
    code = re.search(r"as numbers without the unit: pass (.*)\. If they", str(error.value))[1]
    np.testing.assert_allclose(eval(code, {"pandas": pd, "Y": y}), Y, atol=1e-3)


@pytest.mark.parametrize("package", MAKERS)
def test_rows_are_matched_by_a_shared_column_by_the_advice(package):
    key = RNG.choice(10**6, M, replace=False)
    x = X.reset_index(drop=True).assign(visit=key)
    y = MAKERS[package]({"visit": key[ORDER], "y": Y[ORDER]})
    with pytest.raises(dhsic.InputError, match="Match rows by this column") as error:
        features_tested(x, y)
    said = re.search(r"column: pass (.*?) for Y, (.*?) for X", str(error.value))
    known = {"pandas": pd, "Y": y, "X": x}
    tested = features_tested(eval(said[2], known), eval(said[1], known)["y"], by_position=True)
    np.testing.assert_array_equal(tested.p_values, features_tested(VALUES, Y).p_values)


@pytest.mark.parametrize("package", [*MAKERS, "dask"])
def test_features_have_the_names_of_columns(package):
    columns = {name: X[name].to_numpy() for name in X.columns}
    frame = (
        dd.from_pandas(X, npartitions=2, sort=False)
        if package == "dask"
        else MAKERS[package](columns)
    )
    tested = features_tested(frame, Y)
    assert tested.names.tolist() == [*X.columns]
    np.testing.assert_array_equal(tested.p_values, features_tested(VALUES, Y).p_values)
    assert dhsic.open_source(frame).feature_names().tolist() == [*X.columns]


def test_labels_of_a_dask_frame_are_a_column():
    frame = dd.from_pandas(X.assign(y=Y), npartitions=3, sort=False)
    tested = features_tested(frame, "y")
    assert tested.names.tolist() == [*X.columns]
    np.testing.assert_array_equal(tested.p_values, features_tested(X, Y).p_values)
