"""The index of a WACZ: CDXJ lines in gzip members, and a list of these members.

``indexes/index.cdx.gz`` has the lines of all WARC files, sorted, 1,024 in each member. A line of
``indexes/index.idx`` has the first key of a member, its place and its SHA-256. So a reader of a
large archive on a web server fetches the list and one member. This is what py-wacz and
ArchiveWeb.page write, and ReplayWeb.page reads.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from lycosa.inspect.wacz.wacz_file import WaczFile
from lycosa.state.store import cdxj, layout
from lycosa.state.store.cdxj import CdxjEntry
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow
from lycosa.state.store.render_facts import RenderRecord
from lycosa.state.store.sorted_lines import SortedLines

INDEX_ENTRY, MEMBERS_ENTRY = "indexes/index.cdx.gz", "indexes/index.idx"
_NAME = INDEX_ENTRY.rpartition("/")[2]
_MEMBER_LINES = 1024
_PIECE = 1 << 20


def index_line(row: JournalRow, offset: int, record_sha256: str) -> bytes | None:
    """The line of a capture whose record begins at ``offset`` of its file in the archive.

    ``None`` for a capture that cannot be shown (see ``cdxj``).
    """
    if row.revisit == UNCHANGED:
        return None
    found: CdxjEntry = msgspec.structs.replace(
        cdxj.entry(row),
        digest=row.digest,
        offset=str(offset),
        filename=layout.warc_name(row.segment),
        record_digest=f"sha256:{record_sha256}",
    )
    return cdxj.line_of(row, found)


def render_index_line(
    row: JournalRow, record: RenderRecord, offset: int, record_sha256: str
) -> bytes:
    """The line of a record of a render, which begins at ``offset`` of its file in the archive.

    Its URN is the key, as ReplayWeb.page and Browsertrix have it.
    """
    found: CdxjEntry = msgspec.structs.replace(
        cdxj.record_entry(row, record, offset),
        digest=record.digest,
        filename=layout.warc_name(row.segment),
        record_digest=f"sha256:{record_sha256}",
    )
    return cdxj.record_line(row, found, found.url)


def write_index(file: WaczFile, lines: SortedLines, folder: Path) -> None:
    """Write both files of the index; ``folder`` is for a temporary file."""
    members = [_header()]
    # Its length decides the form of its entry, and is known at the end.
    with tempfile.TemporaryFile(dir=folder) as packed:
        for member in _members(lines.merged()):
            data = gzip.compress(b"".join(member), mtime=0)
            place = {
                "offset": packed.tell(),
                "length": len(data),
                "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
                "filename": _NAME,
            }
            key = member[0].partition(b" {")[0]
            members.append(key + b" " + json.dumps(place).encode() + b"\n")
            packed.write(data)
        with file.add_entry(INDEX_ENTRY, packed.tell(), is_packed=True) as out:
            packed.seek(0)
            while piece := packed.read(_PIECE):
                out.write(piece)
    listed = b"".join(members)
    with file.add_entry(MEMBERS_ENTRY, len(listed), is_packed=False) as out:
        out.write(listed)


def _header() -> bytes:
    return b"!meta 0 " + json.dumps({"format": "cdxj-gzip-1.0", "filename": _NAME}).encode() + b"\n"


def _members(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    while found := list(islice(lines, _MEMBER_LINES)):
        yield found
