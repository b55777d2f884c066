"""ECDSA keys that sign archives: the anonymous form of "WACZ Signing and Verification" 0.1.0.

The document says "ECDSA" and no more. Its implementations, ArchiveWeb.page and ReplayWeb.page, use
the curve P-384 with SHA-256, sign the text of the digest (``sha256:...``), and write r and s next
to each other as Web Crypto does (IEEE P1363), not in DER. The signature is deterministic (RFC
6979), so that the same archive gets the same bytes each time. A private key is a file as in
``signing_key``.
"""

from __future__ import annotations

import base64
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from lycosa.base.signing.signing_key import KeyFileError, read_private_key, write_private_key

_CURVE = ec.SECP384R1()
_PART = 48  # bytes of r and of s
_MAX_PUBLIC = 1000  # characters


class ArchiveKey:
    """A private key for archives. Neither ``repr`` nor any attribute shows it.

    ``public`` is the public key as the archive names it: SubjectPublicKeyInfo in base64.
    """

    __slots__ = ("_private", "public")

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private
        der = private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.public = base64.b64encode(der).decode()

    def sign_text(self, text: str) -> str:
        """The signature of a text in base64."""
        algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
        r, s = decode_dss_signature(self._private.sign(text.encode(), algorithm))
        return base64.b64encode(r.to_bytes(_PART, "big") + s.to_bytes(_PART, "big")).decode()

    def __repr__(self) -> str:
        return f"<ArchiveKey {self.public}>"


def create_archive_key(path: Path) -> ArchiveKey:
    """Make a new key in a new file that only its owner may read. Raises ``KeyFileError``."""
    private = ec.generate_private_key(_CURVE)
    write_private_key(path, private)
    return ArchiveKey(private)


def load_archive_key(path: Path) -> ArchiveKey:
    """The key in a file. Raises ``KeyFileError``, also when others may read or replace it."""
    key = read_private_key(path)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != _CURVE.name:
        raise KeyFileError(
            f"{path} is not an ECDSA key of the curve P-384, which signs archives;"
            " `lycosa identity new FILE --archives` makes one"
        )
    return ArchiveKey(key)


def is_signature_of(text: str, signature: str, public: str) -> bool:
    """Whether ``signature`` is that of ``text`` by the key ``public``; both are untrusted."""
    try:
        raw = base64.b64decode(signature[:_MAX_PUBLIC], validate=True)
        key = serialization.load_der_public_key(
            base64.b64decode(public[:_MAX_PUBLIC], validate=True)
        )
    except (ValueError, UnsupportedAlgorithm):
        return False
    if not isinstance(key, ec.EllipticCurvePublicKey) or len(raw) % 2:
        return False
    half = len(raw) // 2
    der = encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))
    try:
        key.verify(der, text.encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
