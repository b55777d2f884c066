"""The media type of a body that is not parsed: robots.txt, redirects, error pages.

A few kilobytes from the beginning are enough, so it is determined where the capture is made,
without a request to the child process.
"""

from __future__ import annotations

from pathlib import Path

from lycosa.base.model.fetched import Fetched
from lycosa.base.system.content_encoding import decode_content
from lycosa.stages.parse.media_type import media_type_of, sniff

_RECEIVED = 16_384  # bytes, from which the sniffer's window can be unpacked
_WINDOW = 8192


def identify(fetched: Fetched) -> str:
    """The essence, as the parser would give it.

    For an empty body it is what the server says, or the empty string when it says nothing.
    """
    supplied = media_type_of(fetched.headers())
    essence = supplied.essence if supplied else ""
    encodings = [value for name, value in fetched.headers() if name == "content-encoding"]
    head = decode_content(_beginning(fetched), encodings, _WINDOW, 1000).body[:_WINDOW]
    return sniff(essence, head)[0] if head else essence


def _beginning(fetched: Fetched) -> bytes:
    if not fetched.spool:
        return fetched.body[:_RECEIVED]
    with Path(fetched.spool).open("rb") as file:
        return file.read(_RECEIVED)
