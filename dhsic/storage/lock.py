"""Write locks: one process at a time may write to a store.

In a folder, this is a file lock of the operating system. An object store does not notice that a
process has died, so its lock is a lease: an object that its holder rewrites every few seconds. If
another process sees no change for the duration of a lease, it takes over the lock. The clocks of
different machines are not compared, because the waiting process measures the time itself. A holder
that was only paused or disconnected detects the loss at its next write: the write fails if the
stored version is not the one that it wrote last.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from dhsic.errors import CheckpointError, StoreError
from dhsic.storage.base import AbstractStore, LostError, StoredFile, Tag, store_removed_error
from dhsic.storage.folder import FileStore
from dhsic.storage.objects import ObjectStore

logger = logging.getLogger("dhsic")


class AbstractLock(ABC):
    """Write lock of a store, which one process at a time can hold."""

    @property
    @abstractmethod
    def is_held(self) -> bool:
        """Whether this object holds the lock, by its own record; the store is not read."""

    @abstractmethod
    def take(self) -> None:
        """Take the lock; if it is not free, raise CheckpointError with the name of its holder."""

    @abstractmethod
    def release(self) -> None:
        """Release the lock."""

    @abstractmethod
    def confirm(self, *, surely: bool = False) -> None:
        """Check that this process still holds the lock.

        Raises LostError if another process has it, and CheckpointError if the store is gone. If
        `surely` is True, the store is checked even if the lock was renewed recently.
        """

    @abstractmethod
    def is_taken(self) -> bool:
        """Whether any process seems to hold the lock; this does not wait."""


def lock_of(store: AbstractStore, name: str) -> AbstractLock:
    """Create the lock object with this name for a store."""
    if isinstance(store, FileStore):
        return FileLock(store.path / name)
    return Lease(str(store.path), name)


def written_by(holder: str, path: Path | str) -> CheckpointError:
    """Return the error for a lock that another process holds."""
    return CheckpointError(
        f"{path} is being written by {holder or 'another process'}. Wait until that process "
        "ends, stop it, or pass another folder."
    )


# In a folder -------------------------------------------------------------------------------


class FileLock(AbstractLock):
    """Write lock of a folder: an advisory lock on a file.

    The operating system releases the lock when its holder dies for any reason. The file contains
    the PID and host of the holder for error messages only, so a reused PID is harmless.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    @property
    def is_held(self) -> bool:
        return self._handle is not None

    def take(self) -> None:
        if self._handle is not None:
            return
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            writer = os.read(handle, 200).decode(errors="replace")
            os.close(handle)
            raise written_by(writer, self.path.parent) from error
        except (ImportError, OSError) as error:  # Windows has no such locks
            logger.warning(
                "%s cannot be locked (%s). Make sure that only one run writes to it.",
                self.path,
                error,
            )
        os.ftruncate(handle, 0)
        os.write(handle, this_process().encode())
        self._handle = handle

    def release(self) -> None:
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None

    def confirm(self, *, surely: bool = False) -> None:
        """Raise LostError if the lock file was removed or replaced."""
        if self._handle is None:
            return
        try:  # some file systems change a file's inode number
            is_same = os.path.samestat(self.path.stat(), os.fstat(self._handle))
            is_ours = is_same or self.path.read_bytes() == this_process().encode()
        except (FileNotFoundError, NotADirectoryError) as error:
            if not self.path.parent.is_dir():
                raise store_removed_error(self.path.parent) from error
            raise LostError(
                f"{self.path} was removed while this run held it, so other runs may write there "
                "as well. Start again: the run resumes from the rounds that are still there."
            ) from error
        if not is_ours:
            raise LostError(
                f"{self.path.parent} was removed and replaced by a new folder, to which another "
                "process writes. Let that process finish, or start again with a new checkpoint."
            )

    def is_taken(self) -> bool:
        lock = FileLock(self.path)
        try:
            if self.path.exists():
                lock.take()
        except CheckpointError:
            return True
        except OSError:  # no permission to lock
            return False
        lock.release()
        return False


def this_process() -> str:
    """Describe this process for error messages of other processes."""
    return f"process {os.getpid()} on {socket.gethostname()}"


# In an object store ------------------------------------------------------------------------

LEASE = 45.0  # seconds without renewal after which a holder counts as dead
BEAT = 10.0  # seconds between renewals
LOOK = 1.0  # seconds between checks while waiting for a lease
PATIENCE = 15.0  # timeout of a renewal, in seconds
SKEW = 900.0  # maximum clock difference in seconds; object stores refuse requests beyond it
SMALL_SKEW = 60.0  # clock difference allowed where the next check would correct a mistake

#: Names of the leases that this process holds.
ours: set[str] = set()
#: Names of the processes whose leases this process has seen expire.
dead: set[str] = set()


def now() -> float:
    """Return the monotonic time in seconds, including time while the machine was suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@lru_cache(maxsize=1)
def process_name(pid: int) -> str:
    """Return a name of this process that is unique over all machines and times."""
    return f"{pid}-{secrets.token_hex(8)}"


class Lease(AbstractLock):
    """Write lock of an object store: a lease, stored as the object `name`."""

    def __init__(self, url: str, name: str) -> None:
        self._name = name
        self._store = ObjectStore(url, PATIENCE)
        self._one_at_a_time = threading.RLock()
        #: Set to end the renewals: on release, or to simulate a dead holder.
        self.silenced = threading.Event()
        self._tag: Tag | None = None
        self._said = LeaseContent()  # content of our last write
        self._heard = 0.0  # time of our last write
        self._successor: str | None = None
        self._seen: tuple[Tag | None, float] = (None, 0.0)

    @property
    def is_held(self) -> bool:
        return self._tag is not None and self._successor is None

    def take(self) -> None:
        """Take the lease; if its holder may be dead, wait until the lease expires.

        Raises
        ------
        CheckpointError
            A live process holds the lease, or the store does not support conditional writes.
        """
        if self.is_held:
            return
        entry = self._store.get(self._name)
        tag = None if entry is None else self._watched(entry)
        self.silenced, self._successor = threading.Event(), None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._said = LeaseContent(
            holder=f"{this_process()} since {since}",
            process=process_name(os.getpid()),
            lease=secrets.token_hex(8),
            seconds=LEASE,
        )
        self._tag = self._written(tag)
        if self._tag is None:  # another process was faster
            raise written_by(LeaseContent.of(self._store.get(self._name)).holder, self._store.path)
        try:
            self._check_store()
        except BaseException:
            self.release()
            raise
        ours.add(self._said.lease)
        threading.Thread(target=self._live, name="dhsic-lease", daemon=True).start()

    def _written(self, tag: Tag | None) -> Tag | None:
        """Replace version `tag` of the object by our lease; return the tag of the new version.

        If the object has another version, nothing is written, and None is returned.
        """
        before, self._heard = self._heard, now()
        self._said = replace(self._said, beat=self._said.beat + 1)
        try:
            return self._store.put_if(self._name, self._said.encode(), tag)
        except StoreError:
            self._heard = before
            raise

    def _watched(self, found: StoredFile) -> Tag | None:
        """Wait until the lease `found` is free or expired; return the tag of its last version.

        The result is None if the object was deleted.
        """
        word = LeaseContent.of(found)
        if word.is_free or word.is_dead or _age(found) > SKEW + word.seconds:
            return found.tag
        if word.process == process_name(os.getpid()):
            raise written_by(word.holder, self._store.path)
        logger.warning(
            "%s is locked by %s; waiting up to %g s to see whether that process is still running.",
            *(self._store.path, word.holder, word.seconds),
        )
        deadline = now() + word.seconds
        while now() < deadline:
            time.sleep(LOOK)
            again = self._store.get(self._name)
            if again is None or LeaseContent.of(again).is_free:
                return None if again is None else again.tag
            if again.tag != found.tag:
                raise written_by(LeaseContent.of(again).holder, self._store.path)
        dead.add(word.process)
        logger.warning("%s: %s has stopped; this run takes over.", self._store.path, word.holder)
        return found.tag

    def _check_store(self) -> None:
        """Raise CheckpointError if the store does not support conditional writes.

        Such a store cannot guarantee that there is a single writer.
        """
        if self._store.put_if(self._name, replace(self._said, beat=-1).encode(), None) is not None:
            raise CheckpointError(
                f"The object store of {self._store.path} does not support conditional writes "
                "(If-None-Match), so two runs could write to one checkpoint. Use another store, "
                "or a folder."
            )

    def _live(self) -> None:
        """Renew the lease until it is released; this method runs in its own thread."""
        silenced = self.silenced
        while not silenced.wait(BEAT):
            try:
                self._renew()
            except StoreError as error:
                logger.debug("%s", error)  # `confirm` raises it before the next write
            except CheckpointError:  # the lease was lost, or the store removed
                return

    def _renew(self) -> None:
        with self._one_at_a_time:
            if self._tag is None:
                return
            if self._successor is None:
                tag = self._written(self._tag)
                if tag is not None:
                    self._tag = tag
                    return
                entry = self._store.get(self._name)
                if entry is None:
                    raise store_removed_error(self._store.path)
                self._successor = LeaseContent.of(entry).holder
                ours.discard(self._said.lease)
            raise LostError(
                f"{self._store.path} is now written by {self._successor or 'another process'}, "
                f"which took over because this process did not respond for {LEASE:g} s. Let that "
                "process finish; completed rounds are kept."
            )

    def confirm(self, *, surely: bool = False) -> None:
        if surely or self._successor is not None or now() - self._heard > LEASE / 2:
            self._renew()

    def release(self) -> None:
        self.silenced.set()
        with self._one_at_a_time:
            tag, self._tag = self._tag, None
            ours.discard(self._said.lease)
            if tag is None or self._successor is not None:
                return
            try:
                self._store.put_if(self._name, b"{}", tag)
            except StoreError as error:
                logger.debug("%s", error)  # the lease expires

    def is_taken(self) -> bool:
        """Whether a process holds the lease; a dead process holds it until the lease expires."""
        entry = self._store.get(self._name)
        word = LeaseContent.of(entry)
        if entry is None or word.is_free or word.is_dead:
            return False
        if word.process == process_name(os.getpid()):
            return True
        if self._seen[0] != entry.tag:
            self._seen = entry.tag, now()
        return now() - self._seen[1] < word.seconds and _age(entry) < SMALL_SKEW + word.seconds


@dataclass(frozen=True, slots=True)
class LeaseContent:
    """Content of a lease object: the holder of the lease, or nothing if it is free."""

    holder: str = ""  # process, machine and time, for messages
    process: str = ""  # unique name of the process
    lease: str = ""  # unique name of the lease
    seconds: float = 0.0  # duration of the lease after this write
    beat: int = 0  # number of the write, so that no two contents are equal

    @classmethod
    def of(cls, found: StoredFile | None) -> LeaseContent:
        """Parse a lease object; None means a free lease, and damaged content a held lease."""
        if found is None:
            return cls()
        try:
            content = dict(json.loads(found.data))
            field_values = {of.name: content[of.name] for of in fields(cls) if of.name in content}
            return cls(**field_values | {"seconds": float(content.get("seconds", 0.0))})
        except (ValueError, TypeError):
            return cls("another process", "?", "?", LEASE)

    def encode(self) -> bytes:
        """Serialize the content to bytes."""
        return json.dumps(asdict(self)).encode()

    @property
    def is_free(self) -> bool:
        """Whether no process holds the lease."""
        return not self.lease

    @property
    def is_dead(self) -> bool:
        """Whether the holder is known to be dead.

        A lease of this process counts as dead if no `Lease` object holds it any more.
        """
        if self.process == process_name(os.getpid()):
            return self.lease not in ours
        return self.process in dead


def _age(found: StoredFile) -> float:
    """Return the age of a stored object in seconds: our clock minus the store's write time."""
    return (datetime.now(UTC) - found.modified).total_seconds()
