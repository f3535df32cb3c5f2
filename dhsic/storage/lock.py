"""The lock of a folder, which the kernel holds."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

from dhsic.errors import CheckpointError
from dhsic.storage.base import AbstractLock, LostError, gone

logger = logging.getLogger("dhsic")


class WriterLock(AbstractLock):
    """The right to write in a folder: one process at a time.

    The kernel holds the lock and frees it when its holder dies, however it dies and whatever
    process has its number now; pid and host in the file are for the message.

    Parameters
    ----------
    path : path
        File of the lock.
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
            _flock(handle)
        except BlockingIOError as error:
            writer = os.read(handle, 200).decode(errors="replace") or "another process"
            os.close(handle)
            raise CheckpointError(
                f"{self.path.parent} is being written by {writer}. Wait until it ends, stop it, "
                "or pass another folder."
            ) from error
        except OSError as error:
            logger.warning(
                "%s cannot be locked (%s); see that one run writes it.", self.path, error
            )
        os.ftruncate(handle, 0)
        os.write(handle, _this_process())
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
        try:
            there = self.path.stat()
            is_ours = os.path.samestat(there, os.fstat(self._handle))
            # Not all file systems number a file the same way twice.
            is_ours = is_ours or self.path.read_bytes() == _this_process()
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
        if not self.path.exists():
            return False
        lock = WriterLock(self.path)
        try:
            lock.take()
        except CheckpointError:
            return True
        except OSError:  # who may only read cannot tell
            return False
        lock.release()
        return False


def _this_process() -> bytes:
    return f"process {os.getpid()} on {socket.gethostname()}".encode()


def _flock(handle: int) -> None:
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise OSError("no advisory locks here") from error
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
