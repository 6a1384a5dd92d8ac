"""Addresses of files that need no header: signed, short-lived, and bound to a grant.

    payload.signature      payload: grant, recipient, format, expiry

The grant is looked up again for every request, so that a revoked one opens nothing.
"""

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass

from cornerwave.errors import AccessDenied

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
