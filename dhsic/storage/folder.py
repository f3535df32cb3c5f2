"""Store in a folder: files are synced to disk, and replaced atomically."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from dhsic.errors import CheckpointError
from dhsic.storage.base import AbstractStore, StoredFile, Tag, store_removed_error
from dhsic.storage.paths import check_place


def _sync_folder(folder: Path) -> None:
    """Sync the directory entries of a folder to disk (not on Windows)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unblocked(path: str, flags: int) -> int:
    """Open a file without blocking on a named pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _aside(path: Path) -> Path:
    """Return the path of the temporary file that `replacing` writes and renames."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def replacing(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Yield a temporary file, which replaces `path` at the end if no error occurred.

    After a crash, `path` contains either the old content or the new content. If `sync` is False,
    the new content is not flushed to disk and may be lost if the machine crashes.
    """
    part = _aside(path)
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        part.replace(path)
        if sync:
            _sync_folder(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class FileStore(AbstractStore):
    """Store in a folder, which does not have to exist yet."""

    path: Path

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_there(self) -> bool:
        return self.path.is_dir()

    def make(self) -> bool:
        """Create the folder, and if necessary its parent, but not its grandparent."""
        check_place(self.path, "The checkpoint", CheckpointError)
        is_new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise CheckpointError(
                f"checkpoint={str(self.path)!r} is a file, or inside a file. Pass a new folder."
            ) from error
        return is_new

    def names(self) -> set[str]:
        names = {path.name for path in self.path.iterdir()}
        return {name for name in names if not (name.startswith(".") and name.endswith(".tmp"))}

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def get(self, name: str) -> StoredFile | None:
        """Read the file with this name; return None if it does not exist.

        Raises
        ------
        OSError
            The file is a pipe or a device, which might never end.
        """
        path = self.path / name
        try:
            with open(path, "rb", opener=_unblocked) as file:  # Path.open has no opener
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise OSError(errno.EINVAL, "it is not a regular file", str(path))
                return StoredFile(file.read(), {}, datetime.fromtimestamp(about.st_mtime, UTC))
        except FileNotFoundError:
            return None

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        contents = {}
        for name in names:
            try:
                contents[name] = self.read(name)
            except OSError:  # an unreadable file counts as missing
                continue
        return contents

    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        path = self.path / name
        if path.parent != self.path:
            path.parent.mkdir(exist_ok=True)
        with replacing(path, sync=sync) as file:
            file.write(data)

    def write_node(
        self, name: str, files: Mapping[str, bytes], confirm: Callable[[], object]
    ) -> None:
        """Write files to a subfolder; any old one is replaced, and its parent must exist."""
        folder = self.path / name
        if folder.exists():
            shutil.rmtree(folder)
        try:
            folder.mkdir()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise store_removed_error(folder.parent) from error
        for part, data in files.items():
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            with (folder / part).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        folders = {(folder / part).parent for part in files}  # their entries must be synced, too
        # The folder of rounds was synced when it was created.
        above = (folder.parent,) if "/" in name else (self.path, self.path.parent)
        for changed in (*sorted(folders, reverse=True), *above):
            _sync_folder(changed)

    def replace(self, name: str, data: bytes, tag: Tag | None) -> Tag:
        """Replace a file; raise CheckpointError if the folder was removed."""
        try:
            with replacing(self.path / name) as file:
                file.write(data)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise store_removed_error(self.path) from error
        return {}

    def remove(self, *names: str) -> None:
        for path in (self.path / name for name in names):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
                _aside(path).unlink(missing_ok=True)
