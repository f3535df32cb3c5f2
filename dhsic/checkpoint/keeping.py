"""`Checkpoint`: a run takes its folder, keeps every round, and goes on from the last."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.checkpoint.digests import sha
from dhsic.checkpoint.root import ROOT, Root, compare
from dhsic.checkpoint.rounds import digest_of, recover, round_folder
from dhsic.durable import WriterLock, aside, check_place, plain, write_node
from dhsic.errors import CheckpointError, DataError, InputError
from dhsic.selection.state import SelectionState


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
        self._root: Root | None = None
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
            self._root = Root(identity, job)
            self._root.write(self.path)
            return None
        self._root = Root.read(self.path)
        compare(self.path, self._root.identity, identity)
        recovered = recover(self.path, self._root)
        if recovered is None:
            return None
        self._digest, self.arrays = recovered.digest, recovered.arrays
        self._root = replace(self._root, last_round=recovered.state.round)
        return recovered.state

    def start(self, state: SelectionState) -> None:
        """Keep the state before the first round."""
        features = state.survivors.astype(np.int64)
        digest = sha("start", features)
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
        more = {name: sha(values) for name, values in (arrays or {}).items()}
        digest = digest_of(self._digest, record, more, features, scores)
        write_node(
            round_folder(self.path, state.round),
            {"round": state.round, "history": record, "arrays": more, "sha256": digest},
            {"features": features, "scores": scores, **(arrays or {})},
        )
        self._kept(state, digest)
        for name in more:
            shutil.rmtree(round_folder(self.path, state.round - 2) / name, ignore_errors=True)

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
        recovered = recover(self.path, Root.read(self.path))
        return None if recovered is None else recovered.state

    def job(self) -> Any:
        """Return what was given as ``identity["job"]``: what a resumed command starts from."""
        return Root.read(self.path).job

    def is_complete(self) -> bool:
        """Return whether the run that is kept here has ended."""
        return Root.read(self.path).complete

    def _writable(self) -> Root:
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
