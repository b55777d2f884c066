"""Copies of what a crawl commits, kept up to date: URL state in databases, rows as feeds.

``postgres_tables`` needs the extra ``postgres``, ``cassandra_place`` ``cassandra`` and
``cluster_source`` ``cluster``, so the names are imported when they are used.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.project.cassandra_place import CassandraPlace
    from lycosa.project.cluster_source import ClusterSource
    from lycosa.project.feed_file import FeedFile, FeedFileError
    from lycosa.project.feed_position import BadPosition
    from lycosa.project.folder_feed import DeadLetterFeed, FolderFeed, PageFeed
    from lycosa.project.folder_source import FolderSource
    from lycosa.project.postgres_tables import PostgresPlace
    from lycosa.project.projector import ProjectionLag, ProjectionReport, Projector
    from lycosa.project.registry import Registry
    from lycosa.project.source import CaptureLines, ProjectorSource
    from lycosa.project.tables import DatabaseAway, PositionsMoved, RegistryError
else:
    __getattr__ = late_names(
        __name__,
        {
            "cassandra_place": "CassandraPlace",
            "cluster_source": "ClusterSource",
            "feed_file": "FeedFile FeedFileError",
            "feed_position": "BadPosition",
            "folder_feed": "DeadLetterFeed FolderFeed PageFeed",
            "folder_source": "FolderSource",
            "postgres_tables": "PostgresPlace",
            "projector": "ProjectionLag ProjectionReport Projector",
            "registry": "Registry",
            "source": "CaptureLines ProjectorSource",
            "tables": "DatabaseAway PositionsMoved RegistryError",
        },
    )

__all__ = [
    "BadPosition",
    "CaptureLines",
    "CassandraPlace",
    "ClusterSource",
    "DatabaseAway",
    "DeadLetterFeed",
    "FeedFile",
    "FeedFileError",
    "FolderFeed",
    "FolderSource",
    "PageFeed",
    "PositionsMoved",
    "PostgresPlace",
    "ProjectionLag",
    "ProjectionReport",
    "Projector",
    "ProjectorSource",
    "Registry",
    "RegistryError",
]
