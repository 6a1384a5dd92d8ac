"""Tokens: what a recipient sends, and what is kept of it.

    cw_ID_SECRET_CHECKSUM        12, 64 and 8 hexadecimal digits

The secret has 256 random bits, of which only an HMAC is kept. The checksum tells a token that
was cut off from a false one, before any secret is compared.
"""

import hashlib
import hmac
import json
import re
import zlib
from dataclasses import dataclass
from datetime import datetime

from cornerwave.access._grants import time_of
from cornerwave.vault import Record

OWNER = "the owner"
"""A token of this name is for the owner's own work over REST, and fetches nothing."""
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
        said = record.content
        return cls(record.id, record.of, record.at, said["expires"], said["revoked"])

    def is_live(self, at: datetime) -> bool:
        """Return whether it opens anything at this time."""
        return self.revoked is None and at < time_of(self.expires)


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
    said = {
        "shareCredentialsVersion": 1,
        "endpoint": f"{url.rstrip('/')}{SHARING_PATH}/",
        "bearerToken": token,
        "expirationTime": expires,
    }
    return json.dumps(said, indent=2) + "\n"
