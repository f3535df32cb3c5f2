"""What is made of answers of all sites is made where it is used: their bytes do not come here."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from faults.steps import Grams, row_of, sites_of
from numpy.testing import assert_array_equal
from suites.runtime import Ramp

from dhsic.errors import ScratchError
from dhsic.runtime import broadcast
from dhsic.runtime.base import Job
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

SOURCE, STATE = Ramp(), np.random.default_rng(0).normal(size=(40, 900)).astype("f4")
JOBS = [Job((), payload=i) for i in range(5)]


def wide(value, told, state):
    """Answers too large to go along with tasks."""
    return np.tile(value[:told], (state, 1))


def joined(parts):
    return np.concatenate(parts)


def total(source, job, state):
    return state.sum() + job.payload, state[:3]


def gathered(runtime, n=200):
    held, _ = runtime.update(None, Grams(0.0), SOURCE, sites_of(SOURCE, 20, 7), STATE)
    return runtime.gather(held, wide, [3, 2, 5, 1, 1, 2, 1], n, joined)


def found(runtime, state):
    sums, rows = zip(*runtime.map(total, SOURCE, JOBS, state), strict=True)
    return np.array(sums), np.array(rows)


@pytest.fixture(scope="module")
def here():
    with Threads(2) as runtime:
        return {n: found(runtime, gathered(runtime, n)) for n in (1, 200)}


def files(runtime):
    return sorted(path.name[:7] for path in runtime.folder.glob("*.pkl"))


def check(runtime, state, wanted):
    for one, other in zip(found(runtime, state), wanted, strict=True):
        assert_array_equal(one, other)


def test_it_stays_in_files_that_go_with_it(client, tmp_path, here):
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        made = gathered(runtime)
        assert isinstance(made, broadcast.Gathered)
        assert files(runtime) == ["result-"] * 2
        assert runtime.traffic[-1].got < 1000
        check(runtime, made, here[200])
        check(runtime, made, here[200])
        del made
        gc.collect()
        assert files(runtime) == []


def first_rows(parts):
    return np.concatenate(parts)[:40]


def stepped(runtime, disturb=lambda: None):
    """A step whose state is gathered, its values made again, and what is asked of them."""
    sites = sites_of(SOURCE, 20, 7)
    held, _ = runtime.update(None, Grams(0.0), SOURCE, sites, STATE)
    made = runtime.gather(held, wide, [3, 2, 5, 1, 1, 2, 1], 200, first_rows)
    others, _ = runtime.update(None, Grams(0.0), SOURCE, sites, made)
    del held, made
    disturb()
    return np.stack([*runtime.query(others, row_of, range(7), 2.0)])


def test_it_is_there_as_long_as_values_may_be_made_again_of_it(client, tmp_path):
    def cancel():
        gc.collect()
        mine = [key for key in client.futures if "Grams" in key]
        assert mine
        client.cancel(mine, force=True)

    with Threads(2) as threads, DaskRuntime(client, scratch=tmp_path) as runtime:
        assert_array_equal(stepped(runtime, cancel), stepped(threads))
        gc.collect()
        assert files(runtime) == []


def test_small_answers_are_put_together_here(client, tmp_path, here):
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        made = gathered(runtime, 1)
        assert isinstance(made, np.ndarray)
        check(runtime, made, here[1])


def test_it_comes_here_where_workers_see_no_folder(client, tmp_path, here):
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        runtime.workers_see_folder = False
        made = gathered(runtime)
        assert isinstance(made, np.ndarray)
        check(runtime, made, here[200])


def test_a_worker_that_does_not_see_the_files_is_sent_bytes(client, tmp_path, here, monkeypatch):
    load, seen = broadcast._load, []

    def blind(parcel, *rest):
        if parcel.path is not None and not seen:
            seen.append(parcel.path)
            raise broadcast.StateUnreachableError(f"{parcel.path} cannot be read")
        return load(parcel, *rest)

    with DaskRuntime(client, scratch=tmp_path) as runtime:
        made = gathered(runtime)
        monkeypatch.setattr(broadcast, "_load", blind)
        check(runtime, made, here[200])
        assert seen
        assert not runtime.workers_see_folder


def test_files_that_are_gone_are_said_to_be(client, tmp_path):
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        made = gathered(runtime)
        for path in runtime.folder.glob("result-*"):
            path.unlink()
        with pytest.raises(ScratchError, match="Files that workers exchange in scratch are"):
            found(runtime, made)
