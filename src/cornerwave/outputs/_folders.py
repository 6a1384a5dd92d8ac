"""A copy in several files, written by several machines: it appears whole or not at all.

    .copy.0123456789abcdef.part/     beside its place, as in _hidden_folders.py
        made/                        where machines write, each file under a name of its own
        copy/                        the files that count, moved here in the end

Whatever was begun twice, or came too late, lies in `made` and goes with it.
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pyarrow as pa

from cornerwave.errors import OutputError, OutputExists
from cornerwave.kinds import JsonObject
from cornerwave.outputs._destination import Destination, Written, exists, writing
from cornerwave.outputs._hidden_folders import HiddenFolder, exchanged
from cornerwave.outputs._outputs import check_parent, sync_directory, umask
from cornerwave.outputs._uploads import complete_upload, remove
from cornerwave.sources import Address, DatabaseAddress, Place, s3_asked, s3_client
from cornerwave.spec import CopyMetadata

FOLDER = "parquet parts"
"""The format of a copy that is a directory of Parquet files."""
PARTS = "part-*.parquet"
"""The names of a copy's files."""
ABOUT = "_copy.json"
"""Readers of folders leave out names that begin so."""


def folder_at(
    place: Place, schema: pa.Schema, metadata: CopyMetadata, *, force: bool = False
) -> "Folder":
    """Return a copy that machines of a cluster write to a place."""
    if isinstance(place, DatabaseAddress):
        raise OutputError(
            f"{place} is not a directory: a cluster writes into a folder, or to s3://"
        )
    kind = CopyFolder if isinstance(place, Path) else StoredFolder
    return kind(place, schema, metadata, force=force)


class Folder(Destination):
    """A copy in several files that machines write below `made`; `take` names those that count."""

    format = FOLDER
    made: Path | Address
    _files: Sequence[Written] = ()

    def check(self) -> None:
        """Raise OutputError unless a folder can be made here, by force in place of a copy's."""
        names = self._names()
        if not all(name == ABOUT or fnmatch(name, PARTS) for name in names or ()):
            raise OutputExists(
                f"{self.place} is not a folder of a copy; name a new one for this copy"
            )
        if names is not None and not self.force:
            raise exists(self.place)

    @abstractmethod
    def _names(self) -> Sequence[str] | None:
        """Return the names of the files that are there; None if there is no such folder."""

    def take(self, files: Sequence[Written]) -> None:
        """Let the copy consist of these files, in this order."""
        self._files = files


class CopyFolder(Folder):
    """A copy on its way to a directory that all machines see."""

    place: Path
    made: Path
    _hidden: HiddenFolder | None = None

    def check(self) -> None:
        """Raise OutputError unless a directory can be made here."""
        super().check()
        check_parent(self.place)

    def _names(self) -> Sequence[str] | None:
        with writing(self.place):
            if not self.place.exists():
                return None
            # a file is not a copy's folder
            return [each.name for each in self.place.iterdir()] if self.place.is_dir() else ["."]

    def open(self) -> None:
        """Make the hidden directory."""
        self._hidden = HiddenFolder(self.place).__enter__()
        with writing(self.place):
            self.made = self._hidden.path / "made"
            self.made.mkdir(mode=0o700)

    @property
    def _copy(self) -> Path:
        assert self._hidden is not None
        return self._hidden.path / "copy"

    def finish(self) -> None:
        """Move the files that count. Raises OutputError if one is not there."""
        with writing(self.place):
            self._copy.mkdir(mode=0o700)
            for number, part in enumerate(self._files):
                place = self._copy / f"part-{number:05d}.parquet"
                (self.made / part.name).replace(place)
                place.chmod(0o666 & ~umask())
            sync_directory(self._copy)  # what is in the files machines have synced

    def publish(self) -> None:
        """Make the finished copy visible; what is at its place goes.

        In one step, unless the file system that machines share cannot exchange two folders.
        """
        with writing(self.place):
            self._copy.chmod(0o777 & ~umask())
            if not self.place.exists():
                self._copy.rename(self.place)
            elif not exchanged(self._copy, self.place):
                self.place.rename(self._copy.with_name("old"))
                self._copy.rename(self.place)
            sync_directory(self.place.parent)

    def discard(self) -> None:
        """Leave no trace of what was not published."""
        if self._hidden is not None:
            self._hidden.remove()  # under another name nobody who comes too late finds it


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


class StoredFolder(Folder):
    """A copy on its way to a folder in S3."""

    place: Address
    _is_open = _is_claimed = False

    def check(self) -> None:
        """Raise OutputError unless a copy in several objects can be put here."""
        if self.place.scheme != "s3":
            raise OutputError(
                f"{self.place} cannot be written: a cluster writes to s3://, or into a directory "
                "that all of its machines see"
            )
        super().check()

    def _names(self) -> Sequence[str] | None:
        with writing(self.place):
            return [each.name for each in _objects(self.place)] or None

    def open(self) -> None:
        """Claim the folder; by force, what is there stays until the new copy is complete."""
        self.made = self.place
        self._shown: list[Address] = []
        if not self.force:
            self._state({"state": "being written"}, is_new=True)
            self._is_claimed = True
        self._is_open = True

    def finish(self) -> None:
        """Raise OutputError if a machine sent no file."""
        if any(part.upload is None for part in self._files):
            raise OutputError(f"{self.place} cannot be written: a machine sent no file")

    def publish(self) -> None:
        """Show the files that count; the last object states that the copy is complete."""
        if self.force:
            self._state({"state": "being written"})
            self._is_claimed = True
            for address in _objects(self.place):
                if address.name != ABOUT:
                    remove(address)
        with writing(self.place):
            for part in self._files:
                place = _below(self.place, part.name)
                assert part.upload is not None
                complete_upload(place, part.upload, part.tags, force=self.force)
                self._shown.append(place)
        self._state({"state": "complete", "files": [part.name for part in self._files]})
        self._is_claimed, self._shown = False, []

    def discard(self) -> None:
        """Leave no trace of what was not published."""
        if not self._is_open:  # the uploads in this folder are another writer's
            return
        for address in self._shown:
            with suppress(Exception):
                remove(address)
        with suppress(Exception):  # who may not list them leaves that to a rule of the bucket
            self._abort_others()
        if self._is_claimed:
            with suppress(Exception):
                remove(_below(self.place, ABOUT))

    def _state(self, content: JsonObject, *, is_new: bool = False) -> None:
        place = _below(self.place, ABOUT)
        condition = {"IfNoneMatch": "*"} if is_new else {}
        with writing(self.place), s3_asked():
            body = (json.dumps(content, indent=2) + "\n").encode()
            s3_client().put_object(Bucket=place.host, Key=place.path, Body=body, **condition)

    def _abort_others(self) -> None:
        """Abort uploads of tasks that ran twice, failed or came too late."""
        client, prefix = s3_client(), _below(self.place, "").path
        pages = client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self.place.host, Prefix=prefix
        )
        for each in [upload for page in pages for upload in page.get("Uploads", ())]:
            where = {"Bucket": self.place.host, "Key": each["Key"]}
            client.abort_multipart_upload(**where, UploadId=each["UploadId"])


def _objects(folder: Address) -> Iterator[Address]:
    pages = s3_client().get_paginator("list_objects_v2")
    with s3_asked():
        for page in pages.paginate(Bucket=folder.host, Prefix=_below(folder, "").path):
            for each in page.get("Contents", ()):
                yield folder.below(each["Key"])


def _below(folder: Address, name: str) -> Address:
    return folder.below(f"{PurePosixPath(folder.path)}/{name}")
