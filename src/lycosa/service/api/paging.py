"""What endpoints of lists have in common: cursors, names in paths, and the form of a page.

A cursor begins with a checksum of the list that it belongs to and of its place in it. So one that
was cut off, or that belongs to a list with another order or filter, is refused, and does not
silently give other rows.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Path, Query

from lycosa.service.api.answers import MergedList
from lycosa.service.api.models import RowsPage
from lycosa.service.api.problems import Problem

Cursor = Annotated[
    str,
    Query(
        max_length=2000,
        description="The cursor of the page before, with the same order and filters",
    ),
]
Most = Annotated[int, Query(ge=1, le=1000, description="Rows of one page")]
HostName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=300,
        description="Its name, with the port if it is not the default one",
        examples=["www.example.org"],
    ),
]
UrlOrHash = Annotated[
    str,
    Path(
        min_length=1,
        max_length=8192,
        description="A URL, percent-encoded; or the hash or id that rows of URLs have",
        examples=["https://example.org/a?b=c"],
    ),
]


class ListPlace:
    """Where a request continues a list; ``filters`` tell this list from others."""

    def __init__(self, cursor: str, *filters: str) -> None:
        self._filters = "\0".join(filters)
        checksum, _, self.after = cursor.partition("-")
        if cursor and checksum != self._checksum(self.after):
            raise Problem(422, "query.cursor: this is not a cursor of this list")

    def page(self, listing: MergedList) -> RowsPage:
        """The JSON of the listing behind this place."""
        after = listing.cursor
        return _listed_page(listing, f"{self._checksum(after)}-{after}" if after else "")

    def _checksum(self, after: str) -> str:
        return hashlib.sha256(f"{self._filters}\0{after}".encode()).hexdigest()[:8]


def _listed_page(listing: MergedList, cursor: str) -> RowsPage:
    values: dict[str, Any] = {
        "rows": listing.rows,
        "cursor": cursor,
        "wall": listing.wall,
        "is_partial": listing.is_partial,
        "silent": listing.silent,
    }
    return RowsPage(**values)
