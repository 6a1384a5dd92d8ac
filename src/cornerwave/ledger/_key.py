"""256 secret bits from the operating system, and everything derived from them.

    vault key    --HKDF(purpose)-->  row ids, fingerprints, marks, chains, a key per dataset,
                                     the key that signs what is handed out
    dataset key  --HKDF(purpose)-->  noise, draws for missing values

Anyone with the key can remove the noise from every copy. Without it, no copy can be
made again. A key is never printed, logged or pickled.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cornerwave.errors import (
    LedgerDamaged,
    UnsafeKey,
    VaultExists,
    VaultMissing,
    WrongKey,
    warn,
)
from cornerwave.keyed import KEY_BYTES, expand, public_key_of, sign

_PREFIX = "cornerwave-key-1:"
_NONCE_BYTES = 12
# Derived, not a second secret: there is one key to back up, a lost ledger loses no signature, and
# all machines that share a vault sign alike. Who has the vault's key could forge the ledger anyway.
_SIGNING = "signing"


class Key:
    """A secret key.

    >>> Key.generate()
    Key(<secret>)
    """

    __slots__ = ("_cipher", "_seals", "_secret", "is_unsafe")

    def __init__(self, secret: bytes, *, is_unsafe: bool = False) -> None:
        if len(secret) != KEY_BYTES:
            raise UnsafeKey(f"a key has {KEY_BYTES} bytes, not {len(secret)}")
        self._secret = secret
        self._cipher: AESGCM | None = None
        self._seals: bytes | None = None
        self.is_unsafe = is_unsafe

    @classmethod
    def generate(cls) -> "Key":
        """Return a fresh key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def unsafe_from_seed(cls, seed: int) -> "Key":
        """Return a key that anybody can guess, for tests and papers; a vault refuses it."""
        return cls(hashlib.sha256(b"cornerwave unsafe seed %d" % seed).digest(), is_unsafe=True)

    @classmethod
    def read(cls, path: Path) -> "Key":
        """Read a key file. Raises VaultMissing if there is none, WrongKey if it is not one."""
        try:
            text = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise VaultMissing(
                f"there is no key file {path}; restore it, or set CORNERWAVE_KEY_FILE to its place"
            ) from None
        except (OSError, UnicodeDecodeError):
            raise WrongKey(f"{path} cannot be read as a key file") from None
        try:
            if not text.startswith(_PREFIX):
                raise ValueError
            key = cls(base64.b64decode(text.removeprefix(_PREFIX), validate=True))
        except (ValueError, binascii.Error, UnsafeKey):
            raise WrongKey(f"{path} is not a Cornerwave key file, or it is damaged") from None
        if path.stat().st_mode & 0o077:
            warn(
                f"other users of this machine can read the key file {path}; run chmod 600 on it",
                stacklevel=2,
            )
        return key

    def write(self, path: Path) -> None:
        """Write a key file that only its owner can read. Never overwrites."""
        text = _PREFIX + base64.b64encode(self._secret).decode() + "\n"
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise VaultExists(f"the key file {path} exists already; it is never replaced") from None
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def derive(self, purpose: str, context: bytes = b"") -> bytes:
        """Return 32 secret bytes for one purpose; no purpose reveals another."""
        return expand(self._secret, purpose, context)

    def child(self, purpose: str, context: bytes) -> "Key":
        """Return the key of something below, such as a dataset."""
        return Key(self.derive(purpose, context), is_unsafe=self.is_unsafe)

    def of_dataset(self, dataset: str) -> "Key":
        """Return the key of a dataset: it depends on all that was frozen, by the dataset's id."""
        return self.child("dataset", bytes.fromhex(dataset))

    def of_family(self, family: str) -> "Key":
        """Return the key of the persons that linked tables share, by the family's id."""
        return self.child("family", bytes.fromhex(family))

    def seal(self, content: bytes) -> str:
        """Return a seal that only a holder of this key can make."""
        if self._seals is None:
            self._seals = self.derive("seal")
        return hmac.digest(self._seals, content, hashlib.sha256).hex()

    def fits(self, seal: str, content: bytes) -> bool:
        """Return whether a seal belongs to this content."""
        return hmac.compare_digest(str(seal).encode(), self.seal(content).encode())

    def sign(self, content: bytes) -> bytes:
        """Return a signature that anybody can check who has the public key."""
        return sign(self.derive(_SIGNING), content)

    @property
    def public_key(self) -> bytes:
        """The public half of the key that signs, as PEM: it can be given to anybody."""
        return public_key_of(self.derive(_SIGNING))

    def encrypt(self, content: bytes, context: bytes) -> bytes:
        """Encrypt with AES-256-GCM; `context` is authenticated, and needed to decrypt.

        The nonce is random: one key may encrypt 2^32 contents before two nonces meet with
        probability 2^-33, so every chain and the records have a child key each.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._aes().encrypt(nonce, content, context)

    def decrypt(self, encrypted: bytes, context: bytes) -> bytes:
        """Return what was encrypted under this key and context. Raises LedgerDamaged."""
        nonce, rest = encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:]
        try:
            return self._aes().decrypt(nonce, rest, context)
        except (InvalidTag, ValueError):  # ValueError: too short to hold nonce and tag
            raise LedgerDamaged(
                "an encrypted part of the ledger was changed, or belongs to another key; "
                "restore the latest backup"
            ) from None

    def _aes(self) -> AESGCM:
        if self._cipher is None:
            self._cipher = AESGCM(self.derive("encryption"))
        return self._cipher

    def __repr__(self) -> str:
        return "Key(<secret>)"

    def __reduce__(self) -> str:
        raise TypeError("a key cannot be pickled; pass the path of its file instead")
