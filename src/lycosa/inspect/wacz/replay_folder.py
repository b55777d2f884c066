"""Prepares the folder from which pywb replays crawls and WACZ files as one collection.

Nothing is copied but what has no index yet: pywb reads the CDXJ files of closed segments and
the WARC files where they are. For an open segment the lines of its committed captures are written,
and its WARC file gets a second name, because the index has the name that it will have when it is
closed. Several crawls are one collection, so that a revisit finds the capture of an earlier crawl.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.inspect.wacz.wacz_pages import is_page, iso_second
from lycosa.inspect.wacz.wacz_reading import WaczContent, WaczPage
from lycosa.state.store import cdxj, layout
from lycosa.state.store.removed_files import removed_files
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.sorted_lines import SortedLines

COLLECTION = "crawl"
_INDEXES, _ARCHIVES = "indexes", "archives"
_CDXJ = "cdxj"
# A page loads nothing from elsewhere, whatever its scripts do. pywb's own policy allows WebSockets.
_POLICY = "default-src 'self' 'unsafe-eval' 'unsafe-inline' data: blob:; form-action 'self'"
_FIRST_ROWS = 2000  # in which a page to begin with is looked for


@dataclass
class ReplayFolder:
    """What was prepared.

    ``first`` is a page to begin with. ``removed`` counts segments whose WARC files were removed
    after their upload, so that their captures cannot be shown. ``keys`` are the public keys of
    signed archives, by path.
    """

    first: WaczPage | None = None
    segments: int = 0
    removed: int = 0
    keys: dict[str, str] = field(default_factory=dict)


def prepare_replay(places: Iterable[Path], work: Path) -> ReplayFolder:
    """Prepare ``work``, an empty folder, for these crawl folders and WACZ files.

    Raises ``WaczError``, a ``ManifestError``, ``JournalError`` or ``OSError``.
    """
    (work / _INDEXES).mkdir()
    (work / _ARCHIVES / layout.WARC).mkdir(parents=True)
    found, prefixes = ReplayFolder(), []
    for number, place in enumerate(places):
        if place.is_dir():
            prefixes.append(f"{place.resolve()}/")
            first = _add_crawl(read_folder(place), place.resolve(), work, found)
        else:
            first = _add_wacz(place.resolve(), number, work, found)
        found.first = found.first or first
    collection = {
        "index_paths": f"{work / _INDEXES}/",
        "archive_paths": [*prefixes, f"{work / _ARCHIVES}/"],
    }
    settings = {"collections": {COLLECTION: collection}, "csp-header": _POLICY}
    (work / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    return found


def _add_crawl(
    reader: CrawlReader, folder: Path, work: Path, found: ReplayFolder
) -> WaczPage | None:
    first = None
    removed = removed_files(folder)
    for segment in reader.source.list_segments():
        found.segments += 1
        found.removed += layout.file_name(layout.WARC, segment.name) in removed
        index = folder / layout.file_name(_CDXJ, segment.name)
        target = work / _INDEXES / index.name
        if index.exists():
            target.symlink_to(index)
        else:
            _write_index(reader, segment, target)
            _name_archive(folder, segment.name, work)
        if first is None and segment.journal_length is not None:
            first = _first_page(reader, segment)
    return first


def _write_index(reader: CrawlReader, segment: StoredSegment, target: Path) -> None:
    lines = SortedLines(target.parent)
    try:
        for having in (b"", RENDER_LINE):
            for row in reader.source.read_rows(segment, having):
                for line in cdxj.lines(row):
                    lines.add_line(line)
        with target.open("wb") as file:
            file.writelines(lines.merged())
    finally:
        lines.close()


def _name_archive(folder: Path, name: str, work: Path) -> None:
    """Give an open WARC file the name of a closed one; when it is closed, the crawl has that."""
    closed = layout.file_name(layout.WARC, name)
    (work / _ARCHIVES / closed).symlink_to(folder / (closed + layout.OPEN))


def _first_page(reader: CrawlReader, segment: StoredSegment) -> WaczPage | None:
    for number, row in enumerate(reader.source.read_rows(segment)):
        if is_page(row):
            return WaczPage(row.url, iso_second(row.date_us))
        if number >= _FIRST_ROWS:
            break
    return None


def _add_wacz(path: Path, number: int, work: Path, found: ReplayFolder) -> WaczPage | None:
    file = f"{number}.wacz"
    with WaczContent(path) as content:
        for at, name in enumerate(content.indexes()):
            with (work / _INDEXES / f"{number}-{at}.cdxj").open("wb") as out:
                out.writelines(content.index_lines(name, file))
        found.segments += 1
        if content.public_key:
            found.keys[str(path)] = content.public_key
        (work / _ARCHIVES / file).symlink_to(path)
        return content.main_page()
