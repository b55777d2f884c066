"""The media type of a body that nobody parses: robots.txt, redirects, error pages.

Some kilobytes from the beginning say it, so it is found where the capture is made and no child
process is asked.
"""

from __future__ import annotations

from pathlib import Path

from lycosa.model.fetched import Fetched
from lycosa.parse.media_type import media_type_of, sniff
from lycosa.system.decode import decode

_RECEIVED = 16_384  # bytes, of which what a sniffer looks at can be unpacked
_WINDOW = 8192


def identify(fetched: Fetched) -> str:
    """The essence, as the parser would give it; of an empty body what the server says, the empty
    string when it says nothing.
    """
    supplied = media_type_of(fetched.headers())
    essence = supplied.essence if supplied else ""
    encodings = [value for name, value in fetched.headers() if name == "content-encoding"]
    head = decode(_beginning(fetched), encodings, _WINDOW, 1000).body[:_WINDOW]
    return sniff(essence, head)[0] if head else essence


def _beginning(fetched: Fetched) -> bytes:
    if not fetched.spool:
        return fetched.body[:_RECEIVED]
    with Path(fetched.spool).open("rb") as file:
        return file.read(_RECEIVED)
