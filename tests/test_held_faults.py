"""Values that live on workers come back, bit for bit, whatever happens to these."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
from faults.processes import Processes, until
from faults.steps import Grams, sites_of, walk
from numpy.testing import assert_array_equal
from suites.runtime import Ramp

from dhsic.runtime import partition
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

MANY = pytest.mark.timeout(600)
SOURCE = Ramp()
STATES = np.random.default_rng(0).normal(size=(4, 40, 900)).astype("float32")


@pytest.fixture(scope="module")
def undisturbed():
    with Threads(2) as threads:
        return walk(threads, SOURCE, sites_of(SOURCE, 20, 7), STATES)


def walked(runtime, between=lambda number: None):
    return walk(runtime, SOURCE, sites_of(SOURCE, 20, 7), STATES, between)


def test_values_that_are_cancelled_are_made_again(client, undisturbed):
    def cancel(number):
        mine = [key for key in client.futures if "Grams" in key]
        assert mine
        client.cancel(mine[number:], force=True)

    with DaskRuntime(client) as runtime:
        assert_array_equal(walked(runtime, cancel), undisturbed)


def test_states_whose_files_are_lost_are_sent_again(client, undisturbed, tmp_path):
    def harm(number):
        for path in runtime.folder.glob("state-*"):
            path.unlink()
        client.cancel([key for key in client.futures if "Grams" in key], force=True)

    with DaskRuntime(client, scratch=tmp_path) as runtime:
        assert_array_equal(walked(runtime, harm), undisturbed)


def test_states_go_with_the_values(client, tmp_path):
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        sites, step = sites_of(SOURCE, 20, 7), Grams(0.0)
        large = np.ones((40, 90_000), dtype=np.float32)
        held, _ = runtime.update(None, step, SOURCE, sites, large)
        held, _ = runtime.update(held, step, SOURCE, sites, large)
        assert len(list(runtime.folder.glob("state-*"))) == 2
        del held
        assert not list(runtime.folder.glob("state-*"))


def test_a_worker_has_a_task_for_its_values(client):
    with DaskRuntime(client) as runtime:
        walked(runtime)
        passes = list(runtime.traffic)
        assert [p.n_tasks for p in passes] == [len(runtime.threads)] * 5
        assert [p.n_joins for p in passes] == [0] * 5


def test_long_steps_are_several_tasks_a_worker(client, undisturbed, monkeypatch):
    monkeypatch.setattr(partition, "MOST_VALUES", 1000)
    with DaskRuntime(client) as runtime:
        assert_array_equal(walked(runtime), undisturbed)
        assert [p.n_tasks for p in runtime.traffic] == [7] * 5


@pytest.fixture
def cluster(tmp_path):
    with Processes(tmp_path) as cluster:
        cluster.scheduler()
        yield cluster


def disturbed(cluster, undisturbed, between):
    """A walk during which something happens; how long the step after that takes."""
    times = [time.monotonic()]

    def then(number):
        times.append(time.monotonic())
        between(number)

    with DaskRuntime(scheduler=cluster.address, timeout=180) as runtime:
        disturbed.runtime = runtime
        assert_array_equal(walked(runtime, then), undisturbed)
    took = [f"{b - a:.1f}" for a, b in itertools.pairwise(times)]
    print(f"\nfault: values on workers; steps took {', '.join(took)} s")


def holder(runtime, workers):
    """A worker that holds values."""
    pids = runtime.client.run(os.getpid)
    held = {address for address, keys in runtime.client.has_what().items() if keys}
    (found,) = [w for w in workers if w.pid == pids[min(held)]]
    return found


@pytest.mark.slow
@MANY
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_lost_between_steps(cluster, undisturbed, fault):
    workers = cluster.add_workers(3)

    def lose(number):
        if number == 1:
            holder(disturbed.runtime, workers).send(fault)

    disturbed(cluster, undisturbed, lose)


@pytest.mark.slow
@MANY
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_lost_in_a_step(cluster, undisturbed, fault):
    workers = cluster.add_workers(3)

    def lose(number):
        if number == 1:
            victim = holder(disturbed.runtime, workers)
            threading.Timer(0.15, victim.send, [fault]).start()

    disturbed(cluster, undisturbed, lose)


def others_at_once(cluster):
    until(lambda: not disturbed.runtime.client.nthreads(), 60, "no worker")
    cluster.add_workers(2)


def none_for_a_while(cluster):
    threading.Timer(3.0, cluster.add_workers, [1]).start()


@pytest.mark.slow
@MANY
@pytest.mark.parametrize("then", [others_at_once, none_for_a_while])
def test_all_workers_killed(cluster, undisturbed, then):
    workers = cluster.add_workers(2)

    def replace(number):
        if number == 2:
            for worker in workers:
                worker.send(signal.SIGKILL)
            then(cluster)

    disturbed(cluster, undisturbed, replace)


@pytest.mark.slow
@MANY
def test_a_scheduler_killed_and_replaced(cluster, undisturbed):
    workers = cluster.add_workers(2)

    def replace(number):
        if number == 1:
            cluster.all[0].send(signal.SIGKILL)
            cluster.all[0].wait(10)
            for worker in workers:
                worker.end()
            cluster.scheduler(int(cluster.address.rpartition(":")[2]))
            cluster.add_workers(2)

    disturbed(cluster, undisturbed, replace)


@pytest.mark.slow
@MANY
def test_workers_that_leave_and_join(cluster, undisturbed):
    """A cluster that shrinks moves values; one that grows leaves them where they are."""
    cluster.add_workers(3)

    def scale(number):
        client = disturbed.runtime.client
        if number == 0:
            client.retire_workers(sorted(client.nthreads())[:1], close_workers=True)
        elif number == 1:
            cluster.add_workers(2)
        elif number == 2:
            client.retire_workers(sorted(client.nthreads())[:2], close_workers=True)

    disturbed(cluster, undisturbed, scale)
