"""A copy in several files, written by several machines: it appears whole or not at all.

    .copy.0123456789abcdef.part/     beside its place, for the owner alone
        lock                         held as long as this process lives
        made/                        where machines write, each file under a name of its own
        copy/                        the files that count, moved here in the end

Whatever was begun twice, or came too late, lies in `made` and goes with it.
"""

import fcntl
import glob
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from cornerwave.errors import OutputError, OutputExists
from cornerwave.outputs._outputs import CopyFile, sync_directory, writing
from cornerwave.outputs._uploads import StoredCopy, complete_upload, exists, remove, sending
from cornerwave.sources import Address, s3_asked, s3_client

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


# --------------------------------------------------------------------------------------------------
# A copy in several objects of S3, sent by several machines and shown by one.
#
#     FOLDER/_copy.json            put first, on the condition that it is not there: one writer
#     FOLDER/part-00000.parquet    sent as parts of an upload, which nobody sees; a receipt has its
#     id
#     FOLDER/_copy.json            put again at the end: what the copy consists of
#
# S3 renames nothing. So machines send their files to where they will be, and only the uploads of
# receipts that count are completed. All others in the folder are aborted.


ABOUT = "_copy.json"
"""Readers of folders leave out names that begin so."""


class StoredPart(StoredCopy):
    """A file of a copy on its way into a store: sent, but shown by another machine."""

    def write(self, group: pa.Table) -> None:
        """Send the next group of rows."""
        self.append(self.encode(group))

    def publish(self) -> None:
        """Leave it to who gets the receipt."""
        self.written = Written(self.path.name, *self._upload.handed_over())


class StoredFolder:
    """A copy on its way to a folder in S3; `publish` or `discard` ends it."""

    def __init__(self, address: Address, *, force: bool = False) -> None:
        self.path = self.made = address
        self._force, self._is_claimed = force, False
        self._parts: list[Written] = []
        self._shown: list[Address] = []
        if not force:  # by force, what is there stays until the new copy is complete
            self._tell({"state": "being written"}, is_new=True)
            self._is_claimed = True

    def finish(self, parts: Sequence[Written]) -> None:
        """Take these files of those sent, in this order."""
        if any(part.upload is None for part in parts):
            raise OutputError(f"{self.path} cannot be written: a machine sent no file")
        self._parts = list(parts)

    def publish(self) -> None:
        """Show the files that count; the last object says that the copy is complete."""
        if self._force:
            self._tell({"state": "being written"})
            self._is_claimed = True
            for address in _objects(self.path):
                if address.name != ABOUT:
                    remove(address)
        with sending(self.path):
            for part in self._parts:
                place = _below(self.path, part.name)
                assert part.upload is not None
                complete_upload(place, part.upload, part.tags, force=self._force)
                self._shown.append(place)
        self._tell({"state": "complete", "files": [part.name for part in self._parts]})
        self._is_claimed, self._shown = False, []
        self.discard()

    def discard(self) -> None:
        """Leave no trace of what was not published."""
        for address in self._shown:
            with suppress(Exception):
                remove(address)
        with suppress(Exception):  # who may not list them leaves that to a rule of the bucket
            self._abort_others()
        if self._is_claimed:
            with suppress(Exception):
                remove(_below(self.path, ABOUT))

    def _tell(self, said: Mapping[str, Any], *, is_new: bool = False) -> None:
        place = _below(self.path, ABOUT)
        condition = {"IfNoneMatch": "*"} if is_new else {}
        with sending(self.path), s3_asked():
            content = (json.dumps(said, indent=2) + "\n").encode()
            s3_client().put_object(Bucket=place.host, Key=place.path, Body=content, **condition)

    def _abort_others(self) -> None:
        """Abort uploads of tasks that ran twice, failed or came too late."""
        client, prefix = s3_client(), _below(self.path, "").path
        pages = client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self.path.host, Prefix=prefix
        )
        for each in [upload for page in pages for upload in page.get("Uploads", ())]:
            where = {"Bucket": self.path.host, "Key": each["Key"]}
            client.abort_multipart_upload(**where, UploadId=each["UploadId"])


def check_stored_folder(address: Address, *, force: bool) -> None:
    """Raise OutputError unless a copy in several objects can be put here."""
    if address.scheme != "s3":
        raise OutputError(
            f"{address} cannot be written: a cluster writes to s3://, or into a directory that all "
            "of its machines see"
        )
    with sending(address):
        names = [each.name for each in _objects(address)]
    if not all(name == ABOUT or fnmatch(name, PARTS) for name in names):
        raise OutputExists(f"{address} is not a folder of a copy; name a new one for this copy")
    if names and not force:
        raise exists(address)


def _objects(folder: Address) -> Iterator[Address]:
    pages = s3_client().get_paginator("list_objects_v2")
    with s3_asked():
        for page in pages.paginate(Bucket=folder.host, Prefix=_below(folder, "").path):
            for each in page.get("Contents", ()):
                yield folder.below(each["Key"])


def _below(folder: Address, name: str) -> Address:
    return folder.below(f"{PurePosixPath(folder.path)}/{name}")
