"""``imported.json``: says that the crawl of a folder continues on a cluster.

Both crawls would fetch the same pages, so the folder's is not started any more. It can be read.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.manifest import ManifestError

IMPORTED_NAME = "imported.json"


class ImportedElsewhere(ManifestError):
    """The crawl of the folder continues on a cluster."""


class _Imported(msgspec.Struct, frozen=True):
    """The cluster's name and object storage, and the wall time of the import."""

    cluster: str = ""
    objects: str = ""
    date: float = 0.0


def note_import(folder: Path, cluster: str, objects: str, wall: float) -> None:
    """Write the file. Raises ``OSError``."""
    content = msgspec.json.encode(_Imported(cluster, objects, wall))
    replace_file(folder / IMPORTED_NAME, msgspec.json.format(content, indent=2) + b"\n")


def refuse_imported(folder: Path) -> None:
    """Raise ``ImportedElsewhere`` if the crawl continues on a cluster."""
    path = folder / IMPORTED_NAME
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Imported)
    except FileNotFoundError:
        return
    except UNREADABLE:
        # That the file exists is what counts: two continuations would fetch every page twice.
        found = _Imported()
    raise ImportedElsewhere(
        f"{folder} was imported into the cluster crawl {found.cluster} at {found.objects}, which"
        " continues it (`lycosa cluster resume FILE`). To continue the crawl here as well, which"
        f" fetches the same pages again, delete {path}"
    )
