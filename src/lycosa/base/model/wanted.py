"""What a page needs to be rendered, asked of the partitions that own the hosts.

Only the owner of a host sends requests to it, so what a page misses is posted there. The owner
fetches it like any URL of the host, and says once what became of it: to all pages that wait for it,
with the commit that settles the URL. Posted wants and settled ones travel in parcels.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import Want
from lycosa.base.reasons import Reason

FOREIGN_DESTINATIONS = frozenset({"script", "style", "font", "image"})
"""What a page gets of another site: no data, media or documents."""

MAX_WANT_CHARS = 2048
"""Maximum length of the URL of a want. Hundreds of them may travel in one parcel."""


class WantingPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The page that is being rendered: its partition, and the hashes of its host and URL."""

    partition: int
    host8: bytes
    url8: bytes


class PostedWant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A want on its way to the owner of its host. The pure rules have admitted it.

    ``destination`` is that of ``capture.Want``. ``page_url`` and ``depth`` are those of the page.
    """

    url: str
    destination: str
    page: WantingPage
    page_url: str
    depth: int


class SettledWant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of a want, for the pages of one partition.

    With a ``record_id`` a response is stored, also a redirect (to ``location``, canonical) or an
    error page: it is the record with the body, which is another URL's where that has the same body.
    Otherwise ``reason`` and ``detail`` say why nothing will come for these pages. ``loads`` is what
    a script or style sheet imports; it is empty if it was fetched before it was wanted.
    """

    url: str
    pages: tuple[WantingPage, ...]
    reason: Reason = Reason.NONE
    detail: str = ""
    status: int = 0
    record_id: str = ""
    location: str = ""
    loads: tuple[Want, ...] = ()
