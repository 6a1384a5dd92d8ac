"""Who may have what: recipients, grants, tokens, requests, and the log of who fetched what.

    sharing = Sharing(vault)
    sharing.add("partner")
    sharing.grant("people", "partner", privacy=0.3)
    text = sharing.new_token("partner", days=90)       # shown once; only its HMAC is kept

A grant is permission, not a copy: the ledger records the holding when the first byte could
leave. Revoking stops downloads and changes nothing about what the recipient knows already.
"""

import hashlib
import hmac
import json
import re
import secrets
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cornerwave.coalition import Coalition
from cornerwave.dataset import Dataset, Release, check_name
from cornerwave.errors import (
    AccessDenied,
    LevelError,
    NoSuchDataset,
    NoSuchRecipient,
    VaultError,
    nearest,
)
from cornerwave.levels import LATTICE, Level, Privacy, asked_for
from cornerwave.owner import Vault
from cornerwave.table import Finish, names_of
from cornerwave.vault import Access, Record, now

ANYBODY = "anybody"
"""A grant to this name is the dataset's public level: anybody may fetch it, without a token."""
ANYBODY_KNOWN = "anybody with a token"
"""A grant to this name is for anybody with a token."""
OWNER = "the owner"
"""A token of this name is for the owner's own work over REST, and fetches nothing."""
PREFIX = "cw"
SHARING_PATH = "/delta-sharing"
"""Where the service speaks the Delta Sharing protocol."""
MOST_DAYS = 366
LIVE_TOKENS = 2
"""Tokens that a recipient may have at a time: the old and the new one, while they change."""
MOST_WORDS = 500
_ID_BYTES, _SECRET_BYTES = 6, 32
_TOKEN = re.compile(rf"{PREFIX}_[0-9a-f]{{12}}_[0-9a-f]{{64}}_[0-9a-f]{{8}}")


@dataclass(frozen=True)
class Grant:
    """Permission for a recipient to fetch a dataset at a level, until a time if one is given."""

    id: str
    dataset: str
    recipient: str
    level: Level
    finish: Finish
    at: str
    until: str | None = None
    revoked: str | None = None

    def is_live(self, at: datetime) -> bool:
        """Return whether it permits anything at this time."""
        return self.revoked is None and (self.until is None or at < _time(self.until))

    def release_of(self, dataset: Dataset) -> Release:
        """Return the copy that it permits, held by nobody yet."""
        return dataset.granted(self.recipient, self.level, self.finish)


@dataclass(frozen=True)
class Token:
    """A token as it is kept: whose it is and how long it lasts, not the token itself."""

    id: str
    recipient: str
    at: str
    expires: str
    revoked: str | None = None

    def is_live(self, at: datetime) -> bool:
        """Return whether it opens anything at this time."""
        return self.revoked is None and at < _time(self.expires)


@dataclass(frozen=True)
class Request:
    """A recipient asks for a dataset, or for a better level of it, and why."""

    id: str
    dataset: str
    recipient: str
    asked: Level
    reason: str
    at: str
    state: str = "open"
    answer: str = ""


class Sharing:
    """Who may have what of a vault."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._records = vault.records
        self._secret = vault.secret("tokens")

    # --- recipients ---------------------------------------------------------------------

    def add(self, name: str, *, note: str = "") -> None:
        """Add a recipient. Raises VaultError if the name is taken or easily confused."""
        check_name(name, what="a recipient's name")
        if name.casefold() in (ANYBODY, ANYBODY_KNOWN, OWNER):
            raise VaultError(f"{name!r} has a meaning of its own; choose another name")
        known = {each.id.casefold(): each for each in self._records.find("recipient")}
        if there := known.get(name.casefold()):
            if there.id == name and not there.content["removed"]:
                raise VaultError(f"there is a recipient {name!r} already")
            if there.id != name:
                raise VaultError(f"{name!r} is easily confused with {there.id!r}")
        self._records.put(
            Record("recipient", name, "", _said(now()), {"note": note, "removed": None})
        )

    def recipients(self) -> list[str]:
        """Return the names of all recipients."""
        return [each.id for each in self._records.find("recipient") if not each.content["removed"]]

    def remove(self, name: str) -> None:
        """Remove a recipient: grants and tokens end; what the ledger says stays."""
        self._check_recipient(name)
        at = _said(now())
        with self._records.together() as records:
            [own] = records.find("recipient", id=name)
            records.put(replace(own, content={**own.content, "removed": at}))
            for kind in ("grant", "token"):
                for each in records.find(kind, of=name):
                    records.put(replace(each, content={**each.content, "revoked": at}))

    # --- grants ---------------------------------------------------------------------------

    def grant(
        self,
        dataset: str,
        recipient: str,
        *,
        privacy: float | None = None,
        noise: float | None = None,
        until: str | datetime | None = None,
        round: Iterable[str] = (),
        clip: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> Grant:
        """Permit a recipient a dataset at exactly one of `privacy` and `noise`.

        It replaces what he was granted of this dataset before. ANYBODY makes a public level.
        """
        if recipient not in (ANYBODY, ANYBODY_KNOWN):
            self._check_recipient(recipient)
        ends = None if until is None else _said(_time(until))
        if ends is not None and _time(ends) <= now():
            raise LevelError("a grant ends in the future; this time has passed")
        own = self.vault.dataset(dataset)
        finish = Finish(frozenset(names_of(round)), clip or {})
        finish.check(own.frozen.schema)
        level = own.level_of(asked_for(privacy=privacy, noise=noise))
        made = Grant(_id(), own.id, recipient, level, finish.counted(own.frozen.schema), "", ends)
        with self._records.together() as records:
            self._end(records, own.id, recipient)
            made = replace(made, at=_said(now()))
            records.put(_grant_record(made))
        return made

    def revoke(self, dataset: str, recipient: str) -> None:
        """End what a recipient may fetch of a dataset, at once. Raises NoSuchRecipient."""
        own = self.vault.dataset(dataset)
        with self._records.together() as records:
            if not self._end(records, own.id, recipient):
                raise NoSuchRecipient(f"{recipient!r} may fetch nothing of {dataset!r}")

    def grants(self, *, dataset: str | None = None, recipient: str | None = None) -> list[Grant]:
        """Return grants, ended ones too, the oldest first; `dataset` is an id."""
        found = map(_grant_of, self._records.find("grant", of=recipient))
        return [each for each in found if dataset in (None, each.dataset)]

    def permitted(self, recipient: str | None, dataset: str) -> Grant | None:
        """Return what somebody may fetch of a dataset, given by its id: the least noisy level.

        `recipient` is None for those without a token, who may have what is public. What is
        granted to anybody is held by those who fetch it.
        """
        return self.all_permitted(recipient).get(dataset)

    def all_permitted(self, recipient: str | None) -> dict[str, Grant]:
        """Return what somebody may fetch of each dataset, by its id."""
        names = [ANYBODY] if recipient is None else [recipient, ANYBODY_KNOWN, ANYBODY]
        at = now()
        found = map(_grant_of, self._records.find("grant", of=names))
        live = [each for each in found if each.is_live(at)]
        best: dict[str, Grant] = {}
        for each in sorted(live, key=lambda each: each.level, reverse=True):
            best[each.dataset] = replace(each, recipient=recipient or ANYBODY)
        return best

    def permitted_by(self, grant: str, recipient: str, token: str) -> Grant | None:
        """Return a grant if it still permits something to a recipient with this token."""
        found = [_grant_of(each) for each in self._records.find("grant", id=grant)]
        if not found or not found[0].is_live(now()):
            return None
        if token:
            known = [_token_of(each) for each in self._records.find("token", id=token)]
            if not known or not known[0].is_live(now()):
                return None
        return replace(found[0], recipient=recipient)

    def _end(self, records: Any, dataset: str, recipient: str) -> bool:
        live = [
            each
            for each in records.find("grant", of=recipient)
            if each.content["dataset"] == dataset and each.content["revoked"] is None
        ]
        for each in live:
            records.put(replace(each, content={**each.content, "revoked": _said(now())}))
        return bool(live)

    # --- tokens ---------------------------------------------------------------------------

    def new_token(self, recipient: str, *, days: float) -> str:
        """Return a new token for a recipient, or for the OWNER, which is never shown again.

        Of more than LIVE_TOKENS live ones the oldest ends. Raises VaultError for a term that
        is not between 0 and MOST_DAYS days.
        """
        if recipient != OWNER:
            self._check_recipient(recipient)
        if not 0 < days <= MOST_DAYS:
            raise VaultError(f"a token lasts more than 0 and at most {MOST_DAYS} days")
        id, secret, at = _id(), secrets.token_bytes(_SECRET_BYTES), now()
        content = {
            "mac": self._mac(id, secret),
            "expires": _said(at + timedelta(days=days)),
            "revoked": None,
        }
        with self._records.together() as records:
            live = [each for each in records.find("token", of=recipient) if _is_live(each, at)]
            for old in live[: len(live) - LIVE_TOKENS + 1]:
                records.put(replace(old, content={**old.content, "revoked": _said(at)}))
            records.put(Record("token", id, recipient, _said(at), content))
        return _written(id, secret)

    def tokens(self, recipient: str) -> list[Token]:
        """Return a recipient's tokens, the oldest first."""
        return [_token_of(each) for each in self._records.find("token", of=recipient)]

    def end_token(self, recipient: str, token: str) -> None:
        """End a token, given by its id, at once. Raises VaultError if there is none."""
        with self._records.together() as records:
            found = [each for each in records.find("token", id=token) if each.of == recipient]
            if not found:
                raise VaultError(f"{recipient!r} has no such token")
            ended = {**found[0].content, "revoked": _said(now())}
            records.put(replace(found[0], content=ended))

    def last_used(self, token: Token) -> str | None:
        """Return when a token was used last."""
        return self._records.last_access(f"{token.recipient} ({token.id})")

    def bearer(self, text: str) -> Token:
        """Return the live token that a text is. Raises AccessDenied, and says no more."""
        id, secret = _read(text)
        known = self._records.find("token", id=id) if id else []
        mac = known[0].content["mac"] if known else "-"
        fits = hmac.compare_digest(mac, self._mac(id, secret))
        if not known or not fits or not _token_of(known[0]).is_live(now()):
            raise AccessDenied("this token is unknown, has expired or was revoked")
        return _token_of(known[0])

    def _mac(self, id: str, secret: bytes) -> str:
        return hmac.new(self._secret, id.encode() + b"/" + secret, hashlib.sha256).hexdigest()

    # --- requests -------------------------------------------------------------------------

    def ask(self, recipient: str, dataset: str, *, privacy: float, reason: str) -> Request:
        """Record that a recipient asks for a dataset at a privacy."""
        self._check_recipient(recipient)
        own = self.vault.dataset(dataset)
        level = own.level_of(Privacy(privacy))
        made = Request(_id(), own.id, recipient, level, _short(reason), _said(now()))
        self._records.put(_request_record(made))
        return made

    def requests(self, *, recipient: str | None = None) -> list[Request]:
        """Return requests, the oldest first."""
        return [_request_of(each) for each in self._records.find("request", of=recipient)]

    def answer(
        self, request: str, *, privacy: float | None = None, decline: bool = False, words: str = ""
    ) -> Request:
        """Approve a request, at another privacy if one is given, or decline it."""
        found = [_request_of(each) for each in self._records.find("request", id=request)]
        if not found or found[0].state != "open":
            raise VaultError("there is no open request with this id")
        own = found[0]
        if not decline:
            name = self.name_of(own.dataset)
            noise = own.asked.noise if privacy is None else None
            self.grant(name, own.recipient, privacy=privacy, noise=noise)
        done = replace(own, state="declined" if decline else "approved", answer=_short(words))
        self._records.put(_request_record(done))
        return done

    def foreseen(self, request: Request) -> tuple[Coalition | None, Coalition]:
        """Return what all holders together can recover now, and if a request were approved."""
        dataset = self.vault.dataset(self.name_of(request.dataset))
        members = [(held.recipient, held.level) for held in dataset.holdings]
        after = Coalition.of([*members, (request.recipient, request.asked)])
        return (Coalition.of(members) if members else None), after

    # --- the rest -------------------------------------------------------------------------

    def log(self, lines: Iterable[Access]) -> None:
        """Append to the access log."""
        self._records.log(lines)

    def accesses(self, most: int | None = None) -> list[Access]:
        """Return the access log, the newest first."""
        return self._records.accesses(most=most)

    def name_of(self, dataset: str) -> str:
        """Return the name of a dataset, given by its id. Raises NoSuchDataset."""
        found = self.vault.states([dataset])
        if not found:
            raise NoSuchDataset("there is no such dataset any more")
        return found[dataset].name

    def _check_recipient(self, name: str) -> None:
        known = self.recipients()
        if name not in known:
            have = f"there are {', '.join(known)}" if known else "add one first"
            raise NoSuchRecipient(
                f"there is no recipient {name!r}; {have}{nearest(name, known)}",
                use=() if known else ("recipient",),
            )


def profile_text(url: str, token: str, expires: str) -> str:
    """Return a profile file, as clients of Delta Sharing read it."""
    said = {
        "shareCredentialsVersion": 1,
        "endpoint": f"{url.rstrip('/')}{SHARING_PATH}/",
        "bearerToken": token,
        "expirationTime": expires,
    }
    return json.dumps(said, indent=2) + "\n"


def _written(id: str, secret: bytes) -> str:
    """Return a token as a text: prefix, id, secret, checksum."""
    body = f"{PREFIX}_{id}_{secret.hex()}"
    return f"{body}_{zlib.crc32(body.encode()):08x}"


def _read(text: str) -> tuple[str, bytes]:
    """Return id and secret of a token, both empty if it cannot be one.

    >>> _read(_written("0123456789ab", bytes(32))) == ("0123456789ab", bytes(32))
    True
    >>> _read("cw_0123456789ab_00_00000000")
    ('', b'')
    """
    if not _TOKEN.fullmatch(text):
        return "", b""
    body, _, check = text.rpartition("_")
    _, id, secret = body.split("_")
    fits = check == f"{zlib.crc32(body.encode()):08x}"
    return (id, bytes.fromhex(secret)) if fits else ("", b"")


def _id() -> str:
    return secrets.token_hex(_ID_BYTES)


def _said(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def _time(text: str | datetime) -> datetime:
    """Return a time; a date alone is its beginning in UTC. Raises VaultError."""
    try:
        at = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    except ValueError:
        raise VaultError(f"{text!r} is no date; write 2027-01-31 or 2027-01-31T12:00") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _short(text: str) -> str:
    """Return text that fits into a line of a list."""
    plain = "".join(c if c.isprintable() else " " for c in text).strip()
    if len(plain) > MOST_WORDS:
        raise VaultError(f"at most {MOST_WORDS} characters")
    return plain


def _grant_record(grant: Grant) -> Record:
    content = {
        "dataset": grant.dataset,
        "level": grant.level.thousandths,
        "round": sorted(grant.finish.round),
        "clip": {name: list(ends) for name, ends in grant.finish.clip.items()},
        "until": grant.until,
        "revoked": grant.revoked,
    }
    return Record("grant", grant.id, grant.recipient, grant.at, content)


def _grant_of(record: Record) -> Grant:
    said = record.content
    clip = {name: (low, high) for name, (low, high) in said["clip"].items()}
    return Grant(
        id=record.id,
        dataset=said["dataset"],
        recipient=record.of,
        level=Level(LATTICE[said["level"] - 1]),
        finish=Finish(frozenset(said["round"]), clip),
        at=record.at,
        until=said["until"],
        revoked=said["revoked"],
    )


def _token_of(record: Record) -> Token:
    said = record.content
    return Token(record.id, record.of, record.at, said["expires"], said["revoked"])


def _is_live(record: Record, at: datetime) -> bool:
    return _token_of(record).is_live(at)


def _request_record(request: Request) -> Record:
    content = {
        "dataset": request.dataset,
        "level": request.asked.thousandths,
        "reason": request.reason,
        "state": request.state,
        "answer": request.answer,
    }
    return Record("request", request.id, request.recipient, request.at, content)


def _request_of(record: Record) -> Request:
    said = record.content
    return Request(
        id=record.id,
        dataset=said["dataset"],
        recipient=record.of,
        asked=Level(LATTICE[said["level"] - 1]),
        reason=said["reason"],
        at=record.at,
        state=said["state"],
        answer=said["answer"],
    )
