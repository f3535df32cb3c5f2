"""Survivors kept apart, packed or not, in memory or scratch: the same values, and no traces."""

import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import click
import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from stores import write_matrix

import dhsic
from dhsic.cli.console import Command
from dhsic.errors import ScratchError
from dhsic.passes import reader as reading
from dhsic.passes import scratch, survivors
from dhsic.passes.jobs import writing_jobs
from dhsic.passes.reader import Reader, worth_compacting
from dhsic.passes.scratch import LocalScratch, ScratchSource
from dhsic.passes.survivors import Form, Gather, MemorySource, forms, pack
from dhsic.runtime.base import Job
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.sources.blocks import Block

M, D = 30, 400


@st.composite
def few_valued(draw):
    """Values (c, m) of at most four consecutive integers, int8 or uint8."""
    dtype = np.dtype(draw(st.sampled_from(["i1", "u1"])))
    info = np.iinfo(dtype)
    lowest = draw(st.integers(info.min, info.max))
    highest = draw(st.integers(lowest, min(info.max, lowest + 3)))
    shape = draw(st.integers(1, 9)), draw(st.integers(1, 41))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.integers(lowest, highest + 1, shape, dtype=dtype)


@given(few_valued(), st.integers(1, 4), st.sampled_from([8, 1 << 19]))
def test_packed_values_are_read_again(values, n_parts, tile):
    form = forms(values.shape[1], values.dtype)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dhsic.passes.survivors.TILE_VALUES", tile)
        parts = [form.encode(part) for part in np.array_split(values, n_parts) if len(part)]
        settled = form.covering(span for _, span in parts)
        kept = np.concatenate([part for part, _ in parts])
        assert kept.shape == (len(values), form.length)
        assert kept.nbytes == len(values) * form.bytes_per_feature
        got = settled.decode(kept)
    assert got.dtype == values.dtype
    assert got.flags.c_contiguous
    assert_array_equal(got, values)


def test_the_first_value_lies_lowest():
    assert pack(np.array([[1, 2, 3, 0, -1]], dtype=np.int8)).tolist() == [[0b00_11_10_01, 3]]


def test_too_many_values_are_not_packed():
    form, plain = forms(5, np.int8)
    assert form.encode(np.array([[0, 1, 2, 3, 4]], dtype=np.int8))[1] == (0, 4)
    assert form.covering([(0, 2), (3, 4)]) is None
    assert form.covering([(0, 2), (-1, 1)]) == Form(5, np.dtype(np.int8), packed=True, lowest=-1)
    assert plain.covering([(0, 0)] * 2) == plain
    assert [forms(5, dtype)[0].packed for dtype in ("u1", "i2", "f4", "?")] == [True, *[False] * 3]


@pytest.mark.parametrize(
    ("n_features", "n_stored", "n_bytes", "worth"),
    [
        (100, 100, 512 << 20, True),
        (100, 100, (512 << 20) + 1, False),
        (51, 100, 0, False),
        (50, 100, 1 << 40, True),
    ],
)
def test_what_is_worth_compacting(n_features, n_stored, n_bytes, worth):
    assert worth_compacting(n_features, n_stored, n_bytes) == worth


@given(st.data())
def test_writers_share_the_work_by_whole_chunks(data):
    d = data.draw(st.integers(1, 300))
    width = data.draw(st.integers(1, 40))
    at = np.array(sorted(data.draw(st.sets(st.integers(0, d - 1), min_size=1))))
    chunk = data.draw(st.integers(1, 20))
    blocks, n = [], 0
    for i, a in enumerate(range(0, d, width)):
        inside = int(((at >= a) & (at < a + width)).sum())
        if inside:
            blocks.append((Block(i, a, min(a + width, d)), slice(n, n + inside)))
            n += inside

    most = data.draw(st.integers(1, 100))
    jobs = writing_jobs(blocks, at, chunk, most)

    found, read = [], []
    for job in jobs:
        columns = job.payload
        start = columns[0].tags[0]
        assert start == len(found)
        assert start % chunk == 0
        found += [b.start + k for b, c in zip(job.blocks, columns, strict=True) for k in c.local]
        assert all(c.local.size for c in columns)
        read += job.blocks
    assert found == at.tolist()
    assert len(read) <= len(blocks) + len(jobs) - 1
    assert len(jobs) <= max(most, 2)


def draw(kind, rng):
    """X, (M, D), and its missing code."""
    if kind == "genotypes":
        return rng.integers(-1, 3, (M, D), dtype=np.int8), -1
    if kind == "tetraploid":
        return rng.integers(0, 5, (M, D), dtype=np.uint8), None
    if kind == "calls":
        return rng.integers(0, 4, (M, D), dtype=np.uint8), None
    if kind == "nearly":  # one feature in the middle has one value too many
        X = rng.integers(0, 3, (M, D), dtype=np.int8)
        X[3, D // 2] = 7
        return X, None
    X = rng.standard_normal((M, D)).astype(np.float32)
    X[rng.random((M, D)) < 0.1] = np.nan
    return X, None


KINDS = {"genotypes": True, "calls": True, "tetraploid": False, "nearly": False, "floats": False}


@pytest.fixture(autouse=True)
def _far_from_home(monkeypatch):
    """These data are so small that a cluster would leave them to the process that asks."""
    monkeypatch.setattr(survivors, "HOME_BYTES", 0)


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False,
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        set_as_default=False,
    ) as client:
        yield client


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder for temporary files, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(scratch, "CHUNK_BYTES", 1)  # several chunks of little data
    return folder


@pytest.fixture(params=["threads", "dask"])
def runtime(request, client, place):
    with (
        Threads(2) if request.param == "threads" else DaskRuntime(client, scratch=place) as runtime
    ):
        yield runtime
    assert not list(place.iterdir())


def open_reader(tmp_path, X, code, runtime, rows=None, width=16):
    write_matrix(tmp_path / "x.zarr", X, chunks=(width, M), dims=("features", "samples"))
    source = dhsic.open_source(str(tmp_path / "x.zarr"), missing_code=code)
    return Reader(source, runtime, rows)


def values_of(reader, features):
    return np.concatenate(list(reader.map(Gather(), reader.jobs(features)))).T


@pytest.mark.parametrize(
    ("budget", "chosen"), [(0, None), (0, [7, 0, 3, 3, 29]), (3000, None), (512 << 20, [4, 2, 9])]
)
@pytest.mark.parametrize("kind", KINDS)
def test_compacted_readers_read_the_same(kind, budget, chosen, place, tmp_path, rng, monkeypatch):
    with Threads(2) as runtime:
        compact_and_read(kind, budget, chosen, runtime, tmp_path, rng, monkeypatch)
    assert not list(place.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_they_do_on_a_cluster(kind, client, place, tmp_path, rng, monkeypatch):
    with DaskRuntime(client, scratch=place) as runtime:
        compact_and_read(kind, 512 << 20, [4, 2, 9], runtime, tmp_path, rng, monkeypatch)
    assert not list(place.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_few_survivors_of_a_cluster_come_home(kind, client, place, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(survivors, "HOME_BYTES", 1 << 20)
    X, code = draw(kind, rng)
    S = np.sort(rng.choice(D, D // 3, replace=False))
    with DaskRuntime(client, scratch=place) as runtime:
        reader = open_reader(tmp_path, X, code, runtime)
        reader.compact(S)
        assert not reader.runtime.is_remote
        assert_array_equal(values_of(reader, S[::2]), X[:, S[::2]])


def compact_and_read(kind, budget, chosen, runtime, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(reading, "COMPACT_BYTES", budget)
    X, code = draw(kind, rng)
    rows = None if chosen is None else np.array(chosen)
    expected = X if rows is None else X[rows]
    reader = open_reader(tmp_path, X, code, runtime, rows)
    S = np.arange(D)
    reader.load()
    for n in (D, D // 2, 11):
        S = np.sort(rng.choice(S, n, replace=False))
        reader.compact(S)
        for some in (S, S[::3], S[-1:]):
            assert_array_equal(values_of(reader, some), expected[:, some])
    assert reader.held.size == 11
    assert reader.source.missing_code == code
    assert isinstance(
        reader.source, ScratchSource if runtime.is_remote or not budget else MemorySource
    )
    reader.close()


@pytest.mark.parametrize("kind", ["genotypes", "nearly", "floats"])
def test_where_survivors_are_kept_does_not_change_the_jobs(
    kind, client, place, tmp_path, rng, monkeypatch
):
    X, code = draw(kind, rng)
    found = []
    for is_remote, budget in ((False, 512 << 20), (False, 0), (True, 512 << 20)):
        monkeypatch.setattr(reading, "COMPACT_BYTES", budget)
        runtime = DaskRuntime(client, scratch=place) if is_remote else Threads(1)
        with runtime:
            S = np.arange(0, D, 3)
            reader = open_reader(tmp_path, X, code, runtime)
            reader.compact(S)
            assert (reader.scratch is not None) == (is_remote or not budget)
            is_packed = reader.source.form.packed
            assert is_packed == (KINDS[kind] or (kind == "nearly" and D // 2 not in S))
            found.append([job.payload[0].local.size for job in reader.jobs(S[5:])])
            reader.close()
    assert found[0] == found[1] == found[2]


def test_the_budget_counts_what_is_kept(tmp_path, rng, monkeypatch):
    with Threads(1) as runtime:
        for kind, budget, is_held in (
            ("genotypes", D * 8, True),
            ("genotypes", D * 8 - 1, False),
            ("nearly", D * 8, False),  # as stored it does not fit
            ("nearly", D * M, True),
        ):
            monkeypatch.setattr(reading, "COMPACT_BYTES", budget)
            reader = open_reader(tmp_path, *draw(kind, rng), runtime)
            reader.load()
            assert (reader.held is not None) == is_held
            if is_held:
                assert reader.source.client_bytes == (D * 8 if kind == "genotypes" else D * M)


@pytest.mark.usefixtures("to_scratch")
@pytest.mark.parametrize(("dtype", "fill"), [("i1", 0), ("u1", 0), ("i2", -1), ("f4", np.nan)])
def test_chunks_of_the_fill_value_are_written(dtype, fill, place, tmp_path):
    X = np.full((M, D), fill, dtype=dtype)
    S = np.arange(0, D, 2)
    with Threads(1) as runtime:
        reader = open_reader(tmp_path, X, None, runtime)
        reader.compact(S)
        assert reader.scratch is not None
        assert_array_equal(values_of(reader, S), X[:, S])
    reader.close()


def test_what_is_at_hand_or_lazy_is_not_written(client, place):
    X = np.random.default_rng(0).normal(size=(M, D))
    S = np.arange(0, D, 4)
    import dask.array as da

    with DaskRuntime(client, scratch=place) as runtime:
        for data in (X, da.from_array(X, chunks=(M, 50))):
            source = dhsic.open_source(data)
            reader = Reader(source, runtime)
            reader.compact(S)
            assert reader.source is source
            assert reader.scratch is None
            assert_array_equal(values_of(reader, S), X[:, S])
        runtime.workers_see_folder = False
        assert runtime.shared_folder is None


def test_a_smaller_scratch_takes_the_place_of_the_last(runtime, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(reading, "COMPACT_BYTES", 0)
    reader = open_reader(tmp_path, *draw("genotypes", rng), runtime)
    reader.compact(np.arange(0, D, 2))
    first = reader.source
    reader.compact(np.arange(0, D, 8))
    if runtime.is_remote:  # it is there as long as steps may be done again
        path = first._scratch.path
        assert path.exists()
        del first
        values_of(reader, np.arange(0, D, 8))
        assert not path.exists()
    else:
        with pytest.raises(ValueError, match="closed"):  # a file of this process
            first.columns(np.arange(3))
    assert values_of(reader, np.arange(0, D, 8)).shape == (M, D // 8)
    second = reader.source
    reader.compact(np.arange(0, D, 8))
    reader.compact(np.arange(0, D, 8)[:-1])
    assert reader.source is second
    reader.close()


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """Path of 120 samples x D genotypes with gaps, and labels."""
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, (120, D), dtype=np.int8)
    y = (X[:, 5] + X[:, 310] * X[:, 320] + rng.standard_normal(120) > 2).astype(int)
    X[rng.random(X.shape) < 0.02] = -1
    path = tmp_path_factory.mktemp("problem") / "x.zarr"
    write_matrix(path, X, chunks=(16, 120), dims=("features", "samples"))
    return str(path), y


def fit(problem, **options):
    path, y = problem
    options = {"progress": False, "step": 0.25, "runtime": "threads", **options}
    return dhsic.BAHSIC(5, **options).fit(dhsic.open_source(path, missing_code=-1), y)


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_rankings_are_the_same(problem, kernel, place, client, monkeypatch):
    memory = fit(problem, kernel=kernel)
    with DaskRuntime(client, scratch=place) as on_cluster:
        cluster = fit(problem, kernel=kernel, runtime=on_cluster)
        assert len(list(place.iterdir())) == 1  # that of the runtime
    monkeypatch.setattr(reading, "COMPACT_BYTES", 0)
    written = fit(problem, kernel=kernel)
    monkeypatch.setattr(reading, "worth_compacting", lambda *sizes: False)
    never = fit(problem, kernel=kernel)

    for other in (cluster, written, never):
        assert_array_equal(other.ranking_, memory.ranking_)
    assert_array_equal(cluster.scores_, memory.scores_)
    assert not list(place.iterdir())


@pytest.fixture
def to_scratch(monkeypatch):
    monkeypatch.setattr(reading, "COMPACT_BYTES", 0)


@pytest.fixture
def on_cluster(client, place, monkeypatch):
    """A cluster whose workers keep no scratch in memory."""
    monkeypatch.setattr("dhsic.selection.run.COMPACT_BYTES", 0)
    with DaskRuntime(client, scratch=place) as runtime:
        yield runtime
    assert not place.exists() or not list(place.iterdir())


def in_scratch(runtime, act):
    """A hook that acts once there is scratch, on its folder."""

    def hook(_record):
        for folder in runtime.folder.glob("survivors-*"):
            act(folder)

    return hook


@pytest.mark.usefixtures("to_scratch")
def test_a_run_has_scratch_that_has_no_name(problem, place, monkeypatch):
    made, seen = [], []
    monkeypatch.setattr(scratch, "LocalScratch", lambda at: made.append(at) or LocalScratch(at))
    fit(problem, progress=lambda _: seen.extend(place.iterdir()))
    assert made[0] == place
    assert not seen


@pytest.mark.usefixtures("to_scratch")
def test_damage_is_an_error_that_names_the_chunk(problem, monkeypatch):
    def damaged(scratch, number):
        data = bytearray(read(scratch, number))
        data[len(data) // 2] ^= 1
        return bytes(data)

    read = LocalScratch.read
    monkeypatch.setattr(LocalScratch, "read", damaged)
    said = r"^Scratch, .* missing or damaged on .* \(chunk \d+ was changed after .* TMPDIR"
    with pytest.raises(ScratchError, match=said):
        fit(problem)


@pytest.mark.usefixtures("to_scratch")
def test_a_lost_chunk_is_an_error_that_names_it(problem, on_cluster):
    def lose(folder):
        (folder / "0").unlink(missing_ok=True)

    said = r"\(.*No such file .*/survivors-[^/]*/0'\)\. .* Your data are not affected"
    with pytest.raises(ScratchError, match=said):
        fit(problem, runtime=on_cluster, progress=in_scratch(on_cluster, lose))
    assert not list(on_cluster.folder.glob("survivors-*"))


@pytest.mark.slow
@pytest.mark.usefixtures("to_scratch")
def test_scratch_that_vanishes_is_to_blame_and_not_the_data(problem, place, on_cluster, tmp_path):
    checkpoint = tmp_path / "run.dhsic"
    vanish = in_scratch(on_cluster, lambda _folder: shutil.rmtree(place))
    with pytest.raises(ScratchError, match=r"Your data are not affected.*TMPDIR"):
        fit(problem, runtime=on_cluster, checkpoint=str(checkpoint), progress=vanish)
    place.mkdir()
    expected = fit(problem).ranking_
    assert_array_equal(fit(problem, checkpoint=str(checkpoint)).ranking_, expected)


def test_a_command_without_its_scratch_may_be_tried_again():
    @click.command(cls=Command)
    def run_out():
        raise ScratchError("Scratch is gone. Run again.")

    done = CliRunner().invoke(run_out)
    assert (done.exit_code, done.stderr) == (1, "Error: Scratch is gone. Run again.\n")


def test_a_state_without_its_folder_is_sent(client, tmp_path):
    (tmp_path / "scratch").mkdir()
    with DaskRuntime(client, scratch=tmp_path / "scratch") as runtime:
        shutil.rmtree(tmp_path / "scratch")
        jobs = [Job((), payload=n) for n in range(3)]
        large = np.arange(10**5, dtype=float)
        got = list(runtime.map(shifted, dhsic.open_source(np.zeros((4, 2))), jobs, large))
    assert got == [large.sum() + n for n in range(3)]


def shifted(source, job, state):
    return float(state.sum() + job.payload)


@pytest.mark.usefixtures("to_scratch")
def test_an_interrupted_run_leaves_no_scratch(problem, on_cluster):
    def interrupt(folder):
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        fit(problem, runtime=on_cluster, progress=in_scratch(on_cluster, interrupt))
    assert not list(on_cluster.folder.glob("survivors-*"))


@pytest.mark.slow
@pytest.mark.usefixtures("to_scratch")
def test_a_full_disk_is_told_of_and_the_run_goes_on(problem, monkeypatch):
    expected = fit(problem).ranking_

    def full(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.warns(UserWarning, match=r"cannot be written to scratch .*No space left.*TMPDIR"):
        assert_array_equal(fit(problem).ranking_, expected)


@pytest.mark.slow
@pytest.mark.usefixtures("to_scratch")
@pytest.mark.parametrize("room", [0, 1000])
def test_a_disk_that_fills_is_too(problem, room):
    expected = fit(problem).ranking_
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.warns(UserWarning, match=r"cannot be written to scratch \(.*TMPDIR"):
            assert_array_equal(fit(problem).ranking_, expected)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_place_that_is_not_there_is_told_of(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(reading, "COMPACT_BYTES", 0)
    with Threads(1) as runtime:
        reader = open_reader(tmp_path, *draw("genotypes", rng), runtime)
        stored = reader.source
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        with pytest.warns(UserWarning, match="No such file"):
            reader.compact(np.arange(9))
        assert (reader.source.base, reader.scratch) == (stored, None)


RUN = """
import sys, tempfile, time
import dhsic, numpy as np
from dhsic.passes import reader, scratch
reader.COMPACT_BYTES = 0
tempfile.tempdir = sys.argv[2]
made = []
class Scratch(scratch.LocalScratch):
    def write(self, number, data):
        made.append(number)
        super().write(number, data)
scratch.LocalScratch = Scratch
def hook(record):
    if made:
        print("scratch", flush=True)
        for _ in range(6000):  # a signal between two bytecodes interrupts no sleep that follows
            time.sleep(0.01)
y = np.arange(120) % 2
X = dhsic.open_source(sys.argv[1], missing_code=-1)
dhsic.BAHSIC(5, progress=hook, step=0.5, runtime="threads").fit(X, y)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_killed_leaves_no_scratch(problem, place, number):
    command = [sys.executable, "-c", RUN, problem[0], str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "scratch\n"
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
    assert not list(place.iterdir())
