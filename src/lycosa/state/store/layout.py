"""Names of the files of a segment: the only place that knows them.

Folder and suffix of each kind of derived file are in ``derived_files``. A segment is one WARC file,
its row journal and the files derived from them, all with the same stem
``{crawl}-w{worker}-{number}-{time}``, or ``{crawl}-w{shard}-t{term}-{number}-{time}`` where each
owner of a shard begins new segments. The WARC and journal of an open segment have the suffix
``.open``. Derived files are built as ``.{file}.tmp`` and renamed. So a reader of
``warc/*.warc.gz``, ``cdxj/*.cdxj`` or ``pages/*.parquet`` sees only complete files of closed
segments at any moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from lycosa.state.store.derived_files import DERIVED, suffix_of
from lycosa.state.store.removed_files import open_removed, removed_files

OPEN = ".open"
WARC, JOURNAL = "warc", "journal"

_SUFFIX = {WARC: ".warc.gz", JOURNAL: ".jsonl.zst"} | {each.name: each.suffix for each in DERIVED}
_STEM = re.compile(
    r"^.+-w(?P<worker>\d{3,})(?:-t(?P<term>\d{4,}))?-(?P<number>\d{6,})-(?P<time>\d{14})$"
)


def stem(crawl: str, worker: int, number: int, seconds: float, term: int = 0) -> str:
    """The name of a segment, without folder and suffix.

    Characters of the crawl's ID that are unsafe in a file name become ``_``. ``term`` is part of
    the name where a new owner never continues a segment, so that two owners never write the same
    name.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", crawl).lstrip(".") or "crawl"
    owner = f"w{worker:03d}-t{term:04d}" if term else f"w{worker:03d}"
    return f"{safe}-{owner}-{number:06d}-{datetime.fromtimestamp(seconds, UTC):%Y%m%d%H%M%S}"


def segment_worker(name: str) -> int:
    """The worker that wrote a segment; -1 when the name is not ours."""
    match = _STEM.match(name)
    return int(match["worker"]) if match else -1


def segment_term(name: str) -> int:
    """The term of the owner that wrote a segment; 0 when the name has none."""
    match = _STEM.match(name)
    return int(match["term"] or 0) if match else 0


def segment_number(name: str) -> int:
    """The number of a segment among those of its worker; -1 when the name is not ours."""
    match = _STEM.match(name)
    return int(match["number"]) if match else -1


def file_name(kind: str, name: str) -> str:
    """``warc/NAME.warc.gz``: the closed form, relative to the crawl folder."""
    return f"{kind}/{name}{_suffix(kind)}"


def kind_of(file: str) -> str:
    """The kind of a file by its name relative to the crawl folder: ``warc``, ``items/NAME/1``."""
    return file.rpartition("/")[0]


def _suffix(kind: str) -> str:
    return _SUFFIX.get(kind) or suffix_of(kind)


def warc_name(name: str) -> str:
    """``NAME.warc.gz``: the form in a ``Location``."""
    return name + _SUFFIX[WARC]


def stem_of(path: Path | str) -> str:
    """The segment of a file (open, closed or temporary)."""
    text = Path(path).name.removesuffix(".tmp").removesuffix(OPEN)
    if text.startswith("."):
        text = text[1:]
    for suffix in _SUFFIX.values():
        if text.endswith(suffix):
            return text.removesuffix(suffix)
    return text


def is_closed(folder: Path, kind: str, name: str) -> bool:
    """Whether a file has its final name, or was removed after its upload."""
    closed = file_name(kind, name)
    return (folder / closed).exists() or closed in removed_files(folder)


def existing(folder: Path, kind: str, name: str) -> Path:
    """The closed file if it exists or was removed, else its open form, which may be missing."""
    closed = folder / file_name(kind, name)
    return closed if is_closed(folder, kind, name) else closed.with_name(closed.name + OPEN)


def open_segment_file(path: Path) -> BinaryIO:
    """Open a WARC or journal by its open or closed name.

    Its worker may be closing the segment. Closing only removes ``.open`` from the name. So if the
    open form does not exist, the closed one does. A file that was removed after its upload is read
    from its store. Raises ``OSError`` when there is none.
    """
    closed = path.with_name(path.name.removesuffix(OPEN))
    for each in (closed, closed.with_name(closed.name + OPEN)):
        # Closed, or not: the name changes once, at any moment.
        with suppress(FileNotFoundError):
            return each.open("rb")
    folder = closed.parent.parent
    removed = removed_files(folder).get(f"{closed.parent.name}/{closed.name}")
    if removed is not None and not closed.exists():
        return open_removed(removed)
    return closed.open("rb")  # it was closed between the two attempts, or it is missing


def segment_names(folder: Path, *kinds: str) -> set[str]:
    """The segments that have a file of one of these kinds, open, closed, or removed after upload.

    A large folder is listed in parts, so one listing may miss a file that is renamed meanwhile.
    Therefore there are two. What was removed is read after them: a file is noted there before it
    disappears.
    """
    found = set[str]()
    for _ in range(2):
        found |= {
            stem_of(path)
            for kind in kinds
            for path in (folder / kind).glob(f"[!.]*{_suffix(kind)}*")
        }
    return found | removed_names(folder, *kinds)


def removed_names(folder: Path, *kinds: str) -> set[str]:
    """The segments of which a file of one of these kinds was removed after its upload."""
    return {stem_of(name) for name in removed_files(folder) if kind_of(name) in kinds}


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
    """The path at which a file is built before it gets its name."""
    return path.with_name(f".{path.name}.tmp")
