"""What `deploy/` says is valid, is as locked up as SECURITY.md says, and keeps no secrets."""

import json
import logging
import re
import shutil
import subprocess
from importlib.metadata import requires, version
from pathlib import Path

import numpy as np
import pytest
import yaml
import zarr
from commands import run
from manifests import (
    DEPLOY,
    K8S,
    OVERLAYS,
    ROOTS,
    check,
    containers,
    documents,
    made_by_operator,
    one,
    operator_folder,
    pods,
    render,
    strict,
)

import dhsic
from dhsic.accelerator import DEVICE, wanted_device
from dhsic.storage.checkpoint import Checkpoint

ROOT = DEPLOY.parent
by_name = pytest.mark.parametrize("folder", ROOTS, ids=lambda path: path.name)


# -- Validity


@by_name
def test_every_object_fits_its_schema(folder):
    for thing in render(folder):
        check(thing)


@pytest.mark.parametrize(
    "path", [K8S / "files.yaml", K8S / "components" / "s3" / "secret.example.yaml"], ids=str
)
def test_objects_that_are_applied_by_hand_fit_their_schema(path):
    for thing in documents(path):
        check(thing)


@by_name
def test_rendered_as_kubectl_does(folder):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which renders the overlays too, is not installed")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True
    )
    theirs = [document for document in yaml.safe_load_all(done.stdout) if document]

    def key(thing):
        return thing["kind"], thing["metadata"]["name"]

    assert sorted(theirs, key=key) == sorted(render(folder), key=key)


@pytest.mark.parametrize("folder", [K8S / "base", *OVERLAYS], ids=lambda path: path.name)
def test_what_the_operator_makes_fits_its_schema(folder):
    made = made_by_operator(render(folder))
    for thing in made.values():
        check(thing)


def test_a_mistyped_field_is_refused():
    thing = one(render(K8S / "base"), "DaskCluster")
    thing["spec"]["worker"]["resources"] = {}
    with pytest.raises(Exception, match="resources"):
        check(thing)
    thing = one(render(K8S / "base"), "Job")
    thing["spec"]["backofLimit"] = 3
    with pytest.raises(Exception, match="backofLimit"):
        check(thing)


def test_strict_leaves_open_what_is_meant_open():
    schema = {"properties": {"a": {"additionalProperties": {}}, "b": {"properties": {}}}}
    assert strict(schema)["additionalProperties"] is False
    assert strict(schema)["properties"]["a"] == {"additionalProperties": {}}
    assert strict(schema)["properties"]["b"]["additionalProperties"] is False


def test_the_short_form_has_the_pods_of_the_overlay():
    short, long = (dict(pods(render(K8S / name))) for name in ("daskjob", "overlays/tls"))
    assert short == long
    job, cluster = one(render(K8S / "daskjob"), "DaskJob"), one(render(K8S / "base"), "DaskCluster")
    of_job = job["spec"]["cluster"]["spec"]["scheduler"]["service"]
    assert of_job == cluster["spec"]["scheduler"]["service"]


# -- What pods may do


@by_name
def test_pods_are_restricted(folder):
    for _, pod in pods([*render(folder), *documents(K8S / "files.yaml")]):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostPath"} & set(pod)
        for container in containers(pod):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}


@by_name
def test_memory_and_cores_are_said_once(folder):
    for _, pod in pods(render(folder)):
        for container in containers(pod):
            assert container["resources"]["requests"] == container["resources"]["limits"]


@by_name
def test_images_are_named_by_digest(folder):
    for _, pod in pods([*render(folder), *documents(K8S / "files.yaml")]):
        for container in containers(pod):
            assert re.search(r"@sha256:[0-9a-f]{64}$", container["image"])


@pytest.mark.parametrize("folder", [*OVERLAYS, K8S / "daskjob"], ids=lambda path: path.name)
def test_overlays_speak_tls_alone(folder):
    objects = render(folder)
    assert "tcp://" not in yaml.safe_dump(objects)
    said = yaml.safe_load(one(objects, "ConfigMap", "dhsic-dask")["data"]["tls.yaml"])
    assert said["distributed"]["comm"]["require-encryption"] is True
    for _, pod in pods(objects):
        assert {"secretName": "dhsic-tls", "defaultMode": 0o440} in [
            volume.get("secret") for volume in pod["volumes"]
        ]


def test_the_driver_of_workers_with_a_gpu_asks_for_it():
    objects = render(K8S / "overlays" / "gpu")
    name = one(objects, "ConfigMap", "dhsic-run")["data"][DEVICE]
    assert wanted_of(name) == name
    asked = {
        role: pod["containers"][0]["resources"]["limits"].get("nvidia.com/gpu")
        for role, pod in pods(objects)
    }
    assert asked == {"scheduler": None, "worker": "1", "driver": None}


def wanted_of(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DEVICE, name)
        return wanted_device()


@by_name
def test_no_secret_is_kept_here(folder):
    assert not [thing for thing in render(folder) if thing["kind"] == "Secret"]


def allowed(policies, source, target, port):
    """Whether policies of the namespace let pods with labels `source` reach `target`."""

    def selects(selector, labels):
        return selector.get("matchLabels", {}).items() <= labels.items()

    def lets(policy, direction, end, other):
        spec = policy["spec"]
        return selects(spec["podSelector"], end) and any(
            any("podSelector" in peer and selects(peer["podSelector"], other) for peer in peers)
            and port in [p["port"] for p in rule["ports"]]
            for rule in spec.get(direction, ())
            for peers in [rule.get("from" if direction == "ingress" else "to", ())]
        )

    return any(lets(p, "egress", source, target) for p in policies) and any(
        lets(p, "ingress", target, source) for p in policies
    )


def test_the_network_lets_in_who_must_and_nobody_else():
    objects = render(K8S / "base")
    policies = [thing for thing in objects if thing["kind"] == "NetworkPolicy"]
    scheduler, worker = ({"dask.org/component": name} for name in ("scheduler", "worker"))
    driver = one(objects, "Job")["spec"]["template"]["metadata"]["labels"]
    stranger = {"app": "else"}
    ports = {8786, 8787, 8788, 8789, 8790}
    for source, target, expected in (
        (worker, scheduler, {8786}),
        (driver, scheduler, {8786}),
        (scheduler, worker, {8789, 8790}),
        (worker, worker, {8789, 8790}),
        (driver, worker, set()),
        (scheduler, driver, set()),
        (stranger, scheduler, set()),
        (stranger, worker, set()),
    ):
        assert {p for p in ports if allowed(policies, source, target, p)} == expected
    shut = one(objects, "NetworkPolicy", "nothing-unless-allowed")["spec"]
    assert shut == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_policies_name_the_ports_that_containers_have():
    objects = render(K8S / "base")
    opened = {
        port["port"]
        for thing in objects
        if thing["kind"] == "NetworkPolicy"
        for rule in thing["spec"].get("ingress", ())
        for port in rule["ports"]
    }
    named = {
        port["containerPort"]
        for _, pod in pods(objects)
        for container in pod["containers"]
        for port in container.get("ports", ())
    }
    assert opened == named - {8788}  # health, for the kubelet alone


def test_a_failure_that_comes_again_is_not_tried_again():
    from dhsic.cli.console import CODES

    rules = one(render(K8S / "base"), "Job")["spec"]["podFailurePolicy"]["rules"]
    final = rules[0]["onExitCodes"]["values"]
    codes = {kind: code for code, kind in CODES.values()}
    assert final == sorted(codes[kind] for kind in ("input", "data", "checkpoint", "memory"))
    assert codes["cluster"] not in final


# -- Image, certificates, values of charts


def test_constraints_cover_and_satisfy_what_dhsic_needs():
    packaging = pytest.importorskip("packaging.requirements")
    lines = [x for x in (DEPLOY / "constraints.txt").read_text().splitlines() if x[0] != "#"]
    pinned = {name.lower().replace("_", "-"): at for name, at in (x.split("==") for x in lines)}
    for line in requires("dhsic"):
        requirement = packaging.Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            assert pinned[requirement.name.lower()] in requirement.specifier


def test_the_image_is_small_and_runs_as_nobody_special():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    last = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert "USER 1000:1000" in last
    assert "HEALTHCHECK NONE" in last
    assert not [line for line in last if line.startswith("RUN ")]
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert (ROOT / name).exists()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Folder with what `certificates.sh` makes."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    folder = tmp_path_factory.mktemp("tls") / "made"
    subprocess.run(["sh", DEPLOY / "certificates.sh", folder, "2"], check=True, capture_output=True)
    return folder


def test_certificates_are_for_both_ends_and_the_authority_is_gone(certificates):
    assert {path.name for path in certificates.iterdir()} == {"ca.crt", "tls.crt", "tls.key"}
    for path in certificates.iterdir():
        assert path.stat().st_mode & 0o077 == 0
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", certificates / "ca.crt"]
    for purpose in ("sslserver", "sslclient"):
        subprocess.run(
            [*verify, "-purpose", purpose, certificates / "tls.crt"],
            check=True,
            capture_output=True,
        )


def test_certificates_are_not_overwritten(certificates):
    done = subprocess.run(
        ["sh", DEPLOY / "certificates.sh", certificates],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there already" in done.stderr


def test_values_of_the_operators_chart_exist():
    chart = operator_folder() / "deployment" / "helm" / "dask-kubernetes-operator" / "values.yaml"
    (theirs,), (ours,) = documents(chart), documents(DEPLOY / "helm" / "operator.yaml")
    for name, value in ours.items():
        assert name in theirs
        if isinstance(value, dict) and theirs[name]:
            assert set(value) <= set(theirs[name])


def test_python_in_the_runbook_parses():
    blocks = re.findall(r"```python\n(.*?)```", (DEPLOY / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "deploy/README.md", "exec")


def test_files_that_the_runbook_names_exist():
    named = re.findall(r"deploy/[\w./-]+\w", (DEPLOY / "README.md").read_text())
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def rendered_from_the_runbook(number, tmp_path):
    """Objects of the overlays that the runbook shows, beside a copy of the manifests."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which renders the overlay of the runbook, is not installed")
    shown = re.findall(r"```yaml\n(.*?)```", (DEPLOY / "README.md").read_text(), re.DOTALL)
    shutil.copytree(K8S, tmp_path / "deploy" / "k8s")
    folder = tmp_path / "my-overlay"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(shown[number])
    words = ["kubectl", "kustomize", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    objects = list(yaml.safe_load_all(done.stdout))
    for thing in objects:
        check(thing)
    return objects


def test_the_overlay_of_the_runbook_says_what_it_means(tmp_path):
    objects = rendered_from_the_runbook(0, tmp_path)
    assert one(objects, "ConfigMap", "dhsic-run")["data"]["DHSIC_NAME"] == "second"
    assert one(objects, "DaskCluster")["spec"]["worker"]["replicas"] == 8
    assert dict(pods(objects))["driver"]["containers"][0]["args"][-1] == "--step=0.05"
    for _, pod in pods(objects):
        for container in containers(pod):
            assert container["image"].startswith("registry.mine/dhsic@sha256:")


def test_a_run_in_an_object_store_needs_no_volume(tmp_path):
    objects = rendered_from_the_runbook(1, tmp_path)
    assert not [thing for thing in objects if thing["kind"] == "PersistentVolumeClaim"]
    driver = dict(pods(objects))["driver"]
    assert not [volume for volume in driver["volumes"] if "persistentVolumeClaim" in volume]
    said = driver["containers"][0]["args"]
    places = {said[i]: said[i + 1] for i in range(1, len(said) - 1)}
    assert places["--checkpoint"] == "$(DHSIC_RESULTS)/$(DHSIC_NAME).dhsic"
    assert places["--out"] == "$(DHSIC_RESULTS)/$(DHSIC_NAME).zarr"
    assert one(objects, "ConfigMap", "dhsic-run")["data"]["DHSIC_RESULTS"] == "s3://bucket/runs"


# -- Secrets


SECRET = "not-to-be-seen-7f3a"


def test_no_secret_in_result_checkpoint_or_log(tmp_path, rng, caplog, capfd):
    X = rng.integers(0, 3, (40, 60)).astype(np.int8)
    y = X[:, 3] + X[:, 7] + rng.normal(size=40)
    store = tmp_path / "x.zarr"
    zarr.create_array(store, data=X, chunks=(40, 20), dimension_names=("samples", "features"))
    source = dhsic.open_source(f"file://{store}", storage_options={"password": SECRET})
    kept = tmp_path / "run.dhsic"
    with caplog.at_level(logging.DEBUG):
        model = dhsic.BAHSIC(checkpoint=str(kept), progress=False).fit(source, y)
        print(source, repr(source), model)
    dhsic.save(model.result_, tmp_path / "result.zarr")
    assert Checkpoint(kept).is_complete()
    captured = capfd.readouterr()
    assert SECRET not in captured.out + captured.err + caplog.text
    for folder in (kept, tmp_path / "result.zarr"):
        for path in folder.rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_keys_in_the_environment_reach_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    data, kept, out = (tmp_path / name for name in ("x.vcz", "run.dhsic", "out.zarr"))
    run("simulate", data, "--samples", 30, "--variants", 300, "--seed", 1)
    done = run(
        *("select", data, "--target", "sample_trait", "--threads", 2),
        *("--checkpoint", kept, "--out", out, "--json"),
    )
    assert SECRET not in done.stdout + done.stderr
    for path in (*kept.rglob("*"), *out.rglob("*")):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_a_codec_that_unpickles_is_refused_unread(tmp_path):
    witness = tmp_path / "executed"
    store = tmp_path / "x.zarr"
    zarr.create_array(store, data=np.ones((4, 6), np.int8), chunks=(4, 6), compressors=None)
    meta = json.loads((store / "zarr.json").read_text())
    meta["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    (store / "zarr.json").write_text(json.dumps(meta))
    (store / "c" / "0" / "0").write_bytes(f"cposix\nsystem\n(S'touch {witness}'\ntR.".encode())
    with pytest.raises(Exception, match=r"codec|pickle"):
        dhsic.BAHSIC(progress=False).fit(store, np.arange(4.0))
    assert not witness.exists()


def test_pickle_of_arrays_is_off_wherever_files_are_read():
    for path in Path(dhsic.__file__).parent.rglob("*.py"):
        assert "allow_pickle=True" not in path.read_text()


def test_versions_in_the_values_are_those_of_the_package():
    (values,) = documents(DEPLOY / "helm" / "dask.yaml")
    assert values["worker"]["image"]["tag"] == version("dhsic")
