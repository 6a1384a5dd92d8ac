"""How owners sign in: each by a password that only they have set, and sessions in cookies.

    first_link      where the first owner sets the password, once; None if it is set
    SignIn          the passwords, the links, the sessions and the wrong tries of a vault

There is no default password. Of it an argon2id hash is kept, of the link and of each session an
HMAC, as sealed rows beside the ledger: every process of a service knows them. What depends on such
a row reads it again in the transaction that acts on it, so that of many who come at once one uses
the link, and no more try passwords than may.
"""

import secrets
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from cornerwave.access import FIRST, PASSWORD, SESSION, Owners, Person, link_at, people
from cornerwave.errors import AccessDenied, TooManyRequests, VaultError
from cornerwave.ledger import Record, Records, now
from cornerwave.server._limits import ClientLimits
from cornerwave.vault import Vault

LEAST_LETTERS, MOST_LETTERS = 12, 256
SESSION_HOURS = 12
TRY = "try"
USED = "this link was used or has expired; ask an owner for a new one, or start the service again"
WRONG = "this is not the password"


def first_link(vault: Vault, base_url: str, *, again: bool = False) -> str | None:
    """Return an address at which the first owner sets a password, once, within LINK_HOURS.

    None if it is set, unless `again`: then the link replaces a password that was lost.
    """
    secret = Owners(vault).first_link(again=again)
    return None if secret is None else link_at(base_url, secret)


class SignIn:
    """The passwords, the one-time links, the sessions and the wrong tries of a vault."""

    def __init__(
        self,
        vault: Vault,
        *,
        limits: ClientLimits | None = None,
        clock: Callable[[], datetime] = now,
        hasher: PasswordHasher | None = None,
    ) -> None:
        """`clock` gives the time by which links, sessions and tries end."""
        self._records = vault.records
        self._owners = Owners(vault, clock=clock)
        self._limits, self._clock = limits or ClientLimits(), clock
        self._hasher = hasher or PasswordHasher()  # argon2id with 64 MiB, as RFC 9106 recommends
        self._one_at_a_time = threading.Lock()  # each hash takes 64 MiB

    @property
    def has_password(self) -> bool:
        """Whether anybody has set a password."""
        return bool(self._records.find(PASSWORD))

    def link_of(self, text: str) -> str | None:
        """Return for whom a link can still be used, None if it cannot."""
        return self._owners.link_of(text)

    def use_link(self, text: str, password: str) -> Record:
        """Set the password by a link, which ends with it. Raises AccessDenied or VaultError."""
        if (name := self.link_of(text)) is None:
            raise AccessDenied(USED)
        new = self._new_password(name, password)  # takes a while
        with self._records.together() as records:
            if self._owners.link_of(text, records) != name:
                raise AccessDenied(USED)
            records.remove("link", name)
            _set(records, new)
        return new

    def change(self, old: str, password: str, *, name: str = FIRST) -> Record:
        """Change somebody's password. Raises AccessDenied for a wrong old one."""
        known = self.check(old, name=name)
        new = self._new_password(name, password)
        with self._records.together() as records:
            _check_current(records, known)
            _set(records, new)
        return new

    def _new_password(self, name: str, password: str) -> Record:
        plain = _checked(password)
        with self._one_at_a_time:
            hashed = self._hasher.hash(plain)
        return Record(PASSWORD, name, name, _written(self._clock()), {"hash": hashed})

    @contextmanager
    def counted(self, address: str) -> Iterator[None]:
        """Count a try from an address before it is made; only a wrong password stays counted.

        Raises TooManyRequests after too many in too short a time, whichever process counted them.
        """
        made = Record(TRY, _random(), self._owners.mac(TRY, address), _written(self._clock()), {})
        self._check_tries(self._records, made.of)  # who has to wait takes no lock
        with self._records.together() as records:
            for each in records.find(TRY):
                if not self._is_recent(each):
                    records.remove(TRY, each.id)
            self._check_tries(records, made.of)
            records.put(made)
        wrong = False
        try:
            yield
        except AccessDenied:
            wrong = True
            raise
        finally:
            if not wrong:
                self._records.remove(TRY, made.id)

    def _check_tries(self, records: Records, of: str) -> None:
        if sum(map(self._is_recent, records.find(TRY, of=of))) >= self._limits.wrong_passwords:
            raise TooManyRequests("too many wrong passwords; wait some minutes")

    def _is_recent(self, tried: Record) -> bool:
        seconds = timedelta(seconds=self._limits.wrong_password_seconds)
        return self._clock() < datetime.fromisoformat(tried.at) + seconds

    def check(self, password: str, *, name: str = FIRST) -> Record:
        """Raise AccessDenied unless this is the password of somebody; return the row it is in.

        A name without a password takes as long as a wrong password.
        """
        passwords = self._records.find(PASSWORD, id=name)
        if len(password) > MOST_LETTERS:
            raise AccessDenied(WRONG)
        try:
            with self._one_at_a_time:
                if not passwords:
                    self._hasher.hash(_plain(password))
                    raise AccessDenied(WRONG)
                self._hasher.verify(passwords[0].content["hash"], _plain(password))
        except VerifyMismatchError:
            raise AccessDenied(WRONG) from None
        return passwords[0]

    def begin(self, password: Record) -> str:
        """Begin a session by the password that was given, and return its secret.

        Sessions that have ended are forgotten. Raises AccessDenied if there is a newer password.
        """
        text, until = _random(), _written(self._clock() + timedelta(hours=SESSION_HOURS))
        with self._records.together() as records:
            _check_current(records, password)
            for each in records.find(SESSION):
                if not self._lasts(each):
                    records.remove(SESSION, each.id)
            records.put(
                Record(
                    SESSION,
                    self._owners.mac(SESSION, text),
                    password.id,
                    _written(self._clock()),
                    {"until": until},
                )
            )
        return text

    def people(self) -> dict[str, Person]:
        """Return all owners by name, as the ledger has them now."""
        return people(self._records)

    def person(self, session: str) -> Person | None:
        """Return who has begun a session that has not ended, as the ledger has them now."""
        known = self._records.find(SESSION, id=self._owners.mac(SESSION, session))
        live = [each.of for each in known if session and self._lasts(each)]
        return self.people().get(live[0]) if live else None

    def _lasts(self, session: Record) -> bool:
        return self._clock() < datetime.fromisoformat(session.content["until"])

    def end(self, session: str) -> None:
        """End a session."""
        self._records.remove(SESSION, self._owners.mac(SESSION, session))


def _set(records: Records, new: Record) -> None:
    """Keep a new password; every session of who has it ends."""
    records.put(new)
    for each in records.find(SESSION, of=new.of):
        records.remove(SESSION, each.id)


def _check_current(records: Records, password: Record) -> None:
    if records.find(PASSWORD, id=password.id) != [password]:
        raise AccessDenied("the password was changed just now; sign in with the new one")


def _checked(password: str) -> str:
    """Return a password that may be used. Raises VaultError."""
    if not LEAST_LETTERS <= len(password) <= MOST_LETTERS or len(set(password)) < 5:
        raise VaultError(
            f"a password has {LEAST_LETTERS} to {MOST_LETTERS} characters, at least 5 of them "
            "different"
        )
    return _plain(password)


def _plain(password: str) -> str:
    """Return the same text from every keyboard."""
    return unicodedata.normalize("NFC", password)


def _random() -> str:
    return secrets.token_urlsafe(32)


def _written(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
