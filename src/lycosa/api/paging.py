"""What endpoints of lists have in common: cursors, names in paths, and the form of a page."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from lycosa.api.answers import MergedList
from lycosa.api.models import RowsPage

Cursor = Annotated[str, Query(max_length=2000, description="The cursor of the page before")]
Most = Annotated[int, Query(ge=1, le=1000, description="Rows of one page")]
HostName = Annotated[str, Path(min_length=1, max_length=300)]
UrlOrHash = Annotated[
    str,
    Path(
        min_length=1,
        max_length=8192,
        description="A URL, percent-encoded; or the hash or id that rows of URLs have",
    ),
]


def listed_page(listing: MergedList) -> RowsPage:
    """The JSON of a listing."""
    values: dict[str, Any] = {
        "rows": listing.rows,
        "cursor": listing.cursor,
        "wall": listing.wall,
        "is_partial": listing.is_partial,
        "silent": listing.silent,
    }
    return RowsPage(**values)
