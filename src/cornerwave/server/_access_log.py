"""The access log, and lines that many requests write in one transaction."""

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from datetime import datetime
from queue import SimpleQueue
from typing import Generic, TypeVar

from cornerwave.access import Sharing
from cornerwave.ledger import Access

FLUSH_SECONDS = 0.5
MOST_UNWRITTEN = 100_000
"""Lines that are kept for a database that is away."""
Item = TypeVar("Item")


class Grouped(Generic[Item]):
    """Writes what many requests want to write at once in one transaction; each waits for it.

    What has one `key` is written together, and fails together.
    """

    def __init__(
        self, write: Callable[[Sequence[Item]], None], *, key: Callable[[Item], Hashable]
    ) -> None:
        self._write, self._key = write, key
        self._waiting: SimpleQueue[tuple[Item, Future[None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def write(self, item: Item) -> None:
        """Return when it is written. Raises what the writing of it, and of its group, raised."""
        done: Future[None] = Future()
        self._waiting.put((item, done))
        await asyncio.wrap_future(done)

    def close(self) -> None:
        """Return when all is written."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        closing = False
        while not closing:
            taken = [self._waiting.get()]
            while not self._waiting.empty():  # what gathered while the last groups were written
                taken.append(self._waiting.get())
            closing = None in taken
            groups: dict[Hashable, list[tuple[Item, Future[None]]]] = {}
            for each in taken:
                if each is not None:
                    groups.setdefault(self._key(each[0]), []).append(each)
            for group in groups.values():
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
    """Writes what was noted about requests, twice a second."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._lines: list[Access] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, who: str, what: str, outcome: str, bytes_: int) -> None:
        """Note something for the next time that the log is written."""
        line = line_of(self._sharing.clock(), who, what, outcome, bytes_)
        with self._lock:
            self._lines.append(line)

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
                self._lines = (lines + self._lines)[-MOST_UNWRITTEN:]

    def close(self) -> None:
        """Write what is left, and stop."""
        self._closing.set()
        self._thread.join()
        self.flush()


def line_of(at: datetime, who: str, what: str, outcome: str, bytes_: int = 0) -> Access:
    """Return a line; a database refuses some characters, and with them all that it gets at once."""
    if not what.isprintable():
        what = "".join(c if c.isprintable() else "\ufffd" for c in what)
    return Access(at.isoformat(timespec="milliseconds"), who, what, outcome, bytes_)
