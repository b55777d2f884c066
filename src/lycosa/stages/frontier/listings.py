"""What is kept of each sitemap and feed of a host: what it listed when it was read last.

The row stands next to the record of its URL, which has the times. Without it, the sitemaps of a
host could only be found by reading all of its records.
"""

from __future__ import annotations

import msgspec

from lycosa.base.listing_kind import NOT_LISTED, ListingKind
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import encode_record, listing_key


class ListingRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last reading of a sitemap or feed.

    ``read_at`` is its wall time in whole seconds, 0 when it was not read yet. ``urls`` is the
    number of entries, ``newer`` of those that are dated after the reading before, and ``refused``
    of those that rules refuse. ``mark`` is the one of its entries (``refetched_pages``).
    """

    kind: ListingKind = ListingKind.SITEMAP
    read_at: int = 0
    urls: int = 0
    newer: int = 0
    refused: int = 0
    mark: int = NOT_LISTED


decode_listing = msgspec.msgpack.Decoder(ListingRow).decode


def find_listing(table: Overlay, host8: bytes, url8: bytes) -> ListingRow | None:
    """The row of a sitemap or feed; ``None`` when there is none."""
    value = table.get(listing_key(host8, url8))
    return decode_listing(value) if value is not None else None


def put_listing(table: Overlay, host8: bytes, url8: bytes, row: ListingRow) -> None:
    """Store the row, in the commit of what it tells."""
    table.put(listing_key(host8, url8), encode_record(row))
