"""Tells a URL what has changed: signed requests, one after the other.

Requests are those of Standard Webhooks (standardwebhooks.com, version 1): ``webhook-id``,
``webhook-timestamp``, and ``webhook-signature`` with HMAC-SHA256 over both and the body. The id is
made of the position before the request, so one that is repeated after a lost answer has the id of
the first try. A receiver that keeps the last id, or the id and date of each change, counts every
change once.

Nothing is sent to an address that the crawl's guard refuses, whatever a name resolves to at the
moment of the connection. Redirects are not followed, and proxies are not used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from lycosa.base.config.sections import WebhookSection
from lycosa.base.model.progress_parts import WebhookState
from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.feeds.export_port import Batch, ExportRow, Overtaken, TargetAway, TargetError
from lycosa.feeds.exporters.http_sender import AddressRefused, HttpSender
from lycosa.stages.fetch.guard import Guard

EVENT = "pages.changed"
_PREFIX = "whsec_"
_LEAST_SECRET = 24  # bytes, as Standard Webhooks has it
_SHOWN = 200
_LOOPBACK = ("127.0.0.0/8", "::1/128")


def read_secret(path: Path) -> bytes:
    """The secret in a file: ``whsec_`` and base64, or text. Raises ``TargetError``."""
    try:
        text = path.read_text("utf-8").strip()
        secret = (
            base64.b64decode(text.removeprefix(_PREFIX), validate=True)
            if text.startswith(_PREFIX)
            else text.encode()
        )
    except (OSError, UnicodeDecodeError, binascii.Error) as error:
        raise TargetError(f"webhooks.secret_file: {path} cannot be read: {error}") from None
    if len(secret) < _LEAST_SECRET:
        raise TargetError(f"webhooks.secret_file: {path} has less than {_LEAST_SECRET} bytes")
    return secret


def signature(secret: bytes, identity: str, seconds: int, body: bytes) -> str:
    """The value of ``webhook-signature`` (Standard Webhooks, "Signature scheme")."""
    signed = f"{identity}.{seconds}.".encode() + body
    digest = hmac.new(secret, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


class WebhookTarget:
    """A URL as an ``Exporter`` of ``changes``; ``path`` is the file with its state.

    Raises ``TargetError`` for a URL that the settings do not allow. ``crawl`` is in each request.
    """

    def __init__(
        self,
        url: str,
        name: str,
        path: Path,
        section: WebhookSection,
        crawl: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        parts = urlsplit(url)
        is_plain = parts.scheme == "http"
        if is_plain and not section.allow_http:
            raise TargetError(f"webhook {name}: http is not allowed; see webhooks.allow_http")
        if not section.secret_file:
            raise TargetError("webhooks.secret_file is missing: requests are signed")
        self._secret = read_secret(Path(section.secret_file))
        self._url, self._path, self._crawl, self._now = url, path, crawl, now
        self._section = section
        allowed = (*section.allow_addresses, *(_LOOPBACK if section.allow_http else ()))
        self._guard, self._is_plain = Guard(allowed), is_plain
        self._sender: HttpSender | None = None
        self.state = WebhookState(name)
        # Kinds that are left out move the position too, or it would be behind all that is kept.
        self.batch = Batch(rows=section.batch, bytes=1_000_000, moves=True)

    @property
    def name(self) -> str:
        return f"webhook {self.state.name}"

    def open(self) -> str:
        """See ``Exporter``."""
        self._sender = HttpSender(
            self._section.timeout_s, self._refusal, is_direct=True, max_answer=10_000
        )
        self.state = msgspec.structs.replace(
            read_state(self._path) or self.state, name=self.state.name
        )
        return self.state.position

    def _refusal(self, address: str) -> str | None:
        # Encryption may end at a proxy of this machine; without it nothing leaves the machine.
        if self._is_plain and not ip_address(address).is_loopback:
            return "not loopback, and the request is not encrypted"
        return self._guard.refusal(address)

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """See ``Exporter``: one request, then the position."""
        if self.state.position != before:
            raise Overtaken
        if not rows:
            self._save(msgspec.structs.replace(self.state, position=after))
            return
        try:
            self._deliver(rows, before, after)
        except TargetAway as error:
            self.note_failure(str(error))
            raise
        self._save(
            WebhookState(
                self.state.name, after, self.state.delivered + len(rows), delivered_at=self._now()
            )
        )

    def _deliver(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        assert self._sender is not None, "the target is not open"
        seconds = int(self._now())
        changes = b",".join(row.line for row in rows)
        body = (
            b'{"type":"%s","timestamp":"%s","data":{"crawl":"%s","position":"%s","changes":[%s]}}'
        ) % (
            EVENT.encode(),
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)).encode(),
            self._crawl.encode(),
            after.encode(),
            changes,
        )
        identity = f"msg_{hashlib.sha256(f'{self._crawl} {before}'.encode()).hexdigest()[:32]}"
        headers = {
            "Content-Type": "application/json",
            "webhook-id": identity,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature(self._secret, identity, seconds, body),
        }
        try:
            answer = self._sender.send("POST", self._url, body, headers)
        except AddressRefused as error:
            raise TargetAway(f"{self.name}: {error}; see webhooks.allow_addresses") from None
        except TargetAway as error:
            raise TargetAway(f"{self.name} does not answer: {error}") from None
        if not 200 <= answer.status < 300:
            moved = "; redirects are not followed" if 300 <= answer.status < 400 else ""
            raise TargetAway(f"{self.name} answered {answer.status}{moved}")

    def note_failure(self, why: str) -> None:
        """Record a failure, and when the next try is due."""
        now, state = self._now(), self.state
        wait = retry_wait(state.failures, self._section.max_wait_s)
        self._save(
            msgspec.structs.replace(
                state,
                failures=state.failures + 1,
                failing_since=state.failing_since or now,
                why=why[:_SHOWN],
                next_try=now + wait,
            )
        )

    def _save(self, state: WebhookState) -> None:
        save_state(self._path, state)
        self.state = state

    def close(self) -> None:
        """See ``Exporter``."""
        if self._sender is not None:
            self._sender.close()
        self._sender = None


def retry_wait(failures: int, longest_s: float) -> float:
    """Seconds until the next try, after this many failures before the last one."""
    return min(2.0 ** min(failures, 30), longest_s)


def save_state(path: Path, state: WebhookState) -> None:
    """Write the file of a state."""
    replace_file(path, msgspec.json.encode(state) + b"\n")


def read_state(path: Path) -> WebhookState | None:
    """The state in a file, if there is one. Raises ``TargetError``."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=WebhookState)
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        raise TargetError(
            f"{path} cannot be read ({error}); delete it to send all changes again"
        ) from error
