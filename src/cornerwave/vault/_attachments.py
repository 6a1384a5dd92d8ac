"""Contents beside a chain, too large for a line: in pieces, encrypted, their MAC in a line.

They lie in the ledger's database, so that they are written in the line's own transaction, are
there on every machine that shares the ledger, and are in every backup of it.
"""

import hashlib
import hmac
from collections.abc import Sequence

import sqlalchemy as sa

from cornerwave.vault._chain import Chain
from cornerwave.vault._database import ATTACHMENT

PIECE_BYTES = 1 << 22


def attach(connection: sa.Connection, chain: Chain, name: str, content: bytes) -> str:
    """Write a content, in place of the one of its name if there is one; return its MAC."""
    detach(connection, chain, name)
    starts = range(0, max(len(content), 1), PIECE_BYTES)
    pieces = [
        chain.encrypted(content[start : start + PIECE_BYTES], f"{name}:{number}")
        for number, start in enumerate(starts)
    ]
    rows = [
        {"chain": chain.id, "name": name, "number": number, "content": piece}
        for number, piece in enumerate(pieces)
    ]
    connection.execute(ATTACHMENT.insert(), rows)
    return _mac(chain, name, pieces)


def attached(connection: sa.Connection, chain: Chain, name: str, mac: str) -> bytes:
    """Return a content, given its MAC. Raises LedgerDamaged if it is lost or changed."""
    own = sa.and_(ATTACHMENT.c.chain == chain.id, ATTACHMENT.c.name == name)
    query = sa.select(ATTACHMENT.c.content).where(own).order_by(ATTACHMENT.c.number)
    pieces = [row.content for row in connection.execute(query)]
    if not pieces or not all(isinstance(piece, bytes) for piece in pieces):
        raise chain.damaged(f"the {_called(name)} beside it: missing")
    if not hmac.compare_digest(_mac(chain, name, pieces), mac):
        raise chain.damaged(f"the {_called(name)} beside it: changed")
    found = [chain.decrypted(piece, f"{name}:{number}") for number, piece in enumerate(pieces)]
    return b"".join(found)


def detach(connection: sa.Connection, chain: Chain, name: str | None = None) -> None:
    """Remove a content, or all of a chain."""
    own = ATTACHMENT.c.chain == chain.id
    named = own if name is None else sa.and_(own, ATTACHMENT.c.name == name)
    connection.execute(ATTACHMENT.delete().where(named))


def _called(name: str) -> str:
    kind, _, edition = name.partition(":")
    return f"{kind} of edition {edition}" if edition else kind


def _mac(chain: Chain, name: str, pieces: Sequence[bytes]) -> str:
    # each piece by its digest: its length need not be said
    digests = b"".join(hashlib.sha256(piece).digest() for piece in pieces)
    return chain.mac(name.encode() + b"\0" + digests)
