"""A folder beside a place, in which a copy grows: what is made in it appears there in one step.

    .copy.0123456789abcdef.part/     beside its place, for the owner alone
        lock                         held as long as this process lives
        ...                          what is being made

A folder that is at the place already is exchanged for the new one: at every moment one of the two
is there, also if the process is killed. What it leaves is removed by the next that writes there.
"""

import ctypes
import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from cornerwave.errors import OutputError
from cornerwave.outputs._destination import writing
from cornerwave.outputs._outputs import hidden_beside, leftovers_beside, sync_directory, umask

LOCK = "lock"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_UNABLE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


class HiddenFolder:
    """A folder beside a place that only the owner can read; it vanishes at the end."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __enter__(self) -> Self:
        with writing(self._place):
            remove_leftovers(self._place)
            self.path, self._lock = _create(self._place)
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with all that is in it, first under a name where nobody looks for it."""
        gone = self.path.with_name(self.path.name + ".gone")
        with suppress(OSError):
            self.path.rename(gone)
        _remove(gone)
        self._lock.close()

    def check_exchange(self) -> None:
        """Raise OutputError unless one folder can take the place of another here."""
        one, other = self.path / "one", self.path / "other"
        with writing(self._place):
            one.mkdir()
            other.mkdir()
            can = exchanged(one, other)
            one.rmdir()
            other.rmdir()
        if not can:
            raise OutputError(
                f"{self._place} cannot be replaced here in one step, and a reader would find "
                "neither copy in between; remove it first, or name another place or a .zip"
            )

    def show(self, made: Path) -> None:
        """Move what was made to the place, with the permissions of any new folder or file."""
        with writing(self._place):
            made.chmod((0o777 if made.is_dir() else 0o666) & ~umask())
            for each in made.iterdir() if made.is_dir() else [made]:
                with each.open("rb") as file:
                    os.fsync(file.fileno())
            if made.is_dir():
                sync_directory(made)
            if not (made.is_dir() and self._place.is_dir()):
                made.replace(self._place)
            elif not exchanged(made, self._place):
                raise OutputError(f"{self._place} cannot be replaced in one step; remove it first")
            sync_directory(self._place.parent)


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step; return whether the system can. Raises OSError."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _create(place: Path) -> tuple[Path, IO[bytes]]:
    while True:
        path = hidden_beside(place)
        path.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # removed as a leftover before it was locked
            lock = (path / LOCK).open("xb")
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (path / LOCK).exists():
                return path, lock
            lock.close()


def remove_leftovers(place: Path) -> None:
    """Remove what processes that are gone have left of a copy at this place."""
    for path in leftovers_beside(place, ".gone"):
        with suppress(OSError):
            try:
                lock = (path / LOCK).open("rb")
            except FileNotFoundError:
                path.rmdir()  # killed before or after all else; of a living process it comes anew
                continue
            with lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a hidden folder, its lock last: until then it is known as a leftover."""
    with suppress(OSError):
        for each in path.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != LOCK:
                each.unlink()
        (path / LOCK).unlink(missing_ok=True)
        path.rmdir()
