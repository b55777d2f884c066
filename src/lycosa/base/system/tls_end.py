"""One end of a TLS connection, as bytes in and bytes out.

The event loop's own TLS drops the alert that says why a handshake failed, so the peer would only
see a connection that was closed. Here the caller sends what is ``pending`` even after an error, and
both sides can report what is wrong with a certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress

_READ = 256 * 1024
_NO_TLS = b"\x15\x03\x03\x00\x02\x02\x46"  # the alert "protocol version" (RFC 8446, section 6)


class TlsEnd:
    """The state of one connection; the side that accepts it is the server."""

    def __init__(self, context: ssl.SSLContext, is_server: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self.is_open = False
        self.is_over = False  # the peer said that it sends nothing more

    def begin(self) -> None:
        """Prepare the first message of the handshake, if this side sends it."""
        with suppress(ssl.SSLWantReadError):
            self._object.do_handshake()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes of the peer and yield what they contain. Raises ``ssl.SSLError``."""
        self._incoming.write(data)
        try:
            if not self.is_open:
                self._object.do_handshake()
                self.is_open = True
            while piece := self._object.read(_READ):
                yield piece
        except ssl.SSLWantReadError:
            return
        except ssl.SSLZeroReturnError:
            pass  # the peer has ended the connection in order
        except ssl.SSLError:
            # The library sends no alert when the first bytes are no TLS, and the peer should see
            # that TLS is spoken here.
            if not self.is_open and not self._outgoing.pending:
                self._outgoing.write(_NO_TLS)
            raise
        self.is_over = True

    def encrypt(self, data: bytes) -> bytes:
        """The bytes to send for this content. Raises ``ssl.SSLError``."""
        rest = memoryview(data)
        while rest:  # each call takes one record of TLS
            rest = rest[self._object.write(rest) :]
        return self._outgoing.read()

    def end(self) -> None:
        """Prepare the message that nothing more is sent."""
        if self.is_open:
            with suppress(ssl.SSLError):
                self._object.unwrap()

    def pending(self) -> bytes:
        """What must be sent now: parts of the handshake, an alert, the end."""
        return self._outgoing.read()
