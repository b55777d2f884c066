"""How many files a crawl has of each kind, and their sizes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.state.store import layout
from lycosa.state.store.derived_files import folders_of_kinds
from lycosa.state.store.removed_files import removed_files
from lycosa.state.store.segments_port import StoredSegment


class Output(msgspec.Struct, frozen=True):
    """The files of one kind: their number, open ones among them, and bytes."""

    kind: str
    files: int
    open: int
    bytes: int


def outputs_of(folder: Path) -> list[Output]:
    """Files of a folder by kind, with open ones."""
    found = []
    for kind in (layout.WARC, layout.JOURNAL, *folders_of_kinds(folder)):
        sizes = [
            (path.name.endswith(layout.OPEN), _size(path)) for path in (folder / kind).glob("[!.]*")
        ]
        found.append(
            Output(
                kind,
                len(sizes),
                sum(is_open for is_open, _ in sizes),
                sum(size for _, size in sizes),
            )
        )
    for kind, names in (("state", "state"), ("log", "log")):
        sizes = [(False, _size(path)) for path in (folder / names).rglob("*") if path.is_file()]
        found.append(Output(kind, len(sizes), 0, sum(size for _, size in sizes)))
    return found


def removed_outputs(folder: Path) -> list[Output]:
    """Removed files by kind."""
    sizes: dict[str, list[int]] = {}
    for name, each in removed_files(folder).items():
        if not (folder / name).exists():
            sizes.setdefault(layout.file_kind(name), []).append(each.bytes)
    return [Output(kind, len(each), 0, sum(each)) for kind, each in sizes.items()]


def outputs_in(segments: list[StoredSegment]) -> list[Output]:
    """The same for a view without files."""
    opened = sum(not segment.is_closed for segment in segments)
    sizes = {
        layout.WARC: sum(each.length for each in segments),
        layout.JOURNAL: sum(each.journal_length or 0 for each in segments),
    }
    return [Output(kind, len(segments), opened, size) for kind, size in sizes.items()]


def _size(path: Path) -> int:
    """The size of a file; 0 when it was deleted meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        # A crawl that runs closes and deletes files between the listing and this line.
        return 0
