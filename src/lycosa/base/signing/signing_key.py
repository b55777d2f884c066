"""Ed25519 keys of nodes: a private key in a file that only its owner may read, a public key as JWK.

The file is PKCS#8 in PEM, as OpenSSL writes it. Its content is read where requests are signed, and
is in no setting, job, log or file of a crawl. A public key is a JWK (RFC 8037 section 2), and its
name is the thumbprint (RFC 7638, RFC 8037 appendix A.3), so two keys never have the same name.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from lycosa.base.system.durable import sync_folder, write_all

PUBLIC_BYTES = 32
_MAX_BYTES = 100_000  # of a file with keys
_PEM = b"-----BEGIN "
# RFC 9421 appendix B.1.4. Everyone has its private part, and it is in the examples of many guides.
_PUBLISHED = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


class KeyFileError(Exception):
    """A file with keys cannot be used, or not be written; the message says what to do."""


class SigningKey:
    """A private key. Neither ``repr`` nor any attribute shows it."""

    __slots__ = ("_private", "key_id", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()
        self.key_id = thumbprint(self.public)

    def sign(self, message: bytes) -> bytes:
        """The signature of ``message``, 64 bytes (RFC 8032)."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"<SigningKey {self.key_id}>"


def create_key(path: Path) -> SigningKey:
    """Make a new key in a new file that only its owner may read.

    Raises ``KeyFileError``; a file that exists is never replaced.
    """
    private = Ed25519PrivateKey.generate()
    write_private_key(path, private)
    return SigningKey(private)


def write_private_key(path: Path, private: PrivateKeyTypes) -> None:
    """Write a key into a new file that only its owner may read. Raises ``KeyFileError``."""
    content = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    # O_EXCL also refuses a symbolic link. The mode is given at the creation, so that there is no
    # moment at which others may open the file.
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise KeyFileError(
            f"{path} exists; a key is never replaced, so give another name and, after the"
            " directory has both keys, delete the old one"
        ) from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be created: {error.strerror}") from error
    try:
        write_all(file, content)
        os.fsync(file)
    except OSError as error:
        # An incomplete file would only be refused later, and stand in the way of the next try.
        path.unlink(missing_ok=True)
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        os.close(file)
    sync_folder(path.parent)


def load_key(path: Path) -> SigningKey:
    """The key in a file. Raises ``KeyFileError``, also when others may read or replace it."""
    key = read_private_key(path)
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(
            f"{path} is not an Ed25519 key; `lycosa identity new FILE` makes one, as does"
            " openssl genpkey -algorithm ed25519"
        )
    found = SigningKey(key)
    if found.key_id == _PUBLISHED:
        raise KeyFileError(
            f"{path} is the published example of RFC 9421, with which anyone can sign;"
            " `lycosa identity new FILE` makes your key"
        )
    return found


def read_private_key(path: Path) -> PrivateKeyTypes:
    """A private key of any kind. Raises ``KeyFileError`` as ``load_key`` does."""
    content = _private_content(path)
    try:
        return serialization.load_pem_private_key(content, password=None)
    except TypeError:
        raise KeyFileError(
            f"{path} is encrypted, and a crawl that starts by itself has no password; write it"
            " without: openssl pkey -in FILE -out NEW"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError(
            f"{path} is not a private key in PEM; `lycosa identity new FILE` makes one"
        ) from None


def _private_content(path: Path) -> bytes:
    """The bytes of a file that only its owner may read."""
    try:
        # Not blocking, because a named pipe would wait for its writer.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise KeyFileError(f"{path.absolute()}: no such key file") from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error
    try:
        # Of the open file, so that it is the one that is read.
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise KeyFileError(f"{path} is not a file")
        if facts.st_mode & 0o077:
            raise KeyFileError(
                f"{path} has the mode {stat.S_IMODE(facts.st_mode):04o}, so other users may use the"
                f" key; run: chmod 600 {path}"
            )
        if facts.st_uid not in (os.geteuid(), 0):
            raise KeyFileError(f"{path} belongs to another user, who may replace the key")
        return os.read(file, _MAX_BYTES)
    finally:
        os.close(file)


def thumbprint(public: bytes) -> str:
    """The name of a public key: SHA-256 of its JWK in the one form of RFC 7638, as base64url."""
    text = f'{{"crv":"Ed25519","kty":"OKP","x":"{_base64url(public)}"}}'
    return _base64url(hashlib.sha256(text.encode()).digest())


def public_jwk(public: bytes) -> dict[str, str]:
    """A public key as JWK (RFC 8037 section 2)."""
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": thumbprint(public),
        "x": _base64url(public),
        "use": "sig",
    }


def read_public_keys(path: Path) -> list[bytes]:
    """The public keys that a file has.

    It is a key file of a node, a public key in PEM, a JWK, or a directory of keys (JWKS). Raises
    ``KeyFileError``.
    """
    try:
        content = path.read_bytes()[: _MAX_BYTES + 1]
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise KeyFileError(f"{path} is too large for a file with keys")
    if b"PRIVATE KEY" in content:
        return [load_key(path).public]
    return [_public_of_pem(path, content)] if _PEM in content else _public_of_json(path, content)


def _public_of_pem(path: Path, content: bytes) -> bytes:
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} is not a key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{path} is not an Ed25519 key")
    return key.public_bytes_raw()


def _public_of_json(path: Path, content: bytes) -> list[bytes]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path} is neither a key in PEM nor JSON") from None
    keys = found.get("keys") if isinstance(found, dict) and "keys" in found else [found]
    if not isinstance(keys, list) or not keys:
        raise KeyFileError(f"{path} has no keys")
    return [_public_of_jwk(path, key) for key in keys]


def _public_of_jwk(path: Path, key: object) -> bytes:
    if not isinstance(key, dict) or (key.get("kty"), key.get("crv")) != ("OKP", "Ed25519"):
        raise KeyFileError(f"{path} has a key that is not an Ed25519 JWK (kty OKP, crv Ed25519)")
    if "d" in key:
        raise KeyFileError(
            f"{path} has a private key (the member d), which must not leave its node; give the"
            " public one, as `lycosa identity show FILE --json` prints it"
        )
    try:
        public = base64.urlsafe_b64decode(str(key.get("x")) + "==")
    except ValueError:
        public = b""
    if len(public) != PUBLIC_BYTES:
        raise KeyFileError(f"{path} has a key whose member x is not {PUBLIC_BYTES} bytes")
    if key.get("kid", thumbprint(public)) != thumbprint(public):
        raise KeyFileError(f"{path} has a key whose kid is not its thumbprint (RFC 7638)")
    return public


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
