"""Copies of what a crawl commits, kept up to date: URL state in databases, rows as feeds.

``registry`` needs the extra ``lycosa[postgres]`` and ``cluster_source`` ``lycosa[cluster]``, so the
names are imported when they are used.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.project.cluster_source import ClusterSource
    from lycosa.project.database import DatabaseAway, RegistryError
    from lycosa.project.feed_file import FeedFile, FeedFileError
    from lycosa.project.feed_position import BadPosition
    from lycosa.project.folder_feed import DeadLetterFeed, FolderFeed, PageFeed
    from lycosa.project.folder_source import FolderSource
    from lycosa.project.projector import ProjectionLag, ProjectionReport, Projector
    from lycosa.project.registry import Registry
    from lycosa.project.source import CaptureLines, ProjectorSource
else:
    __getattr__ = late_names(
        __name__,
        {
            "cluster_source": "ClusterSource",
            "database": "DatabaseAway RegistryError",
            "feed_file": "FeedFile FeedFileError",
            "feed_position": "BadPosition",
            "folder_feed": "DeadLetterFeed FolderFeed PageFeed",
            "folder_source": "FolderSource",
            "projector": "ProjectionLag ProjectionReport Projector",
            "registry": "Registry",
            "source": "CaptureLines ProjectorSource",
        },
    )

__all__ = [
    "BadPosition",
    "CaptureLines",
    "ClusterSource",
    "DatabaseAway",
    "DeadLetterFeed",
    "FeedFile",
    "FeedFileError",
    "FolderFeed",
    "FolderSource",
    "PageFeed",
    "ProjectionLag",
    "ProjectionReport",
    "Projector",
    "ProjectorSource",
    "Registry",
    "RegistryError",
]
