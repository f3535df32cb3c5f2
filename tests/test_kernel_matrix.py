"""The kernel matrix as a dask array, against the dense one, whatever the data come in."""

import tracemalloc

import dask
import dask.array as da
import naive
import numpy as np
import pytest
import xarray as xr
import zarr
from cases import PLAIN_KERNELS
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st
from strategies import matrices

import dhsic
from dhsic import InputError, matrix
from dhsic.kernels import Polynomial


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@given(matrices(), st.sampled_from(PLAIN_KERNELS), st.integers(1, 20), st.data())
def test_is_the_dense_matrix(X, kernel, block_size, data):
    rows, features = (data.draw(st.integers(1, n)) for n in X.shape)
    expected = np.array(naive.gram(X.tolist(), kernel, 0.07))

    for given_as in (X, da.from_array(X, chunks=(rows, features))):
        K = dhsic.kernel_matrix(given_as, kernel, 0.07, block_size).compute()

        np.testing.assert_allclose(K, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_array_equal(K, K.T)


def wrapped(X, path):
    """The same data in everything that holds data; chunked in both directions."""
    store = zarr.create_array(path / "X.zarr", shape=X.shape, chunks=(9, 4), dtype=X.dtype)
    store[:] = X
    lazy = da.from_array(X, chunks=(7, 5))
    xr.Dataset({"X": (("sample", "feature"), X)}).to_zarr(path / "xarray.zarr", consolidated=False)
    return {
        "numpy": X,
        "fortran": np.asfortranarray(X),
        "dask": lazy,
        "dask of zarr": da.from_zarr(store),
        "dask that shares means": (lazy + 50) - lazy.mean(axis=0),
        "persisted": lazy.persist(),
        "zarr": store,
        "xarray": xr.DataArray(X, dims=("sample", "feature")),
        "xarray of dask": xr.DataArray(lazy, dims=("sample", "feature")),
        "xarray of zarr": xr.open_zarr(path / "xarray.zarr", chunks=None, consolidated=False)["X"],
    }


@pytest.mark.parametrize("bandwidth", ["median", "dimension", 0.05])
def test_all_that_holds_data(rng, tmp_path, bandwidth):
    X = rng.integers(0, 3, (25, 13)).astype("int8")
    sigma = naive.choose_sigma(bandwidth, X.tolist(), None, "gaussian", "unbiased")
    expected = naive.gram(X.tolist(), "gaussian", sigma)

    for name, given_as in wrapped(X, tmp_path).items():
        K = dhsic.kernel_matrix(given_as, "gaussian", bandwidth, block_size=8)

        assert K.chunks == ((8, 8, 8, 1),) * 2, name
        np.testing.assert_allclose(K.compute(), expected, rtol=1e-10, err_msg=name)


def test_what_a_cluster_holds_stays_there(rng):
    X = rng.standard_normal((20, 6))
    options = {"n_workers": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        lazy = da.from_array(X, chunks=(7, 4))

        for given_as in (client.persist(lazy), lazy):
            K = client.compute(dhsic.kernel_matrix(given_as, block_size=8)).result()

            np.testing.assert_allclose(K, dhsic.kernel_matrix(X).compute(), rtol=1e-12)


def test_keeps_the_digits_of_distances_far_from_zero(rng):
    X = rng.standard_normal((30, 4))

    K = dhsic.kernel_matrix(X + 1e6, bandwidth=0.1, block_size=7).compute()

    np.testing.assert_allclose(K, dhsic.kernel_matrix(X, bandwidth=0.1).compute(), rtol=1e-8)
    np.testing.assert_array_equal(np.diagonal(K), 1.0)


def test_one_feature_and_kernel_objects(rng):
    x = rng.standard_normal(6)

    K = dhsic.kernel_matrix(x, Polynomial(degree=3, offset=0.5), block_size=4).compute()

    np.testing.assert_allclose(K, (np.outer(x, x) + 0.5) ** 3, rtol=1e-12)


def test_reads_nothing_before_it_is_computed(rng):
    def read():
        raise AssertionError("read")

    X = da.map_blocks(read, chunks=((5, 5), (3, 3)), dtype=float, meta=np.empty((0, 0)))

    K = dhsic.kernel_matrix(X, block_size=5)

    with pytest.raises(AssertionError, match="read"):
        K.compute()


def test_reads_whole_feature_chunks_and_never_joins_them(tmp_path, monkeypatch):
    shapes = set()
    as_numbers = matrix.as_numbers

    def noted(chunk, what):
        shapes.add((out := as_numbers(chunk, what)).shape)
        return out

    monkeypatch.setattr(matrix, "as_numbers", noted)
    X = da.random.default_rng(0).normal(size=(30, 1000), chunks=(30, 100))

    dhsic.kernel_matrix(X, bandwidth="dimension", block_size=10).sum().compute()

    assert shapes == {(10, 100)}


def test_memory_stays_below_the_matrix(rng):
    """The sum of K takes less than a quarter of K, though all of K is computed."""
    m = 1200
    X = da.random.default_rng(0).normal(size=(m, 1000), chunks=(m // 10, 250))
    total = dhsic.kernel_matrix(X, bandwidth="dimension", block_size=m // 10).sum()

    tracemalloc.start()
    total.compute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < m * m * 8 / 4


@pytest.mark.parametrize(
    ("X", "options", "sentence"),
    [
        (np.ones((3, 0)), {}, "at least one feature"),
        (np.ones((3, 2, 2)), {}, "pass \\(m, d\\)"),
        (np.ones((3, 2)), {"kernel": "rbf"}, "kernel='rbf' is unknown"),
        (np.ones((3, 2)), {"bandwidth": [0.1, 1.0]}, "is chosen by labels"),
        (np.ones((3, 2)), {"bandwidth": -1.0}, "a positive, finite number"),
        (np.ones((3, 2)), {"block_size": 0}, "block_size=0"),
        (np.ones((3, 2)), {"block_size": True}, "block_size=True"),
        (np.ma.masked_array(np.ones((3, 2))), {}, "masked array"),
        (da.ones(9).reshape(-1, 3)[da.arange(3) > 0], {}, "unknown size"),
    ],
)
def test_bad_input_gets_a_sentence_at_once(X, options, sentence):
    with pytest.raises(InputError, match=sentence):
        dhsic.kernel_matrix(X, **options)


@pytest.mark.parametrize(
    ("X", "kernel", "sentence"),
    [
        (np.array([[1.0, np.nan], [0.0, 1.0]]), "gaussian", "1 values in X are NaN"),
        (np.array([["a"], ["b"]]), "linear", "dtype of X"),
        (np.array([[1e50], [1.0]]), "polynomial", "overflows"),
    ],
)
def test_bad_values_get_a_sentence_when_they_are_read(X, kernel, sentence):
    K = dhsic.kernel_matrix(X, kernel, 1.0)

    with pytest.raises(InputError, match=sentence):
        K.compute()
