"""Bad parameters, covariates and names of samples, one kind a row; and what only warns.

The tables are of the form of test_bad_inputs.py.
"""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr
from numpy.testing import assert_array_equal
from refusals import assert_refused
from test_bad_inputs import CUBE, DAYS, FRAME, NAMES, TRAIT, X, Y, every, fit, select

import dhsic
from dhsic import BAHSIC, CheckpointError, InputError, LinearHSIC, MemoryBudgetError
from dhsic.kernels import Polynomial

PARAMETERS = {
    "kernel": (lambda: fit(kernel="rbf"), InputError, "kernel='rbf'", "gaussian, linear, polyn"),
    "kernel, a class": (lambda: fit(kernel=Polynomial), InputError, "a kernel object such as"),
    "kernel, hsic": (lambda: dhsic.hsic(X, Y, kernel=3), InputError, "kernel=3", "pass one of"),
    "degree": (lambda: Polynomial(degree="two"), InputError, "degree='two'", "whole number >= 1"),
    "degree that is no number": (lambda: Polynomial(degree=np.nan), InputError, "degree=nan"),
    "offset": (lambda: Polynomial(offset="1"), InputError, "offset='1'", "a number >= 0"),
    "statistic": (lambda: fit(statistic="plugin"), InputError, "'plugin'", "or 'biased'"),
    "label_kernel": (lambda: fit(label_kernel="rbf"), InputError, "'rbf'", "auto, binary, balan"),
    "bandwidth": (lambda: fit(bandwidth="scott"), InputError, "'scott'", "'median'"),
    "bandwidth, negative": (lambda: fit(bandwidth=-1), InputError, "-1", "positive, finite"),
    "bandwidth, in a grid": (lambda: fit(bandwidth=[1, 0]), InputError, "contains 0", "positive"),
    "bandwidth, no grid": (lambda: fit(bandwidth=[]), InputError, "empty grid", "at least one"),
    "bandwidth of the linear kernel": (
        lambda: fit(kernel="linear", bandwidth=2.0),
        *(InputError, "bandwidth=2.0", "the linear kernel has no width", "kernel='gaussian'"),
    ),
    "bandwidth of a kernel object": (
        lambda: fit(kernel=Polynomial(), bandwidth="median"),
        *(InputError, "bandwidth='median'", "the polynomial kernel has no width", "leave it out"),
    ),
    "bandwidth of no kernel": (
        lambda: fit(kernel="linear", bandwidth="wide"),
        *(InputError, "'wide' is unknown", "'median'"),
    ),
    "step": (lambda: fit(step=1.0), InputError, "step=1.0", "a fraction in (0, 1)"),
    "step, text": (lambda: fit(step="half"), InputError, "step='half'", "a whole number >= 1"),
    "solver": (lambda: fit(solver="fast"), InputError, "solver='fast'", "'exact'"),
    "missing": (lambda: fit(missing="drop"), InputError, "missing='drop'", "'mean'"),
    "dtype": (lambda: fit(dtype="float16"), InputError, "dtype='float16'", "'float32'"),
    "standardize": (lambda: fit(standardize="yes"), InputError, "'yes'", "True or False"),
    "progress": (lambda: fit(progress="loud"), InputError, "progress='loud'", "'auto', True"),
    "progress, an array": (lambda: fit(progress=np.ones(2)), InputError, "array([1., 1.])"),
    "runtime": (lambda: fit(runtime="spark"), InputError, "runtime='spark'", "'threads', 'dask'"),
    "runtime, an object": (lambda: fit(runtime=None), InputError, "runtime=None", "'auto'"),
    "how many": (lambda: fit(n_features_to_select=0), InputError, "=0", "a count >= 1"),
    "how many, a fraction": (lambda: fit(n_features_to_select=1.5), InputError, "=1.5", "(0, 1)"),
    "how many, text": (lambda: fit(n_features_to_select="all"), InputError, "='all'", "None for"),
    "how many, linear": (
        lambda: fit(cls=LinearHSIC, n_features_to_select=True),
        *(InputError, "n_features_to_select=True", "pass a count"),
    ),
    "memory too small": (
        lambda: fit(memory_limit=1000),
        *(MemoryBudgetError, "peak memory", "limit is 1.0 kB", "raise the limit (memory_limit=)"),
    ),
    "memory as text": (
        lambda: fit(memory_limit="4GB"),
        InputError,
        "memory_limit='4GB'",
        "8 * 2**30",
    ),
    "memory below 0": (
        lambda: fit(memory_limit=-5),
        InputError,
        "memory_limit=-5",
        "a number of bytes",
    ),
    "method": (lambda: select(X, Y, method="lasso"), InputError, "'lasso'", "bahsic, fohsic"),
    "parameter": (lambda: select(X, Y, kernal="x"), InputError, "kernal", "which has", "kernel"),
    "checkpoint at a URL of no store": (
        lambda: fit(checkpoint="ftp://bucket/run"),
        *(CheckpointError, "'ftp://bucket/run'", "neither a folder nor the URL of an object sto"),
    ),
    "checkpoint at a URL with a password": (
        lambda: fit(checkpoint="s3://me:word@bucket/run"),
        *(CheckpointError, "checkpoint='s3://bucket/run'", "a user name or password"),
    ),
    "checkpoint at a URL with a query": (
        lambda: fit(checkpoint="s3://bucket/run?X-Amz-Signature=ab12"),
        *(CheckpointError, "checkpoint='s3://bucket/run'", "a query or fragment"),
    ),
    "checkpoint at a bucket": (
        lambda: fit(checkpoint="s3://bucket"),
        *(CheckpointError, "'s3://bucket'", "a folder in a bucket", "s3://bucket/run.dhsic"),
    ),
    "checkpoint without a name": (lambda: fit(checkpoint=""), CheckpointError, "''", "a folder"),
    "checkpoint is no path": (lambda: fit(checkpoint=3), CheckpointError, "checkpoint=3", "a fold"),
}

COVARIATES = {
    "NaN": (
        lambda: fit(covariates=every(np.nan)),
        *(InputError, "6 values in covariates are NaN", "first at sample 1: nan", "Fill them in"),
    ),
    "infinite": (lambda: fit(covariates=every(np.inf)), InputError, "6 values", "inf", "drop"),
    "huge": (lambda: fit(covariates=X * 1e200), InputError, "72 values", "rescale them"),
    "too short": (lambda: fit(covariates=X[:5]), InputError, "(5, 6)", "12 samples", "one row per"),
    "turned": (lambda: fit(covariates=X.T), InputError, "(6, 12)", "12 samples", "one row per"),
    "three axes": (lambda: fit(covariates=X[..., None]), InputError, "(12, 6, 1)", "one row per"),
    "a name": (lambda: fit(covariates="age"), InputError, "covariates='age' (str)", "one row per"),
    "text that is missing": (
        lambda: fit(covariates=pd.DataFrame({"sex": ["m", None] * 6})),
        *(InputError, "'sex' is missing for 6 of 12 samples", "fill in"),
    ),
    "dates beside text": (
        lambda: fit(covariates=pd.DataFrame({"sex": ["m", "f"] * 6, "born": DAYS})),
        *(InputError, "covariates['born'] are dates", "pandas.Timedelta(days=1)"),
    ),
    "dates": (lambda: fit(covariates=DAYS), InputError, "datetime64[D]", "np.timedelta64(1, 'D')"),
    "complex": (lambda: fit(covariates=X + 1j), InputError, "complex128", "numpy.abs"),
    "sparse": (
        lambda: fit(covariates=scipy.sparse.csr_array(X)),
        *(InputError, "csr_array of shape (12, 6)", "covariates.toarray()"),
    ),
    "explain the labels": (
        lambda: fit(covariates=Y),
        *(InputError, "Nothing is left of the labels", "covariates", "leave out the covariate"),
    ),
    "as many as samples": (
        lambda: fit(covariates=np.eye(12)),
        *(InputError, "11 independent covariates", "12 samples", "pass fewer"),
    ),
    "NaN, hsic": (
        lambda: dhsic.hsic(X, Y, covariates=every(np.nan)),
        *(InputError, "first at sample 1", "Fill them in"),
    ),
}

BACKWARDS = {"first": "sample 0 is 's0' in X and 's11' in"}

NAMING = {
    "y in another order than a frame": (
        lambda: fit(FRAME, TRAIT[::-1]),
        *(InputError, BACKWARDS["first"], "Pass y.loc[X.index]", "by_position=True"),
    ),
    "y in another order than a frame, hsic": (
        lambda: dhsic.hsic(FRAME, TRAIT[::-1]),
        *(InputError, BACKWARDS["first"], "Pass Y.loc[X.index]"),
    ),
    "y sorted, X not": (
        lambda: fit(FRAME.reset_index(drop=True), TRAIT.reset_index(drop=True)[::-1]),
        *(InputError, "sample 0 is '0' in X and '11' in y", "y.loc[X.index]"),
    ),
    "y of other samples": (
        lambda: fit(FRAME, TRAIT.set_axis([*NAMES[1:], "s12"])),
        *(
            InputError,
            "1 of the 12 sample names of X",
            "'s0' in X and 's1' in y",
            "that are in both",
        ),
    ),
    "y of other names": (
        lambda: fit(FRAME, TRAIT.set_axis([f"donor {i}" for i in range(12)])),
        *(
            InputError,
            "12 of the 12 sample names of X",
            "'s0' in X and 'donor 0' in y",
            "by_position=True",
        ),
    ),
    "y of other names, hsic": (
        lambda: dhsic.hsic(FRAME, TRAIT.set_axis([f"donor {i}" for i in range(12)])),
        *(InputError, "12 of the 12 sample names of X", "'donor 0' in Y", "by_position=True"),
    ),
    "rows of a frame that lost some": (
        lambda: fit(FRAME.reset_index(drop=True), TRAIT.set_axis(range(3, 15))),
        *(InputError, "The index of X is 0, 1, 2, ...", "index of y is 3, 4", "by_position=True"),
    ),
    "names that repeat": (
        lambda: fit(FRAME.set_axis(["s0", *NAMES[:11]]), TRAIT.set_axis([*NAMES[:11], "s0"])),
        *(InputError, "names repeat", "'s0' in X and 's1' in y", "Make sample names unique"),
    ),
    "covariates in another order": (
        lambda: fit(FRAME, covariates=FRAME[["a"]][::-1]),
        *(InputError, BACKWARDS["first"], "covariates.loc[X.index]"),
    ),
    "y in another order, xarray": (
        lambda: fit(CUBE, CUBE[::-1, 0] > 0),
        *(InputError, BACKWARDS["first"], "Pass y.sel(cells=X['cells'])"),
    ),
    "y of pandas, X of xarray": (
        lambda: fit(CUBE, TRAIT[::-1]),
        *(InputError, BACKWARDS["first"], "y.loc[dhsic.open_source(X).sample_names()]"),
    ),
}

CASES = (
    PARAMETERS
    | {f"covariates: {kind}": case for kind, case in COVARIATES.items()}
    | {f"names: {kind}": case for kind, case in NAMING.items()}
)


@pytest.mark.parametrize("kind", CASES)
def test_bad_parameters_are_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, error, *words = CASES[kind]
    assert_refused(call, error, words, tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
def test_dimensions_of_one_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    twice = xr.DataArray(X[:6], dims=("cells", "cells"))
    words = ("('cells', 'cells')", "Rename them", "dims=('samples', 'features')")
    assert_refused(lambda: fit(twice, Y[:6]), InputError, words, tmp_path)


# -- what is no mistake -------------------------------------------------------------------------


def ranking(*args, **options):
    return fit(*args, checkpoint=None, **options).ranking_


@pytest.mark.parametrize(
    ("data", "labels"),
    [
        (X, Y[:, None]),
        (X, TRAIT[::-1].to_numpy()[::-1]),
        (X, da.from_array(Y)),
        (X.astype(object), Y.tolist()),
        (FRAME, TRAIT),
        (FRAME, TRAIT.to_frame()),
        (FRAME, TRAIT.reset_index(drop=True)),
        (FRAME.reset_index(drop=True), TRAIT.set_axis(range(30, 42))),
        (FRAME.reset_index(drop=True), TRAIT),
        (X, TRAIT.set_axis([f"donor {i}" for i in range(12)])),
        (FRAME.set_axis(["a"] * 12), TRAIT.set_axis(["a"] * 12)),
        (CUBE, xr.DataArray(Y, dims="cells", coords={"cells": NAMES})),
        (CUBE, TRAIT),
        (xr.Dataset({"rna": CUBE, "trait": ("cells", Y)}), "trait"),
    ],
)
def test_what_fits_is_taken(data, labels):
    assert_array_equal(ranking(data, labels), ranking(X, Y))


def test_names_that_differ_are_left_alone_by_position():
    donors = TRAIT.set_axis([f"donor {i}" for i in range(12)])
    model = BAHSIC(2, progress=False, runtime="threads").fit(FRAME, donors, by_position=True)
    assert_array_equal(model.ranking_, ranking(X, Y))
    assert dhsic.hsic(FRAME, donors, by_position=True) == dhsic.hsic(FRAME, Y)


def test_covariates_that_say_nothing_change_nothing():
    for nothing in (np.ones(12), np.ones((12, 0)), np.ones((12, 2))):
        assert_array_equal(ranking(covariates=nothing), ranking())


def test_the_default_width_says_nothing():
    for kernel in ("linear", "polynomial"):
        given = ranking(kernel=kernel, bandwidth="dimension")
        assert_array_equal(given, ranking(kernel=kernel))


def test_a_feature_of_nan_is_ranked_last_and_reported():
    model = fit(np.column_stack([np.full(12, np.nan), X]), checkpoint=None)
    assert model.ranking_[0] == 7
    assert model.result_["n_missing"].values[0] == 12
    assert model.result_["constant"].values.tolist() == [True] + [False] * 6


# -- what only warns ----------------------------------------------------------------------------

CALLS = np.random.default_rng(3).choice(np.array([0, 0, 1, 2, -1], "i1"), size=(12, 8))


@pytest.mark.parametrize("values", [CALLS.clip(0), CALLS.clip(-1, 1), CALLS - 1, CALLS * 2 + 2])
def test_other_small_integers_are_values(values):
    ranking(values)
