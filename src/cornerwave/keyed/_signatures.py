"""Signatures that anybody can check who has the public key: Ed25519 (RFC 8032).

    secret (32 bytes) ──> public key, 32 bytes, as PEM
    secret, content ──> signature, 64 bytes, the same each time

A public key is a file in the usual form (SubjectPublicKeyInfo), which other tools read too:
openssl pkeyutl -verify -rawin -pubin -inkey public.pem -sigfile signature -in content
"""

import hashlib
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from cornerwave.errors import WrongKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

# Imported where they are used: few commands sign, and these modules bring all kinds of keys.

SIGNATURES = "Ed25519"


def sign(secret: bytes, content: bytes) -> bytes:
    """Return the signature of a content by a secret of 32 bytes."""
    return _private(secret).sign(content)


def public_key_of(secret: bytes) -> bytes:
    """Return the public key of a secret, as PEM.

    >>> print(public_key_of(bytes(32)).decode().splitlines()[1])
    MCowBQYDK2VwAyEAO2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = _private(secret).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def is_signed(public_key: bytes, content: bytes, signature: bytes) -> bool:
    """Return whether who has the secret of a public key has signed a content. Raises WrongKey."""
    try:
        _public(public_key).verify(signature, content)
    except InvalidSignature:
        return False
    return True


def fingerprint_of(public_key: bytes) -> str:
    """Return by what a public key is named: the SHA-256 of its 32 bytes. Raises WrongKey."""
    return hashlib.sha256(_public(public_key).public_bytes_raw()).hexdigest()


def _private(secret: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret)


def _public(public_key: bytes) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise WrongKey("this is not a public key of signatures (Ed25519, as PEM)")
    return key
