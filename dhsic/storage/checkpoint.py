"""`Checkpoint`: the state of a run after any round, kept so that any death loses one round.

It is a plain Zarr v3 group in a folder or at a URL of an object store, with a single writer::

    run.dhsic/
      zarr.json       identity of the run, number of the last round; replaced atomically, last
      start/          features: S before the first round; checksums: of the data, feature by feature
      rounds/000001/  features, scores: what left in that round; its record in the attributes
      lock            held by the process that writes; in an object store its lease

A round is written once, made durable, and counts only when the root says so.

A method that needs more than what left in each round (weights, say) keeps arrays with it; they are
whole in themselves, so those of the last two rounds stay and the others are removed.
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
from dhsic.sources.views import named
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

#: Name of the lock of the one who writes.
LOCK = "lock"
#: Where a run that was left to a cluster keeps what else it needs, see `dhsic.detached.folder`.
DETACHED = "detached"


class Checkpoint:
    """The kept state of one run.

    Parameters
    ----------
    path : path or URL
        Folder on a file system; made by `begin` where it is not there, and the one that it is in,
        if the one above that is there. Or a URL of an object store, such as
        ``s3://bucket/run.dhsic``.

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
        self._is_own = False  # `begin` made the folder
        self._is_new = False  # `begin` found no run in it
        self.lock = lock_of(self.store, LOCK)
        self._root: Root | None = None
        self._tag: Tag | None = None  # of the root as it is there
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
        """Make the folder where there is none; refuse one that holds something else."""
        self._is_own = self.store.make()
        if self.store.has(ROOT):
            return
        extra = sorted(self.store.names() - {LOCK})
        if extra:
            raise CheckpointError(
                f"{self.path} holds other things ({', '.join(extra[:3])}) and is not a dhsic "
                "checkpoint. Pass a new or an empty folder."
            )

    def _take(self) -> None:
        """Take the lock; who has left the run to a cluster can reach its writer."""
        try:
            self.lock.take()
        except CheckpointError as error:
            if DETACHED not in self.store.names():
                raise
            raise CheckpointError(
                f"{error} It was left to a cluster: follow it with `dhsic attach`, or stop it "
                "with `dhsic cancel`; in Python, dhsic.attach and Run.cancel."
            ) from error

    def _discard(self) -> None:
        """Remove what was written for a run that was refused before its first round."""
        self.lock.release()
        self.store.remove(START, "rounds", ROOT, LOCK)
        if self._is_own:
            with suppress(OSError):  # somebody has put something there
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
        """Root of the run that is kept, if one is.

        It is written anew before all else, so that whoever had the lock before, and does not know
        yet that it was taken away, cannot write it any more.
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
                self.lock.confirm(surely=True)  # if it is ours, our predecessor had a last word
            else:
                return root

    def _write(self, root: Root) -> None:
        """Replace the root."""
        self.lock.confirm()
        self._tag = self.store.replace(ROOT, root.encode(), self._tag)
        self._root = root

    def start(self, state: SelectionState, checksums: Array | None = None) -> None:
        """Keep the state before the first round, and what `check_data` compares with."""
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
        """Write a node, whose digest covers texts too, and have the state count that it ends."""
        names = {name: sha(values) for name, values in more.items()}
        digest = digest_of(names, *covered, *held.values())
        files = encode({**about, "arrays": names, "sha256": digest}, {**held, **more})
        self.store.write_node(node, files, self._confirm)
        self._write(replace(self._writable(), last_round=state.round, complete=False))
        self._digest = digest

    def check_data(self, checksums: Array) -> None:
        """Refuse to go on with features of other values than those that the run began with.

        Checksums are (d,) int64, of all features, see `dhsic.sources.views`. Checkpoints of a
        dhsic that gave `start` none pass.
        """
        stored_checksums = read_checksums(self.store) if self._writable().last_round >= 0 else None
        if stored_checksums is None:
            return
        changed = np.flatnonzero(stored_checksums != checksums)
        if changed.size:
            raise CheckpointError(
                f"{self.path} belongs to other data: of {len(checksums)} features the values of "
                f"{named(changed)} changed since the run began. Put them back, or start again in "
                "another folder."
            )

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
        """Return the last valid state without taking the checkpoint; None before the start."""
        recovered = recover(self.store, Root.read(self.store))
        return None if recovered is None else recovered.state

    def is_begun(self) -> bool:
        """Return whether a run is kept here."""
        return self.store.has(ROOT)

    def job(self) -> Any:
        """Return what was given as ``identity["job"]``: what a resumed command starts from."""
        return Root.read(self.store).job

    def is_written(self) -> bool:
        """Return whether a process writes here now, as far as can be seen at once."""
        return self.lock.is_taken()

    def is_complete(self) -> bool:
        """Return whether the run that is kept here has ended."""
        return Root.read(self.store).complete

    def _writable(self) -> Root:
        if self._root is not None:
            self.lock.confirm()
        if self._root is None or not self.lock.held:
            raise CheckpointError(f"{self.path} is not open for writing. Call begin() first.")
        return self._root

    def close(self) -> None:
        """Let another process write."""
        self.lock.release()

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
