"""Bad input in memory, one kind a row: what is tried, the error, and the words it has to name.

Every `fit` is given a checkpoint that is not there yet, and none may be left behind.
"""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr
from refusals import assert_refused

import dhsic
from dhsic import BAHSIC, DataError, InputError, LinearHSIC
from dhsic.kernels import Polynomial

X = np.random.default_rng(0).standard_normal((12, 6))
Y = np.arange(12) % 2
NAMES = [f"s{i}" for i in range(12)]
FRAME = pd.DataFrame(X, index=NAMES, columns=list("abcdef"))
TRAIT = pd.Series(Y, index=NAMES)
CUBE = xr.DataArray(X, dims=("cells", "genes"), coords={"cells": NAMES})
DAYS = np.arange(12).astype("M8[D]")
L = np.outer(Y, Y).astype(float)


def fit(X=X, y=Y, *, cls=BAHSIC, covariates=None, sample_dim=None, variable=None, **options):
    """Fit a selector that would keep a checkpoint."""
    options = {"progress": False, "runtime": "threads", "checkpoint": "run.dhsic"} | options
    options = {"n_features_to_select": 2} | options
    given = {"covariates": covariates, "sample_dim": sample_dim, "variable": variable}
    return cls(**options).fit(X, y, **given)


def select(data, target, **options):
    """Call `dhsic.select` in the same way."""
    return dhsic.select(data, target, progress=False, checkpoint="run.dhsic", **options)


def put(value, row=2, column=3):
    """X with one value changed."""
    out = X.copy()
    out[row, column] = value
    return out


def every(value, values=X[:, 0]):
    """Values of which every second one is something else."""
    return np.where(Y, value, values)


UNREADABLE = {
    "None": (lambda: fit(None), InputError, "builtins.NoneType", "Pass a NumPy"),
    "a dict": (lambda: fit({"a": 3}), InputError, "builtins.dict", "Pass a NumPy"),
    "a path as bytes": (lambda: fit(b"x.zarr"), InputError, "builtins.bytes", "a path or a URL"),
    "ragged lists": (lambda: fit([[1, 2], [3]], Y[:2]), InputError, "inhomogeneous", "Pass a ma"),
    "one axis": (lambda: fit(X[:, 0]), InputError, "(12,)", "X.reshape(-1, 1)"),
    "one axis, hsic": (
        lambda: dhsic.hsic(X[..., None], Y),
        *(InputError, "(12, 6, 1)", "one row per"),
    ),
    "three axes": (lambda: fit(X[..., None]), InputError, "(12, 6, 1)", "Reshape "),
    "three named axes": (
        lambda: fit(xr.DataArray(X[..., None], dims=("cells", "genes", "time"))),
        *(InputError, "'time'", ".isel"),
    ),
    "no features": (lambda: fit(X[:, :0]), InputError, "0 feature(s) (shape=(12, 0))", "Pass a"),
    "no features, hsic": (lambda: dhsic.hsic(X[:, :0], Y), InputError, "(12, 0)", "one feature"),
    "no samples": (lambda: fit(X[:0], Y[:0]), InputError, "(0, 6)", "Pass a matrix"),
    "no samples, dask": (lambda: fit(da.zeros((0, 6)), []), InputError, "(0, 6)", "Pass a matrix"),
    "sparse text": (
        lambda: fit(scipy.sparse.csr_array(X.astype(complex))),
        *(InputError, "complex128", "Complex data"),
    ),
    "sparse, hsic": (
        lambda: dhsic.hsic(scipy.sparse.csr_array(X), Y),
        *(InputError, "csr_array of shape (12, 6)", "X.toarray()"),
    ),
    "sparse frame": (
        lambda: fit(pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(X))),
        *(InputError, "['0', '1', '2', '3', '4'] of the DataFrame (6 in all)", "to_dense()"),
    ),
    "sparse chunks of dask": (
        lambda: fit(da.from_array(X).map_blocks(scipy.sparse.csr_matrix)),
        *(InputError, "scipy.sparse", "chunk.toarray()"),
    ),
    "masked": (
        lambda: fit(np.ma.masked_less(X, 0)),
        *(InputError, "X is a masked array", "X.astype(float).filled(np.nan)"),
    ),
    "text": (lambda: fit(X.astype(str)), InputError, "<U32", ".astype('float32')"),
    "words": (
        lambda: fit(np.full((12, 6), "AA", object)),
        *(InputError, "'AA'", "Pass a matrix of numbers"),
    ),
    "words, hsic": (
        lambda: dhsic.hsic(np.full((12, 6), "AA"), Y),
        *(InputError, "<U2", "get_dummies"),
    ),
    "complex": (lambda: fit(X + 1j), InputError, "complex128", "numpy.abs"),
    "complex, hsic": (lambda: dhsic.hsic(X + 1j, Y), InputError, "complex128", "numpy.abs"),
    "dates": (lambda: fit(np.tile(DAYS, (6, 1)).T), InputError, "datetime64[D]", "timedelta64"),
    "records": (lambda: fit(np.zeros(12, [("a", "f8")])), InputError, "(12,)", "two axes"),
    "frame with free text": (
        lambda: fit(FRAME.assign(note=[f"note {i}" for i in range(12)])),
        *(InputError, "'note'", "not_features=['note']"),
    ),
    "frame with categories": (
        lambda: dhsic.find_pairs(FRAME.assign(sex=pd.Categorical(["m", "f"] * 6)), Y),
        *(InputError, "['sex']", "get_dummies"),
    ),
    "frame with dates": (lambda: fit(FRAME.assign(born=DAYS)), InputError, "['born']", "Or drop"),
    "columns called alike": (
        lambda: fit(FRAME.set_axis(list("aabcdd"), axis=1)),
        *(InputError, "['a', 'd']", "X.columns.duplicated()"),
    ),
    "columns called by text and number": (
        lambda: fit(FRAME.set_axis(["a", 1, 2, 3, 4, 5], axis=1)),
        *(InputError, "['a', 1, 2]", "X.columns.astype(str)"),
    ),
    "dask chunks of unknown size": (
        lambda: fit(da.from_array(X)[da.from_array(X[:, 0]) > 0], Y[X[:, 0] > 0]),
        *(InputError, "(nan, 6)", "compute_chunk_sizes"),
    ),
    "variable of an array": (lambda: fit(variable="x"), InputError, "variable='x'", "Leave out"),
}

SHAPES = {
    "fewer labels": (lambda: fit(y=Y[:5]), InputError, "12 samples", "5 labels", "one label per"),
    "transposed": (lambda: fit(X.T), InputError, "(6, 12)", "12 labels", "X.T", "sample_dim=1"),
    "transposed frame": (lambda: fit(FRAME.T), InputError, "(6, 12)", "pass X.T"),
    "transposed dask": (lambda: fit(da.from_array(X.T)), InputError, "(6, 12)", "sample_dim=1"),
    "square without names": (
        lambda: fit(xr.DataArray(X[:6], dims=("a", "b")), Y[:6]),
        *(
            InputError,
            "(6, 6)",
            "('a', 'b')",
            "both axes have this length",
            "sample_dim=0 or sample_dim=1",
        ),
    ),
    "unknown sample_dim": (
        lambda: fit(CUBE, sample_dim="people"),
        *(InputError, "('cells', 'genes')", "sample_dim='people'", "Pass one of its dimensions"),
    ),
    "sample_dim beyond two": (lambda: fit(sample_dim=2), InputError, "sample_dim=2", "or 0 or 1"),
    "three samples": (lambda: fit(X[:3], Y[:3]), InputError, "n_samples=3", "statistic='biased'"),
    "three samples, hsic": (
        lambda: dhsic.hsic(X[:3], Y[:3]),
        *(InputError, "at least 4 samples", "n_samples=3", "statistic='biased'"),
    ),
    "one sample": (
        lambda: fit(X[:1], Y[:1], statistic="biased"),
        *(InputError, "at least 2 samples", "n_samples=1", "collect more"),
    ),
    "dataset without a matrix": (
        lambda: fit(xr.Dataset({"trait": ("cells", Y)})),
        *(InputError, "0 variables with two", "trait (12,)", "as variable="),
    ),
    "dataset with two matrices": (
        lambda: fit(xr.Dataset({"rna": CUBE, "atac": CUBE})),
        *(InputError, "atac (12, 6), rna (12, 6)", "as variable="),
    ),
    "unknown variable": (
        lambda: fit(xr.Dataset({"rna": CUBE}), variable="rnaa"),
        *(InputError, "'rnaa'", "rna (12, 6)", "as variable="),
    ),
    "unknown target": (
        lambda: select(xr.Dataset({"rna": CUBE, "trait": ("cells", Y)}), "traits"),
        *(
            InputError,
            "with one value per sample; such variables are trait. Did you mean 'trait'? Pass one",
        ),
    ),
    "unknown target in fit": (
        lambda: fit(xr.Dataset({"rna": CUBE}), "trait"),
        *(
            InputError,
            "'trait' with one value per sample, and no other such variable. Pass the labels",
        ),
    ),
    "target of an array": (lambda: select(X, "trait"), InputError, "ndarray has no", "one per sam"),
    "target of another length": (
        lambda: fit(xr.Dataset({"rna": CUBE, "trait": ("donors", Y[:4])}), "trait"),
        *(InputError, "12 samples", "4 labels", "Pass one label per sample"),
    ),
}

VALUES = {
    "infinity": (lambda: fit(put(np.inf)), DataError, "Feature 3 of sample 2 is inf", "by NaN"),
    "infinity, frame": (
        lambda: fit(pd.DataFrame(put(-np.inf))),
        *(DataError, "Feature 3 of sample 2 is -inf", "replace infinite values by NaN"),
    ),
    "infinity, dask": (
        lambda: fit(da.from_array(put(np.inf), chunks=4)),
        *(DataError, "Feature 3 of sample 2 is inf", "Correct the program"),
    ),
    "infinity, linear": (lambda: fit(put(np.inf), cls=LinearHSIC), DataError, "Feature 3", "NaN"),
    "NaN, hsic": (lambda: dhsic.hsic(put(np.nan), Y), InputError, "first at sample 2: nan", "Fill"),
    "NaN, refused": (
        lambda: fit(put(np.nan), missing="error"),
        *(InputError, "1 values are missing in 1 features (first: feature 3)", "missing='mean'"),
    ),
    "NaN only": (
        lambda: fit(np.full((12, 6), np.nan)),
        *(InputError, "None of the 6 features has a value in any sample", "Check which matrix"),
    ),
    "constant": (lambda: fit(np.ones((12, 6))), InputError, "All 6 features are", "Check which"),
    "beyond squares": (
        lambda: fit(X * 1e200),
        *(InputError, "6 features (first: feature 0, with mean", "e+199)", "rescale"),
    ),
    "beyond squares, float32": (
        lambda: fit((X * 1e36).astype("f4")),
        *(InputError, "6 features", "take logarithms"),
    ),
    "beneath squares": (
        lambda: fit(X * 1e-200),
        InputError,
        "vary so little",
        "rescale the features",
    ),
    "beyond squares, hsic": (
        lambda: dhsic.hsic(X * 1e200, Y),
        *(InputError, "72 values", "first at sample 0: 1.25", "rescale them"),
    ),
    "polynomial overflows": (
        lambda: fit(X * 1e14, kernel=Polynomial(degree=20), standardize=False),
        *(InputError, "polynomial kernel overflows", "is 3", "standardize=True"),
    ),
    "polynomial overflows, hsic": (
        lambda: dhsic.hsic(X * 1e40, Y, kernel=Polynomial(degree=4)),
        *(InputError, "polynomial kernel overflows", "Rescale the data", "lower degree"),
    ),
    "unscaled and large": (
        lambda: fit(X * 1e20, kernel="linear", standardize=False),
        *(InputError, "6 features (first: feature 0", "pass standardize=True"),
    ),
    "unscaled and small": (
        lambda: fit(X * 1e-8, standardize=False),
        *(InputError, "by more than", "e-08", "Pass standardize=True"),
    ),
    "kernel too narrow": (
        lambda: fit(X, bandwidth=1e6),
        *(InputError, "all 6 scores are 0", "sigma=1e+06", "bandwidth='median'"),
    ),
}

LABELS = {
    "one class": (lambda: fit(y=Y * 0), InputError, "All 12 labels are 0", "at least two classes"),
    "one class, text": (lambda: dhsic.hsic(X, ["a"] * 12), InputError, "'a'", "two classes"),
    "constant target": (
        lambda: fit(y=np.full(12, 0.5), label_kernel="gaussian"),
        *(InputError, "Target 0 is constant (0.5)", "leave it out"),
    ),
    "NaN labels": (lambda: fit(y=every(np.nan)), InputError, "6 of 12 labels", "first at sample 1"),
    "infinite labels": (lambda: fit(y=every(np.inf)), InputError, "6 of 12 labels", "Drop those"),
    "labels of None": (lambda: fit(y=["a", None] * 6), InputError, "6 of 12 labels", "fill them"),
    "labels of pandas.NA": (
        lambda: fit(y=pd.Series(["a", None] * 6, dtype="string")),
        *(InputError, "6 of 12 labels are missing", "drop those samples"),
    ),
    "integers of pandas.NA": (
        lambda: fit(y=pd.Series([1, None] * 6, dtype="Int64")),
        *(InputError, "6 of 12 labels are missing", "drop those samples"),
    ),
    "dates as labels": (lambda: fit(y=DAYS), InputError, "datetime64[D]", "y - y.min()"),
    "dates as labels, hsic": (lambda: dhsic.hsic(X, DAYS), InputError, "datetime64[D]", "days"),
    "complex labels": (lambda: fit(y=Y + 1j), InputError, "complex128", "numpy.abs"),
    "masked labels": (lambda: fit(y=np.ma.masked_equal(Y, 1)), InputError, "masked", "y.astype"),
    "sparse labels": (
        lambda: fit(y=scipy.sparse.csr_array(Y[:, None])),
        *(InputError, "csr_array of shape (12, 1)", "y.toarray()"),
    ),
    "labels in a row": (lambda: fit(y=Y[None]), InputError, "(1, 12)", "y.ravel()"),
    "labels with three axes": (lambda: fit(y=Y[:, None, None]), InputError, "(12, 1, 1)", "(m, t)"),
    "a number as labels": (lambda: fit(y=3), InputError, "y='3' (int)", "one row per sample"),
    "ragged labels": (lambda: fit(y=[[1], [2, 3]] * 6), InputError, "inhomogeneous", "equal leng"),
    "no labels": (lambda: fit(y=None), InputError, "y is None", "Pass one label per sample"),
    "names as labels": (lambda: fit(y=NAMES), InputError, "12 samples", "'s0', 's1'", "Pass label"),
    "huge labels": (lambda: fit(y=X[:, 0] * 1e200), InputError, "e+200", "y / y.std()"),
    "text for a real kernel": (
        lambda: fit(y=["a", "b"] * 6, label_kernel="linear"),
        *(InputError, "label_kernel='linear' needs numbers", "'a'", "label_kernel='auto'"),
    ),
    "three classes for two": (
        lambda: fit(y=np.arange(12) % 3, label_kernel="balanced"),
        *(InputError, "'balanced' needs two classes, but y has 3", "pass 'multiclass'"),
    ),
    "L not square": (
        lambda: fit(y=L[:, :5], label_kernel="precomputed"),
        *(InputError, "(12, 5)", "pass (m, m)"),
    ),
    "L of another size": (
        lambda: fit(y=L[:5, :5], label_kernel="precomputed"),
        *(InputError, "12 samples", "5 labels"),
    ),
    "L not symmetric": (
        lambda: fit(y=np.triu(L + 1), label_kernel="precomputed"),
        *(InputError, "largest difference 2", "pass (L + L') / 2"),
    ),
    "L with NaN": (
        lambda: fit(y=np.where(L, np.nan, L), label_kernel="precomputed"),
        *(InputError, "values in the precomputed L are NaN", "first at sample 1", "Fill them in"),
    ),
    "L that says nothing": (
        lambda: fit(y=np.ones((12, 12)), label_kernel="precomputed"),
        *(InputError, "labels do not vary after centring", "Pass labels shared"),
    ),
}

CASES = UNREADABLE | SHAPES | VALUES | LABELS


@pytest.mark.parametrize("kind", CASES)
def test_bad_input_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, error, *words = CASES[kind]
    assert_refused(call, error, words, tmp_path)


def test_many_kinds_are_tried():
    assert len(CASES) == len(UNREADABLE) + len(SHAPES) + len(VALUES) + len(LABELS) >= 80
