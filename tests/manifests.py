"""Manifests of `deploy/`, read as kustomize, API server, operator and kubelet read them."""

import importlib
import importlib.util
import json
import re
import warnings
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
K8S = DEPLOY / "k8s"
OVERLAYS = sorted(path.parent for path in K8S.glob("overlays/*/kustomization.yaml"))
ROOTS = [K8S / "base", *OVERLAYS, K8S / "daskjob"]
NAMESPACE = CLUSTER = "dhsic"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C where it is there


def documents(path):
    """Documents of a YAML file."""
    return deepcopy(_documents(path.read_text()))


@cache
def _documents(text):
    return [document for document in yaml.load_all(text, LOADER) if document]


def render(folder):
    """Objects of a kustomization, of the parts of kustomize that `deploy/` uses."""
    (said,) = documents(folder / "kustomization.yaml")
    unknown = set(said) - {"apiVersion", "kind", "resources", "components", "patches", "images"}
    assert not unknown, f"{folder} uses {unknown}, which this renderer does not know"
    objects = []
    for name in said.get("resources", ()):
        path = folder / name
        objects += render(path) if path.is_dir() else documents(path)
    return _patched(folder, said, objects)


def _patched(folder, said, objects):
    for name in said.get("components", ()):
        (component,) = documents(folder / name / "kustomization.yaml")
        more = [documents(folder / name / path) for path in component.get("resources", ())]
        objects = _patched(folder / name, component, sum(more, objects))
    jsonpatch = pytest.importorskip(
        "jsonpatch", reason="jsonpatch, which renders the overlays, is not installed"
    )
    for patch in said.get("patches", ()):
        operations = yaml.safe_load(patch["patch"])
        if isinstance(operations, dict):  # a patch of the other kind, of which this one is used
            assert operations["$patch"] == "delete"
            objects = [o for o in objects if not _is_meant(o, patch["target"])]
            continue
        for target in [o for o in objects if _is_meant(o, patch["target"])]:
            jsonpatch.apply_patch(target, operations, in_place=True)
    for image in said.get("images", ()):
        _name_image(objects, image)
    return objects


def _name_image(objects, image):
    for _, pod in pods(objects):
        for container in containers(pod):
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}@{image['digest']}"


def _is_meant(thing, target):
    name = target.get("name", thing["metadata"]["name"])
    return (thing["kind"], thing["metadata"]["name"]) == (target["kind"], name)


def pods(objects):
    """Pairs of role (scheduler, worker, driver) and pod spec."""
    for thing in objects:
        spec = thing.get("spec", {})
        if thing["kind"] == "DaskJob":
            yield "driver", spec["job"]["spec"]
            spec = spec["cluster"]["spec"]
        if thing["kind"] in ("DaskCluster", "DaskJob"):
            yield "scheduler", spec["scheduler"]["spec"]
            yield "worker", spec["worker"]["spec"]
        if thing["kind"] == "Job":
            yield "driver", spec["template"]["spec"]
        if thing["kind"] == "Pod":
            yield "pod", spec


def containers(pod):
    """Containers of a pod, and those that run before them."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def one(objects, kind, name=None):
    """The object of a kind (and name)."""
    (found,) = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    return found


def operator_folder():
    """Where the operator's package lies, without importing it."""
    spec = importlib.util.find_spec("dask_kubernetes")
    if spec is None:
        pytest.skip("dask-kubernetes, which has the schemas of its objects, is not installed")
    return Path(spec.origin).parent / "operator"


def strict(schema):
    """Schema that refuses what the API server would drop without a word."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        out["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return out


@cache
def _validators():
    """Validator of each kind of the operator, from the definitions that it installs."""
    jsonschema = pytest.importorskip(
        "jsonschema", reason="jsonschema, which checks the operator's objects, is not installed"
    )
    folder = operator_folder() / "deployment" / "helm" / "dask-kubernetes-operator" / "crds"
    out = {}
    for path in sorted(folder.glob("*.yaml")):
        definition = yaml.load(path.read_text(), LOADER)["spec"]
        (version,) = definition["versions"]
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {"type": "object"}}
        out[definition["names"]["kind"]] = jsonschema.Draft7Validator(schema)
    return out


def check(thing):
    """Raise what is wrong with an object, by the schemas of the operator or of Kubernetes."""
    _check(json.dumps(thing, sort_keys=True))


@cache  # overlays share most of their objects
def _check(text):
    thing = json.loads(text)
    if thing["apiVersion"].startswith("kubernetes.dask.org/"):
        errors = list(_validators()[thing["kind"]].iter_errors(thing))
        assert not errors, [f"{error.json_path}: {error.message}" for error in errors]
        return
    validate = pytest.importorskip(
        "kubernetes_validate",
        reason="kubernetes-validate, which has the schemas of Kubernetes, is not installed",
    )
    newest = validate.latest_version()
    validate.validate(thing, newest, strict=True)


def operator():
    """The module of the operator that turns its objects into those of Kubernetes."""
    operator_folder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that only the operator uses
        return importlib.import_module("dask_kubernetes.operator.controller.controller")


def made_by_operator(objects, worker="0a1b2c3d4e"):
    """Deployments of scheduler and a worker, and the Service, as the operator makes them."""
    controller = operator()
    cluster = one(objects, "DaskCluster")
    spec = cluster["spec"]
    labels = {role: spec[role]["metadata"]["labels"] for role in ("scheduler", "worker")}
    return {
        "scheduler": controller.build_scheduler_deployment_spec(
            CLUSTER, spec["scheduler"]["spec"], {}, labels["scheduler"]
        ),
        "service": controller.build_scheduler_service_spec(
            CLUSTER, spec["scheduler"]["service"], {}, labels["scheduler"]
        ),
        "worker": controller.build_worker_deployment_spec(
            *(f"{CLUSTER}-default", NAMESPACE, CLUSTER, worker),
            *(spec["worker"]["spec"], {}, labels["worker"]),
        ),
    }


def environment(pod, config_maps):
    """Environment that a kubelet gives to the one container of a pod."""
    (container,) = pod["containers"]
    out = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            out |= config_maps[source["configMapRef"]["name"]]
    for variable in container.get("env", ()):
        if "value" in variable:
            out[variable["name"]] = expanded(variable["value"], out)
        else:
            amount = variable["valueFrom"]["resourceFieldRef"]["resource"].split(".")
            out[variable["name"]] = quantity(container["resources"][amount[0]][amount[1]])
    return out


def command(pod, given):
    """Command line of the one container of a pod, in that environment."""
    (container,) = pod["containers"]
    return [expanded(str(word), given) for word in (*container["command"], *container["args"])]


def expanded(text, given):
    """Text with every $(NAME) of the environment filled in, others as they are."""
    return re.sub(r"\$\((\w+)\)", lambda found: given.get(found[1], found[0]), text)


def quantity(text):
    """Number of cores or bytes of a resource."""
    number, unit = re.fullmatch(r"(\d+)(|Ki|Mi|Gi)", text).groups()
    return str(int(number) * 1024 ** ("", "Ki", "Mi", "Gi").index(unit))
