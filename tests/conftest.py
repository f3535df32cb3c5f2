"""Fixtures of the tests, and profiles of hypothesis (``--hypothesis-profile=thorough``)."""

import os
import tempfile
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from slow_cases import is_slow, without_cases

#: Folder in memory of many systems, and the room there that is enough for the tests.
IN_MEMORY, ENOUGH = "/dev/shm", 2 << 30

#: Workers of the tests, those of other processes too, draw no profile of themselves.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED", "False")
os.environ.setdefault("DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL", "10s")

common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "derandomize": True}
settings.register_profile("default", max_examples=15, **common)
settings.register_profile("thorough", max_examples=500, **common)
settings.load_profile("default")


def has_room(folder):
    """Whether tests may write and run their files there."""
    with suppress(OSError, AttributeError):  # Windows has no `statvfs`
        found = os.statvfs(folder)
        runs = not found.f_flag & os.ST_NOEXEC
        return runs and found.f_bavail * found.f_frsize > ENOUGH and os.access(folder, os.W_OK)
    return False


if "TMPDIR" not in os.environ and has_room(IN_MEMORY):  # no disk takes its time to be sure
    os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY


@pytest.fixture
def rng(request):
    """Generator seeded by the test's name: the same draws in every run."""
    import zlib

    import numpy as np

    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of `slow_cases` as slow, before tests are chosen by their marks."""
    nodes = [item.nodeid.partition("tests/")[2] for item in items]
    if lost := without_cases(nodes):
        raise pytest.UsageError(f"No case runs of {lost}; mend KEPT_CASES in tests/slow_cases.py.")
    for item, node in zip(items, nodes, strict=True):
        if is_slow(node):
            item.add_marker(pytest.mark.slow)


def pytest_generate_tests(metafunc):
    """Suites of factorizers run with the kernels that the factorizer is meant for."""
    if "kernel_name" in metafunc.fixturenames:
        metafunc.parametrize("kernel_name", sorted(metafunc.cls.kernels))


@pytest.fixture(scope="session", autouse=True)
def quick_rates():
    """Rates of this machine are not what tests are about: a moment of each will do."""
    from dhsic.plans import time

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "SECONDS", 0.002)
        yield


@pytest.fixture(scope="module")
def client():
    """Client of a cluster of two workers in this process; not the default one.

    A run that is left to it makes a default one in its worker: so no cluster outlives its module.
    """
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def s3():
    """An object store on this machine, which the environment of this session names."""
    from s3 import S3

    pytest.importorskip("obstore")
    store = S3()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store
    store.close()


@pytest.fixture
def short_leases(monkeypatch):
    """Leases that run out in a moment, and stores that may not stay away for long."""
    from dhsic import object_store
    from dhsic.storage import lock as lease

    lease.dead.clear()
    monkeypatch.setattr(lease, "LEASE", 1.0)
    monkeypatch.setattr(lease, "BEAT", 0.2)
    monkeypatch.setattr(lease, "LOOK", 0.05)
    monkeypatch.setattr(lease, "PATIENCE", 0.4)
    monkeypatch.setattr(object_store, "PATIENCE", 2.5)
    taken = []
    take = lease.Lease.take
    monkeypatch.setattr(lease.Lease, "take", lambda self: (taken.append(self), take(self))[1])
    yield
    for one in taken:  # those that a test let go without a word would be renewed in all later tests
        one.silenced.set()
    object_store.open_bucket.cache_clear()


@pytest.fixture(params=["folder", "URL"])
def spot(request, tmp_path):
    """A folder, or a URL of an object store, in which tests may look and do harm."""
    from spots import FolderSpot, UrlSpot

    if request.param == "folder":
        return FolderSpot(tmp_path / "run")
    request.getfixturevalue("short_leases")
    return UrlSpot(request.getfixturevalue("s3"), f"{tmp_path.name}-run")
