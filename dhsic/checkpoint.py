"""A checkpoint: the state of a run after any round, kept so that any death loses one round.

It is a plain Zarr v3 group on a local or mounted file system, with a single writer::

    run.dhsic/
      zarr.json       identity of the run, number of the last round; replaced atomically, last
      start/          features: S before the first round
      rounds/000001/  features, scores: what left in that round; its record in the attributes
      lock            held by the process that writes

A round is written once, made durable, and counts only when the root says so. Every digest covers
the one before it, so rounds are read as a chain that ends where something is damaged.

A method that needs more than what left in each round (weights, say) keeps arrays with it; they are
whole in themselves, so those of the last two rounds stay and the others are removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from dhsic._typing import Array, Float, Index
from dhsic.durable import (
    WriterLock,
    aside,
    canonical,
    check_place,
    plain,
    read_node,
    switch,
    write_node,
)
from dhsic.errors import CheckpointError, DataError, InputError
from dhsic.selection.state import SelectionState, begin

FORMAT = 1
ROOT = "zarr.json"
KEY = "dhsic_checkpoint"
#: Parameters that are kept as a digest, which tells nobody anything: what to say of them.
DIGESTS = {"labels": "the labels differ (y, its covariates, or which samples take part)"}

logger = logging.getLogger("dhsic")


def _sha(*parts: str | Array) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.encode() if isinstance(part, str) else part.tobytes())
    return sha.hexdigest()


@dataclass(frozen=True, slots=True)
class _Root:
    """What `zarr.json` of the root says; `last_round` is -1 before the start is stored."""

    identity: Mapping[str, Any]
    job: Any
    last_round: int = -1
    complete: bool = False
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        content = {name: getattr(self, name) for name in self.__slots__}
        content["sha256"] = _sha(canonical(content))
        node = {"zarr_format": 3, "node_type": "group", "attributes": {KEY: content}}
        switch(folder / ROOT, json.dumps(node, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> _Root:
        content = _content(folder)
        try:
            version = int(content["format"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(_damaged_root(folder, "it names no format")) from error
        if version > FORMAT:
            raise CheckpointError(
                f"{folder} has checkpoint format {version}, and this dhsic knows formats up to "
                f"{FORMAT}. Upgrade dhsic, or start again in another folder."
            )
        if content.pop("sha256", None) != _sha(canonical(content)):
            raise CheckpointError(_damaged_root(folder, "its content and its sha256 differ"))
        return cls(**content)


def _content(folder: Path) -> dict[str, Any]:
    """What the root of a checkpoint holds for us; a sentence where it is none."""
    remedy = "Pass the folder given as checkpoint=, or a new one."
    try:
        node = json.loads((folder / ROOT).read_bytes())
    except OSError as error:
        why = f"there is no {ROOT} in it" if folder.is_dir() else "there is no such folder"
        raise CheckpointError(f"{folder} is not a dhsic checkpoint: {why}. {remedy}") from error
    except ValueError as error:
        raise CheckpointError(_damaged_root(folder, "it is no JSON")) from error
    if not isinstance(node, dict) or not isinstance(node.get("attributes"), dict | None):
        raise CheckpointError(_damaged_root(folder, "it describes no Zarr node"))
    content = (node.get("attributes") or {}).get(KEY)
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{folder} is not a dhsic checkpoint: it is a Zarr store of something else. {remedy}"
        )
    return content


def _damaged_root(folder: Path, why: str) -> str:
    return (
        f"{folder / ROOT} is damaged: {why}. Restore it from a copy, or start again in another "
        "folder."
    )


class Checkpoint:
    """The kept state of one run.

    Parameters
    ----------
    path : path
        Folder on a file system; made by `begin` where it is not there, and the one that it is in,
        if the one above that is there.

    Examples
    --------
    >>> import tempfile
    >>> from dhsic.selection.state import begin
    >>> identity = {"source": "5f3a", "parameters": {"step": 0.1}, "versions": {}, "job": None}
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Checkpoint(folder.name) as checkpoint:
    ...     checkpoint.begin(identity)
    ...     checkpoint.start(begin(np.arange(4)))
    >>> Checkpoint(folder.name).load().survivors
    array([0, 1, 2, 3])
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        _check_path(path)
        if "://" in str(path):
            raise CheckpointError(
                f"checkpoint={str(path)!r} is not a folder. A checkpoint needs atomic renames; "
                "pass a folder on a local or mounted file system."
            )
        self.path = Path(path)
        self._is_own = False  # `begin` made the folder
        self._is_new = False  # `begin` found no run in it
        self._lock = WriterLock(self.path)
        self._root: _Root | None = None
        self._digest = ""  # of the last round, which the next one covers
        #: What `save` was given besides the state in the round that `begin` returned.
        self.arrays: Mapping[str, Array] = {}

    def begin(self, identity: Mapping[str, Any]) -> SelectionState | None:
        """Take the checkpoint for writing; return where its run stopped, None for a new one.

        Parameters
        ----------
        identity : mapping
            ``source`` (fingerprint), ``parameters`` and ``versions`` (mappings) must be those of
            the run that made the checkpoint; ``job`` is kept for `job` and not compared.

        Raises
        ------
        CheckpointError
            The folder is something else, belongs to another run, has a writer, or is damaged.
        """
        self._make_folder()
        self._lock.take()
        try:
            return self._open(plain(dict(identity)))
        except BaseException:
            self._lock.release()
            raise

    def _make_folder(self) -> None:
        """Make the folder where there is none; refuse one that holds something else."""
        check_place(self.path, "The checkpoint", CheckpointError)
        self._is_own = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} is, or is in, a file. Pass a new folder."
            ) from error
        if (self.path / ROOT).exists():
            return
        own = {self._lock.path.name, aside(self.path / ROOT).name}
        others = sorted({p.name for p in self.path.iterdir()} - own)
        if others:
            raise CheckpointError(
                f"{self.path} holds other things ({', '.join(others[:3])}) and is not a dhsic "
                "checkpoint. Pass a new or an empty folder."
            )

    def _discard(self) -> None:
        """Remove what was written for a run that was refused before its first round."""
        for name in ("start", "rounds"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        for path in (self.path / ROOT, aside(self.path / ROOT), self._lock.path):
            path.unlink(missing_ok=True)
        if self._is_own and not any(self.path.iterdir()):
            self.path.rmdir()

    def _open(self, identity: dict[str, Any]) -> SelectionState | None:
        job = identity.pop("job", None)
        if not (self.path / ROOT).exists():
            self._is_new = True
            self._root = _Root(identity, job)
            self._root.write(self.path)
            return None
        self._root = _Root.read(self.path)
        _compare(self.path, self._root.identity, identity)
        recovered = _recover(self.path, self._root)
        if recovered is None:
            return None
        self._digest, self.arrays = recovered.digest, recovered.arrays
        self._root = replace(self._root, last_round=recovered.state.round)
        return recovered.state

    def start(self, state: SelectionState) -> None:
        """Keep the state before the first round."""
        features = state.survivors.astype(np.int64)
        digest = _sha("start", features)
        write_node(self.path / "rounds", {}, {})
        write_node(self.path / "start", {"sha256": digest}, {"features": features})
        self._kept(state, digest)

    def save(self, state: SelectionState, arrays: Mapping[str, Array] | None = None) -> None:
        """Keep a round: what left in it is written, then the root is switched to it.

        Parameters
        ----------
        arrays : mapping, optional
            More that the next round needs, name to one-dimensional array of int64 or float64.
        """
        root = self._writable()
        if state.round != root.last_round + 1:
            raise CheckpointError(
                f"{self.path} holds round {root.last_round} and was given round {state.round}. "
                "Keep every round once, in order, from the state that begin() returned."
            )
        new = state.removed_in == state.round
        features = state.eliminated[new].astype(np.int64)
        scores = state.scores[new].astype(np.float64)
        record = plain(state.history[-1])
        more = {name: _sha(values) for name, values in (arrays or {}).items()}
        digest = _digest_of(self._digest, record, more, features, scores)
        write_node(
            _round_folder(self.path, state.round),
            {"round": state.round, "history": record, "arrays": more, "sha256": digest},
            {"features": features, "scores": scores, **(arrays or {})},
        )
        self._kept(state, digest)
        for name in more:
            shutil.rmtree(_round_folder(self.path, state.round - 2) / name, ignore_errors=True)

    def _kept(self, state: SelectionState, digest: str) -> None:
        self._root = replace(self._writable(), last_round=state.round, complete=False)
        self._root.write(self.path)
        self._digest = digest

    def finish(self) -> None:
        """Mark the run as complete."""
        self._root = replace(self._writable(), complete=True)
        self._root.write(self.path)

    def load(self) -> SelectionState | None:
        """Return the last valid state without taking the checkpoint; None before the start."""
        recovered = _recover(self.path, _Root.read(self.path))
        return None if recovered is None else recovered.state

    def job(self) -> Any:
        """Return what was given as ``identity["job"]``: what a resumed command starts from."""
        return _Root.read(self.path).job

    def is_complete(self) -> bool:
        """Return whether the run that is kept here has ended."""
        return _Root.read(self.path).complete

    def _writable(self) -> _Root:
        if self._root is None or not self._lock.held:
            raise CheckpointError(f"{self.path} is not open for writing. Call begin() first.")
        return self._root

    def close(self) -> None:
        """Let another process write."""
        self._lock.release()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        refused = isinstance(error, InputError | DataError)  # the caller mends it: another run
        if refused and self._is_new and self._root is not None and self._root.last_round <= 0:
            self._discard()
        self.close()


def _check_path(path: Any) -> None:
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise CheckpointError(
            f"checkpoint={path!r} is no path. Pass the name of a folder, such as 'run.dhsic'."
        )


def _round_folder(path: Path, number: int) -> Path:
    return path / "rounds" / f"{number:06d}"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A round as it was read: the state after it, the digest it ends with, the arrays it names."""

    state: SelectionState
    digest: str
    names: Mapping[str, str]
    arrays: Mapping[str, Array]


def _recover(path: Path, root: _Root) -> _Kept | None:
    """Return the last round that is whole and whose whole chain of rounds is valid."""
    if root.last_round < 0:
        return None
    start, digest = _read_start(path)
    first = before = last = _Kept(begin(start), digest, {}, {})
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


def _warn(path: Path, root: _Root, number: int, error: Exception, left: int) -> None:
    reason = f"{type(error).__name__}: {error}"
    logger.warning(
        "%s: round %d of %d is damaged (%s). Going on from round %d.",
        *(path, number, root.last_round, reason, left),
    )


def _read_start(path: Path) -> tuple[Index, str]:
    try:
        attributes, (start,) = read_node(path / "start", "features")
        intact = attributes["sha256"] == _sha("start", start)
        reason = "" if intact else "its sha256 differs"
    except Exception as error:  # as above
        intact, reason = False, f"{type(error).__name__}: {error}"
    if not intact:
        raise CheckpointError(
            f"Nothing valid is left in {path}: its list of features is damaged ({reason}). "
            "Restore the folder from a copy, or start again in another one."
        )
    return start, _sha("start", start)


def _read_round(path: Path, number: int, previous: _Kept) -> _Kept:
    attributes, (features, scores) = read_node(_round_folder(path, number), "features", "scores")
    record, names = attributes["history"], attributes.get("arrays", {})
    digest = _digest_of(previous.digest, record, names, features, scores)
    if (attributes["round"], attributes["sha256"]) != (number, digest):
        raise ValueError("its sha256 differs, or it does not follow from the round before")
    return _Kept(previous.state.after(features, scores, record), digest, names, {})


def _read_arrays(path: Path, kept: _Kept) -> dict[str, Array]:
    """Return the arrays that a round names."""
    if not kept.names:
        return {}
    _, found = read_node(_round_folder(path, kept.state.round), *kept.names)
    arrays = dict(zip(kept.names, found, strict=True))
    differ = [name for name, values in arrays.items() if _sha(values) != kept.names[name]]
    if differ:
        raise ValueError(f"the sha256 of {differ[0]} differs")
    return arrays


def _digest_of(
    previous: str, record: Any, names: Mapping[str, str], features: Index, scores: Float
) -> str:
    """Digest of a round, which covers the one before and, by their digests, its arrays."""
    more = [canonical(names)] if names else []
    return _sha(previous, canonical(record), features, scores, *more)


def _compare(path: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
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


def _differences(kept: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    def shown(values: Mapping[str, Any], name: str) -> str:
        return canonical(values[name]) if name in values else "absent"

    return "; ".join(
        DIGESTS.get(name) or f"{name} is {shown(kept, name)} there and {shown(given, name)} here"
        for name in sorted({*kept, *given})
        if shown(kept, name) != shown(given, name)
    )
