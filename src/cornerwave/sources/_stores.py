"""Files in object stores and on the web, read in parts, each of the very file that was found first.

s3          botocore: every part is asked for by the object's ETag
https       the standard library: redirects lead to https alone; every part has the first ETag
gs, abfs    Arrow's own file systems; size and time are compared after every part

A file that is replaced while it is read is refused: half of one table and half of another would
be neither. Messages are ours: those of libraries quote addresses, and those quote signatures.
"""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

import pyarrow as pa

from cornerwave import sizes
from cornerwave.errors import ExtraMissing, SourceError, SourceLost
from cornerwave.sources._places import WHERE_SECRETS_ARE, Address

ATTEMPTS = 3
SECONDS = 60

Fetch = Callable[[int, int], bytes]


class StoreRefused(Exception):
    """A store answers with a status; None if it does not answer."""

    def __init__(self, status: int | None = None) -> None:
        super().__init__(status)
        self.status = status


class Lost(StoreRefused):
    """A connection broke; the same part can be asked for again."""


REPLACED = 412


@dataclass(frozen=True)
class StoredFile:
    """A file in a store, as it was when it was found; `fetch` reads from one byte to another."""

    address: Address
    size: int
    fetch: Fetch = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.address.name

    def open(self) -> "RangedFile":
        """Open it for reading, at any place."""
        return RangedFile(self.part, self.size)

    def part(self, start: int, stop: int) -> bytes:
        """Return some of its bytes, asked for again if it breaks. Raises SourceError."""
        for _ in range(ATTEMPTS):
            with reading(self.address), suppress(Lost):
                content = self.fetch(start, stop)
                if len(content) == stop - start:
                    return content
        raise SourceLost(f"{self.name} cannot be read: the connection was lost; try again")


class RangedFile(io.RawIOBase):
    """A file of which parts are fetched when they are needed."""

    def __init__(self, part: Fetch, size: int) -> None:
        self._part, self._size = part, size
        self._at = self._start = 0
        self._held = b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the file goes."""
        stop = min(self._at + len(buffer), self._size)
        count = max(0, stop - self._at)
        if count:
            buffer[:count] = self._bytes(self._at, stop)
            self._at = stop
        return count

    def _bytes(self, start: int, stop: int) -> bytes:
        end = self._start + len(self._held)
        if not self._start <= start <= stop <= end:
            # on from where the last part ended: the file is read from front to back
            ahead = sizes.READ_AHEAD if start in (0, end) or self._start <= start < end else 0
            self._held = self._part(start, min(self._size, max(stop, start + ahead)))
            self._start = start
        return self._held[start - self._start : stop - self._start]


File = Path | StoredFile


def readable(file: File) -> Any:
    """Return what Arrow opens."""
    return str(file) if isinstance(file, Path) else pa.PythonFile(file.open(), "r")


def opened(file: File) -> IO[bytes]:
    """Open a file for Python."""
    if isinstance(file, Path):
        return file.open("rb")
    return io.BufferedReader(file.open(), 1 << 16)


def folders_of(file: File, base: Any) -> tuple[str, ...]:
    """Return the names of the folders between a base and a file."""
    if isinstance(file, Path):
        return file.relative_to(base).parts[:-1]
    below = file.address.path.removeprefix(base.path.rstrip("/") + "/")
    return PurePosixPath(below).parts[:-1]


def stored_files(address: Address) -> tuple[list[StoredFile], bool]:
    """Return the file at an address, or those of a folder by their names, and whether it is one.

    Raises SourceError if there is nothing.
    """
    with reading(address):
        if address.scheme == "https":
            from cornerwave.sources._web import web_file  # not on import: few commands need TLS

            return [web_file(address)], False
        files, is_folder = (_of_s3 if address.scheme == "s3" else _of_arrow)(address)
    if not files:
        raise SourceError(f"there is no file {address}")
    shown = [file for file in files if not file.name.startswith((".", "_"))]
    return sorted(shown, key=lambda file: file.address.path), is_folder


@contextmanager
def reading(address: Address) -> Iterator[None]:
    """Report what a store refuses. Raises SourceError."""
    try:
        yield
    except StoreRefused as error:
        message = f"{address} cannot be read: {meaning(address, error.status)}"
        known = error.status in (404, 410, 416, REPLACED)
        raise (SourceError if known else SourceLost)(message) from None


def meaning(address: Address, status: int | None) -> str:
    """Return what the answer of a store means."""
    hint = f" ({WHERE_SECRETS_ARE[address.scheme]})"
    meanings = {
        None: "the store does not answer; check the connection and the address",
        401: f"the store does not know who asks{hint}",
        403: f"access is refused{hint}",
        404: "it is not there",
        410: "it is not there",
        416: "it is empty",
        REPLACED: "it was replaced since it was opened; run this again",
    }
    return meanings.get(status, f"the store answers {status}")


# --- S3 ---------------------------------------------------------------------------------


def s3_client() -> Any:
    """Return a client of S3, or of what AWS_ENDPOINT_URL names. Raises ExtraMissing."""
    return _client_of(tuple(sorted(each for each in os.environ.items() if each[0][:4] == "AWS_")))


@lru_cache(maxsize=1)
def _client_of(_environment: tuple[tuple[str, str], ...]) -> Any:
    """Return the client for the environment as it is now; making one takes half a second."""
    try:
        import botocore.config
        import botocore.session
    except ImportError:
        raise ExtraMissing.of("s3://", "botocore", extra="cloud") from None
    settings = botocore.config.Config(
        connect_timeout=10, read_timeout=SECONDS, retries={"max_attempts": ATTEMPTS}
    )
    return botocore.session.get_session().create_client("s3", config=settings)


@contextmanager
def s3_asked() -> Iterator[None]:
    """Report what S3 refuses without its words. Raises StoreRefused."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        HTTPClientError,
        NoCredentialsError,
        PartialCredentialsError,
    )
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        raise StoreRefused(status) from None
    except (NoCredentialsError, PartialCredentialsError):
        raise StoreRefused(401) from None
    except (HTTPClientError, HTTPError, OSError):
        raise Lost from None
    except BotoCoreError:
        raise StoreRefused from None


def _of_s3(address: Address) -> tuple[list[StoredFile], bool]:
    client = s3_client()

    def file(key: str, size: int, tag: str) -> StoredFile:
        place = address.below(key)

        def fetch(start: int, stop: int) -> bytes:
            with s3_asked():
                part = f"bytes={start}-{stop - 1}"
                asked = client.get_object(Bucket=place.host, Key=key, Range=part, IfMatch=tag)
                return bytes(asked["Body"].read())

        return StoredFile(place, size, fetch)

    with s3_asked():
        if (about := s3_about(client, address)) is not None:
            return [file(address.path, *about)], False
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=address.host, Prefix=address.path.rstrip("/") + "/"
        )
        objects = [each for page in pages for each in page.get("Contents", ())]
        return [file(o["Key"], o["Size"], o["ETag"]) for o in objects if o["Size"]], True


def s3_about(client: Any, address: Address) -> tuple[int, str] | None:
    """Return the size and the ETag of an object in S3; None if there is none."""
    from botocore.exceptions import ClientError

    try:
        about = client.head_object(Bucket=address.host, Key=address.path)
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
            return None
        raise
    return about["ContentLength"], about["ETag"]


# --- what Arrow opens -------------------------------------------------------------------


def arrow_filesystem(address: Address) -> tuple[Any, str]:
    """Return Arrow's file system of an address, and the path in it."""
    import pyarrow.fs as pafs

    if address.scheme == "gs":
        return pafs.GcsFileSystem(), f"{address.host}/{address.path}"
    container, _, host = address.host.rpartition("@")
    system = pafs.AzureFileSystem(
        account_name=host.partition(".")[0],
        account_key=os.environ.get("AZURE_STORAGE_KEY"),
        sas_token=os.environ.get("AZURE_STORAGE_SAS_TOKEN"),
    )
    return system, f"{container}/{address.path}"


@contextmanager
def arrow_asked() -> Iterator[None]:
    """Report what a store refuses without its words. Raises StoreRefused."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        raise StoreRefused(404 if isinstance(error, FileNotFoundError) else 403) from None
    except (OSError, pa.ArrowException):
        raise StoreRefused from None


def _of_arrow(address: Address) -> tuple[list[StoredFile], bool]:
    import pyarrow.fs as pafs

    system, path = arrow_filesystem(address)
    with arrow_asked():
        there = system.get_file_info(path)
        is_folder = there.type == pafs.FileType.Directory
        below = pafs.FileSelector(path, recursive=True)
        infos = system.get_file_info(below) if is_folder else [there]
    container = path.removesuffix(address.path)

    def file(info: Any) -> StoredFile:
        place = address.below(info.path.removeprefix(container))

        def fetch(start: int, stop: int) -> bytes:
            with arrow_asked():
                with system.open_input_file(info.path) as content:
                    part = content.read_at(stop - start, start)
                now = system.get_file_info(info.path)
            if (now.size, now.mtime_ns) != (info.size, info.mtime_ns):
                raise StoreRefused(REPLACED)
            return bytes(part)

        return StoredFile(place, info.size, fetch)

    return [file(info) for info in infos if info.type == pafs.FileType.File], is_folder
