"""The rounds of a checkpoint, read as a chain that ends where something is damaged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dhsic._typing import Array, Float, Index
from dhsic.checkpoint.digests import sha
from dhsic.checkpoint.root import Root
from dhsic.durable.base import AbstractPlace
from dhsic.durable.nodes import META, decode, names_of
from dhsic.durable.plain import canonical
from dhsic.errors import CheckpointError, StoreError
from dhsic.selection.state import SelectionState, begin

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
