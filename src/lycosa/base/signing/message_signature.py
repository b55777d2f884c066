"""Signatures of HTTP requests (RFC 9421), as Web Bot Auth asks for them.

The profile is draft-ietf-webbotauth-httpsig-protocol-01. A signature covers these components:
``@method``, ``@authority``, ``@path``, ``@query`` and the member of ``Signature-Agent`` that has
the signature's label. The draft requires only the authority and that member. The others bind the
signature to one resource, so that who reads a request can at most repeat it. The scheme is not
covered, because behind a proxy that ends TLS a server does not know it. Everything that is equal in
all requests of a key is made once.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence

from lycosa.base.signing.signing_key import SigningKey

LABEL = "sig1"
TAG = "web-bot-auth"
DIRECTORY_TAG = "http-message-signatures-directory"
NONCE_BYTES = 64
COMPONENTS = (
    '"@method"',
    '"@authority"',
    '"@path"',
    '"@query"',
    f'"signature-agent";key="{LABEL}"',
)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_URL = re.compile(r"([a-z]+)://(?:[^/?#]*@)?([^/?#]*)([^?#]*)(\?[^#]*)?")


class MessageSigner:
    """Signs GET requests with one key. ``directory`` is the URL of its key directory."""

    __slots__ = ("_agent_line", "_agent_value", "_key", "_params")

    def __init__(self, key: SigningKey, directory: str) -> None:
        self._key = key
        self._agent_value = f'"{directory}"'
        self._agent_line = f"Signature-Agent: {LABEL}={self._agent_value}".encode()
        # The order of the parameters is free. It is the one of the draft's examples.
        self._params = (
            f"({' '.join(COMPONENTS)});created=%d"
            f';keyid="{key.key_id}";alg="ed25519";expires=%d;nonce="%s";tag="{TAG}"'
        )

    def header_lines(self, url: str, created: int, expires: int, nonce: bytes) -> list[bytes]:
        """The three header lines of a request for ``url``; times are in seconds of Unix time.

        Raises ``ValueError`` for what is not a URL with a host, or not ASCII.
        """
        params = self._params % (created, expires, base64.b64encode(nonce).decode())
        values = ("GET", *target_components(url), self._agent_value)
        signature = self._key.sign(signature_base(COMPONENTS, values, params))
        return [
            self._agent_line,
            f"Signature-Input: {LABEL}={params}".encode(),
            b"Signature: " + LABEL.encode() + b"=:" + base64.b64encode(signature) + b":",
        ]


def signature_base(names: Sequence[str], values: Sequence[str], params: str) -> bytes:
    """The bytes that are signed (RFC 9421 section 2.5).

    ``names`` are component identifiers, ``params`` the inner list with its parameters, both as in
    ``Signature-Input``. Raises ``ValueError`` for values that are not ASCII.
    """
    lines = [f"{name}: {value}" for name, value in zip(names, values, strict=True)]
    lines.append(f'"@signature-params": {params}')
    return "\n".join(lines).encode("ascii")


def directory_proof(
    key: SigningKey, directory: bytes, authority: str, created: int, expires: int
) -> list[str]:
    """The header fields by which a key proves that its owner made a directory of keys.

    They are for every answer with this ``directory`` at ``authority`` (draft-ietf-webbotauth-
    httpsig-protocol-01, appendix B.1), so a copy of the directory at another host, or with other
    keys, has no proof. The label is of the key, so that a server sends the fields of all keys.
    """
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(directory).digest()).decode()}:"
    params = (
        f'("@authority";req "content-digest");created={created};expires={expires}'
        f';keyid="{key.key_id}";tag="{DIRECTORY_TAG}"'
    )
    names = ('"@authority";req', '"content-digest"')
    signature = base64.b64encode(key.sign(signature_base(names, (authority, digest), params)))
    # a key of a structured field has only small letters and digits
    label = f"k{hashlib.sha256(key.public).hexdigest()[:12]}"
    return [
        f"Content-Digest: {digest}",
        f"Signature-Input: {label}={params}",
        f"Signature: {label}=:{signature.decode()}:",
    ]


def target_components(url: str) -> tuple[str, str, str]:
    """``@authority``, ``@path`` and ``@query`` of a URL (RFC 9421 sections 2.2.3, 2.2.6, 2.2.7).

    The path is that of the request target, with nothing decoded. Raises ``ValueError``.
    """
    found = _URL.match(url)
    if found is None or not found[2]:
        raise ValueError(f"{url!r} has no host")
    scheme, authority, path, query = found.groups()
    authority = authority.lower().removesuffix(_DEFAULT_PORTS.get(scheme, "\0"))
    return authority, path or "/", query or "?"
