"""A network of its own for a worker, whose link can be cut; and disks of a chosen size. As root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


class Link:
    """Two ends of a cable: `here` in this network, `there` in one of its own."""

    def __init__(self) -> None:
        number = os.getpid()
        self.space, self._near = f"dhsic{number}", f"dh{number}"
        third = number % 250
        self.here, self.there = f"10.213.{third}.1", f"10.213.{third}.2"

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command that is to run there."""
        return ("ip", "netns", "exec", self.space)

    def make(self) -> None:
        far = f"{self._near}b"
        _do("ip", "netns", "add", self.space)
        _do("ip", "link", "add", self._near, "type", "veth", "peer", "name", far)
        _do("ip", "link", "set", far, "netns", self.space)
        _do("ip", "address", "add", f"{self.here}/30", "dev", self._near)
        _do("ip", "link", "set", self._near, "up")
        _do(*self.prefix, "ip", "address", "add", f"{self.there}/30", "dev", far)
        _do(*self.prefix, "ip", "link", "set", far, "up")
        _do(*self.prefix, "ip", "link", "set", "lo", "up")

    def cut(self) -> None:
        _do("ip", "link", "set", self._near, "down")

    def remove(self) -> None:
        for command in (("link", "del", self._near), ("netns", "del", self.space)):
            subprocess.run(("ip", *command), check=False, capture_output=True)


@contextlib.contextmanager
def link() -> Iterator[Link]:
    """A link, where this process may make one; else the test is skipped."""
    made = Link()
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("Cutting a network needs root and the command ip.")
    try:
        try:
            made.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"No network can be made here: {error.stderr.strip()}")
        yield made
    finally:
        made.remove()


@contextlib.contextmanager
def disk(path: Path, size: str) -> Iterator[Path]:
    """A disk of so many bytes at `path`, where this process may mount one; else a skip."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("A small disk needs root and the command mount.")
    path.mkdir()
    try:
        _do("mount", "-t", "tmpfs", "-o", f"size={size}", "dhsic", str(path))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"No disk can be mounted here: {error.stderr.strip()}")
    try:
        yield path
    finally:
        _do("umount", str(path))


def resize(path: Path, size: str) -> None:
    """Give a mounted disk another size."""
    _do("mount", "-o", f"remount,size={size}", str(path))
