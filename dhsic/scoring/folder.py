"""The folder of scratch: it goes when the run ends, however it ends.

What a process that was killed outright leaves behind is removed by the next one that needs the
place.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Names of folders and their locks, and of nothing that a user would call a folder of theirs.
OURS = re.compile(r"(dhsic-scratch-\d+-[0-9a-f]{8})(\.lock)?")
#: Bytes of a name of a machine that a lock file holds.
HOST_BYTES = 255
#: A lock is opened where it lies, and at once.
NO_DETOURS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: Folders of this process, and what removes each.
_LIVE: dict[Path, Callable[[], object]] = {}


class Folder:
    """A folder that is removed with this object, at exit, on SIGTERM, or by the next one here.

    A lock file lies beside it from before it is made until after it is gone. The kernel frees the
    lock of a dead process; only locks of this machine are tried, for not all file systems know of
    those of others.
    """

    def __init__(self, place: Path) -> None:
        sweep(place)
        name = f"dhsic-scratch-{os.getpid()}-{secrets.token_hex(4)}"
        self.path = place / name
        lock, handle = _locked(place, name)
        self.remove = weakref.finalize(self, _remove, self.path, lock, handle, os.getpid())
        _LIVE[self.path] = self.remove
        _watch()
        self.path.mkdir(mode=0o700)


def sweep(place: Path) -> None:
    """Remove folders in `place` whose process is dead; what only looks like one stays."""
    names = set(os.listdir(place))  # noqa: PTH208  # one look: a lock is there before its folder
    for stem in {match[1] for name in names if (match := OURS.fullmatch(name))}:
        with contextlib.suppress(OSError, ImportError):  # it is alive, or just gone, or not ours
            if f"{stem}.lock" in names:
                _remove_dead(place / stem, place / f"{stem}.lock")
            else:  # what a task wrote when its run had ended
                _remove_tree(place / stem)


def _remove_dead(path: Path, lock: Path) -> None:
    if not stat.S_ISREG(lock.lstat().st_mode):  # opening a pipe waits for who writes to it
        return
    handle = os.open(lock, os.O_RDWR | NO_DETOURS)
    try:
        if os.read(handle, HOST_BYTES) == _host():
            _take(handle)
            _remove_tree(path)
            lock.unlink()
    finally:
        os.close(handle)


def _remove_tree(path: Path) -> None:
    """Remove a folder and nothing else of that name: a pipe would be waited for."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)


def _host() -> bytes:
    return socket.gethostname().encode()[:HOST_BYTES]


def _locked(place: Path, name: str) -> tuple[Path, int | None]:
    """Make a lock file that nobody ever sees without its lock; its handle, which holds that."""
    aside, lock = place / f".{name}.lock", place / f"{name}.lock"
    handle: int | None = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    assert handle is not None
    os.write(handle, _host())
    try:
        _take(handle)
    except (OSError, ImportError):  # no locks here: it is never swept
        os.close(handle)
        handle = None
    aside.rename(lock)
    return lock, handle


def _take(handle: int) -> None:
    import fcntl  # not on Windows

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove(path: Path, lock: Path, handle: int | None, owner: int) -> None:
    if os.getpid() != owner:  # a fork
        return
    for _ in range(3):  # a task that is still writing may add to what is being removed
        if path.exists():
            shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # the place may have gone
        lock.unlink(missing_ok=True)
    if handle is not None:
        os.close(handle)
    _LIVE.pop(path, None)
    if not _LIVE and _in_main_thread() and signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _watch() -> None:
    """Listen for SIGTERM, which ends a process without a word to Python, if nobody else does."""
    if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: Any) -> None:
    """Remove what there is, then end as if nobody had listened."""
    for remove in list(_LIVE.values()):
        remove()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
