"""Reads one HTTP/1 response from bytes as they arrive, within limits (RFC 9112 section 6.3).

It does no I/O. It is as strict and as lenient as libcurl, so that the in-process fetcher gives the
same reason as the real one.
"""

from __future__ import annotations

import re

from lycosa.base.model.fetched import Limits
from lycosa.base.reasons import Reason
from lycosa.synthetic.sent_response import has_body

_STATUS = re.compile(rb"HTTP/(1\.[01]) (\d{3})(?: [^\r\n]*)?\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


class ReplyReader:
    """One response. ``is_done`` says that it is complete, cut or broken.

    Then ``reason`` says which, and ``truncated`` is WARC's word for it.
    """

    def __init__(self, limits: Limits, url: str = "", *, head_only: bool = False) -> None:
        self.limits, self._url = limits, url
        self._most, self._type = limits.body_bytes, ""
        self.status = 0
        self.protocol = ""
        self.header_block = b""
        self.body = bytearray()
        self.is_done = False
        self.reason = Reason.NONE
        self.detail = ""
        self.truncated = ""
        self._head_only = head_only
        self._buffer = bytearray()
        # bytes of the body (or chunk) still to come; -1 = until the connection closes
        self._left = -1
        self._is_chunked = False
        self._is_in_chunk = False

    @property
    def has_begun(self) -> bool:
        """Whether a complete line has arrived.

        Only then does libcurl report that a response has begun.
        """
        return bool(self.header_block) or b"\n" in self._buffer

    def feed(self, data: bytes) -> bool:
        """Add bytes; returns ``is_done``."""
        self._buffer += data
        while not self.is_done and not self.header_block:
            if not self._read_head():
                return self.is_done
        if not self.is_done:
            self._read_body()
        return self.is_done

    def fail(self, reason: Reason, detail: str, truncated: str = "") -> None:
        """End the response; ``truncated`` counts only if the header block is complete."""
        self.reason, self.detail, self.is_done = reason, detail, True
        self.truncated = truncated if self.header_block else ""

    def close(self, *, is_reset: bool = False) -> None:
        """Record that the other side has closed the connection."""
        if self.is_done:
            return
        if self.header_block and self._left < 0 and not self._is_chunked and not is_reset:
            self.is_done = True
        elif self._buffer and not self.header_block and not is_reset:
            self.fail(Reason.MALFORMED_RESPONSE, "the answer ends within the header lines")
        elif self.header_block or is_reset:
            self.fail(
                Reason.CONNECTION_LOST,
                "reset by the server" if is_reset else "closed before the end of the answer",
                "disconnect",
            )
        else:
            self.fail(Reason.EMPTY_RESPONSE, "closed without a byte")

    def _read_head(self) -> bool:
        start = bytes(self._buffer[:5])
        if start != b"HTTP/"[: len(start)]:
            self.fail(Reason.MALFORMED_RESPONSE, "no status line")
            return False
        end = _HEAD_END.search(self._buffer)
        size = end.end() if end else len(self._buffer)
        if (
            size > self.limits.header_bytes
            or self._buffer.count(b"\n", 0, size) > self.limits.header_count + 2
        ):
            self.fail(Reason.HEADERS_TOO_LARGE, f"{size} bytes of headers")
            return False
        if not end:
            return False
        block = bytes(self._buffer[:size])
        del self._buffer[:size]
        return self._take_head(block)

    def _take_head(self, block: bytes) -> bool:
        status = _STATUS.match(block)
        if not status:
            self.fail(Reason.MALFORMED_RESPONSE, "status line without a code")
            return False
        code = int(status[2])
        if 100 <= code < 200:
            return True
        fields: dict[bytes, bytes] = {}
        for line in block[status.end() :].splitlines():
            name, colon, value = line.partition(b":")
            if line and not colon and line[:1] not in (b" ", b"\t"):
                self.fail(Reason.MALFORMED_RESPONSE, "header line without colon")
                return False
            fields[name.strip().lower()] = value.strip()
        length = fields.get(b"content-length", b"")
        self._is_chunked = fields.get(b"transfer-encoding", b"").lower() == b"chunked"
        if length and not length.isdigit():
            self.fail(Reason.MALFORMED_RESPONSE, "Content-Length is no number")
            return False
        self.status, self.protocol, self.header_block = code, f"http/{status[1].decode()}", block
        self._type = fields.get(b"content-type", b"").decode("latin-1")
        if code == 200:
            disposition = fields.get(b"content-disposition", b"").decode("latin-1")
            self._most = self.limits.body_bound(self._url, self._type, disposition)
        if self._head_only or not has_body(code):
            self._left, self._is_chunked = 0, False
        elif length and not self._is_chunked:
            self._left = int(length)
        return True

    def _read_body(self) -> None:
        if self._is_chunked:
            while not self.is_done and self._read_chunk():
                pass
        else:
            take = len(self._buffer) if self._left < 0 else min(self._left, len(self._buffer))
            self._keep(take)
            if self._left >= 0:
                self._left -= take
                self.is_done = self.is_done or self._left == 0

    def _read_chunk(self) -> bool:
        """One step in chunked coding; false when more bytes are needed. Trailers are dropped."""
        if self._is_in_chunk:
            take = min(self._left, len(self._buffer))
            self._keep(take)
            self._left -= take
            self._is_in_chunk = self._left > 0
            return take > 0 and not self._is_in_chunk
        end = self._buffer.find(b"\n")
        if end < 0:
            return False
        line = bytes(self._buffer[:end]).strip().partition(b";")[0]
        del self._buffer[: end + 1]
        if self._left == 0 and not line:
            return True  # the line end after a chunk
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", line):
            self.fail(Reason.MALFORMED_RESPONSE, "chunk size is no number", "disconnect")
            return False
        self._left = int(line, 16)
        self._is_in_chunk = self._left > 0
        self.is_done = self._left == 0
        return self._is_in_chunk

    def _keep(self, count: int) -> None:
        room = self._most - len(self.body)
        if room < 0:
            self.fail(Reason.TYPE_REFUSED, self._type[:100], "unspecified")
            return
        self.body += self._buffer[: min(count, room)]
        del self._buffer[:count]
        if count > room:
            self.fail(Reason.BODY_TRUNCATED, f"cut at {self._most} bytes", "length")
