"""A part of an object store as a place: everything below one URL."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from dhsic._typing import Array
from dhsic.storage.base import AbstractFenced, AbstractLock, AbstractPlace, LostError, gone
from dhsic.storage.lease import Lease
from dhsic.storage.nodes import encode
from dhsic.storage.objects import Objects, Tag

#: What begins the names of objects that are there for a moment.
MOMENTARY = ".dhsic-"


class FencedObject(AbstractFenced):
    """An object that is written on the condition that it is as this process left it.

    A holder that was paused until its lease ran out, and was followed, is refused by the store
    itself: its successor has written the object first of all.
    """

    needs_claim = True

    def __init__(self, objects: Objects, name: str, lock: AbstractLock) -> None:
        self._objects = objects
        self._name = name
        self._lock = lock
        self._tag: Tag | None = None

    def read(self) -> bytes | None:
        """What is there."""
        found = self._objects.get(self._name)
        self._tag = None if found is None else found.tag
        return None if found is None else found.data

    def mark(self) -> dict[str, str]:
        """A name of the next write."""
        return {"dhsic_write": secrets.token_hex(8)}

    def write(self, data: bytes) -> None:
        """Replace it."""
        self._lock.confirm()
        if self._tag is None:
            tag = self._objects.create(self._name, data)
        else:
            tag = self._objects.update(self._name, data, self._tag)
        if tag is None and not self._objects.has(self._name):
            raise gone(self._objects.url)
        if tag is None:
            raise LostError(
                f"{self._objects.url}/{self._name} was written by another process, which has "
                "followed this one. Let that one go on; the rounds that are done are kept."
            )
        self._tag = tag


class Bucket(AbstractPlace):
    """Objects below a URL.

    Parameters
    ----------
    url : str
        As `dhsic.storage.urls.check_url` returns it.
    """

    path: str
    rarer = 10

    def __init__(self, url: str) -> None:
        self.path = url
        self._objects = Objects(url)

    def is_there(self) -> bool:
        return bool(self._objects.top())

    def make(self) -> bool:
        """There are no folders to make."""
        return False

    def unmake(self) -> None:
        """There are no folders to remove."""

    def names(self) -> set[str]:
        """Names at the top."""
        return {name for name in self._objects.top() if not name.startswith(MOMENTARY)}

    def tree(self) -> list[str]:
        return self._objects.below()

    def has(self, name: str) -> bool:
        return self._objects.has(name)

    def read(self, name: str) -> bytes:
        """Content of an object."""
        found = self._objects.get(name)
        if found is None:
            raise FileNotFoundError(f"{self.path}/{name} is not there")
        return found.data

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        return self._objects.get_all(names)

    def write(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Put an object."""
        self._objects.put(name, data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """Put objects, many at once."""
        self._objects.each(lambda name: self._objects.put(name, files[name]), files)

    def write_node(
        self,
        name: str,
        attributes: Mapping[str, Any],
        arrays: Mapping[str, Array],
        lock: AbstractLock,
    ) -> None:
        """Put the objects of a group, many at once."""
        files = {f"{name}/{part}": data for part, data in encode(attributes, arrays).items()}
        self._objects.each(lambda part: self._put_ours(part, files[part], lock), files)

    def _put_ours(self, name: str, data: bytes, lock: AbstractLock) -> None:
        """Put an object where none is, or in the place of what a dead run left.

        Between looking at what is there and replacing it the lease is asked for. So what a
        successor has put there is either seen too late to be replaced, or not at all.
        """
        tag = self._objects.create(name, data)
        while tag is None:
            found = self._objects.get(name)
            lock.confirm(surely=True)
            if found is None:
                tag = self._objects.create(name, data)
            else:
                tag = self._objects.update(name, data, found.tag)

    def remove(self, *names: str) -> None:
        below: list[str] = []
        self._objects.each(lambda name: below.extend(self._objects.below(name)), names)
        self._objects.delete(*below, *filter(None, names))

    def lock(self, name: str) -> Lease:
        return Lease(self.path, name)

    def fenced(self, name: str, lock: AbstractLock) -> FencedObject:
        """The object of this name."""
        return FencedObject(self._objects, name, lock)
