"""URL-seen and content-seen: was this URL, this body or a similar text seen before?"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.state.seen.content_seen import SeenContent
    from lycosa.state.seen.duplicates import Duplicates
    from lycosa.state.seen.recent import RecentHashes
    from lycosa.state.seen.seen_port import (
        Confirm,
        Hashes,
        Mask,
        PointTable,
        SeenSnapshot,
        SeenUrls,
        hashes_of,
    )
    from lycosa.state.seen.simhash import NearIndex
    from lycosa.state.seen.urls_bloom import BloomSeenUrls
    from lycosa.state.seen.urls_sorted import SortedSeenUrls
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "content_seen": "SeenContent",
            "duplicates": "Duplicates",
            "seen_port": "Confirm Hashes Mask SeenSnapshot SeenUrls PointTable hashes_of",
            "recent": "RecentHashes",
            "simhash": "NearIndex",
            "urls_bloom": "BloomSeenUrls",
            "urls_sorted": "SortedSeenUrls",
        },
    )

__all__ = [
    "BloomSeenUrls",
    "Confirm",
    "Duplicates",
    "Hashes",
    "Mask",
    "NearIndex",
    "PointTable",
    "RecentHashes",
    "SeenContent",
    "SeenSnapshot",
    "SeenUrls",
    "SortedSeenUrls",
    "hashes_of",
]
