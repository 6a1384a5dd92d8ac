"""What the service does, apart from HTTP: who is asking, what is permitted, the copies, the log."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import pyarrow as pa
from anyio.to_thread import run_sync as in_thread

from cornerwave.access import Grant, Sharing, Token
from cornerwave.documents import body
from cornerwave.errors import AccessDenied, NoSuchDataset, SourceError, VaultError
from cornerwave.ledger import Access, Page, State, now, page_of
from cornerwave.outlook import Fitness
from cornerwave.report import ColumnSketch, report_document
from cornerwave.server._cache import Cache, name_of
from cornerwave.server._limits import ClientLimits
from cornerwave.spec import CopySpec
from cornerwave.vault import Dataset, Release, Vault
from cornerwave.version import __version__

# --------------------------------------------------------------------------------------------------
# The access log, and lines that many requests write in one transaction.


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


# --------------------------------------------------------------------------------------------------
# Addresses of files that need no header: signed, short-lived, and bound to a grant.
#
#     payload.signature      payload: dataset, grant, recipient, token, expiry
#
# The grant is looked up again for every request, so that a revoked one opens nothing.


LIFETIME = 15 * 60.0
"""Seconds that an address is good for."""


@dataclass(frozen=True)
class Ticket:
    """What a signed address permits: what a grant gives to a recipient."""

    dataset: str
    grant: str
    recipient: str
    token: str


class Signer:
    """Signs tickets, and reads those that it signed."""

    def __init__(self, secret: bytes, clock: Callable[[], datetime]) -> None:
        self._secret, self._clock = secret, clock

    def ends(self) -> float:
        """Return when a ticket that is signed now ends, in seconds of the epoch."""
        return self._clock().timestamp() + LIFETIME

    def sign(self, ticket: Ticket) -> str:
        """Return a ticket as a text that ends after LIFETIME."""
        parts = [*astuple(ticket), self.ends()]
        payload = _encoded(json.dumps(parts, separators=(",", ":")).encode())
        return f"{payload}.{self._mac(payload)}"

    def read(self, text: str) -> Ticket:
        """Return the ticket of a text. Raises AccessDenied if it is false or has ended."""
        payload, _, mac = text.partition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(payload).encode()):
            raise AccessDenied("this address is not valid; query the table again")
        *parts, ends = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if self._clock().timestamp() > ends:
            raise AccessDenied("this address has expired; query the table again")
        return Ticket(*parts)

    def _mac(self, payload: str) -> str:
        return _encoded(hmac.new(self._secret, payload.encode(), hashlib.sha256).digest())


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


# --------------------------------------------------------------------------------------------------
# What is permitted, and what is sent of it.


CACHE = "cache"
DELTA = "delta"
"""The format of a copy for clients of Delta Sharing."""


@dataclass(frozen=True)
class Permitted:
    """The copy that someone may fetch, by a grant and with a token, which is '' for anybody."""

    release: Release
    grant: Grant
    token: str

    @property
    def dataset(self) -> Dataset:
        """The dataset, as the ledger had it when this was permitted."""
        return self.release.dataset

    @property
    def who(self) -> str:
        """What the access log calls the recipient."""
        return f"{self.grant.recipient} ({self.token})" if self.token else self.grant.recipient

    def key(self, format_: str) -> str:
        """The name of the copy's bytes: of dataset and CopySpec, with edition and format."""
        spec = self.release.written_as(format_).to_json()
        return name_of(self.dataset.id, spec, pa.__version__)

    def etag(self, format_: str) -> str:
        """The same name for clients: a copy's ETag never changes."""
        return f'"{self.key(format_)}"'


class Datasets:
    """Each dataset as it was read last; it is read again when the ledger has something new of it.

    What is returned is never changed, only replaced. A dataset's state, which is read for every
    request, is what decides, so that nothing here can be outdated.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault, self._lock, self._sketching = vault, threading.Lock(), threading.Lock()
        self._known: dict[str, tuple[State, Dataset]] = {}
        self._sketched: tuple[Dataset, ColumnSketch] | None = None
        self._fitness: tuple[Dataset, Fitness] | None = None

    def at(self, id: str, state: State) -> Dataset:
        """Return a dataset at a state, or a newer one. Raises NoSuchDataset."""
        with self._lock:
            then, known = self._known.get(id, (None, None))
            if known is not None and then == state:
                return known
            dataset = self._vault.dataset(state.name)  # read after its state, so at least as new
            if dataset.id != id:
                raise NoSuchDataset("this dataset was renamed just now; ask again")
            if known is not None and known.is_same(dataset):
                dataset = known  # only holdings are new: what is frozen need not be parsed again
            _ = dataset.frozen  # parsed here, before other threads have it
            self._known[id] = state, dataset
            return dataset

    def sketch(self, dataset: Dataset) -> ColumnSketch:
        """Return what the slider draws; the last one is kept, since a slider moves often."""
        with self._sketching:  # the table is read, which may take long
            if self._sketched is None or self._sketched[0] is not dataset:
                self._sketched = dataset, ColumnSketch.of(dataset)
            return self._sketched[1]

    def fitness(self, dataset: Dataset) -> Fitness:
        """Return which levels are fit for which use; the last one is kept, as of the slider."""
        with self._sketching:
            if self._fitness is not None and self._fitness[0] is dataset:
                return self._fitness[1]
            frozen = replace(dataset.frozen, rows=dataset.rows)
            try:
                self._fitness = dataset, Fitness.of(frozen, dataset.source)
            except SourceError:  # what the table shows is not compared then
                return Fitness.of(frozen, None)
            return self._fitness[1]


class Service:
    """A vault, served."""

    def __init__(
        self,
        vault: Vault,
        *,
        cache_bytes: int,
        limits: ClientLimits,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.vault, self.limits, self.sharing = vault, limits, Sharing(vault, clock=clock)
        self.cache = Cache(vault.path / CACHE, cache_bytes)
        self.signer = Signer(vault.secret("addresses"), clock)
        self.log = AccessLog(self.sharing)
        self._datasets = Datasets(vault)
        self._departures = Grouped(self._record, key=lambda each: each[0].dataset.id)
        self._checking: asyncio.Task[Any] | None = None

    async def check_ledger(self) -> None:
        """Raise VaultError unless the ledger can be read within `health_seconds`.

        Anybody may ask, as often as they like: there is never more than one who waits for it.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(in_thread(self.vault.states, ()))
            self._checking.add_done_callback(_retrieve)
        try:
            await asyncio.wait_for(asyncio.shield(self._checking), self.limits.health_seconds)
        except TimeoutError:
            raise VaultError("the ledger is busy or away: it has not answered in time") from None

    def close(self) -> None:
        """Write what is left to write."""
        self._departures.close()
        self.log.close()

    # --- what is there, and who may have it -----------------------------------------------

    def dataset(self, id: str) -> Dataset:
        """Return a dataset by its id. Raises NoSuchDataset."""
        return self._at_head(id)[1]

    def _at_head(self, id: str) -> tuple[str, Dataset]:
        """Return the head of a dataset's chain, and the dataset, which is at least as new."""
        state = self.vault.states([id]).get(id)
        if state is None:
            raise NoSuchDataset("there is no such dataset")
        return state.head, self._datasets.at(id, state)

    def sketch(self, dataset: Dataset) -> ColumnSketch:
        """Return what the slider draws. Raises SourceError if the table is not there."""
        return self._datasets.sketch(dataset)

    def fitness(self, dataset: Dataset) -> Fitness:
        """Return which levels of a dataset are fit for which use."""
        return self._datasets.fitness(dataset)

    def offered(self, token: Token | None) -> list[Permitted]:
        """Return everything that someone may fetch, by name."""
        return [self._permitted(*each, token) for each in self._granted(token)]

    def offered_page(self, token: Token | None, number: int) -> Page[Permitted]:
        """Return a page of what someone may fetch, by name."""
        found = page_of(list(self._granted(token)), number)
        return found.of(lambda each: self._permitted(*each, token))

    def permitted(self, name: str, token: Token | None) -> Permitted:
        """Return what someone may fetch of a dataset. Raises NoSuchDataset.

        A dataset that is not granted looks like one that does not exist.
        """
        for state, grant in self._granted(token):
            if state.name == name:
                return self._permitted(state, grant, token)
        raise NoSuchDataset("there is no such dataset, or you may not fetch it")

    def _granted(self, token: Token | None) -> Iterator[tuple[State, Grant]]:
        """Yield the open datasets that someone was granted, by name."""
        grants = self.sharing.permitted(token.recipient if token else None)
        states = self.vault.states(grants)
        for id, state in sorted(states.items(), key=lambda each: each[1].name):
            if not state.closed:
                yield state, grants[id]

    def _permitted(self, state: State, grant: Grant, token: Token | None) -> Permitted:
        dataset = self._datasets.at(grant.dataset, state)
        return Permitted(grant.release_of(dataset), grant, token.id if token else "")

    def ticket(self, what: Permitted) -> str:
        """Return a signed text by which a file can be fetched without a header."""
        grant = what.grant
        return self.signer.sign(Ticket(grant.dataset, grant.id, grant.recipient, what.token))

    def redeem(self, text: str) -> Permitted:
        """Return what a signed text permits now. Raises AccessDenied."""
        ticket = self.signer.read(text)
        live = self.sharing.permitted_by(ticket.grant, ticket.recipient, ticket.token)
        state = self.vault.states([ticket.dataset]).get(ticket.dataset)
        if live is None or live.dataset != ticket.dataset or state is None or state.closed:
            raise AccessDenied("what this address permitted has ended")
        dataset = self._datasets.at(live.dataset, state)
        return Permitted(live.release_of(dataset), live, ticket.token)

    def check_again(self, what: Permitted) -> None:
        """Raise AccessDenied if what was permitted has ended: making a copy may take long."""
        grant = what.grant
        if self.sharing.permitted_by(grant.id, grant.recipient, what.token) is None:
            raise AccessDenied("what you were granted has ended")

    # --- what is made and sent ------------------------------------------------------------

    @asynccontextmanager
    async def copy(self, what: Permitted, format_: str) -> AsyncIterator[Path]:
        """Yield the file of a copy; nothing has left yet, and nothing is recorded."""
        async with self.cache.file(
            f"{what.key(format_)}.{format_}",
            lambda part, watch: what.release.make(part, progress=watch),
        ) as path:
            yield path

    async def report(self, dataset: Dataset) -> str:
        """Return a dataset's report as HTML; it is the same until its chain has a new line."""
        head, current = await in_thread(self._at_head, dataset.id)
        name = name_of("report", dataset.id, head, __version__)
        async with self.cache.file(
            f"{name}.html",
            lambda part, _: part.write_text(body(report_document(current)), "utf-8"),
        ) as path:
            return await in_thread(path.read_text, "utf-8")

    async def record(self, what: Permitted, format_: str) -> None:
        """Record that the recipient holds a copy from now on: before its first byte leaves.

        The ledger does not write a holding twice, so that every download can ask for it.
        """
        await in_thread(self.check_again, what)
        spec = what.release.written_as("parquet" if format_ == DELTA else format_)
        words = f"copy of {what.dataset.name} as {format_}"
        line = line_of(self.sharing.clock(), what.who, words, "begun")
        await self._departures.write((what, spec, line))

    def _record(self, departures: Sequence[tuple[Permitted, CopySpec, Access]]) -> None:
        """Write holdings of one dataset, then their lines in the access log."""
        dataset = departures[0][0].dataset
        grants = [(what.grant, spec) for what, spec, _ in departures]
        dataset.hold([(grant.recipient, spec, grant.terms) for grant, spec in grants])
        self.sharing.log([line for _, _, line in departures])


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Take the failure of a task that perhaps nobody waits for any more."""
    if not task.cancelled():
        task.exception()
