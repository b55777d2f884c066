"""Key files of nodes, and the public keys that are read from files of all forms."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lycosa.base.signing.signing_key import (
    KeyFileError,
    create_key,
    load_key,
    public_jwk,
    read_public_keys,
    thumbprint,
)

# RFC 9421 appendix B.1.4, whose thumbprint is in RFC 8037 appendix A.3 for another key
EXAMPLE_SEED = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"
EXAMPLE_PUBLIC = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
EXAMPLE_ID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
# RFC 8037 appendix A.1 and A.3
RFC8037_PUBLIC = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
RFC8037_ID = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=")


def write_pem(path: Path, key: object, password: bytes = b"", mode: int = 0o600) -> Path:
    encryption = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    path.write_bytes(
        key.private_bytes(  # type: ignore[attr-defined]
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
    )
    path.chmod(mode)
    return path


def test_the_name_of_a_key_is_its_thumbprint() -> None:
    """The examples of RFC 8037 appendix A.3 and of RFC 9421."""
    assert thumbprint(decoded(RFC8037_PUBLIC)) == RFC8037_ID
    assert thumbprint(decoded(EXAMPLE_PUBLIC)) == EXAMPLE_ID
    jwk = public_jwk(decoded(RFC8037_PUBLIC))
    assert jwk == {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": RFC8037_ID,
        "x": RFC8037_PUBLIC,
        "use": "sig",
    }
    # RFC 7638 section 3: the required members in lexical order, without white space
    required = {name: jwk[name] for name in sorted(("kty", "crv", "x"))}
    digest = hashlib.sha256(json.dumps(required, separators=(",", ":")).encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == jwk["kid"]


def test_a_new_key_is_of_its_owner_only_and_differs_from_others(tmp_path: Path) -> None:
    before = os.umask(0)  # even a careless umask gives no right to others
    try:
        made = create_key(tmp_path / "a.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.pem").stat().st_mode) == 0o600
    assert load_key(tmp_path / "a.pem").key_id == made.key_id
    assert create_key(tmp_path / "b.pem").key_id != made.key_id


def test_openssl_writes_the_same_form(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    assert load_key(write_pem(tmp_path / "k", key)).public == key.public_key().public_bytes_raw()


def test_a_key_is_never_replaced_and_no_link_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    create_key(path)
    content = path.read_bytes()
    with pytest.raises(KeyFileError, match="exists; a key is never replaced"):
        create_key(path)
    assert path.read_bytes() == content
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError, match="exists"):
        create_key(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(KeyFileError, match="cannot be created: No such file"):
        create_key(tmp_path / "no" / "folder")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o777])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.pem"
    create_key(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}.*chmod 600"):
        load_key(path)


def test_unusable_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    def message(path: Path) -> str:
        with pytest.raises(KeyFileError) as refused:
            load_key(path)
        return str(refused.value)

    def text(content: bytes) -> Path:
        path = tmp_path / "bad.pem"
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    assert "no such key file" in message(tmp_path / "absent")
    assert "is not a file" in message(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "is not a file" in message(tmp_path / "pipe")
    for content in (b"", b"\0" * 100, b"-----BEGIN PRIVATE KEY-----\nAAAA\n", b"x" * 200_000):
        assert "not a private key in PEM" in message(text(content))
    elliptic = write_pem(tmp_path / "ec", generate_private_key(SECP256R1()))
    assert "is not an Ed25519 key" in message(elliptic)
    locked = write_pem(tmp_path / "locked", Ed25519PrivateKey.generate(), password=b"secret")
    assert "is encrypted" in message(locked)
    example = Ed25519PrivateKey.from_private_bytes(decoded(EXAMPLE_SEED))
    assert "published example" in message(write_pem(tmp_path / "example", example))


def test_public_keys_are_read_from_every_form(tmp_path: Path) -> None:
    key = create_key(tmp_path / "a.pem")
    private = serialization.load_pem_private_key((tmp_path / "a.pem").read_bytes(), None)
    (tmp_path / "public.pem").write_bytes(
        private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    jwk = public_jwk(key.public)
    (tmp_path / "jwk.json").write_text(json.dumps(jwk))
    other = public_jwk(decoded(RFC8037_PUBLIC))
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [jwk, other]}))
    for name in ("a.pem", "public.pem", "jwk.json"):
        assert read_public_keys(tmp_path / name) == [key.public]
    assert read_public_keys(tmp_path / "jwks.json") == [key.public, decoded(RFC8037_PUBLIC)]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "neither a key in PEM nor JSON"),
        ("[1", "neither a key in PEM nor JSON"),
        ("[" * 50_000, "neither a key in PEM nor JSON"),
        ("[]", "not an Ed25519 JWK"),
        ("{}", "not an Ed25519 JWK"),
        ('{"keys": []}', "has no keys"),
        ('{"keys": 3}', "has no keys"),
        ('{"keys": [{"kty": "RSA"}]}', "not an Ed25519 JWK"),
        ('{"kty":"OKP","crv":"Ed25519"}', "not 32 bytes"),
        ('{"kty":"OKP","crv":"Ed25519","x":"\u00e9"}', "not 32 bytes"),
        ('{"kty":"OKP","crv":"Ed25519","x":"AAAA"}', "not 32 bytes"),
        (f'{{"kty":"OKP","crv":"Ed25519","x":"{RFC8037_PUBLIC}","kid":"a"}}', "thumbprint"),
        (f'{{"kty":"OKP","crv":"Ed25519","x":"{RFC8037_PUBLIC}","d":"x"}}', "private key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not a key in PEM"),
        (" " * 100_001, "too large"),
    ],
)
def test_files_without_public_keys_are_refused(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "given"
    path.write_text(content, "utf-8")
    with pytest.raises(KeyFileError, match=why):
        read_public_keys(path)


def test_a_key_shows_nothing_private(tmp_path: Path) -> None:
    key = create_key(tmp_path / "a.pem")
    private = serialization.load_pem_private_key((tmp_path / "a.pem").read_bytes(), None)
    seed = private.private_bytes_raw()  # type: ignore[union-attr]
    for text in (repr(key), str(key)):
        assert seed.hex() not in text and base64.b64encode(seed).decode() not in text
