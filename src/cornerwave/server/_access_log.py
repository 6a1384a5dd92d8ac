"""The access log, and lines that many requests write in one transaction."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Generic, TypeVar

from cornerwave.access import Sharing
from cornerwave.vault import Access, now

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
