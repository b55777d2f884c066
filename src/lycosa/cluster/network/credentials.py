"""What a machine authenticates itself with: a token that all machines of the crawl have, TLS with
certificates of one authority, both, or nothing.

With nothing, only loopback addresses are used. A token keeps others out; it does not hide what is
sent, and does not protect a connection from a machine on its path. TLS does both. Files of TLS are
read again when they have changed, because certificates are renewed while a crawl runs. New files
that cannot be read are reported, and the old certificate is used meanwhile.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from lycosa.base.config.cluster_file import ClusterFile, TlsSection
from lycosa.base.config.sources import SettingsError

MIN_TOKEN_BYTES = 16
_Tell = Callable[[str], None]
"""Gets a line for the operator."""


def _tell_no_one(line: str) -> None:
    """For a program that ends before certificates are renewed."""


_Stamp = list[tuple[int, int]]


class TlsFiles:
    """The TLS contexts of both sides, of the files' present content.

    Each side must show a certificate of the authority. Host names are not compared: the authority
    belongs to the crawl's operator, and every certificate of it is a machine of the crawl. When the
    files have changed and cannot be read, ``tell`` gets a line, once for each change. Raises
    ``SettingsError`` when they cannot be read at the start.
    """

    def __init__(self, files: TlsSection, tell: _Tell = _tell_no_one) -> None:
        self._files, self._tell = files, tell
        self._stamp = self._changed()
        self._seen: _Stamp | None = self._stamp
        self._client, self._server = _context(files, False), _context(files, True)

    def context(self, is_server: bool) -> ssl.SSLContext:
        stamp = None
        try:
            stamp = self._changed()
            if stamp != self._stamp:
                self._client, self._server = (
                    _context(self._files, False),
                    _context(self._files, True),
                )
                self._stamp = stamp
        except (OSError, SettingsError) as error:
            # perhaps they are being replaced
            if stamp != self._seen:
                self._tell(f"the changed files of [tls] are not used, the old ones are: {error}")
        self._seen = stamp
        return self._server if is_server else self._client

    def _changed(self) -> _Stamp:
        files = (self._files.certificate, self._files.key, self._files.authority)
        try:
            return [(path.stat().st_mtime_ns, path.stat().st_ino) for path in files]
        except OSError as error:
            raise SettingsError([f"[tls]: {error.filename}: {error.strerror}"]) from error


class Credentials:
    """A token, contexts of TLS, both or neither. Its repr shows no secret."""

    def __init__(self, token: bytes = b"", tls: TlsFiles | None = None) -> None:
        self.token, self.tls = token, tls

    @property
    def is_loopback_only(self) -> bool:
        return not self.token and self.tls is None

    def __repr__(self) -> str:
        return f"Credentials(token={bool(self.token)}, tls={self.tls is not None})"


def credentials_of(given: ClusterFile, tell: _Tell = _tell_no_one) -> Credentials:
    """The credentials that ``cluster.toml`` names; ``tell`` is that of ``TlsFiles``.

    Raises ``SettingsError``.
    """
    return Credentials(
        _read_token(given.token_file) if given.token_file else b"",
        TlsFiles(given.tls, tell) if given.tls else None,
    )


def _read_token(path: Path) -> bytes:
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError([f"token_file: {path}: {error.strerror}"]) from error
    if len(token) < MIN_TOKEN_BYTES:
        raise SettingsError(
            [
                f"token_file: {path} has {len(token)} bytes; at least {MIN_TOKEN_BYTES} are needed,"
                f" random ones: openssl rand -hex 32 > {path}"
            ]
        )
    return token


def _context(files: TlsSection, is_server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if is_server:
        context.num_tickets = 0  # sessions are never resumed
    try:
        context.load_verify_locations(files.authority)
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(
            [f"tls.authority: {files.authority} is no PEM file with a certificate ({error})"]
        ) from error
    try:
        # without a password the library would ask for one at the terminal
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(
            [
                f"tls.certificate, tls.key: {files.certificate} and {files.key} are not PEM files"
                f" of a certificate and its key without a password ({error})"
            ]
        ) from error
    return context
