"""Copies that were made, kept for the next request: a bounded folder that may forget at any time.

A copy is a pure function of its source, key and line in the ledger, so its file has a name
made of all that makes its bytes. It is made once for any number of requests that wait for
it, also across processes, and appears whole after its source passed the fingerprint.
"""

import asyncio
import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio.to_thread
import pyarrow as pa

from cornerwave.dataset import Release
from cornerwave.errors import OutputError


class Abandoned(Exception):
    """Nobody waits for a copy any more."""


class CopyCache:
    """A folder of copies, at most `limit` bytes, the least recently used of which goes first."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._making: dict[str, asyncio.Task[Path]] = {}
        self._waiting: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self.made = 0
        """How many copies were made, for tests and figures."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @asynccontextmanager
    async def copy(self, release: Release, format_: str) -> AsyncIterator[Path]:
        """Yield the file of a copy, which stays while it is used."""
        key = key_of(release, format_)
        self._used[key] += 1
        try:
            yield await self._get(key, release, format_)
        finally:
            self._used[key] -= 1
            self._forget()

    async def _get(self, key: str, release: Release, format_: str) -> Path:
        path = self._folder / f"{key}.{format_}"
        if path.exists():
            with suppress(OSError):
                os.utime(path)
            return path
        task = self._making.get(key)
        if task is None:
            task = asyncio.create_task(self._make(key, path, release))
            self._making[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[key] -= 1

    def _ended(self, key: str, task: "asyncio.Task[Path]") -> None:
        self._making.pop(key, None)
        if not task.cancelled():
            task.exception()  # if nobody waits any more, nobody else asks for it

    async def _make(self, key: str, path: Path, release: Release) -> Path:
        def watch(_rows: int) -> None:
            if not self._waiting[key]:
                raise Abandoned

        def make() -> None:
            with locked(path.with_suffix(".lock")):
                if not path.exists():  # another process may have made it meanwhile
                    release.make(path, progress=watch)
                    self.made += 1

        await anyio.to_thread.run_sync(make)
        return path

    def _forget(self) -> None:
        """Remove what was not used for the longest time, down to the limit."""
        kept = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if path.suffix != ".lock" and not path.name.startswith("."):
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
def locked(path: Path) -> Iterator[None]:
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
