"""What is taken of features stays where it was, and what is asked of those that are left."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from stores import write_matrix

import dhsic
from dhsic.passes import AbstractPass, resident_values
from dhsic.passes.reader import Reader
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

M, D = 30, 400


@dataclass(frozen=True)
class Ends(AbstractPass):
    """First and last value of a feature."""

    def over(self, blocks, m):
        return np.concatenate([tile.raw[:, [0, -1]] for tile in blocks])


def summed(some):
    return some.sum(axis=1)


@pytest.fixture(params=["threads", "dask"])
def runtime(request):
    if request.param == "threads":
        with Threads(2) as runtime:
            yield runtime
    else:
        with DaskRuntime(request.getfixturevalue("client")) as runtime:
            yield runtime


@pytest.mark.parametrize("least", [1, 60, 10**6])
def test_what_is_asked_is_of_features_that_are_left(runtime, tmp_path, least, monkeypatch):
    monkeypatch.setattr(resident_values, "LEAST", least)
    X = np.random.default_rng(0).standard_normal((M, D))
    write_matrix(tmp_path / "x.zarr", X, chunks=(25, M))
    reader = Reader(dhsic.open_source(tmp_path / "x.zarr", n_samples=M), runtime)
    S = np.arange(3, D)
    known = reader.keep_on_workers(Ends(), S)
    assert reader.bytes_read == X.nbytes
    for n in (D - 3, 300, 190, 189, 40, 1):
        S = np.sort(np.random.default_rng(n).choice(S, n, replace=False))
        known.keep(S, runtime)
        found = np.concatenate(list(known.query(S, summed)))
        assert_array_equal(found, X[0, S] + X[-1, S])
        assert n <= known.features.size < 2 * n or n in (D - 3, 300)


def test_what_was_taken_comes_here_with_the_features(client, tmp_path, monkeypatch):
    monkeypatch.setattr(resident_values, "LEAST", 30)
    X = np.random.default_rng(0).standard_normal((M, D))
    write_matrix(tmp_path / "x.zarr", X, chunks=(25, M))
    with DaskRuntime(client) as away, Threads(1) as here:
        reader = Reader(dhsic.open_source(tmp_path / "x.zarr", n_samples=M), away)
        known = reader.keep_on_workers(Ends(), np.arange(D))
        few = np.arange(5, 100)
        known.keep(few, here)
        n_passes = len(away.traffic)
        found = np.concatenate(list(known.query(few[::2], summed)))
        assert_array_equal(found, X[0, few[::2]] + X[-1, few[::2]])
        assert len(away.traffic) == n_passes


def test_scratch_stays_as_long_as_a_step_may_need_it_again(client, tmp_path, monkeypatch):
    monkeypatch.setattr(resident_values, "LEAST", 30)
    monkeypatch.setattr("dhsic.passes.survivors.HOME_BYTES", -1)
    X = np.random.default_rng(0).standard_normal((M, D))
    write_matrix(tmp_path / "x.zarr", X, chunks=(25, M))
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        reader = Reader(dhsic.open_source(tmp_path / "x.zarr", n_samples=M), runtime)
        S = np.arange(0, D, 2)
        reader.compact(S)
        first = reader.scratch.path
        known = reader.keep_on_workers(Ends(), S)
        reader.compact(S[::8])
        assert reader.scratch.path != first
        client.cancel([key for key in client.futures if "Take" in key], force=True)

        assert_array_equal(np.concatenate(list(known.query(S, summed))), X[0, S] + X[-1, S])

        assert first.exists()
        del known
        list(reader.map(Ends(), reader.jobs(S[::8])))
        assert not first.exists()
