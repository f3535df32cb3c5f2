"""The manifests on a Kubernetes: what its API server, the operator, kubelets and pods make of them.

Takes a cluster that is there already and on which nothing else depends:

KUBECONFIG           the cluster; the operator of dask-kubernetes runs on it and sees the namespace
                     `dhsic`, which is not there yet: it is made, and deleted at the end
DHSIC_TEST_IMAGE     name and tag of the image of `deploy/Containerfile`, as the nodes have it
DHSIC_TEST_VARIANTS  how large the run is; 100,000 by default

The volumes `dhsic-run` and `dhsic-shared` come from the default storage class or were made before;
pods of one node, or of all, mount both at once. Fields that the cluster is too old for are left
out and told.

    KUBECONFIG=... DHSIC_TEST_IMAGE=localhost/dhsic:test pytest tests/test_kubernetes.py -m slow -s
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from kubectl import Kubectl, until
from manifests import DEPLOY, K8S, NAMESPACE, documents, environment, expanded, one, pods

import dhsic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

STARTS = 300.0  # seconds until pods are there, on a machine that does other things too
ROUND = 300.0  # seconds until the next round is kept, whatever happened
ENDS = 1800.0  # seconds that a run may take
WORKER, SCHEDULER = ("dask.org/component=worker", "dask.org/component=scheduler")
DRIVER = "dhsic/role=driver"
FILES = "dhsic-files"
OPTIONS = ["--step", "0.1", "--solver", "exact"]
REPLICAS = 2
CPU, MEMORY = "250m", "1Gi"  # that five pods fit on two cores
VOLUME = "1Gi"


def tell(what: str) -> None:
    print(f"\nkubernetes: {what}")


# ---- an overlay, as a user makes one --------------------------------------------------------


def sized(pod: str) -> list[tuple[str, str, object]]:
    """The pod under a path, of the size of this test."""
    resources = {"requests": {"cpu": CPU, "memory": MEMORY}}
    resources["limits"] = {"cpu": "1", "memory": MEMORY}
    return [("replace", f"{pod}/containers/0/resources", resources)]


def cluster(spec: str) -> list[tuple[str, str, object]]:
    """The cluster under a path, of the size of this test."""
    pods = [*sized(f"{spec}/scheduler/spec"), *sized(f"{spec}/worker/spec")]
    return [*pods, ("replace", f"{spec}/worker/replicas", REPLICAS)]


def driver(pod: str) -> list[tuple[str, str, object]]:
    """The driver under a path, of the size and with the options of this test."""
    words = [("add", f"{pod}/containers/0/args/-", word) for word in OPTIONS]
    return [*sized(pod), *words]


def shared(pod: str) -> list[tuple[str, str, object]]:
    """The volume of the data in the pod under a path."""
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": "dhsic-shared"}}
    mount = {"name": "shared", "mountPath": "/shared"}
    path = f"{pod}/containers/0/volumeMounts/-"
    return [("add", path, mount), ("add", f"{pod}/volumes/-", volume)]


def changed(kind: str, *operations: tuple[str, str, object]) -> dict[str, object]:
    """Patch of the objects of a kind."""
    said = [{"op": what, "path": path, "value": value} for what, path, value in operations]
    return {"target": {"kind": kind}, "patch": yaml.safe_dump(said)}


def too_new(version: tuple[int, int]) -> list[dict[str, object]]:
    """Patches that take away what a cluster is too old for."""
    out = []
    if version < (1, 26):
        tell(f"podFailurePolicy of the Job left out, which Kubernetes {version} does not know")
        out.append(changed("Job", ("remove", "/spec/podFailurePolicy", None)))
    if version < (1, 21):
        tell(f"PodDisruptionBudget as policy/v1beta1, since Kubernetes {version} has no policy/v1")
        out.append(changed("PodDisruptionBudget", ("replace", "/apiVersion", "policy/v1beta1")))
    return out


def of_the_job(version: tuple[int, int]) -> list[dict[str, object]]:
    """What is other than in `overlays/pvc`."""
    return [
        changed("DaskCluster", *cluster("/spec")),
        changed("Job", *driver("/spec/template/spec")),
        changed("PersistentVolumeClaim", ("replace", "/spec/resources/requests/storage", VOLUME)),
        *too_new(version),
    ]


def of_the_short_form(version: tuple[int, int]) -> list[dict[str, object]]:
    """What is other than in `daskjob`: the component `pvc`, and a scheduler that comes late."""
    runner, spec = "/spec/job/spec", "/spec/cluster/spec"
    sizes = [*cluster(spec), *driver(runner), *shared(runner), *shared(f"{spec}/worker/spec")]
    scratch = [
        ("test", f"{runner}/containers/0/env/2/name", "TMPDIR"),
        ("replace", f"{runner}/containers/0/env/2/value", "/shared"),
    ]
    late = {"name": "late", "image": "registry.example/dhsic", "command": ["sleep", "40"]}
    sizes += [*scratch, ("add", f"{spec}/scheduler/spec/initContainers", [late])]
    kept = ("PersistentVolumeClaim", "/spec/resources/requests/storage", VOLUME)
    data = ("replace", "/data/DHSIC_DATA", "/shared/genotypes.vcz")
    changes = [changed("DaskJob", *sizes), changed(kept[0], ("replace", *kept[1:]))]
    changes += [changed("ConfigMap", data) | {"target": {"kind": "ConfigMap", "name": "dhsic-run"}}]
    return changes + [c for c in too_new(version) if c["target"] != {"kind": "Job"}]


def image() -> dict[str, str]:
    """The image of the manifests, by the name it has here."""
    name, _, tag = os.environ["DHSIC_TEST_IMAGE"].rpartition(":")
    return {"name": "registry.example/dhsic", "newName": name, "newTag": tag}


class Overlay:
    """A folder with a kustomization of our own over one of `deploy/k8s`."""

    def __init__(self, folder: Path, base: Path, changes: list[dict[str, object]]) -> None:
        folder.mkdir()
        self.folder = folder
        self.said = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(base, folder.resolve())],
            "images": [image()],
            "patches": changes,
        }

    def named(self, name: str) -> Overlay:
        """Name the run."""
        patch = changed("ConfigMap", ("replace", "/data/DHSIC_NAME", name))
        patch["target"] = {"kind": "ConfigMap", "name": "dhsic-run"}
        said = self.said | {"patches": [*self.said["patches"], patch]}
        (self.folder / "kustomization.yaml").write_text(yaml.safe_dump(said))
        return self

    def objects(self, kubectl: Kubectl) -> list[dict[str, object]]:
        """What kubectl makes of it."""
        return list(yaml.safe_load_all(kubectl("kustomize", self.folder)))


# ---- the cluster ----------------------------------------------------------------------------


class Installed:
    """The manifests on the cluster, with data to select from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubectl = Kubectl(NAMESPACE)
        version = self.kubectl.version()
        self.overlay = Overlay(folder / "pvc", K8S / "overlays" / "pvc", of_the_job(version))
        self.short = Overlay(folder / "daskjob", K8S / "daskjob", of_the_short_form(version))

    def install(self) -> None:
        """As deploy/README.md says: namespace, certificates, volumes; then data."""
        self.kubectl("apply", "-f", K8S / "common" / "namespace.yaml")
        certificates = self.folder / "certificates"
        subprocess.run(
            ["sh", DEPLOY / "certificates.sh", certificates], check=True, capture_output=True
        )
        files = [f"--from-file={certificates / name}" for name in ("ca.crt", "tls.crt", "tls.key")]
        self.kubectl("create", "secret", "generic", "dhsic-tls", *files)
        objects = self.overlay.named("first").objects(self.kubectl)
        first = [o for o in objects if o["kind"] in ("PersistentVolumeClaim", "ServiceAccount")]
        self.kubectl.apply(*first, self._files())
        until(lambda: self.kubectl.holds("exec", FILES, "--", "true"), STARTS, "the pod of files")
        self.simulate(int(os.environ.get("DHSIC_TEST_VARIANTS", "100000")))

    def _files(self) -> dict[str, object]:
        """The pod of files with the data too, in memory enough for threads."""
        (pod,) = documents(K8S / "files.yaml")
        (container,) = pod["spec"]["containers"]
        container["image"] = os.environ["DHSIC_TEST_IMAGE"]
        container["resources"] = {"requests": {"cpu": "100m", "memory": MEMORY}}
        container["resources"]["limits"] = {"memory": "2Gi"}
        container["volumeMounts"].append({"name": "shared", "mountPath": "/shared"})
        claim = {"persistentVolumeClaim": {"claimName": "dhsic-shared"}}
        pod["spec"]["volumes"] += [{"name": "shared", **claim}, {"name": "tmp", "emptyDir": {}}]
        container["volumeMounts"].append({"name": "tmp", "mountPath": "/tmp"})
        return pod

    def simulate(self, variants: int) -> None:
        """Genotypes on the shared volume."""
        options = {"samples": 500, "variants": variants, "seed": 3, "causal": 10, "pairs": 2}
        words = [str(word) for k, v in options.items() for word in (f"--{k}", v)]
        self.kubectl.run(FILES, "dhsic", "simulate", "/shared/genotypes.vcz", *words)
        tell(f"simulated {options}")

    def with_threads(self) -> dict[str, np.ndarray]:
        """What threads find, of the same command in a pod of the same image."""
        objects = self.overlay.named("threads").objects(self.kubectl)
        driver = dict(pods(objects))["driver"]
        maps = {o["metadata"]["name"]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
        given = environment(driver, maps)
        (container,) = driver["containers"]
        words = [expanded(word, given) for word in (*container["command"], *container["args"])]
        for option in ("--scheduler", "--checkpoint"):
            at = words.index(option)
            del words[at : at + 2]
        began = time.monotonic()
        self.kubectl.run(FILES, *words, "--threads", 2, seconds=ENDS)
        tell(f"threads in one pod: {time.monotonic() - began:.1f} s")
        return self.result("threads")

    def result(self, name: str) -> dict[str, np.ndarray]:
        """A result, brought home as deploy/README.md says."""
        text = (DEPLOY / "README.md").read_text()
        script = re.search(r"-- python3 -c '(.*?)'", text, re.DOTALL)[1]
        packed = self.kubectl.python(FILES, script)
        home = self.folder / f"home-{name}"
        with tarfile.open(fileobj=io.BytesIO(packed)) as all_of_it:
            all_of_it.extractall(home, filter="data")
        found = dhsic.load(home / "work" / f"{name}.zarr").load()
        return {key: found[key].values for key in ("rank", "score", "selected", "round_removed")}

    def clean(self) -> None:
        """Delete what was installed."""
        warnings = ("--field-selector=type=Warning", "--sort-by=.lastTimestamp")
        tell("warnings:\n" + self.kubectl("get", "events", *warnings))
        self.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        until(lambda: not self.kubectl.holds("get", "ns", NAMESPACE), STARTS, "the namespace gone")


def sha(result: dict[str, np.ndarray]) -> str:
    """Digest of ranking and scores."""
    digest = hashlib.sha256()
    for name in ("rank", "score"):
        digest.update(np.ascontiguousarray(result[name]).tobytes())
    return digest.hexdigest()


class Run:
    """A run of the Job, watched through its checkpoint."""

    def __init__(self, installed: Installed, name: str) -> None:
        self._installed, self.name = installed, name
        self.kubectl = installed.kubectl
        self.kubectl("delete", "job", "dhsic-driver", "--ignore-not-found")
        self.began = self.ended = time.monotonic()
        self.kubectl("apply", "-k", installed.overlay.named(name).folder)

    @property
    def round(self) -> int:
        """The last round that is kept, -1 where there is none."""
        script = f"print(open('/results/{self.name}.dhsic/zarr.json').read())"
        try:
            node = json.loads(self.kubectl.python(FILES, script))
        except (AssertionError, ValueError):
            return -1
        return int(node["attributes"]["dhsic_checkpoint"]["last_round"])

    def await_round(self, number: int) -> float:
        """Wait until so many rounds are kept; return how long it took."""

        def kept() -> bool:
            there = self.round >= number
            assert there or not self.conditions() & {"Failed", "Complete"}, self.log()
            return there

        return until(kept, ROUND, f"round {number} of {self.name}")

    def conditions(self) -> set[str]:
        job = json.loads(self.kubectl("get", "job", "dhsic-driver", "-o", "json"))
        said = job["status"].get("conditions", ())
        return {condition["type"] for condition in said if condition["status"] == "True"}

    def log(self) -> str:
        logs = [
            self.kubectl("logs", pod["metadata"]["name"])
            for pod in self.kubectl.pods(DRIVER)
            if pod["status"]["phase"] != "Pending"
        ]
        return "\n----\n".join(logs)

    def kill(self, label: str) -> None:
        """Delete the newest ready pod of a label at once, and say when rounds went on."""
        name, number = self.kubectl.ready(label)[-1], self.round
        self.kubectl("delete", "pod", name, "--force", "--grace-period=0")
        began = time.monotonic()
        rounds = []
        for later in (1, 2, 3):  # the first may have been as good as done
            self.await_round(number + later)
            rounds.append(f"{time.monotonic() - began:.1f} s")
        tell(f"{name} deleted after round {number}: the next ones kept after {', '.join(rounds)}")
        self._tell_pods()

    def finish(self) -> dict[str, np.ndarray]:
        """Wait for the end; return the result."""
        until(lambda: self.conditions() & {"Failed", "Complete"}, ENDS, f"the end of {self.name}")
        self.ended = time.monotonic()
        tell(f"{self.name}: {self.conditions()} after {self.ended - self.began:.1f} s")
        self._tell_pods()
        assert self.conditions() == {"Complete"}, self.log()
        return self._installed.result(self.name)

    def since_end(self) -> float:
        """Seconds since the Job was seen to end."""
        return time.monotonic() - self.ended

    def _tell_pods(self) -> None:
        tell("\n" + self.kubectl("get", "daskcluster,job,pods"))


# ---- what is seen ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    for variable in ("KUBECONFIG", "DHSIC_TEST_IMAGE"):
        if variable not in os.environ:
            pytest.skip(f"no Kubernetes to try the manifests on: {variable} is not set")
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl to drive the Kubernetes of KUBECONFIG with")
    out = Installed(tmp_path_factory.mktemp("kubernetes"))
    if out.kubectl.holds("get", "namespace", NAMESPACE):
        pytest.fail(f"There is a namespace {NAMESPACE!r}, which this test would delete.")
    try:
        out.install()
        yield out
    finally:
        out.clean()


@pytest.fixture(scope="module")
def expected(installed):
    """What threads find."""
    result = installed.with_threads()
    tell(f"sha256 of rank and score: {sha(result)}")
    return result


def assert_same(got, expected):
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)
    assert sha(got) == sha(expected)


def test_an_undisturbed_run_finds_what_threads_find(installed, expected):
    run = Run(installed, "quiet")
    until(lambda: len(run.kubectl.ready(WORKER)) == REPLICAS, STARTS, "workers")
    assert_same(run.finish(), expected)


@pytest.mark.parametrize(
    "label", [WORKER, SCHEDULER, DRIVER], ids=["worker", "scheduler", "driver"]
)
def test_a_pod_that_is_deleted_changes_nothing(installed, expected, label):
    run = Run(installed, label.rpartition("=")[2])
    run.await_round(2)
    run.kill(label)
    assert_same(run.finish(), expected)


def test_all_of_them_one_after_the_other_change_nothing(installed, expected):
    run = Run(installed, "all")
    for number, label in enumerate((DRIVER, WORKER, SCHEDULER), 1):
        run.await_round(4 * number)
        run.kill(label)
    assert_same(run.finish(), expected)


def test_an_idle_cluster_goes(installed, expected):
    kubectl, run = installed.kubectl, Run(installed, "idle")
    result = run.finish()
    kubectl("patch", "daskcluster", "dhsic", "--type=merge", "-p", '{"spec":{"idleTimeout":20}}')
    until(lambda: not kubectl.read("daskcluster"), STARTS, "the idle cluster removed")
    tell(f"idleTimeout of 20 s: cluster removed {run.since_end():.1f} s after the end of the run")
    until(lambda: not kubectl.pods(WORKER), STARTS, "no worker left")
    until(lambda: not kubectl.pods(SCHEDULER), STARTS, "no scheduler left")
    assert one(kubectl.read("job"), "Job", "dhsic-driver")["status"]["succeeded"] == 1
    assert_same(result, expected)


def test_the_short_form_succeeds_and_its_cluster_goes(installed, expected):
    kubectl = installed.kubectl
    kubectl("delete", "job,daskcluster", "--all")
    began = time.monotonic()
    kubectl("apply", "-k", installed.short.named("short").folder)

    def status() -> str:
        (job,) = kubectl.read("daskjob")
        return job.get("status", {}).get("jobStatus", "")

    until(lambda: status() in ("Successful", "Failed"), ENDS, "the end of the DaskJob")
    tell(f"DaskJob: {status()} after {time.monotonic() - began:.1f} s")
    assert status() == "Successful", kubectl("logs", "dhsic-runner")
    assert_same(installed.result("short"), expected)
    until(lambda: not kubectl.read("daskcluster"), STARTS, "the cluster of the DaskJob removed")
