"""A copy in several files, written by several machines: it appears whole or not at all.

    .copy.0123456789abcdef.part/     beside its place, for the owner alone
        lock                         held as long as this process lives
        made/                        where machines write, each file under a name of its own
        copy/                        the files that count, moved here in the end

Whatever was begun twice, or came too late, lies in `made` and goes with it.
"""

import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cornerwave.errors import OutputError, OutputExists
from cornerwave.table._durable import sync_directory
from cornerwave.table._outputs import CopyFile, writing

PARTS = "part-*.parquet"
"""The names of a copy's files."""


@dataclass(frozen=True)
class Written:
    """A file that a machine wrote; in a store, the upload that shows it and the tags of its parts.

    >>> Written.of({"name": "part-00000.parquet", "upload": None, "tags": []})
    Written(name='part-00000.parquet', upload=None, tags=())
    """

    name: str
    upload: str | None = None
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Written":
        """Read what a machine says. Raises ValueError, KeyError or TypeError if it is wrong."""
        name, upload, tags = str(said["name"]), said["upload"], said["tags"]
        if Path(name).name != name:
            raise ValueError("not the name of a file")
        return cls(name, None if upload is None else str(upload), tuple(map(str, tags)))


class WrittenFile(CopyFile):
    """A file of a copy in a folder that machines share."""

    @property
    def written(self) -> Written:
        """What to say about it."""
        return Written(self.path.name)


class CopyFolder:
    """A copy on its way to the directory `path`; `publish` or `discard` ends it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            _remove_leftovers(path)
            self._hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
            self._hidden.mkdir(mode=0o700)
            self.made.mkdir(mode=0o700)
            self._lock = (self._hidden / "lock").open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    @property
    def made(self) -> Path:
        """Where machines write."""
        return self._hidden / "made"

    def finish(self, parts: Sequence[Written]) -> None:
        """Take these files of those made, in this order. Raises OutputError if one is not there."""
        with writing(self.path):
            (self._hidden / "copy").mkdir(mode=0o700)
            for number, part in enumerate(parts):
                place = self._hidden / "copy" / f"part-{number:05d}.parquet"
                (self.made / part.name).replace(place)
                place.chmod(0o666 & ~_umask())
            sync_directory(self._hidden / "copy")  # what is in the files machines have synced

    def publish(self) -> None:
        """Make the finished copy visible; what is at its place goes."""
        with writing(self.path):
            copy, old = self._hidden / "copy", self._hidden / "old"
            copy.chmod(0o777 & ~_umask())
            if self.path.exists():
                self.path.rename(old)
            copy.rename(self.path)
            sync_directory(self.path.parent)
        self.discard()

    def discard(self) -> None:
        """Leave no trace of what was not published."""
        gone = self._hidden.with_name(self._hidden.name + ".gone")
        with suppress(OSError):
            # under another name nobody who comes too late finds it
            self._hidden.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._lock.close()


def check_folder(path: Path, *, force: bool) -> None:
    """Raise OutputError unless a directory can be made at this place."""
    with writing(path):
        exists, has_place = path.exists(), path.parent.is_dir()
        is_copy = path.is_dir() and all(each.match(PARTS) for each in path.iterdir())
    if exists and not is_copy:
        raise OutputExists(f"{path} is not a directory of a copy; name a new one for this copy")
    if exists and not force:
        raise OutputExists(
            f"{path} already exists; choose another name, or replace it by force", use=("force",)
        )
    if not has_place:
        raise OutputError(f"there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"no permission to write in {path.parent}")


def _remove_leftovers(path: Path) -> None:
    """Remove what processes that are gone have left of this copy."""
    name = f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"
    for hidden in [*path.parent.glob(name), *path.parent.glob(name + ".gone")]:
        with suppress(OSError), (hidden / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(hidden, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
