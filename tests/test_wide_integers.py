"""Integers beyond 2**53: as values they are refused, as names every digit of them stays."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from commands import run, told
from stores import write, write_matrix

import dhsic
from dhsic.errors import DataError, InputError
from dhsic.sources.opening import open_source
from dhsic.validation import beyond_float

M, D = 12, 6
EDGE = 2**53
Y = np.arange(M) % 2


def matrix(value=EDGE + 1, dtype="i8"):
    X = np.random.default_rng(0).integers(0, 9, (M, D)).astype(dtype)
    X[3, 2] = value
    return X


def test_where_they_are():
    for dtype, wide in (("i8", [EDGE + 1, -EDGE - 1, 2**62, -(2**63)]), ("u8", [2**64 - 1])):
        held = np.array([0, EDGE, *([-EDGE] if dtype == "i8" else [])], dtype)
        assert not beyond_float(held).any()
        assert beyond_float(np.array(wide, dtype)).all()
        assert beyond_float(np.r_[held, np.array(wide, dtype)]).sum() == len(wide)
    assert not beyond_float(np.array([2**31 - 1, -(2**31)], "i4")).any()
    assert not beyond_float(np.array([1e300])).any()
    assert beyond_float(np.empty((0, 3), "i8")).shape == (0, 3)


def stored(X, path):
    write_matrix(path, X, dims=("variants", "samples"))
    return path


MAKE = {
    "array": lambda X, path: X,
    "fortran": lambda X, path: np.asfortranarray(X),
    "dask": lambda X, path: da.from_array(X, (5, 4)),
    "DataArray": lambda X, path: xr.DataArray(X, dims=("samples", "genes")),
    "store": stored,
    "frame": lambda X, path: pd.DataFrame(X),
}


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize(
    ("dtype", "value"), [("i8", EDGE + 1), ("i8", -(2**60)), ("u8", 2**64 - 1)]
)
def test_data_are_refused_where_they_are_read(make, dtype, value, tmp_path):
    X = MAKE[make](matrix(value, dtype), tmp_path / "x")
    with pytest.raises((DataError, InputError), match=r"2\*\*53"):
        dhsic.BAHSIC(2).fit(X, Y)
    if make != "frame":  # which names the column
        with pytest.raises(DataError, match=rf"Feature 2 of sample 3 is {value}.* 2\*\*53"):
            dhsic.BAHSIC(2).fit(X, Y)


def test_integers_that_float64_holds_are_values():
    dhsic.BAHSIC(2).fit(matrix(EDGE), Y)
    dhsic.BAHSIC(2).fit(matrix(-EDGE), Y)


def test_a_code_for_missing_is_no_value(tmp_path):
    lowest = np.iinfo("i8").min
    X = matrix(lowest)
    for source in (
        open_source(X, missing_code=lowest),
        open_source(stored(X, tmp_path / "x"), missing_code=lowest),
    ):
        result = dhsic.select(source, Y, n_features_to_select=2)
        assert result.attrs["n_missing_values"] == 1
    with pytest.raises(DataError, match="Feature 2 of sample 3"):
        dhsic.select(open_source(X), Y, n_features_to_select=2)


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64"])
def test_frames_of_several_dtypes_name_the_columns(kind):
    scattered = np.sin(np.arange(M))
    frame = pd.DataFrame({"a": scattered, "b": 1 - Y, "person": EDGE + np.arange(M)})
    frame = frame.astype({"person": kind})
    if kind == "Int64":
        frame.loc[0, "person"] = pd.NA
    with pytest.raises(InputError, match=r"\['person'\] .* \(1 in all\) .*2\*\*53"):
        dhsic.BAHSIC(1).fit(frame, Y)
    dhsic.BAHSIC(1).fit(frame.assign(person=(frame["person"] - EDGE) % 5), Y)


@pytest.mark.parametrize("wide", [EDGE + Y, (EDGE + Y).astype("u8"), (EDGE + Y).astype(object)])
def test_labels_are_refused(wide):
    X = np.random.default_rng(0).standard_normal((M, D))
    for label_kernel in ("auto", "binary", "linear"):
        with pytest.raises(InputError, match=r"6 integers in y .*\(first at sample 1: 9007199254"):
            dhsic.BAHSIC(2, label_kernel=label_kernel).fit(X, wide)
    ranks = dhsic.BAHSIC(2).fit(X, wide.astype(str)).ranking_
    assert ranks.tolist() == dhsic.BAHSIC(2).fit(X, Y).ranking_.tolist()


def test_covariates_are_refused():
    X = np.random.default_rng(0).standard_normal((M, D))
    for covariates in (EDGE + np.arange(M), pd.DataFrame({"reads": EDGE + np.arange(M)})):
        with pytest.raises(InputError, match=r"11 integers in covariates"):
            dhsic.BAHSIC(2).fit(X, X[:, 0], covariates=covariates)


# -- on the command line -----------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    """A store whose samples are named by integers that float64 does not tell apart."""
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    X = np.random.default_rng(0).standard_normal((M, D))
    write(group, "dosage", X, ("samples", "genes"))
    write(group, "sample_id", EDGE + np.arange(M), ("samples",))
    write(group, "person", EDGE + Y, ("samples",))
    write(group, "trait", Y, ("samples",))
    return tmp_path / "g.zarr"


SELECT = ("-n", 2, "--threads", 1, "--no-progress")


def test_variables_of_a_store(store):
    said = told(run("select", store, "--target", "person", *SELECT, code=2))
    assert "6 integers in 'person' are larger than 2**53" in said
    plain = ("select", store, "--target", "trait", *SELECT)
    assert "6 integers in 'person' are larger than 2**53" in told(
        run(*plain, "--covariate", "person", code=2)
    )
    run("inspect", store, "--sample-dim", "samples")


def test_columns_of_a_table(store, tmp_path):
    table = tmp_path / "t.csv"
    names = [str(EDGE + i) for i in range(M)]
    frame = pd.DataFrame({"name": names, "status": Y, "code": [names[k] for k in Y]})
    frame["barcode"] = np.where(Y, "x", frame["name"])
    frame.iloc[::-1].to_csv(table, index=False)
    plain = ("select", store, "--labels", table, *SELECT)
    assert "matched by sample name" in told(run(*plain, "--target", "status"))
    for more in (("--target", "code"), ("--target", "status", "--covariates", f"{table}:code")):
        assert "6 integers in 'code' are larger than 2**53" in told(run(*plain, *more, code=2))
    run(*plain, "--target", "code", "--na", names[1], "--drop-missing", code=2)  # one class is left
    renamed = frame.assign(code=["c" + name for name in frame["code"]])
    renamed.to_csv(table, index=False)
    run(*plain, "--target", "code")


def test_names_keep_their_digits(store):
    source = open_source(store, sample_dim="samples")
    assert source.sample_names().tolist() == [str(EDGE + i) for i in range(M)]
    X = np.random.default_rng(0).standard_normal((M, D))
    frame = pd.DataFrame(X, index=EDGE + np.arange(M), columns=EDGE + np.arange(D))
    named = xr.DataArray(X, dims=("samples", "genes"), coords={"genes": EDGE + np.arange(D)})
    for data in (frame, named):
        names = open_source(data).feature_names()
        assert [str(name) for name in names] == [str(EDGE + i) for i in range(D)]


def test_missing_dates_are_told_as_such():
    dates = pd.to_datetime(pd.Series(["2020-01-01", None] * (M // 2)))
    days = dates.astype("datetime64[s]").to_numpy().astype("i8")
    with pytest.raises(InputError, match=r"6 values in y are the smallest .* missing date"):
        dhsic.BAHSIC(2).fit(np.random.default_rng(0).standard_normal((M, D)), days)
