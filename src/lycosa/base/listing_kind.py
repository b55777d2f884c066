"""Documents that list pages: what kind of sitemap or feed a document is."""

from __future__ import annotations

from enum import IntEnum

NOT_LISTED = 0
"""The mark of a page that is not known to be listed by a sitemap which a refetch policy names."""


class ListingKind(IntEnum):
    """The kind of a document that lists pages. The value is written to disk."""

    NONE = 0  # a page
    SITEMAP = 1
    NEWS = 2  # a sitemap with articles of news (Google's extension)
    FEED = 3
    INDEX = 4  # a sitemap of sitemaps

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()

    @property
    def is_fast(self) -> bool:
        """Whether it lists what is new, and only that."""
        return self in (ListingKind.NEWS, ListingKind.FEED)
