"""Runs that outlive their caller: sent, found again, stopped, lost, resumed; always one result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace

import click
import numpy as np
import pytest
from click.testing import CliRunner
from commands import SIMULATE, run, told
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import dhsic
from dhsic.cli import detached as commands
from dhsic.cli import main
from dhsic.cli.console import Command
from dhsic.cli.job import SelectJob
from dhsic.cli.labels import open_with_labels
from dhsic.detached import attach, driver, submit
from dhsic.detached import run as handle
from dhsic.detached.driver import Driver, StoppedError
from dhsic.detached.folder import (
    Folder,
    Status,
    arrays_of,
    as_parameters,
    plain_parameters,
    plain_request,
)
from dhsic.errors import CheckpointError, ClusterError, InputError
from dhsic.kernels import KernelRidge, Polynomial, RationalQuadratic
from dhsic.memory import WorkerMemory
from dhsic.runtime.base import Job as Work
from dhsic.runtime.dask import DaskRuntime
from dhsic.runtime.threads import Threads
from dhsic.selection.request import Request
from dhsic.storage.checkpoint import Checkpoint

D = 400
LONG = {"step": 1}  # a round a feature
QUICK = {"step": 0.5}
SAME = ("rank", "score", "selected", "round_removed", "round_n_features", "round_hsic")
WAIT = 120.0  # seconds until a test gives up


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("detached") / "genotypes.vcz"
    run("simulate", path, *SIMULATE, "--variants", D)
    return str(path)


def on_threads(store, **options):
    return dhsic.select(store, "sample_trait", runtime="threads", **options)


@pytest.fixture
def held(monkeypatch):
    """Have drivers of this process wait after their third round, until it is set."""
    go_on, note = threading.Event(), Driver.note

    def pause(self, record):
        note(self, record)
        if record["round"] == 3:
            assert go_on.wait(WAIT)

    monkeypatch.setattr(Driver, "note", pause)
    yield go_on
    go_on.set()


def assert_same(result, expected):
    for name in SAME:
        np.testing.assert_array_equal(result[name].to_numpy(), expected[name].to_numpy())


def until(condition):
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)


def rounds_done(run, n):
    until(lambda: run.progress()["round"] >= n or run.status in ("done", "failed"))
    assert run.status == "running"


# What a request keeps.


@given(st.integers(1, 9), st.sampled_from(["f8", "i8", "U3", "object", "bool"]), st.integers(1, 3))
def test_a_request_comes_back_as_it_was(tmp_path_factory, m, kind, n_targets):
    shape = (m, n_targets) if n_targets > 1 else (m,)
    y = np.arange(np.prod(shape)).reshape(shape) % 3
    y = y.astype(str).astype(kind) if kind == "object" else y.astype(kind)
    asked = Request(dhsic.BAHSIC(5, step=0.1), "x.zarr", m, y=y, rows=np.arange(m), id="ab12")
    folder = Folder(tmp_path_factory.mktemp("request"))
    folder.keep(asked)
    found = folder.request()

    assert plain_request(found) == plain_request(asked)
    assert found.y.tolist() == y.tolist()
    assert found.rows.tolist() == list(range(m))
    assert found.covariates is None


@pytest.mark.parametrize(
    "kernel",
    [Polynomial(3, 2.0), RationalQuadratic(alpha=0.5), KernelRidge(0.1, RationalQuadratic(2.0))],
)
def test_kernels_come_back_from_plain_data(kernel):
    plain = json.loads(json.dumps(plain_parameters({"kernel": kernel, "bandwidth": (0.1, 1.0)})))
    assert as_parameters(plain) == {"kernel": kernel, "bandwidth": [0.1, 1.0]}


class Mine(Polynomial):
    pass


def test_what_is_not_plain_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"kernel=Mine.* cannot be stored as plain data"):
        plain_parameters({"kernel": Mine(3)})
    with pytest.raises(InputError, match=r"random_state=.* cannot be stored as plain data"):
        plain_parameters({"random_state": np.random.default_rng(0)})
    asked = Request(dhsic.BAHSIC(5), "x.zarr", 2)
    with pytest.raises(InputError, match="y contain objects of several types"):
        arrays_of(replace(asked, y=np.array(["a", 1.5], dtype=object)))
    with pytest.raises(InputError, match=r"need 320 MiB, .* at most 256 MiB"):
        arrays_of(replace(asked, y=np.broadcast_to(np.zeros(1), (5 * 2**23,))))
    with pytest.raises(CheckpointError, match="kernel 'Open', which this version of dhsic"):
        as_parameters({"kernel": {"kernel": "Open", "settings": {}}})


def test_damaged_labels_are_seen(tmp_path):
    folder = Folder(tmp_path)
    folder.keep(Request(dhsic.BAHSIC(5), "x.zarr", 2, y=np.zeros(2)))
    path = folder.path / "detached" / "labels.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"its sha256 differs. Submit again"):
        folder.request()


def test_a_runtime_stops_between_results(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "LOOKS", 0.0)
    folder = Folder(tmp_path)
    folder.say(Status("running"))
    with folder.driven() as lock, Threads(2) as runtime:
        look = Driver(folder, lock).look
        for way in (runtime.map, runtime.map_blocks):
            folder.want_stop(wanted=False)
            with runtime.polling_interrupt(look):
                results = way(lambda source, job, state: job.payload, None, work(5), None)
                assert (next(results), next(results)) == (0, 1)
                folder.want_stop()
                with pytest.raises(StoppedError):
                    next(results)
            assert list(way(lambda source, job, state: job.payload, None, work(2), None)) == [0, 1]


def work(n):
    return [Work((), payload=i) for i in range(n)]


# On a cluster in this process.


def test_a_run_on_a_cluster_is_the_run_on_threads(client, store, tmp_path):
    asked = {"n_features_to_select": 7, "step": 0.25}
    expected = on_threads(store, **asked)
    sent = submit(store, "sample_trait", checkpoint=tmp_path / "run.dhsic", client=client, **asked)
    heard, events = [], []
    sent.listen(events.append)

    assert sent.wait(WAIT, callback=heard.append) == "done"
    result = sent.result()
    assert_same(result, expected)
    assert heard[-1]["round"] == result.sizes["rounds"] == len(sent.history)
    assert heard[-1]["features_left"] == 0
    assert heard[-1]["features_done"] == heard[-1]["features_total"]

    late = []
    with attach(sent.id, client=client) as again:
        again.listen(late.append)
        assert again.path == sent.path
        assert f"<Run {sent.id}: done, " in repr(again)
        assert "<td" in again._repr_html_()
    until(lambda: events and events[-1]["event"] == "done")
    kinds = [event["event"] for event in late]
    assert kinds == ["running", *["round"] * len(sent.history), "done"]
    assert {e["round"] for e in events if e["event"] == "round"} == set(
        range(1, len(sent.history) + 1)
    )
    sent.close()
    assert client.status == "running"


def test_everything_that_a_method_takes_gets_there(client, store, tmp_path):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.5, "case", "control").astype(object)
    options = {
        "covariates": rng.normal(size=(60, 2)),
        "feature_groups": np.arange(D) // 40,
        "kernel": Polynomial(2, offset=3.0),
        "n_features_to_select": 3,
        "stability": 2,
    }
    expected = dhsic.select(store, y, runtime="threads", **options)
    sent = submit(store, y, checkpoint=tmp_path / "run.dhsic", client=client, **options)
    result = sent.result(WAIT)
    assert_same(result, expected)
    for name in ("group", "stability"):
        assert result[name].values.tolist() == expected[name].values.tolist()


@pytest.mark.parametrize("method", ["linear", "fohsic"])
def test_other_methods_run_there_too(client, store, tmp_path, method):
    options = {"method": method, "n_features_to_select": 3}
    if method == "fohsic":
        options["step"] = 100
    expected = dhsic.select(store, "sample_trait", runtime="threads", **options)
    result = submit(
        store, "sample_trait", checkpoint=tmp_path / "run.dhsic", client=client, **options
    ).result(WAIT)
    np.testing.assert_array_equal(result["rank"], expected["rank"])
    np.testing.assert_array_equal(result["score"], expected["score"])


def test_a_run_that_is_cancelled_goes_on_from_there(client, store, tmp_path, held):
    path, asked = tmp_path / "run.dhsic", {"step": 0.2}
    sent = submit(store, "sample_trait", checkpoint=path, client=client, **asked)
    rounds_done(sent, 3)
    with pytest.raises(CheckpointError, match="is running, so it cannot be resumed"):
        sent.resume(client)
    with pytest.raises(CheckpointError, match="is being written by process"):
        submit(store, "sample_trait", checkpoint=path, client=client, **asked)
    with pytest.raises(
        TimeoutError, match=r"not ended within 0 s: it is running. 3 completed rounds"
    ):
        sent.result(0)
    sent.cancel()
    held.set()
    assert sent.wait(WAIT) == "cancelled"
    assert len(sent.history) in (3, 4)
    with pytest.raises(ClusterError, match=r"cancelled. \d completed rounds are saved"):
        sent.result()

    expected = on_threads(store, **asked)
    assert_same(sent.resume(client).result(WAIT), expected)
    assert len(sent.history) == expected.sizes["rounds"]
    assert sent.resume().status == "done"


FREE = threading.Event()


def until_free(number):
    FREE.wait(WAIT)


def test_a_run_that_waits_for_a_worker_is_cancelled_at_once(client, store, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "introduced", lambda folder, client, *more: nullcontext(client))
    busy = client.map(until_free, range(4), pure=False)
    sent = submit(store, "sample_trait", checkpoint=tmp_path / "run", client=client, **QUICK)
    try:
        assert (sent.status, sent.history) == ("waiting", ())
        assert sent.progress()["round"] == 0
        sent.cancel()
        assert sent.wait(WAIT) == "cancelled"
    finally:
        FREE.set()
    client.gather(busy)


def test_a_cluster_without_a_free_worker_says_so(client, store, tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "WRITING", 0.05)
    monkeypatch.setattr(driver, "answer", lambda path, sign: time.sleep(0.5))
    with pytest.raises(ClusterError, match=r"was free within 0\.05 s. Submit again when other"):
        submit(store, "sample_trait", checkpoint=tmp_path / "run", client=client)


def test_a_run_that_waits_for_a_driver_who_lost_his_seat(client, store, tmp_path, held):
    path = tmp_path / "run.dhsic"
    sent = submit(store, "sample_trait", checkpoint=path, client=client, **QUICK)
    rounds_done(sent, 3)
    second = threading.Thread(target=driver.drive_here, args=(sent.folder, 1))
    second.start()
    held.set()
    second.join(WAIT)
    assert_same(sent.result(WAIT), on_threads(store, **QUICK))


def test_a_run_whose_driver_fails_says_its_sentence(client, store, tmp_path):
    sent = submit(
        store, "sample_trait", checkpoint=tmp_path / "run", client=client, memory_limit=2**20
    )
    assert sent.wait(WAIT) == "failed"
    with pytest.raises(dhsic.MemoryBudgetError, match=r"peak memory .*\(memory_limit=\)"):
        sent.result()


def test_an_error_that_is_not_ours_names_itself(client, store, tmp_path, monkeypatch):
    def break_down(*args, **options):
        raise OSError("No space left on device")

    monkeypatch.setattr(driver, "save_by", break_down)
    sent = submit(store, "sample_trait", checkpoint=tmp_path / "run", client=client, **QUICK)
    with pytest.raises(ClusterError, match="failed on the cluster: OSError: No space left on dev"):
        sent.result(WAIT)
    monkeypatch.undo()
    assert sent.resume(n_threads=1).status == "done"


def test_workers_that_are_too_small_are_refused_there_too(client, store, tmp_path, monkeypatch):
    small = WorkerMemory(10**8, 1, "worker of 100 MB")
    monkeypatch.setattr(DaskRuntime, "tightest", lambda self: small)
    monkeypatch.setattr(DaskRuntime, "check_memory", lambda self: None)  # they can load dhsic
    sent = submit(store, "sample_trait", checkpoint=tmp_path / "run.dhsic", client=client)
    assert sent.wait(WAIT) == "failed"
    said = r"A worker with one thread needs .* its limit is 100 MB \(worker of"
    with pytest.raises(dhsic.MemoryBudgetError, match=said):
        sent.result()
    assert sent.history == ()


def one_at_most(source, job, state):
    if len(job.payload) > 1:
        raise MemoryError("as where the worker is too small")
    return job.payload


def test_jobs_that_workers_die_of_run_in_halves_there_too(client, store, tmp_path, monkeypatch):
    blocks = tuple(dhsic.open_source(store).blocks(100))
    got = []

    def perform(self, runtime, **options):
        jobs = [Work(blocks, ("a", "b"))]
        got.extend(runtime.map_blocks(one_at_most, dhsic.open_source(store), jobs, None))
        raise InputError("That was it.")

    monkeypatch.setattr(driver, "result_of", perform)
    sent = submit(store, "sample_trait", checkpoint=tmp_path / "run.dhsic", client=client)
    assert sent.wait(WAIT) == "failed"
    assert (sent.folder.status.message, got) == ("That was it.", [("a",), ("b",)])


def test_a_driver_that_lost_its_scheduler_leaves_the_run_as_it_is(store, tmp_path, monkeypatch):
    folder = kept(store, tmp_path / "run.dhsic", "tcp://127.0.0.1:9")

    def lose(*args, **options):
        raise ClusterError("gone")

    monkeypatch.setattr(driver, "result_of", lose)
    with folder.driven() as lock, Threads(1) as threads, pytest.raises(ClusterError, match="gone"):
        Driver(folder, lock).conduct(threads, is_connected=lambda: False)
    assert folder.status.state == "running"


def kept(store, path, scheduler):
    """Folder of a run that was sent and has no driver any more."""
    y = dhsic.read_target(store, "sample_trait")
    request = Request(dhsic.BAHSIC(50, **QUICK), store, 60, y=y, id="ab12")
    folder = Folder(path)
    with Checkpoint(folder.path) as checkpoint, Threads(1) as threads:
        checkpoint.begin(request.new_run(threads).identity())
    folder.keep(request)
    folder.say(Status("running", scheduler))
    return folder


def test_what_was_sent_by_an_earlier_version_goes_on(store, tmp_path):
    """Its request names the method, and the parameters that were given alone."""
    folder = kept(store, tmp_path / "run.dhsic", None)
    request = tmp_path / "run.dhsic" / "detached" / "request.json"
    sha256 = json.loads(request.read_text())["sha256"]
    was = {
        "format": 1, "sha256": sha256, "id": "ab12", "path": store, "n_samples": 60,
        "method": "bahsic", "n_features": 50, "parameters": QUICK, "variable": None,
        "sample_dim": None, "missing_code": "auto", "missing_chunks": "error",
        "pass_only": False, "device": None, "job": {}, "attributes": {},
    }  # fmt: skip
    request.write_text(json.dumps(was))
    folder.want_stop()
    assert_same(attach(folder.path).resume(n_threads=2).result(), on_threads(store, **QUICK))


def test_a_run_without_driver_and_scheduler_is_lost(store, tmp_path, monkeypatch):
    monkeypatch.setattr(handle, "ANSWER", 0.2)
    monkeypatch.setattr(handle, "PATIENCE", 0.1)
    folder = kept(store, tmp_path / "run.dhsic", "tcp://127.0.0.1:9")
    lost = attach(folder.path)
    assert lost.status == "lost"
    with pytest.raises(ClusterError, match=r"lost: no cluster at tcp://127.0.0.1:9 is running it"):
        lost.result()
    with folder.driven():
        assert lost.status == "running"
    with pytest.raises(ClusterError, match="need its cluster"):
        lost.listen(print)
    lost.cancel()
    assert lost.status == "cancelled"
    assert_same(lost.resume(n_threads=2).result(), on_threads(store, **QUICK))


def test_what_a_cluster_cannot_take_is_refused(client, store, tmp_path, monkeypatch):
    place = {"checkpoint": tmp_path / "run", "client": client}
    with pytest.raises(InputError, match="data is of type ndarray, in the memory of this process"):
        submit(np.zeros((5, 3)), np.zeros(5), **place)
    with pytest.raises(InputError, match=r"dhsic.submit does not accept progress=: Run.wait"):
        submit(store, "sample_trait", progress=True, **place)
    with pytest.raises(InputError, match="stepp: unknown parameter of method 'bahsic', which has "):
        submit(store, "sample_trait", stepp=0.1, **place)
    with pytest.raises(InputError, match=r"target is None. Pass the labels"):
        submit(store, None, **place)
    with pytest.raises(InputError, match=r"no variable 'sample_trai'.* Did you mean"):
        submit(store, "sample_trai", **place)
    with pytest.raises(
        InputError, match="no variable 'sample_trait' with one value for each of the 400 features"
    ):
        submit(store, "sample_trait", feature_groups="sample_trait", **place)
    with pytest.raises(InputError, match="step=-1"):
        submit(store, "sample_trait", step=-1, **place)
    with pytest.raises(CheckpointError, match="'ftp://b/run' is neither a folder nor the URL"):
        submit(store, "sample_trait", client=client, checkpoint="ftp://b/run")
    with pytest.raises(CheckpointError, match="checkpoint=None is not a path"):
        submit(store, "sample_trait", client=client, checkpoint=None)
    with pytest.raises(CheckpointError, match="nor its parent exists"):
        submit(store, "sample_trait", client=client, checkpoint=tmp_path / "no" / "such" / "run")
    monkeypatch.setattr(driver, "answer", lambda path, sign: (sign, "No such folder"))
    with pytest.raises(ClusterError, match=r"Not all workers of .* can access"):
        submit(store, "sample_trait", **place)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_run_is_refused(client, store, tmp_path):
    place = {"checkpoint": tmp_path / "run", "client": client}
    submit(store, "sample_trait", step=0.5, **place).result(WAIT)
    with pytest.raises(CheckpointError, match=r"other parameters: step is 0\.5 in the checkpoint"):
        submit(store, "sample_trait", step=0.2, **place)
    result = submit(store, "sample_trait", step=0.5, n_features_to_select=3, **place).result(WAIT)
    assert int(result["selected"].sum()) == 3


def test_there_is_nothing_to_attach_to(client, tmp_path):
    with pytest.raises(CheckpointError, match=r"is not a folder. Pass the folder that was"):
        attach(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="contains no detached run"):
        attach(tmp_path)
    with pytest.raises(CheckpointError, match="ab12 is not a folder"):
        attach("ab12", client=client)


# The command line.


def call(command, *args, code=0):
    result = CliRunner().invoke(command, [str(a) for a in args])
    assert result.exit_code == code, result.output
    return result


def detaching(job):
    """A command that does what `select --detach` does."""

    def send():
        request = job.check().request(open_with_labels(job), {"n_samples_left_out": 0})
        commands.detach(job, request)

    return click.Command("send", callback=send)


def test_commands_send_follow_and_stop(client, store, tmp_path):
    path = str(tmp_path / "run.dhsic")
    job = SelectJob(store, ("sample_trait",), checkpoint=path, scheduler=client.scheduler.address)
    job = replace(job, n_features=8, parameters={"step": 0.5}, as_json=True)
    sent = json.loads(call(detaching(job)).stdout)
    assert sent["checkpoint"] == path

    followed = json.loads(call(main.commands["attach"], path, "--json").stdout)
    table = call(main.commands["attach"], path, "--out", tmp_path / "out.zarr")
    state = json.loads(call(main.commands["status"], path, "--json").stdout)
    expected = json.loads(
        run("select", store, "--target", "sample_trait", "-n", 8, "--step", 0.5, "--json").stdout
    )
    assert followed["selected"] == expected["selected"]
    assert table.stdout.splitlines()[0].split() == [
        "rank",
        "name",
        "contig",
        "position",
        "fall_given_others",
        "p_marginal",
        "q_marginal",
    ]
    assert dhsic.load(tmp_path / "out.zarr").attrs["n_selected"] == 8
    assert (state["status"], state["id"]) == ("done", sent["id"])
    assert "is complete; `dhsic attach` shows" in call(main.commands["status"], path).stdout
    assert "is complete" in call(main.commands["cancel"], path).stdout
    call(main.commands["attach"], path, "--out", tmp_path / "out.zarr", code=2)
    written = call(main.commands["attach"], path, "--out", tmp_path / "out.tsv")
    assert f"table in {tmp_path / 'out.tsv'}" in written.stderr
    ranks = (tmp_path / "out.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[4] for line in ranks[:8]] == [r["name"] for r in expected["selected"]]
    assert len(ranks) == D
    refused = call(main.commands["attach"], path, "--out", tmp_path / "out.xlsx", code=2)
    assert "ends in .xlsx, which is not a format for results" in told(refused)


def test_a_run_that_was_stopped_is_resumed_by_a_command(client, store, tmp_path, held):
    path = str(tmp_path / "run.dhsic")
    job = SelectJob(store, ("sample_trait",), checkpoint=path, scheduler=client.scheduler.address)
    assert attach_id(call(detaching(replace(job, parameters={"step": 0.2})))) == attach(path).id
    rounds_done(attach(path), 3)
    assert (
        "is running; 3 rounds completed, 197 features left, "
        in call(main.commands["status"], path).stdout
    )
    threading.Timer(1.0, held.set).start()
    assert "was cancelled" in call(main.commands["cancel"], path).stdout
    attached = call(main.commands["attach"], path, code=6)
    assert "The run was cancelled." in told(attached)
    assert json.loads(run("resume", path, "--threads", 2, "--json").stdout)["rounds"] > 9
    commands.settle(replace(job, checkpoint=path), on_threads(store, step=0.2))
    assert "is complete" in call(main.commands["status"], path).stdout
    assert_same(attach(path).result(), on_threads(store, step=0.2))


def test_what_a_command_may_do_with_a_run_that_goes_on(client, store, tmp_path, held):
    path = str(tmp_path / "run.dhsic")
    job = SelectJob(store, ("sample_trait",), checkpoint=path, scheduler=client.scheduler.address)
    sent = attach_id(call(detaching(replace(job, parameters={"step": 0.2}))))
    rounds_done(attach(path), 3)
    for command, more in (("resume", ["--threads", 2]), ("resume", ["--detach"])):
        said = told(run(command, path, *more, code=4))
        assert "is being written by process" in said
        assert "follow it with `dhsic attach`, or stop it with `dhsic cancel` (in" in said
    held.set()
    call(main.commands["cancel"], path)
    assert attach(path).wait(WAIT) == "cancelled"
    assert attach_id(run("resume", path, "--detach")) != sent
    assert_same(attach(path).result(WAIT), on_threads(store, step=0.2))


def test_a_run_is_left_to_a_cluster_when_it_is_resumed(client, store, tmp_path):
    path, out = str(tmp_path / "run.dhsic"), tmp_path / "out.zarr"
    options = ("--target", "sample_trait", "--step", 0.2, "--checkpoint", path)
    run("select", store, *options, "--out", out)
    address = client.scheduler.address
    sent = run("resume", path, "--scheduler", address, "--detach", "--force")
    assert "out.zarr to `dhsic attach`" in told(sent)
    assert attach(path).id == attach_id(sent)
    assert_same(attach(path).result(WAIT), on_threads(store, step=0.2))
    assert "--detach runs on a cluster" in told(
        run("resume", path, "--detach", "--threads", 1, "--force", code=2)
    )


def test_the_status_says_who_drives(client, store, tmp_path, held):
    path = tmp_path / "run.dhsic"
    submitted = submit(store, "sample_trait", checkpoint=path, client=client, **LONG)
    while submitted.progress()["round"] < 3:
        time.sleep(0.05)
    said = run("status", path).stdout
    assert f"driver: process {os.getpid()} on " in said  # workers of the tests are threads
    assert " left at this speed; " in said
    held.set()
    assert submitted.wait(WAIT) == "done"
    assert "driver" not in run("status", path).stdout


def test_the_status_of_a_run_in_a_process(store, tmp_path):
    path = tmp_path / "run.dhsic"
    run("select", store, "--target", "sample_trait", "--checkpoint", path, "--step", 0.5)
    said = run("status", path).stdout
    assert "is complete; `dhsic resume` shows the result; " in said
    assert " rounds completed, 0 features left, " in said
    known = json.loads(run("status", path, "--json").stdout)
    assert (known["id"], known["status"], known["checkpoint"]) == (None, "done", str(path))
    for command in ("attach", "cancel"):
        refused = told(run(command, path, code=4))
        assert "is the checkpoint of a run that is not detached" in refused
        assert refused.endswith("checkpoint, or with `dhsic resume`.")


def test_the_status_of_a_run_that_has_not_ended(store, tmp_path, monkeypatch):
    path = tmp_path / "run.dhsic"
    monkeypatch.setattr(Checkpoint, "finish", lambda self: None)
    run("select", store, "--target", "sample_trait", "--checkpoint", path, "--step", 0.5)
    said = run("status", path).stdout
    assert "has stopped: no process is running it; `dhsic resume` continues it" in said
    with Checkpoint(path) as kept:
        kept.lock.take()
        assert "is running in the process that started it; " in run("status", path).stdout


def test_a_run_that_nobody_left_to_a_cluster_is_not_settled(store, tmp_path):
    commands.settle(SelectJob(store, ("sample_trait",), checkpoint=str(tmp_path)), None)
    commands.settle(SelectJob(store, ("sample_trait",)), None)
    assert not list(tmp_path.iterdir())


def attach_id(result):
    return result.stdout.strip()


@pytest.mark.slow
def test_a_command_that_asks_no_cluster_imports_none():
    code = "import sys, dhsic.cli.detached; print('distributed' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_options_that_leave_nothing_behind_are_refused(store):
    for options, message in (
        ({"checkpoint": "run"}, "--detach runs on a cluster"),
        ({"checkpoint": "run", "scheduler": "tcp://a:1", "out": "o"}, "--out is used after"),
    ):
        with pytest.raises(InputError, match=message):
            SelectJob(store, ("sample_trait",), detach=True, **options).check()
    assert isinstance(main.commands["status"], Command)


# On real processes.


@pytest.fixture(scope="module")
def expected(store):
    """What the long run gives on threads."""
    return on_threads(store, **LONG)


class Cluster:
    """A scheduler and two workers, each a process that can be killed."""

    def __init__(self, folder, **environment):
        self.folder = folder
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard")
        until(lambda: (folder / "address.json").exists() and self._address())
        self.address = self._address()
        self.workers = [
            self._start("worker", self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny")
            for _ in range(2)
        ]

    def _start(self, what, *args):
        command = [sys.executable, "-m", "dask", what, *args, "--host", "127.0.0.1"]
        if what == "scheduler":
            command += ["--scheduler-file", str(self.folder / "address.json")]
        else:
            command += ["--local-directory", str(self.folder)]
        with (self.folder / f"{what}-{time.monotonic_ns()}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)

    def _address(self):
        try:
            return json.loads((self.folder / "address.json").read_text())["address"]
        except ValueError:
            return None

    def close(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    yield cluster
    cluster.close()


FOLLOW = """
import sys, dhsic
from dhsic.detached import attach
run = attach(sys.argv[1])
dhsic.save(run.result(float(sys.argv[3])), sys.argv[2])
print(run.status)
"""


@pytest.mark.slow
def test_a_run_goes_on_when_its_caller_leaves(cluster, store, expected, tmp_path):
    path = tmp_path / "run.dhsic"
    with Client(cluster.address, set_as_default=False) as client:
        submit(store, "sample_trait", checkpoint=path, client=client, **LONG)
    out = tmp_path / "out.zarr"
    args = [sys.executable, "-c", FOLLOW, str(path), str(out), str(WAIT)]
    said = subprocess.run(args, check=True, capture_output=True, text=True, timeout=WAIT)
    assert said.stdout.strip() == "done"
    assert_same(dhsic.load(out), expected)


@pytest.mark.slow
def test_a_driver_that_is_killed_is_followed_by_another(cluster, store, expected, tmp_path):
    path = tmp_path / "run.dhsic"
    sent = submit(store, "sample_trait", checkpoint=path, scheduler=cluster.address, **LONG)
    rounds_done(sent, 3)
    holder = int((sent.path / "detached" / "lock").read_text().split()[1])
    assert holder in [worker.pid for worker in cluster.workers]
    os.kill(holder, signal.SIGKILL)
    before = sent.progress()["round"]

    assert_same(sent.result(WAIT), expected)
    assert before < expected.sizes["rounds"]
    events = []
    sent.listen(events.append)
    assert [e["event"] for e in events].count("running") == 2
    sent.close()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["threads", "another cluster"])
def test_a_run_whose_scheduler_is_killed_is_resumed(cluster, store, expected, tmp_path, where):
    path = tmp_path / "run.dhsic"
    sent = submit(store, "sample_trait", checkpoint=path, scheduler=cluster.address, **LONG)
    rounds_done(sent, 3)
    cluster.scheduler.send_signal(signal.SIGKILL)

    assert sent.wait(WAIT) == "lost"
    with pytest.raises(
        ClusterError, match=r"lost: no cluster at tcp://.* is running it. \d+ completed"
    ):
        sent.result()
    assert 3 <= len(sent.history) < expected.sizes["rounds"]
    if where == "threads":
        sent.resume(n_threads=2)
    else:
        (tmp_path / "another").mkdir()
        other = Cluster(tmp_path / "another")
        try:
            sent.resume(scheduler=other.address)
            assert sent.wait(WAIT) == "done"
        finally:
            sent.close()
            other.close()
    assert_same(sent.result(), expected)


@pytest.mark.slow
def test_a_driver_that_the_cluster_gives_up_says_why(store, tmp_path):
    cluster = Cluster(tmp_path, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    try:
        path = tmp_path / "run.dhsic"
        sent = submit(store, "sample_trait", checkpoint=path, scheduler=cluster.address, **LONG)
        rounds_done(sent, 3)
        os.kill(int((sent.path / "detached" / "lock").read_text().split()[1]), signal.SIGKILL)
        with pytest.raises(ClusterError, match="lost: its driver ended with KilledWorker: "):
            sent.result(WAIT)
        sent.close()
    finally:
        cluster.close()
