"""A Kubernetes that is there already, driven by `kubectl` from outside its pods."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

import yaml


def until(condition: Callable[[], object], seconds: float, what: str, pause: float = 0.2) -> float:
    """Wait for a condition; return the seconds it took, or fail with what was waited for."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
    return time.monotonic() - began


class Kubectl:
    """The commands of kubectl in one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def __call__(self, *words: object, given: str | None = None, seconds: float = 120) -> str:
        """What a command prints; an error with what it said if it fails."""
        done = self._run(words, given, seconds)
        if done.returncode != 0:
            said = (done.stderr + done.stdout).decode(errors="replace")
            raise AssertionError(f"kubectl {' '.join(map(str, words))}: {said}")
        return done.stdout.decode()

    def _run(self, words: tuple[object, ...], given: str | None, seconds: float) -> Any:
        return subprocess.run(
            ["kubectl", "-n", self.namespace, *map(str, words)],
            input=None if given is None else given.encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )

    def holds(self, *words: object) -> bool:
        """Whether a command ends well."""
        return self._run(words, None, 120).returncode == 0

    def version(self) -> tuple[int, int]:
        """Version of the API server."""
        said = json.loads(self("version", "-o", "json"))["serverVersion"]
        return int(said["major"]), int(re.match(r"\d+", said["minor"])[0])

    def read(self, kind: str, *words: object) -> list[dict[str, Any]]:
        """Objects of a kind."""
        return json.loads(self("get", kind, *words, "-o", "json"))["items"]

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self("apply", "-f", "-", given=yaml.safe_dump_all(objects))

    def is_ready(self, pod: dict[str, Any]) -> bool:
        """Whether the pod runs, is ready and is not about to go."""
        conditions = pod["status"].get("conditions", ())
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return ready and "deletionTimestamp" not in pod["metadata"]

    def pods(self, label: str) -> list[dict[str, Any]]:
        """Pods of a label, the oldest first."""
        found = self.read("pods", "-l", label)
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def ready(self, label: str) -> list[str]:
        """Names of the pods of a label that are ready."""
        return [pod["metadata"]["name"] for pod in self.pods(label) if self.is_ready(pod)]

    def python(self, pod: str, script: str, seconds: float = 120) -> bytes:
        """What a script of Python prints in a pod."""
        done = self._run(("exec", pod, "--", "python3", "-c", script), None, seconds)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def run(self, pod: str, *words: object, seconds: float = 900) -> str:
        """What a command prints in a pod."""
        return self("exec", pod, "--", *words, seconds=seconds)
