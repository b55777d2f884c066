"""Copies of a crawl's URL state in databases, kept up to date commit by commit.

``registry`` needs the extra ``lycosa[postgres]``, so its names are imported when they are used.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.project.database import DatabaseAway, RegistryError
    from lycosa.project.folder_source import FolderSource
    from lycosa.project.projector import ProjectionLag, ProjectionReport, Projector
    from lycosa.project.registry import Registry
    from lycosa.project.source import CaptureLines, CommitSource
else:
    __getattr__ = late_names(
        __name__,
        {
            "database": "DatabaseAway RegistryError",
            "folder_source": "FolderSource",
            "projector": "ProjectionLag ProjectionReport Projector",
            "registry": "Registry",
            "source": "CaptureLines CommitSource",
        },
    )

__all__ = [
    "CaptureLines",
    "CommitSource",
    "DatabaseAway",
    "FolderSource",
    "ProjectionLag",
    "ProjectionReport",
    "Projector",
    "Registry",
    "RegistryError",
]
