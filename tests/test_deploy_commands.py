"""The command lines of the pods, run as processes: each in a network namespace, as a pod has one.

What the kubelet does is done here: volumes are folders, environment and arguments are filled in,
`dhsic-scheduler` is a name in every namespace. Nothing in the command lines is changed but where
volumes lie.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from commands import run
from manifests import (
    DEPLOY,
    K8S,
    command,
    documents,
    environment,
    made_by_operator,
    one,
    pods,
    render,
)

import dhsic

MOUNTS = ("/etc/dask", "/etc/dhsic/tls", "/shared", "/results", "/tmp")
PODS = ("scheduler", "worker-0", "worker-1", "driver", "stranger")
PATIENCE = 120  # seconds


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


def names_are_spaces():
    """Whether this process may make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"dhsic{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made.returncode == 0


class Pods:
    """Network namespaces on a bridge of their own, and what runs in them."""

    def __init__(self, stack, folder):
        self.folder = folder
        self._stack = stack
        self._tag = f"dhsic{os.getpid()}"
        hub = self._space("hub")
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for i, pod in enumerate(PODS):
            self._join(hub, self._space(pod), i)

    def _space(self, name):
        space = f"{self._tag}-{name}"
        ip("netns", "add", space)
        self._stack.callback(ip, "netns", "del", space)
        ip("-n", space, "link", "set", "lo", "up")
        return space

    def _join(self, hub, space, i):
        ip(
            "-n",
            hub,
            "link",
            "add",
            f"p{i}",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            space,
        )
        ip("-n", hub, "link", "set", f"p{i}", "master", "br0", "up")
        ip("-n", space, "addr", "add", f"10.77.0.{10 + i}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "route", "add", "default", "via", "10.77.0.1")
        hosts = Path("/etc/netns") / space / "hosts"  # `ip netns exec` mounts it on /etc/hosts
        hosts.parent.mkdir(parents=True)
        hosts.write_text("127.0.0.1 localhost\n10.77.0.10 dhsic-scheduler\n")
        self._stack.callback(shutil.rmtree, hosts.parent)

    def here(self, text):
        """Text with the folder of a volume for the place that it is mounted at."""
        is_mounted = re.match(rf"({'|'.join(MOUNTS)})(?=/|$)", text)
        return f"{self.folder}{text}" if is_mounted else text

    def start(self, pod, words, given, log):
        """Process in the namespace of a pod, with that environment and no other."""
        env = {name: self.here(value) for name, value in given.items()}
        env |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": "/nonexistent",
        }
        with (self.folder / log).open("wb") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", f"{self._tag}-{pod}", *map(self.here, words)],
                env=env,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        self._stack.callback(_end, process)
        return process

    def log(self, name):
        return (self.folder / name).read_text()

    def get(self, pod, url):
        """Status of an HTTP request from the namespace of a pod."""
        words = [sys.executable, "-c", GET, url]
        done = subprocess.run(
            ["ip", "netns", "exec", f"{self._tag}-{pod}", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout.strip()


GET = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(type(error).__name__)
"""


def _end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


@contextmanager
def network(folder):
    if not names_are_spaces():
        pytest.skip("pods are network namespaces here, which takes root and iproute2")
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    with ExitStack() as stack:
        yield Pods(stack, folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The cluster of the overlay with TLS and a shared file system, and the driver's words."""
    folder = tmp_path_factory.mktemp("pods")
    objects = render(K8S / "overlays" / "pvc")
    maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
    specs = dict(pods(objects))
    with network(folder) as net:
        for mount in MOUNTS:
            (folder / mount[1:]).mkdir(parents=True, exist_ok=True)
        for name, text in maps["dhsic-dask"].items():
            here = text.replace("/etc/dhsic/tls", f"{folder}/etc/dhsic/tls")
            (folder / "etc" / "dask" / name).write_text(here)
        shutil.rmtree(folder / "etc" / "dhsic" / "tls")
        subprocess.run(
            ["sh", DEPLOY / "certificates.sh", folder / "etc" / "dhsic" / "tls"],
            check=True,
            capture_output=True,
        )
        run(
            *("simulate", folder / "shared" / "genotypes.vcz", "--seed", 3),
            *("--samples", 60, "--variants", 500, "--causal", 4, "--pairs", 1),
        )
        given = environment(specs["scheduler"], maps)
        net.start("scheduler", command(specs["scheduler"], given), given, "scheduler.log")
        for i in range(2):
            pod = made_by_operator(objects, f"{i}")["worker"]["spec"]["template"]["spec"]
            given = environment(pod, maps)
            net.start(f"worker-{i}", command(pod, given), given, f"worker-{i}.log")
        given = environment(specs["driver"], maps)
        yield net, command(specs["driver"], given), given


def driven(net, words, given, log, pod="driver"):
    process = net.start(pod, words, given, log)
    code = process.wait(PATIENCE)
    return code, net.log(log)


def wait_for_workers(net):
    deadline = time.monotonic() + PATIENCE
    while net.log("scheduler.log").count("Register worker") < 2:
        assert time.monotonic() < deadline, net.log("scheduler.log") + net.log("worker-0.log")
        time.sleep(0.1)


@pytest.mark.slow
def test_the_driver_of_the_pods_finds_what_threads_find(cluster):
    net, words, given = cluster
    wait_for_workers(net)
    code, log = driven(net, words, given, "driver.log")
    assert code == 0, log
    out = net.folder / "threads.zarr"
    run(
        *("select", net.folder / "shared" / "genotypes.vcz", "--target", "sample_trait"),
        *("-n", 50, "--threads", 2, "--out", out),
    )
    ours, theirs = dhsic.load(out), dhsic.load(net.folder / "results" / "first.zarr")
    for name in ("rank", "score", "selected", "round_removed"):
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    for name in ("scheduler.log", "worker-0.log", "worker-1.log"):
        assert "Traceback" not in net.log(name)
    assert "tls://" in net.log("scheduler.log")
    assert not list((net.folder / "shared").glob("dhsic-*"))  # scratch is gone


@pytest.mark.slow
def test_the_driver_waits_for_the_scheduler_first(cluster):
    net, _, given = cluster
    (waiting,) = dict(pods(render(K8S / "overlays" / "pvc")))["driver"]["initContainers"]
    code, log = driven(net, [*waiting["command"], *waiting["args"]], given, "waiting.log")
    assert (code, log) == (0, "")


@pytest.mark.slow
def test_probes_and_the_operator_are_answered_and_nothing_else(cluster):
    net, _, _ = cluster
    wait_for_workers(net)
    specs = dict(pods(render(K8S / "overlays" / "pvc")))
    for role, host in (("scheduler", "10.77.0.10"), ("worker", "10.77.0.11")):
        (container,) = specs[role]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probe = container["livenessProbe"]["httpGet"]
        assert net.get("stranger", f"http://{host}:{ports[probe['port']]}{probe['path']}") == "200"
    scheduler = "http://dhsic-scheduler:8787"
    for route in ("/api/v1/check_idle", "/api/v1/adaptive_target"):
        assert net.get("stranger", scheduler + route) == "200"
    for route in ("/info/main/workers.html", "/json/identity.json", "/proxy/8786/x/status"):
        assert net.get("stranger", scheduler + route) == "404"


@pytest.mark.slow
def test_the_same_command_again_changes_nothing(cluster):
    net, words, given = cluster
    wait_for_workers(net)
    results = []
    for log in ("once.log", "again.log"):
        code, text = driven(net, words, given, log)
        assert code == 0, text
        results.append(dhsic.load(net.folder / "results" / "first.zarr").load())
    assert results[0]["score"].equals(results[1]["score"])
    assert results[0]["rank"].equals(results[1]["rank"])


@pytest.mark.slow
def test_a_driver_on_a_signal_ends_and_the_next_goes_on(cluster):
    net, words, given = cluster
    wait_for_workers(net)
    given = {**given, "DHSIC_NAME": "stopped"}
    words = [word.replace("first", "stopped") for word in words]
    process = net.start("driver", words, given, "stopped.log")
    root = net.folder / "results" / "stopped.dhsic" / "rounds" / "000002"
    deadline = time.monotonic() + PATIENCE
    while not root.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.terminate()
    assert process.wait(PATIENCE) is not None
    code, log = driven(net, words, given, "going-on.log")
    assert code == 0, log
    driven(net, [word.replace("stopped", "first") for word in words], given, "whole.log")
    ours, theirs = (
        dhsic.load(net.folder / "results" / f"{name}.zarr") for name in ("stopped", "first")
    )
    assert ours["rank"].equals(theirs["rank"])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "without a certificate", "of another authority"])
def test_who_has_no_certificate_of_the_authority_is_refused(cluster, tmp_path, how):
    net, words, given = cluster
    wait_for_workers(net)
    other = f"/etc/dask/{how.replace(' ', '-')}"
    config = Path(net.here(other))
    config.mkdir()
    text = (config.parent / "tls.yaml").read_text()
    if how == "of another authority":
        subprocess.run(
            ["sh", DEPLOY / "certificates.sh", tmp_path / "tls"], check=True, capture_output=True
        )
        text = text.replace(f"{net.folder}/etc/dhsic/tls", str(tmp_path / "tls"))
        (config / "tls.yaml").write_text(text)
    given = {**given, "DASK_CONFIG": other, "DHSIC_NAME": "refused"}
    if how == "plain":
        words = [word.replace("tls://", "tcp://") for word in words]
    words = [word.replace("first", "refused") for word in words]
    code, log = driven(net, words, given, f"{config.name}.log", pod="stranger")
    assert code != 0, log
    assert '"level": "error"' in log
    assert not (net.folder / "results" / "refused.zarr").exists()


@pytest.mark.slow
def test_results_come_home_through_the_pod_of_files(cluster, tmp_path):
    net, _, _ = cluster
    (pod,) = documents(K8S / "files.yaml")
    (container,) = pod["spec"]["containers"]
    process = net.start("stranger", container["command"], {}, "files.log")
    found = re.search(r"-- (python3 -c '.*?')", (DEPLOY / "README.md").read_text(), re.DOTALL)
    (net.folder / "results" / "seen.txt").write_text("1")
    script = found[1].replace('"/results"', f'"{net.folder}/results"')
    with (tmp_path / "all.tar").open("wb") as out:
        subprocess.run(["sh", "-c", script], check=True, stdout=out)
    subprocess.run(["tar", "-x", "-C", tmp_path, "-f", tmp_path / "all.tar"], check=True)
    assert list(tmp_path.rglob("seen.txt"))
    assert process.poll() is None  # it holds the volume until it is deleted


def test_the_cluster_of_the_manifests_is_the_one_of_the_service():
    objects = render(K8S / "overlays" / "pvc")
    made = made_by_operator(objects)
    template = made["scheduler"]["spec"]["template"]["metadata"]["labels"]
    assert made["service"]["spec"]["selector"].items() <= template.items()
    for _, pod in pods(objects):
        for variable in pod["containers"][0].get("env", ()):
            if variable["name"] == "DASK_SCHEDULER_ADDRESS":
                assert variable["value"] == f"tls://{made['service']['metadata']['name']}:8786"
    assert one(objects, "DaskCluster")["spec"]["idleTimeout"] > 0
