"""Which pages of a host are of one template, as far as their URLs show it."""

from __future__ import annotations

import re
from zlib import crc32

_PATH_FROM = 8  # the slash of the path is at this index of a canonical URL or later
_WORD = re.compile(r"[a-z][a-z_-]{0,23}", re.IGNORECASE)
_DEEPEST = 4  # segments


def path_shape(url: str) -> int:
    """A number that URLs of one template share, from a canonical URL; never 0.

    It stands for the first segment if that is a word and not the last one, for the number of
    segments, and whether there is a query: ``/shop/rope-12`` and ``/shop/sail-7`` are alike.
    """
    path, mark, _ = url[url.index("/", _PATH_FROM) + 1 :].partition("?")
    first, *others = path.split("/")
    named = first.lower() if others and _WORD.fullmatch(first) else "*" if first else ""
    return crc32(f"{named}/{min(len(others), _DEEPEST)}{mark}".encode()) or 1
