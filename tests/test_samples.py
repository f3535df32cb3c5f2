"""Jobs that read some samples of features, from chunks of these alone where that can be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from stores import write_matrix

import dhsic
from dhsic.passes import AbstractPass, run
from dhsic.passes import reader as reading
from dhsic.passes.reader import Reader
from dhsic.passes.survivors import RecutSource
from dhsic.runtime.threads import Threads
from dhsic.sources.views import ChecksummedSource, checksums

M, D, WIDTH = 103, 200, 40
SLICES = [slice(0, 32), slice(32, 64), slice(64, M), slice(5, 6)]


@dataclass(frozen=True)
class Raw(AbstractPass):
    """Values as they are read, (c, m)."""

    def over(self, blocks, m):
        parts = [tile.raw for tile in blocks]
        assert {part.shape[1] for part in parts} == {m} or m == M
        return np.concatenate(parts)


@pytest.fixture(params=["codes", "numbers"])
def values(request):
    rng = np.random.default_rng(0)
    if request.param == "codes":
        return rng.integers(0, 3, (M, D), dtype=np.int8)
    return rng.standard_normal((M, D)).astype(np.float32)


def opened(tmp_path, X):
    write_matrix(tmp_path / "x.zarr", X, chunks=(25, WIDTH))
    return dhsic.open_source(tmp_path / "x.zarr", n_samples=M)


def check(reader, S, expected):
    """What jobs of slices read, by the reader's rows."""
    for some in SLICES:
        jobs = [replace(job, samples=some) for job in reader.jobs(S, scaled=False)]
        found = [run(reader.source, job, (Raw(), reader.rows)) for job in jobs]
        assert_array_equal(np.concatenate(found), expected[some][:, S].T)


@pytest.mark.parametrize("place", ["store", "memory", "scratch", "recut"])
def test_a_slice_is_a_part_of_the_values(tmp_path, values, place, monkeypatch):
    monkeypatch.setattr(reading, "COMPACT_BYTES", 0)
    rows = None if place == "store" else np.random.default_rng(1).permutation(M)
    expected = values if rows is None else values[rows]
    S = np.arange(0, D, 3)
    source = opened(tmp_path, values)
    with Threads(1) as runtime:
        room = {"memory": 1 << 30, "scratch": 0}.get(place)
        reader = Reader(source, runtime, rows, room)
        if place in ("memory", "scratch"):
            reader.compact(S)
            assert (reader.scratch is not None) == (place == "scratch")
        elif place == "recut":
            known = checksums(expected.T)
            reader.source = RecutSource(ChecksummedSource(source, known, rows), S, WIDTH)
            reader.held = S
        check(reader, S, expected)
        reader.close()


def test_chunks_of_other_samples_are_left_where_they_are(tmp_path, values):
    source = opened(tmp_path, values)
    for path in (tmp_path / "x.zarr").rglob("*"):  # features first: chunk c/<features>/<samples>
        if path.is_file() and path.name in ("0", "2"):
            path.unlink()
    source = ChecksummedSource(source, checksums(values.T), None)
    with Threads(1) as runtime:
        reader = Reader(source, runtime)
        jobs = [replace(job, samples=slice(40, 75)) for job in reader.jobs(np.arange(D))]
        got = [run(source, job, (Raw(), None)) for job in jobs]
        assert_array_equal(np.concatenate(got), values[40:75].T)
        assert reader.bytes_of(jobs) == D * WIDTH * values.itemsize
        assert reader.bytes_of(reader.jobs(np.arange(D))) == values.nbytes
