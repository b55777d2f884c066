"""Names of the files of a segment: the only place that knows them. Folder and suffix of each kind
of derived file stand in ``derived``.

A segment is one WARC file, its row journal and what is derived from them, all with the same stem
``{crawl}-w{worker}-{number}-{time}``, or ``{crawl}-w{shard}-t{term}-{number}-{time}`` where each
owner of a shard begins new ones. While a segment is open its WARC and journal carry the ending
``.open``; derived files are built as ``.{file}.tmp`` and renamed. So a reader that takes
``warc/*.warc.gz``, ``cdxj/*.cdxj`` or ``pages/*.parquet`` sees only whole files of closed segments,
whatever the moment it looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from lycosa.store.derived import DERIVED
from lycosa.store.removed import open_removed, removed_files

OPEN = ".open"
WARC, JOURNAL = "warc", "journal"

_SUFFIX = {WARC: ".warc.gz", JOURNAL: ".jsonl.zst"} | {each.name: each.suffix for each in DERIVED}
_STEM = re.compile(
    r"^.+-w(?P<worker>\d{3,})(?:-t(?P<term>\d{4,}))?-(?P<number>\d{6,})-(?P<time>\d{14})$"
)


def stem(crawl: str, worker: int, number: int, seconds: float, term: int = 0) -> str:
    """The name of a segment, without folder and ending. Characters of the crawl's id that are
    unsafe in a file name become ``_``.

    ``term`` is a part of the name where a new owner never continues a segment, so that two owners
    never write the same name.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", crawl).lstrip(".") or "crawl"
    owner = f"w{worker:03d}-t{term:04d}" if term else f"w{worker:03d}"
    return f"{safe}-{owner}-{number:06d}-{datetime.fromtimestamp(seconds, UTC):%Y%m%d%H%M%S}"


def segment_worker(name: str) -> int:
    """The worker that wrote a segment; -1 when the name is not ours."""
    match = _STEM.match(name)
    return int(match["worker"]) if match else -1


def segment_number(name: str) -> int:
    """The running number of a segment of its worker; -1 when the name is not ours."""
    match = _STEM.match(name)
    return int(match["number"]) if match else -1


def file_name(kind: str, name: str) -> str:
    """``warc/NAME.warc.gz``: the closed form, relative to the crawl folder."""
    return f"{kind}/{name}{_SUFFIX[kind]}"


def warc_name(name: str) -> str:
    """``NAME.warc.gz``: what a ``Location`` names."""
    return name + _SUFFIX[WARC]


def stem_of(path: Path | str) -> str:
    """The segment that a file (open, closed or temporary) belongs to."""
    text = Path(path).name.removesuffix(".tmp").removesuffix(OPEN)
    if text.startswith("."):
        text = text[1:]
    for suffix in _SUFFIX.values():
        if text.endswith(suffix):
            return text.removesuffix(suffix)
    return text


def is_closed(folder: Path, kind: str, name: str) -> bool:
    """Whether a file has its final name, or had it when it was removed after its upload."""
    closed = file_name(kind, name)
    return (folder / closed).exists() or closed in removed_files(folder)


def existing(folder: Path, kind: str, name: str) -> Path:
    """The closed file if it is there or was removed, else its open form (which may be absent)."""
    closed = folder / file_name(kind, name)
    return closed if is_closed(folder, kind, name) else closed.with_name(closed.name + OPEN)


def open_segment_file(path: Path) -> BinaryIO:
    """Opens a WARC or journal by its open or closed name, while its worker may be closing the
    segment.

    Closing only takes ``.open`` off the name, so whoever does not find the open form finds the
    closed one. One that was removed here is read from its store. Raises ``OSError`` when it is not
    there.
    """
    closed = path.with_name(path.name.removesuffix(OPEN))
    for each in (closed, closed.with_name(closed.name + OPEN)):
        with suppress(FileNotFoundError):
            return each.open("rb")
    folder = closed.parent.parent
    removed = removed_files(folder).get(f"{closed.parent.name}/{closed.name}")
    if removed is not None and not closed.exists():
        return open_removed(removed)
    return closed.open("rb")  # it was closed between the two looks, or it is gone


def segment_names(folder: Path, *kinds: str) -> set[str]:
    """The segments that have a file of one of these kinds, open or closed, or removed after its
    upload.

    A large folder is listed in parts, and a file that is renamed in between may be missed by one
    listing, so there are two.
    """
    found = removed_names(folder, *kinds)
    for _ in range(2):
        found |= {
            stem_of(path)
            for kind in kinds
            for path in (folder / kind).glob(f"[!.]*{_SUFFIX[kind]}*")
        }
    return found


def removed_names(folder: Path, *kinds: str) -> set[str]:
    """The segments of which a file of one of these kinds was removed after its upload."""
    return {stem_of(name) for name in removed_files(folder) if name.partition("/")[0] in kinds}


def closed_segments(folder: Path) -> Iterator[str]:
    """Names of the closed segments whose WARC is here, in order."""
    for path in sorted((folder / WARC).glob("*" + _SUFFIX[WARC])):
        yield stem_of(path)


def open_files(folder: Path) -> list[Path]:
    """WARC and journal files of open segments, in order."""
    return sorted(
        path
        for kind in (WARC, JOURNAL)
        for path in (folder / kind).glob("*" + _SUFFIX[kind] + OPEN)
    )


def temporary(path: Path) -> Path:
    """Where a file is built before it gets its name."""
    return path.with_name(f".{path.name}.tmp")
