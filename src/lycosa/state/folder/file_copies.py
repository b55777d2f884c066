"""Which of two different copies of a closed file is the one that the crawl wrote.

The copies are judged by what the crawl recorded, never by their age: the length and the SHA-256
that were noted for the file, the checksums and digests of WARC records, and for a derived file the
same file built again from the journal. A copy is called damaged only when that is proved.
"""

from __future__ import annotations

import filecmp
import tempfile
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from lycosa.state.folder.names import spool_folder
from lycosa.state.objects.sameness import file_content
from lycosa.state.store import journal, layout
from lycosa.state.store.closed_lengths import closed_length
from lycosa.state.store.closing import build_again
from lycosa.state.store.derived_files import derived_kind
from lycosa.state.store.removed_files import removed_files
from lycosa.state.store.stored_data import RecordError, check_records


class CopyVerdict(Enum):
    """The judgement of one copy."""

    RIGHT = "right"
    UNPROVED = "neither proved right nor damaged"
    DAMAGED = "damaged"


def may_replace(new: CopyVerdict, old: CopyVerdict) -> bool:
    """Whether a copy may take the place of another one with a different content.

    Only when the other one is certainly not better: it may be the last good copy.
    """
    is_worse = old is CopyVerdict.DAMAGED and new is not CopyVerdict.DAMAGED
    return is_worse or (new is CopyVerdict.RIGHT and old is not CopyVerdict.RIGHT)


def judge_copies(folder: Path, name: str, copies: Sequence[Path]) -> list[CopyVerdict]:
    """The judgement of each copy of the closed file ``name`` of a crawl folder. Blocks.

    Reads the copies, and for a derived file also the journal. Raises ``OSError``.
    """
    kind = layout.kind_of(name)
    if derived_kind(kind) is not None:
        with spooled_copy(folder) as temporary:
            wanted = Path(temporary, "built")
            try:
                build_again(folder, kind, layout.stem_of(name), wanted)
            except (journal.JournalError, OSError, ValueError):
                # Without its journal a derived file cannot be judged, which is another answer than
                # damaged. Items that were extracted again are in no journal.
                return [_judged(folder, name, copy, _unproved) for copy in copies]
            return [
                _judged(folder, name, copy, lambda copy: _compared(copy, wanted)) for copy in copies
            ]
    judge = {layout.WARC: _judged_warc, layout.JOURNAL: _judged_journal}.get(kind, _unproved)
    return [_judged(folder, name, copy, judge) for copy in copies]


def _judged(
    folder: Path, name: str, copy: Path, judge: Callable[[Path], CopyVerdict]
) -> CopyVerdict:
    if (noted := removed_files(folder).get(name)) is not None:
        is_same = file_content(copy).sha256 == noted.sha256
        return CopyVerdict.RIGHT if is_same else CopyVerdict.DAMAGED
    length = closed_length(folder, name)
    if length is not None and copy.stat().st_size != length:
        return CopyVerdict.DAMAGED
    return judge(copy)


def _judged_warc(copy: Path) -> CopyVerdict:
    try:
        check_records(copy)
    except RecordError:
        return CopyVerdict.DAMAGED
    return CopyVerdict.RIGHT


def _judged_journal(copy: Path) -> CopyVerdict:
    """A journal has no checksum, so one that can be read may be damaged all the same."""
    try:
        for _ in journal.read_rows(copy):
            pass
    except journal.JournalError:
        return CopyVerdict.DAMAGED
    return CopyVerdict.UNPROVED


def _compared(copy: Path, wanted: Path) -> CopyVerdict:
    # Another version of a library may build another file from the same rows.
    return CopyVerdict.RIGHT if filecmp.cmp(copy, wanted, shallow=False) else CopyVerdict.UNPROVED


def _unproved(_: Path) -> CopyVerdict:
    return CopyVerdict.UNPROVED


def spooled_copy(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder for a copy that is to be judged; the next start deletes it after a crash."""
    spool = spool_folder(folder)
    spool.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=spool)
