"""DaskRuntime: the suite in one process, what it refuses, and clusters that lose workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, Scheduler, SpecCluster, Worker, get_worker
from suites.runtime import (
    GAUGE,
    InProcessRuntimeSuite,
    Ramp,
    RuntimeSuite,
    count,
    gram,
    numbered,
    out_of_order,
    tell,
)

import dhsic
from dhsic.errors import ClusterError, MemoryBudgetError
from dhsic.runtime import broadcast, choose_runtime, ordered_map, partition, task_attempt, worker
from dhsic.runtime.base import Job
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection.run import SelectionRun
from dhsic.sources.opening import open_source


class TestDaskInProcess(InProcessRuntimeSuite):
    @pytest.fixture(params=["workers see the folder", "workers do not"])
    def runtime(self, request, client, tmp_path):
        with DaskRuntime(client, scratch=tmp_path) as runtime:
            assert runtime.workers_see_folder
            runtime.workers_see_folder = request.param == "workers see the folder"
            yield runtime
        assert not list(tmp_path.iterdir())
        assert client.status == "running"


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_of_a_state_goes_when_its_map_ends(client, tmp_path):
    state = {"shift": 1, "array": np.ones(10**5)}
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        results = runtime.map(tell, Ramp(), numbered(3), state)
        next(results)
        assert [name[:6] for name in names_in(runtime.folder)] == ["sign.t", "state-"]
        list(results)
        assert names_in(runtime.folder) == ["sign.txt"]


def test_states_that_went_with_tasks_are_let_go(client, tmp_path):
    with DaskRuntime(client, scratch=tmp_path) as runtime:
        for shift in range(5):
            state = {"shift": shift, "array": np.ones(20_000)}  # small: it goes with the task
            list(runtime.map(tell, Ramp(), numbered(2), state))
        runtime.await_workers()
        sent = client.scheduler_comm.recent_message_log
        assert not any("update-graph" in str(message) for message in sent)


def test_a_state_whose_file_is_lost_or_damaged_is_sent(client, tmp_path):
    for harm in ("lost", "damaged"):
        state = {"shift": harm, "array": np.ones(10**5)}
        with DaskRuntime(client, scratch=tmp_path, window=2) as runtime:
            results = runtime.map(tell_late, Ramp(), numbered(8), state)
            write = broadcast.write

            def writes_badly(pieces, path, harm=harm, write=write):
                write(pieces, path)
                path.unlink() if harm == "lost" else path.write_bytes(b"x" * 1000)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(broadcast, "write", writes_badly)
                assert list(results) == [(i, 600, harm, 1e5) for i in range(8)]
            assert not runtime.workers_see_folder


def tell_late(source, job, state):
    time.sleep(0.01)
    return tell(source, job, state)


class Pieces(Ramp):
    """A source that is a dask array: its blocks are computed on the cluster."""

    def __init__(self, X):
        super().__init__(*X.shape)
        self.X = X
        self.at_hand = {}

    def __getstate__(self):
        return {**self.__dict__, "X": None}

    def pieces(self, blocks):
        return tuple(self.X[:, block.start : block.stop] for block in blocks)

    def with_pieces(self, blocks, arrays):
        other = Pieces(np.empty((self.n_samples, self.n_features)))
        other.at_hand = {block.index: X for block, X in zip(blocks, arrays, strict=True)}
        return other

    def read(self, block, rows=None):
        return self.at_hand[block.index]


def total(source, job, state):
    return [float(source.read(block).sum()) for block in job.blocks]


def test_a_lazy_source_is_computed_on_the_cluster(client):
    X = np.arange(40 * 60, dtype=float).reshape(40, 60)
    source = Pieces(da.from_array(X, chunks=(20, 10)))
    blocks = source.blocks(10)
    jobs = [Job(blocks[i : i + 2]) for i in range(0, 6, 2)]
    with DaskRuntime(client) as runtime:
        sums = list(runtime.map(total, source, jobs, None))
    assert sums == [[X[:, b.start : b.stop].sum() for b in job.blocks] for job in jobs]


def test_data_of_this_process_are_not_shipped(client):
    source = Ramp()
    source.client_bytes = 65 * 2**20
    refused = pytest.raises(ClusterError, match=r"65 MiB.* at most 64 MiB .* runtime='threads'")
    with DaskRuntime(client) as runtime, refused:
        list(runtime.map(tell, source, numbered(2), None))


def test_other_versions_are_refused(client, monkeypatch):
    with DaskRuntime(client) as runtime:
        theirs = {"dhsic": "0.0.1", "numpy": "1.0"}
        results = runtime.map(tell, Ramp(), numbered(2), {"shift": 0, "array": np.ones(1)})
        monkeypatch.setattr(worker, "versions", lambda: theirs)  # as of a worker that joins now
        with pytest.raises(ClusterError, match=r"A worker that joined .* dhsic 0\.0\.1, client"):
            list(results)
        with pytest.raises(ClusterError, match=r"Worker inproc.* numpy 1\.0, client"):
            DaskRuntime(client)


@pytest.mark.parametrize(
    ("lacking", "said"),
    [("worker", "Worker tcp"), ("scheduler", "The scheduler")],
)
def test_a_cluster_without_dhsic_is_refused(lacking, said, tmp_path):
    """Processes that cannot import it; said at once, for a worker would leave without a word."""
    script = tmp_path / "bare.py"
    script.write_text(BARE)
    address = ""
    with ExitStack() as running:
        for kind in ("scheduler", "worker"):
            run = [script, kind] if kind == lacking else ["-m", f"distributed.cli.dask_{kind}"]
            command = [sys.executable, "-u", *run, *OPTIONS[kind], *filter(None, [address])]
            process = running.enter_context(
                subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            )
            running.callback(process.kill)
            if kind == "scheduler":
                told = (re.search(r"Scheduler at:\s+(tcp://\S+)", line) for line in process.stderr)
                address = next(filter(None, told))[1]
            threading.Thread(target=process.stderr.read, daemon=True).start()
        client = running.enter_context(Client(address, set_as_default=False))
        client.wait_for_workers(1)
        with pytest.raises(ClusterError, match=rf"(?s){said}.*cannot run dhsic .*Install dhsic"):
            DaskRuntime(client)


BARE = """
import sys
from importlib import import_module

sys.modules["dhsic"] = None
import_module(f"distributed.cli.dask_{sys.argv.pop(1)}").main()
"""
OPTIONS = {
    "scheduler": ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
    "worker": ["--no-nanny", "--no-dashboard", "--nthreads", "1"],
}


def test_a_cluster_without_workers_is_refused():
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(ClusterError, match=r"has had no worker for 0\.3 s"),
    ):
        DaskRuntime(client, timeout=0.3)


def test_no_scheduler_and_no_client_are_refused():
    with pytest.raises(ClusterError, match=r"No Dask scheduler answered at 'tcp://127.0.0.1:9'"):
        DaskRuntime(scheduler="tcp://127.0.0.1:9", timeout=0.5)
    with pytest.raises(ClusterError, match="no Dask client in this process"):
        DaskRuntime()


def test_cancelled_futures_are_submitted_again(client):
    with DaskRuntime(client, window=4) as runtime:
        results = runtime.map(out_of_order, Ramp(), numbered(12), None)
        assert next(results) == 0
        client.cancel([f for f in list(client.futures) if "out-of-order" in f], force=True)
        assert list(results) == list(range(1, 12))


def test_a_worker_that_joins_takes_part():
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as own,
        DaskRuntime(own) as runtime,
    ):
        assert (runtime.n_workers, runtime.window()) == (1, 2)
        results = runtime.map(out_of_order, Ramp(), numbered(30), None)
        next(results)
        cluster.scale(3)
        own.wait_for_workers(3)
        assert list(results) == list(range(1, 30))
        assert list(runtime.map(count, Ramp(), numbered(9), None)) == list(range(9))
        assert (runtime.n_workers, runtime.window()) == (3, 6)


def test_closed_early_workers_stop_between_jobs(client):
    with DaskRuntime(client, window=8) as runtime:
        GAUGE.reset()
        results = runtime.map(count, Ramp(), numbered(400), None)
        next(results)
        results.close()
        time.sleep(1.0)  # all 400 would have ended by now
        assert GAUGE.running == 0
        assert GAUGE.begun < 350
        assert list(runtime.map(out_of_order, Ramp(), numbered(4), None)) == [0, 1, 2, 3]


def test_choosing_a_cluster(client):
    assert choose_runtime().name == "threads"
    with choose_runtime(client=client) as runtime:
        assert runtime.name == "dask"
    with client.as_current(), choose_runtime() as runtime, choose_runtime("dask") as same:
        assert runtime.client is same.client is client


@pytest.fixture(scope="module")
def processes():
    with LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


@pytest.mark.slow
class TestDaskProcesses(RuntimeSuite):
    @pytest.fixture(params=["workers see the folder", "workers do not"])
    def runtime(self, request, processes):
        with DaskRuntime(scheduler=processes.scheduler_address) as runtime:
            assert runtime.workers_see_folder
            runtime.workers_see_folder = request.param == "workers see the folder"
            yield runtime
        assert runtime.client.status == "closed"


def slow_gram(source, job, state):
    time.sleep(0.05)
    return gram(source, job, state)


def pid(source, job, state):
    time.sleep(0.05)
    return os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("seen", [True, False])
def test_a_worker_killed_in_a_map_changes_nothing(processes, seen):
    source, state = Ramp(), np.random.default_rng(0).normal(size=(40, 9000)).astype("float32")
    jobs = [Job((block,)) for block in source.blocks(20)]
    with Threads(1) as reference:
        expected = sum(reference.map(gram, source, jobs, state))
    with DaskRuntime(scheduler=processes.scheduler_address) as runtime:
        runtime.workers_see_folder = seen
        victims = list(set(runtime.map(pid, source, numbered(16), None)))
        results = runtime.map(slow_gram, source, jobs, state)
        got = [next(results), next(results)]
        os.kill(victims[0], signal.SIGKILL)
        began = time.monotonic()
        got += results
        assert np.array_equal(sum(got), expected)
        assert time.monotonic() - began < 60


def die(source, job, state):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_job_that_kills_workers_is_an_error_about_memory(processes):
    with DaskRuntime(scheduler=processes.scheduler_address) as runtime:
        jobs = [Job(Ramp().blocks(100)[:2])]
        with pytest.raises(ClusterError, match=r"4 workers in a row .* features 0 to 200.*memory"):
            list(runtime.map(die, Ramp(), jobs, None))
        assert list(runtime.map(out_of_order, Ramp(), numbered(5), None)) == list(range(5))


@pytest.mark.slow
def test_a_lost_scheduler_is_an_error_about_the_checkpoint():
    cluster = LocalCluster(n_workers=1, processes=True, dashboard_address="127.0.0.1:0")
    with DaskRuntime(scheduler=cluster.scheduler_address, timeout=2, window=10) as runtime:
        results = runtime.map(pid, Ramp(), numbered(50), None)
        next(results)
        cluster.close()
        with pytest.raises(ClusterError, match="resume from the checkpoint"):
            list(results)


def test_a_large_result_is_a_file_for_a_moment(tmp_path):
    values = np.arange(100_000.0), "and more"
    parcel = broadcast.shelved(values, tmp_path)
    assert isinstance(parcel, broadcast.Parcel)
    assert len(list(tmp_path.iterdir())) == 1

    array, text = broadcast.fetched(parcel)

    np.testing.assert_array_equal(array, values[0])
    assert text == "and more"
    assert not list(tmp_path.iterdir())


def test_a_small_result_travels_as_it_is(tmp_path):
    assert broadcast.shelved([1, 2], tmp_path) == [1, 2]
    assert broadcast.fetched([1, 2]) == [1, 2]


def test_a_result_without_room_travels(tmp_path):
    array = np.arange(100_000.0)
    assert broadcast.shelved(array, tmp_path / "nowhere") is array


def test_a_damaged_result_is_no_result(tmp_path):
    parcel = broadcast.shelved(np.arange(100_000.0), tmp_path)
    path = next(tmp_path.iterdir())
    data = bytearray(path.read_bytes())
    data[400_000] ^= 1
    path.write_bytes(data)

    with pytest.raises(broadcast.StateUnreachableError, match="does not contain the bytes"):
        broadcast.fetched(parcel)
    assert not list(tmp_path.iterdir())


# ---- what happens to one job ----------------------------------------------------------------


def worker_name():
    """Of the worker whose thread this is."""
    try:
        return get_worker().name
    except ValueError:  # of its own, for jobs of a share
        return int(threading.current_thread().name.split("-")[1].split("_")[0])


def hang_on_first(source, job, state):
    """One worker takes for ever over each of its jobs, which others do at once."""
    if worker_name() == state:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not DONE.is_set():
            time.sleep(0.01)
    return job.payload


DONE = threading.Event()


def test_a_job_that_is_late_runs_on_another_worker(client, monkeypatch):
    monkeypatch.setattr(task_attempt, "NEVER_BEFORE", 0.2)
    DONE.clear()
    with DaskRuntime(client) as runtime:
        began = time.monotonic()
        got = list(runtime.map(hang_on_first, Ramp(), numbered(40), 0))
        DONE.set()
        assert got == list(range(40))
        assert time.monotonic() - began < 60  # it would be for ever
        assert runtime.avoided
        assert len(runtime.workers_for(())) == 1


def fail_on_first(source, job, state):
    if worker_name() == state or state == "all":
        raise OSError(f"job {job.payload} on {worker_name()}")
    return job.payload


def test_an_error_of_one_worker_is_tried_on_another(client):
    with DaskRuntime(client) as runtime:
        assert list(runtime.map(fail_on_first, Ramp(), numbered(9), 0)) == list(range(9))


def test_an_error_of_every_worker_is_raised_as_it_was_at_first(client):
    with DaskRuntime(client) as runtime, pytest.raises(OSError, match=r"job 0 on [01]") as caught:
        list(runtime.map(fail_on_first, Ramp(), numbered(9), "all"))
    assert type(caught.value) is OSError
    first = caught.value.dhsic_worker
    assert first in client.nthreads()


def columns(source, job, state):
    """Columns of the blocks, where these are few enough."""
    if len(job.blocks) > state:
        raise MemoryError(f"{len(job.blocks)} blocks")
    assert job.payload == tuple(block.index for block in job.blocks)
    return np.concatenate([source.read(block).T for block in job.blocks])


def four_blocks_each(source):
    blocks = source.blocks(50)
    return [
        Job(blocks[i : i + 4], tuple(block.index for block in blocks[i : i + 4]))
        for i in range(0, len(blocks), 4)
    ]


@pytest.mark.parametrize("most", [2, 1])
def test_a_job_that_is_too_large_is_halved_twice(client, most):
    source = Ramp()
    jobs = four_blocks_each(source)
    with Threads(1) as reference:
        expected = np.concatenate(list(reference.map(columns, source, jobs, 4)))
    with DaskRuntime(client) as runtime:
        got = list(runtime.map_blocks(columns, source, jobs, most))
    assert len(got) == 12 // most
    np.testing.assert_array_equal(np.concatenate(got), expected)


def test_after_two_halvings_the_error_is_of_memory(client):
    source = Ramp()
    sentence = r"The memory of inproc\S+ is too small for features 0 to 50 alone \(1 blocks\)\."
    with DaskRuntime(client) as runtime, pytest.raises(ClusterError, match=sentence):
        list(runtime.map_blocks(columns, source, four_blocks_each(source), 0))


def test_results_that_are_summed_are_not_halved(client):
    source = Ramp()
    with DaskRuntime(client) as runtime, pytest.raises(ClusterError, match="features 0 to 200 al"):
        list(runtime.map(columns, source, four_blocks_each(source), 2))


def of_one_block():
    """60 jobs that read 400 values each."""
    return [Job((block,)) for block in Ramp().blocks(10)]


def loads(source, job, state):
    time.sleep(0.02)
    return worker_name(), id(state)


@pytest.mark.parametrize("seen", [True, False])
def test_a_state_is_loaded_once_by_workers_of_any_age(seen, tmp_path, monkeypatch):
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as own,
        DaskRuntime(own, scratch=tmp_path) as runtime,
    ):
        runtime.workers_see_folder = seen
        monkeypatch.setattr(partition, "MOST_VALUES", 2000)
        results = runtime.map(loads, Ramp(), of_one_block(), np.ones(100_000))
        next(results)
        cluster.scale(2)
        own.wait_for_workers(2)
        found = list(results)
        assert {name for name, _ in found} == {0, 1}
        assert len({name for _, name in found}) == 1  # both are in this process
        sent = [key for key in own.futures if key.startswith("dhsic-state")]
        assert len(sent) <= (0 if seen else 1)


def test_an_adaptive_cluster_grows_from_nothing(monkeypatch):
    monkeypatch.setattr(ordered_map, "RECOUNT", 0.05)
    monkeypatch.setattr(partition, "MOST_VALUES", 1200)
    with LocalCluster(
        n_workers=0, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as cluster:
        cluster.adapt(minimum=0, maximum=3, interval="50ms", target_duration="10ms")
        with Client(cluster, set_as_default=False) as own, DaskRuntime(own) as runtime:
            got = list(runtime.map(loads, Ramp(), of_one_block(), None))
            assert len(got) == 60
            assert len({name for name, _ in got}) > 1
            assert runtime.window() > 2


def test_tasks_tell_what_they_are(client):
    source = Ramp()
    with DaskRuntime(client, window=3) as runtime:
        for _ in range(10):  # tasks may be done before they are looked at
            results = runtime.map_blocks(columns, source, four_blocks_each(source), 4)
            next(results)
            seen = client.run_on_scheduler(annotations)
            list(results)
            if seen:
                break
    ((key, found),) = seen.items()
    assert key.startswith("dhsic-columns-")
    assert key.endswith("-2")
    assert found["dhsic"] == {"task": "columns", "features": (400, 600), "attempt": 1, "n_jobs": 3}


def annotations(dask_scheduler):
    """What tasks that are still there tell, but for the first two of a map."""
    tasks = dask_scheduler.tasks
    return {key: tasks[key].annotations for key in tasks if "columns" in key and key[-2:] == "-2"}


def test_a_secured_address_without_certificates_gets_a_sentence():
    with pytest.raises(ClusterError, match="Dask is configured without them"):
        DaskRuntime(scheduler="tls://127.0.0.1:1")


# -- Memory of workers


@pytest.fixture(scope="module")
def small_workers():
    """Client of two workers, of which one has less for each of its threads."""
    workers = {
        name: {
            "cls": Worker,
            "options": {"nthreads": n, "memory_limit": limit, "dashboard_address": "127.0.0.1:0"},
        }
        for name, n, limit in (("ample", 1, "2GB"), ("small", 2, "900MB"))
    }
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": "127.0.0.1:0"}}
    with (
        SpecCluster(workers=workers, scheduler=scheduler) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_workers_that_are_too_small_are_refused_before_anything_runs(
    small_workers, tmp_path, monkeypatch
):
    X, y = np.zeros((3600, 40), dtype=np.int8), np.arange(3600) % 2
    with DaskRuntime(small_workers, scratch=tmp_path) as runtime:
        tightest = runtime.tightest()
        assert (tightest.limit, tightest.n_threads) == (900 * 10**6, 2)
        said = (
            r"A worker with 2 threads needs at most .* limit is 900 MB \(worker tcp://.*\); "
            r"use fewer samples, or give workers fewer threads, or \d"
        )
        monkeypatch.setattr(DaskRuntime, "results", None)  # nothing runs
        with pytest.raises(MemoryBudgetError, match=said):
            dhsic.BAHSIC(5, solver="exact", runtime=runtime).fit(X, y)


@pytest.mark.slow
def test_survivors_get_what_the_limit_of_workers_leaves(small_workers, tmp_path):
    source = open_source(np.zeros((50, 10**5)), n_samples=50)
    with DaskRuntime(small_workers, scratch=tmp_path) as runtime:
        run = SelectionRun(dhsic.BAHSIC(), source, np.arange(50) % 2, runtime)
        run.room_on_workers(runtime.tightest(), None)
        whole = run.on_worker()
        assert whole.survivors == 50 * 10**5 * 8
        rest = replace(runtime.tightest(), limit=whole.total - 10**6, n_threads=1)
        assert run.room_on_workers(rest, None) == whole.survivors - 10**6
        with pytest.raises(MemoryBudgetError, match=r"give workers 4.. MB"):
            run.room_on_workers(replace(rest, limit=10**8), None)


def test_workers_that_cannot_even_load_dhsic_are_refused():
    options = {"n_workers": 1, "processes": False, "memory_limit": "100MB"}
    with (
        LocalCluster(**options, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(MemoryBudgetError, match=r"100 MB \(worker .*\), but a worker needs"),
    ):
        DaskRuntime(client)
