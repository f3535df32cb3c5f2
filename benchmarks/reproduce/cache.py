"""Results on disk, a file each, so that a run that was killed goes on where it was.

A result is filed under its key (checksum of the data, method with its parameters, samples of the
fold) and counts for the versions it was made with: another version replaces it.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import measuring
import numpy as np

#: Parts of dhsic that no ranking depends on.
EDGES = ("cli", "detached", "plans", "storage", "runtime", "simulation")


@dataclass(frozen=True)
class Cache:
    """Folder of results.

    `stale` takes results of other versions too, where there are no others. `versions` has the
    versions of each package with which the results were made that were read.
    """

    folder: Path
    stale: bool = False
    versions: dict[str, set[str]] = field(default_factory=dict)

    def read(self, key, versions):
        """Result of a key; None where there is none, or only one of other versions."""
        try:
            kept = json.loads(self._path(key).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        if not self.stale and kept["versions"] != versions:
            return None
        for package, version in kept["versions"].items():
            self.versions.setdefault(package, set()).add(version.split()[0])
        return kept["result"]

    def write(self, key, versions, result):
        """File a result, aside first: one that is there is whole."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}.partial")
        aside.write_text(json.dumps({"key": key, "versions": versions, "result": result}))
        aside.replace(path)

    def _path(self, key):
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:34]}.json"


def checksum(*arrays):
    """Of values, types and shapes."""
    found = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:32]


@cache
def version_of(package):
    """Version of a package; for dhsic, which changes without one, a checksum of its code too."""
    found = measuring.version_of(package) or "none"
    return f"{found} {_code_of_dhsic()}" if package == "dhsic" else found


def _code_of_dhsic():
    import dhsic

    root, found = Path(dhsic.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in EDGES:
            found.update(path.read_bytes())
    return found.hexdigest()[:12]
