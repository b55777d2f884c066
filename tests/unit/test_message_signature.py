"""The bytes that are signed, by the examples of the draft of Web Bot Auth."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.signing.message_signature import (
    COMPONENTS,
    MessageSigner,
    directory_proof,
    signature_base,
    target_components,
)
from lycosa.base.signing.signing_key import SigningKey

SEED = base64.urlsafe_b64decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU=")
KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(SEED))
DIRECTORY = "https://crawler.example/.well-known/http-message-signatures-directory"


def test_the_example_of_the_draft_has_the_same_signature() -> None:
    """draft-ietf-webbotauth-httpsig-protocol-01, test vector of ed25519 with Signature-Agent."""
    params = (
        '("@authority" "signature-agent";key="agent2");created=1735689600'
        ';keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600'
        ';nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1Y'
        'sauiA==";tag="web-bot-auth"'
    )
    base = signature_base(
        ('"@authority"', '"signature-agent";key="agent2"'),
        ("example.com", '"https://signature-agent.test"'),
        params,
    )
    assert base64.b64encode(KEY.sign(base)).decode() == (
        "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg=="
    )


def test_the_signature_base_is_the_one_of_rfc_9421() -> None:
    params = '("@method");created=1'
    assert signature_base(('"@method"',), ("GET",), params) == (
        b'"@method": GET\n"@signature-params": ("@method");created=1'
    )


def test_the_proof_of_a_directory_is_the_one_of_the_draft() -> None:
    """draft-ietf-webbotauth-httpsig-protocol-01, test vector "Signed Directory Response"."""
    directory = (
        '{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"'
        ',"x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs","use":"sig"}]}'
    )
    digest, covered, signature = directory_proof(
        KEY, directory.encode(), "signature-agent.test", 1735689600, 4889289600
    )
    assert digest == "Content-Digest: sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"
    assert covered.partition("=")[2] == (
        '("@authority";req "content-digest");created=1735689600;expires=4889289600'
        ';keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"'
        ';tag="http-message-signatures-directory"'
    )
    assert signature.partition("=")[2] == (
        ":l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:"
    )


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://example.com/", ("example.com", "/", "?")),
        ("https://EXAMPLE.com:443", ("example.com", "/", "?")),
        ("http://example.com:80/a?b=c", ("example.com", "/a", "?b=c")),
        ("https://example.com:80/", ("example.com:80", "/", "?")),
        ("http://example.com:8080/?", ("example.com:8080", "/", "?")),
        ("http://[2001:db8::1]:8080/%7e?a=/?#x", ("[2001:db8::1]:8080", "/%7e", "?a=/?")),
        ("http://[::80]/", ("[::80]", "/", "?")),
        ("http://a:b@example.com/", ("example.com", "/", "?")),
        ("http://example.com?x", ("example.com", "/", "?x")),
    ],
)
def test_the_components_of_a_target(url: str, found: tuple[str, str, str]) -> None:
    """RFC 9421 sections 2.2.3, 2.2.6 and 2.2.7."""
    assert target_components(url) == found


@pytest.mark.parametrize("url", ["", "example.com", "http://", "http:///a", "HTTP//x"])
def test_what_has_no_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="has no host"):
        target_components(url)


def test_a_url_beyond_ascii_is_refused_not_sent() -> None:
    with pytest.raises(ValueError):
        MessageSigner(KEY, DIRECTORY).header_lines("http://a.example/\u00e9", 1, 2, b"")


@given(
    path=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=60),
    nonce=st.binary(min_size=64, max_size=64),
)
def test_any_path_gives_three_lines_whose_signature_holds(path: str, nonce: bytes) -> None:
    url = f"http://a.example/{path}"
    agent, given_input, signature = MessageSigner(KEY, DIRECTORY).header_lines(url, 5, 65, nonce)
    assert agent == f'Signature-Agent: sig1="{DIRECTORY}"'.encode()
    params = given_input.removeprefix(b"Signature-Input: sig1=").decode()
    values = ("GET", *target_components(url), f'"{DIRECTORY}"')
    found = base64.b64decode(signature.removeprefix(b"Signature: sig1=:").removesuffix(b":"))
    public = Ed25519PrivateKey.from_private_bytes(SEED).public_key()
    public.verify(found, signature_base(COMPONENTS, values, params))
    assert not any(each in line for line in (agent, given_input, signature) for each in b"\r\n")
