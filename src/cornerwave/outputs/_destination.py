"""The base of every place that a copy goes to: a copy appears there whole, or not at all.

    check ── open ── rows ── finish ── the ledger's line ── publish

Nobody sees a byte of it before `publish`, and then all of them. `discard` may end it at any time.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa

from cornerwave.errors import CornerwaveError, OutputError, OutputExists
from cornerwave.sources import (
    REPLACED,
    Address,
    DatabaseAddress,
    Place,
    StoreRefused,
    is_of_database,
    meaning,
    meaning_of,
)
from cornerwave.spec import CopyMetadata


@dataclass(eq=False, repr=False)
class Destination(ABC):
    """A copy on its way to a place; unless `force`, another copy that is there is refused."""

    place: Place
    schema: pa.Schema
    metadata: CopyMetadata
    force: bool = field(default=False, kw_only=True)
    format: str = field(init=False)
    """How the ledger names the copy's format."""

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @abstractmethod
    def check(self) -> None:
        """Raise OutputError unless the copy can be written."""

    @abstractmethod
    def open(self) -> None:
        """Begin."""

    @abstractmethod
    def finish(self) -> None:
        """Bring every byte to where nobody sees it yet. Raises OutputExists for another copy."""

    @abstractmethod
    def publish(self) -> None:
        """Make the finished copy visible."""

    @abstractmethod
    def discard(self) -> None:
        """Leave no trace of a copy that was not published."""


class RowDestination(Destination):
    """A destination that takes rows from this process."""

    @abstractmethod
    def encode(self, group: pa.Table) -> Any:
        """Return a group of rows as it will be written; threads may do so side by side."""

    @abstractmethod
    def append(self, encoded: Any) -> None:
        """Write an encoded group after those before it."""

    def write(self, group: pa.Table) -> None:
        """Write the next group of rows."""
        self.append(self.encode(group))


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
    def of(cls, stated: Mapping[str, Any]) -> "Written":
        """Read what a machine states. Raises ValueError, KeyError or TypeError if it is wrong."""
        name, upload, tags = str(stated["name"]), stated["upload"], stated["tags"]
        if Path(name).name != name:
            raise ValueError("not the name of a file")
        return cls(name, None if upload is None else str(upload), tuple(map(str, tags)))


class Sink(ABC):
    """The bytes of one file, written to `file`: nobody sees them before `show`."""

    file: BinaryIO

    def follow(self) -> None:
        """Bring what was written so far on its way; called after each group of rows."""
        return

    @abstractmethod
    def settle(self) -> None:
        """Wait until every byte has arrived."""

    @abstractmethod
    def differs(self) -> bool:
        """Whether there is a file with other bytes at the place."""

    @abstractmethod
    def show(self, *, force: bool) -> None:
        """Make all bytes visible at once; a store refuses to replace a file unless `force`."""

    @abstractmethod
    def hand_over(self) -> Written:
        """Return what another machine needs to show the file."""

    @abstractmethod
    def abort(self) -> None:
        """Forget what was not shown or handed over."""


def exists(place: object) -> OutputExists:
    """Return the error of a copy whose place is taken."""
    return OutputExists(
        f"{place} already exists; choose another name, or replace it by force", use=("force",)
    )


@contextmanager
def writing(place: Place) -> Iterator[None]:
    """Report a copy that cannot be written, in our own words: those of others may quote a cell."""
    try:
        yield
    except CornerwaveError:
        raise
    except Exception as error:
        if isinstance(error, StoreRefused) and error.status in (REPLACED, 409):
            raise exists(place) from None  # If-None-Match: someone was faster
        if (reason := _reason(place, error)) is None:
            raise
        raise OutputError(f"{place} cannot be written: {reason}") from None


def _reason(place: Place, error: Exception) -> str | None:
    """Return why a copy cannot be written; None for an error that is not about that."""
    if isinstance(place, DatabaseAddress):
        return meaning_of(error) if is_of_database(error) else None
    if isinstance(place, Address) and isinstance(error, StoreRefused):
        return meaning(place, error.status)
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else "the system refused"
    if isinstance(error, pa.ArrowException):
        return "a column does not fit this format; try another ending (.parquet or .arrow)"
    return None
