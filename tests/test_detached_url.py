"""Runs at URLs of an object store: sent, followed, killed and resumed without a shared folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from commands import SIMULATE, run, selected, told
from distributed import Client
from s3 import KEY, SECRET
from spots import UrlSpot
from test_detached import (
    LONG,
    QUICK,
    WAIT,
    Cluster,
    D,
    assert_same,
    kept,
    on_threads,
    rounds_done,
    until,
)

import dhsic
from dhsic.detached import attach, driver, submit
from dhsic.detached import run as handle
from dhsic.detached.folder import Folder
from dhsic.errors import CheckpointError, ClusterError, StoreError
from dhsic.storage import lock as lease
from dhsic.storage.base import LostError
from dhsic.storage.checkpoint import Checkpoint
from dhsic.storage.objects import ObjectStore

SHORT = "from dhsic.storage import lock\nlock.LEASE, lock.BEAT, lock.LOOK = 2.0, 0.4, 0.05\n"
COMMAND = (*("--target", "sample_trait", "-n", "8", "--step", "0.3"), "--threads", "2")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("detached") / "genotypes.vcz"
    run("simulate", path, *SIMULATE, "--variants", D)
    return str(path)


@pytest.fixture
def at(s3, short_leases, tmp_path, monkeypatch):
    """A URL below which nothing is, looked at as often as a folder."""
    monkeypatch.setattr(ObjectStore, "rarer", 1)
    yield UrlSpot(s3, tmp_path.name)
    s3.fail = s3.lose = 0


# On a cluster in this process.


def test_a_run_at_a_url_is_the_run_on_threads(client, store, at):
    asked = {"n_features_to_select": 7, "step": 0.25}
    sent = submit(store, "sample_trait", checkpoint=at.path, client=client, **asked)
    events = []
    sent.listen(events.append)
    result = sent.result(WAIT)
    assert_same(result, on_threads(store, **asked))
    assert (sent.path, sent.status) == (at.path, "done")
    assert len(sent.history) == sent.progress()["round"] == result.sizes["rounds"]
    until(lambda: events and events[-1]["event"] == "done")
    assert {e["round"] for e in events if e["event"] == "round"} == set(
        range(1, len(sent.history) + 1)
    )
    with attach(at.path) as again, attach(sent.id, client=client) as by_id:
        assert again.id == by_id.id == sent.id
        assert by_id.path == at.path
        assert_same(again.result(0.0), result)
    assert {name.split("/")[0] for name in at.names()} == {
        *("zarr.json", "lock", "start", "rounds", "detached", "result.zarr")
    }
    everything = b"".join(at.read(name) for name in at.names())
    assert KEY.encode() not in everything
    assert SECRET.encode() not in everything


def test_a_run_at_a_url_is_cancelled_and_resumed(client, store, at):
    asked = {"step": 0.05}
    sent = submit(store, "sample_trait", checkpoint=at.path, client=client, **asked)
    rounds_done(sent, 2)
    with pytest.raises(CheckpointError, match="is being written by process"):
        submit(store, "sample_trait", checkpoint=at.path, client=client, **asked)
    sent.cancel()
    assert sent.wait(WAIT) == "cancelled"
    done = len(sent.history)
    expected = on_threads(store, **asked)
    assert 2 <= done < expected.sizes["rounds"]
    assert_same(sent.resume(client).result(WAIT), expected)


def test_a_run_at_a_url_without_driver_is_lost_and_resumed(store, at, monkeypatch):
    monkeypatch.setattr(handle, "ANSWER", 0.2)
    monkeypatch.setattr(handle, "PATIENCE", 0.1)
    folder = kept(store, at.path, "tcp://127.0.0.1:9")
    lost = attach(at.path)
    assert lost.wait(WAIT) == "lost"
    with folder.driven():
        assert lost.status == "running"
    assert_same(lost.resume(n_threads=2).result(), on_threads(store, **QUICK))


def test_a_driver_that_was_followed_says_nothing_more(store, at, monkeypatch):
    folder = kept(store, at.path, None)
    save = driver.save_by

    def late(*args, **options):
        def refuse(**how):
            raise LostError("it was followed")

        monkeypatch.setattr(lease.Lease, "confirm", lambda self, **how: refuse())
        save(*args, **options)

    monkeypatch.setattr(driver, "save_by", late)
    with pytest.raises(LostError):
        attach(at.path).resume(n_threads=1)
    assert folder.status.state == "running"


def test_a_store_that_goes_away_is_no_failure_of_the_run(store, at, monkeypatch):
    folder = kept(store, at.path, None)
    note = Folder.note

    def fail(self, progress):
        note(self, progress)
        if progress["round"] == 2:
            at.s3.fail = 10**6

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "note", fail)
        with pytest.raises(StoreError, match="503"):
            attach(at.path).resume(n_threads=1)
    at.s3.fail = 0
    assert folder.status.state == "running"
    assert_same(attach(at.path).resume(n_threads=1).result(), on_threads(store, **QUICK))


def test_workers_that_do_not_reach_the_url_are_refused(client, store, at, monkeypatch):
    place = {"checkpoint": at.path, "client": client, **QUICK}
    with monkeypatch.context() as patch:
        patch.setattr(driver, "answer", no_keys)
        with pytest.raises(
            ClusterError, match=r"Worker \S+ cannot access .*: No keys\. A detached"
        ):
            submit(store, "sample_trait", **place)
        patch.setattr(driver, "answer", elsewhere)
        with pytest.raises(ClusterError, match="it sees different contents"):
            submit(store, "sample_trait", **place)
    assert at.names() == []
    with pytest.raises(CheckpointError, match=r"s3://bucket/.* is not a folder\. Pass"):
        attach(at.path)


def no_keys(url, sign):
    return "", "No keys"


def elsewhere(url, sign):
    return f"{sign}/there", ""


# The command line.


def test_select_writes_to_urls_and_status_reads_them(store, at):
    args = (store, *COMMAND, "--checkpoint", at.path)
    out = f"{at.path}-out/result.zarr"
    shown = selected(*args, "--out", out)
    assert dhsic.load(out).attrs["n_selected"] == 8
    assert shown["out"] == out
    assert "exists already" in told(run("select", *args, "--out", out, code=2))
    assert "is complete; its result is in s3://" in told(run("resume", at.path))
    assert "is complete; `dhsic resume` shows the result" in run("status", at.path).stdout
    assert "is the checkpoint of a run that is not detached" in told(run("attach", at.path, code=4))
    refused = run("select", store, *COMMAND, "--checkpoint", "s3://me:word@b/run", code=2)
    assert "--checkpoint 's3://b/run' contains a user name or password" in told(refused)
    assert "There is no checkpoint at s3" in told(run("resume", f"{at.path}-none", code=4))


def test_a_store_that_is_away_ends_a_command_with_a_sentence(store, at, monkeypatch):
    save = Checkpoint.save

    def fail(self, state, arrays=None):
        save(self, state, arrays)
        if state.round == 2:
            at.s3.fail = 10**6

    args = (store, *COMMAND, "--checkpoint", at.path)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", fail)
        ended = run("select", *args, "--json", code=1)
    at.s3.fail = 0
    assert json.loads(ended.stdout)["error"]["kind"] == "store"
    assert f"resume with: dhsic resume {at.path}" in told(ended)
    assert "Traceback" not in ended.stderr
    resumed = json.loads(run("resume", at.path).stdout)
    assert resumed["selected"] == selected(*args[:-2])["selected"]


#: Rounds that take a moment, so that there is time to strike.
SLOW = """
import time
from dhsic.storage.checkpoint import Checkpoint
save = Checkpoint.save
Checkpoint.save = lambda *args: [time.sleep(0.2), save(*args)]
"""


def command(*args):
    code = f"{SHORT}{SLOW}from dhsic.cli import main\nmain({[str(a) for a in args]!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_a_command_that_is_killed_is_resumed_at_its_url(store, at, tmp_path):
    args = ("select", store, *COMMAND, "--no-progress", "--checkpoint", at.path)
    out = f"{at.path}-out"
    killed = command(*args, "--out", out)
    until(lambda: killed.poll() is not None or "rounds/000004/zarr.json" in at.names())
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert "result.zarr" not in at.names()
    resumed = run("resume", at.path, "--json")
    assert "has stopped; this run takes over" in resumed.stderr
    expected = selected(store, *COMMAND, "--no-progress")
    assert json.loads(resumed.stdout)["selected"] == expected["selected"]
    assert dhsic.load(out).attrs["n_selected"] == 8


@pytest.mark.slow
def test_a_command_that_is_stopped_for_long_is_followed_and_gives_way(store, at):
    """SIGSTOP: it lives, holds its state, and wakes up when the run is done without it."""
    args = ("select", store, *COMMAND, "--no-progress", "--checkpoint", at.path)
    stopped = command(*args)
    until(lambda: stopped.poll() is not None or "rounds/000004/zarr.json" in at.names())
    stopped.send_signal(signal.SIGSTOP)
    try:
        resumed = run("resume", at.path, "--json")
        before = {name: at.read(name) for name in at.names()}
    finally:
        stopped.send_signal(signal.SIGCONT)
    error = stopped.communicate(timeout=WAIT)[1]
    assert stopped.returncode == 4, error
    assert "another process" in error
    after = {name: at.read(name) for name in at.names()}
    assert {name for name in after if after[name] != before.get(name)} == set()
    expected = selected(store, *COMMAND, "--no-progress")
    assert json.loads(resumed.stdout)["selected"] == expected["selected"]
    assert Checkpoint(at.path).is_complete()


# On real processes.

FOLLOW = """
import sys, dhsic
run = dhsic.attach(sys.argv[1])
print(run.status, flush=True)
dhsic.save(run.result(float(sys.argv[3])), sys.argv[2])
print(run.status)
"""


@pytest.fixture
def cluster(at, tmp_path):
    """Workers that share no folder with this process but the data, and have short leases."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    preload = folder / "short.py"
    preload.write_text(SHORT)
    cluster = Cluster(
        folder, DASK_DISTRIBUTED__WORKER__PRELOAD=json.dumps([str(preload)]), **at.s3.environment
    )
    yield cluster
    cluster.close()


@pytest.mark.slow
def test_a_run_is_followed_by_its_url_from_another_process(cluster, store, at, tmp_path):
    with Client(cluster.address, set_as_default=False) as client:
        submit(store, "sample_trait", checkpoint=at.path, client=client, **LONG)
    out = f"{at.path}-out"
    args = [sys.executable, "-c", FOLLOW, at.path, out, str(WAIT)]
    said = subprocess.run(args, check=True, capture_output=True, text=True, timeout=WAIT)
    assert said.stdout.split() == ["running", "done"]
    assert_same(dhsic.load(out), on_threads(store, **LONG))


@pytest.mark.slow
def test_a_driver_that_is_killed_is_followed_by_another_at_the_url(cluster, store, at):
    sent = submit(store, "sample_trait", checkpoint=at.path, scheduler=cluster.address, **LONG)
    rounds_done(sent, 3)
    holder = int(json.loads(at.read("detached/lock"))["holder"].split()[1])
    assert holder in [worker.pid for worker in cluster.workers]
    os.kill(holder, signal.SIGKILL)
    before = sent.progress()["round"]
    assert_same(sent.result(WAIT), on_threads(store, **LONG))
    assert before < D
    events = []
    sent.listen(events.append)
    assert [e["event"] for e in events].count("running") == 2
    sent.close()
