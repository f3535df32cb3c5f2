"""Faults on real processes: whatever dies, the result is that of the undisturbed run, bit for bit.

`docs/faults.md` tells what each test prints: the time from the fault to the next round kept, or to
the end of the map. Nothing is asserted of seconds, but every wait is bounded.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from faults.network import disk, link, resize
from faults.processes import Processes, await_worker, until
from faults.selections import ENDS, Selection, write_problem
from faults.tasks import MIB, add_slowly, greedy_columns, slow_gram
from numpy.testing import assert_array_equal
from suites.runtime import Ramp

from dhsic.runtime.base import Job
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads

PAUSE = 0.05  # seconds that a job takes longer, so that faults hit the middle of rounds
MANY = pytest.mark.timeout(900)


def tell(fault: str, *seconds: float) -> None:
    print(f"\nfault: {fault}: on again after {', '.join(f'{s:.1f}' for s in seconds)} s")


# ---- one map --------------------------------------------------------------------------------


def parts_of(source: Ramp, width: int, n: int) -> list[Job]:
    """Jobs of n blocks each, with a payload for each block."""
    blocks = source.blocks(width)
    return [Job(blocks[i : i + n], blocks[i : i + n]) for i in range(0, len(blocks), n)]


def test_a_killed_worker_changes_nothing(tmp_path):
    source, state = Ramp(), np.random.default_rng(0).normal(size=(40, 50)).astype("float32")
    jobs = [Job((block,)) for block in source.blocks(20)]
    with Threads(1) as reference:
        expected = sum(reference.map(slow_gram, source, jobs, state))
    with Processes(tmp_path) as cluster:
        cluster.scheduler()
        victim, other = cluster.worker(), cluster.worker()
        await_worker(victim)
        await_worker(other)
        with DaskRuntime(scheduler=cluster.address) as runtime:
            results = runtime.map(slow_gram, source, jobs, state)
            got = [next(results)]
            victim.send(signal.SIGKILL)
            began = time.monotonic()
            got.append(next(results))
            tell("a worker killed", time.monotonic() - began)
            got += results
    assert_array_equal(sum(got), expected)


@pytest.mark.slow
@MANY
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("after", ["-slow-gram-", "-sum-"], ids=["share", "sum"])
def test_a_worker_lost_in_the_middle_of_a_sum(tmp_path, fault, after):
    source, state = Ramp(), np.random.default_rng(0).normal(size=(40, 900)).astype("float32")
    jobs = [Job((block,)) for block in source.blocks(15)]
    with Threads(1) as reference:
        expected = reference.sum_results(slow_gram, source, jobs, state, add_slowly)
    with Processes(tmp_path) as cluster, ThreadPoolExecutor() as waiting:
        cluster.scheduler()
        workers = {worker.pid: worker for worker in cluster.add_workers(5)}
        with DaskRuntime(scheduler=cluster.address) as runtime:
            pids = runtime.client.run(os.getpid)
            asked = waiting.submit(runtime.sum_results, slow_gram, source, jobs, state, add_slowly)
            found: list[str] = []

            def run() -> bool:
                running = runtime.client.processing()
                found[:] = [w for w, tasks in running.items() if any(after in key for key in tasks)]
                return bool(found)

            until(run, 60, f"tasks like {after}")
            workers[pids[found[0]]].send(fault)
            began = time.monotonic()
            assert_array_equal(asked.result(120), expected)
            tell(f"a worker lost in the middle of a sum ({after})", time.monotonic() - began)


@pytest.mark.slow
@MANY
def test_a_job_that_is_too_large_runs_in_halves(tmp_path):
    source = Ramp(n_features=320)
    jobs = parts_of(source, 20, 4)
    state = {"greedy": {8, 9, 10, 11}, "bytes": 150 * MIB}
    with Threads(1) as reference:
        expected = np.concatenate(list(reference.map(greedy_columns, source, jobs, state)))
    with Processes(tmp_path) as cluster:
        cluster.scheduler()
        cluster.add_workers(1, memory="640MiB", nanny=True)
        with DaskRuntime(scheduler=cluster.address, timeout=180) as runtime:
            began = time.monotonic()
            got = list(runtime.map_blocks(greedy_columns, source, jobs, state))
            tell("a job that needs too much memory", time.monotonic() - began)
    assert len(got) > len(jobs)  # jobs that were on the worker too may be blamed with it
    assert_array_equal(np.concatenate(got), expected)


@pytest.mark.slow
@MANY
def test_a_new_scheduler_is_taken_up_in_the_middle_of_a_map(tmp_path):
    source, state = Ramp(), np.random.default_rng(0).normal(size=(40, 9000)).astype("float32")
    jobs = [Job((block,)) for block in source.blocks(20)]
    with Threads(1) as reference:
        expected = sum(reference.map(slow_gram, source, jobs, state))
    for seen in (True, False):
        with Processes(tmp_path) as cluster:
            scheduler = cluster.scheduler()
            cluster.add_workers(1)
            with DaskRuntime(scheduler=cluster.address, timeout=180) as runtime:
                runtime.workers_see_folder = seen
                results = runtime.map(slow_gram, source, jobs, state)
                got = [next(results), next(results)]
                scheduler.send(signal.SIGKILL)
                scheduler.wait(10)
                began = time.monotonic()
                cluster.scheduler(int(cluster.address.rpartition(":")[2]))
                cluster.add_workers(1)
                got += results
                tell("a scheduler killed and replaced in a map", time.monotonic() - began)
        assert_array_equal(sum(got), expected)


# ---- a run ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.zarr"
    write_problem(path)
    return path


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """What a run on a cluster finds when nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with Processes(folder) as cluster:
        cluster.scheduler()
        cluster.add_workers(2)
        run = Selection(cluster, data, folder)
        run.start(cluster.address)
        return run.finish()


@pytest.fixture
def cluster(tmp_path):
    with Processes(tmp_path) as cluster:
        cluster.scheduler()
        yield cluster


def check(found, undisturbed):
    assert found.keys() == undisturbed.keys()
    for name, values in undisturbed.items():
        assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.slow
@MANY
def test_ten_killed_workers(cluster, data, tmp_path, undisturbed):
    pause = 8 * PAUSE  # there is to be a round for each of the ten
    cluster.add_workers(3, pause)
    run = Selection(cluster, data, tmp_path)
    run.start(cluster.address)
    run.await_round(1)
    took = []
    for number in range(10):
        spare = cluster.worker(pause)
        cluster.workers[number].send(signal.SIGKILL)
        took.append(run.await_next_round())
        await_worker(spare)
    assert run.driver.is_alive, "the run was over before the tenth was killed"
    check(run.finish(), undisturbed)
    tell("a worker killed, ten times", *took)


@pytest.mark.slow
@MANY
def test_all_workers_killed_and_replaced(cluster, data, tmp_path, undisturbed):
    old = cluster.add_workers(2, PAUSE)
    run = Selection(cluster, data, tmp_path)
    run.start(cluster.address)
    run.await_round(2)
    for worker in old:
        worker.send(signal.SIGKILL)
    began = time.monotonic()
    cluster.add_workers(2)
    started = time.monotonic() - began
    run.await_next_round()
    tell(f"all workers killed (new ones there after {started:.1f} s)", time.monotonic() - began)
    check(run.finish(), undisturbed)


@pytest.mark.slow
@MANY
def test_a_stopped_worker(cluster, data, tmp_path, undisturbed):
    victim, _ = cluster.add_workers(2, PAUSE)
    run = Selection(cluster, data, tmp_path)
    run.start(cluster.address)
    run.await_round(2)
    victim.send(signal.SIGSTOP)
    tell("a worker stopped", run.await_next_round() + run.await_next_round())
    check(run.finish(), undisturbed)
    assert victim.is_alive


@pytest.mark.slow
@MANY
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 75), ("SIGINT", 130), ("SIGKILL", -9)])
def test_an_ended_driver(cluster, data, tmp_path, undisturbed, name, code):
    cluster.add_workers(2, PAUSE)
    run = Selection(cluster, data, tmp_path)
    driver = run.start(cluster.address)
    run.await_round(3)
    driver.send(getattr(signal, name))
    assert driver.wait(60) == code
    kept = run.round
    assert 3 <= kept < len(undisturbed["round_sigma"])
    began = time.monotonic()
    run.resume(cluster.address)
    run.await_round(kept + 1)
    tell(f"{name} to the driver, resumed", time.monotonic() - began)
    check(run.finish(), undisturbed)


@pytest.mark.slow
@MANY
def test_a_killed_scheduler_that_comes_back(cluster, data, tmp_path, undisturbed):
    cluster.add_workers(2, PAUSE)
    run = Selection(cluster, data, tmp_path)
    run.start(cluster.address)
    run.await_round(2)
    cluster.all[0].send(signal.SIGKILL)
    cluster.all[0].wait(10)
    for worker in cluster.workers:  # workers end with their scheduler
        worker.end()
    began = time.monotonic()
    cluster.scheduler(int(cluster.address.rpartition(":")[2]))
    cluster.add_workers(2)
    run.await_next_round()
    tell("the scheduler killed, a new one at its address", time.monotonic() - began)
    check(run.finish(), undisturbed)


@pytest.mark.slow
@MANY
def test_a_killed_scheduler_and_another_one(cluster, data, tmp_path, undisturbed):
    cluster.add_workers(2, PAUSE)
    run = Selection(cluster, data, tmp_path)
    driver = run.start(cluster.address)
    run.await_round(2)
    cluster.all[0].send(signal.SIGKILL)
    began = time.monotonic()
    assert driver.wait(ENDS) == 6
    gave_up = time.monotonic() - began
    assert "dhsic resume" in driver.said
    cluster.scheduler()
    cluster.add_workers(2)
    began = time.monotonic()
    run.resume(cluster.address)
    run.await_next_round()
    again = time.monotonic() - began
    tell(f"the scheduler killed (given up after {gave_up:.1f} s), resumed on another", again)
    check(run.finish(), undisturbed)


@pytest.mark.slow
@MANY
def test_a_full_disk(cluster, data, tmp_path, undisturbed):
    cluster.add_workers(2)
    with disk(tmp_path / "small", "300k") as small:
        run = Selection(cluster, data, tmp_path)
        run.checkpoint = small / "run"
        driver = run.start(cluster.address)
        assert driver.wait(ENDS) == 1
        assert "No space left on device" in driver.said
        assert run.round >= 1
        resize(small, "30m")
        began = time.monotonic()
        run.resume(cluster.address)
        run.await_next_round()
        tell("the disk of the checkpoint full, resumed", time.monotonic() - began)
        check(run.finish(), undisturbed)


@pytest.mark.slow
@MANY
def test_a_cut_network(data, tmp_path, undisturbed):
    with link() as cable, Processes(tmp_path, cable.here) as cluster:
        cluster.scheduler()
        cluster.add_workers(1, PAUSE)
        cluster.add_workers(1, PAUSE, prefix=cable.prefix, host=cable.there)
        run = Selection(cluster, data, tmp_path)
        run.start(cluster.address)
        run.await_round(2)
        cable.cut()
        tell("a worker cut off", run.await_next_round() + run.await_next_round())
        check(run.finish(), undisturbed)


@pytest.mark.slow
@MANY
def test_nothing_is_left_of_processes(tmp_path):
    with Processes(tmp_path) as cluster:
        cluster.scheduler()
        cluster.add_workers(1, nanny=True)
        pids = [process.pid for process in cluster.all]
        (tmp_path / "pids").write_text(" ".join(map(str, pids)))
    for process in itertools.chain(cluster.all, cluster.workers):
        until(lambda process=process: not process.is_alive, 30, "the end of a process")
