"""The settings of a crawl folder's last run, as its next run reads them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.manifest import DamagedManifest, NotACrawl, has_manifest, load_manifest
from lycosa.state.folder.names import settings_path


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
