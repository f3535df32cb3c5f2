"""Places at URLs: one writer whoever pauses, dies or loses an answer; no secrets; sentences."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from s3 import BUCKET, KEY, SECRET
from spots import UrlSpot
from test_checkpoint import IDENTITY, RUN, keep, same

import dhsic
from dhsic import object_store
from dhsic.errors import CheckpointError, InputError, StoreError
from dhsic.object_store import sentence
from dhsic.storage import lock as lease
from dhsic.storage import store_at
from dhsic.storage.base import LostError
from dhsic.storage.checkpoint import Checkpoint
from dhsic.storage.folder import FileStore
from dhsic.storage.lock import Lease
from dhsic.storage.objects import ObjectStore

pytestmark = pytest.mark.usefixtures("short_leases")


@pytest.fixture
def at(s3, tmp_path):
    """A URL below which nothing is."""
    yield UrlSpot(s3, tmp_path.name)
    s3.lose = s3.fail = s3.collide = 0
    s3.ignore_conditions = False


@contextmanager
def elsewhere(name="another"):
    """Leases that are taken here seem to be those of another process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "process_name", lambda pid: f"{pid}-{name}")
        yield


def paused(checkpoint):
    """A checkpoint whose process says nothing any more."""
    checkpoint.lock.silenced.set()
    return checkpoint


def begun(spot, until=2):
    checkpoint = Checkpoint(spot.path)
    checkpoint.begin(IDENTITY)
    checkpoint.start(RUN[0])
    for state in RUN[1 : until + 1]:
        checkpoint.save(state)
    return checkpoint


# Leases.


def test_a_lease_outlasts_its_length_while_its_holder_lives(at):
    first = begun(at)
    time.sleep(1.5 * lease.LEASE)
    with elsewhere(), pytest.raises(CheckpointError, match=r"written by process \d+ on .* since 2"):
        Checkpoint(at.path).begin(IDENTITY)
    first.save(RUN[3])
    first.close()
    assert same(keep(at.path, RUN), RUN[3])


def test_who_ends_well_is_followed_at_once(at, monkeypatch):
    begun(at).close()
    assert json.loads(at.read("lock")) == {}
    monkeypatch.setattr(lease, "LEASE", 1000.0)
    with elsewhere():
        assert same(keep(at.path, RUN), RUN[2])


def test_who_is_silent_is_followed_and_never_writes_again(at, caplog):
    first = paused(begun(at))
    with elsewhere(), Checkpoint(at.path) as second:
        assert same(second.begin(IDENTITY), RUN[2])
        assert "waiting up to 1 s to see whether that process is still running" in caplog.text
        assert "has stopped; this run takes over" in caplog.text
        with pytest.raises(LostError, match=r"is now written by process .* took over"):
            first.save(RUN[3])
        second.save(RUN[3])
        before = at.names(), at.read("lock")
        with pytest.raises(LostError):
            first.finish()
        first.close()
        assert (at.names(), at.read("lock"))[0] == before[0]
        assert second.lock.is_held
        second.save(RUN[4])
    assert same(Checkpoint(at.path).load(), RUN[4])


def test_a_root_is_not_written_over_that_of_a_successor(at):
    """The process is paused after all looks, just before its root goes out."""
    first = begun(at)
    replace, followed = first.store.replace, []

    def late(name, data, tag):
        paused(first)
        with elsewhere(), Checkpoint(at.path) as second:
            second.begin(IDENTITY)
            second.save(RUN[3])
            second.save(RUN[4])
            followed.append(at.read("zarr.json"))
        return replace(name, data, tag)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first.store, "replace", late)
        with pytest.raises(LostError, match=r"zarr.json was written by another process"):
            first.save(RUN[3])
    assert at.read("zarr.json") == followed[0]
    assert same(Checkpoint(at.path).load(), RUN[4])


def test_a_round_is_not_written_over_that_of_a_successor(at):
    """The process is paused between its look at what is there and its writing over it."""
    first = begun(at)
    for name in at.copy(f"{at.prefix}-other").names():
        if name.startswith("rounds/000002/"):
            at.write(name.replace("000002", "000003"), b"of a dead run")
    confirm, one_at_a_time = first.lock.confirm, threading.Lock()

    def late(*, surely=False):
        with one_at_a_time:
            confirm(surely=surely)
            if surely and not first.lock.silenced.is_set():
                paused(first)
                with elsewhere():
                    keep(at.path, RUN)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first.lock, "confirm", late)
        with pytest.raises(LostError):
            first.save(RUN[3])
    assert same(Checkpoint(at.path).load(), RUN[-1])


def test_a_claim_that_a_last_word_came_before_is_made_again(at):
    first = begun(at)
    claim = Checkpoint(at.path)
    get = claim.store.get

    def slow(name):
        found = get(name)
        if claim.store.get is slow:
            claim.store.get = get
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(first.lock, "confirm", lambda **how: None)
                first.save(RUN[3])
        return found

    paused(first)
    claim.store.get = slow
    with elsewhere(), claim:
        assert same(claim.begin(IDENTITY), RUN[3])


def test_leases_of_the_dead_are_known_to_be_so(at, monkeypatch):
    """Who saw one lease of a process run out does not wait for the other ones of it."""
    for name in ("a", "b"):
        taken = Lease(at.path, name)
        taken.take()
        taken.silenced.set()
    old = Lease(at.path, "old")
    old.take()
    old.silenced.set()
    at.s3.objects[f"{at.prefix}/old"] = (at.read("old"), datetime.now(UTC) - timedelta(hours=1))
    with elsewhere():
        began = time.monotonic()
        Lease(at.path, "old").take()
        assert time.monotonic() - began < lease.LEASE
        assert Lease(at.path, "a").is_taken()
        Lease(at.path, "a").take()
        assert not Lease(at.path, "b").is_taken()
        monkeypatch.setattr(lease.time, "sleep", lambda seconds: pytest.fail("it waits"))
        Lease(at.path, "b").take()


def test_whether_a_lease_is_taken_is_seen_from_outside(at):
    taken, seen = Lease(at.path, "lock"), Lease(at.path, "lock")
    assert not seen.is_taken()
    taken.take()
    assert seen.is_taken()
    with elsewhere():
        assert seen.is_taken()
        taken.silenced.set()
        time.sleep(0.3)
        assert seen.is_taken()
        time.sleep(lease.LEASE)
        assert not seen.is_taken()
    taken.release()
    assert not seen.is_taken()


def test_a_damaged_lease_is_waited_for(at):
    at.write("lock", b"{torn")
    assert keep(at.path, RUN[:2]) is None


def test_a_store_that_honours_no_conditions_is_refused(at):
    at.s3.ignore_conditions = True
    with pytest.raises(CheckpointError, match=r"does not support conditional writes \(If-None-Mat"):
        Checkpoint(at.path).begin(IDENTITY)


# Answers that do not come.


def test_lost_answers_change_nothing(at):
    for n in range(1, 1000):
        spot = at.copy(f"{at.prefix}-{n}")
        at.s3.lose = n
        assert keep(spot.path, RUN[:3]) is None
        lost, at.s3.lose = at.s3.lose <= 0, 0
        assert same(Checkpoint(spot.path).load(), RUN[2])
        if not lost:
            break
    assert n > 20


def test_a_store_that_is_busy_is_asked_again(at):
    at.s3.fail = 2
    assert keep(at.path, RUN) is None
    assert same(Checkpoint(at.path).load(), RUN[-1])


def test_puts_that_met_others_are_tried_again(at):
    """409: neither of them may have come to pass, so it is no answer to who was first."""
    for n in range(3):
        at.s3.collide = 1
        assert ObjectStore(at.path).put_if(f"{n}", b"ours", None) is not None
        at.s3.collide = 1
        tag = ObjectStore(at.path).get(f"{n}").tag
        assert ObjectStore(at.path).put_if(f"{n}", b"again", tag) is not None
    at.s3.collide = 2
    assert keep(f"{at.path}/run", RUN[:3]) is None
    assert same(Checkpoint(f"{at.path}/run").load(), RUN[2])


@pytest.mark.slow
def test_a_store_that_stays_away_stops_the_run_and_no_round_is_lost(at):
    checkpoint = begun(at)
    at.s3.fail = 10**6
    with pytest.raises(
        StoreError, match=r"\(503 Service Unavailable.*\)\. Data stored there stay valid"
    ):
        checkpoint.save(RUN[3])
    with pytest.raises(StoreError):  # and not: everything is damaged
        Checkpoint(at.path).load()
    checkpoint.close()
    at.s3.fail = 0
    assert same(keep(at.path, RUN), RUN[2])


def test_what_a_store_refuses_is_a_sentence(at, monkeypatch):
    with pytest.raises(StoreError, match=r"the bucket 'elsewhere' does not exist"):
        Checkpoint("s3://elsewhere/run").begin(IDENTITY)
    object_store.open_bucket.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ANOTHER")
    for call in (Checkpoint(at.path).load, lambda: Checkpoint(at.path).begin(IDENTITY)):
        with pytest.raises(StoreError, match=r"refuses access to s3://.* \(403 Forbidden"):
            call()
    object_store.open_bucket.cache_clear()


def test_answers_of_a_store_are_not_passed_on():
    said = OSError(
        "PUT https://me:word@b/k?X-Amz-Signature=ab status code: 403 Forbidden: <Error><Code>"
        f"SignatureDoesNotMatch</Code><AWSAccessKeyId>{KEY}</AWSAccessKeyId></Error>"
    )
    assert sentence("s3://b/run", said) == (
        "The object store refuses access to s3://b/run (403 Forbidden, SignatureDoesNotMatch). "
        "Check the keys in the environment variables (AWS_ACCESS_KEY_ID, ...), and their "
        "permissions."
    )
    assert "(no connection: timeout)" in sentence(
        "s3://b/run", OSError("x\n kind: Timeout, source")
    )
    assert "No keys for s3" in sentence("s3://b/run", OSError("GET http://169.254.169.254/latest"))
    assert "(OSError)" in sentence("s3://b/run", OSError("GET https://b/k?sig=ab"))


def test_no_object_holds_a_key(at):
    keep(at.path, RUN)
    with pytest.raises(CheckpointError):
        keep(at.path, RUN, {**IDENTITY, "source": "other"})
    everything = b"".join(at.read(name) for name in at.names())
    assert KEY.encode() not in everything
    assert SECRET.encode() not in everything


def test_without_the_package_a_url_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(InputError, match=r"needs the package obstore.* Install dhsic\[cloud\]"):
        Checkpoint("s3://bucket/run").load()


# Names and results.


@pytest.mark.parametrize("scheme", ["s3", "memory", "file"])
def test_places_keep_one_contract(scheme, s3, tmp_path):
    path = {"file": f"{tmp_path.as_uri()}/p"}.get(scheme, f"{scheme}://{BUCKET}/{tmp_path.name}/p")
    place = store_at(path)
    assert isinstance(place, FileStore if scheme == "file" else ObjectStore)
    assert not place.is_there()
    place.make()
    place.write("one", b"1")
    place.write("two/a", b"2")
    place.write("two/b", b"3", sync=False)
    place.write("one", b"4")
    assert place.is_there()
    assert place.names() == {"one", "two"}
    assert (place.has("two/a"), place.has("two/c"), place.has("tw")) == (True, False, False)
    assert place.read("one") == b"4"
    with pytest.raises(FileNotFoundError):
        place.read("three")
    assert place.read_all(["one", "three", "two/b"]) == {"one": b"4", "two/b": b"3"}
    place.remove("two", "one", "three")
    assert place.names() == set()


def test_more_objects_than_a_page_are_listed(at, monkeypatch):
    for i in range(1001):
        at.write(f"many/{i}", b"")
    assert len(ObjectStore(at.path).tree("many")) == 1001


def test_results_at_urls(at, rng):
    X, y = rng.normal(size=(30, 12)), rng.normal(size=30)
    result = dhsic.select(X, y, n_features_to_select=3, progress=False)
    url = f"{at.path}/result.zarr"
    with pytest.raises(InputError, match="There is no result at s3://"):
        dhsic.load(url)
    dhsic.save(result, url)
    np.testing.assert_array_equal(dhsic.load(url)["rank"], result["rank"])
    assert dhsic.load(url).attrs == result.attrs
    with pytest.raises(InputError, match=r"exists already. .* \(overwrite=True\)"):
        dhsic.save(result, url)
    at.write("result.zarr/of/another", b"one")
    dhsic.save(result.assign(more=("features", np.arange(12))), url, overwrite=True)
    assert "result.zarr/of/another" not in at.names()
    assert dhsic.load(url)["more"].shape == (12,)
    at.unlink("result.zarr/zarr.json")
    with pytest.raises(InputError, match="is not a result of a selection"):
        dhsic.load(url)
    with pytest.raises(InputError, match=r"contains other files .* not a Zarr store"):
        dhsic.save(result, url, overwrite=True)
    with pytest.raises(InputError, match=r"'https://b/result\.zarr' is neither"):
        dhsic.save(result, "https://b/result.zarr")


def test_a_selector_keeps_its_rounds_at_a_url(at, rng, caplog):
    X, y = rng.normal(size=(30, 12)), rng.normal(size=30)
    options = {"n_features_to_select": 3, "step": 0.3, "progress": False}
    expected = dhsic.select(X, y, **options)
    first = dhsic.select(X, y, checkpoint=at.path, **options)
    again = dhsic.select(X, y, checkpoint=at.path, **options)
    for result in (first, again):
        np.testing.assert_array_equal(result["rank"], expected["rank"])
    with pytest.raises(InputError, match="constant"):
        dhsic.select(np.zeros((30, 12)), y, checkpoint=f"{at.path}-b", **options)
    assert UrlSpot(at.s3, f"{at.prefix}-b").names() == []
    assert not caplog.records or caplog.records[0].levelno < logging.WARNING


@pytest.mark.parametrize("method", ["weights", "ccm"])
def test_methods_that_keep_arrays_go_on_at_a_url(at, rng, method):
    X, y = rng.normal(size=(30, 12)), rng.normal(size=30)
    method = "weighting" if method == "weights" else method
    options = {"method": method, "n_features_to_select": 3, "progress": False}
    expected = dhsic.select(X, y, **options)
    dhsic.select(X, y, checkpoint=at.path, **options)
    last = max(name.split("/")[1] for name in at.names() if name.startswith("rounds/0"))
    at.unlink(f"rounds/{last}/zarr.json")
    result = dhsic.select(X, y, checkpoint=at.path, **options)
    np.testing.assert_array_equal(result["score"], expected["score"])
