"""How far a feed was read, as text that a consumer keeps with its results.

``pages/0c1d2e3f/0.12.345,1.3.7``: the feed, the beginning of the crawl's id, and for each worker
the number of its segment and of the rows read in it. In ``dlq`` each partition has the number of
its last dead letter. In ``items.NAME`` the numbers of a worker are the term of its segment, its
number, the rows, and the items that were given of the row behind these; so a position in a folder
is one in the cluster, too, into which the crawl is imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = r"\d+(?:\.\d+)+"
_FORM = re.compile(rf"([a-z][a-z0-9_.]*)/([0-9a-f]{{8}})/({_PART}(?:,{_PART})*)?")
_ID_CHARACTERS = 8


class BadPosition(Exception):
    """A position is not one of this feed."""


def position_text(feed: str, crawl: str, read: Mapping[int, tuple[int, ...]]) -> str:
    parts = [".".join(map(str, (key, *numbers))) for key, numbers in sorted(read.items())]
    return f"{feed}/{_id_of(crawl)}/{','.join(parts)}"


def read_position(feed: str, crawl: str, text: str, numbers: int) -> dict[int, tuple[int, ...]]:
    """The numbers in a position, empty for an empty text. Raises ``BadPosition``.

    Each part has ``numbers`` numbers after its key.
    """
    if not text:
        return {}
    match = _FORM.fullmatch(text)
    parts = (
        [tuple(map(int, part.split("."))) for part in match[3].split(",")]
        if match and match[3]
        else []
    )
    if match is None or (match[1] == feed and any(len(part) != numbers + 1 for part in parts)):
        raise BadPosition(f"{text!r} is not a position of a feed; give one that a row has")
    if match[1] != feed:
        raise BadPosition(f"{text!r} is a position in the feed {match[1]}, and this is {feed}")
    if match[2] != _id_of(crawl):
        raise BadPosition(
            f"{text!r} is a position in the crawl {match[2]}..., and this is crawl {crawl}"
        )
    return {part[0]: part[1:] for part in parts}


def _id_of(crawl: str) -> str:
    return re.sub("[^0-9a-f]", "0", crawl.lower())[:_ID_CHARACTERS].ljust(_ID_CHARACTERS, "0")
