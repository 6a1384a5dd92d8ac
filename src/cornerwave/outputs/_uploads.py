"""A copy in a store: no byte of it is visible before it is published, and then all of them are.

s3          the parts of a multipart upload; completing it shows the object. Unless forced, only if
            no object is there: S3 itself decides that, so two writers cannot both succeed
gs, abfs    a file without a name on this machine, put into the store at the end

What is refused is aborted. An upload whose process was killed is invisible, but costs room: the
next writer to its place aborts it after a day, as a rule of the bucket may.
"""

import hashlib
import io
import json
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, cast

import pyarrow as pa

from cornerwave.errors import OutputError, OutputExists
from cornerwave.outputs._copy_metadata import METADATA_KEY, metadata_path
from cornerwave.outputs._formats import writer_of, written_schema
from cornerwave.sources import (
    REPLACED,
    Address,
    StoreRefused,
    arrow_asked,
    arrow_filesystem,
    format_of,
    meaning,
    s3_about,
    s3_asked,
    s3_client,
    stored_files,
)

PART = 1 << 24
"""Bytes of a part; they grow every thousand parts, of which S3 takes ten thousand."""

PARTS_UNDER_WAY = 3
FORGOTTEN = timedelta(days=1)


class StoredCopy:
    """A copy on its way to an address; `publish` or `discard` ends it."""

    def __init__(self, address: Address, schema: pa.Schema, metadata: Mapping[str, Any]) -> None:
        self.path = address
        self.format = format_of(address)
        self._beside = text_beside(metadata) if "csv" in self.format else None
        self._schema = written_schema(self.format, schema).with_metadata(
            {METADATA_KEY: json.dumps(metadata).encode()}
        )
        self._force = self._is_there = False
        with sending(address):
            self._upload = _upload_to(address)
            try:
                self._writer = writer_of(self.format, cast(BinaryIO, self._upload), self._schema)
            except BaseException:
                self.discard()
                raise

    def encode(self, group: pa.Table) -> Any:
        """Return a group of rows as it will be written; threads may do so side by side."""
        with sending(self.path):
            return self._writer.encode(group.cast(self._schema))

    def append(self, encoded: Any) -> None:
        """Send an encoded group after those before it."""
        with sending(self.path):
            self._writer.append(encoded)

    def finish(self, *, force: bool = True) -> None:
        """Send every byte. Unless `force`, raises OutputExists for another file."""
        self._force = force
        with sending(self.path):
            self._writer.close()
            self._upload.flush_parts()
        if not force and (there := digest_at(self.path)) is not None:
            if there != self._upload.digest:
                raise exists(self.path)
            self._is_there = True

    def publish(self) -> None:
        """Make the finished copy visible."""
        if self._is_there:
            return
        with sending(self.path):
            beside = metadata_path(self.path)
            # in the place of others by force alone
            is_new = self._beside and put_bytes(beside, self._beside, force=self._force)
            try:
                self._upload.show(force=self._force)
            except BaseException:
                if is_new:
                    remove(beside)
                raise

    def discard(self) -> None:
        """Leave no trace of a copy that was not published."""
        with suppress(Exception):
            self._upload.abort()


class _Upload(io.RawIOBase):
    """Takes bytes from front to back, and knows their digest."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._hash, self._size = hashlib.sha256(), 0

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

    @property
    def digest(self) -> bytes:
        """The digest of all bytes."""
        return self._hash.digest()

    def take(self, data: memoryview) -> None:
        """Keep or send some bytes."""
        raise NotImplementedError

    def flush_parts(self) -> None:
        """See to it that every byte has arrived, as far as nobody can see it."""
        raise NotImplementedError

    def show(self, *, force: bool) -> None:
        """Make all of it visible at once."""
        raise NotImplementedError

    def handed_over(self) -> tuple[str, tuple[str, ...]]:
        """Return what another machine needs to show it."""
        raise NotImplementedError

    def abort(self) -> None:
        """Forget it."""
        raise NotImplementedError


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
        while len(self._held) >= (size := PART * (1 + len(self._sent) // 1000)):
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

    def flush_parts(self) -> None:
        """Send what is left, and wait for all parts."""
        self._send(bytes(self._held))
        self._held = bytearray()
        for part in self._sent:
            part.result()

    def show(self, *, force: bool) -> None:
        """Complete the upload, on the condition that no object is there unless forced."""
        tags = [part.result() for part in self._sent]
        complete_upload(self.address, self._id, tags, force=force)
        self._is_open = False

    def handed_over(self) -> tuple[str, tuple[str, ...]]:
        """Return what another machine needs to complete the upload: this one forgets it."""
        self._is_open = False
        return self._id, tuple(part.result() for part in self._sent)

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
            found = self._client.list_multipart_uploads(
                Bucket=self.address.host, Prefix=self.address.path
            )
            for each in found.get("Uploads", ()):
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

    def flush_parts(self) -> None:
        """Nothing leaves before it is shown."""

    def show(self, *, force: bool) -> None:
        """Put all of it into the store."""
        if not force and digest_at(self.address) is not None:
            raise exists(self.address)
        self._file.seek(0)
        with arrow_asked():
            try:
                with self._system.open_output_stream(self._target) as target:
                    shutil.copyfileobj(self._file, target, PART)
            except BaseException:
                with suppress(OSError):  # closing the stream may have shown a part of it
                    self._system.delete_file(self._target)
                raise

    def abort(self) -> None:
        """Forget it."""
        self._file.close()


def _upload_to(address: Address) -> _Upload:
    return _S3Upload(address) if address.scheme == "s3" else _StagedUpload(address)


def put_bytes(address: Address, content: bytes, *, force: bool) -> bool:
    """Put a short file into a store; return whether there was none.

    Unless `force`, raises OutputExists for a file that says anything else.
    """
    with sending(address):
        there = digest_at(address)
        if there == hashlib.sha256(content).digest():
            return False
        if there is not None and not force:
            raise exists(address)
        upload = _upload_to(address)
        try:
            upload.write(content)
            upload.flush_parts()
            upload.show(force=force)
        finally:
            upload.abort()
    return there is None


def text_beside(metadata: Mapping[str, Any]) -> bytes:
    """Return the metadata of a CSV copy, as they lie beside it."""
    return (json.dumps(metadata, indent=2) + "\n").encode()


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
    """Whether there is a file at an address. Raises OutputError if the store does not say."""
    with sending(address):
        if address.scheme == "s3":
            with s3_asked():
                return s3_about(s3_client(), address) is not None
        system, path = arrow_filesystem(address)
        with arrow_asked():
            return bool(system.get_file_info(path).is_file)


def check_address(address: Address) -> None:
    """Raise OutputError unless an address can be written to."""
    if address.scheme == "https":
        raise OutputError(f"{address} cannot be written: https:// addresses are only read")


def exists(place: object) -> OutputExists:
    """Return the error of a copy whose place is taken."""
    return OutputExists(
        f"{place} already exists; choose another name, or replace it by force", use=("force",)
    )


@contextmanager
def sending(address: Address) -> Iterator[None]:
    """Report a copy that cannot be written, in our own words."""
    try:
        yield
    except StoreRefused as error:
        if error.status in (REPLACED, 409):  # If-None-Match: somebody was faster
            raise exists(address) from None
        said = meaning(address, error.status)
        raise OutputError(f"{address} cannot be written: {said}") from None
    except pa.ArrowException:
        raise OutputError(
            f"{address} cannot be written: a column does not fit this format; try another "
            "ending (.parquet or .arrow)"
        ) from None
