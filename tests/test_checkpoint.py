"""Checkpoint: what is kept comes back, whatever dies or rots, or is refused with a sentence."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import socket
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spots import FolderSpot, UrlSpot
from thorough import examples

from dhsic.algorithms.state import SelectionState
from dhsic.errors import CheckpointError
from dhsic.storage import lock
from dhsic.storage.checkpoint import Checkpoint

IDENTITY = {
    "source": "5f3a",
    "parameters": {"step": 0.1, "kernel": "gaussian", "bandwidth": np.float64(0.25)},
    "versions": {"dhsic": "0.1.0", "numpy": "2.4.6"},
    "job": {"path": "data.zarr", "arguments": ["--step", "0.1"]},
}


def states(order, sizes, start=None):
    """The states of a run that removes the features of `order`, `sizes` of them each round."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=len(order))
    ends = np.cumsum([0, *sizes])
    for k, end in enumerate(ends):
        gone = order[:end]
        yield SelectionState(
            round=k,
            survivors=np.setdiff1d(order if start is None else start, gone),
            eliminated=gone,
            scores=scores[:end],
            removed_in=np.repeat(np.arange(1, k + 1), sizes[:k]),
            history=tuple(
                {"n_removed": int(n), "sigma": 0.1 * n, "hsic": float("nan"), "engine": "dense"}
                for n in sizes[:k]
            ),
        )


RUN = list(states(np.random.default_rng(1).permutation(40), [20, 10, 5, 3, 1, 1]))


def keep(path, run, identity=IDENTITY, done=None):
    """Run from where the checkpoint is to the end of `run`; return the state begun from."""
    done = [] if done is None else done
    with Checkpoint(path) as checkpoint:
        begun = checkpoint.begin(identity)
        if begun is None:
            checkpoint.start(run[0])
            done.append(0)
        for state in run[(0 if begun is None else begun.round) + 1 :]:
            checkpoint.save(state)
            done.append(state.round)
        checkpoint.finish()
    return begun


def same(a, b):
    return (
        a.round == b.round
        and all(
            np.array_equal(x, y, equal_nan=x.dtype.kind == "f") and x.dtype == y.dtype
            for x, y in (
                (getattr(a, name), getattr(b, name))
                for name in ("survivors", "eliminated", "scores", "removed_in")
            )
        )
        and repr(a.history) == repr(b.history)
    )


def assert_prefix(state, run):
    assert same(state, run[state.round])


@st.composite
def runs(draw):
    features = draw(st.lists(st.integers(0, 10**9), min_size=1, max_size=40, unique=True))
    sizes, left = [], len(features)
    while left:
        sizes.append(draw(st.integers(1, left)))
        left -= sizes[-1]
    return list(states(np.array(features), sizes))


@pytest.fixture(scope="module", params=["folder", "URL"])
def new_spot(request, tmp_path_factory):
    """What makes a place where nothing is, each time it is called."""
    s3 = request.getfixturevalue("s3") if request.param == "URL" else None

    def new():
        folder = tmp_path_factory.mktemp("new")
        return FolderSpot(folder / "run") if s3 is None else UrlSpot(s3, folder.name)

    return new


@examples(8)
@given(runs(), st.data())
def test_any_state_comes_back(new_spot, run, data):
    path = new_spot().path
    until = data.draw(st.integers(0, len(run) - 1))
    keep(path, run[: until + 1])
    assert same(Checkpoint(path).load(), run[until])
    assert same(keep(path, run), run[until])
    assert same(Checkpoint(path).load(), run[-1])


def test_scores_of_every_kind_and_numpy_records_come_back(spot):
    first = SelectionState(
        0, np.arange(4), np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), ()
    )
    record = {"sigma": np.float64(0.1), "n_features": np.int64(4), "hsic": np.float32(0.1)}
    last = SelectionState(
        1,
        np.empty(0, np.int64),
        np.array([3, 1, 0, 2]),
        np.array([np.nan, np.nan, -np.inf, 1e-300]),
        np.ones(4, np.int64),
        (record,),
    )
    keep(spot.path, [first, last])
    kept = Checkpoint(spot.path).load()
    assert np.array_equal(kept.scores, last.scores, equal_nan=True)
    assert kept.history == ({"sigma": 0.1, "n_features": 4, "hsic": float(np.float32(0.1))},)


def test_a_new_checkpoint_has_no_state_and_knows_its_job(spot):
    path = spot.path
    assert not Checkpoint(path).is_begun()
    with Checkpoint(path) as checkpoint:
        assert checkpoint.begin(IDENTITY) is None
        assert checkpoint.load() is None
    assert Checkpoint(path).is_begun()
    assert Checkpoint(path).job() == IDENTITY["job"]
    assert keep(path, RUN) is None
    assert Checkpoint(path).is_complete()


def test_a_job_may_differ_and_is_not_compared(tmp_path):
    keep(tmp_path, RUN[:3])
    assert same(keep(tmp_path, RUN[:4], {**IDENTITY, "job": "another"}), RUN[2])
    assert Checkpoint(tmp_path).job() == IDENTITY["job"]


def test_a_round_writes_only_itself(tmp_path):
    keep(tmp_path, RUN[:3])
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    keep(tmp_path, RUN[:4])
    after = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    touched = {str(p.relative_to(tmp_path)) for p in after if after[p] != before.get(p)}
    assert {name for name in touched if not name.startswith("rounds/000003/")} == {
        "zarr.json",
        "lock",
    }


def test_it_is_a_zarr_group(tmp_path):
    import zarr

    keep(tmp_path, RUN)
    group = zarr.open_group(tmp_path, mode="r")
    assert np.array_equal(group["rounds/000001/features"][:], RUN[1].eliminated)
    assert group["start/features"].fill_value == -1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"source": "77"}, r"other data: its values, names, shape or chunks .*\. Pass the same"),
        (
            {"parameters": {"step": 0.2, "kernel": "gaussian", "alpha": None}},
            r"other parameters: alpha is absent in .* null here; bandwidth is 0\.25 in .*",
        ),
        (
            {"versions": {"dhsic": "0.1.0", "numpy": "3.0"}},
            r'other versions: numpy is "2\.4\.6" in the checkpoint and "3\.0".* resume with those',
        ),
    ],
)
def test_another_run_is_refused(spot, change, sentence):
    keep(spot.path, RUN[:3])
    with pytest.raises(CheckpointError, match=sentence):
        keep(spot.path, RUN, {**IDENTITY, **change})
    assert same(keep(spot.path, RUN), RUN[2])


def test_digests_are_not_shown(spot):
    def identity(digest):
        return {**IDENTITY, "parameters": {**IDENTITY["parameters"], "labels": digest * 32}}

    keep(spot.path, RUN[:3], identity("ab"))
    with pytest.raises(CheckpointError, match=r"parameters: the labels differ \(y,") as caught:
        keep(spot.path, RUN, identity("cd"))
    assert "abab" not in str(caught.value)
    assert "cdcd" not in str(caught.value)


@pytest.mark.parametrize("root", ["[]", "{", '{"attributes": 3}'])
def test_a_root_that_is_none_is_damage(spot, root):
    spot.write("zarr.json", root.encode())
    with pytest.raises(CheckpointError, match=r"zarr\.json is damaged: it .*\. Restore it"):
        Checkpoint(spot.path).load()


def test_one_folder_is_made_to_keep_it_in(tmp_path):
    keep(tmp_path / "runs" / "today", RUN[:2])
    with pytest.raises(CheckpointError, match=r"neither that folder nor its parent exists"):
        keep(tmp_path / "more" / "runs" / "today", RUN[:2])
    assert not (tmp_path / "more").exists()


def test_a_newer_format_is_refused(spot):
    keep(spot.path, RUN[:3])
    spot.write("zarr.json", spot.read("zarr.json").replace(b'"format": 2', b'"format": 7'))
    sentence = r"has checkpoint format 7, but this version of dhsic reads formats up to 2\. Upgrade"
    with pytest.raises(CheckpointError, match=sentence):
        keep(spot.path, RUN)
    with pytest.raises(CheckpointError, match=sentence):
        Checkpoint(spot.path).load()


def test_an_older_format_is_refused(spot):
    keep(spot.path, RUN[:3])
    spot.write("zarr.json", spot.read("zarr.json").replace(b'"format": 2', b'"format": 1'))
    with pytest.raises(
        CheckpointError, match="from an earlier dhsic that scaled features differently"
    ):
        Checkpoint(spot.path).load()


def test_other_folders_are_refused(spot):
    with pytest.raises(CheckpointError, match="is not a dhsic checkpoint"):
        Checkpoint(f"{spot.path}-nowhere").load()
    spot.write("thesis.tex", b"all of it")
    with pytest.raises(CheckpointError, match=r"contains other files \(thesis\.tex\)"):
        keep(spot.path, RUN)
    spot.write("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(CheckpointError, match=r"is not a dhsic checkpoint.*Pass the folder"):
        keep(spot.path, RUN)


def test_rounds_are_kept_in_order_by_who_began(spot):
    with pytest.raises(CheckpointError, match=r"not open for writing\. Call begin"):
        Checkpoint(spot.path).save(RUN[1])
    with Checkpoint(spot.path) as checkpoint:
        checkpoint.begin(IDENTITY)
        checkpoint.start(RUN[0])
        with pytest.raises(CheckpointError, match="contains round 0, so round 2 cannot be saved"):
            checkpoint.save(RUN[2])


def test_a_place_that_is_removed_under_a_run_is_an_error_at_the_next_save(spot):
    with Checkpoint(spot.path) as checkpoint:
        checkpoint.begin(IDENTITY)
        checkpoint.start(RUN[0])
        checkpoint.save(RUN[1])
        spot.remove()
        with pytest.raises(CheckpointError, match=r"was removed or moved .* rounds .* gone"):
            checkpoint.save(RUN[2])
    assert not [name for name in spot.names() if name == "zarr.json"]


@pytest.mark.parametrize("what", ["lock", "rounds", "all but the lock"])
def test_a_folder_that_is_removed_in_part_is_one_too(tmp_path, what):
    path = tmp_path / "run.dhsic"
    with Checkpoint(path) as checkpoint:
        checkpoint.begin(IDENTITY)
        checkpoint.start(RUN[0])
        for found in list(path.iterdir()):
            if found.name == what or (found.name != "lock" and what.startswith("all")):
                shutil.rmtree(found) if found.is_dir() else found.unlink()
        with pytest.raises(CheckpointError, match=r"was removed or moved|lock was removed while"):
            checkpoint.save(RUN[1])
    assert not (path / "rounds" / "000001").exists()


def test_a_folder_that_another_run_made_anew_is_left_to_it(tmp_path):
    path = tmp_path / "run.dhsic"
    with Checkpoint(path) as checkpoint:
        checkpoint.begin(IDENTITY)
        checkpoint.start(RUN[0])
        shutil.rmtree(path)
        path.mkdir()
        (path / "lock").write_text("process 1 on another machine")
        with pytest.raises(CheckpointError, match="was removed and replaced by a new folder"):
            checkpoint.finish()
    assert [found.name for found in path.iterdir()] == ["lock"]


def test_a_second_writer_is_refused(spot):
    with Checkpoint(spot.path) as checkpoint:
        checkpoint.begin(IDENTITY)
        holder = rf"written by process {os.getpid()} on {socket.gethostname()}.*\. Wait"
        with pytest.raises(CheckpointError, match=holder):
            Checkpoint(spot.path).begin(IDENTITY)
    with Checkpoint(spot.path) as checkpoint:
        checkpoint.begin(IDENTITY)


@pytest.fixture(scope="module")
def intact(new_spot):
    spot = new_spot()
    keep(spot.path, RUN)
    return spot


def harm(spot, name, how, data):
    content = bytearray(spot.read(name))
    if how == "flip":
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "cut":
        del content[data.draw(st.integers(0, len(content) - 1)) if data else len(content) // 2 :]
    elif how == "empty":
        content.clear()
    spot.write(name, content)
    if how == "unlink":
        spot.unlink(name)


@examples(20)
@given(st.data())
def test_damage_anywhere_leaves_a_valid_round_or_a_sentence(intact, tmp_path_factory, data):
    spot = intact.copy(tmp_path_factory.mktemp("harmed").name + "-run")
    name = data.draw(st.sampled_from([name for name in spot.names() if name != "lock"]))
    harm(spot, name, data.draw(st.sampled_from(["flip", "cut", "empty", "unlink"])), data)
    number = name.split("/")[1:2]
    if not number or not number[0].isdigit():  # not in a round
        with suppress(CheckpointError):  # or the bit did not matter
            assert same(Checkpoint(spot.path).load(), RUN[-1])
        return
    state = Checkpoint(spot.path).load()
    assert_prefix(state, RUN)
    assert state.round in (len(RUN) - 1, int(number[0]) - 1)
    keep(spot.path, RUN)
    assert same(Checkpoint(spot.path).load(), RUN[-1])


@pytest.mark.parametrize("name", ["start/zarr.json", "start/features/zarr.json", "zarr.json"])
@pytest.mark.parametrize("how", ["cut", "empty", "unlink"])
def test_nothing_valid_is_a_sentence(intact, tmp_path, name, how):
    spot = intact.copy(f"{tmp_path.name}-copy")
    harm(spot, name, how, None)
    path = spot.path
    with pytest.raises(
        CheckpointError,
        match=rf"{path}.*another folder|{path} is not a dhsic|{path}/zarr.json is damaged",
    ):
        Checkpoint(path).load()


def test_a_damaged_round_is_told(spot, caplog):
    keep(spot.path, RUN)
    spot.write("rounds/000004/scores/0", b"torn")
    with caplog.at_level(logging.WARNING, "dhsic"):
        assert same(Checkpoint(spot.path).load(), RUN[3])
    assert "round 4 of 6 is damaged" in caplog.text
    assert "Resuming from round 3." in caplog.text


def test_rounds_of_an_abandoned_chain_are_not_taken_up(spot):
    """After a fallback the run may go another way; later rounds of the first way are void."""
    keep(spot.path, RUN)
    spot.unlink("rounds/000003/scores/0")
    other = list(states(RUN[-1].eliminated[::-1], [40]))[-1]
    another_third = SelectionState(
        3,
        RUN[3].survivors,
        RUN[3].eliminated,
        np.concatenate([RUN[2].scores, other.scores[:5]]),
        RUN[3].removed_in,
        RUN[3].history,
    )
    with Checkpoint(spot.path) as checkpoint:
        assert same(checkpoint.begin(IDENTITY), RUN[2])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint.store, "replace", lambda *root: None)  # dies before it
            checkpoint.save(another_third)
    assert same(Checkpoint(spot.path).load(), another_third)


class Killed(BaseException):
    pass


class Fate:
    """Counts writes and kills at the one numbered `fatal`, leaving half of the file if `torn`."""

    def __init__(self, monkeypatch, *, torn):
        self.torn = torn
        self.fatal = self.n_writes = 0
        self.sync, self.rename, remove = os.fsync, Path.replace, Path.unlink
        monkeypatch.setattr(os, "fsync", self.fsync)
        bound = lambda path, target: self.replace(path, target)  # noqa: E731, PLW0108  # binds path
        monkeypatch.setattr(Path, "replace", bound)
        tidy = lambda path, **how: self.is_dead or remove(path, **how)  # noqa: E731
        monkeypatch.setattr(Path, "unlink", tidy)  # who was killed does not tidy up

    @property
    def is_dead(self):
        return 0 < self.fatal <= self.n_writes

    def fsync(self, handle):
        self.n_writes += 1
        if self.n_writes == self.fatal:
            if self.torn and stat.S_ISREG(os.fstat(handle).st_mode):
                os.ftruncate(handle, os.fstat(handle).st_size // 2)
            raise Killed
        self.sync(handle)

    def replace(self, path, target):
        self.n_writes += 1
        if self.n_writes == self.fatal:
            raise Killed
        return self.rename(path, target)

    def strikes(self, n, work):
        self.fatal, self.n_writes = n, 0
        try:
            work()
        except Killed:
            return True
        finally:
            self.fatal = 0
        return False


@pytest.mark.parametrize("torn", [False, True])
def test_death_at_every_write_leaves_a_valid_round(tmp_path, monkeypatch, torn):
    run, fate = RUN[:3], Fate(monkeypatch, torn=torn)
    for n in range(1, 1000):
        path, done = tmp_path / f"run-{n}", []
        if not fate.strikes(n, lambda: keep(path, run, done=done)):  # noqa: B023
            break
        begun = keep(path, run)
        if begun is not None:
            assert_prefix(begun, run)
        assert (-1 if begun is None else begun.round) >= max(done, default=-1)
        assert same(Checkpoint(path).load(), run[-1])
    assert n > 30
    assert done == [0, 1, 2]


def live(told, environment, path, linger):
    """Go on with a run, round by round, in a process of its own that tells how far it is."""
    os.environ.update(environment)
    lock.LEASE, lock.BEAT, lock.LOOK = 1.0, 0.2, 0.05
    with Checkpoint(path) as checkpoint:
        begun = checkpoint.begin(IDENTITY)
        told.send(-1 if begun is None else begun.round)
        if begun is None:
            checkpoint.start(RUN[0])
        else:
            assert_prefix(begun, RUN)
        for state in RUN[(0 if begun is None else begun.round) + 1 :]:
            checkpoint.save(state)
            time.sleep(0.03)
        checkpoint.finish()
        told.send("finished")
        time.sleep(linger)


@pytest.fixture(scope="module")
def child():
    """What starts such a process: a fork of one in which this module is loaded."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])

    @contextmanager
    def start(path, linger=0.0):
        here, there = processes.Pipe(duplex=False)
        process = processes.Process(
            target=live, args=(there, dict(os.environ), str(path), linger), daemon=True
        )
        process.start()
        there.close()
        yield process, here
        process.kill()
        process.join()

    return start


def test_killed_processes_are_resumed_by_the_next(spot, child):
    begun = []
    for delay in (0.0, 0.02, 0.06, 0.1):
        with child(spot.path) as (_, told):
            begun.append(told.recv())
            time.sleep(delay)
    keep(spot.path, RUN)
    assert begun == sorted(begun)
    assert same(Checkpoint(spot.path).load(), RUN[-1])


def test_the_lock_of_a_live_process_holds_and_that_of_a_dead_one_does_not(spot, child):
    with child(spot.path, linger=60) as (process, told):
        assert [told.recv() for _ in range(2)] == [-1, "finished"]
        with pytest.raises(CheckpointError, match=rf"written by process {process.pid} on "):
            Checkpoint(spot.path).begin(IDENTITY)
        process.kill()
        process.join()
        assert same(keep(spot.path, RUN), RUN[-1])
