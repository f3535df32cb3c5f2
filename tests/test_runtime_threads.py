"""Threads: the suite for one, few and many threads, and what only a pool can do."""

from __future__ import annotations

import threading
import time

import pytest
from suites.runtime import (
    GAUGE,
    InProcessRuntimeSuite,
    Ramp,
    blas_threads,
    count,
    fail,
    numbered,
    out_of_order,
)

from dhsic.errors import ClusterError, DataError, InputError
from dhsic.runtime import choose_runtime
from dhsic.runtime.cores import usable_cores
from dhsic.runtime.threads import Threads


class TestThreads(InProcessRuntimeSuite):
    @pytest.fixture(params=[1, 2, 7])
    def runtime(self, request):
        with Threads(request.param) as runtime:
            yield runtime

    def test_work_in_flight_is_bounded(self, runtime):
        GAUGE.reset()
        for taken, _ in enumerate(runtime.map(count, Ramp(), numbered(60), None)):
            if taken % 7 == 0:
                time.sleep(0.02)  # a slow consumer
            assert GAUGE.begun - taken <= runtime.window
        assert GAUGE.begun == 60

    def test_closed_early_begins_nothing_more(self, runtime):
        GAUGE.reset()
        results = runtime.map(count, Ramp(), numbered(200), None)
        next(results)
        results.close()
        time.sleep(0.5)  # all 200 would have ended by now
        assert GAUGE.running == 0
        assert GAUGE.begun <= runtime.window + 1
        assert list(runtime.map(out_of_order, Ramp(), numbered(4), None)) == [0, 1, 2, 3]

    def test_results_before_an_error_come(self, runtime):
        results = runtime.map(fail, Ramp(), numbered(12), None)
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(DataError, match="Chunk 3"):
            next(results)


def test_threads_live_between_maps_and_end_with_close():
    alive = threading.active_count()
    with Threads(3) as runtime:
        list(runtime.map(out_of_order, Ramp(), numbered(9), None))
        began = threading.active_count()
        list(runtime.map(out_of_order, Ramp(), numbered(9), None))
        assert threading.active_count() == began > alive
    assert threading.active_count() == alive
    assert list(runtime.map(out_of_order, Ramp(), numbered(3), None)) == [0, 1, 2]
    runtime.close()


def name_of_thread(source, job, state):
    return threading.current_thread().name


def test_a_single_job_runs_in_the_calling_thread():
    with Threads(4) as runtime:
        (name,) = runtime.map(name_of_thread, Ramp(), numbered(1), None)
    assert name == threading.current_thread().name


def test_close_waits_for_tasks_that_run():
    finished = []

    def slow(source, job, state):
        time.sleep(0.05)
        finished.append(job.payload)
        return job.payload

    with Threads(2) as runtime:
        results = runtime.map(slow, Ramp(), numbered(50), None)
        next(results)
        results.close()
        done = len(finished)
        time.sleep(0.1)
        assert len(finished) == done < 6


def test_overhead_of_a_map_is_well_below_a_round():
    with Threads(2) as runtime:
        list(runtime.map(blas_threads, Ramp(), numbered(2), None))
        began = time.perf_counter()
        for _ in range(50):
            list(runtime.map(lambda source, job, state: None, Ramp(), numbered(2), None))
        assert (time.perf_counter() - began) / 50 < 2e-3  # 0.1 ms where it was written


def test_cores_are_cut_by_the_quota_of_the_container(tmp_path):
    quota = tmp_path / "cpu.max"
    assert usable_cores(quota) >= 1
    quota.write_text("100000 100000\n")
    assert usable_cores(quota) == 1
    quota.write_text("50000 100000\n")
    assert usable_cores(quota) == 1
    quota.write_text("max 100000\n")
    assert usable_cores(quota) == usable_cores(tmp_path / "none")


def test_no_threads_is_refused():
    with pytest.raises(InputError, match=r"n_threads=0 is too few\. Pass 1 or more"):
        Threads(0)


def test_choosing_without_a_cluster():
    assert choose_runtime().name == "threads"
    assert choose_runtime("threads", n_threads=3).n_workers == 3
    given = Threads(1)
    assert choose_runtime(given) is given


def test_choosing_refuses_what_cannot_be():
    with pytest.raises(InputError, match="runtime='spark' is unknown"):
        choose_runtime("spark")
    with pytest.raises(InputError, match="'tcp://here:1' was passed"):
        choose_runtime("threads", scheduler="tcp://here:1")
    with pytest.raises(ClusterError, match="no Dask client in this process"):
        choose_runtime("dask")
