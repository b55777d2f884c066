"""The lengths of closed files, so that missing bytes are noticed at the next start, not when read.

Commits name only the lengths of open files. Otherwise each would name every segment of a long
crawl. A closed file never changes, so its length is written once, as a line in a file per worker,
and compared at each start, which costs one lookup per file. A missing file is not damage: it may
have been deleted deliberately. A file without a line gets one with its current length.
"""

from __future__ import annotations

import os
from pathlib import Path

from lycosa.base.system.durable import named, replace_file, sync_data, write_all
from lycosa.state.store import layout
from lycosa.state.store.damage import StoreDamaged

_FOLDER, _NAME = "log", "closed-w{worker:03d}"
_KINDS = (layout.WARC, layout.JOURNAL)


def record_closed_lengths(folder: Path, segment: str) -> None:
    """Write the lengths of a segment that has its final names.

    Raises ``DiskFull`` or ``OSError``.
    """
    path = folder / _FOLDER / _NAME.format(worker=max(layout.segment_worker(segment), 0))
    lines = [
        _line(name, (folder / name).stat().st_size)
        for name in _names(segment)
        if (folder / name).exists()
    ]
    path.parent.mkdir(exist_ok=True)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            write_all(fd, "".join(lines).encode())
            sync_data(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise named(error, path) from error


def closed_length(folder: Path, name: str) -> int | None:
    """The recorded length of a closed WARC or journal; ``None`` for one without a line."""
    worker = max(layout.segment_worker(layout.stem_of(name)), 0)
    found = [_read(path).get(name) for path in _ledgers(folder, worker)]
    return found[0] if found else None


def closed_journals(folder: Path) -> set[str]:
    """The segments that were closed, by the recorded lengths of their journals."""
    names = (name for path in _ledgers(folder, None) for name in _read(path))
    return {layout.stem_of(name) for name in names if name.startswith(f"{layout.JOURNAL}/")}


def check_closed_lengths(folder: Path, only: int | None = None) -> None:
    """Compare the recorded lengths with the existing files, of one worker or of all.

    Raises ``StoreDamaged``.
    """
    for path in _ledgers(folder, only):
        for name, length in _read(path).items():
            file = folder / name
            if file.exists() and (found := file.stat().st_size) != length:
                raise StoreDamaged(file, found, length)


def complete_closed_lengths(folder: Path, only: int | None = None) -> None:
    """Add a line for every closed file that a crash or an older version left without one.

    Call it after ``check_closed_lengths``.
    """
    known = {path: _read(path) for path in _ledgers(folder, only)}
    missing: dict[Path, dict[str, int]] = {}
    for segment in layout.closed_segments(folder):
        worker = max(layout.segment_worker(segment), 0)
        if only is None or worker == only:
            path = folder / _FOLDER / _NAME.format(worker=worker)
            for name in _names(segment):
                if name not in known.get(path, {}) and (folder / name).exists():
                    missing.setdefault(path, {})[name] = (folder / name).stat().st_size
    for path, more in missing.items():
        path.parent.mkdir(exist_ok=True)
        replace_file(
            path, "".join(_line(*item) for item in (known.get(path, {}) | more).items()).encode()
        )


def _names(segment: str) -> list[str]:
    return [layout.file_name(kind, segment) for kind in _KINDS]


def _line(name: str, length: int) -> str:
    # A line end comes first too. It separates the rest of a line that a crash cut off, which is
    # then ignored.
    return f"\n{length} {name}\n"


def _ledgers(folder: Path, only: int | None) -> list[Path]:
    return sorted(
        (folder / _FOLDER).glob("closed-w*" if only is None else _NAME.format(worker=only))
    )


def _read(path: Path) -> dict[str, int]:
    found = {}
    for line in path.read_text("utf-8").splitlines(keepends=True):
        length, _, name = line.partition(" ")
        if name.endswith("\n") and length.isdigit():
            found[name.removesuffix("\n")] = int(length)
    return found
