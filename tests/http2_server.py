"""An HTTP/2 server that sheds load in a chosen way: what it received is the judge of how often
it was asked.
"""

from __future__ import annotations

import asyncio
from enum import Enum

import pytest

from raw_server import OK, RawServer, Talk


class Shed(Enum):
    """What becomes of a request for a path that begins with ``/shed``."""

    RST_REFUSED = "RST_STREAM with REFUSED_STREAM"
    RST_CALM = "RST_STREAM with ENHANCE_YOUR_CALM"
    GOAWAY_UNPROCESSED = "GOAWAY whose last stream is before the request's"
    CLOSE = "the connection is closed"
    HTTP_1_1_REQUIRED = "RST_STREAM with HTTP_1_1_REQUIRED; over HTTP/1.1 it is answered"


def shedding(shed: Shed) -> Talk:
    """Answers ``hello`` over HTTP/2, but for requests that it sheds; notes the target of each
    request, whole ones over HTTP/1.1.
    """
    errors = pytest.importorskip("h2.errors").ErrorCodes
    events = pytest.importorskip("h2.events")
    config = pytest.importorskip("h2.config").H2Configuration(client_side=False)
    new_connection = pytest.importorskip("h2.connection").H2Connection

    async def talk(
        server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            await server.read_request(reader)
            writer.write(OK)
            await writer.drain()
            return
        connection = new_connection(config)
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if not isinstance(event, events.RequestReceived):
                    continue
                target = dict(event.headers)[b":path"]
                server.requests.append(target)
                if not target.startswith(b"/shed"):
                    connection.send_headers(
                        event.stream_id, [(":status", "200"), ("content-type", "text/plain")]
                    )
                    connection.send_data(event.stream_id, b"hello", end_stream=True)
                elif shed is Shed.CLOSE:
                    return
                elif shed is Shed.GOAWAY_UNPROCESSED:
                    connection.close_connection(
                        errors.NO_ERROR,
                        last_stream_id=event.stream_id - 2 if event.stream_id > 1 else 0,
                    )
                    writer.write(connection.data_to_send())
                    await writer.drain()
                    return
                else:
                    connection.reset_stream(event.stream_id, getattr(errors, _CODES[shed]))
            writer.write(connection.data_to_send())

    return talk


_CODES = {
    Shed.RST_REFUSED: "REFUSED_STREAM",
    Shed.RST_CALM: "ENHANCE_YOUR_CALM",
    Shed.HTTP_1_1_REQUIRED: "HTTP_1_1_REQUIRED",
}
