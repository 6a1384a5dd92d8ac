"""Copies that were made, kept for the next request: a bounded folder that may forget at any time.

A copy is a pure function of its source, key and line in the ledger, so its file has a name
made of all that makes its bytes. It is made once for any number of requests that wait for
it, also across processes, and appears whole after its source passed the fingerprint. What a
killed process leaves lies in a folder apart, which the next one removes.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Generic, TypeVar

import anyio.to_thread
import pyarrow as pa

from cornerwave.access import Sharing
from cornerwave.errors import OutputError
from cornerwave.ledger import Access, now, remove_leftovers, work_folder
from cornerwave.vault import Release

MAKERS = 2
"""Copies made at a time. One keeps all cores busy, and the memory of several adds up; with two, a
small copy need not wait for a large one."""
Watch = Callable[[int], None]
Make = Callable[[Path, Watch], None]
"""Makes a file; it calls `Watch` with the rows done, which raises if nobody waits any more."""


class Abandoned(Exception):
    """Nobody waits for a copy any more."""


class CopyCache:
    """A folder of copies, at most `limit` bytes, the least recently used of which goes first."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit, self._work = folder, limit, folder / "work"
        self._making: dict[Path, asyncio.Task[None]] = {}
        self._waiting: Counter[Path] = Counter()
        self._used: Counter[str] = Counter()
        self._makers = anyio.CapacityLimiter(MAKERS)
        self.made = 0
        """How many files were made, for tests and figures."""
        self._prepare()
        remove_leftovers(self._work)

    def _prepare(self) -> None:
        """Make the folder; its owner may have deleted it, now or at any time."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"the cache cannot be written: {error.strerror}") from None

    @asynccontextmanager
    async def copy(self, release: Release, format_: str) -> AsyncIterator[Path]:
        """Yield the file of a copy, which stays while it is used."""
        key = key_of(release, format_)
        self._used[key] += 1
        try:
            path = self._folder / f"{key}.{format_}"
            yield await self.file(path, lambda part, watch: release.make(part, progress=watch))
        finally:
            self._used[key] -= 1
            self._forget()

    async def file(self, path: Path, make: Make) -> Path:
        """Return a file of the folder; if it is missing, it is made once for all who wait."""
        while not path.exists():
            task = self._making.get(path)
            if task is None:
                task = asyncio.create_task(self._make(path, make))
                self._making[path] = task
                task.add_done_callback(lambda done: self._ended(path, done))
            self._waiting[path] += 1
            try:
                await asyncio.shield(task)
            except Abandoned:  # by those who were here before
                continue
            finally:
                self._waiting[path] -= 1
        with suppress(OSError):
            os.utime(path)
        return path

    def _ended(self, path: Path, task: "asyncio.Task[None]") -> None:
        self._making.pop(path, None)
        if not task.cancelled():
            task.exception()  # if nobody waits any more, nobody else asks for it

    async def _make(self, path: Path, make: Make) -> None:
        def watch(_rows: int) -> None:
            if not self._waiting[path]:
                raise Abandoned

        def work() -> None:
            watch(0)
            self._prepare()
            # one lock for all copies that begin alike, so that there are at most 256 of them
            with _locked(path.with_name(f"{path.name[:2]}.lock")):
                if path.exists():  # another process has made it meanwhile
                    return
                with work_folder(self._work) as folder:
                    self._make_in(folder, path, make, watch)
                self.made += 1

        await anyio.to_thread.run_sync(work, limiter=self._makers)

    def _make_in(self, folder: Path, path: Path, make: Make, watch: Watch) -> None:
        """Make a file and move it to its place. Raises Abandoned if the cache was deleted."""
        try:
            make(folder / path.name, watch)
            (folder / path.name).replace(path)
        except OSError:  # an OutputError among them
            if folder.exists() and path.parent.exists():
                raise
            raise Abandoned from None

    def _forget(self) -> None:
        """Remove what was not used for the longest time, down to the limit."""
        kept = []
        try:
            found = list(self._folder.iterdir())
        except FileNotFoundError:  # its owner deleted it
            return
        for path in found:
            with suppress(FileNotFoundError):
                if path.suffix != ".lock" and path.is_file():
                    kept.append((path.stat().st_mtime, path.stat().st_size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self._limit:
                return
            if not self._used[path.name.partition(".")[0]]:
                path.unlink(missing_ok=True)
                total -= size


def key_of(release: Release, format_: str) -> str:
    """Return the name of a copy: a hash of all that makes its bytes."""
    made = [release.dataset.id, release.written_as(format_).to_json(), pa.__version__]
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:40]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process makes the same copy."""
    try:
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise OutputError(f"the cache cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


# --------------------------------------------------------------------------------------------------
# The access log, and lines that many requests write in one transaction.


FLUSH_SECONDS = 0.5
MOST_WAITING = 100_000
"""Lines that wait for a database that is away."""
Item = TypeVar("Item")


class Grouped(Generic[Item]):
    """Writes what many requests want to write at once in one transaction; each waits for it."""

    def __init__(self, write: Callable[[Sequence[Item]], None]) -> None:
        self._write = write
        self._waiting: SimpleQueue[tuple[Item, Future[None]] | None] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    async def write(self, item: Item) -> None:
        """Return when it is written. Raises what the writing of it, and of its group, raised."""
        done: Future[None] = Future()
        self._waiting.put((item, done))
        await asyncio.wrap_future(done)

    def close(self) -> None:
        """Stop when all is written."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            group = [first]
            while not self._waiting.empty():  # what gathered while the last group was written
                more = self._waiting.get()
                if more is None:
                    self.close()
                    break
                group.append(more)
            self._write_group(group)

    def _write_group(self, group: Sequence[tuple[Item, Future[None]]]) -> None:
        group = [each for each in group if each[1].set_running_or_notify_cancel()]
        try:
            self._write([item for item, _ in group])
        except BaseException as error:
            for _, done in group:
                done.set_exception(error)
        else:
            for _, done in group:
                done.set_result(None)


class AccessLog:
    """Writes the access log: downloads at once, before a byte leaves; the rest twice a second."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._lines: list[Access] = []
        self._urgent = Grouped(sharing.log)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, who: str, what: str, outcome: str, bytes_: int = 0) -> None:
        """Note something for the next time that the log is written."""
        line = _line(who, what, outcome, bytes_)
        with self._lock:
            self._lines.append(line)

    async def add_now(self, who: str, what: str, outcome: str) -> None:
        """Write a line before going on."""
        await self._urgent.write(_line(who, what, outcome, 0))

    def _run(self) -> None:
        while not self._closing.wait(FLUSH_SECONDS):
            self.flush()

    def flush(self) -> None:
        """Write what was noted, as soon as the database takes it."""
        with self._lock:
            lines, self._lines = self._lines, []
        try:
            self._sharing.log(lines)
        except Exception:  # the database is away: keep the lines for the next time
            with self._lock:
                self._lines = (lines + self._lines)[-MOST_WAITING:]

    def close(self) -> None:
        """Write what is left, and stop."""
        self._closing.set()
        self._thread.join()
        self._urgent.close()
        self.flush()


def _line(who: str, what: str, outcome: str, bytes_: int) -> Access:
    """Return a line; a database refuses some characters, and with them all that it gets at once."""
    if not what.isprintable():
        what = "".join(c if c.isprintable() else "\ufffd" for c in what)
    return Access(now().isoformat(timespec="milliseconds"), who, what, outcome, bytes_)
