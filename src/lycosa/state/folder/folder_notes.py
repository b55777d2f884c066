"""Small files of a crawl's folder: the settings of its runs, the note of a pause, and where it was
imported from.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.system.durable import replace_file, sync_folder
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.manifest import (
    DamagedManifest,
    ManifestError,
    NotACrawl,
    has_manifest,
    load_manifest,
)
from lycosa.state.folder.names import pause_path, settings_path

# ``imported.json``: says that the crawl of a folder continues on a cluster.
#
# Both crawls would fetch the same pages, so the folder's is not started any more. It can be read.


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


# Whether an operator paused the crawl of a folder, for a service that is started again.
#
# A cluster has it in the records of its coordinator. Here it is the file ``paused.json``, which is
# there while the crawl is paused.


class PauseNote(msgspec.Struct, frozen=True):
    """Who paused the crawl, when (microseconds since 1970, 0 = unknown), and why (may be empty)."""

    by: str
    date_us: int
    why: str = ""

    def __str__(self) -> str:
        date = time.localtime(self.date_us / 1_000_000)
        since = time.strftime(" on %Y-%m-%d %H:%M:%S", date) if self.date_us else ""
        because = f": {self.why}" if self.why else ""
        return f"the crawl is paused, by {self.by}{since}{because}"


def saved_pause(folder: Path) -> PauseNote | None:
    """The pause of the folder's crawl; of a note that cannot be read only that it is there."""
    try:
        return msgspec.json.decode(pause_path(folder).read_bytes(), type=PauseNote)
    except FileNotFoundError:
        return None
    except UNREADABLE:
        return PauseNote("an operator", 0)


def save_pause(folder: Path, note: PauseNote | None) -> None:
    """Store the pause, or with ``None`` its end. Raises ``OSError``."""
    if note is not None:
        replace_file(pause_path(folder), msgspec.json.encode(note))
    elif pause_path(folder).exists():
        pause_path(folder).unlink()
        sync_folder(folder)


def saved_settings(folder: Path) -> Config | None:
    """The settings of the folder's last run, or ``None`` when it is not a crawl yet.

    Raises ``ManifestError``.
    """
    if not has_manifest(folder):
        return None
    load_manifest(folder)
    try:
        return msgspec.json.decode(settings_path(folder).read_bytes(), type=Config)
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        what = (
            f"{settings_path(folder)} cannot be read ({error}); restore it, or delete it and give"
            " the settings again"
        )
        raise DamagedManifest(what) from error


def without_code(saved: Config) -> Config:
    """The settings without user code: a folder cannot say what code the next run has."""
    section = msgspec.structs.replace(saved.extensions, code=(), allow=())
    return msgspec.structs.replace(saved, extensions=section)


def settings_of(folder: Path) -> Config:
    """The settings of a crawl's last run.

    Raises ``ManifestError`` when the folder is not a crawl.
    """
    config = saved_settings(folder)
    if config is None:
        raise NotACrawl(
            f"{folder} is not a crawl"
            if not has_manifest(folder)
            else f"{folder} has no settings.json; start the crawl again first"
        )
    return config
