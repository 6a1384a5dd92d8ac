"""Grants: permission to fetch a dataset at a level, and how it is kept."""

import hashlib
import hmac
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from cornerwave.ledger import NO_TERMS, Record, Terms, time_of
from cornerwave.levels import Level
from cornerwave.spec import CopySpec
from cornerwave.vault import Dataset, Release

ANYBODY = "anybody"
"""A grant to this name is the dataset's public level: anybody may fetch it, without a token."""
ANYBODY_KNOWN = "anybody with a token"
"""A grant to this name is for anybody with a token."""
RESERVED = (ANYBODY, ANYBODY_KNOWN, "owner", "the owner")
"""Names that no recipient can have; the last two are the owner's in the access log and ledger."""
LIVE, EXPIRED, ENDED = "live", "expired", "ended"


@dataclass(frozen=True)
class Recipient:
    """Somebody who may be granted copies: on some terms, which end all that they may fetch."""

    name: str
    at: str
    note: str = ""
    terms: Terms = NO_TERMS
    removed: str | None = None

    @classmethod
    def of(cls, record: Record) -> "Recipient":
        """Read a recipient as it is kept."""
        kept = record.content
        return cls(record.id, record.at, kept["note"], Terms.of_json(kept), kept["removed"])

    def record(self) -> Record:
        """Return it as it is kept."""
        content = {"note": self.note, **self.terms.to_json(), "removed": self.removed}
        state = ENDED if self.removed else ""
        return Record("recipient", self.name, self.name.casefold(), self.at, content, state)

    def state(self, at: datetime) -> str:
        """Return LIVE if they may have anything at this time, else ENDED or EXPIRED."""
        return state_of(self.removed, self.terms.until, at)


@dataclass(frozen=True)
class Grant:
    """Permission for a recipient to fetch a dataset at a level, on some terms."""

    id: str
    dataset: str
    recipient: str
    spec: CopySpec
    at: str
    terms: Terms = NO_TERMS
    revoked: str | None = None

    @classmethod
    def of(cls, record: Record) -> "Grant":
        """Read a grant as it is kept."""
        kept = record.content
        return cls(
            id=record.id,
            dataset=kept["dataset"],
            recipient=record.of,
            spec=CopySpec.of_json(kept),
            at=record.at,
            terms=Terms.of_json(kept),
            revoked=kept["revoked"],
        )

    def record(self) -> Record:
        """Return it as it is kept."""
        content = {
            "dataset": self.dataset,
            **self.spec.to_json(),
            **self.terms.to_json(),
            "revoked": self.revoked,
        }
        return Record("grant", self.id, self.recipient, self.at, content, self.dataset)

    def state(self, at: datetime) -> str:
        """Return LIVE if it permits something at this time, else ENDED or EXPIRED."""
        return state_of(self.revoked, self.until, at)

    @property
    def until(self) -> str | None:
        """The time when it ends, if there is one."""
        return self.terms.until

    def release_of(self, dataset: Dataset) -> Release:
        """Return the copy that it permits, held by nobody yet."""
        return dataset.granted(self.recipient, self.spec, self.terms)


def state_of(revoked: str | None, until: str | None, at: datetime) -> str:
    """Return the state of a permission at a time."""
    if revoked is not None:
        return ENDED
    return LIVE if until is None or at < time_of(until) else EXPIRED


# --------------------------------------------------------------------------------------------------
# Tokens: what a recipient sends, and what is kept of it.
#
#     cw_ID_SECRET_CHECKSUM        12, 64 and 8 hexadecimal digits
#
# The secret has 256 random bits, of which only an HMAC is kept. The checksum recognises a token
# that was cut off before any secret is compared.


PREFIX = "cw"
SHARING_PATH = "/delta-sharing"
"""Where the service speaks the Delta Sharing protocol."""
MOST_DAYS = 366
LIVE_TOKENS = 2
"""Tokens that a recipient may have at a time: the old and the new one, while they change."""
SECRET_BYTES = 32
_TOKEN = re.compile(rf"{PREFIX}_[0-9a-f]{{12}}_[0-9a-f]{{64}}_[0-9a-f]{{8}}")


@dataclass(frozen=True)
class Token:
    """A token as it is kept: whose it is and how long it lasts, not the token itself."""

    id: str
    recipient: str
    at: str
    expires: str
    revoked: str | None = None

    @classmethod
    def of(cls, record: Record) -> "Token":
        """Read a token as it is kept."""
        kept = record.content
        return cls(record.id, record.of, record.at, kept["expires"], kept["revoked"])

    def state(self, at: datetime) -> str:
        """Return LIVE if it opens anything at this time, else ENDED or EXPIRED."""
        return state_of(self.revoked, self.expires, at)

    @property
    def holder(self) -> str:
        """What the access log calls who sends it."""
        return f"{self.recipient} ({self.id})"


def mac_of(key: bytes, id: str, secret: bytes) -> str:
    """Return what is kept of a token's secret."""
    return hmac.new(key, id.encode() + b"/" + secret, hashlib.sha256).hexdigest()


def token_text(id: str, secret: bytes) -> str:
    """Return a token as a text: prefix, id, secret, checksum."""
    body = f"{PREFIX}_{id}_{secret.hex()}"
    return f"{body}_{zlib.crc32(body.encode()):08x}"


def token_parts(text: str) -> tuple[str, bytes]:
    """Return id and secret of a token, both empty if it cannot be one.

    >>> token_parts(token_text("0123456789ab", bytes(32))) == ("0123456789ab", bytes(32))
    True
    >>> token_parts("cw_0123456789ab_00_00000000")
    ('', b'')
    """
    if not _TOKEN.fullmatch(text):
        return "", b""
    body, _, check = text.rpartition("_")
    _, id, secret = body.split("_")
    fits = check == f"{zlib.crc32(body.encode()):08x}"
    return (id, bytes.fromhex(secret)) if fits else ("", b"")


def profile_text(url: str, token: str, expires: str) -> str:
    """Return a profile file, as clients of Delta Sharing read it."""
    fields = {
        "shareCredentialsVersion": 1,
        "endpoint": f"{url.rstrip('/')}{SHARING_PATH}/",
        "bearerToken": token,
        "expirationTime": expires,
    }
    return json.dumps(fields, indent=2) + "\n"


# --------------------------------------------------------------------------------------------------
# Requests: what a recipient asks for, and what each coalition could recover if they got it.
#
# A coalition leaves hidden what its least noisy copy leaves (Theorem 4), so a new copy at level v
# changes something only for coalitions with its recipient in which nobody holds less noise than v.


STATES = OPEN, APPROVED, DECLINED = "open", "approved", "declined"
MOST_OPEN = 20
"""Requests of one recipient that may wait for an answer."""


def request_about(state: str, dataset: str) -> str:
    """Return by what requests of a state for a dataset, given by its id, are looked up."""
    return f"{state} {dataset}"


@dataclass(frozen=True)
class Request:
    """A recipient asks for a dataset, or for a better level of it, and why.

    `name` and `privacy` are as they wrote them. `dataset` is an id, or '' if there was none of that
    name: recipients do not learn whether there is.
    """

    id: str
    dataset: str
    name: str
    recipient: str
    privacy: float
    reason: str
    at: str
    state: str = OPEN
    answer: str = ""

    @classmethod
    def of(cls, record: Record) -> "Request":
        """Read a request as it is kept."""
        return cls(id=record.id, recipient=record.of, at=record.at, **record.content)

    def record(self) -> Record:
        """Return it as it is kept."""
        content = {
            "dataset": self.dataset,
            "name": self.name,
            "privacy": self.privacy,
            "reason": self.reason,
            "state": self.state,
            "answer": self.answer,
        }
        about = request_about(self.state, self.dataset)
        return Record("request", self.id, self.recipient, self.at, content, about)


@dataclass(frozen=True)
class Foreseen:
    """The share that stays hidden from a coalition, now and if a recipient had one more copy."""

    members: tuple[str, ...]
    before: float
    after: float

    @property
    def loses(self) -> bool:
        """Whether less would stay hidden."""
        return self.after < self.before


@dataclass(frozen=True)
class Waiting:
    """A request, and what coalitions leave hidden then, or why it cannot be approved.

    A request that was answered has neither.
    """

    asked: Request
    coalitions: tuple[Foreseen, ...] = ()
    refusal: str = ""


MOST_PAIRED = 30
"""So many holders, those with the least noise, are paired with a recipient."""


@dataclass(frozen=True)
class Holders:
    """The least level that each holder of some datasets has of each, least noise first."""

    datasets: Sequence[Dataset]
    least: Sequence[Mapping[str, Level]]
    _known: dict[tuple[str, float], float] = field(default_factory=dict)
    """What is hidden by dataset and noise: pairs have few levels."""

    @classmethod
    def of(cls, datasets: Sequence[Dataset]) -> "Holders":
        """Return what the ledger states of them; it is read once."""
        every: list[dict[str, Level]] = []
        for dataset in datasets:
            every.append({})
            for held in dataset.holdings:  # least noise first
                every[-1].setdefault(held.recipient, held.spec.level)
        return cls(datasets, every)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All of them, those of the first dataset first."""
        return tuple(dict.fromkeys(name for each in self.least for name in each))

    def foreseen(self, recipient: str, level: Level) -> Iterator[Foreseen]:
        """Yield the recipient alone, with each holder, and all together if there are several.

        Of very many holders, those with the least noise. Of several linked tables what is hidden is
        that of the worst one. Without a copy everything is.
        """
        holds = any(recipient in each for each in self.least)
        some = [name for name in self.names[: MOST_PAIRED + 1] if name != recipient][:MOST_PAIRED]
        for members in [(recipient,), *((recipient, other) for other in some)]:
            yield self._foreseen(members, members, level)
        if len(self.names) - holds > 1:
            few = len(self.names) <= MOST_PAIRED
            others = tuple(name for name in self.names if name != recipient) if few else self.names
            everybody = others if holds and not few else (recipient, *others)
            # who has the least noise of any dataset leaves what all together leave
            best = [next(iter(each)) for each in self.least if each]
            yield self._foreseen(everybody, (recipient, *best), level)

    def _privacy(self, dataset: Dataset, level: Level) -> float:
        key = dataset.id, level.noise
        if key not in self._known:
            self._known[key] = dataset.privacy_of(level)
        return self._known[key]

    def _foreseen(self, members: tuple[str, ...], best: tuple[str, ...], level: Level) -> Foreseen:
        before, after = [], []
        for dataset, levels in zip(self.datasets, self.least, strict=True):
            known = [levels[name] for name in best if name in levels]
            before.append(self._privacy(dataset, min(known)) if known else 1.0)
            after.append(self._privacy(dataset, min([*known, level])))
        return Foreseen(members, min(before), min(after))
