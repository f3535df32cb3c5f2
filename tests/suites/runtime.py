"""What every runtime must do: subclass, and provide a `runtime` fixture."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dhsic.errors import DataError
from dhsic.runtime.base import AbstractRuntime, AbstractStep, Job, Site
from dhsic.runtime.threads import Threads
from dhsic.runtime.tree_reduce import Tree
from dhsic.sources import AbstractSource
from dhsic.sources.blocks import Block


class Ramp(AbstractSource):
    """A source that makes its blocks up: nothing to open, nothing to ship."""

    def __init__(self, n_samples: int = 40, n_features: int = 600) -> None:
        self.n_samples = n_samples
        self.n_features = n_features
        self.dtype = np.dtype("float32")

    def blocks(self, width: int) -> tuple[Block, ...]:
        starts = range(0, self.n_features, width)
        return tuple(
            Block(i, start, min(start + width, self.n_features)) for i, start in enumerate(starts)
        )

    def read(self, block, rows=None):
        rng = np.random.default_rng(block.index)
        X = np.asfortranarray(rng.normal(size=(self.n_samples, block.width)).astype("float32"))
        return X if rows is None else X[rows]

    def fingerprint(self, n_chunks: int = 8) -> str:
        return f"ramp-{self.n_samples}-{self.n_features}"


def numbered(n: int) -> list[Job]:
    return [Job((), payload=i) for i in range(n)]


def gram(source, job, state):
    """A result whose last bits depend on the order and on the threads of BLAS."""
    X = source.read(job.blocks[0])
    return X.astype(np.float64) @ (X.T @ state)


def tell(source, job, state):
    return job.payload, source.n_features, state["shift"], float(state["array"].sum())


def text(source, job, state):
    return [f"{job.payload} "]


def add_texts(left, right):
    left[0] = f"({left[0]}{right[0]})"  # what others still need would show it
    return left


def add_in_place(left, right):
    left += right
    return left


def out_of_order(source, job, state):
    time.sleep(0.02 if job.payload % 3 == 0 else 0.0)
    return job.payload


def fail(source, job, state):
    time.sleep(0.02 if job.payload == 3 else 0.0)  # a later error comes first, and is not raised
    if job.payload >= 3:
        raise DataError(f"Chunk {job.payload} of 'call_genotype' is missing. Write it again.")
    return job.payload


def time_out(source, job, state):
    raise TimeoutError(f"The store did not answer job {job.payload}.")


@dataclass(frozen=True)
class Grow(AbstractStep):
    """Values are texts of all that was done; parts tell of sites. What is written in shows."""

    def of(self, source, job, state):
        return [f"{job.payload}{state} "]

    def add(self, left, right):
        return add_texts(left, right)

    def finish(self, value, total, told, state, each):
        value = [*(value or []), *(total or ["-"])]
        return value, [f"{told}:{len(value)} "]

    def join(self, left, right):
        return add_texts(left, right)


def sites_of(*n_jobs):
    return [
        Site(tuple(Job((), payload=f"{k}.{i}") for i in range(n)), told=k)
        for k, n in enumerate(n_jobs)
    ]


def tell_value(value, told, state):
    return told, state, "".join(value)


def grown(site, n, state):
    """What a site with so many jobs grows by."""
    tree = Tree(add_texts, n)
    for i in range(n):
        tree.put([f"{site}.{i}{state} "], (0, i))
    return tree.total[0] if n else "-"


@dataclass(frozen=True)
class Grams(AbstractStep):
    """Sums of products whose last bits depend on their order."""

    def of(self, source, job, state):
        return gram(source, job, state)

    def add(self, left, right):
        return add_in_place(left, right)

    def finish(self, value, total, told, state, each):
        value = total if value is None else value - total
        return value, value[:3] * told

    def join(self, left, right):
        return add_in_place(left, right)


class Fail(Grow):
    def of(self, source, job, state):
        return [fail(source, job, state)]


def followed(runtime, source, sites, state):
    """Sums of parts over three steps, and what is asked after them."""
    held, first = runtime.update(None, Grams(), source, sites, state)
    held, second = runtime.update(held, Grams(), source, sites[::-1], state[::-1])
    held, third = runtime.update(held, Grams(), source, sites, 2 * state)
    answers = runtime.query(held, ask_sum, [site.told for site in sites], np.float64(3))
    return np.concatenate([first, second, third, *answers])


def ask_sum(value, told, state):
    return value[told : told + 1] * state


class Gauge:
    """Counts tasks that began; only for runtimes whose tasks run in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begun = 0
        self.running = 0

    def reset(self) -> None:
        self.begun = self.running = 0


GAUGE = Gauge()


def count(source, job, state):
    with GAUGE.lock:
        GAUGE.begun += 1
        GAUGE.running += 1
    time.sleep(0.002)
    with GAUGE.lock:
        GAUGE.running -= 1
    return job.payload


class RuntimeSuite:
    @pytest.fixture
    def runtime(self) -> Iterator[AbstractRuntime]:
        raise NotImplementedError

    def test_results_come_in_the_order_of_the_jobs(self, runtime):
        assert list(runtime.map(out_of_order, Ramp(), numbered(30), None)) == list(range(30))

    def test_every_job_sees_source_and_state(self, runtime):
        for size in (10, 100_000):  # a state that goes along, and one that does not
            state = {"shift": 5, "array": np.ones(size)}
            got = list(runtime.map(tell, Ramp(), numbered(7), state))
            assert got == [(i, 600, 5, size) for i in range(7)]

    def test_state_of_every_map_is_its_own(self, runtime):
        for shift in range(6):
            state = {"shift": shift, "array": np.full(50_000, float(shift))}
            assert list(runtime.map(tell, Ramp(), numbered(2), state)) == [
                (i, 600, shift, 50_000.0 * shift) for i in range(2)
            ]

    def test_no_jobs_no_results(self, runtime):
        assert list(runtime.map(tell, Ramp(), [], None)) == []

    def test_one_job(self, runtime):
        assert list(runtime.map(out_of_order, Ramp(), numbered(1), None)) == [0]

    def test_first_error_is_raised_as_it_was(self, runtime):
        with pytest.raises(DataError) as caught:
            list(runtime.map(fail, Ramp(), numbered(12), None))
        assert type(caught.value) is DataError
        assert str(caught.value) == "Chunk 3 of 'call_genotype' is missing. Write it again."
        assert list(runtime.map(out_of_order, Ramp(), numbered(3), None)) == [0, 1, 2]

    def test_an_error_that_looks_like_the_machinery_is_raised_too(self, runtime):
        with pytest.raises(TimeoutError, match="did not answer job 0"):
            list(runtime.map(time_out, Ramp(), numbered(2), None))

    def test_sums_are_the_same_bit_for_bit(self, runtime):
        source, state = Ramp(), np.random.default_rng(0).normal(size=(40, 900)).astype("float32")
        jobs = [Job((block,)) for block in source.blocks(64)]
        with Threads(1) as reference:
            expected = sum(reference.map(gram, source, jobs, state))
        assert np.array_equal(sum(runtime.map(gram, source, jobs, state)), expected)

    @pytest.mark.parametrize("n", [1, 2, 3, 9, 10, 64])
    def test_results_are_added_along_one_tree(self, runtime, n):
        expected = Tree(add_texts, n)
        for i in range(n):
            expected.put([f"{i} "], (0, i))
        found = runtime.sum_results(text, Ramp(), numbered(n), None, add_texts)
        assert found == expected.total

    def test_large_results_are_added_to_the_same_bits(self, runtime):
        source, state = Ramp(), np.random.default_rng(0).normal(size=(40, 9000)).astype("float32")
        jobs = [Job((block,)) for block in source.blocks(50)]
        with Threads(1) as reference:
            expected = reference.sum_results(gram, source, jobs, state, add_in_place)
        found = runtime.sum_results(gram, source, jobs, state, add_in_place)
        assert np.array_equal(found, expected)
        found += 1  # who asked may write in it

    def test_an_error_ends_a_sum(self, runtime):
        with pytest.raises(DataError, match="Chunk 3"):
            runtime.sum_results(fail, Ramp(), numbered(12), None, max)

    @pytest.mark.parametrize("n_jobs", [(3,), (2, 0, 1), (5, 4, 3, 2, 1, 0, 1, 2, 3)])
    def test_values_stay_and_parts_are_added_along_one_tree(self, runtime, n_jobs):
        expected = Tree(add_texts, len(n_jobs))
        for k in range(len(n_jobs)):
            expected.put([f"{k}:2 "], (0, k))
        first, _ = runtime.update(None, Grow(), Ramp(), sites_of(*n_jobs), "a")
        held, parts = runtime.update(first, Grow(), Ramp(), sites_of(*n_jobs[::-1]), "b")
        assert len(held) == len(n_jobs)
        assert parts == expected.total
        found = list(runtime.query(held, tell_value, range(len(n_jobs)), "c"))
        both = zip(n_jobs, n_jobs[::-1], strict=True)
        texts = [grown(k, n, "a") + grown(k, m, "b") for k, (n, m) in enumerate(both)]
        assert found == [(k, "c", each) for k, each in enumerate(texts)]

    def test_values_are_the_same_bit_for_bit(self, runtime):
        source, state = Ramp(), np.random.default_rng(0).normal(size=(40, 900)).astype("float32")
        blocks = [Job((block,)) for block in source.blocks(25)]
        sites = [Site(tuple(blocks[i : i + 5]), told=i) for i in range(0, len(blocks), 5)]
        with Threads(1) as reference:
            expected = followed(reference, source, sites, state)
        assert_array_equal(followed(runtime, source, sites, state), expected)

    def test_an_error_ends_a_step(self, runtime):
        with pytest.raises(DataError, match="Chunk 3"):
            runtime.update(None, Fail(), Ramp(), [Site(tuple(numbered(9)))] * 3, None)

    def test_n_workers_is_a_count(self, runtime):
        assert isinstance(runtime.n_workers, int)
        assert runtime.n_workers >= 1


class InProcessRuntimeSuite(RuntimeSuite):
    """Also what can only be seen when tasks run in this process."""

    def test_blas_runs_one_thread_in_tasks_and_is_restored(self, runtime):
        before = blas_threads(None, None, None)
        assert set(runtime.map(blas_threads, Ramp(), numbered(8), None)) == {(1,) * len(before)}
        assert blas_threads(None, None, None) == before

    def test_blas_is_limited_whoever_else_limits_it(self, runtime):
        from threadpoolctl import threadpool_limits

        n_libraries = len(blas_threads(None, None, None))
        with threadpool_limits(2):  # from now on threadpoolctl obeys this thread alone
            for _ in range(3):
                seen = set(runtime.map(blas_threads, Ramp(), numbered(8), None))
                assert seen == {(1,) * n_libraries}
            assert blas_threads(None, None, None) == (2,) * n_libraries

    def test_maps_side_by_side(self, runtime):
        first = runtime.map(out_of_order, Ramp(), numbered(20), None)
        second = runtime.map(out_of_order, Ramp(), numbered(20), None)
        pairs = list(zip(first, second, strict=True))
        assert pairs == [(i, i) for i in range(20)]


def blas_threads(source, job, state):
    from threadpoolctl import threadpool_info

    return tuple(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")
