"""A cluster that takes certificates: given as a Security, as files, or by configuration."""

import shutil
import subprocess

import dask
import numpy as np
import pytest
from commands import SIMULATE, run, selected, told
from distributed import Client, LocalCluster, Security
from manifests import DEPLOY
from numpy.testing import assert_array_equal

import dhsic
from dhsic.errors import ClusterError
from dhsic.runtime.dask import DaskRuntime

FILES = ("ca.crt", "tls.crt", "tls.key")


def authority(folder):
    """A folder with an authority's certificate, a certificate of it and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    subprocess.run(["sh", DEPLOY / "certificates.sh", folder, "2"], check=True, capture_output=True)
    return folder


def security(folder):
    ca, cert, key = (str(folder / name) for name in FILES)
    roles = ("client", "scheduler", "worker")
    ends = {
        f"tls_{role}_{end}": path for role in roles for end, path in (("cert", cert), ("key", key))
    }
    return Security(tls_ca_file=ca, require_encryption=True, **ends)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def address(certificates):
    """Address of a cluster that takes our certificates."""
    with LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tls://",
        security=security(certificates),
        dashboard_address="127.0.0.1:0",
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(4).standard_normal((40, 60))
    return X, (X[:, 3] > 0).astype(int)


def chosen(data, **how):
    return dhsic.select(*data, n_features_to_select=5, progress=False, **how)["rank"]


def test_a_security_of_the_caller(address, certificates, data):
    with DaskRuntime(scheduler=address, security=security(certificates)) as runtime:
        assert_array_equal(chosen(data, runtime=runtime), chosen(data))


def test_a_secured_client(address, certificates, data):
    with (
        Client(address, security=security(certificates), set_as_default=False) as client,
        DaskRuntime(client) as runtime,
    ):
        assert_array_equal(chosen(data, runtime=runtime), chosen(data))


def test_files_on_the_command_line(address, certificates, tmp_path):
    store = tmp_path / "g.vcz"
    run("simulate", store, *SIMULATE)
    ask = (store, "--target", "sample_trait", "-n", "5", "--no-progress")
    given = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), FILES, strict=True)
    files = [str(word) for option, name in given for word in (option, certificates / name)]
    kept = tmp_path / "run.dhsic"
    there = selected(*ask, "--scheduler", address, *files, "--checkpoint", kept)
    assert there["selected"] == selected(*ask)["selected"]
    assert dask.config.get("distributed.comm.tls.ca-file") is None
    for path in kept.rglob("*"):
        assert not path.is_file() or b"tls.key" not in path.read_bytes()
    refused = run("select", *ask, "--scheduler", address, code=6)
    assert "Pass --tls-ca-file, --tls-cert and --tls-key" in told(refused)


@pytest.mark.slow
def test_a_run_that_is_left_to_the_cluster(address, certificates, tmp_path):
    ours, store, kept = security(certificates), tmp_path / "g.vcz", tmp_path / "run.dhsic"
    run("simulate", store, *SIMULATE)
    asked = {"n_features_to_select": 5}
    sent = dhsic.submit(
        store, "sample_trait", checkpoint=kept, scheduler=address, security=ours, **asked
    )
    with sent, dhsic.attach(sent.id, scheduler=address, security=ours) as found:
        assert found.path == kept
        here = dhsic.select(store, "sample_trait", progress=False, **asked)
        assert_array_equal(found.result(60)["score"], here["score"])
    given = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), FILES, strict=True)
    files = [str(word) for option, name in given for word in (option, certificates / name)]
    assert "is complete" in run("status", kept, "--scheduler", address, *files).stdout
    with dhsic.attach(kept) as found:  # a folder that says all needs no cluster
        assert found.status == "done"


def test_another_authority(address, tmp_path):
    theirs = security(authority(tmp_path / "theirs"))
    with pytest.raises(ClusterError, match="No Dask scheduler answered"):
        DaskRuntime(scheduler=address, security=theirs, timeout=2)


def test_certificates_that_are_not_there(address, tmp_path):
    with pytest.raises(ClusterError, match=r"certificates for .* cannot be used .*three PEM files"):
        DaskRuntime(scheduler=address, security=security(tmp_path))
