"""The rounds of a checkpoint, read as a chain that ends where something is damaged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dhsic._typing import Array, Float, Index
from dhsic.checkpoint.digests import sha
from dhsic.checkpoint.root import Root
from dhsic.durable import canonical, read_node
from dhsic.errors import CheckpointError
from dhsic.selection.state import SelectionState, begin

logger = logging.getLogger("dhsic")


def round_folder(path: Path, number: int) -> Path:
    """Where a round lies."""
    return path / "rounds" / f"{number:06d}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A round as it was read: the state after it, the digest it ends with, the arrays it names."""

    state: SelectionState
    digest: str
    names: Mapping[str, str]
    arrays: Mapping[str, Array]


def recover(path: Path, root: Root) -> Kept | None:
    """Return the last round that is whole and whose whole chain of rounds is valid."""
    if root.last_round < 0:
        return None
    start, digest = _read_start(path)
    first = before = last = Kept(begin(start), digest, {}, {})
    for number in range(1, root.last_round + 1):
        try:
            before, last = last, _read_round(path, number, last)
        except Exception as error:  # damage shows in as many ways as there are bytes
            _warn(path, root, number, error, number - 1)
            break
    for kept, left in ((last, before.state.round), (before, 0)):
        try:
            return replace(kept, arrays=_read_arrays(path, kept))
        except Exception as error:  # as above
            _warn(path, root, kept.state.round, error, left)
    return first


def _warn(path: Path, root: Root, number: int, error: Exception, left: int) -> None:
    reason = f"{type(error).__name__}: {error}"
    logger.warning(
        "%s: round %d of %d is damaged (%s). Going on from round %d.",
        *(path, number, root.last_round, reason, left),
    )


def _read_start(path: Path) -> tuple[Index, str]:
    try:
        attributes, (start,) = read_node(path / "start", "features")
        intact = attributes["sha256"] == sha("start", start)
        reason = "" if intact else "its sha256 differs"
    except Exception as error:  # as above
        intact, reason = False, f"{type(error).__name__}: {error}"
    if not intact:
        raise CheckpointError(
            f"Nothing valid is left in {path}: its list of features is damaged ({reason}). "
            "Restore the folder from a copy, or start again in another one."
        )
    return start, sha("start", start)


def _read_round(path: Path, number: int, previous: Kept) -> Kept:
    attributes, (features, scores) = read_node(round_folder(path, number), "features", "scores")
    record, names = attributes["history"], attributes.get("arrays", {})
    digest = digest_of(previous.digest, record, names, features, scores)
    if (attributes["round"], attributes["sha256"]) != (number, digest):
        raise ValueError("its sha256 differs, or it does not follow from the round before")
    return Kept(previous.state.after(features, scores, record), digest, names, {})


def _read_arrays(path: Path, kept: Kept) -> dict[str, Array]:
    """Return the arrays that a round names."""
    if not kept.names:
        return {}
    _, found = read_node(round_folder(path, kept.state.round), *kept.names)
    arrays = dict(zip(kept.names, found, strict=True))
    differ = [name for name, values in arrays.items() if sha(values) != kept.names[name]]
    if differ:
        raise ValueError(f"the sha256 of {differ[0]} differs")
    return arrays


def digest_of(
    previous: str, record: Any, names: Mapping[str, str], features: Index, scores: Float
) -> str:
    """Digest of a round, which covers the one before and, by their digests, its arrays."""
    more = [canonical(names)] if names else []
    return sha(previous, canonical(record), features, scores, *more)
