"""A dossier as a file: canonical JSON with its signature, alone or carried by a page.

    {"dossier": {...}, "signature": {"algorithm": ..., "key": ..., "value": ...}}

What is signed is the canonical JSON of the first part (sorted names, no spaces, ASCII). It states
the SHA-256 of the page without what it carries, so that the signature vouches for each word too.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cornerwave.documents import carried_by, carrying
from cornerwave.errors import DossierError
from cornerwave.keyed import SIGNATURES, fingerprint_of, is_signed
from cornerwave.kinds import JsonObject, canonical

PAGE = "page"
"""The field with the hash of the page."""
ENDINGS = (".html", ".htm", ".json")
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class SignedDossier:
    """What a dossier states, and by whom it was signed; `page` is the page that carries it."""

    stated: JsonObject
    key: str
    value: str
    page: str | None = None

    @classmethod
    def of(
        cls, stated: Mapping[str, Any], page: str, *, sign: Callable[[bytes], bytes], key: bytes
    ) -> "SignedDossier":
        """Sign what a dossier states, with the page that shows it."""
        whole = {**stated, PAGE: _hash(page)}
        value = base64.b64encode(sign(canonical(whole).encode())).decode()
        return cls(whole, fingerprint_of(key), value, page)

    @classmethod
    def read(cls, path: Path) -> "SignedDossier":
        """Read a dossier, a page or JSON. Raises DossierError for anything else."""
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError
            text = path.read_bytes().decode()
        except FileNotFoundError:
            raise DossierError(f"there is no file {path}") from None
        except (OSError, ValueError):
            raise DossierError(f"{path} cannot be read as a dossier") from None
        page, data = carried_by(text) if path.suffix.lower() != ".json" else (None, text)
        try:
            kept = json.loads(data or "")
            signature = kept["signature"]
            stated = kept["dossier"]
            if not isinstance(stated, dict) or signature["algorithm"] != SIGNATURES:
                raise ValueError
            found = cls(stated, str(signature["key"]), str(signature["value"]), page)
            is_ours = text == (found.text if page is None else found.as_page)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DossierError(
                f"{path} is not a dossier of Cornerwave, or was damaged beyond reading"
            ) from None
        if not is_ours:
            raise DossierError(
                f"{path} was changed: its data are not in the form in which they were signed"
            )
        return found

    @property
    def text(self) -> str:
        """The signed JSON in its one form."""
        signature = {"algorithm": SIGNATURES, "key": self.key, "value": self.value}
        return canonical({"dossier": self.stated, "signature": signature}) + "\n"

    @property
    def as_page(self) -> str:
        """The page that carries the signed JSON."""
        return carrying(self.page or "", self.text)

    def faults(self, public_key: bytes) -> list[str]:
        """Return what the signature does not vouch for; nothing if all is as it was signed."""
        if self.key != (known := fingerprint_of(public_key)):
            return [
                f"signature: made by another key ({self.key[:16]}...) than the one given "
                f"({known[:16]}...)"
            ]
        try:
            value = base64.b64decode(self.value, validate=True)
        except (ValueError, binascii.Error):
            value = b""
        if not is_signed(public_key, canonical(self.stated).encode(), value):
            return ["signature: does not fit what the dossier states, so that was changed"]
        if self.page is not None and _hash(self.page) != self.stated.get(PAGE):
            return ["page: was changed, though the data that it carries were not"]
        return []


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
