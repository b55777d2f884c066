"""Bodies in archives of earlier crawls: which record has them, and reading it.

A place in another archive is written like one of this crawl, with ``@`` before the name of the WARC
file (``History.body_segment``, ``JournalRow.body_segment``). No segment of a crawl begins with it.
So readers of bodies need no second path: the reader of a folder finds the archive by the list
``earlier/archives.json``, and where the archive is away, it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from lycosa.base.model.capture import ELSEWHERE, StoredOriginal
from lycosa.base.model.earlier_sources import EarlierSources
from lycosa.base.system.durable import replace_file
from lycosa.state.store import layout
from lycosa.state.store.earlier_index import EarlierCapture, build_index
from lycosa.state.store.stored_data import RecordError, StoredRecord, head_at, record_at

FOLDER = "earlier"
_LIST = "archives.json"
_CHUNK = 16 * 1024


def index_archives(folder: Path, archives: Sequence[Path], warcs: Sequence[str]) -> EarlierSources:
    """Index the earlier crawls for the workers that start next, and note where they are. Blocks.

    Raises ``EarlierError`` or ``OSError``.
    """
    place, indexes, folders = folder / FOLDER, list[str](), list[Path]()
    for source in archives:
        name = f"{sha256(str(source).encode()).hexdigest()[:16]}.index"
        build_index(place / name, source)
        indexes.append(name)
        folders += _folders_of(source)
    folders += [Path(each).expanduser().absolute() for each in warcs]
    found = EarlierSources(tuple(indexes), tuple(dict.fromkeys(map(str, folders))))
    # What an earlier run referred to is read as long as its archive is there.
    known = noted_archives(folder)
    kept = EarlierSources(found.indexes, tuple(dict.fromkeys((*found.folders, *known.folders))))
    if kept != known:
        place.mkdir(exist_ok=True)
        replace_file(place / _LIST, msgspec.json.format(msgspec.json.encode(kept), indent=2))
    return found


def noted_archives(folder: Path) -> EarlierSources:
    """The earlier crawls of a crawl folder; none when it has no list or a damaged one."""
    try:
        return msgspec.json.decode((folder / FOLDER / _LIST).read_bytes(), type=EarlierSources)
    except (OSError, msgspec.MsgspecError):
        return EarlierSources()


def _folders_of(source: Path) -> list[Path]:
    """Where the WARC files of an earlier crawl may be: our layout, that of pywb, next to it."""
    base = source if source.is_dir() else source.parent
    return [base, base.parent]


def place_elsewhere(capture: EarlierCapture) -> tuple[str, int]:
    """The place of a capture of an earlier crawl as this crawl stores it."""
    return ELSEWHERE + capture.file.rpartition("/")[2], capture.offset


def original_elsewhere(capture: EarlierCapture, record: StoredRecord | None) -> StoredOriginal:
    """The original to which a revisit refers.

    Its record has the id and the exact date; an index has seconds.
    """
    date_us, identity = _microseconds(capture.time), ""
    if record is not None:
        identity = record.fields.get("WARC-Record-ID", "").strip("<>")
        date_us = _date_of(record.fields.get("WARC-Date", ""), date_us)
    return StoredOriginal(capture.url, date_us, identity, *place_elsewhere(capture))


class ArchiveFiles:
    """The WARC files of earlier crawls, searched in ``folders``."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [Path(each) for each in folders]

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """The record at a place that begins with ``@``. Raises ``RecordError`` or ``OSError``."""
        with self._open(segment, offset) as file:
            return record_at(iter(lambda: file.read(_CHUNK), b""), f"{segment}, byte {offset}")

    def read_head(self, segment: str, offset: int) -> StoredRecord:
        """The same with the WARC fields alone, however long the record is."""
        with self._open(segment, offset) as file:
            return head_at(file.read(_CHUNK), f"{segment}, byte {offset}")

    def _open(self, segment: str, offset: int) -> BinaryIO:
        name = layout.warc_name(layout.stem_of(segment.removeprefix(ELSEWHERE)))
        if "/" in segment:
            raise RecordError(f"{segment!r} names no file")
        for folder in self._folders:
            for below in ("warc", "archive", ""):
                with suppress(FileNotFoundError):
                    file = layout.open_segment_file(folder / below / name)
                    file.seek(offset)
                    return file
        raise RecordError(f"{name}, byte {offset}, is in an archive that is not here")


def _date_of(text: str, otherwise: int) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return round(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1_000_000)


def _microseconds(time: str) -> int:
    try:
        found = datetime.strptime(time, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return int(found.timestamp()) * 1_000_000
