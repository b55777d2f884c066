"""URL-seen and content-seen: was this URL, this body or a similar text met before?"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.seen.content import SeenContent
    from lycosa.seen.duplicates import Duplicates
    from lycosa.seen.port import (
        Confirm,
        Hashes,
        Mask,
        PointTable,
        SeenSnapshot,
        SeenUrls,
        hashes_of,
    )
    from lycosa.seen.recent import RecentHashes
    from lycosa.seen.simhash import NearIndex
    from lycosa.seen.urls_bloom import BloomSeenUrls
    from lycosa.seen.urls_sorted import SortedSeenUrls
else:
    __getattr__ = late_names(
        __name__,
        {
            "content": "SeenContent",
            "duplicates": "Duplicates",
            "port": "Confirm Hashes Mask SeenSnapshot SeenUrls PointTable hashes_of",
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
