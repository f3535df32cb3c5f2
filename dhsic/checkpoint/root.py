"""The root of a checkpoint: whose run it is, and which round is the last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dhsic._typing import Array, Index
from dhsic.checkpoint.digests import sha
from dhsic.durable.base import AbstractFenced, AbstractPlace
from dhsic.durable.plain import canonical
from dhsic.errors import CheckpointError
from dhsic.sources.checksums import named

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
