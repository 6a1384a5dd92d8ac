"""What the service does, apart from HTTP: who is asking, what is permitted, and the copies."""

import asyncio
import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import pyarrow.parquet as pq

from cornerwave.access import Grant, Sharing, Token
from cornerwave.errors import AccessDenied, NoSuchDataset, VaultError
from cornerwave.ledger import State, WouldWait
from cornerwave.server._cache import AccessLog, CopyCache, Grouped, key_of
from cornerwave.server._delta_types import is_offered, schema_string, write_offered
from cornerwave.spec import CopySpec
from cornerwave.vault import Dataset, Release, Vault

# --------------------------------------------------------------------------------------------------
# Addresses of files that need no header: signed, short-lived, and bound to a grant.
#
#     payload.signature      payload: grant, recipient, format, expiry
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

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, ticket: Ticket, *, at: float | None = None) -> str:
        """Return a ticket as a text that ends after LIFETIME."""
        ends = (time.time() if at is None else at) + LIFETIME
        said = [ticket.dataset, ticket.grant, ticket.recipient, ticket.format, ticket.token, ends]
        payload = _encoded(json.dumps(said, separators=(",", ":")).encode())
        return f"{payload}.{self._mac(payload)}"

    def read(self, text: str) -> Ticket:
        """Return the ticket of a text. Raises AccessDenied if it is false or has ended."""
        payload, _, mac = text.partition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(payload).encode()):
            raise AccessDenied("this address is not valid; ask for the table again")
        *said, ends = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if time.time() > ends:
            raise AccessDenied("this address has expired; ask for the table again")
        return Ticket(*said)

    def _mac(self, payload: str) -> str:
        return _encoded(hmac.new(self._secret, payload.encode(), hashlib.sha256).digest())


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


CACHE = "cache"
DELTA = "delta"
"""The format of a copy for clients of Delta Sharing."""
MOST_PERMITS = 10_000
HEALTH_SECONDS = 2.0
"""A ledger that has not answered by then is not well, and whoever asks for that hears it."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class Permitted:
    """A dataset and what somebody may fetch of it; `who` is how the access log calls him."""

    dataset: Dataset
    grant: Grant
    who: str
    token: str = ""

    @cached_property
    def release(self) -> Release:
        """The copy that is permitted."""
        return self.grant.release_of(self.dataset)

    @cached_property
    def privacy(self) -> float:
        """The share of the variance of every column that the copy hides."""
        return self.release.privacy

    @cached_property
    def _keys(self) -> dict[str, str]:
        return {}

    def key(self, format_: str) -> str:
        """The name of the copy's bytes."""
        if format_ not in self._keys:
            self._keys[format_] = key_of(self.release, format_)
        return self._keys[format_]

    def etag(self, format_: str) -> str:
        """The same name for clients: a copy has one for ever."""
        return f'"{self.key(format_)}"'


@dataclass(frozen=True)
class Facts:
    """What clients of Delta Sharing are told of a copy, which never changes."""

    schema: str
    rows: int
    size: int

    @classmethod
    def of(cls, path: Path) -> "Facts":
        """Read them in the copy's file."""
        told = pq.read_metadata(path)
        return cls(schema_string(told.schema.to_arrow_schema()), told.num_rows, path.stat().st_size)


class Service:
    """A vault, served."""

    def __init__(self, vault: Vault, *, cache_bytes: int) -> None:
        self.vault, self.sharing = vault, Sharing(vault)
        self.cache = CopyCache(vault.path / CACHE, cache_bytes)
        self.signer = Signer(vault.secret("addresses"))
        self.log = AccessLog(self.sharing)
        self._datasets: dict[str, Dataset] = {}
        self._read: dict[str, tuple[State, Dataset]] = {}
        self._permits: dict[tuple[str, str], Permitted] = {}
        self._facts: dict[str, Facts] = {}
        self._holding: dict[str, Grouped[tuple[str, CopySpec]]] = {}
        self._held: set[tuple[str, str]] = set()
        self._checking: asyncio.Task[Any] | None = None

    async def soon(self, work: Callable[[], Result]) -> Result:
        """Return the result of some work: at once if the ledger said all of it, else in a thread.

        What is done at once takes less time than handing it over would. The work may be done
        twice, the first time in part.
        """
        try:
            with self.vault.without_waiting():
                return work()
        except WouldWait:
            return await _in_thread(work)

    async def check_ledger(self) -> None:
        """Raise VaultError unless the ledger can be read, or it takes longer than HEALTH_SECONDS.

        Anybody may ask, as often as they like: there is never more than one who waits for it.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self.soon(lambda: self.vault.states(())))
            self._checking.add_done_callback(_looked_at)
        try:
            await asyncio.wait_for(asyncio.shield(self._checking), HEALTH_SECONDS)
        except TimeoutError:
            raise VaultError("the ledger is busy or away: it has not answered in time") from None

    def close(self) -> None:
        """Write what is left to write."""
        self.log.close()
        for grouped in self._holding.values():
            grouped.close()

    def dataset(self, name: str) -> Dataset:
        """Return a dataset; what is frozen is read once."""
        return self._known(self.vault.dataset(name))

    def _known(self, found: Dataset) -> Dataset:
        """Return the same dataset as before, unless it was renamed, moved or closed since."""
        known = self._datasets.get(found.id)
        if known is None or not known.is_same(found):
            known = self._datasets[found.id] = found
        return known

    def dataset_at(self, id: str, state: State) -> Dataset:
        """Return a dataset; the ledger is read again only if it says something new of it."""
        then, found = self._read.get(id, (None, None))
        if found is None or then != state:
            found = self.dataset(state.name)  # read after its state, so at least as new
            if found.id != id:
                raise NoSuchDataset("this dataset was renamed just now; ask again")
            self._read[id] = state, found
        return found

    def offered(self, token: Token | None) -> list[Permitted]:
        """Return everything that somebody may fetch, by name."""
        grants = self.sharing.all_permitted(token.recipient if token else None)
        states = self.vault.states(grants)
        return [
            self._permitted(self.dataset_at(id, state), grants[id], token.id if token else "")
            for id, state in sorted(states.items(), key=lambda each: each[1].name)
            if not state.closed
        ]

    def check_again(self, what: Permitted) -> None:
        """Raise AccessDenied if what was permitted has ended: making a copy may take long."""
        grant = what.grant
        if self.sharing.permitted_by(grant.id, grant.recipient, what.token) is None:
            raise AccessDenied("what you were granted has ended")

    def permitted(self, name: str, token: Token | None) -> Permitted:
        """Return what somebody may fetch of a dataset. Raises NoSuchDataset.

        A dataset that is not granted looks like one that is not there.
        """
        for each in self.offered(token):
            if each.dataset.name == name:
                return each
        raise NoSuchDataset("there is no such dataset, or you may not fetch it")

    def ticket(self, what: Permitted, format_: str) -> str:
        """Return a signed text by which a file can be fetched without a header."""
        grant = what.grant
        return self.signer.sign(
            Ticket(what.dataset.id, grant.id, grant.recipient, format_, what.token)
        )

    def redeem(self, text: str) -> tuple[Permitted, str]:
        """Return what a signed text permits now. Raises AccessDenied."""
        ticket = self.signer.read(text)
        live = self.sharing.permitted_by(ticket.grant, ticket.recipient, ticket.token)
        state = self.vault.states([ticket.dataset]).get(ticket.dataset)
        if live is None or live.dataset != ticket.dataset or state is None or state.closed:
            raise AccessDenied("what this address permitted has ended")
        dataset = self.dataset_at(live.dataset, state)
        return self._permitted(dataset, live, ticket.token), ticket.format

    def _permitted(self, dataset: Dataset, grant: Grant, token: str) -> Permitted:
        """Return a permission; the same object as before, if it is, knows its copy already."""
        who = f"{grant.recipient} ({token})" if token else grant.recipient
        made = Permitted(dataset, grant, who, token)
        known = self._permits.get((grant.id, who))
        if known == made:
            return known
        if len(self._permits) > MOST_PERMITS:
            self._permits.clear()
        self._permits[grant.id, who] = made
        return made

    @asynccontextmanager
    async def copy(self, what: Permitted, format_: str) -> AsyncIterator[Path]:
        """Yield the file of a copy; nothing has left yet, and nothing is recorded."""
        if format_ != DELTA:
            async with self.cache.copy(what.release, format_) as path:
                yield path
            return
        async with self.cache.copy(what.release, "parquet") as path:
            if await _in_thread(lambda: is_offered(path)):
                yield path
            else:  # its name begins alike, so that it stays as long as the copy is used
                name = path.name.replace(".parquet", ".delta.parquet")
                yield await self.cache.file(
                    path.with_name(name), lambda part, watch: write_offered(path, part, watch)
                )

    async def facts(self, what: Permitted) -> Facts:
        """Return what is told of a copy; it is made if nobody has asked before."""
        key = what.key(DELTA)
        if key not in self._facts:
            async with self.copy(what, DELTA) as path:
                self._facts[key] = await _in_thread(lambda: Facts.of(path))
        return self._facts[key]

    async def hold(self, what: Permitted, format_: str) -> None:
        """Record that the recipient holds a copy from now on: before its first byte leaves."""
        await self.soon(lambda: self.check_again(what))
        recorded = "parquet" if format_ == DELTA else format_
        known = (what.grant.recipient, what.key(recorded))
        if known not in self._held:
            line = what.grant.recipient, what.release.written_as(recorded)
            if what.dataset.id not in self._holding:
                self._holding[what.dataset.id] = Grouped(what.dataset.hold)
            await self._holding[what.dataset.id].write(line)
            self._held.add(known)


def called(token: Token | None) -> str:
    """Return how the access log calls somebody."""
    return "anybody" if token is None else f"{token.recipient} ({token.id})"


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


def _looked_at(task: "asyncio.Task[Any]") -> None:
    """Take the failure of a task that perhaps nobody waits for any more."""
    if not task.cancelled():
        task.exception()


async def _in_thread(work: Callable[[], Result]) -> Result:
    return await anyio.to_thread.run_sync(work)
