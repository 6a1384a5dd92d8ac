"""One append-only chain of lines, each authenticated together with all before it.

    mac_n = HMAC(k, chain, n, at, kind, recipient, alike, content, mac_{n-1}),    mac_0 = ''
    seal  = HMAC(k', id, name, n, mac_n, closed, m)

The seal belongs to the chain's row, which states how long the chain is, where it ends, since when
it takes no more holdings, if it does not, and that m of its lines state what it is: those of no
recipient. Who reads m true ones has them all, and need not read what lies between.
Without the key nobody can edit, reorder, insert or delete lines, shorten the chain or
rename its dataset. What remains possible is to restore an older row together with the
older lines; a head that was noted elsewhere shows that.

Contents are encrypted: what registration froze and how a copy was made name columns,
category values and counts.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from cornerwave.errors import LedgerDamaged
from cornerwave.ledger._database import ATTACHMENT, Connection, among
from cornerwave.ledger._key import Key


class Line(NamedTuple):
    """A line as the database keeps it."""

    chain: str
    number: int
    at: str
    kind: str
    recipient: str | None
    alike: str | None
    content: str
    mac: str


class Draft(NamedTuple):
    """A line to be appended, in the clear."""

    at: str
    kind: str
    recipient: str | None
    content: str

    @property
    def alike(self) -> str | None:
        """The recipient's name as it is in all spellings by upper and lower case."""
        return None if self.recipient is None else self.recipient.casefold()


@dataclass(frozen=True)
class Chain:
    """A chain as its row states it, with the secrets to check and to extend it.

    >>> chain = Chain(Key.generate(), "a1", "people")
    >>> lines, longer = chain.extend([Draft("2030-01-01", "holding", "ann", "{}")])
    >>> longer.check(lines)
    >>> longer.read(lines[0])
    '{}'
    """

    _key: Key
    id: str
    name: str
    length: int = 0
    head: str = ""
    closed: str = ""
    stated: int = 0

    @cached_property
    def _secret(self) -> bytes:
        return self._key.derive("chain", self.id.encode())

    @cached_property
    def _contents(self) -> Key:
        return self._key.child("chain contents", self.id.encode())

    @property
    def row(self) -> tuple[Any, ...]:
        """The chain's row, sealed."""
        stated = (self.id, self.name, self.length, self.head, self.closed, self.stated)
        return (*stated, self._key.seal(_encoded("chain", *stated)))

    @classmethod
    def of_row(cls, key: Key, row: Sequence[Any]) -> "Chain":
        """Return the chain that a row states. Raises LedgerDamaged if its seal does not fit."""
        *stated, seal = row
        if not key.fits(seal, _encoded("chain", *stated)):
            raise LedgerDamaged(
                f"the ledger's row of {_named(stated[1])} does not fit its seal: it was changed "
                "from outside. Restore the latest backup"
            )
        return cls(key, *stated)

    def extend(self, drafts: Iterable[Draft]) -> tuple[list[Line], "Chain"]:
        """Return the lines to add, and the chain that ends with them."""
        lines, head, stated = [], self.head, self.stated
        for number, draft in enumerate(drafts, start=self.length + 1):
            encrypted = self._contents.encrypt(draft.content.encode(), self.id.encode())
            content = base64.b64encode(encrypted).decode()
            names = draft.recipient, draft.alike
            fields = (self.id, number, draft.at, draft.kind, *names, content)
            head = self._mac(fields, head)
            lines.append(Line(*fields, head))
            stated += draft.recipient is None
        return lines, replace(self, length=self.length + len(lines), head=head, stated=stated)

    def check(self, lines: Sequence[Line], *, after: int = 0, before: str = "") -> None:
        """Raise LedgerDamaged unless these are all the lines after one, to the chain's end.

        `before` is the mac of line number `after`.
        """
        for number, line in enumerate(lines, start=after + 1):
            if line.number != number:
                raise self.damaged(f"line {number} is missing or out of order")
            self.check_line(line, before)
            before = line.mac
        if (after + len(lines), before) != (self.length, self.head):
            raise self.damaged("its last lines are missing, or lines were added")

    def check_line(self, line: Line, before: str | None) -> None:
        """Raise LedgerDamaged unless a line follows the one that has the mac `before`."""
        expected = "" if before is None else self._mac(line[:-1], before)
        if not expected or not hmac.compare_digest(str(line.mac).encode(), expected.encode()):
            raise self.damaged(f"line {line.number} does not fit the chain")

    def read(self, line: Line) -> str:
        """Return the content of a checked line in the clear."""
        return self._contents.decrypt(base64.b64decode(line.content), self.id.encode()).decode()

    def encrypted(self, content: bytes, name: str) -> bytes:
        """Return a content that is kept beside the chain, encrypted."""
        return self._contents.encrypt(content, f"{self.id}:{name}".encode())

    def decrypted(self, content: bytes, name: str) -> bytes:
        """Return what `encrypted` made."""
        return self._contents.decrypt(content, f"{self.id}:{name}".encode())

    def mac(self, content: bytes) -> str:
        """Return the MAC of what is kept beside the chain."""
        return hmac.digest(self._secret, b"beside\0" + content, hashlib.sha256).hex()

    def damaged(self, what: str) -> LedgerDamaged:
        """Return the error for damage to this chain."""
        return LedgerDamaged(
            f"the ledger of {_named(self.name)} was changed from outside: {what}. "
            "Restore the latest backup"
        )

    def _mac(self, fields: Sequence[Any], before: str) -> str:
        return hmac.digest(self._secret, _encoded(*fields, before), hashlib.sha256).hex()


# A database edited from outside may return bytes; as an object they fit no mac.
_as_json = json.JSONEncoder(default=lambda strange: {"bytes": repr(strange)}).encode


def _encoded(*fields: Any) -> bytes:
    # A JSON list of texts, whole numbers and nulls is injective: no two lists share an encoding.
    return _as_json(fields).encode()


def _named(name: Any) -> str:
    return repr(name) if name else "the vault itself"


# --------------------------------------------------------------------------------------------------
# Contents beside a chain, too large for a line: in pieces, encrypted, their MAC in a line.
#
# They lie in the ledger's database, so that they are written in the line's own transaction, are
# there on every machine that shares the ledger, and are in every backup of it.


PIECE_BYTES = 1 << 22


def attach(connection: Connection, chain: Chain, name: str, content: bytes) -> str:
    """Write a content, in place of the one of its name if there is one; return its MAC."""
    detach(connection, chain, name)
    starts = range(0, max(len(content), 1), PIECE_BYTES)
    pieces = [
        chain.encrypted(content[start : start + PIECE_BYTES], f"{name}:{number}")
        for number, start in enumerate(starts)
    ]
    rows = [(chain.id, name, number, piece) for number, piece in enumerate(pieces)]
    connection.insert(ATTACHMENT, rows)
    return _mac(chain, name, pieces)


def attached(connection: Connection, chain: Chain, name: str, mac: str) -> bytes:
    """Return a content, given its MAC. Raises LedgerDamaged if it is lost or changed."""
    rows = connection.select(ATTACHMENT, "chain = ? AND name = ? ORDER BY number", chain.id, name)
    pieces = [content for *_, content in rows]
    if not pieces or not all(isinstance(piece, bytes) for piece in pieces):
        raise chain.damaged(f"the {_called(name)} beside it: missing")
    if not hmac.compare_digest(_mac(chain, name, pieces), mac):
        raise chain.damaged(f"the {_called(name)} beside it: changed")
    return b"".join(chain.decrypted(p, f"{name}:{number}") for number, p in enumerate(pieces))


def detach(connection: Connection, chain: Chain, name: str | None = None) -> None:
    """Remove a content, or all of a chain."""
    named = {} if name is None else {"name": [name]}
    connection.delete(ATTACHMENT, *among({"chain": [chain.id], **named}))


def _called(name: str) -> str:
    kind, _, edition = name.partition(":")
    return f"{kind} of edition {edition}" if edition else kind


def _mac(chain: Chain, name: str, pieces: Sequence[bytes]) -> str:
    # Each piece by its digest, which has one length: no two lists of pieces give the same bytes.
    digests = b"".join(hashlib.sha256(piece).digest() for piece in pieces)
    return chain.mac(name.encode() + b"\0" + digests)
