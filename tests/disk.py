"""What a power loss leaves: contents and names that were brought to the disk, call by call.

contents  fsync of the file
names     fsync of the directory, after the entry was made or moved there
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inode = tuple[int, int]


class Disk:
    """Listens to the calls of this process that make names, move them, and sync."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._at = 0
        self._named: dict[Inode, int] = {}
        self._synced: dict[Inode, int] = {}
        for name in ("fsync", "fdatasync"):
            self._listen(monkeypatch, name, lambda descriptor, *_: self._sync(descriptor))
        for name in ("rename", "replace"):
            self._listen(monkeypatch, name, lambda _, there, *__: self._name(Path(there)))
        self._listen(monkeypatch, "mkdir", lambda path, *_: self._name(Path(path)))

    def _listen(
        self, monkeypatch: pytest.MonkeyPatch, name: str, note: Callable[..., None]
    ) -> None:
        true = getattr(os, name)

        def call(*given: Any, **more: Any) -> Any:
            done = true(*given, **more)
            self._at += 1
            note(*given)
            return done

        monkeypatch.setattr(os, name, call)

    def _sync(self, descriptor: int) -> None:
        self._synced[_inode(os.fstat(descriptor))] = self._at

    def _name(self, path: Path) -> None:
        self._named[_inode(path.stat())] = self._at

    def keeps(self, path: Path) -> bool:
        """Whether a power loss now would leave this file or directory at its place, and whole."""
        own = _inode(path.stat())
        named = self._named.get(own, self._at)
        if path.is_file() and not 0 < self._synced.get(own, 0) <= named:
            return False  # its name is there before its content
        inside = all(map(self.keeps, path.iterdir())) if path.is_dir() else True
        return inside and self.keeps_name(path)

    def keeps_name(self, path: Path) -> bool:
        """Whether a power loss now would leave something at this place."""
        named = self._named.get(_inode(path.stat()), 0)
        return self._synced.get(_inode(path.parent.stat()), 0) > named


def _inode(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino
