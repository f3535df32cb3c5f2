"""Format of a checkpoint: files of Zarr nodes, the root, and the chain of rounds.

The root is the file `zarr.json` that identifies the run and the last completed round. The digest of
every round covers the previous digest, so the rounds form a chain. The chain is read up to the
first damaged round.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from zarr.core.buffer.cpu import Buffer
from zarr.storage import MemoryStore

from dhsic._typing import Array
from dhsic.algorithms.state import SelectionState, begin
from dhsic.errors import CheckpointError, StoreError
from dhsic.renamed import RENAMED
from dhsic.sources.chunked import read_array
from dhsic.storage.base import AbstractStore

logger = logging.getLogger("dhsic")

# Plain data, and nodes ---------------------------------------------------------------------

#: Name of the metadata of a group or array.
META = "zarr.json"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} is not plain data")


def plain(value: Any) -> Any:
    """Return a value (dicts, lists, NumPy scalars, ...) in the form in which JSON returns it."""
    return json.loads(json.dumps(value, default=_plain))


def canonical(value: Any) -> str:
    """Serialize plain data as JSON with sorted keys: equal data give equal text."""
    return json.dumps(value, sort_keys=True, default=_plain)


def encode(attributes: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, bytes]:
    """Encode a Zarr group of one-chunk arrays (int64 or float64); return file contents by name.

    Zarr would write the same files, but takes a hundred times as long.
    """
    files = {META: _node("group", plain(attributes))}
    for name, values in arrays.items():
        grid = {"chunk_shape": [max(values.size, 1)]}
        files[f"{name}/{META}"] = _node(
            "array",
            {},
            shape=[values.size],
            data_type=values.dtype.name,
            chunk_grid={"name": "regular", "configuration": grid},
            # These chunk names need one folder less to sync than Zarr's default.
            chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}},
            fill_value=-1 if values.dtype.kind == "i" else "NaN",
            codecs=[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            storage_transformers=[],
        )
        if values.size:
            data = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
            files[f"{name}/0"] = data + google_crc32c.value(data).to_bytes(4, "little")
    return files


def _node(kind: str, attributes: Any, **about: Any) -> bytes:
    """Encode the metadata file of a Zarr node; `about` are further entries of the file."""
    node = {"zarr_format": 3, "node_type": kind, "attributes": attributes, **about}
    return json.dumps(node, indent=1).encode()


def decode(
    files: Mapping[str, bytes], node: str, arrays: Iterable[str] = ()
) -> tuple[dict[str, Any], list[Array]]:
    """Decode the attributes and some arrays of a Zarr node; damaged files raise various errors.

    `files` are file contents by name, `node` is the name of the node, and `arrays` are the names of
    the arrays.
    """
    array_names = list(arrays)
    for meta in (META, *(f"{name}/{META}" for name in array_names)):
        if f"{node}/{meta}" not in files:
            raise FileNotFoundError(f"{meta} does not exist")
    own = {name: files[name] for name in names_of(node, *array_names) if name in files}
    group: Any = zarr.open_group(in_memory(own), path=node, mode="r")
    return dict(group.attrs), [read_array(group[name]) for name in array_names]


def names_of(node: str, *arrays: str) -> list[str]:
    """Return the file names of a Zarr node and its arrays; empty arrays have no file ``0``."""
    parts = [META, *(f"{array}/{part}" for array in arrays for part in (META, "0"))]
    return [f"{node}/{part}" for part in parts]


def in_memory(files: Mapping[str, bytes]) -> MemoryStore:
    """Create a Zarr store in memory from file contents."""
    return MemoryStore({name: Buffer.from_bytes(data) for name, data in files.items()})


def as_bytes(files: Mapping[str, Any]) -> dict[str, bytes]:
    """Convert the contents of a Zarr store in memory to bytes, by file name."""
    return {name: content.to_bytes() for name, content in files.items()}


# Digests -----------------------------------------------------------------------------------


def sha(*parts: str | Array) -> str:
    """Compute the SHA-256 of texts and arrays, in hexadecimal."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part.tobytes())
    return digest.hexdigest()


def digest_of(names: Mapping[str, str], *parts: str | Array) -> str:
    """Compute the digest of a node.

    `parts` are its texts and arrays. `names` contains the digests of further arrays by name.
    """
    return sha(*parts, *([canonical(names)] if names else []))


# The root ----------------------------------------------------------------------------------

#: Version of the format. Since version 2, near-constant features have less weight by default.
FORMAT = 2
ROOT = META
KEY = "dhsic_checkpoint"
REMEDY = "Pass the folder given as checkpoint=, or a new one."
#: Messages for parameters that are stored only as a digest.
DIGESTS = {
    "labels": "the labels differ (y, its covariates, or the selected samples)",
    "values": "values of the data have changed",
}


@dataclass(frozen=True, slots=True)
class Root:
    """Content of the root `zarr.json`; `last_round` is -1 until the first state is stored."""

    identity: Mapping[str, Any]
    job: Any
    last_round: int = -1
    complete: bool = False
    format: int = FORMAT

    def encode(self) -> bytes:
        """Encode the root as file content; a random token makes the content unique."""
        content = {name: getattr(self, name) for name in self.__slots__}
        content["sha256"] = sha(canonical(content))
        return _node("group", {KEY: content, "dhsic_write": secrets.token_hex(8)})

    @classmethod
    def read(cls, store: AbstractStore) -> Root:
        """Read the root of a checkpoint; raise CheckpointError if it is missing or damaged."""
        try:
            data = store.read(ROOT)
        except OSError as error:
            exists = store.is_there()
            why = f"it contains no {ROOT}" if exists else "the folder does not exist"
            raise CheckpointError(
                f"{store.path} is not a dhsic checkpoint: {why}. {REMEDY}"
            ) from error
        return cls.of(data, store.path)

    @classmethod
    def of(cls, data: bytes, path: Path | str) -> Root:
        """Parse the root of the checkpoint at `path`; raise CheckpointError if it is damaged."""
        content = _content(data, path)
        try:
            version = int(content["format"])
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, "it states no format version") from error
        if version > FORMAT:
            raise CheckpointError(
                f"{path} has checkpoint format {version}, but this version of dhsic reads "
                f"formats up to {FORMAT}. Upgrade dhsic, or start again in another folder."
            )
        if version < FORMAT:
            raise CheckpointError(
                f"{path} has checkpoint format {version}, from an earlier dhsic that scaled "
                "features differently, so its rounds cannot be combined with new ones. Start "
                "again in another folder, or resume with that version of dhsic."
            )
        if content.pop("sha256", None) != sha(canonical(content)):
            raise _damaged(path, "its content does not match its sha256")
        return cls(**content)

    def compare(self, given: Mapping[str, Any], path: Path | str) -> None:
        """Raise CheckpointError if the identity `given` differs from the stored run's identity."""
        stored_identity = self.identity
        if stored_identity["source"] != given["source"]:
            raise CheckpointError(
                f"{path} belongs to other data: its values, names, shape or chunks differ from "
                "those of this source. Pass the same data, or another folder."
            )
        if differ := _differences(stored_identity["parameters"], given["parameters"]):
            raise CheckpointError(
                f"{path} belongs to a run with other parameters: {differ}. Pass the same "
                "parameters, or another folder."
            )
        if differ := _differences(stored_identity["versions"], given["versions"]):
            raise CheckpointError(
                f"{path} was created with other versions: {differ}. Scores are rounded "
                "differently between versions, so resume with those versions, or start again in "
                "another folder."
            )


def _content(data: bytes, path: Path | str) -> dict[str, Any]:
    """Parse the root file, and return the attribute that contains dhsic's data.

    Raises
    ------
    CheckpointError
        The file is damaged, or is not the root of a checkpoint.
    """
    try:
        node = json.loads(data)
    except ValueError as error:
        raise _damaged(path, "it is not valid JSON") from error
    if not isinstance(node, dict) or not isinstance(node.get("attributes"), dict | None):
        raise _damaged(path, "it does not describe a Zarr node")
    content = (node.get("attributes") or {}).get(KEY)
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{path} is not a dhsic checkpoint, but a Zarr store with other content. {REMEDY}"
        )
    return content


def _damaged(path: Path | str, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path}/{ROOT} is damaged: {why}. Restore it from a copy, or start again in "
        "another folder."
    )


def _differences(kept: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    def shown(values: Mapping[str, Any], name: str) -> str:
        return canonical(values[name]) if name in values else "absent"

    return "; ".join(
        DIGESTS.get(name)
        or f"{' or '.join(RENAMED.get(name, (name,)))} is {shown(kept, name)} in the checkpoint "
        f"and {shown(given, name)} here"
        for name in sorted({*kept, *given})
        if shown(kept, name) != shown(given, name)
    )


# The chain of rounds -----------------------------------------------------------------------

START = "start"
#: Name of the array of checksums, one per feature of the data, in the start node.
CHECKSUMS = "checksums"
#: Name of the array of the scores of all candidates in the first round; it is never deleted.
FIRST_SCORES = "first_scores"


def name_of(number: int) -> str:
    """Return the name of the Zarr node of a round."""
    return f"rounds/{number:06d}"


@dataclass(frozen=True, slots=True)
class Round:
    """Stored round: the state after the round, the round's digest, and its arrays.

    `names` contains the digest of each array, by name.
    """

    state: SelectionState
    digest: str
    names: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


def recover(store: AbstractStore, root: Root) -> Round | None:
    """Return the last round that can be resumed; neither it nor earlier rounds are damaged.

    The result is None if the state before the first round is not stored yet.
    """
    if root.last_round < 0:
        return None
    numbers = range(1, root.last_round + 1)
    names = (names_of(name_of(number), "features", "scores") for number in numbers)
    # One request for all files, because remote stores have a high latency.
    files = store.read_all([*names_of(START, "features"), *chain.from_iterable(names)])
    first = before = last = opening = _read_start(files, store)
    for number in numbers:
        try:
            before, last = last, _read_round(files, number, last)
            opening = last if number == 1 else opening
        except Exception as error:  # damaged bytes can raise any error
            _warn(store, root, number, error, number - 1)
            break
    for round_kept, n_valid in ((last, before.state.round), (before, 0)):
        try:
            arrays = _arrays(store, name_of(round_kept.state.round), round_kept.names)
            return replace(round_kept, arrays={**_first_scores(store, opening), **arrays})
        except StoreError:
            raise
        except Exception as error:  # as above
            _warn(store, root, round_kept.state.round, error, n_valid)
    return first


def _warn(store: AbstractStore, root: Root, number: int, error: Exception, left: int) -> None:
    reason = f"{type(error).__name__}: {error}"
    logger.warning(
        "%s: round %d of %d is damaged (%s). Resuming from round %d.",
        *(store.path, number, root.last_round, reason, left),
    )


def _read_start(files: Mapping[str, bytes], store: AbstractStore) -> Round:
    try:
        attributes, (start,) = decode(files, START, ["features"])
        digest = digest_of(attributes.get("arrays", {}), START, start)
        reason = "" if attributes["sha256"] == digest else "it does not match its sha256"
    except Exception as error:  # as above
        reason = f"{type(error).__name__}: {error}"
    if reason:
        raise CheckpointError(
            f"No round in {store.path} can be used, because its list of features is damaged "
            f"({reason}). Restore the folder from a copy, or start again in another folder."
        )
    return Round(begin(start), digest)


def _read_round(files: Mapping[str, bytes], number: int, previous: Round) -> Round:
    attributes, (features, scores) = decode(files, name_of(number), ["features", "scores"])
    record, names = attributes["history"], attributes.get("arrays", {})
    digest = digest_of(names, previous.digest, canonical(record), features, scores)
    if (attributes["round"], attributes["sha256"]) != (number, digest):
        raise ValueError("it does not match its sha256, or does not follow from the previous round")
    return Round(previous.state.after(features, scores, record), digest, names)


def _arrays(store: AbstractStore, node: str, digests: Mapping[str, str]) -> dict[str, Array]:
    """Read the arrays of a node that `digests` names, and compare each with its digest."""
    if not digests:
        return {}
    if not all(name.isidentifier() for name in digests):
        raise ValueError("it lists arrays that no run writes")
    _, decoded = decode(store.read_all(names_of(node, *digests)), node, digests)
    arrays = dict(zip(digests, decoded, strict=True))
    differ = [name for name, values in arrays.items() if sha(values) != digests[name]]
    if differ:
        raise ValueError(f"{differ[0]} does not match its sha256")
    return arrays


def _first_scores(store: AbstractStore, opening: Round) -> dict[str, Array]:
    """Read the scores of the first round; warn and return {} if they are damaged."""
    names = {name: sha for name, sha in opening.names.items() if name == FIRST_SCORES}
    try:
        return _arrays(store, name_of(1), names)
    except StoreError:
        raise
    except Exception as error:  # as above
        reason = f"{type(error).__name__}: {error}"
        logger.warning("%s: scores of the first round are damaged (%s).", store.path, reason)
        return {}


def read_checksums(store: AbstractStore) -> Array | None:
    """Read the checksums of the data from the node `start`; return None if it has none."""
    try:
        attributes, _ = decode(store.read_all(names_of(START)), START)
        return _arrays(store, START, attributes.get("arrays", {})).get(CHECKSUMS)
    except StoreError:
        raise
    except Exception as error:  # as above
        raise CheckpointError(
            f"The data checksums in {store.path} are damaged ({type(error).__name__}: {error}), "
            "so it cannot be checked whether the data are the same. Restore the folder from a "
            "copy, or start again in another folder."
        ) from error
