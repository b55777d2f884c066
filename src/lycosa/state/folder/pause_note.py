"""Whether an operator paused the crawl of a folder, for a service that is started again.

A cluster has it in the records of its coordinator. Here it is the file ``paused.json``, which is
there while the crawl is paused.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from lycosa.base.system.durable import replace_file, sync_folder
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.names import pause_path


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
