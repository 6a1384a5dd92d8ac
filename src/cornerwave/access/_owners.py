"""Owners by name: who may work with a vault, in which role, and where each sets a password.

    owner       everything
    approver    approves and declines what waits, and sees everything
    viewer      sees everything, and changes nothing

The first owner is called 'owner' and is there from the beginning. A name is a claim of whoever can
read the vault's key, and proven in the console, where everybody has a separate password.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from cornerwave.access._grants import RESERVED
from cornerwave.errors import AccessDenied, VaultError, nearest
from cornerwave.ledger import Record, Records, check_name, now, time_of, written
from cornerwave.vault import Vault

OWNER, APPROVER, VIEWER = "owner", "approver", "viewer"
ROLES = (OWNER, APPROVER, VIEWER)
"""Each may do all that those after it may."""
FIRST = "owner"
"""The name of the owner who is there from the beginning."""
LINK_HOURS = 24
WELCOME = "/console/welcome"
PERSON, PASSWORD, LINK, SESSION = "person", "password", "link", "session"
"""Kinds of records; the last three belong to a person."""
SIGN_IN = "sign in"
"""What the secret is for by which links and sessions are recognised."""


@dataclass(frozen=True)
class Person:
    """An owner: a name, a role, and since when they have it, '' from the beginning."""

    name: str
    role: str
    since: str = ""

    def may(self, role: str) -> bool:
        """Return whether they may do what this role may.

        >>> [Person("ann", APPROVER).may(role) for role in (OWNER, APPROVER, VIEWER)]
        [False, True, True]
        """
        return ROLES.index(self.role) <= ROLES.index(role)


def people(records: Records) -> dict[str, Person]:
    """Return all owners by name, in the order in which they were added."""
    known = {FIRST: Person(FIRST, OWNER)}
    for each in records.find(PERSON):
        known.pop(each.id, None)
        if each.content["removed"] is None:
            known[each.id] = Person(each.id, each.content["role"], each.at)
    return known


def check_may(records: Records, who: str, role: str) -> None:
    """Raise AccessDenied unless an owner of this name may do what a role may.

    Without a name everything is permitted as long as there is the first owner alone.
    """
    known = people(records)
    if not who and set(known) == {FIRST}:
        return
    if not who:
        raise AccessDenied(
            "this vault has several owners: state who you are, also by CORNERWAVE_OWNER=NAME",
            use=("by",),
        )
    if who not in known:
        raise AccessDenied(
            f"{who!r} is not an owner of this vault; there are {', '.join(known)}"
            f"{nearest(who, known)}"
        )
    if not known[who].may(role):
        raise AccessDenied(f"{who!r} has the role {known[who].role}; this needs the role {role}")


def signed(vault: Vault) -> Records:
    """Return the records of a vault, for acts that have a name in any case.

    Without one they are permitted to the first owner alone (`check_may`), who is meant then.
    """
    return (vault if vault.who else vault.under(FIRST)).records


class Owners:
    """The owners of a vault, and the one-time links by which each sets a password."""

    def __init__(self, vault: Vault, *, clock: Callable[[], datetime] = now) -> None:
        """`clock` gives the time by which links end."""
        self._vault, self._records, self._clock = vault, signed(vault), clock
        self._secret = vault.secret(SIGN_IN)

    def people(self) -> dict[str, Person]:
        """Return all owners by name."""
        return people(self._records)

    def has_password(self, name: str) -> bool:
        """Whether an owner has set a password."""
        return bool(self._records.find(PASSWORD, id=name))

    def add(self, name: str, *, role: str) -> str:
        """Add an owner, or give one another role.

        Return the secret of the link of a new one, '' for who was there. Raises VaultError,
        also if nobody would have the role of an owner, or AccessDenied.
        """
        check_name(name, what="an owner's name")
        if role not in ROLES:
            raise VaultError(f"{role!r} is not a role; choose one of {', '.join(ROLES)}")
        with self._records.together() as records:
            check_may(records, self._vault.who, OWNER)
            known = people(records)
            if name in known:
                if known[name].role == role:
                    raise VaultError(f"{name!r} has the role {role} already")
                _check_left(known, {**known, name: Person(name, role)})
            else:
                _check_free(records, known, name)
            content = {"role": role, "removed": None}
            records.put(Record(PERSON, name, "", written(self._clock()), content))
            was = f", who was {known[name].role}" if name in known else ""
            records.note(f"made {name} {role}{was}")
            return "" if name in known else self._put_link(records, name)

    def remove(self, name: str) -> None:
        """Remove an owner: their password, link and sessions end at once.

        What they did stays in the ledger. Raises VaultError for the last one.
        """
        with self._records.together() as records:
            check_may(records, self._vault.who, OWNER)
            known = people(records)
            _check_person(known, name)
            _check_left(known, {each: p for each, p in known.items() if each != name})
            at = written(self._clock())
            content = {"role": known[name].role, "removed": at}
            records.put(Record(PERSON, name, "", at, content))
            for kind in (PASSWORD, LINK, SESSION):
                for each in records.find(kind, of=name):
                    records.remove(kind, each.id)
            records.note(f"removed {name} from the owners")

    def new_link(self, name: str) -> str:
        """Return the secret of a new link by which an owner sets a password; an older one ends."""
        with self._records.together() as records:
            check_may(records, self._vault.who, OWNER)
            records.note(f"made a link for {name} to set a password")
            return self._put_link(records, name)

    def first_link(self, *, again: bool = False) -> str | None:
        """Return such a secret for the first owner; none if there is a password, unless `again`."""
        with self._records.together() as records:
            if FIRST not in people(records) or (records.find(PASSWORD, id=FIRST) and not again):
                return None
            return self._put_link(records, FIRST)

    def _put_link(self, records: Records, name: str) -> str:
        _check_person(people(records), name)
        text, at = secrets.token_urlsafe(32), self._clock()
        content = {"mac": self.mac(LINK, text), "until": written(at + timedelta(hours=LINK_HOURS))}
        records.put(Record(LINK, name, name, written(at), content))
        return text

    def link_of(self, text: str, records: Records | None = None) -> str | None:
        """Return for whom a link can still be used; None if it cannot."""
        mac = self.mac(LINK, text)
        for each in (records or self._records).find(LINK):
            same = hmac.compare_digest(each.content["mac"], mac)
            if same and self._clock() < time_of(each.content["until"]):
                return each.id
        return None

    def mac(self, purpose: str, text: str) -> str:
        """Return what is kept of a link or a session."""
        message = f"{purpose}/{text}".encode(errors="replace")
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()


def link_at(base_url: str, secret: str) -> str:
    """Return the address in the console at which a link is used."""
    return f"{base_url.rstrip('/')}{WELCOME}?{urlencode({'link': secret})}"


def _check_person(known: dict[str, Person], name: str) -> None:
    if name not in known:
        raise VaultError(
            f"there is no owner {name!r}; there are {', '.join(known)}{nearest(name, known)}"
        )


def _check_left(known: dict[str, Person], then: dict[str, Person]) -> None:
    """Raise VaultError if nobody would have the role of an owner."""
    if not any(each.role == OWNER for each in then.values()):
        [last] = [each.name for each in known.values() if each.role == OWNER]
        raise VaultError(f"{last!r} is the last one with the role {OWNER}; add another one first")


def _check_free(records: Records, known: dict[str, Person], name: str) -> None:
    """Raise VaultError if a name is taken, or easily confused with another one."""
    taken = [*known, *(each.id for each in records.find("recipient", of=name.casefold()))]
    taken += [each.id for each in records.find(PERSON)]
    alike = [each for each in taken if each.casefold() == name.casefold()]
    if name.casefold() in RESERVED and name != FIRST:
        raise VaultError(f"{name!r} is a reserved name; choose another one")
    if [each for each in alike if each != name] or records.find("recipient", id=name):
        raise VaultError(f"{name!r} is easily confused with {alike[0]!r}; choose another name")
