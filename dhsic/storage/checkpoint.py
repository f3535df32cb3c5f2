"""`Checkpoint`: the state of a run, stored after every round, so a crash loses at most one round.

A checkpoint is a Zarr v3 group in a folder or at a URL of an object store, with a single writer::

    run.dhsic/
      zarr.json       root: identity of the run, number of the last round; replaced atomically, last
      start/          features: candidates before the first round; checksums: one per feature
      rounds/000001/  removed features and their scores; attributes: the record of the round
      lock            lock of the process that writes; in an object store a lease

A round is written once and made durable. It is valid only when the root refers to it.

A method may need further arrays to continue, such as weights. They are stored with each round. Only
the arrays of the last two rounds are kept, because one round is sufficient to continue.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from dhsic._typing import Array
from dhsic.algorithms.state import SelectionState
from dhsic.errors import CheckpointError, DataError, InputError
from dhsic.sources.views import describe_features
from dhsic.storage import store_at
from dhsic.storage.base import LostError, Tag
from dhsic.storage.format import (
    CHECKSUMS,
    ROOT,
    START,
    Root,
    canonical,
    digest_of,
    encode,
    name_of,
    plain,
    read_checksums,
    recover,
    sha,
)
from dhsic.storage.lock import lock_of

#: Name of the write lock.
LOCK = "lock"
#: Name of the other files of a run detached to a cluster, see `dhsic.detached.folder`.
DETACHED = "detached"


class Checkpoint:
    """Checkpoint of one run, in a folder or an object store.

    Parameters
    ----------
    path : path or URL
        Folder on a file system, or URL of an object store such as ``s3://bucket/run.dhsic``.
        `begin` creates the folder if it does not exist, and its parent if its grandparent exists.

    Examples
    --------
    >>> import tempfile
    >>> from dhsic.algorithms.state import begin
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
        self.store = store_at(path)
        self.path = self.store.path
        self._is_own = False  # whether `begin` created the folder
        self._is_new = False  # whether `begin` found no run in it
        self.lock = lock_of(self.store, LOCK)
        self._root: Root | None = None
        self._tag: Tag | None = None  # version of the stored root
        self._digest = ""  # digest of the last round, which is part of the next digest
        #: Arrays that `save` stored with the round whose state `begin` returned.
        self.arrays: Mapping[str, Array] = {}

    def begin(self, identity: Mapping[str, Any]) -> SelectionState | None:
        """Open the checkpoint for writing; return the state of its run, or None for a new run.

        Parameters
        ----------
        identity : mapping
            ``source`` (fingerprint), ``parameters`` and ``versions`` (mappings) must be the same as
            in the run that created the checkpoint. ``job`` is not compared; the method `job`
            returns it.

        Raises
        ------
        CheckpointError
            The folder is not a checkpoint, belongs to another run, is damaged, or is being written
            by another process.
        StoreError
            An object store does not answer.
        """
        self._make()
        self._take()
        try:
            return self._open(plain(dict(identity)))
        except BaseException:
            self.lock.release()
            raise

    def _make(self) -> None:
        """Create the folder if necessary; raise CheckpointError if it contains other files."""
        self._is_own = self.store.make()
        if self.store.has(ROOT):
            return
        extra = sorted(self.store.names() - {LOCK})
        if extra:
            raise CheckpointError(
                f"{self.path} contains other files ({', '.join(extra[:3])}) and is not a dhsic "
                "checkpoint. Pass a new or an empty folder."
            )

    def _take(self) -> None:
        """Take the lock; the error for a detached run names the commands to follow or stop it."""
        try:
            self.lock.take()
        except CheckpointError as error:
            if DETACHED not in self.store.names():
                raise
            raise CheckpointError(
                f"{error} The run was detached to a cluster: follow it with `dhsic attach`, or "
                "stop it with `dhsic cancel` (in Python, dhsic.attach and Run.cancel)."
            ) from error

    def _discard(self) -> None:
        """Remove the files of a run that was rejected before its first round."""
        self.lock.release()
        self.store.remove(START, "rounds", ROOT, LOCK)
        if self._is_own:
            with suppress(OSError):  # the folder also contains other files
                Path(self.path).rmdir()

    def _open(self, identity: dict[str, Any]) -> SelectionState | None:
        job = identity.pop("job", None)
        root = self._claimed(identity)
        if root is None:
            self._is_new = True
            self._write(Root(identity, job))
            return None
        recovered = recover(self.store, root)
        if recovered is None:
            return None
        self._digest, self.arrays = recovered.digest, recovered.arrays
        self._root = replace(root, last_round=recovered.state.round)
        return recovered.state

    def _claimed(self, identity: Mapping[str, Any]) -> Root | None:
        """Read, check and rewrite the root of the stored run; return None if no run is stored.

        A previous holder may not know yet that it has lost the lock. It cannot write the root any
        more after this process has rewritten it.
        """
        while True:
            entry = self.store.get(ROOT)
            if entry is None:
                return None
            root, self._tag = Root.of(entry.data, self.path), entry.tag
            root.compare(identity, self.path)
            try:
                self._write(root)
            except LostError:
                self.lock.confirm(surely=True)  # if we hold it, the previous holder wrote once more
            else:
                return root

    def _write(self, root: Root) -> None:
        """Replace the root; raise an error if this process has lost the lock."""
        self.lock.confirm()
        self._tag = self.store.replace(ROOT, root.encode(), self._tag)
        self._root = root

    def start(self, state: SelectionState, checksums: Array | None = None) -> None:
        """Store the state before the first round, and the checksums for `check_data`."""
        self.store.write_node("rounds", encode({}, {}), self._confirm)
        features = state.survivors.astype(np.int64)
        more = {} if checksums is None else {CHECKSUMS: checksums}
        self._keep(state, START, {}, [START], {"features": features}, more)

    def _confirm(self) -> None:
        self.lock.confirm(surely=True)

    def _keep(
        self,
        state: SelectionState,
        node: str,
        about: Mapping[str, Any],
        covered: Sequence[str],
        held: Mapping[str, Array],
        more: Mapping[str, Array],
    ) -> None:
        """Write the Zarr node of a state, then make the root refer to the node.

        `about` contains the attributes of the node; `held` and `more` contain its arrays. The
        digest of the node covers the texts `covered` and all arrays.
        """
        names = {name: sha(values) for name, values in more.items()}
        digest = digest_of(names, *covered, *held.values())
        files = encode({**about, "arrays": names, "sha256": digest}, {**held, **more})
        self.store.write_node(node, files, self._confirm)
        self._write(replace(self._writable(), last_round=state.round, complete=False))
        self._digest = digest

    def check_data(self, checksums: Array) -> None:
        """Raise CheckpointError if values of features have changed since the run began.

        `checksums` (d,) int64 are computed from the present values, one per feature
        (`dhsic.sources.views`). Nothing is checked if the checkpoint has no checksums.
        """
        stored_checksums = read_checksums(self.store) if self._writable().last_round >= 0 else None
        if stored_checksums is None:
            return
        changed = np.flatnonzero(stored_checksums != checksums)
        if changed.size:
            raise CheckpointError(
                f"{self.path} belongs to other data: the values of {describe_features(changed)}, "
                f"out of {len(checksums)}, changed since the run began. Restore them, or start "
                "again in another folder."
            )

    def save(self, state: SelectionState, arrays: Mapping[str, Array] | None = None) -> None:
        """Store a round: write its removed features, then make the root refer to it.

        Parameters
        ----------
        arrays : mapping, optional
            Further arrays that the next round needs, by name. They must be one-dimensional, int64
            or float64.
        """
        root = self._writable()
        if state.round != root.last_round + 1:
            raise CheckpointError(
                f"{self.path} contains round {root.last_round}, so round {state.round} cannot be "
                "saved next. Save every round once, in order, from the state that begin() "
                "returned."
            )
        new = state.removed_in == state.round
        features = state.eliminated[new].astype(np.int64)
        scores = state.scores[new].astype(np.float64)
        record = plain(state.history[-1])
        more = arrays or {}
        self._keep(
            state,
            name_of(state.round),
            {"round": state.round, "history": record},
            [self._digest, canonical(record)],
            {"features": features, "scores": scores},
            more,
        )
        self.store.remove(*(f"{name_of(state.round - 2)}/{name}" for name in more))

    def finish(self) -> None:
        """Mark the run as complete."""
        self._write(replace(self._writable(), complete=True))

    def load(self) -> SelectionState | None:
        """Read the last valid state, without a lock; return None if nothing is stored yet."""
        recovered = recover(self.store, Root.read(self.store))
        return None if recovered is None else recovered.state

    def is_begun(self) -> bool:
        """Whether a run is stored here."""
        return self.store.has(ROOT)

    def job(self) -> Any:
        """Read ``identity["job"]``: the arguments of the command, for resuming the run."""
        return Root.read(self.store).job

    def is_written(self) -> bool:
        """Whether a process seems to be writing to the checkpoint; this does not wait."""
        return self.lock.is_taken()

    def is_complete(self) -> bool:
        """Whether the stored run is complete."""
        return Root.read(self.store).complete

    def _writable(self) -> Root:
        if self._root is not None:
            self.lock.confirm()
        if self._root is None or not self.lock.is_held:
            raise CheckpointError(f"{self.path} is not open for writing. Call begin() first.")
        return self._root

    def close(self) -> None:
        """Release the lock, so that another process can write."""
        self.lock.release()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        refused = isinstance(error, InputError | DataError)  # the corrected call is a new run
        if refused and self._is_new and self._root is not None and self._root.last_round <= 0:
            self._discard()
        self.close()
