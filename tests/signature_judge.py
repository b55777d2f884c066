"""A verifier of signed requests that is built on another library, as a site would have one.

It knows the public keys from the directory, checks what the draft of Web Bot Auth asks of a
verifier, and takes each nonce once.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, InvalidSignature, VerifyResult
from http_message_signatures import MappingKeyResolver as Keys
from http_message_signatures.algorithms import ED25519

REQUIRED = ("@method", "@authority", "@path", "@query", '"signature-agent";key="sig1"')
SIGNATURE_FIELDS = {"signature", "signature-input", "signature-agent"}


class SeenRequest(NamedTuple):
    """A request as a server sees it; ``headers`` are in order, names as sent."""

    method: str
    url: str
    headers: dict[str, str]

    @property
    def is_signed(self) -> bool:
        return bool({name.lower() for name in self.headers} & SIGNATURE_FIELDS)


def seen_block(block: bytes, scheme: str = "http") -> SeenRequest:
    """A request from its header block as received over HTTP/1.1, or as libcurl writes HTTP/2."""
    first, *lines = block.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    host = next(value for name, value in headers.items() if name.lower() == "host")
    return SeenRequest(method, f"{scheme}://{host}{target}", headers)


def seen_fields(fields: Sequence[tuple[bytes, bytes]]) -> SeenRequest:
    """A request from the fields of an HTTP/2 stream."""
    found = {name.decode(): value.decode("latin-1") for name, value in fields}
    url = f"{found[':scheme']}://{found[':authority']}{found[':path']}"
    headers = {name: value for name, value in found.items() if not name.startswith(":")}
    return SeenRequest(found[":method"], url, headers)


class Judge:
    """A site. ``directories`` are JWKS by their URL; ``now`` none of ours, but the real clock."""

    def __init__(self, directories: Mapping[str, dict[str, Any]]) -> None:
        self._keys = {
            url: {
                jwk["kid"]: Ed25519PublicKey.from_public_bytes(
                    base64.urlsafe_b64decode(jwk["x"] + "=")
                )
                for jwk in found["keys"]
            }
            for url, found in directories.items()
        }
        self.nonces: set[str] = set()

    def accept(self, request: SeenRequest) -> VerifyResult:
        """Raises ``InvalidSignature`` for what a site must not attribute to the crawler."""
        agent = next((v for n, v in request.headers.items() if n.lower() == "signature-agent"), "")
        # The key is looked up by (URL, key ID), as the draft demands.
        url = agent.removeprefix('sig1="').removesuffix('"')
        verifier = HTTPMessageVerifier(
            signature_algorithm=ED25519,
            key_resolver=Keys(public_keys=self._keys.get(url, {}), private_keys={}),
        )
        [result] = verifier.verify(
            request, expect_tag="web-bot-auth", expect_label="sig1", require_components=REQUIRED
        )
        created, expires = result.parameters.get("created"), result.parameters.get("expires")
        if created is None or expires is None or not 0 < expires - created <= 86_400:
            raise InvalidSignature("no bounded lifetime")
        nonce = result.parameters.get("nonce")
        if nonce is None or len(base64.b64decode(nonce)) != 64 or nonce in self.nonces:
            raise InvalidSignature("the nonce was used before, or there is none")
        self.nonces.add(nonce)
        return result
