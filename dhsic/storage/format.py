"""The root of a checkpoint: whose run it is, and which round is the last.

The rounds of a checkpoint, read as a chain that ends where something is damaged.

Digests, against damage.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.algorithms.state import SelectionState, begin
from dhsic.errors import CheckpointError, StoreError
from dhsic.sources.views import named
from dhsic.storage.nodes import META, canonical, decode, names_of
from dhsic.storage.place import AbstractFenced, AbstractPlace


def sha(*parts: str | Array) -> str:
    """Digest of texts and arrays, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part.tobytes())
    return digest.hexdigest()


FORMAT = 1
ROOT = "zarr.json"
KEY = "dhsic_checkpoint"
REMEDY = "Pass the folder given as checkpoint=, or a new one."
#: Parameters that are kept as a digest, which tells nobody anything: what to say of them.
DIGESTS = {"labels": "the labels differ (y, its covariates, or which samples take part)"}


@dataclass(frozen=True, slots=True)
class Root:
    """What `zarr.json` of the root says; `last_round` is -1 before the start is stored."""

    identity: Mapping[str, Any]
    job: Any
    last_round: int = -1
    complete: bool = False
    format: int = FORMAT

    def write(self, kept: AbstractFenced) -> None:
        """Replace what is there."""
        content = {name: getattr(self, name) for name in self.__slots__}
        content["sha256"] = sha(canonical(content))
        attributes = {KEY: content, **kept.mark()}
        node = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        kept.write(json.dumps(node, indent=1).encode())

    @classmethod
    def read(cls, place: AbstractPlace) -> Root:
        """Root of a checkpoint; a sentence where it is damaged or there is none."""
        try:
            data = place.read(ROOT)
        except OSError as error:
            there = place.is_there()
            why = f"there is no {ROOT} in it" if there else "there is no such folder"
            raise CheckpointError(
                f"{place.path} is not a dhsic checkpoint: {why}. {REMEDY}"
            ) from error
        return cls.of(data, place)

    @classmethod
    def of(cls, data: bytes, place: AbstractPlace) -> Root:
        """Root of what was read of a checkpoint."""
        content = _content(data, place)
        try:
            version = int(content["format"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(_damaged(place, "it names no format")) from error
        if version > FORMAT:
            raise CheckpointError(
                f"{place.path} has checkpoint format {version}, and this dhsic knows formats up "
                f"to {FORMAT}. Upgrade dhsic, or start again in another folder."
            )
        if content.pop("sha256", None) != sha(canonical(content)):
            raise CheckpointError(_damaged(place, "its content and its sha256 differ"))
        return cls(**content)


def _content(data: bytes, place: AbstractPlace) -> dict[str, Any]:
    """What the root of a checkpoint holds for us; a sentence where it is none."""
    try:
        node = json.loads(data)
    except ValueError as error:
        raise CheckpointError(_damaged(place, "it is no JSON")) from error
    if not isinstance(node, dict) or not isinstance(node.get("attributes"), dict | None):
        raise CheckpointError(_damaged(place, "it describes no Zarr node"))
    content = (node.get("attributes") or {}).get(KEY)
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{place.path} is not a dhsic checkpoint: it is a Zarr store of something else. "
            f"{REMEDY}"
        )
    return content


def _damaged(place: AbstractPlace, why: str) -> str:
    return (
        f"{place.path}/{ROOT} is damaged: {why}. Restore it from a copy, or start again in "
        "another folder."
    )


def compare(path: Path | str, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with another run than the one that is kept."""
    if kept["source"] != given["source"]:
        raise CheckpointError(
            f"{path} belongs to other data: values, names, shape or chunks are not those of this "
            "source. Pass the same data, or another folder."
        )
    differ = _differences(kept["parameters"], given["parameters"])
    if differ:
        raise CheckpointError(
            f"{path} belongs to a run with other parameters: {differ}. Pass those, or another "
            "folder."
        )
    differ = _differences(kept["versions"], given["versions"])
    if differ:
        raise CheckpointError(
            f"{path} was begun with other versions: {differ}. Scores round differently between "
            "versions; finish it with those, or start again in another folder."
        )


def compare_data(path: Path | str, kept: Array | None, given: Array) -> None:
    """Refuse to go on with data that changed; by checksums of all features, where they are kept."""
    if kept is None:
        return
    changed: Index = np.flatnonzero(kept != given)
    if changed.size:
        raise CheckpointError(
            f"{path} belongs to other data: of {len(given)} features the values of "
            f"{named(changed)} changed since the run began. Put them back, or start again in "
            "another folder."
        )


def _differences(kept: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    def shown(values: Mapping[str, Any], name: str) -> str:
        return canonical(values[name]) if name in values else "absent"

    return "; ".join(
        DIGESTS.get(name) or f"{name} is {shown(kept, name)} there and {shown(given, name)} here"
        for name in sorted({*kept, *given})
        if shown(kept, name) != shown(given, name)
    )


logger = logging.getLogger("dhsic")

#: Array of the start with a checksum for each feature of the data.
CHECKSUMS = "checksums"


def name_of(number: int) -> str:
    """Where a round lies."""
    return f"rounds/{number:06d}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A round as it was read: the state after it, the digest it ends with, the arrays it names."""

    state: SelectionState
    digest: str
    names: Mapping[str, str]
    arrays: Mapping[str, Array]


def recover(place: AbstractPlace, root: Root) -> Kept | None:
    """Return the last round that is whole and whose whole chain of rounds is valid."""
    if root.last_round < 0:
        return None
    nodes = _Nodes.of(place, root.last_round)
    start, digest = _read_start(nodes)
    first = before = last = Kept(begin(start), digest, {}, {})
    for number in range(1, root.last_round + 1):
        try:
            before, last = last, _read_round(nodes, number, last)
        except Exception as error:  # damage shows in as many ways as there are bytes
            _warn(place, root, number, error, number - 1)
            break
    for kept, left in ((last, before.state.round), (before, 0)):
        try:
            return replace(kept, arrays=_read_arrays(place, kept))
        except StoreError:
            raise
        except Exception as error:  # as above
            _warn(place, root, kept.state.round, error, left)
    return first


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The files of the start and of all rounds, read at once: a store far away takes its time."""

    place: AbstractPlace
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, place: AbstractPlace, last_round: int) -> _Nodes:
        names = [f"start/{part}" for part in names_of("features")]
        parts = names_of("features", "scores")
        for number in range(1, last_round + 1):
            names += [f"{name_of(number)}/{part}" for part in parts]
        return cls(place, place.read_all(names))

    def read(self, name: str, *arrays: str) -> tuple[dict[str, Any], list[Array]]:
        """Attributes of a node, and arrays in it."""
        files = {part: self.files.get(f"{name}/{part}") for part in names_of(*arrays)}
        return decode({part: data for part, data in files.items() if data is not None}, *arrays)


def _warn(place: AbstractPlace, root: Root, number: int, error: Exception, left: int) -> None:
    reason = f"{type(error).__name__}: {error}"
    logger.warning(
        "%s: round %d of %d is damaged (%s). Going on from round %d.",
        *(place.path, number, root.last_round, reason, left),
    )


def _read_start(nodes: _Nodes) -> tuple[Index, str]:
    try:
        attributes, (start,) = nodes.read("start", "features")
        digest = start_digest(start, attributes.get("arrays", {}))
        intact = attributes["sha256"] == digest
        reason = "" if intact else "its sha256 differs"
    except Exception as error:  # as above
        intact, reason = False, f"{type(error).__name__}: {error}"
    if not intact:
        raise CheckpointError(
            f"Nothing valid is left in {nodes.place.path}: its list of features is damaged "
            f"({reason}). Restore the folder from a copy, or start again in another one."
        )
    return start, digest


def _read_round(nodes: _Nodes, number: int, previous: Kept) -> Kept:
    attributes, (features, scores) = nodes.read(name_of(number), "features", "scores")
    record, names = attributes["history"], attributes.get("arrays", {})
    digest = digest_of(previous.digest, record, names, features, scores)
    if (attributes["round"], attributes["sha256"]) != (number, digest):
        raise ValueError("its sha256 differs, or it does not follow from the round before")
    return Kept(previous.state.after(features, scores, record), digest, names, {})


def _read_arrays(place: AbstractPlace, kept: Kept) -> dict[str, Array]:
    """Return the arrays that a round names."""
    return _named_arrays(place, name_of(kept.state.round), kept.names)


def _named_arrays(place: AbstractPlace, node: str, digests: Mapping[str, str]) -> dict[str, Array]:
    """Return arrays of a node, each by its name, to which it has a digest."""
    if not digests:
        return {}
    if not all(name.isidentifier() for name in digests):
        raise ValueError("it names arrays that no run has")
    files = place.read_all(f"{node}/{part}" for part in names_of(*digests))
    _, found = decode({n.removeprefix(f"{node}/"): data for n, data in files.items()}, *digests)
    arrays = dict(zip(digests, found, strict=True))
    differ = [name for name, values in arrays.items() if sha(values) != digests[name]]
    if differ:
        raise ValueError(f"the sha256 of {differ[0]} differs")
    return arrays


def read_checksums(place: AbstractPlace) -> Array | None:
    """Return the checksums of the data that the start holds; None of one that was given none."""
    try:
        attributes, _ = decode({META: place.read(f"start/{META}")})
        return _named_arrays(place, "start", attributes.get("arrays", {})).get(CHECKSUMS)
    except StoreError:
        raise
    except Exception as error:  # as above
        raise CheckpointError(
            f"The checksums of the data in {place.path} are damaged ({type(error).__name__}: "
            f"{error}), so nothing tells whether the data are the same. Restore the folder from a "
            "copy, or start again in another one."
        ) from error


def start_digest(features: Index, names: Mapping[str, str]) -> str:
    """Digest of the start, which covers, by their digests, its arrays."""
    return sha("start", features, *([canonical(names)] if names else []))


def digest_of(
    previous: str, record: Any, names: Mapping[str, str], features: Index, scores: Float
) -> str:
    """Digest of a round, which covers the one before and, by their digests, its arrays."""
    more = [canonical(names)] if names else []
    return sha(previous, canonical(record), features, scores, *more)
