"""What the service does, apart from HTTP: who is asking, what is permitted, and the copies."""

import asyncio
import base64
import hashlib
import hmac
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from anyio.to_thread import run_sync as in_thread

from cornerwave.access import Grant, Sharing, Token
from cornerwave.documents import body
from cornerwave.errors import AccessDenied, NoSuchDataset, VaultError
from cornerwave.ledger import Access, State, now
from cornerwave.report import ColumnSketch, report_document
from cornerwave.server._access_log import AccessLog, Grouped, line_of
from cornerwave.server._cache import Cache, name_of
from cornerwave.server._delta_types import is_offered, schema_string, write_offered
from cornerwave.server._limits import ClientLimits
from cornerwave.spec import CopySpec
from cornerwave.vault import Dataset, Release, Vault
from cornerwave.version import __version__

# --------------------------------------------------------------------------------------------------
# Addresses of files that need no header: signed, short-lived, and bound to a grant.
#
#     payload.signature      payload: dataset, grant, recipient, format, token, expiry
#
# The grant is looked up again for every request, so that a revoked one opens nothing.


LIFETIME = 15 * 60.0
"""Seconds that an address is good for."""


@dataclass(frozen=True)
class Ticket:
    """What a signed address permits: one format of what a grant gives to a recipient."""

    dataset: str
    grant: str
    recipient: str
    format: str
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
        parts = [ticket.dataset, ticket.grant, ticket.recipient, ticket.format, ticket.token]
        payload = _encoded(json.dumps([*parts, self.ends()], separators=(",", ":")).encode())
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
    """The copy that somebody may fetch, by a grant and with a token, which is '' for anybody."""

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


@dataclass(frozen=True)
class Facts:
    """What clients of Delta Sharing learn about a copy, which never changes."""

    schema: str
    rows: int
    size: int

    @classmethod
    def of(cls, path: Path) -> "Facts":
        """Read them in the copy's file."""
        found = pq.read_metadata(path)
        schema = schema_string(found.schema.to_arrow_schema())
        return cls(schema, found.num_rows, path.stat().st_size)


class Datasets:
    """Each dataset as it was read last; it is read again when the ledger has something new of it.

    What is returned is never changed, only replaced. A dataset's state, which is read for every
    request, is what decides, so that nothing here can be outdated.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault, self._lock, self._sketching = vault, threading.Lock(), threading.Lock()
        self._known: dict[str, tuple[State, Dataset]] = {}
        self._sketched: tuple[Dataset, ColumnSketch] | None = None

    def at(self, id: str, state: State) -> Dataset:
        """Return a dataset at a state, or a newer one. Raises NoSuchDataset."""
        with self._lock:
            then, known = self._known.get(id, (None, None))
            if known is not None and then == state:
                return known
            found = self._vault.dataset(state.name)  # read after its state, so at least as new
            if found.id != id:
                raise NoSuchDataset("this dataset was renamed just now; ask again")
            if known is not None and known.is_same(found):
                found = known  # only holdings are new: what is frozen need not be parsed again
            _ = found.frozen  # parsed here, before other threads have it
            self._known[id] = state, found
            return found

    def sketch(self, dataset: Dataset) -> ColumnSketch:
        """Return what the slider draws; the last one is kept, since a slider moves often."""
        with self._sketching:  # the table is read, which may take long
            if self._sketched is None or self._sketched[0] is not dataset:
                self._sketched = dataset, ColumnSketch.of(dataset)
            return self._sketched[1]


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

    def offered(self, token: Token | None) -> list[Permitted]:
        """Return everything that somebody may fetch, by name."""
        return [self._permitted(*each, token) for each in self._granted(token)]

    def permitted(self, name: str, token: Token | None) -> Permitted:
        """Return what somebody may fetch of a dataset. Raises NoSuchDataset.

        A dataset that is not granted looks like one that does not exist.
        """
        for state, grant in self._granted(token):
            if state.name == name:
                return self._permitted(state, grant, token)
        raise NoSuchDataset("there is no such dataset, or you may not fetch it")

    def _granted(self, token: Token | None) -> Iterator[tuple[State, Grant]]:
        """Yield the open datasets that somebody was granted, by name."""
        grants = self.sharing.permitted(token.recipient if token else None)
        states = self.vault.states(grants)
        for id, state in sorted(states.items(), key=lambda each: each[1].name):
            if not state.closed:
                yield state, grants[id]

    def _permitted(self, state: State, grant: Grant, token: Token | None) -> Permitted:
        dataset = self._datasets.at(grant.dataset, state)
        return Permitted(grant.release_of(dataset), grant, token.id if token else "")

    def ticket(self, what: Permitted, format_: str) -> str:
        """Return a signed text by which a file can be fetched without a header."""
        grant = what.grant
        return self.signer.sign(
            Ticket(grant.dataset, grant.id, grant.recipient, format_, what.token)
        )

    def redeem(self, text: str) -> tuple[Permitted, str]:
        """Return what a signed text permits now, and the format. Raises AccessDenied."""
        ticket = self.signer.read(text)
        live = self.sharing.permitted_by(ticket.grant, ticket.recipient, ticket.token)
        state = self.vault.states([ticket.dataset]).get(ticket.dataset)
        if live is None or live.dataset != ticket.dataset or state is None or state.closed:
            raise AccessDenied("what this address permitted has ended")
        dataset = self._datasets.at(live.dataset, state)
        return Permitted(live.release_of(dataset), live, ticket.token), ticket.format

    def check_again(self, what: Permitted) -> None:
        """Raise AccessDenied if what was permitted has ended: making a copy may take long."""
        grant = what.grant
        if self.sharing.permitted_by(grant.id, grant.recipient, what.token) is None:
            raise AccessDenied("what you were granted has ended")

    # --- what is made and sent ------------------------------------------------------------

    @asynccontextmanager
    async def copy(self, what: Permitted, format_: str) -> AsyncIterator[Path]:
        """Yield the file of a copy; nothing has left yet, and nothing is recorded."""
        kind = "parquet" if format_ == DELTA else format_
        async with self.cache.file(
            f"{what.key(kind)}.{kind}",
            lambda part, watch: what.release.make(part, progress=watch),
        ) as path:
            if format_ != DELTA or await in_thread(is_offered, path):
                yield path
                return
            async with self.cache.file(
                f"{what.key(DELTA)}.delta.parquet",
                lambda part, watch: write_offered(path, part, watch),
            ) as converted:
                yield converted

    async def facts(self, what: Permitted) -> Facts:
        """Return what clients of Delta Sharing learn about a copy, which is made if necessary."""
        async with self.copy(what, DELTA) as path:
            await in_thread(self.check_again, what)
            return await in_thread(Facts.of, path)

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
        dataset.hold([(what.grant.recipient, spec) for what, spec, _ in departures])
        self.sharing.log([line for _, _, line in departures])


def table_names(offered: Sequence[Permitted]) -> dict[str, Permitted]:
    """Return what is offered by names that clients of Delta Sharing can write.

    Of names that become the same, each gets the beginning of its dataset's id.
    """
    plain = [_plain(each.dataset.name) for each in offered]
    return {
        name if plain.count(name) == 1 else f"{name}_{each.dataset.id[:8]}": each
        for name, each in zip(plain, offered, strict=True)
    }


def _plain(name: str) -> str:
    """Return a name of letters, digits, - and _ alone.

    >>> _plain("people 2026/q1.csv")
    'people_2026_q1_csv'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Take the failure of a task that perhaps nobody waits for any more."""
    if not task.cancelled():
        task.exception()
