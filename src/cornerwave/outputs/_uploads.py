"""A copy in a store: no byte of it is visible before it is published, and then all of them are.

s3          the parts of a multipart upload; completing it shows the object. Unless forced, only if
            no object is there: S3 itself decides that, so two writers cannot both succeed
gs, abfs    a file without a name on this machine, put into the store at the end

What is refused is aborted. An upload whose process was killed is invisible, but costs room: the
next writer to its place aborts it after a day, as a rule of the bucket may.
"""

import hashlib
import io
import shutil
import tempfile
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, cast

from cornerwave import sizes
from cornerwave.errors import OutputError
from cornerwave.outputs._destination import Sink, Written, exists, writing
from cornerwave.sources import (
    Address,
    arrow_asked,
    arrow_filesystem,
    s3_about,
    s3_asked,
    s3_client,
    stored_files,
)

PARTS_UNDER_WAY = 3
FORGOTTEN = timedelta(days=1)


class _Upload(Sink, io.RawIOBase):
    """Takes bytes from front to back, and knows their digest."""

    def __init__(self, address: Address) -> None:
        self.address, self.file = address, cast(BinaryIO, self)
        self._hash, self._size, self._is_there = hashlib.sha256(), 0, False

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self._size

    def write(self, data: Any) -> int:
        """Take some more bytes."""
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self._size += len(view)
        self.take(view)
        return len(view)

    def differs(self) -> bool:
        """Whether there is a file with other bytes at the place."""
        there = digest_at(self.address)
        self._is_there = there == self._hash.digest()
        return there is not None and not self._is_there

    def show(self, *, force: bool) -> None:
        """Make all of it visible at once, unless just that is there."""
        if not self._is_there:
            self.put(force=force)

    @abstractmethod
    def take(self, data: memoryview) -> None:
        """Keep or send some bytes."""

    @abstractmethod
    def put(self, *, force: bool) -> None:
        """Put all of it in its place."""


class _S3Upload(_Upload):
    """Parts of a multipart upload; a short file is put as it is, when it is shown."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._client = s3_client()
        self._where = {"Bucket": address.host, "Key": address.path}
        self._held = bytearray()
        self._sent: list[Future[str]] = []
        self._under_way: deque[Future[str]] = deque()
        self._pool = ThreadPoolExecutor(PARTS_UNDER_WAY)
        with s3_asked():
            # at once, so that what may not be written is refused before anything is recorded
            self._id = self._client.create_multipart_upload(**self._where)["UploadId"]
            self._is_open = True
            self._abort_forgotten()

    def take(self, data: memoryview) -> None:
        """Send a part as soon as there is one."""
        self._held += data
        while len(self._held) >= (size := sizes.UPLOAD_PART * (1 + len(self._sent) // 1000)):
            part = bytes(memoryview(self._held)[:size])
            self._held = self._held[size:]
            self._send(part)

    def _send(self, part: bytes) -> None:
        if len(self._under_way) >= PARTS_UNDER_WAY:
            self._under_way.popleft().result()
        self._sent.append(self._pool.submit(self._put_part, len(self._sent) + 1, part))
        self._under_way.append(self._sent[-1])

    def _put_part(self, number: int, part: bytes) -> str:
        with s3_asked():
            tag: str = self._client.upload_part(
                **self._where, UploadId=self._id, PartNumber=number, Body=part
            )["ETag"]
        return tag

    def settle(self) -> None:
        """Send what is left, and wait for all parts."""
        self._send(bytes(self._held))
        self._held = bytearray()
        for part in self._sent:
            part.result()

    def put(self, *, force: bool) -> None:
        """Complete the upload, on the condition that no object is there unless forced."""
        tags = [part.result() for part in self._sent]
        complete_upload(self.address, self._id, tags, force=force)
        self._is_open = False

    def hand_over(self) -> Written:
        """Return what another machine needs to complete the upload: this one forgets it."""
        self._is_open = False
        tags = tuple(part.result() for part in self._sent)
        return Written(self.address.name, self._id, tags)

    def abort(self) -> None:
        """Forget what was sent."""
        for part in self._sent:
            part.cancel()
        self._pool.shutdown()
        if self._is_open:
            self._client.abort_multipart_upload(**self._where, UploadId=self._id)

    def _abort_forgotten(self) -> None:
        """Abort the uploads to this place whose process must have been killed."""
        with suppress(Exception):  # who may not list them leaves that to others
            uploads = self._client.list_multipart_uploads(
                Bucket=self.address.host, Prefix=self.address.path
            )
            for each in uploads.get("Uploads", ()):
                is_other = each["UploadId"] != self._id
                old = datetime.now(UTC) - each["Initiated"] > FORGOTTEN
                if each["Key"] == self.address.path and is_other and old:
                    self._client.abort_multipart_upload(**self._where, UploadId=each["UploadId"])


def complete_upload(address: Address, upload: str, tags: Sequence[str], *, force: bool) -> None:
    """Show what was sent, on the condition that no object is there unless forced."""
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, start=1)]
    condition = {} if force else {"IfNoneMatch": "*"}
    where = {"Bucket": address.host, "Key": address.path}
    with s3_asked():
        s3_client().complete_multipart_upload(
            **where, UploadId=upload, MultipartUpload={"Parts": parts}, **condition
        )


class _StagedUpload(_Upload):
    """A file without a name, readable by nobody else, until it is put into the store."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._system, self._target = arrow_filesystem(address)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `abort`

    def take(self, data: memoryview) -> None:
        """Keep it."""
        self._file.write(data)

    def settle(self) -> None:
        """Do nothing: nothing leaves before it is shown."""

    def put(self, *, force: bool) -> None:
        """Put all of it into the store."""
        if not force and digest_at(self.address) is not None:
            raise exists(self.address)
        self._file.seek(0)
        with arrow_asked():
            try:
                with self._system.open_output_stream(self._target) as target:
                    shutil.copyfileobj(self._file, target, sizes.UPLOAD_PART)
            except BaseException:
                with suppress(OSError):  # closing the stream may have shown a part of it
                    self._system.delete_file(self._target)
                raise

    def hand_over(self) -> Written:
        """Raise OutputError: only S3 shows what another machine has sent."""
        raise OutputError(f"{self.address} cannot be written: a cluster writes to s3://")

    def abort(self) -> None:
        """Forget it."""
        self._file.close()


def upload_to(address: Address) -> Sink:
    """Return an upload to an address."""
    return _S3Upload(address) if address.scheme == "s3" else _StagedUpload(address)


def remove(address: Address) -> None:
    """Remove a file from a store."""
    if address.scheme == "s3":
        with s3_asked():
            s3_client().delete_object(Bucket=address.host, Key=address.path)
        return
    system, path = arrow_filesystem(address)
    with arrow_asked():
        system.delete_file(path)


def digest_at(address: Address) -> bytes | None:
    """Return the digest of the file at an address; None if there is none."""
    if not is_stored(address):
        return None
    [file], _ = stored_files(address)
    with file.open() as content:
        return hashlib.file_digest(content, "sha256").digest()


def is_stored(address: Address) -> bool:
    """Whether there is a file at an address. Raises OutputError if the store does not answer."""
    with writing(address):
        if address.scheme == "s3":
            with s3_asked():
                return s3_about(s3_client(), address) is not None
        system, path = arrow_filesystem(address)
        with arrow_asked():
            return bool(system.get_file_info(path).is_file)
