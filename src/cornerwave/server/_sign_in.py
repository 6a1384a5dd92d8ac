"""How the owner signs in: a password that only he has set, and sessions in cookies.

    first_link      where to set the password, once; None if it is set
    SignIn          the password, the link and the sessions of a vault

There is no default password. Of it an argon2id hash is kept, of the link and of each session an
HMAC, as sealed rows beside the ledger: every process of a service knows them.
"""

import hashlib
import hmac
import secrets
import threading
import unicodedata
from datetime import datetime, timedelta
from urllib.parse import urlencode

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from cornerwave.errors import AccessDenied, VaultError
from cornerwave.owner import Vault
from cornerwave.vault import Record, now

LEAST_LETTERS, MOST_LETTERS = 12, 256
SESSION_HOURS, LINK_HOURS = 12, 24
MOST_TRIES, TRY_SECONDS = 8, 300.0
"""So many false passwords from one address in so many seconds, then it has to wait."""
WELCOME = "/console/welcome"
OWNER, PASSWORD, LINK, SESSION = "owner", "password", "link", "session"


def first_link(vault: Vault, base_url: str, *, again: bool = False) -> str | None:
    """Return an address at which the owner sets his password, once, within LINK_HOURS.

    None if it is set, unless `again`: then the link replaces a password that was lost.
    """
    signing_in = SignIn(vault)
    if signing_in.has_password and not again:
        return None
    return f"{base_url.rstrip('/')}{WELCOME}?{urlencode({'link': signing_in.new_link()})}"


class SignIn:
    """The password, the one-time link and the sessions of a vault."""

    def __init__(self, vault: Vault) -> None:
        self._records = vault.records
        self._secret = vault.secret("sign in")
        self._hasher = PasswordHasher()
        self._one_at_a_time = threading.Lock()  # each hash takes 64 MiB

    @property
    def has_password(self) -> bool:
        """Whether the owner has set a password."""
        return bool(self._records.find(OWNER, id=PASSWORD))

    def new_link(self) -> str:
        """Return the secret of a new link; an older one ends."""
        text, until = _random(), _said(now() + timedelta(hours=LINK_HOURS))
        content = {"mac": self._mac(LINK, text), "until": until}
        self._records.put(Record(OWNER, LINK, "", _said(now()), content))
        return text

    def is_link(self, text: str) -> bool:
        """Return whether a link can still be used."""
        found = self._records.find(OWNER, id=LINK)
        return bool(
            found
            and hmac.compare_digest(found[0].content["mac"], self._mac(LINK, text))
            and now() < datetime.fromisoformat(found[0].content["until"])
        )

    def use_link(self, text: str, password: str) -> None:
        """Set the password by a link, which ends with it. Raises AccessDenied or VaultError."""
        if not self.is_link(text):
            raise AccessDenied("this link was used or has ended; start the service again")
        self._set(password)
        self._records.remove(OWNER, LINK)

    def change(self, old: str, password: str) -> None:
        """Change the password. Raises AccessDenied for a wrong old one."""
        self.check(old)
        self._set(password)

    def _set(self, password: str) -> None:
        """Keep a new password; every session ends."""
        hashed = self._hashed(_checked(password))
        with self._records.together() as records:
            records.put(Record(OWNER, PASSWORD, "", _said(now()), {"hash": hashed}))
            for each in records.find(SESSION):
                records.remove(SESSION, each.id)

    def _hashed(self, password: str) -> str:
        with self._one_at_a_time:
            return self._hasher.hash(password)

    def check(self, password: str) -> None:
        """Raise AccessDenied unless this is the password."""
        found = self._records.find(OWNER, id=PASSWORD)
        if not found or len(password) > MOST_LETTERS:
            raise AccessDenied("this is not the password")
        try:
            with self._one_at_a_time:
                self._hasher.verify(found[0].content["hash"], _plain(password))
        except VerifyMismatchError:
            raise AccessDenied("this is not the password") from None

    def begin(self) -> str:
        """Begin a session and return its secret; those that have ended are forgotten."""
        text, until = _random(), _said(now() + timedelta(hours=SESSION_HOURS))
        with self._records.together() as records:
            for each in records.find(SESSION):
                if not _is_live(each):
                    records.remove(SESSION, each.id)
            records.put(
                Record(SESSION, self._mac(SESSION, text), OWNER, _said(now()), {"until": until})
            )
        return text

    def is_live(self, session: str) -> bool:
        """Return whether a session has begun and not ended."""
        found = self._records.find(SESSION, id=self._mac(SESSION, session)) if session else []
        return bool(found) and _is_live(found[0])

    def end(self, session: str) -> None:
        """End a session."""
        self._records.remove(SESSION, self._mac(SESSION, session))

    def _mac(self, purpose: str, text: str) -> str:
        said = f"{purpose}/{text}".encode(errors="replace")
        return hmac.new(self._secret, said, hashlib.sha256).hexdigest()


def _checked(password: str) -> str:
    """Return a password that may be used. Raises VaultError."""
    if not LEAST_LETTERS <= len(password) <= MOST_LETTERS or len(set(password)) < 5:
        raise VaultError(
            f"a password has {LEAST_LETTERS} to {MOST_LETTERS} characters, 5 of them different"
        )
    return _plain(password)


def _plain(password: str) -> str:
    """Return the same text from every keyboard."""
    return unicodedata.normalize("NFC", password)


def _is_live(session: Record) -> bool:
    return now() < datetime.fromisoformat(session.content["until"])


def _random() -> str:
    return secrets.token_urlsafe(32)


def _said(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
