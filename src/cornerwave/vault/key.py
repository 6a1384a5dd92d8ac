"""256 secret bits from the operating system, and everything that is derived from them.

    vault key  --HKDF(purpose)-->  check value, marks, a key per dataset
    dataset key  --HKDF(purpose)-->  noise, row ids, fingerprint, seals

Whoever holds the key can strip the noise from every copy; whoever loses it can never
make a copy again. A key is never printed, logged or shown.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import warnings
from pathlib import Path

from cornerwave.errors import CornerwaveWarning, UnsafeKey, VaultExists, VaultMissing, WrongKey
from cornerwave.keyed import KEY_BYTES, expand

_PREFIX = "cornerwave-key-1:"


class Key:
    """A secret key.

    >>> Key.generate()
    Key(<secret>)
    """

    __slots__ = ("_secret", "is_unsafe")

    def __init__(self, secret: bytes, *, is_unsafe: bool = False) -> None:
        if len(secret) != KEY_BYTES:
            raise UnsafeKey(f"a key has {KEY_BYTES} bytes, not {len(secret)}")
        self._secret = secret
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
                f"there is no key file {path}; restore it, or look at CORNERWAVE_KEY_FILE"
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
            warnings.warn(
                f"other users of this machine can read the key file {path}; run chmod 600 on it",
                CornerwaveWarning,
                stacklevel=2,
            )
        return key

    def write(self, path: Path) -> None:
        """Write a key file that the owner alone can read. Never overwrites."""
        text = _PREFIX + base64.b64encode(self._secret).decode() + "\n"
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise VaultExists(f"there is a key file {path} already; it is never replaced") from None
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def derive(self, purpose: str, context: bytes = b"") -> bytes:
        """Return 32 secret bytes for one purpose; no purpose tells of another."""
        return expand(self._secret, purpose, context)

    def child(self, purpose: str, context: bytes) -> "Key":
        """Return the key of something below, such as a dataset."""
        return Key(self.derive(purpose, context), is_unsafe=self.is_unsafe)

    def seal(self, content: bytes) -> str:
        """Return a seal that only the holder of this key can make."""
        return hmac.new(self.derive("seal"), content, hashlib.sha256).hexdigest()

    def fits(self, seal: str, content: bytes) -> bool:
        """Say whether a seal belongs to this content."""
        return hmac.compare_digest(str(seal).encode(), self.seal(content).encode())

    def __repr__(self) -> str:
        return "Key(<secret>)"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled; pass the path of its file instead")
