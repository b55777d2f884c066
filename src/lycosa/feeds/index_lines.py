"""Gives the index lines of a segment to OutbackCDX: CDX with 11 fields, in requests of a bounded
size. A line that is given again replaces itself, so a request may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from lycosa.feeds.export_port import TargetAway
from lycosa.feeds.exporters.http_sender import AddressRefused, HttpSender
from lycosa.state.store.cdxj import CdxjEntry

_LINES = 5000  # of a request: the server holds all of one in memory
_decode = msgspec.json.Decoder(CdxjEntry).decode


def cdx_line(line: bytes) -> bytes:
    """A line of CDXJ as one of CDX: ``N b a m s k r M S V g``, of which M (robots) is unknown.

    The file is named without its folder, as tools that serve WARC files expect it. Raises
    ``ValueError`` for a line that is not CDXJ.
    """
    key, time, data = line.split(b" ", 2)
    try:
        found = _decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a line of CDXJ: {error}") from error
    fields = (
        found.url,
        found.mime.replace(" ", "") or "unk",
        found.status or "-",
        found.digest or "-",
        found.redirect.replace(" ", "%20") or "-",
        "-",
        found.length or "-",
        found.offset,
        found.filename.rpartition("/")[2],
    )
    return b" ".join((key, time, *(each.encode() for each in fields))) + b"\n"


def push_lines(sender: HttpSender, collection: str, lines: Iterable[bytes]) -> int:
    """Give lines of CDXJ to a collection; return their number.

    Raises ``TargetAway`` when the server does not answer or refuses them.
    """
    pushed, rest = 0, (cdx_line(line) for line in lines)
    for part in _parts(rest):
        body = b" CDX N b a m s k r M S V g\n" + b"".join(part)
        try:
            answer = sender.send("POST", collection, body, {"Content-Type": "text/plain"})
        except AddressRefused as error:
            raise TargetAway(f"{error}; see earlier.allow_addresses") from error
        if answer.status != 200:
            said = answer.body[:200].decode("utf-8", "replace").strip()
            raise TargetAway(f"{collection} answered {answer.status}: {said}")
        pushed += len(part)
    return pushed


def _parts(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    return iter(lambda: list(islice(lines, _LINES)), [])
