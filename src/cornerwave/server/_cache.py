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
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio.to_thread
import pyarrow as pa

from cornerwave.dataset import Release
from cornerwave.errors import OutputError
from cornerwave.vault import remove_leftovers, work_folder

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
    made = [release.dataset.id, release.made(format_), pa.__version__]
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
