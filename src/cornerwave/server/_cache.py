"""Everything that the service has made and may need again: files in one bounded folder.

A copy is a pure function of its source, the key and its CopySpec, so the name of its file is a hash
of dataset and spec, which has the edition and the format in it (`name_of`). A report is a function
of its dataset's chain, so its name has the head of the chain in it. A file is made once for all
requests that wait for it, also across processes, and appears whole after its source passed the
fingerprint. No process removes a file that another one uses. The owner may remove any file at any
time; it is made again. What a killed process leaves lies in a folder apart, which the next one
removes.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from cornerwave.errors import CornerwaveError, OutputError
from cornerwave.ledger import remove_leftovers, work_folder

MAKERS = 2
"""Files made at a time. One keeps all cores busy, and the memory of several adds up; with two, a
small copy need not wait for a large one."""
LISTED_AFTER = 1 / 16
"""After files of so much of the limit were made here, the folder is listed again."""
Watch = Callable[[int], None]
Make = Callable[[Path, Watch], object]
"""Makes a file; it calls `Watch` with the rows done, which raises if nobody waits any more."""


class Abandoned(Exception):
    """Nobody waits for a file any more, or the folder was deleted while it was made."""


class _Making:
    """A file that is being made, and how many requests wait for it.

    Only the event loop counts; the thread that makes the file sees `unwanted` alone.
    """

    task: "asyncio.Task[None]"

    def __init__(self) -> None:
        self._waiting, self.unwanted = 0, threading.Event()

    async def wait(self) -> None:
        """Return when the file is made. Raises what the making raised."""
        self._waiting += 1
        self.unwanted.clear()
        try:
            await asyncio.shield(self.task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.unwanted.set()

    def watch(self, _rows: int = 0) -> None:
        """Raise Abandoned if nobody waits any more."""
        if self.unwanted.is_set():
            raise Abandoned


class Cache:
    """A folder of files, at most `limit` bytes, the least recently used of which goes first."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit, self._work = folder, limit, folder / "work"
        self._making: dict[str, _Making] = {}
        self._used: Counter[str] = Counter()
        self._kept: OrderedDict[str, _Kept] | None = None  # of the folder; the least recent first
        self._bytes, self._made_bytes = 0, 0  # of these, and of those made since they were listed
        self._makers = anyio.CapacityLimiter(MAKERS)
        self._prepare()
        remove_leftovers(self._work)

    def _prepare(self) -> None:
        """Make the folder; its owner may have deleted it, now or at any time."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"the cache cannot be written: {error.strerror}") from None

    @asynccontextmanager
    async def file(self, name: str, make: Make) -> AsyncIterator[Path]:
        """Yield a file, which stays while it is used; if it is missing, it is made."""
        path = self._folder / name
        self._used[name] += 1
        try:
            while (in_use := _lock(path, fcntl.LOCK_SH)) is None:
                with suppress(Abandoned):  # by those who waited before
                    await self._make_once(path, make)
            try:
                with suppress(OSError):
                    os.utime(path)
                    self._note(path)
                yield path
            finally:
                os.close(in_use)
        finally:
            self._used[name] -= 1
            self._used = +self._used  # without those that nobody uses
            self._forget()

    async def _make_once(self, path: Path, make: Make) -> None:
        """Make a file, or wait for those who make it already."""
        making = self._making.get(path.name)
        # One that is done is forgotten a moment later; to wait for it would not wait at all.
        if making is None or making.task.done():
            making = self._making[path.name] = _Making()
            making.task = asyncio.create_task(self._make(path, make, making.watch))
            making.task.add_done_callback(partial(self._ended, path.name))
        await making.wait()

    def _ended(self, name: str, task: "asyncio.Task[None]") -> None:
        if name in self._making and self._making[name].task is task:
            del self._making[name]
        if not task.cancelled():
            task.exception()  # if nobody waits any more, nobody else asks for it

    async def _make(self, path: Path, make: Make, watch: Watch) -> None:
        def work() -> None:
            watch(0)
            self._prepare()
            # one lock for all files that begin alike, so that there are at most 256 of them
            with _locked(path.with_name(f"{path.name[:2]}.lock")):
                if path.exists():  # another process has made it meanwhile
                    return
                with work_folder(self._work) as folder:
                    _make_in(folder, path, make, watch)

        await anyio.to_thread.run_sync(work, limiter=self._makers)

    def _note(self, path: Path) -> None:
        """Remember a file as the most recently used one. Raises OSError if it is gone."""
        if self._kept is None:
            return
        there = path.stat()
        if (known := self._kept.pop(path.name, None)) is None:
            self._made_bytes += there.st_size
        self._bytes += there.st_size - (known.size if known else 0)
        self._kept[path.name] = _Kept(there.st_mtime, there.st_size)

    def _forget(self) -> None:
        """Remove what was not used for the longest time, down to the limit.

        The folder is listed once, and again after many new bytes: other processes make files too.
        """
        if self._kept is None or self._made_bytes > self._limit * LISTED_AFTER:
            self._kept = OrderedDict(sorted(_files(self._folder), key=lambda each: each[1].used))
            self._bytes, self._made_bytes = sum(each.size for each in self._kept.values()), 0
        for name in [*self._kept] if self._bytes > self._limit else ():
            if self._bytes <= self._limit:
                return
            if self._used[name]:
                continue
            path, known = self._folder / name, self._kept[name]
            try:
                is_recent = path.stat().st_mtime > known.used
            except OSError:  # its owner, or another process, has removed it
                is_recent = False
            if is_recent:  # another process uses it
                self._note(path)
            elif _remove(path):
                del self._kept[name]
                self._bytes -= known.size


def name_of(*made_of: Any) -> str:
    """Return the name of a file without its ending: a hash of all that makes its bytes."""
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:40]


def _make_in(folder: Path, path: Path, make: Make, watch: Watch) -> None:
    """Make a file and move it to its place.

    Raises Abandoned if the cache was deleted, OutputError if it cannot be written.
    """
    try:
        make(folder / path.name, watch)
        (folder / path.name).replace(path)
    except OSError as error:  # an OutputError among them
        if not (folder.exists() and path.parent.exists()):
            raise Abandoned from None
        if isinstance(error, CornerwaveError):
            raise
        raise OutputError(f"the cache cannot be written: {error.strerror}") from None


def _lock(path: Path, how: int) -> int | None:
    """Return a descriptor that locks a file until it is closed, so that no process removes it.

    None if the file is missing, or locked by others. Raises OutputError.
    """
    with ExitStack() as closing:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            closing.callback(os.close, file)
            fcntl.flock(file, how | fcntl.LOCK_NB)
            is_there = os.path.samestat(os.fstat(file), path.stat())
        except (FileNotFoundError, NotADirectoryError, BlockingIOError):
            return None
        except OSError as error:
            raise OutputError(f"the cache cannot be read: {error.strerror}") from None
        if is_there:  # else it was removed before it was locked
            closing.pop_all()
        return file if is_there else None


def _remove(path: Path) -> bool:
    """Remove a file unless another process uses it; return whether it is gone."""
    with suppress(OSError):
        if (file := _lock(path, fcntl.LOCK_EX)) is not None:
            try:
                path.unlink(missing_ok=True)
            finally:
                os.close(file)
    return not path.exists()


class _Kept(NamedTuple):
    """When a file was used last, and its size."""

    used: float
    size: int


def _files(folder: Path) -> Iterator[tuple[str, _Kept]]:
    """Yield the files by name; nothing if the folder was deleted."""
    with suppress(OSError):  # or something else has taken its place
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                if path.suffix != ".lock" and path.is_file():
                    there = path.stat()
                    yield path.name, _Kept(there.st_mtime, there.st_size)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process makes the same file."""
    try:
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise OutputError(f"the cache cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
