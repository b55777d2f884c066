"""Keys that sign archives: the form of "WACZ Signing and Verification" 0.1.0 as implementations read it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.signing.archive_key import create_archive_key, is_signature_of, load_archive_key
from lycosa.base.signing.signing_key import KeyFileError, create_key
from lycosa.cli.main import main

TEXT = "sha256:3dd086a0be145d1108bf32a5cac7c4b4c046eb78365792d4bb28e9f43e3c6571"


def test_a_signature_is_that_of_web_crypto(tmp_path: Path) -> None:
    key = create_archive_key(tmp_path / "key.pem")
    public = serialization.load_der_public_key(base64.b64decode(key.public))
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert public.curve.name == "secp384r1"
    raw = base64.b64decode(key.sign_text(TEXT))
    assert len(raw) == 96  # r and s, not DER
    r, s = (int.from_bytes(part, "big") for part in (raw[:48], raw[48:]))
    public.verify(encode_dss_signature(r, s), TEXT.encode(), ec.ECDSA(hashes.SHA256()))


def test_the_same_text_has_the_same_signature(tmp_path: Path) -> None:
    key = create_archive_key(tmp_path / "key.pem")
    again = load_archive_key(tmp_path / "key.pem")
    assert key.sign_text(TEXT) == again.sign_text(TEXT)
    assert repr(again) == f"<ArchiveKey {key.public}>"


def test_only_the_text_and_key_of_a_signature_fit(tmp_path: Path) -> None:
    key, other = (create_archive_key(tmp_path / name) for name in ("one", "two"))
    signature = key.sign_text(TEXT)
    assert is_signature_of(TEXT, signature, key.public)
    assert not is_signature_of(TEXT + "0", signature, key.public)
    assert not is_signature_of(TEXT, signature, other.public)
    assert not is_signature_of(TEXT, other.sign_text(TEXT), key.public)


@settings(max_examples=30)
@given(
    st.text(max_size=50), st.binary(max_size=150).map(lambda data: base64.b64encode(data).decode())
)
def test_what_is_no_signature_is_none(signature: str, public: str) -> None:
    assert not is_signature_of(TEXT, signature, public)


def test_only_its_owner_may_read_a_key(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    create_archive_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyFileError, match="exists"):
        create_archive_key(path)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_archive_key(path)


def test_another_kind_of_key_is_refused(tmp_path: Path) -> None:
    create_key(tmp_path / "signing.pem")
    with pytest.raises(KeyFileError, match="identity new FILE --archives"):
        load_archive_key(tmp_path / "signing.pem")


def test_the_command_makes_and_shows_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "key.pem")
    assert main(["identity", "new", path, "--archives"]) == 0
    made = capsys.readouterr().out
    assert main(["identity", "show", path, "--archives"]) == 0
    assert capsys.readouterr().out == made
    assert load_archive_key(tmp_path / "key.pem").public in made
    assert main(["identity", "show", path]) == 2
    assert "not an Ed25519 key" in capsys.readouterr().err
