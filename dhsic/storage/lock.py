"""The right to write: one process at a time.

In a folder the kernel holds the lock. In an object store no kernel sees that a process has died,
and the lock is a lease: an object that its holder writes anew every few seconds. Who finds it
unchanged for as long as a lease lasts takes it over. No clock is compared with another one's: who
wants it watches it. The rare holder that was only silent (paused, cut off) finds out at its next
write, which is on the condition that the object is as it was left.
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
from dhsic.storage.base import AbstractStore, Found, LostError, Tag, gone
from dhsic.storage.folder import FileStore
from dhsic.storage.objects import ObjectStore

logger = logging.getLogger("dhsic")


class AbstractLock(ABC):
    """The right to write: one process at a time."""

    @property
    @abstractmethod
    def held(self) -> bool:
        """Whether this object has the lock, as far as it knows."""

    @abstractmethod
    def take(self) -> None:
        """Take the lock; CheckpointError says who has it."""

    @abstractmethod
    def release(self) -> None:
        """Release the lock."""

    @abstractmethod
    def confirm(self, *, surely: bool = False) -> None:
        """Raise LostError if another process has it by now, CheckpointError if its place is gone.

        With `surely` it looks also where that can hardly be.
        """

    @abstractmethod
    def is_taken(self) -> bool:
        """Whether some process holds it now, as far as can be seen at once."""


def lock_of(store: AbstractStore, name: str) -> AbstractLock:
    """The lock of this name in a store."""
    if isinstance(store, FileStore):
        return FileLock(store.path / name)
    return Lease(str(store.path), name)


def written_by(holder: str, path: Path | str) -> CheckpointError:
    """The error of a lock that another process has."""
    return CheckpointError(
        f"{path} is being written by {holder or 'another process'}. Wait until it ends, stop it, "
        "or pass another folder."
    )


# In a folder -------------------------------------------------------------------------------


class FileLock(AbstractLock):
    """The right to write in a folder: one process at a time.

    The kernel holds the lock and frees it when its holder dies, however it dies and whatever
    process has its number now; pid and host in the file are for the message.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    @property
    def held(self) -> bool:
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
                "%s cannot be locked (%s); see that one run writes it.", self.path, error
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
        """The kernel does not take a lock away, but somebody may remove the file."""
        if self._handle is None:
            return
        try:  # not all file systems number a file the same way twice
            is_same = os.path.samestat(self.path.stat(), os.fstat(self._handle))
            is_ours = is_same or self.path.read_bytes() == this_process().encode()
        except (FileNotFoundError, NotADirectoryError) as error:
            if not self.path.parent.is_dir():
                raise gone(self.path.parent) from error
            raise LostError(
                f"{self.path} was removed under the run that held it, so that others may write "
                "there too. Start again: it goes on from the rounds that are left there."
            ) from error
        if not is_ours:
            raise LostError(
                f"{self.path.parent} was removed and is another one now, which another process "
                "writes. Let that one go on, or start again with a new checkpoint."
            )

    def is_taken(self) -> bool:
        lock = FileLock(self.path)
        try:
            if self.path.exists():
                lock.take()
        except CheckpointError:
            return True
        except OSError:  # who may only read cannot tell
            return False
        lock.release()
        return False


def this_process() -> str:
    """Return a description of this process for messages of other processes."""
    return f"process {os.getpid()} on {socket.gethostname()}"


# In an object store ------------------------------------------------------------------------

LEASE = 45.0  # seconds without a word after which a holder is taken for dead
BEAT = 10.0  # seconds between two words of it
LOOK = 1.0  # seconds between looks of who waits for it
PATIENCE = 15.0  # seconds that the store may take over one word
SKEW = 900.0  # seconds that clocks may differ: stores refuse requests of those that do by more
SMALL_SKEW = 60.0  # the same where a mistake is mended by the next look

#: Leases that this process holds, and processes whose leases have run out.
ours: set[str] = set()
dead: set[str] = set()


def now() -> float:
    """Seconds, those of a sleep of the machine included."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@lru_cache(maxsize=1)
def process_name(pid: int) -> str:
    """Name of this process, which no other one will ever have."""
    return f"{pid}-{secrets.token_hex(8)}"


class Lease(AbstractLock):
    """The right to write below a URL: an object of this name there."""

    def __init__(self, url: str, name: str) -> None:
        self._name = name
        self._store = ObjectStore(url, PATIENCE)
        self._one_at_a_time = threading.RLock()
        #: Set when the holder says nothing any more: it has let go, or is to seem dead.
        self.silenced = threading.Event()
        self._tag: Tag | None = None
        self._said = Word()  # what we last wrote
        self._heard = 0.0  # when that was
        self._successor: str | None = None
        self._seen: tuple[Tag | None, float] = (None, 0.0)

    @property
    def held(self) -> bool:
        return self._tag is not None and self._successor is None

    def take(self) -> None:
        """Take the lease; wait for that of a holder who may be dead, refuse that of a living one.

        Raises
        ------
        CheckpointError
            Another process has it, and lives; or the store does not honour conditions.
        """
        if self.held:
            return
        entry = self._store.get(self._name)
        tag = None if entry is None else self._watched(entry)
        self.silenced, self._successor = threading.Event(), None
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._said = Word(
            holder=f"{this_process()} since {since}",
            process=process_name(os.getpid()),
            lease=secrets.token_hex(8),
            seconds=LEASE,
        )
        self._tag = self._written(tag)
        if self._tag is None:  # another one was faster
            raise written_by(Word.of(self._store.get(self._name)).holder, self._store.path)
        try:
            self._check_store()
        except BaseException:
            self.release()
            raise
        ours.add(self._said.lease)
        threading.Thread(target=self._live, name="dhsic-lease", daemon=True).start()

    def _written(self, tag: Tag | None) -> Tag | None:
        """Write our lease over version `tag`; None if the object has another version."""
        before, self._heard = self._heard, now()
        self._said = replace(self._said, beat=self._said.beat + 1)
        try:
            return self._store.put_if(self._name, self._said.encode(), tag)
        except StoreError:
            self._heard = before
            raise

    def _watched(self, found: Found) -> Tag | None:
        """Version of a lease that nobody has any more, once that is known; None if it is gone."""
        word = Word.of(found)
        if word.is_free or word.is_dead or _age(found) > SKEW + word.seconds:
            return found.tag
        if word.process == process_name(os.getpid()):
            raise written_by(word.holder, self._store.path)
        logger.warning(
            "%s is held by %s; waiting up to %g s to hear whether it is still at work.",
            *(self._store.path, word.holder, word.seconds),
        )
        deadline = now() + word.seconds
        while now() < deadline:
            time.sleep(LOOK)
            again = self._store.get(self._name)
            if again is None or Word.of(again).is_free:
                return None if again is None else again.tag
            if again.tag != found.tag:
                raise written_by(Word.of(again).holder, self._store.path)
        dead.add(word.process)
        logger.warning("%s: %s is dead; taking over.", self._store.path, word.holder)
        return found.tag

    def _check_store(self) -> None:
        """Refuse a store that writes whatever the condition: it cannot have a single writer."""
        if self._store.put_if(self._name, replace(self._said, beat=-1).encode(), None) is not None:
            raise CheckpointError(
                f"The object store of {self._store.path} does not honour conditional writes "
                "(If-None-Match), without which two runs could write one checkpoint. Use another "
                "store, or a folder."
            )

    def _live(self) -> None:
        """Renew the lease until it is released; runs in its own thread."""
        silenced = self.silenced
        while not silenced.wait(BEAT):
            try:
                self._renew()
            except StoreError as error:
                logger.debug("%s", error)  # `confirm` says it when something is to be written
            except CheckpointError:  # it is lost, or its place is gone
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
                    raise gone(self._store.path)
                self._successor = Word.of(entry).holder
                ours.discard(self._said.lease)
            raise LostError(
                f"{self._store.path} is now written by {self._successor or 'another process'}: "
                f"this one was not heard of for {LEASE:g} s and has been followed by it. Let that "
                "one go on; the rounds that are done are kept."
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
                logger.debug("%s", error)  # it runs out

    def is_taken(self) -> bool:
        """A holder that died is seen to be dead when the lease has run out."""
        entry = self._store.get(self._name)
        word = Word.of(entry)
        if entry is None or word.is_free or word.is_dead:
            return False
        if word.process == process_name(os.getpid()):
            return True
        if self._seen[0] != entry.tag:
            self._seen = entry.tag, now()
        return now() - self._seen[1] < word.seconds and _age(entry) < SMALL_SKEW + word.seconds


@dataclass(frozen=True, slots=True)
class Word:
    """Content of a lease: its holder; empty if the lease is free."""

    holder: str = ""  # process, machine and time, for people
    process: str = ""  # a name that no other process will ever have,
    lease: str = ""  # and one that no other lease will
    seconds: float = 0.0  # that the lease lasts after the word
    beat: int = 0  # number of the word: no two are the same

    @classmethod
    def of(cls, found: Found | None) -> Word:
        """Parse a lease object; a damaged one counts as held."""
        if found is None:
            return cls()
        try:
            content = dict(json.loads(found.data))
            field_values = {of.name: content[of.name] for of in fields(cls) if of.name in content}
            return cls(**field_values | {"seconds": float(content.get("seconds", 0.0))})
        except (ValueError, TypeError):
            return cls("another process", "?", "?", LEASE)

    def encode(self) -> bytes:
        """The object of the lease."""
        return json.dumps(asdict(self)).encode()

    @property
    def is_free(self) -> bool:
        """Whether nobody has the lease."""
        return not self.lease

    @property
    def is_dead(self) -> bool:
        """Whether the holder is known to be dead, or is an object of this process that is gone."""
        if self.process == process_name(os.getpid()):
            return self.lease not in ours
        return self.process in dead


def _age(found: Found) -> float:
    """Seconds since an object was written, if our clock is like that of its store."""
    return (datetime.now(UTC) - found.modified).total_seconds()
