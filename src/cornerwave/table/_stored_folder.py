"""A copy in several objects of S3, sent by several machines and shown by one.

    FOLDER/_copy.json            put first, on the condition that it is not there: one writer
    FOLDER/part-00000.parquet    sent as parts of an upload, which nobody sees; a receipt has its id
    FOLDER/_copy.json            put again at the end: what the copy consists of

S3 renames nothing. So machines send their files to where they will be, and only the uploads of
receipts that count are completed. All others in the folder are aborted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from cornerwave.errors import OutputError, OutputExists
from cornerwave.table._copy_folder import PARTS, Written
from cornerwave.table._places import Address
from cornerwave.table._stores import s3_asked, s3_client
from cornerwave.table._uploads import StoredCopy, complete_upload, exists, remove, sending

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
