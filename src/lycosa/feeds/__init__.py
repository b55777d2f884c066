"""Copies of what a crawl commits, kept up to date: URL state in databases, rows as feeds.

``postgres_tables`` needs the extra ``postgres``, ``cassandra_place`` ``cassandra`` and
``cluster_source`` ``cluster``, so the names are imported when they are used.
"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.feeds.cluster_source import ClusterSource
    from lycosa.feeds.feed_file import FeedFile, FeedFileError
    from lycosa.feeds.feed_position import BadPosition
    from lycosa.feeds.folder_feed import DeadLetterFeed, FolderFeed, PageFeed
    from lycosa.feeds.folder_source import FolderSource
    from lycosa.feeds.projector_source import CaptureLines, ProjectorSource
    from lycosa.feeds.registry.cassandra_place import CassandraPlace
    from lycosa.feeds.registry.postgres_tables import PostgresPlace
    from lycosa.feeds.registry.projector import ProjectionLag, ProjectionReport, Projector
    from lycosa.feeds.registry.registry import Registry
    from lycosa.feeds.registry.registry_port import DatabaseAway, PositionsMoved, RegistryError
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "registry.cassandra_place": "CassandraPlace",
            "cluster_source": "ClusterSource",
            "feed_file": "FeedFile FeedFileError",
            "feed_position": "BadPosition",
            "folder_feed": "DeadLetterFeed FolderFeed PageFeed",
            "folder_source": "FolderSource",
            "registry.postgres_tables": "PostgresPlace",
            "registry.projector": "ProjectionLag ProjectionReport Projector",
            "registry.registry": "Registry",
            "projector_source": "CaptureLines ProjectorSource",
            "registry.registry_port": "DatabaseAway PositionsMoved RegistryError",
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
